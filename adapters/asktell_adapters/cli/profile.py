"""`asktell profile`: what runs tell of their examples."""

import argparse
from pathlib import Path

from asktell import AsktellError, ExampleProfile, InvalidArgumentError
from asktell.extend import aligned, write_atomically
from asktell_adapters.cli.output import show
from asktell_adapters.cli.places import Place, needs_name

_SHOWN = 10


def profile(arguments: argparse.Namespace) -> int:
    found = ExampleProfile.merged(*_profiles(arguments.runs), half_life=arguments.half_life)
    if arguments.output is not None:
        write_atomically(arguments.output, found.to_json() + "\n")
    for line in overview(found):
        show(line)
    if arguments.output is not None:
        show(f"Profile: {arguments.output}")
    return 0


def overview(profile: ExampleProfile) -> list[str]:
    lines = [f"{len(profile.ids)} examples, of {profile.studies} stud{'y' if profile.studies == 1 else 'ies'}"]
    for metric in profile.metrics:
        known = profile.examples(metric)
        lines += ["", f"{metric}: the most informative examples (1: an example not seen before)"]
        rows = [["tells", "divides", "level", "scores", "example"]]
        for one in known[:_SHOWN]:
            divides, level = (
                f"{one.loading:.2f} +- {one.loading_error:.2f}",
                f"{one.level:.3g} +- {one.level_error:.2g}",
            )
            rows.append([f"{one.tells:.2f}", divides, level, f"{one.cells:.0f}", one.id])
        lines += [line.rstrip() for line in aligned(rows)]
        if len(known) > _SHOWN:
            lines.append(f"... and {len(known) - _SHOWN} more")
    return lines


def _profiles(runs: list[str]) -> list[ExampleProfile]:
    """Of each run, in the order given; of a URL of studies the next word is the name."""
    words, found = list(runs), []
    while words:
        where = words.pop(0)
        if where.endswith(".json"):
            found.append(ExampleProfile.from_json(Path(where).read_bytes()))
            continue
        name = None
        if needs_name(where):
            if not words:
                raise InvalidArgumentError(f"Which study at {where}? Give its name after the URL.")
            name = words.pop(0)
        with Place(where, name).open() as study:
            try:
                found.append(ExampleProfile.of(study))
            except AsktellError as error:
                raise InvalidArgumentError(f"{where}: {error}") from error
    return found
