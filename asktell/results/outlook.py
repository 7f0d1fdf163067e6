"""The outlook: the expected gain of more evaluations.

It is a preposterior calculation (Raiffa & Schlaifer 1961, chapter 5):

1. Take each joint draw of the posterior as the truth in turn.
2. Draw the means that more evaluations would lead to under that truth.
3. Select a prompt by these means, and compute its loss under that truth.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cached import cached_property
from asktell.posterior.statement import Statement
from asktell.record import State
from asktell.results.losses import AbstractLoss, Draws

# Evaluations in the outlook, relative to the number spent
_MORE = (0.5, 1.0, 2.0)
# Share of an evaluation's information that is about the prompt. The rest is about the
# example.
_OF_PROMPT = 0.5
# Of further evaluations in the outlook, since `auto` narrows its contenders over time
_STAGES = 3


@dataclass(frozen=True)
class Outlook:
    """The forecast for a number of further evaluations. The `outlook` of a verdict has several.

        >>> import asktell
        >>> unknown = [float("nan")] * 36
        >>> scores = [[1, 1, 1, 0, 1, 1, 0, 1, *unknown], [1, 0, 0, 1, 1, 1, 0, 0, *unknown]]
        >>> goal = asktell.BestFeasible(asktell.maximize("accuracy", range=(0, 1)))
        >>> verdict = asktell.analyze(scores, goal).verdict
        >>> round(verdict.p_best, 2)
        0.74
        >>> [(then.evaluations, round(then.p_best, 2)) for then in verdict.outlook]
        [(8, 0.74), (16, 0.74), (32, 0.75), (72, 0.78)]

    Attributes:
        evaluations: the number of further evaluations.
        cost: their expected cost. None if no costs were recorded.
        p_best: the expected probability of selecting the best prompt after these
            evaluations. None for a Pareto set.
        loss: the expected `loss` of the verdict after these evaluations, in the same
            units.
        p_good: the expected `p_good` of the verdict after these evaluations.
    """

    evaluations: int
    cost: float | None
    p_best: float | None
    loss: float
    p_good: float


@final
class Forecaster:
    """Forecasts for a state, by a loss.

    Attributes:
        n_left: (K,) remaining evaluations of each prompt, infinite without a fixed set
            of examples.
    """

    def __init__(self, state: State, statement: Statement, loss: AbstractLoss) -> None:
        """Count the evaluations that are left."""
        self._state, self._statement, self._loss = state, statement, loss
        problem = state.problem
        most = np.inf
        if problem.examples.n is not None:
            most = float(problem.examples.n * problem.examples.repeats)
        self.n_left = np.where(loss.alive, np.maximum(most - state.told, 0.0), 0.0)

    def forecasts(self, now: Outlook) -> tuple[Outlook, ...]:
        """Forecasts for half as many evaluations as were spent, as many, twice as many, and all that remain.

        `now` has what is expected without further evaluations.
        """
        problem, loss = self._state.problem, self._loss
        n_spent, n_left = max(1, len(self._state.history)), float(self.n_left.sum())
        # All that remain are the last forecast, if the examples have an end.
        wanted = [float(round(part * n_spent)) for part in _MORE]
        wanted = [n for n in wanted if n < n_left]
        wanted += [n_left] if 0 < n_left < np.inf else []
        new_examples = np.inf
        if problem.examples.n is not None:
            new_examples = float(problem.examples.n - self._statement.n_seen)
        p_best, p_good, least = now.p_best, now.p_good, now.loss
        outlook = []
        for n in wanted:
            first = _allotted(n / _STAGES, loss.interest, self.n_left)
            predicted = self._predicted(
                first, n - n / _STAGES, min(new_examples, float(first.max()) * _STAGES)
            )
            held = loss.chosen(predicted)
            # More scores never do harm, so a forecast that is worse is Monte Carlo error.
            hits = loss.p_best(held)
            p_best = None if hits is None or p_best is None else max(hits, p_best)
            least = min(float(loss.of(held).mean()), least)
            p_good = max(loss.p_good(held), p_good)
            costs = self._state.costs
            price = None
            if costs.pool.total:
                per_arm = _allotted(n, loss.interest, self.n_left)
                price = float(per_arm @ costs.expected_all(len(per_arm)))
            outlook.append(Outlook(int(n), price, p_best, least, p_good))
        return tuple(outlook)

    def loss_with_new_examples(self, n: int, arms: Ints) -> float:
        """The expected loss if these arms are evaluated on n new examples."""
        evaluations = np.zeros(len(self.n_left))
        evaluations[arms] = n
        held = self._loss.chosen(self._predicted(evaluations, 0.0, float(n)))
        return float(self._loss.of(held).mean())

    def _predicted(self, first: Floats, rest: float, new_examples: float) -> Draws:
        """(S, K, q) the means that more evaluations would lead to if each draw were the truth.

        `first` (K,) are the next evaluations of each prompt. The `rest` is divided
        among the prompts that lead by then, fewer at each stage. An evaluation observes
        a prompt's distance from the common level with the variance of the residual. The
        level itself becomes known with the number of new examples.
        """
        example, residual = self._variances()
        *normals, of_level = self._normals
        values, alive = self._loss.values, self._loss.alive
        mean = values.mean(axis=0)  # (K, q)
        level = values[:, alive].mean(axis=1, keepdims=True)
        level = level - level.mean(axis=0)  # (S, 1, q)
        off = values - mean - level  # the truth, about the means of now
        start, variance = np.zeros_like(off), off.var(axis=0)
        at, of_arms = _observed(start, variance, off, first, residual, normals[0])
        variance = np.repeat(of_arms[None], len(at), axis=0)
        contenders = max(2, _effective(self._loss.interest))
        for stage, normal in enumerate(normals[1:], 1):
            n = max(2, round(contenders ** (1.0 - stage / _STAGES)))
            share = self._loss.leaders(mean + at, n, self.n_left > 0)
            share = share * (rest / (_STAGES - 1))
            lead = share > 0  # The few prompts that lead in a draw
            at[lead], variance[lead] = _observed(
                at[lead],
                variance[lead],
                off[lead],
                share[lead],
                residual,
                normal[lead],
            )
        at_level = _moved(
            level, new_examples, example + residual / alive.sum(), of_level
        )
        return np.asarray(mean + at + at_level)

    @cached_property
    def _normals(self) -> list[Draws]:
        """Standard normals: (S, K, q) for each stage, then (S, 1, q) for the level.

        Every forecast uses the same, so that forecasts differ less by chance.
        """
        rng = np.random.default_rng(0)  # as in a statement
        values = self._loss.values
        of_stages = [rng.normal(size=values.shape) for _ in range(_STAGES)]
        return [*of_stages, rng.normal(size=values[:, :1].shape)]

    def _variances(self) -> tuple[Floats, Floats]:
        """(q,) variances of the example effect and of the residual, of the goal's values."""
        goal = self._loss.goal
        unit, zero = np.eye(len(goal.columns)), np.zeros((1, len(goal.columns)))
        slope = goal.values(unit, goal.offsets) - goal.values(zero, goal.offsets)
        weight = slope**2
        example = self._statement.example @ weight
        residual = self._statement.residual @ weight
        # Columns of which the worst counts share the evaluations.
        return example, residual * [len(columns) for columns in goal.worst_of]


