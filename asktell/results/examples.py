"""Item analysis: how hard each example is, whether it separates good prompts from bad ones, and what looks wrong.

An example is to prompts what an item of a test is to those who take it, and the methods
are those of classical test theory (Lord & Novick 1968, Statistical Theories of Mental
Test Scores, chapters 14 and 15). Scores are oriented so that more is better. A prompt's
ability is its mean score less the examples' effects, by least squares, and whenever an
example is judged, its own score is left out of it.

- Discrimination is the item-rest correlation: that of an example's scores with the
  prompts' abilities on the others.
- Likely mislabelled is an example on which better prompts score worse. With its label
  corrected, a negative discrimination would be positive. The hypothesis tested is that
  its scores have nothing to do with the abilities. The p-value is the larger one of
  two: by Student's t of the correlation, and by the permutation distribution,
  approximated by a Pearson type III one of the same variance and skewness (Mielke &
  Berry 2007, Permutation Methods, chapter 2). The t-test finds too much where few bad
  prompts stand apart, the other one where a sum of few scores is bounded.
- Most examples discriminate well, so most p-values are near 1. Benjamini & Hochberg's
  procedure (1995) is applied to those up to 1/2 only, doubled, with Storey's estimate
  (2002) of how many of these hypotheses are true: that holds the false discovery rate,
  too, and finds more (Zhao, Small & Su 2019; Storey, Taylor & Siegmund 2004).
- Nothing is called mislabelled where the table does not tell good prompts from bad
  ones: where the abilities' reliability (Hoyt 1941, which is Cronbach's alpha and
  KR-20) is below 0.7, as Nunnally (1978) asks of a test.
- Near duplicates agree too often. A score agrees with another one of the same prompt if
  both are above the means of their examples, or neither is. By chance, two examples
  agree as if their scores were independent among prompts of like ability (Cohen 1960,
  in groups of prompts). The agreements of a pair are near duplicates' if they are at
  least 95%, and would come by chance in less than 5% of the tables in any pair of
  examples, by the binomial bound (Hoeffding 1956) and Bonferroni's.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from asktell.errors import InvalidArgumentError
from asktell.numerics.arrays import Counts, Indices, Mask, Matrix, Vector
from asktell.numerics.cells import Scored
from asktell.problem.checks import nearest
from asktell.state import Problem, State

_FEWEST = 5  # prompts, below which a correlation, or an agreement, says nothing
_RELIABLE = 0.7  # Nunnally 1978, Psychometric Theory
_CONDITION = 0.5  # p-values beyond are of no interest, and are left out
_MOSTLY_TRUE = 0.5  # of the others: hypotheses with larger ones are taken for true
_ALIKE = 0.95  # of the prompts that two near duplicates agree on
_ERROR = 0.05  # chance that any pair is called so by chance
# Of prompts of like ability; more groups account for more, but need more prompts
_MOST_GROUPS, _IN_A_GROUP = 20, 5
# Examples whose pairs are compared: their number grows with the square
_MOST_COMPARED = 20_000
_MOST_CELLS = 100_000_000  # of a table of prompts by examples, in memory
_BLOCK = 1_000  # examples that are compared with others at a time
_MOST_NAMED = 10  # near duplicates of one example
# Of the fit: at most so many, until abilities change by such a part of the scores'
# spread
_STEPS, _CLOSE = 50, 1e-10
_ROUNDING = 1e-12  # of the scores' size
_SYMMETRIC = 1e-3  # a skewness that makes no difference


@dataclass(frozen=True)
class ExampleResult:
    """What the scores of one metric say of an example.

    `prompts` have a score on it, failures not counted. `mean` is theirs, in the
    metric's units. `loss` is how far the mean is from the best score: of scores of 0
    and 1, the share of wrong answers. The best score is the end of the metric's range
    or, without one, the best of all that there are. `difficulty` is by how much prompts
    score worse on it than on the average example, whichever prompts they are: 0 for an
    average one, positive for a hard one.

    `discrimination` is the correlation of the scores on it with how good the prompts
    are on all other examples, from -1 to 1, and `standard_error` its error. Both are
    None if fewer than five prompts have a score, or all the same one.
    `separates_nobody`: all prompts, at least two, have the same score. `p_value` is
    that of the test that worse prompts do not score better. `likely_mislabelled`: they
    do, at the false discovery rate asked for. Then look at the label, the reference or
    the metric. `near_duplicates`: ids of examples, at most ten, that the prompts score
    alike, beyond what chance explains.
    """

    id: str | int
    prompts: int
    mean: float | None
    loss: float | None
    difficulty: float | None
    discrimination: float | None
    standard_error: float | None
    separates_nobody: bool
    p_value: float | None
    likely_mislabelled: bool
    near_duplicates: tuple[str | int, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON-ready data: a row of a table."""
        return {**asdict(self), "near_duplicates": list(self.near_duplicates)}


