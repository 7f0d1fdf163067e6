"""Opik: an optimizer in Opik's own manner that chooses among candidate prompts with few evaluations."""

import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import asktell
from asktell import BestFeasible, EvaluatorError, InvalidArgumentError, Result, Trial
from asktell.extend import Goal, Method, attempt, needs_extra
from asktell_adapters._scores import failing, in_groups, number, or_alone

with needs_extra("opik"):
    from opik_optimizer import AlgorithmResult, BaseOptimizer, ChatPrompt, OptimizationRound, OptimizationTrial

Candidate: TypeAlias = "str | ChatPrompt | Mapping[str, ChatPrompt]"
"""The text of the system message, where there is one prompt; or a prompt; or several by name."""


class AsktellOptimizer(BaseOptimizer):  # type: ignore[misc]
    """Chooses among candidates for a prompt: `optimizer.optimize_prompt(prompt, dataset, metric)`.

    Items of the data set (of the validation data set, if there is one) are chosen for each candidate. Evaluations are
    trials of the optimization in Opik, each of one candidate on the items chosen at a time; the score of the result is
    an estimate, not a lucky trial. Opik evaluates the prompt itself first: `n_samples` limits that. `max_trials` does
    not count.

    Args:
        candidates: besides the prompt itself; or a function from Opik's `OptimizationContext` to them, which may write
            them with an LLM.
        budget: evaluations allowed, of one candidate on one item each.
        goal: of the metric, and of what a `MultiMetricObjective` consists of, by their names; by default the best
            metric.
        batch_size: evaluations at a time.
        method: as for `asktell.Selector`.
        selector_options: more of the Selector's arguments.
        model: a LiteLLM name, for Opik's own calls.
        options: more of `opik_optimizer.BaseOptimizer`'s arguments.

    Attributes:
        result: of the last selection.
    """

    result: Result | None = None

    def __init__(
        self,
        candidates: Sequence[Candidate] | Callable[[Any], Sequence[Candidate]],
        budget: int,
        *,
        goal: Goal | None = None,
        batch_size: int = 16,
        method: str | Method = "auto",
        selector_options: Mapping[str, Any] | None = None,
        model: str = "openai/gpt-5-nano",
        skip_perfect_score: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, skip_perfect_score=skip_perfect_score, **options)
        self.candidates, self.budget, self.goal, self.method = candidates, budget, goal, method
        self.batch_size, self.selector_options = batch_size, dict(selector_options or {})

    def get_config(self, context: Any) -> dict[str, Any]:
        return {"optimizer": "asktell", "budget": self.budget}

    def run_optimization(self, context: Any) -> AlgorithmResult:
        """Evaluate, choose, and say so to Opik, which calls this."""
        given = self.candidates(context) if callable(self.candidates) else self.candidates
        prompts = dict(_prompts(context.prompts, candidate) for candidate in (context.prompts, *given))
        goal = BestFeasible(context.metric.__name__) if self.goal is None else self.goal
        evaluator = _Evaluator(self, context, prompts)
        selector = asktell.Selector(
            list(prompts),
            goal,
            self.budget,
            self.method,
            examples=len(evaluator.ids),
            **{"seed": self.seed, **self.selector_options},
        )
        self.result = asktell.run(selector, evaluator, concurrency=self.batch_size, progress=self.verbose > 0)
        metric = goal.objectives[0].metric
        trials = [
            OptimizationTrial(i, entry.estimate[metric], prompts[entry.prompt], dict(entry.estimate))
            for i, entry in enumerate(self.result.prompts)
            if entry.evaluations
        ]
        best = self.result.selected[0]
        context.finish_reason = "completed"  # by evaluations, and not by trials
        score = best.estimate[metric] or 0.0
        rounds = [OptimizationRound(0, trials, score, score, prompts[best.prompt])]
        return AlgorithmResult(prompts[best.prompt], score, rounds, {"asktell": str(self.result)})


class _Evaluator:
    def __init__(self, optimizer: AsktellOptimizer, context: Any, prompts: Mapping[str, Any]) -> None:
        self._optimizer, self._context, self._prompts = optimizer, context, prompts
        self.ids = [str(item["id"]) for item in context.evaluation_dataset.get_items()]

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[dict[str, float] | Exception]:
        return in_groups(trials, attrgetter("prompt"), lambda alike: or_alone(self._evaluate, alike))

    def _evaluate(self, trials: Sequence[Trial]) -> list[dict[str, float] | Exception]:
        context = self._context
        ids = [self.ids[trial.example or 0] for trial in trials]
        with failing("Opik's evaluation raised"):  # one that raises ends the whole: look for it
            found = self._optimizer.evaluate_prompt(
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
        scores = {test.test_case.dataset_item_id: _scores(test.score_results) for test in found.test_results}
        return [scores.get(id_, EvaluatorError(f"Opik did not evaluate the item {id_}")) for id_ in ids]


def _scores(results: Sequence[Any]) -> dict[str, float] | Exception:
    for each in results:
        if each.scoring_failed:
            return EvaluatorError(f"the metric {each.name!r} failed: {each.reason}")
    found: dict[str, float] | Exception = attempt(
        lambda: {each.name: number(each.name, each.value) for each in results}
    )
    return found


def _prompts(own: Mapping[str, ChatPrompt], candidate: Candidate) -> tuple[str, dict[str, ChatPrompt]]:
    """A candidate's text for the selector, and its prompts by name; those that it does not name are the own."""
    if isinstance(candidate, Mapping):
        prompts = {**own, **candidate}
        return json.dumps({name: each.get_messages() for name, each in prompts.items()}), prompts
    if len(own) > 1:
        raise InvalidArgumentError(
            f"There are the prompts {', '.join(own)}: give each candidate as a mapping from name."
        )
    ((name, prompt),) = own.items()
    if isinstance(candidate, ChatPrompt):
        return json.dumps({name: candidate.get_messages()}), {name: candidate}
    changed = prompt.copy()
    others = [message for message in prompt.get_messages() if message["role"] != "system"]
    changed.set_messages([{"role": "system", "content": candidate}, *others])
    return candidate, {name: changed}