def _effective(weights: Floats) -> int:
    """The effective number of prompts with these weights (Kish 1965)."""
    squares = float((weights**2).sum())
    return round(float(weights.sum()) ** 2 / squares) if squares > 0 else len(weights)


def _allotted(n: float, interest: Floats, most: Floats) -> Floats:
    """(K,) n evaluations divided by the weights `interest`, at most `most` for each prompt."""
    allotted, left = np.zeros(len(most)), min(n, float(most.sum()))
    weights = np.where(most > 0, np.maximum(interest, 1e-6), 0.0)
    # What a full prompt cannot take is divided among the others, in the next turn.
    while left > 1e-9 and weights.any():
        share = np.minimum(left * weights / weights.sum(), most - allotted)
        allotted += share
        left -= float(share.sum())
        weights = np.where(most - allotted > 1e-9, weights, 0.0)
    return allotted


def _observed(
    start: Draws,
    variance: Draws,
    truth: Draws,
    n: Floats,
    residual: Floats,
    normal: Draws,
) -> tuple[Draws, Draws]:
    """Posterior means and variances (..., q) after n (...) more scores about the truth (..., q).

    `start` and `variance` are those before. A score has the variance of the residual
    (q,), and `normal` (..., q) are its standard normals. The update is the
    normal-normal posterior of a mean.
    """
    # Numbers that are the same in all draws are computed once: `n` and `variance` may
    # lack the axis of the draws.
    n = n[..., None] * _OF_PROMPT
    part = np.where(
        np.isinf(n), 1.0, n * variance / np.maximum(n * variance + residual, 1e-300)
    )
    part = np.where((residual > 0) | (n == 0), part, 1.0)
    squares = np.divide(residual, n, out=np.zeros(part.shape), where=n > 0)
    error = np.sqrt(squares) * normal
    return start + part * (truth + error - start), (1.0 - part) * variance


def _moved(off: Draws, n: float, variance: Floats, normal: Draws) -> Draws:
    """Posterior means (S, 1, q) of the common level after n more examples, given centered draws `off` of it."""
    start, spread = np.zeros_like(off), off.var(axis=0)
    means, _ = _observed(start, spread, off, np.array([n]), variance, normal)
    return means
