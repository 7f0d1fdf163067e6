"""Whether a judge is right: its scores against the goal's own scores, such as people's, in the cells that have both.

A proxy of a goal, such as a judge, scores many cells, and people score some of them. Let
p be people's score of a cell and j the judge's.

- Bias: the mean of j - p, if both are on one scale. Cells on the same example are not
  independent, so the error is that of a mean of clusters, one per example (Liang & Zeger
  1986), with the degrees of freedom of the number of examples.
- Corrected means: the estimates of the posterior, which has the judge's scores as
  regressors (`asktell.posterior.proxies`). So the means need no common scale, and a
  prompt has one estimate wherever it is shown.
- Drift: p is regressed on j. A change is a step in the residuals, over the order in which
  the judge's scores were recorded, with prompts and examples as random effects
  (`asktell.posterior.drift`). The effects are estimated from products of residuals of
  the same prompt, and of the same example.
- Segments: the bias in a segment against the bias elsewhere, with the same errors, and an
  error of 5% divided among the segments (Bonferroni).

False alarms and coverage: `benchmarks.selection.judge_labels`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from asktell._util.terminal import safe
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int
from asktell.posterior.drift import clear_step
from asktell.posterior.of_state import stated
from asktell.record import State

FEWEST = 20  # cells with both scores, before anything is stated
_FEWEST_OF_SEGMENT = 8
# The variances of the effects are estimated. With 2.5%, a judge that did not change counts
# as changed in about 4 of 100 runs (`benchmarks.selection.judge_labels`).
_STEP_ERROR, _SEGMENT_ERROR = 0.025, 0.05
_CONFIDENCE = 0.95
_MOST_POINTS = 500  # of a picture
_MOST_GRADES = 11  # distinct scores of people, up to which agreement is a share
# Scores of one judge on one response may differ: this part of the residual's variance
_NOISE = 0.5
# Least variance of an effect, as a part of the residual's
_LEAST_EFFECT = 1e-3


@final
@dataclass(frozen=True)
class Change:
    """A change of a judge: after which part of its scores, and its bias before and after."""

    after: float
    before_change: float
    after_change: float


@final
@dataclass(frozen=True)
class SegmentBias:
    """A judge's bias in one segment.

    Attributes:
        segment: the segment.
        bias: the judge's bias in it.
        error: the standard error of the bias.
        cells: number of cells with both scores.
        differs: whether the bias differs from that elsewhere by more than chance.
    """

    segment: str
    bias: float
    error: float
    cells: int
    differs: bool


@final
@dataclass(frozen=True)
class JudgedPrompt:
    """What the judge has scored of one prompt. The prompt's corrected mean is its estimate in the result.

    Attributes:
        arm: the prompt.
        judged: number of cells that the judge scored.
        labeled: number of them that have the goal's own score, too.
        judge_alone: the mean of the judge's scores.
    """

    arm: int
    judged: int
    labeled: int
    judge_alone: float


@final
@dataclass(frozen=True)
class Agreement:
    """How far a proxy agrees with a metric of the goal.

    Attributes:
        proxy: the proxy, such as a judge.
        metric: the metric.
        judged: number of cells with a score of the proxy.
        cells: number of cells with both scores. The following are None or empty if
            these are too few.
        correlation: the correlation of the two scores. None if one does not vary.
        agreed: share of the cells in which the given label is, of all labels that
            occur, closest to the proxy's score. None if the scales differ, or if
            there are too many labels.
        bias: mean difference of the proxy's score and the metric's. None if the scales
            differ.
        interval: 95% interval of the bias.
        corrected: the estimated mean of the metric for the prompts with scores of the
            proxy, each weighted by the number of these.
        corrected_error: its standard error.
        judge_alone: the mean of the proxy's scores.
        is_checked: whether it was possible to look for a change.
        change: the change of the proxy over time. None if there is no sign of one.
        segments: the bias in each segment.
        prompts: what the proxy has scored of each prompt.
        points: (score of the proxy, score of the metric, number of cells) for each pair of
            scores that occurs, at most 500.
        sentence: the finding in words. Empty from `agreement`.
    """

    proxy: str
    metric: str
    judged: int
    cells: int
    correlation: float | None = None
    agreed: float | None = None
    bias: float | None = None
    interval: tuple[float, float] | None = None
    corrected: float | None = None
    corrected_error: float | None = None
    judge_alone: float | None = None
    is_checked: bool = False
    change: Change | None = None
    segments: tuple[SegmentBias, ...] = ()
    prompts: tuple[JudgedPrompt, ...] = ()
    points: tuple[tuple[float, float, int], ...] = ()
    sentence: str = ""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Cells with a score of a proxy, in the order of their recording, each with the mean score of people."""

    arms: Int[Ints, " rows"]
    examples: Int[Ints, " rows"]
    judge: Float[Floats, " rows"]
    people: Float[Floats, " rows"]  # NaN where people gave none

    @property
    def both(self) -> Bool[np.ndarray, " rows"]:
        """Whether people scored the cell of a row."""
        return ~np.isnan(self.people)

    def of(self, rows: Bool[np.ndarray, " rows"]) -> "Pairs":
        """Some of the rows."""
        return Pairs(
            self.arms[rows], self.examples[rows], self.judge[rows], self.people[rows]
        )


