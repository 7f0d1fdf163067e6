"""How far `auto` is from the limit: what would each kind of knowledge be worth?

`python -m benchmarks.selection.limit --tables FOLDER` compares `auto` with variants of
itself that differ in one thing, and prints the mean quality of the selected prompts for
each budget and kind of table:

- "uniform": the evaluations are spread evenly, with the same model and selection.
- "true means": the evaluations are allocated by the true means, as optimal computing
  budget allocation (Chen, Lin, Yuecesan & Chick 2000) would do if it knew them. Best
  prompt only.
- "value of information": each prompt is sampled in proportion to the expected gain of
  one more score of it, as the knowledge gradient (Frazier, Powell & Dayanik 2008) has
  it, instead of by top-two Thompson sampling.
- "true variances": the model uses the variances of the whole table, without averaging.
- "true examples": the true effect of each example is subtracted from its scores, so no
  example is easier or harder than another.
- "all of these".
- "best seen": the evaluations of `auto`, and then the truly best of the prompts that it
  evaluated, by whatever means. This bounds every way to select.

Every variant has the same budget and the same rule for examples. Lines are appended to
--output, and runs that are there are skipped.

`--starts` compares first evaluations instead, on tables that methods may be tuned on.
Every run takes 30 prompts of a table, drawn by the seed. `auto` evaluates about eight
prompts on each of the first examples. The table shows the gain in quality over `auto`:

- "one first example": all prompts are evaluated on the same first example.
- "19 prompts per first example".
- "decided, from two examples" and "decided, from one example": the first twelve prompts
  are evaluated on so many examples. Then the variance ratio of prompts and examples
  decides whether the others take one common example, or one per eight prompts.
- "best start of each table": one first example or one per eight prompts. The even seeds
  take the start that is better on the odd seeds of this table and budget, and the odd
  seeds the other way round. So this start is chosen by hindsight, but not by luck.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from tqdm import tqdm

import asktell
from asktell.methods.auto import adaptive
from asktell.methods.auto.adaptive import _Look
from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int
from asktell.posterior import membership, two_way
from asktell.posterior.equations import Variances
from asktell.problem.problem import Problem
from asktell.record import State
from asktell.simulation.lines import read_lines
from asktell.simulation.simulate import run_once
from benchmarks import problems
from benchmarks.problems import BenchmarkProblem, replay
from benchmarks.problems.table import Array
from benchmarks.selection.metrics import evaluate
from benchmarks.selection.run import OUTPUT

Line = dict[str, Any]

_KEYS = ("goal", "problem", "variant", "budget", "seed")
VARIANTS: tuple[str, ...] = (
    "auto",
    "uniform",
    "true means",
    "value of information",
    "true variances",
    "true examples",
    "all of these",
    "best seen",
)
# Prompts per first example
STARTS = {"one first example": math.inf, "19 prompts per first example": 19.0}
# Prompts per first example among the first twelve, and the ratio of the variances of
# prompts and examples above which the other prompts take one common example. The model
# expects a ratio of 0.25 beforehand. Scores on one example leave it there, or make it 0
# if all scores are equal.
DECIDED = {
    "decided, from two examples": (8.0, 0.25),
    "decided, from one example": (math.inf, 0.1),
}
BEST_START = "best start of each table"
KINDS = {
    "drawn from the model": (
        "synthetic/unstructured-strong",
        "synthetic/unstructured-small",
    ),
    "pools of prompts": ("capo/", "summarization/", "own/"),
    "tables of models": ("models/",),
}
# Prompts of a run. Larger tables are cut to as many at random, by the seed.
_MOST_PROMPTS = 60
# The same of a run of `--starts`, and its prompts that are evaluated before the decision
_PROMPTS_OF_STARTS = 30
_DOZEN = 12
# Least difference between two means, in standard deviations of a score: an arm that is
# as good as the best would otherwise get all evaluations.
_LEAST_GAP = 0.02


@contextmanager
def allocated(targets: Float[Floats, " arms"]) -> Iterator[None]:
    """Let `auto` spread its evaluations in proportion to these targets."""
    share = targets / targets.sum()

    def choose(
        method: Any, look: _Look, n_prompts: int, belief: Any, unproven_arms: Any
    ) -> Int[Ints, " chosen"]:
        asked = (look.n_scores + look.n_out)[look.open_]
        # Every prompt once, so that the allocation alone reveals no prompt's quality.
        if (asked == 0).any():
            return np.asarray(look.open_[asked == 0][:n_prompts])
        wanted = share[look.open_] * (look.state.spent + n_prompts)
        # Chance decides among equals: the prompts of each run are in a random order.
        order = np.argsort(asked - wanted, kind="stable")
        n_behind = max(1, int((wanted - asked > 0.5).sum()))
        return np.asarray(look.open_[order][: min(n_prompts, n_behind)])

    with (
        patch.object(asktell.Adaptive, "_choose", choose),
        patch.object(asktell.Adaptive, "_first", lambda method, state: None),
        patch.object(
            asktell.Adaptive, "_field", lambda method, state, first: state.active
        ),
    ):
        yield


@contextmanager
def by_value_of_information(residual: Float[Floats, " metrics"]) -> Iterator[None]:
    """Let `auto` sample prompts in proportion to the expected gain of one more score.

    With draws of all prompts' values, a score of prompt i moves the expected quality of
    prompt j by s_ij z, where z is standard normal and s_ij = cov(quality of j, value of
    i) / sd(score of i). The gain is E max_j (mu_j + s_ij z) - max_j mu_j.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)

    def gains(
        problem: Problem,
        rivals: Float[Floats, "draws active values"],
        alive: Int[Ints, " active"],
    ) -> Float[Floats, " arms"]:
        qualities = membership.quality(rivals)
        centred = qualities - qualities.mean(axis=0)
        best_of = np.zeros(len(alive))
        for j in range(rivals.shape[2]):
            value = rivals[:, :, j] - rivals[:, :, j].mean(axis=0)
            sd = np.sqrt(value.var(axis=0) + residual[j]) + 1e-300
            moves = (value / sd).T @ centred / len(rivals)
            after = qualities.mean(axis=0) + nodes[:, None, None] * moves
            best_of += np.tensordot(weights, after.max(axis=2), 1) / weights.sum()
        gain = np.maximum(best_of - best_of.min(), 0.0)
        shares = np.zeros(problem.n_arms)
        shares[alive] = gain / max(float(gain.max()), 1e-300)
        return shares

    def everyone(method: Any, look: _Look, belief: Any) -> Bool[Bools, " open"]:
        return np.ones(len(look.open_), dtype=bool)

    with (
        patch("asktell.methods.auto.belief._top_two", gains),
        patch.object(asktell.Adaptive, "_contend", everyone),
    ):
        yield


