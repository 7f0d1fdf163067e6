"""A candidate against a baseline, for a gate and for loops that accept or reject candidates one by one.

Failed evaluations have no scores, so each statement must hold in the worst case for it
(`_bounds_with_failures`).
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int
from asktell.problem.checks import LARGEST, check_number, check_part
from asktell.problem.goals import Goal, ParetoSet
from asktell.problem.objectives import FAILURE_RATE, check_less_than_range
from asktell.proofs.bounds import ROUNDING, Bounds, binary_ranges, limits_if_binary
from asktell.proofs.claims import satisfies, violates
from asktell.proofs.intervals.betting import Betting
from asktell.proofs.intervals.one_look import OneLook
from asktell.proofs.ordered import OrderedScores, Rows, first_out
from asktell.record import Failures, State
from asktell.record.history import History

UNSEEN_FAILURES = 0.05
"""The smallest tolerated difference of the failure rates in `not_worse`, if the candidate failed no more often so far.

The true failure rate of the candidate may be this much above the baseline's. The difference is between two shares of
the examples, from 0 to 1. If no difference were allowed, `not_worse` would need all examples, even for two prompts that
never fail. The value 0.05 was chosen. No theory gives it.
"""


def standing_against(
    state: State, candidate: int, baseline: int, margin: float, confidence: float
) -> dict[str, bool | None]:
    """What the scores so far establish about a candidate, compared with a baseline.

    True: established. False: the opposite is established. None: undecided. Every value
    is None if a remark calls the scores doubtful. The keys are

    - the metric of each objective: the candidate is worse by at most `margin`
    - each constraint as text: the candidate satisfies it
    - "failure_rate": the candidate fails on at most as many examples as the baseline,
      apart from a tolerated difference

    `asktell.results.gate.not_worse` describes the guarantees and the tolerated
    difference. They hold for all calls together, if the scores do not drift.

    Args:
        state: the state of the selection, which evaluates both prompts on the same
            examples.
        candidate: the position of the candidate among the prompts, from 0.
        baseline: the position of the baseline among the prompts, from 0.
        margin: how much worse than the baseline the candidate may be in an objective,
            in units of the metric. Negative: by how much it must be better. The
            tolerated difference of the failure rates is then the smallest one.
        confidence: the probability in the guarantees.

    Raises:
        IncompatibleMethodError: the worst segment counts for a metric of the goal.
        InvalidArgumentError: as for `check_margin`, or the confidence is not above 0
            and below 1.
    """
    goal, error = state.problem.goal, 1 - check_part("The confidence", confidence)
    goal.check_over_all_examples("a gate")
    check_margin(goal, max(0.0, margin), state.history.scores())
    # The values of a Pareto set are in units of the metrics' ranges.
    is_scaled = isinstance(goal, ParetoSet)
    margins = [margin / o.scale if is_scaled else margin for o in goal.objectives]
    names = [*(o.metric for o in goal.objectives), *map(str, goal.constraints)]
    established: dict[str, bool | None] = dict.fromkeys((*names, FAILURE_RATE))
    if state.remarks.doubts:
        return established
    recorded, against, in_favor = _bounds_with_failures(state, candidate, baseline)
    error_of_no = error / (len(names) + 1)
    for column, (name, least) in enumerate(zip(names, margins, strict=False)):
        lead_of_baseline = in_favor.lead(baseline, candidate, column)
        lead = against.lead(candidate, baseline, column)
        established[name] = _claim(
            yes=against.is_at_least(lead, -least, error),
            no=in_favor.is_above(lead_of_baseline, least, error_of_no),
        )
    for column, name in enumerate(names[len(margins) :], len(margins)):
        # Of a bound on the failure rate, the failures themselves are the observations.
        failures = recorded.scores.failures
        is_rate = failures is not None and column in failures.slacks
        worst, best = (recorded, recorded) if is_rate else (against, in_favor)
        established[name] = _claim(
            yes=worst.scores.counts[candidate] > 0
            and satisfies(worst, candidate, column, error),
            no=violates(best, candidate, column, error_of_no),
        )
    part = _part_of_range(recorded, margins)
    established[FAILURE_RATE] = fails_no_more(
        state, candidate, baseline, part, error, error_of_no
    )
    return established


def check_margin(
    goal: Goal, margin: float, scores: Float[Floats, "rows columns"] | None = None
) -> float:
    """Return the margin of a gate as a float, after checking that it is less than the width of each objective's range.

    Args:
        goal: the goal.
        margin: how much worse a candidate may be, in units of the metric. At least 0.
        scores: the scores so far, in the order of `goal.columns`. An objective without
            a range has the range 0 to 1 if all its scores are 0 or 1. None: only the
            declared ranges are checked.

    Raises:
        InvalidArgumentError: the margin is negative, or so wide that no candidate could
            be worse.
    """
    margin = check_number("The margin", margin, 0.0, LARGEST)
    ranges = dict(goal.ranges)
    if scores is not None:
        ranges = binary_ranges(goal, scores) | ranges
    for objective in goal.objectives:
        if objective.metric in ranges:
            what = f"The margin for {objective.metric!r}"
            check_less_than_range(what, margin, ranges[objective.metric])
    return margin


def _claim(yes: bool, no: bool) -> bool | None:
    return False if no else (True if yes else None)


def _bounds_with_failures(
    state: State, candidate: int, baseline: int
) -> tuple[Bounds, Bounds, Bounds]:
    """The bounds without scores for the failed evaluations, and with assumed scores in their turns.

    First with the worst scores for the candidate and the best for the baseline, then
    the other way round.
    """
    problem, history = state.problem, state.history
    # Evaluations of departed arms that are still in progress do not matter
    reach = first_out(state, set(state.left) - {candidate, baseline})
    limits = limits_if_binary(problem.goal, history.scores())
    scores = OrderedScores.of(problem, history, state.missing, reach)
    recorded = Bounds(scores, limits)
    without_scores = _with_nan(state, (candidate, baseline))
    if len(without_scores) == len(history) or not len(history):
        return recorded, recorded, recorded
    filled = OrderedScores.of(problem, without_scores, Failures(), reach)
    seen = problem.goal.values(history.scores(), problem.goal.offsets).T
    ends = [limit or (x.min(), x.max()) for limit, x in zip(limits, seen, strict=True)]
    worst, best = np.array(ends, dtype=np.float64).T
    against = _with_values(filled, {candidate: worst, baseline: best})
    in_favor = _with_values(filled, {candidate: best, baseline: worst})
    return recorded, Bounds(against, limits), Bounds(in_favor, limits)


def _with_nan(state: State, pair: tuple[int, int]) -> History:
    """The recorded scores, and a row of NaN for each failed evaluation.

    In a finished table, also a row for each cell of the pair of arms that only the
    other arm of the pair has seen.
    """
    problem, history, pulls = state.problem, state.history, state.missing.pulls
    trials, arms, examples = pulls.trials(), pulls.arms(), pulls.examples()
    if problem.examples.population is not None and problem.examples.repeats == 1:
        # If a failed cell was evaluated again, its score counts. If a cell failed
        # twice, one failure counts.
        scored = zip(history.arms().tolist(), history.examples().tolist(), strict=True)
        cells = zip(arms.tolist(), examples.tolist(), strict=True)
        is_scored = set(scored)
        row_of = {cell: row for row, cell in enumerate(cells)}
        left = [row for cell, row in row_of.items() if cell not in is_scored]
        rows = np.array(left, dtype=np.int64)
        trials, arms, examples = trials[rows], arms[rows], examples[rows]
    if problem.looks_once:
        arms_alone, examples_alone = _unpaired(state, *pair)
        trials = np.append(trials, np.full(len(arms_alone), -1))
        arms = np.append(arms, arms_alone)
        examples = np.append(examples, examples_alone)
    without_scores = np.full((len(arms), len(problem.goal.columns)), np.nan)
    return History.from_columns(
        np.concatenate((history.trials(), trials)),
        np.concatenate((history.arms(), arms)),
        np.concatenate((history.examples(), examples)),
        np.concatenate((history.scores(), without_scores)),
    )


def _unpaired(state: State, a: int, b: int) -> tuple[Ints, Ints]:
    """The arms and the examples of the cells of a pair of arms that only the other arm of the pair has seen."""
    history, failed = state.history, state.failures.pulls
    arms = np.concatenate((history.arms(), failed.arms()))
    examples = np.concatenate((history.examples(), failed.examples()))
    of_a, of_b = np.unique(examples[arms == a]), np.unique(examples[arms == b])
    lacks_a, lacks_b = np.setdiff1d(of_b, of_a), np.setdiff1d(of_a, of_b)
    missing_arms = np.repeat([a, b], [len(lacks_a), len(lacks_b)])
    return missing_arms, np.concatenate((lacks_a, lacks_b))


def _with_values(
    scores: OrderedScores, of_failed: Mapping[int, Float[Floats, " columns"]]
) -> OrderedScores:
    """The scores with assumed values in place of the NaN values of some arms, `of_failed` by arm."""
    first, *more = scores.rounds
    values = first.values.copy()
    for arm, assumed in of_failed.items():
        of_arm = values[first.part(arm)]
        of_arm[:] = np.where(np.isnan(of_arm), assumed, of_arm)
    return replace(scores, rounds=(Rows(first.starts, first.places, values), *more))


def _part_of_range(bounds: Bounds, margins: list[float]) -> float:
    """The margin as a part of the objective's range, the smallest for several objectives. 0 if a range is unknown."""
    parts = [1.0]
    for margin, limits in zip(margins, bounds.limits, strict=False):
        if limits is None or limits[1] <= limits[0]:
            parts.append(0.0)
        else:
            parts.append(max(0.0, margin) / (limits[1] - limits[0]))
    return min(parts)


