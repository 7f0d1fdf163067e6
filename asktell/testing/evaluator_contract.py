"""Tests that every evaluator must pass.

Derive a class from `EvaluatorContract`, and define the fixture `make`. The fixture
returns a function that takes a *script* and returns your evaluator. A script is itself
a function: it says which score each evaluation must return (see `Script`). The
*harness* is the tool that computes the scores of your evaluator. Replace it by an
imitation that returns the scores of the script, here `FakeHarness`:

    class TestMyEvaluator(EvaluatorContract):
        @pytest.fixture
        def make(self):
            return lambda script: MyEvaluator(FakeHarness(script))

It needs pytest.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

import pytest

from asktell import BestFeasible, EvaluatorError, Selector, maximize, run

Fault: TypeAlias = Literal["raises", "times out", "no score", "nan"]
"""How the harness must fail: raise an error, exceed its time limit, return no score, or return the score NaN."""
Script: TypeAlias = Callable[[str, int], float | Fault]
"""A function of a prompt and the position of an example.

It returns the score that the harness must return, or a `Fault`: how the harness must
fail.
"""
Make: TypeAlias = Callable[[Script], Any]
"""A function that takes a script and returns the evaluator to test."""

PROMPTS = (
    "Answer.",
    "Answer briefly.",
    "Think, then answer.",
    "Answer {as you} like: 100%",
)
"""The prompts of the tests."""


def good(prompt: str, example: int) -> float:
    """A script without faults. Each pair of a prompt and an example has a different score.

    Args:
        prompt: one of `PROMPTS`.
        example: the position of the example.
    """
    return (PROMPTS.index(prompt) * EvaluatorContract.n_examples + example) / 100


class EvaluatorContract:
    """Tests of an evaluator in `asktell.run`.

    Attributes:
        metric: the name of the metric that the evaluator returns.
        n_examples: number of examples in the dataset of the harness. Scripts name the
            examples by their positions, from 0.
        faults: the faults that this harness can have. Leave out a fault only if it is
            impossible, and give the reason in a comment.
        batches: the numbers of simultaneous evaluations that the tests use.
    """

    metric: ClassVar[str] = "score"
    n_examples: ClassVar[int] = 4
    faults: ClassVar[tuple[Fault, ...]] = ("raises", "times out", "no score", "nan")
    batches: ClassVar[tuple[int, ...]] = (1, 3, 16)

    @pytest.fixture
    def make(self) -> Make:
        """A function that takes a script and returns an evaluator. Override this fixture.

        The evaluator must accept every prompt in `PROMPTS`, and the examples 0 to
        `n_examples` - 1.
        """
        raise NotImplementedError

    def selector(self, method: str = "uniform", seed: int = 0) -> Selector:
        """Return a selector whose budget is enough for every prompt on every example. The tests use it.

        Args:
            method: as for `asktell.Selector`.
            seed: as for `asktell.Selector`.
        """
        goal = BestFeasible(maximize(self.metric))
        return Selector(
            PROMPTS,
            goal,
            len(PROMPTS) * self.n_examples,
            method,
            examples=self.n_examples,
            seed=seed,
        )

    def told(self, selector: Selector) -> dict[tuple[str, int], float]:
        """Return the scores that a selector has recorded, by prompt and example.

        Args:
            selector: the selector.
        """
        history = selector.state.history
        cells = zip(history.arms(), history.examples(), history.scores(), strict=True)
        return {
            (PROMPTS[arm], int(example)): float(scores[0])
            for arm, example, scores in cells
        }

    def test_each_score_comes_to_its_trial(self, make: Make) -> None:
        expected = {
            (prompt, example): good(prompt, example)
            for prompt in PROMPTS
            for example in range(self.n_examples)
        }
        evaluator = make(good)
        for seed, size in enumerate(self.batches):
            selector = self.selector(seed=seed)
            run(selector, evaluator, concurrency=size, progress=False)
            assert self.told(selector) == pytest.approx(expected)

    @pytest.mark.parametrize("fault", ["raises", "times out", "no score", "nan"])
    def test_one_fault_is_the_failure_of_one_trial(
        self, fault: Fault, make: Make
    ) -> None:
        if fault not in self.faults:
            pytest.skip(f"in this harness no evaluation {fault}")
        bad = (PROMPTS[1], 2)
        selector = self.selector()
        result = run(
            selector,
            make(
                lambda prompt, example: (
                    fault if (prompt, example) == bad else good(prompt, example)
                )
            ),
            concurrency=len(PROMPTS) * self.n_examples,
            progress=False,
            max_failures_in_a_row=None,
        )
        score_of = self.told(selector)
        assert bad not in score_of
        assert len(score_of) == len(PROMPTS) * self.n_examples - 1
        assert all(
            math.isclose(score, good(*cell), abs_tol=1e-9)
            for cell, score in score_of.items()
        )
        assert [entry.failures for entry in result.prompts] == [0, 1, 0, 0]
        (reason,) = selector.state.failures.reasons()
        assert reason, "the failure says why"

    def test_a_harness_that_only_fails_ends_with_its_reason(self, make: Make) -> None:
        with pytest.raises(EvaluatorError, match=r"evaluations (all|in a row) failed"):
            run(
                self.selector(),
                make(lambda prompt, example: "raises"),
                progress=False,
                max_failures_in_a_row=3,
            )

    def test_a_run_goes_on_where_it_was(self, make: Make) -> None:
        evaluator = make(good)
        selector = self.selector()
        for _ in range(3):
            selector.ask()  # out when the first run was interrupted
        again = Selector.from_json(selector.to_json())
        run(again, evaluator, concurrency=5, progress=False)
        assert len(self.told(again)) == len(PROMPTS) * self.n_examples
