"""Item analysis: how hard each example is, whether it separates good prompts from bad ones, and which look wrong.

The methods are those of classical test theory (Lord & Novick 1968, Statistical Theories
of Mental Test Scores, chapters 14 and 15). An example is an item of a test, and a
prompt takes the test. Scores are oriented so that more is better. A prompt's ability is
its mean score less the effects of its examples, by least squares. An example is always
judged by abilities that leave out its own scores.

- Discrimination is the item-rest correlation, which is the correlation of an example's
  scores with the abilities on all other examples.
- An example is likely mislabeled if better prompts score worse on it. With a correct
  label, its negative discrimination would be positive. The null hypothesis is that its
  scores are unrelated to the abilities. The p-value is the larger of two p-values. One
  is by Student's t of the correlation, and the other is by the permutation
  distribution, approximated by a Pearson type III distribution of the same variance and
  skewness (Mielke & Berry 2007, Permutation Methods, chapter 2). The t-test rejects too
  often if few bad prompts stand apart, and the permutation test if a sum of few scores
  is bounded.
- Most examples discriminate well, so most p-values are near 1. The procedure of
  Benjamini & Hochberg (1995) is applied to the p-values up to 1/2 only, doubled, with
  Storey's estimate (2002) of the number of true hypotheses among them. This also
  controls the false discovery rate, and finds more (Zhao, Small & Su 2019; Storey,
  Taylor & Siegmund 2004).
- No example is called mislabeled if the table cannot separate good prompts from bad
  ones. This is the case if the reliability of the abilities (Hoyt 1941, equal to
  Cronbach's alpha and KR-20) is below 0.7, the value that Nunnally (1978) requires of a
  test.
- Near duplicates agree too often. Two scores of a prompt agree if both are above the
  means of their examples, or neither is. By chance, two examples agree as if their
  scores were independent among prompts of similar ability (Cohen 1960, in groups of
  prompts). A pair is a near duplicate if at least 95% of its scores agree, and if so
  many agreements occur by chance in less than 5% of the tables in any pair of examples,
  by the binomial bound (Hoeffding 1956) and Bonferroni's correction.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from asktell._util.threads import undisturbed
from asktell.errors import InvalidArgumentError
from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.cells import Cells
from asktell.numerics.shapes import Bool, Float, Int
from asktell.problem.checks import check_number
from asktell.problem.problem import Problem
from asktell.problem.words import nearest
from asktell.record import State
from asktell.results.flips import at_rate

_FEWEST = 5  # prompts from which a correlation or an agreement is informative
_RELIABLE = 0.7  # Nunnally 1978, Psychometric Theory
_CONDITION = 0.5  # larger p-values are left out of the procedure
# Hypotheses with larger p-values, among the others, count as true in Storey's estimate
_MOSTLY_TRUE = 0.5
_ALIKE = 0.95  # least share of prompts on which two near duplicates agree
_ERROR = 0.05  # probability that any pair is called near duplicates by chance
# Groups of prompts of similar ability, and prompts in a group. More groups explain more
# of the agreements, but need more prompts.
_MOST_GROUPS, _IN_A_GROUP = 20, 5
# Examples whose pairs are compared. The number of pairs grows with the square.
_MOST_COMPARED = 20_000
_MOST_CELLS = 100_000_000  # of a table of prompts by examples, in memory
_BLOCK = 1_000  # examples that are compared with others at a time
_MOST_NAMED = 10  # near duplicates of one example
# The fit ends after so many steps, or when no ability changes by more than this share of
# the scores' spread
_STEPS, _CLOSE = 50, 1e-10
_ROUNDING = 1e-12  # relative to the size of the scores
_SYMMETRIC = 1e-3  # skewness up to which the normal distribution is as good


@dataclass(frozen=True)
class ExampleResult:
    """The item analysis of one example, for one metric. See `Result.examples`.

        >>> import asktell
        >>> scores = [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 0, 1]]
        >>> found = asktell.analyze(scores, asktell.BestFeasible("accuracy")).examples()
        >>> [round(each.mean, 1) for each in found]
        [1.0, 0.8, 0.4, 0.2]
        >>> [round(each.difficulty, 1) for each in found]
        [-0.4, -0.2, 0.2, 0.4]

    Attributes:
        id: the id of the example, or its position if the examples have no ids.
        prompts: the number of prompts with a score on the example. Failures do not
            count.
        mean: the mean of these scores, in the metric's units. None without scores.
        loss: how far the mean is from the best possible score, 0 or more. For scores of
            0 and 1, this is the share of wrong responses. The best possible score is
            the better end of the metric's range. Without a declared range, it is the
            better of 0 and 1 if all scores are 0 or 1, and otherwise the best recorded
            score. None without scores.
        difficulty: how much worse prompts score on this example than on the average
            example, in the metric's units. 0 for an average example, above 0 for a hard
            example. It takes into account whether good or bad prompts were evaluated on
            the example. None without scores.
        discrimination: how well the example distinguishes good prompts from bad
            prompts, from -1 to 1. This is the correlation of the scores with the
            prompts' quality on all other examples. None if fewer than five prompts have
            a score, or if all scores are equal.
        standard_error: the standard error of `discrimination`. None if that is None.
        separates_nobody: True if at least two prompts have a score, and all have the
            same score.
        p_value: the probability that chance alone lets better prompts score so badly on
            this example, or worse. A small value means that the label may be wrong.
            None if `discrimination` is None.
        likely_mislabeled: True if better prompts score worse on the example, by more
            than chance explains. `fdr` of `Result.examples` decides how much that is.
            Check the label, the reference and the metric. Always False if the scores
            cannot tell good prompts from bad prompts.
        near_duplicates: the ids of at most ten other examples that are very similar:
            nearly the same prompts do well on both, by more than chance explains. The
            most similar come first.
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
    likely_mislabeled: bool
    near_duplicates: tuple[str | int, ...]

    def to_dict(self) -> dict[str, Any]:
        """The entry as a mapping that JSON can represent. Its keys are the names of the attributes."""
        return {**asdict(self), "near_duplicates": list(self.near_duplicates)}


