"""Claims about the best prompt and the Pareto set that hold at every look, over `asktell.proofs.bounds.Bounds`.

A claim is, for example, "the mean of prompt a is at least that of prompt b". With
`inputs="given"`, a mean is the mean over the given examples, which are drawn without
replacement (`asktell.proofs.intervals`). With `inputs="new"`, it is the expected score on a
new input that is evaluated once.

Theorem
-------

P(a false claim is ever established) <= error, over all looks at the scores, if

(i)   The order of the examples does not depend on the scores, and the distribution of
      scores does not drift.
(ii)  Every score lies in the known range of its metric.
(iii) Whether a score counts does not depend on its value. No evaluation fails, and an
      example with a pending score is ignored together with all later examples.
(iv)  The errors of all claims that may be false sum to `error` at most.

Without a known range, (ii) is replaced by a limit: the probability tends to `error` as
the number of examples grows (`asktell.proofs.intervals.asymptotic`). Scores with a doubtful
remark establish nothing.

Proof. By (i) to (iii), the scores of a prompt, and the differences of two prompts, are
draws in a fixed range. Given examples are drawn without replacement, and new inputs
independently. A confidence sequence of such draws with the error e excludes their mean
at some look with a probability of e at most (Waudby-Smith & Ramdas 2020, 2023). A claim
is established only if the sequence excludes its opposite. The union bound over the
claims of (iv) gives the theorem.

Repeated evaluations of new inputs. Let the examples in their seeded order be
independent draws of inputs, and let the evaluations of a prompt on an example be
independent of those on other examples. For every r, let D_j be the mean of the first r
evaluations of one prompt on the j-th example, less the same mean of another prompt.
Then D_1, D_2, ... are independent and equal in distribution. Their expectation is the
difference of the two prompts' means, however noisy an evaluation is. A confidence
sequence of them with an error of e / R is therefore wrong at some j with a probability
of e / R at most. By the union bound, the sequences for r = 1, ..., R are all right at
all j with a probability of at least 1 - e. So a claim from any r and any j is right
with that probability, even if r and j were chosen after a look at the scores. The same
holds for the evaluations of a single prompt.

Here R is `repeats`, and r is the largest number of evaluations that both prompts have
had of every one of the first examples. An incomplete round does not count. The first
examples are the longest beginning of the order that both prompts have completed. So
neither the time nor the reason of an evaluation matters, nor the method that asked for
it. Repeats beyond R are ignored, and so is a score that was recorded before an earlier
evaluation of the same cell.

The claims
----------

The selection is wrong only if one of a few claims is false. Only these share the error
of (iv). Each function below lists its claims and their share.

==================  ==========================================================================================
`satisfies`         An arm satisfies a constraint. `violates`: it violates the constraint.
`lost_race`         An arm is not the best, by a single test against the arm that leads (`Race`, `Adaptive`).
`excluded`          An arm does not belong to the selection (`Race`).
`certain_best`      The best feasible arm, if it is established (`Race`).
`certain_front`     The Pareto set, if it is established (`Race`).
`unproven`          The arms with open claims about a given selection (`Adaptive(confidence=...)`).
==================  ==========================================================================================
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.pareto import pareto_mask
from asktell.numerics.shapes import Bool, Float, Int
from asktell.problem.goals import BestFeasible, Goal
from asktell.problem.objectives import Bound
from asktell.proofs.bounds import Bounds, limits_if_few
from asktell.proofs.intervals.betting import Betting
from asktell.proofs.intervals.racing import certainly_worse
from asktell.proofs.ordered import OrderedScores, first_out, joined_at
from asktell.record import State

# Significant decimals in the mean of decimal fractions. A double has 15, but the last
# ones are rounding errors.
_DECIMALS = 12

FEW = 6
"""Most prompts for which a race with a tolerance needs more evaluations than pairs. Found by simulation."""

TRIED = 3
"""Number of arms that are tried as dominating another one, or as ahead by more than a margin, the likeliest first."""

WORSE = "established to be worse than another prompt"
_DOMINATED = "established to be dominated by another prompt"


# Constraints


def slacks_of(goal: Goal) -> range:
    """The columns of the goal's values that hold slacks."""
    return range(len(goal.objectives), len(goal.objectives) + len(goal.constraints))


