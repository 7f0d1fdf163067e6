"""Selector: ask what to evaluate, tell the scores, read the result. The one mutable object of the engine."""

import json
import operator
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any, Literal, NoReturn, TypeVar, overload

import numpy as np
import numpy.typing as npt

from asktell import records
from asktell.arguments import MOST_EVALUATIONS, MOST_EXAMPLES, check_cost, check_features, check_prompts, short, whole
from asktell.budget import Budget
from asktell.errors import (
    ConflictingTellError,
    InvalidArgumentError,
    InvalidStateError,
    NotPicklableError,
    UnknownTrialError,
)
from asktell.forks import fresh_after_fork
from asktell.goals import Goal, Scores
from asktell.methods import Elimination, Method, preset
from asktell.methods.adaptive import Adaptive
from asktell.numerics.arrays import Features
from asktell.results import Result
from asktell.results.summary import summarize
from asktell.state import (
    SAMPLINGS,
    Asked,
    Event,
    Failed,
    Observed,
    Problem,
    Released,
    State,
    Told,
    apply,
    decide,
    initial,
)
from asktell.state.queue import Pull
from asktell.trial import Trial

_Self = TypeVar("_Self", bound="Selector")
_SHOWN = 20


class Selector:
    """Chooses which prompt to evaluate next, so that few evaluations find the best feasible prompt or the Pareto set.

    Args:
        prompts: the K candidates, as a sequence of texts (then ids are positions) or a mapping from id to text.
        goal: `BestFeasible(...)` or `ParetoSet(...)`.
        budget: evaluations allowed; never exceeded, trials out included. Or `asktell.Budget(cost=...)`.
        method: "auto", another preset's name, an `Adaptive`, or a composed `Elimination`.
        examples: N, the number of examples in the data set; None if the evaluator draws its own.
        features: (K, d) numbers that describe the prompts, such as `asktell.features.pca` of their embeddings;
            structured methods need them, "auto" does not use them. "text" makes them from the prompts' texts.
        seed: makes every choice repeatable; 0 <= seed < 2**64.
        sampling: "shared" (default) shows every prompt the same examples in the same order, without replacement;
            "iid" draws an example for every pull, as the paper does.
        max_failures: a prompt whose evaluation fails this many times leaves the race.

    A selector may be used from several threads. It saves to JSON text and continues from it exactly.

    Raises:
        InvalidArgumentError: an argument has the wrong type, value or length; a prompt is given twice.
        BudgetTooSmallError: the method cannot work with so few evaluations.
        IncompatibleMethodError: the method does not fit the goal, or lacks features.
    """

    def __init__(
        self,
        prompts: Sequence[str] | Mapping[str, str],
        goal: Goal,
        budget: int | Budget,
        method: str | Method = "auto",
        examples: int | None = None,
        features: npt.ArrayLike | Literal["text"] | None = None,
        seed: int = 0,
        sampling: str = "shared",
        max_failures: int = 3,
    ) -> None:
        ids, texts = check_prompts(prompts)
        if not isinstance(goal, Goal):
            raise InvalidArgumentError(
                f"goal must be asktell.BestFeasible(...) or asktell.ParetoSet(...), got {goal!r}."
            )
        if sampling not in SAMPLINGS:
            raise InvalidArgumentError(f"sampling must be one of {list(SAMPLINGS)}, got {sampling!r}.")
        n_examples = None if examples is None else whole("examples", examples, 1, MOST_EXAMPLES)
        if not isinstance(budget, Budget):
            budget = Budget(whole("budget", budget, 1, MOST_EVALUATIONS))
        # With a cost alone: as many as there are.
        everything = len(texts) * (n_examples or MOST_EVALUATIONS) if sampling == "shared" else MOST_EVALUATIONS
        problem = Problem(
            n_arms=len(texts),
            goal=goal,
            budget=min(everything, MOST_EVALUATIONS) if budget.evaluations is None else int(budget.evaluations),
            n_examples=n_examples,
            features=_features(features, texts),
            seed=whole("seed", seed, 0, 2**64 - 1),
            sampling=sampling,
            max_failures=whole("max_failures", max_failures, 1),
            max_cost=budget.cost,
            max_cost_per_evaluation=budget.max_cost_per_evaluation,
        )
        if not isinstance(method, (Elimination, Adaptive)):
            method = preset(method, goal)
        method.check(problem)
        self._set(ids, texts, method, initial(problem))

    def _set(self, ids: list[str] | None, texts: list[str], method: Method, state: State) -> None:
        self._ids: Sequence[str | int] = range(len(texts)) if ids is None else ids
        self._texts = texts
        self._method = method
        self._state = state
        self._renew_lock()
        fresh_after_fork(self, Selector._renew_lock)

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
        return Trial(trial, self._ids[arm], self._texts[arm], example)

    def _affordable(self) -> Pull | None:
        pull = self._state.next_pull()
        return pull if pull is not None and self._state.fits(pull.arm) else None

    def tell(self, trial: Trial | int | str, scores: Scores, cost: float | None = None) -> None:
        """Take the scores of a trial, in any order.

        Args:
            trial: the trial, its id, or the prompt (text or id given as str): its oldest trial that is out.
            scores: mapping from metric to number, or numbers in the goal's order (`selector.metrics`).
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
            if cost is not None:
                cost = check_cost(cost)
            elif self.max_cost is not None:
                raise InvalidArgumentError(
                    f"tell() needs the trial's cost, since the budget is a cost of {self.max_cost:g}: "
                    "tell(trial, scores, cost=...); 0 if it was free. The trial is still out."
                )
            id_ = self._trial_id(trial)
            if self._state.open(id_) is None:
                told = self._state.history.scores_of(id_)
                if told is None:
                    raise self._unknown(id_)
                if told != vector:
                    raise ConflictingTellError(
                        f"Trial {id_} was told {self._named(told)} before, and now {self._named(vector)}. "
                        "A trial is evaluated once; use observe() for further scores of the same prompt."
                    )
                return
            self._take(Told(id_, vector, cost))
            self._settle()

    def observe(self, prompt: str | int, scores: Scores, example: int | None = None) -> None:
        """Take scores from elsewhere (a warm start): they inform the estimates and cost no budget.

        Args:
            prompt: the prompt's id or text.
            scores: as for `tell`.
            example: the example they belong to; it will then not be asked for this prompt. Of several scores of a
                prompt on the same example the mean counts, once.

        Raises:
            InvalidScoresError: as for `tell`.
            InvalidArgumentError: the prompt is unknown or ambiguous, or the example is not in range(examples).
        """
        with self._lock:
            vector = self._state.problem.goal.vector(scores)
            arm = self._arm(prompt)
            if example is not None:
                n_examples = self._state.problem.n_examples
                if n_examples is None:
                    raise InvalidArgumentError(
                        f"observe() got example {example!r}, but this selector was made without `examples`."
                    )
                example = whole("example", example, 0, n_examples - 1)
            self._take(Observed(arm, example, vector))

    def release(self, trial: Trial | int | str) -> None:
        """Hand a trial back unevaluated; it will be asked again, under the same id.

        Raises:
            UnknownTrialError: the trial is not out.
            InvalidArgumentError: the prompt that is named is ambiguous.
        """
        with self._lock:
            id_ = self._trial_id(trial)
            if id_ not in self._state.pending:
                raise self._unknown(id_)
            self._take(Released(id_))

    def fail(self, trial: Trial | int | str, reason: str | BaseException, cost: float | None = None) -> None:
        """Count a failed evaluation; the prompt goes on with its next example.

        A prompt that has failed `max_failures` times leaves the race, with the reason in the result. A failed trial
        is not counted as an evaluation; what it cost all the same is summed up in the result, and taken off a budget
        of cost. Without `cost` it has cost nothing.

        Raises:
            UnknownTrialError: the trial is not out.
            InvalidArgumentError: the reason is neither text nor an exception, the cost is not a number >= 0, or the
                prompt that is named is ambiguous.
        """
        with self._lock:
            id_ = self._trial_id(trial)
            if self._state.open(id_) is None:
                raise self._unknown(id_)
            if isinstance(reason, BaseException):
                reason = f"{type(reason).__name__}: {reason}"
            if not isinstance(reason, str):
                raise InvalidArgumentError(f"The reason of a failure must be text or an exception, got {reason!r}.")
            cost = None if cost is None else check_cost(cost)
            self._take(Failed(id_, reason, cost))
            self._settle()

    def _take(self, event: Event) -> None:
        """Fold an event: the one way in which the state ever changes."""
        self._state = apply(self._state, event)

    def _advance(self) -> None:
        """Make every decision that is due."""
        while (decided := decide(self._method, self._state)) is not None:
            self._take(decided)

    def _settle(self) -> None:
        """Decide if nothing is out; otherwise asking decides, so that it knows every score that has come by then."""
        if not self._state.pending:
            self._advance()

    # Reading

    @property
    def pending(self) -> list[Trial]:
        """The trials that are out, oldest first."""
        with self._lock:
            pulls = sorted(self._state.pending.items())
            return [Trial(id_, self._ids[p.arm], self._texts[p.arm], p.example) for id_, p in pulls]

    @property
    def done(self) -> bool:
        """Whether the last decision has been made: nothing will be asked again."""
        with self._lock:
            self._settle()
            return self._state.finished

    @property
    def spent(self) -> int:
        """Evaluations told so far, those of `observe` not counted."""
        return self._state.spent

    @property
    def budget(self) -> int:
        """Evaluations allowed."""
        return self._state.problem.budget

    @property
    def max_cost(self) -> float | None:
        """Cost allowed; None if only evaluations are counted."""
        return self._state.problem.max_cost

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
        return len(self._texts) - len(self._state.left)

    @property
    def state(self) -> State:
        """The immutable state, to look at."""
        return self._state

    def result(self) -> Result:
        """The answer so far: final if `done`, otherwise the best that can be said now. Never raises."""
        with self._lock:
            state = self._state
        return summarize(state, self._method, self._ids, self._texts)

    # Copying and saving

    def __copy__(self: _Self) -> _Self:
        with self._lock:
            state = self._state._replace(history=self._state.history.copy())
        copy = type(self).__new__(type(self))
        ids = None if isinstance(self._ids, range) else [str(id_) for id_ in self._ids]
        copy._set(ids, list(self._texts), self._method, state)
        return copy

    def __deepcopy__(self: _Self, memo: dict[int, Any]) -> _Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NotPicklableError(
            "A selector is not pickled, since loading a pickle runs code. Save selector.to_json(), and load it with "
            "asktell.Selector.from_json(text)."
        )

    def to_json(self) -> str:
        """The whole selector as JSON text; `Selector.from_json` continues it exactly.

        Raises:
            InvalidStateError: the method has parts that are not asktell's own; see `from_json`.
        """
        from importlib.metadata import version  # here, to keep the import of asktell light

        with self._lock:
            state = self._state
        data = {
            "format": records.FORMAT,
            "version": records.VERSION,
            "asktell": version("asktell"),
            "prompts": {"ids": None if isinstance(self._ids, range) else list(self._ids), "texts": self._texts},
            "method": records.dump_part(self._method),
            **records.dump_problem(state.problem),
            "state": records.dump_state(state),
        }
        return json.dumps(data, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls: type[_Self], text: str | bytes, method: Method | None = None) -> _Self:
        """The selector that `to_json` made `text` of; it goes on as if never interrupted.

        Args:
            text: the saved JSON.
            method: for a method with parts of your own, which a file cannot hold.

        Raises:
            InvalidStateError: the text is malformed, truncated, foreign, or of an unknown version.
        """
        return cls._from_data(records.parse(text, "The saved selector"), method)

    @classmethod
    def _from_data(cls: type[_Self], data: Mapping[str, Any], method: Method | None) -> _Self:
        if data.get("format") != records.FORMAT:
            raise InvalidStateError(f"This is not a saved asktell selector: its format is {data.get('format')!r}.")
        if data.get("version") != records.VERSION:
            raise InvalidStateError(
                f"The saved selector has version {data.get('version')!r}, this asktell reads {records.VERSION}. "
                f"It was written by asktell {data.get('asktell')!r}: use that version or a newer one."
            )
        return records.checked("The saved selector", lambda: cls._load(data, method))

    @classmethod
    def _load(cls: type[_Self], data: Mapping[str, Any], method: Method | None) -> _Self:
        prompts = data.get("prompts")
        if not isinstance(prompts, dict):
            raise InvalidStateError("The saved selector has no prompts.")
        ids, texts = prompts.get("ids"), prompts.get("texts")
        if not isinstance(texts, list) or not (ids is None or (isinstance(ids, list) and len(ids) == len(texts))):
            raise InvalidStateError("The saved prompts must be a list of texts, and of as many ids or none.")
        ids, texts = check_prompts(texts if ids is None else dict(zip(ids, texts, strict=True)))
        problem = records.load_problem(data, len(texts))
        if method is None:
            method = records.load_part(data.get("method"))
        if not isinstance(method, (Elimination, Adaptive)):
            raise InvalidStateError(f"The saved method must be an Elimination or Adaptive, got {method!r}.")
        method.check(problem)
        state = records.load_state(data.get("state"), problem)
        rounds = method.rounds(problem) if isinstance(method, Elimination) else None
        if rounds is not None and not state.finished and len(state.decisions) > len(rounds):
            raise InvalidStateError(f"{len(state.decisions)} rounds were decided, but the method has {len(rounds)}.")
        selector = cls.__new__(cls)
        selector._set(ids, texts, method, state)
        return selector

    # Looking up

    def _arm(self, prompt: object) -> int:
        """The arm of a prompt's id or text."""
        arm = self._arm_or_none(prompt)
        if arm is None:
            raise InvalidArgumentError(self._no_prompt(prompt))
        return arm

    def _arm_or_none(self, prompt: object) -> int | None:
        """Looked up by building indices the first time.

        Raises:
            InvalidArgumentError: it is the id of one prompt and the text of another.
        """
        if not isinstance(prompt, (str, int)) or isinstance(prompt, bool):
            return None
        if not hasattr(self, "_by_name"):
            names: tuple[Sequence[str | int], Sequence[str | int]] = (self._ids, self._texts)
            self._by_name = [{name: arm for arm, name in enumerate(of_all)} for of_all in names]
        by_id, by_text = (index.get(prompt) for index in self._by_name)
        if by_id is not None and by_text is not None and by_id != by_text:
            raise InvalidArgumentError(
                f"{short(prompt)} is the id of the prompt {short(self._texts[by_id])} and the text of the prompt with "
                f"the id {short(self._ids[by_text])}. Say which: name the one by its text, or the other by its id."
            )
        return by_text if by_id is None else by_id

    def _no_prompt(self, prompt: object) -> str:
        return f"There is no prompt {short(prompt)}. Name one by its text, or its id: {self._some(list(self._ids))}."

    def _trial_id(self, trial: object) -> int:
        if type(trial) is Trial:
            if type(trial.id) is int:
                return trial.id
            trial = trial.id if isinstance(trial.id, np.integer) else trial  # a str would name a prompt
        if isinstance(trial, str):
            arm = self._arm_or_none(trial)
            if arm is None:
                raise UnknownTrialError(f"{self._no_prompt(trial)} {self._pending_text()}")
            out = [p.trial for p in self._out() if p.arm == arm and p.trial is not None]
            if not out:
                raise UnknownTrialError(f"The prompt {short(trial)} has no trial out. {self._pending_text()}")
            return min(out)
        if isinstance(trial, (int, np.integer)) and not isinstance(trial, bool):
            return int(trial)
        raise InvalidArgumentError(
            f"A trial must be a Trial, its id, or the prompt as str; got {short(trial)} ({type(trial).__name__})."
        )

    def _out(self) -> list[Pull]:
        return [*self._state.pending.values(), *self._state.returned]

    def _unknown(self, id_: int) -> UnknownTrialError:
        failed = any(f.trial == id_ for failures in self._state.failures.values() for f in failures)
        if failed:
            return UnknownTrialError(
                f"Trial {id_} has failed; its place was given to another one. {self._pending_text()}"
            )
        if self._state.history.scores_of(id_) is not None:
            return UnknownTrialError(f"Trial {id_} has been told already. {self._pending_text()}")
        return UnknownTrialError(f"Trial {id_} is not out. {self._pending_text()}")

    def _pending_text(self) -> str:
        pending = sorted(self._state.pending)
        return f"Trials out: {self._some(pending)}." if pending else "No trial is out: ask() first."

    def _named(self, vector: tuple[float, ...]) -> dict[str, float]:
        return dict(zip(self.metrics, vector, strict=True))

    @staticmethod
    def _some(items: Sequence[object]) -> str:
        shown = ", ".join(short(item) for item in items[:_SHOWN])
        return shown + (f", ... ({len(items)} in all)" if len(items) > _SHOWN else "")


def _features(features: npt.ArrayLike | None, texts: list[str]) -> Features | None:
    if features is None:
        return None
    if isinstance(features, str):
        if features != "text":
            raise InvalidArgumentError(f'features must be numbers, "text" or None, got {short(features)}.')
        from asktell.features import text_features

        features = text_features(texts)
    return check_features(features, len(texts))
