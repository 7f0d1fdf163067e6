"""HbBoPs (Schneider et al. 2024, arXiv 2412.07820): Hyperband over examples, prompts proposed by a Gaussian process.

Of the paper: brackets of successive halving from at least b_min = 10 examples with eta
= 2, larger stages on supersets of the smaller ones' examples, every score kept; each
prompt of a bracket's first stage maximizes expected improvement, one in ten is random;
the process is fitted to the highest fidelity with four prompts or more; the answer is
among the prompts of the highest fidelity. There is no official code.

Differences: the process has a Matern 5/2 kernel with a length scale per feature on the
problem's ten or so features, as they come. The paper's deep kernel reduces two
embeddings of 768 numbers, of the instruction and of the few-shot examples, to ten; the
problems have one description, reduced already, and our budgets give 4 to 30 points, to
which a network would fit noise. The length scales have the prior of Hvarfner et al.
2024 for the same reason. Prompts evaluated on all examples are not proposed again. The
random prompt is the least evaluated one; without features all are (plain Hyperband).
With a constraint, expected improvement counts times the probability that it is kept
(Gardner et al. 2014), stages rank with it, and if no prompt of the highest fidelity
keeps it, the next lower fidelity answers. A stage that the budget cuts short shares
what is left evenly: ours are often below one bracket; theirs was 25 prompts in full.
"""

import math

import numpy as np
import numpy.typing as npt

from asktell.methods.rounds.rules import ConstrainedRanking
from asktell.problem.goals import Goal
from benchmarks.rivals.gaussian_process import (
    GaussianProcess,
    expected_improvement,
    probability_of_positive,
)
from benchmarks.rivals.pool import Array, Pool

Arms = npt.NDArray[np.int64]
AT_LEAST = 4
"""Prompts that a fidelity must have for the process to be fitted to it."""


def hbbops(
    pool: Pool,
    goal: Goal,
    seed: int,
    b_min: int = 10,
    eta: float = 2.0,
    at_random: float = 0.1,
) -> list[int]:
    """Hyperband again and again, until the budget is spent or everything is known."""
    schedule = brackets(pool.n_examples, b_min, eta)
    proposer = _Proposer(
        pool, goal, [b for _, b in schedule[0]], np.random.default_rng(seed), at_random
    )
    reached = set()
    while pool.left and pool.counts.min() < pool.n_examples:
        for bracket in schedule:
            arms = np.zeros(0, dtype=np.int64)
            for size, b in bracket:
                if not len(arms):
                    arms = proposer.first_stage(size, b)
                else:
                    ranking = ConstrainedRanking().ranking(
                        _values(pool, goal, arms, int(pool.counts[arms].min()))
                    )
                    arms = arms[ranking[: min(size, math.ceil(len(arms) / eta))]]
                    _extend(pool, arms, b)
                if not pool.left or not len(arms):
                    break
                reached.add(b)
            if len(arms):
                reached.add(int(pool.counts[arms].min()))
    return _answer(pool, goal, reached)


def brackets(n_examples: int, b_min: int, eta: float) -> list[list[tuple[int, int]]]:
    """Hyperband's brackets, each a list of stages (prompts, examples of each): Li et al. 2018, algorithm 1."""
    s_max = max(0, math.floor(math.log(n_examples / b_min) / math.log(eta) + 1e-9))
    result = []
    for s in range(s_max, -1, -1):
        n = math.ceil((s_max + 1) * eta**s / (s + 1))
        result.append(
            [
                (
                    max(1, math.floor(n / eta**i)),
                    math.floor(n_examples * eta ** (i - s)),
                )
                for i in range(s + 1)
            ]
        )
    return result


class _Proposer:
    """Fills the first stage of a bracket, one prompt after another, by what is known so far."""

    def __init__(
        self,
        pool: Pool,
        goal: Goal,
        fidelities: list[int],
        rng: np.random.Generator,
        share: float,
    ) -> None:
        self._pool = pool
        self._goal = goal
        self._fidelities = fidelities
        self._rng = rng
        self._share = share
        self._processes: list[GaussianProcess] = []
        if pool.features is not None:
            spread = pool.features.std(axis=0)
            self._x = (pool.features - pool.features.mean(axis=0)) / np.where(
                spread > 0, spread, 1.0
            )

    def first_stage(self, size: int, b: int) -> Arms:
        """At most `size` prompts, evaluated on `b` examples; fewer if the budget or the prompts run out."""
        chosen: list[int] = []
        while len(chosen) < size and self._pool.left:
            open_ = np.setdiff1d(
                np.flatnonzero(self._pool.counts < self._pool.n_examples), chosen
            )
            if not len(open_):
                break
            arm = self._propose(open_)
            chosen.append(arm)
            _extend(self._pool, np.array([arm]), b)
        return np.array(chosen, dtype=np.int64)

    def _propose(self, open_: Arms) -> int:
        counts = self._pool.counts
        fidelities = [b for b in self._fidelities if (counts >= b).sum() >= AT_LEAST]
        if (
            self._pool.features is None
            or not fidelities
            or self._rng.random() < self._share
        ):
            return int(open_[counts[open_].argmin()])
        return int(open_[self._acquisition(open_, max(fidelities)).argmax()])

    def _acquisition(self, open_: Arms, b: int) -> Array:
        """Expected improvement of the objective times the probability of every constraint."""
        seen = np.flatnonzero(self._pool.counts >= b)
        values = _values(self._pool, self._goal, seen, b)
        centre, scale = values.mean(axis=0), values.std(axis=0)
        standard = (values - centre) / np.where(scale > 0, scale, 1.0)
        zero = -centre / np.where(scale > 0, scale, 1.0)
        if not self._processes:
            self._processes = [GaussianProcess(self._x.shape[1]) for _ in zero]
        feasible = (values[:, 1:] >= 0).all(axis=1)
        result = np.ones(len(open_))
        for i, process in enumerate(self._processes):
            if i == 0 and not feasible.any():
                continue  # nothing to improve on: only the constraints count
            process.fit(self._x[seen], standard[:, i])
            mean, deviation = process.predict(self._x[open_])
            if i == 0:
                result *= expected_improvement(
                    mean, deviation, float(standard[feasible, 0].max())
                )
            else:
                result *= probability_of_positive(mean - zero[i], deviation)
        return result


def _extend(pool: Pool, arms: Arms, b: int) -> None:
    """Evaluate the prompts on the first `b` examples, example by example, so that a cut treats them alike."""
    for upto in range(int(pool.counts[arms].min()) + 1, b + 1):
        for arm in arms[pool.counts[arms] < upto][: pool.left]:
            pool.pull(int(arm))


def _values(pool: Pool, goal: Goal, arms: Arms, b: int) -> Array:
    """The goal's values on the first `b` examples."""
    return goal.values(pool.observed[np.ix_(arms, pool.order[:b])].mean(axis=1))


def _answer(pool: Pool, goal: Goal, reached: set[int]) -> list[int]:
    """The best prompt of the highest fidelity at which one keeps the constraints, if any does."""
    for b in sorted(reached, reverse=True):
        arms = np.flatnonzero(pool.counts >= max(b, 1))
        values = goal.values(pool.means[arms])
        if len(arms) and ConstrainedRanking().feasible(values).any():
            return pool.best(goal, arms)
    return pool.best(goal)
