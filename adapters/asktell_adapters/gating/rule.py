"""The rule of a gate: when a candidate is established to be worse than the baseline, or not worse."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from asktell import BestFeasible, InvalidArgumentError, ParetoSet, Selector
from asktell.extend import Goal, State, check_margin, not_worse, short
from asktell_adapters.gating.ruling import (
    FAILED,
    PASSED,
    UNDECIDED,
    more_or_wider,
    roughly,
)
from asktell_adapters.metrics import range_of

CANDIDATE, BASELINE = 0, 1
"""Positions of the two prompts in the study of a gate."""

_START, _START_NOISY = 0.8, 3.0
"""Log wealth that a betting sequence needs beyond log(1 / error), as its first bets are not optimal. By simulation."""

_LOOKS = 1.5
"""Growth factor of the pairs between two looks at noisy scores. See `asktell.proofs.intervals.noisy`."""


def pairs_for_equal(
    target: int | None, squares: float, margin: float, confidence: float, is_noisy: bool
) -> int | None:
    """Median number of pairs of evaluations, approximately, that pass a candidate as good as the baseline.

    A bet on the difference grows by margin² / (2 squares) per pair on average, in
    logarithms, and has to reach log(1 / error). With given examples and fixed scores,
    the pairs are drawn without replacement, so n pairs count as n / (1 - n / target).
    `python -m benchmarks.selection.unrepeatable --needed` compares this with simulated
    gates.

    Args:
        target: number of given examples that the verdict is about; None if it is about
            unseen inputs.
        squares: mean squared difference, with the metric's range as the unit.
        margin: accepted loss, with the metric's range as the unit.
        confidence: between 0 and 1.
        is_noisy: whether the examples are given, and a score may differ when its
            evaluation is repeated.

    Returns:
        None if no number suffices: with a margin of 0, unless every given example has a
        fixed score.
    """
    if not is_noisy:
        if margin == 0:
            return target
        wanted = 2 * squares * (math.log(1 / (1 - confidence)) + _START) / margin**2
        return math.ceil(wanted if target is None else wanted / (1 + wanted / target))
    if margin == 0:
        return None
    return math.ceil(
        _LOOKS
        * 2
        * squares
        * (math.log(1 / (1 - confidence)) + _START_NOISY)
        / margin**2
    )


@dataclass
class GateRule:
    """Decides whether a candidate is worse than a baseline, from scores and failures of both on the same examples.

    A pass is wrong with probability 1 - confidence at most, and so is a failure,
    however often `look` is called. No correction for several requirements is needed for
    a pass, which needs all of them: it is wrong only if one requirement that is
    violated seems satisfied. A failure needs one of them, and is corrected (see
    `not_worse`).
    """

    goal: Goal
    margin: float
    confidence: float
    verdicts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the margin and the confidence.

        Raises:
            InvalidArgumentError: the margin is as wide as the range of an objective, or
                the confidence is not above 0 and below 1.
        """
        # Before anything is paid
        if not 0 < self.confidence < 1:
            raise InvalidArgumentError(
                f"The confidence of a gate must be above 0 and below 1, got {short(self.confidence)}."
            )
        check_margin(self.goal, self.margin)

    def look(
        self,
        state: State,
        is_last: bool = True,
        pair: tuple[int, int] = (CANDIDATE, BASELINE),
    ) -> str:
        """The verdict so far. Also sets `verdicts`, by objective, constraint and "failure_rate".

        `pair` has the positions of the candidate and of the baseline. Pass
        `is_last=False` if more evaluations follow. Then `verdicts` ignores a drift of
        the scores until there is a verdict (see `not_worse`).
        """
        claims = not_worse(state, *pair, self.margin, self.confidence, is_last)
        words = {True: PASSED, False: FAILED, None: UNDECIDED}
        self.verdicts = {name: words[claim] for name, claim in claims.items()}
        if FAILED in self.verdicts.values():
            return FAILED
        return UNDECIDED if UNDECIDED in self.verdicts.values() else PASSED

    def pairs_for_equal(
        self, selector: Selector, squared_difference: float | None
    ) -> int | None:
        """About how many pairs of evaluations pass an equal candidate. See the function `pairs_for_equal`."""
        objective = self.goal.objectives[0]
        span = self.goal.ranges.get(objective.metric)
        if span is None or squared_difference is None:
            return None
        width = span[1] - span[0]
        problem = selector.state.problem
        squares, margin = squared_difference / width**2, self.margin / width
        return pairs_for_equal(
            problem.examples.target,
            squares,
            margin,
            self.confidence,
            problem.examples.rounds is not None,
        )


def beforehand(rule: GateRule, selector: Selector, differ: float) -> str:
    """How many evaluations the gate takes if both prompts are equally good, in one to three sentences.

    `differ` is the expected share of examples on which the two differ.
    """
    objective = rule.goal.objectives[0].metric
    if (span := rule.goal.ranges.get(objective)) is None:
        return (
            f"The range of {objective!r} is unknown, so the number of evaluations cannot be estimated. Set it by "
            "`ranges` in [goal]."
        )
    needed = rule.pairs_for_equal(selector, differ * (span[1] - span[0]) ** 2)
    problem = selector.state.problem
    if needed is None:
        why = (
            "Scores may differ when repeated"
            if problem.examples.target is not None
            else "The verdict is about unseen inputs"
        )
        return f"{why}, so the gate stays undecided for equal prompts unless there is a margin."
    pairs = selector.budget // 2
    # Repeats give no information on unseen inputs
    if problem.examples.target is None and problem.examples.population is not None:
        pairs = min(pairs, problem.examples.population)
    expected = (
        f"If both prompts are equally good and differ on {100 * differ:g}% of the examples (--differ), a pass takes "
        f"about {roughly(needed)} evaluations of each. The budget allows {pairs:,} of each."
    )
    return (
        f"{expected} Expect no verdict. {more_or_wider(rule.margin)}"
        if needed > pairs
        else expected
    )


def margin_for(goal: Goal, given: float | None) -> float:
    """The accepted loss: as given, else the tolerance of the objective.

    It is 0 without a tolerance. So it is with several objectives, which have different
    units.
    """
    if given is not None:
        return given
    objective, *more = goal.objectives
    return 0.0 if more else goal.tolerances.get(objective.metric, 0.0)


def ranged(goal: Goal, metrics: Mapping[str, object]) -> Goal:
    """The goal, with ranges that its metrics declare where it has none. Guaranteed intervals need the ranges."""
    spans = {
        name: goal.ranges.get(name) or range_of(metrics.get(name))
        for name in goal.metrics
    }
    objectives = [
        replace(objective, range=spans[objective.metric])
        for objective in goal.objectives
    ]
    constraints = [
        constraint
        if (span := spans.get(constraint.metric)) is None
        else replace(constraint, range=span, scale=span[1] - span[0])
        for constraint in goal.constraints
    ]
    if isinstance(goal, BestFeasible):
        return BestFeasible(objectives[0], constraints, goal.sure)
    return ParetoSet(*objectives, subject_to=constraints)
