"""Worlds: generative models of scores whose truth is known, for measuring whether what is stated is true.

A world draws its prompts once. Every input is a point of the unit cube: examples given
are random points, and the truth, each prompt's expected score on a new input evaluated
once, is the mean over a fine grid of points.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import expit, logit, ndtri

import asktell
from asktell.problem.goals import Goal
from asktell.problem.objectives import FAILURE_RATE, Threshold
from benchmarks.problems.table import Array

Rng: TypeAlias = np.random.Generator
Make: TypeAlias = Callable[[Rng, int], "World"]

SLOPE = 1.3  # of 0/1 scores: the log-odds of success are SLOPE * (ability - difficulty)
HARD = 1.6  # standard deviation of difficulties
_POINTS = 1 << 13  # of the grid
_CHUNK = 1 << 11


class Metric(NamedTuple):
    """One metric of all prompts.

    `expected` makes, of the points (n, dimensions) of inputs, what each prompt scores
    there on average, (K, n). `evaluate` draws the scores of one evaluation each from
    that.
    """

    name: str
    expected: Callable[[Array], Array]
    evaluate: Callable[[Array, Rng], Array]
    dimensions: int = 1


class World(NamedTuple):
    """Prompts with their metrics, and what is looked for.

    `fails`: probability (K, n) that an evaluation fails, of the first metric's points;
    None if none fails. `on_failure`: as of `asktell.Selector`. `cluster`: number of
    consecutive examples that share the first coordinate of every metric. `repeats`:
    evaluations of a cell that are allowed.
    """

    metrics: tuple[Metric, ...]
    goal: Goal
    n_examples: int = 300
    fails: Callable[[Array], Array] | None = None
    on_failure: Mapping[str, float] | None = None
    cluster: int = 1
    repeats: int = 1


def truth(world: World) -> Array:
    """(K, c) expected score of every prompt in the goal's columns, on a new input evaluated once.

    Of failures that do not count as scores, the mean is over the inputs that are
    evaluated successfully.
    """
    dimensions = sum(metric.dimensions for metric in world.metrics)
    totals = np.zeros(1)
    for start in range(0, _POINTS, _CHUNK):
        points = _grid(start, _CHUNK, dimensions)
        parts = _parts(world, points)
        expected = np.stack(
            [m.expected(p) for m, p in zip(world.metrics, parts, strict=True)]
        )
        fails = (
            np.zeros(expected.shape[1:])
            if world.fails is None
            else world.fails(parts[0])
        )
        totals = totals + np.array(
            [*(expected * (1.0 - fails)).sum(axis=2), fails.sum(axis=1)]
        )
    *means, failed = totals / _POINTS
    if world.on_failure is None:
        means = [mean / (1.0 - failed) for mean in means]
    else:
        instead = [world.on_failure[metric.name] for metric in world.metrics]
        means = [
            mean + score * failed for mean, score in zip(means, instead, strict=True)
        ]
    named = dict(zip([metric.name for metric in world.metrics], means, strict=True)) | {
        FAILURE_RATE: failed
    }
    return np.stack([named[column] for column in world.goal.columns], axis=1)


def cells(world: World, rng: Rng) -> Array:
    """(K, N, repeats, m) scores of every evaluation of the examples given; NaN is one that failed."""
    n = world.n_examples
    dimensions = sum(metric.dimensions for metric in world.metrics)
    points = rng.random((n, dimensions))
    if world.cluster > 1:
        at = 0
        for metric in world.metrics:
            points[:, at] = points[np.arange(n) // world.cluster * world.cluster, at]
            at += metric.dimensions
    parts = _parts(world, points)
    columns = []
    for name in world.goal.metrics:
        metric, part = next(
            (m, p) for m, p in zip(world.metrics, parts, strict=True) if m.name == name
        )
        expected = metric.expected(part)
        columns.append(
            np.stack(
                [metric.evaluate(expected, rng) for _ in range(world.repeats)], axis=2
            )
        )
    scores = np.stack(columns, axis=3)
    if world.fails is not None:
        probability = world.fails(parts[0])[:, :, None]
        scores[rng.random(scores.shape[:3]) < probability] = np.nan
    return scores


def _grid(start: int, n: int, dimensions: int) -> Array:
    """Points start to start + n of a sequence that fills the unit cube evenly (the R sequence, Roberts 2018)."""
    root = 2.0
    for _ in range(50):
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = root ** -np.arange(1, dimensions + 1)
    return np.asarray(
        (0.5 + np.arange(start + 1, start + n + 1)[:, None] * steps) % 1.0
    )


def _parts(world: World, points: Array) -> list[Array]:
    ends = np.cumsum([metric.dimensions for metric in world.metrics])
    return np.split(points, ends[:-1], axis=1)


# Metrics


def _bernoulli(expected: Array, rng: Rng) -> Array:
    return (rng.random(expected.shape) < expected).astype(float)


def binary(
    name: str,
    abilities: Array,
    difficulty: Callable[[Array], Array] | None = None,
    slope: float = SLOPE,
) -> Metric:
    """0/1 scores; `difficulty` makes difficulties (n,) of points (n, 1), by default N(0, HARD)."""
    difficulty = difficulty or normal(HARD)

    def expected(points: Array) -> Array:
        return np.asarray(expit(slope * (abilities[:, None] - difficulty(points))))

    return Metric(name, expected, _bernoulli)


def normal(sd: float, mean: float = 0.0) -> Callable[[Array], Array]:
    """Normal difficulties."""
    return lambda points: np.asarray(mean + sd * ndtri(points[:, 0]))


def gaussian(name: str, means: Array, example_sd: float, residual_sd: float) -> Metric:
    """Scores = prompt + example + residual; example and residual are Gaussian."""

    def expected(points: Array) -> Array:
        return np.asarray(means[:, None] + example_sd * ndtri(points[:, 0]))

    return Metric(
        name,
        expected,
        lambda scores, rng: scores + residual_sd * rng.normal(size=scores.shape),
    )


def lognormal(name: str, means: Array, example_sd: float, residual_sd: float) -> Metric:
    """Positive scores = prompt * example * residual; the deviations are those of the logarithms."""

    def expected(points: Array) -> Array:
        return np.asarray(
            means[:, None]
            * np.exp(example_sd * ndtri(points[:, 0]) - 0.5 * example_sd**2)
        )

    def evaluate(scores: Array, rng: Rng) -> Array:
        return scores * np.exp(
            residual_sd * rng.normal(size=scores.shape) - 0.5 * residual_sd**2
        )

    return Metric(name, expected, evaluate)


# Worlds


def _best(metric: Metric) -> World:
    return World((metric,), asktell.BestFeasible(metric.name))


def _bounded(
    first: Metric,
    second: Metric,
    at_most: bool,
    near: float | None = None,
    rng: Rng | None = None,
) -> World:
    """The best in the first metric under a bound on the second one.

    The bound parts the prompts' true means in halves, or is about their mean by `near`
    of their standard deviation.
    """
    means = np.sort(
        truth(World((second,), asktell.BestFeasible(asktell.maximize(second.name))))[
            :, 0
        ]
    )
    middle = len(means) // 2
    bound = float(means[middle - 1 : middle + 1].mean())
    if near is not None and rng is not None:
        bound = float(means.mean() + near * rng.normal() * means.std())
    return World(
        (first, second),
        asktell.BestFeasible(first.name, {second.name: Threshold(bound, at_most)}),
    )


def abilities(rng: Rng, k: int) -> World:
    """0/1 scores, abilities N(0, 1), difficulties N(0, 1.6), slope 1.3."""
    return _best(binary("accuracy", rng.normal(size=k)))


def _family(spread: float, difficulty: Callable[[Array], Array] | None = None) -> Make:
    def make(rng: Rng, k: int) -> World:
        """Two metrics of 0/1 with independent abilities N(0, spread); the second is bounded near its mean."""
        accuracy, valid = (
            binary(name, spread * rng.normal(size=k), difficulty)
            for name in ("accuracy", "valid")
        )
        return _bounded(accuracy, valid, False, 0.5, rng)

    return make


def _bimodal(points: Array) -> Array:
    """Difficulties of which six in ten are N(-3, .5) and the others N(2.5, .5)."""
    u = points[:, 0]
    easy = ndtri(np.clip(u / 0.6, 1e-9, 1 - 1e-9))
    hard = ndtri(np.clip((u - 0.6) / 0.4, 1e-9, 1 - 1e-9))
    return np.asarray(np.where(u < 0.6, -3.0 + 0.5 * easy, 2.5 + 0.5 * hard))


def _uniform(points: Array) -> Array:
    """Difficulties with which the success rates of an average prompt are uniform on (0, 1)."""
    return np.asarray(-logit(points[:, 0]) / SLOPE)


def slopes(rng: Rng, k: int) -> World:
    """0/1 scores, abilities N(0, .7), difficulties N(0, 1.6), and examples with slopes 1.3 * exp(N(0, .6))."""
    ability = 0.7 * rng.normal(size=k)

    def expected(points: Array) -> Array:
        slope = SLOPE * np.exp(0.6 * ndtri(points[:, 1]))
        return np.asarray(
            expit(slope * (ability[:, None] - HARD * ndtri(points[:, 0])))
        )

    return _best(Metric("accuracy", expected, _bernoulli, 2))


def two_way(rng: Rng, k: int) -> World:
    """Gaussian scores: .5 + prompt N(0, .06) + example N(0, .15) + residual N(0, .15); two of them, one bounded."""
    quality, brevity = (
        gaussian(name, 0.5 + 0.06 * rng.normal(size=k), 0.15, 0.15)
        for name in ("quality", "brevity")
    )
    return _bounded(quality, brevity, False, 0.5, rng)


def heavy_tails(rng: Rng, k: int) -> World:
    """As the two-way world, but the prompts' effects are .04 times a t with 3 degrees of freedom."""
    names = ("quality", "brevity")
    quality, brevity = (
        gaussian(name, 0.5 + 0.04 * rng.standard_t(3, size=k), 0.15, 0.15)
        for name in names
    )
    return _bounded(quality, brevity, False, 0.5, rng)


