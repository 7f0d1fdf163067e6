"""What to do with the answer, how sure that is, and what more evaluations would bring.

This is the one place where certainty is stated; whatever shows a result shows this. Probabilities are those of
`asktell.posterior.statement`: the headline speaks of new examples like those given, for that is where an answer is
used.

The outlook is a preposterior calculation (Raiffa & Schlaifer 1961, chapter 5). For every joint draw of the truth the
means that n more evaluations would lead to are drawn too, the answer is chosen by these and held against that draw.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self, final

import numpy as np

from asktell._util.terminal import in_percent, one_line, safe
from asktell.numerics.arrays import Draws, Indices, Mask, Masks, Matrix, Vector
from asktell.posterior import membership
from asktell.posterior.statement import Statement
from asktell.problem.goals import BestFeasible, Goal, ParetoSet
from asktell.state import State

TAKE, EITHER, GO_ON, NONE = "take", "either", "go on", "none"

_COVERED = 0.95  # probability that the best prompt is among the contenders, and that the loss is at most `loss_95`
_TAKEN = 0.5  # probability from which a prompt is taken to keep its constraints
_IN_FRONT = 0.05  # probability of being in the front from which a prompt outside the answer is a contender
_TOLERATED = 0.01  # of the metric's range: a loss that nobody minds
_WORTHWHILE = 0.1  # of the loss: what more evaluations have to save to be advised
_MORE = (0.5, 1.0, 2.0)  # evaluations of the outlook, in units of those spent
_LARGER = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # numbers of new examples that are tried, in units of those given
_TOLD = 0.5  # of what as many evaluations, shared out ideally, would tell: with that, predictions held on tables
_FRONT_DRAWS, _FRONT_ARMS = 64, 300  # of a front's volume: to .01, within a tenth of a second
_MOST_NUMBERS = 1 << 17  # draws times prompts that losses are computed for: a tenth of a second for a thousand prompts
_NOTABLE = 0.03  # of a probability: what is worth a word
_NAMED, _LONGEST = 3, 60  # contenders by name in a sentence, and characters of a name


@dataclass(frozen=True)
class Outlook:
    """The probability of having the best, and the expected loss, after so many more evaluations at such a cost.

    `cost` is None where no costs were told, `p_best` for a Pareto set.
    """

    evaluations: int
    cost: float | None
    p_best: float | None
    loss: float


@dataclass(frozen=True)
class Verdict:
    """What to do and how sure that is, on new examples like those given; None where nothing is known.

    `answer`: id of the best prompt; None for a Pareto set, or if no prompt is likely to keep every constraint.
    `action`: "take", "either" (several prompts are equally good), "go on" (more evaluations are worth it) or "none".
    `sentence`: the same in words. `p_best`: the probability that the answer is the best prompt that keeps every
    constraint; None for a Pareto set. `p_feasible`: that it keeps every constraint (of a Pareto set: that all selected
    prompts do); None without constraints. `given_p_best` and `given_p_feasible`: the same on the examples given.

    `loss`: how much worse than the best feasible prompt the answer is expected to be, in the first objective's units;
    `loss_95`: the bound on that which holds with 95 % probability. For a Pareto set: the part missed of the
    hypervolume of the true one. `contenders`: (id, probability) of the smallest set of prompts that contains the best
    feasible one with 95 % probability if there is one, the answer first; for a Pareto set, the selected prompts and
    those that belong to it with 5 % probability or more. `outlook`: what to expect of more evaluations, at last of all
    that are left.
    """

    answer: str | int | None
    action: str
    sentence: str
    p_best: float | None = None
    p_feasible: float | None = None
    given_p_best: float | None = None
    given_p_feasible: float | None = None
    loss: float | None = None
    loss_95: float | None = None
    contenders: tuple[tuple[str | int, float], ...] = ()
    outlook: tuple[Outlook, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON-ready data, with the same names."""
        outlook = [asdict(each) for each in self.outlook]
        return {**asdict(self), "contenders": [list(each) for each in self.contenders], "outlook": outlook}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What `to_dict` made `data` of."""
        contenders = tuple((id_, float(p)) for id_, p in data["contenders"])
        return cls(**{**data, "contenders": contenders, "outlook": tuple(Outlook(**each) for each in data["outlook"])})


class Chances(NamedTuple):
    """Every prompt's probability of being the best feasible one (or in the Pareto set), and of being feasible."""

    p_best: Vector  # (K,) on new examples like those given
    p_feasible: Vector | None
    given_p_best: Vector  # (K,) on the examples given
    taken: Mask | None  # (K,) who is taken to keep every constraint; bounds at an end of the scale by who has kept them


