"""The two-way model of one metric: score = level + prompt effect + example effect + residual, all Gaussian.

    y_ij = level + a_i + b_j + e_ij,    a_i ~ N(0, s_a²),   b_j ~ N(0, s_b²),   e_ij ~ N(0, s_e²)

The variances are unknown, and the level has a flat prior. The quantity of interest is
each prompt's mean theta_i: level + a_i over new inputs, or the mean of the prompt's N
cells over given examples. Then known cells count as they are, and only the unknown
cells are inferred. A prompt that has seen every example is known exactly, unless scores
are noisy. The residual then has a part that is noise within the cell, and no number of
examples removes it. Its size is estimated in `asktell.numerics.cells`. For given
variances, `asktell.posterior.equations` has the equations.

The most likely variances maximize the restricted likelihood (REML). They are found by
over-relaxed EM. Near the end, Anderson's secants (1965) halve the number of steps.

That guess is not taken for the truth. The posterior is averaged over a few more
guesses, where prompts or examples differ by more or by less. These sigma points (Julier
& Uhlmann 1997) are weighted by their likelihood and a weak prior (as in INLA, Rue,
Martino & Chopin 2009). The scale of all deviations is integrated out, which makes the
posterior Student's. Where candidates have factors, the posterior is also averaged over
the share of the candidates' variance that the factors explain, from nothing to nearly
all of it, weighted by the likelihood.

Where earlier studies give the shape of the examples, the posterior is averaged over
three degrees of trust in it: none, half, and full, which is the likeliest beforehand.
They are weighted by the likelihood, so a wrong shape soon loses its weight.

Where proxies have scores (`asktell.posterior.proxies`), the posterior is averaged over
two models: the model above, and a regression of the scores on the parts of the proxies'
scores. Beforehand the model without proxies has a probability of two thirds, and the
likelihood changes this probability. So a useless proxy soon loses its weight.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats, Ints, distinct, numbered
from asktell.numerics.cells import PRIOR_SHARE, Cells
from asktell.numerics.shapes import Float, Int
from asktell.posterior.equations import Groups, System, Variances, posterior_of_slopes
from asktell.posterior.mixture import Gaussian, Posterior
from asktell.posterior.proxies import ProxyParts
from asktell.posterior.regressors import Regressors
from asktell.problem.examples.shape import Shape

__all__ = ["Posterior", "Variances", "posterior"]


# Numerical. EM over-relaxed by less than 2 converges wherever EM does (Salakhutdinov &
# Roweis 2003). With secants below _NEAR it is within 2% of the maximum after 4 to 10
# steps. Changes are of the log of a variance, per step.
_STEPS, _RELAXATION, _NEAR, _CONVERGED = 16, 1.7, 0.1, 2e-3
_LONGEST_SECANT = 1.0  # a longer secant is not trusted
# Bounds of a variance, in units of the scores' variance: far beyond the variance that
# any data set can establish.
_FLOOR, _CEILING = 1e-6, 1e3
# The noise's part of the residual is found to this precision
_NOISE_STEPS, _NOISE_STEP = 6, 0.005
# The noise's largest part of the residual, since the cells' own part must stay above 0
_MOST_NOISE = 0.999
# The least relative weight of a guess, a share or a trust. A smaller weight changes no
# probability by more than that, and costs as much work as a large one.
_LEAST_WEIGHT = 0.02
_LEAST_GUESS = 0.01  # the same for the guesses along the axes
# The deviation of a log ratio below which it counts as known: guesses at 1.7 deviations
# change a standard deviation by an eighth.
_SURE = 0.15

# Weak priors. The shares are of the order found on recorded tables, and their weights
# are so few members that data soon outweigh them. Deviations of 1.0 to 2.5 were tried:
# errors were best calibrated at 1.5 (docs/explanation/what-was-tried.md).
# Variances of prompt, example and residual before any data
_PRIOR_SHARES = (0.1, 0.4, 0.5)
_PRIOR_WEIGHT = 1.0  # weight of the prior of an effect's variance, in members
# Weights of earlier studies' variances of prompts and examples, in members
_KNOWN_WEIGHTS = (5.0, 10.0)
# Deviation of the log of either ratio of variances: a factor of 20 either way is rare
_PRIOR_DEVIATION = 1.5
# Weight of the prior of the scale of all deviations, in observations
_PRIOR_FREEDOM = 2.0
# Shares of the prompts' variance that factors explain, equally likely beforehand
_SHARES = (0.0, 0.3, 0.6, 0.9)
# Trust in earlier studies: prior probability. Others did no better
_TRUSTS = {0.0: 0.02, 0.5: 0.18, 1.0: 0.8}

# Share of the prompts' variance that belongs to the arms' regressors beforehand
_BLOCKS_SHARE = 0.5
# Prior probabilities of the model without proxies and of the regression on them. With
# 1/2 each, quality at one evaluation per prompt fell by 0.04 (standard error 0.02) where
# proxies were useless. With 9/10 and 1/10, half of the gain by good proxies was lost.
_PROXIES_PRIOR = (2.0 / 3.0, 1.0 / 3.0)
# Variances of the proxies' slopes beforehand, in units of the scores' variance: of all
# parts together, of the example effects, and of the residuals. Values of a third and of
# three times these did no better or worse on simulated proxies.
_PROXY_SLOPES = (0.3, 0.02, 0.02)
# Variances of prompt, example and residual over new inputs without examples. The
# example's variance is never used.
_SHARES_WITHOUT_EXAMPLES = (0.1, 1.0, 0.9)

# A residual up to this part of the sum of the prompts' variance and its own counts as
# vanished: cells that are too few to separate the two have no evidence for it.
_VANISHED = 0.05

# So many equal scores of no simple value occur by chance only in a metric without noise
_FEWEST_EQUAL = 3
# Multiples of a quarter up to this number are grades, which agree by chance
_SIMPLE = 10.0


def posterior(
    cells: Cells,
    metric: int,
    n_arms: int,
    n_examples: int | None,
    limits: tuple[float, float] | None = None,
    averaged: bool = True,
    regressors: Regressors | None = None,
    shape: Shape | None = None,
    groups: Groups | None = None,
    proxies: ProxyParts | None = None,
) -> Posterior:
    """Fit the posterior of every prompt's mean of a metric.

    Args:
        cells: Known cells. There must be at least one.
        metric: The metric's column.
        n_arms: K.
        n_examples: N, or None for means over new inputs.
        limits: The range of the metric's scores, if it is known.
        averaged: Average over the uncertainty of the variances. Otherwise the most
            likely variances are used.
        regressors: Columns (K, q) of the candidates' factors.
        shape: How the examples differ, according to earlier studies.
        groups: Groups of the examples, if each arm stands for its mean over one group.
        proxies: The parts of the scores of cheap metrics, which may inform these scores.

    Returns:
        The posterior of the K means, in the metric's units.
    """
    scores = cells.scores[:, metric]
    centre = float(scores.mean())
    spread = float(scores.std())
    if cells.is_noisy:
        within = np.sqrt((cells.squares[:, metric] / cells.asks).mean())
        spread = float(np.hypot(spread, within))
    if spread <= 1e-9 * max(abs(centre), 1e-290):
        sizes = n_examples if groups is None else groups.sizes[groups.of_arms]
        return _constant(cells, float(scores[0]), n_arms, sizes, limits, averaged)
    y = (scores - centre) / spread
    data = _Data(cells, metric, y, n_arms, n_examples, regressors, spread, groups)
    if proxies is not None:
        return _over_proxies(data, proxies, shape, averaged).scaled(centre, spread)
    return _fitted(data, shape, averaged).scaled(centre, spread)


def _over_proxies(
    data: "_Data", proxies: ProxyParts, shape: Shape | None, averaged: bool
) -> Posterior:
    """The posterior averaged over two models, without proxies and with them, in units of the spread."""
    start = _with_noise(data)
    regressed = data.with_proxies(proxies, start.first)
    models = [(data, start), (regressed, _with_noise(regressed))]
    evidence = np.array([_evidence(start.of_seen, start.first) for _, start in models])
    weights = np.exp(evidence - evidence.max()) * np.array(_PROXIES_PRIOR)
    likely = np.flatnonzero(weights > _LEAST_WEIGHT * weights.max())
    fits = [
        _fitted(data_of_model, shape, averaged, start)
        for data_of_model, start in (models[i] for i in likely)
    ]
    trusts = np.array([fit.trust for fit in fits])
    return Posterior.averaged(fits, weights[likely] / weights[likely].sum(), trusts)


class _Data(NamedTuple):
    """The standardized scores `y` of a metric's cells, in units of their `spread`, and the settings of the model."""

    cells: Cells
    metric: int
    y: Float[Floats, " cells"]
    n_arms: int
    n_examples: int | None
    regressors: Regressors | None
    spread: float
    groups: Groups | None = None
    shape: Shape | None = None

    def with_proxies(self, proxies: ProxyParts, variances: Variances) -> "_Data":
        """The same with a regression on proxies. `variances` are the most likely ones without it."""
        arms, examples = self.cells.arms, self.cells.examples
        return self._replace(
            regressors=proxies.regressors(
                self.regressors, arms, examples, self.n_examples, variances
            )
        )

    def with_shape(self, shape: Shape | None) -> "_Data":
        """The same with a shape, whose shift is subtracted from the scores."""
        if shape is None:
            return self
        shift = np.where(self.cells.examples < 0, 0.0, shape.shift[self.cells.examples])
        return self._replace(y=self.y - shift / self.spread, shape=shape)

    @property
    def expected(self) -> Variances | None:
        """The variances that earlier studies expect, in units of the squared spread."""
        if self.shape is None:
            return None
        return Variances(
            *(max(_FLOOR, v / self.spread**2) for v in self.shape.variances)
        )

    @property
    def of_seen(self) -> "_Data":
        """The same without the arms that have no cell. They are many, and carry no information on the variances."""
        seen, arms = numbered(self.cells.arms)
        if len(seen) == self.n_arms:
            return self
        regressors = self.regressors
        if regressors is not None:
            regressors = regressors.of_seen(seen)
        groups = (
            None
            if self.groups is None
            else self.groups._replace(of_arms=self.groups.of_arms[seen])
        )
        return self._replace(
            cells=self.cells._replace(arms=arms),
            n_arms=len(seen),
            regressors=regressors,
            groups=groups,
        )

    def system(
        self, asks: Int[Ints, " cells"] | None = None, noise: float = 0.0
    ) -> System:
        arms, examples = self.cells.arms, self.cells.examples
        return System(
            arms,
            examples,
            self.y,
            self.n_arms,
            self.n_examples,
            self.regressors,
            asks,
            noise,
            self.shape,
            self.groups,
        )