def agreements(state: State) -> tuple[Agreement, ...]:
    """How far each proxy agrees with the goal's first objective, for proxies that have scores."""
    goal, of_proxies = state.problem.goal, []
    metric = goal.objectives[0].metric
    limits, segments = goal.limits(metric), state.problem.examples.labels
    for k, proxy in enumerate(state.problem.proxies):
        pairs = _pairs(state, k)
        if len(pairs.judge):
            of_proxy = agreement(proxy, metric, pairs, limits, segments)
            of_proxy = _with_mean(of_proxy, state)
            words = in_words(of_proxy, metric in goal.minimized)
            of_proxies.append(replace(of_proxy, sentence=words))
    return tuple(of_proxies)


def _with_mean(agreement: Agreement, state: State) -> Agreement:
    """The same with the corrected mean, if the scores are enough to compare the proxy."""
    statement = stated(state)
    if not agreement.is_checked or statement is None:
        return agreement
    arms = [entry.arm for entry in agreement.prompts]
    weights = np.array([entry.judged for entry in agreement.prompts], dtype=np.float64)
    weights /= weights.sum()
    column = list(state.problem.goal.columns).index(agreement.metric)
    return replace(
        agreement,
        corrected=float(statement.means[arms, column] @ weights),
        corrected_error=float((statement.columns[column][:, arms] @ weights).std()),
    )


def agreement(
    proxy: str,
    metric: str,
    pairs: Pairs,
    limits: tuple[float, float] | None,
    segments: Sequence[str] | None,
) -> Agreement:
    """How far a proxy agrees with a metric, without the corrected mean.

    Args:
        proxy: the name of the proxy.
        metric: the name of the metric.
        pairs: the scores.
        limits: the range of the metric, if it is known.
        segments: the segment of each example, if there are some.
    """
    common = pairs.of(pairs.both)
    cells = np.unique(np.stack((common.arms, common.examples)), axis=1)
    n_cells = cells.shape[1] if cells.size else 0
    n_judged = np.unique(np.stack((pairs.arms, pairs.examples)), axis=1).shape[1]
    if n_cells < FEWEST or len(np.unique(common.examples)) < 3:
        return Agreement(proxy, metric, n_judged, n_cells)
    varies = np.ptp(common.judge) > 0.0 and np.ptp(common.people) > 0.0
    is_same_scale = _is_same_scale(pairs, limits)
    bias, interval, agreed = None, None, None
    if is_same_scale:
        difference = common.judge - common.people
        bias, error = float(difference.mean()), _clustered(difference, common.examples)
        reach = _t(len(np.unique(common.examples)) - 1) * error
        interval = bias - reach, bias + reach
        agreed = _share_agreed(common)
    return Agreement(
        proxy,
        metric,
        n_judged,
        n_cells,
        float(np.corrcoef(common.judge, common.people)[0, 1]) if varies else None,
        agreed,
        bias,
        interval,
        judge_alone=float(pairs.judge.mean()),
        is_checked=True,
        change=_change(common, is_same_scale),
        segments=_segments(common, segments) if is_same_scale and segments else (),
        prompts=_by_prompt(pairs),
        points=_points(common),
    )


