"""Tests that every scheduler must pass. Derive a class from `SchedulerContract`, and define the fixture `scheduler`.

    class TestMyScheduler(SchedulerContract):
        @pytest.fixture
        def scheduler(self):
            return MyScheduler(power=2.0)

It needs pytest.
"""

from typing import ClassVar

import pytest

from asktell.methods.rounds.parts import dump_part
from asktell.methods.rounds.schedulers import AbstractScheduler


class SchedulerContract:
    """Tests of a scheduler.

    Attributes:
        arms: the numbers of arms in the tests.
        pulls_per_arm: the budgets in the tests, as evaluations per arm. Leave out small
            budgets only if the scheduler needs more, and give the reason in a comment.
    """

    arms: ClassVar[tuple[int, ...]] = (1, 2, 3, 8, 50)
    pulls_per_arm: ClassVar[tuple[int, ...]] = (1, 3, 20, 1000)

    @pytest.fixture
    def scheduler(self) -> AbstractScheduler:
        """The scheduler to test. Override this fixture."""
        raise NotImplementedError

    def test_rounds_are_within_the_budget_and_keep_ever_fewer_arms(
        self, scheduler: AbstractScheduler
    ) -> None:
        for n_arms in self.arms:
            for pulls in self.pulls_per_arm:
                budget = n_arms * pulls
                rank = min(n_arms, 5) if scheduler.needs_features else None
                rounds = scheduler.checked_rounds(n_arms, budget, rank)
                assert scheduler.checked_rounds(n_arms, budget, rank) == rounds, (
                    "the same arguments must give the same rounds"
                )

    def test_its_parameters_can_be_saved(self, scheduler: AbstractScheduler) -> None:
        assert dump_part(scheduler) == dump_part(scheduler)
        assert hash(scheduler) == hash(scheduler), "asktell caches rounds by scheduler"
