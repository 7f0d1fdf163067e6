"""From joint draws of all prompts' values to probabilities, and to the selection of the highest expected quality.

`values` are (S, K, q) draws, larger is better. The first columns are objectives (one
for the best feasible prompt), and the others are slacks. Under constraints prompts are
compared by constraint domination (Deb et al. 2002): a feasible prompt is better than an
infeasible prompt, a less violating one among infeasible prompts, and a dominating one
among feasible prompts.
"""

import numpy as np

from asktell.numerics import counters
from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.pareto import fronts, pareto_mask
from asktell.numerics.shapes import Bool, Float, Int

# Numbers of draws, prompts and points for the expected F1 and hypervolume of a set, by
# the time that a result may take.
_SET_DRAWS, _CANDIDATES, _POINTS = 64, 128, 128
# Least probability of a prompt that may be selected: one of 64 draws
_LEAST_PROBABILITY = 0.02
_BLOCK = 1 << 14  # numbers at a time, so that they stay in the processor's cache


def feasible(
    values: Float[Floats, "draws arms values"], n_objectives: int = 1
) -> Bool[Bools, "draws arms"]:
    """True where every constraint is satisfied."""
    return least_slack(values, n_objectives) >= 0


def least_slack(
    values: Float[Floats, "draws arms values"], n_objectives: int = 1
) -> Float[Floats, "draws arms"]:
    """The least of the slacks, 0 without constraints. Computed by columns, since there are few."""
    if values.shape[2] == n_objectives:
        return np.zeros(values.shape[:2])
    least = values[:, :, n_objectives]
    for k in range(n_objectives + 1, values.shape[2]):
        least = np.minimum(least, values[:, :, k])
    return least


def standing(
    values: Float[Floats, "draws arms values"], n_objectives: int
) -> Float[Floats, "draws arms standing"]:
    """Values whose dominance is the prompts' constraint domination. Without constraints, the objectives.

    Objectives of feasible prompts are shifted to 0 and above. Every value of an
    infeasible prompt is minus its violation.
    """
    objectives = values[:, :, :n_objectives]
    if values.shape[2] == n_objectives:
        return objectives
    slack = least_slack(values, n_objectives)[:, :, None]
    return np.where(
        slack < 0, slack, objectives - objectives.min(axis=1, keepdims=True)
    )


def merit(values: Float[Floats, "draws arms values"]) -> Float[Floats, "draws arms"]:
    """The merit as the best feasible prompt, larger is better. Feasible prompts are above 0, others below."""
    slack, objective = least_slack(values), values[:, :, 0]
    low, high = objective.min(), objective.max()
    result = objective - low
    result /= max(high - low, 1e-300)
    result += 1.0
    return np.asarray(np.where(slack < 0, slack, result))


def ranking(merits: Float[Floats, "draws arms"]) -> Int[Ints, "draws 2"]:
    """The best prompt of every draw and the runner-up, by merit. Among equals, the first."""
    first, rows = merits.argmax(axis=1), np.arange(len(merits))
    top = merits[rows, first]
    merits[rows, first] = -np.inf
    second = merits.argmax(axis=1)
    merits[rows, first] = top
    return np.stack((first, second), axis=1)


def quality(values: Float[Floats, "draws arms values"]) -> Float[Floats, "draws arms"]:
    """The quality of each prompt as the best feasible prompt.

    It is 1 for the best prompt, and 0 for prompts at or below the median, or
    infeasible.

    In a draw without a feasible prompt, violations are judged in the same way.
    """
    slack = least_slack(values)
    keeps = slack >= 0
    counts = keeps.sum(axis=1)
    none = counts == 0
    objective = np.where(keeps, values[:, :, 0], -np.inf)
    if none.any():
        objective[none] = np.minimum(0.0, slack[none])
        counts[none] = values.shape[1]
    best = objective.max(axis=1, keepdims=True)
    most = best - _median_of_last(objective, counts)
    part = np.subtract(best, objective, out=objective)
    # The median may equal the best or nearly so. The other prompts are then at or below
    # the median.
    with np.errstate(over="ignore"):
        part /= np.maximum(most, np.finfo(np.float64).smallest_subnormal)
    np.minimum(part, 1.0, out=part)
    return np.asarray(np.subtract(1.0, part, out=part))


