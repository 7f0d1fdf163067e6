"""MLflow: an optimizer for `mlflow.genai.optimize_prompts` that finds the best candidate with few evaluations."""

import dataclasses
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from operator import attrgetter
from typing import Any, final

import asktell
from asktell import EvaluatorError, InvalidArgumentError, PromptResult, Result, Trial
from asktell.extend import AbstractMethod, Goal, needs_extra, whole
from asktell_adapters._util.scores import Scores, checked_example, in_groups, number
from asktell_adapters.llms.base import Example
from asktell_adapters.optimizers.briefs import Writer
from asktell_adapters.optimizers.improving import improve
from asktell_adapters.tracking.mlflow import MLflowTracker

with needs_extra("mlflow"):
    from mlflow.genai.optimize.optimizers import BasePromptOptimizer
    from mlflow.genai.optimize.types import PromptOptimizerOutput

# MLflow's output in place of that of a `predict_fn` that raised.
_FAILED = "Failed to invoke the predict_fn with "
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
# With a writer, the budget is split between this many generations. The first has the
# candidates.
_GENERATIONS = 5


@final
class PromptOptimizer(BasePromptOptimizer):  # type: ignore[misc]
    """Select the best of several candidates for a prompt, on the rows of the training data.

    ```python
    optimizer = PromptOptimizer(["Answer briefly: {{question}}"], budget=500)
    mlflow.genai.optimize_prompts(
        predict_fn=predict, train_data=rows, prompt_uris=[uri], optimizer=optimizer, scorers=[Correctness()]
    )
    ```

    An evaluation runs one candidate on one row of the training data. If several prompts
    are optimized together, a candidate has one template for each of them. The
    registered templates of the prompts are a candidate, too. They are the baseline: the
    result compares the selected candidate with them.

    Each scorer that returns numbers is a metric, with the scorer's name. A further
    metric is `score`, which MLflow computes from the values of all scorers. By default,
    it is their sum. An evaluation fails if `predict_fn` raises an exception or if
    `score` is not a number.

    Args:
        candidates: a list of candidates. If one prompt is optimized, a candidate is a
            template. Otherwise, it is a mapping from prompt names to templates. A
            template must have the same variables as the registered template. The
            template of a chat prompt is its list of messages as JSON text.
        writer: a function that writes further candidates from the best candidates and
            their failures, such as `asktell_adapters.optimizers.writers.LLMWriter`. The
            selection then runs in generations, as in
            `asktell_adapters.optimizers.improve`. If several prompts are optimized,
            each text from the writer must be a JSON object from prompt names to
            templates.
        budget: number of evaluations of all candidates together. With a writer, a fifth
            of it is for the registered templates and `candidates`.
        goal: a `BestFeasible` or a `ParetoSet`. By default, `BestFeasible("score")`.
        method: as for `asktell.Selector`. With a writer, "auto", "race", an `Adaptive`
            or a `Race`.
        batch_size: number of evaluations in a batch. MLflow runs the evaluations of one
            candidate in a batch in parallel.
        study: the URL of a storage and the name of a study in it, such as
            `("sqlite:///studies.db", "answers")`. The study records every score. After
            a crash, the same call resumes the selection. By default, scores are kept in
            memory.
        display_progress_bar: True: show a progress bar.
        seed: seed of every choice of asktell.

    Attributes:
        result: the `asktell.Result` of the last selection, with standard errors,
            probabilities and the verdict. None before the first selection.

    Raises:
        InvalidArgumentError: there are neither candidates nor a writer, or an argument
            cannot be used.
    """

    def __init__(
        self,
        candidates: Sequence[str | Mapping[str, str]] = (),
        *,
        writer: Writer | None = None,
        budget: int,
        goal: Goal | None = None,
        method: str | AbstractMethod = "auto",
        batch_size: int = 10,
        study: tuple[str, str] | None = None,
        display_progress_bar: bool = False,
        seed: int = 0,
    ) -> None:
        if isinstance(candidates, str | Mapping) or not (candidates or writer):
            raise InvalidArgumentError(
                f"candidates must be a list of templates, which may be empty only with a writer, got "
                f"{candidates!r:.100}."
            )
        self.result: Result | None = None
        self._candidates = list(candidates)
        self._writer = writer
        self._budget = whole("budget", budget, 1)
        self._goal = goal or asktell.BestFeasible("score")
        self._method = method
        self._seed = seed
        self._batch_size = batch_size
        self._study = study
        self._progress = display_progress_bar

    def optimize(
        self,
        eval_fn: Callable[[dict[str, str], list[dict[str, Any]]], list[Any]],
        train_data: list[dict[str, Any]],
        target_prompts: dict[str, str],
        enable_tracking: bool = True,
    ) -> PromptOptimizerOutput:
        """Select the best candidate. `mlflow.genai.optimize_prompts` calls this method.

        Args:
            eval_fn: MLflow's function that evaluates a candidate on rows.
            train_data: the rows.
            target_prompts: the registered templates, by prompt name.
            enable_tracking: True (default): log the selection in the MLflow run.

        Returns:
            The templates of the best candidate, by prompt name. The initial and the
            final score are asktell's estimates for the registered templates and for the
            best candidate. They are not plain means over the evaluated rows.

        Raises:
            InvalidArgumentError: there are no rows or no scorers, or a candidate does
                not have the names or variables of the prompts.
            EvaluatorError: every evaluation failed, or the writer failed.
        """
        if eval_fn is None or not train_data:
            raise InvalidArgumentError(
                "A selection needs scores. Pass train_data and scorers to optimize_prompts()."
            )
        rows = _Rows(eval_fn, train_data, target_prompts)
        texts = list(dict.fromkeys(map(rows.text, [target_prompts, *self._candidates])))
        # improve() adds the rest of the budget, generation by generation.
        budget = self._budget // _GENERATIONS if self._writer else self._budget
        selector = asktell.Selector(
            texts,
            self._goal,
            max(1, budget),
            self._method,
            examples=len(train_data),
            baseline=0,
            seed=self._seed,
        )
        # A study in memory still needs a place and a name.
        location = self._study or (f"memory://{uuid.uuid4().hex}", "mlflow")
        settings: dict[str, Any] = {
            "concurrency": self._batch_size,
            "progress": self._progress,
        }
        with (
            asktell.Study.create(*location, selector, exist_ok=True) as study,
            MLflowTracker() if enable_tracking else nullcontext() as tracker,
        ):
            settings["on_tell"] = tracker
            if self._writer is None:
                self.result = asktell.run(study, rows, **settings)
            else:
                examples = [_example(row) for row in train_data]
                writer = rows.completing(self._writer)
                self.result = improve(
                    study,
                    rows,
                    writer,
                    budget=self._budget,
                    examples=examples,
                    **settings,
                ).result
        best, original = self.result.best, self.result.prompts[0]
        if best is None:
            reasons = "; ".join(group.reason for group in self.result.failures[:3])
            raise EvaluatorError(
                f"No evaluation of the {len(texts)} candidates succeeded ({reasons})."
            )
        # Scores by scorer: since 3.10.
        names = {field.name for field in dataclasses.fields(PromptOptimizerOutput)}
        scores = {**_scores("initial", original), **_scores("final", best)}
        return PromptOptimizerOutput(
            rows.candidate(best.prompt),
            **{k: v for k, v in scores.items() if k in names},
        )


