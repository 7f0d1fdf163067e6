"""The loss of a selection in each joint draw of the posterior: how far it is from the best selection.

There are two kinds of loss. For one best prompt, it is the gap to the best feasible
prompt, in the units of the first objective (`Gap`). For a Pareto set, it is the share
of the true set's hypervolume that the selected prompts miss (`Miss`). What a verdict
needs of either is the same: losses of other selections, what would be selected by other
means, how the next evaluations are divided, and the loss in words.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple, TypeAlias, final

import numpy as np

from asktell._util.terminal import in_digits, in_percent, safe
from asktell.numerics.arrays import Bools, Floats
from asktell.numerics.cached import cached_property
from asktell.numerics.shapes import Bool, Float
from asktell.posterior import membership
from asktell.posterior.statement import Statement
from asktell.problem.goals import Goal, ParetoSet
from asktell.record import State

# Probability of satisfying every constraint from which a prompt may be taken
LIKELY = 0.5
_TOLERATED = 0.01  # of the metric's range: a smaller loss does not matter
# Of the tolerance: the smallest expected loss of equal prompts in a sentence
_LEAST_SHOWN = 0.1
# For a set's hypervolume: exact to 0.01 within a tenth of a second
_SET_DRAWS, _SET_ARMS = 64, 300
# Joint draws of all prompts' values
Draws: TypeAlias = Float[Floats, "draws arms columns"]
# True for the prompts that are meant, such as those of the answer
Mask: TypeAlias = Bool[Bools, " arms"]
# The same in each draw
Masks: TypeAlias = Bool[Bools, "draws arms"]

# Draws times prompts in a loss: a tenth of a second for a thousand prompts
_MOST_NUMBERS = 1 << 17
# Quantiles at the ends of the interval of what choosing is worth. The model has normal
# means, and draws a single prompt that is far ahead towards the others. With 97.5% at the
# upper end, the interval then held in 80% of simulated worlds
# (benchmarks.selection.worth).
_WORTH_ENDS = 0.025, 0.995
_COINCIDENCE = 0.01  # probability of equal scores from which they may be chance


class Chances(NamedTuple):
    """Every prompt's probability of being the best feasible one (or in the Pareto set), and of being feasible."""

    p_best: Floats  # (K,)
    p_feasible: Floats | None  # (K,) None without constraints
    # (K,) prompts that count as feasible (see `PromptResult.feasible`)
    taken: Mask | None


def chances(state: State, statement: Statement) -> Chances | None:
    """The chances of all prompts. A failed or retired prompt has the probability 0 of being the best.

    None if there is not enough data for probabilities: after a single evaluation or,
    with constraints, after a single example, because nothing shows how much examples
    differ.
    """
    alive, goal = alive_mask(state), state.problem.goal
    if statement.is_guess or (goal.is_constrained and statement.n_seen < 2):
        return None
    # P(best): the share of the draws in which a prompt is the best feasible one
    p_best = _shares(statement.values, goal, alive).mean(axis=0)
    if not goal.is_constrained:
        return Chances(p_best, None, None)
    # An arm that always satisfied a bound at an end of the scale counts as feasible. Its
    # mean, shrunk to the others', is on the far side of the bound in most draws.
    n = len(goal.objectives)
    satisfied = (statement.values[:, :, n:] >= 0) | statement.kept
    taken = satisfied.all(axis=2).mean(axis=0) >= LIKELY
    return Chances(p_best, membership.feasible(statement.values, n).mean(axis=0), taken)


def alive_mask(state: State) -> Mask:
    """(K,) prompts that neither failed nor were retired. If every prompt did, all of them."""
    alive = np.ones(state.problem.n_arms, dtype=bool)
    alive[state.left.no_rivals()] = False
    return alive if alive.any() else ~alive


