"""How often loops of self-improvement accept what is not better: `python -m benchmarks.selection.nights`.

In each night, 50 candidates arrive one by one, and a loop compares each of them with its
incumbent. There are two kinds of nights:

- equal: every candidate is exactly as good as the incumbent, so every acceptance is
  false.
- one in ten: every tenth candidate is better than the incumbent at that time by .05,
  and the others are as good as it.

Scores are of new inputs, 2000 of them in a night, in a random order that all candidates
share. A score is 0 or 1 (the prompt in use is right on 70% of the inputs, and equally
good prompts differ on about 20%), or between 0 and 1 (leads have a standard deviation
of .14).

The loops:

- referee: `asktell.Referee`, by its own functions. A test compares a night with that of
  a `Selector`.
- looks better: accepts a candidate whose mean on the first examples is higher.
- t-test: accepts a candidate that a one-sided paired t-test at 5% calls better, on the
  first examples.
- everything: evaluates every candidate on all inputs, and tests at 5% / 50.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from math import log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import norm, t

from asktell.methods.referee import BLOCK, LEAST_CHANCE, SOONEST, Referee, chance
from asktell.proofs.bounds import ROUNDING
from asktell.proofs.intervals.betting import Betting
from benchmarks.results import table

Array = npt.NDArray[np.float64]

CANDIDATES, INPUTS, GAIN = 50, 2000, 0.05
KINDS = ("0/1", "smooth")
_STRICT = 10 * ROUNDING


class Decision(NamedTuple):
    """Whether a loop accepted a candidate, and on how many examples it compared it."""

    accepted: bool
    examples: int


Judge = Callable[[Array, int, int], Decision]
"""A loop: a function of the leads, the number of the candidate (from 1), and how many were accepted before."""


class Night(NamedTuple):
    """What a loop did in a night.

    - `false`: the number of false acceptances.
    - `true`: the number of accepted improvements.
    - `first`: the evaluations until the first accepted improvement. None: there was none.
    - `evaluations`: all evaluations, also those of the incumbents.
    """

    false: int
    true: int
    first: int | None
    evaluations: int


def scores_of(kind: str, level: float, easy: Array, rng: np.random.Generator) -> Array:
    """The scores of a prompt of this level on inputs that are so easy (standard Gaussian)."""
    own = rng.standard_normal(len(easy))
    if kind == "0/1":
        score = np.sqrt(0.7) * easy + np.sqrt(0.3) * own < norm.ppf(level)
        return score.astype(np.float64)
    return np.clip(level - 0.2 + 0.15 * easy + 0.1 * own, 0.0, 1.0)


def night(
    kind: str,
    every: int | None,
    judge: Judge,
    seed: int,
    candidates: int = CANDIDATES,
) -> Night:
    """Play a night. `every`: each such candidate is an improvement. None: there are none."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    easy, level = rng.standard_normal(INPUTS), 0.7
    incumbent, seen = scores_of(kind, level, easy, rng), 0
    accepted = n_false = n_true = evaluations = 0
    first = None
    for number in range(1, candidates + 1):
        gain = GAIN if every is not None and number % every == 0 else 0.0
        candidate = scores_of(kind, level + gain, easy, rng)
        decision = judge(candidate - incumbent, number, accepted)
        # The incumbent is evaluated where it has no score.
        evaluations += decision.examples + max(0, decision.examples - seen)
        seen = max(seen, decision.examples)
        if not decision.accepted:
            continue
        accepted += 1
        incumbent, seen, level = candidate, decision.examples, level + gain
        if gain:
            n_true += 1
            first = evaluations if first is None else first
        else:
            n_false += 1
    return Night(n_false, n_true, first, evaluations)


def referee(leads: Array, number: int, accepted: int, each: int) -> Decision:
    """What a `Referee` decides. Its goal has one metric from 0 to 1, and no tolerance."""
    method, betting = Referee(each=each), Betting(-1.0, 1.0)
    error, reach = method.error(number, accepted), 0
    for n in range(BLOCK, each + 1, BLOCK):
        if n > reach:
            # Most candidates need few of their evaluations
            reach = min(each, max(60, 4 * reach))
            x = leads[:reach]
            won = betting.log_capital(x, _STRICT) >= -log(error)
            # "Not better" has half of the error, beside the statement on failures
            lost = betting.log_capital(-x, -_STRICT) >= -log(
                (1 - method.confidence) / 2
            )
        mean = leads[:n].mean()
        if mean <= 0 and lost[:n].any():
            return Decision(False, n)
        if mean >= 0 and won[:n].any():
            return Decision(True, n)
        if SOONEST <= n < each and chance(leads[:n], each, error, 1.0) < LEAST_CHANCE:
            return Decision(False, n)
    return Decision(False, each)


def looks_better(leads: Array, number: int, accepted: int, each: int) -> Decision:
    """Accept a candidate with the higher mean on the first examples."""
    return Decision(bool(leads[:each].mean() > 0), each)


def t_test(
    leads: Array, number: int, accepted: int, each: int, error: float
) -> Decision:
    """Accept a candidate that a one-sided t-test on the first examples calls better."""
    x = leads[:each]
    statistic = x.mean() / max(x.std(ddof=1), 1e-12) * np.sqrt(each)
    return Decision(bool(t.sf(statistic, each - 1) < error), each)


LOOPS: dict[str, Judge] = {
    "referee, each=200": partial(referee, each=200),
    "referee, each=500": partial(referee, each=500),
    "referee, each=2000": partial(referee, each=2000),
    "looks better on 50": partial(looks_better, each=50),
    "looks better on 200": partial(looks_better, each=200),
    "t-test on 200": partial(t_test, each=200, error=0.05),
    "everything": partial(t_test, each=INPUTS, error=0.05 / CANDIDATES),
}


def row(kind: str, every: int | None, loop: str, nights: int) -> Iterator[str]:
    """The cells of a row: settings, then what the loop did, in its nights."""
    played = [night(kind, every, LOOPS[loop], seed) for seed in range(nights)]
    n_false = sum(n.false > 0 for n in played)
    yield from (kind, "equal" if every is None else "one in ten", loop, str(nights))
    yield f"{n_false} ({100 * n_false / nights:.1f} %)"
    yield f"{sum(n.false for n in played) / nights:.2f}"
    yield f"{sum(n.evaluations for n in played) / nights:,.0f}"
    if every is None:
        yield from ("-", "-", "-")
        return
    firsts = [n.first for n in played if n.first is not None]
    yield f"{sum(n.true for n in played) / nights:.2f} of {CANDIDATES // every}"
    yield f"{100 * len(firsts) / nights:.0f} %"
    yield f"{np.median(firsts):,.0f}" if firsts else "-"


def main() -> None:
    """Parse the command line and print a row per kind of night and loop."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=list(LOOPS))
    parser.add_argument("--nights", type=int, default=400)
    args = parser.parse_args()
    header = (
        "scores", "nights", "loop", "number", "with a false acceptance", "false acceptances", "evaluations",
        "improvements accepted", "with an improvement", "evaluations until the first",
    )  # fmt: skip
    print(table(header, ()), flush=True)
    for kind in args.kinds:
        for every in (None, 10):
            # A false acceptance is rare, so it needs more nights than an improvement.
            nights = args.nights if every is None else max(1, args.nights // 4)
            for loop in args.loops:
                cells = " | ".join(row(kind, every, loop, nights))
                print(f"| {cells} |", flush=True)


if __name__ == "__main__":
    main()
