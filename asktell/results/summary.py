"""From a state to a result."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from asktell._util.terminal import safe
from asktell._util.threads import one_thread
from asktell.estimators import LeastSquares
from asktell.methods import Adaptive, Elimination, Method, Race
from asktell.methods.belief import stated
from asktell.numerics import counters
from asktell.numerics.arrays import Draws, Features, Means
from asktell.numerics.tally import Tally
from asktell.posterior.basis import levels_of
from asktell.posterior.statement import Statement
from asktell.posterior.two_way import agrees_by_chance, chance_of_another
from asktell.problem.candidates import AnyPrompt, Prompts
from asktell.problem.features import lost_directions, rank, with_intercept
from asktell.problem.goals import BestFeasible, Goal, ParetoSet
from asktell.results.comparison import Comparison, Pairs, compare_two, differ, of_repeats, premises
from asktell.results.convergence import settling
from asktell.results.entries import PromptResult, grouped
from asktell.results.result import Levels, Result
from asktell.results.verdict import Chances, chances, judge
from asktell.state import ACCEPTED, ACTIVE, FAILED, REJECTED, RETIRED, Problem, State
from asktell.state.history import History, repeated

PRIOR_FREEDOM = 4  # observations that the variance of all prompts is worth against a prompt's own
_PRIOR_COUNT = 4.0  # of 0 and 1: scores that the share of all prompts is worth (as of Agresti & Coull 1998)
_Z = 1.96
_LEAST_FREEDOM = 2  # fewer would make errors of anything


def limits_of(state: State) -> list[tuple[float, float] | None]:
    """The limits of every metric's scores: those of its range, else 0 and 1 if all are one of these, else None."""
    scores, goal = state.history.scores(), state.problem.goal
    binary = [bool(len(column)) and bool(np.isin(column, (0.0, 1.0)).all()) for column in scores.T]
    return [goal.limits(name) or ((0.0, 1.0) if is_ else None) for name, is_ in zip(goal.columns, binary, strict=True)]


def sample_errors(state: State, tally: Tally) -> Means:
    """(K, m) errors of the means over the examples given; NaN where nothing supports one.

    They are 0 once all were seen, unless scores are noisy: what is noise of a cell's mean stays.

    A prompt's variance is shrunk to that of all, as if four more scores had it, and widened as Student's distribution
    is, with the freedom of the examples that were seen: prompts share them. Scores of 0 and 1 have the variance of
    their share, shrunk to that of all prompts, which has one success and one failure more than on the examples seen.
    Where every score is the same, on the next example it may differ.
    """
    population, scores = state.problem.population, state.history.scores()
    n = tally.counts[:, None].astype(float)
    left = alike = np.broadcast_to(tally.left(population), tally.sums.shape)
    n_seen = len(scores) if population is None else len(np.unique(state.history.examples()))
    freedom = min(n_seen - 1, int(np.maximum(tally.counts - 1, 0).sum()))
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = (tally.deviations + PRIOR_FREEDOM * tally.pooled_variance) / (np.maximum(n - 1, 0) + PRIOR_FREEDOM)
        errors: Means = student(freedom) * np.sqrt(variance * left / n)
        if tally.noise is not None:  # of equal scores of a cell the next may differ, whatever was seen
            asks = state.told[:, None]
            alike = np.maximum(left, n / asks)  # it may be that examples do not differ
        for j, limits in enumerate(limits_of(state)):
            column, equal = scores[:, j], 0
            if n_seen > 1 and (column == column[0]).all():
                equal, score, size = n_seen, float(column[0]), abs(float(column[0])) or np.nan
            elif freedom > 0 and tally.pooled_variance[j] == 0.0:
                # Every prompt has its own score, again and again: simple ones may have been equal by chance.
                equal, size = freedom + 1, float(np.ptp(column))
                score = next((x for x in np.unique(column).tolist() if agrees_by_chance(x, limits)), float(column[0]))
            if equal:
                size = limits[1] - limits[0] if limits else size
                errors[:, j] = size * chance_of_another(score, equal, tally.counts, limits)
                errors[:, j] *= np.sqrt(alike[:, j])
            elif len(column) and np.isin(column, (0.0, 1.0)).all():
                of_all = (n_seen * column.mean() + 1.0) / (n_seen + 2.0)
                share = (n[:, 0] * tally.means[:, j] + _PRIOR_COUNT * of_all) / (n[:, 0] + _PRIOR_COUNT)
                known = np.isfinite(errors[:, j])
                errors[known, j] = np.sqrt(share * (1.0 - share) * alike[:, j] / n[:, 0])[known]
    if state.problem.goal.counts_failures and state.missing:  # a failure has no row among the scores
        of_all = (float(tally.sums[:, -1].sum()) + 1.0) / (float(n.sum()) + 2.0)
        share = (tally.sums[:, -1] + _PRIOR_COUNT * of_all) / (n[:, 0] + _PRIOR_COUNT)
        with np.errstate(divide="ignore"):
            errors[:, -1] = np.sqrt(share * (1.0 - share) * alike[:, -1] / n[:, 0])
    # Of one example nothing tells how far another is from it.
    errors[(tally.counts == 0) | (n_seen < 2)] = np.nan
    errors[(n > 0) & (left == 0)] = 0.0
    return errors


