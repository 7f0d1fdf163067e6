"""DSPy: an optimizer (teleprompter) that selects a program's instructions and demos with few evaluations.

A DSPy program consists of predictors. Each predictor has an instruction, and demos:
solved examples that it shows to the LM.
"""

import contextlib
import contextvars
import functools
import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias, final

import asktell
from asktell import (
    BestFeasible,
    EvaluatorError,
    InvalidArgumentError,
    PromptResult,
    Result,
    StudyNotFoundError,
)
from asktell.extend import AbstractMethod, Goal, log, needs_extra, whole
from asktell_adapters._util.scores import checked_example, failing, number
from asktell_adapters.evaluators import Price

with needs_extra("dspy"):
    import dspy
    from dspy.propose import GroundedProposer
    from dspy.teleprompt import Teleprompter
    from dspy.utils.callback import BaseCallback

Demos: TypeAlias = Sequence[Any]
"""Examples that a predictor shows to the LM: each a `dspy.Example` or a mapping from field to value."""


@final
@dataclass(frozen=True)
class Candidate:
    """Instructions and demos of a program, by predictor name.

    A predictor without an entry in `instructions` keeps its own instruction. A
    predictor without an entry in `demos` keeps its own demos.

    Attributes:
        instructions: the instruction of each predictor, by the predictor's name.
        demos: a list of demos for each predictor, by the predictor's name. A demo is a
            `dspy.Example`, or a mapping from field to value.
    """

    instructions: Mapping[str, str] = field(default_factory=dict)
    demos: Mapping[str, Demos] = field(default_factory=dict)

    def apply(self, program: Any) -> Any:
        """Return a copy of the program with these instructions and demos."""
        copy = program.deepcopy()
        for name, predictor in copy.named_predictors():
            if name in self.instructions:
                predictor.signature = predictor.signature.with_instructions(
                    self.instructions[name]
                )
            if name in self.demos:
                predictor.demos = [_example(demo) for demo in self.demos[name]]
        return copy

    def to_text(self) -> str:
        """Return the candidate as a text, for a Selector.

        If the candidate has one instruction and no demos, the text is that instruction.
        Otherwise, the text is JSON.
        """
        if len(self.instructions) == 1 and not self.demos:
            ((name, text),) = self.instructions.items()
            # An instruction that looks like our JSON must be JSON too, or from_text()
            # would misread it.
            if _parts(text, (name,)) is None:
                return text
        parts: dict[str, dict[str, Any]] = {
            name: {"instructions": text} for name, text in self.instructions.items()
        }
        for name, demos in self.demos.items():
            parts.setdefault(name, {})["demos"] = [
                dict(_example(demo).items()) for demo in demos
            ]
        return json.dumps(parts, ensure_ascii=False, default=_plain)

    @classmethod
    def from_text(cls, text: str, names: Sequence[str]) -> "Candidate":
        """Return the candidate with this text.

        Args:
            text: a text that `to_text` returned.
            names: the names of the program's predictors.
        """
        parts = _parts(text, names)
        if parts is None:
            return cls({names[0]: text})
        instructions = {
            name: part["instructions"]
            for name, part in parts.items()
            if "instructions" in part
        }
        demos = {name: part["demos"] for name, part in parts.items() if "demos" in part}
        return cls(instructions, demos)