def n_misses(goal: Goal, n_arms: int) -> int:
    """The number of claims that may wrongly establish that a prompt violates a constraint.

    A bound relative to the best prompt in a metric counts K - 1 times, once for each
    prompt that may be ahead of the selected prompt.
    """
    return sum(max(1, n_arms - 1) if bound.is_of_best else 1 for bound in goal.bounds)


def _n_skips(goal: Goal, n_arms: int) -> int:
    """The number of claims that may wrongly establish that the best prompt, to which bounds are relative, is not."""
    return sum(n_arms - 1 for bound in goal.bounds if bound.is_of_best)


def satisfies(
    bounds: Bounds, arm: int, column: int, error: float, least: float = 0.0
) -> bool:
    """True if the slack of an arm certainly is at least `least`.

    A constraint relative to the best prompt in a metric is compared in pairs. If an arm
    is not within the margin, then the claim is false of its pair with this best prompt.
    So the claim of being within the margin takes no more of the error than any other
    constraint, although it is established for every pair.
    """
    if _bound(bounds, column).of is not None:
        return next(_in_the_way(bounds, arm, column, error, least), None) is None
    return bounds.is_at_least(bounds.mean(arm, column), least, error)


def violates(bounds: Bounds, arm: int, column: int, error: float) -> bool:
    """True if the slack of an arm certainly is below 0.

    For a relative constraint: if another arm certainly is ahead by more than the margin.
    """
    bound = _bound(bounds, column)
    if bound.of is None:
        return bounds.is_above(bounds.mean(arm, column).mirrored(), 0.0, error)
    rivals = [rival for rival in _rivals(bounds, column)[:TRIED] if rival != arm]
    return any(
        bounds.lead_is_above(rival, arm, column, bound.margin, error)
        for rival in rivals
    )


def _in_the_way(
    bounds: Bounds, arm: int, column: int, error: float, least: float
) -> Iterator[int]:
    """The arms that may be so far ahead of `arm` that its slack in a relative bound is below `least`.

    An arm that certainly is behind another by more than the margin cannot be the best
    arm, so it is not in the way.
    """
    most = _bound(bounds, column).margin - least
    for rival in _rivals(bounds, column):
        if rival == arm or bounds.lead_is_at_most(rival, arm, column, most, error):
            continue
        if not violates(bounds, rival, column, error):
            yield rival


def _bound(bounds: Bounds, column: int) -> Bound:
    """The bound whose slacks are in a column of the goal's values."""
    goal = bounds.problem.goal
    return goal.bounds[column - len(goal.objectives)]


def _rivals(bounds: Bounds, column: int) -> list[int]:
    """The arms to which the bound of a column of slacks may be relative, the highest mean first."""
    goal, scores = bounds.problem.goal, bounds.scores
    if _bound(bounds, column).is_of_baseline:
        return [] if goal.baseline is None else [int(goal.baseline)]
    means = np.where(scores.counts > 0, scores.means[:, column], -np.inf)
    order = np.argsort(-means, kind="stable")
    return [int(arm) for arm in order if arm not in bounds.gone]


def references(bounds: Bounds) -> set[int]:
    """The arms that relative bounds most likely refer to: the baseline, or the arm of the highest mean so far."""
    goal = bounds.problem.goal
    relative = [q for q in slacks_of(goal) if _bound(bounds, q).of is not None]
    rivals = [_rivals(bounds, column) for column in relative]
    return {arms[0] for arms in rivals if arms}


def _are_violating(
    bounds: Bounds, arms: Int[Ints, " some"], column: int, error: float
) -> Bool[Bools, " some"]:
    """True for the arms that certainly violate a constraint. A plain bound is tested for many arms together."""
    if _bound(bounds, column).of is not None:
        violating = [violates(bounds, arm, column, error) for arm in arms.tolist()]
        return np.array(violating, dtype=bool)
    slacks = [bounds.mean(arm, column).mirrored() for arm in arms.tolist()]
    return bounds.certainly_above(slacks, 0.0, error)