def far_ahead(rng: Rng, k: int) -> World:
    """0/1 scores, difficulties N(0, 1.6): one prompt has ability 1.4 (76 % right), others N(-.4, .3) (34 to 50 %)."""
    ability = -0.4 + 0.3 * rng.normal(size=k)
    ability[rng.integers(k)] = 1.4
    return _best(binary("accuracy", ability))


def far_ahead_gaussian(rng: Rng, k: int) -> World:
    """Two-way scores of which one prompt is at .76 and the others N(.42, .04); example and residual N(0, .25)."""
    means = 0.42 + 0.04 * rng.normal(size=k)
    means[rng.integers(k)] = 0.76
    return _best(gaussian("quality", means, 0.25, 0.25))


def easy(rng: Rng, k: int) -> World:
    """0/1 scores, abilities N(3.5, .5), difficulties N(0, 1): about 98 % right, so all scores may agree for long."""
    return _best(binary("accuracy", 3.5 + 0.5 * rng.normal(size=k), normal(1.0)))


def alike(rng: Rng, k: int) -> World:
    """Every prompt is right on every input."""
    return _best(binary("accuracy", np.full(k, 100.0)))


def costs(rng: Rng, k: int) -> World:
    """Equal accuracy N(.5, .2) and costs under a limit of 1.

    Costs are lognormal; the prompts' means are exp(N(0, .05)) about a level exp(N(-.3,
    .6)), and a cell has a log-sd of .6 of its example and .3 of its own. So costs of
    .50 and .53 on one example say little of the limit.
    """
    means: Array = np.exp(-0.3 + 0.6 * rng.normal() + 0.05 * rng.normal(size=k))
    accuracy = gaussian("accuracy", np.full(k, 0.5), 0.2, 0.1)
    cost = lognormal("cost", means, 0.6, 0.3)
    return World(
        (accuracy, cost),
        asktell.BestFeasible("accuracy", {"cost": asktell.at_most(1.0)}),
    )


