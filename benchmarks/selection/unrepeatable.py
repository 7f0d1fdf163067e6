"""What is stated where scores differ when asked again, or drift: `python -m benchmarks.selection.unrepeatable`.

Simulated 0/1 scores of which a share flips at every evaluation; what counts is the mean
of the expected scores. The gate is played with candidates that are worse than the
baseline by a hair more than the margin, so that a pass is wrong, and with such that are
as good. `compare` is looked at when a run of all cells has ended. `--drift` plays
selections in which prompts change places on the way: how often early stops were wrong,
and how often the change was noticed. `--steps`: how often the residuals show a change
of all prompts in the middle of a run, where there is one, and is not. `--needed`: after
how many evaluations of each the gate passes equal prompts, and how many it says
beforehand. `--differences`: how many examples a verdict takes, by the true difference,
where scores are fixed. `--flips`: on which of 127 examples the gate says that a
candidate is really worse, where none or 13 of them broke and 23% flip by noise.
`--biased`: how often a candidate at the margin would pass if the rechecks of that list
counted for the verdict.
"""

import argparse
import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

import asktell
from asktell_adapters.gating.rechecks import Rechecks
from asktell_adapters.gating.rule import GateRule, pairs_for_equal
from asktell_adapters.gating.ruling import PASSED
from asktell_adapters.gating.settle import noisy, settle

Array = npt.NDArray[np.float64]
GOAL = asktell.BestFeasible(asktell.maximize("right", range=(0, 1)))
GOAL_OF_STEPS = asktell.BestFeasible("score")
_AT_ONCE = 4  # evaluations, between two looks
FLIPS = (0.0, 0.02, 0.05, 0.1, 0.2)
# Of the candidate and the baseline
DIFFERENCES = (-0.1, -0.05, -0.02, 0.0, 0.02, 0.05, 0.1)
# Of four prompts, before and after a change
LEVELS = ((0.5, 0.55, 0.6, 0.8), (0.6, 0.55, 0.9, 0.4))


FDR = 0.1
_BROKEN = 13  # of the examples; a candidate is then right in 5 of 100 evaluations


class Agent:
    """An evaluator of two prompts that are right on an example with the probabilities of a table (2, n)."""

    repeatable = False

    def __init__(self, right: Array, seed: int) -> None:
        self.right, self.rng = right, np.random.default_rng([seed, 1])

    def evaluate_batch(self, trials: Sequence[asktell.Trial]) -> list[dict[str, float]]:
        """Their scores this time."""
        right = [self.right[int(trial.prompt), trial.example or 0] for trial in trials]
        return [{"right": float(self.rng.random() < p)} for p in right]


