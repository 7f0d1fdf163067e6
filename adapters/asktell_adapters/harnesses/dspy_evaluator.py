"""A DSPy program on one example, scored by DSPy's kind of metric: for `asktell.run`."""

import contextlib
import contextvars
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Real
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import in_words, needs_extra
from asktell_adapters._scores import checked_example, number
from asktell_adapters.evaluators import Price
from asktell_adapters.harnesses.dspy_candidates import candidates_of

with needs_extra("dspy"):
    import dspy
    from dspy.utils.callback import BaseCallback

_PROGRAMS_KEPT = 64


class DSPyEvaluationError(EvaluatorError):
    """A program or its metric failed on one example; `cost` is what the LM calls until then cost."""

    def __init__(self, message: str, cost: float | None = None) -> None:
        super().__init__(message)
        self.cost = cost


@final
class DSPyEvaluator:
    """Evaluates a candidate of a DSPy program on an example of a data set.

    The scores of an evaluation are the metric's own and those of the run: `latency` (seconds of the program), `calls`
    (of LMs), and `tokens`, `prompt_tokens`, `completion_tokens`, if every call said what it used: an answer from
    DSPy's cache does not. With `prices`, also `cost`: of the program's calls and of the metric's own.

    Args:
        program: a `dspy.Module`; it is not changed.
        candidates: as in `candidates_of`, which also explains `demos` and `keep_original`.
        metric: `metric(example, prediction)` -> a number or a bool, called `score`; a `dspy.Prediction` with a `score`
            and any other numbers; or a mapping from name to number.
        dataset: `dspy.Example`s with their inputs named (`with_inputs`).
        demos: demo sets to combine with the candidates.
        keep_original: whether the program's own instructions and demos are a candidate, too.
        prices: by the LM's name (`lm.model`), per million tokens.
        metrics: names that an evaluation must give; a lack is then explained.

    Attributes:
        candidates: in the order of their ids.
        prompts: their texts, for a Selector.

    Raises:
        InvalidArgumentError: an example has no inputs, a predictor is unknown, or one of several must be named.
    """

    def __init__(
        self,
        program: Any,
        candidates: Sequence[Any],
        metric: Callable[..., Any],
        dataset: Sequence[Any],
        *,
        demos: Sequence[Any] = (),
        keep_original: bool = False,
        prices: Mapping[str, Price] | None = None,
        metrics: Sequence[str] = (),
    ) -> None:
        if not callable(metric):
            raise InvalidArgumentError(f"metric must be callable as metric(example, prediction), got {metric!r:.100}.")
        for position, example in enumerate(dataset):
            _inputs(example, position)
        self.candidates = candidates_of(program, candidates, demos, keep_original=keep_original)
        self.prompts = [candidate.to_text() for candidate in self.candidates]
        self._by_text = dict(zip(self.prompts, self.candidates, strict=True))
        self._program = program
        self._metric = metric
        self._dataset = dataset
        self._prices = prices
        self._wanted = tuple(metrics)
        self._built = functools.lru_cache(maxsize=_PROGRAMS_KEPT)(self.program)

    def program(self, prompt: str) -> Any:
        """A copy of the program with the instructions and demos that this prompt stands for.

        Raises:
            InvalidArgumentError: it is none of `prompts`.
        """
        if prompt not in self._by_text:
            raise InvalidArgumentError(f"No candidate has the text {prompt!r:.100}. See DSPyEvaluator.prompts.")
        return self._by_text[prompt].apply(self._program)

    def evaluate(self, prompt: str, example: int) -> dict[str, float]:
        """Run the program on the example and score it.

        Raises:
            DSPyEvaluationError: the program or the metric raised, or the metric gave no usable score.
            InvalidArgumentError: there is no such candidate, or no such example.
        """
        program = self._built(prompt)
        row = self._dataset[checked_example(example, len(self._dataset))]
        spent = _Usage()
        try:
            with _metered(spent):
                start = time.perf_counter()
                prediction = _attempt("the program", lambda: program(**row.inputs()))
                latency = time.perf_counter() - start
            run = {"latency": latency, "calls": float(spent.calls), **spent.tokens()}
            if isinstance(prediction, dspy.Prediction) and dspy.settings.track_usage:
                prediction.set_lm_usage(spent.totals())  # the program's own tracker stood back for ours
            with _metered(spent):
                value = _attempt("the metric", lambda: self._metric(row, prediction))
            scores = {**run, **scores_of(value)}
            if self._prices is not None:
                scores["cost"] = spent.cost(self._prices)
            self._check(scores, spent)
        except EvaluatorError as error:
            raise DSPyEvaluationError(str(error), self._cost_so_far(spent)) from error.__cause__
        return scores

    def _check(self, scores: Mapping[str, float], spent: "_Usage") -> None:
        missing = [name for name in self._wanted if name not in scores]
        if missing:
            cached = spent.calls - spent.entries
            why = f"; {cached} of {spent.calls} LM calls said no usage (dspy.LM(..., cache=False))" if cached else ""
            raise EvaluatorError(f"the evaluation gave {', '.join(scores)}, but not {', '.join(missing)}{why}")

    def _cost_so_far(self, spent: "_Usage") -> float | None:
        with contextlib.suppress(EvaluatorError):
            return None if self._prices is None else spent.cost(self._prices)
        return None


