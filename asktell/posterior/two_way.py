"""The two-way model of one metric: score = level + prompt effect + example effect + residual, all Gaussian.

The effects have mean zero and unknown variances, the level has a flat prior. What is wanted is each prompt's mean
over all N examples: known cells count as they are, only the unknown ones are inferred. A prompt that has seen every
example is known exactly, unless scores are noisy: then the residual has a part that is noise within the cell, of
which `asktell.numerics.cells` tells how large it is, and which no number of examples brings to nothing.

The variances maximize the restricted likelihood (REML), by over-relaxed EM, near the end by Anderson's secants of
its steps (1965), which are some half as many; the equations are in
`asktell.posterior.equations`. That guess is not taken for the truth: the posterior is averaged over a few more guesses,
where prompts or examples differ more or less than that, weighted by their likelihood and a weak prior (sigma points,
Julier & Uhlmann 1997; weighted as in INLA, Rue, Martino & Chopin 2009), and the scale of all is integrated out, which
makes it Student's. Where candidates have factors, it is averaged too over how much of the candidates' variance these
explain, from nothing to nearly all of it, weighted by the likelihood.

Where earlier studies know in what the examples differ, it is averaged over how far that holds here: not at all, half
way, or as they say, which is likeliest beforehand, weighted by the likelihood. What is wrong is soon not believed.
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Counts, Indices, Matrix, Vector, distinct
from asktell.numerics.cells import PRIOR_SHARE, Scored
from asktell.posterior.basis import Basis
from asktell.posterior.equations import Groups, System, Variances, posterior_of_slopes
from asktell.posterior.mixture import Gaussian, Posterior
from asktell.posterior.shape import Shape

__all__ = ["Cells", "Posterior", "Variances", "posterior"]


# Numerical. EM over-relaxed by less than 2 converges wherever EM does (Salakhutdinov & Roweis 2003); with secants below
# _NEAR it is within 2 % of the maximum after 4 to 10 steps.
_STEPS, _RELAXATION, _NEAR, _CONVERGED = 16, 1.7, 0.1, 2e-3  # changes are of a variance's log, per step
_FLOOR = 1e-6  # of a variance, in units of the scores' variance: far below what any data set can tell
_NOISE_STEPS, _NOISE_STEP = 6, 0.005  # the noise's part of the residual is found to that
_MOST_NOISE = 0.999  # of the residual: its own part must stay above 0
_LEAST_WEIGHT = 0.02  # of a guess or a trust: less moves no probability by more than that, and costs as much work
_SURE = 0.15  # deviation of a log ratio: guesses 1.7 of that away change a standard deviation by an eighth

# Weak priors: shares of the order of recorded tables', weights of so few members that data soon outweigh them.
# Deviations of 1.0 to 2.5 were tried, errors held best at 1.5 (docs/explanation/what-was-tried.md).
_PRIOR_SHARES = (0.1, 0.4, 0.5)  # of prompt, example and residual, where the data are silent
_PRIOR_WEIGHT = 1.0  # for an effect's variance, in members
_KNOWN_WEIGHTS = (5.0, 10.0)  # of earlier studies' variances of prompts and examples, in members
_PRIOR_DEVIATION = 1.5  # of the log of either ratio of variances: a factor of 20 either way is rare
_PRIOR_FREEDOM = 2.0  # of the scale of all deviations, in observations
_SHARES = (0.0, 0.3, 0.6, 0.9)  # of the prompts' variance that factors may explain, equally likely beforehand
_TRUSTS = {0.0: 0.02, 0.5: 0.18, 1.0: 0.8}  # in earlier studies, and how likely beforehand; others did no better

_BLOCKS_SHARE = 0.5  # of the prompts' variance, beforehand, that belongs to the basis's blocks

_FEWEST_EQUAL = 3  # equal scores of no simple value: by chance only where a metric has no noise
_SIMPLE = 10.0  # quarters up to that are grades, which agree by chance


class Cells(NamedTuple):
    """Known cells: `arms` and `examples` (n,), -1 for an example that is none of the N; `scores` (n, m).

    `noisy`: the same with what is known of their noise; None where scores of a cell are taken to be all the same.
    """

    arms: Indices
    examples: Indices
    scores: Matrix
    noisy: Scored | None = None

    @classmethod
    def of(
        cls, arms: Indices, examples: Indices, scores: Matrix, n_examples: int | None, noisy: bool = False
    ) -> "Cells":
        """The cells in a canonical order; one that was scored several times counts once, with its mean.

        They are noisy if that is known, or if scores of a cell differ.
        """
        if n_examples is None:
            order = np.argsort(arms, kind="stable")
            return cls(arms[order], examples[order], scores[order])
        cells = Scored.of(arms, examples, scores, n_examples)
        return cls(cells.arms, cells.examples, cells.scores, cells if noisy or cells.disagree else None)

    @property
    def n_examples_seen(self) -> int:
        """The number of distinct examples; a score on an example that is none of the N has one of its own."""
        own = self.examples >= 0
        return len(np.unique(self.examples[own])) + int((~own).sum())

    def of_column(self, column: int) -> "Cells":
        """The cells that have a score there: of an evaluation that failed nothing else is known."""
        known = ~np.isnan(self.scores[:, column])
        if known.all():
            return self if self.noisy is None or len(self.noisy.arms) == len(known) else self._replace(noisy=None)
        return Cells(self.arms[known], self.examples[known], self.scores[known], self.noisy)

    def with_failures(self, arms: Indices, examples: Indices) -> "Cells":
        """With cells that failed: 1 in the last column, NaN in all others."""
        scores = np.full((len(arms), self.scores.shape[1]), np.nan)
        scores[:, -1] = 1.0
        both = np.concatenate((self.arms, arms)), np.concatenate((self.examples, examples))
        return Cells(*both, np.concatenate((self.scores, scores)), self.noisy)


def posterior(
    cells: Cells,
    metric: int,
    n_arms: int,
    n_examples: int | None,
    limits: tuple[float, float] | None = None,
    averaged: bool = True,
    basis: Basis | None = None,
    shape: Shape | None = None,
    groups: Groups | None = None,
) -> Posterior:
    """The posterior of every prompt's mean of a metric, in its units; `n_examples` None: over endless examples.

    `limits` are those of the metric's scores, if they are known. `averaged`: the uncertainty of the variances counts.
    `basis` (K, q) are columns of the candidates' factors, as of `asktell.posterior.basis`. `shape`: in what the
    examples differ, as far as earlier studies know. `groups`: each arm stands for its mean over a group of the
    examples. There must be a cell.
    """
    scores = cells.scores[:, metric]
    centre = float(scores.mean())
    spread = float(scores.std())
    if cells.noisy is not None:
        spread = float(np.hypot(spread, np.sqrt((cells.noisy.squares[:, metric] / cells.noisy.asks).mean())))
    if spread <= 1e-9 * max(abs(centre), 1e-290):
        sizes = n_examples if groups is None else groups.sizes[groups.of_arms]
        return _constant(cells, float(scores[0]), n_arms, sizes, limits, averaged)
    y = (scores - centre) / spread
    data = _Data(cells, metric, y, n_arms, n_examples, basis, spread, groups)
    if shape is None:
        return _fit(data, *_with_noise(data), averaged).scaled(centre, spread)
    trusted = [data.with_shape(shape.trusted(trust)) for trust in _TRUSTS]
    found = [_with_noise(one) for one in trusted]
    densities = np.array([_density(of_seen, first) for _, of_seen, first in found])
    weights = np.exp(densities - densities.max()) * np.array(list(_TRUSTS.values()))
    kept = np.flatnonzero(weights > _LEAST_WEIGHT * weights.max())
    fits = [_fit(trusted[i], *found[i], averaged) for i in kept]
    weights, trusts = weights[kept] / weights[kept].sum(), np.array(list(_TRUSTS))[kept]
    return Posterior.averaged(fits, weights, trusts).scaled(centre, spread)


class _Data(NamedTuple):
    """The scores `y` of a metric's cells in units of their `spread`, and what else the model rests on."""

    cells: Cells
    metric: int
    y: Vector
    n_arms: int
    n_examples: int | None
    basis: Basis | None
    spread: float
    groups: Groups | None = None
    shape: Shape | None = None

    def with_shape(self, shape: Shape | None) -> "_Data":
        if shape is None:
            return self
        shift = np.where(self.cells.examples < 0, 0.0, shape.shift[self.cells.examples])
        return self._replace(y=self.y - shift / self.spread, shape=shape)

    @property
    def expected(self) -> Variances | None:
        if self.shape is None:
            return None
        return Variances(*(max(_FLOOR, v / self.spread**2) for v in self.shape.variances))

    @property
    def of_seen(self) -> "_Data":
        """The same without the arms that have no cell: of the variances they tell nothing, and they are many."""
        seen, arms = np.unique(self.cells.arms, return_inverse=True)
        if len(seen) == self.n_arms:
            return self
        basis = None if self.basis is None else Basis(self.basis.columns[seen], self.basis.blocks)
        groups = None if self.groups is None else self.groups._replace(of_arms=self.groups.of_arms[seen])
        return self._replace(cells=self.cells._replace(arms=arms), n_arms=len(seen), basis=basis, groups=groups)

    def system(self, asks: Counts | None = None, noise: float = 0.0) -> System:
        arms, examples = self.cells.arms, self.cells.examples
        return System(
            arms, examples, self.y, self.n_arms, self.n_examples, self.basis, asks, noise, self.shape, self.groups
        )


