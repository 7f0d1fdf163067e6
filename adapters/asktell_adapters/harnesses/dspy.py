"""DSPy: an optimizer in DSPy's own manner that chooses a program's instructions and demos with few evaluations."""

import contextlib
import contextvars
import functools
import json
import logging
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
from asktell import BestFeasible, EvaluatorError, InvalidArgumentError, PromptResult, Result, StudyNotFoundError
from asktell.extend import Goal, Method, needs_extra, whole
from asktell_adapters._scores import checked_example, failing, number
from asktell_adapters.evaluators import Price

with needs_extra("dspy"):
    import dspy
    from dspy.propose import GroundedProposer
    from dspy.teleprompt import Teleprompter
    from dspy.utils.callback import BaseCallback

Demos: TypeAlias = Sequence[Any]
"""Examples (`dspy.Example`, or mappings from field to value) that a predictor shows to the LM."""


@final
@dataclass(frozen=True)
class Candidate:
    """Instructions and demos by the predictor's name; a predictor that is not named keeps its own."""

    instructions: Mapping[str, str] = field(default_factory=dict)
    demos: Mapping[str, Demos] = field(default_factory=dict)

    def apply(self, program: Any) -> Any:
        copy = program.deepcopy()
        for name, predictor in copy.named_predictors():
            if name in self.instructions:
                predictor.signature = predictor.signature.with_instructions(self.instructions[name])
            if name in self.demos:
                predictor.demos = [_example(demo) for demo in self.demos[name]]
        return copy

    def to_text(self) -> str:
        """The instruction itself if that is all there is, else JSON."""
        if len(self.instructions) == 1 and not self.demos:
            ((name, text),) = self.instructions.items()
            if _parts(text, (name,)) is None:
                return text
        parts: dict[str, dict[str, Any]] = {name: {"instructions": text} for name, text in self.instructions.items()}
        for name, demos in self.demos.items():
            parts.setdefault(name, {})["demos"] = [dict(_example(demo).items()) for demo in demos]
        return json.dumps(parts, ensure_ascii=False, default=_plain)

    @classmethod
    def from_text(cls, text: str, names: Sequence[str]) -> "Candidate":
        """What `to_text` made, for a program with predictors of these names."""
        parts = _parts(text, names)
        if parts is None:
            return cls({names[0]: text})
        return cls(
            {name: part["instructions"] for name, part in parts.items() if "instructions" in part},
            {name: part["demos"] for name, part in parts.items() if "demos" in part},
        )


def candidates_of(
    program: Any, instructions: Sequence[Any], demos: Sequence[Any] = (), *, keep_original: bool = True
) -> list[Candidate]:
    """Each of the instructions with each of the demo sets, each candidate once.

    Args:
        program: whose predictors they are for.
        instructions: texts, if the program has one predictor; mappings from a predictor's name to its text; or whole
            `Candidate`s. Empty: the program's own.
        demos: demo sets: lists of examples, if the program has one predictor; or mappings from a predictor's name to
            such a list. Empty: the program's own.
        keep_original: the program's own instructions and demos are among the choices, as the first.
    """
    for what, choices in (("Candidates", instructions), ("Demo sets", demos)):
        if isinstance(choices, str | Mapping) or not isinstance(choices, Sequence):
            raise InvalidArgumentError(f"{what} must be a list of choices, got {choices!r:.100}.")
    own = {name: predictor.signature.instructions for name, predictor in program.named_predictors()}
    own_demos = {name: list(predictor.demos) for name, predictor in program.named_predictors()}
    if not own:
        raise InvalidArgumentError("The program has no predictors, so there is nothing to choose in it.")
    given = [_candidate(choice, tuple(own)) for choice in instructions]
    sets = [_by_predictor("a demo set", choice, tuple(own)) for choice in demos]
    if keep_original or not given:
        given.insert(0, Candidate())
    if sets and keep_original:
        sets.insert(0, {})
    with_demos = bool(sets) or any(candidate.demos for candidate in given)
    found: dict[str, Candidate] = {}
    for candidate in given:
        for chosen in sets or [{}]:
            whole = Candidate(
                {**own, **candidate.instructions}, {**own_demos, **candidate.demos, **chosen} if with_demos else {}
            )
            found.setdefault(whole.to_text(), whole)
    return list(found.values())


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
    """Demo sets as for MIPROv2: none, then labelled ones, then those of `dspy.BootstrapFewShot` on shuffled examples.

    Args:
        program: the student.
        metric: `(example, prediction, trace)` -> a success where it is true, or reaches `threshold`.
        trainset: examples to make demos of.
        n: how many sets.
        max_bootstrapped: demos of the teacher's own making in a set, at most.
        max_labeled: demos taken from the trainset, at most.
        threshold: of the metric.
        teacher: a program that makes the demos; by default the student.
        seed: makes the choice of examples repeatable.
    """
    draw = random.Random(seed)
    found: list[dict[str, Demos]] = []
    for place in range(n):
        examples, most = list(trainset), max_bootstrapped
        if place == 0:
            compiled = program.reset_copy()
        elif place == 1 and max_labeled:
            compiled = dspy.LabeledFewShot(k=max_labeled).compile(program, trainset=examples)
        else:
            if place > 2:
                draw.shuffle(examples)
                most = draw.randint(1, max_bootstrapped)
            optimizer = dspy.BootstrapFewShot(
                metric=metric, metric_threshold=threshold, max_bootstrapped_demos=most, max_labeled_demos=max_labeled
            )
            compiled = optimizer.compile(program, teacher=teacher, trainset=examples)
        found.append({name: list(predictor.demos) for name, predictor in compiled.named_predictors()})
    return found