def candidates_of(
    program: Any,
    instructions: Sequence[Any],
    demos: Sequence[Any] = (),
    *,
    keep_original: bool = True,
) -> list[Candidate]:
    """Combine every choice of instructions with every demo set. Duplicates are dropped.

    Args:
        program: the program whose predictors get the instructions and demos.
        instructions: choices of instructions. Each is a text if the program has one
            predictor, a mapping from predictor names to texts, or a whole `Candidate`.
            Empty: the instructions of the program.
        demos: demo sets. Each is a list of examples if the program has one predictor,
            or a mapping from predictor names to such lists. Empty: the demos of the
            program.
        keep_original: add the program's own instructions and demos as the first choice.

    Raises:
        InvalidArgumentError: a choice has the wrong type or an unknown predictor, or
            the program has no predictors.
    """
    _check_choices("Candidates", instructions)
    _check_choices("Demo sets", demos)
    # The program's own instructions complete candidates that change only some
    # predictors.
    original = {
        name: predictor.signature.instructions
        for name, predictor in program.named_predictors()
    }
    if not original:
        raise InvalidArgumentError(
            "The program has no predictors, so it has no instructions or demos to choose."
        )
    candidates = [_candidate(choice, tuple(original)) for choice in instructions]
    sets = [
        _choice_by_predictor("a demo set", choice, tuple(original)) for choice in demos
    ]
    if keep_original or not candidates:
        candidates.insert(0, Candidate())
    if sets and keep_original:
        sets.insert(0, {})
    # If no choice has demos, candidates carry none, so that `to_text` can keep single
    # instructions as plain text.
    own_demos: dict[str, Demos] | None = None
    if sets or any(candidate.demos for candidate in candidates):
        own_demos = {
            name: list(predictor.demos)
            for name, predictor in program.named_predictors()
        }
    return _combined(candidates, sets or [{}], original, own_demos)


def _combined(
    candidates: Sequence[Candidate],
    sets: Sequence[Mapping[str, Demos]],
    original: Mapping[str, str],
    own_demos: Mapping[str, Demos] | None,
) -> list[Candidate]:
    """Combine every candidate with every demo set, without duplicates. Without `own_demos`, no candidate has demos."""
    combined_by_text: dict[str, Candidate] = {}
    for candidate in candidates:
        texts = {**original, **candidate.instructions}
        for chosen in sets:
            demos = (
                {} if own_demos is None else {**own_demos, **candidate.demos, **chosen}
            )
            combined = Candidate(texts, demos)
            combined_by_text.setdefault(combined.to_text(), combined)
    return list(combined_by_text.values())


def _check_choices(what: str, choices: object) -> None:
    """Check that choices are a list.

    Raises:
        InvalidArgumentError: they are a text, a mapping or something else.
    """
    if isinstance(choices, str | Mapping) or not isinstance(choices, Sequence):
        raise InvalidArgumentError(
            f"{what} must be a list of choices, got {choices!r:.100}."
        )


def bootstrap_demos(
    program: Any,
    metric: Callable[..., Any],
    trainset: Sequence[Any],
    n: int,
    *,
    max_bootstrapped: int = 4,
    max_labeled: int = 4,
    threshold: float | None = None,
    teacher: Any = None,
    seed: int = 0,
) -> list[dict[str, Demos]]:
    """Make n sets of demos in the way DSPy's MIPROv2 does.

    A *labeled* demo is an example of the trainset, unchanged. A *bootstrapped* demo is
    written by a program, the teacher: it runs on an example, and what its predictors
    read and wrote becomes the demo.

    - The first set has no demos.
    - The second set has labeled demos only.
    - The third set has bootstrapped and labeled demos. `dspy.BootstrapFewShot` makes it
      from the examples in their order.
    - All further sets are made like the third, but from shuffled examples. Each has a
      limit of its own for bootstrapped demos, drawn from 1 to `max_bootstrapped`.

    Args:
        program: the program that gets the demos.
        metric: `metric(example, prediction, trace)`. A bootstrapped demo is kept if the
            returned value is true. With `threshold`, it is kept if the value is at
            least the threshold.
        trainset: the examples to make demos from.
        n: number of sets.
        max_bootstrapped: the largest number of bootstrapped demos in one set.
        max_labeled: the largest number of labeled demos in one set. With 0, no set has
            labeled demos, and the second set has bootstrapped demos instead.
        threshold: the smallest value of the metric that counts as a success.
        teacher: the program that writes the bootstrapped demos. By default, `program`.
        seed: seed of the shuffles and of the number of demos in a set.

    Returns:
        A list of n sets. Each is a mapping from a predictor's name to its list of
        demos.
    """
    draw = random.Random(seed)
    demo_sets: list[dict[str, Demos]] = []
    for place in range(n):
        examples, most = list(trainset), max_bootstrapped
        if place == 0:
            compiled = program.reset_copy()
        elif place == 1 and max_labeled:
            compiled = dspy.LabeledFewShot(k=max_labeled).compile(
                program, trainset=examples
            )
        else:
            if place > 2:
                draw.shuffle(examples)
                most = draw.randint(1, max_bootstrapped)
            optimizer = dspy.BootstrapFewShot(
                metric=metric,
                metric_threshold=threshold,
                max_bootstrapped_demos=most,
                max_labeled_demos=max_labeled,
            )
            compiled = optimizer.compile(program, teacher=teacher, trainset=examples)
        demo_sets.append(
            {
                name: list(predictor.demos)
                for name, predictor in compiled.named_predictors()
            }
        )
    return demo_sets