def chances(state: State, stated: Statement) -> Chances:
    """The chances of all prompts; of those that failed or were retired, of being the best none."""
    alive, goal = _alive(state), state.problem.goal
    given, new = (_shares(values, goal, alive).mean(axis=0) for values in (stated.given, stated.new))
    if not goal.is_constrained:
        return Chances(new, None, given, None)
    n = len(goal.objectives)
    taken = ((stated.given[:, :, n:] >= 0) | stated.kept).all(axis=2).mean(axis=0) >= _TAKEN
    return Chances(new, membership.feasible(stated.new, n).mean(axis=0), given, taken)


def members(state: State, stated: Statement) -> Masks:
    """(S, K): who is in the Pareto set of each draw, on new examples like those given."""
    return _shares(stated.new, state.problem.goal, _alive(state)) > 0.0


def judge(
    state: State,
    stated: Statement | None,
    likely: Chances | None,
    answer: Sequence[int],
    ids: Sequence[str | int],
    none_is_feasible: bool = False,
    tolerance: float = 0.0,
) -> Verdict:
    """The verdict on an answer, arms with the best first.

    `stated` is None if nothing is known, `likely` if nothing supports a probability. `none_is_feasible`: no prompt is
    taken to keep every constraint, and the answer comes closest. `tolerance`: a loss of a single best prompt that does
    not matter, in the objective's units; 0 for 1 % of its range or, where that is unknown, of how far means are apart.
    """
    if stated is None or likely is None or not answer:  # everybody may be the best
        out = {*answer, *state.no_rivals()}
        arms = [*answer, *(arm for arm in range(state.problem.n_arms) if arm not in out)]
        open_ = tuple((ids[arm], 1.0 / len(arms)) for arm in arms)
        if stated is None or not answer:
            return Verdict(None, NONE, "No prompt has been evaluated successfully yet.", contenders=open_)
        best = None if isinstance(state.problem.goal, ParetoSet) else ids[answer[0]]
        return Verdict(best, GO_ON, "Go on: a single evaluation tells no probability.", contenders=open_)
    which = _OfFront if isinstance(state.problem.goal, ParetoSet) else _OfBest
    return which(state, stated, likely, np.array(answer), ids, none_is_feasible, tolerance).verdict()


