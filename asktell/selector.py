"""Selector: ask what to evaluate, tell the scores, read the result. The one mutable object of the engine.

How a prompt is chosen: all that is known is an immutable `State` (`asktell.state`). `ask` hands out the next pull of
its plan, a prompt and an example; pulls that were handed back come first. When the plan is used up, the method ("auto":
`asktell.methods.adaptive`) reads the state and decides what to pull next, or that the selection ends, and who leaves
and who is accepted ("auto": at the end). It does so in the `tell`, `fail` or `retire` after which nothing is pending,
otherwise in the next `ask`; a study always in `ask`. That decision is an event, as are what was asked and told, and
`apply` folds each event into the next state. So a saved selector, or another process that reads the events, stands
exactly where this one stands, and decides nothing twice.
"""

import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NoReturn, TypeAlias, overload

import numpy.typing as npt

from asktell import serialization
from asktell._util.forks import fresh_after_fork
from asktell._util.terminal import safe
from asktell._util.threads import one_thread
from asktell.errors import InvalidArgumentError, NotPicklableError
from asktell.methods import Method, preset
from asktell.problem.budget import Budget, describe_spending
from asktell.problem.candidates import AnyPrompt, AnyTrial, ById, Candidates, Prompts, Tell, Trial, all_taken
from asktell.problem.checks import check_cost, check_name, check_reason, needed_cost, short, whole
from asktell.problem.examples import check_examples
from asktell.problem.goals import Goal, Scores
from asktell.results import Comparison, Result
from asktell.results.evaluations import Evaluations, evaluations_of
from asktell.results.summary import compare, summarize
from asktell.state import Decided, Grown, State, apply, decide, events, growth, initial
from asktell.state.lookup import check_same, find_example, not_out, trial_id
from asktell.state.problem import AnyProfile, checked_problem

NewPrompts: TypeAlias = Sequence[str] | Mapping[str, str] | Candidates
"""Texts, which are named by their positions; a mapping from id to text; or candidates, as of `asktell.grid`."""

Features: TypeAlias = npt.ArrayLike | Literal["text"] | None
"""(K, d) numbers that describe the prompts; "text" computes them from the texts."""

Decide: TypeAlias = Callable[[Method, State], Decided | None]