@undisturbed
def example_results(
    state: State, metric: str | None = None, fdr: float = 0.1
) -> list[ExampleResult]:
    """The item analysis of each example, in their order.

    Args:
        state: the state whose scores are analyzed.
        metric: the metric, by default the first objective.
        fdr: the false discovery rate of likely mislabeled examples.

    Raises:
        InvalidArgumentError: the metric is unknown, the rate is not between 0 and 1, or
            the evaluations have no examples.
    """
    problem = state.problem
    goal = problem.goal
    metric = goal.objectives[0].metric if metric is None else metric
    if metric not in goal.columns:
        raise InvalidArgumentError(
            f"examples() got the unknown metric {metric!r}{nearest(metric, goal.columns)}. The metrics are "
            f"{list(goal.columns)}."
        )
    fdr = check_number("fdr", fdr, 0.0, 1.0, above=True)
    if problem.examples.n is None:
        raise InvalidArgumentError(
            "examples() needs scores by example, but this selection was made without examples. Create the "
            "selector with examples=..., the number of the examples or a list of their ids."
        )
    cells = _Cells.of(
        state, goal.columns.index(metric), -1.0 if metric in goal.minimized else 1.0
    )
    return _described(cells, problem, _best(cells, problem, metric), fdr)


class _Cells(NamedTuple):
    """Cells with a score, and the additive fit to them: y = ability of the prompt + ease of the example + residual.

    Arms are numbered from 0 among the prompts that have a score.
    """

    arms: Int[Ints, " cells"]
    examples: Int[Ints, " cells"]
    y: Float[Floats, " cells"]  # more is better
    sign: float  # y is the score times this sign
    abilities: Float[Floats, " arms"]  # with a mean of 0
    ease: Float[Floats, " examples"]  # NaN without a score

    @classmethod
    def of(cls, state: State, column: int, sign: float) -> "_Cells":
        history, n_examples = state.history, state.problem.examples.n or 0
        is_named = history.examples() >= 0
        scores = history.scores()[is_named, column : column + 1]
        distinct = Cells.of(
            history.arms()[is_named], history.examples()[is_named], scores, n_examples
        )
        _, arms = np.unique(distinct.arms, return_inverse=True)
        y = sign * distinct.scores[:, 0]
        return cls(
            arms,
            distinct.examples,
            y,
            sign,
            *_additive(arms, distinct.examples, y, n_examples),
        )

    def sums(self, values: Float[Floats, " cells"]) -> Float[Floats, " examples"]:
        """Sums over the cells of each example."""
        return np.asarray(
            np.bincount(self.examples, values, len(self.ease)), dtype=np.float64
        )

    def standardized(self, values: Float[Floats, " cells"]) -> Float[Floats, " cells"]:
        """Values less the mean of their example, in units of its standard deviation. 0 if the deviation is 0."""
        off = values - (self.sums(values) / self.counts)[self.examples]
        deviations = np.sqrt(self.sums(off**2) / self.counts)
        none = deviations <= _ROUNDING * np.abs(values).max(initial=0.0)
        return np.asarray(
            np.where(none[self.examples], 0.0, off / deviations[self.examples])
        )

    @property
    def counts(self) -> Int[Ints, " examples"]:
        """The number of prompts with a score on each example."""
        return np.bincount(self.examples, minlength=len(self.ease))

    def rest(self) -> Float[Floats, " cells"]:
        """The ability of each cell's prompt on all other examples. NaN if it has no score on another example."""
        n_cells = np.bincount(self.arms, minlength=len(self.abilities))[self.arms]
        above = self.y - self.ease[self.examples]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(
                (n_cells * self.abilities[self.arms] - above) / (n_cells - 1.0)
            )

    def reliability(self) -> float:
        """The share of the abilities' variance that is not an effect of chance. 0 with too few cells."""
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
    arms: Int[Ints, " cells"],
    examples: Int[Ints, " cells"],
    y: Float[Floats, " cells"],
    n_examples: int,
) -> tuple[Float[Floats, " arms"], Float[Floats, " examples"]]:
    """Abilities with a mean of 0, and the ease of the examples.

    Alternating least squares: each side is the mean of the scores less the other side.
    If no cell is missing, the first step is exact.
    """
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
        means = np.bincount(arms, y - ease[examples], n_arms) / per_arm
        means -= means.mean()
        change = float(np.abs(means - abilities).max())
        abilities = means
        if change <= tolerance:
            break
    return abilities, ease