class _Found(NamedTuple):
    """The equations of all arms and of the seen arms, and the most likely variances."""

    system: System
    of_seen: System
    first: Variances


def _fitted(
    data: _Data, shape: Shape | None, averaged: bool, found: _Found | None = None
) -> Posterior:
    """The posterior in units of the spread, averaged over the trust in earlier studies if there are any.

    `found` is of the data without a shape, if it is known already.
    """
    if shape is None:
        return _fit(data, found or _with_noise(data), averaged)
    trusted = [data.with_shape(shape.trusted(trust)) for trust in _TRUSTS]
    of_trusts = [_with_noise(fit) for fit in trusted]
    densities = np.array([_density(fit.of_seen, fit.first) for fit in of_trusts])
    weights = np.exp(densities - densities.max()) * np.array(list(_TRUSTS.values()))
    likely = np.flatnonzero(weights > _LEAST_WEIGHT * weights.max())
    fits = [_fit(trusted[i], of_trusts[i], averaged) for i in likely]
    return Posterior.averaged(
        fits, weights[likely] / weights[likely].sum(), np.array(list(_TRUSTS))[likely]
    )


def _fit(data: _Data, found: _Found, averaged: bool) -> Posterior:
    """The posterior in units of the spread, for the most likely variances or averaged over further guesses."""
    system, of_seen, first = found
    guesses, weights, freedom = [first], np.ones(1), np.inf
    if averaged:
        guesses, weights = _guesses(of_seen, first, data.expected)
        # At least two observations: a single cell may have several scores that differ.
        freedom = max(system.n, 2) - 1 + _PRIOR_FREEDOM
    parts, weights, explained = _over_shares(system, of_seen, guesses, weights)
    return Posterior.of(parts, weights, freedom, first, system.noise)._replace(
        explained=explained
    )


