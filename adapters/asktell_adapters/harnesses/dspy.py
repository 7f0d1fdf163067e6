"""DSPy: an optimizer in DSPy's own manner that chooses a program's instructions and demos with few evaluations."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import asktell
from asktell import BestFeasible, EvaluatorError, InvalidArgumentError, PromptResult, Result, StudyNotFoundError
from asktell.extend import Goal, Method, needs_extra, whole
from asktell_adapters.evaluators import Price
from asktell_adapters.harnesses.dspy_candidates import Candidate, bootstrap_demos, propose_instructions
from asktell_adapters.harnesses.dspy_evaluator import ContextThreadPool, DSPyEvaluationError, DSPyEvaluator, scores_of

with needs_extra("dspy"):
    import dspy
    from dspy.teleprompt import Teleprompter

__all__ = [
    "AsktellOptimizer",
    "Candidate",
    "ContextThreadPool",
    "DSPyEvaluationError",
    "DSPyEvaluator",
    "bootstrap_demos",
    "propose_instructions",
]

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
        `score` (of that metric, in its own units), `estimate` of all metrics, `pulls` and `selected`.

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
        chosen = {entry.id for entry in result.selected}
        others = [entry for entry in result.prompts if entry.pulls and entry.id not in chosen]
        programs = [_entry(evaluator, entry, selected=True) for entry in result.selected]
        programs += [_entry(evaluator, entry, selected=False) for entry in _best_first(self.goal, others)]
        best = evaluator.program(result.selected[0].prompt)
        best.candidate_programs = programs
        best.asktell_result = result
        best._compiled = True
        return best


def _entry(evaluator: DSPyEvaluator, entry: PromptResult, selected: bool) -> dict[str, Any]:
    return {
        "score": next(iter(entry.estimate.values())),
        "program": evaluator.program(entry.prompt),
        "estimate": dict(entry.estimate),
        "pulls": entry.pulls,
        "selected": selected,
    }


def _best_first(goal: Goal, entries: list[PromptResult]) -> list[PromptResult]:
    if not entries:
        return entries
    means = [[math.nan if mean is None else mean for mean in entry.estimate.values()] for entry in entries]
    first = goal.values(np.array(means))[:, 0]
    return [entries[i] for i in np.argsort(-first, kind="stable")]