def in_words(found: Agreement, less_is_better: bool = False) -> str:
    """The finding about one proxy, in words. `less_is_better`: whether the metric is minimized."""
    proxy, metric = f'"{safe(found.proxy)}"', f'"{safe(found.metric)}"'
    if not found.is_checked:
        return (
            f"{found.cells} responses have scores of both {proxy} and {metric}, too few to compare them. At least "
            f"{FEWEST} are needed."
        )
    parts = [*_of_bias(found, proxy, metric, less_is_better)]
    if found.agreed is not None:
        parts.append(
            f"{proxy} agrees with {metric} on {found.agreed:.0%} of the {found.cells} responses that have both scores"
        )
    elif found.correlation is not None:
        parts.append(
            f"On {found.cells} responses, {proxy} and {metric} have a correlation of {found.correlation:.2f}"
        )
    else:
        parts.append(
            f"On the {found.cells} responses that have both scores, {proxy} or {metric} does not vary"
        )
    if found.corrected is not None and found.corrected_error is not None:
        parts.append(
            f"Over {found.judged:,} responses, the mean of {proxy} is {found.judge_alone:.2g}. Corrected with the "
            f"responses that have both scores, the mean of {metric} for these prompts is {found.corrected:.2g} ± "
            f"{found.corrected_error:.1g}"
        )
    parts += _of_time_and_segments(found, proxy)
    return ". ".join(parts) + "."


def _of_bias(
    found: Agreement, proxy: str, metric: str, less_is_better: bool
) -> Iterator[str]:
    """The sentence about the bias, if both scores have one scale."""
    if found.bias is None or found.interval is None:
        return
    low, high = found.interval
    span = f"95% interval {low:+.2g} to {high:+.2g}"
    if low <= 0 <= high:
        yield f"No bias of {proxy} relative to {metric} was found, because its {span} includes 0"
        return
    way = "higher" if found.bias > 0 else "lower"
    too = ("high", "low") if less_is_better else ("generous", "strict")
    yield (
        f"{proxy} scores {abs(found.bias):.2g} {way} than {metric} on average ({span}), so it is too "
        f"{too[found.bias < 0]}"
    )


def _of_time_and_segments(found: Agreement, proxy: str) -> list[str]:
    """Sentences about a change of the judge, and about segments that it treats differently."""
    parts = []
    if found.change is not None:
        change = found.change
        of_what = f"The bias of {proxy}"
        if found.bias is None:  # Without a common scale
            of_what = f"The difference of {proxy} from its expected score"
        parts.append(
            f"{of_what} went from {change.before_change:+.2g} to {change.after_change:+.2g} after about "
            f"{change.after:.0%} of its scores. Its model or its rubric may have been replaced"
        )
    different = [segment for segment in found.segments if segment.differs]
    if different:
        listed = ", ".join(f'"{safe(e.segment)}" {e.bias:+.2g}' for e in different[:3])
        parts.append(f"{proxy} has another bias in these segments: {listed}")
    return parts


def _pairs(state: State, proxy: int) -> Pairs:
    """The scores of one proxy, with those of the goal's first objective."""
    problem, history, proxies = state.problem, state.history, state.proxies
    n = problem.examples.n or 0
    column = list(problem.goal.columns).index(problem.goal.objectives[0].metric)
    examples = history.examples()
    has = examples >= 0
    cells = history.arms()[has] * n + examples[has]
    arms, on, judge = proxies.of_cells(proxy)
    size = int(max(cells.max(initial=-1), (arms * n + on).max(initial=-1))) + 1
    sums = np.bincount(cells, history.scores()[has, column], size)
    counts = np.bincount(cells, minlength=size)
    with np.errstate(invalid="ignore"):
        people = (sums / counts)[arms * n + on]
    return Pairs(arms, on, judge, people)


def _points(common: Pairs) -> tuple[tuple[float, float, int], ...]:
    """The pairs of scores, and in how many cells each occurs. The most frequent ones, if there are too many."""
    both = np.column_stack((common.judge, common.people))
    distinct, counts = np.unique(both, axis=0, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:_MOST_POINTS]
    return tuple((*distinct[i].tolist(), int(counts[i])) for i in np.sort(most))


def _is_same_scale(pairs: Pairs, limits: tuple[float, float] | None) -> bool:
    """Whether the judge's scores lie in the range of people's."""
    people = pairs.people[pairs.both]
    low, high = limits or (float(people.min()), float(people.max()))
    return bool(low <= pairs.judge.min() and pairs.judge.max() <= high)


def _share_agreed(common: Pairs) -> float | None:
    """The share of rows in which the judge's score is closest to the label that people gave."""
    labels = np.unique(common.people)
    if not 2 <= len(labels) <= _MOST_GRADES:
        return None
    closest = labels[np.abs(common.judge[:, None] - labels).argmin(axis=1)]
    return float((closest == common.people).mean())