class Selection(ABC):
    """What a `Selector`, a `Study` and a `RemoteStudy` have in common: asking, telling, going on and reading.

    `tell`, `observe`, `fail` and `release` return True if this call recorded something. They return False if there was
    nothing left to record: `tell` if the same scores were told before, `fail` and `release` if the trial is no longer
    pending, and all of them if, in a study, another worker has had the trial since. Anything else is an error, after
    which nothing has changed: an InvalidArgumentError if an argument cannot be used, such as a prompt that is unknown,
    or whose name is the id of one and the text of another.
    """

    # Asking and telling

    @overload
    def ask(self) -> Trial | None: ...

    @overload
    def ask(self, n: int) -> list[Trial]: ...

    def ask(self, n: int | None = None) -> Trial | list[Trial] | None:
        """What to evaluate now: a trial, or with `n` a list of up to n, grouped by prompt.

        None, or an empty list, means that the selection is `done`, or waits for the scores of `pending` trials. Never
        waits for scores.
        """
        if n is not None:
            return self._ask(whole("n", n, 0))
        trials = self._ask(1)
        return trials[0] if trials else None

    @abstractmethod
    def _ask(self, n: int) -> list[Trial]:
        """Up to n trials."""

    @abstractmethod
    def tell(self, trial: AnyTrial, scores: Scores, cost: float | None = None) -> bool:
        """Record the scores of a trial, in any order; False if the same scores were told before.

        Args:
            trial: the trial (or the list or mapping that JSON makes of it), its id, or the prompt (text or id given as
                str): its oldest pending trial.
            scores: mapping from metric to number, or numbers in the goal's order (`metrics`); a bare number if there is
                one metric. Other keys of a mapping are ignored.
            cost: what it cost, in a unit of your choice; summed up in `spent_cost`. Required if the budget is a cost.

        After an error the trial is still pending.

        Raises:
            InvalidScoresError: a metric is missing, NaN, infinite or not a number; or the length is wrong.
            UnknownTrialError: the trial was never asked, or has failed.
            ConflictingTellError: the trial was told before, with other scores.
        """

    @abstractmethod
    def tell_many(self, tells: Iterable[Tell | tuple[Any, ...]]) -> list[bool]:
        """Record several scores, `(trial, scores)` or `(trial, scores, cost)` each: what `tell` returns, in order.

        An error in one of them affects none of the others.

        Raises:
            TellManyError: some were refused; all others are recorded. Its `outcomes` say which, and why.
        """

    @abstractmethod
    def observe(
        self, prompt: AnyPrompt, scores: Scores | None, example: int | str | None = None, cost: float | None = None
    ) -> bool:
        """Record scores from elsewhere (a warm start): they inform the estimates and are not part of the budget.

        Args:
            prompt: the prompt's id or text, or a trial of it.
            scores: as for `tell`; None if only a cost is to be booked.
            example: the example they belong to, its position or its id; that is one evaluation less to ask of this
                prompt. Of several scores of a prompt on the same example the mean counts, once; where they differ, they
                tell how noisy scores are.
            cost: what was paid; 0 by default. It counts against a budget of cost, which it may exceed.

        Raises:
            InvalidScoresError: as for `tell`; or there are neither scores nor a cost.
        """

    @abstractmethod
    def fail(self, trial: AnyTrial, reason: str | BaseException, cost: float | None = None) -> bool:
        """Record a failed evaluation; the prompt goes on with its next example, or leaves the race.

        See `on_failure` and `max_failure_rate` of the `Selector`. Unless it counts as scores, a failed trial is not an
        evaluation of the budget. Its cost, 0 by default, counts against a budget of cost. False if the trial is no
        longer pending.

        Raises:
            UnknownTrialError: the trial was never asked.
        """

    @abstractmethod
    def release(self, trial: AnyTrial) -> bool:
        """Hand a trial back unevaluated; it will be asked again, under the same id.

        False if the trial is no longer pending.

        Raises:
            UnknownTrialError: the trial was never asked.
        """

    # Going on

    @abstractmethod
    def add(self, prompts: NewPrompts, features: Features = None, *, key: str | None = None) -> list[str | int]:
        """Let prompts join; returns their ids, in the order given. A selection that was `done` goes on with them.

        Scores told so far stay. The new prompts first take examples that the others have seen, so that they compare.
        The budget stays what it is: see `extend`.

        Args:
            prompts: texts where prompts are named by their positions, else a mapping from id to text; candidates with
                the same factors, which may have other levels, where there are candidates. One that is there already,
                with this id and text, is ignored.
            features: rows of numbers, as for the selector, where the prompts have features. Those made from texts are
                made of these too, in the basis of the first texts.
            key: idempotency key: sent again under the same key, the request does nothing and returns the same ids.
                Another request under that key is refused.

        Raises:
            IncompatibleMethodError: the method has planned its rounds; "auto" and `Race` take new prompts.
        """

    @abstractmethod
    def retire(self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None) -> None:
        """Take a prompt out: it is asked no more, and is no answer. Its pending trials may still be told.

        Its scores keep informing the estimates of the others. If it was in the final answer, the selection goes on
        without it. If no prompt is left, the selection is done, with no answer but one of those rejected earlier.

        Args:
            prompt: its id or text, or its entry of a result; not the baseline, nor one that was retired already.
            reason: for the result.
            key: as for `add`.
        """

    @abstractmethod
    def extend(
        self,
        evaluations: int | None = None,
        cost: float | None = None,
        examples: int | Sequence[str] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        """Add to the budget or the examples; a selection that was `done` goes on.

        Args:
            evaluations: how many more.
            cost: how much more, where the budget is a cost.
            examples: how many more, or their ids; they follow those there were, and are looked at last. The truth
                becomes the mean over all of them; what is known of a prompt on the others stays.
            key: as for `add`.

        Raises:
            IncompatibleMethodError: the method has planned its rounds; "auto" and `Race` go on.
        """

    @abstractmethod
    def remark(self, text: str, *, topic: str = "scores", doubtful: bool = False) -> None:
        """Have results say something of the scores, such as that a judge gave them. Evaluators do so by `asktell.run`.

        Args:
            text: sentences for the result's notes; line breaks become spaces.
            topic: a later remark on the same one takes this one's place.
            doubtful: the scores are not to be trusted so far that anything is certain: results state no probability.
        """

    # Reading

    @property
    @abstractmethod
    def pending(self) -> list[Trial]:
        """Trials that were asked and not told, failed or released, oldest first."""

    @abstractmethod
    def repeat_of(self, trial: Trial) -> int:
        """Number of times its prompt was asked on its example before: 0 for the first evaluation, and so on.

        Prompt, example and this number identify an evaluation, in any run: use all three as the key of a cache of
        answers where `repeats` is above 1, and to derive a sampling seed. Always 0 where `repeats` is 1.
        """

    @property
    @abstractmethod
    def done(self) -> bool:
        """True once the last decision is made: nothing is asked again, unless prompts or budget are added."""

    @property
    @abstractmethod
    def spent(self) -> int:
        """Evaluations told so far, those of `observe` not counted."""

    @property
    @abstractmethod
    def budget(self) -> int:
        """Maximum number of evaluations."""

    @property
    @abstractmethod
    def spent_cost(self) -> float:
        """Sum of the costs told so far, those of failures and of `observe` included."""

    @property
    @abstractmethod
    def max_cost(self) -> float | None:
        """Maximum cost; None if only evaluations are counted."""

    @property
    @abstractmethod
    def example_ids(self) -> tuple[str, ...] | None:
        """The examples' ids by position (`trial.example`); None if they have none."""

    @property
    @abstractmethod
    def goal(self) -> Goal:
        """The goal, such as `BestFeasible(...)`."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The goal's metrics, in the order of score vectors."""
        return self.goal.metrics

    @property
    @abstractmethod
    def method(self) -> Method:
        """The method that decides."""

    @property
    @abstractmethod
    def n_active(self) -> int:
        """Number of prompts still in the race."""

    @abstractmethod
    def result(self) -> Result:
        """The answer so far: final if `done`, otherwise the best that can be said now."""

    @abstractmethod
    def compare(
        self, a: AnyPrompt, b: AnyPrompt | None = None, confidence: float = 0.95, tolerance: float = 0.0
    ) -> Comparison:
        """How far prompt a is ahead of prompt b, and how sure that is; see `Result.compare`."""

    @abstractmethod
    def evaluations(self, after: int = 0) -> Evaluations:
        """Every evaluation that was told or failed; `.to_dataframe()` makes a table.

        A selector lists those that were told in that order, then those that failed. A study lists all in the order in
        which they came, with their details.

        Args:
            after: leave out the first so many.
        """

    @abstractmethod
    def report(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Write a self-contained HTML page about the selection, which needs no network and no other file.

        Args:
            path: of the file; one that is there is replaced.
            about: what else to show about how it was made, by name: the model, the data, a commit.
        """


def part_at(place: str, like: object) -> Any:
    """A property that an object has at a place, as attributes of attributes, with the words of another property."""
    return property(operator.attrgetter(place), doc=like.__doc__)


class Selector(Selection):
    """Chooses which prompt to evaluate next, so that few evaluations find the best feasible prompt or the Pareto set.

    Args:
        prompts: the K candidates, as a sequence of texts (then ids are positions), a mapping from id to text, or, of
            more than a text, `asktell.grid(model=[...], prompt={...}, ...)` or `asktell.Candidates([{...}, ...])`.
        goal: `BestFeasible(...)` or `ParetoSet(...)`.
        budget: maximum number of evaluations; never exceeded, pending trials included. Or `asktell.Budget(cost=...)`.
        method: "auto", another preset's name, an `Adaptive`, a `Race`, or a composed `Elimination`.
        examples: N, the number of examples in the data set, or a list of their ids: distinct texts, which are kept,
            so that whoever goes on with other examples is refused. None if the evaluator draws its own.
        features: (K, d) numbers that describe the prompts, such as `asktell.features.pca` of their embeddings; "text"
            makes them from the prompts' texts. The methods "lcsh", "gege", "mlp-csr" and "mlp-ege" need them. Others
            choose as they do without, and a note in the result says so.
        seed: makes every choice repeatable; 0 <= seed < 2**64.
        sampling: "shared" (default) shows every prompt the same examples in the same order, without replacement ("auto"
            chooses each prompt's examples); "iid" draws an example for every pull, as the paper does.
        on_failure: "skip" (default): a failed evaluation is a missing value, and the prompt goes on with another
            example ("auto" decides again). Or the scores that it counts as, one for each metric: `{"accuracy": 0.0}`.
            Then it is an evaluation of the budget like any other, and no prompt leaves for its failures.
        max_failure_rate: a prompt leaves as soon as more than this part of its evaluations fail, with a probability of
            99 % (uniform prior): by default after six failures out of the first six. 1: never. The baseline stays.
        baseline: id or text of the prompt in use today. It is never eliminated, and the answer is compared with it.
        inputs: "new" (default): estimates, errors and probabilities are about the expected score on a new input that is
            evaluated once, and the examples are a sample of such inputs. "given": they are about the mean over exactly
            these examples, for a fixed suite that is itself the target, such as a regression suite or a leaderboard.
        repeats: how often the same prompt may be asked on the same example (default: once). A prompt that has seen
            every example is then evaluated on them again. Repeated evaluations of an example count as one observation,
            their mean. With inputs="given", an explicit 1 says that repeated evaluations would give the same scores, so
            that a prompt's mean is known exactly once it has seen every example.
        profile: what earlier studies know of these examples, as of `asktell.ExampleProfile.of(study, ...)`, or the data
            of its JSON; "auto" then evaluates on those that tell most, and other methods take no notice. Needs ids of
            the examples.
        segments: of each example, the label of its segment, such as a language or a kind of customer. The result has
            estimates for each, and the goal may speak of them (`at_least(0.8, in_every_segment=True)`,
            `maximize("accuracy", worst_segment=True)`); "auto" then evaluates where a segment is in doubt.

    A selector may be used from several threads. It saves to JSON text and continues from it exactly.

    Raises:
        BudgetTooSmallError: the method cannot work with so few evaluations.
        IncompatibleMethodError: the method does not fit the goal, or lacks features.
    """

    def __init__(
        self,
        prompts: NewPrompts,
        goal: Goal,
        budget: int | Budget,
        method: str | Method = "auto",
        examples: int | Sequence[str] | None = None,
        features: Features = None,
        seed: int = 0,
        sampling: str = "shared",
        on_failure: Literal["skip"] | Mapping[str, float] = "skip",
        max_failure_rate: float = 0.5,
        baseline: AnyPrompt | None = None,
        repeats: int | None = None,
        profile: AnyProfile | None = None,
        segments: Sequence[str] | None = None,
        inputs: Literal["new", "given"] = "new",
    ) -> None:
        named = Prompts.of(prompts)
        problem = checked_problem(
            named, goal, budget, examples, features, seed, sampling, on_failure, max_failure_rate, baseline, repeats,
            profile, segments, inputs,
        )  # fmt: skip
        if not isinstance(method, Method):
            method = preset(method, goal)
        method.check(problem)
        self._set(named, method, initial(problem))

    def _set(self, prompts: Prompts, method: Method, state: State) -> None:
        self._first = prompts  # those before the first pull
        self._known: tuple[tuple[Grown, ...], Prompts] = state.growth[:0], prompts
        self._method = method
        self._state = state
        self._seen: tuple[State, State] | None = None  # without the decisions that are due, and with them
        self._sink: Callable[[events.AnyEvent], None] | None = None  # of a study, which keeps a log
        self._decide: Decide = decide
        self._renew_lock()
        fresh_after_fork(self, Selector._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = RLock()

    # Asking

    def _ask(self, n: int) -> list[Trial]:
        with self._lock:
            if n == 1:  # most asks: a sixth faster
                one = self._ask_next()
                return [] if one is None else [self._prompts.trial(one.trial, one.arm, one.example)]
            asked = list(islice(iter(self._ask_next, None), n))
            # Grouped by prompt, for prefix caches; stable, so that a prompt's examples keep their order.
            asked.sort(key=operator.attrgetter("arm"))
            return [self._prompts.trial(each.trial, each.arm, each.example) for each in asked]

    def _ask_next(self) -> events.Asked | None:
        pull = self._next_pull()
        if pull is None:  # the plan is used up
            self._make_due_decisions()
            pull = self._next_pull()
            if pull is None:
                return None
        asked = events.Asked(self._state.asked if pull.trial is None else pull.trial, pull.arm, pull.example)
        self._take(asked)
        return asked

    def _next_pull(self) -> events.Pull | None:
        """The next pull of the plan, unless the selection is finished or the pull may cost more than is left."""
        # One of the baseline, which never leaves, may have been handed back after the end.
        pull = None if self._state.finished else self._state.next_pull()
        return pull if pull is not None and self._state.fits(pull.arm) else None

    def _make_due_decisions(self) -> None:
        while self._state.may_decide and (decided := self._decided()) is not None:
            self._take(decided)

    def _decided(self) -> Decided | None:
        with one_thread:
            return self._decide(self._method, self._state)

    def _take(self, event: events.AnyEvent) -> None:
        """Fold an event: the one way in which the state changes."""
        self._state = apply(self._state, event)
        if self._sink is not None:
            self._sink(event)

    def _decide_when_nothing_is_pending(self) -> None:
        """Decide once nothing is pending; otherwise `ask` decides, by every score that has come by then.

        With a log, `ask` always does: a paid score must not wait for a decision, or be lost by one.
        """
        if self._sink is None and not self._state.pending:
            self._make_due_decisions()

    # Telling

    def tell(self, trial: AnyTrial, scores: Scores, cost: float | None = None) -> bool:
        with self._lock:
            vector = self._state.problem.goal.vector(scores)
            cost = needed_cost(cost, self.max_cost)
            id_ = trial_id(self._state, self._prompts, trial)
            if self._state.open(id_) is None:
                check_same(self._state, id_, vector)
                return False
            self._take(events.Told(id_, vector, cost))
            self._decide_when_nothing_is_pending()
            return True

    def tell_many(self, tells: Iterable[Tell | tuple[Any, ...]]) -> list[bool]:
        outcomes: list[bool | Exception] = []
        with self._lock:
            for item in tells:
                try:
                    tell = Tell.of(item)
                    if tell.details is not None:
                        raise InvalidArgumentError("A Selector keeps no details of its trials; a Study does.")
                    outcomes.append(self.tell(tell.trial, tell.scores, tell.cost))
                except Exception as error:  # whatever it is: the next one's scores were paid for, too
                    outcomes.append(error)
        return all_taken(outcomes)

    def observe(
        self, prompt: AnyPrompt, scores: Scores | None, example: int | str | None = None, cost: float | None = None
    ) -> bool:
        with self._lock:
            vector = None if scores is None and cost is not None else self._state.problem.goal.vector(scores)
            cost = None if cost is None else check_cost(cost)
            arm = self._prompts.arm(prompt)
            self._take(events.Observed(arm, find_example(self._state.problem, example), vector, cost))
            return True

    def fail(self, trial: AnyTrial, reason: str | BaseException, cost: float | None = None) -> bool:
        with self._lock:
            id_ = trial_id(self._state, self._prompts, trial)
            if self._state.open(id_) is None:
                return self._was_asked(id_)
            self._take(events.Failed(id_, check_reason(reason), None if cost is None else check_cost(cost)))
            self._decide_when_nothing_is_pending()
            return True

    def release(self, trial: AnyTrial) -> bool:
        with self._lock:
            id_ = trial_id(self._state, self._prompts, trial)
            if id_ not in self._state.pending:
                return self._was_asked(id_)
            self._take(events.Released(id_))
            return True

    def _was_asked(self, trial: int) -> Literal[False]:
        """False: there is nothing to record of a trial that is no longer pending; one never asked is an error."""
        if not 0 <= trial < self._state.asked:
            raise not_out(self._state, trial)
        return False

    # Going on

    def add(self, prompts: NewPrompts, features: Features = None, *, key: str | None = None) -> list[str | int]:
        with self._lock:
            known = growth.request(self._state, key, events.Added)
            if known is not None:
                return growth.ids_again(self._prompts, prompts, *known)
            event, ids = growth.addition(self._state, self._prompts, prompts, features, key)
            if event is not None:
                self._method.check_growth(event)
                self._take(event)
            return ids

    def retire(self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None) -> None:
        with self._lock:
            event = events.Retired(self._prompts.arm(prompt), check_reason(reason), growth.check_key(key))
            if growth.is_new(self._state, event):
                self._take(event)
                self._decide_when_nothing_is_pending()

    def extend(
        self,
        evaluations: int | None = None,
        cost: float | None = None,
        examples: int | Sequence[str] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        with self._lock:
            event = growth.extension(evaluations, cost, examples, key)
            if growth.is_new(self._state, event):
                self._method.check_growth(event)
                self._take(event)

    def remark(self, text: str, *, topic: str = "scores", doubtful: bool = False) -> None:
        if not isinstance(text, str) or not text.strip():
            raise InvalidArgumentError(f"remark() needs a text, got {short(text)}.")
        line = " ".join(text.split())  # a line of its own could be a command to whatever reads a log
        event = events.Remarked(check_name("The topic of a remark", topic), line, bool(doubtful))
        with self._lock:
            if self._state.remarks.get(event.topic) != event:
                self._take(event)

    # Reading

    @property
    def state(self) -> State:
        """The immutable state, to look at; with the decisions that are due if nothing is pending.

        All that is read is of this state. Due decisions are only looked ahead at: reading changes nothing.
        Before the first trial none is due.
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
    def prompts(self) -> Prompts:
        """The prompts by arm: their ids and texts."""
        return self._prompts

    @property
    def _prompts(self) -> Prompts:
        """Those of the state, whichever process let them join; kept until more of them do."""
        grown = self._state.growth
        known, prompts = self._known
        if known is not grown:
            n = len(known)
            if known != grown[:n]:
                n, prompts = 0, self._first
            for each in grown[n:]:
                prompts = growth.prompts_after(prompts, each.event)
            self._known = grown, prompts
        return prompts

    @property
    def pending(self) -> list[Trial]:
        with self._lock:
            pulls = sorted(self._state.pending.items())
            return [self._prompts.trial(id_, p.arm, p.example) for id_, p in pulls]

    def repeat_of(self, trial: Trial) -> int:
        state = self._state
        if state.problem.repeats == 1 or trial.example is None:
            return 0
        return state.asked_before(int(trial.id), self._prompts.arm(ById(trial.prompt_id)), int(trial.example))

    @property
    def done(self) -> bool:
        return self.state.finished

    spent: int = part_at("_state.spent", Selection.spent)
    budget: int = part_at("_state.problem.budget", Selection.budget)
    spent_cost: float = part_at("_state.cost", Selection.spent_cost)
    max_cost: float | None = part_at("_state.problem.max_cost", Selection.max_cost)
    goal: Goal = part_at("_state.problem.goal", Selection.goal)
    method: Method = part_at("_method", Selection.method)

    @property
    def example_ids(self) -> tuple[str, ...] | None:
        examples = self._state.problem.examples
        return None if examples is None else examples.ids

    @property
    def n_active(self) -> int:
        return len(self._prompts) - len(self.state.left)

    def result(self) -> Result:
        with self._lock:
            state, prompts = self.state, self._prompts
        return summarize(state, self._method, prompts)

    def compare(
        self, a: AnyPrompt, b: AnyPrompt | None = None, confidence: float = 0.95, tolerance: float = 0.0
    ) -> Comparison:
        return compare(self.state, self._method, self._prompts, a, b, confidence, tolerance)

    def evaluations(self, after: int = 0) -> Evaluations:
        found = islice(evaluations_of(self._state, self._prompts.ids), whole("after", after, 0), None)
        return Evaluations(found, self.metrics)

    def report(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        from asktell import reports  # late: whoever selects need not report

        reports.write(path, reports.document(self.state, self._method, self._prompts, about=about))

    def __repr__(self) -> str:
        spent, n_pending = describe_spending(self), len(self._state.pending)
        return f"<Selector: {len(self._prompts)} prompts, {safe(str(self.goal))}; {spent}, {n_pending} pending>"

    # Copying, saving and loading

    def _at(self, state: State) -> "Selector":
        """A selector of the same prompts and method in another state; it shares the scores, so only look at it."""
        selector = Selector.__new__(Selector)
        selector._set(self._first, self._method, state)
        selector._known = self._known
        return selector

    def __copy__(self) -> "Selector":
        return at_state(self, self._state)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Selector":
        return self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NotPicklableError(
            "A selector is not pickled, since loading a pickle runs code. Save selector.to_json(), and load it with "
            "asktell.Selector.from_json(text)."
        )

    def to_json(self) -> str:
        """The whole selector as JSON text; `Selector.from_json` continues it exactly.

        Raises:
            InvalidStateError: a part of a method of your own has a parameter that is no plain value.
        """
        with self._lock:
            state = self._state
        data = serialization.dump_selector(self._first, self._method, state)
        return json.dumps(data, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(
        cls,
        text: str | bytes | Mapping[str, Any],
        method: Method | None = None,
        examples: int | Sequence[str] | None = None,
    ) -> "Selector":
        """The selector that `to_json` saved; it goes on as if never interrupted.

        Args:
            text: the saved JSON, or what `json.loads` makes of it.
            method: the selector's method, where the whole method or a part of it is code of your own: a file holds its
                class name and its parameters, which must be the same.
            examples: their number or their ids, to be sure that they are the same as then.

        Raises:
            InvalidStateError: the text is malformed, truncated, foreign, or of an unknown version; or the method is
                another one, or is needed and was not given.
            InvalidArgumentError: the examples are others; the message says which.
        """
        data = text if isinstance(text, Mapping) else serialization.parse(text, "The saved selector")
        selector = cls.__new__(cls)
        selector._set(*serialization.load_selector(data, method))
        problem = selector._state.problem
        check_examples("The saved selector", problem.n_examples, problem.examples, examples)
        return selector


def at_state(selector: Selector, state: State) -> Selector:
    """A selector of the same prompts and method that goes on from another state, independently of the first."""
    with selector._lock:
        return selector._at(state._replace(history=state.history.copy()))


class SelectionWorker(Selection, AbstractContextManager[Any]):
    """A worker of a selection that several processes share, as `study.worker(name)` gives it, for a `with` block."""

    paused: bool
    selector: Selector

    @property
    @abstractmethod
    def unwanted(self) -> list[Trial]:
        """Its pending trials whose prompt was eliminated or retired since, as of the last heartbeat: stop them."""

    @abstractmethod
    def wait(self) -> bool:
        """Wait a little for what other workers hold, or for the end of a pause; False if the study is done."""
