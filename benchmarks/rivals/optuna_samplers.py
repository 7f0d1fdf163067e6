"""Optuna (Akiba et al. 2019), version 5: one categorical parameter, the prompt; a trial is one evaluation.

Its own answer is the best single trial, a lucky one; here it gets the best prompts by
sample mean, its best case.
"""

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler

from asktell.problem.goals import BestFeasible, Goal
from benchmarks.rivals.pool import Pool

optuna.logging.set_verbosity(optuna.logging.ERROR)


def random_search(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """`RandomSampler`."""
    return _search(RandomSampler(seed=seed), pool, goal)


def nsga2(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """`NSGAIISampler`; every metric is an objective. With one parameter its default mutation is a random draw."""
    return _search(NSGAIISampler(seed=seed), pool, goal)


def tpe(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """`TPESampler`; every metric is an objective."""
    return _search(TPESampler(seed=seed), pool, goal)


def tpe_constrained(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """`TPESampler` with constraints (`set_constraint`, once `constraints_func`): one objective, each trial's slacks."""
    return _search(TPESampler(seed=seed), pool, goal, constrained=True)


def _search(
    sampler: BaseSampler, pool: Pool, goal: Goal, constrained: bool = False
) -> list[int]:
    n_values = 1 if constrained else len(goal.metrics)
    study = optuna.create_study(sampler=sampler, directions=["maximize"] * n_values)
    space: dict[str, BaseDistribution] = {
        "prompt": CategoricalDistribution(range(pool.n_arms))
    }
    while pool.left:
        trial = study.ask(space)
        scores = pool.pull(trial.params["prompt"])
        # Every metric of the problems is larger-is-better, and a goal's first metric is
        # its objective.
        if constrained:
            assert isinstance(goal, BestFeasible)
            for constraint, slack in zip(
                goal.constraints, goal.values(scores[None])[0, 1:], strict=True
            ):
                trial.set_constraint(str(constraint), -slack)
        study.tell(trial, scores[:n_values].tolist())
    return pool.best(goal)