def _median_of_last(
    rows: Float[Floats, "draws arms"], counts: Int[Ints, " draws"]
) -> Float[Floats, "draws 1"]:
    """The median of the `counts` largest numbers of each row."""
    n = rows.shape[1]
    if (counts == n).all():
        middle = (n - 1) // 2, n // 2
        ordered = np.partition(rows, middle, axis=1)
        return np.asarray(
            0.5 * (ordered[:, middle[0], None] + ordered[:, middle[1], None])
        )
    ordered, counts = np.sort(rows, axis=1), counts[:, None]
    lower, upper = (
        np.take_along_axis(ordered, n - counts + at, axis=1)
        for at in ((counts - 1) // 2, counts // 2)
    )
    return np.asarray(0.5 * (lower + upper))


def pareto_members(
    values: Float[Floats, "draws arms values"],
) -> Bool[Bools, "draws arms"]:
    """True for the prompts that are Pareto-optimal in each draw."""
    if values.shape[2] != 2:
        return np.array([pareto_mask(v) for v in values])
    first, second = values[:, :, 0], values[:, :, 1]
    # Most prompts are behind the prompt of the highest sum in both columns. Only the
    # others are sorted.
    width = float(np.ptp(first)) or 1.0, float(np.ptp(second)) or 1.0
    best = (first / width[0] + second / width[1]).argmax(axis=1)[:, None]
    ahead = first >= np.take_along_axis(first, best, 1)
    ahead |= second >= np.take_along_axis(second, best, 1)
    rows, columns = np.nonzero(ahead)
    counts = ahead.sum(axis=1)
    places = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    contenders = np.full((2, len(values), int(counts.max(initial=0))), -np.inf)
    contenders[:, rows, places] = first[rows, columns], second[rows, columns]
    members: Bool[Bools, "draws arms"] = np.zeros(ahead.shape, dtype=bool)
    members[rows, columns] = fronts(*contenders)[rows, places]
    return members


def best_set(
    values: Float[Floats, "draws arms values"],
    members: Bool[Bools, "draws arms"],
    seed: int,
    n_objectives: int | None = None,
) -> Int[Ints, " chosen"]:
    """The likeliest members, as many as give the highest expected quality: F1 and relative hypervolume in equal parts.

    So no selected prompt is less likely to be in the set than a prompt that is not
    selected. The hypervolume of a draw is measured by random points of the box that its
    feasible prompts span (where none is feasible, by violations), as the share of the
    points below its Pareto set that the selected prompts dominate. More prompts never
    lower it, and F1 keeps the set small. Columns from `n_objectives` on are slacks.
    """
    probability = members.mean(axis=0)
    candidates = np.argsort(-probability, kind="stable")[:_CANDIDATES]
    candidates = candidates[probability[candidates] >= 0.5 * _LEAST_PROBABILITY]
    n_draws = min(len(values), _SET_DRAWS)
    values, members = values[:n_draws], members[:n_draws]
    some: Bool[Bools, "draws candidates"] = np.zeros((n_draws, 1), dtype=bool)
    if n_objectives is not None and n_objectives < values.shape[2]:
        some = np.asarray(feasible(values, n_objectives).any(axis=1, keepdims=True))
        values = standing(values, n_objectives)
    # Where a prompt is feasible, infeasible ones are below 0, and feasible ones not.
    low = np.where(some[:, :, None] & (values < 0), np.inf, values).min(axis=1)
    # (S, C, P) by the first c + 1
    covers = np.maximum.accumulate(coverage(values, candidates, low, seed), axis=1)
    below = np.maximum(covers[:, -1].sum(axis=1, keepdims=True), 1)
    hits = members[:, candidates].cumsum(axis=1)
    f1 = (
        2.0
        * hits
        / (np.arange(1, len(candidates) + 1) + members.sum(axis=1, keepdims=True))
    )
    best = int((f1 + covers.sum(axis=2) / below).mean(axis=0).argmax())
    answer: Int[Ints, " chosen"] = candidates[: best + 1]
    return answer


def coverage(
    values: Float[Floats, "draws arms values"],
    candidates: Int[Ints, " candidates"],
    low: Float[Floats, "draws values"],
    seed: int,
) -> Bool[Bools, "draws candidates points"]:
    """True where a candidate dominates a random point, of P points from `low` (S, p) to the draw's maxima."""
    high = values.max(axis=1)
    n_draws, _, q = values.shape
    bits = counters.bits(
        seed, "hypervolume", np.arange(n_draws * _POINTS * q)
    ) >> np.uint64(11)
    part = bits.astype(np.float64).reshape(n_draws, _POINTS, q) / 2.0**53
    points = low[:, None] + part * (high - low)[:, None]
    result = np.ones((n_draws, len(candidates), _POINTS), dtype=bool)
    for k in range(q):
        result &= values[:, candidates, k][:, :, None] >= points[:, None, :, k]
    return result


def settled(
    values: Float[Floats, "draws arms values"],
    answer: Int[Ints, " chosen"],
    best_feasible: bool,
    tolerance: float | Float[Floats, " values"],
    n_objectives: int | None = None,
) -> Bool[Bools, " draws"]:
    """True for the draws in which the selection `answer` is right, within the tolerance of each value, in its units.

    Best feasible prompt: no feasible prompt is better by more than the tolerance, and
    no constraint is violated by more than its tolerance. If no prompt is feasible, no
    violation is smaller by more.

    Pareto set: every prompt outside is matched by a member that is worse by at most the
    tolerance in every value, and no member is dominated by a prompt that is better by
    more in every value. Under constraints (columns from `n_objectives` on) only
    feasible prompts have to be matched and can dominate, and no member violates a
    constraint by more than its tolerance. If no prompt is feasible, no violation is
    smaller than a member's by more.
    """
    tolerances = np.broadcast_to(tolerance, values.shape[2:])
    if best_feasible:
        keeps, best = feasible(values), int(answer[0])
        some = keeps.any(axis=1)
        rivals = np.where(keeps, values[:, :, 0], -np.inf).max(axis=1)
        close = _nearly_feasible(values, answer[:1], 1, tolerances)
        is_best = rivals <= values[:, best, 0] + tolerances[0]
        return np.asarray(close & (~some | is_best))
    p = values.shape[2] if n_objectives is None else n_objectives
    keeps = feasible(values, p)
    right = _nearly_feasible(values, answer, p, tolerances)
    tolerances = tolerances[:p]
    outside = np.setdiff1d(np.arange(values.shape[1]), answer)
    open_, values = keeps[:, outside], values[:, :, :p]
    undominated = np.ones(len(values), dtype=bool)
    for member in answer:
        own = values[:, [member]]
        open_ = open_ & np.any(values[:, outside] > own + tolerances, axis=2)
        ahead = values - own
        # Without a tolerance, equal values do not prevent dominance.
        is_ahead = np.where(tolerances > 0, ahead > tolerances, ahead >= 0)
        beats: Bool[Bools, "draws arms"] = np.all(is_ahead, axis=2)
        beats &= np.any(ahead > tolerances, axis=2)
        undominated &= ~np.any(beats & keeps, axis=1)
    return np.asarray(right & undominated & ~np.any(open_, axis=1))


def _nearly_feasible(
    values: Float[Floats, "draws arms values"],
    answer: Int[Ints, " chosen"],
    n_objectives: int,
    tolerances: Float[Floats, " values"],
) -> Bool[Bools, " draws"]:
    """True for the draws in which all of `answer` satisfy each constraint up to its tolerance.

    If no prompt is feasible, no violation is smaller by more than the tolerance.
    """
    if values.shape[2] == n_objectives:
        return np.ones(len(values), dtype=bool)
    least = np.maximum(0.0, -least_slack(values, n_objectives)).min(axis=1)
    allowed = least[:, None, None] + tolerances[n_objectives:]
    violations = -values[:, answer, n_objectives:]
    return np.asarray(np.all(violations <= allowed, axis=(1, 2)))