class _Judge(ABC):
    def __init__(
        self,
        state: State,
        stated: Statement,
        likely: Chances,
        answer: Indices,
        ids: Sequence[str | int],
        none_is_feasible: bool,
        tolerance: float,
    ) -> None:
        self.state, self.stated, self.chances, self.answer, self.ids = state, stated, likely, answer, ids
        self.goal, self.alive, self.first = state.problem.goal, _alive(state), int(answer[0])
        self.none_is_feasible = none_is_feasible
        self.new = self.truths(stated.new)
        self.held = np.zeros(self.new.shape[:2], dtype=bool)
        self.held[:, answer] = True
        losses = self.losses(self.held)
        self.loss, self.loss_95 = float(losses.mean()), float(np.quantile(losses, _COVERED))
        self.tolerance = tolerance or self.least_loss()
        self.p_feasible = self._p_feasible(stated.new)
        self.outlook = self._outlook()

    @abstractmethod
    def truths(self, values: Draws) -> Draws:
        """The draws of what may be true on new examples that losses are computed for."""

    @abstractmethod
    def losses(self, held: Masks) -> Vector:
        """(S,) the loss in each draw if those are the answer; 0 where no prompt is feasible."""

    def hits(self, held: Masks) -> float | None:
        """How often those are the best; None of a front."""
        return None

    @abstractmethod
    def chosen(self, predicted: Draws) -> Masks:
        """(S, K) who would be the answer by these means."""

    @abstractmethod
    def interest(self) -> Vector:
        """(K,) how much more evaluations of each prompt tell."""

    @abstractmethod
    def least_loss(self) -> float:
        """A loss that nobody minds."""

    @abstractmethod
    def verdict(self) -> Verdict:
        """The verdict."""

    def _stated(self, action: str, sentence: str, contenders: list[int], likely: Vector, **own: Any) -> Verdict:
        return Verdict(
            action=action, sentence=sentence, p_feasible=self.p_feasible,
            given_p_feasible=self._p_feasible(self.stated.given), loss=self.loss, loss_95=self.loss_95,
            contenders=tuple((self.ids[arm], float(likely[arm])) for arm in contenders), outlook=self.outlook, **own,
        )  # fmt: skip

    def _p_feasible(self, values: Draws) -> float | None:
        if not self.goal.is_constrained:
            return None
        return float(membership.feasible(values[:, self.answer], len(self.goal.objectives)).all(axis=1).mean())

    def _outlook(self) -> tuple[Outlook, ...]:
        problem, spent = self.state.problem, max(1, len(self.state.history))
        # Evaluations that each prompt has left; endless without a fixed set of examples.
        most = np.inf if problem.n_examples is None else float(problem.n_examples * problem.repeats)
        room = np.where(self.alive, np.maximum(most - self.state.told, 0.0), 0.0)
        left = float(room.sum())
        wanted = [float(round(part * spent)) for part in _MORE if round(part * spent) < left]
        wanted += [left] if 0 < left < np.inf else []
        new_examples = np.inf if problem.n_examples is None else float(problem.n_examples - self.stated.n_seen)
        p_last, last, found = self.hits(self.held), self.loss, []
        for n in wanted:
            per_arm = _allotted(n, self.interest(), room)
            p_best, loss = self._after(per_arm, min(new_examples, float(per_arm.max())))
            p_last = None if p_best is None or p_last is None else max(p_best, p_last)  # scores do no harm
            last = min(loss, last)
            costs = self.state.costs
            price = float(per_arm @ costs.expected_all(len(per_arm))) if costs.pool.total else None
            found.append(Outlook(int(n), price, p_last, last))
        return tuple(found)

    def _after(self, per_arm: Vector, new_examples: float) -> tuple[float | None, float]:
        """P(best) and the loss to expect after so many more evaluations of each prompt, partly on new examples."""
        held = self.chosen(self._predicted(per_arm, new_examples))
        return self.hits(held), float(self.losses(held).mean())

    def _predicted(self, per_arm: Vector, new_examples: float) -> Draws:
        """(S, K, q) the means that more scores would lead to where each draw is the truth.

        A mean of variance v moves to the truth by the part r of the way that its variance will shrink, with an error of
        variance r (1 - r) v. The level that all prompts share and each prompt's distance from it shrink on their own:
        one by new examples, the other by the prompt's evaluations.
        """
        goal = self.goal
        weight = (goal.values(np.eye(len(goal.columns))) - goal.values(np.zeros((1, len(goal.columns))))) ** 2
        example, residual = self.stated.example @ weight, self.stated.residual @ weight
        within = [objective.worst_segment for objective in goal.objectives] + [b.in_every_segment for b in goal.bounds]
        residual = residual * np.where(within, max(1, goal.n_segments), 1)  # a segment gets its part of the evaluations
        rng = np.random.default_rng([self.state.problem.seed & 0xFFFFFFFFFFFFFFFF, len(self.state.history)])
        result = np.empty_like(self.new)
        for k in range(self.new.shape[2]):
            column = self.new[:, :, k]
            mean, level = column.mean(axis=0), column[:, self.alive].mean(axis=1, keepdims=True)
            level = level - level.mean()
            of_level = float(example[k] + residual[k] / self.alive.sum())
            result[:, :, k] = mean + _moved(level, np.array([new_examples]), of_level, rng)
            result[:, :, k] += _moved(column - mean - level, _TOLD * per_arm, float(residual[k]), rng)
        return result

    def saves(self, *outlook: Outlook) -> bool:
        """True if any of these lowers the loss by enough to be advised."""
        return any(then.loss < (1.0 - _WORTHWHILE) * self.loss for then in outlook)

    def name(self, arm: int) -> str:
        id_ = self.ids[arm]
        return one_line(id_, _LONGEST) if isinstance(id_, str) else f"prompt {id_}"

    @property
    def keeps(self) -> str:
        """How sure it is that the answer keeps its limits, as a sentence with a space before it."""
        it = "It keeps" if len(self.answer) == 1 else "All of them keep"
        return "" if self.p_feasible is None else f" {it} every limit with probability {in_percent(self.p_feasible)}."

    def none(self) -> str:
        keeps = f"keeps them with probability {in_percent(self.p_feasible or 0.0)}"
        nearest = f"{self.name(self.first)} comes closest, and {keeps}"
        return f"Loosen a limit, or add prompts: none keeps every limit. {nearest}."

    def worth(self, what: str) -> str:
        """What more evaluations would bring, as a sentence; `what` they lower."""
        then = next((each for each in self.outlook if self.saves(each)), self.outlook[-1])
        price = "" if then.cost is None else f" (cost about {then.cost:.3g})"
        p_now, gains = self.hits(self.held), []
        if self.saves(then):
            to = self.amount(then.loss)
            gains.append(f"lower {what} to {to if to != self.amount(self.loss) else f'{100 * then.loss:.2g} %'}")
        if then.p_best is not None and p_now is not None and then.p_best - p_now >= _NOTABLE:
            gains.append(f"raise the probability to {in_percent(then.p_best)}")
        return f"{then.evaluations:,} more evaluations{price} would {' and '.join(gains)}."

    def no_use(self, arms: Sequence[int]) -> str:
        """What could decide, where more evaluations do not."""
        given = self.state.problem.n_examples
        if given is None:
            return "More evaluations would change little."
        said, who = f"More evaluations of these {given:,} examples cannot decide this", np.zeros(len(self.alive))
        who[list(arms)] = 1.0
        for n in (max(1, round(part * given)) for part in _LARGER if self.loss > 0.0):
            if self._after(n * who, float(n))[1] <= 0.5 * self.loss:
                return f"{said}; about {n:,} new examples could."
        return f"{said}."

    def amount(self, loss: float) -> str:
        """A loss with its unit."""
        return f"{loss:.2g}"