@final
class _Rows:
    """An evaluator that lets MLflow evaluate candidates on rows of the training data."""

    def __init__(
        self,
        eval_fn: Callable[..., list[Any]],
        rows: list[dict[str, Any]],
        target: dict[str, str],
    ) -> None:
        self._eval_fn, self._rows, self._target = eval_fn, rows, target

    def text(self, candidate: str | Mapping[str, str]) -> str:
        """Return a candidate as text: its template, or JSON by name if several prompts are optimized."""
        if isinstance(candidate, str):
            return candidate
        if candidate.keys() != self._target.keys():
            raise InvalidArgumentError(
                f"A candidate has templates for {[*candidate]}, but the prompts are {[*self._target]}. Give one "
                "template for each prompt."
            )
        return (
            next(iter(candidate.values()))
            if len(self._target) == 1
            else json.dumps(dict(candidate))
        )

    def candidate(self, text: str) -> dict[str, str]:
        """Return the templates of a candidate by name, given its text."""
        return (
            {next(iter(self._target)): text}
            if len(self._target) == 1
            else json.loads(text)
        )

    def check_prompts(self, prompts: Mapping[str | int, str] | Sequence[str]) -> None:
        """Check that every candidate has a template with the same variables for each prompt.

        Raises:
            InvalidArgumentError: a candidate does not.
        """
        wanted = {name: _variables(template) for name, template in self._target.items()}
        for text in prompts.values() if isinstance(prompts, Mapping) else prompts:
            try:
                fits = {
                    name: _variables(template)
                    for name, template in self.candidate(text).items()
                } == wanted
            except (ValueError, TypeError, AttributeError):
                fits = False
            if not fits:
                shown = {
                    name: [f"{{{{{variable}}}}}" for variable in sorted(names)]
                    for name, names in wanted.items()
                }
                raise InvalidArgumentError(
                    f"A candidate must have a template for each prompt, with its variables {shown}, got {text!r:.200}."
                )

    def completing(self, writer: Writer) -> Writer:
        """Return a writer that appends missing variables to the texts of this writer."""
        if len(self._target) > 1:
            return writer
        (template,) = self._target.values()

        def completed(text: str) -> str:
            missing = dict.fromkeys(
                name
                for name in _VARIABLE.findall(template)
                if name not in _variables(text)
            )
            return "\n\n".join([text, *(f"{{{{{name}}}}}" for name in missing)])

        return lambda brief: [completed(text) for text in writer(brief)]

    def evaluate_batch(
        self, trials: Sequence[Trial]
    ) -> list[Mapping[str, float] | Exception]:
        """Return the scores of each trial, in their order. A failed trial has an exception in its place."""

        def evaluate(alike: list[Trial]) -> list[Mapping[str, float] | Exception]:
            rows = [
                self._rows[checked_example(trial.example, len(self._rows))]
                for trial in alike
            ]
            return list(
                map(_outcome, self._eval_fn(self.candidate(alike[0].prompt), rows))
            )

        return in_groups(trials, attrgetter("prompt"), evaluate)


