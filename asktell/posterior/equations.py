"""The mixed-model equations of the two-way model, for standardized scores of one metric (Henderson 1975).

The model. Cell c holds the score of prompt (arm) i on example j:

    y_c = level + l_c a_i + b_j + e_c
    a_i ~ N(0, s_a²),   b_j ~ N(0, s_b² g_j),   e_c ~ N(0, s_e² / w_c)

The level has a flat prior. The loading l_c and the spread g_j are 1 unless earlier
studies give the shape of the examples (`asktell.problem.examples.shape`). The weight w_c is
the precision of the cell in units of 1 / s_e². It is 1 for a single score of an example
without a shape.

The equations. X_a and X_b are the designs of the two effects, so that y = 1 level + X_a
a + X_b b + e. X_a has l_c in its rows, and X_b has 1. W is the diagonal matrix of the
weights. Times s_e², Henderson's equations are

    | 1'W 1     1'W X_a                   1'W X_b                       |  | level |     | 1'W y   |
    | X_a'W 1   X_a'W X_a + s_e²/s_a² I   X_a'W X_b                     |  | a     |  =  | X_a'W y |
    | X_b'W 1   X_b'W X_a                 X_b'W X_b + s_e²/s_b² G^-1    |  | b     |     | X_b'W y |

where G is the diagonal matrix of the spreads. The blocks of a and of b on the diagonal
are diagonal matrices, since a cell has one arm and one example. So one effect can be
eliminated at the cost of a division. The effect with more members is eliminated: it is
called "other" below, and the effect that stays is called "kept". With

    D = the inverse of the other effect's diagonal block,
    F = (1, X_kept)' W X_other,            (1 + kept, other)
    M = the block of (level, kept effect), r and r_other = the right-hand sides,

the solution is

    u = (level, kept effect) = (M - F D F')^-1 (r - F D r_other),      other effect = D (r_other - F' u).

So the equations to solve have the size of the smaller effect. F is kept sparse where it
is large and mostly empty.

The quantities of interest are the arms' means. Over new inputs, theta_i = level + a_i.
Over the N given examples, theta_i is the mean of the N cells of arm i:

    theta_i = (sum of the seen cells + sum over the unseen cells of (level + l a_i + b_j + e)) / N.

Noise. Where repeated scores of a cell differ, a part `noise` of the residual variance
is noise within the cell, and the rest belongs to the cell's own expectation. The mean
of r scores of a cell then has the residual variance times 1 - noise + noise / r, so the
weight of the cell is the inverse of that factor. A part (1 - noise) / (1 - noise +
noise / r) of the cell's deviation carries over to its expectation. The rest of the
expectation is inferred in the same way as that of an unseen cell. Without noise this
part is 1.
"""

from typing import Any, NamedTuple

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints, numbered
from asktell.numerics.shapes import Bool, Float, Int
from asktell.posterior.mixture import Gaussian, row_products
from asktell.posterior.regressors import Regressors
from asktell.problem.examples.shape import Shape

# Number of entries above which a mostly empty table is sparse
_LARGE = 1 << 15
# Share of a table's cells with an entry, above which dense products are faster than
# sparse products
_MOSTLY_EMPTY = 0.25

# As a number of examples: means over unseen examples, so the seen examples have no
# weight in them
ENDLESS = 1 << 40
# Number of unknowns from which LAPACK's special routines are faster than the general
# ones
_LAPACK_FROM = 64
_FEW = 64  # number of columns up to which the rest of F is made dense
_MOST_KINDS = 64  # number of kinds of members for which sums of products are kept
_FEW_OF_A_KIND = 8  # number of members whose sum is as fast to add up again


class Variances(NamedTuple):
    """The variances s_a² of the prompt effect, s_b² of the example effect and s_e² of the residual."""

    prompt: float
    example: float
    residual: float


class Solved(NamedTuple):
    """The solution of the equations for given variances.

    `u` and `other` have a column for the scores, and one for each regressor as if it
    were the scores.
    """

    u: Float[Floats, "1+kept 1+features"]  # the level and the kept effect
    # (M - F D F')^-1. Times the residual variance, it is the covariance of u.
    inverse: Float[Floats, "1+kept 1+kept"]
    # The diagonal of D. Times the residual variance, it is the variance of the other
    # effect given u.
    d: Float[Floats, " other"]
    other: Float[Floats, "other 1+features"]  # posterior mean of the other effect


class Groups(NamedTuple):
    """Groups of the examples. Each arm stands for its mean over the examples of one group."""

    of_arms: Int[Ints, " arms"]  # the group of each arm
    of_examples: Int[Ints, " examples"]  # the group of each example
    sizes: Float[Floats, " groups"]  # the number of examples in each group


