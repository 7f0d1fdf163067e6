"""Is one prompt better than another, and how sure is that?"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from asktell.arguments import short
from asktell.errors import InvalidArgumentError
from asktell.intervals.asymptotic import Asymptotic
from asktell.intervals.noisy import bounded
from asktell.intervals.paired_posterior import p_positive
from asktell.numerics.rounding import decimal, mostly_equal
from asktell.terminal import safe

BETTER, WORSE, EQUAL, UNDECIDED = "better", "worse", "equal", "undecided"
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Difference:
    """How far prompt a is ahead of prompt b in one metric, in its own units; None where nothing is known.

    `estimate` is a minus b, `low` and `high` its interval (None where the pairs are too few to bound it), `p_better`
    the probability that a is better in the metric's direction, `pairs` the number of common examples. `verdict`:
    "equal" if the interval is within the tolerance, else "better" or "worse" if zero is outside it, else "undecided".
    `guaranteed`: the interval holds at every look; it needs a known range and examples in an order that does not depend
    on scores, or all examples; and no doubt that an evaluation gives the same scores when it is repeated, unless noise
    is allowed for (`repeats` above 1). All of it speaks of the examples given; of new examples like them if there is no
    end of them.
    """

    estimate: float | None
    low: float | None
    high: float | None
    p_better: float
    pairs: int
    verdict: str
    guaranteed: bool


@dataclass(frozen=True)
class Comparison:
    """Prompt `a` against prompt `b`; `str()` is a sentence for every metric, and one that says what they rest on.

    `examples`: how many there are (None: any number). `tolerance`: differences up to it do not matter. `unless`: the
    conditions under which the intervals do not hold.
    """

    a: str | int
    b: str | int
    confidence: float
    differences: Mapping[str, Difference]
    examples: int | None = None
    tolerance: float = 0.0
    unless: str = ""

    @property
    def guaranteed(self) -> bool:
        """Whether every interval is guaranteed, as far as an evaluation gives the same scores when it is repeated."""
        return all(difference.guaranteed for difference in self.differences.values())

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON-ready data, with the same names."""
        return {**asdict(self), "guaranteed": self.guaranteed}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Comparison":
        """What `to_dict` made `data` of."""
        differences = {name: Difference(**each) for name, each in data["differences"].items()}
        others = {name: data[name] for name in ("a", "b", "confidence", "examples", "tolerance", "unless")}
        return cls(**others, differences=differences)

    def __str__(self) -> str:
        lines = [f"{safe(name)}: {self.sentence(name)}" for name in self.differences]
        return "\n".join([*lines, *([self.premise] if self.premise else [])])

    @property
    def premise(self) -> str:
        """What the verdicts rest on, as a sentence; empty without a verdict, or if they rest on the scores alone."""
        decided = any(difference.verdict != UNDECIDED for difference in self.differences.values())
        return f"This holds with confidence {self.confidence:g} {self.unless}." if decided and self.unless else ""

    def sentence(self, metric: str) -> str:
        """What is to be said about one metric."""
        difference = self.differences[metric]
        a, b = safe(str(self.a)), safe(str(self.b))
        if difference.estimate is None:
            return f"{a} and {b} have no example in common yet"
        of = "" if self.examples is None else f" of {self.examples}"
        where = f"on {difference.pairs}{of} example{'' if (self.examples or difference.pairs) == 1 else 's'}"
        amount = f"{difference.estimate:+.3g}"
        if difference.low is not None and difference.high is not None and difference.low < difference.high:
            amount += f" [{difference.low:+.3g}, {difference.high:+.3g}]"
        amount += f" {where}" + ("" if difference.low is not None else ", too few to bound it")
        if difference.verdict == EQUAL:
            within = f" within {self.tolerance:g}" if self.tolerance else ""
            return f"{a} and {b} are equal{within}: {amount}"
        if difference.verdict in (BETTER, WORSE):
            return f"{a} is {difference.verdict} than {b}: {amount}"
        if difference.p_better == 0.5:
            how = "are level" if difference.estimate == 0 else "are not told apart"
            return f"{a} and {b} {how} so far: {amount}"
        word = BETTER if difference.p_better > 0.5 else WORSE
        probability = max(difference.p_better, 1 - difference.p_better)
        stated = f"{probability:.2f}" if probability < 0.995 else "over 0.99"
        return f"{a} is {word} than {b} with probability {stated}, undecided: {amount}"


