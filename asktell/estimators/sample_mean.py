"""The sample mean of every arm, without features."""

from dataclasses import dataclass
from typing import ClassVar, final

from asktell.estimators.base import AbstractEstimator, Estimates, Sample


@final
@dataclass(frozen=True)
class SampleMean(AbstractEstimator):
    """The sample mean. An arm without a pull has the mean of the pulled active arms."""

    is_model: ClassVar[bool] = False

    def estimate(self, sample: Sample) -> Estimates:
        tally, active = sample.tally, sample.active
        means = tally.means[active]
        unseen = tally.counts[active] == 0
        if unseen.any() and not unseen.all():
            means[unseen] = means[~unseen].mean(axis=0)
        return Estimates(means, tally.standard_errors(sample.population)[active])
