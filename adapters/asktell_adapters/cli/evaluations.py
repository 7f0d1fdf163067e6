"""Evaluations on disk, a line each, and how a selector catches up on them."""

import json
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from asktell.errors import AsktellError
from asktell.running.run import goal_scores
from asktell.selector import Selector
from asktell.trial import Trial

MALFORMED = (ValueError, KeyError, TypeError, RecursionError)
"""What `parse` raises."""

_TRIALS_HELD = 1000  # passed over while replaying; more were never out at once


class Evaluation(NamedTuple):
    """One line of `evaluations.jsonl`: `scores`, or the `error` of an evaluation that failed."""

    trial: int
    prompt: str | int
    example: int | None
    scores: Mapping[str, float | None] | None
    error: str | None = None
    cost: float | None = None  # of one that failed

    @property
    def key(self) -> tuple[str | int, int | None]:
        """What was evaluated."""
        return self.prompt, self.example


def parse(line: bytes) -> Evaluation:
    """A line of `evaluations.jsonl`.

    Raises:
        MALFORMED: it is none.
    """
    data = json.loads(line)
    trial, prompt, example = data["trial"], data["prompt"], data["example"]
    scores, error = data.get("scores"), data.get("error")
    if type(trial) is not int or not isinstance(prompt, str | int) or not isinstance(example, int | None):
        raise ValueError("trial, prompt or example is of the wrong type")
    if (scores is None) == (error is None) or not isinstance(scores, dict | None) or not isinstance(error, str | None):
        raise ValueError("it needs either scores or an error")
    cost = data.get("cost") if error is not None else None
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < math.inf):
        raise ValueError("the cost is no number of at least 0")
    return Evaluation(trial, prompt, example, scores, error, cost)


def replay(selector: Selector, evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Tell the selector what it has not been told yet; trials that were out are handed back.

    Returns the evaluations that it has not asked for (yet).
    """
    waiting = _untold(selector, evaluations)
    for out in selector.pending:
        selector.release(out)
    left = sum(map(len, waiting.values()))
    held: list[Trial] = []
    while left and len(held) < _TRIALS_HELD and (trial := selector.ask()) is not None:
        queue = waiting.get((trial.prompt_id, trial.example))
        if queue:
            settle(selector, trial, queue.popleft())
            left -= 1
        else:
            held.append(trial)
    for missing in held:
        selector.release(missing)
    return [evaluation for queue in waiting.values() for evaluation in queue]


def settle(selector: Selector, trial: Trial, evaluation: Evaluation) -> None:
    """Tell what was evaluated, as `asktell.run` would have."""
    if evaluation.scores is None:
        selector.fail(trial, evaluation.error or "failed", evaluation.cost)
        return
    try:
        selector.tell(trial, *goal_scores(selector, evaluation.scores))
    except AsktellError as error:
        selector.fail(trial, error)


def _untold(
    selector: Selector, evaluations: Iterable[Evaluation]
) -> dict[tuple[str | int, int | None], deque[Evaluation]]:
    """Evaluations beyond those that the selector knows, by what was evaluated.

    Counted and not matched by trial: after a crash the same pull may come under another trial's number.
    """
    state, ids = selector.state, [entry.id for entry in selector.result().prompts]
    known: dict[tuple[str | int, int | None, bool], int] = defaultdict(int)
    history = state.history
    for told, arm, example in zip(history.trials(), history.arms(), history.examples(), strict=True):
        if told >= 0:
            known[ids[arm], None if example < 0 else int(example), True] += 1
    for arm, failures in state.failures.items():
        for failure in failures:
            known[ids[arm], failure.example, False] += 1
    waiting: dict[tuple[str | int, int | None], deque[Evaluation]] = defaultdict(deque)
    for evaluation in evaluations:
        key = (*evaluation.key, evaluation.scores is not None)
        if known[key]:
            known[key] -= 1
        else:
            waiting[evaluation.key].append(evaluation)
    return waiting
