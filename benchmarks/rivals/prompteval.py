"""PromptEval (Maia Polo et al. 2024, arXiv 2405.17202, felipemaiapolo/prompteval): a Rasch model of the cells.

The logit of a score is an effect of the prompt (its own, or linear in its features) and
one of the example, fitted by logistic regression with normal priors of variance 100. A
prompt's estimate is its mean over all examples, predicted where not observed.
`prompteval` spends the budget on a sample balanced over prompts and examples;
`prompteval_bai` is the paper's identification of the best prompt, sequential halving on
these estimates.

Differences: scores other than 0 and 1 are scaled by the range observed and enter the
likelihood as they are (theirs are cut at a threshold, which loses what a constraint on
a length needs); a model per metric; in the halving, the constrained ranking, and the
larger half stays (theirs keeps the smaller, and has one prompt left in the last round);
the answer is by the estimates there, too, not by sample means; every example has an
effect (theirs sets the last one's to 0). Without features, `features=True` is as if it
were False.
"""

import math

import numpy as np
import numpy.typing as npt

from asktell.methods.rounds.rules import ConstrainedRanking
from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Array, Pool

PRIOR_VARIANCE = 100.0


def prompteval(pool: Pool, goal: Goal, seed: int, features: bool = False) -> list[int]:
    """The whole budget on one balanced sample."""
    _sample(pool, np.arange(pool.n_arms), pool.left, np.random.default_rng(seed))
    return pool.best(goal, means=_estimates(pool, features))


def prompteval_bai(
    pool: Pool, goal: Goal, seed: int, features: bool = False
) -> list[int]:
    """ceil(log2(K)) rounds of as many pulls; after each, the worse half leaves."""
    rng = np.random.default_rng(seed)
    active = np.arange(pool.n_arms)
    n_rounds = max(1, math.ceil(math.log2(pool.n_arms)))
    for i in range(n_rounds):
        _sample(
            pool,
            active,
            pool.budget // n_rounds + (pool.budget % n_rounds if i == 0 else 0),
            rng,
        )
        ranking = ConstrainedRanking().ranking(
            goal.values(_estimates(pool, features)[active])
        )
        active = active[ranking[: math.ceil(len(active) / 2)]]
    means = _estimates(pool, features)
    return pool.best(goal, active, means) or pool.best(goal, means=means)


def predict(observed: Array, design: Array) -> Array:
    """(K, N) expected scores, from those observed (K, N; NaN where not; at least one) and the design (K, p)."""
    is_observed = np.isfinite(observed)
    low, high = observed[is_observed].min(), observed[is_observed].max()
    if low == high:
        return np.full(observed.shape, low)
    labels = np.where(is_observed, (observed - low) / (high - low), 0.0)
    return np.asarray(low + (high - low) * _logistic(_fit(is_observed, labels, design)))


def _fit(known: npt.NDArray[np.bool_], labels: Array, design: Array) -> Array:
    """(K, N) logits of largest posterior density, by Newton's method with step halving.

    The examples' effects are eliminated first: their part of the Hessian is diagonal.
    """
    ridge = 1 / PRIOR_VARIANCE
    gamma, beta = np.zeros(design.shape[1]), np.zeros(known.shape[1])

    def loss(gamma: Array, beta: Array) -> float:
        logits = (design @ gamma)[:, None] + beta
        misfit = np.where(known, np.logaddexp(0, logits) - labels * logits, 0.0).sum()
        return float(misfit + ridge * (gamma @ gamma + beta @ beta) / 2)

    now = loss(gamma, beta)
    for _ in range(100):
        p = _logistic((design @ gamma)[:, None] + beta)
        residual = np.where(known, labels - p, 0.0)
        weight = np.where(known, p * (1 - p), 0.0)
        slope_gamma = design.T @ residual.sum(axis=1) - ridge * gamma
        slope_beta = residual.sum(axis=0) - ridge * beta
        cross, curvature = design.T @ weight, weight.sum(axis=0) + ridge
        within = (design.T * weight.sum(axis=1)) @ design + ridge * np.eye(len(gamma))
        step_gamma = np.linalg.solve(
            within - (cross / curvature) @ cross.T,
            slope_gamma - cross @ (slope_beta / curvature),
        )
        step_beta = (slope_beta - step_gamma @ cross) / curvature
        size = 1.0
        while (
            then := loss(gamma + size * step_gamma, beta + size * step_beta)
        ) > now and size > 1e-6:
            size /= 2
        gamma, beta = gamma + size * step_gamma, beta + size * step_beta
        if now - then < 1e-6 * now:
            break
        now = then
    return np.asarray((design @ gamma)[:, None] + beta)


def _estimates(pool: Pool, features: bool) -> Array:
    """(K, m) means over all examples of what was observed or else is predicted."""
    design = (
        pool.features if features and pool.features is not None else np.eye(pool.n_arms)
    )
    columns = []
    for metric in range(pool.observed.shape[2]):
        observed = pool.observed[:, :, metric]
        is_observed = np.isfinite(observed)
        columns.append(
            np.where(
                is_observed,
                observed,
                predict(observed, design) if is_observed.any() else 0.0,
            ).mean(axis=1)
        )
    return np.stack(columns, axis=1)


def _sample(
    pool: Pool, active: npt.NDArray[np.int64], n_pulls: int, rng: np.random.Generator
) -> None:
    """Again and again a least pulled of the active prompts, on a least used of the examples that it has not seen."""
    unseen = np.isnan(pool.observed[:, :, 0])
    used = (~unseen).sum(axis=0)
    for _ in range(min(n_pulls, int(unseen[active].sum()))):
        arm = active[_least(pool.counts[active], rng)]
        open_examples = np.flatnonzero(unseen[arm])
        example = open_examples[_least(used[open_examples], rng)]
        pool.pull(int(arm), int(example))
        unseen[arm, example] = False
        used[example] += 1


def _least(counts: npt.NDArray[np.int64], rng: np.random.Generator) -> int:
    """A position of the minimum, one of several by chance."""
    positions = np.flatnonzero(counts == counts.min())
    return int(positions[rng.integers(len(positions))])


def _logistic(logits: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))))
