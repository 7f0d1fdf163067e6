"""The study that a command is about: by a URL and a name, or by the folder or the configuration of a run."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import asktell
from asktell import InvalidArgumentError
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.output import show

if TYPE_CHECKING:
    from asktell import Selector, Study

# Which are imported where they are used
AnyStudy: TypeAlias = "Study | asktell.RemoteStudy"

_MOST_COUNTED = 100_000


def location(where: str) -> str:
    """The storage of the studies, as `open_storage` takes it. For a run, the file of its study."""
    folder = _folder(where)
    if folder is None:
        return where
    folder.open_study().close()
    return str(folder.study_file.resolve())


def needs_name(where: str) -> bool:
    """True if the address can hold several studies, so that a name is needed."""
    return _folder(where) is None


def _folder(where: str) -> RunFolder | None:
    """The folder of a run, given by itself or by its configuration. None if `where` is no run."""
    path = Path(where)
    if "://" in where or _is_database(path):
        return None
    if path.is_dir():
        return RunFolder(path)
    # The path of a SQLite file that is not there yet
    if path.suffix not in (".toml", "") and not path.is_file():
        return None
    from asktell_adapters.config import output_folder

    return RunFolder(output_folder(path))


def _is_database(path: Path) -> bool:
    """Whether a file is a SQLite database, by its first bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def is_service(where: object) -> bool:
    """Whether studies are at a service, rather than in a storage."""
    return isinstance(where, str) and where.startswith(("http://", "https://"))


def open_study(where: str | Path, name: str) -> AnyStudy:
    """Open a study in a storage or at a service. Without another token, the service gets the one for reading only."""
    if is_service(where):
        return asktell.RemoteStudy.open(str(where), name, token=_token())
    return asktell.Study.open(where, name)


def create_study(where: str, name: str, selector: "Selector") -> AnyStudy:
    """Create a study in a storage or at a service. If an equal study exists, open it."""
    return (asktell.RemoteStudy if is_service(where) else asktell.Study).create(
        where, name, selector, exist_ok=True
    )


def names(where: str | Path) -> list[str]:
    """The names of all studies in a storage or at a service."""
    return (
        asktell.RemoteStudy.names(str(where), token=_token())
        if is_service(where)
        else asktell.Study.names(where)
    )


def _token() -> str | None:
    """The token for reading only. None if there is a token for everything."""
    return (
        None
        if os.environ.get("ASKTELL_TOKEN")
        else os.environ.get("ASKTELL_READ_TOKEN")
    )


class Place:
    """Where a study is: a storage's URL, a service's address, or a run."""

    def __init__(self, where: str, name: str | None) -> None:
        self._where = where
        self._name = name
        self._run = _folder(where)
        if self._run is None and name is None:
            raise InvalidArgumentError(
                "The study's name is missing. Give it after the URL. `asktell studies URL` lists all studies."
            )

    @property
    def folder(self) -> Path | None:
        """The folder of the run. None if the study is not a run's."""
        return None if self._run is None else self._run.path

    def open(self) -> AnyStudy:
        """Open the study."""
        if self._run is not None and self._name is None:
            return self._run.open_study()
        return open_study(
            self._where if self._run is None else self._run.study_file, self._name or ""
        )

    def local(self, what: str) -> "Study":
        """Open the study in its storage, for commands that a service does not offer."""
        if is_service(self._where):
            raise InvalidArgumentError(
                f"{what} needs a storage, not a service. Give sqlite:///PATH or postgresql://..."
            )
        study = self.open()
        assert isinstance(study, asktell.Study)
        return study

    def about(self) -> dict[str, Any]:
        """The set-up of the run, for reports. Empty if the study is not a run's."""
        return {} if self._run is None else self._run.read_setup() or {}

    def inputs(self) -> list[str] | None:
        """The inputs of the run's examples, for reports. None if they are unknown."""
        return None if self._run is None else self._run.read_inputs()

    def doing(self, n_out: int) -> str:
        """The state of the run in words: its process, or its number of pending trials."""
        if self._run is None:
            return pending_trials(n_out)
        runner = self._run.runner
        if runner is None:
            return pending_trials(n_out) if n_out else "stopped"
        return f"running (process {runner})"

    @property
    def seconds_since(self) -> float | None:
        """Seconds since the last change of the run's study. None if the study is not a run's."""
        if self._run is None:
            return None
        file = self._run.study_file
        files = [
            path for path in (file, file.with_name(f"{file.name}-wal")) if path.exists()
        ]
        return time.time() - max(path.stat().st_mtime for path in files)


def pending_trials(n: int) -> str:
    """A number of pending trials, in words."""
    return f"{n} pending trial{'s' * (n != 1)}"


def say_cached(study: AnyStudy) -> None:
    """Print the number of evaluations whose response came from the cache, if any.

    They are not counted in a very long study, and at a service, since all evaluations
    would have to be read.
    """
    if isinstance(study, asktell.Study) and study.spent <= _MOST_COUNTED:
        count = sum(
            bool((evaluation.details or {}).get("cached"))
            for evaluation in study.evaluations()
        )
        if count:
            show(
                f"{count} of {study.spent} evaluations came from the cache and cost nothing."
            )