class AbstractLoss(ABC):
    """The loss of any selection, given the joint draws of a statement.

    Attributes:
        values: (S, K, q) the goal's values in the draws that losses are computed for.
            These are fewer than for probabilities, since losses are computed many
            times.
        alive: (K,) prompts that neither failed nor were retired.
        tolerance: a loss that is too small to matter.
        least_shown: the smallest loss that a sentence gives as a number, or that may be
            said to improve.
        assumption: the sentence on the tolerance if the goal states none, else empty.
    """

    values: Draws
    tolerance: float
    least_shown: float
    assumption: str = ""

    def __init__(self, state: State, statement: Statement, of_arms: Chances) -> None:
        """Choose the draws, and find the tolerance."""
        self.goal = state.problem.goal
        self.alive = alive_mask(state)
        self._state, self._statement, self._chances = state, statement, of_arms

    @abstractmethod
    def of(self, held: Masks) -> Floats:
        """(S,) the loss in each draw if the `held` prompts (S, K) are selected. 0 if no prompt is feasible."""

    def p_best(self, held: Masks) -> float | None:
        """How often a `held` prompt is the best. None for a Pareto set, the default."""
        return None

    @abstractmethod
    def p_good(self, held: Masks) -> float:
        """The probability that the `held` prompts are all feasible, and their loss is within the tolerance."""

    @abstractmethod
    def chosen(self, predicted: Draws) -> Masks:
        """(S, K) the prompts that would be selected with these means (S, K, q)."""

    @property
    @abstractmethod
    def interest(self) -> Floats:
        """(K,) weights for dividing the next evaluations among the prompts."""

    @abstractmethod
    def leaders(self, predicted: Draws, n: int, are_open: Mask) -> Floats:
        """(S, K) weights for dividing later evaluations among about n prompts, from the means of each draw.

        `are_open`: (K,) prompts that have evaluations left.
        """

    # In words

    @abstractmethod
    def number(self, loss: float) -> str:
        """The quality at a loss, as text."""

    @abstractmethod
    def sentence(self, loss: float, n_selected: int) -> str:
        """The sentence that `n_selected` prompts have this expected loss."""

    @abstractmethod
    def improvement(self, verb: str, loss: float) -> str:
        """The clause that the quality in `sentence` improves to that of a loss. The verb is "should" or "could"."""

    @property
    @abstractmethod
    def being_good(self) -> str:
        """What the selected prompts are with the probability `p_good`, after "the probability of"."""