def propose_instructions(
    program: Any,
    trainset: Sequence[Any],
    n: int,
    *,
    prompt_model: Any = None,
    seed: int = 0,
) -> list[dict[str, str]]:
    """Let an LM write n instructions for each predictor, with DSPy's `GroundedProposer`, as MIPROv2 does.

    Args:
        program: the program whose predictors get the instructions.
        trainset: examples of the task. The LM summarizes them before it writes.
        n: number of instructions for each predictor.
        prompt_model: the LM that writes the instructions. By default,
            `dspy.settings.lm`.
        seed: seed of the proposer's choices. The output of the LM may still vary.

    Returns:
        A list of n mappings from a predictor's name to an instruction. The first
        mapping has the first instruction of every predictor, and so on.
    """
    lm = prompt_model or dspy.settings.lm
    proposer = GroundedProposer(
        prompt_model=lm,
        program=program,
        trainset=list(trainset),
        rng=random.Random(seed),
    )
    instructions = proposer.propose_instructions_for_program(
        trainset=list(trainset),
        program=program,
        demo_candidates=None,
        trial_logs={},
        N=n,
    )
    names = [name for name, _ in program.named_predictors()]
    return [
        {name: instructions[i][j] for i, name in enumerate(names)} for j in range(n)
    ]


def _parts(text: str, names: Sequence[str]) -> dict[str, dict[str, Any]] | None:
    """Read the JSON of `Candidate.to_text`: instructions and demos by predictor. None for any other text."""
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not (isinstance(parts, dict) and parts and set(parts) <= set(names)):
        return None
    ours = all(
        isinstance(part, dict) and set(part) <= {"instructions", "demos"}
        for part in parts.values()
    )
    return parts if ours else None


def _candidate(choice: object, names: tuple[str, ...]) -> Candidate:
    """Convert a choice of instructions to a candidate.

    Raises:
        InvalidArgumentError: an instruction is not a text, or a predictor is unknown.
    """
    if isinstance(choice, Candidate):
        return Candidate(
            _choice_by_predictor(
                "a candidate's instructions", choice.instructions, names
            ),
            _choice_by_predictor("a candidate's demos", choice.demos, names),
        )
    chosen = _choice_by_predictor("an instruction", choice, names)
    for name, text in chosen.items():
        if not isinstance(text, str):
            raise InvalidArgumentError(
                f"The instruction of {name!r} must be a str, got {text!r:.100}."
            )
    return Candidate(chosen)


def _choice_by_predictor(
    what: str, choice: object, names: tuple[str, ...]
) -> dict[str, Any]:
    """Convert a choice to a mapping from predictor names.

    Args:
        what: words for the choice, for messages.
        choice: a mapping, or a single value if the program has one predictor.
        names: the program's predictors.

    Raises:
        InvalidArgumentError: a predictor is unknown, or a mapping is needed.
    """
    if not isinstance(choice, Mapping):
        if len(names) > 1:
            raise InvalidArgumentError(
                f"The program has the predictors {', '.join(names)}. Pass {what} as a mapping from predictor names, "
                f"got {choice!r:.100}."
            )
        return {names[0]: choice}
    unknown = [str(name) for name in choice if name not in names]
    if unknown:
        raise InvalidArgumentError(
            f"Got the unknown predictors {', '.join(unknown)} in {what}. The program's predictors are "
            f"{', '.join(names)}."
        )
    return dict(choice)


def _example(demo: Any) -> Any:
    return demo if isinstance(demo, dspy.Example) else dspy.Example(**demo)