def agents(
    noise: str, n: int, n_broken: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Probabilities (2, n) that candidate and baseline are right, and which examples (n,) of the candidate broke.

    Two runs of the baseline differ on 23% of the examples: on half of some ("coins"),
    on all of them alike ("even"), or on each as a beta distribution says ("mixed").
    """
    sure = (rng.random(n) < 0.6).astype(float)
    if noise == "coins":
        right = np.where(rng.random(n) < 0.46, 0.5, sure)
    elif noise == "even":
        right = np.where(sure > 0.0, 0.867, 0.133)
    else:
        right = rng.beta(0.42, 0.42, n)
    broken = np.zeros(n, dtype=bool)
    broken[rng.choice(np.flatnonzero(right >= 0.5), n_broken, replace=False)] = True
    before = np.where(broken, np.maximum(right, 0.9), right)
    return np.stack([np.where(broken, 0.05, right), before]), broken


def listed(noise: str, n_broken: int, rounds: int, rechecks: int, runs: int) -> str:
    """A row: how many examples are listed as broken, how many of them are not, and how many of the broken ones are."""
    n, rows = 127, []
    for seed in range(runs):
        right, broken = agents(noise, n, n_broken, np.random.default_rng([seed, n]))
        agent = Agent(right, seed)
        selector = asktell.Selector(
            ["0", "1"], GOAL, 2 * n * rounds, "uniform", n, seed=seed, repeats=rounds
        )
        asktell.run(selector, agent, None, 16, progress=False, repeatable=True)
        again = Rechecks(noisy(selector), "right", None)
        again.run(agent, rechecks)
        by_sign = len(again.comparison.regressions(1.0))
        broken_ids = [
            int(regression.example) for regression in again.comparison.regressions(FDR)
        ]
        n_right = int(broken[broken_ids].sum())
        rows.append(
            (
                by_sign,
                len(broken_ids),
                1.0 - n_right / len(broken_ids) if broken_ids else 0.0,
                n_right / max(1, n_broken),
            )
        )
    signs, size, false, power = np.mean(rows, axis=0)
    held = f"{power:.0%}" if n_broken else ""
    return f"| {noise} | {rounds} | {rechecks} | {n_broken} | {signs:.1f} | {size:.2f} | {false:.1%} | {held} |"


def biased(n: int, margin: float, runs: int) -> str:
    """A row: how often a candidate that is worse by the margin looks better than that, without rechecks and with them.

    Looks better: the mean difference is above the negated margin; of an unbiased
    estimate that is so in half of runs.
    """
    rows = []
    for seed in range(runs):
        rng = np.random.default_rng([seed, n])
        right, _ = agents("even", n, 0, rng)
        right[0] = right[1] - margin
        first = (rng.random((2, n)) < right).astype(float)
        second = (rng.random((2, n)) < right).astype(float)
        again = np.where(first[0] != first[1], (first + second) / 2.0, first)
        rows.append(
            [
                float(first[0].mean() - first[1].mean() > -margin),
                float(again[0].mean() - again[1].mean() > -margin),
            ]
        )
        rows[-1] += [float(x[0].mean() - x[1].mean() + margin) for x in (first, again)]
    kept_out, counted, bias, bias_with = np.mean(rows, axis=0)
    return f"| {n} | {margin:g} | {kept_out:.0%} | {counted:.0%} | {bias:+.3f} | {bias_with:+.3f} |"


class Flipping:
    """An evaluator of prompts "0", "1", ..., whose scores flip with a probability."""

    def __init__(
        self, table: Array, flips: float = 0.0, repeatable: bool = False, seed: int = 0
    ) -> None:
        self.table, self.flips, self.repeatable = table, flips, repeatable
        self.rng = np.random.default_rng(seed)
        self.n_calls = 0
        # After so many calls, to this table
        self.change: tuple[float, Array] = (math.inf, table)

    def evaluate_batch(self, trials: Sequence[asktell.Trial]) -> list[dict[str, float]]:
        """Their scores this time."""
        return [
            {"right": self.score(int(trial.prompt), trial.example or 0)}
            for trial in trials
        ]

    def score(self, prompt: int, example: int) -> float:
        """The score this time."""
        table = self.table if self.n_calls < self.change[0] else self.change[1]
        self.n_calls += 1
        score = float(table[prompt, example])
        return 1.0 - score if self.rng.random() < self.flips else score


def pair(n: int, lead: int, disagree: float, rng: np.random.Generator) -> Array:
    """(2, n) scores of two prompts, of which the first is ahead on `lead` more examples than the second is."""
    fewer = max(0, round((n * disagree - abs(lead)) / 2))
    more, fewer = (fewer + lead, fewer) if lead > 0 else (fewer, fewer - lead)
    kinds = rng.permutation(np.repeat([0, 1, 2], [more, fewer, n - more - fewer]))
    agreed = rng.random(n) < 0.6
    return np.stack(
        [np.where(kinds == 2, agreed, kinds == side) for side in (0, 1)]
    ).astype(float)


def judged(
    evaluator: Flipping, margin: float, rounds: int, seed: int, at_once: int = _AT_ONCE
) -> tuple[str, Sequence[str]]:
    """The verdict on prompt 0 against prompt 1 about the given examples, and the gate's remarks."""
    n = evaluator.table.shape[1]
    selector = asktell.Selector(
        ["0", "1"],
        GOAL,
        2 * n * rounds,
        "uniform",
        n,
        seed=seed,
        repeats=rounds,
        inputs="given",
    )
    verdict, _, remarks = settle(
        GateRule(GOAL, margin, 0.95), selector, evaluator, at_once
    )
    return verdict, remarks


def gate(
    n: int,
    disagree: float,
    margin: float,
    rounds: int,
    flips: float,
    repeatable: bool,
    runs: int,
) -> str:
    """A row: false passes, passes of equal candidates, their evaluations, and how often noise is noticed."""
    by_lead: dict[int, list[Any]] = {}
    just_worse = math.floor(margin * n / (1 - 2 * flips) + 1e-9) + 1  # examples
    for lead, seed in product((-just_worse, 0), range(runs)):
        evaluator = Flipping(
            pair(n, lead, disagree, np.random.default_rng([seed, n])),
            flips,
            repeatable,
            seed,
        )
        verdict, remarks = judged(evaluator, margin, rounds, seed)
        noticed = any("differ" in remark for remark in remarks)
        by_lead.setdefault(lead, []).append(
            (verdict == PASSED, noticed, evaluator.n_calls / 2)
        )
    worse, equal = (np.mean(rows, axis=0) for rows in by_lead.values())
    who = "declared" if repeatable else "unknown"
    return (
        f"| {n} x {rounds} | {disagree:.0%} | {margin:g} | {who} | {flips:.0%} | {worse[0]:.1%} | {equal[0]:.0%} | "
        f"{equal[2]:.0f} | {worse[1]:.0%} |"
    )


def coverage(n: int, flips: float, runs: int) -> str:
    """A row: how often the interval of `compare` holds the truth at the end, what it claims, and its width."""
    rows = []
    for seed in range(runs):
        table = pair(n, n // 10, 0.3, np.random.default_rng([seed, n]))
        selector = asktell.Selector(
            ["0", "1"], GOAL, 2 * n, "uniform", examples=n, seed=seed, inputs="given"
        )
        result = asktell.run(
            selector, Flipping(table, flips, False, seed), progress=False
        ).compare(0, 1)
        difference = result.differences["right"]
        truth = (1 - 2 * flips) * float((table[0] - table[1]).mean())
        assert difference.low is not None
        assert difference.high is not None
        held = difference.low - 1e-9 <= truth <= difference.high + 1e-9
        rows.append(
            (
                held,
                result.guaranteed,
                result.guaranteed and not held,
                difference.high - difference.low,
            )
        )
    held, claimed, wrong, width = np.mean(rows, axis=0)
    return f"| {n} | {flips:.0%} | {held:.1%} | {claimed:.0%} | {wrong:.1%} | {width:.2f} |"


def drift(name: str, n: int, at: float, runs: int) -> str:
    """A row: where prompts change places at a part of the budget, early stops, wrong ones, and how often it is said."""
    methods = {"auto": asktell.Adaptive, "race": asktell.Race}
    stopped = wrong = n_noticed = alarms = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, n])
        before, after = (
            (rng.random((4, n)) < np.array(level)[:, None]).astype(float)
            for level in LEVELS
        )
        for drifts in (True, False):
            evaluator = Flipping(before)
            method = methods[name](confidence=0.95)
            selector = asktell.Selector(
                [str(i) for i in range(4)], GOAL, 4 * n, method, n, seed=seed
            )
            if drifts:
                evaluator.change = (at * 4 * n, after)
            result = asktell.run(selector, evaluator, None, _AT_ONCE, progress=False)
            noticed = any(
                check.name == "drift" and check.ok is False for check in result.checks
            )
            if not drifts:
                alarms += noticed
            elif result.stopped_early and result.spent > at * 4 * n:
                stopped += 1
                wrong += result.selected[0].id != int(after.mean(axis=1).argmax())
                n_noticed += noticed
    return f"| {name} | {at * 4 * n:.0f} | {stopped} of {runs} | {wrong} | {n_noticed} | {alarms} of {runs} |"