def propose_instructions(
    program: Any, trainset: Sequence[Any], n: int, *, prompt_model: Any = None, seed: int = 0
) -> list[dict[str, str]]:
    """Instructions by DSPy's `GroundedProposer`, as for MIPROv2: n for each predictor; the i-th of all go together.

    Args:
        program: whose predictors they are for.
        trainset: examples that the proposer describes to the LM.
        n: how many.
        prompt_model: the LM that writes; by default the one of `dspy.settings`.
        seed: makes the proposer's choices repeatable; the LM's are its own.
    """
    lm = prompt_model or dspy.settings.lm
    proposer = GroundedProposer(prompt_model=lm, program=program, trainset=list(trainset), rng=random.Random(seed))
    made = proposer.propose_instructions_for_program(
        trainset=list(trainset), program=program, demo_candidates=None, trial_logs={}, N=n
    )
    names = [name for name, _ in program.named_predictors()]
    return [{name: made[i][j] for i, name in enumerate(names)} for j in range(n)]


def _parts(text: str, names: Sequence[str]) -> dict[str, dict[str, Any]] | None:
    """What a text says of each predictor, if it is JSON of ours."""
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not (isinstance(parts, dict) and parts and set(parts) <= set(names)):
        return None
    ours = all(isinstance(part, dict) and set(part) <= {"instructions", "demos"} for part in parts.values())
    return parts if ours else None


def _candidate(choice: object, names: tuple[str, ...]) -> Candidate:
    if isinstance(choice, Candidate):
        return Candidate(
            _by_predictor("a candidate's instructions", choice.instructions, names),
            _by_predictor("a candidate's demos", choice.demos, names),
        )
    chosen = _by_predictor("an instruction", choice, names)
    for name, text in chosen.items():
        if not isinstance(text, str):
            raise InvalidArgumentError(f"The instruction of {name!r} must be a str, got {text!r:.100}.")
    return Candidate(chosen)