def model_errors(state: State, tally: Tally, means: Means, errors: Means) -> Means:
    """(K, m) errors of a model's `means`, given those that it states itself.

    A model of the prompts' features knows nothing of the examples that all prompts share, nor of how far it is wrong.
    So no error is below that of the prompt's own sample mean together with its distance from the model's; and what no
    sample supports has none.
    """
    own = sample_errors(state, tally)
    apart = np.hypot(own, means - tally.means)
    pulled = tally.counts[:, None] > 0
    least = np.nanmax(np.where(pulled, apart, -np.inf), axis=0, initial=-np.inf)
    found: Means = np.where(pulled, np.maximum(np.nan_to_num(errors), apart), np.maximum(errors, least))
    found[:, ~np.isfinite(least)] = np.nan
    found[np.broadcast_to(pulled, own.shape) & (own == 0.0) & (means == tally.means)] = 0.0
    return found


def student(freedom: int) -> float:
    """How much wider 95 % of Student's distribution is than of the normal one (Fisher & Cornish 1960)."""
    v, z = max(_LEAST_FREEDOM, freedom), _Z
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return 1.0 + (first / v + second / v**2 + third / v**3) / z


_PAIRS_SHOWN = 2  # of prompts that dominate and are dominated; str() of a result has them all
_ROUNDING = 1e-12  # of a mean: what is less is no error of sampling
_FEW = 4  # scores whose span says how far apart scores are


@one_thread
def summarize(state: State, method: Method, named: Prompts) -> Result:
    """The result: the recorded answer if finished, otherwise the best answer so far."""
    answer = list(state.decisions[-1][1].answer) if state.finished else method.answer(state)
    found = stated(state)
    likely = None if found is None or found.is_guess or state.doubts else chances(state, found)
    prompts = _prompt_results(state, method, named, found, likely)
    answer = _best_first(answer, prompts, state)
    selected = [prompts[arm] for arm in answer]
    feasible = [entry.feasible for entry in selected]
    rivals = [entry.feasible for entry in prompts if entry.status not in (FAILED, RETIRED)]
    none_is_feasible = False in rivals and True not in rivals
    is_best = isinstance(state.problem.goal, BestFeasible)
    tolerance = method.tolerance if is_best and not isinstance(method, Elimination) else 0.0
    verdict = judge(state, found, likely, answer, named.ids, none_is_feasible, tolerance)
    if state.doubts and answer:
        verdict = replace(verdict, sentence=f"Do not rely on these scores. {' '.join(state.doubts)}")
    result = Result(
        goal=state.problem.goal,
        selected=selected,
        prompts=prompts,
        verdict=verdict,
        spent=state.spent,
        budget=state.problem.budget,
        spent_cost=state.cost,
        max_cost=state.problem.max_cost,
        notes=(*_notes(state, method, selected), *_of_failures(state, answer)),
        done=state.finished,
        feasible=None if not feasible or None in feasible else all(feasible),
        examples=state.problem.population,
        repeats=state.problem.repeats,
        stopped_early=state.finished and state.decisions[-1][1].settled and not state.doubts,
        finished_early=_finished_early(state),
        baseline=None if state.problem.baseline is None else named.ids[state.problem.baseline],
        example_ids=None if state.problem.examples is None else state.problem.examples.ids,
        failures=grouped((named.ids[failure.arm], failure.reason) for failure in state.failures),
        _factors=_factors(state.problem, found),
        _comparer=_pairs(state, method),
        _moments=partial(settling, state, method, answer),
    )
    return replace(result, notes=(*result.notes, *_of_dominated(result.dominated)))


