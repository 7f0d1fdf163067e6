"""Evaluators: how they are called, and what they may return (scores with a cost and details, or an error)."""

import inspect
import math
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from asktell.errors import (
    AsktellError,
    EvaluatorError,
    InvalidArgumentError,
    MissingExtraError,
)
from asktell.problem.checks import check_cost, needed_cost, real
from asktell.problem.scores import by_name
from asktell.problem.trials import Tell, Trial
from asktell.problem.words import cause_of, in_words, some
from asktell.record import Told
from asktell.record.engine import checked_scores
from asktell.selector import Selection

Evaluator: TypeAlias = Any
"""What evaluates prompts, in one of these forms, plain or async:

- a callable `(prompt, example) -> scores`
- an object with a method `evaluate(prompt, example)` that returns scores
- an object with a method `evaluate_batch(trials)` that returns a list with scores or an exception for each trial

`asktell.run` describes other arguments and optional methods.
"""

Outcome: TypeAlias = Mapping[str, float] | Sequence[float] | BaseException
"""The outcome of one evaluation: scores as a mapping from metric, scores in the goal's order, or an exception."""


class Calling(NamedTuple):
    """How an evaluator is called.

    Attributes:
        call: the function to call.
        in_batches: True if the function takes a list of trials.
        is_async: True if the function's result must be awaited.
        with_repeats: True if the function also takes the number of each repeat (see
            `Selector.repeat_of`).
        first: what the function's first argument is: "trials", "trial", "candidate" or
            "prompt".
        cancel: a function of a trial that stops its evaluation. None if there is none.
        can_stop: True if running evaluations can be stopped, by `cancel` or by
            canceling their asyncio task.
    """

    call: Callable[..., Any]
    in_batches: bool
    is_async: bool
    with_repeats: bool
    first: Literal["trials", "trial", "candidate", "prompt"]
    cancel: Callable[[Trial], object] | None
    can_stop: bool

    @classmethod
    def of(cls, evaluator: Evaluator) -> "Calling":
        """Find out how to call an evaluator.

        Raises:
            InvalidArgumentError: the object is not an evaluator, or its function takes
                other arguments.
        """
        in_batches = callable(getattr(evaluator, "evaluate_batch", None))
        call = _function_of(evaluator, in_batches)
        try:
            signature = inspect.signature(call)
        except (TypeError, ValueError):  # functions in C may have none
            signature = None
        parameters = list(signature.parameters) if signature else []
        first = _first_argument(parameters, in_batches)
        names = (first, "example") if first in ("prompt", "candidate") else (first,)
        _check_names(call, parameters, names)
        repeats = "repeats" if in_batches else "repeat"
        with_repeats = parameters[len(names) : len(names) + 1] == [repeats]
        if signature is not None:
            _check_signature(
                evaluator, call, signature, (*names, repeats) if with_repeats else names
            )
        calls = (call, getattr(call, "__call__", None))  # noqa: B004
        is_async = any(map(inspect.iscoroutinefunction, calls))
        cancel = getattr(evaluator, "cancel", _NOT_SAID)
        if is_async:  # stopped by cancelling its task, unless it has `cancel = None`
            return cls(
                call,
                in_batches,
                is_async,
                with_repeats,
                first,
                None,
                can_stop=cancel is not None,
            )
        cancel = None if cancel is _NOT_SAID else _checked_cancel(cancel)
        return cls(
            call,
            in_batches,
            is_async,
            with_repeats,
            first,
            cancel,
            can_stop=cancel is not None,
        )

    def arguments(
        self, group: list[Trial], repeat_of: Callable[[Trial], int]
    ) -> tuple[Any, ...]:
        """The arguments for one call of the function.

        Args:
            group: the trials to evaluate in this call. If `in_batches` is False, there
                must be exactly one.
            repeat_of: a function that returns the number of the repeat of a trial, such
                as `Board.repeat_of`.

        Raises:
            InvalidArgumentError: the trial's candidate has several factors, but the
                evaluator takes only a prompt.
        """
        repeats = [repeat_of(trial) for trial in group] if self.with_repeats else []
        if self.in_batches:
            return (group, repeats) if self.with_repeats else (group,)
        (trial,) = group
        if self.first == "trial":
            return (trial, *repeats)
        if (
            self.first == "prompt"
            and trial.candidate is not None
            and len(trial.candidate) > 1
        ):
            raise InvalidArgumentError(
                f"The candidates have the factors {some(list(trial.candidate))}, but the evaluator's first parameter "
                "is called `prompt`, so it would get only a text. Rename its first parameter to `candidate`. Then it "
                "gets a mapping from factor to value."
            )
        what = (
            (trial.candidate or {"prompt": trial.prompt})
            if self.first == "candidate"
            else trial.prompt
        )
        return (what, trial.example, *repeats)


