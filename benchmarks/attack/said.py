"""What a selector says of itself must follow from what it has seen."""

import json
from collections import Counter

import numpy as np

from asktell import Adaptive, Elimination, ParetoSet, Referee, Result, Selector
from asktell.methods.race import OPEN
from asktell.record import State
from asktell.selector import at_state
from benchmarks.attack.copies import difference
from benchmarks.attack.findings import BrokenPromiseError


def check_said(selector: Selector) -> None:
    """See that it says nothing that is not so; it is left as it is.

    Raises:
        BrokenPromiseError: it does.
    """
    copy = Selector.from_json(selector.to_json())
    done, result = copy.done, copy.result()
    text = json.dumps(result.to_dict(), allow_nan=False)
    here = at_state(selector, selector.state)
    if (
        here.done != done
        or (copied := json.dumps(here.result().to_dict(), allow_nan=False)) != text
    ):
        raise BrokenPromiseError(
            f"the result of a copy is another one: {difference(text, copied)}"
        )
    if not str(result) or not result._repr_html_():
        raise BrokenPromiseError("the result has no words")
    if result.done != done or (result.stopped_early and not done):
        raise BrokenPromiseError(
            f"done is {done}, and the result says {result.early!r}"
        )
    _check_answer(copy, result)
    _check_repeats(copy)
    _check_errors(copy, result)
    if done:
        _check_end(copy, result)
    n_out = len(copy.pending)
    asked = copy.ask()
    if done and asked is not None:
        raise BrokenPromiseError(f"it is done, and asks {asked}")
    if not done and asked is None and not n_out:
        raise BrokenPromiseError("it is not done, nothing is out, and nothing is asked")


def _check_answer(selector: Selector, result: Result) -> None:
    """Who is selected, and who is left, by the statuses of the prompts."""
    selected = [entry.id for entry in result.selected]
    status = {entry.id: entry.status for entry in result.prompts}
    left = [
        id_
        for id_, value in status.items()
        if value == "active" and id_ != result.baseline
    ]
    promises = {
        "retired or failed prompts are selected": not any(
            status[id_] in ("retired", "failed") for id_ in selected
        ),
        "a prompt is selected twice": len(selected) == len(set(selected)),
        "several prompts are the best": len(selected) <= 1
        or isinstance(selector.goal, ParetoSet),
        "selected prompts are unresolved": not set(selected)
        & {entry.id for entry in result.unresolved},
        "accepted prompts are not selected": all(
            id_ in selected for id_, s in status.items() if s == "accepted"
        ),
        "a rejected prompt is selected although others are left": not any(
            status[id_] == "rejected" for id_ in selected
        )
        or not any(
            entry.evaluations and entry.status in ("active", "accepted")
            for entry in result.prompts
        ),
        # A referee leaves to an extension whom its budget did not reach
        "it is done, and prompts are active": not (result.done and left)
        or isinstance(selector.method, Referee),
        "not all active prompts are counted": selector.n_active
        == sum(s == "active" for s in status.values()),
    }
    if broken := [what for what, is_kept in promises.items() if not is_kept]:
        raise BrokenPromiseError(f"{broken[0]}: {selected} of {status}")


def _check_repeats(selector: Selector) -> None:
    """No cell is asked more often than it may be, and every ask of it has a number of its own."""
    engine, state, problem = selector._engine, selector.state, selector.state.problem
    asked = [(arm, example, trial) for trial, arm, example, _ in state.missing]
    asked += [(pull.arm, pull.example, pull.trial) for pull in state.pending.values()]
    history = state.history
    rows = zip(
        history.arms().tolist(),
        history.examples().tolist(),
        history.trials().tolist(),
        strict=True,
    )
    asked += [row for row in rows if row[2] >= 0]
    if problem.examples.population is None:
        return
    for cell, times in Counter((arm, example) for arm, example, _ in asked).items():
        if times > problem.examples.repeats:
            raise BrokenPromiseError(
                f"the cell {cell} was asked {times} times, it may be {problem.examples.repeats}"
            )
    numbers = Counter(
        (arm, example, engine.asked_before(trial, arm, example))
        for arm, example, trial in asked
    )
    if again := [number for number, times in numbers.items() if times > 1]:
        raise BrokenPromiseError(
            f"two evaluations have the same repeat number: {again[0]}"
        )


def _check_errors(selector: Selector, result: Result) -> None:
    """Only who has seen everything is known exactly, and nobody is whose scores are noisy."""
    state = selector.state
    seen: dict[int, set[int]] = {}
    for arm, example in zip(
        state.history.arms().tolist(), state.history.examples().tolist(), strict=True
    ):
        seen.setdefault(arm, set()).add(example)
    for arm, entry in enumerate(result.prompts):
        if 0.0 not in entry.standard_error.values():
            continue
        n = len(seen.get(arm, set()) - {-1})
        if (
            state.problem.examples.is_noisy
            or state.problem.examples.population is None
            or n < state.problem.examples.population
        ):
            raise BrokenPromiseError(
                f"a prompt that is not known exactly has no error: {entry}"
            )


def _check_end(selector: Selector, result: Result) -> None:
    """It ends without a reason only where nothing is left to ask for, or to pay with."""
    state, method = selector.state, selector.method
    most = state.problem.examples.most_pulls
    last = state.decisions[-1][1]
    left = _pulls_left(state)
    judged = [
        arm
        for arm, (round_, d) in state.left.items()
        if d.status in ("accepted", "rejected")
    ]
    if result.finished_early:
        latest = max(state.left[arm][0] for arm in judged)
        if any(left[arm] > 0 for arm in judged if state.left[arm][0] == latest):
            raise BrokenPromiseError(
                "it says that every prompt has seen everything, which is not so"
            )
    if (
        isinstance(method, Elimination)
        or last.settled
        or state.spent >= state.problem.budget
        or state.pending
    ):
        return
    if isinstance(method, Adaptive):
        rivals = [arm for arm in judged if state.fits(arm)]
    else:
        rivals = [
            arm
            for arm in judged
            if state.left[arm][1].reason == OPEN or arm in last.answer
        ]
        # The baseline too: all take the same examples
        everyone = {*rivals, *state.active.tolist()}
        rivals = rivals if all(map(state.fits, everyone)) else []
    if may := [arm for arm in rivals if most is None or left[arm] > 0]:
        raise BrokenPromiseError(
            f"it is done, and there is money and something to ask of the prompts {may}"
        )


def _pulls_left(state: State) -> np.ndarray:
    arms, _, asks = state.used_cells()
    most = state.problem.examples.most_pulls
    used = np.bincount(
        arms, np.minimum(asks, state.problem.examples.repeats), state.problem.n_arms
    )
    return np.full(state.problem.n_arms, np.inf) if most is None else most - used
