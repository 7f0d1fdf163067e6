"""Make a public table: `python -m benchmarks.tables NAME`.

Fetches the few files it needs by git, at a fixed commit, and writes
`FOLDER/FAMILY/STEM.npz`, which `--tables FOLDER` of the benchmarks and `asktell
simulate FOLDER/FAMILY/STEM.npz` take. What the tables are: README.md beside this file.
"""

import argparse
from pathlib import Path

from benchmarks.problems.table import read_table
from benchmarks.tables.sources import SOURCES


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names",
        nargs="+",
        choices=sorted(SOURCES),
        metavar="NAME",
        help=", ".join(SOURCES),
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("tables"),
        metavar="FOLDER",
        help="default: tables",
    )
    parser.add_argument(
        "--source",
        metavar="URL",
        help="another clone of the repository, or the path of one",
    )
    args = parser.parse_args()
    for name in args.names:
        try:
            paths = SOURCES[name].make(args.output, args.source)
        except OSError as error:
            raise SystemExit(f"{name}: {error}") from error
        for path in paths:
            table = read_table(path)
            k, n, _, *times = table.scores.shape
            repeats = f", {times[0]} repeats" if times else ""
            means = zip(table.metrics, table.means.mean(axis=0), strict=True)
            means_in_words = ", ".join(f"{metric} {mean:.4f}" for metric, mean in means)
            print(
                f"{path}: {k} arms, {n} examples{repeats}; means over the table: {means_in_words}"
            )


if __name__ == "__main__":
    main()
