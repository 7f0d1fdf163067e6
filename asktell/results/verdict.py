"""The verdict: the recommendation, its certainty, and the expected gain of more evaluations.

Everything that shows a result shows this verdict, and certainty is stated nowhere else.
Probabilities come from `asktell.posterior.statement`. They are about new inputs, or
with inputs="given" about the given examples.

The outlook is a preposterior calculation (Raiffa & Schlaifer 1961, chapter 5):

1. Take each joint draw of the posterior as the truth in turn.
2. Draw the means that more evaluations would lead to under that truth.
3. Select a prompt by these means, and compute its loss under that truth.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self, final

import numpy as np

from asktell._util.terminal import in_digits, in_percent, safe
from asktell.numerics.arrays import Draws, Indices, Mask, Masks, Matrix, Vector
from asktell.numerics.cached import cached_property
from asktell.posterior import membership
from asktell.posterior.statement import Statement
from asktell.problem.goals import Goal, ParetoSet
from asktell.record import FAILED, RETIRED, State
from asktell.results.difference import BETTER, Difference
from asktell.results.entries import capitalized, quoted

TAKE, EITHER, GO_ON, BEST, NONE = "take", "either", "go on", "best so far", "none"
SHIP, KEEP, NOT_DECIDED = "ship", "keep", "not decided"

# Probability of being good (see `Verdict.p_good`) from which a prompt is recommended. By
# the audit of the verdicts (docs/explanation/how-sure.md).
_GOOD = 0.9

# Probability that the best prompt is among the contenders, and that the loss is at most
# `loss_95`
_COVERED = 0.95
# Probability of satisfying every constraint from which a prompt may be taken
_LIKELY = 0.5
# Probability that some prompt satisfies every constraint: below it, the verdict is
# "none"
_NO_PROMPT = 0.05
# Examples before scores can show that no prompt is feasible, or that they do not separate
# prompts. Also evaluations per prompt before more of them can be said to change little
_FEWEST = 4
# Probability of being in the Pareto set from which a prompt that is not selected is a
# contender
_IN_SET = 0.05
_TOLERATED = 0.01  # of the metric's range: a smaller loss does not matter
# More evaluations are advised if they raise a probability by at least this number, or
# save a tolerance
_WORTHWHILE = 0.1
# Evaluations in the outlook, relative to the number spent. At most as many are advised:
# forecasts for more are rarely realized
_MORE = (0.5, 1.0, 2.0)
_ADVISED = 1.0
# Numbers of new examples to try, relative to the number of examples
_LARGER = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# Share of an evaluation's information that is about the prompt. The rest is about the
# example.
_TOLD = 0.5
# Of further evaluations in the outlook, since `auto` narrows its contenders over time
_STAGES = 3
# For a set's hypervolume: exact to 0.01 within a tenth of a second
_SET_DRAWS, _SET_ARMS = 64, 300
# Draws times prompts in a loss: a tenth of a second for a thousand prompts
_MOST_NUMBERS = 1 << 17
_NOTABLE = 0.03  # the smallest gain of a probability that a sentence mentions
_NAMED = 3  # prompts by name in a sentence
_MOST_REASONS = 4  # after a headline
_COINCIDENCE = 0.01  # probability of equal scores from which they may be chance
_MOST_NEEDED = 1e6  # more evaluations than anybody makes for one comparison
# Of the tolerance: the smallest expected loss of equal prompts in a sentence
_LEAST_SHOWN = 0.1


@dataclass(frozen=True)
class Outlook:
    """The forecast for a number of further evaluations. The `outlook` of a verdict has several.

        >>> import asktell
        >>> unknown = [float("nan")] * 36
        >>> scores = [[1, 1, 1, 0, 1, 1, 0, 1, *unknown], [1, 0, 0, 1, 1, 1, 0, 0, *unknown]]
        >>> goal = asktell.BestFeasible(asktell.maximize("accuracy", range=(0, 1)))
        >>> verdict = asktell.analyze(scores, goal).verdict
        >>> round(verdict.p_best, 2)
        0.74
        >>> [(then.evaluations, round(then.p_best, 2)) for then in verdict.outlook]
        [(8, 0.74), (16, 0.74), (32, 0.75), (72, 0.78)]

    Attributes:
        evaluations: the number of further evaluations.
        cost: their expected cost. None if no costs were recorded.
        p_best: the expected probability of selecting the best prompt after these
            evaluations. None for a Pareto set.
        loss: the expected `loss` of the verdict after these evaluations, in the same
            units.
        p_good: the expected `p_good` of the verdict after these evaluations.
    """

    evaluations: int
    cost: float | None
    p_best: float | None
    loss: float
    p_good: float


@dataclass(frozen=True)
class Change:
    """Whether to replace the baseline by the selected prompt.

    Attributes:
        decision: "ship" (the selected prompt is established to be better with 95%
            confidence, allowing for its choice among all prompts, or the baseline very
            probably violates a constraint that the selected prompt satisfies), "keep"
            (no prompt is shown to be better) or "not decided" (the selected prompt is
            probably better, or more evaluations are worthwhile).
        baseline: the id of the baseline.
        difference: the selected prompt's mean less the baseline's, in the units of the
            first objective. None if the baseline is selected, or was not evaluated.
        low: the lower end of the 95% interval of the difference, which allows for the
            choice among all prompts. See `Result.comparison`.
        high: the upper end.
        evaluations: about how many more evaluations of each of the two would establish
            the difference, if it stays as it is. None if it is established, is smaller
            than the tolerance, or nothing is known about it.
    """

    decision: str
    baseline: str | int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    evaluations: int | None = None


@dataclass(frozen=True)
class Verdict:
    """The recommendation and its certainty. A number is None if there is not enough data for it.

        >>> import asktell
        >>> scores = [[1, 1, 1, 0] * 10, [1, 0, 1, 0] * 10, [0, 0, 1, 0] * 10]
        >>> goal = asktell.BestFeasible(asktell.maximize("accuracy", range=(0, 1)))
        >>> result = asktell.analyze(scores, goal, prompts=["a", "b", "c"])
        >>> verdict = result.verdict
        >>> verdict.action, verdict.answer
        ('take', 'a')
        >>> print(verdict.sentence)
        Take "a". It is the best with over 99% probability.

    Attributes:
        answer: the id of the selected prompt. None for a Pareto set, before the first
            scores, or if no prompt is likely to satisfy every constraint.
        action: "take" (use the selected prompts, since `p_good` is at least 90%),
            "either" (use any of several prompts: each is good with at least 90%
            probability, or the scores do not separate the prompts), "go on" (keep
            evaluating: at most as many evaluations as were spent should reduce the
            expected gap by at least the tolerance, or raise `p_good` or `p_best` by at
            least 10 percentage points), "best so far" (none of these) or "none" (there
            are no scores yet, or no prompt is likely to satisfy every constraint).
        headline: what to do, in one short sentence. With a baseline, it is about the
            change from the baseline to the selected prompt.
        sentence: the recommendation in words. It begins with the headline, and at most
            four reasons follow.
        p_good: the probability that the selected prompt satisfies every constraint and
            is within the tolerance of the best feasible prompt. For a Pareto set, that
            all selected prompts satisfy every constraint, and together miss at most 1%
            of the true set's hypervolume.
        p_best: the probability that the selected prompt is the best prompt that
            satisfies every constraint. None for a Pareto set.
        p_feasible: the probability that the selected prompt satisfies every constraint,
            or for a Pareto set that all selected prompts do. None without constraints.
        loss: the expected gap between the selected prompt and the truly best feasible
            prompt, in the units of the goal's first metric. For a Pareto set, it is a
            share from 0 to 1: how much of the true Pareto set's hypervolume (a measure
            of how good a set is) the selected prompts are expected to miss.
        loss_95: with 95% probability, the true loss is at most this number.
        contenders: the prompts that may be the best, as pairs of an id and a
            probability. The selected prompts come first. If the goal is one best
            prompt, the contenders are the smallest group that includes the best
            feasible prompt with a probability of 95%, given that a prompt is feasible.
            If the goal is a Pareto set, they are the selected prompts, and every prompt
            that belongs to the set with a probability of at least 5%.
        outlook: forecasts for several numbers of further evaluations: half as many as
            were spent, as many, twice as many, and all evaluations that are still
            possible on the examples. The last number is the largest: forecasts for more
            evaluations than are still possible are left out.
        choices: the ids of the prompts to use: one of them if the action is "either",
            all of them if it is "take". Empty for other actions.
        worth: how much choosing among the prompts is worth: the best feasible prompt's
            mean less the median prompt's, in the units of the first objective, as
            estimate and ends of a 95% interval. None for a Pareto set, and for a single
            prompt.
        tolerance: the difference that does not matter, in the units of `loss`. It is
            the tolerance of the goal's first metric, such as `maximize("accuracy",
            tolerance=0.02)`. If none was stated, it is 1% of the metric's range. For a
            metric without a range, it is then 1% of the larger of the spread of the
            means and the standard deviation of the scores. For a Pareto set, it is
            always 0.01, a share of the hypervolume.
        assumption: a sentence on the tolerance, if none was stated. Otherwise empty.
        change: with a baseline, whether to replace it. None without a baseline, for a
            Pareto set, and if the action is "none".
    """

    answer: str | int | None
    action: str
    headline: str
    sentence: str
    p_good: float | None = None
    p_best: float | None = None
    p_feasible: float | None = None
    loss: float | None = None
    loss_95: float | None = None
    contenders: tuple[tuple[str | int, float], ...] = ()
    outlook: tuple[Outlook, ...] = ()
    choices: tuple[str | int, ...] = ()
    worth: tuple[float, float, float] | None = None
    tolerance: float | None = None
    assumption: str = ""
    change: Change | None = None

    @property
    def reasons(self) -> str:
        """The reasons for the headline, which is the rest of `sentence`."""
        return self.sentence.removeprefix(self.headline).strip()

    def to_dict(self) -> dict[str, Any]:
        """The verdict as a mapping that JSON can represent. Its keys are the names of the attributes."""
        outlook = [asdict(each) for each in self.outlook]
        return {
            **asdict(self),
            "contenders": [list(each) for each in self.contenders],
            "outlook": outlook,
            "choices": list(self.choices),
            "worth": None if self.worth is None else list(self.worth),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read a verdict from a mapping that `to_dict` returned."""
        worth, change = data["worth"], data["change"]
        return cls(
            **{
                **data,
                "contenders": tuple((id_, float(p)) for id_, p in data["contenders"]),
                "outlook": tuple(Outlook(**each) for each in data["outlook"]),
                "choices": tuple(data["choices"]),
                "worth": None if worth is None else tuple(worth),
                "change": None if change is None else Change(**change),
            }
        )


class Chances(NamedTuple):
    """Every prompt's probability of being the best feasible one (or in the Pareto set), and of being feasible."""

    p_best: Vector  # (K,)
    p_feasible: Vector | None  # (K,) None without constraints
    # (K,) prompts that count as feasible (see `PromptResult.feasible`)
    taken: Mask | None


def chances(state: State, statement: Statement) -> Chances | None:
    """The chances of all prompts. A failed or retired prompt has the probability 0 of being the best.

    None if there is not enough data for probabilities: after a single evaluation or,
    with constraints, after a single example, because nothing shows how much examples
    differ.
    """
    alive, goal = _alive(state), state.problem.goal
    if statement.is_guess or (goal.is_constrained and statement.n_seen < 2):
        return None
    # P(best): the share of the draws in which a prompt is the best feasible one
    p_best = _shares(statement.values, goal, alive).mean(axis=0)
    if not goal.is_constrained:
        return Chances(p_best, None, None)
    # An arm that always satisfied a bound at an end of the scale counts as feasible. Its
    # mean, shrunk to the others', is on the far side of the bound in most draws.
    n = len(goal.objectives)
    taken = ((statement.values[:, :, n:] >= 0) | statement.kept).all(axis=2).mean(
        axis=0
    ) >= _LIKELY
    return Chances(p_best, membership.feasible(statement.values, n).mean(axis=0), taken)


def members(state: State, statement: Statement) -> Masks:
    """(S, K): the Pareto set of each draw."""
    return _shares(statement.values, state.problem.goal, _alive(state)) > 0.0


def judge(
    state: State,
    statement: Statement | None,
    of_arms: Chances | None,
    answer: Sequence[int],
    ids: Sequence[str | int],
    lead: Difference | None = None,
) -> Verdict:
    """The verdict on the selected arms, the best first.

    `statement` is None if nothing was recorded. `of_arms` is None if there is not enough
    data for probabilities. `lead`: the selected arm compared with the baseline in the
    first objective, as in `Result.comparison`. None without a baseline, or if it is
    selected.
    """
    one_example = (
        statement is not None and statement.n_seen < 2 and state.problem.examples.n != 1
    )
    if statement is None or of_arms is None or not answer or one_example:
        return _undecided(state, statement, answer, ids)
    arms = np.array(answer)
    if isinstance(state.problem.goal, ParetoSet):
        return _OfSet(state, statement, of_arms, arms, ids).verdict()
    return _OfBest(state, statement, of_arms, arms, ids, lead).verdict()


def _needed(lead: Difference, tolerance: float) -> int | None:
    """About how many more pairs establish a difference that stays as it is. None if it is established or unknown.

    An interval shrinks with the root of the number of pairs. None also for a difference
    below the tolerance.
    """
    if not lead.estimate or lead.low is None or lead.high is None or not lead.pairs:
        return None
    if abs(lead.estimate) < tolerance:
        return None
    half = lead.estimate - lead.low if lead.estimate > 0 else lead.high - lead.estimate
    more = lead.pairs * ((half / abs(lead.estimate)) ** 2 - 1.0)
    # Two digits, as it is no more than an order of magnitude
    return int(float(f"{more:.2g}")) if 1.0 <= more < _MOST_NEEDED else None


def _undecided(
    state: State,
    statement: Statement | None,
    answer: Sequence[int],
    ids: Sequence[str | int],
) -> Verdict:
    """The verdict without probabilities. Every prompt that can still be selected is equally likely the best."""
    out = {*answer, *state.left.no_rivals()}
    others = [arm for arm in range(state.problem.n_arms) if arm not in out]
    arms = [*answer, *others]
    contenders = tuple((ids[arm], 1.0 / len(arms)) for arm in arms)
    action, best, reasons = NONE, None, ""
    headline = "No prompt has been evaluated successfully yet."
    if state.finished and state.missing and len(state.history) == 0:
        n = len(state.missing)
        which = "the only evaluation" if n == 1 else f"all {n:,} evaluations"
        headline = f"Nothing was measured, because {which} failed."
    elif len(state.left.no_rivals()) == state.problem.n_arms:
        headline, reasons = _nobody_left(state)
    elif len(state.history) > 0:
        headline = (
            "No prompt that can still be selected has been evaluated successfully yet."
        )
    if statement is not None and answer:
        action = GO_ON
        if not isinstance(state.problem.goal, ParetoSet):
            best = ids[answer[0]]
        few = "evaluation" if statement.is_guess else "example"
        headline = f"Not decided: one {few} is not enough to estimate a probability."
    if state.remarks.doubts and answer:
        headline, reasons = (
            "Do not rely on these scores.",
            " ".join(state.remarks.doubts),
        )
    sentence = f"{headline} {reasons}".strip()
    return Verdict(best, action, headline, sentence, contenders=contenders)


def _nobody_left(state: State) -> tuple[str, str]:
    """The headline and the reason if no prompt can be selected any more."""
    statuses = {departure.status for _, departure in state.left.values()}
    words = {FAILED: "failed too often", RETIRED: "were retired"}
    why = " or ".join(words[status] for status in words if status in statuses)
    return f"No prompt can be selected, because all {why}.", "Add a prompt to continue."


class _Judge(ABC):
    def __init__(
        self,
        state: State,
        statement: Statement,
        of_arms: Chances,
        answer: Indices,
        ids: Sequence[str | int],
        lead: Difference | None = None,
    ) -> None:
        self.state = state
        self.statement = statement
        self.chances = of_arms
        self.answer = answer
        self.ids = ids
        self.lead = lead
        self.baseline = state.problem.baseline
        self.goal = state.problem.goal
        self.alive = _alive(state)
        self.first = int(answer[0])
        # Without constraints, every prompt that neither failed nor was retired is feasible
        self.p_some, self.p_feasible = 1.0, None
        if self.goal.is_constrained:
            satisfied = membership.feasible(statement.values, len(self.goal.objectives))
            self.p_some = float((satisfied & self.alive).any(axis=1).mean())
            self.p_feasible = float(satisfied[:, answer].all(axis=1).mean())
        # Losses need fewer draws than probabilities, and are computed many times.
        self.values = self.truths(statement.values)
        # (S, K): the selection is the same in all draws. In the outlook, it differs.
        self.held = np.zeros(self.values.shape[:2], dtype=bool)
        self.held[:, answer] = True
        losses = self.losses(self.held)
        self.loss = float(losses.mean())
        self.loss_95 = float(np.quantile(losses, _COVERED))
        self.tolerance = self.least_loss()
        self.p_good = self.p_within(self.held)
        self.outlook = self._outlook()

    @abstractmethod
    def truths(self, values: Draws) -> Draws:
        """The draws that losses are computed for."""

    @abstractmethod
    def losses(self, held: Masks) -> Vector:
        """(S,) the loss in each draw if the `held` prompts are selected. 0 if no prompt is feasible."""

    @property
    def p_now(self) -> float | None:
        """The probability that the selected prompt is the best. None for a Pareto set."""
        return None

    def hits(self, held: Masks) -> float | None:
        """How often a `held` prompt is the best. None for a Pareto set."""
        return None

    @abstractmethod
    def p_within(self, held: Masks) -> float:
        """The probability that the `held` prompts are all feasible, and their loss is within the tolerance."""

    @abstractmethod
    def chosen(self, predicted: Draws) -> Masks:
        """(S, K) the prompts that would be selected with these means."""

    @property
    @abstractmethod
    def interest(self) -> Vector:
        """(K,) weights for dividing the next evaluations among the prompts."""

    @abstractmethod
    def leaders(self, predicted: Draws, n: int) -> Matrix:
        """(S, K) weights for dividing later evaluations among about n prompts, from the means of each draw."""

    @abstractmethod
    def least_loss(self) -> float:
        """The tolerance: a loss that is too small to matter."""

    @property
    def assumption(self) -> str:
        """The sentence on the tolerance if the goal states none, else empty."""
        return ""

    @abstractmethod
    def verdict(self) -> Verdict:
        """The verdict."""

    def _verdict(
        self,
        action: str,
        headline: str,
        reasons: Sequence[str],
        choices: Sequence[int],
        contenders: list[int],
        likely: Vector,
        **own: Any,
    ) -> Verdict:
        return Verdict(
            action=action,
            headline=headline,
            sentence=" ".join([headline, *reasons[:_MOST_REASONS]]),
            p_good=self.p_good,
            tolerance=self.tolerance,
            assumption=self.assumption,
            p_feasible=self.p_feasible,
            loss=self.loss,
            loss_95=self.loss_95,
            choices=tuple(self.ids[arm] for arm in choices),
            contenders=tuple((self.ids[arm], float(likely[arm])) for arm in contenders),
            outlook=self.outlook,
            **own,
        )

    @property
    def none_is_feasible(self) -> bool:
        """True if it is unlikely that any prompt satisfies every constraint, after enough examples."""
        kept = self.chances.taken is not None and bool(
            self.chances.taken[self.alive].any()
        )
        return (
            self.p_some < _NO_PROMPT and not kept and self.statement.n_seen >= _FEWEST
        )

    @property
    def is_unlikely(self) -> bool:
        """True if the selected prompts probably violate a constraint."""
        kept = self.chances.taken is not None and bool(
            self.chances.taken[self.answer].all()
        )
        return self.p_feasible is not None and self.p_feasible < _LIKELY and not kept

    # The outlook

    @cached_property
    def n_left(self) -> Vector:
        """(K,) remaining evaluations of each prompt, infinite without a fixed set of examples."""
        problem = self.state.problem
        most = (
            np.inf
            if problem.examples.n is None
            else float(problem.examples.n * problem.examples.repeats)
        )
        return np.where(self.alive, np.maximum(most - self.state.told, 0.0), 0.0)

    def _outlook(self) -> tuple[Outlook, ...]:
        problem, spent = self.state.problem, max(1, len(self.state.history))
        n_left, left = self.n_left, float(self.n_left.sum())
        # All that remain are the last forecast, if the examples have an end.
        wanted = [
            float(round(part * spent)) for part in _MORE if round(part * spent) < left
        ]
        wanted += [left] if 0 < left < np.inf else []
        new_examples = (
            np.inf
            if problem.examples.n is None
            else float(problem.examples.n - self.statement.n_seen)
        )
        p_best, p_good, loss = self.p_now, self.p_good, self.loss
        outlook = []
        for n in wanted:
            first = _allotted(n / _STAGES, self.interest, n_left)
            predicted = self._predicted(
                first, n - n / _STAGES, min(new_examples, float(first.max()) * _STAGES)
            )
            held = self.chosen(predicted)
            # More scores never do harm, so a forecast that is worse is Monte Carlo error.
            hits = self.hits(held)
            p_best = None if hits is None or p_best is None else max(hits, p_best)
            loss = min(float(self.losses(held).mean()), loss)
            p_good = max(self.p_within(held), p_good)
            costs = self.state.costs
            price = None
            if costs.pool.total:
                per_arm = _allotted(n, self.interest, n_left)
                price = float(per_arm @ costs.expected_all(len(per_arm)))
            outlook.append(Outlook(int(n), price, p_best, loss, p_good))
        return tuple(outlook)

    def _predicted(self, first: Vector, rest: float, new_examples: float) -> Draws:
        """(S, K, q) the means that more evaluations would lead to if each draw were the truth.

        `first` (K,) are the next evaluations of each prompt. The `rest` is divided
        among the prompts that lead by then, fewer at each stage. An evaluation observes
        a prompt's distance from the common level with the variance of the residual. The
        level itself becomes known with the number of new examples.
        """
        example, residual = self._variances()
        *normals, of_level = self._normals
        mean = self.values.mean(axis=0)  # (K, q)
        level = self.values[:, self.alive].mean(axis=1, keepdims=True)
        level = level - level.mean(axis=0)  # (S, 1, q)
        off = self.values - mean - level  # the truth, about the means of now
        known, variance = np.zeros_like(off), off.var(axis=0)
        known, of_arms = _observed(known, variance, off, first, residual, normals[0])
        variance = np.repeat(of_arms[None], len(known), axis=0)
        contenders = max(2, _effective(self.interest))
        for stage, normal in enumerate(normals[1:], 1):
            n = max(2, round(contenders ** (1.0 - stage / _STAGES)))
            share = self.leaders(mean + known, n) * (rest / (_STAGES - 1))
            at = share > 0  # The few prompts that lead in a draw
            known[at], variance[at] = _observed(
                known[at], variance[at], off[at], share[at], residual, normal[at]
            )
        at_level = _moved(
            level, new_examples, example + residual / self.alive.sum(), of_level
        )
        return np.asarray(mean + known + at_level)

    @cached_property
    def _normals(self) -> list[Draws]:
        """Standard normals: (S, K, q) for each stage, then (S, 1, q) for the level.

        Every forecast uses the same, so that forecasts differ less by chance.
        """
        rng = np.random.default_rng(0)  # as in a statement
        found = [rng.normal(size=self.values.shape) for _ in range(_STAGES)]
        return [*found, rng.normal(size=self.values[:, :1].shape)]

    def _variances(self) -> tuple[Vector, Vector]:
        """(q,) variances of the example effect and of the residual, of the goal's values."""
        goal = self.goal
        unit, zero = np.eye(len(goal.columns)), np.zeros((1, len(goal.columns)))
        weight = (
            goal.values(unit, goal.offsets) - goal.values(zero, goal.offsets)
        ) ** 2
        example, residual = (
            self.statement.example @ weight,
            self.statement.residual @ weight,
        )
        # Columns of which the worst counts share the evaluations.
        return example, residual * [len(columns) for columns in goal.worst_of]

    @property
    def near(self) -> tuple[Outlook, ...]:
        """The outlook for at most as many evaluations as were spent."""
        most = _ADVISED * max(1, len(self.state.history))
        return tuple(each for each in self.outlook if each.evaluations <= most)

    def is_worthwhile(self, then: Outlook) -> bool:
        """True if a forecast saves a tolerance, or raises a probability by `_WORTHWHILE`."""
        raises = then.p_good - self.p_good
        if then.p_best is not None and self.p_now is not None:
            raises = max(raises, then.p_best - self.p_now)
        return self.loss - then.loss >= self.tolerance or raises >= _WORTHWHILE

    @cached_property
    def worthwhile(self) -> Outlook | None:
        """The first near forecast that is worthwhile."""
        return next((then for then in self.near if self.is_worthwhile(then)), None)

    @property
    def is_either(self) -> bool:
        """True if any of several prompts may be used. A Pareto set has no such choice."""
        return False

    def _action(self) -> str:
        # Constraints come before the objective.
        if self.none_is_feasible:
            return NONE
        if self.is_unlikely:
            return BEST if self.worthwhile is None and self.is_used_up else GO_ON
        if self.is_either:
            return EITHER
        if self.p_good >= _GOOD:
            return TAKE
        return BEST if self.worthwhile is None else GO_ON

    # Words

    def name(self, arm: int) -> str:
        """The prompt's id, quoted."""
        return quoted(self.ids[arm])

    @property
    def constraints(self) -> str:
        """The constraints of the goal, as the object of a verb."""
        return (
            "every constraint" if len(self.goal.constraints) > 1 else "the constraint"
        )

    @property
    def a_constraint(self) -> str:
        """One of the constraints, to relax."""
        return "a constraint" if len(self.goal.constraints) > 1 else "the constraint"

    @property
    def best_prompt(self) -> str:
        """The prompt that losses are relative to, without an article."""
        return "best feasible prompt" if self.goal.is_constrained else "best prompt"

    def satisfies(self) -> list[str]:
        """The probability that the selected prompts satisfy the constraints, as a sentence."""
        if self.p_feasible is None:
            return []
        probability = in_percent(self.p_feasible)
        if len(self.answer) > 1:
            return [
                f"The probability that all of them satisfy {self.constraints} is {probability}."
            ]
        return [f"It satisfies {self.constraints} with {probability} probability."]

    @property
    def remaining(self) -> str:
        """The adjective of "prompt" if some prompts failed or were retired, with a space. Otherwise empty."""
        return "" if self.alive.all() else "remaining "

    @property
    def is_used_up(self) -> bool:
        """True if no prompt can be evaluated any more. With sampling="iid", an example can be drawn again."""
        state = self.state
        return not state.pending and not (self.alive & state.have_pulls()).any()

    @property
    def used_up(self) -> str:
        """The sentence for `is_used_up`."""
        problem = self.state.problem
        because = f"because every {self.remaining}prompt was evaluated on every example"
        if problem.examples.repeats > 1:
            because += f" {problem.examples.repeats} times"
        if problem.examples.target is None:
            return f"More evaluations need new examples, {because}."
        if self.state.seen.examples.is_noisy:
            return f"More evaluations need a larger `repeats`, {because}."
        return f"More evaluations are not possible, {because}."

    def none(self) -> tuple[str, list[str]]:
        """The headline and the reasons if no prompt is likely to satisfy every constraint."""
        them = "them" if len(self.goal.constraints) > 1 else "it"
        return f"No prompt is likely to satisfy {self.constraints}.", [
            f"The probability that at least one prompt does is {in_percent(self.p_some)}.",
            f"{capitalized(self.name(self.first))} is expected to violate {them} least.",
            f"Relax {self.a_constraint} or add prompts.",
        ]

    def unlikely(self, action: str) -> tuple[str, list[str]]:
        """The headline and the reasons if the selected prompts probably violate a constraint."""
        p_feasible = self.chances.p_feasible
        assert p_feasible is not None
        likeliest = int(np.where(self.alive, p_feasible, -1.0).argmax())
        probability = in_percent(float(p_feasible[likeliest]))
        likely = f"{capitalized(self.name(likeliest))} is the most likely to satisfy {self.constraints}"
        claim = f"{self.name(self.first)} probably violates {self.a_constraint}."
        if self.alive.sum() == 1:
            reasons = [
                f"It is the only {self.remaining}prompt.",
                f"It satisfies {self.constraints} with {probability} probability.",
            ]
        elif p_feasible[likeliest] < _LIKELY:
            claim = f"every prompt probably violates {self.a_constraint}."
            reasons = [f"{likely} (probability {probability})."]
            if self.p_some >= _GOOD:
                # The best prompt satisfies a bound relative to the best, for example.
                claim = f"it is not clear which prompts satisfy {self.constraints}."
                some = in_percent(self.p_some)
                at_least = f"The probability that at least one prompt does is {some}."
                reasons = [at_least, *reasons]
        else:
            metrics = " and ".join(quoted(each.metric) for each in self.goal.objectives)
            reasons = [
                f"It is selected because of its good estimate of {metrics}.",
                f"{likely} (probability {probability}).",
            ]
        if self.is_used_up:
            reasons += [self.used_up, f"Add examples, or relax {self.a_constraint}."]
        elif self.near:
            then = self.worthwhile or self.near[-1]
            rises = self.rises(then)
            reasons += [self.forecast(then, rises)] if rises else []
        is_open = action == GO_ON
        return f"Not decided: {claim}" if is_open else capitalized(claim), reasons

    def rises(self, then: Outlook) -> list[str]:
        """The clauses on the probabilities that more evaluations should raise."""
        p_best, now = then.p_best, self.p_now
        if p_best is not None and now is not None and p_best - now >= _NOTABLE:
            what = f"selecting the {self.best_prompt}"
            return [
                f"the probability of {what} should rise from {in_percent(now)} to {in_percent(p_best)}"
            ]
        if then.p_good - self.p_good >= _WORTHWHILE:
            low, high = in_percent(self.p_good), in_percent(then.p_good)
            return [
                f"the probability of {self.being_good} should rise from {low} to {high}"
            ]
        return []

    def forecast(self, then: Outlook, gains: Sequence[str]) -> str:
        """The sentence that more evaluations should have these gains."""
        price = "" if then.cost is None else f" (cost about {then.cost:.3g})"
        plural = "" if then.evaluations == 1 else "s"
        more = f"With {then.evaluations:,} more evaluation{plural}{price}"
        return f"{more}, {', and '.join(gains)}."

    def gain(self, then: Outlook) -> list[str]:
        """The quality of now and the expected gain of more evaluations, as sentences. Empty without a gain."""
        falls = self.number(then.loss) != self.number(self.loss)
        gains = [self.improvement("should", then.loss)] if falls else []
        gains += self.rises(then)
        now = [self.standing] if falls else []
        return [*now, self.forecast(then, gains)] if gains else []

    def outcome(self, arms: Sequence[int]) -> list[str]:
        """The quality of now, and whether any evaluations would improve it, as sentences.

        Called where as many evaluations as were spent would not. So they are all
        evaluations that remain, new examples, or none.
        """
        last = self.outlook[-1] if self.outlook and not self.is_used_up else None
        if last is not None and self.is_worthwhile(last) and (gain := self.gain(last)):
            return gain
        return [self.standing, *self.no_use(arms)]

    def no_use(self, arms: Sequence[int]) -> list[str]:
        """The sentence that more evaluations of the examples do not help, and whether new examples would."""
        examples, spent = self.state.problem.examples.n, len(self.state.history)
        if examples is None or not self.is_used_up:
            # A few scores cannot show this.
            if spent < _FEWEST * self.alive.sum() or not self.near:
                return []
            # Only as far as it was forecast
            n = self.near[-1].evaluations
            more = f"{n:,} more evaluation{'' if n == 1 else 's'}"
            return [f"{more} should change little."]
        if (
            self.state.problem.examples.target is not None
        ):  # New examples are no part of it
            return [self.used_up]
        of_arms = np.zeros(len(self.alive))
        of_arms[list(arms)] = 1.0
        has_loss = self.loss > self.least_shown
        for n in (max(1, round(part * examples)) for part in _LARGER if has_loss):
            held = self.chosen(self._predicted(n * of_arms, 0.0, float(n)))
            loss = float(self.losses(held).mean())
            if loss <= 0.5 * self.loss:
                improvement = self.improvement("could", loss)
                new = "1 new example" if n == 1 else f"about {n:,} new examples"
                every = f"Every {self.remaining}prompt was evaluated on every example"
                return [f"{every}, but with {new}, {improvement}."]
        return [self.used_up]

    @property
    @abstractmethod
    def being_good(self) -> str:
        """What the selected prompts are with the probability `p_good`, after "the probability of"."""

    @property
    @abstractmethod
    def standing(self) -> str:
        """The expected quality of the selected prompts, as a sentence."""

    @abstractmethod
    def improvement(self, verb: str, loss: float) -> str:
        """The clause that the quality in `standing` improves to that of a loss. The verb is "should" or "could"."""

    @property
    @abstractmethod
    def least_shown(self) -> float:
        """The smallest loss that a sentence gives as a number, or that may be said to improve."""

    @abstractmethod
    def number(self, loss: float) -> str:
        """The quality at a loss, as text."""


@final
class _OfBest(_Judge):
    def truths(self, values: Draws) -> Draws:
        values = self._some(values)
        if twins := self._twins():
            # Equal scores on every common example are evidence of equality, which the
            # model of separate prompts does not have.
            values = values.copy()
            values[:, twins] = values[:, [self.first]]
        return values

    def _some(self, values: Draws) -> Draws:
        """As many of the draws as losses are computed for."""
        return values[:: -(-values.shape[0] * values.shape[1] // _MOST_NUMBERS)]

    def _twins(self) -> list[int]:
        """The arms with the same scores on the same examples as the selected arm, unless that may be chance."""
        history = self.state.history
        arms = history.arms()
        examples = history.examples()
        order = np.lexsort((*history.scores().T, examples, arms))
        arms, examples, scores = arms[order], examples[order], history.scores()[order]
        starts = np.searchsorted(arms, np.arange(self.state.problem.n_arms + 1))
        of_first = slice(starts[self.first], starts[self.first + 1])
        n = of_first.stop - of_first.start
        if (
            not n
            or (examples[of_first] < 0).any()
            or _agree_by_chance(scores[of_first])
        ):
            return []
        return [
            arm
            for arm in np.flatnonzero((np.diff(starts) == n) & self.alive).tolist()
            if arm != self.first
            and (examples[starts[arm] : starts[arm + 1]] == examples[of_first]).all()
            and (scores[starts[arm] : starts[arm + 1]] == scores[of_first]).all()
        ]

    def losses(self, held: Masks) -> Vector:
        objective, best = self.values[:, :, 0], self.best
        own = np.where(held, objective, -np.inf).max(axis=1)
        return np.asarray(np.where(np.isfinite(best), np.maximum(0.0, best - own), 0.0))

    @cached_property
    def best(self) -> Vector:
        """(S,) the objective of the best feasible prompt, minus infinity if no prompt is feasible."""
        keeps = membership.feasible(self.values) & self.alive
        return np.asarray(np.where(keeps, self.values[:, :, 0], -np.inf).max(axis=1))

    @cached_property
    def shares(self) -> Draws:
        """(S, K) 1 for the best feasible prompt of each draw, divided among equals. It averages to `Chances.p_best`."""
        return _shares(self._some(self.statement.values), self.goal, self.alive)

    @property
    def p_now(self) -> float | None:
        return float(self.chances.p_best[self.first])

    def hits(self, held: Masks) -> float | None:
        return float((self.shares * held).sum(axis=1).mean())

    def p_within(self, held: Masks) -> float:
        return float((self.good * held).any(axis=1).mean())

    @cached_property
    def good(self) -> Masks:
        """(S, K) True for the prompts that are feasible, and within the tolerance of the best feasible one."""
        near = self.values[:, :, 0] >= self.best[:, None] - self.tolerance
        return np.asarray(membership.feasible(self.values) & near & self.alive)

    @cached_property
    def worth(self) -> tuple[float, float, float] | None:
        """What choosing is worth: the best feasible prompt's mean less the median, and the ends of its interval."""
        some = np.isfinite(self.best)
        if not some.any() or self.alive.sum() < 2:
            return None
        objective = self.values[some][:, self.alive, 0]
        gains = np.maximum(self.best[some] - np.median(objective, axis=1), 0.0)
        low, high = np.quantile(gains, (0.025, 0.975))
        return float(gains.mean()), float(low), float(high)

    def chosen(self, predicted: Draws) -> Masks:
        merits = np.where(self.alive, membership.merit(predicted), -np.inf)
        return np.asarray(merits.argmax(axis=1)[:, None] == np.arange(merits.shape[1]))

    @cached_property
    def interest(self) -> Vector:
        found = np.zeros(len(self.alive))
        arms = np.flatnonzero(self.alive)
        if len(arms) > 1:
            two = arms[membership.ranking(membership.merit(self.values[:, arms]))]
            found = np.bincount(two.ravel(), minlength=len(found)) / len(two)
        return found

    def leaders(self, predicted: Draws, n: int) -> Matrix:
        merits = np.where(self.alive, membership.merit(predicted), -np.inf)
        n = min(n, int(self.alive.sum()))
        least = np.partition(merits, merits.shape[1] - n, axis=1)[
            :, [merits.shape[1] - n]
        ]
        leading = (merits >= least) & (self.n_left > 0)
        return np.asarray(leading / np.maximum(leading.sum(axis=1, keepdims=True), 1))

    def least_loss(self) -> float:
        stated = self.goal.tolerances.get(self.goal.objectives[0].metric)
        if stated is not None:
            return stated
        if (limits := self._limits) is not None:
            return _TOLERATED * (limits[1] - limits[0])
        # Sorted, so that the order of evaluations does not change the last digits
        of_scores = float(np.nanstd(np.sort(self._scores)))
        return _TOLERATED * max(
            of_scores, float(np.ptp(self.values[:, :, 0].mean(axis=0)))
        )

    @property
    def assumption(self) -> str:
        if self.goal.objectives[0].metric in self.goal.tolerances:
            return ""
        what = "the spread of the scores" if self._limits is None else "the range"
        return (
            f"No tolerance was stated. Differences of less than {self.number(self.tolerance)} in {self.metric} are "
            f"taken not to matter ({in_percent(_TOLERATED)} of {what})."
        )

    @property
    def _scores(self) -> Vector:
        """(n,) all scores of the first objective."""
        column = self.goal.columns.index(self.goal.objectives[0].metric)
        return np.asarray(self.state.history.scores()[:, column])

    @cached_property
    def _limits(self) -> tuple[float, float] | None:
        """The range of the first objective, which is 0 to 1 if all scores are 0 or 1. None if it is unknown."""
        limits = self.goal.limits(self.goal.objectives[0].metric)
        if limits is None and np.isin(self._scores, (0.0, 1.0)).all():
            return 0.0, 1.0
        return limits

    @property
    def metric(self) -> str:
        """The quoted name of the optimized quantity."""
        return f'"{safe(self.goal.objectives[0].quantity)}"'

    @property
    def standing(self) -> str:
        # Losses far below the tolerance are rounded up: 3e-06 helps no reader
        most = "" if self.loss > self.least_shown else "at most "
        gap = self.number(max(self.loss, self.least_shown))
        return f"The expected gap to the {self.best_prompt} is {most}{gap} in {self.metric}."

    def improvement(self, verb: str, loss: float) -> str:
        # Losses far below the tolerance are 0 for a reader
        size = self.number(loss) if loss > self.least_shown else "almost 0"
        return f"this gap {verb} shrink to {size}"

    @property
    def least_shown(self) -> float:
        return _LEAST_SHOWN * self.tolerance

    def number(self, loss: float) -> str:
        return in_digits(loss, 2)

    @property
    def being_good(self) -> str:
        return f"being within {self.number(self.tolerance)} of the {self.best_prompt}"

    def verdict(self) -> Verdict:
        action = self._action()
        change = self._change(action)
        headline = None if change is None else self._of_change(change)
        own_headline, reasons = self._words(action, headline is not None)
        if headline is not None and change is not None and change.evaluations:
            n = f"{change.evaluations:,} more evaluation{'s' * (change.evaluations > 1)}"
            reasons = [
                f"About {n} of each should establish the difference, if it stays as it is.",
                *reasons,
            ]
        return self._verdict(
            action,
            headline or own_headline,
            reasons,
            self._choices if action in (TAKE, EITHER) else [],
            self._contenders(),
            self._likely[1],
            answer=None if action == NONE else self.ids[self.first],
            p_best=float(self.chances.p_best[self.first]),
            worth=self.worth,
            change=change,
        )

    def _contenders(self) -> list[int]:
        return [self.first, *(arm for arm in self._likely[0] if arm != self.first)]

    @cached_property
    def _likely(self) -> tuple[list[int], Vector]:
        """The prompts that are most likely the best, or closest to feasible if no prompt is, and all probabilities."""
        p_best = self.chances.p_best
        # Hardly any draw has a feasible prompt. Then the prompt that violates least counts.
        if self.none_is_feasible:
            p_best = self.chosen(self.values).mean(axis=0)
        order = np.argsort(-p_best, kind="stable")
        enough = max(_n_covering(p_best, p_best), self._n_contenders)
        return [int(arm) for arm in order[:enough] if p_best[arm] > 0.0], p_best

    @cached_property
    def _n_contenders(self) -> int:
        """How many of the likeliest prompts of one half of the draws cover the best prompt in the other half.

        The likeliest prompts of few draws cover more of these draws than of others,
        where many prompts are nearly as likely.
        """
        half = len(self.shares) // 2
        one = self.shares[:half].mean(axis=0)
        other = self.shares[half:].mean(axis=0)
        return -(-(_n_covering(one, other) + _n_covering(other, one)) // 2)

    @cached_property
    def _equals(self) -> list[int]:
        """The prompts that are good with a probability of `_GOOD`, if the selected one is. The selected one first."""
        if self.p_good < _GOOD:
            return [self.first]
        p_good = self.good.mean(axis=0)
        others = [
            int(arm)
            for arm in np.argsort(-p_good, kind="stable")
            if p_good[arm] >= _GOOD and arm != self.first
        ]
        return [self.first, *others]

    @property
    def _choices(self) -> list[int]:
        """The prompts to use, if the action is "take" or "either"."""
        is_single = len(self._equals) < 2 and self.is_unseparated
        return self._contenders() if is_single else self._equals

    @property
    def is_sure(self) -> bool:
        """True if the selected prompt satisfies every constraint with a probability of `_GOOD`."""
        return self.p_feasible is None or self.p_feasible >= _GOOD

    @cached_property
    def is_unseparated(self) -> bool:
        """True if the scores do not separate the prompts.

        That is the case if all scores are equal, or if choosing is worth less than the
        tolerance.
        """
        arms = self.state.history.arms()
        scores = self.state.history.scores()
        column = self.goal.columns.index(self.goal.objectives[0].metric)
        is_equal = (
            len(np.unique(arms)) > 1
            and float(np.ptp(scores[:, column])) == 0.0
            and self.statement.n_seen >= _FEWEST
        )
        is_small = self.worth is not None and self.worth[2] < self.tolerance
        return (is_equal or is_small) and self.is_sure and len(self._contenders()) > 1

    @property
    def is_either(self) -> bool:
        return len(self._equals) > 1 or self.is_unseparated

    # The change from the baseline

    def _change(self, action: str) -> Change | None:
        """Whether to replace the baseline. None without a baseline, or if no prompt may be used."""
        if self.baseline is None or action == NONE:
            return None
        id_ = self.ids[self.baseline]
        lead = self.lead
        if lead is None or self.is_unlikely:
            is_open = action == GO_ON or self.is_unlikely
            return Change(NOT_DECIDED if is_open else KEEP, id_)
        decision = self._decision(action, lead)
        more = None if decision == SHIP else _needed(lead, self.tolerance)
        return Change(decision, id_, lead.estimate, lead.low, lead.high, more)

    def _decision(self, action: str, lead: Difference) -> str:
        if self.is_sure and lead.verdict == BETTER:
            return SHIP
        if self.baseline_violates:
            return SHIP if action in (TAKE, EITHER) else NOT_DECIDED
        is_likely = (
            lead.p_better >= _GOOD or action == TAKE
        ) and self.baseline not in self._equals
        return NOT_DECIDED if action == GO_ON or is_likely else KEEP

    @property
    def baseline_violates(self) -> bool:
        """True if the baseline very probably violates a constraint."""
        p_feasible = self.chances.p_feasible
        return p_feasible is not None and bool(p_feasible[self.baseline] <= 1.0 - _GOOD)

    def _of_change(self, change: Change) -> str | None:
        """The headline about the change from the baseline. None if the verdict has its own headline."""
        old = quoted(change.baseline)
        new = self.name(self.first)
        lead = self.lead
        if change.decision == KEEP:
            return f"Keep {old}: no prompt is shown to be better."
        if lead is None or self.is_unlikely:
            return None
        if change.decision == SHIP and lead.verdict == BETTER:
            return f"Ship {new}: better than {old} by {_with_interval(lead)}."
        if self.baseline_violates:
            violates = f"{old} very probably violates {self.a_constraint}"
            return f"Ship {new}: {violates}." if change.decision == SHIP else None
        if lead.p_better >= _GOOD:
            probability = in_percent(lead.p_better)
            return f"Not decided: {new} is probably better than {old} ({probability})."
        return f"Not decided: {new} is not shown to be better than {old}."

    # Words

    def _words(self, action: str, is_replaced: bool) -> tuple[str, list[str]]:
        """The headline and the reasons. `is_replaced`: another headline is shown, about the baseline."""
        name = self.name(self.first)
        p_best = in_percent(self.chances.p_best[self.first])
        it = name if is_replaced else "it"
        if action == NONE:
            return self.none()
        if self.is_unlikely:
            return self.unlikely(action)
        if action == EITHER and len(self._equals) > 1:
            return self._alike()
        if action == EITHER:
            return self._unseparated()
        if action == TAKE:
            return f"Take {name}.", self._good(capitalized(it))
        # The headline has a percentage without its noun.
        certainty = ["The percentage is the probability that it is the best."]
        if is_replaced:
            certainty = [f"{capitalized(name)} is the best with {p_best} probability."]
        if action == GO_ON and self.worthwhile is not None:
            gain = self.gain(self.worthwhile)
            # Where the forecast is about this probability, it also explains it.
            if self.rises(self.worthwhile) and not is_replaced:
                certainty = []
            headline = f"Not decided: {name} leads ({p_best})."
        else:
            gain = self.outcome(self._contenders())
            headline = f"Best so far: {name} ({p_best})."
        return headline, [*certainty, *self.satisfies(), *gain]

    def _good(self, it: str) -> list[str]:
        """Why the selected prompt is good enough. `it` begins a sentence."""
        p_best = float(self.chances.p_best[self.first])
        if self.alive.sum() == 1:
            return [f"{it} is the only {self.remaining}prompt.", *self.satisfies()]
        if p_best >= _COVERED:
            best = f"{it} is the best with {in_percent(p_best)} probability."
            return [best, *self.satisfies()]
        return [f"{it} is {self._close} with {in_percent(self.p_good)} probability."]

    @property
    def _close(self) -> str:
        """What a good prompt is, after "is"."""
        within = f"within {self.number(self.tolerance)} of the {self.best_prompt} in {self.metric}"
        return within + f" and satisfies {self.constraints}" * self.goal.is_constrained

    def _alike(self) -> tuple[str, list[str]]:
        """The headline and the reasons if several prompts are good."""
        names = _joined([self.name(arm) for arm in self._equals])
        return f"Take {names}: they do not differ in what matters.", [
            f"Each of these {len(self._equals)} prompts is {self._close} with at least {in_percent(_GOOD)} probability."
        ]

    def _unseparated(self) -> tuple[str, list[str]]:
        """The headline and the reasons if the scores do not separate the prompts."""
        names = _joined([self.name(arm) for arm in self._choices])
        most = max(self.worth[2] if self.worth else 0.0, self.least_shown)
        return f"Take {names}: the scores do not separate them.", [
            f"With 95% probability, the best of all prompts is at most {self.number(most)} above the median prompt in "
            f"{self.metric}.",
            *self.satisfies(),
            "Write prompts that differ more, or use a metric that separates them.",
        ]


@final
class _OfSet(_Judge):
    def truths(self, values: Draws) -> Draws:
        return values[:: max(1, len(values) // _SET_DRAWS)]

    def losses(self, held: Masks) -> Vector:
        p = len(self.goal.objectives)
        arms = np.flatnonzero(self.alive | held.any(axis=0))
        if len(arms) > _SET_ARMS:
            order = np.argsort(
                -(self.chances.p_best + held.any(axis=0))[arms], kind="stable"
            )
            arms = np.sort(arms[order[:_SET_ARMS]])
        values = membership.standing(self.values[:, arms], p)
        low = (
            np.maximum(values.min(axis=1), 0.0)
            if self.goal.is_constrained
            else values.min(axis=1)
        )
        covers = membership.coverage(values, np.arange(len(arms)), low, seed=0)
        whole = covers.any(axis=1).sum(axis=1)
        own = (covers & held[:, arms, None]).any(axis=1).sum(axis=1)
        some = membership.feasible(self.values[:, arms], p).any(axis=1) & (whole > 0)
        return np.asarray(np.where(some, 1.0 - own / np.maximum(whole, 1), 0.0))

    def p_within(self, held: Masks) -> float:
        n = len(self.goal.objectives)
        satisfied = (membership.feasible(self.values, n) | ~held).all(axis=1)
        return float((satisfied & (self.losses(held) <= self.tolerance)).mean())

    def chosen(self, predicted: Draws, closest: bool = False) -> Masks:
        return _shares(predicted, self.goal, self.alive, closest) > 0.0

    @cached_property
    def interest(self) -> Vector:
        p = self.chances.p_best
        return np.asarray(p * (1.0 - p))

    def leaders(self, predicted: Draws, n: int) -> Matrix:
        interest = np.where(self.n_left > 0, self.interest, 0.0)
        share = interest / max(float(interest.sum()), 1e-300)
        return np.broadcast_to(share, predicted.shape[:2])

    def least_loss(self) -> float:
        return _TOLERATED

    @property
    def standing(self) -> str:
        who = "Together, they are" if len(self.answer) > 1 else "This one prompt is"
        return f"{who} expected to be {self.number(self.loss)} as good as the whole true Pareto set."

    @property
    def being_good(self) -> str:
        return f"missing at most {in_percent(self.tolerance)} of it"

    def improvement(self, verb: str, loss: float) -> str:
        return f"this percentage {verb} rise to {self.number(loss)}"

    @property
    def least_shown(self) -> float:
        # A set that is 99% as good hardly improves.
        return 2.0 * self.tolerance

    def number(self, loss: float) -> str:
        return in_percent(1.0 - loss)

    def verdict(self) -> Verdict:
        action, p_in = self._action(), self.chances.p_best
        if self.none_is_feasible:
            p_in = self.chosen(self.values, closest=True).mean(axis=0)
        others = [
            int(arm) for arm in np.argsort(-p_in, kind="stable") if p_in[arm] >= _IN_SET
        ]
        contenders = [
            *self.answer.tolist(),
            *(arm for arm in others if arm not in self.answer),
        ]
        return self._verdict(
            action,
            *self._words(action, contenders),
            self.answer.tolist() if action == TAKE else [],
            contenders,
            p_in,
            answer=None,
        )

    @property
    def is_unlikely(self) -> bool:
        """True if a single selected prompt probably violates a constraint. Several prompts are selected one by one."""
        return len(self.answer) == 1 and super().is_unlikely

    def _words(self, action: str, contenders: Sequence[int]) -> tuple[str, list[str]]:
        """The headline and the reasons."""
        if action == NONE:
            return self.none()
        if self.is_unlikely:
            return self.unlikely(action)
        n = len(self.answer)
        these = f"these {n} trade-offs" if n > 1 else self.name(self.first)
        if action == TAKE:
            headline = f"Choose among {these}." if n > 1 else f"Take {these}."
            return headline, [self.standing, *self.outsiders(), *self.satisfies()]
        if action == GO_ON and self.worthwhile is not None:
            lead = "lead" if n > 1 else "leads"
            gain = self.gain(self.worthwhile)
            reasons = [*self.satisfies(), *gain, *self.outsiders()]
            return f"Not decided: {these} {lead}.", reasons
        reasons = [*self.satisfies(), *self.outcome(contenders), *self.outsiders()]
        return f"Best so far: {these}.", reasons

    def outsiders(self) -> list[str]:
        """How many of the selected prompts are expected not to belong to the true set, as a sentence."""
        n_out = round(float((1.0 - self.chances.p_best[self.answer]).sum()))
        if not n_out or len(self.answer) < 2:
            return []
        are = "is" if n_out == 1 else "are"
        return [f"About {n_out} of them {are} expected to be outside the true set."]


def _alive(state: State) -> Mask:
    """(K,) prompts that neither failed nor were retired. If every prompt did, all of them."""
    found = np.ones(state.problem.n_arms, dtype=bool)
    found[state.left.no_rivals()] = False
    return found if found.any() else ~found


def _shares(values: Draws, goal: Goal, alive: Mask, closest: bool = False) -> Draws:
    """(S, K) membership of each draw's selection.

    For a single best prompt, 1 for the best feasible prompt, divided among equals. For
    a Pareto set, 1 for its members. `closest`: if no prompt is feasible, the prompts
    that violate least are members.
    """
    n = len(goal.objectives)
    keeps = membership.feasible(values, n) & alive
    result = np.zeros(values.shape[:2])
    if isinstance(goal, ParetoSet):
        front = membership.pareto_members(membership.standing(values[:, alive], n))
        result[:, alive] = front if closest else front & keeps[:, alive]
        return result
    objective = np.where(keeps, values[:, :, 0], -np.inf)
    best = keeps & (objective == objective.max(axis=1, keepdims=True))
    return np.asarray(best / np.maximum(best.sum(axis=1, keepdims=True), 1))


def _n_covering(likely: Vector, p_best: Vector) -> int:
    """How many prompts, the most `likely` ones first, have `_COVERED` of the sum of `p_best`."""
    covered = np.cumsum(p_best[np.argsort(-likely, kind="stable")])
    return int(np.searchsorted(covered, _COVERED * covered[-1] - 1e-9)) + 1


def _effective(weights: Vector) -> int:
    """The effective number of prompts with these weights (Kish 1965)."""
    squares = float((weights**2).sum())
    return round(float(weights.sum()) ** 2 / squares) if squares > 0 else len(weights)


def _allotted(n: float, interest: Vector, most: Vector) -> Vector:
    """(K,) n evaluations divided by the weights `interest`, at most `most` for each prompt."""
    found, left = np.zeros(len(most)), min(n, float(most.sum()))
    weights = np.where(most > 0, np.maximum(interest, 1e-6), 0.0)
    # What a full prompt cannot take is divided among the others, in the next turn.
    while left > 1e-9 and weights.any():
        share = np.minimum(left * weights / weights.sum(), most - found)
        found += share
        left -= float(share.sum())
        weights = np.where(most - found > 1e-9, weights, 0.0)
    return found


def _observed(
    known: Draws,
    variance: Draws,
    truth: Draws,
    n: Matrix,
    residual: Vector,
    normal: Draws,
) -> tuple[Draws, Draws]:
    """Posterior means and variances (..., q) after n (...) more scores about the truth (..., q).

    A score has the variance of the residual (q,), and `normal` (..., q) are its
    standard normals. The update is the normal-normal posterior of a mean.
    """
    # Numbers that are the same in all draws are computed once: `n` and `variance` may
    # lack the axis of the draws.
    n = n[..., None] * _TOLD
    part = np.where(
        np.isinf(n), 1.0, n * variance / np.maximum(n * variance + residual, 1e-300)
    )
    part = np.where((residual > 0) | (n == 0), part, 1.0)
    squares = np.divide(residual, n, out=np.zeros(part.shape), where=n > 0)
    error = np.sqrt(squares) * normal
    return known + part * (truth + error - known), (1.0 - part) * variance


def _moved(off: Draws, n: float, variance: Vector, normal: Draws) -> Draws:
    """Posterior means (S, 1, q) of the common level after n more examples, given centered draws `off` of it."""
    known, spread = np.zeros_like(off), off.var(axis=0)
    found, _ = _observed(known, spread, off, np.array([n]), variance, normal)
    return found


def _agree_by_chance(scores: Matrix) -> bool:
    """True if another prompt may have the same (n, m) scores by chance.

    A score has the values of these scores with their shares. It is taken to depend on
    the example alone with a probability of 1/2, as otherwise it is drawn anew.
    """
    counts = np.unique(scores, axis=0, return_counts=True)[1]
    same = float(((counts / len(scores)) ** 2).sum())
    return ((1.0 + same) / 2.0) ** len(scores) > _COINCIDENCE


def _with_interval(lead: Difference) -> str:
    """A difference with its sign, and its interval unless it is exact."""
    low, high = lead.low, lead.high
    assert lead.estimate is not None
    if low is None or high is None or low == high:
        return _signed(lead.estimate)
    return f"{_signed(lead.estimate)} ({_signed(low)} to {_signed(high)})"


def _signed(number: float) -> str:
    """A number with its sign, in two digits."""
    return f"{'+' if number > 0 else ''}{in_digits(number, 2)}"


def _joined(names: Sequence[str]) -> str:
    """Two or more names to choose from. If there are many, only the first are named."""
    some = list(names[:_NAMED])
    if len(names) > _NAMED:
        return f"any of {len(names)} prompts ({', '.join(some)}, ...)"
    return f"{', '.join(some[:-1])} or {some[-1]}"
