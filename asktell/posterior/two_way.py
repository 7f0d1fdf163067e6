"""The two-way model of one metric: score = level + prompt effect + example effect + residual, all Gaussian.

The effects have mean zero and unknown variances, the level has a flat prior. What is wanted is each prompt's mean
over all N examples: known cells count as they are, only the unknown ones are inferred. A prompt that has seen every
example is known exactly.

One of the two effects is integrated out cell by cell, whichever has more members, so that the equations to solve have
the size of the smaller one. The variances maximize the restricted likelihood (REML), by over-relaxed EM.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asktell.arrays import Counts, Indices

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

_STEPS = 16
_RELAXATION = 1.7  # below 2, over-relaxed EM converges wherever EM does
_FLOOR = 1e-6  # of a variance, in units of the scores' variance
_PRIOR_SHARES = (0.1, 0.4, 0.5)  # of prompt, example and residual, where the data are silent
_PRIOR_WEIGHT = 1.0  # of that prior for an effect's variance, in members


class Cells(NamedTuple):
    """Known cells: `arms` and `examples` (n,), -1 for an example that is none of the N; `scores` (n, m)."""

    arms: Indices
    examples: Indices
    scores: Matrix

    @classmethod
    def of(cls, arms: Indices, examples: Indices, scores: Matrix, n_examples: int | None) -> "Cells":
        """In a canonical order, a cell that was scored several times averaged into one."""
        if n_examples is None:
            order = np.argsort(arms, kind="stable")
            return cls(arms[order], examples[order], scores[order])
        loose = examples < 0
        key = np.where(loose, -1 - np.arange(len(arms)), arms * n_examples + examples)
        _, first, cell, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        if len(first) == len(arms):
            return cls(arms[first], examples[first], scores[first])
        about = scores[first]
        sums = np.zeros_like(about)
        np.add.at(sums, cell, scores - about[cell])
        return cls(arms[first], examples[first], about + sums / count[:, None])


class Variances(NamedTuple):
    """Of the prompt effect, the example effect and the residual."""

    prompt: float
    example: float
    residual: float


class Posterior(NamedTuple):
    """Of the K prompts' means: `mean` + `factor` @ independent normals + `own` * further ones."""

    mean: Vector  # (K,)
    factor: Matrix  # (K, p)
    own: Vector  # (K,)
    variances: Variances

    @property
    def sd(self) -> Vector:
        """(K,) posterior standard deviations."""
        return np.asarray(np.sqrt((self.factor**2).sum(axis=1) + self.own**2))

    @property
    def n_normals(self) -> int:
        """How many independent normals one joint draw takes."""
        return int(self.factor.shape[1]) + len(self.own)

    def draws(self, normals: Matrix) -> Matrix:
        """(S, n_normals) standard normals to (S, K) joint draws."""
        p = self.factor.shape[1]
        return np.asarray(self.mean + normals[:, :p] @ self.factor.T + normals[:, p:] * self.own)


def posterior(
    cells: Cells, metric: int, n_arms: int, n_examples: int | None, variances: Variances | None = None
) -> Posterior:
    """Of every prompt's mean of a metric, in its units; `n_examples` None: the mean over endless examples.

    `variances` are estimated unless given. There must be a cell.
    """
    scores = cells.scores[:, metric]
    centre = float(scores.mean())
    spread = float(scores.std())
    if spread <= 1e-9 * max(abs(centre), 1e-290):
        zeros = np.zeros(n_arms)
        return Posterior(zeros + scores[0], np.zeros((n_arms, 0)), zeros, Variances(0.0, 0.0, 0.0))
    system = _System(cells, (scores - centre) / spread, n_arms, n_examples)
    given = None if variances is None else Variances(*(max(_FLOOR**2, v / spread**2) for v in variances))
    fitted = given or system.reml()
    mean, factor, own = system.means(fitted)
    return Posterior(centre + spread * mean, spread * factor, spread * own, Variances(*(v * spread**2 for v in fitted)))