def _all_satisfied(
    bounds: Bounds,
    arms: Int[Ints, " some"],
    error: float,
    tolerances: Float[Floats, " values"] | None = None,
) -> Bool[Bools, " some"]:
    """True for the arms that certainly satisfy every constraint. Plain bounds of many arms are tested together.

    `tolerances`: how far the goal's values may be below 0. None: not at all.
    """
    satisfied = np.ones(len(arms), dtype=bool)
    for column in slacks_of(bounds.problem.goal):
        least = 0.0 if tolerances is None else -float(tolerances[column])
        left = arms[satisfied].tolist()
        if _bound(bounds, column).of is not None:
            satisfied[satisfied] = [
                satisfies(bounds, arm, column, error, least) for arm in left
            ]
        else:
            means = [bounds.mean(arm, column) for arm in left]
            satisfied[satisfied] = bounds.certainly_above(
                means, least, error, or_equal=True
            )
    return satisfied


# The best feasible prompt


class ErrorsOfBest(NamedTuple):
    """The errors of the claims that could make the best feasible prompt wrong.

    - `claim`: the error of each claim about a pair of arms, or about a constraint. At
      0, only exact knowledge establishes a claim.
    - `race`: the probability that the best arm ever loses the race (`lost_race`). At 0,
      there is no race.
    """

    claim: float
    race: float


def errors_of_best(bounds: Bounds, error: float) -> ErrorsOfBest:
    """Divide the error among the claims about the best feasible prompt.

    *Race.* If the range of the metric is known and scores are not noisy: the claim that
    the true best prompt is worse than another one. This is one claim with the whole
    error, however many prompts there are (`asktell.proofs.intervals.racing`). A tolerance adds
    a claim at the end: no prompt is better than the selected prompt by more than the
    tolerance. This may be false of any of the K - 1 others, so each of them gets
    1 / (K - 1) of one half of the error, and the true best gets the other half. With
    few prompts this costs more than it saves, so they are compared in pairs.

    *Pairs*, under C constraints: for each of the K - 1 others, the claim that it beats
    the true best (or that it satisfies a constraint that it violates by more than the
    tolerance, if it is infeasible), and that the true best violates one of the C constraints. There is no
    race under constraints. Only a prompt that certainly is feasible can beat another,
    so all bets would come late.

    A constraint relative to the best prompt in a metric has 2 (K - 1) claims instead of
    one. The claim that the true best is not within the margin may be false for each of
    the K - 1 others. So may the claim that the best prompt in the metric is not the
    best there, after which its pairs are ignored.
    """
    problem, n_others = bounds.problem, bounds.problem.n_arms - 1
    has_tolerance = bool(problem.goal.value_tolerances[0] > 0.0)
    n_constraints = n_misses(problem.goal, problem.n_arms)
    n_constraints += _n_skips(problem.goal, problem.n_arms)
    # The scores of one round decide which prompts are in the next round, so bets with
    # repeats would not be fair.
    is_one_round = problem.examples.repeats == 1 and problem.examples.rounds is None
    races = is_one_round and not n_constraints and bounds.limits[0] is not None
    if not races or (has_tolerance and n_others < FEW):
        return ErrorsOfBest(error / max(1, n_others + n_constraints), race=0.0)
    if has_tolerance:
        return ErrorsOfBest(error / 2 / n_others, race=error / 2)
    return ErrorsOfBest(0.0, race=error)


