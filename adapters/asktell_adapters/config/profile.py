"""The table [profile]: what earlier runs on the same examples tell."""

from collections.abc import Callable
from pathlib import Path

from asktell import AsktellError, ConfigError, ExampleProfile, Study
from asktell_adapters.config.tables import KEYS, Table

STUDY = "study.db"
"""The file of a run's study in its folder."""


def read_profile(top: Table, output_folder: Callable[[Path], Path]) -> ExampleProfile | None:
    """The profile of the runs that `from` names, the oldest first; None without a table [profile].

    Each is a run's folder or TOML file, a study's SQLite file, or a file that `asktell profile` wrote.

    Raises:
        ConfigError: there is no such run, or it tells nothing.
    """
    if "profile" not in top:
        return None
    table = top.table("profile", KEYS["profile"])
    names = table.take("from", "texts in a list")
    half_life = table.take("half_life", "number", None)
    if not names:
        raise table.error("from", "must name at least one earlier run")
    profiles = []
    for name in names:
        try:
            profiles.append(profile_of(table.beside(name), output_folder))
        except (AsktellError, OSError) as error:
            raise ConfigError(f"{table.file}: 'from' in [profile]: {name!r}: {error}") from error
    with table.named():
        return ExampleProfile.merged(*profiles, half_life=half_life)


def profile_of(path: Path, output_folder: Callable[[Path], Path]) -> ExampleProfile:
    """What an earlier run tells.

    Raises:
        ConfigError: there is no such run.
        AsktellError: it tells nothing, or the file is no profile.
        OSError: the file cannot be read.
    """
    if path.suffix == ".json":
        return ExampleProfile.from_json(path.read_bytes())
    if path.suffix == ".toml" and path.is_file():
        path = output_folder(path)
    file = path / STUDY if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(
            "There is no run. Name a run's folder or TOML file, a study's SQLite file, or a profile's .json."
        )
    profiles = []
    for name in Study.names(str(file)):
        with Study.open(str(file), name) as study:
            profiles.append(ExampleProfile.of(study))
    return ExampleProfile.merged(*profiles)
