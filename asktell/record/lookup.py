"""Find trials by the names that users give, with errors for unknown and closed trials."""

from itertools import islice

from asktell.errors import ConflictingTellError, UnknownTrialError
from asktell.problem.candidates import AnyTrial, Prompts, Trial, from_json
from asktell.problem.words import short, some
from asktell.record.state import State


def _check_match(state: State, prompts: Prompts, trial: Trial) -> None:
    """Check that the prompt and the example of a pending or recorded trial are those of its id."""
    pull = state.plan.open(trial.id)
    cell = state.history.pull_of(trial.id) if pull is None else (pull.arm, pull.example)
    if cell is None:
        return
    arm, example = cell
    same = (trial.prompt_id, trial.example) == (prompts.ids[arm], example)
    if not same or trial.prompt not in (None, "", prompts.texts[arm]):
        raise UnknownTrialError(
            f"Trial {trial.id} is prompt {short(prompts.ids[arm])} ({short(prompts.texts[arm])}) on example {example}, "
            f"not prompt {short(trial.prompt_id)} ({short(trial.prompt)}) on example {short(trial.example)}. Your "
            "trial comes from another study or selector, or from before a crash. If its example is the same here, "
            "record its scores with observe()."
        )


def trial_id(state: State, prompts: Prompts, trial: AnyTrial) -> int:
    """The id of a trial, given as a trial, its JSON, its id, or a prompt. For a prompt, its oldest pending trial.

    Raises:
        UnknownTrialError: the trial belongs to another prompt or example, or the prompt
            has no pending trial.
    """
    # The usual case, a trial from `ask`, needs no parsing.
    named = (
        trial if type(trial) is Trial and type(trial.id) is int else from_json(trial)
    )
    if isinstance(named, Trial):
        _check_match(state, prompts, named)
        return named.id
    if isinstance(named, int):
        return named
    arm = prompts.find(named)
    if arm is None:
        raise UnknownTrialError(f"{prompts.unknown(named)} {_pending(state)}")
    # A released trial may still be told: its worker was only late.
    out = list(islice(state.plan.pending_of(arm), 1))
    out += [
        pull.trial
        for pull in state.plan.returned
        if pull.arm == arm and pull.trial is not None
    ]
    if not out:
        raise UnknownTrialError(
            f"The prompt {short(named)} has no pending trial. {_pending(state)}"
        )
    return min(out)


def asked_before(state: State, trial: int, arm: int, example: int) -> int:
    """The number of trials of the cell (`arm`, `example`) that were assigned before this trial.

    Failed trials count, too.
    """
    trials = [
        pull.trial
        for pull in state.plan.in_progress
        if pull.trial is not None and (pull.arm, pull.example) == (arm, example)
    ]
    for rows in (state.history, state.missing.pulls):
        of_cell = (rows.arms() == arm) & (rows.examples() == example)
        trials += rows.trials()[of_cell].tolist()
    return sum(0 <= number < trial for number in trials)


def not_out(state: State, trial: int) -> UnknownTrialError:
    """The error for a trial that is not pending."""
    if trial in state.failures:
        what = f"Trial {short(trial)} has failed already."
    elif state.history.scores_of(trial) is not None:
        what = f"The scores of trial {short(trial)} were recorded already."
    else:
        what = f"Trial {short(trial)} is not pending."
    return UnknownTrialError(f"{what} {_pending(state)}")


def check_same(state: State, trial: int, scores: tuple[float, ...]) -> None:
    """Check that these scores were recorded before for a trial that is not pending.

    Raises:
        UnknownTrialError: the trial has no scores.
        ConflictingTellError: other scores were recorded.
    """
    # With `on_failure` as scores, a failed trial has scores that were never told.
    recorded = state.history.scores_of(trial)
    if recorded is None or trial in state.failures:
        raise not_out(state, trial)
    if recorded != scores:
        before, now = (
            dict(zip(state.problem.goal.columns, vector, strict=True))
            for vector in (recorded, scores)
        )
        raise ConflictingTellError(
            f"Trial {trial} has the recorded scores {before}. Got the different scores {now}. "
            "A trial is evaluated once. Record further scores of the same prompt with observe()."
        )


def _pending(state: State) -> str:
    pending = sorted(state.pending)
    return (
        f"The pending trials have the ids {some(pending)}."
        if pending
        else "No trial is pending. Call ask() first."
    )