def fails_no_more(
    state: State,
    candidate: int,
    baseline: int,
    margin: float,
    error: float,
    error_of_no: float,
) -> bool | None:
    """True if a candidate certainly fails no more often than a baseline, False if certainly more often, else None.

    "More often" means that the share of examples with a failure is larger by more than
    `margin`, a share from 0 to 1. While the candidate has not failed on more of the
    common examples, `UNSEEN_FAILURES` is allowed if it is larger.

    A True is a claim about the given examples, by the first evaluation of each, and is
    ever wrong with probability `error`. A False is a claim about future evaluations,
    since a single failure may be an accident even if every example was seen. It is ever
    wrong with probability `error_of_no`.
    """
    places, failed = _first_failed(state, candidate)
    places_before, failed_before = _first_failed(state, baseline)
    _, rows, rows_before = np.intersect1d(
        places, places_before, assume_unique=True, return_indices=True
    )
    more = failed[rows] - failed_before[rows_before]
    if not len(more):
        return None
    for_new: OneLook | Betting = Betting(-1.0, 1.0)
    if state.problem.looks_once:
        for_new = OneLook((-1.0, 1.0))
    if for_new.refutes(more[None], margin, error_of_no)[0]:
        return False
    allowed = margin if more.sum() > 0 else max(margin, UNSEEN_FAILURES)
    population = state.problem.examples.population
    if len(more) == population:
        return True if more.mean() <= allowed + ROUNDING else None
    for_given = replace(for_new, population=population)
    is_kept = for_given.refutes(-more[None], -allowed, error)[0]
    return True if is_kept else None


