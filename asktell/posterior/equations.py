"""The mixed-model equations of the two-way model, of standardized scores (Henderson 1975).

One of the two effects is eliminated cell by cell, whichever has more members, so that the equations to solve have the
size of the smaller one. Where that leaves a large and mostly empty table of cells, it is kept sparse.

Where cells are noisy, a part `noise` of the residual variance is noise within the cell, and the rest is the cell's own.
The mean of r scores of a cell then has the residual's variance times 1 - noise + noise / r, and counts as much more;
what it tells of the cell's own expectation is the part (1 - noise) / (1 - noise + noise / r) of it, and the rest is
still to be inferred as that of cells not seen is. Without noise that is all of it.

Where the examples' shape is known, a prompt's effect counts in a score as often as the example's loading says, and the
variances of the example's effect and of the residual are multiples of one each.
"""

from typing import Any, NamedTuple

import numpy as np

from asktell.numerics.arrays import Counts, Indices, Matrix, Vector, table
from asktell.posterior.basis import Basis
from asktell.posterior.mixture import Gaussian, row_products
from asktell.posterior.shape import Shape

_LAPACK_FROM = 64  # unknowns
_FEW = 64  # columns of such a table, that are dense
_MOST_KINDS = 64  # of weights, that sums over the members of each are kept of
_FEW_OF_A_KIND = 8  # whose sum is as fast to add up again


class Variances(NamedTuple):
    """The variances of the prompt effect, the example effect and the residual."""

    prompt: float
    example: float
    residual: float


class Solved(NamedTuple):
    """The equations solved for (level, kept effect) `u`; the other effect given u is d y - g u, with variance d.

    `u` and `other` have a column for the scores, and one for each of the basis as if it were scores.
    """

    u: Matrix
    inverse: Matrix  # times the residual variance: the covariance of u
    d: Vector
    other: Matrix  # posterior mean of the other effect


class Groups(NamedTuple):
    """Groups of the examples; each arm stands for its mean over the examples of one."""

    of_arms: Indices  # (K,)
    of_examples: Indices  # (N,)
    sizes: Vector  # (G,) how many examples there are


