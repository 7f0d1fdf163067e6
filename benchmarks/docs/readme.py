"""The numbers of README, from the generated tables of the benchmarks: `python -m benchmarks.docs.readme`."""

import re
import textwrap
from pathlib import Path

from benchmarks.docs.page import DOCS, TABLES, part, rows, update

README = DOCS.parent / "README.md"


def parts(page: str) -> dict[str, str]:
    """README's generated parts, by name."""
    bullets = [_few_evaluations(part(page, "headline")), _fast(part(page, "overhead"))]
    return {"numbers": "\n".join(textwrap.fill(bullet, 120, subsequent_indent="  ") for bullet in bullets)}


def _few_evaluations(headline: str) -> str:
    found = re.match(r"At (\S+) evaluations per prompt; (\d+) seeds", headline)
    if found is None:
        raise ValueError(f"The headline says no budget and seeds: {headline.splitlines()[0]!r}")
    budget, seeds = float(found[1]), int(found[2])
    # The report half last, if there is one: nothing was tuned to it.
    worth, tables = {}, ""
    for which, of_them in ((r"all (\d+)", ""), (r"report half \((\d+)\)", " that it was not developed on")):
        for row in rows(headline):
            found = re.fullmatch(which, row["tables"])
            if row["method"] == "`auto`" and found:
                worth[row["goal"]] = _times(row["equivalent budget"], budget)
                tables = f"{found[1]} recorded tables of real LLMs{of_them}"
    return (
        "- **Few evaluations**: a posterior over all prompts and examples decides what to evaluate next. "
        f"{budget:g} evaluations per prompt are worth {worth['Pareto set']} of the published method's for the Pareto "
        f"set and {worth['best feasible']} for the best feasible prompt ({tables}, {seeds} "
        f"seeds; 95 % intervals: [how sure that is, and where we lose](docs/benchmarks.md))."
    )


def _times(ratio: str, budget: float) -> str:
    """Such as "about 15 (9.6 to 28)" of "5.04 [3.21, 9.30]" times 3."""
    found = re.fullmatch(r"([<>]?) ?(\S+) \[(\S+), (\S+)\]", ratio)
    if found is None:
        raise ValueError(f"An equivalent budget is written so: 5.04 [3.21, 9.30]; got {ratio!r}")
    value, low, high = (f"{budget * float(number):.2g}" for number in found.groups()[1:])
    return f"{ {'': 'about', '>': 'more than', '<': 'less than'}[found[1]] } {value} ({low} to {high})"


def _fast(overhead: str) -> str:
    ours = [row for row in rows(overhead) if row["engine"] == "asktell auto" and row["worst of 50"]]
    medians = [1000 * float(row["ask + tell, median ms"]) for row in ours]
    worst = max(float(row["worst of 50"]) for row in ours)
    return (
        f"- **Fast**: asking and telling takes {min(medians):.0f} to {max(medians):.0f} microseconds together, after "
        f"{ours[-1]['trials']} trials as after {ours[0]['trials']}; now and then a decision of `auto` comes on top, "
        f"{worst:.0f} milliseconds in the worst of the trials measured "
        "([100 prompts](docs/reference/benchmark-tables.md#overhead))."
    )


def main(readme: Path = README) -> None:
    """Renew them."""
    update(readme, parts(TABLES.read_text()))
    print(readme)


if __name__ == "__main__":
    main()