def optimal_targets(problem: BenchmarkProblem) -> Float[Floats, " arms"]:
    """Optimal computing budget allocation for the best feasible prompt, by the true means.

    A prompt other than the best b can be mistaken for it with a probability that falls
    with gap² / variance, so its share is (sd / gap)². The gap is the larger one of the
    lead of b and the violation of a constraint, in standard deviations of a score. The
    share of b is sd_b sqrt(sum of (share / sd)²).
    """
    spread = problem.scores.std(axis=1).mean(axis=0)
    truth = problem.truth
    n_prompts = len(truth.values)
    slack = np.full(n_prompts, np.inf)
    if problem.goal.is_constrained:
        slack = truth.slack / spread[-1]
    quality = np.where(truth.feasible, truth.objectives[:, 0], -np.inf)
    best = int(quality.argmax())
    lead = (truth.objectives[best, 0] - truth.objectives[:, 0]) / spread[0]
    share = 1.0 / np.maximum(np.maximum(lead, -slack), _LEAST_GAP) ** 2
    # The best one: for the comparisons, and for its own constraint.
    share[best] = np.sqrt((np.delete(share, best) ** 2).sum())
    share[best] = max(share[best], 1.0 / max(slack[best], _LEAST_GAP) ** 2)
    return np.asarray(share)


def variances_of(scores: Array) -> list[Variances]:
    """The variances of prompts, examples and residuals of each metric, by the moments of the whole table."""
    variances = []
    for column in np.moveaxis(scores, 2, 0):
        k, n = column.shape
        rows, columns, level = column.mean(1), column.mean(0), column.mean()
        residual = column - rows[:, None] - columns[None, :] + level
        e = float((residual**2).sum() / ((k - 1) * (n - 1)))
        a = max(float(rows.var(ddof=1)) - e / n, 1e-6 * e + 1e-12)
        b = max(float(columns.var(ddof=1)) - e / k, 1e-6 * e + 1e-12)
        variances.append(Variances(a, b, max(e, 1e-12)))
    return variances


@contextmanager
def known_variances(variances: Sequence[Variances]) -> Iterator[None]:
    """Let the model use these variances of the metrics, and average over no others."""
    with_noise, fit = two_way._with_noise, two_way._fit

    def known(data: Any) -> Any:
        mine = variances[data.metric]
        first = Variances(*(v / data.spread**2 for v in mine))
        return with_noise(data)._replace(first=first)

    def at_the_first(data: Any, found: Any, _: bool) -> Any:
        return fit(data, found, False)

    with (
        patch.object(two_way, "_with_noise", known),
        patch.object(two_way, "_fit", at_the_first),
    ):
        yield


