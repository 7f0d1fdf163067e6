"""What proxies say about each cell: cheap metrics that are no part of the goal, scored on many cells.

The scores x_ij of a proxy are divided as those of a metric are:

    x_ij = level + arm effect + example effect + residual

The score y of a metric of the goal is regressed on all three parts, for every
proxy k:

    y_ij = level + sum_k (alpha_k arm_ik + beta_k example_jk + gamma_k residual_ijk) + a_i + b_j + e_ij

The three parts are scaled to a mean square of 1. So a slope is a correlation, in units
of the deviation of the metric's part. The scores of a proxy that predicts the metric
well mostly predict all three parts alike. So each proxy has four slopes, and each kind
of slope has a variance of its own:

- a common slope of all parts, where the parts have the proportions of the metric's own
  variances. After one evaluation per prompt, this is what the scores can show.
- alpha, of the arm effects: whether candidates that the proxy favors are better. It is
  learned from the candidates, which are few. So the posterior is averaged over the
  share of the candidates' variance that the arm effects explain, as for the levels of
  factors (`asktell.posterior.two_way`).
- beta, of the example effects: whether examples are easy for the metric where they are
  easy for the proxy.
- gamma, of the residuals. It is the slope of a control variate (Glynn & Szechtman
  2002): the part of a score's deviation that a proxy explains is no noise any more.

Beta and gamma do not change what a prompt's mean is. Their columns have a mean of 0
over all examples if the proxy has scored every cell. But they take the luck of the
evaluated examples out of the estimates. Where the examples are a sample of new inputs,
the mean of the columns over the sample has an error, which the posterior includes
(`Regressors.shared_error`, `Regressors.arm_error`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int
from asktell.posterior.equations import ENDLESS, System, Variances
from asktell.posterior.regressors import Regressors

# Variances of prompt, example and residual of a proxy that lacks cells, in units of the
# variance of its scores. They decide how far an effect of few cells is shrunk.
_SHARES_OF_A_PROXY = (0.2, 0.3, 0.5)
# A part of a proxy that varies by less than this share of its scores' deviation is
# rounding.
_ROUNDING = 1e-9


class CellScores(NamedTuple):
    """A number for each of some cells, in the order of the arms and then of the examples. It is 0 in all other cells.

    A proxy may have scored few of very many cells, so this is no table of all cells.
    """

    arms: Int[Ints, " cells"]
    examples: Int[Ints, " cells"]
    values: Float[Floats, " cells"]
    n_arms: int
    n_examples: int

    @classmethod
    def of(
        cls,
        arms: Int[Ints, " cells"],
        examples: Int[Ints, " cells"],
        values: Float[Floats, " cells"],
        n_arms: int,
        n_examples: int,
    ) -> "CellScores":
        """The numbers of distinct cells, in any order."""
        order = np.argsort(arms * n_examples + examples)
        return cls(arms[order], examples[order], values[order], n_arms, n_examples)

    def at(
        self, arms: Int[Ints, " some"], examples: Int[Ints, " some"]
    ) -> Float[Floats, " some"]:
        """The numbers of some cells. 0 for a cell without one, and for the example -1."""
        if not len(self.values):
            return np.zeros(len(arms))
        keys = self.arms * self.n_examples + self.examples
        wanted = np.where(examples < 0, -1, arms * self.n_examples + examples)
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[places] == wanted, self.values[places], 0.0)

    def sums(self, values: Float[Floats, " cells"]) -> Float[Floats, " arms"]:
        """The sum of values of the cells, for each arm."""
        return np.asarray(np.bincount(self.arms, values, self.n_arms), np.float64)


class ProxyParts(NamedTuple):
    """The parts of p proxies, each scaled to a mean square of 1. A part that does not vary is 0."""

    arms: Float[Floats, "arms proxies"]
    examples: Float[Floats, "examples proxies"]
    # For each proxy, of the cells that have its score
    residuals: tuple[CellScores, ...]

    @classmethod
    def of(cls, proxies: Sequence[CellScores]) -> "ProxyParts | None":
        """Divide the scores of proxies. None without scores."""
        if not any(len(scores.values) for scores in proxies):
            return None
        parts = [_divided(scores) for scores in proxies]
        return cls(
            np.column_stack([part[0] for part in parts]),
            np.column_stack([part[1] for part in parts]),
            tuple(part[2] for part in parts),
        )

    def regressors(
        self,
        factors: Regressors | None,
        arms: Int[Ints, " cells"],
        examples: Int[Ints, " cells"],
        n_examples: int | None,
        variances: Variances,
    ) -> Regressors:
        """The arm effects, after the columns of the candidates' factors, and three columns of the cells per proxy.

        The columns of the cells are all parts together, the example effects, and the
        residuals. All parts together have the proportions of the metric's variances of
        prompts, examples and residual. A part is 0 where a proxy has no score.
        """
        of_proxies = self.arms / np.sqrt(self.arms.shape[1])
        levels, blocks = of_proxies, np.zeros(self.arms.shape[1], np.int64)
        if factors is not None:
            levels = np.concatenate((factors.arms, of_proxies), axis=1) / np.sqrt(2.0)
            blocks = np.concatenate((factors.blocks, factors.n_arm_blocks + blocks))
        part = np.sqrt(np.array(variances) / sum(variances))
        of_arms = part[0] * self.arms  # (K, p)
        effects = np.where((examples >= 0)[:, None], self.examples[examples], 0.0)
        residuals = np.column_stack([of.at(arms, examples) for of in self.residuals])
        whole = of_arms[arms] + part[1] * effects + part[2] * residuals
        n_arms, n_proxies = self.arms.shape
        mean_effects = np.tile(self.examples.mean(axis=0), (n_arms, 1))
        mean_residuals = np.column_stack(
            [of.sums(of.values) / of.n_examples for of in self.residuals]
        )
        mean_whole = of_arms + part[1] * mean_effects + part[2] * mean_residuals
        is_new = n_examples is None or n_examples >= ENDLESS
        # If the examples are a sample of the inputs, means over them have an error.
        shared = is_new * _error_of_mean(self.examples.T)
        of_each = is_new * np.column_stack(
            [
                np.sqrt(of.sums(of.values**2))
                / np.maximum(of.sums((of.values != 0.0) * 1.0), 1.0)
                for of in self.residuals
            ]
        )
        scale = 1.0 / np.sqrt(n_proxies)
        n_blocks = int(blocks.max()) + 1
        return Regressors(
            levels,
            scale * np.concatenate((whole, effects, residuals), axis=1),
            scale * np.concatenate((mean_whole, mean_effects, mean_residuals), axis=1),
            scale * np.concatenate((part[1] * shared, shared, 0.0 * shared)),
            scale * np.concatenate((part[2] * of_each, 0.0 * of_each, of_each), axis=1),
            np.concatenate((blocks, n_blocks + np.repeat([0, 1, 2], n_proxies))),
        )


def _error_of_mean(members: Floats) -> Floats:
    """The standard error of the mean over the last axis, where a member that is 0 is unknown."""
    n = np.maximum((members != 0.0).sum(axis=-1), 1)
    return np.asarray(np.sqrt((members**2).sum(axis=-1)) / n)


def _divided(
    scores: CellScores,
) -> tuple[Float[Floats, " arms"], Float[Floats, " examples"], CellScores]:
    """The arm effects, example effects and residuals of one proxy, each scaled to a mean square of 1."""
    of_arms, of_examples = np.zeros(scores.n_arms), np.zeros(scores.n_examples)
    n_cells = scores.n_arms * scores.n_examples
    if not len(scores.values):
        return of_arms, of_examples, scores
    spread = float(scores.values.std())
    values = scores.values - float(scores.values.mean())
    if len(values) == n_cells:
        table = values.reshape(scores.n_arms, scores.n_examples)
        of_arms, of_examples = table.mean(axis=1), table.mean(axis=0)
    elif spread > 0.0:
        of_arms, of_examples = _effects(scores._replace(values=values), spread)
    rest = values - of_arms[scores.arms] - of_examples[scores.examples]
    return (
        _scaled(of_arms, len(of_arms), spread),
        _scaled(of_examples, len(of_examples), spread),
        scores._replace(values=_scaled(rest, n_cells, spread)),
    )


def _effects(
    scores: CellScores, spread: float
) -> tuple[Float[Floats, " arms"], Float[Floats, " examples"]]:
    """Posterior means of both effects where a proxy lacks cells: an effect of few cells is shrunk to 0."""
    arms, examples, values, n_arms, n_examples = scores
    system = System(arms, examples, values / spread, n_arms, n_examples)
    solution = system.solve(Variances(*_SHARES_OF_A_PROXY))
    kept, other = solution.u[1:, 0] * spread, solution.other[:, 0] * spread
    of_arms, of_seen = (kept, other) if system.keep_arms else (other, kept)
    of_examples = np.zeros(n_examples)
    of_examples[np.unique(examples)] = of_seen
    return of_arms, of_examples


def _scaled(part: Floats, n: int, spread: float) -> Floats:
    """A part, scaled to a mean square of 1 over n members. Members that are not given are 0."""
    size = float(np.sqrt((part**2).sum() / n))
    return part / size if size > _ROUNDING * spread else np.zeros(part.shape)
