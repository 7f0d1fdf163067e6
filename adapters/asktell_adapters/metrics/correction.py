"""The mean grade that humans would give, estimated from many grades of a judge and a few grades of humans.

Source: Angelopoulos, Bates, Fannjiang, Jordan & Zrnic 2023, "Prediction-powered
inference", algorithm 1. The weight is the slope of the regression of labels on the
judge's scores, as in Angelopoulos, Duchi & Zrnic 2023, "PPI++".

Differences: the slope is learned from the labeled responses alone and shrunk towards 1,
and the variance has a term for kinds of responses without labels. PPI++ divides by the
variance of all scores of the judge. If bad grades are rare and none of them has a
label, this makes a perfect judge look useless: the weight is 0, and the bad grades are
overlooked.

This is for a random sample of labels, without a model. In a selection with the judge as
a proxy, labels are no random sample, and the estimates of the result correct the judge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias, final

import numpy as np
import numpy.typing as npt

from asktell import InvalidArgumentError

Floats: TypeAlias = npt.NDArray[np.float64]

_FEWEST = 5  # labels
_TRUST = 2.0  # labels, chosen by simulation (`benchmarks.selection.judge_correction`)
_NO_SPREAD = 1e-12  # in squared units of the scores, for rounding errors
# With variance _UNSEEN / n², 1.96 standard errors reach 2.8 / n. That is about the rule
# of three: a kind of response that does not occur among n labels may be 3 / n of all
# responses.
_UNSEEN = 2.0


@final
@dataclass(frozen=True)
class CorrectedMean:
    """The estimated mean of the labels that humans would give to all responses, in units of the labels.

    Attributes:
        mean: the estimate.
        standard_error: the standard error of the estimate.
        interval: the ends of an interval that contains the true mean with about the
            requested confidence. It takes into account that rare kinds of responses
            may have no label. So its ends differ even if all labels are 0, or all
            are 1.
        judge_alone: for comparison, the mean of the judge's scores of all responses.
        humans_alone: for comparison, the mean of the labels.
        bias: mean of the judge's score minus the label, over the labeled responses. It
            is positive if the judge gives higher scores than humans.
        weight: the weight of the judge's scores in the estimate. If it was not passed,
            it is between 0 (the judge is ignored) and 1.
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
    """Estimate the mean label that humans would give to all responses, although only some have a label.

    All responses have a score by a judge. The labeled responses must be drawn at random
    from all responses. Then the estimate is right on average, however wrong the judge
    is. A worse judge only makes the interval wider.

    ```python
    labels = [1] * 24 + [0] * 16  # by humans
    judged = [1] * 28 + [0] * 12  # by the judge, for the same responses
    others = [1] * 150 + [0] * 50  # by the judge, for the other responses
    found = corrected_mean(labels, judged, others)
    print(f"{found.mean:.2f}, {found.interval[0]:.2f} to {found.interval[1]:.2f}")
    # prints 0.64, 0.51 to 0.77
    ```

    To compare two prompts, pass differences in all three arguments. Each number is then
    the first prompt's label or score minus the second prompt's on the same example.

    With the weight w, the estimate is w * mean(others) + mean(labels - w * judged). The
    second term removes the bias of the first. Source: Angelopoulos et al. 2023,
    "Prediction-powered inference", and Angelopoulos, Duchi & Zrnic 2023, "PPI++".

    Args:
        labels: labels by humans, shape (n,) with n at least 5.
        judged: the judge's scores of the same responses in the same order, shape (n,).
        others: the judge's scores of the responses without labels, shape (M,) with M at
            least 2.
        confidence: confidence of the interval, between 0 and 1.
        weight: weight of the judge's scores. 0 ignores the judge. 1 is plain
            prediction-powered inference. None: the weight that makes the estimate most
            precise is learned from the labels.

    Raises:
        InvalidArgumentError: a shape or number is invalid, or there are too few labels
            or scores.
    """
    human, near, far = (
        np.asarray(scores, dtype=float) for scores in (labels, judged, others)
    )
    if human.ndim != 1 or human.shape != near.shape or far.ndim != 1:
        raise InvalidArgumentError(
            f"labels and judged must be flat and have the same length, and others must be flat, got shapes "
            f"{human.shape}, {near.shape} and {far.shape}."
        )
    if len(human) < _FEWEST or len(far) < 2:
        raise InvalidArgumentError(
            f"labels has {len(human)} scores, and others has {len(far)}. At least {_FEWEST} labels, and 2 scores of "
            "other responses, are needed."
        )
    for name, scores in (("labels", human), ("judged", near), ("others", far)):
        for position in np.flatnonzero(~np.isfinite(scores)):
            raise InvalidArgumentError(
                f"{name} must be finite numbers, but {name}[{position}] is {scores[position]}. Leave out responses "
                "without a label or a judgement."
            )
    if not 0 < confidence < 1:
        raise InvalidArgumentError(
            f"confidence must be above 0 and below 1, got {confidence!r}."
        )
    if weight is not None and not np.isfinite(weight):
        raise InvalidArgumentError(f"weight must be a finite number, got {weight!r}.")
    used = _slope(human, near, far) if weight is None else float(weight)
    rest = human - used * near
    mean = used * float(far.mean()) + float(rest.mean())
    of_labels, of_judge = (
        float(rest.var(ddof=1)) / len(rest),
        used**2 * float(far.var(ddof=1)) / len(far),
    )
    of_labels += _variance_of_unseen(human, near, far, used)
    variance = of_labels + of_judge
    # Degrees of freedom of a sum of two estimated variances (Welch 1947, Satterthwaite
    # 1946).
    parts = of_labels**2 / (len(rest) - 1) + of_judge**2 / (len(far) - 1)
    freedom = variance**2 / parts if parts > 0 else np.inf
    error = float(np.sqrt(variance))
    # Imported here, because it takes half a second, also at every start of the command
    # line
    from scipy import stats

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