class System:
    """The equations for cells at (`arms`, `examples`), -1 for an example that is none of the N.

    `basis` (K, q): columns of the candidates' factors. A part of the prompts' effects may be basis @ slopes, with
    independent slopes; the basis's rows have a mean square length of 1. `scales` (q,) are the slopes' deviations in
    units of their common one, 1 until the variances of the basis's blocks are known. `noise`: the part of the residual
    variance that is noise within a cell; `asks` (n,): of how many scores each cell's is the mean. `shape`: in what the
    N examples differ; its shift is off the scores already. `groups`: arms stand for their means over groups of the
    examples.
    """

    def __init__(
        self,
        arms: Indices,
        examples: Indices,
        y: Vector,
        n_arms: int,
        n_examples: int | None,
        basis: Basis | None = None,
        asks: Counts | None = None,
        noise: float = 0.0,
        shape: Shape | None = None,
        groups: Groups | None = None,
    ) -> None:
        n = len(y)
        self.noise = noise
        self.precision = np.ones(n) if asks is None else 1.0 / (1.0 - noise + noise / asks)
        self.basis = z = np.zeros((n_arms, 0)) if basis is None else basis.columns
        self.blocks = None if basis is None else basis.blocks
        self.scales = np.ones(z.shape[1])
        self.y, self.n, self.n_arms, self.n_examples = y, n, n_arms, n_examples
        if n_examples is None:
            columns, seen = np.zeros(n, dtype=np.int64), examples[:0]
        else:
            # A score on an example that is none of the N has an example effect of its own.
            loose = examples < 0
            named = np.where(loose, n_examples + np.arange(n), examples)
            seen, columns = np.unique(named, return_inverse=True)
        self.in_population = seen < (n_examples or 0)
        self.n_columns = len(self.in_population)
        self.arms, self.columns = arms, columns
        self.group_of_arm, self.group_of_column = np.zeros(n_arms, np.int64), np.zeros(self.n_columns, np.int64)
        self.sizes = np.array([float(n_examples or 0)])
        if groups is not None:
            self.group_of_arm, self.sizes = groups.of_arms, groups.sizes
            self.group_of_column[self.in_population] = groups.of_examples[seen[self.in_population]]
        self.keep_arms = n_arms <= self.n_columns
        rows, others = (arms, columns) if self.keep_arms else (columns, arms)
        self.n_kept, self.n_others = (n_arms, self.n_columns) if self.keep_arms else (self.n_columns, n_arms)
        self._take_shape(shape, examples, seen)
        # Of each cell: its weight, and how much of it is the arm's.
        weights, into_arm = self.precision / self.residual, self.precision / self.residual * self.loading
        per_arm = np.bincount(arms, into_arm * self.loading, n_arms)
        both = (into_arm, into_arm * self.loading), (weights, weights)
        (into_kept, own_kept), (into_other, own_other) = both if self.keep_arms else both[::-1]
        self.counts_other: Vector = np.bincount(others, own_other, self.n_others).astype(float)
        self.level_other: Vector = np.bincount(others, into_other, self.n_others).astype(float)
        members = slice(0, self.n_kept)  # none without examples
        self.counts_kept = np.bincount(rows, own_kept, self.n_kept)[members].astype(float)
        self.counts = np.concatenate(([weights.sum()], np.bincount(rows, into_kept, self.n_kept)[members]))
        # Row 0 belongs to the level, the others to the members of the kept effect.
        self.into_arm = into_arm
        self.f = self._table(rows, others)
        # Sums of the scores, and of the basis's columns as if they were scores.
        of_arms = per_arm[:, None] * z
        of_level = np.bincount(arms, into_arm, n_arms)[:, None] * z
        of_columns = np.asarray((self.f[1:].T if self.keep_arms else self.f[1:]) @ z)
        of_kept, of_others = (of_arms, of_columns) if self.keep_arms else (of_columns, of_arms)
        kept_sums = np.concatenate(([(weights * y).sum()], np.bincount(rows, into_kept * y, self.n_kept)[members]))
        self.sums = np.column_stack((kept_sums, np.concatenate((of_level.sum(axis=0)[None], of_kept))))
        self.sums_other = np.column_stack((np.bincount(others, into_other * y, self.n_others), of_others))
        products_with_y = np.bincount(arms, into_arm * y, n_arms) @ z
        self.squares = np.block([[y @ (weights * y), products_with_y[None]], [products_with_y[:, None], z.T @ of_arms]])
        # The weights below depend on the counts only, and many members have the same: F diag(w) F' is a sum over those.
        values, kind, sizes = np.unique(self.counts_other, return_inverse=True, return_counts=True)
        frequent = np.argsort(-sizes, kind="stable")[:_MOST_KINDS]
        frequent = frequent[sizes[frequent] > _FEW_OF_A_KIND]
        number = np.full(len(values), -1, dtype=np.int64)
        number[frequent] = np.arange(len(frequent))
        kinds = number[kind]
        self.of_a_kind, self.others = np.flatnonzero(kinds >= 0), np.flatnonzero(kinds < 0)
        self.kind = kinds[self.of_a_kind]
        self.n_kinds = len(frequent)
        self.products = self._products()
        rest = self.f[:, self.others]
        self.rest = rest if len(self.others) > _FEW else _dense(rest)

    def _take_shape(self, shape: Shape | None, examples: Indices, seen: Indices) -> None:
        """What the examples' differences mean for cells, for the two effects, and for what is not seen."""
        self.loading, self.residual, spread = np.ones(self.n), np.ones(self.n), np.ones(self.n_columns)
        real, own = self.in_population, examples >= 0
        if shape is not None:
            self.loading[own], self.residual[own] = shape.loading[examples[own]], shape.residual[examples[own]]
            spread[real] = shape.example[seen[real]]
        told = np.bincount(self.group_of_column[real], spread[real], len(self.sizes))
        self.unseen_spread = np.maximum(0.0, self.sizes - told)  # of examples never seen, the sum
        self.log_shape = float(np.log(self.residual).sum() + np.log(spread).sum())
        # Variances of the members of an effect, in units of the effect's.
        ones = np.ones(self.n_arms)
        self.spread_kept, self.spread_other = (ones, spread) if self.keep_arms else (spread, ones)

    def _table(self, rows: Indices, others: Indices) -> Any:
        """(kept + 1, other) counts of cells, weighted."""
        if not self.n_kept:
            return self.level_other[None, :]
        at_rows = np.concatenate((np.zeros(self.n_others, dtype=np.int64), rows + 1))
        at_columns = np.concatenate((np.arange(self.n_others), others))
        entries = np.concatenate((self.level_other, self.into_arm))
        return table(entries, at_rows, at_columns, (self.n_kept + 1, self.n_others))

    def _products(self) -> Matrix:
        """(kinds, size²) F F' of the members of each kind."""
        f, n = self.f[:, self.of_a_kind], self.n_kept + 1
        if isinstance(f, np.ndarray):
            parts = [f[:, self.kind == k] for k in range(self.n_kinds)]
            return np.array([part @ part.T for part in parts]).reshape(self.n_kinds, n * n)
        from scipy import sparse  # here, to keep the import of asktell light

        by_kind = f.tocoo()
        rows = by_kind.row + n * self.kind[by_kind.col]
        stacked = sparse.csr_matrix((by_kind.data, (rows, by_kind.col)), shape=(n * self.n_kinds, f.shape[1]))
        return _dense(stacked @ f.T).reshape(self.n_kinds, n * n)

    def _ratios(self, v: Variances) -> tuple[Any, Any]:
        kept, other = (v.prompt, v.example) if self.keep_arms else (v.example, v.prompt)
        return v.residual / kept / self.spread_kept, v.residual / other / self.spread_other

    def weighted(self, weights: Vector) -> Matrix:
        """F diag(weights) F', for weights that follow from the counts."""
        n = self.n_kept + 1
        result = (self._of_kind(weights) @ self.products).reshape(n, n)
        if len(self.others):
            result += _dense(_times(self.rest, weights[self.others]) @ self.rest.T)
        return np.asarray(result)

    def trace(self, weights: Vector, matrix: Matrix) -> float:
        """The trace of F diag(weights) F' times a symmetric matrix, for weights that follow from the counts."""
        result = self._of_kind(weights) @ (self.products @ matrix.ravel())
        if len(self.others):
            result += row_products(self.rest.T, self.rest.T @ matrix) @ weights[self.others]
        return float(result)

    def _of_kind(self, weights: Vector) -> Vector:
        of_kind = np.empty(self.n_kinds)
        of_kind[self.kind] = weights[self.of_a_kind]
        return of_kind

    def _matrix(self, kept: Vector | float, d: Vector) -> Matrix:
        h = -self.weighted(d)
        h[0] += self.counts
        h[1:, 0] += self.counts[1:]
        np.einsum("ii->i", h)[1:] += self.counts_kept + kept
        return h

    def solve(self, v: Variances) -> Solved:
        """Means and covariances for given variances."""
        kept, other = self._ratios(v)
        d = 1.0 / (self.counts_other + other)
        inverse = _inverse(self._matrix(kept, d))
        u = inverse @ (self.sums - self.f @ (d[:, None] * self.sums_other))
        return Solved(u, inverse, d, d[:, None] * (self.sums_other - self.f.T @ u))

    def likelihood(self, v: Variances) -> tuple[float, float]:
        """Minus twice the log of the restricted likelihood's determinant, and the sum of squares, at these ratios.

        In units of the residual variance, which is left to the caller to profile or to integrate out.
        """
        kept, other = self._ratios(v)
        d = 1.0 / (self.counts_other + other)
        of_kept, of_other = (v.prompt, v.example) if self.keep_arms else (v.example, v.prompt)
        root = cholesky(self._matrix(kept, d))
        sums, sums_other = self.sums[:, 0], self.sums_other[:, 0]
        right = sums - self.f @ (d * sums_other)
        half = _solve_lower(root, right)
        fitted = half @ half + sums_other @ (d * sums_other)
        log_det = 2.0 * np.log(np.diag(root)).sum() - np.log(d).sum()
        log_det -= self.n_kept * np.log(v.residual / of_kept) + self.n_others * np.log(v.residual / of_other)
        log_det += self.log_shape
        return float(log_det), max(float(self.squares[0, 0] - fitted), 0.0)

    def means_by_basis(self, v: Variances, share: float) -> Gaussian:
        """The posterior of the prompts' means over all examples.

        `share`: the part of the prompts' variance that belongs to the basis; the rest is the prompts' own.
        """
        own = v._replace(prompt=(1.0 - share) * v.prompt)
        solved = self.solve(own)
        alone, fitted = self._means(own, solved)
        if not share:
            return alone
        # Given the slopes the means are those of the scores less basis @ slopes, plus basis @ slopes.
        slopes, root, _ = posterior_of_slopes(self.unexplained(solved), v.residual, self._deviations(v, share))
        into, corner = self.basis - fitted, np.zeros((len(alone.root), len(root)))
        both = np.block([[alone.root, corner], [np.zeros((len(root), alone.root.shape[1])), root]])
        return Gaussian(alone.mean + into @ slopes, _beside(alone.rows, into), both, alone.own)

    def density_by_basis(self, v: Variances, share: float) -> float:
        """The log likelihood, up to a constant, where that part of the prompts' variance belongs to the basis."""
        own = v._replace(prompt=(1.0 - share) * v.prompt)
        log_det, squares = self.likelihood(own)
        density = -0.5 * (log_det + squares / v.residual)
        if not share:
            return density
        left = self.unexplained(self.solve(own))
        slopes, _, log_det = posterior_of_slopes(left, v.residual, self._deviations(v, share))
        return density + 0.5 * float(left[1:, 0] @ slopes) / v.residual - 0.5 * log_det

    def _deviations(self, v: Variances, share: float) -> Vector:
        return np.asarray(np.sqrt(share * v.prompt) * self.scales)

    def unexplained(self, s: Solved) -> Matrix:
        """Products of what the effects leave of the scores, and of the basis's columns as if they were scores."""
        left = self.squares - s.u.T @ self.sums - s.other.T @ self.sums_other
        return np.asarray(0.5 * (left + left.T))

    def _means(self, v: Variances, s: Solved) -> tuple[Gaussian, Matrix]:
        """The posterior without a basis; and (K, q), what the means would be if the basis's columns were the scores."""
        if self.n_examples is None:
            own = np.sqrt(v.residual * s.d)
            left = 1.0 - s.d * self.level_other
            means = left[:, None] * s.u[0] + s.d[:, None] * self.sums_other
            root = np.array([[np.sqrt(v.residual * s.inverse[0, 0])]])
            return Gaussian(means[:, 0], left[:, None], root, own), means[:, 1:]
        group, real = self.group_of_arm, self.in_population
        size = self.sizes[group]
        inside = real[self.columns]
        told = (1.0 - self.noise) * self.precision  # of each cell's own expectation, by its score
        known = np.bincount(self.arms[inside], told[inside], self.n_arms)
        scored = np.bincount(self.arms[inside], (told * self.y)[inside], self.n_arms)
        loaded = np.bincount(self.arms[inside], (told * self.loading)[inside], self.n_arms)
        explained = np.bincount(self.arms[inside], (told * self.residual)[inside], self.n_arms)
        known_part = np.column_stack((scored, loaded[:, None] * self.basis)) / size[:, None]
        unknown, ahead = (size - known) / size, (size - loaded) / size  # of the level, and of the arm's effect
        common = np.sqrt(self.unseen_spread * v.example) / self.sizes  # (G,) the mean effect of examples never seen
        residual = np.sqrt(np.maximum(size - explained, 0.0) * (1.0 - self.noise) * v.residual) / size
        exact = known >= size
        if self.keep_arms:
            # Weight of a seen example's effect in the mean of an arm that lacks it.
            missing = (real & (group[:, None] == self.group_of_column)) / size[:, None]
            np.subtract.at(missing, (self.arms[inside], self.columns[inside]), told[inside] / size[self.arms[inside]])
            into = np.concatenate((unknown[:, None], np.diag(ahead)), axis=1)
            into -= missing @ (s.d[:, None] * _dense(self.f.T))
            means = known_part + into @ s.u + missing @ (s.d[:, None] * self.sums_other)
            cov = v.residual * (into @ s.inverse @ into.T + (missing * s.d) @ missing.T)
            cov += np.where(group[:, None] == group, common[group] ** 2, 0.0)
            root = cholesky(cov)
            root[exact] = 0.0
            rows, own = np.eye(self.n_arms), np.where(exact, 0.0, residual)
        else:
            # mean = known part + unknown level + sum over unseen cells of the examples' effects + unknown a, and the
            # own effect a = d (y - level - examples' effects of the own cells): sparse but for a sum that all arms
            # share.
            rows = self._into_kept(unknown, ahead * s.d, inside * told)
            size_u, n_groups = len(s.u), len(self.sizes)
            ours = real & (np.arange(n_groups)[:, None] == self.group_of_column)
            sums = ours / self.sizes[:, None]  # (G, columns)
            root = np.zeros((size_u + 2 * n_groups, size_u + n_groups))
            root[:size_u, :size_u] = np.sqrt(v.residual) * cholesky(s.inverse)
            root[size_u:-n_groups, :size_u] = sums @ root[1:size_u, :size_u]
            root[-n_groups:, size_u:] = np.diag(common)
            effects = np.concatenate((s.u, sums @ s.u[1:], np.zeros((n_groups, s.u.shape[1]))))
            means = known_part + rows @ effects + (ahead * s.d)[:, None] * self.sums_other
            own = np.sqrt(residual**2 + ahead**2 * v.residual * s.d)
            own[exact] = 0.0
        means[exact, 1:] = self.basis[exact]
        return Gaussian(means[:, 0], rows, root, own), means[:, 1:]

    def _into_kept(self, unknown: Vector, shrunk: Vector, told: Vector) -> Any:
        """(K, level + columns + 2 G): weights of the level, the seen examples' effects, their sums, and the unseen's.

        `shrunk` (K,) is the weight with which the prompt's own effect takes a cell's level and example off again.
        `told` (n,) is how much of a cell is known, 0 for one on an example that is none of the N.
        """
        everyone = np.flatnonzero(unknown > 0)
        mine = unknown[self.arms] > 0
        arms, columns = self.arms[mine], self.columns[mine] + 1
        weights = -shrunk[arms] * self.into_arm[mine] - told[mine] / self.sizes[self.group_of_arm[arms]]
        level = (unknown - shrunk * self.level_other)[everyone]
        n_groups, last = len(self.sizes), self.n_columns + 1 + self.group_of_arm[everyone]
        ones = np.ones(len(everyone))
        entries = np.concatenate((weights, level, ones, ones))
        at_rows = np.concatenate((arms, everyone, everyone, everyone))
        at_columns = np.concatenate((columns, 0 * everyone, last, last + n_groups))
        return table(entries, at_rows, at_columns, (self.n_arms, self.n_columns + 1 + 2 * n_groups))


