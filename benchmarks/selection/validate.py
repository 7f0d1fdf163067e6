"""Whether files are tables of scores, and what is in them: `python -m benchmarks.selection.validate FILE ...`."""

import sys
from pathlib import Path

from benchmarks.problems.table import InvalidTableError, read_table


def main() -> None:
    """Validate the files named on the command line."""
    try:
        for name in sys.argv[1:]:
            table = read_table(Path(name))
            k, n, _, *times = table.scores.shape
            repeats = f" x {times[0]} repeats" if times else ""
            print(f"{name}: valid, {k} prompts x {n} examples{repeats}")
            for metric, shares in zip(
                table.metrics, table.variance_shares(), strict=True
            ):
                prompt, example, residual = shares
                print(
                    f"  {metric}: variance {prompt:.1%} prompt, {example:.1%} example, {residual:.1%} residual"
                )
    except InvalidTableError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