def steps(smooth: bool, name: str, budget: int, runs: int) -> str:
    """A row: in how many runs a change was seen, where there was none, and where scores fell by a half on the way.

    Of 8 prompts and 100 examples. Scores of 0 and 1 are drawn anew for each evaluation,
    and half of the 1 become 0; smooth ones fall by half of their examples' standard
    deviation.
    """
    seen = {0.0: 0, 0.5: 0}
    for fall, seed in product(seen, range(runs)):
        rng = np.random.default_rng([seed, smooth])
        levels = rng.normal(0, 0.4, (8, 1)) + rng.normal(size=100)
        noise = rng.normal(size=(8, 100))
        selector = asktell.Selector(
            [f"p{i}" for i in range(8)], GOAL_OF_STEPS, budget, name, 100, seed=seed
        )
        while trials := selector.ask(_AT_ONCE):
            for trial in trials:
                cell = int(trial.prompt_id), int(trial.example or 0)
                drop = fall if selector.spent >= budget / 2 else 0.0
                right = (
                    rng.random() < 1 / (1 + np.exp(-2 * levels[cell]))
                    and rng.random() >= drop
                )
                selector.tell(
                    trial,
                    [levels[cell] + noise[cell] - drop if smooth else float(right)],
                )
        seen[fall] += any(
            check.name == "drift" and check.ok is False
            for check in selector.result().checks
        )
    kind = "smooth" if smooth else "0/1"
    return f"| {kind} | {name} | {budget} | {seen[0.0]} of {runs} | {seen[0.5]} of {runs} |"