def lost_race(state: State, bounds: Bounds, error: float) -> Int[Ints, " lost"]:
    """The arms that lost the race: certainly worse than another arm that neither failed nor was retired.

    P(the best of them is ever among these) <= error, under (i) to (iii), by
    `asktell.proofs.intervals.racing`.
    """
    scores, first = bounds.scores, bounds.scores.first
    arms = np.setdiff1d(np.arange(bounds.problem.n_arms), state.left.no_rivals())
    n_known = scores.known[arms]
    # Scores by place, NaN for failures and for places that an arm has not reached.
    by_place = np.full((len(arms), n_known.max(initial=0)), np.nan)
    for row, n, arm in zip(by_place, n_known, arms, strict=True):
        part = first.part(int(arm))
        n_scores = int(np.searchsorted(first.places[part], n))
        row[first.places[part][:n_scores]] = first.values[part][:n_scores, 0]
    low, high = bounds.limits[0] or (0.0, 1.0)
    betting = Betting(low - high, high - low, bounds.problem.examples.target)
    stays = np.isin(
        arms, np.setdiff1d(state.active, state.missing.exhausted(state.history))
    )
    joined = joined_at(state)[arms]
    lost_at = certainly_worse(betting, by_place, n_known, joined, stays, error)
    return np.asarray(arms[lost_at <= by_place.shape[1]])


def certain_best(bounds: Bounds, arms: Int[Ints, " some"], error: float) -> int | None:
    """The best feasible arm among `arms`, up to the goal's tolerances. None if it is not established.

    It certainly satisfies every constraint, and certainly no other arm is ahead of it
    by more than the tolerance. Under (i) to (iii), it is ever wrong with the
    probability that `errors_of_best` divides at most.
    """
    tolerances = bounds.problem.goal.value_tolerances
    feasible = _all_satisfied(bounds, arms, error, tolerances)
    means = bounds.scores.means[arms, 0]
    if not feasible.any():
        return None
    leader = arms[np.flatnonzero(feasible)[means[feasible].argmax()]]
    rivals = arms[arms != leader]
    leaders = np.full(len(rivals), leader)
    least = -float(tolerances[0])
    near = bounds.are_ahead(leaders, rivals, 0, least, error, or_equal=True)
    return int(leader) if near.all() else None


# The Pareto set


def error_of_front(goal: Goal, n_arms: int, error: float) -> float:
    """The error of each claim about the Pareto set of m objectives under C constraints.

    Any arm may be ahead of any other in any objective: K (K - 1) m claims. Any arm may
    satisfy or violate a constraint: K C claims, since only the opposite of what is true
    can be claimed falsely. A constraint relative to the best prompt counts K - 1 times.
    """
    n_of_arm = (n_arms - 1) * len(goal.objectives) + n_misses(goal, n_arms)
    return error / max(1, n_arms * n_of_arm)