def _factors(problem: Problem, found: Statement | None) -> dict[str, Levels]:
    """For each factor and level, the mean of the candidates of that level in each metric, and its error."""
    candidates, means = problem.candidates, dict[str, Levels]()
    if candidates is None or found is None or not levels_of(candidates):
        return means
    for factor, column in zip(candidates.factors, zip(*candidates.levels, strict=True), strict=True):
        levels = list(candidates.factors[factor])
        has: Means = np.array([[level == own for own in column] for level in levels], dtype=np.float64)
        by_metric = [fit.averages(has / has.sum(axis=1, keepdims=True)) for fit in found.fits]
        known = np.atleast_1d((~np.isnan(found.errors)).any(axis=0))
        means[factor] = {
            level: {
                name: (float(mean[i]), float(error[i]) if known[j] else None)
                for j, (name, (mean, error)) in enumerate(zip(problem.goal.columns, by_metric, strict=True))
            }
            for i, level in enumerate(levels)
        }
    return means


def compare(
    state: State,
    method: Method,
    named: Prompts,
    a: AnyPrompt,
    b: AnyPrompt | None,
    confidence: float,
    tolerance: float,
) -> Comparison:
    """`Result.compare`, without the rest of the result unless b is to be the answer."""
    baseline = state.problem.baseline
    if b is None and baseline is None:
        return summarize(state, method, named).compare(a, None, confidence, tolerance)
    return compare_two(_pairs(state, method), named, a, b, baseline, confidence, tolerance)


def _pairs(state: State, method: Method) -> Pairs:
    by_scores = isinstance(method, Adaptive) and method.confidence is None  # it takes the examples that tell most
    shared_order = not by_scores and not state.was_widened
    history = History(len(state.problem.goal.columns)) if state.doubts else state.history
    return Pairs(state.problem, state.seen, history, state.missing, shared_order)


def _notes(state: State, method: Method, selected: list[PromptResult]) -> Iterator[str]:
    if isinstance(method, Elimination) and state.problem.features is not None:
        parts = method.allocator, method.estimator
        if not any(part.needs_features for part in parts):
            names = " and ".join(type(part).__name__ for part in parts)
            yield f"The features were not used: {names} have no use for them, but the method auto has."
        if isinstance(method.estimator, LeastSquares):
            yield from _of_directions(state, method.estimator, state.problem.features)
    yield from (remark.text for _, remark in sorted(state.remarks.items()))
    if state.finished and not state.doubts and (isinstance(method, Race) or state.decisions[-1][1].settled):
        yield _certainty(state, method)
    yield from of_repeats(state.problem, repeated(state.problem, state.history))
    scores = state.history.scores()
    if len(np.unique(state.history.arms())) > 1 and (scores == scores[0]).all():
        yield "All prompts score the same so far."
    feasible = [entry for entry in selected if entry.feasible is not False]
    if isinstance(state.problem.goal, ParetoSet) and feasible and len(feasible) < len(selected):
        yield (
            f"{len(selected) - len(feasible)} of the selected prompts probably miss a constraint; they are selected "
            "because that is in doubt."
        )


def _of_directions(state: State, estimator: LeastSquares, features: Features) -> Iterator[str]:
    """What least squares cannot say of features: where prompts hardly differ, and where none was evaluated."""
    if lost := lost_directions(features, estimator.intercept):
        were = "1 direction of the features was" if lost == 1 else f"{lost} directions of the features were"
        yield (
            f"{were} left out of the estimates: prompts differ there by less than a billionth of what they differ by "
            "elsewhere, which is too little to compute with. Leave out columns that are nearly sums of others, or "
            "reduce the features with asktell.features.pca."
        )
    rows = with_intercept(features) if estimator.intercept else features
    pulled = state.told > 0
    if pulled.any() and rank(rows[pulled]) < rank(rows):
        yield (
            "The prompts evaluated so far do not cover all directions of the features: estimates of the others are "
            "drawn towards the average."
        )


def _certainty(state: State, method: Method) -> str:
    """How sure the recorded answer is, with what that rests on."""
    if not state.decisions[-1][1].settled or not isinstance(method, Race | Adaptive):
        return "The budget ended before the answer was certain."
    seen = state.told
    rivals = np.delete(seen, state.no_rivals())
    again = repeated(state.problem, state.history)
    if differ(state.problem, again):
        changed = f"{again.changed} of {again.times} repeated evaluations differ"
        return f"The run ended as certain, but {changed}: its confidence of {method.confidence:g} does not hold."
    rests_on = premises(
        state.problem,
        again,
        int(rivals[rivals > 0].min(initial=seen.max())),
        failures=bool(state.missing),
        widened=state.was_widened,
    )
    within = f", within {method.tolerance:g}" if method.tolerance else ""
    if isinstance(method, Adaptive) and method.confidence_kind == "posterior":
        sure = f"The answer is right with probability {method.confidence:g}{within}, by the model's average"
        return f"{sure}: that is not guaranteed."
    unless = f" {rests_on.unless}" if rests_on.unless else ""
    comma = "," if within and unless else ""
    return f"The answer is right with confidence {method.confidence:g}{within}{comma}{unless}."


