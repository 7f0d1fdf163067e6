"""Selector: ask what to evaluate, tell the scores, read the result. The one mutable object of the engine."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any, Literal, TypeAlias, overload

import numpy.typing as npt

from asktell._util.forks import fresh_after_fork
from asktell._util.terminal import safe
from asktell.errors import InvalidArgumentError
from asktell.growing import Growing
from asktell.methods import Method, preset
from asktell.posterior.profile import ExampleProfile
from asktell.problem.budget import Budget, describe_spending
from asktell.problem.candidates import AnyPrompt, ById, Prompts, Tell, Trial, all_taken
from asktell.problem.checks import check_cost, check_prompts, check_reason, needed_cost, whole
from asktell.problem.goals import Goal, Scores
from asktell.reports.reported import Reported
from asktell.results import Comparison, Result
from asktell.results.summary import compare, summarize
from asktell.saving import Saved
from asktell.state import Asked, Decided, Event, Failed, Observed, Released, State, Told, apply, decide, initial
from asktell.state.lookup import AnyTrial, check_same, find_example, not_out, trial_id
from asktell.state.problem import checked_problem
from asktell.state.queue import Pull

Decide: TypeAlias = Callable[[Method, State], Decided | None]


class Selector(Growing, Saved, Reported):
    """Chooses which prompt to evaluate next, so that few evaluations find the best feasible prompt or the Pareto set.

    Args:
        prompts: the K candidates, as a sequence of texts (then ids are positions) or a mapping from id to text.
        goal: `BestFeasible(...)` or `ParetoSet(...)`.
        budget: evaluations allowed; never exceeded, trials out included. Or `asktell.Budget(cost=...)`.
        method: "auto", another preset's name, an `Adaptive`, a `Race`, or a composed `Elimination`.
        examples: N, the number of examples in the data set, or a list of their ids: distinct texts, which are kept,
            so that whoever goes on with other examples is refused. None if the evaluator draws its own.
        features: (K, d) numbers that describe the prompts, such as `asktell.problem.features.pca` of their embeddings;
            structured methods need them, "auto" uses them. "text" makes them from the prompts' texts.
        seed: makes every choice repeatable; 0 <= seed < 2**64.
        sampling: "shared" (default) shows every prompt the same examples in the same order, without replacement;
            "iid" draws an example for every pull, as the paper does.
        on_failure: "skip" (default): a failed evaluation is a missing value, and the prompt goes on with its next
            example. Or the scores that it counts as, one for each metric: `{"accuracy": 0.0}`. Then it is an evaluation
            of the budget like any other, and no prompt leaves for its failures.
        max_failure_rate: a prompt leaves as soon as more than this part of its evaluations fail, with a probability of
            99 % (uniform prior): by default after six failures out of the first six. 1: never. The baseline stays.
        baseline: id or text of the prompt in use today. It is never eliminated, and the answer is compared with it.
        repeats: how often the same prompt may be asked on the same example, for scores that differ from one evaluation
            to the next (a temperature above 0, an LLM as a judge). What counts is then the mean over the examples of
            the expected score; a prompt that has seen every example is evaluated on them again, up to so many times.
        profile: what earlier studies know of these examples, as of `asktell.ExampleProfile.of(study, ...)`; "auto" then
            evaluates on those that tell most, and other methods take no notice. Needs ids of the examples.

    A selector may be used from several threads. It saves to JSON text and continues from it exactly.

    Raises:
        InvalidArgumentError: an argument has the wrong type, value or length; a prompt or an id is given twice.
        BudgetTooSmallError: the method cannot work with so few evaluations.
        IncompatibleMethodError: the method does not fit the goal, or lacks features.
    """

    def __init__(
        self,
        prompts: Sequence[str] | Mapping[str, str],
        goal: Goal,
        budget: int | Budget,
        method: str | Method = "auto",
        examples: int | Sequence[str] | None = None,
        features: npt.ArrayLike | Literal["text"] | None = None,
        seed: int = 0,
        sampling: str = "shared",
        on_failure: Literal["skip"] | Mapping[str, float] = "skip",
        max_failure_rate: float = 0.5,
        baseline: AnyPrompt | None = None,
        repeats: int = 1,
        profile: ExampleProfile | None = None,
    ) -> None:
        named = Prompts(*check_prompts(prompts))
        problem = checked_problem(
            named,
            goal,
            budget,
            examples,
            features,
            seed,
            sampling,
            on_failure,
            max_failure_rate,
            baseline,
            repeats,
            profile,
        )
        if not isinstance(method, Method):
            method = preset(method, goal)
        method.check(problem)
        self._set(named, method, initial(problem))

    def _set(self, prompts: Prompts, method: Method, state: State) -> None:
        self._first, self._known = prompts, (state.growth[:0], prompts)
        self._method = method
        self._state = state
        self._sink: Callable[[Event], None] | None = None
        self._decide: Decide = decide
        self._seen: tuple[State, State] | None = None  # without the decisions that are due, and with them
        self._renew_lock()
        fresh_after_fork(self, Selector._renew_lock)

    def at(self, state: State) -> "Selector":
        """A selector of the same prompts and method in another state; it shares the scores, so only look at it."""
        selector = Selector.__new__(Selector)
        selector._set(self._first, self._method, state)
        selector._decide, selector._known = self._decide, self._known
        return selector

    def log_to(self, sink: Callable[[Event], None], decide: "Decide") -> None:
        """Send every event to `sink` from now on, and decide by `decide(method, state)`, only when somebody asks.

        For whoever keeps a log: a paid score must not wait for, or be lost by, a decision.
        """
        self._sink, self._decide = sink, decide

    def _renew_lock(self) -> None:
        self._lock = RLock()

    # Asking and telling

    @overload
    def ask(self) -> Trial | None: ...

    @overload
    def ask(self, n: int) -> list[Trial]: ...

    def ask(self, n: int | None = None) -> Trial | list[Trial] | None:
        """What to evaluate now: a trial, or with `n` a list of up to n, those of the same prompt together.

        None, or an empty list, means that the selection is `done`, or waits for the scores of trials that are
        `pending`. Never blocks.

        Raises:
            InvalidArgumentError: n is not a whole number of at least 0.
        """
        with self._lock:
            if n is None:
                return self._ask()
            trials: list[tuple[int, Trial]] = []
            for _ in range(whole("n", n, 0)):
                trial = self._ask()
                if trial is None:
                    break
                trials.append((self._state.pending[trial.id].arm, trial))
            # Stable, so that a prompt's examples keep their order.
            trials.sort(key=operator.itemgetter(0))
            return [trial for _, trial in trials]

    def _ask(self) -> Trial | None:
        pull = self._affordable()
        if pull is None:
            self._advance()
            pull = self._affordable()
            if pull is None:
                return None
        trial, arm, example = pull
        if trial is None:
            trial = self._state.asked
        self._take(Asked(trial, arm, example))
        return self._prompts.trial(trial, arm, example)

    def _affordable(self) -> Pull | None:
        # One of the baseline, which never leaves, may have been handed back after the end.
        pull = None if self._state.finished else self._state.next_pull()
        return pull if pull is not None and self._state.fits(pull.arm) else None

    def tell(self, trial: AnyTrial, scores: Scores, cost: float | None = None) -> None:
        """Take the scores of a trial, in any order.

        Args:
            trial: the trial (as the list or mapping that JSON makes of it, too), its id, or the prompt (text or id
                given as str): its oldest trial that is out.
            scores: mapping from metric to number, or numbers in the goal's order (`selector.metrics`); a bare number if
                there is one metric.
            cost: what it cost, in any unit you keep to; summed up in the result. Needed if the budget is a cost.

        The same scores told twice are harmless. After an error the trial is still out and nothing has changed.

        Raises:
            InvalidScoresError: a metric is missing, unknown, NaN, infinite or not a number; or the length is wrong.
            InvalidArgumentError: the cost is not a finite number of at least 0, or is missing; or the prompt that is
                named is two: an id of one and the text of another.
            UnknownTrialError: the trial was never asked, or has failed.
            ConflictingTellError: the trial was told before, with other scores.
        """
        with self._lock:
            vector = self._state.problem.goal.vector(scores)
            cost = needed_cost(cost, self.max_cost)
            id_ = trial_id(self._state, self._prompts, trial)
            if self._state.open(id_) is None:
                check_same(self._state, id_, vector)
                return
            self._take(Told(id_, vector, cost))
            self._advance_when_told()

    def tell_many(self, tells: Iterable[Tell | tuple[Any, ...]]) -> list[bool]:
        """Take several scores: `(trial, scores)` or `(trial, scores, cost)` of each. What is wrong with one harms none.

        Raises:
            TellManyError: some were refused; the others are taken. Its `outcomes` say which, and why.
        """
        outcomes: list[bool | Exception] = []
        with self._lock:
            for item in tells:
                try:
                    tell = Tell.of(item)
                    if tell.details is not None:
                        raise InvalidArgumentError("A Selector keeps no details of its trials; a Study does.")
                    self.tell(tell.trial, tell.scores, tell.cost)
                    outcomes.append(True)
                except Exception as error:  # whatever it is: the next one's scores were paid for, too
                    outcomes.append(error)
        return all_taken(outcomes)

    def observe(
        self,
        prompt: AnyPrompt,
        scores: Scores | None,
        example: int | str | None = None,
        cost: float | None = None,
    ) -> None:
        """Take scores from elsewhere (a warm start): they inform the estimates, and are no evaluation of the budget.

        Args:
            prompt: the prompt's id or text, or a trial of it.
            scores: as for `tell`; None if there are none and only a cost is to be booked.
            example: the example they belong to, its position or its id; that is one evaluation less to ask of this
                prompt. Of several scores of a prompt on the same example the mean counts, once; where they differ, they
                tell how noisy scores are.
            cost: what was paid, to be summed up in the result and taken off a budget of cost, which it may exceed; by
                default nothing.

        Raises:
            InvalidScoresError: as for `tell`; or there are neither scores nor a cost.
            InvalidArgumentError: the prompt is unknown or ambiguous, the example is unknown, or the cost is not a
                number >= 0.
        """
        with self._lock:
            vector = None if scores is None and cost is not None else self._state.problem.goal.vector(scores)
            cost = None if cost is None else check_cost(cost)
            arm = self._prompts.arm(prompt)
            self._take(Observed(arm, find_example(self._state.problem, example), vector, cost))

    def release(self, trial: AnyTrial) -> None:
        """Hand a trial back unevaluated; it will be asked again, under the same id.

        Raises:
            UnknownTrialError: the trial is not out.
            InvalidArgumentError: the prompt that is named is ambiguous.
        """
        with self._lock:
            id_ = trial_id(self._state, self._prompts, trial)
            if id_ not in self._state.pending:
                raise not_out(self._state, id_)
            self._take(Released(id_))

    def fail(self, trial: AnyTrial, reason: str | BaseException, cost: float | None = None) -> None:
        """Record a failed evaluation; the prompt goes on with its next example, or leaves the race.

        See `on_failure` and `max_failure_rate`. Unless it counts as scores, a failed trial is not an evaluation of the
        budget. What it cost is summed up in the result, and taken off a budget of cost; without `cost` that is nothing.

        Raises:
            UnknownTrialError: the trial is not out.
            InvalidArgumentError: the reason is neither text nor an exception, the cost is not a number >= 0, or the
                prompt that is named is ambiguous.
        """
        with self._lock:
            id_ = trial_id(self._state, self._prompts, trial)
            if self._state.open(id_) is None:
                raise not_out(self._state, id_)
            self._take(Failed(id_, check_reason(reason), None if cost is None else check_cost(cost)))
            self._advance_when_told()

    def restore(self, state: State) -> None:
        """Stand in another state of the same selection, such as one of before."""
        with self._lock:
            self._state = state

    def _take(self, event: Event) -> None:
        """Fold an event: the one way in which the state goes on."""
        self._state = apply(self._state, event)
        if self._sink is not None:
            self._sink(event)

    def _advance(self) -> None:
        """Make every decision that is due."""
        while (decided := self._decide(self._method, self._state)) is not None:
            self._take(decided)

    def _advance_when_told(self) -> None:
        """Decide if nothing is out; otherwise asking decides, so that it knows every score that has come by then."""
        if self._sink is None and not self._state.pending:
            self._advance()

    # Reading

    @property
    def state(self) -> State:
        """The immutable state, to look at; with the decisions that are due if nothing is out.

        All that is read is of this state. The decisions are made when somebody asks: reading changes nothing. Before
        the first trial none is due.
        """
        with self._lock:
            first = self._state
            if first.pending or not first.asked:
                return first
            if self._seen is None or self._seen[0] is not first:
                state = first
                while (decided := self._decide(self._method, state)) is not None:
                    state = apply(state, decided)
                self._seen = first, state
            return self._seen[1]

    @property
    def pending(self) -> list[Trial]:
        """The trials that are out, oldest first."""
        with self._lock:
            pulls = sorted(self._state.pending.items())
            return [self._prompts.trial(id_, p.arm, p.example) for id_, p in pulls]

    def repeat_of(self, trial: Trial) -> int:
        """How often its prompt was asked on its example before: 0 for the first evaluation of the two, and so on.

        The two and this number name an evaluation, in whatever run: a cache of answers is keyed by all three where
        `repeats` is above 1, and a sampling seed made of them. Always 0 where `repeats` is 1.

        Raises:
            InvalidArgumentError: the trial's prompt is none of these.
        """
        state = self._state
        if not state.problem.is_noisy or trial.example is None:
            return 0
        return state.asked_before(int(trial.id), self._prompts.arm(ById(trial.prompt_id)), int(trial.example))

    @property
    def done(self) -> bool:
        """Whether the last decision has been made: nothing will be asked again, unless prompts or money come."""
        return self.state.finished

    @property
    def spent(self) -> int:
        """Evaluations told so far, those of `observe` not counted."""
        return self._state.spent

    @property
    def budget(self) -> int:
        """Evaluations allowed."""
        return self._state.problem.budget

    @property
    def spent_cost(self) -> float:
        """What was told to have been spent, in the unit of `tell(..., cost=...)`, on failures too."""
        return self._state.cost

    @property
    def max_cost(self) -> float | None:
        """Cost allowed; None if only evaluations are counted."""
        return self._state.problem.max_cost

    @property
    def example_ids(self) -> tuple[str, ...] | None:
        """The examples' ids by position (`trial.example`); None if there are none."""
        examples = self._state.problem.examples
        return None if examples is None else examples.ids

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics in the order of score vectors."""
        return self._state.problem.goal.metrics

    @property
    def goal(self) -> Goal:
        """What is looked for."""
        return self._state.problem.goal

    @property
    def method(self) -> Method:
        """How it is looked for."""
        return self._method

    @property
    def n_active(self) -> int:
        """How many prompts are still in the race."""
        return len(self._prompts) - len(self.state.left)

    @property
    def prompts(self) -> Prompts:
        """The prompts by arm: their ids and texts."""
        return self._prompts

    def result(self) -> Result:
        """The answer so far: final if `done`, otherwise the best that can be said now. Never raises."""
        with self._lock:
            state, prompts = self.state, self._prompts
        return summarize(state, self._method, prompts)

    def compare(
        self, a: AnyPrompt, b: AnyPrompt | None = None, confidence: float = 0.95, tolerance: float = 0.0
    ) -> Comparison:
        """How far prompt a is ahead of prompt b, and how sure that is; see `Result.compare`."""
        return compare(self.state, self._method, self._prompts, a, b, confidence, tolerance)

    def __repr__(self) -> str:
        n_out = len(self._state.pending)
        return (
            f"<Selector: {len(self._prompts)} prompts, {safe(str(self.goal))}; {describe_spending(self)}, {n_out} out>"
        )
