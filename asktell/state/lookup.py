"""Which trial is meant, and what to say of one that is not pending."""

from asktell.errors import ConflictingTellError, InvalidArgumentError, UnknownTrialError
from asktell.problem.candidates import AnyTrial, Prompts, Trial, from_json
from asktell.problem.checks import short, some, whole
from asktell.state.problem import Problem
from asktell.state.state import State


def _check_match(state: State, prompts: Prompts, trial: Trial) -> None:
    """Check that a trial that is out, or was told, is the one that its id says."""
    pull = state.open(trial.id)
    cell = state.history.pull_of(trial.id) if pull is None else (pull.arm, pull.example)
    if cell is None:
        return
    arm, example = cell
    same = (trial.prompt_id, trial.example) == (prompts.ids[arm], example)
    if not same or trial.prompt not in (None, "", prompts.texts[arm]):
        raise UnknownTrialError(
            f"Trial {trial.id} is prompt {short(prompts.ids[arm])} ({short(prompts.texts[arm])}) on example {example}, "
            f"not prompt {short(trial.prompt_id)} ({short(trial.prompt)}) on example {short(trial.example)}: it was "
            "asked in another study or of another selector, or before its machine crashed. observe() takes its scores."
        )


def trial_id(state: State, prompts: Prompts, trial: AnyTrial) -> int:
    """The id of a trial, however it is named; of a prompt, its oldest pending one."""
    found = trial if type(trial) is Trial and type(trial.id) is int else from_json(trial)
    if isinstance(found, Trial):
        _check_match(state, prompts, found)
        return found.id
    if isinstance(found, int):
        return found
    arm = prompts.find(found)
    if arm is None:
        raise UnknownTrialError(f"{prompts.unknown(found)} {_pending(state)}")
    out = [id_ for id_, pull in state.pending.items() if pull.arm == arm]
    out += [pull.trial for pull in state.returned if pull.arm == arm and pull.trial is not None]
    if not out:
        raise UnknownTrialError(f"The prompt {short(found)} has no pending trial. {_pending(state)}")
    return min(out)


def find_example(problem: Problem, example: int | str | None) -> int | None:
    """The position of an example that is named by it, or by its id."""
    if example is None:
        return None
    if problem.n_examples is None:
        raise InvalidArgumentError(f"Got example {short(example)}, but this selector was made without `examples`.")
    if isinstance(example, str):
        if problem.examples is None:
            raise InvalidArgumentError(
                f"Got example {short(example)}, but this selector was made with a number of examples, and not with "
                f"their ids. Name it by its position, from 0 to {problem.n_examples - 1}."
            )
        return problem.examples.position(example)
    return whole("example", example, 0, problem.n_examples - 1)


def not_out(state: State, trial: int) -> UnknownTrialError:
    """The error for a trial that is not pending, or no longer."""
    if trial in state.failures:
        what = f"Trial {short(trial)} has failed already."
    elif state.history.scores_of(trial) is not None:
        what = f"Trial {short(trial)} has been told already."
    else:
        what = f"Trial {short(trial)} is not pending."
    return UnknownTrialError(f"{what} {_pending(state)}")


def check_same(state: State, trial: int, scores: tuple[float, ...]) -> None:
    """Check that a trial that is not pending was told these scores before."""
    told = state.history.scores_of(trial)
    if told is None or trial in state.failures:
        raise not_out(state, trial)
    if told != scores:
        before, now = (dict(zip(state.problem.goal.columns, vector, strict=True)) for vector in (told, scores))
        raise ConflictingTellError(
            f"Trial {trial} was told {before} before, and now {now}. "
            "A trial is evaluated once; use observe() for further scores of the same prompt."
        )


def _pending(state: State) -> str:
    pending = sorted(state.pending)
    return f"Pending trials: {some(pending)}." if pending else "No trial is pending: ask() first."
