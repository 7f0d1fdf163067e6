"""The output folder of a run: its study, its lock, and the files that people read.

| file                | content                                                                             |
|---------------------|-------------------------------------------------------------------------------------|
| `study.db`          | the study: every evaluation with its response, on the disk before it counts         |
| `inputs.json`       | the inputs of the examples, for pages. Written with `run.json`                       |
| `run.json`          | the set-up that the run was started with. No other set-up is mixed into the run     |
| `result.json`       | `Result.to_dict()`, once the run has finished                                       |
| `improvement.json`  | of `asktell improve`: the generations, their parents, and why each was kept          |
| `evaluations.jsonl` | one line per evaluation, written from the study at the end and at an interruption   |
| `labels.csv`        | of `asktell label`: the labels with their responses, as `asktell judge` reads them   |
| `lock`              | held by the process that was started here, and not by processes that join it        |
"""

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asktell
from asktell import FolderBusyError, InvalidStateError, StudyNotFoundError
from asktell.extend import write_atomically
from asktell_adapters.tables.spreadsheets import csv_text

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from asktell import Selector, Study
    from asktell.extend import Evaluation
    from asktell_adapters.config.data import DataSet

FORMAT, VERSION = "asktell.run", 1

# On Windows, no process can read a locked byte, and the file has the owner's id
_BEYOND = 2**30
_SECONDS_FOR_LOCK = 0.5  # `asktell status` holds it for a moment


