"""The mean grade humans would give, from many grades of a judge and a few of humans.

Source: Angelopoulos, Bates, Fannjiang, Jordan & Zrnic 2023, "Prediction-powered inference", algorithm 1; the weight is
that of Angelopoulos, Duchi & Zrnic 2023, "PPI++", equation 8, found without the label that it is used on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from asktell import InvalidArgumentError

_FEWEST = 5  # labels
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
    if weight is None:
        weights = _best_weights(human, near, far)
    elif np.isfinite(weight):
        weights = np.full(len(human), float(weight))
    else:
        raise InvalidArgumentError(f"weight must be a finite number, got {weight!r}.")
    rest, used = human - weights * near, float(weights.mean())
    mean = used * float(far.mean()) + float(rest.mean())
    of_labels, of_judge = float(rest.var(ddof=1)) / len(rest), used**2 * float(far.var(ddof=1)) / len(far)
    of_labels += _UNSEEN * _size_of_unseen(human, near, rest) ** 2 / (len(rest) * (len(rest) + 1))
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


def _size_of_unseen(human: np.ndarray, near: np.ndarray, rest: np.ndarray) -> float:
    """How far off a label of a kind that was not seen would be; 0 where the labels' own spread tells.

    Labels of 0 and 1 (and their differences) say next to nothing of their spread as long as they agree.
    """
    if np.isin(human, (-1.0, 0.0, 1.0)).all():
        return 1.0
    return 0.0 if np.ptp(rest) > 0 else float(np.ptp(np.concatenate([human, near])))


def _best_weights(human: np.ndarray, near: np.ndarray, far: np.ndarray) -> np.ndarray:
    """For each labelled answer, the weight that leads to the least error by all the others."""
    n, total = len(human), len(near) + len(far) - 1  # without the one
    center = float(np.concatenate([near, far]).mean())
    y, f = human - human.mean(), near - center
    sum_f = float(f.sum()) - f
    covariance = (float(y @ f) - y * f + y * sum_f / (n - 1)) / (n - 2)
    squares = float(f @ f) + float(np.square(far - center).sum()) - f**2
    spread = (squares - f**2 / total) / (total - 1)
    some = spread > 1e-12 * max(1.0, center**2)
    best = covariance / np.where(some, (1 + (n - 1) / len(far)) * spread, 1.0)
    return np.asarray(np.clip(np.where(some, best, 0.0), 0.0, 1.0))