def _of_failures(state: State, answer: list[int]) -> Iterator[str]:
    if not state.failures:
        return
    said = f"{len(state.failures)} of {state.spent + len(state.missing)} evaluations failed"
    if answer:
        of_answer = sum(state.failures.count(arm) for arm in answer)
        n_asked = sum(state.history.n_asked(arm) + state.missing.count(arm) for arm in answer)
        said += f", {of_answer} of {n_asked} {'of the answer' if len(answer) == 1 else 'of the selected prompts'}"
    as_what = "left out of the other estimates" if state.problem.goal.counts_failures else "left out of the estimates"
    if isinstance(scores := state.problem.on_failure, dict):
        as_what = "counted as " + ", ".join(f"{safe(metric)} {score:g}" for metric, score in scores.items())
    yield f"{said}; failures are {as_what}."


def _of_dominated(by: Mapping[str | int, str | int]) -> Iterator[str]:
    if by:
        some = ", ".join(f"{safe(str(one))} by {safe(str(other))}" for one, other in list(by.items())[:_PAIRS_SHOWN])
        more = ", ..." if len(by) > _PAIRS_SHOWN else ""
        are = "is dominated by another" if len(by) == 1 else "are dominated by others"
        yield f"By the estimates, {len(by)} of the selected {are} ({some}{more}), but that is in doubt."


def _prompt_results(
    state: State, method: Method, named: Prompts, found: Statement | None, likely: Chances | None
) -> list[PromptResult]:
    problem, metrics = state.problem, state.problem.goal.columns
    tally = state.current_tally()
    means, errors = tally.means, np.full_like(tally.means, np.nan)
    active, new_errors = state.active, None
    p_best: Sequence[float | None] = [None] * problem.n_arms
    p_feasible, feasible = p_best, None
    if isinstance(method, Adaptive) and found is not None:
        means, errors, new_errors = found.means, found.errors, found.new_errors
    else:
        if isinstance(method, Elimination) and len(active) and not method.estimator.needs_every_arm:
            found_means, errors[active] = method.estimates(state, active)
            means[active] = found_means[:, : means.shape[1]]  # behind them are those in segments
        means, errors = means.copy(), errors.copy()
        for arm, (_, departed) in state.left.items():
            if departed.means:
                means[arm], errors[arm] = departed.means, np.array(departed.standard_errors, dtype=np.float64)
        by_samples = not isinstance(method, Elimination) or not method.estimator.is_model
        errors = sample_errors(state, tally) if by_samples else model_errors(state, tally, means, errors)
    means, errors = _within_range(state, means, errors)
    errors = np.where(errors < _ROUNDING * np.abs(means), 0.0, errors)
    if new_errors is None:
        new_errors = np.hypot(errors, np.sqrt(_spread_of_examples(state, tally)))
    if likely is not None:
        p_best = likely.p_best.tolist()
        if likely.p_feasible is not None and likely.taken is not None:
            p_feasible = likely.p_feasible.tolist()
            of_model = isinstance(method, Adaptive) or bool(problem.goal.by_segment)
            feasible = likely.taken.tolist() if of_model else None
    feasible = feasible or _feasible(problem.goal, means)
    pulls = state.told if problem.repeats > 1 else tally.counts
    estimated, deviations, wider = (_by_metric(metrics, rows) for rows in (means, errors, new_errors))
    segments: Sequence[Mapping[str, Any]] = [{}] * problem.n_arms
    if problem.segments is not None and found is not None and found.in_segments is not None:
        lows, highs = np.array([limits or (-np.inf, np.inf) for limits in limits_of(state)]).T
        in_segments = np.clip(found.in_segments[0], lows[:, None], highs[:, None])
        segments = _by_segment(problem.segments.names, metrics, in_segments, found.in_segments[1])
    entries = []
    for arm, text in enumerate(named.texts):
        round_, departure = state.left.get(arm, (None, None))
        entries.append(
            PromptResult(
                id=named.ids[arm],
                prompt=text,
                estimate=estimated[arm],
                standard_error=deviations[arm],
                pulls=int(pulls[arm]),
                status=ACTIVE if departure is None else departure.status,
                round=round_,
                reason=None if departure is None else departure.reason,
                feasible=feasible[arm],
                failures=state.failures.count(arm),
                p_feasible=p_feasible[arm],
                p_best=p_best[arm],
                standard_error_population=wider[arm],
                segments=segments[arm],
                candidate=None if named.candidates is None else named.candidates[arm],
            )
        )
    return entries