def certain_front(
    bounds: Bounds, arms: Int[Ints, " some"], error: float
) -> list[int] | None:
    """The Pareto set among `arms`, up to the goal's tolerances. None if it is not established.

    Each selected arm certainly satisfies every constraint, and no other arm dominates
    it by more than the tolerances. Each other arm is dominated by a selected arm, up to
    the tolerances. Whether the others satisfy the constraints does not matter. Under (i)
    to (iii), it is ever wrong with the probability that `error_of_front` divides at
    most.
    """
    n_objectives = len(bounds.problem.goal.objectives)
    tolerances = bounds.problem.goal.value_tolerances
    means = bounds.scores.means[arms, :n_objectives]
    is_exhausted = bounds.scores.is_exhausted(arms)
    # All that can be known is known, so nothing is left to tolerate.
    feasible = _all_satisfied(bounds, arms, error, None if is_exhausted else tolerances)
    if not feasible.any():
        return None
    if is_exhausted:
        largest = float(np.abs(means).max()) or 1.0
        rounded = np.round(means[feasible] / largest, _DECIMALS)
        return [int(arm) for arm in arms[feasible][pareto_mask(rounded)]]
    if len(arms) == 1:
        return [int(arms[0])]

    def are_not_dominated(
        some: Int[Ints, " pairs"], others: Int[Ints, " pairs"]
    ) -> Bool[Bools, " pairs"]:
        """True where the other arm of a pair certainly does not dominate the arm by more than the tolerances."""
        is_free = np.zeros(len(some), dtype=bool)
        for q, tolerance in enumerate(tolerances[:n_objectives].tolist()):
            left = np.flatnonzero(~is_free)
            is_free[left] = bounds.are_ahead(
                some[left], others[left], q, -tolerance, error, or_equal=tolerance > 0
            )
        return is_free

    # (j, i): the largest lead of arm j over arm i in an objective.
    lead = (means[:, None] - means[None]).max(axis=2)
    np.fill_diagonal(lead, np.inf)
    lead[:, ~feasible] = np.inf
    # The feasible arm most likely to dominate each arm, which is compared first.
    rival = arms[lead.argmin(axis=1)]
    # `free`: not dominated by its rival. `close`: dominated by its rival up to the
    # tolerances.
    free, close = feasible.copy(), np.isfinite(lead.min(axis=1))
    free[feasible] = are_not_dominated(arms[feasible], rival[feasible])
    for q in range(n_objectives):
        close[close] = bounds.are_ahead(
            rival[close], arms[close], q, -float(tolerances[q]), error, or_equal=True
        )
    if not (free | close).all():
        return None
    # A free arm must also be ahead of all others somewhere. Otherwise it counts as
    # covered by its rival.
    for j in np.flatnonzero(free):
        rest = np.delete(arms, j)
        if not are_not_dominated(np.full(len(rest), arms[j]), rest).all():
            if not close[j]:
                return None
            free[j] = False
    optimal: list[int] = arms[free].tolist()
    covering = set(rival[~free].tolist())
    return optimal if covering <= set(optimal) else None


# Arms that do not belong to the selection


def excluded(
    state: State, bounds: Bounds, error: float, race: float = 0.0
) -> dict[int, str]:
    """The reason for each active arm that certainly is not selected. Empty if scores are doubtful.

    Under (i) to (iii), an arm that should be selected is ever among them with the
    probability that `errors_of_best` or `error_of_front` divides at most: it would take
    a false claim that it violates a constraint, or that another arm is ahead.
    """
    if state.remarks.doubts:
        return {}
    goal, active = state.problem.goal, state.active
    if race:
        lost = np.intersect1d(active, lost_race(state, bounds, race))
        return dict.fromkeys(lost.tolist(), WORSE)
    reasons: dict[int, str] = {}
    for column, constraint in zip(slacks_of(goal), goal.constraints, strict=True):
        for arm in active[_are_violating(bounds, active, column, error)].tolist():
            reasons.setdefault(arm, f"established to violate {constraint}")
    seen = active[bounds.scores.counts[active] > 0]
    feasible = seen[_all_satisfied(bounds, seen, error)]
    if not isinstance(goal, BestFeasible):
        left = np.setdiff1d(seen, list(reasons))
        dominated = _dominated(bounds, left, feasible, error)
        return reasons | dict.fromkeys(dominated, _DOMINATED)
    if len(feasible):
        # Compare with the feasible arm of the highest mean.
        leader = feasible[bounds.scores.means[feasible, 0].argmax()]
        rivals = np.setdiff1d(active, [leader, *reasons])
        leaders = np.full(len(rivals), leader)
        behind = rivals[bounds.are_ahead(leaders, rivals, 0, 0.0, error)]
        reasons |= dict.fromkeys(behind.tolist(), WORSE)
    return reasons


def _dominated(
    bounds: Bounds, arms: Int[Ints, " some"], feasible: Int[Ints, " few"], error: float
) -> list[int]:
    """The arms that certainly are dominated. Each is compared with the feasible arm that leads it by most.

    Dominated: at least as bad in every objective, and worse in one.
    """
    columns = range(len(bounds.problem.goal.objectives))
    means = bounds.scores.means[arms, : len(columns)]
    over = _most_dominating(means, np.isin(arms, feasible))
    rivals, arms = arms[over[over >= 0]], arms[over >= 0]
    at_least_as_bad = np.ones(len(arms), dtype=bool)
    for q in columns:
        at = np.flatnonzero(at_least_as_bad)
        at_least_as_bad[at] = bounds.are_ahead(
            rivals[at], arms[at], q, 0.0, error, or_equal=True
        )
    worse_somewhere = np.zeros(len(arms), dtype=bool)
    for q in columns:
        at = np.flatnonzero(at_least_as_bad & ~worse_somewhere)
        worse_somewhere[at] = bounds.are_ahead(rivals[at], arms[at], q, 0.0, error)
    dominated: list[int] = arms[at_least_as_bad & worse_somewhere].tolist()
    return dominated