def _plain(value: Any) -> Any:
    """Convert a value to JSON data: pydantic models to mappings, as DSPy saves them, and other objects to text."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)


# Copies of the program in the cache, so that not every evaluation makes one.
_PROGRAMS_KEPT = 64


class DSPyEvaluationError(EvaluatorError):
    """The program or the metric failed on one example.

    Attributes:
        cost: the cost of the LM calls before the failure, in the currency of the
            prices. None if it is unknown, for example without `prices`.
    """

    def __init__(self, message: str, cost: float | None = None) -> None:
        super().__init__(message)
        self.cost = cost


@final
class DSPyEvaluator:
    """Evaluate candidates of a DSPy program on examples of a dataset, for `asktell.run`.

    A candidate is a choice of instructions, combined with a set of demos. An evaluation
    has the scores that the metric returns, and these scores:

    - `latency`: seconds that the program took.
    - `calls`: number of successful LM calls of the program.
    - `tokens`, `prompt_tokens`, `completion_tokens`: numbers of tokens in the LM calls
      of the program. They are left out unless every LM call reported its usage. A
      response from DSPy's cache reports no usage.
    - `cost`: the cost of all LM calls, also of the calls that the metric makes, in the
      currency of the prices. Only with `prices`.

    Args:
        program: a `dspy.Module`. It is not changed.
        candidates: a list of choices of instructions. A choice is a mapping from a
            predictor's name to its instruction, or a `Candidate`. If the program has
            one predictor, the choice can be the instruction itself. An empty list: the
            instructions of the program.
        metric: `metric(example, prediction)`. If it returns a number or a bool, this is
            the score `score`. If it returns a `dspy.Prediction`, the field `score` is
            required, and further numbers in it are further scores. If it returns a
            mapping from names to numbers, these are the scores.
        dataset: `dspy.Example`s whose inputs are set by `with_inputs`.
        demos: a list of sets of demos. Every choice of instructions is combined with
            every set. A set is a mapping from a predictor's name to a list of demos. If
            the program has one predictor, the set can be the list itself. An empty
            list: the demos of the program.
        keep_original: True: the program's own instructions are a further choice, and
            its own demos a further set.
        prices: an `asktell_adapters.evaluators.Price` for each LM that is called, by
            the name of the LM (`lm.model`).
        metrics: names of the scores that every evaluation must have, such as
            `goal.metrics`. If a score is missing, the evaluation fails.

    Attributes:
        candidates: the candidates, without duplicates.
        prompts: the texts of the candidates, in the same order, for a Selector.

    Raises:
        InvalidArgumentError: an argument cannot be used, such as an example without
            inputs.
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
            raise InvalidArgumentError(
                f"metric must be callable as metric(example, prediction), got {metric!r:.100}."
            )
        for position, example in enumerate(dataset):
            try:
                example.inputs()
            except (AttributeError, ValueError) as error:
                raise InvalidArgumentError(
                    f"Example {position} of the dataset must be a dspy.Example with inputs, such as "
                    f"dspy.Example(question=..., answer=...).with_inputs('question'), got {example!r:.200}."
                ) from error
        self.candidates = candidates_of(
            program, candidates, demos, keep_original=keep_original
        )
        self.prompts = [candidate.to_text() for candidate in self.candidates]
        self._by_text = dict(zip(self.prompts, self.candidates, strict=True))
        self._program = program
        self._metric = metric
        self._dataset = dataset
        self._prices = prices
        self._wanted = tuple(metrics)
        # Per evaluator, because a cache for all would keep their programs alive.
        self._built = functools.lru_cache(maxsize=_PROGRAMS_KEPT)(self.program)

    def program(self, prompt: str) -> Any:
        """Return a copy of the program with the instructions and demos of a candidate.

        Args:
            prompt: the text of the candidate, one of `prompts`.

        Raises:
            InvalidArgumentError: no candidate has this text.
        """
        if prompt not in self._by_text:
            raise InvalidArgumentError(
                f"No candidate has the text {prompt!r:.100}. DSPyEvaluator.prompts has the texts."
            )
        return self._by_text[prompt].apply(self._program)

    def evaluate(self, prompt: str, example: int) -> dict[str, float]:
        """Run the program with a candidate on an example, and return the scores of its prediction.

        Args:
            prompt: the text of the candidate, one of `prompts`.
            example: index of the example in the dataset.

        Raises:
            DSPyEvaluationError: the program or the metric raised an exception, the
                metric returned no usable score, or an LM has no price.
        """
        program = self._built(prompt)
        row = self._dataset[checked_example(example, len(self._dataset))]
        spent = _Usage()
        try:
            with _metered(spent):
                start = time.perf_counter()
                with failing("the program raised"):
                    prediction = program(**row.inputs())
                latency = time.perf_counter() - start
            run = {"latency": latency, "calls": float(spent.calls), **spent.tokens()}
            if isinstance(prediction, dspy.Prediction) and dspy.settings.track_usage:
                # DSPy fills in the usage only when it runs its own tracker, and ours
                # replaced that.
                prediction.set_lm_usage(spent.trackers[0].get_total_tokens())
            with _metered(spent), failing("the metric raised"):
                value = self._metric(row, prediction)
            scores = {**run, **scores_of(value)}
            if self._prices is not None:
                scores["cost"] = spent.cost(self._prices)
            self._check(scores, spent)
        except EvaluatorError as error:
            cost = None
            # A missing price must not hide the error of the program.
            with contextlib.suppress(EvaluatorError):
                cost = None if self._prices is None else spent.cost(self._prices)
            raise DSPyEvaluationError(str(error), cost) from error.__cause__
        return scores

    def _check(self, scores: Mapping[str, float], spent: "_Usage") -> None:
        """Check that an evaluation has all wanted scores.

        Raises:
            EvaluatorError: a score is missing. Calls from DSPy's cache report no
                tokens, which is the usual reason.
        """
        missing = [name for name in self._wanted if name not in scores]
        if missing:
            cached = spent.calls - sum(1 for _ in spent.entries())
            why = ""
            if cached:
                why = f". {cached} of {spent.calls} LM calls reported no usage. Create the LM with cache=False"
            raise EvaluatorError(
                f"the evaluation has the scores {', '.join(scores)}, but not {', '.join(missing)}{why}"
            )