_NOT_SAID = object()


def _function_of(evaluator: Evaluator, in_batches: bool) -> Callable[..., Any]:
    """Return the function of an evaluator that is called with trials."""
    call: Any = evaluator.evaluate_batch if in_batches else evaluator
    if not callable(call):
        call = getattr(evaluator, "evaluate", None)
    if callable(call):
        return call  # type: ignore[no-any-return]
    raise InvalidArgumentError(
        "An evaluator is a callable (prompt, example) -> scores, or an object with evaluate() or "
        f"evaluate_batch(). Got {evaluator!r}."
    )


def _first_argument(
    taken: list[str], in_batches: bool
) -> Literal["trials", "trial", "candidate", "prompt"]:
    """Return what the first argument holds, by its name: `taken` are the names of all arguments."""
    if in_batches:
        return "trials"
    if taken[:1] == ["candidate"]:
        return "candidate"
    return "trial" if taken[:1] == ["trial"] else "prompt"


# Names that say what an argument is, so that none may be at the place of another
_ROLES = {
    "prompt": "prompt",
    "candidate": "candidate",
    "trial": "trial",
    "trials": "trials",
    "example": "example",
    "example_id": "example",
    "example_index": "example",
    "repeat": "repeat",
    "repeats": "repeats",
}


def _check_names(
    call: Callable[..., Any], taken: list[str], names: Sequence[str]
) -> None:
    """Check that no argument is named like another one, as in `evaluate(example, prompt)`.

    Raises:
        InvalidArgumentError: the first arguments are swapped.
    """
    for name, parameter in zip(names, taken, strict=False):
        role = _ROLES.get(parameter, name)
        if role not in (name, name.removesuffix("s")):
            function = getattr(call, "__qualname__", None) or repr(call)
            raise InvalidArgumentError(
                f"asktell calls an evaluator as {function}({', '.join(names)}), but in yours, {parameter!r} is at the "
                f"place of {name!r}: {function}({', '.join(taken)}). Change the order or the names of its parameters."
            )


def _checked_cancel(cancel: Any) -> Callable[[Trial], object] | None:
    """Return an evaluator's `cancel` after checking that it takes a trial. None stays None."""
    if cancel is None:
        return None
    try:
        inspect.signature(cancel).bind("trial")
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"To stop an evaluation, asktell calls the evaluator's method cancel(trial). {cancel!r:.100} cannot be "
            f"called like this ({error}). Change its parameters, rename it if it is for something else, or set cancel "
            "= None if evaluations cannot be stopped."
        ) from error
    found: Callable[[Trial], object] = cancel
    return found


def _check_signature(
    evaluator: Evaluator,
    call: Callable[..., Any],
    signature: inspect.Signature,
    names: tuple[str, ...],
) -> None:
    """Check that an evaluator can be called with the arguments of these names.

    Raises:
        InvalidArgumentError: it takes other arguments. A class in the place of an object
            is the usual mistake.
    """
    try:
        signature.bind(
            *(
                ("self",)
                if inspect.isclass(evaluator) and call is not evaluator
                else ()
            ),
            *names,
        )
        if inspect.isclass(evaluator) and call is not evaluator:
            raise TypeError("the method needs an object")
    except TypeError as error:
        name = getattr(call, "__qualname__", None) or repr(call)
        cure = (
            f" Pass an object of the class: {evaluator.__name__}(...)."
            if inspect.isclass(evaluator)
            else " Change its parameters."
        )
        raise InvalidArgumentError(
            f"asktell calls an evaluator as {name}({', '.join(names)}), but yours is {name}{signature} "
            f"({error}).{cure}"
        ) from error