def _best(cells: _Cells, problem: Problem, metric: str) -> float:
    """The best possible score, oriented as `y`: the end of the metric's range, or else the best recorded score."""
    limits = problem.goal.ranges.get(metric)
    y = cells.y
    if limits is None and bool(np.isin(y, (0.0, cells.sign)).all()):
        limits = 0.0, 1.0
    if limits is None:
        return float(y.max(initial=-np.inf))
    return max(cells.sign * limits[0], cells.sign * limits[1])


def _described(
    cells: _Cells, problem: Problem, best: float, fdr: float
) -> list[ExampleResult]:
    """The entries of all examples."""
    n_examples = len(cells.ease)
    counts = cells.counts
    with np.errstate(invalid="ignore", divide="ignore"):
        means = cells.sums(cells.y) / counts
    same = _same(cells) & (counts > 0)
    tested = _tested(cells, same)
    mislabeled = np.zeros(n_examples, dtype=bool)
    if cells.reliability() >= _RELIABLE:
        mislabeled[at_rate(_rates(tested.p_values), fdr)] = True
    alike = _near_duplicates(cells, means, ~same & (counts >= _FEWEST))
    average = np.nanmean(cells.ease) if len(cells.y) else np.nan
    ids = problem.examples.ids or range(n_examples)
    columns = (
        ids, counts.tolist(), _known(cells.sign * means), _known(best - means), _known(average - cells.ease),
        _known(tested.correlations), _known(tested.errors), (same & (counts > 1)).tolist(), _known(tested.p_values),
        mislabeled.tolist(), (tuple(ids[other] for other in alike.get(e, ())) for e in range(n_examples)),
    )  # fmt: skip
    return [ExampleResult(*row) for row in zip(*columns, strict=True)]