class ContextThreadPool(ThreadPoolExecutor):
    """Threads for `asktell.run(..., executor=ContextThreadPool(8))` with a `DSPyEvaluator`.

    They inherit the settings of the caller's `with dspy.context(...)`, as in
    `dspy.Evaluate`. The threads of an ordinary `ThreadPoolExecutor` inherit only the
    settings of `dspy.configure(...)`. The arguments are those of Python's
    `ThreadPoolExecutor`. The first is `max_workers`, the number of threads.
    """

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        return super().submit(contextvars.copy_context().run, fn, *args, **kwargs)


def scores_of(value: Any) -> dict[str, float]:
    """Convert the return value of a DSPy metric to scores by name.

    Raises:
        EvaluatorError: a `dspy.Prediction` has no `score`, or a value is not a finite
            number.
    """
    if isinstance(value, dspy.Prediction):
        # Other fields are text, such as the feedback for GEPA.
        value = {
            name: item
            for name, item in value.items()
            if name == "score" or isinstance(item, Real)
        }
        value.setdefault("score", None)
    if isinstance(value, Mapping):
        return {str(name): number(str(name), item) for name, item in value.items()}
    return {"score": number("score", value)}


class _Usage(BaseCallback):  # type: ignore[misc]
    """Count the successful LM calls, and the tokens that they used."""

    def __init__(self) -> None:
        self.calls = 0
        self.trackers: list[Any] = []

    def on_lm_end(
        self, call_id: str, outputs: Any, exception: Exception | None = None
    ) -> None:
        self.calls += exception is None

    def tokens(self) -> dict[str, float]:
        """Return the token counts as scores. Empty unless every call reported its usage."""
        counts = [_counts(entry) for _, entry in self.entries()]
        if len(counts) < self.calls or None in counts:
            return {}
        read = float(sum(count[0] for count in counts if count))
        written = float(sum(count[1] for count in counts if count))
        return {
            "tokens": read + written,
            "prompt_tokens": read,
            "completion_tokens": written,
        }

    def cost(self, prices: Mapping[str, Price]) -> float:
        """Return the cost of all calls that reported their usage.

        Raises:
            EvaluatorError: an LM has no price.
        """
        total = 0.0
        for model, entry in self.entries():
            if model not in prices:
                raise EvaluatorError(
                    f"the LM {model!r} has no price. Add it to prices, which has {list(prices)}"
                )
            counts = _counts(entry)
            if counts is not None:
                total += prices[model].of(*counts)
        return total

    def entries(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the LM's name and the reported usage of each call. Cached calls have none."""
        for tracker in self.trackers:
            for model, entries in tracker.usage_data.items():
                for entry in entries:
                    yield model, entry


@contextlib.contextmanager
def _metered(usage: _Usage) -> Iterator[None]:
    """Count the LM calls and tokens inside the `with` block."""
    with (
        dspy.context(callbacks=[*(dspy.settings.callbacks or []), usage]),
        dspy.track_usage() as tracker,
    ):
        usage.trackers.append(tracker)
        yield


def _counts(entry: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Tokens read, written, and read from the provider's cache. None if the entry lacks a count."""
    read = entry.get("prompt_tokens", entry.get("input_tokens"))
    written = entry.get("completion_tokens", entry.get("output_tokens"))
    if read is None or written is None:
        return None
    details = entry.get("prompt_tokens_details") or {}
    return int(read), int(written), int(details.get("cached_tokens") or 0)


__all__ = [
    "AsktellOptimizer", "Candidate", "ContextThreadPool", "DSPyEvaluationError", "DSPyEvaluator", "bootstrap_demos",
    "propose_instructions",
]  # fmt: skip


class AsktellOptimizer(Teleprompter):  # type: ignore[misc]
    """A DSPy optimizer: `compile` returns the program with the selected instructions and demos.

    ```python
    optimizer = AsktellOptimizer(metric, candidates=10, demos=4, budget=500)
    better = optimizer.compile(program, trainset=trainset, valset=valset)
    ```

    A candidate is a choice of instructions, combined with a set of demos. An evaluation
    runs one candidate on one example. It fails if the program or the metric raises an
    exception, or if the metric returns no usable score.

    Args:
        metric: `metric(example, prediction)`, as in `DSPyEvaluator`. If `demos` is a
            number, the metric is also called with a third argument, DSPy's trace. The
            goal may use the scores that the metric returns and the further scores of
            `DSPyEvaluator`, such as `latency` or `tokens`.
        candidates: a list of choices of instructions, as in `DSPyEvaluator`. Or a
            number n: `propose_instructions` writes n choices. An empty list: the
            instructions of the program.
        demos: a list of sets of demos, as in `DSPyEvaluator`. Or a number n:
            `bootstrap_demos` makes n sets. An empty list: the demos of the program.
        budget: number of evaluations, or `asktell.Budget(cost=...)`, which requires
            `prices`.
        goal: a `BestFeasible` or a `ParetoSet`. By default, `BestFeasible("score")`.
        method: as for `asktell.Selector`.
        num_threads: number of simultaneous evaluations. By default,
            `dspy.settings.num_threads`.
        keep_original: True (default): the program's own instructions are a further
            choice, and its own demos a further set.
        study: the URL of a storage and the name of a study in it, such as
            `("sqlite:///studies.db", "answers")`. The study records every score. After
            a crash, `compile` resumes it with the same candidates. Several processes
            with the same study share the work.
        worker: the name of this process in the study. If the process is restarted under
            the same name, it gets its pending evaluations back immediately. Under
            another name, it has to wait until the leases of these evaluations end,
            about a minute.
        prices: an `asktell_adapters.evaluators.Price` for each LM that is called, by
            the name of the LM (`lm.model`). With prices, there is the score `cost`.
        prompt_model: the LM that writes instructions if `candidates` is a number. By
            default, `dspy.settings.lm`.
        bootstrap: further arguments of `bootstrap_demos`, such as `max_labeled` or
            `threshold`.
        seed: seed of every choice. The output of LMs may still vary.
        max_failures_in_a_row: after this many failures in a row, `compile` raises an
            error. The usual cause is then the setup, such as a server that is down, and
            not a bad candidate. With None, failures never end `compile`. See
            `asktell.run`.
        display_progress: True: show a progress bar.
        selector_options: further arguments of `asktell.Selector`, such as `features` or
            `on_failure`.
    """

    def __init__(
        self,
        metric: Callable[..., Any],
        candidates: Sequence[Any] | int = (),
        demos: Sequence[Any] | int = (),
        *,
        budget: int | asktell.Budget,
        goal: Goal | None = None,
        method: str | AbstractMethod = "auto",
        num_threads: int | None = None,
        keep_original: bool = True,
        study: tuple[str | Path, str] | None = None,
        worker: str | None = None,
        prices: Mapping[str, Price] | None = None,
        prompt_model: Any = None,
        bootstrap: Mapping[str, Any] | None = None,
        seed: int = 0,
        max_failures_in_a_row: int | None = 10,
        display_progress: bool = False,
        **selector_options: Any,
    ) -> None:
        super().__init__()
        self.metric = metric
        self.candidates = (
            whole("candidates", candidates, 1)
            if isinstance(candidates, int)
            else candidates
        )
        self.demos = whole("demos", demos, 1) if isinstance(demos, int) else demos
        self.budget = budget
        self.goal = BestFeasible("score") if goal is None else goal
        self.method = method
        self.num_threads = (
            None if num_threads is None else whole("num_threads", num_threads, 1)
        )
        self.keep_original = keep_original
        self.study = study
        self.worker = worker
        self.prices = prices
        self.prompt_model = prompt_model
        self.bootstrap = dict(bootstrap or {})
        self.seed = seed
        self.max_failures_in_a_row = max_failures_in_a_row
        self.display_progress = display_progress
        self.selector_options = selector_options

    def compile(
        self,
        student: Any,
        *,
        trainset: Sequence[Any],
        teacher: Any = None,
        valset: Sequence[Any] | None = None,
    ) -> Any:
        """Return the program with the selected instructions and demos. The student is not changed.

        The returned program has two more attributes. `asktell_result` is the
        `asktell.Result` of the selection. `candidate_programs` is a list with a mapping
        for each evaluated candidate. It starts with the selected candidate (with a
        `ParetoSet`, all selected candidates). The others follow, best first in the
        first metric of the goal. The keys of a mapping are:

        - `program`: the program with this candidate.
        - `score`: the estimate of the first metric of the goal, in its own units.
        - `estimate`: the estimates of all metrics, by name.
        - `evaluations`: number of evaluations of this candidate.
        - `selected`: whether the candidate is selected.

        Args:
            student: the program to optimize.
            trainset: examples to make demos from, and for the LM that writes
                instructions. Without a `valset`, candidates are evaluated on them, too.
            teacher: the program that writes demos. By default, the student.
            valset: examples on which candidates are evaluated. It is required if
                `demos` is a number, because a candidate must not be evaluated on an
                example that is one of its demos.

        Raises:
            InvalidArgumentError: an argument cannot be used, such as a number of
                `demos` without a `valset`.
            EvaluatorError: every evaluation failed, or too many failed in a row.
            StudyExistsError: the study exists with other candidates, or with another
                goal, budget or method.
        """
        evaluator = self._evaluator(student, trainset, teacher, valset)
        selector = asktell.Selector(
            evaluator.prompts,
            self.goal,
            self.budget,
            self.method,
            examples=len(trainset if valset is None else valset),
            seed=self.seed,
            **self.selector_options,
        )
        if self.study is None:
            return self._compiled(evaluator, self._run(selector, evaluator))
        with asktell.Study.create(*self.study, selector, exist_ok=True) as study:
            return self._compiled(
                evaluator, self._run(study.worker(self.worker), evaluator)
            )

    def _run(self, selector: Any, evaluator: DSPyEvaluator) -> Result:
        """Run the selection with the wanted number of threads."""
        threads = (
            dspy.settings.num_threads if self.num_threads is None else self.num_threads
        )
        options: dict[str, Any] = {
            "progress": self.display_progress,
            "max_failures_in_a_row": self.max_failures_in_a_row,
        }
        if threads == 1:
            return asktell.run(selector, evaluator, **options)
        with ContextThreadPool(threads) as executor:
            return asktell.run(selector, evaluator, executor, threads, **options)

    def _evaluator(
        self,
        student: Any,
        trainset: Sequence[Any],
        teacher: Any,
        valset: Sequence[Any] | None,
    ) -> DSPyEvaluator:
        """Make the evaluator. Write instructions and make demos first, if the user passed numbers.

        Raises:
            InvalidArgumentError: demos would come from the examples to evaluate on.
        """
        candidates, demos, keep = self.candidates, self.demos, self.keep_original
        if isinstance(demos, int) and valset is None:
            raise InvalidArgumentError(
                "Bootstrapped demos come from the trainset, so compile() needs other examples to evaluate on. Pass "
                "these as valset."
            )
        if isinstance(candidates, int) or isinstance(demos, int):
            stored = self._stored(student)
            if stored is not None:
                candidates, demos, keep = stored, (), False
        if isinstance(candidates, int):
            candidates = propose_instructions(
                student,
                trainset,
                candidates,
                prompt_model=self.prompt_model,
                seed=self.seed,
            )
        if isinstance(demos, int):
            demos = bootstrap_demos(
                student,
                self._success,
                trainset,
                demos,
                **{"teacher": teacher, "seed": self.seed, **self.bootstrap},
            )
        return DSPyEvaluator(
            student,
            candidates,
            self.metric,
            trainset if valset is None else valset,
            demos=demos,
            keep_original=keep,
            prices=self.prices,
            metrics=self.goal.metrics,
        )

    def _stored(self, student: Any) -> list[Candidate] | None:
        """Return the candidates of an interrupted `compile`, because an LM would not write the same texts again."""
        if self.study is None:
            return None
        try:
            with asktell.Study.open(*self.study) as study:
                texts = [entry.prompt for entry in study.result().prompts]
        except StudyNotFoundError:
            return None
        names = [name for name, _ in student.named_predictors()]
        return [Candidate.from_text(text, names) for text in texts]

    def _success(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """Score a demo for DSPy's bootstrapping: the metric's `score`, or else the goal's first metric."""
        scores = scores_of(self.metric(example, prediction, trace))
        name = "score" if "score" in scores else self.goal.metrics[0]
        if name not in scores:
            raise InvalidArgumentError(
                f"Demos are chosen by {name!r}, the first metric of the goal, but the metric returned "
                f"{', '.join(scores)}. Return {name!r} or 'score', too."
            )
        return scores[name]

    def _compiled(self, evaluator: DSPyEvaluator, result: Result) -> Any:
        """Make the compiled program of a result.

        Raises:
            EvaluatorError: no candidate could be evaluated.
        """
        if not result.selected:
            reasons = {entry.reason for entry in result.prompts if entry.reason}
            raise EvaluatorError(
                f"No candidate could be evaluated ({'; '.join(sorted(reasons)) or 'none was tried'})."
            )
        if result.selected[0].feasible is False:
            log.warning(
                "No candidate satisfies every constraint. The selected candidate has the smallest violation."
            )
        chosen = {entry.id for entry in result.selected}
        first = self.goal.objectives[0]

        def rank(entry: PromptResult) -> float:
            # Best first, in the direction of the objective. A candidate without an
            # estimate is last.
            mean = entry.estimate[first.metric]
            return math.inf if mean is None else -first.sign * mean

        evaluated = [entry for entry in result.prompts if entry.evaluations]
        unchosen = sorted(
            (entry for entry in evaluated if entry.id not in chosen), key=rank
        )
        best = evaluator.program(result.selected[0].prompt)
        best.candidate_programs = [
            {
                "score": entry.estimate[first.metric],
                "program": evaluator.program(entry.prompt),
                "estimate": dict(entry.estimate),
                "evaluations": entry.evaluations,
                "selected": entry.id in chosen,
            }
            for entry in (*result.selected, *unchosen)
        ]
        best.asktell_result = result
        best._compiled = True
        return best
