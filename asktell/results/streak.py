"""Failures in a row: whether they have one cause that is not the prompts'. Runs stop then, and results have a note."""

import math
from collections import Counter
from collections.abc import Sequence

from asktell.record import State
from asktell.results.entries import kind_of

FEWEST_ALIKE = 5
"""Evaluations that fail in the same way, and nothing else, before the cause is sought outside of the prompts.

Six in six would eliminate a prompt with the default `max_failure_rate=0.5`.
"""
_CHANCE = 1e-5
"""Chance of a streak, if each prompt fails as often as before, below which it has another cause.

At most one false alarm in 100,000 evaluations. Of prompts with 10 scores and no failure, it takes 5 failures.
"""


def have_common_cause(
    state: State,
    failures: Sequence[tuple[int, int | None]],
    n_recorded: int = 0,
    *,
    are_first: bool = False,
    fewest: int = FEWEST_ALIKE,
) -> bool:
    """True if evaluations that all failed in the same way have a cause that is not their prompts'.

    They must be on two examples at least, since a bad example may fail with every
    prompt. And one of these must hold:

    - No active prompt has a score yet.
    - They are the first evaluations of a run, and a prompt that had scores is among
      them.
    - They would be very unlikely if prompts failed as often as before. A prompt without
      scores may fail always, so that its further failures say less. If it was added,
      its failures say nothing: new prompts may all have the same mistake. But if all
      active prompts are among them, each failure counts.

    Args:
        state: the state of the selection.
        failures: arm and example of each failure, oldest first. No evaluation succeeded
            meanwhile.
        n_recorded: the number of these failures that the state has, the last ones of
            its failures.
        are_first: True if the run had no success before.
        fewest: the smallest number of such failures.
    """
    examples = {example for _, example in failures}
    if len(failures) < fewest or (len(examples) < 2 and None not in examples):
        return False
    arms = [arm for arm, _ in failures]
    as_scores = state.problem.failure_scores is not None
    scored, failed = {}, {}
    for arm in {*state.active.tolist(), *arms}:
        n_failed = state.failures.count(arm)
        scored[arm] = state.history.n_asked(arm) - as_scores * n_failed
        failed[arm] = n_failed - arms[len(arms) - n_recorded :].count(arm)
    if not any(scored.values()) or (are_first and any(scored[arm] for arm in arms)):
        return True
    are_all = set(state.active.tolist()) <= set(arms)
    log_chance, n_before = 0.0, Counter[int]()
    for arm in arms:
        # The mean of a failure rate with a uniform prior
        n_failed = failed[arm]
        if not (scored[arm] or are_all):
            n_failed += n_before[arm]
        if scored[arm] or are_all or arm < state.growth.origin.n_arms:
            log_chance += math.log((n_failed + 1) / (scored[arm] + n_failed + 2))
        n_before[arm] += 1
    return log_chance <= math.log(_CHANCE)


def describe_streak(state: State) -> str:
    """The sentence about the latest evaluations, if they failed in the same way and have a common cause. Empty if not.

    The latest evaluations are those that were asked for after every evaluation with
    scores.
    """
    scored = set(state.history.trials().tolist())
    if state.problem.failure_scores is not None:
        scored -= set(state.failures.pulls.trials().tolist())
    latest, kind, streak = max(scored, default=-1), "", []
    for trial, arm, example, reason in reversed(list(state.failures)):
        kind = kind or kind_of(reason)
        if trial <= latest or kind_of(reason) != kind:
            break
        streak.append((arm, example))
    if not have_common_cause(state, streak[::-1], len(streak)):
        return ""
    return (
        f"The last {len(streak)} evaluations all failed in the same way, which is probably not the prompts' fault: "
        f"{state.failures.reasons()[-1]}"
    )
