"""Tests that every elimination rule must pass. Derive a class from `RuleContract`, and define the fixture `rule`.

    class TestMyRule(RuleContract):
        n_objectives = 2

        @pytest.fixture
        def rule(self):
            return MyRule()

It needs pytest.
"""

from typing import ClassVar

import numpy as np
import pytest

from asktell.methods.rounds.parts import dump_part
from asktell.methods.rounds.rules import AbstractEliminationRule


class RuleContract:
    """Tests of an elimination rule.

    Attributes:
        n_objectives: the number of objectives that the rule supports.
        n_constraints: the number of constraints that the rule supports.
    """

    n_objectives: ClassVar[int] = 1
    n_constraints: ClassVar[int] = 0

    @pytest.fixture
    def rule(self) -> AbstractEliminationRule:
        """The rule to test. Override this fixture."""
        raise NotImplementedError

    @pytest.mark.parametrize("n_active", [1, 2, 9])
    @pytest.mark.parametrize("kind", ["different", "equal", "violated"])
    def test_it_orders_and_selects_active_arms(
        self, rule: AbstractEliminationRule, n_active: int, kind: str
    ) -> None:
        shape = (n_active, self.n_objectives + self.n_constraints)
        values = np.random.default_rng(n_active).normal(size=shape)
        if kind == "equal":
            values[:] = 0.5
        if kind == "violated":
            values[:, self.n_objectives :] = -1.0
        judgement = rule.checked_judgement(values.copy())
        selected = rule.checked_answer(values.copy())
        assert np.array_equal(rule.answer(values.copy()), selected), (
            "the same values must give the same selection"
        )
        for position in range(n_active):
            reason = rule.reason(judgement, position)
            assert isinstance(reason, str)
            assert reason, "a reason is a text"

    def test_its_parameters_can_be_saved(self, rule: AbstractEliminationRule) -> None:
        assert dump_part(rule) == dump_part(rule)
