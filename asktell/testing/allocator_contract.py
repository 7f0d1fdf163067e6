"""Tests that every allocator must pass. Derive a class from `AllocatorContract`, and define the fixture `allocator`.

    class TestMyAllocator(AllocatorContract):
        @pytest.fixture
        def allocator(self):
            return MyAllocator()

It needs pytest.
"""

from typing import ClassVar

import numpy as np
import pytest

from asktell.methods.rounds.allocators import AbstractAllocator, PullsToShare
from asktell.methods.rounds.parts import dump_part


class AllocatorContract:
    """Tests of an allocator.

    Attributes:
        n_features: the number of features of each arm in the tests.
    """

    n_features: ClassVar[int] = 3

    @pytest.fixture
    def allocator(self) -> AbstractAllocator:
        """The allocator to test. Override this fixture."""
        raise NotImplementedError

    def pulls(self, n_arms: int, n_pulls: int, capacity: int) -> PullsToShare:
        """Return evaluations to divide. The first of several arms has no capacity left.

        Args:
            n_arms: the number of active arms.
            n_pulls: the number of evaluations.
            capacity: the largest capacity of an arm.
        """
        rng = np.random.default_rng([n_arms, n_pulls, capacity])
        capacities = rng.integers(1, capacity + 1, n_arms)
        if n_arms > self.n_features + 1:
            capacities[0] = 0
        return PullsToShare(
            n_pulls=n_pulls,
            pulled=rng.integers(0, 5, n_arms),
            capacity=capacities,
            priority=rng.permutation(n_arms),
            features=rng.normal(size=(n_arms, self.n_features)),
        )

    @pytest.mark.parametrize("n_arms", [1, 5, 30])
    @pytest.mark.parametrize("n_pulls", [0, 7, 100, 10**6])
    def test_every_evaluation_goes_to_an_arm_that_can_take_it(
        self, allocator: AbstractAllocator, n_arms: int, n_pulls: int
    ) -> None:
        for capacity in (1, 4, 1000):
            pulls = self.pulls(n_arms, n_pulls, capacity)
            counts = allocator.checked_counts(pulls)
            again = allocator.allocate(pulls)
            assert np.array_equal(again, counts), "the same pulls, the same counts"

    def test_its_parameters_can_be_saved(self, allocator: AbstractAllocator) -> None:
        assert dump_part(allocator) == dump_part(allocator)
