"""`asktell gate --estimate`: how many evaluations a verdict takes, and what they cost."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from asktell import InvalidArgumentError, Selector
from asktell.extend import Goal, aligned, when_decided
from asktell_adapters.cli.ruling import FAILED, PASSED, UNDECIDED, loss_in_words
from asktell_adapters.estimate import Estimate, amount, in_time

DIFFERENCES = (-0.1, -0.05, -0.02, 0.0, 0.02, 0.05, 0.1)
"""Of candidate and baseline, in parts of the metric's range."""

_MARGINS = (0.02, 0.05, 0.1, 0.2)
_DRAWS, _FEWEST_DRAWS, _MOST_SCORES = 200, 40, 200_000
_MOST_NEW = 2000  # examples, of those like the ones given


_START, _START_NOISY = 0.8, 3.0
"""What a sequence has to win beyond log(1 / error), because it does not know the best bet; by simulation."""

_LOOKS = 1.5
"""By how much the pairs grow from one look at noisy scores to the next; see `asktell.intervals.noisy`."""


def pairs_for_equal(
    population: int | None, squares: float, margin: float, confidence: float, is_noisy: bool
) -> int | None:
    """About how many pairs of evaluations it takes, in the median, to pass a candidate as good as the baseline.

    `population`: how many examples there are. `squares`: the mean square of the differences, in squares of the metric's
    range, as the margin is in its parts. None: no number suffices, since scores are noisy and the margin is 0.

    A bet wins margin² / (2 squares) on average of each pair, in logarithms, and has to win log(1 / error). Without
    noise the examples are exhausted at last, and the price of the bets falls on the way there. Checked against the rule
    itself by `python -m benchmarks.selection.unrepeatable --needed`.
    """
    if not is_noisy:
        if margin == 0:
            return population
        wanted = 2 * squares * (math.log(1 / (1 - confidence)) + _START) / margin**2
        return math.ceil(wanted if population is None else wanted / (1 + wanted / population))
    if margin == 0:
        return None
    return math.ceil(_LOOKS * 2 * squares * (math.log(1 / (1 - confidence)) + _START_NOISY) / margin**2)


@final
@dataclass(frozen=True)
class Expected:
    """What the gate will find if this is the difference."""

    difference: float  # candidate minus baseline, in parts of the metric's range; above 0 the candidate is better
    verdict: str  # the most frequent one
    often: float  # in which part of the cases
    examples: int | None  # that both prompts take, in the median; None if that is more than the budget allows
    examples_90: int | None  # the same in nine of ten cases
    # examples in the median if nothing of the verdict may depend on which examples were given; None: more than were
    # tried
    new: int | None


