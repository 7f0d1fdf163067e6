"""Optuna's own tests for samplers, which it publishes for packages like this one."""

from collections.abc import Callable
from typing import Any

import pytest

import asktell

optuna = pytest.importorskip("optuna")
public = pytest.importorskip(
    "optuna.testing.pytest_samplers", reason="Optuna 4.0 does not publish its tests"
)

from asktell_adapters.optimizers.optuna import AsktellSampler  # noqa: E402

# Their studies have no prompts, so that everything goes to the sampler of the other
# parameters. Declared restrictions:
# - the goal is the study's: one minimized value in all that are run, two directions in
# those of several values;
# - relative sampling is that of `others`, and the default, at random, has none.


def make(goal: Any, others: Any = None) -> Callable[[], AsktellSampler]:
    return lambda: AsktellSampler(
        asktell.Selector(["a", "b"], goal, 10, examples=5), others=others and others()
    )


ONE = asktell.BestFeasible(asktell.minimize("value"))
TWO = asktell.ParetoSet(asktell.minimize("first"), "second")
pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


class TestBasic(public.BasicSamplerTestCase):  # type: ignore[name-defined,misc]
    @pytest.fixture
    def sampler(self) -> Callable[[], AsktellSampler]:
        return make(ONE)


class TestMultivariate(public.BasicSamplerTestCase, public.RelativeSamplerTestCase):  # type: ignore[name-defined,misc]
    @pytest.fixture
    def sampler(self) -> Callable[[], AsktellSampler]:
        return make(
            ONE,
            lambda: optuna.samplers.TPESampler(multivariate=True, n_startup_trials=0),
        )


class TestOfSeveralValues(public.MultiObjectiveSamplerTestCase):  # type: ignore[name-defined,misc]
    @pytest.fixture
    def sampler(self) -> Callable[[], AsktellSampler]:
        return make(TWO)