def _fit(data: _Data, system: System, of_seen: System, first: Variances, averaged: bool) -> Posterior:
    """The posterior in units of the spread, given the most likely variances or averaged over further guesses."""
    guesses, weights, freedom = [first], np.ones(1), np.inf
    if averaged:
        guesses, weights = _guesses(of_seen, first, data.expected)
        freedom = max(system.n, 2) - 1 + _PRIOR_FREEDOM  # of one cell, several scores may differ
    parts, weights, explained = _over_shares(system, of_seen, guesses, weights)
    return Posterior.of(parts, weights, freedom, first, system.noise)._replace(explained=explained)


def _density(system: System, first: Variances) -> float:
    """The log of the restricted likelihood at the most likely variances, up to a constant."""
    log_det, squares = system.likelihood(first)
    return float(-0.5 * (log_det + squares / first.residual + (system.n - 1) * np.log(first.residual)))


def _with_noise(data: _Data) -> tuple[System, System, Variances]:
    """The equations of all arms and of those seen, and the most likely variances.

    The residual's has the noise in it. Where the cells' own variance is c and the noise's w, a cell's mean has
    c + w / r. The likelihood of the means tells that, the moments within cells tell w, and the two are brought together
    in a few steps.
    """
    noisy, seen = data.cells.noisy, data.of_seen
    asks, noise = (None, 0.0) if noisy is None else (noisy.asks, PRIOR_SHARE)
    for _ in range(_NOISE_STEPS):
        of_seen = seen.system(asks, noise)
        found = reml(of_seen, data.expected)
        if noisy is None:
            break
        inverse, spread = float((1.0 / noisy.asks).mean()), data.spread
        of_all = np.full(data.cells.scores.shape[1], found.residual * spread**2)
        within = float(noisy.noise(of_all)[data.metric]) / spread**2
        total = found.residual * (1.0 - noise + noise * inverse) + within * (1.0 - inverse)
        last, noise = noise, min(_MOST_NOISE, within / total)
        if abs(noise - last) < _NOISE_STEP:
            break
    if seen is data:
        return of_seen, of_seen, found
    whole = data.system(asks, of_seen.noise)
    whole.scales = of_seen.scales
    return whole, of_seen, found


