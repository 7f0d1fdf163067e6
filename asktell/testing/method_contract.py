"""Tests that every whole method must pass. Derive a class from `MethodContract`, and define the fixture `method`.

    class TestMyMethod(MethodContract):
        @pytest.fixture
        def method(self):
            return MyMethod(most=10)

It needs pytest.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from asktell import (
    BestFeasible,
    Budget,
    EvaluatorError,
    IncompatibleMethodError,
    Selector,
    Trial,
)
from asktell.methods import AbstractMethod
from asktell.methods.rounds.parts import dump_part
from asktell.problem.goals import Goal


class MethodContract:
    """Tests of a whole method, which evaluates prompts on 12 examples.

    Attributes:
        goal: a goal that the method supports. All of its metrics get the same scores.
        prompts: the numbers of prompts in the tests.
        evaluations: the evaluations per prompt in the tests. Leave out small budgets
            only if the method needs more, and give the reason in a comment.
        options: more arguments of the selectors, such as `{"baseline": 0}`, if the
            method needs them.
    """

    goal: ClassVar[Goal] = BestFeasible("score")
    prompts: ClassVar[tuple[int, ...]] = (1, 2, 5)
    evaluations: ClassVar[tuple[int, ...]] = (2, 5, 20)
    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture
    def method(self) -> AbstractMethod:
        """The method to test. Override this fixture."""
        raise NotImplementedError

    def selectors(self, method: AbstractMethod) -> list[Selector]:
        """A selector for each number of prompts and budget."""
        return [
            Selector(
                [f"prompt {k}" for k in range(n)],
                self.goal,
                n * per,
                method,
                12,
                **self.options,
            )
            for n in self.prompts
            for per in self.evaluations
        ]

    def play(self, selector: Selector, trials: int = 10_000) -> list[Trial]:
        """Record scores of at most so many trials, every seventh of which fails."""
        asked: list[Trial] = []
        while len(asked) < trials and (trial := selector.ask()):
            asked.append(trial)
            if trial.id % 7 == 6:
                selector.fail(trial, EvaluatorError("out of order"))
                continue
            score = (len(trial.prompt) * 7 + int(trial.prompt[-1]) * 3) % 10 / 10
            score = (score + (trial.example or 0) % 3 / 3) / 2
            selector.tell(trial, dict.fromkeys(self.goal.metrics, score))
        return asked

    def test_a_selection_ends_within_its_budget_and_selects(
        self, method: AbstractMethod
    ) -> None:
        for selector in self.selectors(method):
            self.play(selector)
            assert selector.done, "the last decision must have finished=True"
            assert selector.spent <= (selector.budget or 0)
            assert selector.result().selected, "a finished selection selects prompts"

    def test_a_saved_selection_continues_as_the_original(
        self, method: AbstractMethod
    ) -> None:
        for selector in self.selectors(method):
            self.play(selector, trials=5)
            again = Selector.from_json(selector.to_json(), method=method)
            assert self.play(again) == self.play(selector), (
                "decisions must follow from the state alone"
            )
            assert str(again.result()) == str(selector.result())

    def test_it_waits_for_pending_trials_or_plans_without_them(
        self, method: AbstractMethod
    ) -> None:
        for selector in self.selectors(method):
            while trials := selector.ask(3):
                for trial in reversed(trials):
                    selector.tell(trial, dict.fromkeys(self.goal.metrics, 0.5))
            assert selector.done

    def test_a_budget_of_cost_ends_it_or_is_refused(
        self, method: AbstractMethod
    ) -> None:
        prompts = [f"prompt {k}" for k in range(max(self.prompts))]
        budget = Budget(20 * len(prompts), cost=1.0)
        try:
            selector = Selector(prompts, self.goal, budget, method, 12, **self.options)
        except IncompatibleMethodError:
            return
        while trial := selector.ask():
            selector.tell(trial, dict.fromkeys(self.goal.metrics, 0.5), cost=0.3)
        assert selector.done, (
            "due must be True if nothing is pending and the plan is too expensive"
        )
        assert selector.result().selected

    def test_its_parameters_can_be_saved(self, method: AbstractMethod) -> None:
        assert dump_part(method) == dump_part(method)

    def test_what_it_says_about_itself_fits_its_selections(
        self, method: AbstractMethod
    ) -> None:
        assert method.confidence is None or 0.0 < method.confidence < 1.0
        assert method.confidence_kind in ("proof", "posterior")
        for selector in self.selectors(method):
            most = method.most_decisions(selector.state.problem)
            while self.play(selector, trials=1) and not selector.done:
                assert most is None or len(selector.state.decisions) <= most, (
                    "a saved selection with more decisions than most_decisions is refused"
                )
            result = selector.result()
            assert set(method.notes(selector.state, "prompt {}".format)) <= set(
                result.notes
            ), "notes are sentences, and follow from the state alone"