def _density(system: System, first: Variances) -> float:
    """The log of the restricted likelihood at the most likely variances, up to a constant."""
    log_det, squares = system.likelihood(first)
    return float(
        -0.5
        * (log_det + squares / first.residual + (system.n - 1) * np.log(first.residual))
    )


def _evidence(system: System, first: Variances) -> float:
    """The log of the restricted likelihood, averaged over the shares that the regressors may explain."""
    shares = _SHARES if system.regressors.arms.shape[1] else (0.0,)
    densities = np.array([system.density_by_share(first, share) for share in shares])
    top = float(densities.max())
    mean = top + float(np.log(np.exp(densities - top).mean()))
    return mean - 0.5 * (system.n - 1) * float(np.log(first.residual))


def _with_noise(data: _Data) -> _Found:
    """The equations of all arms and of the seen arms, and the most likely variances. The residual's includes the noise.

    Let c be the cells' own variance and w the variance of the noise. The mean of r
    scores of a cell has the variance c + w / r. The likelihood of these means
    determines c + w / r, and the moments within cells determine w. A few steps bring
    the two together.
    """
    cells, seen = data.cells, data.of_seen
    asks, noise = (cells.asks, PRIOR_SHARE) if cells.is_noisy else (None, 0.0)
    for _ in range(_NOISE_STEPS):
        of_seen = seen.system(asks, noise)
        variances = reml(of_seen, data.expected)
        if not cells.is_noisy:
            break
        inverse = float((1.0 / cells.asks).mean())
        of_all = np.full(cells.scores.shape[1], variances.residual * data.spread**2)
        within = float(cells.noise(of_all)[data.metric]) / data.spread**2
        total = variances.residual * (1.0 - noise + noise * inverse) + within * (
            1.0 - inverse
        )
        last, noise = noise, min(_MOST_NOISE, within / total)
        if abs(noise - last) < _NOISE_STEP:
            break
    if seen is data:
        return _Found(of_seen, of_seen, variances)
    whole = data.system(asks, of_seen.noise)
    whole.scales = of_seen.scales
    return _Found(whole, of_seen, variances)