def posterior_of_slopes(left: Matrix, residual: float, deviations: Vector) -> tuple[Vector, Matrix, float]:
    """The regression of what the effects leave of the scores on what they leave of the basis's columns.

    `left` are their products, as of `System.unexplained`, and `deviations` (q,) those of the slopes beforehand. Returns
    the slopes' mean, a root of their covariance, and the log of the determinant by which they enlarge that of the
    scores' covariance.
    """
    inner = np.eye(len(deviations)) + deviations[:, None] * left[1:, 1:] * deviations / residual
    lower = cholesky(inner)
    root = deviations[:, None] * np.linalg.inv(lower).T
    return root @ (root.T @ left[1:, 0]) / residual, root, 2.0 * float(np.log(np.diag(lower)).sum())


def _times(matrix: Any, weights: Vector) -> Any:
    if isinstance(matrix, np.ndarray):
        return matrix * weights
    from scipy import sparse  # here, to keep the import of asktell light

    return sparse.csr_matrix((matrix.data * weights[matrix.indices], matrix.indices, matrix.indptr), matrix.shape)


def _dense(matrix: Any) -> Matrix:
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())


def _beside(rows: Any, more: Matrix) -> Any:
    if isinstance(rows, np.ndarray):
        return np.concatenate((rows, more), axis=1)
    from scipy import sparse  # here, to keep the import of asktell light

    return sparse.hstack((rows, sparse.csr_matrix(more)), format="csr")