@final
class Gap(AbstractLoss):
    """The gap between the selected prompt and the best feasible prompt, in units of the first objective."""

    def __init__(
        self, state: State, statement: Statement, of_arms: Chances, first: int
    ) -> None:
        """Choose the draws, and find the tolerance. `first` is the selected arm."""
        super().__init__(state, statement, of_arms)
        self._objective, self._first = self.goal.objectives[0], first
        self.values = self._some(statement.values)
        if twins := _twins(state, first, self.alive):
            # Equal scores on every common example are evidence of equality, which the
            # model of separate prompts does not have.
            self.values = self.values.copy()
            self.values[:, twins] = self.values[:, [first]]
        self.tolerance = self._tolerance()
        self.least_shown = _LEAST_SHOWN * self.tolerance
        if self._objective.metric not in self.goal.tolerances:
            spread = "the spread of the scores" if self._limits is None else "the range"
            self.assumption = (
                f"No tolerance was stated. Differences of less than {self.number(self.tolerance)} in {self.metric} are "
                f"taken not to matter ({in_percent(_TOLERATED)} of {spread})."
            )

    def _some(self, values: Draws) -> Draws:
        """As many of the draws as losses are computed for."""
        return values[:: -(-values.shape[0] * values.shape[1] // _MOST_NUMBERS)]

    def _tolerance(self) -> float:
        stated = self.goal.tolerances.get(self._objective.metric)
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
    def _scores(self) -> Floats:
        """(n,) all scores of the first objective."""
        column = self.goal.columns.index(self._objective.metric)
        return np.asarray(self._state.history.scores()[:, column])

    @cached_property
    def _limits(self) -> tuple[float, float] | None:
        """The range of the first objective, which is 0 to 1 if all scores are 0 or 1. None if it is unknown."""
        limits = self.goal.limits(self._objective.metric)
        if limits is None and np.isin(self._scores, (0.0, 1.0)).all():
            return 0.0, 1.0
        return limits

    def of(self, held: Masks) -> Floats:
        """(S,) the loss in each draw if the `held` prompts (S, K) are selected. 0 if no prompt is feasible."""
        objective, best = self.values[:, :, 0], self._best
        selected = np.where(held, objective, -np.inf).max(axis=1)
        gaps = np.maximum(0.0, best - selected)
        return np.asarray(np.where(np.isfinite(best), gaps, 0.0))

    @cached_property
    def _best(self) -> Floats:
        """(S,) the objective of the best feasible prompt, minus infinity if no prompt is feasible."""
        keeps = membership.feasible(self.values) & self.alive
        return np.asarray(np.where(keeps, self.values[:, :, 0], -np.inf).max(axis=1))

    @cached_property
    def shares(self) -> Draws:
        """(S, K) 1 for the best feasible prompt of each draw, divided among equals. It averages to `Chances.p_best`."""
        return _shares(self._some(self._statement.values), self.goal, self.alive)

    def p_best(self, held: Masks) -> float:
        """How often a `held` prompt is the best."""
        return float((self.shares * held).sum(axis=1).mean())

    def p_good(self, held: Masks) -> float:
        """The probability that the `held` prompt is feasible, and its loss is within the tolerance."""
        return float((self.good * held).any(axis=1).mean())

    @cached_property
    def good(self) -> Masks:
        """(S, K) True for the prompts that are feasible, and within the tolerance of the best feasible one."""
        near = self.values[:, :, 0] >= self._best[:, None] - self.tolerance
        return np.asarray(membership.feasible(self.values) & near & self.alive)

    @cached_property
    def worth(self) -> tuple[float, float, float] | None:
        """What choosing is worth: the best feasible prompt's mean less the median, and the ends of its interval.

        The best of uncertain means is above the median even if all are equal. So the
        lower end is that of the selected prompt, which is not better than the best.
        """
        has_feasible = np.isfinite(self._best)
        if not has_feasible.any() or self.alive.sum() < 2:
            return None
        values = self.values[has_feasible]
        median = np.median(values[:, self.alive, 0], axis=1)
        gains = np.maximum(self._best[has_feasible] - median, 0.0)
        keeps = membership.feasible(values[:, [self._first]])[:, 0]
        leads = np.where(keeps, values[:, self._first, 0] - median, 0.0)
        low = max(0.0, float(np.quantile(leads, _WORTH_ENDS[0])))
        return float(gains.mean()), low, float(np.quantile(gains, _WORTH_ENDS[1]))

    def chosen(self, predicted: Draws) -> Masks:
        """(S, K) the prompt that would be selected with these means (S, K, q)."""
        merits = np.where(self.alive, membership.merit(predicted), -np.inf)
        return np.asarray(merits.argmax(axis=1)[:, None] == np.arange(merits.shape[1]))

    @cached_property
    def interest(self) -> Floats:
        """(K,) how often each prompt is the best or the second best."""
        weights = np.zeros(len(self.alive))
        arms = np.flatnonzero(self.alive)
        if len(arms) > 1:
            two = arms[membership.ranking(membership.merit(self.values[:, arms]))]
            weights = np.bincount(two.ravel(), minlength=len(weights)) / len(two)
        return weights

    def leaders(self, predicted: Draws, n: int, are_open: Mask) -> Floats:
        """(S, K) equal weights of the n best prompts of each draw."""
        merits = np.where(self.alive, membership.merit(predicted), -np.inf)
        n = min(n, int(self.alive.sum()))
        place = merits.shape[1] - n
        least = np.partition(merits, place, axis=1)[:, [place]]
        leading = (merits >= least) & are_open
        return np.asarray(leading / np.maximum(leading.sum(axis=1, keepdims=True), 1))

    def is_flat(self) -> bool:
        """True if several prompts have scores, and all scores of the first objective are equal."""
        several = len(np.unique(self._state.history.arms())) > 1
        return several and float(np.ptp(self._scores)) == 0.0

    @property
    def metric(self) -> str:
        """The quoted name of the optimized quantity."""
        return f'"{safe(self._objective.quantity)}"'

    @property
    def best_prompt(self) -> str:
        """The prompt that losses are relative to, without an article."""
        return "best feasible prompt" if self.goal.is_constrained else "best prompt"

    def number(self, loss: float) -> str:
        """The loss in two digits."""
        return in_digits(loss, 2)

    def sentence(self, loss: float, n_selected: int) -> str:
        """The sentence that the selected prompt has this expected loss."""
        # Losses far below the tolerance are rounded up: 3e-06 helps no reader
        most = "" if loss > self.least_shown else "at most "
        gap = self.number(max(loss, self.least_shown))
        return f"The expected gap to the {self.best_prompt} is {most}{gap} in {self.metric}."

    def improvement(self, verb: str, loss: float) -> str:
        """The clause that the gap shrinks to a loss."""
        # Losses far below the tolerance are 0 for a reader
        size = self.number(loss) if loss > self.least_shown else "almost 0"
        return f"this gap {verb} shrink to {size}"

    @property
    def being_good(self) -> str:
        """What the selected prompt is with the probability `p_good`, after "the probability of"."""
        return f"being within {self.number(self.tolerance)} of the {self.best_prompt}"


@final
class Miss(AbstractLoss):
    """The share of the true Pareto set's hypervolume that the selected prompts miss."""

    tolerance = _TOLERATED
    # A set that is 99% as good hardly improves.
    least_shown = 2.0 * _TOLERATED

    def __init__(self, state: State, statement: Statement, of_arms: Chances) -> None:
        """Choose the draws."""
        super().__init__(state, statement, of_arms)
        self.values = statement.values[:: max(1, len(statement.values) // _SET_DRAWS)]

    def of(self, held: Masks) -> Floats:
        """(S,) the loss in each draw if the `held` prompts (S, K) are selected. 0 if no prompt is feasible."""
        p = len(self.goal.objectives)
        is_held = held.any(axis=0)
        arms = np.flatnonzero(self.alive | is_held)
        if len(arms) > _SET_ARMS:
            order = np.argsort(-(self._chances.p_best + is_held)[arms], kind="stable")
            arms = np.sort(arms[order[:_SET_ARMS]])
        values = membership.standing(self.values[:, arms], p)
        low = values.min(axis=1)
        if self.goal.is_constrained:
            low = np.maximum(low, 0.0)
        covers = membership.coverage(values, np.arange(len(arms)), low, seed=0)
        whole = covers.any(axis=1).sum(axis=1)
        covered = (covers & held[:, arms, None]).any(axis=1).sum(axis=1)
        feasible = membership.feasible(self.values[:, arms], p).any(axis=1)
        share = covered / np.maximum(whole, 1)
        return np.asarray(np.where(feasible & (whole > 0), 1.0 - share, 0.0))

    def p_good(self, held: Masks) -> float:
        """The probability that the `held` prompts are all feasible, and their loss is within the tolerance."""
        n = len(self.goal.objectives)
        satisfied = (membership.feasible(self.values, n) | ~held).all(axis=1)
        return float((satisfied & (self.of(held) <= self.tolerance)).mean())

    def chosen(self, predicted: Draws, closest: bool = False) -> Masks:
        """(S, K) the prompts that would be selected with these means (S, K, q).

        `closest`: if no prompt is feasible, the prompts that violate least.
        """
        return _shares(predicted, self.goal, self.alive, closest) > 0.0

    @cached_property
    def interest(self) -> Floats:
        """(K,) the variance of whether a prompt is a member."""
        p = self._chances.p_best
        return np.asarray(p * (1.0 - p))

    def leaders(self, predicted: Draws, n: int, are_open: Mask) -> Floats:
        """(S, K) the weights of `interest`, in every draw."""
        interest = np.where(are_open, self.interest, 0.0)
        share = interest / max(float(interest.sum()), 1e-300)
        return np.broadcast_to(share, predicted.shape[:2])

    def number(self, loss: float) -> str:
        """The share of the hypervolume that is reached, in percent."""
        return in_percent(1.0 - loss)

    def sentence(self, loss: float, n_selected: int) -> str:
        """The sentence that `n_selected` prompts have this expected loss."""
        they_are = "Together, they are" if n_selected > 1 else "This one prompt is"
        return f"{they_are} expected to be {self.number(loss)} as good as the whole true Pareto set."

    def improvement(self, verb: str, loss: float) -> str:
        """The clause that the share rises to that of a loss."""
        return f"this percentage {verb} rise to {self.number(loss)}"

    @property
    def being_good(self) -> str:
        """What the selected prompts are with the probability `p_good`, after "the probability of"."""
        return f"missing at most {in_percent(self.tolerance)} of it"


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


def _twins(state: State, first: int, alive: Mask) -> list[int]:
    """The arms with the same scores on the same examples as the arm `first`, unless that may be chance."""
    history = state.history
    arms = history.arms()
    examples = history.examples()
    order = np.lexsort((*history.scores().T, examples, arms))
    arms, examples, scores = arms[order], examples[order], history.scores()[order]
    starts = np.searchsorted(arms, np.arange(state.problem.n_arms + 1))
    of_first = slice(starts[first], starts[first + 1])
    n = of_first.stop - of_first.start
    if not n or (examples[of_first] < 0).any() or _agree_by_chance(scores[of_first]):
        return []
    return [
        arm
        for arm in np.flatnonzero((np.diff(starts) == n) & alive).tolist()
        if arm != first
        and (examples[starts[arm] : starts[arm + 1]] == examples[of_first]).all()
        and (scores[starts[arm] : starts[arm + 1]] == scores[of_first]).all()
    ]


def _agree_by_chance(scores: Floats) -> bool:
    """True if another prompt may have the same (n, m) scores by chance.

    A score has the values of these scores with their shares. It is taken to depend on
    the example alone with a probability of 1/2, as otherwise it is drawn anew.
    """
    counts = np.unique(scores, axis=0, return_counts=True)[1]
    same = float(((counts / len(scores)) ** 2).sum())
    return ((1.0 + same) / 2.0) ** len(scores) > _COINCIDENCE
