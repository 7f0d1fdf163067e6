"""The verdict: the recommendation and its certainty.

Everything that shows a result shows this verdict, and certainty is stated nowhere else.
Probabilities come from `asktell.posterior.statement`. They are about new inputs, or
with inputs="given" about the given examples. `asktell.results.losses` has the losses of
a selection, and `asktell.results.outlook` the expected gain of more evaluations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self, final

import numpy as np

from asktell._util.terminal import in_digits, in_percent
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cached import cached_property
from asktell.posterior import membership
from asktell.posterior.statement import Statement
from asktell.problem.goals import ParetoSet
from asktell.record import State
from asktell.results.difference import BETTER, Difference
from asktell.results.entries import capitalized, quoted, unit_of
from asktell.results.losses import LIKELY, AbstractLoss, Chances, Gap, Miss
from asktell.results.outlook import Forecaster, Outlook

TAKE, EITHER, GO_ON, BEST, NONE = "take", "either", "go on", "best so far", "none"
SHIP, KEEP, NOT_DECIDED = "ship", "keep", "not decided"

# Probability of being good (see `Verdict.p_good`) from which a prompt is recommended. By
# the audit of the verdicts (docs/explanation/how-sure.md).
_GOOD = 0.9

# Probability that the best prompt is among the contenders, and that the loss is at most
# `loss_95`
_COVERED = 0.95
# Probability that some prompt satisfies every constraint: below it, the verdict is
# "none"
_NO_PROMPT = 0.05
# Examples before scores can show that no prompt is feasible, or that they do not separate
# prompts. Also evaluations per prompt before more of them can be said to change little
_FEWEST = 4
# Probability of being in the Pareto set from which a prompt that is not selected is a
# contender
_IN_SET = 0.05
# More evaluations are advised if they raise a probability by at least this number, or
# save a tolerance
_WORTHWHILE = 0.1
# Evaluations that are advised at most, relative to the number spent: forecasts for more
# are rarely realized
_ADVISED = 1.0
# Numbers of new examples to try, relative to the number of examples
_LARGER = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_NOTABLE = 0.03  # the smallest gain of a probability that a sentence mentions
_NAMED = 3  # prompts by name in a sentence
_MOST_REASONS = 4  # after a headline
_MOST_NEEDED = 1e6  # more evaluations than anybody makes for one comparison


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
            evaluations than are still possible are left out. Empty with the method
            "referee", which does not select by estimates.
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
        outlook = [asdict(then) for then in self.outlook]
        return {
            **asdict(self),
            "contenders": [list(pair) for pair in self.contenders],
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
                "outlook": tuple(Outlook(**then) for then in data["outlook"]),
                "choices": tuple(data["choices"]),
                "worth": None if worth is None else tuple(worth),
                "change": None if change is None else Change(**change),
            }
        )


def judge(
    state: State,
    statement: Statement | None,
    of_arms: Chances | None,
    answer: Sequence[int],
    ids: Sequence[str | int],
    lead: Difference | None = None,
    has_outlook: bool = True,
) -> Verdict:
    """The verdict on the selected arms, the best first.

    `statement` is None if nothing was recorded. `of_arms` is None if there is not enough
    data for probabilities. `lead`: the selected arm compared with the baseline in the
    first objective, as in `Result.comparison`. None without a baseline, or if it is
    selected. `has_outlook`: False if forecasts of more evaluations would not come true,
    because the method does not select by estimates.
    """
    one_example = (
        statement is not None and statement.n_seen < 2 and state.problem.examples.n != 1
    )
    if statement is None or of_arms is None or not answer or one_example:
        return _undecided(state, statement, answer, ids)
    arms = np.array(answer)
    if isinstance(state.problem.goal, ParetoSet):
        miss = Miss(state, statement, of_arms)
        return _of_set(
            _Case(state, statement, of_arms, arms, ids, miss, has_outlook), miss
        )
    gap = Gap(state, statement, of_arms, answer[0])
    case = _Case(state, statement, of_arms, arms, ids, gap, has_outlook)
    return _OfBest(case, gap, lead).verdict()


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
    rivals = [arm for arm in range(state.problem.n_arms) if arm not in out]
    arms = [*answer, *rivals]
    contenders = tuple((ids[arm], 1.0 / len(arms)) for arm in arms)
    action, best, reasons = NONE, None, ""
    headline = "No prompt has been evaluated successfully yet."
    if state.finished and state.missing and len(state.history) == 0:
        n = len(state.missing)
        evaluations = "the only evaluation" if n == 1 else f"all {n:,} evaluations"
        headline = f"Nothing was measured, because {evaluations} failed."
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
    words = {"failed": "failed too often", "retired": "were retired"}
    why = " or ".join(words[status] for status in words if status in statuses)
    return f"No prompt can be selected, because all {why}.", "Add a prompt to continue."


@final
class _Case:
    """A selection and its loss: what is expected of it, now and after more evaluations, and words for that.

    Attributes:
        now: what is expected without further evaluations.
        has_outlook: whether more evaluations would lead to a selection by estimates.
        outlook: the forecasts for further evaluations. Empty unless `has_outlook`.
        p_some: the probability that a prompt satisfies every constraint.
        p_feasible: the same for all selected prompts. None without constraints.
    """

    def __init__(
        self,
        state: State,
        statement: Statement,
        of_arms: Chances,
        answer: Ints,
        ids: Sequence[str | int],
        loss: AbstractLoss,
        has_outlook: bool,
    ) -> None:
        self.has_outlook = has_outlook
        self.state, self.statement, self.chances = state, statement, of_arms
        self.answer, self.ids, self.loss = answer, ids, loss
        self.goal, self.alive = loss.goal, loss.alive
        self.first = int(answer[0])
        self.is_set = isinstance(self.goal, ParetoSet)
        # Without constraints, every prompt that neither failed nor was retired is feasible
        self.p_some, self.p_feasible = 1.0, None
        if self.goal.is_constrained:
            satisfied = membership.feasible(statement.values, len(self.goal.objectives))
            self.p_some = float((satisfied & self.alive).any(axis=1).mean())
            self.p_feasible = float(satisfied[:, answer].all(axis=1).mean())
        # (S, K): the selection is the same in all draws. In the outlook, it differs.
        held = np.zeros(loss.values.shape[:2], dtype=bool)
        held[:, answer] = True
        losses = loss.of(held)
        self.loss_95 = float(np.quantile(losses, _COVERED))
        p_best = None if self.is_set else float(of_arms.p_best[self.first])
        self.now = Outlook(0, None, p_best, float(losses.mean()), loss.p_good(held))
        self._forecaster = Forecaster(state, statement, loss)
        self.outlook = self._forecaster.forecasts(self.now) if has_outlook else ()

    def verdict(
        self,
        action: str,
        headline: str,
        reasons: Sequence[str],
        choices: Sequence[int],
        contenders: list[int],
        likely: Floats,
        **of_best: Any,
    ) -> Verdict:
        """The verdict. `of_best` are attributes that only the verdict on a best prompt has."""
        return Verdict(
            action=action,
            headline=headline,
            sentence=" ".join([headline, *reasons[:_MOST_REASONS]]),
            p_good=self.now.p_good,
            tolerance=self.loss.tolerance,
            assumption=self.loss.assumption,
            p_feasible=self.p_feasible,
            loss=self.now.loss,
            loss_95=self.loss_95,
            choices=tuple(self.ids[arm] for arm in choices),
            contenders=tuple((self.ids[arm], float(likely[arm])) for arm in contenders),
            outlook=self.outlook,
            **of_best,
        )

    @property
    def none_is_feasible(self) -> bool:
        """True if it is unlikely that any prompt satisfies every constraint, after enough examples."""
        feasible = self.chances.taken
        is_taken = feasible is not None and bool(feasible[self.alive].any())
        is_known = self.statement.n_seen >= _FEWEST
        return self.p_some < _NO_PROMPT and not is_taken and is_known

    @property
    def is_unlikely(self) -> bool:
        """True if the selected prompt probably violates a constraint. False for several prompts."""
        # The prompts of a set are selected one by one.
        if self.p_feasible is None or (self.is_set and len(self.answer) > 1):
            return False
        feasible = self.chances.taken
        is_taken = feasible is not None and bool(feasible[self.answer].all())
        return self.p_feasible < LIKELY and not is_taken

    @property
    def near(self) -> tuple[Outlook, ...]:
        """The outlook for at most as many evaluations as were spent."""
        most = _ADVISED * max(1, len(self.state.history))
        return tuple(then for then in self.outlook if then.evaluations <= most)

    def is_worthwhile(self, then: Outlook) -> bool:
        """True if a forecast saves a tolerance, or raises a probability by `_WORTHWHILE`."""
        now = self.now
        raises = then.p_good - now.p_good
        if then.p_best is not None and now.p_best is not None:
            raises = max(raises, then.p_best - now.p_best)
        return now.loss - then.loss >= self.loss.tolerance or raises >= _WORTHWHILE

    @cached_property
    def worthwhile(self) -> Outlook | None:
        """The first near forecast that is worthwhile."""
        return next((then for then in self.near if self.is_worthwhile(then)), None)

    def action(self, is_either: bool = False) -> str:
        """What to do. `is_either`: any of several prompts may be used."""
        # Constraints come before the objective.
        if self.none_is_feasible:
            return NONE
        if self.is_unlikely:
            is_last = self.is_used_up or not self.has_outlook
            return BEST if self.worthwhile is None and is_last else GO_ON
        if is_either:
            return EITHER
        if self.now.p_good >= _GOOD:
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
        pronoun = "them" if len(self.goal.constraints) > 1 else "it"
        return f"No prompt is likely to satisfy {self.constraints}.", [
            f"The probability that at least one prompt does is {in_percent(self.p_some)}.",
            f"{capitalized(self.name(self.first))} is expected to violate {pronoun} least.",
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
        elif p_feasible[likeliest] < LIKELY:
            claim = f"every prompt probably violates {self.a_constraint}."
            reasons = [f"{likely} (probability {probability})."]
            if self.p_some >= _GOOD:
                # The best prompt satisfies a bound relative to the best, for example.
                claim = f"it is not clear which prompts satisfy {self.constraints}."
                some = in_percent(self.p_some)
                at_least = f"The probability that at least one prompt does is {some}."
                reasons = [at_least, *reasons]
        else:
            metrics = " and ".join(quoted(o.metric) for o in self.goal.objectives)
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
        now = self.now
        p_now, p_then = now.p_best, then.p_best
        if p_now is not None and p_then is not None and p_then - p_now >= _NOTABLE:
            best = f"best {'feasible ' * self.goal.is_constrained}prompt"
            rise = f"from {in_percent(p_now)} to {in_percent(p_then)}"
            return [f"the probability of selecting the {best} should rise {rise}"]
        if then.p_good - now.p_good >= _WORTHWHILE:
            rise = f"from {in_percent(now.p_good)} to {in_percent(then.p_good)}"
            return [f"the probability of {self.loss.being_good} should rise {rise}"]
        return []

    def forecast(self, then: Outlook, gains: Sequence[str]) -> str:
        """The sentence that more evaluations should have these gains."""
        price = "" if then.cost is None else f" (cost about {then.cost:.3g})"
        plural = "" if then.evaluations == 1 else "s"
        more = f"With {then.evaluations:,} more evaluation{plural}{price}"
        return f"{more}, {', and '.join(gains)}."

    def gain(self, then: Outlook) -> list[str]:
        """The quality of now and the expected gain of more evaluations, as sentences. Empty without a gain."""
        number = self.loss.number
        falls = number(then.loss) != number(self.now.loss)
        gains = [self.loss.improvement("should", then.loss)] if falls else []
        gains += self.rises(then)
        now = [self.standing] if falls else []
        return [*now, self.forecast(then, gains)] if gains else []

    def outcome(self, arms: list[int]) -> list[str]:
        """The quality of now, and whether any evaluations would improve it, as sentences.

        Called where as many evaluations as were spent would not. So they are all
        evaluations that remain, new examples, or none.
        """
        last = self.outlook[-1] if self.outlook and not self.is_used_up else None
        if last is not None and self.is_worthwhile(last) and (gain := self.gain(last)):
            return gain
        return [self.standing, *self.no_use(arms)]

    def no_use(self, arms: list[int]) -> list[str]:
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
        if self.now.loss <= self.loss.least_shown or not self.has_outlook:
            return [self.used_up]
        for n in (max(1, round(part * examples)) for part in _LARGER):
            loss = self._forecaster.loss_with_new_examples(n, np.array(arms))
            if loss <= 0.5 * self.now.loss:
                improvement = self.loss.improvement("could", loss)
                new = "1 new example" if n == 1 else f"about {n:,} new examples"
                every = f"Every {self.remaining}prompt was evaluated on every example"
                return [f"{every}, but with {new}, {improvement}."]
        return [self.used_up]

    @property
    def standing(self) -> str:
        """The expected quality of the selected prompts, as a sentence."""
        return self.loss.sentence(self.now.loss, len(self.answer))


@final
class _OfBest:
    """The verdict on one best prompt. `lead`: its comparison with the baseline."""

    def __init__(self, case: _Case, gap: Gap, lead: Difference | None) -> None:
        self.case, self.gap, self.lead = case, gap, lead
        self.first, self.baseline = case.first, case.state.problem.baseline

    def verdict(self) -> Verdict:
        action = self.case.action(self._is_either)
        change = self._change(action)
        headline = None if change is None else self._of_change(change)
        of_action, reasons = self._words(action, headline is not None)
        if headline is not None and change is not None and change.evaluations:
            n = f"{change.evaluations:,} more evaluation{'s' * (change.evaluations > 1)}"
            reasons = [
                f"About {n} of each should establish the difference, if it stays as it is.",
                *reasons,
            ]
        return self.case.verdict(
            action,
            headline or of_action,
            reasons,
            self._choices if action in (TAKE, EITHER) else [],
            self._contenders(),
            self._likely[1],
            answer=None if action == NONE else self.case.ids[self.first],
            p_best=float(self.case.chances.p_best[self.first]),
            worth=self.gap.worth,
            change=change,
        )

    def _contenders(self) -> list[int]:
        return [self.first, *(arm for arm in self._likely[0] if arm != self.first)]

    @cached_property
    def _likely(self) -> tuple[list[int], Floats]:
        """The prompts that are most likely the best, or closest to feasible if no prompt is, and all probabilities."""
        p_best = self.case.chances.p_best
        # Hardly any draw has a feasible prompt. Then the prompt that violates least counts.
        if self.case.none_is_feasible:
            p_best = self.gap.chosen(self.gap.values).mean(axis=0)
        order = np.argsort(-p_best, kind="stable")
        enough = max(_n_covering(p_best, p_best), self._n_contenders)
        return [int(arm) for arm in order[:enough] if p_best[arm] > 0.0], p_best

    @cached_property
    def _n_contenders(self) -> int:
        """How many of the likeliest prompts of one half of the draws cover the best prompt in the other half.

        The likeliest prompts of few draws cover more of these draws than of others,
        where many prompts are nearly as likely.
        """
        half = len(self.gap.shares) // 2
        early = self.gap.shares[:half].mean(axis=0)
        late = self.gap.shares[half:].mean(axis=0)
        return -(-(_n_covering(early, late) + _n_covering(late, early)) // 2)

    @cached_property
    def _equals(self) -> list[int]:
        """The prompts that are good with a probability of `_GOOD`, if the selected one is. The selected one first."""
        if self.case.now.p_good < _GOOD:
            return [self.first]
        p_good = self.gap.good.mean(axis=0)
        good = [
            int(arm)
            for arm in np.argsort(-p_good, kind="stable")
            if p_good[arm] >= _GOOD and arm != self.first
        ]
        return [self.first, *good]

    @property
    def _choices(self) -> list[int]:
        """The prompts to use, if the action is "take" or "either"."""
        is_single = len(self._equals) < 2 and self.is_unseparated
        return self._contenders() if is_single else self._equals

    @property
    def is_sure(self) -> bool:
        """True if the selected prompt satisfies every constraint with a probability of `_GOOD`."""
        return self.case.p_feasible is None or self.case.p_feasible >= _GOOD

    @cached_property
    def is_unseparated(self) -> bool:
        """True if the scores do not separate the prompts.

        That is the case if all scores are equal, or if choosing is worth less than the
        tolerance.
        """
        is_equal = self.gap.is_flat() and self.case.statement.n_seen >= _FEWEST
        is_open = self.is_sure and len(self._contenders()) > 1
        return (is_equal or self.hardly_differ) and is_open

    @property
    def hardly_differ(self) -> bool:
        """True if choosing is worth less than the tolerance. A few examples cannot show this."""
        worth, n_seen = self.gap.worth, self.case.statement.n_seen
        return worth is not None and n_seen >= _FEWEST and worth[2] < self.gap.tolerance

    @property
    def _is_either(self) -> bool:
        """True if any of several prompts may be used."""
        return len(self._equals) > 1 or self.is_unseparated

    # The change from the baseline

    def _change(self, action: str) -> Change | None:
        """Whether to replace the baseline. None without a baseline, or if no prompt may be used."""
        if self.baseline is None or action == NONE:
            return None
        id_ = self.case.ids[self.baseline]
        lead = self.lead
        if lead is None or self.case.is_unlikely:
            is_open = action == GO_ON or self.case.is_unlikely
            return Change(NOT_DECIDED if is_open else KEEP, id_)
        decision = self._decision(action, lead)
        more = None
        if decision != SHIP and self.case.has_outlook:
            more = _needed(lead, self.gap.tolerance)
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
        p_feasible = self.case.chances.p_feasible
        return p_feasible is not None and bool(p_feasible[self.baseline] <= 1.0 - _GOOD)

    def _of_change(self, change: Change) -> str | None:
        """The headline about the change from the baseline. None if the verdict has its own headline."""
        old = quoted(change.baseline)
        new = self.case.name(self.first)
        lead = self.lead
        if change.decision == KEEP:
            return f"Keep {old}: no prompt is shown to be better."
        if lead is None or self.case.is_unlikely:
            return None
        if change.decision == SHIP and lead.verdict == BETTER:
            return f"Ship {new}: better than {old} by {_with_interval(lead)}."
        if self.baseline_violates:
            violates = f"{old} very probably violates {self.case.a_constraint}"
            return f"Ship {new}: {violates}." if change.decision == SHIP else None
        if lead.p_better >= _GOOD:
            probability = in_percent(lead.p_better)
            return f"Not decided: {new} is probably better than {old} ({probability})."
        return f"Not decided: {new} is not shown to be better than {old}."

    # Words

    def _words(self, action: str, is_replaced: bool) -> tuple[str, list[str]]:
        """The headline and the reasons. `is_replaced`: another headline is shown, about the baseline."""
        name = self.case.name(self.first)
        p_best = in_percent(self.case.chances.p_best[self.first])
        subject = name if is_replaced else "it"
        if action == NONE:
            return self.case.none()
        if self.case.is_unlikely:
            return self.case.unlikely(action)
        if action == EITHER and len(self._equals) > 1:
            return self._alike()
        if action == EITHER:
            return self._unseparated()
        if action == TAKE:
            return f"Take {name}.", self._good(capitalized(subject))
        # The headline has a percentage without its noun.
        certainty = ["The percentage is the probability that it is the best."]
        if is_replaced:
            certainty = [f"{capitalized(name)} is the best with {p_best} probability."]
        if action == GO_ON and self.case.worthwhile is not None:
            gain = self.case.gain(self.case.worthwhile)
            # Where the forecast is about this probability, it also explains it.
            if self.case.rises(self.case.worthwhile) and not is_replaced:
                certainty = []
            headline = f"Not decided: {name} leads ({p_best})."
        else:
            gain = self.case.outcome(self._contenders())
            headline = f"Best so far: {name} ({p_best})."
        return headline, [*certainty, *self.case.satisfies(), *gain]

    def _good(self, it: str) -> list[str]:
        """Why the selected prompt is good enough. `it` begins a sentence."""
        p_best = float(self.case.chances.p_best[self.first])
        if self.case.alive.sum() == 1:
            return [
                f"{it} is the only {self.case.remaining}prompt.",
                *self.case.satisfies(),
            ]
        if p_best >= _COVERED:
            best = f"{it} is the best with {in_percent(p_best)} probability."
            return [best, *self.case.satisfies()]
        return [
            f"{it} is {self._close} with {in_percent(self.case.now.p_good)} probability."
        ]

    @property
    def _close(self) -> str:
        """What a good prompt is, after "is"."""
        within = f"within {self.gap.number(self.gap.tolerance)} of the {self.gap.best_prompt} in {self.gap.metric}"
        return (
            within
            + f" and satisfies {self.case.constraints}" * self.case.goal.is_constrained
        )

    def _alike(self) -> tuple[str, list[str]]:
        """The headline and the reasons if several prompts are good."""
        names = _joined([self.case.name(arm) for arm in self._equals])
        return f"Take {names}: they do not differ in what matters.", [
            f"Each of these {len(self._equals)} prompts is {self._close} with at least {in_percent(_GOOD)} "
            "probability.",
            *self._little_worth,
        ]

    def _unseparated(self) -> tuple[str, list[str]]:
        """The headline and the reasons if the scores do not separate the prompts."""
        names = _joined([self.case.name(arm) for arm in self._choices])
        reasons = self._little_worth
        if not self.hardly_differ:
            reasons = [
                f"All scores are equal so far. With 95% probability, {self._worth}.",
                "Use examples or a metric that separate them.",
            ]
        return f"Take {names}: the scores do not separate them.", [
            *self.case.satisfies(),
            *reasons,
        ]

    @property
    def _little_worth(self) -> list[str]:
        """The sentences that no further evaluations are needed, if the prompts hardly differ."""
        if not self.hardly_differ:
            return []
        n = int(self.case.alive.sum())
        prompts = "The two prompts" if n == 2 else f"These {n:,} prompts"
        return [
            f"{prompts} hardly differ: with 95% probability, {self._worth}.",
            "Write different prompts instead of evaluating more.",
        ]

    @property
    def _worth(self) -> str:
        """The clause on what choosing is worth at most."""
        gap = self.gap
        most = max(gap.worth[2] if gap.worth else 0.0, gap.least_shown)
        name, per = unit_of(self.case.goal.objectives[0].metric, [most])
        metric = gap.metric if per == 1 else f'"{name}"'
        return f"choosing is worth at most {in_digits(per * most, 2)} in {metric}"


def _of_set(case: _Case, miss: Miss) -> Verdict:
    """The verdict on a Pareto set."""
    action, p_in, answer = case.action(), case.chances.p_best, case.answer.tolist()
    if case.none_is_feasible:
        p_in = miss.chosen(miss.values, closest=True).mean(axis=0)
    order = np.argsort(-p_in, kind="stable").tolist()
    more = [arm for arm in order if p_in[arm] >= _IN_SET and arm not in answer]
    contenders = [*answer, *more]
    return case.verdict(
        action,
        *_words_of_set(case, action, contenders),
        answer if action == TAKE else [],
        contenders,
        p_in,
        answer=None,
    )


def _words_of_set(
    case: _Case, action: str, contenders: list[int]
) -> tuple[str, list[str]]:
    """The headline and the reasons."""
    if action == NONE:
        return case.none()
    if case.is_unlikely:
        return case.unlikely(action)
    n = len(case.answer)
    these = f"these {n} trade-offs" if n > 1 else case.name(case.first)
    outsiders = _outsiders(case)
    if action == TAKE:
        headline = f"Choose among {these}." if n > 1 else f"Take {these}."
        return headline, [case.standing, *outsiders, *case.satisfies()]
    if action == GO_ON and case.worthwhile is not None:
        lead = "lead" if n > 1 else "leads"
        reasons = [*case.satisfies(), *case.gain(case.worthwhile), *outsiders]
        return f"Not decided: {these} {lead}.", reasons
    reasons = [*case.satisfies(), *case.outcome(contenders), *outsiders]
    return f"Best so far: {these}.", reasons


def _outsiders(case: _Case) -> list[str]:
    """How many of the selected prompts are expected not to belong to the true set, as a sentence."""
    n_out = round(float((1.0 - case.chances.p_best[case.answer]).sum()))
    if not n_out or len(case.answer) < 2:
        return []
    are = "is" if n_out == 1 else "are"
    return [f"About {n_out} of them {are} expected to be outside the true set."]


def _n_covering(likely: Floats, p_best: Floats) -> int:
    """How many prompts, the most `likely` ones first, have `_COVERED` of the sum of `p_best`."""
    covered = np.cumsum(p_best[np.argsort(-likely, kind="stable")])
    return int(np.searchsorted(covered, _COVERED * covered[-1] - 1e-9)) + 1


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
