"""What the calling program has set does not change decisions or results, and asktell changes nothing of it."""

import decimal
import json
import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import asktell
from asktell._util.threads import undisturbed


def decided(scale: float = 1.0) -> str:
    """The asks and the results of two selections, as text."""
    goals = [
        asktell.BestFeasible("a", subject_to={"b": asktell.at_least(0.2 * scale)}),
        asktell.ParetoSet("a", asktell.minimize("b")),
        asktell.BestFeasible("hit"),
    ]
    said: list[object] = []
    for goal in goals:
        selector = asktell.Selector(list("wxyz"), goal, 60, examples=20, seed=1)
        while trials := selector.ask(3):
            for trial in trials:
                hash_ = (trial.id * 7 + 3) % 10
                scores = {
                    "a": hash_ * scale,
                    "b": scale / (1 + hash_),
                    "hit": hash_ > 4,
                }
                told = {name: float(scores[name]) for name in goal.columns}
                selector.tell(trial, told)
                said.append((trial.prompt_id, trial.example))
        result = asktell.Selector.from_json(selector.to_json()).result()
        said += [result.to_dict(), str(result), result.examples()]
        said.append(result.compare(0, 1).to_dict())
    return repr(said)


decided_in_peace = cache(decided)


@contextmanager
def numpy_raises() -> Iterator[None]:
    with np.errstate(all="raise"):
        yield


@contextmanager
def warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        yield


@contextmanager
def decimals_are_short() -> Iterator[None]:
    traps = [decimal.Inexact, decimal.FloatOperation]
    with decimal.localcontext(decimal.Context(prec=2, traps=traps)):
        yield


@contextmanager
def the_folder_is_gone() -> Iterator[None]:
    before, gone = Path.cwd(), Path("gone").resolve()
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    try:
        yield
    finally:
        os.chdir(before)


@pytest.mark.parametrize(
    "disturbed",
    [numpy_raises, warnings_are_errors, decimals_are_short, the_folder_is_gone],
)
def test_settings_of_the_program_change_no_decision(
    disturbed: Callable[[], AbstractContextManager[None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = decided_in_peace()
    with disturbed():
        assert decided() == expected


def test_tiny_scores_are_no_error_where_numpy_raises() -> None:
    expected = decided(1e-200)
    with np.errstate(all="raise"):
        assert decided(1e-200) == expected


def test_random_generators_and_numpys_settings_stay_as_they_are() -> None:
    legacy = np.random.mtrand._rand  # what `np.random.seed` seeds
    before = random.getstate(), repr(legacy.get_state())
    with np.errstate(divide="raise", over="ignore"):
        settings = np.geterr()
        decided()
        assert np.geterr() == settings
    assert (random.getstate(), repr(legacy.get_state())) == before


def test_settings_come_back_after_an_error_in_a_nested_block() -> None:
    with np.errstate(all="raise"):
        with pytest.raises(ZeroDivisionError), undisturbed, undisturbed:
            raise ZeroDivisionError
        assert set(np.geterr().values()) == {"raise"}
        assert json.dumps(undisturbed(np.geterr)()) == json.dumps(
            {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
        )