def cholesky(matrix: Matrix, step: float | None = None, factor: float = 30.0) -> Matrix:
    """The lower triangle L with L L' = matrix, for one that may be singular to rounding, or by about `step`."""
    jitter, step = 0.0, step or 1e-10 * max(float(np.trace(matrix)) / len(matrix), 1e-300)
    while True:
        try:
            return np.asarray(np.linalg.cholesky(matrix + jitter * np.eye(len(matrix)) if jitter else matrix))
        except np.linalg.LinAlgError:
            jitter = max(step, factor * jitter)


def _solve_lower(root: Matrix, right: Vector) -> Vector:
    if len(root) < _LAPACK_FROM:
        return np.asarray(np.linalg.solve(root, right))
    from scipy.linalg import lapack  # here, to keep the import of asktell light

    return np.asarray(lapack.dtrtrs(root.T, right, lower=0, trans=1)[0])


def _inverse(matrix: Matrix) -> Matrix:
    """The inverse of a symmetric matrix, by its Cholesky factor where it is large enough for that to matter."""
    if len(matrix) < _LAPACK_FROM:
        inverse = np.linalg.inv(matrix)
        return np.asarray(0.5 * (inverse + inverse.T))
    from scipy.linalg import lapack  # here, to keep the import of asktell light

    lower = lapack.dpotri(cholesky(matrix), lower=1)[0]
    inverse = lower + lower.T
    np.einsum("ii->i", inverse)[:] *= 0.5
    return np.asarray(inverse)