class Design(NamedTuple):
    """The incidence of the model: which arm and which example each of the n cells belongs to, and with what loading.

    The J columns are the distinct examples that were seen, in ascending order. A score
    on an example that is none of the N has a column of its own. Over new inputs without
    examples there are no columns.
    """

    arms: Int[Ints, " cells"]
    columns: Int[Ints, " cells"]
    # True for a column that is one of the N examples
    in_population: Bool[Bools, " seen"]
    group_of_arm: Int[Ints, " arms"]
    group_of_column: Int[Ints, " seen"]
    sizes: Float[Floats, " groups"]  # the number of examples in each group
    loading: Float[Floats, " cells"]  # l_c
    # Residual variance of each cell, in units of s_e²
    residual: Float[Floats, " cells"]
    spread: Float[Floats, " seen"]  # g_j
    # Sum of g_j over the examples of the group that nobody has seen
    unseen_spread: Float[Floats, " groups"]
    # Log determinant that the cells' residuals and the columns' spreads add
    log_shape: float

    @classmethod
    def of(
        cls,
        arms: Int[Ints, " cells"],
        examples: Int[Ints, " cells"],
        n_arms: int,
        n_examples: int | None,
        shape: Shape | None,
        groups: Groups | None,
    ) -> "Design":
        """The design of cells at (`arms`, `examples`), -1 for an example that is none of the N."""
        columns, seen = _columns_of(examples, n_examples)
        in_population = seen < (n_examples or 0)
        group_of_arm = np.zeros(n_arms, np.int64)
        group_of_column = np.zeros(len(seen), np.int64)
        sizes = np.array([float(n_examples or 0)])
        if groups is not None:
            group_of_arm, sizes = groups.of_arms, groups.sizes
            group_of_column[in_population] = groups.of_examples[seen[in_population]]
        loading, residual, spread = (
            np.ones(len(arms)),
            np.ones(len(arms)),
            np.ones(len(seen)),
        )
        if shape is not None:
            is_given = examples >= 0
            loading[is_given] = shape.loading[examples[is_given]]
            residual[is_given] = shape.residual[examples[is_given]]
            spread[in_population] = shape.example[seen[in_population]]
        # The spreads of all examples of a group sum to its size, since their mean is 1.
        seen_spread = np.bincount(
            group_of_column[in_population], spread[in_population], len(sizes)
        )
        return cls(
            arms,
            columns,
            in_population,
            group_of_arm,
            group_of_column,
            sizes,
            loading,
            residual,
            spread,
            unseen_spread=np.maximum(0.0, sizes - seen_spread),
            log_shape=float(np.log(residual).sum() + np.log(spread).sum()),
        )


def _columns_of(
    examples: Int[Ints, " cells"], n_examples: int | None
) -> tuple[Int[Ints, " cells"], Int[Ints, " seen"]]:
    """The column (n,) of each cell, and the number (J,) of each column's example, N or more for one of its own."""
    n = len(examples)
    if n_examples is None:
        return np.zeros(n, dtype=np.int64), examples[:0]
    named = np.where(examples < 0, n_examples + np.arange(n), examples)
    seen, columns = numbered(named)
    return columns, seen


class _Parts(NamedTuple):
    """The parts of the arms' means over the given examples, for theta_i as in the head of this module.

    A cell counts as seen to the extent that its score carries over to its expectation.
    """

    # That extent, 0 for a score on an example that is none of the N
    told: Float[Floats, " cells"]
    # Sum of the seen cells over N, and of their regressors as if they were scores
    known: Float[Floats, "arms 1+features"]
    unknown: Float[Floats, " arms"]  # weight of the level: the unseen part of the cells
    # Weight of the arm's own effect: the loadings of the unseen part
    ahead: Float[Floats, " arms"]
    # Standard deviation of the mean effect of the examples that nobody has seen
    common: Float[Floats, " groups"]
    # Standard deviation of the mean residual of the unseen part
    residual: Float[Floats, " arms"]
    exact: Bool[Bools, " arms"]  # true for an arm that is known exactly


