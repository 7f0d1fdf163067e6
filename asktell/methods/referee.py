"""Referee: candidates arrive one by one, and each is accepted only if it is established to be better.

The *incumbent* is the prompt in use: the baseline at first, then the candidate that was
accepted last. Candidates are compared with it one after another, in the order in which
they arrived, on the same first examples of the shared order
(`asktell.proofs.against.standing_against`). The incumbent keeps its scores, and is only
evaluated on examples on which it has none.

The promise
-----------

A candidate is accepted *falsely* if it is not better than the incumbent by more than
the tolerance, or if it violates a constraint. However many candidates arrive, however
often the scores are looked at, and whenever the loop ends, the probability of at least
one false acceptance is at most 1 - `confidence`.

Premises. (i) to (iii) of `asktell.proofs.claims` hold. In addition, (iv) a new
candidate may depend on which candidates were accepted before it, but on nothing else
about these examples and their scores. In particular, it may be written from the
incumbent, and from its failures on *other* examples. It is written once all before it
are judged, or together with those that wait, so that the moment tells nothing either.

Proof. Consider candidate i (1, 2, ... in order of arrival), and let h be the set of
those candidates before it that were accepted. By (iv), the text of candidate i follows
from h, and so does the incumbent, apart from randomness that is independent of the
scores. So for each i and each h there is one comparison, which is fixed before any
score is known. The loop makes some of these comparisons, and the scores decide which.
The comparison (i, h) has the error

    e(i, h) = (1 - confidence) * 6 / (pi^2 i^2) * 2^-(k + 1) / C(i - 1, k),   k = |h|.

There are C(i - 1, k) sets h of k candidates, so the errors of candidate i sum to at
most (1 - confidence) * 6 / (pi^2 i^2), and those of all candidates to at most
1 - confidence, because the sum of 1 / i^2 is pi^2 / 6.

Fix a comparison (i, h) for which an acceptance is false. Then at least one of the
statements that an acceptance needs is false: the lead over the incumbent is above the
tolerance, or a constraint is satisfied. Choose one such statement. All statements must
be established for an acceptance, each at the error e(i, h), so this one must be, too.
Its confidence sequence establishes it at some look with probability e(i, h) at most.
The statements therefore need no correction for each other. The union bound over all
comparisons (i, h), made or not, gives the promise.

Why the error depends on h: the incumbent was chosen by scores on the same examples, and
so was every candidate that was written from it. With 6 / (pi^2 i^2) alone, the proof
would hold for a list of candidates that are all compared with one baseline. The factor
is 1/2 until the first acceptance. That takes about a tenth more evaluations, because
these grow with the logarithm of 1 / e.

Rejections are not part of the promise. A rejection is wrong with probability at most
1 - `confidence`, for each candidate alone.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, lgamma, log, pi, sqrt
from statistics import NormalDist
from typing import final

import numpy as np

from asktell.errors import IncompatibleMethodError
from asktell.methods.base import AbstractMethod, check_not_sure
from asktell.methods.race import unused_turns
from asktell.numerics.arrays import Floats
from asktell.numerics.shapes import Float
from asktell.problem.checks import MOST_EXAMPLES, check_part, whole
from asktell.problem.goals import BestFeasible
from asktell.problem.problem import Problem
from asktell.proofs.against import standing_against
from asktell.proofs.bounds import ROUNDING
from asktell.proofs.ordered import OrderedScores, first_out
from asktell.record import Decided, Departure, State

# The number of examples between two looks at the scores.
BLOCK = 10

# A candidate is given up as soon as its chance to be accepted by the rest of its
# evaluations is below this. A judgement: equal candidates then take a fifth of their
# evaluations, and true improvements are lost about as rarely (`benchmarks.selection.nights`).
LEAST_CHANCE = 0.05
# The number of pairs before which no candidate is given up.
SOONEST = 20
# Log wealth that a betting sequence needs beyond log(1 / error), because its first bets
# are not the best ones. By simulation.
_START = 0.8

# A confidence is a number below 1, so smaller errors cannot be stated. Comparisons with
# a smaller error are so rare that all of them together stay below rounding.
_SMALLEST_ERROR = 1e-15


@final
@dataclass(frozen=True)
class Referee(AbstractMethod):
    """Judge candidates one by one. Accept a candidate only if it is established to be better than the incumbent.

    The incumbent is the baseline at first, and then the candidate that was accepted
    last. Candidates join by `add` at any time, and are judged in the order in which
    they joined. Each of them ends with one of these statuses:

    - "accepted": established to be better than the incumbent by more than the goal's
      tolerance, and to satisfy every constraint. It becomes the incumbent.
    - "rejected": established not to be better by more than the tolerance, or to violate
      a constraint.
    - "undecided": neither was established by its `each` evaluations. A candidate is
      undecided earlier if the rest of its evaluations would establish that it is better
      with a chance of under 5%, judged by its scores so far.

    The result selects the incumbent. The method "referee" is `Referee()`.

        >>> import asktell
        >>> goal = asktell.BestFeasible(asktell.maximize("accuracy", range=(0, 1)))
        >>> selector = asktell.Selector(
        ...     {"v1": "Answer."}, goal, budget=1000, method="referee", baseline="v1", examples=300
        ... )
        >>> selector.add({"v2": "Think first. Then answer."})
        ['v2']
        >>> result = asktell.run(selector, lambda prompt, example: float("Think" in prompt), progress=False)
        >>> result.best.id, result.prompts[1].status
        ('v2', 'accepted')

    Args:
        confidence: The probability that no candidate is ever accepted falsely, over the
            whole selection.
        each: The largest number of evaluations of a candidate. The incumbent is
            evaluated on the same examples, but never twice on the same.

    The confidence is guaranteed, however many candidates join and however often the
    scores are looked at, if

    - the goal has a range for every metric (`asktell.maximize("accuracy", range=(0,
      1))`),
    - the evaluated model does not change, and
    - candidates are not written from the scores on these examples. They may be written
      from the incumbent, and from its failures on other examples.

    An evaluation that failed counts as the worst possible score of a candidate, and as
    the best possible score of the incumbent.

    Of a goal with constraints, a candidate must satisfy each constraint without its
    tolerance. A constraint `asktell.within(...)` must have `of="baseline"`. It compares
    with the baseline, not with the incumbent.
    """

    confidence: float = 0.95
    each: int = 200
    has_rounds = False
    selects_by_estimates = False

    def __post_init__(self) -> None:
        """Validate the parameters.

        Raises:
            InvalidArgumentError: a parameter is out of range.
        """
        vars(self).update(
            confidence=check_part("confidence of Referee", self.confidence),
            each=whole("each of Referee", self.each, 1, MOST_EXAMPLES),
        )

    def check(self, problem: Problem) -> None:
        """Check that there is a baseline, and that the goal has a single best prompt.

        Args:
            problem: the settings of the selection, such as prompts, goal and budget.

        Raises:
            IncompatibleMethodError: there is no baseline, or the goal is a `ParetoSet`,
                has `sure` or uses segments, or a constraint is relative to the best
                prompt.
        """
        goal = problem.goal
        if not isinstance(goal, BestFeasible):
            raise IncompatibleMethodError(
                "The method 'referee' accepts a candidate that is better in one metric, so its goal must be a "
                f"BestFeasible, got a {type(goal).__name__}. Make the other metrics constraints, or use method='auto'."
            )
        check_not_sure(goal, "Referee")
        goal.check_over_all_examples("Referee")
        pairs = zip(goal.constraints, goal.bounds, strict=True)
        relative = next((str(c) for c, bound in pairs if bound.is_of_best), None)
        if relative is not None:
            raise IncompatibleMethodError(
                f"The constraint {relative!r} compares with the best of all prompts, but the method 'referee' "
                'evaluates only two at a time. Use asktell.within(..., of="baseline"), in a file '
                "'within X of baseline'."
            )
        if problem.baseline is None:
            raise IncompatibleMethodError(
                "The method 'referee' needs to know the prompt in use, with which it compares candidates. Pass its id "
                "or text: Selector(..., baseline=ID), in a file baseline = ID."
            )

    def due(self, state: State) -> bool:
        """Return True if the plan is used up and more can be planned, or if no more scores can come.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        return super().due(state) or (
            state.plan_is_empty and bool(self._cells(state)[0])
        )

    def decide(self, state: State) -> Decided:
        """Return the next decision.

        It decides about the candidate that has waited longest, or plans the next
        evaluations for it. Without such a candidate, or without budget, it ends the
        selection with the incumbent as its answer. Each decision has the incumbent
        after it as its `answer`.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        number, incumbent = len(state.decisions), incumbent_of(state)
        candidate = self._candidate(state)
        if candidate is None:
            return self._finish(state)
        departure = self._judged(state, candidate)
        cells: tuple[tuple[int, int], ...] = ()
        if departure is None:
            cells, is_used_up = self._cells(state)
            why = "not established by its evaluations, which are used up"
            if cells and self._chance(state, candidate) < LEAST_CHANCE:
                cells, is_used_up = (), True
                why = "more evaluations would hardly establish that it is better"
            if not cells and not is_used_up:
                return self._finish(state)
            if not cells:
                departure = _departure(state, candidate, "undecided", why)
        if departure is None:
            return Decided(number, plan=cells, answer=(incumbent,))
        if departure.status == "accepted":
            incumbent = candidate
        return Decided(number, (departure,), plan=(), answer=(incumbent,))

    def answer(self, state: State) -> list[int]:
        """Return the position of the incumbent.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        return [incumbent_of(state)]

    def ended_by_scores(self, state: State) -> bool:
        """Return True if a candidate was judged, because the scores decided when.

        Args:
            state: the state of the finished selection.
        """
        return any(decided.departures for _, decided in state.decisions[:-1])

    def claim(self, state: State) -> str:
        """Return that every accepted candidate is better than the incumbent of its time. Empty if none was accepted.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        if not _accepted(state):
            return ""
        goal = state.problem.goal
        better = f"better{_by_more_than(float(goal.value_tolerances[0]))}"
        ends = ", and satisfies every constraint" * goal.is_constrained
        return f"every accepted candidate is {better} than the prompt that it replaced{ends}"

    def reason(
        self, state: State, departure: Departure, name: Callable[[int], str]
    ) -> str:
        """Return why a candidate has left, with the incumbent of that time.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
            departure: what was recorded when the candidate left.
            name: returns how sentences name the prompt at a position.
        """
        number, _ = state.left[departure.arm]
        # Others were retired, or have failed too often
        if number == len(state.decisions) or departure not in _verdicts(
            state.decisions[number][1]
        ):
            return departure.reason
        # A verdict needs scores, so it is not the first decision
        incumbent = state.decisions[number - 1][1].answer[0]
        return f"{departure.reason} (compared with {name(incumbent)})"

    def notes(self, state: State, name: Callable[[int], str]) -> tuple[str, ...]:
        """Return how the candidates ended, and which prompts were incumbents, in two sentences.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
            name: returns how sentences name the prompt at a position.
        """
        baseline, notes = state.problem.baseline, super().notes(state, name)
        assert baseline is not None, "check() refuses selections without a baseline"
        ends = Counter(
            state.left[arm][1].status if arm in state.left else "not judged yet"
            for arm in range(state.problem.n_arms)
            if arm != baseline
        )
        if not any(_verdicts(decided) for _, decided in state.decisions):
            return notes
        n = ends.total()
        of_all = ", ".join(f"{number} {end}" for end, number in sorted(ends.items()))
        in_turn = ", then ".join(name(arm) for arm in (baseline, *_accepted(state)))
        of_candidates = (
            f"{n} candidate{'s' * (n != 1)}: {of_all}. The incumbent was {in_turn}."
        )
        return (*notes, of_candidates)

    def error(self, number: int, n_accepted: int) -> float:
        """Return the probability with which a candidate may be accepted falsely. See the proof above.

        Args:
            number: the number of the candidate, from 1, in order of arrival.
            n_accepted: how many candidates before it were accepted.
        """
        of_candidate = (1.0 - self.confidence) * 6.0 / (pi * number) ** 2
        # As a logarithm, because the number of histories soon exceeds every float
        n, k = number - 1, n_accepted
        log_comb = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
        of_history = exp(-(k + 1) * log(2.0) - log_comb)
        return max(of_candidate * of_history, _SMALLEST_ERROR)

    def _candidate(self, state: State) -> int | None:
        """The arm that has waited longest for a decision. None if no candidate waits."""
        waiting = state.active[state.active != state.problem.baseline]
        return int(waiting[0]) if len(waiting) else None

    def _judged(self, state: State, candidate: int) -> Departure | None:
        """The departure of a candidate that is accepted or rejected by the scores so far. None: neither."""
        if not state.told[candidate]:
            return None
        goal, incumbent = state.problem.goal, incumbent_of(state)
        metric = goal.objectives[0].metric
        # More than the tolerance: prompts with the same scores everywhere are not
        # better. A multiple of the rounding, so that it survives it.
        tolerance = float(goal.value_tolerances[0])
        margin = -tolerance - 10.0 * ROUNDING * (1.0 + tolerance)
        names = [metric, *map(str, goal.constraints)]
        claims = standing_against(state, candidate, incumbent, margin, self.confidence)
        for name in names:
            if claims[name] is False:
                why = (
                    f"established not to be better{_by_more_than(tolerance)}"
                    if name == metric
                    else f"established to violate {name}"
                )
                return _departure(state, candidate, "rejected", why)
        # What is not established at this error is not at a smaller one.
        if not all(claims[name] for name in names):
            return None
        confidence = 1.0 - self._error(state, candidate)
        claims = standing_against(state, candidate, incumbent, margin, confidence)
        if not all(claims[name] for name in names):
            return None
        why = f"established to be better{_by_more_than(tolerance)}"
        return _departure(state, candidate, "accepted", why)

    def _error(self, state: State, candidate: int) -> float:
        """The error of the comparison of a candidate with the incumbent."""
        baseline = state.problem.baseline
        assert baseline is not None, "check() refuses selections without a baseline"
        number = candidate + (candidate < baseline)
        return self.error(number, len(_accepted(state)))

    def _chance(self, state: State, candidate: int) -> float:
        """About the probability that the rest of a candidate's evaluations establishes that it is better."""
        problem = state.problem
        pair = {candidate, incumbent_of(state)}
        reach = first_out(state, set(state.left) - pair)
        scores = OrderedScores.of(problem, state.history, state.missing, reach)
        leads = scores.leads(candidate, incumbent_of(state), 0)
        if len(leads) < SOONEST:
            return 1.0
        values = scores.first.values[:, 0]
        tolerance = float(problem.goal.value_tolerances[0])
        most = min(self.each, problem.examples.most_pulls or self.each)
        if problem.examples.target is None and problem.examples.population is not None:
            # Repeats of an example are one lead, their mean
            most = min(most, problem.examples.population)
        # Once every given example was seen, the lead is known exactly.
        error = (
            1.0
            if most == problem.examples.exhausted_at
            else self._error(state, candidate)
        )
        return chance(leads - tolerance, most, error, float(np.ptp(values)))

    def _cells(self, state: State) -> tuple[tuple[tuple[int, int], ...], bool]:
        """The next evaluations for the candidate that has waited longest, and whether its evaluations are used up.

        Without evaluations although these are not used up, the budget is spent.
        """
        candidate = self._candidate(state)
        if candidate is None:
            return (), False
        examples, goal = state.problem.examples, state.problem.goal
        arms = [candidate, incumbent_of(state)]
        baseline = goal.baseline
        if goal.is_relative and baseline is not None and baseline not in arms:
            arms.append(baseline)
        most = min(self.each, examples.most_pulls or self.each)
        missing = _missing(state, arms, most)
        is_too_dear = not state.pending and not all(map(state.fits, arms))
        if not missing or is_too_dear:
            return (), not missing
        return tuple(missing[: state.room]), False

    def _finish(self, state: State) -> Decided:
        """The last decision. Candidates that the budget did not reach stay active, so that `extend` continues them."""
        incumbent = incumbent_of(state)
        departures: tuple[Departure, ...] = ()
        if incumbent not in state.left:
            departures = (_departure(state, incumbent, "accepted", "the incumbent"),)
        number = len(state.decisions)
        return Decided(number, departures, finished=True, answer=(incumbent,))


