"""The table [profile]: what earlier runs on the same examples tell."""

from collections.abc import Callable
from pathlib import Path

from asktell import AsktellError, ConfigError, ExampleProfile, Study
from asktell_adapters.config.tables import Table, key

STUDY = "study.db"
"""The file of a run's study in its folder."""


class ProfileTable(Table, table="profile"):
    """Learns from earlier runs which examples tell most."""

    runs: list[str] = key(
        about="Earlier runs on the same examples, oldest first: folders, their TOML files, or profiles.", alias="from"
    )
    half_life: float | None = key(None, "After this many later runs, a run counts half as much.")

    def profile(self, output_folder: Callable[[Path], Path]) -> ExampleProfile:
        """The profile of the runs. Each is a folder or TOML file, a study's SQLite file, or a profile's .json."""
        if not self.runs:
            raise self.error("from", "must name at least one earlier run")
        profiles = []
        for name in self.runs:
            try:
                profiles.append(profile_of(self.beside(name), output_folder))
            except (AsktellError, OSError) as error:
                raise self.mistake(f"'from' in [profile]: {name!r}: {error}") from error
        with self.named():
            return ExampleProfile.merged(*profiles, half_life=self.half_life)


def profile_of(path: Path, output_folder: Callable[[Path], Path]) -> ExampleProfile:
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
