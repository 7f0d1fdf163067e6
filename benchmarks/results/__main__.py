"""Keep what a benchmark prints: `python -m benchmarks.selection.race | python -m benchmarks.results race`.

Writes each Markdown table of the standard input as a CSV file in this folder; the names
are in the order of the tables.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.results import RESULTS, save, table, tables


def main() -> None:
    """Pass everything through, and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="a file's name, without .csv"
    )
    parser.add_argument("--folder", type=Path, default=RESULTS)
    args = parser.parse_args()
    lines = []
    for line in sys.stdin:
        print(line, end="", flush=True)
        lines.append(line)
    parsed = tables("".join(lines))
    if len(parsed) != len(args.names):
        parser.error(
            f"the input has {len(parsed)} tables, for {len(args.names)} names: nothing was written"
        )
    for name, (header, *rows) in zip(args.names, parsed, strict=True):
        save(name, table(header, rows), args.folder)


if __name__ == "__main__":
    main()
