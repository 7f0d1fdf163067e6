"""The mean grade humans would give, from many grades of a judge and a few of humans.

Source: Angelopoulos, Bates, Fannjiang, Jordan & Zrnic 2023, "Prediction-powered inference", algorithm 1; the weight is
the slope of the regression of labels on the judge's scores, as of Angelopoulos, Duchi & Zrnic 2023, "PPI++".

Differences: the slope is learnt from the labelled answers alone and shrunk towards 1, and the variance has a part for
what the labels did not show. PPI++ divides by the variance of all of the judge's scores. Where bad grades are rare and
none was labelled, that makes a perfect judge look useless: the weight is 0, and the bad grades are overlooked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from asktell import InvalidArgumentError

_FEWEST = 5  # labels
_TRUST = 2.0  # labels; by simulation (`benchmarks.selection.judge_correction`)
_NO_SPREAD = 1e-12  # in squares of the scores; numerical
_UNSEEN = 2.0  # 1.96 roots of it reach 2.8 / n, about the rule of three: what n labels did not show may be 3 / n of all


@final
@dataclass(frozen=True)
class CorrectedMean:
    """The mean of what humans would say of all answers.

    Attributes:
        mean: in units of the scores.
        standard_error: of it.
        interval: holds the mean with the confidence asked for, approximately (Student's t). For labels of 0 and 1 it
            allows for what the labels did not show, so that it is never a point.
        judge_alone: the mean of the judge's scores, of all answers.
        humans_alone: the mean of the labels.
        bias: of the judge, by which it scores higher than the humans, on the labelled answers.
        weight: how far the judge was listened to: 0 is not at all.
    """

    mean: float
    standard_error: float
    interval: tuple[float, float]
    judge_alone: float
    humans_alone: float
    bias: float
    weight: float


def corrected_mean(
    labels: Sequence[float],
    judged: Sequence[float],
    others: Sequence[float],
    *,
    confidence: float = 0.95,
    weight: float | None = None,
) -> CorrectedMean:
    """Estimate the mean that humans would give, however wrong the judge is.

    The labelled answers must be drawn at random from all: then the estimate is right on average, and the judge's bias
    only makes it less sure. For two prompts, give the differences of their scores on the same examples.

    Args:
        labels: what humans said of the labelled answers. At least 5.
        judged: what the judge said of the same answers, in the same order.
        others: what the judge said of the answers that have no label. At least 2.
        confidence: of the interval.
        weight: how far to listen to the judge: 1 is the paper's estimate, 0 leaves it out; by default as far as it
            makes the estimate surer, learnt from the labels.
    """
    human, near, far = (np.asarray(given, dtype=float) for given in (labels, judged, others))
    if human.ndim != 1 or human.shape != near.shape or far.ndim != 1:
        raise InvalidArgumentError(
            f"labels and judged must be flat and of one length, and others flat, got shapes {human.shape}, "
            f"{near.shape} and {far.shape}."
        )
    if len(human) < _FEWEST or len(far) < 2:
        raise InvalidArgumentError(
            f"There must be at least {_FEWEST} labels and 2 other scores, got {len(human)} and {len(far)}."
        )
    if not all(np.isfinite(given).all() for given in (human, near, far)):
        raise InvalidArgumentError("labels, judged and others must be finite; leave out answers that were not judged.")
    if not 0 < confidence < 1:
        raise InvalidArgumentError(f"confidence must be between 0 and 1, got {confidence!r}.")
    if weight is not None and not np.isfinite(weight):
        raise InvalidArgumentError(f"weight must be a finite number, got {weight!r}.")
    used = _slope(human, near, far) if weight is None else float(weight)
    rest = human - used * near
    mean = used * float(far.mean()) + float(rest.mean())
    of_labels, of_judge = float(rest.var(ddof=1)) / len(rest), used**2 * float(far.var(ddof=1)) / len(far)
    of_labels += _variance_of_unseen(human, near, far, used)
    variance = of_labels + of_judge
    # Welch and Satterthwaite: two variances, each known from so many.
    parts = of_labels**2 / (len(rest) - 1) + of_judge**2 / (len(far) - 1)
    freedom = variance**2 / parts if parts > 0 else np.inf
    error = float(np.sqrt(variance))
    from scipy import stats  # late: it takes half a second, and every start of the command line would

    reach = float(stats.t.ppf((1 + confidence) / 2, freedom)) * error
    return CorrectedMean(
        mean=mean,
        standard_error=error,
        interval=(mean - reach, mean + reach),
        judge_alone=float(np.concatenate([near, far]).mean()),
        humans_alone=float(human.mean()),
        bias=float((near - human).mean()),
        weight=used,
    )


def _slope(human: np.ndarray, near: np.ndarray, far: np.ndarray) -> float:
    """Of labels on the judge's scores, from 0 to 1, as if `_TRUST` more labels had agreed with the judge."""
    off = near - near.mean()
    agreed = _TRUST * float(np.concatenate([near, far]).var(ddof=1))
    squares = float(off @ off) + agreed
    if squares <= _NO_SPREAD * max(1.0, float(np.abs(near).max()) ** 2):
        return 0.0  # the judge always says the same
    return float(np.clip((float(off @ (human - human.mean())) + agreed) / squares, 0.0, 1.0))


def _variance_of_unseen(human: np.ndarray, near: np.ndarray, far: np.ndarray, weight: float) -> float:
    """How much the mean may be off, squared, because of answers of a kind that no label was of.

    Labels of 0 and 1 (and their differences) show next to nothing of their spread as long as they agree. Grades show
    too little of it where they are skewed, so that there are few labels, or none, on the side where scores go farther.
    """
    few = _UNSEEN / (len(human) * (len(human) + 1))
    if np.isin(human, (-1.0, 0.0, 1.0)).all():
        return few
    everything = np.concatenate([human, near, far])
    # The judge is not listened to: answers to which people would give such grades may be anywhere.
    farther = abs(float(everything.max() + everything.min() - 2 * human.mean()))
    of_labels = few * ((1 - weight) * farther) ** 2
    # The judge is listened to: it is known how often it gives such scores, and not whether people agree.
    of_judge = (weight * float(np.abs(far - np.clip(far, near.min(), near.max())).mean())) ** 2
    # The judge was right without exception, in so few cases.
    of_errors = few * float(everything.var()) if np.ptp(human - weight * near) == 0 else 0.0
    return of_labels + of_judge + of_errors