def idle_metric(rng: Rng, k: int) -> World:
    """A metric that does not matter: length 15.0, 15.1, ... under a limit of 20; accuracies are equal (ability .5)."""
    accuracy = binary("accuracy", np.full(k, 0.5))
    length = gaussian("length", 15.0 + 0.1 * np.arange(k, dtype=float), 0.5, 0.5)
    return World(
        (accuracy, length),
        asktell.BestFeasible("accuracy", {"length": asktell.at_most(20.0)}),
    )


def ties(rng: Rng, k: int) -> World:
    """0/1 scores of equal prompts: ability 0, difficulties N(0, 1.6)."""
    return _best(binary("accuracy", np.zeros(k)))


def clustered(rng: Rng, k: int) -> World:
    """0/1 scores, abilities N(0, .5); ten examples share difficulty N(0, 1.1), and each has N(0, 1.2) of its own."""
    ability = 0.5 * rng.normal(size=k)

    def expected(points: Array) -> Array:
        difficulty = 1.1 * ndtri(points[:, 0]) + 1.2 * ndtri(points[:, 1])
        return np.asarray(expit(SLOPE * (ability[:, None] - difficulty)))

    return _best(Metric("accuracy", expected, _bernoulli, 2))._replace(cluster=10)


def _failing(rng: Rng, k: int) -> World:
    """0/1 scores, abilities N(0, .5); evaluations fail with log-odds -3 + N(0, .7) + the example's difficulty."""
    often = -3.0 + 0.7 * rng.normal(size=k)
    difficulty = normal(HARD)

    def fails(points: Array) -> Array:
        return np.asarray(expit(often[:, None] + difficulty(points)))

    return _best(binary("accuracy", 0.5 * rng.normal(size=k), difficulty))._replace(
        fails=fails
    )


