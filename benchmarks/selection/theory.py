"""What theory says of known means: gaps, hardness, the error bound of linear constrained sequential halving.

For tests and benchmarks. The bound holds for exactly linear scores, a unique best arm
that keeps its constraints strictly, independent examples, and estimates from the
current round only; and it is vacuous at practical budgets: with 100 arms, 10
dimensions, noise 0.5 and gaps of 0.1 it is 1 at 100,000 evaluations. It is no
confidence level.
"""

from math import ceil, exp, log

import numpy as np
import numpy.typing as npt

from asktell.errors import InvalidArgumentError
from asktell.methods.rounds.rules.gaps import pareto_gaps as pareto_gaps
from asktell.numerics.arrays import Floats

Vector = npt.NDArray[np.float64]


def constrained_gaps(means: Floats, thresholds: npt.ArrayLike) -> tuple[Vector, int]:
    """Gaps (K,) of the best-feasible problem, and the position of the best feasible arm, whose gap is 0.

    `means` (K, m), larger is better; column 0 is the objective, and the others keep
    `thresholds` (m - 1,). With the best feasible arm x*, Delta(x) =
    min(max(violation(x), mu_1(x*) - mu_1(x)), min_j (mu_j(x*) - tau_j)).

    Raises:
        InvalidArgumentError: the shapes do not match, or no arm is feasible.
    """
    tau = np.atleast_1d(np.asarray(thresholds, dtype=float))
    if means.ndim != 2 or tau.shape != (means.shape[1] - 1,):
        raise InvalidArgumentError(
            f"constrained_gaps() got means of shape {means.shape} and thresholds of shape {tau.shape}; "
            "expected (arms, metrics) and one threshold for every metric but the first."
        )
    slack = (means[:, 1:] - tau).min(axis=1, initial=np.inf)
    feasible = slack >= 0
    if not feasible.any():
        raise InvalidArgumentError(
            "No arm keeps every threshold; the gaps are defined about the best feasible arm."
        )
    best = int(np.where(feasible, means[:, 0], -np.inf).argmax())
    violation = np.maximum(0.0, -slack)
    gaps = np.minimum(np.maximum(violation, means[best, 0] - means[:, 0]), slack[best])
    gaps[best] = 0.0
    return gaps, best


def hardness(gaps: Vector, best: int | None = None) -> float:
    """H = the largest gap^-2 over all arms except `best`; infinite where one cannot be told from the best."""
    of_rivals = gaps if best is None else np.delete(gaps, best)
    least = float(of_rivals.min(initial=np.inf))
    return float("inf") if least <= 0 else least**-2


def pareto_hardness(gaps: Vector) -> float:
    """H_2 = max_i i / Delta_(i)^2 with the gaps ascending (Kone, Kaufmann & Richert 2024)."""
    ascending = np.sort(gaps)
    if len(ascending) and ascending[0] <= 0:
        return float("inf")
    return float((np.arange(1, len(ascending) + 1) / ascending**2).max(initial=0.0))


def _halvings(n_arms: int) -> int:
    return (n_arms - 1).bit_length()


def error_bound(
    budget: int,
    n_arms: int,
    dimension: int,
    noise: float,
    hardness: float,
    n_metrics: int = 2,
) -> float:
    """Bound on the probability that linear constrained sequential halving misses the best feasible arm.

    min(1, 24 m R exp(-floor(B / R) / (24 noise^2 d H))) with R = ceil(log2 K) rounds,
    from B = 45 d R on; below that it is 1. `noise`: sub-Gaussian standard deviation of
    one score. For m = 2 it is theorem 1 of GENSEC.
    """
    n_rounds = _halvings(n_arms)
    if n_rounds == 0:
        return 0.0
    if budget < 45 * dimension * n_rounds:
        return 1.0
    exponent = (
        (budget // n_rounds) / (24 * noise**2 * dimension * hardness)
        if noise > 0
        else float("inf")
    )
    return min(1.0, 24 * n_metrics * n_rounds * exp(-exponent))


def budget_for_error(
    target: float,
    n_arms: int,
    dimension: int,
    noise: float,
    hardness: float,
    n_metrics: int = 2,
) -> int:
    """The smallest budget at which `error_bound` is at most `target`.

    Raises:
        InvalidArgumentError: the target is not between 0 and 1, or the hardness is
            infinite.
    """
    if not 0 < target < 1 or not np.isfinite(hardness):
        raise InvalidArgumentError(
            f"budget_for_error() got target {target} and hardness {hardness}; expected 0 < target < 1 and a finite one."
        )
    n_rounds = _halvings(n_arms)
    if n_rounds == 0:
        return 0
    per_round = ceil(
        24 * noise**2 * dimension * hardness * log(24 * n_metrics * n_rounds / target)
    )
    budget = max(n_rounds * per_round, 45 * dimension * n_rounds)
    # Rounding of the logarithm may be off by one pull per round.
    while error_bound(budget, n_arms, dimension, noise, hardness, n_metrics) > target:
        budget += n_rounds
    while (less := budget - n_rounds) >= 45 * dimension * n_rounds and error_bound(
        less, n_arms, dimension, noise, hardness, n_metrics
    ) <= target:
        budget = less
    return budget