class _Products:
    """Fast sums F diag(weights) F' over the members of the other effect.

    The weights follow from the members' counts and spreads: d = 1 / (count + ratio /
    spread). Many members have the same of both, hence the same weight for all
    variances. The products of the members of one such kind are summed once.
    """

    def __init__(
        self, f: Any, counts: Float[Floats, " other"], spreads: Float[Floats, " other"]
    ) -> None:
        self._size = f.shape[0]
        # A pair of numbers as one complex number, so that pairs can be sorted.
        kinds_of = counts if (spreads == 1.0).all() else counts + 1j * spreads
        values, kind, sizes = np.unique(
            kinds_of, return_inverse=True, return_counts=True
        )
        frequent = np.argsort(-sizes, kind="stable")[:_MOST_KINDS]
        frequent = frequent[sizes[frequent] > _FEW_OF_A_KIND]
        number = np.full(len(values), -1, dtype=np.int64)
        number[frequent] = np.arange(len(frequent))
        kinds = number[kind]
        self._of_a_kind = np.flatnonzero(kinds >= 0)
        self._others = np.flatnonzero(kinds < 0)
        self._kind = kinds[self._of_a_kind]
        self._n_kinds = len(frequent)
        self._products = self._sums_of_kinds(f[:, self._of_a_kind])
        rest = f[:, self._others]
        self._rest = rest if len(self._others) > _FEW else _dense(rest)

    def _sums_of_kinds(self, f: Any) -> Float[Floats, "kinds size*size"]:
        """F F' summed over the members of each kind."""
        n = self._size
        if isinstance(f, np.ndarray):
            parts = [f[:, self._kind == k] for k in range(self._n_kinds)]
            return np.array([part @ part.T for part in parts]).reshape(
                self._n_kinds, n * n
            )
        from scipy import sparse  # here, to keep the import of asktell light

        # One product does for all kinds: the copies of F for the kinds are stacked.
        by_kind = f.tocoo()
        rows = by_kind.row + n * self._kind[by_kind.col]
        stacked = sparse.csr_matrix(
            (by_kind.data, (rows, by_kind.col)), shape=(n * self._n_kinds, f.shape[1])
        )
        return _dense(stacked @ f.T).reshape(self._n_kinds, n * n)

    def weighted(self, weights: Float[Floats, " other"]) -> Float[Floats, "size size"]:
        """F diag(weights) F'."""
        result = (self._weight_of_kinds(weights) @ self._products).reshape(
            self._size, self._size
        )
        if len(self._others):
            result += _dense(_times(self._rest, weights[self._others]) @ self._rest.T)
        return np.asarray(result)

    def trace(
        self, weights: Float[Floats, " other"], matrix: Float[Floats, "size size"]
    ) -> float:
        """The trace of F diag(weights) F' times a symmetric matrix (size, size)."""
        result = self._weight_of_kinds(weights) @ (self._products @ matrix.ravel())
        if len(self._others):
            result += (
                row_products(self._rest.T, self._rest.T @ matrix)
                @ weights[self._others]
            )
        return float(result)

    def _weight_of_kinds(
        self, weights: Float[Floats, " other"]
    ) -> Float[Floats, " kinds"]:
        of_kind = np.empty(self._n_kinds)
        of_kind[self._kind] = weights[self._of_a_kind]
        return of_kind