def _over_shares(
    system: System, of_seen: System, guesses: list[Variances], weights: Vector
) -> tuple[list[Gaussian], Vector, float]:
    """The posterior for every guess and every share of the prompts' variance that the basis may explain; its mean."""
    shares: tuple[float, ...] = _SHARES if system.basis.shape[1] else (0.0,)
    found = np.zeros((len(guesses), 1))
    if len(shares) > 1:
        found = np.array([[of_seen.density_by_basis(guess, share) for share in shares] for guess in guesses])
    gains = found - found[:, :1]
    # The gain of a share is over none of the variance, which the guess's weight accounts for.
    divided = np.exp(gains - gains.max()) * weights[:, None]
    kept = divided > _LEAST_WEIGHT * divided.sum()
    parts = [system.means_by_basis(guesses[i], shares[j]) for i, j in np.argwhere(kept)]
    explained = float(divided.sum(axis=0) @ shares / divided.sum())
    return parts, np.asarray(divided[kept] / divided[kept].sum()), explained


def _constant(
    cells: Cells,
    score: float,
    n_arms: int,
    n_examples: Vector | int | None,
    limits: tuple[float, float] | None,
    averaged: bool,
) -> Posterior:
    """Every score is the same.

    The standard deviation is unknown if the score's size is 0, or after a single score. Draws vary as much if
    `averaged`, else they are the score, so that prompts are equals.
    """
    zeros = np.zeros(n_arms)
    known = np.bincount(cells.arms, minlength=n_arms)
    own = known if n_examples is None else np.bincount(cells.arms[cells.examples >= 0], minlength=n_arms)
    unknown = zeros + 1.0
    if n_examples is not None and cells.noisy is None:  # of a noisy cell another score may be another one
        unknown = np.maximum(0.0, 1.0 - own / n_examples)
    size = limits[1] - limits[0] if limits else abs(score)
    chance = chance_of_another(score, len(cells.arms), known, limits) * np.sqrt(unknown)
    sd = np.where(unknown == 0.0, 0.0, (size if size and len(cells.arms) > 1 else np.nan) * chance)
    part = Gaussian(zeros + score, np.zeros((n_arms, 1)), np.zeros((1, 1)), (size or 1.0) * chance * averaged)
    return Posterior((part,), np.ones(1), np.inf, sd, Variances(0.0, 0.0, 0.0))


