"""Evaluate a candidate and a baseline until the verdict is established."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from asktell import EvaluatorError, Selector, run
from asktell.extend import at_state
from asktell_adapters.gating.rule import GateRule
from asktell_adapters.gating.ruling import UNDECIDED

_PATIENCE = 10  # failures in a row, after which the cause is unlikely to be the prompt


def noisy(selector: Selector) -> Selector:
    """The selector with scores that may differ when an evaluation is repeated."""
    if selector.state.problem.examples.is_noisy:
        return selector
    state, differs = selector.state, selector.state.problem.by_noise[True]
    return at_state(
        selector,
        state._replace(problem=differs, growth=replace(state.growth, origin=differs)),
    )


def settle(
    rule: GateRule,
    selector: Selector,
    evaluator: Any,
    concurrency: int | None = None,
    progress: bool = False,
    max_cost: float | None = None,
) -> tuple[str, Selector, Sequence[str]]:
    """Evaluate until the verdict is established or the budget is spent.

    `selector` has the candidate and the baseline, in that order. No evaluation is
    started once `max_cost` is reached. Unless the evaluator is `repeatable`, scores
    count as noisy from the start. A few equal repeats would not show that all
    evaluations repeat.

    Returns:
        The verdict, the selector in its final state, and notes on the evaluations.

    Raises:
        EvaluatorError: no evaluation succeeded, or too many in a row failed.
    """
    verdict = UNDECIDED
    if not getattr(evaluator, "repeatable", False):
        selector = noisy(selector)

    def is_enough(selector: Selector) -> bool:
        nonlocal verdict
        too_dear = max_cost is not None and selector.state.costs.total >= max_cost
        verdict = rule.look(selector.state, is_last=False)
        return too_dear or bool(selector.state.left) or verdict != UNDECIDED

    result = run(
        selector,
        evaluator,
        None,
        concurrency,
        progress,
        max_failures_in_a_row=_PATIENCE,
        until=is_enough,
    )
    failed = [entry.reason for entry in result.prompts if entry.status == "failed"]
    if failed and not selector.spent:
        raise EvaluatorError(f"No evaluation succeeded: {failed[0]}")
    before = rule.verdicts
    rule.look(selector.state)
    # The repeats at the end have shown a drift of the model
    if set(rule.verdicts.values()) == {UNDECIDED}:
        return UNDECIDED, selector, result.notes
    rule.verdicts = before
    return verdict, selector, result.notes