def example_results(
    state: State, metric: str | None = None, fdr: float = 0.1
) -> list[ExampleResult]:
    """What the state's scores say of each example, in their order; of the first objective by default.

    Raises:
        InvalidArgumentError: the metric is unknown, the rate is none, or the examples
            are not numbered.
    """
    problem = state.problem
    goal = problem.goal
    metric = goal.objectives[0].metric if metric is None else metric
    if metric not in goal.columns:
        raise InvalidArgumentError(
            f"examples() knows the metrics {list(goal.columns)}, got {metric!r}{nearest(metric, goal.columns)}."
        )
    if not isinstance(fdr, int | float) or not 0.0 < fdr < 1.0:
        raise InvalidArgumentError(
            f"fdr must be a rate between 0 and 1, such as 0.1; got {fdr!r}."
        )
    if problem.n_examples is None:
        raise InvalidArgumentError(
            "examples() needs evaluations that name their examples. Give Selector(..., examples=...): their number or "
            "their ids."
        )
    cells = _Cells.of(
        state, goal.columns.index(metric), -1.0 if metric in goal.minimized else 1.0
    )
    return _described(cells, problem, _best(cells, problem, metric), fdr)


class _Cells(NamedTuple):
    """Cells with a score, and the additive fit to them: y = ability of the prompt + ease of the example + residual."""

    arms: Indices  # (n,) from 0, of those prompts that have a score
    examples: Indices  # (n,)
    y: Vector  # (n,) more is better
    sign: float  # what y is times the score
    abilities: Vector  # (arms,) with a mean of 0
    ease: Vector  # (examples,) NaN without a score

    @classmethod
    def of(cls, state: State, column: int, sign: float) -> "_Cells":
        history, n_examples = state.history, state.problem.n_examples or 0
        known = history.examples() >= 0
        scores = history.scores()[known, column : column + 1]
        found = Scored.of(
            history.arms()[known], history.examples()[known], scores, n_examples
        )
        _, arms = np.unique(found.arms, return_inverse=True)
        y = sign * found.scores[:, 0]
        return cls(
            arms,
            found.examples,
            y,
            sign,
            *_additive(arms, found.examples, y, n_examples),
        )

    def sums(self, values: Vector) -> Vector:
        """(examples,) sums of a number per cell."""
        return np.asarray(
            np.bincount(self.examples, values, len(self.ease)), dtype=np.float64
        )

    def standardized(self, values: Vector) -> Vector:
        """(n,) a number per cell less its example's mean, in units of its example's deviation; 0 if that is 0."""
        off = values - (self.sums(values) / self.counts)[self.examples]
        deviations = np.sqrt(self.sums(off**2) / self.counts)
        none = deviations <= _ROUNDING * np.abs(values).max(initial=0.0)
        return np.asarray(
            np.where(none[self.examples], 0.0, off / deviations[self.examples])
        )

    @property
    def counts(self) -> Counts:
        """(examples,) how many prompts have a score."""
        return np.bincount(self.examples, minlength=len(self.ease))

    def rest(self) -> Vector:
        """(n,) of each cell the prompt's ability by all other examples; NaN if it has seen no other one."""
        n_cells = np.bincount(self.arms, minlength=len(self.abilities))[self.arms]
        own = self.y - self.ease[self.examples]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(
                (n_cells * self.abilities[self.arms] - own) / (n_cells - 1.0)
            )

    def reliability(self) -> float:
        """The part of the abilities' variance that is not the examples' chance; 0 if there is nothing to tell."""
        n_arms, n_examples = len(self.abilities), int((self.counts > 0).sum())
        freedom = len(self.y) - n_arms - n_examples + 1
        if freedom < 1 or n_arms < 2:
            return 0.0
        residual = self.y - self.ease[self.examples] - self.abilities[self.arms]
        chance = (
            float(residual @ residual)
            / freedom
            * float((1.0 / np.bincount(self.arms)).mean())
        )
        spread = float(self.abilities.var(ddof=1))
        return 1.0 - chance / spread if spread > 0.0 else 0.0


