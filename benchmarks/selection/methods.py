"""Every method of the comparison by name: ours through `asktell.Selector`, and the rivals.

A name of `asktell.METHODS` is ours in our settings: shared examples, default schedules.
With `-published` it runs as in the paper: an example drawn for every pull, published
schedules. `uniform+mlp` and the like read the scores of `uniform` by another estimator,
so they compare estimators alone.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

import asktell
from asktell.errors import IncompatibleMethodError
from asktell.methods.rounds.elimination import rule_of
from asktell.methods.rounds.estimators import MLP, LeastSquares
from asktell.problem.goals import BestFeasible, Goal, ParetoSet
from asktell.simulation.replay import Replay
from asktell.simulation.simulate import Played, run_once
from benchmarks.problems import BenchmarkProblem
from benchmarks.rivals.agentopt import arm_elimination
from benchmarks.rivals.ape import ape
from benchmarks.rivals.capo import capo_race
from benchmarks.rivals.gittins import gittins
from benchmarks.rivals.hbbops import hbbops
from benchmarks.rivals.in_full import in_full
from benchmarks.rivals.lucb import lucb
from benchmarks.rivals.poes import poes
from benchmarks.rivals.pool import Pool
from benchmarks.rivals.prompteval import prompteval, prompteval_bai
from benchmarks.rivals.psips import psips
from benchmarks.rivals.pulse import pulse
from benchmarks.rivals.sysrs import sysrs
from benchmarks.rivals.track_and_stop import track_and_stop
from benchmarks.rivals.triple import triple_sh
from benchmarks.rivals.triple_clst import triple_clst
from benchmarks.rivals.triple_gse import triple_gse
from benchmarks.rivals.ucb_e import ucb_e
from benchmarks.rivals.ucb_e_lrf import ucb_e_lrf

PUBLISHED = "-published"
BOTH: tuple[type[Goal], ...] = (BestFeasible, ParetoSet)


class Rival(NamedTuple):
    """A function (pool, goal, seed) -> answer; the goals it is for; whether it draws examples independently.

    `asktell.simulate(scores, goal, {"auto": "auto", "ucb-e": RIVALS["ucb-e"]})` takes
    it as it is. `constrained`: whether it minds the constraints of a front; `featured`:
    whether it needs features.
    """

    run: Callable[[Pool, Goal, int], list[int]]
    goals: tuple[type[Goal], ...]
    iid: bool = False
    constrained: bool = True
    featured: bool = False

    def __call__(self, problem: Replay, budget: int, seed: int) -> list[int]:
        """The answer, as positions of prompts.

        Raises:
            IncompatibleMethodError: it is not for this goal, or lacks features.
        """
        minds = self.constrained or not problem.goal.is_constrained
        if not isinstance(problem.goal, self.goals) or not minds:
            raise IncompatibleMethodError("This method is not for this goal.")
        if self.featured and problem.features is None:
            raise IncompatibleMethodError(
                "This method needs features of the prompts. Use a problem with features."
            )
        return self.run(Pool(problem, seed, self.iid), problem.goal, seed)


def _optuna(name: str) -> Callable[[Pool, Goal, int], list[int]]:
    def run(pool: Pool, goal: Goal, seed: int) -> list[int]:
        # late: optuna is not needed for the other methods
        from benchmarks.rivals import optuna_samplers

        return getattr(optuna_samplers, name)(pool, goal, seed)  # type: ignore[no-any-return]

    return run


RIVALS = {
    "optuna-random": Rival(_optuna("random_search"), BOTH),
    "optuna-nsga2": Rival(_optuna("nsga2"), BOTH),
    "optuna-tpe": Rival(_optuna("tpe"), BOTH),
    "optuna-tpe-constrained": Rival(_optuna("tpe_constrained"), (BestFeasible,)),
    "triple-sh": Rival(triple_sh, (BestFeasible,), iid=True),
    "triple-clst": Rival(triple_clst, (BestFeasible,), featured=True),
    "triple-gse": Rival(triple_gse, (BestFeasible,), featured=True),
    "hbbops": Rival(hbbops, (BestFeasible,)),
    "capo-race": Rival(capo_race, BOTH),
    "agentopt": Rival(arm_elimination, (BestFeasible,)),
    "lucb": Rival(lucb, (BestFeasible,)),
    "sysrs": Rival(sysrs, (BestFeasible,)),
    "track-and-stop": Rival(track_and_stop, (BestFeasible,)),
    "ucb-e": Rival(ucb_e, (BestFeasible,)),
    "ucb-e-lrf": Rival(ucb_e_lrf, (BestFeasible,)),
    "prompteval": Rival(prompteval, BOTH),
    "prompteval-features": Rival(partial(prompteval, features=True), BOTH),
    "prompteval-bai": Rival(prompteval_bai, (BestFeasible,)),
    "prompteval-bai-features": Rival(
        partial(prompteval_bai, features=True), (BestFeasible,)
    ),
    "gittins": Rival(gittins, (BestFeasible,)),
    "ape": Rival(ape, (ParetoSet,), constrained=False),
    "psips": Rival(psips, (ParetoSet,), constrained=False),
    "poes": Rival(poes, (BestFeasible,)),
    "pulse": Rival(pulse, (BestFeasible,)),
    "in-full": Rival(in_full, BOTH),
}
OURS = tuple(asktell.METHODS)
PAPER = (
    "uniform",
    "csr",
    "csr-sh",
    "mlp-csr",
    "lcsh",
    "ege-sr",
    "ege-sh",
    "mlp-ege",
    "gege",
)
"""Those with a published setting."""
LINEAR = ("lcsh", "gege")
"""Published with estimates from the current round only; the others pool all rounds."""
ESTIMATORS = {"uniform+least-squares": LeastSquares, "uniform+mlp": MLP}
"""The pulls of `uniform`, and what else may be concluded from them."""
AUTO = "auto"
FILTERED = ("auto+filter", "auto+conclude")
"""`auto` for the front without the constraints. Of its answer those that keep them; or the front by all estimates."""
REFERENCE = {BestFeasible: f"csr{PUBLISHED}", ParetoSet: f"ege-sr{PUBLISHED}"}
"""The published methods that the headline compares with."""


def names() -> list[str]:
    """The names of all methods."""
    published = [f"{name}{PUBLISHED}" for name in PAPER if name in OURS]
    return [*OURS, *published, *ESTIMATORS, *FILTERED, *RIVALS]


def run(method: str, problem: BenchmarkProblem, budget: int, seed: int) -> Played:
    """Spend the budget on the problem and answer.

    Raises:
        IncompatibleMethodError, BudgetTooSmallError: the method is not for this goal or
            budget, or lacks features.
        KeyError: there is no such method.
    """
    if method not in names():
        raise KeyError(f"There is no method {method!r}; there are {names()}.")
    if method in FILTERED:
        return _run_filtered(method, problem, budget, seed)
    features = problem.table.features
    sampling = "iid" if method.endswith(PUBLISHED) else "shared"
    return run_once(
        _how(method, problem.goal),
        problem.scores,
        problem.goal,
        budget,
        seed,
        features,
        sampling=sampling,
    )


def _how(method: str, goal: Goal) -> str | asktell.Elimination | Rival:
    """The method as `asktell.simulate` takes it."""
    if method in ESTIMATORS:
        uniform = asktell.preset("uniform", goal)
        assert isinstance(uniform, asktell.Elimination)
        return replace(uniform, estimator=ESTIMATORS[method]())
    if method.endswith(PUBLISHED):
        name = method.removesuffix(PUBLISHED)
        return asktell.preset(
            name,
            goal,
            schedule="published",
            data="round" if name in LINEAR else "pooled",
        )
    return RIVALS.get(method, method)


def _run_filtered(
    method: str, problem: BenchmarkProblem, budget: int, seed: int
) -> Played:
    """What one would do without constrained fronts."""
    goal = problem.goal
    metrics = [objective.metric for objective in goal.objectives]
    if (
        not goal.is_constrained
        or isinstance(goal, BestFeasible)
        or set(metrics) != set(goal.metrics)
    ):
        raise IncompatibleMethodError(
            f"{method} is for fronts whose objectives are under constraints"
        )
    result = _without_constraints(problem, budget, seed)
    among = (
        result.selected
        if method == "auto+filter"
        else [entry for entry in result.prompts if entry.evaluations]
    )
    values = goal.values(
        np.array(
            [[entry.estimate[metric] for metric in metrics] for entry in among],
            dtype=float,
        )
    )
    if method == "auto+conclude":
        return Played(
            [int(among[i].id) for i in rule_of(goal).answer(values)], result.spent
        )
    violation = np.maximum(0.0, -values[:, len(metrics) :]).max(axis=1)
    rows = (
        np.flatnonzero(violation == 0)
        if (violation == 0).any()
        else [int(violation.argmin())]
    )
    return Played([int(among[i].id) for i in rows], result.spent)


@lru_cache(maxsize=64)
def _without_constraints(
    problem: BenchmarkProblem, budget: int, seed: int
) -> asktell.Result:
    result = run_once(
        AUTO, problem.scores, ParetoSet(*problem.goal.objectives), budget, seed
    ).result
    assert result is not None
    return result