class System:
    """Henderson's equations for cells at (`arms`, `examples`), -1 for an example that is none of the N.

    Args:
        arms: (n,) the arm of each cell.
        examples: (n,) the example of each cell.
        y: (n,) standardized scores, without the shift of the shape.
        n_arms: K.
        n_examples: N, or None for means over new inputs, where examples have no effect
            of their own.
        regressors: q columns of the arms, and r of the cells, for a regression with
            independent slopes.
        asks: (n,) the number of scores of which each cell's score is the mean.
        noise: The part of the residual variance that is noise within a cell.
        shape: How the N examples differ.
        groups: Groups of the examples, if each arm stands for its mean over one group.

    Attributes:
        scales: (q + r,) the slopes' standard deviations. Those of the columns of the
            arms are in units of a common one, and those of the cells in units of the
            residual's. They are 1 until the variances of the blocks are estimated
            (`asktell.posterior.two_way.reml`).
    """

    def __init__(
        self,
        arms: Int[Ints, " cells"],
        examples: Int[Ints, " cells"],
        y: Float[Floats, " cells"],
        n_arms: int,
        n_examples: int | None,
        regressors: Regressors | None = None,
        asks: Int[Ints, " cells"] | None = None,
        noise: float = 0.0,
        shape: Shape | None = None,
        groups: Groups | None = None,
    ) -> None:
        self.y, self.n, self.n_arms, self.n_examples = y, len(y), n_arms, n_examples
        self.noise = noise
        self.precision = (
            np.ones(len(y)) if asks is None else 1.0 / (1.0 - noise + noise / asks)
        )
        if regressors is None:
            regressors = Regressors.of_arms(np.zeros((n_arms, 0)))
        self.regressors = regressors
        self.scales = np.ones(len(regressors.blocks))
        self.has_covariates = regressors.cells.shape[1] > 0
        self.arms = arms
        self.design = Design.of(arms, examples, n_arms, n_examples, shape, groups)
        self.n_columns = len(self.design.in_population)
        self._choose_kept_effect()
        self._build_left_side()
        self._build_right_side()
        if self.has_covariates:
            self._add_covariates()
        self.products = _Products(self.f, self.counts_other, self.spread_other)

    def _choose_kept_effect(self) -> None:
        """Keep the effect with fewer members, and eliminate the other one."""
        arms, columns = self.arms, self.design.columns
        self.keep_arms = self.n_arms <= self.n_columns
        ones = np.ones(self.n_arms)
        if self.keep_arms:
            self.rows, self.others = arms, columns
            self.n_kept, self.n_others = self.n_arms, self.n_columns
            self.spread_kept, self.spread_other = ones, self.design.spread
        else:
            self.rows, self.others = columns, arms
            self.n_kept, self.n_others = self.n_columns, self.n_arms
            self.spread_kept, self.spread_other = self.design.spread, ones

    def _build_left_side(self) -> None:
        """Sum the weights of the cells into the blocks of the matrix, without the ratios of variances."""
        self.weights = self.precision / self.design.residual
        self.into_arm = self.precision / self.design.residual * self.design.loading
        squared = self.into_arm * self.design.loading
        # Each effect has its row of X'W 1, and the diagonal of X'W X.
        if self.keep_arms:
            self.into_kept, own_kept = self.into_arm, squared
            self.into_other, own_other = self.weights, self.weights
        else:
            self.into_kept, own_kept = self.weights, self.weights
            self.into_other, own_other = self.into_arm, squared
        self.per_arm = np.bincount(self.arms, squared, self.n_arms)
        self.counts_other: Float[Floats, " other"] = np.bincount(
            self.others, own_other, self.n_others
        ).astype(float)
        self.level_other: Float[Floats, " other"] = np.bincount(
            self.others, self.into_other, self.n_others
        ).astype(float)
        self.counts_kept = self._of_kept(own_kept)
        self.counts = np.concatenate(
            ([self.weights.sum()], self._of_kept(self.into_kept))
        )
        self.f = self._table()

    def _build_right_side(self) -> None:
        """Sum the scores, and the regressors of the arms as if they were scores."""
        y, z = self.y, self.regressors.arms
        of_arms = self.per_arm[:, None] * z
        of_level = np.bincount(self.arms, self.into_arm, self.n_arms)[:, None] * z
        if self.keep_arms:
            of_kept, of_others = of_arms, np.asarray(self.f[1:].T @ z)
        else:
            of_kept, of_others = np.asarray(self.f[1:] @ z), of_arms
        scores_kept = np.concatenate(
            ([(self.weights * y).sum()], self._of_kept(self.into_kept * y))
        )
        levels_kept = np.concatenate((of_level.sum(axis=0)[None], of_kept))
        scores_other = np.bincount(self.others, self.into_other * y, self.n_others)
        self.sums = np.column_stack((scores_kept, levels_kept))
        self.sums_other = np.column_stack((scores_other, of_others))
        products_with_y = np.bincount(self.arms, self.into_arm * y, self.n_arms) @ z
        self.squares = np.empty((1 + z.shape[1], 1 + z.shape[1]))
        self.squares[0, 0] = y @ (self.weights * y)
        self.squares[0, 1:] = self.squares[1:, 0] = products_with_y
        self.squares[1:, 1:] = z.T @ of_arms

    def _add_covariates(self) -> None:
        """Sum the regressors of the cells as if they were scores."""
        x = self.regressors.cells
        weighted = self.weights[:, None] * x
        of_kept = [self._of_kept(column) for column in (self.into_kept[:, None] * x).T]
        of_others = [
            np.bincount(self.others, column, self.n_others)
            for column in (self.into_other[:, None] * x).T
        ]
        self.sums = np.column_stack(
            (self.sums, np.vstack((weighted.sum(axis=0), np.transpose(of_kept))))
        )
        self.sums_other = np.column_stack((self.sums_other, np.transpose(of_others)))
        loaded = self.design.loading[:, None] * self.regressors.arms[self.arms]
        corner = np.column_stack((self.y, loaded)).T @ weighted
        self.squares = np.block([[self.squares, corner], [corner.T, x.T @ weighted]])

    def _of_kept(self, entries: Float[Floats, " cells"]) -> Float[Floats, " kept"]:
        """Sums of the cells' entries (n,) over the members of the kept effect."""
        # Without examples the kept effect has no members, but `bincount` would return
        # one.
        return np.bincount(self.rows, entries, self.n_kept)[: self.n_kept].astype(float)

    def _table(self) -> Any:
        """(1 + kept, other) the matrix F. Row 0 belongs to the level."""
        if not self.n_kept:
            return self.level_other[None, :]
        level = np.zeros(self.n_others, dtype=np.int64)
        at_rows = np.concatenate((level, self.rows + 1))
        at_columns = np.concatenate((np.arange(self.n_others), self.others))
        entries = np.concatenate((self.level_other, self.into_arm))
        return table(entries, at_rows, at_columns, (self.n_kept + 1, self.n_others))

    def _ratios(self, v: Variances) -> tuple[Any, Any]:
        """The ratios of the residual variance to the variances of the kept and of the other effect's members."""
        kept_variance, other_variance = (
            (v.prompt, v.example) if self.keep_arms else (v.example, v.prompt)
        )
        return (
            v.residual / kept_variance / self.spread_kept,
            v.residual / other_variance / self.spread_other,
        )

    def _matrix(
        self, kept: Float[Floats, " kept"] | float, d: Float[Floats, " other"]
    ) -> Float[Floats, "1+kept 1+kept"]:
        """M - F D F'. M has entries in its first row and column and on its diagonal only."""
        h = -self.products.weighted(d)
        h[0] += self.counts
        h[1:, 0] += self.counts[1:]
        np.einsum("ii->i", h)[1:] += self.counts_kept + kept
        return h

    def solve(self, v: Variances) -> Solved:
        """Solve the equations for given variances."""
        kept_ratio, other_ratio = self._ratios(v)
        d = 1.0 / (self.counts_other + other_ratio)
        inverse = _inverse(self._matrix(kept_ratio, d))
        u = inverse @ (self.sums - self.f @ (d[:, None] * self.sums_other))
        return Solved(u, inverse, d, d[:, None] * (self.sums_other - self.f.T @ u))

    def likelihood(self, v: Variances) -> tuple[float, float]:
        """The two terms of minus twice the log of the restricted likelihood, for given ratios of the variances.

        Returns the log determinant, and the sum of squares in units of the residual
        variance. The caller profiles the residual variance or integrates it out.
        """
        log_det, squares = self._likelihood_of_effects(v)
        if not self.has_covariates:
            return log_det, squares
        explained, of_slopes = self._explained(v, self._deviations(v, 0.0))
        return log_det + of_slopes, max(squares - explained, 0.0)

    def _explained(
        self, v: Variances, deviations: Float[Floats, " features"]
    ) -> tuple[float, float]:
        """The terms by which slopes with these standard deviations beforehand change both terms of `likelihood`.

        Returns the sum of squares that the slopes explain, and the log determinant that
        they add.
        """
        left = self.unexplained(self.solve(v))
        slopes, _, log_det = posterior_of_slopes(left, v.residual, deviations)
        return float(left[1:, 0] @ slopes), log_det

    def _likelihood_of_effects(self, v: Variances) -> tuple[float, float]:
        """The same, without any slopes."""
        kept_ratio, other_ratio = self._ratios(v)
        d = 1.0 / (self.counts_other + other_ratio)
        of_kept, of_other = (
            (v.prompt, v.example) if self.keep_arms else (v.example, v.prompt)
        )
        root = cholesky(self._matrix(kept_ratio, d))
        sums, sums_other = self.sums[:, 0], self.sums_other[:, 0]
        right = sums - self.f @ (d * sums_other)
        half = _solve_lower(root, right)
        fitted = half @ half + sums_other @ (d * sums_other)
        log_det = 2.0 * np.log(np.diag(root)).sum() - np.log(d).sum()
        log_det -= self.n_kept * np.log(v.residual / of_kept) + self.n_others * np.log(
            v.residual / of_other
        )
        log_det += self.design.log_shape
        return float(log_det), max(float(self.squares[0, 0] - fitted), 0.0)

    def means_by_share(self, v: Variances, share: float) -> Gaussian:
        """The posterior of the arms' means.

        `share`: the part of the prompts' variance that belongs to the regressors of the
        arms. The rest belongs to the prompts' own effects.
        """
        own_variances = v._replace(prompt=(1.0 - share) * v.prompt)
        solved = self.solve(own_variances)
        alone, fitted = self._means(own_variances, solved)
        if not share and not self.has_covariates:
            return alone
        # Given the slopes, the means are the means for the scores less columns @ slopes,
        # plus the columns' means @ slopes.
        slopes, root, _ = posterior_of_slopes(
            self.unexplained(solved), v.residual, self._deviations(v, share)
        )
        into = self.regressors.means - fitted
        corner = np.zeros((len(alone.root), len(root)))
        both = np.block(
            [[alone.root, corner], [np.zeros((len(root), alone.root.shape[1])), root]]
        )
        means = Gaussian(
            alone.mean + into @ slopes, _beside(alone.rows, into), both, alone.own
        )
        return self._with_errors(means, slopes) if self.has_covariates else means

    def _with_errors(
        self, means: Gaussian, slopes: Float[Floats, " features"]
    ) -> Gaussian:
        """Add the errors of the regressors' means over a sample of inputs."""
        regressors = self.regressors
        slopes = slopes[regressors.arms.shape[1] :]
        shared = float(np.sqrt(((regressors.shared_error * slopes) ** 2).sum()))
        of_arms = ((regressors.arm_error * slopes) ** 2).sum(axis=1)
        n, m = means.root.shape
        root = np.zeros((n + 1, m + 1))
        root[:n, :m], root[n, m] = means.root, shared
        return Gaussian(
            means.mean,
            _beside(means.rows, np.ones((self.n_arms, 1))),
            root,
            np.sqrt(means.own**2 + of_arms),
        )

    def density_by_share(self, v: Variances, share: float) -> float:
        """The log likelihood, up to a constant, if this share of the prompts' variance belongs to the regressors."""
        own_variances = v._replace(prompt=(1.0 - share) * v.prompt)
        log_det, squares = self._likelihood_of_effects(own_variances)
        density = -0.5 * (log_det + squares / v.residual)
        if not share and not self.has_covariates:
            return density
        explained, log_det = self._explained(own_variances, self._deviations(v, share))
        return density + 0.5 * explained / v.residual - 0.5 * log_det

    def _deviations(self, v: Variances, share: float) -> Float[Floats, " features"]:
        """The slopes' standard deviations beforehand."""
        deviations = np.sqrt(v.residual) * self.scales
        n = self.regressors.arms.shape[1]
        deviations[:n] = np.sqrt(share * v.prompt) * self.scales[:n]
        return np.asarray(deviations)

    def unexplained(self, s: Solved) -> Float[Floats, "1+features 1+features"]:
        """Products of the remainders of the scores and of the regressors, without the effects."""
        left = self.squares - s.u.T @ self.sums - s.other.T @ self.sums_other
        return np.asarray(0.5 * (left + left.T))

    def _means(
        self, v: Variances, s: Solved
    ) -> tuple[Gaussian, Float[Floats, "arms features"]]:
        """The posterior without regressors, and the means (K, q + r) if a regressor were the scores."""
        if self.n_examples is None:
            return self._means_over_new_inputs(v, s)
        parts = self._parts(v)
        if self.keep_arms:
            means, rows, root, deviations = self._means_with_arms_kept(v, s, parts)
        else:
            means, rows, root, deviations = self._means_with_columns_kept(v, s, parts)
        means[parts.exact, 1:] = self.regressors.means[parts.exact]
        return Gaussian(means[:, 0], rows, root, deviations), means[:, 1:]

    def _means_over_new_inputs(
        self, v: Variances, s: Solved
    ) -> tuple[Gaussian, Float[Floats, "arms features"]]:
        """theta_i = level + a_i, where a_i = d (X_a'W y - X_a'W 1 level) up to an own deviation."""
        deviations = np.sqrt(v.residual * s.d)
        left = 1.0 - s.d * self.level_other
        means = left[:, None] * s.u[0] + s.d[:, None] * self.sums_other
        root = np.array([[np.sqrt(v.residual * s.inverse[0, 0])]])
        return Gaussian(means[:, 0], left[:, None], root, deviations), means[:, 1:]

    def _parts(self, v: Variances) -> _Parts:
        """Divide the arms' means over the given examples into the seen and the unseen part."""
        design, arms = self.design, self.arms
        size = design.sizes[design.group_of_arm]
        inside = design.in_population[design.columns]
        extent = (1.0 - self.noise) * self.precision

        # Plain types: shapes in the annotations of a nested function cost time in each call
        def by_arm(entries: Floats) -> Floats:
            """Sums (K,) over the cells whose example is one of the N."""
            return np.bincount(arms[inside], entries[inside], self.n_arms).astype(float)

        extent_of_arm, loaded = by_arm(extent), by_arm(extent * design.loading)
        seen = [by_arm(extent * self.y), *(loaded * self.regressors.arms.T)]
        if self.has_covariates:
            seen += [by_arm(extent * column) for column in self.regressors.cells.T]
        explained = by_arm(extent * design.residual)
        unexplained = np.maximum(size - explained, 0.0) * (1.0 - self.noise)
        return _Parts(
            told=inside * extent,
            known=np.transpose(seen) / size[:, None],
            unknown=(size - extent_of_arm) / size,
            ahead=(size - loaded) / size,
            common=np.sqrt(design.unseen_spread * v.example) / design.sizes,
            residual=np.sqrt(unexplained * v.residual) / size,
            exact=extent_of_arm >= size,
        )

    def _means_with_arms_kept(
        self, v: Variances, s: Solved, p: _Parts
    ) -> tuple[
        Float[Floats, "arms 1+features"],
        Any,
        Float[Floats, "roots roots"],
        Float[Floats, " arms"],
    ]:
        """Means (K, 1 + q), and the rows, root and own deviations of their `Gaussian`.

        theta_i = known part + unknown level + ahead a_i + sum over the seen examples
        that arm i lacks of b_j / N + the mean effect of the examples never seen +
        residual. The effects b_j are eliminated: b = D (X_b'W y - F' u) up to
        deviations of their own, so theta is linear in u = (level, a) and in these. Its
        covariance is dense and small.
        """
        design = self.design
        group, inside = design.group_of_arm, design.in_population[design.columns]
        size = design.sizes[group]
        # (K, J) weight of the effect of a seen example in the mean of an arm, less
        # where the arm has seen it.
        is_own_group = design.in_population & (group[:, None] == design.group_of_column)
        missing = is_own_group / size[:, None]
        arms, columns = self.arms[inside], design.columns[inside]
        np.subtract.at(missing, (arms, columns), p.told[inside] / size[arms])
        into = np.concatenate((p.unknown[:, None], np.diag(p.ahead)), axis=1)
        into -= missing @ (s.d[:, None] * _dense(self.f.T))
        means = p.known + into @ s.u + missing @ (s.d[:, None] * self.sums_other)
        cov = v.residual * (into @ s.inverse @ into.T + (missing * s.d) @ missing.T)
        cov += np.where(group[:, None] == group, p.common[group] ** 2, 0.0)
        root = cholesky(cov)
        root[p.exact] = 0.0
        return means, np.eye(self.n_arms), root, np.where(p.exact, 0.0, p.residual)

    def _means_with_columns_kept(
        self, v: Variances, s: Solved, p: _Parts
    ) -> tuple[
        Float[Floats, "arms 1+features"],
        Any,
        Float[Floats, "roots roots"],
        Float[Floats, " arms"],
    ]:
        """Means (K, 1 + q), and the rows, root and own deviations of their `Gaussian`.

        theta_i = known part + unknown level + sum over the unseen cells of b_j / N +
        ahead a_i + residual. The effects a_i are eliminated: a_i = d (y - level -
        effects of the examples, summed over the arm's own cells) up to a deviation of
        its own. So theta is linear in u = (level, b) with sparse weights, except for
        the sum of b over a group of examples, which all arms share. That sum has a row
        of its own.
        """
        design = self.design
        rows = self._into_kept(p.unknown, p.ahead * s.d, p.told)
        size_u, n_groups = len(s.u), len(design.sizes)
        ours = design.in_population & (
            np.arange(n_groups)[:, None] == design.group_of_column
        )
        sums = ours / design.sizes[:, None]  # (G, J)
        # Rows of the root: u, the groups' sums of the seen examples' effects, and those
        # of the examples never seen.
        root = np.zeros((size_u + 2 * n_groups, size_u + n_groups))
        root[:size_u, :size_u] = np.sqrt(v.residual) * cholesky(s.inverse)
        root[size_u:-n_groups, :size_u] = sums @ root[1:size_u, :size_u]
        root[-n_groups:, size_u:] = np.diag(p.common)
        effects = np.concatenate(
            (s.u, sums @ s.u[1:], np.zeros((n_groups, s.u.shape[1])))
        )
        means = p.known + rows @ effects + (p.ahead * s.d)[:, None] * self.sums_other
        deviations = np.sqrt(p.residual**2 + p.ahead**2 * v.residual * s.d)
        deviations[p.exact] = 0.0
        return means, rows, root, deviations

    def _into_kept(
        self,
        unknown: Float[Floats, " arms"],
        shrunk: Float[Floats, " arms"],
        told: Float[Floats, " cells"],
    ) -> Any:
        """(K, 1 + J + 2 G) weights of the level, the seen examples' effects, their sums, and the sums of the unseen.

        `shrunk` (K,) is the weight with which the prompt's own effect subtracts the
        level and the example effect of each of its cells. `told` (n,) is the extent to
        which a cell is known, 0 for a score on an example that is none of the N.
        """
        design = self.design
        open_arms = np.flatnonzero(unknown > 0)
        mine = unknown[self.arms] > 0
        arms, columns = self.arms[mine], design.columns[mine] + 1
        weights = (
            -shrunk[arms] * self.into_arm[mine]
            - told[mine] / design.sizes[design.group_of_arm[arms]]
        )
        level = (unknown - shrunk * self.level_other)[open_arms]
        n_groups = len(design.sizes)
        last = self.n_columns + 1 + design.group_of_arm[open_arms]
        ones = np.ones(len(open_arms))
        entries = np.concatenate((weights, level, ones, ones))
        at_rows = np.concatenate((arms, open_arms, open_arms, open_arms))
        at_columns = np.concatenate((columns, 0 * open_arms, last, last + n_groups))
        return table(
            entries,
            at_rows,
            at_columns,
            (self.n_arms, self.n_columns + 1 + 2 * n_groups),
        )