def failures(rng: Rng, k: int) -> World:
    """Evaluations that fail on hard examples (8 %) are left out; 0/1 scores, abilities N(0, .5)."""
    return _failing(rng, k)


def failures_count(rng: Rng, k: int) -> World:
    """As `failures`, but a failure counts as a score of 0."""
    return _failing(rng, k)._replace(on_failure={"accuracy": 0.0})


def failure_rates(rng: Rng, k: int) -> World:
    """Limits of 1 to 5 % of evaluations that fail; log-odds of failing are N(the limit's, .8), on any example alike."""
    limit = float(rng.choice([0.01, 0.02, 0.05]))
    rates = expit(logit(limit) + 0.8 * rng.normal(size=k))
    goal = asktell.BestFeasible("accuracy", {FAILURE_RATE: asktell.at_most(limit)})
    accuracy = binary("accuracy", 0.5 * rng.normal(size=k))
    return World(
        (accuracy,),
        goal,
        fails=lambda points: np.repeat(rates[:, None], len(points), axis=1),
    )


def rare_errors(rng: Rng, k: int) -> World:
    """A metric of 0/1 that must be at most 1 to 5 %; log-odds N(the limit's, .8) on any example alike."""
    limit = float(rng.choice([0.01, 0.02, 0.05]))
    rates = expit(logit(limit) + 0.8 * rng.normal(size=k))
    accuracy = binary("accuracy", 0.5 * rng.normal(size=k))
    errors = Metric(
        "errors",
        lambda points: np.repeat(rates[:, None], len(points), axis=1),
        _bernoulli,
    )
    return World(
        (accuracy, errors),
        asktell.BestFeasible("accuracy", {"errors": asktell.at_most(limit)}),
    )


def noisy_agents(rng: Rng, k: int) -> World:
    """Agents on 40 tasks, each cell up to four times; 23 % of cells differ when run again.

    0/1 scores, abilities N(0, .5), difficulties N(0, 2.1); every evaluation is drawn
    anew.
    """
    return _best(binary("accuracy", 0.5 * rng.normal(size=k), normal(2.1)))._replace(
        n_examples=40, repeats=4
    )


def same_agent(rng: Rng, k: int) -> World:
    """The same agent under several names, on 127 tasks; 23 % of cells differ when run again, and nobody says so."""
    return _best(binary("accuracy", np.full(k, 0.5), normal(2.1)))._replace(
        n_examples=127
    )


def skewed_costs(rng: Rng, k: int) -> World:
    """0/1 accuracy (abilities N(0, .5)) under a limit on cost at the median of the prompts.

    Costs are lognormal: prompts with log-sd .3, examples with .3 and cells with .4,
    which makes .5 within a prompt.
    """
    accuracy = binary("accuracy", 0.5 * rng.normal(size=k))
    cost = lognormal("cost", 0.01 * np.exp(0.3 * rng.normal(size=k)), 0.3, 0.4)
    return _bounded(accuracy, cost, True)


def median_limit(rng: Rng, k: int) -> World:
    """0/1 accuracy (abilities N(0, .5)); brevity, worse for the able, is Gaussian and bounded at the median."""
    ability = 0.5 * rng.normal(size=k)
    brevity = 0.5 - 0.06 * ability + 0.05 * rng.normal(size=k)
    return _bounded(
        binary("accuracy", ability), gaussian("brevity", brevity, 0.1, 0.15), False
    )


WORLDS: dict[str, Make] = {
    "abilities": abilities,
    "spread .2": _family(0.2),
    "spread .5": _family(0.5),
    "narrow": _family(0.5, normal(0.5)),
    "wide": _family(0.5, normal(3.0)),
    "uniform": _family(0.5, _uniform),
    "bimodal": _family(0.5, _bimodal),
    "slopes": slopes,
    "two-way": two_way,
    "heavy tails": heavy_tails,
    "far ahead": far_ahead,
    "far ahead, gaussian": far_ahead_gaussian,
    "easy": easy,
    "alike": alike,
    "costs": costs,
    "idle metric": idle_metric,
    "ties": ties,
    "clustered": clustered,
    "failures": failures,
    "failures count": failures_count,
    "failure rates": failure_rates,
    "rare errors": rare_errors,
    "noisy agents": noisy_agents,
    "same agent": same_agent,
    "skewed costs": skewed_costs,
    "median limit": median_limit,
}