def _known(numbers: Float[Floats, " examples"]) -> list[float | None]:
    """The numbers as a list, with None for NaN. Adding 0 turns -0.0 into 0.0."""
    return [None if number != number else number + 0.0 for number in numbers.tolist()]


def _same(cells: _Cells) -> Bool[Bools, " examples"]:
    """True for examples on which all scores are equal."""
    low, high = np.full(len(cells.ease), np.inf), np.full(len(cells.ease), -np.inf)
    np.minimum.at(low, cells.examples, cells.y)
    np.maximum.at(high, cells.examples, cells.y)
    return np.asarray(high <= low)


# Discrimination


class _Tested(NamedTuple):
    """The item-rest correlations with their errors and p-values. NaN with too few scores."""

    correlations: Float[Floats, " examples"]
    errors: Float[Floats, " examples"]
    p_values: Float[Floats, " examples"]


def _tested(
    cells: _Cells,
    same: Bool[Bools, " examples"],
) -> _Tested:
    """The item-rest correlations, and the p-values of the test that they are not negative."""
    from scipy import special  # here, to keep the import of asktell light

    rest = cells.rest()
    use = np.isfinite(rest)
    part = cells._replace(
        arms=cells.arms[use], examples=cells.examples[use], y=cells.y[use]
    )
    n = part.counts.astype(float)
    # Unknown examples become NaN, with warnings on the way
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


def _type_three(
    z: Float[Floats, " examples"], skew: Float[Floats, " examples"]
) -> Float[Floats, " examples"]:
    """The probability of at most z in Pearson's type III distribution with mean 0, variance 1 and this skewness."""
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


def _rates(p_values: Float[Floats, " examples"]) -> Float[Floats, " examples"]:
    """For each example, the false discovery rate of the list of examples whose p-values are at most as large."""
    # An example without a p-value is on no list.
    rates = np.full(len(p_values), np.nan)
    candidates = np.flatnonzero(p_values <= _CONDITION)  # false for NaN
    ordered = candidates[np.argsort(p_values[candidates], kind="stable")]
    # Given that it is at most 1/2, twice the p-value of a true hypothesis is at least as
    # large as a uniform number
    scaled = p_values[ordered] / _CONDITION
    n_true = (1 + int((scaled > _MOSTLY_TRUE).sum())) / (1.0 - _MOSTLY_TRUE)
    by_size = scaled * n_true / np.arange(1, len(ordered) + 1)
    by_size[scaled > _MOSTLY_TRUE] = np.inf
    # A longer list may have a smaller rate.
    rates[ordered] = np.minimum.accumulate(by_size[::-1])[::-1]
    return rates


# Near duplicates


def _near_duplicates(
    cells: _Cells,
    means: Float[Floats, " examples"],
    compared: Bool[Bools, " examples"],
) -> dict[int, list[int]]:
    """Example -> the examples whose scores agree with its scores beyond chance, the most similar first."""
    columns, n_arms = np.flatnonzero(compared), len(cells.abilities)
    if not 1 < len(columns) <= _MOST_COMPARED or n_arms * len(columns) > _MOST_CELLS:
        return {}
    similar: dict[int, list[tuple[float, int]]] = {}
    for first, second, share in _pairs(
        cells, means, columns, _groups(cells.abilities, n_arms)
    ):
        similar.setdefault(first, []).append((-share, second))
        similar.setdefault(second, []).append((-share, first))
    return {
        example: [second for _, second in sorted(pairs)[:_MOST_NAMED]]
        for example, pairs in similar.items()
    }