def posterior_of_slopes(
    left: Float[Floats, "1+features 1+features"],
    residual: float,
    deviations: Float[Floats, " features"],
) -> tuple[Float[Floats, " features"], Float[Floats, "features features"], float]:
    """The Bayesian regression of the remainders of the scores on the remainders of the regressors.

    Args:
        left: (1 + q, 1 + q) the products of the remainders, as `System.unexplained`
            returns them.
        residual: The residual variance.
        deviations: (q,) the slopes' standard deviations beforehand.

    Returns:
        The slopes' mean (q,), a root (q, q) of their covariance, and the log of the
        factor by which the slopes enlarge the determinant of the scores' covariance.
    """
    inner = (
        np.eye(len(deviations))
        + deviations[:, None] * left[1:, 1:] * deviations / residual
    )
    lower = cholesky(inner)
    root = deviations[:, None] * np.linalg.inv(lower).T
    return (
        root @ (root.T @ left[1:, 0]) / residual,
        root,
        2.0 * float(np.log(np.diag(lower)).sum()),
    )


def _times(matrix: Any, weights: Float[Floats, " columns"]) -> Any:
    """The matrix, dense or sparse, with each column times its weight."""
    if isinstance(matrix, np.ndarray):
        return matrix * weights
    from scipy import sparse  # here, to keep the import of asktell light

    return sparse.csr_matrix(
        (matrix.data * weights[matrix.indices], matrix.indices, matrix.indptr),
        matrix.shape,
    )


