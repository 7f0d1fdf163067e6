"""Selector: ask for trials, tell their scores, read the result. An `Engine` with a lock.

The engine (`asktell.record`) holds an immutable `State` with everything that was
recorded.

1. `ask` returns the next evaluation of the state's plan, a prompt and an example.
   Released trials come first.
2. When the plan is used up, the method reads the state. It plans more evaluations or
   ends the selection, and it eliminates or accepts prompts. "auto" is
   `asktell.methods.auto.adaptive`.
3. A decision is made in the `tell`, `fail` or `retire` after which no trial is pending,
   and otherwise in the next `ask`. A study always decides in `ask`.

Decisions are events, like asked trials and recorded scores. `apply` folds each event
into the next state. A saved selector, or another process that reads the same events, is
therefore in exactly the same state, and no decision is made twice.
"""

import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NoReturn, TypeAlias, overload

import numpy.typing as npt

from asktell._util.forks import fresh_after_fork
from asktell._util.terminal import safe
from asktell.errors import (
    InvalidArgumentError,
    NotPicklableError,
)
from asktell.methods import AbstractMethod, preset
from asktell.methods.rounds.parts import dump_part, load_method
from asktell.problem.budget import Budget, describe_spending
from asktell.problem.candidates import Candidates
from asktell.problem.checks import whole
from asktell.problem.examples.examples import AnyProfile
from asktell.problem.formats import parse
from asktell.problem.goals import Goal
from asktell.problem.problem import checked_problem
from asktell.problem.prompts import AnyPrompt, ById, Prompts
from asktell.problem.scores import AnyScores
from asktell.problem.trials import AnyTrial, Tell, Trial, all_taken
from asktell.record import Engine, State
from asktell.record.saved_engine import dump_engine, load_engine
from asktell.results.comparison import Comparison
from asktell.results.evaluations import Evaluations, evaluations_of
from asktell.results.result import Result
from asktell.results.summary import compare, summarize

NewPrompts: TypeAlias = Sequence[str] | Mapping[str, str] | Candidates
"""Texts, whose ids are their positions, a mapping from id to text, or candidates such as `asktell.grid(...)`."""

Features: TypeAlias = npt.ArrayLike | Literal["text"] | None
"""(K, d) numbers that describe the prompts. "text" computes them from the texts."""