def _by_predictor(what: str, choice: object, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(choice, Mapping):
        if len(names) > 1:
            raise InvalidArgumentError(
                f"The program has the predictors {', '.join(names)}: give {what} as a mapping from a predictor's name, "
                f"got {choice!r:.100}."
            )
        return {names[0]: choice}
    unknown = [str(name) for name in choice if name not in names]
    if unknown:
        raise InvalidArgumentError(
            f"{what.capitalize()} names {', '.join(unknown)}, but the program's predictors are {', '.join(names)}."
        )
    return dict(choice)


def _example(demo: Any) -> Any:
    return demo if isinstance(demo, dspy.Example) else dspy.Example(**demo)


def _plain(value: Any) -> Any:
    """A value for JSON: pydantic's models as mappings, as DSPy saves them; anything else as text."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)


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
        """A copy of the program with the instructions and demos that this prompt stands for."""
        if prompt not in self._by_text:
            raise InvalidArgumentError(f"No candidate has the text {prompt!r:.100}. See DSPyEvaluator.prompts.")
        return self._by_text[prompt].apply(self._program)

    def evaluate(self, prompt: str, example: int) -> dict[str, float]:
        """Run the program on the example and score it.

        Raises:
            DSPyEvaluationError: the program or the metric raised, or the metric gave no usable score.
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
                # The program's own tracker stood back for ours.
                prediction.set_lm_usage(spent.trackers[0].get_total_tokens())
            with _metered(spent), failing("the metric raised"):
                value = self._metric(row, prediction)
            scores = {**run, **scores_of(value)}
            if self._prices is not None:
                scores["cost"] = spent.cost(self._prices)
            self._check(scores, spent)
        except EvaluatorError as error:
            cost = None
            with contextlib.suppress(EvaluatorError):
                cost = None if self._prices is None else spent.cost(self._prices)
            raise DSPyEvaluationError(str(error), cost) from error.__cause__
        return scores

    def _check(self, scores: Mapping[str, float], spent: "_Usage") -> None:
        missing = [name for name in self._wanted if name not in scores]
        if missing:
            cached = spent.calls - sum(1 for _ in spent.entries())
            why = f"; {cached} of {spent.calls} LM calls said no usage (dspy.LM(..., cache=False))" if cached else ""
            raise EvaluatorError(f"the evaluation gave {', '.join(scores)}, but not {', '.join(missing)}{why}")


class ContextThreadPool(ThreadPoolExecutor):
    """Threads that share the submitter's `dspy.context(...)`, as in `dspy.Evaluate`.

    In other threads, only `dspy.configure(...)` is.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(contextvars.copy_context().run, fn, *args, **kwargs)


def scores_of(value: Any) -> dict[str, float]:
    """Convert a DSPy metric's return value to numbers by name; without a score, or with one of no use, it failed."""
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

    def tokens(self) -> dict[str, float]:
        """None unless every call said what it used."""
        counts = [_counts(entry) for _, entry in self.entries()]
        if len(counts) < self.calls or None in counts:
            return {}
        read, written = (float(sum(count[i] for count in counts if count)) for i in (0, 1))
        return {"tokens": read + written, "prompt_tokens": read, "completion_tokens": written}

    def cost(self, prices: Mapping[str, Price]) -> float:
        total = 0.0
        for model, entry in self.entries():
            if model not in prices:
                raise EvaluatorError(f"there is no price for the LM {model!r}, only for {', '.join(prices) or 'none'}")
            counts = _counts(entry)
            if counts is not None:
                total += prices[model].of(*counts)
        return total

    def entries(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
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
    read = entry.get("prompt_tokens", entry.get("input_tokens"))
    written = entry.get("completion_tokens", entry.get("output_tokens"))
    if read is None or written is None:
        return None
    details = entry.get("prompt_tokens_details") or {}
    return int(read), int(written), int(details.get("cached_tokens") or 0)


def _inputs(example: Any, position: int) -> None:
    try:
        example.inputs()
    except (AttributeError, ValueError) as error:
        raise InvalidArgumentError(
            f"Example {position} of the data set must be a dspy.Example that names its inputs, as in "
            f"dspy.Example(question=..., answer=...).with_inputs('question'); got {example!r:.200}."
        ) from error


__all__ = [
    "AsktellOptimizer", "Candidate", "ContextThreadPool", "DSPyEvaluationError", "DSPyEvaluator", "bootstrap_demos",
    "propose_instructions",
]  # fmt: skip

_log = logging.getLogger("asktell")


class AsktellOptimizer(Teleprompter):  # type: ignore[misc]
    """Chooses among instructions and demo sets for a program; `compile` returns the program with the best ones.

    Each evaluation is one candidate on one example. A program or a metric that raises, and a metric without a usable
    score, make that evaluation a failure and never a score.

    Args:
        metric: as in `DSPyEvaluator`, which also says what other metrics there are: `tokens`, `latency`, `cost` ...
        candidates: instructions: texts, if the program has one predictor; mappings from a predictor's name to its
            text; or whole `Candidate`s. A number: so many are written by `propose_instructions`. Empty: the program's.
        demos: demo sets, each a list of examples, or a mapping from a predictor's name to one. A number: so many are
            made by `bootstrap_demos`. Empty: the program's.
        budget: evaluations allowed, or `asktell.Budget(cost=...)`, which needs `prices`.
        goal: `BestFeasible` or `ParetoSet`; by default the best `score`.
        method: as for `asktell.Selector`.
        num_threads: evaluations at once; by default `dspy.settings.num_threads`.
        keep_original: the program's own instructions and demos are a candidate, too.
        study: a location and a name: every score is kept in that study, and `compile` goes on where it was, with the
            same candidates, after a crash; in several processes, they share the work.
        worker: this process's name in the study. A restarted process of the same name gets its evaluations back at
            once, and otherwise within a minute.
        prices: as in `DSPyEvaluator`.
        prompt_model: the LM that writes instructions; by default the one of `dspy.settings`.
        bootstrap: further arguments of `bootstrap_demos`, such as `max_labeled` or `threshold`.
        seed: makes every choice repeatable; the LM's are its own.
        max_failures_in_a_row: after so many, `compile` raises: the cause is then not the candidates.
        display_progress: show a progress bar.
        selector_options: further arguments of `asktell.Selector`, such as `features` or `on_failure`.
    """

    def __init__(
        self,
        metric: Callable[..., Any],
        candidates: Sequence[Any] | int = (),
        demos: Sequence[Any] | int = (),
        *,
        budget: int | asktell.Budget,
        goal: Goal | None = None,
        method: str | Method = "auto",
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
        self.candidates = whole("candidates", candidates, 1) if isinstance(candidates, int) else candidates
        self.demos = whole("demos", demos, 1) if isinstance(demos, int) else demos
        self.budget = budget
        self.goal = BestFeasible("score") if goal is None else goal
        self.method = method
        self.num_threads = None if num_threads is None else whole("num_threads", num_threads, 1)
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
        self, student: Any, *, trainset: Sequence[Any], teacher: Any = None, valset: Sequence[Any] | None = None
    ) -> Any:
        """The program with the chosen instructions and demos; the student is not changed.

        Args:
            student: the program.
            trainset: what demos are bootstrapped from and instructions written after; without a `valset`, candidates
                are evaluated on it, too.
            teacher: the program that makes demos; by default the student.
            valset: what candidates are evaluated on. Needed where demos are bootstrapped: a program that was shown an
                example is not to be judged by it.

        The compiled program has `asktell_result`, and `candidate_programs`: all that were evaluated, those selected
        first (with a ParetoSet, the set), the others by the goal's first metric. Each is a mapping with `program`,
        `score` (of that metric, in its own units), `estimate` of all metrics, `evaluations` and `selected`.

        Raises:
            EvaluatorError: nothing but failures came.
            StudyExistsError: the study was made of other candidates, or another goal, budget or method.
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
            return self._compiled(evaluator, self._run(study.worker(self.worker), evaluator))

    def _run(self, selector: Any, evaluator: DSPyEvaluator) -> Result:
        threads = dspy.settings.num_threads if self.num_threads is None else self.num_threads
        options: dict[str, Any] = {
            "progress": self.display_progress,
            "max_failures_in_a_row": self.max_failures_in_a_row,
        }
        if threads == 1:
            return asktell.run(selector, evaluator, **options)
        with ContextThreadPool(threads) as executor:
            return asktell.run(selector, evaluator, executor, threads, **options)

    def _evaluator(
        self, student: Any, trainset: Sequence[Any], teacher: Any, valset: Sequence[Any] | None
    ) -> DSPyEvaluator:
        candidates, demos, keep = self.candidates, self.demos, self.keep_original
        if isinstance(demos, int) and valset is None:
            raise InvalidArgumentError("Demos are bootstrapped from the trainset: give compile() a valset to judge by.")
        if isinstance(candidates, int) or isinstance(demos, int):
            stored = self._stored(student)
            if stored is not None:
                candidates, demos, keep = stored, (), False
        if isinstance(candidates, int):
            candidates = propose_instructions(
                student, trainset, candidates, prompt_model=self.prompt_model, seed=self.seed
            )
        if isinstance(demos, int):
            demos = bootstrap_demos(
                student, self._success, trainset, demos, **{"teacher": teacher, "seed": self.seed, **self.bootstrap}
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
        """The candidates that an interrupted compile made: an LM would not make them again."""
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
        """How good a demo is, for DSPy's bootstrapping: its `score`, or else the goal's first metric."""
        scores = scores_of(self.metric(example, prediction, trace))
        name = "score" if "score" in scores else self.goal.metrics[0]
        if name not in scores:
            raise InvalidArgumentError(
                f"A demo is made where {name!r}, the first metric of the goal, is a success, but the metric gives "
                f"{', '.join(scores)}."
            )
        return scores[name]

    def _compiled(self, evaluator: DSPyEvaluator, result: Result) -> Any:
        if not result.selected:
            reasons = {entry.reason for entry in result.prompts if entry.reason}
            raise EvaluatorError(f"No candidate could be evaluated: {'; '.join(sorted(reasons)) or 'none was tried'}.")
        if result.selected[0].feasible is False:
            _log.warning("No candidate keeps every constraint; the one that violates them least was chosen.")
        chosen, first = {entry.id for entry in result.selected}, self.goal.objectives[0]

        def rank(entry: PromptResult) -> float:
            mean = entry.estimate[first.metric]
            return math.inf if mean is None else -first.sign * mean

        others = sorted((each for each in result.prompts if each.evaluations and each.id not in chosen), key=rank)
        best = evaluator.program(result.selected[0].prompt)
        best.candidate_programs = [
            {
                "score": entry.estimate[first.metric],
                "program": evaluator.program(entry.prompt),
                "estimate": dict(entry.estimate),
                "evaluations": entry.evaluations,
                "selected": entry.id in chosen,
            }
            for entry in (*result.selected, *others)
        ]
        best.asktell_result = result
        best._compiled = True
        return best