def _most_dominating(
    means: Float[Floats, "some objectives"], may: Bool[Bools, " some"]
) -> Int[Ints, " some"]:
    """The position of the arm that leads by most in every objective at once, -1 if none leads.

    Only arms where `may` is True are considered. The lead in the worst objective
    decides.
    """
    dominating = np.full(len(means), -1, dtype=np.int64)
    for j, row in enumerate(means):
        lead = (means - row).min(axis=1)
        lead[j], lead[~may] = -np.inf, -np.inf
        best = int(lead.argmax())
        if lead[best] >= -(10.0**-_DECIMALS) * (1.0 + np.abs(row).max()):
            dominating[j] = best
    return dominating


# The selection of `Adaptive(confidence=...)`


def unproven(
    state: State,
    answer: list[int],
    means: Float[Floats, "arms metrics"],
    error: float,
) -> Int[Ints, " open"]:
    """The arms on either side of every open claim. Empty: the selected arms, `answer`, are established.

    Under (i) to (iii), an established selection is wrong, in the sense of
    `asktell.posterior.membership.settled`, with a probability of at most `error` over
    all looks. `means` decide only which claims are tried first.
    """
    goal, rivals = state.problem.goal, np.setdiff1d(state.active, answer)
    bounds = _cautious_bounds(state)
    if not isinstance(goal, BestFeasible):
        values = goal.values(means, goal.offsets)
        members = np.array(answer, dtype=np.int64)
        return _unproven_front(bounds, members, rivals, values, error)
    errors = errors_of_best(bounds, error)
    if not errors.race:
        return _unproven_best(bounds, answer[0], rivals, error)
    left = np.setdiff1d(rivals, lost_race(state, bounds, errors.race))
    best = np.full(len(left), answer[0])
    least = -float(goal.value_tolerances[0])
    near = bounds.are_ahead(best, left, 0, least, errors.claim, or_equal=True)
    return left[:0] if near.all() else np.union1d(left[~near], answer)


def _cautious_bounds(state: State) -> Bounds:
    """Bounds from the first examples of each arm, up to the first one without a score or failure."""
    problem = state.seen
    if problem.examples.population is None:
        reach, out = first_out(state), None
    else:
        reach, out = None, state.plan.in_progress
    scores = OrderedScores.of(problem, state.history, state.missing, reach, out)
    limits = limits_if_few(problem.goal, scores.first.values)
    return Bounds(scores, limits, tuple(state.left.no_rivals()), is_cautious=True)


def _unproven_best(
    bounds: Bounds,
    best: int,
    rivals: Int[Ints, " rivals"],
    error: float,
) -> Int[Ints, " open"]:
    """The arms with open claims about the best feasible arm.

    The selection is wrong only if the selected arm violates a constraint, or if another
    feasible arm is better, by more than the tolerance. In either case one of the claims
    below is false.
    """
    goal, n_arms = bounds.problem.goal, bounds.problem.n_arms
    tolerance = float(goal.value_tolerances[0])
    n_constraints = len(goal.constraints)
    part = error / 2 if n_constraints else error
    of_rival = part / max(1, len(rivals) + n_misses(goal, n_arms))
    n_of_best = (len(rivals) + 1) * n_constraints + _n_skips(goal, n_arms)
    of_best = part / max(1, n_of_best)
    open_ = {
        rival
        for rival in rivals.tolist()
        if not bounds.lead_is_at_most(rival, best, 0, tolerance, of_rival)
        and not _misses(bounds, rival, of_rival)
    }
    if open_ or not _keeps(bounds, best, of_best):
        open_ |= {best} | _undecided(bounds, [best], of_best)
    return np.array(sorted(open_), dtype=np.int64)


