"""Opik: an optimizer with Opik's interface that selects the best candidate with few evaluations.

An item is Opik's word for an example.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import asktell
from asktell import (
    BestFeasible,
    EvaluatorError,
    InvalidArgumentError,
    Result,
    Trial,
    maximize,
)
from asktell.extend import AbstractMethod, Goal, attempt, needs_extra
from asktell_adapters._util.scores import failing, in_groups, number, or_alone

with needs_extra("opik"):
    from opik_optimizer import (
        AlgorithmResult,
        BaseOptimizer,
        ChatPrompt,
        OptimizationRound,
        OptimizationTrial,
    )

Candidate: TypeAlias = "str | ChatPrompt | Mapping[str, ChatPrompt]"
"""A candidate for the prompt: a ChatPrompt, or the text of a new system message for it.

If Opik optimizes several prompts, a candidate is a mapping from their names to
ChatPrompts. A prompt that the mapping lacks stays unchanged.
"""


class AsktellOptimizer(BaseOptimizer):  # type: ignore[misc]
    """Select the best of several candidates for a prompt: `optimizer.optimize_prompt(prompt, dataset, metric)`.

    An evaluation runs one candidate on one item of the dataset. If you pass a
    validation dataset to `optimize_prompt`, its items are used instead. Opik shows all
    evaluations of one candidate in a batch as one *trial*. So the score of a trial is a
    mean over few items. The score that `optimize_prompt` returns is asktell's estimate
    of the selected candidate's mean score.

    Before the selection, Opik itself evaluates the prompt on `n_samples` items (an
    argument of `optimize_prompt`), by default on all. These evaluations do not count
    against the budget. The argument `max_trials` of `optimize_prompt` has no effect.

    Args:
        candidates: a list of candidates, to which the prompt itself is added. Or a
            function that gets Opik's `OptimizationContext` and returns such a list. For
            example, the function may let an LLM write the candidates.
        budget: number of evaluations.
        goal: a `BestFeasible` or a `ParetoSet`. A metric in it has the name of Opik's
            metric, or of one of the metrics in Opik's `MultiMetricObjective`. By
            default, the candidate with the highest mean of Opik's metric is selected.
        batch_size: number of evaluations in a batch.
        method: as for `asktell.Selector`.
        selector_options: further arguments of `asktell.Selector`.
        model: LiteLLM name of the model for Opik's own calls.
        skip_perfect_score: True: if the prompt already reaches the score
            `perfect_score` in Opik's own evaluation, nothing is selected. See
            `opik_optimizer.BaseOptimizer`.
        options: further arguments of `opik_optimizer.BaseOptimizer`.

    Attributes:
        result: the `asktell.Result` of the last selection. None before the first
            selection.
    """

    result: Result | None = None

    def __init__(
        self,
        candidates: Sequence[Candidate] | Callable[[Any], Sequence[Candidate]],
        budget: int,
        *,
        goal: Goal | None = None,
        batch_size: int = 16,
        method: str | AbstractMethod = "auto",
        selector_options: Mapping[str, Any] | None = None,
        model: str = "openai/gpt-5-nano",
        skip_perfect_score: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, skip_perfect_score=skip_perfect_score, **options)
        self.candidates = candidates
        self.budget = budget
        self.goal = goal
        self.method = method
        self.batch_size = batch_size
        self.selector_options = dict(selector_options or {})

    def get_config(self, context: Any) -> dict[str, Any]:
        """Return the settings that Opik stores with the optimization. Opik calls this method."""
        return {"optimizer": "asktell", "budget": self.budget}

    def run_optimization(self, context: Any) -> AlgorithmResult:
        """Evaluate the candidates and return the best one. Opik calls this method.

        Raises:
            InvalidArgumentError: Opik optimizes several prompts, and a candidate is not
                a mapping from their names.
            EvaluatorError: every evaluation failed.
        """
        candidates = (
            self.candidates(context) if callable(self.candidates) else self.candidates
        )
        prompts = dict(
            _prompts(context.prompts, candidate)
            for candidate in (context.prompts, *candidates)
        )
        goal = (
            BestFeasible(maximize(context.metric.__name__))
            if self.goal is None
            else self.goal
        )
        evaluator = _Evaluator(self, context, prompts)
        selector = asktell.Selector(
            list(prompts),
            goal,
            self.budget,
            self.method,
            examples=len(evaluator.ids),
            **{"seed": self.seed, **self.selector_options},
        )
        self.result = asktell.run(
            selector, evaluator, concurrency=self.batch_size, progress=self.verbose > 0
        )
        metric = goal.objectives[0].metric
        trials = [
            OptimizationTrial(
                i, entry.estimate[metric], prompts[entry.prompt], dict(entry.estimate)
            )
            for i, entry in enumerate(self.result.prompts)
            if entry.evaluations
        ]
        best = self.result.selected[0]
        # Opik would report the number of trials as the reason.
        context.finish_reason = "completed"
        score = best.estimate[metric] or 0.0
        rounds = [OptimizationRound(0, trials, score, score, prompts[best.prompt])]
        return AlgorithmResult(
            prompts[best.prompt], score, rounds, {"asktell": str(self.result)}
        )


class _Evaluator:
    """Let Opik evaluate candidates on items. `ids` are the items' ids, in the order of the examples."""

    def __init__(
        self, optimizer: AsktellOptimizer, context: Any, prompts: Mapping[str, Any]
    ) -> None:
        self._optimizer, self._context, self._prompts = optimizer, context, prompts
        self.ids = [str(item["id"]) for item in context.evaluation_dataset.get_items()]

    def evaluate_batch(
        self, trials: Sequence[Trial]
    ) -> list[dict[str, float] | Exception]:
        return in_groups(
            trials, attrgetter("prompt"), lambda alike: or_alone(self._evaluate, alike)
        )

    def _evaluate(self, trials: Sequence[Trial]) -> list[dict[str, float] | Exception]:
        """Evaluate trials of one candidate in one call of Opik."""
        context = self._context
        ids = [self.ids[trial.example or 0] for trial in trials]
        # An exception on one item ends Opik's evaluation of the batch. `or_alone` then
        # evaluates the items one by one.
        with failing("Opik's evaluation raised"):
            evaluation = self._optimizer.evaluate_prompt(
                self._prompts[trials[0].prompt],
                context.evaluation_dataset,
                context.metric,
                agent=context.agent,
                n_threads=self._optimizer.n_threads,
                verbose=0,
                dataset_item_ids=ids,
                experiment_config=context.experiment_config,
                return_evaluation_result=True,
                allow_tool_use=context.allow_tool_use,
            )
        context.trials_completed += 1
        scores = {
            test.test_case.dataset_item_id: _scores(test.score_results)
            for test in evaluation.test_results
        }
        return [
            scores.get(id_, EvaluatorError(f"Opik did not evaluate the item {id_}"))
            for id_ in ids
        ]