def _over_shares(
    system: System,
    of_seen: System,
    guesses: list[Variances],
    weights: Float[Floats, " guesses"],
) -> tuple[list[Gaussian], Float[Floats, " parts"], float]:
    """The posterior for each guess at the variances, and each share of the prompts' variance that regressors explain.

    Returns the Gaussians that count, their weights, and the mean share.
    """
    shares: tuple[float, ...] = _SHARES if system.regressors.arms.shape[1] else (0.0,)
    densities = np.zeros((len(guesses), 1))
    if len(shares) > 1:
        densities = np.array(
            [
                [of_seen.density_by_share(guess, share) for share in shares]
                for guess in guesses
            ]
        )
    gains = densities - densities[:, :1]
    # The guess's weight accounts for the density at a share of 0. So a share counts by
    # its gain over that.
    divided = np.exp(gains - gains.max()) * weights[:, None]
    is_kept = divided > _LEAST_WEIGHT * divided.sum()
    parts = [
        system.means_by_share(guesses[i], shares[j]) for i, j in np.argwhere(is_kept)
    ]
    explained = float(divided.sum(axis=0) @ shares / divided.sum())
    return parts, np.asarray(divided[is_kept] / divided[is_kept].sum()), explained


def _constant(
    cells: Cells,
    score: float,
    n_arms: int,
    n_examples: Float[Floats, " arms"] | int | None,
    limits: tuple[float, float] | None,
    averaged: bool,
) -> Posterior:
    """The posterior if every score so far is the same.

    The standard deviation is unknown (NaN) if the score's size is 0, or after a single
    score. If `averaged`, draws have that deviation. Otherwise every draw is the score,
    so that prompts are equals.
    """
    zeros = np.zeros(n_arms)
    counts = np.bincount(cells.arms, minlength=n_arms)
    counts_given = (
        counts
        if n_examples is None
        else np.bincount(cells.arms[cells.examples >= 0], minlength=n_arms)
    )
    unknown = zeros + 1.0
    # Another score of a noisy cell may differ, so noisy cells are never known exactly.
    if n_examples is not None and not cells.is_noisy:
        unknown = np.maximum(0.0, 1.0 - counts_given / n_examples)
    size = limits[1] - limits[0] if limits else abs(score)
    chance = chance_of_another(score, len(cells.arms), counts, limits) * np.sqrt(
        unknown
    )
    sd = np.where(
        unknown == 0.0, 0.0, (size if size and len(cells.arms) > 1 else np.nan) * chance
    )
    part = Gaussian(
        zeros + score,
        np.zeros((n_arms, 1)),
        np.zeros((1, 1)),
        (size or 1.0) * chance * averaged,
    )
    return Posterior((part,), np.ones(1), np.inf, sd, Variances(0.0, 0.0, 0.0))