class ContextThreadPool(ThreadPoolExecutor):
    """Threads that share the submitter's `dspy.context(...)`, as in `dspy.Evaluate`.

    In other threads, only `dspy.configure(...)` is.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(contextvars.copy_context().run, fn, *args, **kwargs)


def scores_of(value: Any) -> dict[str, float]:
    """Convert a DSPy metric's return value to numbers by name.

    Raises:
        EvaluatorError: there is no score, or one that is no finite number.
    """
    if isinstance(value, dspy.Prediction):
        # The rest is feedback for GEPA, and the like.
        value = {name: item for name, item in value.items() if name == "score" or isinstance(item, Real)}
        value.setdefault("score", None)
    if isinstance(value, Mapping):
        return {str(name): number(str(name), item) for name, item in value.items()}
    return {"score": number("score", value)}


class _Usage(BaseCallback):  # type: ignore[misc]
    """Successful LM calls, and what they used."""

    def __init__(self) -> None:
        self.calls = 0
        self.trackers: list[Any] = []

    def on_lm_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        self.calls += exception is None

    @property
    def entries(self) -> int:
        return sum(len(entries) for tracker in self.trackers for entries in tracker.usage_data.values())

    def totals(self) -> dict[str, Any]:
        totals: dict[str, Any] = self.trackers[0].get_total_tokens()
        return totals

    def tokens(self) -> dict[str, float]:
        """None unless every call said what it used."""
        counts = [_counts(entry) for _, entry in self._items()]
        if len(counts) < self.calls or None in counts:
            return {}
        read = float(sum(count[0] for count in counts if count))
        written = float(sum(count[1] for count in counts if count))
        return {"tokens": read + written, "prompt_tokens": read, "completion_tokens": written}

    def cost(self, prices: Mapping[str, Price]) -> float:
        """The cost of all calls; one from the cache is free."""
        total = 0.0
        for model, entry in self._items():
            if model not in prices:
                raise EvaluatorError(f"there is no price for the LM {model!r}, only for {', '.join(prices) or 'none'}")
            counts = _counts(entry)
            if counts is not None:
                total += prices[model].of(*counts)
        return total

    def _items(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for tracker in self.trackers:
            for model, entries in tracker.usage_data.items():
                for entry in entries:
                    yield model, entry


@contextlib.contextmanager
def _metered(usage: _Usage) -> Iterator[None]:
    with dspy.context(callbacks=[*(dspy.settings.callbacks or []), usage]), dspy.track_usage() as tracker:
        usage.trackers.append(tracker)
        yield


def _counts(entry: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Tokens read, written, and read from the server's prefix cache."""
    read = entry.get("prompt_tokens", entry.get("input_tokens"))
    written = entry.get("completion_tokens", entry.get("output_tokens"))
    if read is None or written is None:
        return None
    details = entry.get("prompt_tokens_details") or {}
    return int(read), int(written), int(details.get("cached_tokens") or 0)


def _attempt(what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        raise EvaluatorError(f"{what} raised {in_words(error)}") from error


def _inputs(example: Any, position: int) -> None:
    try:
        example.inputs()
    except (AttributeError, ValueError) as error:
        raise InvalidArgumentError(
            f"Example {position} of the data set must be a dspy.Example that names its inputs, as in "
            f"dspy.Example(question=..., answer=...).with_inputs('question'); got {example!r:.200}."
        ) from error