def chance_of_another(score: float, n: int, known: Counts, limits: tuple[float, float] | None) -> Vector:
    """(K,) standard deviation of each prompt's mean where all n scores so far are the same, in units of its size.

    The next one may differ: after n equal ones, with a chance of about 1 in n + 2 (rule of succession). The deviation
    is 1 / sqrt((n + 1) (n_i + 1)) for a prompt with `known` n_i of the n cells. The size is the metric's range, or the
    score's own. Scores such as 0, 1 or 2.5 often agree by chance; that others do, such as 0.00008, hardly happens in
    a metric with noise, and the deviation is the square of that.
    """
    if n >= _FEWEST_EQUAL and not agrees_by_chance(score, limits):
        return np.asarray(1.0 / ((n + 1.0) * (known + 1.0)))
    return np.asarray(1.0 / np.sqrt((n + 1.0) * (known + 1.0)))


def agrees_by_chance(score: float, limits: tuple[float, float] | None) -> bool:
    """True if scores of a metric with noise are often exactly this: an end of its range, or a small simple number."""
    return bool(limits and score in limits) or (abs(score) <= _SIMPLE and float(4.0 * score).is_integer())


def reml(system: System, expected: Variances | None = None) -> Variances:
    """The most likely variances, with a weak prior on the effects' shares, or one on those `expected`.

    Where the basis has blocks, a variance for each is estimated along with them: then the prompts' variance is the sum
    of their own and the blocks', whose relative sizes are set in the system.
    """
    prior = np.array(_PRIOR_SHARES if expected is None else expected)
    weights = (_PRIOR_WEIGHT, _PRIOR_WEIGHT) if expected is None else _KNOWN_WEIGHTS
    if system.n_examples is None:
        prior = np.array([0.1, 1.0, 0.9])  # there is no example effect; its variance is never used
    n_columns, blocks = system.n_columns, system.blocks
    n_slopes = np.zeros(0) if blocks is None else np.bincount(blocks)
    if len(n_slopes):
        halves = prior[0] * _BLOCKS_SHARE
        prior[0] -= halves
        prior = np.concatenate((prior, np.full(len(n_slopes), halves / len(n_slopes))))

    def improved(v: Vector) -> Vector:
        """A step of EM."""
        s = system.solve(Variances(*v[:3]))
        u, other, kept, others = s.u[:, 0], s.other[:, 0], system.spread_kept, system.spread_other
        own_kept, own_other, of_slopes = 0.0, 0.0, n_slopes
        if blocks is None:
            squares = system.squares[0, 0] - u @ system.sums[:, 0] - other @ system.sums_other[:, 0]
        else:
            left = system.unexplained(s)
            m, root, _ = posterior_of_slopes(left, v[2], np.sqrt(v[3:])[blocks])
            u, other = u - s.u[:, 1:] @ m, other - s.other[:, 1:] @ m
            squares = left[0, 0] - left[0, 1:] @ m
            own_kept = float((((s.u[1:, 1:] @ root) ** 2).sum(axis=1) / kept).sum())
            own_other = float((((s.other[:, 1:] @ root) ** 2).sum(axis=1) / others).sum())
            of_slopes = np.bincount(blocks, m**2 + (root**2).sum(axis=1))
        of_kept = u[1:] @ (u[1:] / kept) + v[2] * (np.diagonal(s.inverse)[1:] / kept).sum() + own_kept
        of_other = other @ (other / others) + own_other
        of_other += v[2] * ((s.d / others).sum() + system.trace(s.d**2 / others, s.inverse))
        per_arm, per_column = (of_kept, of_other) if system.keep_arms else (of_other, of_kept)
        new = [
            (per_arm + weights[0] * prior[0]) / (system.n_arms + weights[0]),
            (per_column + weights[1] * prior[1]) / (n_columns + weights[1]) if n_columns else v[1],
            squares / max(1, system.n - 1) if system.n > 2 else v[2],
            *(of_slopes + weights[0] * prior[3:]) / (n_slopes + weights[0]),
        ]
        return np.asarray(np.maximum(new, _FLOOR))

    at, moved, gap = np.log(prior), np.zeros(len(prior)), np.zeros(len(prior))
    for _ in range(_STEPS):
        last, gap = gap, np.log(improved(np.exp(at))) - at
        size = np.abs(gap).max()
        step = _RELAXATION * gap
        if size < min(_NEAR, np.abs(last).max()):
            change = gap - last
            secant = gap - (change @ gap) / (change @ change) * (moved + change)
            step = secant if np.abs(secant).max() < 1.0 else step
        moved = np.clip(at + step, np.log(_FLOOR), np.log(1e3)) - at
        at = at + moved
        if size < _CONVERGED:
            break
    found = np.exp(at)
    if blocks is not None:
        of_blocks = float(found[3:].sum())
        system.scales = np.sqrt(found[3:] / of_blocks)[blocks]
        found[0] += of_blocks
    return Variances(*found[:3].tolist())