def incumbent_of(state: State) -> int:
    """The position of the incumbent: the candidate that was accepted last, or else the baseline."""
    if state.decisions:
        return state.decisions[-1][1].answer[0]
    baseline = state.problem.baseline
    assert baseline is not None, "check() refuses selections without a baseline"
    return baseline


def _verdicts(decided: Decided) -> tuple[Departure, ...]:
    """The departures of candidates in a decision. Empty in the last one, in which only the incumbent departs."""
    return () if decided.finished else decided.departures


def _accepted(state: State) -> list[int]:
    """The candidates that were accepted, in this order."""
    return [
        departure.arm
        for _, decided in state.decisions
        for departure in _verdicts(decided)
        if departure.status == "accepted"
    ]


def chance(leads: Float[Floats, " n"], most: int, error: float, widest: float) -> float:
    """About the probability that the mean of `most` leads is certainly above 0 at an error, after the first n of them.

    The leads to come are taken for draws from a Gaussian with the mean and the spread
    of those so far. Only the decision to give up a candidate uses this.

    Args:
        leads: the leads so far, less the tolerance.
        most: the number of leads at the end, at least n.
        error: the error of the confidence sequence. 1: the mean is known exactly at the
            end.
        widest: the largest lead that is possible. One more pair of such a lead counts
            in the spread, because leads that all agree do not show how far others may
            be off.
    """
    n, mean = len(leads), float(leads.mean())
    if n >= most or not widest:
        return float(mean > 0)
    variance = (float(((leads - mean) ** 2).sum()) + widest**2) / (n + 1)
    evidence = -log(error) + _START if error < 1.0 else 0.0
    needed = sqrt(2.0 * variance * evidence / most)
    deviation = sqrt(variance * (1.0 / n - 1.0 / most))
    return NormalDist().cdf((mean - needed) / deviation)