class _Solved(NamedTuple):
    """The equations solved for (level, kept effect) `u`; the other effect given u is d y - g u, with variance d."""

    u: Vector
    inverse: Matrix  # times the residual variance: the covariance of u
    d: Vector
    other: Vector  # posterior mean of the other effect


class _System:
    """The mixed-model equations of standardized scores."""

    def __init__(self, cells: Cells, y: Vector, n_arms: int, n_examples: int | None) -> None:
        arms, n = cells.arms, len(y)
        self.y, self.n, self.n_arms, self.n_examples = y, n, n_arms, n_examples
        if n_examples is None:
            columns, self.in_population = np.zeros(n, dtype=np.int64), np.zeros(0, dtype=bool)
        else:
            # A score on an example that is none of the N has an example effect of its own.
            loose = cells.examples < 0
            named = np.where(loose, n_examples + np.arange(n), cells.examples)
            seen, columns = np.unique(named, return_inverse=True)
            self.in_population = seen < n_examples
        n_columns = len(self.in_population)
        self.keep_arms = n_arms <= n_columns
        rows, others = (arms, columns) if self.keep_arms else (columns, arms)
        self.n_kept, n_others = (n_arms, n_columns) if self.keep_arms else (n_columns, n_arms)
        self.counts_other = np.bincount(others, minlength=n_others).astype(float)
        self.sums_other = np.bincount(others, y, n_others)
        members = slice(0, self.n_kept)  # none without examples
        self.counts = np.concatenate(([n], np.bincount(rows, minlength=self.n_kept)[members])).astype(float)
        self.sums = np.concatenate(([y.sum()], np.bincount(rows, y, self.n_kept)[members]))
        # Row 0 belongs to the level, the others to the members of the kept effect.
        f = np.zeros((self.n_kept + 1, n_others))
        f[0] = self.counts_other
        if self.n_kept:
            np.add.at(f, (rows + 1, others), 1.0)
        self.f = f
        # The weights below depend on the counts only, and few counts occur: F diag(w) F' is a sum over those.
        values, self.kind = np.unique(self.counts_other, return_inverse=True)
        products = [_square(f[:, self.kind == k]) for k in range(len(values))]
        self.products = np.array(products).reshape(len(values), -1)

    def _ratios(self, v: Variances) -> tuple[float, float]:
        kept, other = (v.prompt, v.example) if self.keep_arms else (v.example, v.prompt)
        return v.residual / kept, v.residual / other

    def _weighted(self, weights: Vector) -> Matrix:
        """F diag(weights) F', for weights that follow from the counts."""
        of_kind = np.empty(len(self.products))
        of_kind[self.kind] = weights
        return np.asarray(of_kind @ self.products).reshape(len(self.f), len(self.f))

    def solve(self, v: Variances) -> _Solved:
        """Means and covariances for given variances."""
        kept, other = self._ratios(v)
        d = 1.0 / (self.counts_other + other)
        h = -self._weighted(d)
        h[0] += self.counts
        h[1:, 0] += self.counts[1:]
        h[np.arange(1, len(h)), np.arange(1, len(h))] += self.counts[1:] + kept
        inverse = np.linalg.inv(h)
        inverse = 0.5 * (inverse + inverse.T)
        u = inverse @ (self.sums - self.f @ (d * self.sums_other))
        return _Solved(u, inverse, d, d * (self.sums_other - self.f.T @ u))

    def reml(self) -> Variances:
        """The most likely variances, with a weak prior on the effects' shares."""
        v = np.array(_PRIOR_SHARES)
        if self.n_examples is None:
            v = np.array([0.1, 1.0, 0.9])  # there is no example effect; its variance is never used
        prior = v.copy()
        squares = float(self.y @ self.y)
        for _ in range(_STEPS):
            s = self.solve(Variances(*v))
            residual = (squares - s.u @ self.sums - s.other @ self.sums_other) / max(1, self.n - 1)
            of_kept = s.u[1:] @ s.u[1:] + v[2] * np.trace(s.inverse[1:, 1:])
            of_other = s.other @ s.other + v[2] * (s.d.sum() + (self._weighted(s.d**2) * s.inverse).sum())
            per_arm, per_column = (of_kept, of_other) if self.keep_arms else (of_other, of_kept)
            n_columns = len(self.in_population)
            new = np.array(
                [
                    (per_arm + _PRIOR_WEIGHT * prior[0]) / (self.n_arms + _PRIOR_WEIGHT),
                    (per_column + _PRIOR_WEIGHT * prior[1]) / (n_columns + _PRIOR_WEIGHT) if n_columns else v[1],
                    residual if self.n > 2 else v[2],
                ]
            )
            new = np.clip(v * (np.maximum(new, _FLOOR) / v) ** _RELAXATION, _FLOOR, 1e3)
            settled = np.abs(np.log(new / v)).max() < 1e-3
            v = new
            if settled:
                break
        return Variances(*v.tolist())

    def means(self, v: Variances) -> tuple[Vector, Matrix, Vector]:
        """Mean, factor and own part of the prompts' means."""
        s = self.solve(v)
        g = s.d[:, None] * self.f.T  # (other, kept + 1)
        if self.n_examples is None:
            own = np.sqrt(v.residual * s.d)
            into = 1.0 - g
            mean = into @ s.u + s.d * self.sums_other
            return mean, into * np.sqrt(v.residual * s.inverse[0, 0]), own
        size, real = self.n_examples, self.in_population
        pairs = self.f[1:]
        pairs = pairs if self.keep_arms else pairs.T  # (arms, examples)
        inside = pairs * real
        known: Counts = inside.sum(axis=1)
        unknown = (size - known) / size
        missing = (real - inside) / size  # weight of a seen example's effect in the mean of an arm that lacks it
        if self.keep_arms:
            into = np.concatenate((unknown[:, None], np.diag(unknown)), axis=1)
            constant, of_other = missing @ (s.d * self.sums_other), missing
            into -= missing @ g
        else:
            into = np.concatenate((unknown[:, None], missing), axis=1) - unknown[:, None] * g
            constant, of_other = unknown * s.d * self.sums_other, None
        mean = self._known_part(pairs, real) / size + into @ s.u + constant
        common = np.sqrt((size - real.sum()) * v.example) / size * np.ones((len(mean), 1))
        residual = np.sqrt((size - known) * v.residual) / size
        if of_other is not None:
            cov = v.residual * (into @ s.inverse @ into.T + (of_other * s.d) @ of_other.T) + common @ common.T
            factor, own = _root(cov), residual
        else:
            factor = np.concatenate((into @ (np.sqrt(v.residual) * _root(s.inverse)), common), axis=1)
            own = np.sqrt(residual**2 + unknown**2 * v.residual * s.d)
        exact = known >= size
        factor[exact] = 0.0
        own[exact] = 0.0
        return mean, factor, own

    def _known_part(self, pairs: Matrix, real: npt.NDArray[np.bool_]) -> Vector:
        """Sum of each arm's known cells of the population."""
        sums = self.sums[1:] if self.keep_arms else self.sums_other
        return np.asarray(sums if real.all() else sums - self._loose_sums(pairs, real))

    def _loose_sums(self, pairs: Matrix, real: npt.NDArray[np.bool_]) -> Vector:
        # A loose cell is alone in its column, so that column's sum is its score.
        columns = self.sums_other if self.keep_arms else self.sums[1:]
        return np.asarray(pairs[:, ~real] @ columns[~real])


def _square(f: Matrix) -> Matrix:
    """F F'; by its entries where it is large and mostly zero."""
    if f.size < 1 << 18:
        return np.asarray(f @ f.T)
    from scipy import sparse  # here, to keep the import of asktell light

    thin = sparse.csr_matrix(f)
    return np.asarray((thin @ thin.T).toarray())


def _root(cov: Matrix) -> Matrix:
    """A matrix L with L L' = cov, for a covariance that may be singular to rounding."""
    jitter = 1e-10 * max(float(np.trace(cov)) / len(cov), 1e-300)
    for _ in range(8):
        try:
            return np.asarray(np.linalg.cholesky(cov + jitter * np.eye(len(cov))))
        except np.linalg.LinAlgError:
            jitter *= 30.0
    values, vectors = np.linalg.eigh(cov)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
