"""The numbers in README, from benchmarks/results: `python -m benchmarks.docs.readme`."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results import RESULTS, load

README = RESULTS.parents[1] / "README.md"
Row = dict[str, str]


def numbers(budgets: Sequence[Row], runs: Sequence[Row]) -> str:
    """README's generated lines."""
    bullets = [_few_evaluations(budgets), _fast(runs)]
    return "\n".join(textwrap.fill(bullet, 120, subsequent_indent="  ") for bullet in bullets)


def renewed(text: str, lines: str) -> str:
    """README with those lines between its marks."""
    before, begin, rest = text.partition("<!-- begin numbers -->\n")
    _, end, after = rest.partition("<!-- end numbers -->")
    if not end:
        raise ValueError("README has no lines <!-- begin numbers --> and <!-- end numbers -->.")
    return f"{before}{begin}{lines}\n{end}{after}"


def _few_evaluations(budgets: Sequence[Row]) -> str:
    # The report half last, if there is one: nothing was tuned to it.
    worth, tables = {}, ""
    for which, of_them in ((r"all (\d+)", ""), (r"report half \((\d+)\)", " not used in its development")):
        for row in budgets:
            found = re.fullmatch(which, row["tables"])
            if row["method"] == "auto" and found:
                worth[row["goal"]] = _times(row)
                tables = f"{found[1]} recorded tables of real LLMs{of_them}"
    return (
        f"- **Few evaluations**: {row['b']} evaluations per prompt find as good a prompt as the paper's method does "
        f"with {worth['best feasible']}, and as good a set of trade-offs as with {worth['Pareto set']} "
        f"({tables}, {row['seeds']} seeds, 95 % intervals; "
        "[where asktell wins and loses](docs/benchmarks.md))."
    )


def _times(row: Row) -> str:
    """Such as "about 15 (9.6 to 28)" of an equivalent budget of 5.04, from 3.21 to 9.30, times 3."""
    mark, _, ratio = row["equivalent budget"].rpartition(" ")
    value, low, high = (f"{float(row['b']) * float(number):.2g}" for number in (ratio, row["low"], row["high"]))
    return f"{ {'': 'about', '>': 'more than', '<': 'less than'}[mark] } {value} ({low} to {high})"


def _fast(runs: Sequence[Row]) -> str:
    idle, busy = ([float(row[name]) for row in runs] for name in ("ms per evaluation", "beside a busy neighbour"))
    prompts = [int(row["prompts"]) for row in runs]
    return (
        f"- **Fast**: choosing adds {min(idle):.2g} to {max(idle):.2g} milliseconds to an evaluation on average, with "
        f"{min(prompts)} to {max(prompts):,} prompts; {min(busy):.2g} to {max(busy):.2g} beside a program that keeps "
        f"every core busy ([overhead](docs/benchmarks.md#overhead))."
    )


def main(readme: Path = README) -> None:
    """Renew them."""
    lines = numbers(load("equivalent-budget"), load("runs"))
    readme.write_text(renewed(readme.read_text(), lines))
    print(readme)


if __name__ == "__main__":
    main()