def _guesses(system: System, first: Variances, expected: Variances | None = None) -> tuple[list[Variances], Vector]:
    """Guesses at the variances and their weights: the first one, and further ones around it along two axes.

    The axes are the logs of prompt over residual, and of example over prompt + residual: with one pull per prompt the
    scores say nothing about the first, whatever they say about the second. Along each, the posterior's curvature at
    the first guess gives its deviation s; the further guesses are at +- sqrt(3) s, where the weights of a Gaussian
    would be 1/6 each. They are corrected by what the posterior is there.
    """
    n_axes = 2 if system.n_columns else 1
    prior = _axes(Variances(*_PRIOR_SHARES) if expected is None else expected)
    if system.n_examples is None:
        prior[0] = np.log(0.1 / 0.9)
    freedom = system.n - 1 + _PRIOR_FREEDOM
    # The scale's own prior is that guess too: the spread of the scores, which is 1 here, says nothing of a residual far
    # below it. Where cells are too few to tell a residual from the effects, it is a share of that spread.
    told = system.n - len(distinct(system.arms)) - system.n_columns + 1
    if told <= 1 and 2 * system.n_columns > system.n:
        # Nearly every cell has an example of its own: scores tell only the sum of the example's and the residual's
        # variance, and the most likely residual is 0, of which every other variance would be a multiple without end.
        sum_, (_, of_example, of_residual) = first.example + first.residual, _PRIOR_SHARES
        residual = max(first.residual, sum_ * of_residual / (of_example + of_residual))
        first, told = Variances(first.prompt, sum_ - residual, residual), 2
    centre = _axes(first)
    own_squares = _PRIOR_FREEDOM * (first.residual if told > 1 else _PRIOR_SHARES[2])

    def at(point: Vector) -> tuple[float, Variances]:
        """The log posterior there, and the variances with the most likely scale."""
        prompt, example = float(np.exp(point[0])), float(np.exp(point[1]) * (1.0 + np.exp(point[0])))
        log_det, squares = system.likelihood(Variances(prompt, example, 1.0))
        residual = max((squares + own_squares) / freedom, _FLOOR**2)
        z = (point - prior)[:n_axes] / _PRIOR_DEVIATION
        density = -0.5 * (freedom * np.log(residual) + log_det + z @ z)
        return float(density), Variances(prompt * residual, example * residual, residual)

    density, middle = at(centre)
    guesses, weights = [middle], [1.0]
    for axis in range(n_axes):
        step = np.zeros(2)
        step[axis] = 0.7 * _PRIOR_DEVIATION
        curvature = (2.0 * density - at(centre + step)[0] - at(centre - step)[0]) / step[axis] ** 2
        deviation = min(_PRIOR_DEVIATION, max(curvature, 1e-9) ** -0.5)
        if deviation < _SURE:
            continue
        step[axis] = np.sqrt(3.0) * deviation
        weights[0] -= 1.0 / 3.0
        for sign in (-1.0, 1.0):
            there, guess = at(centre + sign * step)
            guesses.append(guess)
            weights.append(float(np.exp(np.clip(there - density + 1.5, -30.0, 3.0))) / 6.0)
    kept = np.array(weights) > 0.01 * sum(weights)
    found = np.array(weights)[kept]
    return [guess for guess, keep in zip(guesses, kept, strict=True) if keep], found / found.sum()


def _axes(v: Variances) -> Vector:
    return np.asarray(np.log([v.prompt / v.residual, v.example / (v.prompt + v.residual)]))
