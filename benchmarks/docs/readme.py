"""The numbers in README and in docs/explanation/what-it-saves.md: `python -m benchmarks.docs.readme`."""

import re
import textwrap
from collections.abc import Sequence

from benchmarks.results import RESULTS, load

README = RESULTS.parents[1] / "README.md"
SAVINGS = RESULTS.parents[1] / "docs" / "explanation" / "what-it-saves.md"
METHODS = {
    "auto": "asktell",
    "csr": "`csr`",
    "csr-sh": "`csr-sh`",
    "sysrs": "SySRs",
    "uniform": "equal shares",
}
Row = dict[str, str]


def numbers(budgets: Sequence[Row], runs: Sequence[Row]) -> str:
    """README's generated lines."""
    bullets = [_few_evaluations(budgets), _fast(runs)]
    return "\n".join(
        textwrap.fill(bullet, 120, subsequent_indent="  ") for bullet in bullets
    )


def renewed(text: str, lines: str, name: str = "numbers") -> str:
    """The page with those lines between its marks of this name."""
    before, begin, rest = text.partition(f"<!-- begin {name} -->\n")
    _, end, after = rest.partition(f"<!-- end {name} -->")
    if not end:
        raise ValueError(
            f"The page has no lines <!-- begin {name} --> and <!-- end {name} -->."
        )
    return f"{before}{begin}{lines}\n{end}{after}"


def _few_evaluations(budgets: Sequence[Row]) -> str:
    # The report half last, if there is one: nothing was tuned to it.
    worth, tables = {}, ""
    for pattern, of_them in (
        (r"all (\d+)", ""),
        (r"report half \((\d+)\)", " These tables were not used to develop asktell."),
    ):
        for row in budgets:
            match = re.fullmatch(pattern, row["tables"])
            if row["method"] == "auto" and match:
                worth[row["goal"]] = _times(row)
                tables = (
                    f"{match[1]} tables of scores recorded from real LLMs.{of_them}"
                )
    return (
        f"- **Few evaluations**: with {row['b']} evaluations per prompt, asktell finds as good a prompt as "
        f"`csr-published` finds with {worth['best feasible']} evaluations per prompt. It finds as good a Pareto set as "
        f"`ege-sr-published` finds with {worth['Pareto set']} evaluations per prompt. These two are the methods of "
        "[the paper](docs/explanation/the-paper-reproduced.md) that asktell comes from. "
        "The ranges in parentheses are 95% intervals. These numbers were measured with "
        f"{row['seeds']} random seeds on {tables} [Where asktell wins and loses](docs/benchmarks.md) has more."
    )


def _times(row: Row) -> str:
    """Such as "about 15 (9.6 to 28)" of an equivalent budget of 5.04, from 3.21 to 9.30, times 3."""
    mark, _, ratio = row["equivalent budget"].rpartition(" ")
    value, low, high = (
        f"{float(row['b']) * float(number):.2g}"
        for number in (ratio, row["low"], row["high"])
    )
    return f"{ {'': 'about', '>': 'more than', '<': 'less than'}[mark] } {value} ({low} to {high})"


def _fast(runs: Sequence[Row]) -> str:
    idle, busy = (
        [float(row[name]) for row in runs]
        for name in ("ms per evaluation", "beside a busy neighbour")
    )
    prompts = [int(row["prompts"]) for row in runs]
    return (
        f"- **Fast**: choosing the next evaluation takes {min(idle):.2g} to {max(idle):.2g} milliseconds on average, "
        f"with {min(prompts)} to {max(prompts):,} prompts. While another program keeps every core busy, it takes "
        f"{min(busy):.2g} to {max(busy):.2g} milliseconds ([overhead](docs/benchmarks.md#overhead))."
    )


def savings(rows: Sequence[Row]) -> str:
    """Per kind of candidates and budget: quality and violated constraints, of `auto` and of equal shares."""
    kinds = {"recorded, report half": "prompts", "models": "models and agents"}
    table = [
        "| Candidates | Evaluations per candidate | Quality: asktell | Quality: equal shares "
        "| Constraint violated: asktell | Constraint violated: equal shares |",
        "|---|---|---|---|---|---|",
    ]
    of = {(row["problems"], row["b"], row["method"]): row for row in rows}
    for problems, name in kinds.items():
        for b in sorted({int(row["b"]) for row in rows if row["problems"] == problems}):
            both = [
                of.get((problems, str(b), method)) for method in ("auto", "uniform")
            ]
            if None in both:
                continue
            quality = [
                f"{float(row['quality']):.2f} ± {float(row['quality ±']):.2f}"
                for row in both
                if row
            ]
            violated = [f"{100 * float(row['infeasible']):.0f}%" for row in both if row]
            table.append(
                f"| {name} | {b} | {quality[0]} | {quality[1]} | {violated[0]} | {violated[1]} |"
            )
    return "\n".join(table)


def confidence_budgets(rows: Sequence[Row]) -> str:
    """The least part of the evaluations from which on a good model is found in most runs, by method."""
    finds = {"near": "at most 0.01 below the best", "best": "the best model itself"}
    levels = [name for name in rows[0] if name.endswith("%")]
    table = [
        f"| Found | Method | {' | '.join(f'in {level} of runs' for level in levels)} |",
        f"|---|---|{'---|' * len(levels)}",
    ]
    for measure, words in finds.items():
        for row in rows:
            if row["finds"] == measure and row["method"] in METHODS:
                cells = [
                    f"over {row['largest']}" if row[level] == "never" else row[level]
                    for level in levels
                ]
                table.append(
                    f"| {words} | {METHODS[row['method']]} | {' | '.join(cells)} |"
                )
    return "\n".join(table)


def main() -> None:
    """Write the numbers into both pages."""
    blocks = [
        (README, "numbers", numbers(load("equivalent-budget"), load("runs"))),
        (SAVINGS, "numbers", savings(load("quality-best"))),
        (SAVINGS, "budgets", confidence_budgets(load("confidence-budgets"))),
    ]
    for page, name, lines in blocks:
        page.write_text(renewed(page.read_text(), lines, name))
        print(page, name)


if __name__ == "__main__":
    main()