def attempt(call: Callable[..., Any], *args: Any) -> Any:
    """Call a function, and return its result. If it raises an exception, return the exception.

    `asktell.run` counts such an exception as a failed evaluation. An exit and a
    cancellation are returned, too. Ctrl-C is raised, and so is what a signal handler
    raised.
    """
    try:
        return call(*args)
    except BaseException as error:
        if not is_failure(error):
            raise
        return error


async def attempt_async(call: Callable[..., Any], *args: Any) -> Any:
    """Do the same for an async call. A cancellation is a failure too, whose `cost`, if it has one, was paid."""
    try:
        return await call(*args)
    except BaseException as error:
        if not is_failure(error):
            raise
        return error


def one_each(trials: Sequence[Trial], outcomes: object) -> Sequence[Any]:
    """Return the outcomes that `evaluate_batch` returned.

    Raises:
        EvaluatorError: they are not a sequence with one outcome for each trial.
    """
    if not isinstance(outcomes, Sequence) or len(outcomes) != len(trials):
        size = (
            f"{len(outcomes)} results"
            if isinstance(outcomes, Sequence)
            else type(outcomes).__name__
        )
        raise EvaluatorError(
            f"evaluate_batch() got {len(trials)} trials and returned {size}. It must return a list with one outcome "
            "for each trial."
        )
    return outcomes


def is_failure(error: BaseException) -> bool:
    """True if an evaluator's exception is a failure of the trial. Exits and cancellations are, interrupts are not."""
    import asyncio

    return isinstance(
        error, (Exception, SystemExit, asyncio.CancelledError)
    ) and not is_from_signal(error)


def fatal(outcome: object) -> BaseException | None:
    """Return the exception that must end a run at once. None for other outcomes.

    - The MissingExtraError that caused a failure. Without the package no evaluation can
      succeed.
    - A KeyboardInterrupt, or what a signal handler raised, such as the SystemExit of a
      handler of SIGTERM. The signal came by chance during this evaluation, and is meant
      for the whole program.
    - An EvaluatorError if the evaluator returned something that it should have awaited
      or iterated over. This object is then closed, so that Python does not warn about
      it.
    """
    error = outcome if isinstance(outcome, BaseException) else None
    while error is not None:
        if isinstance(error, MissingExtraError | KeyboardInterrupt) or is_from_signal(
            error
        ):
            return error
        error = error.__cause__
    # Also as a score, or in a list of outcomes
    parts: list[object] = [outcome]
    if isinstance(outcome, Mapping):
        parts += outcome.values()
    elif isinstance(outcome, list | tuple):
        parts += outcome
    unfinished = [part for part in parts if _is_unfinished(part)]
    if not unfinished:
        return None
    first = type(unfinished[0]).__name__
    for part in unfinished:
        close = getattr(part, "close", None) or getattr(part, "cancel", None)
        if close is not None:
            close()
    if first == "generator":
        cure = "Return the scores instead of yielding them."
    elif first == "async_generator":
        cure = "Return the scores from an `async def` instead of yielding them."
    else:
        cure = (
            "Define the evaluator with `async def`, and `await` what it calls: asktell.run awaits such an evaluator. "
            "In a lambda or a plain function, call asyncio.run(...) or the client's synchronous method instead."
        )
    return EvaluatorError(
        f"The evaluator returned a {first} instead of scores. {cure} No evaluation was recorded as failed."
    )


# An evaluator may use these signals to limit its own time
_TIMERS = {getattr(signal, name, None) for name in ("SIGALRM", "SIGVTALRM", "SIGPROF")}


def is_from_signal(error: BaseException) -> bool:
    """True if a signal handler raised an exception.

    Python calls a handler with the number of the signal and the interrupted frame. So a
    frame of the traceback is a handler's if it has its caller's frame as an argument.
    """
    at = error.__traceback__
    while at is not None and (after := at.tb_next) is not None:
        frame, code = after.tb_frame, after.tb_frame.f_code
        n = code.co_argcount + bool(code.co_flags & inspect.CO_VARARGS)
        values = [frame.f_locals.get(name) for name in code.co_varnames[:n]]
        arguments = [
            argument
            for value in values
            for argument in (value if isinstance(value, tuple) else (value,))
        ]
        if any(argument is at.tb_frame for argument in arguments):
            return not any(
                isinstance(argument, int) and argument in _TIMERS
                for argument in arguments
            )
        at = after
    return False


