"""G-optimal design: the pulls that make the worst prediction of a linear model as good as it can be.

The relaxed problem is solved by mirror ascent to a certified tolerance (Kiefer &
Wolfowitz 1960), then rounded to whole pulls by `asktell.methods.rounds.allocators.rounding`.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from asktell.methods.rounds.allocators.base import AbstractAllocator, PullsToShare
from asktell.methods.rounds.allocators.rounding import (
    leverages,
    reduce_support,
    round_design,
)
from asktell.methods.rounds.allocators.uniform import Uniform
from asktell.methods.rounds.directions import span, with_intercept
from asktell.methods.rounds.padding import padded_size
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int
from asktell.problem.checks import check_flag, check_number, whole

# Columns are padded to multiples of it, so that few shapes are compiled.
_WIDTH = 16
# Parts of the total weight that may be dropped, the largest first.
_DROPPED_MASS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def optimal_design(
    x: Float[Floats, "active features"],
    tolerance: float = 0.01,
    max_iterations: int = 5000,
) -> Float[Floats, " active"]:
    """Weights of sum 1 whose largest leverage is at most (1 + tolerance) d, for rows `x` of rank d.

    The largest leverage is d exactly at the optimum (Kiefer & Wolfowitz 1960). Weights
    that the tolerance can spare are 0, and at most d (d + 1) / 2 + 1 are not. The
    tolerance is missed only if `max_iterations` run out.
    """
    from asktell.methods.rounds.allocators import _design_jax

    n, d = x.shape
    # Columns are padded as well, because the rank falls once fewer arms than features
    # are left.
    size, width = padded_size(n), -(-d // _WIDTH) * _WIDTH
    padded = np.zeros((size, width))
    padded[:n, :d] = x
    dimensions = (np.arange(width) < d).astype(float)
    start = np.zeros(size)
    start[:n] = 1.0 / n
    with _design_jax.double_precision():
        # Half of the tolerance is left for sparsity.
        step = _design_jax.mirror_ascent(
            padded, dimensions, start, tolerance / 2, max_iterations
        )
        weights = np.array(step.weights)[:n]
    weights = _drop_smallest(x, weights, (1 + tolerance) * d)
    return reduce_support(x, weights)


def _drop_smallest(
    x: Float[Floats, "active features"],
    weights: Float[Floats, " active"],
    largest: float,
) -> Float[Floats, " active"]:
    """The weights without as many of the smallest as keep the largest leverage below `largest`."""
    ascending = np.argsort(weights, kind="stable")
    mass = np.cumsum(weights[ascending])
    for dropped in _DROPPED_MASS:
        rest = weights.copy()
        rest[ascending[mass <= dropped]] = 0.0
        rest /= rest.sum()
        if np.count_nonzero(rest) >= x.shape[1] and leverages(x, rest).max() <= largest:
            return rest
    return weights


@final
@dataclass(frozen=True)
class GOptimalDesign(AbstractAllocator):
    """Evaluate the arms whose scores help a linear model most to predict the means of all arms from their features.

    The numbers of evaluations follow a G-optimal design. Such a design makes the
    largest standard error of the model's predictions as small as possible. It is
    computed for the arms that can still be evaluated. Many arms get no evaluation. With
    fewer evaluations than coefficients, a linear model cannot be fitted. The
    evaluations are then divided evenly, as by `Uniform`.

    Attributes:
        tolerance: how far the largest variance of a prediction may be above the
            smallest possible value, as a fraction of this value. 0.01 allows 1%.
        intercept: True if the linear model has a constant, as `LeastSquares` has by
            default.
        max_iterations: the largest number of steps of the search. After so many steps,
            the design is used even if it misses `tolerance`.
    """

    tolerance: float = 0.01
    intercept: bool = True
    max_iterations: int = 5000

    def __post_init__(self) -> None:
        # A saved method is checked too, so that no file makes a design run for ever.
        steps = whole(
            "max_iterations of GOptimalDesign", self.max_iterations, 1, 1_000_000
        )
        vars(self).update(
            tolerance=check_number(
                "tolerance of GOptimalDesign", self.tolerance, 0.0, 1.0
            ),
            intercept=check_flag("intercept of GOptimalDesign", self.intercept),
            max_iterations=steps,
        )

    needs_features: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("jax",)

    def allocate(self, pulls: PullsToShare) -> Int[Ints, " active"]:
        assert pulls.features is not None, "the method has checked it"
        n = min(pulls.n_pulls, int(pulls.capacity.sum()))
        # In random order, so that equal arms are not chosen by their position.
        open_ = np.argsort(pulls.priority, kind="stable")
        open_ = open_[pulls.capacity[open_] > 0]
        features = pulls.features[open_]
        x = span(
            with_intercept(features) if self.intercept and len(features) else features
        )
        if n < x.shape[1] or x.shape[1] == 0:
            return Uniform().allocate(pulls)
        weights = optimal_design(x, self.tolerance, self.max_iterations)
        counts = np.zeros(len(pulls.capacity), dtype=np.int64)
        counts[open_] = round_design(
            x, weights, n, pulls.capacity[open_], self.tolerance
        )
        return counts