@final
class _OfBest(_Judge):
    def truths(self, values: Draws) -> Draws:
        return values[:: -(-values.shape[0] * values.shape[1] // _MOST_NUMBERS)]

    def losses(self, held: Masks) -> Vector:
        objective = self.new[:, :, 0]
        best = self._best(objective)
        own = np.where(held, objective, -np.inf).max(axis=1)
        return np.asarray(np.where(np.isfinite(best), np.maximum(0.0, best - own), 0.0))

    def _best(self, objective: Matrix) -> Vector:
        """(S,) the best feasible prompt's; minus infinity where no prompt is feasible."""
        keeps = membership.feasible(self.new) & self.alive
        return np.asarray(np.where(keeps, objective, -np.inf).max(axis=1))

    def hits(self, held: Masks) -> float | None:
        return float((_shares(self.new, self.goal, self.alive) * held).sum(axis=1).mean())

    def chosen(self, predicted: Draws) -> Masks:
        merits = np.where(self.alive, membership.merit(predicted), -np.inf)
        return np.asarray(merits.argmax(axis=1)[:, None] == np.arange(merits.shape[1]))

    def interest(self) -> Vector:
        found = np.zeros(len(self.alive))
        who = np.flatnonzero(self.alive)
        if len(who) > 1:
            two = who[membership.ranking(membership.merit(self.new[:, who]))]
            found = np.bincount(two.ravel(), minlength=len(found)) / len(two)
        return found

    def least_loss(self) -> float:
        metric = self.goal.objectives[0].metric
        scores, limits = self.state.history.scores(), self.goal.limits(metric)
        if limits is None and np.isin(scores[:, self.goal.columns.index(metric)], (0.0, 1.0)).all():
            limits = (0.0, 1.0)
        return _TOLERATED * (limits[1] - limits[0] if limits else float(np.ptp(self.new[:, :, 0].mean(axis=0))))

    def amount(self, loss: float) -> str:
        objective = self.goal.objectives[0]
        return f"{loss:.2g} {'worst-segment ' * objective.worst_segment}{safe(objective.metric)}"

    def verdict(self) -> Verdict:
        action, likely = self._action(), self._likely()[1]
        p_best, given_p_best = (float(p[self.first]) for p in (self.chances.p_best, self.chances.given_p_best))
        return self._stated(
            action, self._sentence(action), self._contenders(), likely,
            answer=None if action == NONE else self.ids[self.first], p_best=p_best, given_p_best=given_p_best,
        )  # fmt: skip

    def _contenders(self) -> list[int]:
        return [self.first, *(arm for arm in self._likely()[0] if arm != self.first)]

    def _likely(self) -> tuple[list[int], Vector]:
        """Who is most likely the best, or comes closest if no prompt is feasible; and how likely all are."""
        p_best = self.chances.p_best
        if self.none_is_feasible:
            p_best = self.chosen(self.new).mean(axis=0)
        order = np.argsort(-p_best, kind="stable")
        enough = int(np.searchsorted(np.cumsum(p_best[order]), _COVERED * p_best.sum() - 1e-9)) + 1
        return [int(arm) for arm in order[:enough] if p_best[arm] > 0.0], p_best

    def _equals(self) -> list[int]:
        """The contenders, if each is feasible and within the tolerance of the best with 95 % probability; else none."""
        contenders, objective = self._contenders(), self.new[:, :, 0]
        best, keeps = self._best(objective), membership.feasible(self.new)
        near = keeps & (best[:, None] - objective <= self.tolerance + 1e-12)
        return contenders if (near.mean(axis=0)[contenders] >= _COVERED).all() else []

    def _action(self) -> str:
        if self.none_is_feasible:
            return NONE
        gain = max((each.p_best or 0.0 for each in self.outlook), default=0.0) - float(self.chances.p_best[self.first])
        if len(self._equals()) > 1:
            return EITHER
        if self._is_settled():
            return TAKE
        return GO_ON if self.saves(*self.outlook) or gain > _WORTHWHILE else TAKE

    def _is_settled(self) -> bool:
        needed = _COVERED if not isinstance(self.goal, BestFeasible) or self.goal.sure is None else self.goal.sure
        return (self.p_feasible is None or self.p_feasible >= needed) and self.loss_95 <= self.tolerance

    def _sentence(self, action: str) -> str:
        name, p_best = self.name(self.first), float(self.chances.p_best[self.first])
        take = "Keep" if self.first == self.state.problem.baseline else "Take"
        near = f"within {self.amount(self.tolerance)} of the best, with 95 % probability"
        best = f"on new examples like these it is the best with probability {in_percent(p_best)}"
        if action == NONE:
            return self.none()
        if action == EITHER:
            who = _joined([self.name(arm) for arm in self._equals()])
            each = f"on new examples like these each is {near}"
            return f"Take any of {who}: {each}. Choose by price or taste.{self.keeps}"
        if action == TAKE and self._is_settled():
            if self.alive.sum() == 1:
                return f"{take} {name}: it is the only prompt.{self.keeps}"
            sure = best if p_best >= _COVERED else f"on new examples like these it is {near}"
            return f"{take} {name}: {sure}.{self.keeps}"
        best += f", and expected to be {self.amount(self.loss)} below the best"
        if action == GO_ON:
            leads = "leads" if p_best >= self.chances.p_best.max() else "is a little ahead in expected quality"
            return f"Go on: {name} {leads}; {best}.{self.keeps} {self.worth('the expected loss')}"
        return f"{take} {name}, or find more examples: {best}.{self.keeps} {self.no_use(self._contenders())}"


@final
class _OfFront(_Judge):
    def truths(self, values: Draws) -> Draws:
        return values[:: max(1, len(values) // _FRONT_DRAWS)]

    def losses(self, held: Masks) -> Vector:
        p = len(self.goal.objectives)
        arms = np.flatnonzero(self.alive | held.any(axis=0))
        if len(arms) > _FRONT_ARMS:
            order = np.argsort(-(self.chances.p_best + held.any(axis=0))[arms], kind="stable")
            arms = np.sort(arms[order[:_FRONT_ARMS]])
        values = membership.standing(self.new[:, arms], p)
        low = np.maximum(values.min(axis=1), 0.0) if self.goal.is_constrained else values.min(axis=1)
        covers = membership.coverage(values, np.arange(len(arms)), low, self.state.problem.seed)
        whole = covers.any(axis=1).sum(axis=1)
        own = (covers & held[:, arms, None]).any(axis=1).sum(axis=1)
        some = membership.feasible(self.new[:, arms], p).any(axis=1) & (whole > 0)
        return np.asarray(np.where(some, 1.0 - own / np.maximum(whole, 1), 0.0))

    def chosen(self, predicted: Draws, closest: bool = False) -> Masks:
        return _shares(predicted, self.goal, self.alive, closest) > 0.0

    def interest(self) -> Vector:
        p = self.chances.p_best
        return np.asarray(p * (1.0 - p))

    def least_loss(self) -> float:
        return _TOLERATED

    def amount(self, loss: float) -> str:
        return in_percent(loss)

    def verdict(self) -> Verdict:
        action, p_in = self._action(), self.chances.p_best
        if self.none_is_feasible:
            p_in = self.chosen(self.new, closest=True).mean(axis=0)
        others = [int(arm) for arm in np.argsort(-p_in, kind="stable") if p_in[arm] >= _IN_FRONT]
        contenders = [*self.answer.tolist(), *(arm for arm in others if arm not in self.answer)]
        return self._stated(action, self._sentence(action, contenders), contenders, p_in, answer=None)

    def _action(self) -> str:
        if self.none_is_feasible:
            return NONE
        return TAKE if self.loss_95 <= self.tolerance or not self.saves(*self.outlook) else GO_ON

    def _sentence(self, action: str, contenders: Sequence[int]) -> str:
        if action == NONE:
            return self.none()
        n = len(self.answer)
        these = f"Choose among these {n} by what matters most" if n > 1 else f"Take {self.name(self.first)}"
        they_are = "they are" if n > 1 else "it is"
        misses = f"{they_are} expected to miss {in_percent(self.loss)} of what the best choices cover"
        if action == GO_ON:
            return f"Go on: {misses}.{self.keeps} {self.worth('that')}"
        rest = "" if self.loss <= self.tolerance else f" {self.no_use(contenders)}"
        return f"{these}: {misses}.{self.keeps}{rest}"


def _alive(state: State) -> Mask:
    """(K,) who neither failed nor was retired; everybody, if all have."""
    found = np.ones(state.problem.n_arms, dtype=bool)
    found[state.no_rivals()] = False
    return found if found.any() else ~found


def _shares(values: Draws, goal: Goal, alive: Mask, closest: bool = False) -> Draws:
    """(S, K): 1 for the best feasible prompt of each draw, divided among equals; or who is in the Pareto set.

    `closest`: where no prompt is feasible, those that violate least are in that set.
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


def _allotted(n: float, interest: Vector, room: Vector) -> Vector:
    """(K,) n evaluations by interest, none beyond a prompt's room."""
    found, left = np.zeros(len(room)), min(n, float(room.sum()))
    weights = np.where(room > 0, np.maximum(interest, 1e-6), 0.0)
    while left > 1e-9 and weights.any():
        share = np.minimum(left * weights / weights.sum(), room - found)
        found += share
        left -= float(share.sum())
        weights = np.where(room - found > 1e-9, weights, 0.0)
    return found


def _moved(off: Matrix, n: Vector, variance: float, rng: np.random.Generator) -> Matrix:
    """Deviations (S, K) from today's means that the means will have after n (K,) more scores of such a variance."""
    v = off.var(axis=0)
    known = n * v
    part = np.where(np.isinf(n), 1.0, known / np.maximum(known + variance, 1e-300)) if variance > 0 else np.ones(len(v))
    return np.asarray(part * off + np.sqrt(part * (1.0 - part) * v) * rng.normal(size=off.shape))


def _joined(names: Sequence[str]) -> str:
    some = list(names[:_NAMED])
    if len(names) > _NAMED:
        return f"{len(names)} prompts ({', '.join(some)}, ...)"
    return f"{', '.join(some[:-1])} and {some[-1]}"
