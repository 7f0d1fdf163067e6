"""PULSE: UCB-E on doubly robust means (Tolochinsky, Tenzer & Romano 2026, arXiv:2605.10405; elad-tolo/pulse-llm-eval).

A low-rank fit of the scores seen predicts all others. Each pull of a prompt gives an
estimate of its mean that is unbiased whatever the predictions f (AIPW, examples without
replacement), and the better they are, the less it varies:

    (sum of the scores seen before + lambda sum of f on the examples not seen + (score - lambda f) / probability) / N

A prompt's estimate is the average over its pulls, and the prompt with the largest
estimate + sqrt(a / pulls) is next. lambda is the one that minimizes the next term of an
empirical Bernstein width; f and lambda are those of before the pull. A prompt seen on
all examples has its exact mean.

Differences (of the paper, the abstract and the released code were at hand):

- Theirs learns the factors of the examples from thousands of models evaluated before,
  in logits, and then those of the models only. There is no such history here: both are
  fitted to the scores of the run, by alternating least squares on a level, an effect of
  the prompt, one of the example, and factors of rank 3 (theirs: 100), with ridge 1.
- They refit every 1,000 batches of 1,000 models, and then forget what lambda is
  computed from; we refit every K / 10 pulls, as there is more to learn, and keep it.
- Batches, and the first one of every model: 64 of about 400 pulls each, so 16 % of
  ours. Ours counts the first ones.
- Examples come in the seed's order, the same for all prompts: at 3 to 10 pulls each
  nearly no two prompts would else have an example in common, and nothing could be
  predicted. It is uniform for a prompt, but known from the prompts before it; what this
  shifts, it shifts for all prompts alike.
- The bound is that of the code, a = 1 and no confidence interval, but in standard
  deviations (theirs is for scores from 0 to 1), and with a bound on the slack, as in
  `ucb_e`.
"""

import numpy as np
import numpy.typing as npt

from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Array, Pool

RANK = 3
RIDGE = 1.0
BATCH = 0.16  # of the pulls that a prompt has on average