def chance_of_another(
    score: float, n: int, known: Int[Ints, " arms"], limits: tuple[float, float] | None
) -> Float[Floats, " arms"]:
    """Standard deviation of each prompt's mean if all n scores so far are the same, in units of the score's size.

    The next score may differ: after n equal scores, with a chance of about 1 in n + 2
    (rule of succession). The deviation is 1 / sqrt((n + 1) (n_i + 1)) for a prompt with
    `known` n_i of the n cells. The size is the metric's range, or the score itself.

    Scores such as 0, 1 or 2.5 often agree by chance. Scores such as 0.00008 hardly do
    so in a metric with noise, and the deviation is the square of the above.
    """
    if n >= _FEWEST_EQUAL and not agrees_by_chance(score, limits):
        return np.asarray(1.0 / ((n + 1.0) * (known + 1.0)))
    return np.asarray(1.0 / np.sqrt((n + 1.0) * (known + 1.0)))


def agrees_by_chance(score: float, limits: tuple[float, float] | None) -> bool:
    """True if scores of a metric with noise are often exactly this: an end of its range, or a small simple number."""
    return bool(limits and score in limits) or (
        abs(score) <= _SIMPLE and float(4.0 * score).is_integer()
    )


class _Prior(NamedTuple):
    """The prior of the variances, which counts as so many members of each effect with these variances."""

    # (3 + blocks,) of prompt, example, residual, and of the slopes of each block
    variances: Float[Floats, " 3+blocks"]
    # Weight of the prompt effect's variance, in members; also of each block's
    prompt: float
    example: float  # weight of the example effect's variance
    n_slopes: Float[Floats, " blocks"]  # the number of slopes of each block