def _groups(abilities: Float[Floats, " arms"], n_arms: int) -> Int[Ints, " arms"]:
    """The group of similar ability of each prompt."""
    n_groups = min(_MOST_GROUPS, max(1, n_arms // _IN_A_GROUP))
    group = np.empty(n_arms, dtype=np.int64)
    group[np.argsort(abilities, kind="stable")] = np.arange(n_arms) * n_groups // n_arms
    return group


def _pairs(
    cells: _Cells,
    means: Float[Floats, " examples"],
    columns: Int[Ints, " columns"],
    group: Int[Ints, " arms"],
) -> Iterator[tuple[int, int, float]]:
    """Pairs of near duplicates among the examples `columns`, and the share of prompts on which they agree."""
    from scipy import special  # here, to keep the import of asktell light

    high, low = _sides(cells, means, columns)
    is_high = _shares_high(high, low, group)
    is_low = 1.0 - is_high
    weights = (np.bincount(group) / len(group)).astype(np.float32)[:, None]
    bar = 2.0 * _ERROR / (len(columns) * (len(columns) - 1))
    for start in range(0, len(columns), _BLOCK):
        block, rest = slice(start, start + _BLOCK), slice(start, None)
        agree = high[:, block].T @ high[:, rest] + low[:, block].T @ low[:, rest]
        both = (high + low)[:, block].T @ (high + low)[:, rest]
        chance = (weights * is_high)[:, block].T @ is_high[:, rest]
        chance += (weights * is_low)[:, block].T @ is_low[:, rest]
        # In most pairs, full agreement by chance is likelier than the bar. This excludes
        # them at little cost.
        rare = both * np.log(np.clip(chance, _ROUNDING, 1.0)) <= np.log(bar)
        i, j = np.nonzero(
            np.triu((agree >= _ALIKE * both) & (both >= _FEWEST) & rare, 1)
        )
        agreed, times, by_chance = (
            table[i, j].astype(float) for table in (agree, both, chance)
        )
        # Prompts agree independently, each with its own probability. The binomial tail
        # with their mean probability is an upper bound (Hoeffding 1956).
        p_values = special.betainc(
            agreed, times - agreed + 1.0, np.clip(by_chance, 0.0, 1.0)
        )
        for at in np.flatnonzero(p_values <= bar).tolist():
            yield (
                int(columns[start + i[at]]),
                int(columns[start + j[at]]),
                float(agreed[at] / times[at]),
            )


def _sides(
    cells: _Cells, means: Float[Floats, " examples"], columns: Int[Ints, " columns"]
) -> tuple[Float[Floats, "arms columns"], Float[Floats, "arms columns"]]:
    """1 for scores above the mean of their example, and 1 for other scores. 0 without a score."""
    place = np.full(len(cells.ease), -1, dtype=np.int64)
    place[columns] = np.arange(len(columns))
    use = place[cells.examples] >= 0
    arms, at = cells.arms[use], place[cells.examples[use]]
    is_high = cells.y[use] > means[cells.examples[use]]
    high = np.zeros((len(cells.abilities), len(columns)), dtype=np.float32)
    low = np.zeros_like(high)
    high[arms, at], low[arms, at] = is_high, ~is_high
    return high, low  # type: ignore[return-value]  # float32 holds such counts exactly, in half the memory


def _shares_high(
    high: Float[Floats, "arms columns"],
    low: Float[Floats, "arms columns"],
    group: Int[Ints, " arms"],
) -> Float[Floats, "groups columns"]:
    """The share of high scores in each group, or among all prompts if the group has no score."""
    members = (np.arange(group.max() + 1)[:, None] == group).astype(np.float32)
    n_high, n_low = members @ high, members @ low
    n = n_high + n_low
    of_all = n_high.sum(axis=0) / n.sum(axis=0)
    return np.asarray(np.where(n > 0, n_high / np.maximum(n, 1.0), of_all))