def _additive(
    arms: Indices, examples: Indices, y: Vector, n_examples: int
) -> tuple[Vector, Vector]:
    """Abilities with a mean of 0, and the examples' ease: least squares in turn, at once if no cell is missing."""
    n_arms = int(arms.max(initial=-1)) + 1
    per_arm, per_example = (
        np.bincount(arms, minlength=n_arms),
        np.bincount(examples, minlength=n_examples),
    )
    abilities, ease = np.zeros(n_arms), np.full(n_examples, np.nan)
    if not len(y):
        return abilities, ease
    tolerance = _CLOSE * max(float(np.ptp(y)), _ROUNDING)
    for _ in range(_STEPS):
        with np.errstate(invalid="ignore", divide="ignore"):
            ease = np.bincount(examples, y - abilities[arms], n_examples) / per_example
        found = np.bincount(arms, y - ease[examples], n_arms) / per_arm
        found -= found.mean()
        change = float(np.abs(found - abilities).max())
        abilities = found
        if change <= tolerance:
            break
    return abilities, ease


def _best(cells: _Cells, problem: Problem, metric: str) -> float:
    """The best score there can be, as `y`; without a range, of other scores than 0 and 1, the best that there is."""
    limits = problem.goal.limits(metric)
    y = cells.y
    if limits is None and bool(np.isin(y, (0.0, cells.sign)).all()):
        limits = 0.0, 1.0
    if limits is None:
        return float(y.max(initial=-np.inf))
    return max(cells.sign * limits[0], cells.sign * limits[1])


def _described(
    cells: _Cells, problem: Problem, best: float, fdr: float
) -> list[ExampleResult]:
    n_examples = len(cells.ease)
    counts = cells.counts
    with np.errstate(invalid="ignore", divide="ignore"):
        means = cells.sums(cells.y) / counts
    same = _same(cells) & (counts > 0)
    tested = _tested(cells, means, same)
    mislabelled = np.zeros(n_examples, dtype=bool)
    if cells.reliability() >= _RELIABLE:
        mislabelled = _discovered(tested.p_values, fdr)
    alike = _near_duplicates(cells, means, ~same & (counts >= _FEWEST))
    average = np.nanmean(cells.ease) if len(cells.y) else np.nan
    ids = range(n_examples) if problem.examples is None else problem.examples.ids
    columns = (
        ids, counts.tolist(), _known(cells.sign * means), _known(best - means), _known(average - cells.ease),
        _known(tested.correlations), _known(tested.errors), (same & (counts > 1)).tolist(), _known(tested.p_values),
        mislabelled.tolist(), (tuple(ids[other] for other in alike.get(e, ())) for e in range(n_examples)),
    )  # fmt: skip
    return [ExampleResult(*row) for row in zip(*columns, strict=True)]


def _known(numbers: Vector) -> list[float | None]:
    return [None if number != number else number + 0.0 for number in numbers.tolist()]