def _scores(results: Sequence[Any]) -> dict[str, float] | Exception:
    """The scores of an item by metric, or an error if a metric failed."""
    for score in results:
        if score.scoring_failed:
            return EvaluatorError(f"the metric {score.name!r} failed: {score.reason}")
    scores: dict[str, float] | Exception = attempt(
        lambda: {score.name: number(score.name, score.value) for score in results}
    )
    return scores


def _prompts(
    original: Mapping[str, ChatPrompt], candidate: Candidate
) -> tuple[str, dict[str, ChatPrompt]]:
    """Return a candidate's text for the selector, and its prompts by name. A name without a prompt keeps its own."""
    if isinstance(candidate, Mapping):
        prompts = {**original, **candidate}
        return json.dumps(
            {name: chat.get_messages() for name, chat in prompts.items()}
        ), prompts
    if len(original) > 1:
        raise InvalidArgumentError(
            f"Opik optimizes the prompts {', '.join(original)}, so each candidate must be a mapping from these names "
            f"to ChatPrompts, got {candidate!r:.100}."
        )
    ((name, prompt),) = original.items()
    if isinstance(candidate, ChatPrompt):
        return json.dumps({name: candidate.get_messages()}), {name: candidate}
    changed = prompt.copy()
    messages = [
        message for message in prompt.get_messages() if message["role"] != "system"
    ]
    changed.set_messages([{"role": "system", "content": candidate}, *messages])
    return candidate, {name: changed}