def _outcome(record: Any) -> Mapping[str, float] | Exception:
    """Convert a record of MLflow's `eval_fn` to scores, with the output as a detail, or to an error."""
    if isinstance(record.outputs, str) and record.outputs.startswith(_FAILED):
        return EvaluatorError(record.outputs)
    try:
        score = number("score", record.score)
    except EvaluatorError as error:
        return error
    return Scores(
        {**getattr(record, "individual_scores", {}), "score": score},
        {"output": str(record.outputs)},
    )


def _variables(template: str) -> set[str]:
    """The names of the variables in a template."""
    return set(_VARIABLE.findall(template))


def _example(row: Mapping[str, Any]) -> Example:
    """Convert a row to an example for the writer: its inputs as JSON, and the expected response."""
    wanted = (row.get("expectations") or {}).get(
        "expected_response", row.get("outputs")
    )
    return Example(
        json.dumps(row["inputs"], default=str, ensure_ascii=False),
        None if wanted is None else str(wanted),
    )


def _scores(when: str, entry: PromptResult) -> dict[str, Any]:
    """Return a candidate's estimates under MLflow's names. `when` is "initial" or "final"."""
    means = {name: mean for name, mean in entry.estimate.items() if mean is not None}
    return {
        f"{when}_eval_score": means.pop("score", None),
        f"{when}_eval_score_per_scorer": means,
    }