def _is_unfinished(value: object) -> bool:
    """True for coroutines, futures, tasks and generators, which are not scores yet."""
    from concurrent.futures import Future

    return (
        inspect.isawaitable(value)
        or inspect.isgenerator(value)
        or inspect.isasyncgen(value)
        or isinstance(value, Future)
    )


def checked_tell(
    selector: Selection, trial: Trial, outcome: Outcome, with_details: bool
) -> Tell:
    """Check an outcome, and return what to tell.

    The scores of the result are a `Told`, which neither a selection nor a study checks
    again. For a failed evaluation, and for scores or a cost that the selector would
    refuse, they are an exception instead. The cost is then that of the failed
    evaluation.
    """
    # A failure has details as well: a response may show why there are no scores
    details = details_of(selector, outcome) if with_details else None
    if isinstance(outcome, BaseException):
        # Adapters set its `cost` to the price of a request that failed
        error: BaseException = outcome
        cost = getattr(cause_of(error), "cost", None)
    else:
        scores, cost = goal_scores(selector, outcome)
        # Checked before it is recorded, because invalid scores are a failure of the
        # evaluation, which counts towards `max_failures_in_a_row`.
        try:
            vector, proxies = checked_scores(selector.goal, selector.proxies, scores)
            assert vector is not None, "only observations have no vector"
            cost = needed_cost(cost, selector.max_cost)
            return Tell(trial, Told(trial.id, vector, cost, proxies), cost, details)
        except AsktellError as refused:
            error = refused
    try:
        return Tell(trial, error, check_cost(cost), details)
    except InvalidArgumentError as refused:
        # A wrong cost of one evaluation must not end the run. It is not lost in silence
        # either.
        if str(refused) not in str(error):
            why = f"{in_words(error)} (Its cost was not recorded: {refused})"
            error, cause = EvaluatorError(why), error
            error.__cause__ = cause
        return Tell(trial, error, None, details)


def goal_scores(selector: Selection, scores: Any) -> tuple[Any, Any]:
    """Split the scores that an evaluator returned into the arguments `scores` and `cost` of `tell`.

    The result is a pair. Its first item has the scores of the goal's metrics and of the
    proxies. Other metrics are left out. Its second item is the cost: the attribute
    `paid` of the scores, or else their "cost". The cost is None if there is neither, or
    if the scores are not a mapping.

    Args:
        selector: a Selector or a Study.
        scores: the scores.
    """
    outcome, scores = scores, by_name(scores)
    if not isinstance(scores, Mapping):
        return scores, None
    metrics = selector.metrics
    cost = getattr(outcome, "paid", None)
    if cost is None:
        cost = scores.get("cost")
        # A score like others, which need not be money
        if "cost" in metrics and selector.max_cost is None:
            try:
                cost = check_cost(cost)
            except InvalidArgumentError:
                cost = None
    wanted = (*metrics, *selector.proxies)
    return {name: scores[name] for name in wanted if name in scores}, cost


def details_of(selector: Selection, outcome: Outcome) -> dict[str, Any] | None:
    """The details to store with an outcome in a study, for the argument `details` of `tell`. None if there are none.

    The details are the attribute `details` of the outcome, a mapping. `tell` converts
    its values. If the outcome has metrics that are neither in the goal nor proxies, the
    details have all its metrics under "scores". A score that is not a finite number is
    None there.

    Args:
        selector: a Selector or a Study.
        outcome: scores, or the exception of an evaluation that failed.
    """
    stored = getattr(outcome, "details", None)
    details = dict(stored) if isinstance(stored, Mapping) else {}
    scores = by_name(outcome)
    if isinstance(scores, Mapping):
        metrics = {
            str(name): score for name, score in scores.items() if score is not stored
        }
        if not set(metrics) <= {*selector.metrics, *selector.proxies}:
            details["scores"] = {
                name: _finite(score) for name, score in metrics.items()
            }
    return details or None


def _finite(score: Any) -> float | None:
    """Return a score as a finite float, None if it is not one."""
    value = real(score)
    return value if value is not None and math.isfinite(value) else None