class RunFolder:
    """The output folder of one run.

    Args:
        path: the folder.
        url: the storage of the study, if the study is not in the folder.
        name: the study's name in the storage.
    """

    def __init__(
        self, path: Path, url: str | None = None, name: str | None = None
    ) -> None:
        self.path = path
        self._url, self._name = url, name
        self.setup_file = path / "run.json"
        self.inputs_file = path / "inputs.json"
        self.study_file = path / "study.db"
        self.log_file = path / "evaluations.jsonl"
        self.result_file = path / "result.json"
        self.history_file = path / "improvement.json"
        self.labels_file = path / "labels.csv"
        self.lock_file = path / "lock"

    @property
    def used(self) -> bool:
        """Whether a run was started in this folder."""
        return any(
            file.exists() for file in (self.setup_file, self.study_file, self.log_file)
        )

    # The lock

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder, which is created if it is missing. The system releases it however the process ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        handle = _lock(self.lock_file)
        try:
            yield
        finally:
            os.close(handle)

    @property
    def runner(self) -> str | None:
        """The id of the process that runs here. None if there is none."""
        try:
            handle = os.open(self.lock_file, os.O_RDWR)
        except OSError:
            return None
        try:
            return None if _try_lock(handle, shared=True) else _owner(handle)
        finally:
            os.close(handle)

    def set_aside(self) -> Path:
        """Rename the folder to the first free of `NAME.1`, `NAME.2`, ...; its new path."""
        number = 1
        while (target := self.path.with_name(f"{self.path.name}.{number}")).exists():
            number += 1
        try:
            self.path.rename(target)
        except PermissionError:
            # On Windows a folder stays while a file in it is open: the lock
            target.mkdir()
            for file in self.path.iterdir():
                if file != self.lock_file:
                    file.rename(target / file.name)
        return target

    # The set-up that the run was started with

    def read_setup(self) -> dict[str, Any] | None:
        """The set-up that the run was started with. None if there is no run.

        Raises:
            InvalidStateError: the file is damaged, or of another version.
        """
        if not self.setup_file.exists():
            return None
        try:
            data = json.loads(self.setup_file.read_bytes())
        except (ValueError, RecursionError) as error:
            raise InvalidStateError(
                f"{self.setup_file} is not complete JSON ({error}). Restore the file, or start over with --fresh."
            ) from error
        if (
            not isinstance(data, dict)
            or data.get("format") != FORMAT
            or not isinstance(data.get("setup"), dict)
        ):
            raise InvalidStateError(
                f"{self.setup_file} does not describe an asktell run. Set another `output`."
            )
        if data.get("version") != VERSION:
            raise InvalidStateError(
                f"{self.setup_file} has version {data.get('version')!r}, but this asktell reads version "
                f"{VERSION}. Finish the run with the asktell that started it."
            )
        return dict(data["setup"])

    def write_setup(
        self, setup: Mapping[str, Any], dataset: "DataSet | None" = None
    ) -> None:
        """Write the set-up of the run, and the inputs of its examples if they are given."""
        if dataset is not None:
            inputs = [example.input for example in dataset.examples]
            write_atomically(self.inputs_file, json.dumps(inputs) + "\n")
        data = {"format": FORMAT, "version": VERSION, "setup": setup}
        write_atomically(self.setup_file, json.dumps(data, indent=1) + "\n")

    def read_inputs(self) -> list[str] | None:
        """The inputs of the examples. None if they cannot be read: pages do without them."""
        try:
            inputs = json.loads(self.inputs_file.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        is_valid = isinstance(inputs, list) and all(isinstance(x, str) for x in inputs)
        return inputs if is_valid else None

    # The study

    @property
    def study_name(self) -> str | None:
        """The name of the folder's one study, or of its study in the storage. None if there is none yet."""
        names = list[str]()
        with contextlib.suppress(StudyNotFoundError):
            names = asktell.Study.names(self._location)
        if self._name is not None:
            return self._name if self._name in names else None
        return names[0] if names else None

    def open_study(self) -> "Study":
        """Open the study of the run.

        Raises:
            InvalidStateError: there is no run in this folder yet.
        """
        name = self.study_name
        if name is None:
            raise InvalidStateError(
                f"There is no run in {str(self.path)!r} yet. Start one by `asktell run CONFIG.toml`."
            )
        return asktell.Study.open(self._location, name)

    def make_study(self, name: str, selector: "Selector") -> None:
        """Create the study of the run. In a storage outside of the folder, it may exist already.

        Raises:
            StudyExistsError: it exists with other settings.
        """
        may_exist = not self.has_study_inside
        asktell.Study.create(self._location, name, selector, exist_ok=may_exist).close()

    @property
    def has_study_inside(self) -> bool:
        """Whether the study is, or will be, in this folder."""
        return self._url is None

    @property
    def _location(self) -> str | Path:
        return self._url or self.study_file

    # What people read

    def write(self, study: "Study", dataset: "DataSet") -> None:
        """Write the evaluations, and the result of a finished study."""
        write_atomically(
            self.log_file,
            (_line(evaluation, dataset) + "\n" for evaluation in study.evaluations()),
        )
        if study.done:
            write_atomically(
                self.result_file, json.dumps(study.result().to_dict(), indent=1) + "\n"
            )

    def write_labels(
        self,
        labels: Sequence[Mapping[str, Any]],
        scores: Mapping[str, float],
        dataset: "DataSet",
    ) -> None:
        """Write the labels that people gave, each with its input and its response.

        Args:
            labels: the labels of a journal, see `Journal.labels`.
            scores: the score of each label, by its name.
            dataset: the examples.
        """
        columns = ("prompt", "example", "input", "reference", "response", "other", "label", "rater")  # fmt: skip
        rows = []
        for label in labels:
            example = dataset.examples[label["example"]]
            # The first of several references: a cell has one text
            reference = example.references[0] if example.reference else None
            texts = [*label["texts"], None][:2]
            ids = label["prompt"], dataset.ids[label["example"]]
            row = (*ids, example.input, reference, *texts, scores[label["label"]], label["rater"])  # fmt: skip
            rows.append(dict(zip(columns, row, strict=True)))
        used = [name for name in columns if any(row[name] is not None for row in rows)]
        cells = ([row[name] for name in used] for row in rows)
        write_atomically(self.labels_file, csv_text(used or columns, cells))

    def write_history(self, history: Mapping[str, Any]) -> None:
        """Write the generations of `asktell improve`."""
        write_atomically(self.history_file, json.dumps(history, indent=1) + "\n")


def _line(evaluation: "Evaluation", dataset: "DataSet") -> str:
    """An evaluation as a line of JSON."""
    details = dict(evaluation.details or {})
    line: dict[str, Any] = {
        "trial": evaluation.trial,
        "prompt": evaluation.prompt,
        "example": evaluation.example,
    }
    if evaluation.example is not None and evaluation.example < len(dataset):
        line["example_id"] = evaluation.example_id or dataset.ids[evaluation.example]
        if dataset.names is None:
            line["row"] = dataset.examples[evaluation.example].id
    if evaluation.error is not None:
        line["error"] = evaluation.error
    if evaluation.scores is not None:
        line["scores"] = {**evaluation.scores, **details.pop("scores", {})}
    line |= details
    if evaluation.cost is not None:
        line["cost"] = evaluation.cost
    # Plain ASCII: a line separator of Unicode, or half a surrogate pair, breaks no
    # reader.
    return json.dumps(line, allow_nan=False)


def _lock(path: Path) -> int:
    """Lock the file, and write the id of this process into it. Wait for a moment if it is locked.

    Raises:
        FolderBusyError: another process holds the lock.
    """
    deadline = time.monotonic() + _SECONDS_FOR_LOCK
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if _try_lock(handle):
                # And not of a folder that was set aside
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    os.lseek(handle, 0, os.SEEK_SET)
                    os.ftruncate(handle, 0)
                    os.write(handle, f"{os.getpid()}\n".encode())
                    return handle
            elif time.monotonic() > deadline:
                raise FolderBusyError(
                    f"Another run (process {_owner(handle)}) is using {str(path.parent)!r}. To add a worker "
                    "to it, use `asktell run --join`. Otherwise wait for it, stop it, or set another `output`."
                )
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        time.sleep(0.02)


def _owner(handle: int) -> str:
    """The id of the process that wrote into the lock."""
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, 20).decode("ascii", "replace").strip() or "?"


def _try_lock(handle: int, *, shared: bool = False) -> bool:
    """Lock the open file until it is closed or this process ends; False if another process has locked it.

    A shared lock is invisible to other processes, except on Windows.
    """
    try:
        if fcntl is not None:
            fcntl.flock(
                handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
            )
        else:
            msvcrt = import_module("msvcrt")
            os.lseek(handle, _BEYOND, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno not in (
            errno.EWOULDBLOCK,
            errno.EAGAIN,
            errno.EACCES,
            errno.EDEADLK,
        ):
            raise  # the lock failed for another reason than another process
        return False
    return True