def needed(n: int, disagree: float, margin: float, is_noisy: bool, runs: int) -> str:
    """A row: how many evaluations of each the gate expects to pass an equal prompt, and how many it takes."""
    expected = pairs_for_equal(n, disagree, margin, 0.95, is_noisy)
    assert expected is not None
    rounds = math.ceil(6 * expected / n) if is_noisy else 1
    # Two such coins differ in that share of throws
    heads = (1 - math.sqrt(1 - 2 * disagree)) / 2 if is_noisy else 0.0
    took = []
    for seed in range(runs):
        table = (
            np.zeros((2, n))
            if is_noisy
            else pair(n, 0, disagree, np.random.default_rng([seed, n]))
        )
        evaluator = Flipping(table, heads, not is_noisy, seed)
        verdict, _ = judged(evaluator, margin, rounds, seed, at_once=16)
        took.append(evaluator.n_calls / 2 if verdict == PASSED else math.inf)
    took.sort()
    noise = "unknown" if is_noisy else "declared"
    median, most_runs = took[runs // 2], took[9 * runs // 10]
    return f"| {n} | {noise} | {disagree:.0%} | {margin:g} | {expected} | {median:.0f} | {most_runs:.0f} |"


def decided(
    n: int, disagree: float, difference: float, margins: Sequence[float], runs: int
) -> str:
    """A row: the most frequent verdict for each margin, and the examples that it takes in the median.

    Scores are fixed, so that all examples decide in the end.
    """
    cells = []
    for margin in margins:
        took: dict[str, list[float]] = {}
        for seed in range(runs):
            table = pair(
                n, round(n * difference), disagree, np.random.default_rng([seed, n])
            )
            evaluator = Flipping(table, 0.0, True, seed)
            verdict, _ = judged(evaluator, margin, 1, seed)
            took.setdefault(verdict, []).append(evaluator.n_calls / 2)
        verdict = max(took, key=lambda each: len(took[each]))
        often = "" if len(took) == 1 else f" ({len(took[verdict]) / runs:.0%})"
        cells.append(f"{verdict}{often}, {np.median(took[verdict]):.0f}")
    return f"| {difference:+.0%} | {' | '.join(cells)} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--examples", type=int, nargs="+", default=[64, 200])
    parser.add_argument("--margins", type=float, nargs="+", default=[0.1])
    parser.add_argument("--disagree", type=float, nargs="+", default=[0.3])
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--drift", action="store_true")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--needed", action="store_true")
    parser.add_argument("--differences", action="store_true")
    parser.add_argument("--flips", action="store_true")
    parser.add_argument("--biased", action="store_true")
    args = parser.parse_args()
    if args.flips:
        head = [
            "noise",
            "evaluations",
            "rechecks",
            "broken",
            "worse by the sign",
            "listed",
            "of them wrong",
            "found",
        ]
        print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
        designs = (1, 0), (1, 50), (1, 100), (2, 0), (2, 50), (4, 0)
        for noise, n_broken, (rounds, rechecks) in product(
            ("coins", "even", "mixed"), (0, _BROKEN), designs
        ):
            print(listed(noise, n_broken, rounds, rechecks, args.runs), flush=True)
        return
    if args.biased:
        print(
            "| examples | margin | above it | with rechecks | bias | with rechecks |\n"
            + "|---" * 6
            + "|"
        )
        for n, margin in product(args.examples, args.margins):
            print(biased(n, margin, args.runs), flush=True)
        return
    if args.steps:
        print(
            "| scores | method | evaluations | seen without a change | seen with one |\n"
            + "|---" * 5
            + "|"
        )
        for smooth, name, budget in product(
            (False, True), ("auto", "csr-sh", "uniform"), (60, 200)
        ):
            print(steps(smooth, name, budget, args.runs), flush=True)
        return
    if args.needed:
        head = [
            "examples",
            "repeatable",
            "disagree",
            "margin",
            "said",
            "median",
            "in 9 of 10 runs",
        ]
        print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
        for is_noisy, disagree, margin in product(
            (True, False), (0.05, 0.1, 0.2, 0.4), (0.05, 0.1)
        ):
            print(needed(300, disagree, margin, is_noisy, args.runs), flush=True)
        return
    if args.differences:
        head = ["true difference", *(f"margin {margin:g}" for margin in args.margins)]
        print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
        for difference in DIFFERENCES:
            print(
                decided(
                    args.examples[-1],
                    args.disagree[0],
                    difference,
                    args.margins,
                    args.runs,
                ),
                flush=True,
            )
        return
    if args.drift:
        head = [
            "method",
            "change after",
            "stopped early after it",
            "wrong",
            "said",
            "said without a change",
        ]
        print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
        for name, at in product(("race", "auto"), (0.02, 0.05, 0.1)):
            print(drift(name, args.examples[-1], at, args.runs), flush=True)
        return
    head = [
        "examples x rounds",
        "disagree",
        "margin",
        "repeatable",
        "flips",
        "false passes",
        "equal ones pass",
    ]
    head += ["evaluations each", "said"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for n, disagree, margin in product(args.examples, args.disagree, args.margins):
        for flips in (0.0, 0.1):  # declared rightly, and wrongly: taken at their word
            print(gate(n, disagree, margin, 1, flips, True, args.runs), flush=True)
        for rounds, flips in product(args.rounds, FLIPS):
            print(
                gate(n, disagree, margin, rounds, flips, False, args.runs), flush=True
            )
    print(
        "\n| examples | flips | interval holds | guaranteed | guaranteed and wrong | width |\n"
        + "|---" * 6
        + "|"
    )
    for n, flips in product(args.examples, FLIPS):
        print(coverage(n, flips, args.runs), flush=True)


if __name__ == "__main__":
    main()