def pulse(pool: Pool, goal: Goal, seed: int, a: float = 1.0) -> list[int]:
    """One batch of every prompt, then the batch of the largest bound, again and again."""
    n = pool.n_examples
    size = min(n, max(1, round(BATCH * pool.budget / pool.n_arms)))
    estimates = _Estimates(pool, seed)
    for arm in range(pool.n_arms):
        estimates.pull(arm, min(size, pool.left))
    estimates.refit(sweeps=10)
    every = max(1, pool.n_arms // 10)
    fitted = pool.spent
    while pool.left and (unfinished := np.flatnonzero(pool.counts < n)).size:
        reach = (
            np.sqrt(a / np.maximum(pool.counts[unfinished], 1))[:, None]
            * pool.deviation
        )
        bound = goal.values(estimates.means[unfinished] + reach)
        slack = bound[:, 1:].min(axis=1, initial=np.inf)
        candidates = (
            np.where(slack >= 0, bound[:, 0], -np.inf) if (slack >= 0).any() else slack
        )
        arm = int(unfinished[candidates.argmax()])
        estimates.pull(arm, min(size, pool.left, n - int(pool.counts[arm])))
        if pool.spent - fitted >= every:
            estimates.refit(sweeps=1)
            fitted = pool.spent
    return pool.best(goal, means=estimates.means)


class _Estimates:
    """Doubly robust means (K, m), and the predictions (K, N, m) that they use."""

    def __init__(self, pool: Pool, seed: int) -> None:
        self._pool = pool
        arms, n, metrics = pool.observed.shape
        self._fits = [LowRank(arms, n, seed + metric) for metric in range(metrics)]
        self._predicted = np.zeros((arms, n, metrics))
        self._sum = np.zeros((arms, metrics))  # of the estimates of every batch
        self._batches = np.zeros(arms, dtype=np.int64)
        # Mean total residual of the batches so far
        self._residual = np.zeros((arms, metrics))
        self.means = np.zeros((arms, metrics))

    def pull(self, arm: int, size: int) -> None:
        """Evaluate the prompt on its next examples, and learn its mean."""
        if size == 0:
            return
        n, seen = self._pool.n_examples, int(self._pool.counts[arm])
        predicted = self._predicted[arm, self._pool.order[seen:]]
        before = self._pool.sums[arm].copy()
        predicted *= weight_of(predicted, size / len(predicted), self._residual[arm])
        scores = np.array([self._pool.pull(arm) for _ in range(size)])
        residual = total_residual(scores, predicted)
        self._sum[arm] += (before + predicted.sum(axis=0) + residual) / n
        self._batches[arm] += 1
        self._residual[arm] += (residual - self._residual[arm]) / self._batches[arm]
        complete = self._pool.counts[arm] == n
        self.means[arm] = (
            self._pool.sums[arm] / n
            if complete
            else self._sum[arm] / self._batches[arm]
        )

    def refit(self, sweeps: int) -> None:
        """Predict from all scores seen."""
        for metric, fit in enumerate(self._fits):
            self._predicted[:, :, metric] = fit(
                self._pool.observed[:, :, metric], sweeps
            )


def total_residual(scores: Array, predicted: Array) -> Array:
    """(m,) Horvitz-Thompson total of the residuals: of scores (B, m), predicted (L, m), the first B of L were drawn."""
    return np.asarray((scores - predicted[: len(scores)]).mean(axis=0) * len(predicted))


def weight_of(predicted: Array, share: float, residual: Array) -> Array:
    """(m,) the weight of the predictions (n, m) on the examples not seen, of which a share is drawn.

    1 - u, where u minimizes the expected square of u x (Horvitz-Thompson total of the
    predictions) - `residual`, the mean total residual so far; within [0, 1].
    """
    total = predicted.sum(axis=0)
    square = total**2 + (1 - share) / share * (predicted**2).sum(axis=0)
    u = total * np.maximum(residual, 0.0) / np.maximum(square, np.finfo(float).tiny)
    return np.asarray(np.clip(1 - u, 0.0, 1.0))


class LowRank:
    """level + a_i + b_j + u_i . v_j, fitted to the cells seen; every call goes on from where the last one ended."""

    def __init__(self, arms: int, examples: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._rows = np.hstack(
            [np.zeros((arms, 1)), np.ones((arms, 1)), rng.normal(0, 0.1, (arms, RANK))]
        )
        self._columns = np.hstack(
            [
                np.ones((examples, 1)),
                np.zeros((examples, 1)),
                np.zeros((examples, RANK)),
            ]
        )

    def __call__(self, observed: Array, sweeps: int) -> Array:
        """(K, N) predictions from cells (K, N), NaN where not seen."""
        seen = ~np.isnan(observed)
        level = float(observed[seen].mean())
        scale = float(observed[seen].std()) or 1.0
        scores = np.where(seen, (observed - level) / scale, 0.0)
        mask = seen.astype(float)
        for _ in range(sweeps):
            self._columns[:, 1:] = _ridge(
                self._rows[:, 1:], scores.T - mask.T * self._rows[:, 0], mask.T
            )
            free = [0, *range(2, 2 + RANK)]
            self._rows[:, free] = _ridge(
                self._columns[:, free], scores - mask * self._columns[:, 1], mask
            )
        return level + scale * self._rows @ self._columns.T


def _ridge(design: Array, scores: Array, mask: npt.NDArray[np.float64]) -> Array:
    """(L, d) coefficients of each line of scores (L, n) on the design (n, d), over the cells of the mask."""
    d = design.shape[1]
    squares = (design[:, :, None] * design[:, None]).reshape(-1, d * d)
    gram = (mask @ squares).reshape(-1, d, d) + RIDGE * np.eye(d)
    return np.asarray(np.linalg.solve(gram, (scores @ design)[:, :, None])[:, :, 0])
