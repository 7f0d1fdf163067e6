"""GEPA: selection over a pool of candidates by any GEPA adapter, whose protocol needs no import of GEPA."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, final

from asktell import EvaluatorError, InvalidArgumentError, Trial
from asktell_adapters._scores import checked_example, in_groups, or_alone
from asktell_adapters.harnesses.gepa_policy import AsktellPolicy

__all__ = ["AsktellPolicy", "Candidate", "GEPAEvaluator"]

Candidate: TypeAlias = Mapping[str, str]
"""The text of each component, by the component's name."""


@final
class GEPAEvaluator:
    """Evaluates GEPA's candidates on examples of a data set, by a GEPA adapter: for `asktell.run`.

    The scores of an evaluation are `score` and the adapter's `objective_scores`, under their names.

    Args:
        adapter: a `gepa.GEPAAdapter`. It is asked for batches of examples of one candidate; where it raises, for each
            of these again by itself.
        candidates: of the same components, such as `GEPAResult.candidates`; each counts once.
        dataset: a sequence of what the adapter evaluates, or a GEPA `DataLoader`.
        failure: an example's output -> why it failed, or None if it did not. GEPA asks adapters to give a failed
            example a score, such as 0; only this tells a failure from a bad answer.

    Attributes:
        prompts: the candidates' texts, for a Selector: the component's text if there is one, else JSON.
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
            raise InvalidArgumentError(f"candidates must be a list with at least one, got {candidates!r:.100}.")
        for position, candidate in enumerate(candidates):
            if not isinstance(candidate, Mapping) or not candidate or set(candidate) != set(candidates[0]):
                raise InvalidArgumentError(
                    f"Candidates must be mappings from the same components to texts; the first is of "
                    f"{list(candidates[0])!r:.100}, candidate {position} is {candidate!r:.100}."
                )
        self._by_text = {_text(candidate): dict(candidate) for candidate in candidates}
        self.prompts = list(self._by_text)
        self._adapter = adapter
        self._dataset = dataset
        self._failure = failure

    def candidate(self, prompt: str) -> dict[str, str]:
        """The components of the candidate with this text."""
        if prompt not in self._by_text:
            raise InvalidArgumentError(f"No candidate has the text {prompt!r:.100}. See GEPAEvaluator.prompts.")
        return dict(self._by_text[prompt])

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[Mapping[str, Any] | Exception]:
        return in_groups(trials, attrgetter("prompt"), lambda alike: or_alone(self._evaluate, alike))

    def warm_start(self, selector: Any, result: Any) -> int:
        """Tell a selector what GEPA's run has evaluated already; costs no budget.

        Args:
            selector: a Selector or a Study of these prompts and this data set, with `score` as its goal's only metric:
                of other objectives, GEPA keeps no scores by example.
            result: a `GEPAResult` of the same data set; how many scores it has is returned.
        """
        if tuple(selector.metrics) != ("score",):
            raise InvalidArgumentError(
                f"GEPA keeps scores by example for 'score' only, but the goal has {', '.join(selector.metrics)}."
            )
        known = getattr(selector, "selector", selector).prompts
        places = {id_: i for i, id_ in enumerate(self._ids())}
        told = 0
        for candidate, scores in zip(result.candidates, result.val_subscores, strict=True):
            prompt = known.texted(_text(candidate))
            for id_, score in scores.items():
                if prompt is not None and id_ in places and math.isfinite(score):
                    selector.observe(prompt, [score], places[id_])
                    told += 1
        return told

    def _evaluate(self, trials: Sequence[Trial]) -> list[Mapping[str, Any] | Exception]:
        examples = [trial.example for trial in trials]
        batch = self._adapter.evaluate(self._fetch(examples), self.candidate(trials[0].prompt), capture_traces=False)
        objectives = getattr(batch, "objective_scores", None) or [{}] * len(examples)
        if not len(batch.outputs) == len(batch.scores) == len(objectives) == len(examples):
            raise EvaluatorError(
                f"the adapter was given {len(examples)} examples, and gave {len(batch.outputs)} outputs, "
                f"{len(batch.scores)} scores and {len(objectives)} objective scores"
            )
        outcomes: list[Mapping[str, Any] | Exception] = []
        for output, score, others in zip(batch.outputs, batch.scores, objectives, strict=True):
            reason = None if self._failure is None else self._failure(output)
            outcomes.append({**(others or {}), "score": score} if reason is None else EvaluatorError(reason))
        return outcomes

    def _ids(self) -> list[Any]:
        all_ids = getattr(self._dataset, "all_ids", None)
        return list(range(len(self._dataset)) if all_ids is None else all_ids())

    def _fetch(self, examples: Sequence[int | None]) -> list[Any]:
        ids = self._ids()
        chosen = [ids[checked_example(example, len(ids))] for example in examples]
        if hasattr(self._dataset, "fetch"):
            return list(self._dataset.fetch(chosen))
        return [self._dataset[id_] for id_ in chosen]


def _text(candidate: Candidate) -> str:
    if len(candidate) == 1:
        return next(iter(candidate.values()))
    return json.dumps(dict(sorted(candidate.items())), ensure_ascii=False)