def compare(
    scores_a: npt.ArrayLike,
    scores_b: npt.ArrayLike,
    *,
    population: int | None = None,
    limits: tuple[float, float] | None = None,
    confidence: float = 0.95,
    tolerance: float = 0.0,
    minimize: bool = False,
    random_order: bool = True,
    rounds: int | None = None,
) -> Difference:
    """One metric of two prompts, from their scores of the same examples, in the order in which they were taken.

    Args:
        scores_a: (n,) scores of the one prompt.
        scores_b: (n,) scores of the other, of the same examples.
        population: how many examples there are, each taken once; None: independent draws from any number.
        limits: the lowest and the highest score there can be; None: unknown.
        confidence: how often an interval has to be right. Whoever reads several divides the error among them.
        tolerance: differences up to it do not matter.
        minimize: whether less is better.
        random_order: whether the order of the examples is random and does not depend on scores.
        rounds: how often all examples may be taken, if scores are noisy; None if they are not. Scores are given round
            by round: all examples in their order, and again. What counts is the mean over the examples of the expected
            difference, so no number of them makes that known exactly.

    Raises:
        InvalidArgumentError: an argument cannot be used; a score is outside its limits.
    """
    a, b = np.asarray(scores_a, dtype=np.float64), np.asarray(scores_b, dtype=np.float64)
    _check(a, b, confidence, tolerance)
    scores = np.concatenate([a, b])
    if limits is not None:
        _check_limits(scores, limits)
    n, differences = len(a), decimal(a - b, float(np.abs(scores).max(initial=0.0)))
    noisy = rounds is not None
    exhausted = n > 0 and n == population and not noisy
    guaranteed = exhausted or (limits is not None and random_order)
    if limits is None and np.isin(scores, (0.0, 1.0)).all() and n:
        limits = (0.0, 1.0)
    if n == 0 and limits is None:
        return Difference(None, None, None, 0.5, 0, UNDECIDED, False)
    if limits is not None:
        width = limits[1] - limits[0]
        sequence = bounded(-width, width, population, rounds)
        low, high = (float(x) for x in sequence.interval(differences, 1 - confidence))
    else:
        scale = np.ptp(scores) if mostly_equal(differences) else 0.0
        draws = Asymptotic(None if noisy else population)
        low, high = (float(x) for x in draws.interval(differences, 1 - confidence, scale))
    estimate = _mean(a - b, float(np.abs(scores).max())) if n else None
    if exhausted and estimate is not None:
        low = high = estimate
    verdict = _verdict(low, high, tolerance, minimize)
    if limits is None and high - low > 2 * np.ptp(scores):
        # Of few scores an asymptotic interval is wider than any difference of two that were seen, which says nothing.
        low, high = -math.inf, math.inf
    two_valued = len(np.unique(scores)) <= 2
    p_above = p_positive(differences, None if noisy else population, two_valued=two_valued) if n else 0.5
    return Difference(
        estimate,
        low if math.isfinite(low) else None,
        high if math.isfinite(high) else None,
        1 - p_above if minimize else p_above,
        min(n, population) if noisy and population else n,
        verdict,
        guaranteed,
    )


def _verdict(low: float, high: float, tolerance: float, minimize: bool) -> str:
    if -tolerance <= low and high <= tolerance:
        return EQUAL
    if low > 0 or high < 0:
        return BETTER if (low > 0) != minimize else WORSE
    return UNDECIDED


def _mean(differences: npt.NDArray[np.float64], largest: float) -> float:
    mean = math.fsum(differences.tolist()) / len(differences)
    # Sums of decimal fractions that are equal differ by some units in the last place.
    return 0.0 if abs(mean) <= _ROUNDING * largest else mean


def _check(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], confidence: float, tolerance: float) -> None:
    if a.ndim != 1 or a.shape != b.shape:
        raise InvalidArgumentError(
            f"compare() takes two lists of scores of the same examples, got shapes {a.shape} and {b.shape}."
        )
    check_confidence(confidence, tolerance)


def check_confidence(confidence: object, tolerance: object) -> None:
    """Refuse what is no confidence, or no tolerance."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise InvalidArgumentError(f"The confidence must be between 0 and 1, as 0.95 is; got {short(confidence)}.")
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise InvalidArgumentError(f"The tolerance must be a finite number from 0, got {short(tolerance)}.")


def _check_limits(scores: npt.NDArray[np.float64], limits: tuple[float, float]) -> None:
    if not -math.inf < limits[0] < limits[1] < math.inf:
        raise InvalidArgumentError(f"The limits of scores are two finite numbers, low < high; got {limits}.")
    outside = scores[(scores < limits[0]) | (scores > limits[1])]
    if outside.size:
        raise InvalidArgumentError(f"A score, {outside[0]}, is outside its range {limits}.")