def _missing(state: State, arms: list[int], most: int) -> list[tuple[int, int]]:
    """The next evaluations of the arms: a block of examples on which one of them was not evaluated: (arm, example).

    Each arm takes the first `most` examples, in the order of all evaluations.
    """
    examples, of_arms = state.problem.examples, np.array(arms)
    shared = examples.population is not None
    drawn = state.used_pulls() if shared else state.plan.draws
    # An arm has a turn left among as many turns as it had, and one more
    fewest = int(drawn[of_arms].min())
    reach = min(most, fewest // BLOCK * BLOCK + BLOCK)
    if shared:
        turns, rows = unused_turns(state, of_arms, reach)
    else:
        turns, rows = np.nonzero(np.arange(reach)[:, None] >= drawn[of_arms])
    if not len(turns):
        return []
    is_next = turns < turns[0] // BLOCK * BLOCK + BLOCK
    turns, of_cells = turns[is_next], of_arms[rows[is_next]]
    drawn_examples = (
        examples.order[turns % len(examples.order)]
        if shared
        else examples.draw(of_cells, turns)
    )
    return list(zip(of_cells.tolist(), drawn_examples.tolist(), strict=True))


def _departure(state: State, arm: int, status: str, reason: str) -> Departure:
    """The record of an arm, with its sample means."""
    tally = state.current_tally()
    estimate = None
    if tally.counts[arm] > 0:
        errors = tally.standard_errors(state.problem.examples.target)
        estimate = tally.means[arm], errors[arm]
    departure = Departure.of(arm, status == "accepted", reason, estimate)
    return (
        departure._replace(status="undecided") if status == "undecided" else departure
    )


def _by_more_than(tolerance: float) -> str:
    return f" by more than {tolerance:g}" if tolerance else ""