def without_examples(scores: Array) -> Array:
    """The scores without the examples' effects: every example's mean over all prompts becomes the same."""
    return (
        scores
        - scores.mean(axis=0, keepdims=True)
        + scores.mean(axis=(0, 1), keepdims=True)
    )


@contextmanager
def decided_start(first_share: float, cut: float) -> Iterator[None]:
    """Let `auto` decide after twelve scores whether the other prompts take one common first example."""
    new_arms = asktell.Adaptive._new_arms

    def a_dozen(
        method: Any, look: _Look, uniform: Float[Floats, " open"]
    ) -> Int[Ints, " new"]:
        arms = new_arms(method, look, uniform)
        return arms if len(look.state.history) else arms[:_DOZEN]

    def cells(
        method: Any, state: State, arms: Int[Ints, " chosen"], n_pulls: int, noise: Any
    ) -> Any:
        share = first_share
        if len(state.history):
            is_common = _ratio(state) > cut
            share = math.inf if is_common else adaptive._FIRST_SHARE
        return adaptive._shared_cells(state, arms, n_pulls, share, noise=noise)

    with (
        patch.object(asktell.Adaptive, "_new_arms", a_dozen),
        patch.object(asktell.Adaptive, "_first_cells", cells),
    ):
        yield


def _ratio(state: State) -> float:
    """The likeliest ratio of the variances of prompts and examples in the first metric, 0 if all scores are equal."""
    history, n_examples = state.history, len(state.problem.examples.order)
    cells = two_way.Cells.of(
        history.arms(), history.examples(), history.scores(), n_examples
    )
    prompts, examples, _ = two_way.posterior(
        cells, 0, state.problem.n_arms, n_examples, averaged=False
    ).variances
    return prompts / examples if examples else 0.0


def run(variant: str, problem: BenchmarkProblem, budget: int, seed: int) -> list[int]:
    """The rows that a variant selects."""
    with ExitStack() as knowledge:
        scores = problem.scores
        if variant == "uniform":
            knowledge.enter_context(allocated(np.ones(len(scores))))
        if variant in ("true means", "all of these"):
            knowledge.enter_context(allocated(optimal_targets(problem)))
        if variant == "value of information":
            residual = [variances.residual for variances in variances_of(scores)]
            knowledge.enter_context(by_value_of_information(np.array(residual)))
        if variant in ("true examples", "all of these"):
            scores = without_examples(scores)
        if variant in ("true variances", "all of these"):
            knowledge.enter_context(known_variances(variances_of(scores)))
        if variant in STARTS:
            knowledge.enter_context(
                patch.object(adaptive, "_FIRST_SHARE", STARTS[variant])
            )
        if variant in DECIDED:
            knowledge.enter_context(decided_start(*DECIDED[variant]))
        outcome = run_once("auto", scores, problem.goal, budget, seed)
    if variant != "best seen":
        return outcome.answer
    assert outcome.result is not None
    seen = [int(entry.id) for entry in outcome.result.prompts if entry.evaluations]
    qualities = [evaluate(problem, [arm])["quality"] for arm in seen]
    return [seen[int(np.argmax(qualities))]]


def problem_of(
    name: str, goal: str, folder: Path | None, seed: int
) -> BenchmarkProblem:
    """The problem `name`, with at most 60 prompts, or `name@K` with at most K that the seed draws."""
    table_name, _, k = name.partition("@")
    if not k:
        return problems.load(f"{name}@{_MOST_PROMPTS}", goal, folder, seed)
    table = problems.load(table_name, goal, folder, seed).table
    order = np.random.default_rng([seed, 45]).permutation(len(table.prompts))
    return BenchmarkProblem(table.rows(np.sort(order[: int(k)])), goal)