def _dense(matrix: Any) -> Float[Floats, "rows columns"]:
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())


def _beside(rows: Any, more: Float[Floats, "rows more"]) -> Any:
    """The columns of both matrices. The result is sparse if the first matrix is."""
    if isinstance(rows, np.ndarray):
        return np.concatenate((rows, more), axis=1)
    from scipy import sparse  # here, to keep the import of asktell light

    return sparse.hstack((rows, sparse.csr_matrix(more)), format="csr")


def cholesky(
    matrix: Float[Floats, "size size"], step: float | None = None, factor: float = 30.0
) -> Float[Floats, "size size"]:
    """The lower triangle L with L L' = matrix.

    A matrix that is singular up to rounding, or by about `step`, gets as much added to
    its diagonal as it needs. The addition grows by `factor` until the factorization
    succeeds.
    """
    step = step or 1e-10 * max(float(np.trace(matrix)) / len(matrix), 1e-300)
    jitter = 0.0
    while True:
        try:
            return np.asarray(
                np.linalg.cholesky(
                    matrix + jitter * np.eye(len(matrix)) if jitter else matrix
                )
            )
        except np.linalg.LinAlgError:
            jitter = max(step, factor * jitter)


def _solve_lower(
    root: Float[Floats, "size size"], right: Float[Floats, " size"]
) -> Float[Floats, " size"]:
    """The solution x of root @ x = right, for a lower triangle."""
    if len(root) < _LAPACK_FROM:
        return np.asarray(np.linalg.solve(root, right))
    from scipy.linalg import lapack  # here, to keep the import of asktell light

    return np.asarray(lapack.dtrtrs(root.T, right, lower=0, trans=1)[0])


def _inverse(matrix: Float[Floats, "size size"]) -> Float[Floats, "size size"]:
    """The inverse of a symmetric matrix, by its Cholesky factor where it is large enough for that to matter."""
    if len(matrix) < _LAPACK_FROM:
        inverse = np.linalg.inv(matrix)
        return np.asarray(0.5 * (inverse + inverse.T))
    from scipy.linalg import lapack  # here, to keep the import of asktell light

    lower = lapack.dpotri(cholesky(matrix), lower=1)[0]
    inverse = lower + lower.T
    np.einsum("ii->i", inverse)[:] *= 0.5
    return np.asarray(inverse)


def table(
    entries: Float[Floats, " entries"],
    rows: Int[Ints, " entries"],
    columns: Int[Ints, " entries"],
    shape: tuple[int, int],
) -> Any:
    """The table of the entries, summed by their places. It is sparse if it is large and mostly empty."""
    size = shape[0] * shape[1]
    if size >= _LARGE and len(entries) < _MOSTLY_EMPTY * size:
        from scipy import sparse  # here, to keep the import of asktell light

        return sparse.csr_matrix((entries, (rows, columns)), shape=shape)
    return np.bincount(rows * shape[1] + columns, entries, size).reshape(shape)