def _prior(system: System, expected: Variances | None) -> _Prior:
    """A weak prior on the effects' shares, or a prior on the variances `expected` by earlier studies."""
    prompt, example = (
        (_PRIOR_WEIGHT, _PRIOR_WEIGHT) if expected is None else _KNOWN_WEIGHTS
    )
    variances = np.array(_PRIOR_SHARES if expected is None else expected)
    if system.n_examples is None:
        variances = np.array(_SHARES_WITHOUT_EXAMPLES)
    n_slopes = np.bincount(system.regressors.blocks).astype(float)
    if len(n_slopes):
        n = system.regressors.n_arm_blocks
        of_blocks = variances[0] * _BLOCKS_SHARE
        variances[0] -= of_blocks
        of_cells = _PROXY_SLOPES[: len(n_slopes) - n]
        variances = np.concatenate((variances, np.full(n, of_blocks / n), of_cells))
    return _Prior(variances, prompt, example, n_slopes)


def reml(system: System, expected: Variances | None = None) -> Variances:
    """Find the most likely variances, with a weak prior on the effects' shares, or a prior on those `expected`.

    A variance for each block of regressors is estimated along with them. The prompts'
    variance is then the sum of their own variance and the variances of the blocks of
    the arms. The relative sizes of the blocks are set in `system.scales`.
    """
    prior = _prior(system, expected)
    log_variances = fixed_point(
        lambda at: np.log(_em_step(system, np.exp(at), prior)), np.log(prior.variances)
    )
    variances = np.exp(log_variances)
    if len(system.regressors.blocks):
        of_blocks = variances[3:]
        n = system.regressors.n_arm_blocks
        of_arms = float(of_blocks[:n].sum())
        units = np.repeat((of_arms, variances[2]), (n, len(of_blocks) - n))
        system.scales = np.sqrt(of_blocks / units)[system.regressors.blocks]
        variances[0] += of_arms
    return Variances(*variances[:3].tolist())


def _em_step(
    system: System, v: Float[Floats, " 3+blocks"], prior: _Prior
) -> Float[Floats, " 3+blocks"]:
    """One step of EM: variances (3 + blocks,) to variances of higher restricted likelihood.

    E step: the posterior means and variances of the level and both effects, given the
    variances. M step: each effect's variance becomes the posterior expectation of its
    mean square, E a'a / K and E b'b / J, with the members of the prior beside them. The
    residual's variance becomes y'W (y - fitted) / (n - 1).
    """
    of_kept, of_other, squares, of_slopes = _expected_squares(system, v)
    per_arm, per_column = (
        (of_kept, of_other) if system.keep_arms else (of_other, of_kept)
    )
    n_columns = system.n_columns
    prompt = (per_arm + prior.prompt * prior.variances[0]) / (
        system.n_arms + prior.prompt
    )
    example, residual = v[1], v[2]
    if n_columns:
        example = (per_column + prior.example * prior.variances[1]) / (
            n_columns + prior.example
        )
    if system.n > 2:
        residual = squares / max(1, system.n - 1)
    blocks = (of_slopes + prior.prompt * prior.variances[3:]) / (
        prior.n_slopes + prior.prompt
    )
    return np.asarray(np.maximum([prompt, example, residual, *blocks], _FLOOR))


