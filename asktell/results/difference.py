"""The lead of one prompt over another in one metric, with an interval that holds at every look, or at one look."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asktell.numerics.arrays import Floats, decimal
from asktell.numerics.shapes import Float
from asktell.proofs.bounds import ROUNDING, interval_of_mean

BETTER, WORSE, EQUAL, UNDECIDED = "better", "worse", "equal", "undecided"


@dataclass(frozen=True)
class Difference:
    """The difference of two prompts in one metric: a minus b, also if the metric is minimized.

    Attributes:
        estimate: the estimated difference a minus b, in the metric's units. It comes
            from the same statistical model as all other estimates. None if one of the
            prompts has no scores yet.
        low: the lower end of the interval of the difference. The interval stays valid
            no matter how often you look while scores arrive. In a finished table
            (`asktell.analyze`), and at the end of a selection whose budget was fixed
            beforehand, it is for one look, and therefore narrower. It does not depend
            on the statistical model, but it always contains the estimate. None if the
            range of the metric is unknown and there are too few pairs for an interval.
        high: the upper end of the interval. None as for `low`.
        p_better: the probability that a is better than b, according to the statistical
            model. If the metric is minimized, better means lower.
        pairs: the number of examples that the interval is computed from. The examples
            have one random order. The interval uses the examples from the beginning of
            this order up to the first example that one of the two prompts has not
            completed. Later examples do not count, because the choice of these examples
            may depend on scores. In a finished table, all common examples count.
        verdict: "equal" if the whole interval is within the tolerance. Otherwise,
            "better" or "worse" (prompt a) if 0 is outside the interval, and "undecided"
            if it is not.
        guaranteed: True if the confidence of the interval holds for any distribution of
            scores. It is False for an interval for one look, which is approximate,
            unless the difference is exact. Otherwise, there are two conditions. First,
            the range of the metric is declared. With inputs="given", it is also enough
            that both prompts were evaluated without noise on all examples. Second, no
            evaluation of the two prompts on
            the examples at the beginning of the order (see `pairs`) failed, both
            prompts were in the selection from the start, no remark is `doubtful`, and
            the check "drift" found no change of the evaluated LLM. With sampling="iid",
            it is always False if the selection has a fixed set of examples, because a
            draw can repeat an example.
    """

    estimate: float | None
    low: float | None
    high: float | None
    p_better: float
    pairs: int
    verdict: str
    guaranteed: bool


def wins_and_losses(
    a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], minimize: bool
) -> npt.NDArray[np.int64]:
    """1 where a score of `a` is better than that of `b` at the same place, -1 where it is worse, and 0 where they tie.

    This is the rule for "scored worse" on every surface. A difference that is only an
    error of rounding is a tie. Such errors are in the means of repeated evaluations.
    """
    largest = float(np.abs(np.concatenate((a, b))).max(initial=0.0))
    signs = np.sign(decimal(a - b, largest)).astype(np.int64)
    return -signs if minimize else signs


def compare(
    scores_a: npt.ArrayLike,
    scores_b: npt.ArrayLike,
    estimate: float | None = None,
    p_better: float = 0.5,
    *,
    population: int | None = None,
    limits: tuple[float, float] | None = None,
    confidence: float = 0.95,
    tolerance: float = 0.0,
    minimize: bool = False,
    rounds: int | None = None,
    guaranteed: bool = True,
    looks_once: bool = False,
) -> Difference:
    """Compare two prompts in one metric, from their (n,) scores on the same examples.

    P(the interval excludes the difference at any look) <= 1 - `confidence`, under (i) to
    (iii) of `asktell.proofs.claims`. So the order of the examples must not depend on
    any score. If several intervals are read together, divide the error among them.

    Args:
        scores_a: scores of prompt a, in units of the metric.
        scores_b: scores of prompt b on the same examples.
        estimate: the difference a minus b according to the model. None: the mean of the
            differences.
        p_better: the probability that a is better according to the model.
        population: the number of examples, each evaluated once. None: independent draws
            of new inputs.
        limits: the lowest and the highest possible score. None if unknown.
        confidence: the probability that the interval contains the difference at every
            look.
        tolerance: the largest difference that counts as equal.
        minimize: True if less is better.
        rounds: how often all examples may be evaluated, if scores are noisy. The scores
            are then listed round by round, and the mean over the examples is never
            known exactly. None: scores are not noisy.
        guaranteed: False if something else prevents a guarantee.
        looks_once: True for scores that nobody looked at while they were recorded, and
            whose number was fixed beforehand. The interval is then for one look
            (`asktell.proofs.intervals.one_look`), and never guaranteed. `scores_a` and
            `scores_b` are means over the evaluations of an example.

    The interval always contains the estimate. The model has more data than the common
    examples, so its estimate may be outside of their interval, which then extends to it.

    If all examples were evaluated without noise, the exact difference replaces the
    estimate and the interval.
    """
    a = np.asarray(scores_a, dtype=np.float64)
    b = np.asarray(scores_b, dtype=np.float64)
    scores = np.concatenate([a, b])
    n, largest = len(a), float(np.abs(scores).max(initial=0.0))
    mean = _mean_difference(a, b, largest)
    estimate = mean if estimate is None else estimate
    is_known_range = limits is not None
    # Limits that were guessed from the scores give an interval, but no guarantee.
    if limits is None and n and np.isin(scores, (0.0, 1.0)).all():
        limits = (0.0, 1.0)
    if n == 0 and limits is None:
        return Difference(estimate, None, None, p_better, 0, UNDECIDED, False)
    is_exact = n > 0 and n == population and rounds is None
    if looks_once:
        guaranteed = is_exact and guaranteed
    if is_exact and mean is not None:
        low = high = estimate = mean
        p_better = 0.5 if mean == 0.0 else float((mean > 0) != minimize)
    else:
        differences = decimal(a - b, largest)
        low, high = interval_of_mean(
            differences, scores, population, limits, 1 - confidence, rounds, looks_once
        )
        if estimate is not None:
            low, high = min(low, estimate), max(high, estimate)
    return Difference(
        estimate,
        *_shown(low, high, scores, limits),
        p_better,
        _n_pairs(n, population, rounds),
        _verdict(low, high, tolerance, minimize),
        guaranteed and (is_exact or is_known_range),
    )


def _n_pairs(n: int, population: int | None, rounds: int | None) -> int:
    """The number of distinct examples. With rounds, an example may give several differences."""
    return min(n, population) if rounds is not None and population else n


def _mean_difference(
    a: Float[Floats, " n"], b: Float[Floats, " n"], largest: float
) -> float | None:
    """The mean of a - b, None without scores. A mean within rounding errors of 0 is 0. `largest`: absolute score."""
    if not len(a):
        return None
    mean = math.fsum((a - b).tolist()) / len(a)
    return 0.0 if abs(mean) <= ROUNDING * largest else mean


def _shown(
    low: float,
    high: float,
    scores: Float[Floats, " n"],
    limits: tuple[float, float] | None,
) -> tuple[float | None, float | None]:
    """The bounds as far as they are informative, else None."""
    if limits is None and high - low > 2 * np.ptp(scores):
        # With few scores, an asymptotic interval is wider than any difference of two
        # recorded scores.
        return None, None
    return low if math.isfinite(low) else None, high if math.isfinite(high) else None


def _verdict(low: float, high: float, tolerance: float, minimize: bool) -> str:
    """The verdict about the interval from `low` to `high`, see `Difference`."""
    if -tolerance <= low and high <= tolerance:
        return EQUAL
    if low > 0 or high < 0:
        return BETTER if (low > 0) != minimize else WORSE
    return UNDECIDED
