"""The sample mean of each arm's own scores, without features."""

from dataclasses import dataclass
from typing import ClassVar, final

from asktell.methods.rounds.estimators.base import AbstractEstimator, Estimates, Sample


@final
@dataclass(frozen=True)
class SampleMean(AbstractEstimator):
    """The mean of an arm's own scores. An arm without scores is estimated by the average of the other active arms."""

    is_model: ClassVar[bool] = False

    def estimate(self, sample: Sample) -> Estimates:
        """Return the sample means of the active arms.

        The standard errors are about the mean over the given examples. So they become
        smaller as more of the examples are evaluated. If scores are not noisy, the
        error of an arm that has had every example is 0 (finite population correction).
        With `sampling="iid"`, the errors are about new examples, and have no such
        correction.

        Args:
            sample: the scores, and the positions of the active arms.
        """
        tally, active = sample.tally, sample.active
        means = tally.means[active]
        unseen = tally.counts[active] == 0
        if unseen.any() and not unseen.all():
            means[unseen] = means[~unseen].mean(axis=0)
        return Estimates(means, tally.standard_errors(sample.population)[active])