def _expected_squares(
    system: System, v: Float[Floats, " 3+blocks"]
) -> tuple[float, float, float, Float[Floats, " blocks"]]:
    """The E step: expected sums of squares of the kept effect, of the other effect, and (blocks,) of the slopes.

    The third number is the sum of squares y'W (y - fitted). Without blocks the last
    vector is empty.
    """
    s = system.solve(Variances(*v[:3]))
    kept_spread, other_spread = system.spread_kept, system.spread_other
    u, other_mean = s.u[:, 0], s.other[:, 0]
    own_kept, own_other, of_slopes = 0.0, 0.0, np.zeros(0)
    blocks = system.regressors.blocks
    if not len(blocks):
        squares = (
            system.squares[0, 0]
            - u @ system.sums[:, 0]
            - other_mean @ system.sums_other[:, 0]
        )
    else:
        # The slopes shift the means of both effects, and their uncertainty adds to the
        # squares.
        left = system.unexplained(s)
        slopes, root, _ = posterior_of_slopes(left, v[2], np.sqrt(v[3:])[blocks])
        u, other_mean = u - s.u[:, 1:] @ slopes, other_mean - s.other[:, 1:] @ slopes
        squares = left[0, 0] - left[0, 1:] @ slopes
        own_kept = float((((s.u[1:, 1:] @ root) ** 2).sum(axis=1) / kept_spread).sum())
        own_other = float(
            (((s.other[:, 1:] @ root) ** 2).sum(axis=1) / other_spread).sum()
        )
        of_slopes = np.bincount(blocks, slopes**2 + (root**2).sum(axis=1)).astype(float)
    # The variance of u is s_e² times the inverse. The variance of the other effect is
    # s_e² (D + D F' inverse F D).
    of_kept = (
        u[1:] @ (u[1:] / kept_spread)
        + v[2] * (np.diagonal(s.inverse)[1:] / kept_spread).sum()
        + own_kept
    )
    of_other = other_mean @ (other_mean / other_spread) + own_other
    of_other += v[2] * (
        (s.d / other_spread).sum()
        + system.products.trace(s.d**2 / other_spread, s.inverse)
    )
    return float(of_kept), float(of_other), float(squares), of_slopes


def fixed_point(
    step: Callable[[Float[Floats, " parameters"]], Float[Floats, " parameters"]],
    start: Float[Floats, " parameters"],
) -> Float[Floats, " parameters"]:
    """Iterate (p,) x = step(x) from `start`, until an iteration changes x by less than 0.002, or for 16 iterations.

    Steps are over-relaxed. Once they are short and become shorter, Anderson's secant
    takes their place (Anderson 1965, with one earlier step): it goes to the point where
    the change of x would vanish, if the change were linear along the line through the
    last two points.
    """
    at, moved, gap = start, np.zeros(len(start)), np.zeros(len(start))
    for _ in range(_STEPS):
        last, gap = gap, step(at) - at
        size = np.abs(gap).max()
        move = _RELAXATION * gap
        if size < min(_NEAR, np.abs(last).max()):
            change = gap - last
            secant = gap - (change @ gap) / (change @ change) * (moved + change)
            if np.abs(secant).max() < _LONGEST_SECANT:
                move = secant
        moved = np.clip(at + move, np.log(_FLOOR), np.log(_CEILING)) - at
        at = at + moved
        if size < _CONVERGED:
            break
    return at


class _Guess(NamedTuple):
    """A point of the plane of the two axes (see `_axes`)."""

    density: float  # log posterior, up to a constant
    variances: Variances  # with the most likely scale


class _Plane(NamedTuple):
    """The posterior of the variances on the plane of the two axes, with the scale profiled out."""

    system: System
    prior: Float[Floats, " 2"]  # centre of the axes' normal prior
    n_axes: int  # 1 without examples: the second axis is not estimated
    freedom: float  # observations, and those of the scale's prior
    own_squares: float  # sum of squares that the scale's prior adds

    def at(self, point: Float[Floats, " 2"]) -> _Guess:
        """The guess at a point (2,)."""
        prompt, example = (
            float(np.exp(point[0])),
            float(np.exp(point[1]) * (1.0 + np.exp(point[0]))),
        )
        log_det, squares = self.system.likelihood(Variances(prompt, example, 1.0))
        residual = max((squares + self.own_squares) / self.freedom, _FLOOR**2)
        z = (point - self.prior)[: self.n_axes] / _PRIOR_DEVIATION
        density = -0.5 * (self.freedom * np.log(residual) + log_det + z @ z)
        return _Guess(
            float(density), Variances(prompt * residual, example * residual, residual)
        )