def _clustered(values: Float[Floats, " rows"], clusters: Int[Ints, " rows"]) -> float:
    """The standard error of the mean of values. Values of the same cluster may depend on each other."""
    number = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    sums = np.bincount(number, values - values.mean())
    m = len(sums)
    return float(np.sqrt(m / (m - 1) * (sums @ sums)) / len(values))


def _t(freedom: int, error: float = 1 - _CONFIDENCE) -> float:
    """The quantile of Student's distribution that leaves `error` outside of plus and minus it."""
    from scipy.special import stdtrit  # here, to keep the import of asktell light

    return float(stdtrit(max(1, freedom), 1 - error / 2))


def _segments(common: Pairs, segments: Sequence[str]) -> tuple[SegmentBias, ...]:
    """The bias in each segment with enough cells."""
    labels = np.array(segments, dtype=object)[common.examples]
    difference = common.judge - common.people
    names = sorted(set(labels.tolist()))
    enough = [name for name in names if (labels == name).sum() >= _FEWEST_OF_SEGMENT]
    biases = []
    for name in enough:
        inside = labels == name
        examples = [np.unique(common.examples[part]) for part in (inside, ~inside)]
        if min(map(len, examples)) < 3:
            continue
        errors = [
            _clustered(difference[part], common.examples[part])
            for part in (inside, ~inside)
        ]
        bias = float(difference[inside].mean())
        gap = bias - float(difference[~inside].mean())
        freedom = min(map(len, examples)) - 1
        bound = _t(freedom, _SEGMENT_ERROR / len(enough)) * math.hypot(*errors)
        biases.append(
            SegmentBias(
                name, bias, errors[0], int(inside.sum()), bool(abs(gap) > bound)
            )
        )
    return tuple(biases)


def _by_prompt(pairs: Pairs) -> tuple[JudgedPrompt, ...]:
    """What the judge has scored of each prompt."""
    entries = []
    for arm in np.unique(pairs.arms).tolist():
        rows = pairs.arms == arm
        n_labeled = int((rows & pairs.both).sum())
        judge_alone = float(pairs.judge[rows].mean())
        entries.append(JudgedPrompt(arm, int(rows.sum()), n_labeled, judge_alone))
    return tuple(entries)


def _change(common: Pairs, is_same_scale: bool) -> Change | None:
    """The likeliest step over time, if it is beyond chance. Its sides are biases, or residuals if scales differ."""
    judge, people = common.judge, common.people
    # The residuals of the regression of people's scores on the judge's
    off = judge - judge.mean()
    slope = float(off @ people) / float(off @ off) if off @ off > 0 else 0.0
    start = float(people.mean()) - slope * float(judge.mean())
    rest = people - (start + slope * judge)
    variances = _effects(common, rest)
    if variances[2] <= 0.0 or not float(rest.std()):
        return None
    step = clear_step(
        common.arms, common.examples, rest, variances, _NOISE, _STEP_ERROR
    )
    if step is None:
        return None
    shown = judge - people if is_same_scale else -rest
    late = np.arange(len(rest)) >= np.ceil(step.after * len(rest))
    return Change(step.after, float(shown[~late].mean()), float(shown[late].mean()))


def _effects(common: Pairs, rest: Float[Floats, " rows"]) -> tuple[float, float, float]:
    """The variances of prompts, examples and what remains, by the mean product of two residuals that share one."""
    off = rest - rest.mean()
    total = float(off @ off) / max(1, len(off) - 1)
    variances = []
    for members in (common.arms, common.examples):
        number = np.unique(members, return_inverse=True)[1].reshape(-1)
        sums, counts = np.bincount(number, off), np.bincount(number)
        pairs = float((counts * (counts - 1)).sum())
        products = float((sums**2).sum() - off @ off)
        k = len(counts)
        # The mean was subtracted, with which part of the effects went
        lost = k / (k - 1) if k > 1 else 0.0
        variances.append(max(0.0, lost * products / pairs) if pairs else 0.0)
    scale = min(1.0, 0.95 * total / sum(variances)) if sum(variances) else 1.0
    prompt, example = (scale * variance for variance in variances)
    residual = max(total - prompt - example, 0.0)
    least = _LEAST_EFFECT * residual
    return max(prompt, least), max(example, least), residual
