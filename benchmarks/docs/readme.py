"""The numbers in README, from benchmarks/results: `python -m benchmarks.docs.readme`."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results import RESULTS, load

README = RESULTS.parents[1] / "README.md"
Row = dict[str, str]


def numbers(budgets: Sequence[Row], overhead: Sequence[Row]) -> str:
    """README's generated lines."""
    bullets = [_few_evaluations(budgets), _fast(overhead)]
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
        f"- **Few evaluations**: {row['b']} evaluations per prompt give an answer as good as the published method's "
        f"with {worth['best feasible']} if you want the best prompt, and with {worth['Pareto set']} if you want all "
        f"trade-offs ({tables}, {row['seeds']} seeds, 95 % intervals; "
        "[where asktell wins and loses](docs/benchmarks.md))."
    )


def _times(row: Row) -> str:
    """Such as "about 15 (9.6 to 28)" of an equivalent budget of 5.04, from 3.21 to 9.30, times 3."""
    mark, _, ratio = row["equivalent budget"].rpartition(" ")
    value, low, high = (f"{float(row['b']) * float(number):.2g}" for number in (ratio, row["low"], row["high"]))
    return f"{ {'': 'about', '>': 'more than', '<': 'less than'}[mark] } {value} ({low} to {high})"


def _fast(overhead: Sequence[Row]) -> str:
    ours = [row for row in overhead if row["engine"] == "asktell auto" and row["worst of 50"]]
    medians = [1000 * float(row["ask + tell, median ms"]) for row in ours]
    worst = max(float(row["worst of 50"]) for row in ours)
    return (
        f"- **Fast**: `ask` and `tell` together take {min(medians):.0f} to {max(medians):.0f} microseconds, after "
        f"{ours[-1]['trials']} evaluations as after {ours[0]['trials']}; an occasional decision takes up to "
        f"{worst:.0f} milliseconds ([with 100 prompts](docs/benchmarks.md#overhead))."
    )


def main(readme: Path = README) -> None:
    """Renew them."""
    lines = numbers(load("equivalent-budget"), load("overhead"))
    readme.write_text(renewed(readme.read_text(), lines))
    print(readme)


if __name__ == "__main__":
    main()