def _guesses(
    system: System, first: Variances, expected: Variances | None = None
) -> tuple[list[Variances], Float[Floats, " guesses"]]:
    """Guesses at the variances and their weights: the first guess, and further ones around it along two axes.

    The axes are the logs of prompt over residual, and of example over prompt +
    residual. After one evaluation per prompt the scores carry no information on the
    first axis, whatever they carry on the second. Along each axis, the curvature of the
    log posterior at the first guess gives its deviation s. The further guesses are at
    +- sqrt(3) s. There the weights of a Gaussian would be 1/6 each. They are corrected
    by the posterior at these points.
    """
    first, has_residual = _with_residual(system, first)
    plane = _Plane(
        system,
        _prior_of_axes(system, expected),
        n_axes=2 if system.n_columns else 1,
        freedom=system.n - 1 + _PRIOR_FREEDOM,
        # The prior of the scale is centred at the guess. The spread of the scores,
        # which is 1 here, is no evidence on a residual far below it. But where cells
        # are too few to separate the residual from the effects, the centre is the usual
        # share of that spread.
        own_squares=_PRIOR_FREEDOM
        * (first.residual if has_residual else _PRIOR_SHARES[2]),
    )
    centre = _axes(first)
    middle = plane.at(centre)
    guesses, weights = [middle.variances], [1.0]
    for axis in range(plane.n_axes):
        step = np.zeros(2)
        step[axis] = 0.7 * _PRIOR_DEVIATION
        ahead, behind = plane.at(centre + step).density, plane.at(centre - step).density
        curvature = (2.0 * middle.density - ahead - behind) / step[axis] ** 2
        deviation = min(_PRIOR_DEVIATION, max(curvature, 1e-9) ** -0.5)
        if deviation < _SURE:
            continue
        step[axis] = np.sqrt(3.0) * deviation
        weights[0] -= 1.0 / 3.0
        for sign in (-1.0, 1.0):
            guess = plane.at(centre + sign * step)
            guesses.append(guess.variances)
            # A Gaussian's log density at sqrt(3) deviations is 1.5 below that of its
            # centre.
            excess = np.clip(guess.density - middle.density + 1.5, -30.0, 3.0)
            weights.append(float(np.exp(excess)) / 6.0)
    likely = np.flatnonzero(np.array(weights) > _LEAST_GUESS * sum(weights))
    of_kept = np.array(weights)[likely]
    return [guesses[i] for i in likely], of_kept / of_kept.sum()


def _prior_of_axes(system: System, expected: Variances | None) -> Float[Floats, " 2"]:
    """The centre of the axes' prior."""
    prior = _axes(Variances(*_PRIOR_SHARES) if expected is None else expected)
    if system.n_examples is None:
        prior[0] = np.log(_SHARES_WITHOUT_EXAMPLES[0] / _SHARES_WITHOUT_EXAMPLES[2])
    return prior


def _with_residual(system: System, first: Variances) -> tuple[Variances, bool]:
    """The first guess, corrected where its residual vanishes, and whether cells separate a residual from the effects.

    Where nearly every cell has an example of its own, scores determine only the sum of
    the example's and the residual's variance. Where prompts have few cells on common
    examples, they determine only the sum of the prompt's and the residual's variance.
    The most likely residual may then be 0, and every other variance would be an
    unbounded multiple of it. So the sum is divided in the proportion of the prior.
    """
    spare = system.n - len(distinct(system.arms)) - system.n_columns + 1
    if spare > 1:
        return first, True
    of_prompt, of_example, of_residual = _PRIOR_SHARES
    if 2 * system.n_columns > system.n:
        both = first.example + first.residual
        residual = max(first.residual, both * of_residual / (of_example + of_residual))
        return Variances(first.prompt, both - residual, residual), True
    both = first.prompt + first.residual
    if first.residual > _VANISHED * both:
        return first, False
    residual = both * of_residual / (of_prompt + of_residual)
    return Variances(both - residual, first.example, residual), True


def _axes(v: Variances) -> Float[Floats, " 2"]:
    """The logs of prompt over residual, and of example over prompt + residual."""
    return np.asarray(
        np.log([v.prompt / v.residual, v.example / (v.prompt + v.residual)])
    )