def _slope(
    human: Annotated[Floats, " labels"],
    near: Annotated[Floats, " labels"],
    far: Annotated[Floats, " others"],
) -> float:
    """The slope of labels on the judge's scores, from 0 to 1, as if `_TRUST` more labels had agreed with the judge."""
    off = near - near.mean()
    agreed = _TRUST * float(np.concatenate([near, far]).var(ddof=1))
    squares = float(off @ off) + agreed
    if squares <= _NO_SPREAD * max(1.0, float(np.abs(near).max()) ** 2):
        # The judge gives every response the same score.
        return 0.0
    return float(
        np.clip((float(off @ (human - human.mean())) + agreed) / squares, 0.0, 1.0)
    )


def _variance_of_unseen(
    human: Annotated[Floats, " labels"],
    near: Annotated[Floats, " labels"],
    far: Annotated[Floats, " others"],
    weight: float,
) -> float:
    """The variance of the mean due to kinds of responses that have no label.

    As long as labels of 0 and 1 (or their differences) all agree, they reveal almost
    nothing about their spread. Grades reveal too little of it if they are skewed,
    because few labels are on the side with the longer tail.
    """
    few = _UNSEEN / (len(human) * (len(human) + 1))
    if np.isin(human, (-1.0, 0.0, 1.0)).all():
        return few
    everything = np.concatenate([human, near, far])
    # As far as the judge is ignored, unlabeled kinds of responses may have any grade.
    farther = abs(float(everything.max() + everything.min() - 2 * human.mean()))
    of_labels = few * ((1 - weight) * farther) ** 2
    # As far as the judge is used, it is known how often it gives unlabeled scores, but
    # not whether people agree.
    of_judge = (
        weight * float(np.abs(far - np.clip(far, near.min(), near.max())).mean())
    ) ** 2
    # The judge was right in all labeled cases, but these are few.
    of_errors = (
        few * float(everything.var()) if np.ptp(human - weight * near) == 0 else 0.0
    )
    return of_labels + of_judge + of_errors
