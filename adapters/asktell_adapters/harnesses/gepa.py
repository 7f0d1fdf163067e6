"""GEPA: a policy for `gepa.optimize`, and an evaluator for a selection among candidates after a GEPA run.

The module does not import GEPA.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, final

from asktell import EvaluatorError, InvalidArgumentError, Trial
from asktell_adapters._util.scores import checked_example, in_groups, or_alone
from asktell_adapters.harnesses.gepa_policy import AsktellPolicy

__all__ = ["AsktellPolicy", "Candidate", "GEPAEvaluator"]

Candidate: TypeAlias = Mapping[str, str]
"""A candidate of GEPA: a mapping from the name of each component to its text, such as `{"instruction": "..."}`."""


@final
class GEPAEvaluator:
    """Evaluate GEPA's candidates on examples of a dataset with a GEPA adapter, for `asktell.run`.

    ```python
    evaluator = GEPAEvaluator(adapter, result.candidates, valset)
    selector = asktell.Selector(evaluator.prompts, goal, budget=40, examples=len(valset))
    best = asktell.run(selector, evaluator).best
    print(evaluator.candidate(best.prompt))
    ```

    An evaluation has the score `score` of the adapter. If the adapter returns
    `objective_scores`, the evaluation has these scores, too, under their names.

    Args:
        adapter: a `gepa.GEPAAdapter`. Each of its calls evaluates one candidate on
            several examples. If a call raises an exception, these examples are
            evaluated again, one by one.
        candidates: a list of mappings from the components' names to texts, such as
            `GEPAResult.candidates`. All have the same components. Duplicates are
            dropped.
        dataset: a sequence of examples for the adapter, or a GEPA `DataLoader`.
        failure: a function that gets the adapter's output for an example. It returns
            the reason why the example failed, or None if it did not fail. A failed
            example is then a failed evaluation. Without this function, no example
            counts as failed: if the adapter gives failed examples the score 0, this
            score counts like any other.

    Attributes:
        prompts: the candidates' texts, for a Selector. If a candidate has one
            component, its text is that of the component. Otherwise, its text is JSON.

    Raises:
        InvalidArgumentError: the candidates are not a list of mappings with the same
            components.
    """

    def __init__(
        self,
        adapter: Any,
        candidates: Sequence[Candidate],
        dataset: Any,
        *,
        failure: Callable[[Any], str | None] | None = None,
    ) -> None:
        if isinstance(candidates, Mapping) or not candidates:
            raise InvalidArgumentError(
                f"candidates must be a list with at least one candidate, got {candidates!r:.100}."
            )
        for position, candidate in enumerate(candidates):
            if (
                not isinstance(candidate, Mapping)
                or not candidate
                or set(candidate) != set(candidates[0])
            ):
                raise InvalidArgumentError(
                    "All candidates must be mappings from the same components to texts, got "
                    f"{list(candidates[: position + 1][-2:])!r:.200}."
                )
        self._by_text = {_text(candidate): dict(candidate) for candidate in candidates}
        self.prompts = list(self._by_text)
        self._adapter = adapter
        self._dataset = dataset
        self._failure = failure

    def candidate(self, prompt: str) -> dict[str, str]:
        """Return a candidate as a mapping from the components' names to texts.

        Args:
            prompt: the text of the candidate, one of `prompts`.

        Raises:
            InvalidArgumentError: no candidate has this text.
        """
        if prompt not in self._by_text:
            raise InvalidArgumentError(
                f"No candidate has the text {prompt!r:.100}. Pass one of the texts in GEPAEvaluator.prompts."
            )
        return dict(self._by_text[prompt])

    def evaluate_batch(
        self, trials: Sequence[Trial]
    ) -> list[Mapping[str, Any] | Exception]:
        """Evaluate trials. Return, in their order, the scores of each trial, or an exception if it failed."""
        return in_groups(
            trials, attrgetter("prompt"), lambda alike: or_alone(self._evaluate, alike)
        )

    def warm_start(self, selector: Any, result: Any) -> int:
        """Record the scores of a finished GEPA run in a selector. They do not count against the budget.

        Args:
            selector: a Selector or a Study with these prompts and this dataset. Its
                goal must have `score` as its only metric, because GEPA stores no other
                score of an example.
            result: the `GEPAResult` of a run whose validation set is the same dataset.
                Candidates that the selector does not have are skipped.

        Returns:
            The number of recorded scores.

        Raises:
            InvalidArgumentError: the goal has a metric other than `score`.
        """
        if tuple(selector.metrics) != ("score",):
            raise InvalidArgumentError(
                f"GEPA stores only 'score' per example, but the goal has {', '.join(selector.metrics)}. Use a goal "
                "whose only metric is 'score', or do not call warm_start()."
            )
        prompts = getattr(selector, "selector", selector).prompts
        places = {id_: i for i, id_ in enumerate(self._ids())}
        recorded = 0
        for candidate, scores in zip(
            result.candidates, result.val_subscores, strict=True
        ):
            prompt = prompts.texted(_text(candidate))
            if prompt is None:
                continue
            for id_, score in scores.items():
                if id_ in places and math.isfinite(score):
                    selector.observe(prompt, [score], places[id_])
                    recorded += 1
        return recorded

    def _evaluate(self, trials: Sequence[Trial]) -> list[Mapping[str, Any] | Exception]:
        """Evaluate trials of one candidate in one call of the adapter.

        Raises:
            EvaluatorError: the adapter returned another number of results.
        """
        ids = self._ids()
        examples = [ids[checked_example(trial.example, len(ids))] for trial in trials]
        if hasattr(self._dataset, "fetch"):
            inputs = list(self._dataset.fetch(examples))
        else:
            inputs = [self._dataset[id_] for id_ in examples]
        batch = self._adapter.evaluate(
            inputs, self.candidate(trials[0].prompt), capture_traces=False
        )
        objectives = getattr(batch, "objective_scores", None) or [{}] * len(examples)
        if (
            not len(batch.outputs)
            == len(batch.scores)
            == len(objectives)
            == len(examples)
        ):
            raise EvaluatorError(
                f"the adapter returned {len(batch.outputs)} outputs, {len(batch.scores)} scores and {len(objectives)} "
                f"objective scores for {len(examples)} examples"
            )
        outcomes: list[Mapping[str, Any] | Exception] = []
        for output, score, objective_scores in zip(
            batch.outputs, batch.scores, objectives, strict=True
        ):
            reason = None if self._failure is None else self._failure(output)
            outcomes.append(
                {**(objective_scores or {}), "score": score}
                if reason is None
                else EvaluatorError(reason)
            )
        return outcomes

    def _ids(self) -> list[Any]:
        all_ids = getattr(self._dataset, "all_ids", None)
        return list(range(len(self._dataset)) if all_ids is None else all_ids())


def _text(candidate: Candidate) -> str:
    """A candidate as a text. With several components it is JSON, with sorted names."""
    if len(candidate) == 1:
        return next(iter(candidate.values()))
    return json.dumps(dict(sorted(candidate.items())), ensure_ascii=False)
