"""The sample mean of each arm's own scores, without features."""

from dataclasses import dataclass
from typing import ClassVar, final

from asktell.estimators.base import AbstractEstimator, Estimates, Sample


@final
@dataclass(frozen=True)
class SampleMean(AbstractEstimator):
    """The mean of an arm's own scores. An arm without scores gets the average of the other active arms."""

    is_model: ClassVar[bool] = False

    def estimate(self, sample: Sample) -> Estimates:
        """Sample means, with the finite population correction if every example can be evaluated once."""
        tally, active = sample.tally, sample.active
        means = tally.means[active]
        unseen = tally.counts[active] == 0
        if unseen.any() and not unseen.all():
            means[unseen] = means[~unseen].mean(axis=0)
        return Estimates(means, tally.standard_errors(sample.population)[active])