def _same(cells: _Cells) -> Mask:
    """(examples,) true where all scores are the same one."""
    low, high = np.full(len(cells.ease), np.inf), np.full(len(cells.ease), -np.inf)
    np.minimum.at(low, cells.examples, cells.y)
    np.maximum.at(high, cells.examples, cells.y)
    return np.asarray(high <= low)


# Discrimination


class _Tested(NamedTuple):
    """(examples,) each, NaN where nothing can be said."""

    correlations: Vector
    errors: Vector
    p_values: Vector


def _tested(cells: _Cells, means: Vector, same: Mask) -> _Tested:
    """The item-rest correlations, and the p-values of the test that they are not negative."""
    from scipy import special  # here, to keep the import of asktell light

    rest = cells.rest()
    use = np.isfinite(rest)
    part = cells._replace(
        arms=cells.arms[use], examples=cells.examples[use], y=cells.y[use]
    )
    n = part.counts.astype(float)
    # Of examples of which nothing is known, which become NaN
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = part.standardized(rest[use]), part.standardized(part.y)
        unknown = (
            same | (n < _FEWEST) | (part.sums(x**2) == 0.0) | (part.sums(y**2) == 0.0)
        )
        r = np.where(unknown, np.nan, np.clip(part.sums(x * y) / n, -1.0, 1.0))
        errors = np.sqrt((1.0 - r**2) / (n - 2.0))
        by_t = special.stdtr(
            n - 2.0, r * np.sqrt((n - 2.0) / np.maximum(1.0 - r**2, _ROUNDING))
        )
        skew = part.sums(x**3) / n * part.sums(y**3) / n * np.sqrt(n - 1.0) / (n - 2.0)
        by_permutation = _type_three(r * np.sqrt(n - 1.0), skew)
    return _Tested(r, errors, np.maximum(by_t, by_permutation))


def _type_three(z: Vector, skew: Vector) -> Vector:
    """The probability of at most z by Pearson's distribution of type III with mean 0, variance 1 and that skewness."""
    from scipy import special  # here, to keep the import of asktell light

    is_normal = np.abs(skew) < _SYMMETRIC
    skew = np.where(is_normal, 1.0, skew)
    shape = 4.0 / skew**2
    # A gamma variable G of this shape, standardized, is (G - shape) * skew / 2,
    # mirrored if the skewness is negative.
    at = np.maximum(shape + 2.0 * z / skew, 0.0)
    by_gamma = np.where(
        skew > 0.0, special.gammainc(shape, at), special.gammaincc(shape, at)
    )
    return np.asarray(np.where(is_normal, special.ndtr(z), by_gamma))


def _discovered(p_values: Vector, fdr: float) -> Mask:
    """Which hypotheses are rejected at this false discovery rate; NaN is no p-value."""
    found = np.zeros(len(p_values), dtype=bool)
    candidates = np.flatnonzero(p_values <= _CONDITION)  # false for NaN
    ordered = candidates[np.argsort(p_values[candidates], kind="stable")]
    # At least as large as uniform numbers, of true hypotheses
    scaled = p_values[ordered] / _CONDITION
    n_true = (1 + int((scaled > _MOSTLY_TRUE).sum())) / (1.0 - _MOSTLY_TRUE)
    bars = np.minimum(fdr * np.arange(1, len(ordered) + 1) / n_true, _MOSTLY_TRUE)
    passing = np.flatnonzero(scaled <= bars)
    if len(passing):
        found[ordered[: passing[-1] + 1]] = True
    return found


# Near duplicates


def _near_duplicates(
    cells: _Cells, means: Vector, compared: Mask
) -> dict[int, list[int]]:
    """Example -> the examples whose scores agree with its own beyond chance, those that agree most first."""
    columns, n_arms = np.flatnonzero(compared), len(cells.abilities)
    if not 1 < len(columns) <= _MOST_COMPARED or n_arms * len(columns) > _MOST_CELLS:
        return {}
    found: dict[int, list[tuple[float, int]]] = {}
    for one, other, share in _pairs(
        cells, means, columns, _groups(cells.abilities, n_arms)
    ):
        found.setdefault(one, []).append((-share, other))
        found.setdefault(other, []).append((-share, one))
    return {
        example: [other for _, other in sorted(pairs)[:_MOST_NAMED]]
        for example, pairs in found.items()
    }