def _within_range(state: State, means: Means, errors: Means) -> tuple[Means, Means]:
    """Models know no range: no estimate leaves it, and no error is larger than half of it.

    Where there is none, no error is larger than what a few scores span: 1.96 of them are then twice as far off as any
    two scores were.
    """
    scores = state.history.scores()
    spans = np.ptp(scores, axis=0) if len(scores) >= _FEW else np.zeros(len(state.problem.goal.columns))
    for j, limits in enumerate(limits_of(state)):
        if limits is not None:
            means[:, j] = np.clip(means[:, j], *limits)
            errors[:, j] = np.minimum(errors[:, j], (limits[1] - limits[0]) / 2.0)
        elif spans[j] > 0.0:
            errors[:, j] = np.minimum(errors[:, j], spans[j])
    return means, errors


def _spread_of_examples(state: State, tally: Tally) -> Means:
    """(K, m): the squared error with which the mean over all examples given stands for new ones like them.

    That is a prompt's variance from example to example, noise taken off, over their number. Of few pulls it is shrunk
    to that of all prompts; where all scores agree by chance, another comes with a probability of 1 in n + 2 (rule of
    succession).
    """
    n_examples, counts = state.problem.n_examples, tally.counts[:, None]
    if n_examples is None or not len(state.history):
        return np.zeros_like(tally.sums)
    pooled = np.nan_to_num(tally.pooled_variance, nan=np.inf)
    scores = state.history.scores()
    for j, limits in enumerate(limits_of(state)):
        score = float(scores[0, j])
        if (scores[:, j] == score).all() and agrees_by_chance(score, limits):
            size = limits[1] - limits[0] if limits else abs(score) or 1.0
            pooled[j] = size**2 * (len(scores) + 1.0) / (len(scores) + 2.0) ** 2
    with np.errstate(invalid="ignore"):
        variance = (tally.deviations + PRIOR_FREEDOM * pooled) / (np.maximum(counts - 1, 0) + PRIOR_FREEDOM)
        if tally.noise is not None:
            variance = np.maximum(0.0, variance - tally.noise)
    return np.where(np.isfinite(variance), variance, np.nan) / n_examples


def _finished_early(state: State) -> bool:
    """True if budget was left over because every prompt in the last round had no evaluation left."""
    most, rounds = (
        state.problem.most_pulls,
        {arm: r for arm, (r, d) in state.left.items() if d.status in (ACCEPTED, REJECTED)},
    )
    if not state.finished or state.decisions[-1][1].settled or most is None or not rounds:
        return False
    latest = max(rounds.values())
    last = [arm for arm, round_ in rounds.items() if round_ == latest]
    return state.spent < state.problem.budget and bool((state.used_pulls()[last] >= most).all())


def _best_first(answer: list[int], prompts: list[PromptResult], state: State) -> list[int]:
    """The answer, feasible ones first, ordered by the first column of the goal's values, then by chance."""
    if not answer:
        return answer
    answer = [answer[i] for i in counters.chance_order(state.problem.seed, answer)]
    means = np.array([[np.nan if x is None else x for x in prompts[arm].estimate.values()] for arm in answer])
    misses = np.array([prompts[arm].feasible is False for arm in answer])
    return [answer[i] for i in np.lexsort((-state.problem.goal.values(means)[:, 0], misses))]


def _feasible(goal: Goal, means: Means) -> list[bool | None]:
    if not goal.is_constrained:
        return [None] * len(means)
    keeps = (goal.values(means)[:, len(goal.objectives) :] >= 0).all(axis=1)
    return np.where(np.isnan(means).any(axis=1), None, keeps).tolist()  # type: ignore[call-overload,no-any-return]


def _by_segment(names: Sequence[str], metrics: Sequence[str], means: Draws, errors: Draws) -> list[dict[str, Any]]:
    """(K, c, G) means and errors by prompt, segment and metric; None for an error of NaN."""
    found = []
    for rows in np.stack((means, errors), axis=3).transpose(0, 2, 1, 3).tolist():
        by_metric = ([(mean, None if error != error else error) for mean, error in row] for row in rows)
        found.append({name: dict(zip(metrics, row, strict=True)) for name, row in zip(names, by_metric, strict=True)})
    return found


def _by_metric(metrics: Sequence[str], rows: Means) -> list[dict[str, float | None]]:
    columns = [[None if x != x else x for x in column] for column in rows.T.tolist()]
    return [dict(zip(metrics, row, strict=True)) for row in zip(*columns, strict=True)]