def lines_of(
    names: Sequence[str],
    variants: Sequence[str],
    budgets: Sequence[float],
    n_seeds: int,
    folder: Path | None,
    output: Path,
    goal: str,
) -> list[Line]:
    """A line for each run; those that the file lacks are run and appended to it."""
    output.parent.mkdir(parents=True, exist_ok=True)
    line_of = {_key(line): line for line in read_lines(output)}
    # Seed by seed, so that an interrupted run has as many seeds of every table.
    wanted = [
        (goal, name, variant, b, seed)
        for seed, name, variant, b in product(range(n_seeds), names, variants, budgets)
    ]
    with output.open("a") as file:
        for task in tqdm([task for task in wanted if task not in line_of], unit="run"):
            _, name, variant, b, seed = task
            problem = problem_of(name, goal, folder, seed)
            answer = run(variant, problem, round(b * len(problem.scores)), seed)
            quality = evaluate(problem, answer)["quality"]
            line = dict(zip(_KEYS, task, strict=True)) | {"quality": round(quality, 6)}
            line_of[task] = line
            file.write(json.dumps(line) + "\n")
            file.flush()
    return [line_of[task] for task in wanted]


def summary(
    lines: Sequence[Line],
    variants: Sequence[str],
    cell: Callable[[Sequence[Line], str, float], str],
) -> str:
    """A table: a row for each kind of table and variant, and a column for each budget."""
    budgets = sorted({line["budget"] for line in lines})
    rows = [
        "| tables | variant | " + " | ".join(f"b = {b:g}" for b in budgets) + " |",
        "|---|---|" + "---:|" * len(budgets),
    ]
    for kind, starts in KINDS.items():
        mine = [line for line in lines if line["problem"].startswith(starts)]
        for variant in variants if mine else ():
            cells = [cell(mine, variant, b) for b in budgets]
            rows.append(f"| {kind} | {variant} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def mean_quality(lines: Sequence[Line], variant: str, budget: float) -> str:
    """The mean quality, and the standard error of the mean over tables.

    The errors of variants with `auto` are those of the difference, since all variants
    share tables and seeds.
    """
    mine, auto = (
        np.array([of.mean() for of in _by_table(lines, name, budget)])
        for name in (variant, "auto")
    )
    of = mine if variant == "auto" else mine - auto
    error = of.std(ddof=1) / np.sqrt(len(of)) if len(of) > 1 else np.nan
    return f"{mine.mean():.2f} ± {error:.2f}"


def mean_gain(lines: Sequence[Line], variant: str, budget: float) -> str:
    """The mean over tables of the gain in quality over `auto`, and its standard error over seeds."""
    is_best, gains = variant == BEST_START, []
    start = next(iter(STARTS)) if is_best else variant
    pairs = (_by_table(lines, name, budget) for name in (start, "auto"))
    for of_start, of_auto in zip(*pairs, strict=True):
        gain = of_start - of_auto
        if is_best:
            even, odd = gain[::2], gain[1::2]
            gain = np.concatenate((even * (odd.mean() > 0), odd * (even.mean() > 0)))
        gains.append(gain)
    error = np.sqrt(sum(gain.var(ddof=1) / len(gain) for gain in gains)) / len(gains)
    return f"{np.mean([gain.mean() for gain in gains]):+.3f} ± {error:.3f}"


def _by_table(
    lines: Sequence[Line], variant: str, budget: float
) -> list[Float[Floats, " seeds"]]:
    """The qualities of a variant on each table, by seed."""
    by_table: dict[str, list[float]] = {}
    for line in lines:
        if (line["variant"], line["budget"]) == (variant, budget):
            by_table.setdefault(line["problem"], []).append(line["quality"])
    return [np.array(by_table[name]) for name in sorted(by_table)]


def _key(line: Line) -> tuple[Any, ...]:
    return tuple(line[name] for name in _KEYS)


def main() -> None:
    """Parse the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, default=replay.default_folder())
    parser.add_argument("--problems", nargs="+", default=[], help="beginnings of names")
    parser.add_argument("--goal", default="best@.5", choices=problems.BEST)
    parser.add_argument("--per-prompt", nargs="+", type=float, default=[1, 2, 3, 5])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--starts", action="store_true", help="compare starts")
    parser.add_argument("--output", type=Path, default=OUTPUT / "limit.jsonl")
    args = parser.parse_args()
    starts = tuple(
        args.problems or [start for kind in KINDS.values() for start in kind]
    )
    names = [name for name in problems.names(args.tables) if name.startswith(starts)]
    variants, rows, cell = VARIANTS, VARIANTS, mean_quality
    if args.starts:
        rows, cell = (*STARTS, *DECIDED, BEST_START), mean_gain
        variants = ("auto", *rows[:-1])
        names = [
            f"{name}@{_PROMPTS_OF_STARTS}"
            for name in names
            if problems.half(name) != "report"
        ]
    lines = lines_of(
        names,
        variants,
        args.per_prompt,
        args.seeds,
        args.tables,
        args.output,
        args.goal,
    )
    print(summary(lines, rows, cell))


if __name__ == "__main__":
    main()