def _first_failed(
    state: State, arm: int
) -> tuple[Int[Ints, " seen"], Float[Floats, " seen"]]:
    """The places of the examples that an arm has seen, ascending, and 1 if its first evaluation failed, else 0.

    Without examples, the places count the evaluations. Places from the first evaluation
    in progress on are ignored.
    """
    problem, history = state.problem, state.history
    reach = first_out(state, set(state.left) - {arm})
    failures = state.failures.pulls
    # Scores without a trial were observed elsewhere, or repeat an evaluation.
    scored = (history.arms() == arm) & (history.trials() >= 0)
    has_failed = failures.arms() == arm
    # Failures come first, since failures that count as scores have the same trials
    # among the scores.
    trials = np.concatenate((failures.trials()[has_failed], history.trials()[scored]))
    examples = np.concatenate(
        (failures.examples()[has_failed], history.examples()[scored])
    )
    failed = np.concatenate(
        (np.ones(int(has_failed.sum())), np.zeros(int(scored.sum())))
    )
    trials, first = np.unique(trials, return_index=True)
    if problem.examples.population is None:
        n = len(trials) if reach is None else int(np.searchsorted(trials, reach))
        return np.arange(n), failed[first[:n]]
    examples, failed = examples[first], failed[first]
    _, first = np.unique(examples, return_index=True)
    places, failed = problem.examples.place[examples[first]], failed[first]
    order = np.argsort(places)
    order = order if reach is None else order[places[order] < reach]
    return places[order], failed[order]