@final
@dataclass(frozen=True)
class GateEstimate:
    """What a gate takes, by the true difference; found by the gate's own rule on scores that were made up."""

    selector: Selector  # of the two prompts; nothing asked yet
    goal: Goal  # with the ranges that are known
    margin: float  # a loss that does not matter, in the metric's units
    confidence: float  # of the verdict
    # on which part of the examples the scores of the two prompts differ, if the means do not differ by more
    differ: float
    most: int  # examples for each prompt that the budget allows, those taken again included
    price: Estimate | None  # what all evaluations within the budget take; None if only a harness knows

    def __post_init__(self) -> None:
        if not 0 <= self.differ <= 1:
            raise InvalidArgumentError(f"--differ must be from 0 to 1, got {self.differ}.")
        if (metric := self._metric) not in self.goal.ranges:
            raise InvalidArgumentError(
                f"--estimate needs to know between which numbers {metric!r} is: ranges = {{ {metric} = [0, 1] }} in "
                "[goal], say."
            )

    @property
    def _metric(self) -> str:
        return self.goal.objectives[0].metric

    @property
    def _span(self) -> tuple[float, float]:
        return self.goal.ranges[self._metric]

    def expected(self, difference: float) -> Expected:
        problem = self.selector.state.problem
        n = problem.n_examples or self.most
        rounds = -(-self.most // n)
        rng = np.random.default_rng(0)
        draws = int(np.clip(_MOST_SCORES // self.most, _FEWEST_DRAWS, _DRAWS))
        population = made_up(n, difference, self.differ)
        orders = rng.permuted(np.tile(population, (draws, 1)), axis=1)
        found = when_decided(problem, np.tile(orders, rounds)[:, : self.most], *self._rule())
        decided = found.passed | found.failed
        counts = {PASSED: found.passed.mean(), FAILED: found.failed.mean(), UNDECIDED: 1 - decided.mean()}
        verdict = max(counts, key=lambda each: counts[each])
        median, most = (_quantile(found.examples, decided, q) for q in (0.5, 0.9))
        return Expected(difference, verdict, float(counts[verdict]), median, most, self.for_new(difference))

    def for_new(self, difference: float, margin: float | None = None) -> int | None:
        """Examples in the median until it is certain of all requests that the examples are drawn from."""
        rule = self._rule() if margin is None else (margin, *self._rule()[1:])
        if abs(difference + rule[0]) < 1e-9:
            return None
        endless = Selector(["0", "1"], self.selector.goal, 2 * _MOST_NEW, "uniform").state.problem
        rng = np.random.default_rng(1)
        draws = rng.choice(made_up(1000, difference, self.differ), (_FEWEST_DRAWS, _MOST_NEW))
        found = when_decided(endless, draws, *rule)
        return _quantile(found.examples, found.passed | found.failed, 0.5)

    def lines(self) -> Iterator[str]:
        metric, n = self._metric, self.selector.state.problem.n_examples or self.most
        if self.price is not None:
            yield from ["The gate takes at most:", "", *str(self.price).splitlines(), ""]
        rows = [self.expected(difference) for difference in DIFFERENCES]
        cells = [self._cells(row) for row in rows]
        yield f"It stops once it is certain. By the true difference in {metric} on these {n} examples:"
        yield ""
        yield from (f"  {line.rstrip()}" for line in aligned([[*cells[0]], *([*row.values()] for row in cells)]))
        yield ""
        yield (
            "evaluations: the median, and what is enough in 9 of 10 cases, on made-up scores, by the gate's own rule "
            f"with margin {self.margin:g} and confidence {self.confidence:g}."
        )
        yield "examples for new requests: how many it takes to say the same of requests that are not among them."
        yield " ".join(self._assumptions())
        yield from self._advice(rows, n)

    def _rule(self) -> tuple[float, float, int]:
        low, high = self._span
        return self.margin / (high - low), self.confidence, len(self.goal.objectives) + len(self.goal.constraints) + 1

    def _words(self, difference: float) -> str:
        low, high = self._span
        return loss_in_words(abs(difference) * (high - low), (low, high))

    def _cells(self, row: Expected) -> dict[str, str]:
        """A row of the table, by the heads of its columns."""
        sign = "better" if row.difference > 0 else "worse"
        new = f"over {_MOST_NEW:,}" if row.new is None else f"{row.new:,}"
        return {
            "true difference": f"{self._words(row.difference)} {sign}" if row.difference else "equal",
            "verdict": row.verdict + ("" if row.often >= 0.9 else f" ({100 * row.often:.0f} %)"),
            "evaluations": f"{self._count(row.examples)} ({self._count(row.examples_90)})",
            **self._price(2 * (row.examples or self.most)),
            "examples for new requests": "no number" if self._is_limit(row.difference) else new,
        }

    def _count(self, examples: int | None) -> str:
        return f"over {2 * self.most:,}" if examples is None else f"{2 * examples:,}"

    def _is_limit(self, difference: float) -> bool:
        """True if it is all that the margin allows: a sample, however large, does not tell on which side it is."""
        return abs(difference + self._rule()[0]) < 1e-9

    def _price(self, evaluations: int) -> dict[str, str]:
        if (price := self.price) is None or not price.evaluations:
            return {}
        part, judges = evaluations / price.evaluations, price.judges
        written = price.most_completion_tokens if price.completion_tokens is None else price.completion_tokens
        written += sum(judge.completion_tokens or judge.most_completion_tokens for judge in judges)
        tokens = price.prompt_tokens + written + sum(judge.prompt_tokens for judge in judges)
        cost = price.most_cost if price.cost is None else price.cost
        bound = "" if price.completion_tokens is not None else "at most "
        found = {
            "calls": f"{part * (price.calls + sum(judge.calls for judge in judges)):,.0f}",
            "tokens": f"{bound}{part * tokens:,.0f}",
        }
        if cost is not None:
            found["money"] = f"{bound}{amount(part * cost, price.currency)}"
        if price.seconds is not None:
            found["time"] = in_time(part * price.seconds)
        return found

    def _assumptions(self) -> Iterator[str]:
        low, high = self._span
        yield (
            f"Assumed: the two differ on {100 * self.differ:g} % of the examples (--differ), by the whole range of "
            f"{self._metric}, {low:g} to {high:g}, as right and wrong do; where they differ by less, it takes fewer."
        )
        if len(self.goal.objectives) + len(self.goal.constraints) > 1:
            yield "Also that everything else that is asked of the candidate is certain by then."
        if self.selector.state.problem.is_noisy:
            yield "Scores count as noisy, since an evaluation may give others when it is repeated."

    def _advice(self, rows: Sequence[Expected], n: int) -> Iterator[str]:
        """What to do where the examples or the budget are too few."""
        open_ = sorted({abs(row.difference) for row in rows if row.verdict == UNDECIDED})
        if open_:
            named = _or(self._words(each) if each else "no difference" for each in open_)
            cure = "more evaluations (`budget`)" if self.most < n else "more rows and evaluations"
            if not self.selector.state.problem.is_noisy:
                cure = f"`budget` = {2 * n} (all {n} examples decide)"
            yield f"Too few to decide {named}: take {cure}, or a larger --margin."
        if n * min(map(abs, filter(None, DIFFERENCES))) < 1:
            yield f"The smallest difference that {n} examples can show is {self._words(1 / n)}: one of them. Add rows."
        short = [row for row in rows if row.difference < 0 and not self._is_limit(row.difference)]
        short = [row for row in short if row.new is None or row.new > n]
        if not short:
            return
        yield (
            f"A verdict speaks of these {n} examples. They are too few to say the same of new requests if the "
            f"candidate is {_or(self._words(row.difference) for row in short)} worse: add rows, or widen the margin."
        )
        enough = next((m for m in _MARGINS if m > self._rule()[0] and (self.for_new(0.0, m) or n + 1) <= n), None)
        if enough is not None:
            low, high = self._span
            yield f"With --margin {enough * (high - low):g}, they are enough to pass an equal prompt for new requests."


def _quantile(examples: np.ndarray, decided: np.ndarray, part: float) -> int | None:
    n = np.quantile(np.where(decided, examples, np.inf), part, method="higher")
    return int(n) if np.isfinite(n) else None


def _or(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def made_up(n: int, difference: float, differ: float) -> np.ndarray:
    """(n,) differences of -1, 0 and 1 in no order, whose mean is as near to `difference` as n of them can be.

    `differ`: the part of them that is not 0, where it is possible.
    """
    net = round(n * difference)
    if difference and not net:
        net = 1 if difference > 0 else -1  # the smallest that there can be
    total = min(n, max(abs(net), round(n * differ)))
    total -= (total - net) % 2
    return np.repeat([1.0, -1.0, 0.0], [(total + net) // 2, (total - net) // 2, n - total])