def _groups(abilities: Vector, n_arms: int) -> Indices:
    """(arms,) in which group of like ability each prompt is."""
    n_groups = min(_MOST_GROUPS, max(1, n_arms // _IN_A_GROUP))
    group = np.empty(n_arms, dtype=np.int64)
    group[np.argsort(abilities, kind="stable")] = np.arange(n_arms) * n_groups // n_arms
    return group


def _pairs(
    cells: _Cells, means: Vector, columns: Indices, group: Indices
) -> Iterator[tuple[int, int, float]]:
    """Pairs of near duplicates among the examples `columns`, and the share of prompts on which they agree."""
    from scipy import special  # here, to keep the import of asktell light

    high, low = _sides(cells, means, columns)
    is_high = _shares_high(high, low, group)
    is_low = 1.0 - is_high
    weights = (np.bincount(group) / len(group)).astype(np.float32)[:, None]
    bar = 2.0 * _ERROR / (len(columns) * (len(columns) - 1))
    for start in range(0, len(columns), _BLOCK):
        block, others = slice(start, start + _BLOCK), slice(start, None)
        agree = high[:, block].T @ high[:, others] + low[:, block].T @ low[:, others]
        both = (high + low)[:, block].T @ (high + low)[:, others]
        chance = (weights * is_high)[:, block].T @ is_high[:, others]
        chance += (weights * is_low)[:, block].T @ is_low[:, others]
        # That all of them agree is likelier than the bar in most pairs, which ends the
        # matter at little cost.
        rare = both * np.log(np.clip(chance, _ROUNDING, 1.0)) <= np.log(bar)
        i, j = np.nonzero(
            np.triu((agree >= _ALIKE * both) & (both >= _FEWEST) & rare, 1)
        )
        agreed, times, by_chance = (
            table[i, j].astype(float) for table in (agree, both, chance)
        )
        # At least so many agreements of independent prompts are at most as likely as
        # with the mean chance for each.
        p_values = special.betainc(
            agreed, times - agreed + 1.0, np.clip(by_chance, 0.0, 1.0)
        )
        for at in np.flatnonzero(p_values <= bar).tolist():
            yield (
                int(columns[start + i[at]]),
                int(columns[start + j[at]]),
                float(agreed[at] / times[at]),
            )


def _sides(cells: _Cells, means: Vector, columns: Indices) -> tuple[Matrix, Matrix]:
    """(arms, columns) each: 1 where a score is above the example's mean, and 1 where it is not; 0 without a score."""
    place = np.full(len(cells.ease), -1, dtype=np.int64)
    place[columns] = np.arange(len(columns))
    use = place[cells.examples] >= 0
    arms, at = cells.arms[use], place[cells.examples[use]]
    is_high = cells.y[use] > means[cells.examples[use]]
    high = np.zeros((len(cells.abilities), len(columns)), dtype=np.float32)
    low = np.zeros_like(high)
    high[arms, at], low[arms, at] = is_high, ~is_high
    return high, low  # type: ignore[return-value]  # float32 holds such counts exactly, in half the memory


def _shares_high(high: Matrix, low: Matrix, group: Indices) -> Matrix:
    """(groups, columns) share of high scores among the prompts of each group; of all prompts where none has a score."""
    members = (np.arange(group.max() + 1)[:, None] == group).astype(np.float32)
    n_high, n_low = members @ high, members @ low
    n = n_high + n_low
    of_all = n_high.sum(axis=0) / n.sum(axis=0)
    return np.asarray(np.where(n > 0, n_high / np.maximum(n, 1.0), of_all))