class Selection(ABC):
    """The methods that `Selector`, `Study` and `RemoteStudy` share.

    `tell`, `observe`, `fail` and `release` return True if the call recorded something,
    and False if it changed nothing:

    - `tell`, if the same scores were recorded before.
    - `fail` and `release`, if the trial is no longer pending.
    - All of them, if another worker of a study has the trial now.

    In every other case they raise an error and change nothing.

    Raises:
        InvalidArgumentError: an argument is invalid. For example, the prompt is
            unknown, or a string is the id of one prompt and the text of another.
    """

    # Asking and telling

    @overload
    def ask(self) -> Trial | None: ...

    @overload
    def ask(self, n: int) -> list[Trial]: ...

    def ask(self, n: int | None = None) -> Trial | list[Trial] | None:
        """The next trial. With `n`, a list of up to n trials, grouped by prompt.

        Returns None, or with `n` an empty list, if the selection is `done`, if the next
        decision needs the scores of `pending` trials, or if the selection is a study
        that is paused. Never blocks.
        """
        if n is not None:
            return self._ask(whole("n", n, 0))
        trials = self._ask(1)
        return trials[0] if trials else None

    @abstractmethod
    def _ask(self, n: int) -> list[Trial]:
        """Up to n trials."""

    @abstractmethod
    def tell(
        self, trial: AnyTrial, scores: AnyScores, cost: float | None = None
    ) -> bool:
        """Record the scores of a trial. Trials can be told in any order.

        An error changes nothing, except that the scores stay recorded if a method of
        your own raises an error. If the scores or the cost were invalid, the trial is
        still pending, and you can tell it again.

        Args:
            trial: the trial, its JSON form (a list or a mapping) or its id (a number).
                You can also pass the text or the id of a prompt, as a string. The
                string stands for the oldest pending trial of this prompt.
            scores: a mapping from metric to number, or numbers in the order of
                `metrics`. With one metric, also a number. A mapping may also have
                scores of the `proxies`. Its other keys are ignored.
            cost: the cost of the evaluation, in a unit of your choice. It is added to
                `spent_cost`. Any real number of at least 0, such as a Decimal or a
                tensor without dimensions. None or NaN: unknown. Required if the budget
                is a cost.

        Returns:
            True if the scores were recorded now. False if the same scores were recorded
            before.

        Raises:
            InvalidScoresError: a metric is missing, a score is NaN, infinite, not a
                number or outside the range of its metric, or the number of scores is
                wrong.
            InvalidArgumentError: the cost is invalid, or the budget is a cost and the
                cost is unknown.
            UnknownTrialError: the trial was never asked, comes from another selector,
                or has failed.
            ConflictingTellError: other scores were recorded for this trial before.
        """

    @abstractmethod
    def tell_many(self, tells: Iterable[Tell | tuple[Any, ...]]) -> list[bool]:
        """Record the scores of several trials.

        An error in one of them does not affect the others.

        Args:
            tells: tuples `(trial, scores)` or `(trial, scores, cost)`, with the
                arguments of `tell`, or `asktell.Tell` objects.

        Returns:
            What `tell` returns for each tuple, in their order.

        Raises:
            TellManyError: some scores were refused. All others are recorded. The
                attribute `outcomes` of the error has the return value or the error for
                each tuple.
        """

    @abstractmethod
    def observe(
        self,
        prompt: AnyPrompt,
        scores: AnyScores | None,
        example: int | str | None = None,
        cost: float | None = None,
    ) -> bool:
        """Record scores for which no trial was asked: scores of proxies, or scores from earlier work.

        They inform the estimates. They do not count against the number of evaluations
        in the budget, nor in `spent`.

        Args:
            prompt: the prompt's id or text, or a trial of it.
            scores: as for `tell`. Scores of the goal's metrics count in the prompt's
                number of evaluations in results (`PromptResult.evaluations`). A mapping
                with scores of `proxies` alone does not count there, and needs an
                `example`. None records only a cost.
            example: the example of the scores, by its position or its id. None if it is
                unknown. After scores of the goal's metrics, the prompt is not evaluated
                on this example again. If a prompt gets several scores on an example,
                their mean counts once, and their differences show how noisy scores are.
            cost: the cost of the evaluation, 0 by default. It is added to `spent_cost`,
                even if a budget of cost is then exceeded.

        Returns:
            True. The same scores are recorded again if you pass them twice.

        Raises:
            InvalidScoresError: as for `tell`, or there are neither scores nor a cost.
            InvalidArgumentError: the prompt or the example is unknown, the cost is
                invalid, or scores of proxies come without an example.
        """

    @abstractmethod
    def fail(
        self, trial: AnyTrial, reason: str | BaseException, cost: float | None = None
    ) -> bool:
        """Record a failed evaluation.

        The prompt is then evaluated on another example, or eliminated if too many of
        its evaluations fail. See `on_failure` and `max_failure_rate` of the `Selector`.
        A failed evaluation does not count against the number of evaluations in the
        budget, unless `on_failure` gives it scores.

        Args:
            trial: as for `tell`.
            reason: text or an exception. If an exception has an HTTP status, the
                recorded reason has it, too.
            cost: the cost of the evaluation, as for `tell`. 0 by default. It is added
                to `spent_cost` and counts against a budget of cost.

        Returns:
            True if the failure was recorded. False if the trial is no longer pending,
            so that nothing changed.

        Raises:
            InvalidArgumentError: the cost is invalid.
            UnknownTrialError: the trial was never asked.
        """

    @abstractmethod
    def release(self, trial: AnyTrial) -> bool:
        """Return a trial without evaluating it. `ask` will return it again, with the same id.

        Args:
            trial: as for `tell`.

        Returns:
            True if the trial was pending. False if it is no longer pending, so that
            nothing changed.

        Raises:
            UnknownTrialError: the trial was never asked.
        """

    @abstractmethod
    def wait(self, seconds: float | None = None) -> bool:
        """Wait for other workers of a study. Call it after an `ask` that returned no trial.

        Args:
            seconds: how long to wait. See `Study.wait` for the default.

        Returns:
            True if other workers may still record scores, so that you should call `ask`
            again. False if there is nothing to wait for. A Selector has no other
            workers, so its `wait` returns False at once.
        """

    # Growing

    @abstractmethod
    def add(self, prompts: NewPrompts, *, key: str | None = None) -> list[str | int]:
        """Add prompts. A selection that was `done` continues with them if some of its budget is left.

        Recorded scores stay. The new prompts are first evaluated on examples on which
        the other prompts were evaluated, so that they can be compared. The budget does
        not change (see `extend`).

        Args:
            prompts: if the ids of the existing prompts are positions, a sequence of
                texts. Otherwise a mapping from id to text. If a prompt with the same id
                and text exists already, it is ignored. If the existing prompts are
                `Candidates`, pass `Candidates` with the same factors, in the same
                order. A factor can have new levels (values).
            key: a name for this request, so that it can safely be repeated, for example
                after a lost connection. A second request with the same key changes
                nothing and returns the same ids. A different request with that key is
                refused.

        Returns:
            The ids of the prompts, in the order given.

        Raises:
            IncompatibleMethodError: the method has rounds, which were planned for the
                first prompts. "auto", "race" and "referee" accept new prompts.
            InvalidArgumentError: a new prompt has the id of an existing prompt but
                another text, or its text but another id. Or `key` belongs to another
                request.
        """

    @abstractmethod
    def retire(
        self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None
    ) -> None:
        """Retire a prompt: it is not evaluated again and cannot be selected.

        Its pending trials can still be told, and its scores still inform the estimates
        of other prompts. If the selection was `done` and the prompt was selected, the
        selection continues without the prompt. If no prompt is left, the selection is
        done.

        Args:
            prompt: its id or text, or its entry of a result. The baseline cannot be
                retired, and neither can the incumbent of the method "referee".
            reason: text or an exception, shown in the result.
            key: as for `add`.

        Raises:
            InvalidArgumentError: the prompt is unknown, retired already, or the
                baseline.
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
        """Add to the budget or the examples. A selection that was `done` continues.

        Args:
            evaluations: the number of additional evaluations.
            cost: the additional cost, if the budget is a cost.
            examples: the number of additional examples, or their ids if the existing
                examples have ids. The new examples come after all existing examples.
                With `inputs="given"`, estimates are then about all examples, existing
                and new. Recorded scores stay.
            key: as for `add`.

        Raises:
            IncompatibleMethodError: the method has rounds, which were planned for the
                first budget. "auto", "race" and "referee" can be extended.
            InvalidArgumentError: there is nothing to add, an argument does not fit the
                budget or the examples, or the examples have segments and `examples` is
                given.
        """

    @abstractmethod
    def remark(
        self, text: str, *, topic: str = "scores", doubtful: bool = False
    ) -> None:
        """Add a note about the scores to the result, for example that they come from an LLM judge.

        `asktell.run` does this for evaluators that define `remarks()`.

        Args:
            text: sentences for `result.notes`. Line breaks become spaces.
            topic: the subject of the note, such as the name of a metric. A later remark
                on the same topic replaces this remark.
            doubtful: True if the scores are not reliable. Then results have no
                probabilities, and nothing can be established.
        """

    # Reading

    @property
    @abstractmethod
    def pending(self) -> list[Trial]:
        """The trials that are pending, oldest first: asked, and neither recorded, failed nor released."""

    @property
    @abstractmethod
    def unwanted(self) -> list[Trial]:
        """The pending trials that should be stopped, because their prompts were eliminated or retired."""

    @abstractmethod
    def repeat_of(self, trial: Trial) -> int:
        """The number of earlier trials of the same prompt on the same example: 0 for the first trial.

        Prompt, example and this number identify an evaluation in any run. If `repeats`
        is above 1, use all three as the key of a cache of responses, and to derive a
        sampling seed. If `repeats` is 1, the number is always 0.
        """

    @property
    @abstractmethod
    def done(self) -> bool:
        """True if the selection has ended: the selected prompts are final.

        `ask` then returns no trial. A selection continues if prompts, budget or
        examples are added, or if a selected prompt is retired.
        """

    @property
    @abstractmethod
    def spent(self) -> int:
        """The number of evaluations whose scores were recorded, without scores from `observe`."""

    @property
    @abstractmethod
    def budget(self) -> int:
        """The maximum number of evaluations.

        If the budget is only a cost, this is the number of all possible evaluations, at
        most `asktell.extend.MOST_EVALUATIONS` (100,000,000).
        """

    @property
    @abstractmethod
    def spent_cost(self) -> float:
        """The sum of all recorded costs, including those of failures and of `observe`."""

    @property
    @abstractmethod
    def max_cost(self) -> float | None:
        """The maximum cost. None if the budget is only a number of evaluations."""

    @property
    @abstractmethod
    def example_ids(self) -> tuple[str, ...] | None:
        """The ids of the examples, in the order of their positions. None if the examples have no ids."""

    @property
    @abstractmethod
    def goal(self) -> Goal:
        """The goal, such as `BestFeasible(...)`."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the goal's metrics, the objectives first.

        Scores that are given as a sequence instead of a mapping have this order.
        """
        return self.goal.metrics

    @property
    @abstractmethod
    def proxies(self) -> tuple[str, ...]:
        """The names of the cheap metrics that help to predict the goal. See the argument `proxies` of `Selector`."""

    @property
    @abstractmethod
    def method(self) -> AbstractMethod:
        """The method, which decides which trial comes next and which prompts are selected."""

    @property
    @abstractmethod
    def n_active(self) -> int:
        """The number of prompts that were not accepted, eliminated, failed or retired."""

    @abstractmethod
    def result(self) -> Result:
        """The selected prompts, and the estimates of all prompts.

        It is final if the selection is `done`. Before, it is based on the scores so
        far.
        """

    @abstractmethod
    def compare(
        self,
        a: AnyPrompt,
        b: AnyPrompt | None = None,
        confidence: float = 0.95,
        tolerance: float | None = None,
    ) -> Comparison:
        """Compare two prompts in every metric.

        The arguments and errors are those of `Result.compare`.
        """

    @abstractmethod
    def evaluations(self, after: int = 0) -> Evaluations:
        """Every recorded or failed evaluation, without those from `observe`. `.to_dataframe()` makes a table.

        A selector lists recorded evaluations in the order of recording, then failed
        evaluations. A study lists both together in the order of recording, and with
        their details.

        Args:
            after: the number of evaluations to skip at the beginning.
        """

    @abstractmethod
    def report(
        self,
        path: str | Path,
        about: Mapping[str, Any] | None = None,
        inputs: Sequence[str] | None = None,
    ) -> None:
        """Write an HTML page about the selection. It needs no network and no other file.

        Args:
            path: the path of the page. An existing file is replaced.
            about: more facts to show, as a mapping from name to value, such as the
                model, the dataset or a commit.
            inputs: the text of each example, in the order of the examples. The page
                shows it where two prompts are compared on the example.

        Raises:
            InvalidArgumentError: an input is no text, or there are more inputs than
                examples.
        """


def part_at(place: str, like: object) -> Any:
    """A property that reads nested attributes, such as "_engine.method", with the docstring of another property."""
    return property(operator.attrgetter(place), doc=like.__doc__)


class Selector(Selection):
    """Finds the best feasible prompt or the Pareto set with few evaluations.

    Ask for a trial, evaluate its prompt on its example, tell the scores, and repeat
    this until `ask` returns None. Then read the result.

        >>> import asktell
        >>> prompts = {"short": "Answer briefly.", "long": "Think step by step, then answer."}
        >>> selector = asktell.Selector(prompts, asktell.BestFeasible("accuracy"), budget=40, examples=20)
        >>> while trial := selector.ask():
        ...     right = trial.prompt_id == "long" or trial.example % 2
        ...     recorded = selector.tell(trial, {"accuracy": float(right)})
        >>> result = selector.result()
        >>> result.best.id, result.best.prompt
        ('long', 'Think step by step, then answer.')

    Args:
        prompts: the K candidates: a mapping from id to text, or a sequence of texts,
            whose ids are their positions. For candidates with several factors, such as
            models and settings, pass `asktell.grid(model=[...], prompt={...})` or
            `asktell.Candidates([{...}, ...])`.
        goal: `BestFeasible(...)` or `ParetoSet(...)`.
        budget: the maximum number of evaluations, including pending trials. For a limit
            on cost, `asktell.Budget(cost=...)`.
        method: "auto" (default), the name of another method, such as "race", or an
            `Adaptive`, a `Race`, a `Referee` or an `Elimination`. `asktell.METHODS` has
            the names.
        examples: N, the number of examples in the dataset, or a list of their ids
            (texts, all different). With ids, a saved selection cannot be continued with
            other examples by mistake. None if the evaluator draws its own
            examples.
        features: numbers that describe the prompts, shape (K, d), such as
            `asktell.features.pca` of their embeddings. "text" computes them from the
            texts. Only the methods "lcsh", "gege", "mlp-csr" and "mlp-ege" use
            features, and they need them.
        seed: the start of all random choices, 0 <= seed < 2**64. With the same seed and
            the same scores, a selection makes the same choices.
        sampling: "shared" (default) evaluates a prompt on the same example once, or up
            to `repeats` times. The method "auto" chooses the examples of each prompt.
            The other methods evaluate all prompts on the same examples, in the same
            random order. "iid" draws an example at random for every evaluation, so that
            an example can come again.
        on_failure: "skip" (default) leaves a failed evaluation out of the estimates,
            and the prompt is evaluated on another example. A mapping such as
            `{"accuracy": 0.0}` gives failed evaluations these scores instead. They then
            count against the budget, and no prompt is eliminated for failures.
        max_failure_rate: the allowed share of failed evaluations of a prompt, above 0
            and at most 1. A prompt is eliminated as soon as its true failure rate is
            above this share with a probability of at least 99%. The probability is
            computed from the evaluations of the prompt so far (with a uniform prior).
            With the default of 0.5, this happens if the first six evaluations fail.
            With 1, no prompt is eliminated for failures. The baseline is never
            eliminated.
        baseline: the id or text of the prompt in use today. It is never eliminated, and
            the result compares the selected prompt with it.
        repeats: how often a prompt may be evaluated on the same example, once by
            default. With 2 or more, a prompt is usually evaluated on every example
            before it is evaluated on an example again. The mean of its scores on an
            example then counts as one score. With inputs="given", `repeats=1` has a
            meaning of its own, other than the default None: it declares that a second
            evaluation would give the same scores. The mean of a prompt that was
            evaluated on every example then has no error.
        profile: what earlier studies have shown about these examples: how hard each
            example is, and how well it distinguishes good prompts from bad prompts.
            Pass `asktell.ExampleProfile.of(study, ...)` or its JSON data. "auto" then
            prefers examples that distinguish prompts well. Other methods ignore the
            profile. Needs ids of the examples.
        segments: a label for each example, such as its language. The result then has
            estimates for each segment, and the goal can use them (`at_least(0.8,
            in_every_segment=True)`, `maximize("accuracy", worst_segment=True)`). If it
            does, "auto" evaluates more in the segments that matter for the selection.
        inputs: the subject of estimates, errors and probabilities. "new" (default): the
            expected score on a new input. The examples then count as a random sample of
            such inputs. "given": the mean over exactly these examples, for a fixed
            suite such as a regression suite or a leaderboard.
        proxies: the names of cheap metrics outside of the goal that help to predict it.
            For instance, if the goal's metric is a grade from people, the score of a
            cheap LLM judge can be a proxy. Record scores of proxies with `observe`, for
            any prompts and examples, or together with other scores in `tell`. They do
            not count against the budget. How much each proxy helps is estimated from
            the scores. Needs `examples`.

    A selector can be used from several threads. `to_json` saves it, and `from_json`
    continues exactly.

    Raises:
        BudgetTooSmallError: the method needs a larger budget.
        IncompatibleMethodError: the method does not support the goal, or it needs
            features.
        InvalidArgumentError: an argument is invalid. The message has the expected
            value.
    """

    def __init__(
        self,
        prompts: NewPrompts,
        goal: Goal,
        budget: int | Budget,
        method: str | AbstractMethod = "auto",
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
        proxies: Sequence[str] = (),
    ) -> None:
        named = Prompts.of(prompts)
        problem = checked_problem(
            named, goal, budget, examples, features, seed, sampling, on_failure, max_failure_rate, baseline, repeats,
            profile, segments, inputs, proxies,
        )  # fmt: skip
        if not isinstance(method, AbstractMethod):
            method = preset(method, goal)
        method.check(problem)
        self._set(Engine.of(named, method, problem))

    def _set(self, engine: Engine) -> None:
        """Set all attributes. `__init__`, `from_json` and `selector_of` begin here."""
        self._engine = engine
        self._lock = RLock()
        fresh_after_fork(self, Selector._renew)

    def _renew(self) -> None:
        """Begin again in a forked process, where a thread of the parent may hold the lock."""
        self._lock = RLock()
        self._engine.renew()

    # Asking

    def _ask(self, n: int) -> list[Trial]:
        with self._lock:
            return self._engine.ask(n)

    def _decide(self) -> None:
        """Decide if nothing is pending. Otherwise the next `ask` decides, using all scores recorded by then.

        A study always decides in `ask`. Recording a paid score must not wait for a
        decision or fail because of one.
        """
        if not self._engine.state.pending:
            self._engine.decide()

    # Telling

    def tell(
        self, trial: AnyTrial, scores: AnyScores, cost: float | None = None
    ) -> bool:
        with self._lock:
            is_new = self._engine.tell(trial, scores, cost)
            if is_new:
                self._decide()
            return is_new

    def tell_many(self, tells: Iterable[Tell | tuple[Any, ...]]) -> list[bool]:
        outcomes: list[bool | Exception] = []
        with self._lock:
            for item in tells:
                try:
                    tell = Tell.of(item)
                    if tell.details is not None:
                        raise InvalidArgumentError(
                            "A Selector does not store details of its trials. Use a Study, or leave the details out."
                        )
                    outcomes.append(self.tell(tell.trial, tell.scores, tell.cost))
                except Exception as error:
                    # Errors of any kind: the scores of the next trial were paid for, too
                    outcomes.append(error)
        return all_taken(outcomes)

    def observe(
        self,
        prompt: AnyPrompt,
        scores: AnyScores | None,
        example: int | str | None = None,
        cost: float | None = None,
    ) -> bool:
        with self._lock:
            return self._engine.observe(prompt, scores, example, cost)

    def fail(
        self, trial: AnyTrial, reason: str | BaseException, cost: float | None = None
    ) -> bool:
        with self._lock:
            is_new = self._engine.fail(trial, reason, cost)
            if is_new:
                self._decide()
            return is_new

    def release(self, trial: AnyTrial) -> bool:
        with self._lock:
            return self._engine.release(trial)

    def wait(self, seconds: float | None = None) -> bool:
        return False

    # Growing

    def add(self, prompts: NewPrompts, *, key: str | None = None) -> list[str | int]:
        with self._lock:
            return self._engine.add(prompts, key=key)

    def retire(
        self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None
    ) -> None:
        with self._lock:
            if self._engine.retire(prompt, reason, key=key):
                self._decide()

    def extend(
        self,
        evaluations: int | None = None,
        cost: float | None = None,
        examples: int | Sequence[str] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        with self._lock:
            self._engine.extend(evaluations, cost, examples, key=key)

    def remark(
        self, text: str, *, topic: str = "scores", doubtful: bool = False
    ) -> None:
        with self._lock:
            self._engine.remark(text, topic=topic, doubtful=doubtful)

    # Reading

    @property
    def state(self) -> State:
        """The immutable state of the selection. For inspection, and for methods of your own.

        If no trial is pending, the state includes the decisions that the next `ask`
        will make, such as eliminations. They are computed without changing the
        selector. Before the first trial, there are none.
        """
        with self._lock:
            return self._engine.state_ahead

    @property
    def prompts(self) -> Prompts:
        """All prompts with their ids and texts, in the order in which they were given."""
        return self._engine.prompts

    @property
    def pending(self) -> list[Trial]:
        with self._lock:
            return list(map(self._engine.trial, sorted(self._engine.state.pending)))

    @property
    def unwanted(self) -> list[Trial]:
        with self._lock:
            state = self._engine.state
            # The usual case, in which no trial is made
            if not state.left:
                return []
            to_stop = {
                id_
                for id_, p in state.pending.items()
                if state.left.has_eliminated(p.arm)
            }
            return [trial for trial in self.pending if trial.id in to_stop]

    def repeat_of(self, trial: Trial) -> int:
        state = self._engine.state
        if state.problem.examples.repeats == 1 or trial.example is None:
            return 0
        return self._engine.asked_before(
            int(trial.id),
            self.prompts.arm(ById(trial.prompt_id)),
            int(trial.example),
        )

    @property
    def done(self) -> bool:
        return self.state.finished

    spent: int = part_at("_engine.state.spent", Selection.spent)
    budget: int = part_at("_engine.state.problem.budget", Selection.budget)
    spent_cost: float = part_at("_engine.state.costs.total", Selection.spent_cost)
    max_cost: float | None = part_at(
        "_engine.state.problem.max_cost", Selection.max_cost
    )
    goal: Goal = part_at("_engine.state.problem.goal", Selection.goal)
    proxies: tuple[str, ...] = part_at(
        "_engine.state.problem.proxies", Selection.proxies
    )
    method: AbstractMethod = part_at("_engine.method", Selection.method)

    @property
    def example_ids(self) -> tuple[str, ...] | None:
        return self._engine.state.problem.examples.ids

    @property
    def n_active(self) -> int:
        return len(self.prompts) - len(self.state.left)

    def result(self) -> Result:
        with self._lock:
            state, prompts = self._engine.state_ahead, self._engine.prompts
        return summarize(state, self.method, prompts)

    def compare(
        self,
        a: AnyPrompt,
        b: AnyPrompt | None = None,
        confidence: float = 0.95,
        tolerance: float | None = None,
    ) -> Comparison:
        return compare(
            self.state, self.method, self.prompts, a, b, confidence, tolerance
        )

    def evaluations(self, after: int = 0) -> Evaluations:
        evaluations = islice(
            evaluations_of(self._engine.state, self.prompts.ids),
            whole("`after`", after, 0),
            None,
        )
        return Evaluations(evaluations, self.metrics)

    def report(
        self,
        path: str | Path,
        about: Mapping[str, Any] | None = None,
        inputs: Sequence[str] | None = None,
    ) -> None:
        from asktell import reports  # imported late: a selection does not need it

        document = reports.document(
            self.state, self.method, self.prompts, about=about, inputs=inputs
        )
        reports.write(path, document)

    def __repr__(self) -> str:
        spent, n_pending = describe_spending(self), len(self._engine.state.pending)
        return f"<Selector: {len(self.prompts)} prompts, {safe(str(self.goal))}; {spent}, {n_pending} pending>"

    # Copying, saving and loading

    def __copy__(self) -> "Selector":
        return at_state(self, self._engine.state)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Selector":
        return self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NotPicklableError(
            "A selector cannot be pickled, because loading a pickle runs code. Save selector.to_json() and load it "
            "with asktell.Selector.from_json(text)."
        )

    def to_json(self) -> str:
        """Save the selector as JSON text. `Selector.from_json` continues it exactly.

        Raises:
            InvalidStateError: a part of the method is your own class, and has a
                parameter that is not text, a finite number, True, False, None or a list
                of these.
        """
        with self._lock:
            state = self._engine.state
        method = dump_part(self.method)
        data = dump_engine(self._engine.first_prompts, method, state)
        return json.dumps(data, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(
        cls,
        text: str | bytes | Mapping[str, Any],
        method: AbstractMethod | None = None,
        examples: int | Sequence[str] | None = None,
    ) -> "Selector":
        """Load a selector that `to_json` saved. It continues as if it had never been interrupted.

            >>> import asktell
            >>> saved = asktell.Selector(["a", "b"], asktell.BestFeasible("accuracy"), 10, examples=5).to_json()
            >>> asktell.Selector.from_json(saved)
            <Selector: 2 prompts, maximize accuracy; 0 of 10 evaluations, 0 pending>

        Args:
            text: the saved JSON, or the result of `json.loads`.
            method: the selector's method. Required if the method or a part of it is
                your own class. The text has only class names and parameters of the
                method, which must match.
            examples: the number of examples or their ids, to check that they have not
                changed. None: no check.

        Raises:
            InvalidStateError: the text is malformed, truncated, not from asktell, or of
                an unknown version. Or the method differs, or is required and missing.
            InvalidArgumentError: the examples differ. The message lists the
                differences.
        """
        data = text if isinstance(text, Mapping) else parse(text, "The saved selector")
        engine = load_engine(data, lambda saved: load_method(saved, method))
        engine.state.problem.examples.check_same("The saved selector", examples)
        selector = cls.__new__(cls)
        selector._set(engine)
        return selector


def at_state(selector: Selector, state: State) -> Selector:
    """A new selector that continues from a state, with the prompts and the method of `selector`.

    The two selectors are independent. Changes of one do not affect the other.
    """
    # The two selectors have different locks, so they must not append to the same rows.
    with selector._lock:
        state = state._replace(history=state.history.copy())
        return selector_of(selector._engine.at(state))


def selector_of(engine: Engine) -> Selector:
    """A selector around an engine, which it does not copy."""
    selector = Selector.__new__(Selector)
    selector._set(engine)
    return selector
