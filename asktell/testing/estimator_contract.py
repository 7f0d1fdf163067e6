"""Tests that every estimator must pass. Derive a class from `EstimatorContract`, and define the fixture `estimator`.

    class TestMyEstimator(EstimatorContract):
        @pytest.fixture
        def estimator(self):
            return MyEstimator()

It needs pytest.
"""

from typing import ClassVar

import numpy as np
import pytest

from asktell.methods.rounds.estimators import AbstractEstimator, Sample
from asktell.methods.rounds.parts import dump_part
from asktell.numerics.tally import Tally


class EstimatorContract:
    """Tests of an estimator.

    Attributes:
        n_arms: the number of arms in the tests, of which some were eliminated.
        n_features: the number of features of each arm.
    """

    n_arms: ClassVar[int] = 12
    n_features: ClassVar[int] = 3

    @pytest.fixture
    def estimator(self) -> AbstractEstimator:
        """The estimator to test. Override this fixture."""
        raise NotImplementedError

    def sample(self, n_metrics: int, active: list[int], n_each: int = 6) -> Sample:
        """Return scores of all arms, of which only some are active.

        The mean of an arm is a linear function of its features, so that models fit.

        Args:
            n_metrics: the number of metrics.
            active: the positions of the active arms, ascending.
            n_each: the number of scores of each arm.
        """
        rng = np.random.default_rng([n_metrics, n_each])
        features = rng.normal(size=(self.n_arms, self.n_features))
        means = features @ rng.normal(size=(self.n_features, n_metrics))
        arms = np.repeat(np.arange(self.n_arms), n_each)
        scores = means[arms] + 0.01 * rng.normal(size=(len(arms), n_metrics))
        tally = Tally.empty(self.n_arms, n_metrics).plus(arms, scores)
        return Sample(tally, np.array(active), features, population=100, seed=1)

    @pytest.mark.parametrize("n_metrics", [1, 3])
    def test_it_estimates_the_active_arms_only(
        self, estimator: AbstractEstimator, n_metrics: int
    ) -> None:
        for active in ([*range(self.n_arms)], [1, 4, 7, 11], [5]):
            sample = self.sample(n_metrics, active)
            estimates = estimator.checked_estimates(sample)
            again = estimator.estimate(sample)
            assert np.array_equal(again.means, estimates.means), (
                "the same scores must give the same estimates"
            )

    def test_each_row_is_of_its_own_arm(self, estimator: AbstractEstimator) -> None:
        sample = self.sample(1, [1, 4, 7, 11])
        means = estimator.estimate(sample).means[:, 0]
        own_means = sample.tally.means[sample.active, 0]
        assert np.corrcoef(means, own_means)[0, 1] > 0.0, (
            "arms with better scores have better estimates"
        )

    def test_an_arm_without_scores_has_an_estimate(
        self, estimator: AbstractEstimator
    ) -> None:
        whole = self.sample(1, [*range(self.n_arms)])
        scored = np.arange(self.n_arms - 1)
        scores = whole.tally.means[scored]
        tally = Tally.empty(self.n_arms, 1).plus(scored, scores)
        sample = Sample(tally, whole.active, whole.features, 100, 1)
        estimator.checked_estimates(sample)

    def test_its_parameters_can_be_saved(self, estimator: AbstractEstimator) -> None:
        assert dump_part(estimator) == dump_part(estimator)