def _unproven_front(
    bounds: Bounds,
    members: Int[Ints, " members"],
    rivals: Int[Ints, " rivals"],
    values: Float[Floats, "arms columns"],
    error: float,
) -> Int[Ints, " open"]:
    """The arms with open claims about the Pareto set.

    These claims share the `error`: any two arms, either way and in all objectives, and
    any arm with any constraint. An arm either satisfies a constraint within the
    tolerance or violates it, so only one of the two claims can be false.
    """
    goal, everyone = bounds.problem.goal, np.union1d(members, rivals)
    tolerances = goal.value_tolerances.tolist()
    columns = range(len(goal.objectives))
    values = values[:, : len(columns)]
    n_of_arm = (len(everyone) - 1) * len(columns)
    n_of_arm += n_misses(goal, bounds.problem.n_arms)
    error_of_claim = error / max(1, len(everyone) * n_of_arm)
    infeasible = {
        rival for rival in rivals.tolist() if _misses(bounds, rival, error_of_claim)
    }
    possible = set(rivals.tolist()) - infeasible
    open_ = {m for m in members.tolist() if not _keeps(bounds, m, error_of_claim)}
    # Each feasible rival must be covered: a member is at least as good in every
    # objective, up to the tolerances.
    for rival in sorted(possible):
        behind = (values[rival] - values[members]).max(axis=1)
        likely = members[np.argsort(behind, kind="stable")[:TRIED]].tolist()
        if not any(_covers(bounds, member, rival, error_of_claim) for member in likely):
            open_ |= {rival, likely[0]}
    # Each member must belong: no other arm dominates it, or the other arm is no better
    # by more than the tolerances.
    for member in members.tolist():
        for arm in sorted((possible | set(members.tolist())) - {member}):
            # The objective in which the other arm is likeliest to be behind comes first.
            by_lead = np.argsort(values[arm] - values[member], kind="stable")
            is_behind = any(
                bounds.lead_is_at_most(
                    arm, member, int(k), tolerances[k] or -1e-9, error_of_claim
                )
                for k in by_lead
            )
            if not is_behind and not _covers(bounds, member, arm, error_of_claim):
                open_ |= {member, arm}
    if open_:
        open_ |= _undecided(bounds, members.tolist(), error_of_claim)
    return np.array(sorted(open_), dtype=np.int64)


def _covers(bounds: Bounds, arm: int, other: int, error: float) -> bool:
    """True if the other arm certainly leads by at most the tolerance in every objective."""
    goal = bounds.problem.goal
    tolerances = goal.value_tolerances[: len(goal.objectives)].tolist()
    return all(
        bounds.lead_is_at_most(other, arm, k, tolerance, error)
        for k, tolerance in enumerate(tolerances)
    )


def _keeps(bounds: Bounds, arm: int, error: float) -> bool:
    """True if an arm certainly satisfies each constraint, up to its tolerance."""
    goal = bounds.problem.goal
    least = (-goal.value_tolerances).tolist()
    return all(satisfies(bounds, arm, k, error, least[k]) for k in slacks_of(goal))


def _misses(bounds: Bounds, arm: int, error: float) -> bool:
    """True if an arm certainly violates one of the constraints."""
    columns = slacks_of(bounds.problem.goal)
    return any(violates(bounds, arm, k, error) for k in columns)


def _undecided(bounds: Bounds, arms: list[int], error: float) -> set[int]:
    """The arms whose further scores may help to decide the relative constraints of `arms`."""
    useful = references(bounds) if arms else set()
    goal = bounds.problem.goal
    least = (-goal.value_tolerances).tolist()
    for column in slacks_of(goal):
        if _bound(bounds, column).of is not None:
            for arm in arms:
                useful.update(_in_the_way(bounds, arm, column, error, least[column]))
    return useful
