"""Output items of OpenAI's Evals API: `evals.runs.output_items.list`, as a JSON page, a list, or JSON lines.

Checked against OpenAI's API reference and the types of openai/openai-node. Azure AI Foundry has items of the same form.
"""

from collections.abc import Mapping
from typing import Any, final

from asktell import InvalidArgumentError
from asktell.extend import short
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted

_ITEM = "eval.run.output_item"


@final
class OpenAIOutputItemsReader:
    """A run is one candidate. Examples are the items of the data source. Each grader gives a metric."""

    name = "output items of OpenAI's Evals API"

    def recognizes(self, source: Source) -> bool:
        """Whether the first object calls itself an output item."""
        items = source.items
        return bool(items) and items[0].get("object") == _ITEM

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the results of all graders.

        Raises:
            InvalidArgumentError: an item is damaged.
        """
        runs: dict[str, list[Graded]] = {}
        models: dict[str, str] = {}
        for number, item in enumerate(source.items, start=1):
            try:
                run, sample = str(item["run_id"]), item.get("sample") or {}
                runs.setdefault(run, []).append(_graded(item, sample))
                models.setdefault(run, str(sample.get("model") or run))
            except (AttributeError, KeyError, TypeError) as error:
                raise InvalidArgumentError(
                    f"{source.path}, item {number}: {short(item)} is not an output item of OpenAI's Evals API. Export "
                    "the items again."
                ) from error
        notes = []
        if isinstance(source.json, dict) and source.json.get("has_more"):
            notes.append(
                f"{source.path.name}: This is one page of the items, and has_more is true. Export the other pages, "
                "too."
            )
        return Scores(
            self.name,
            [
                ScoredCandidate(
                    source.path, ScoreColumns.of(graded), names=(models[run], run)
                )
                for run, graded in runs.items()
            ],
            "runs",
            "items of the data source",
            notes=notes,
        )


def _graded(item: Mapping[str, Any], sample: Mapping[str, Any]) -> Graded:
    """The scores of an item. A grader with a score of its own has that, and otherwise whether the item passed."""
    example = item.get("datasource_item_id", item["id"])
    results = item.get("results") or []
    values: dict[str, object] = {}
    for result in results:
        score = result.get("score")
        values[str(result["name"])] = result.get("passed") if score is None else score
    if len(results) > 1 and item.get("status") in ("pass", "fail"):
        values["passed"] = item["status"] == "pass"
    usage = sample.get("usage") or {}
    # Items from the cache were not paid again, but their tokens are those of the response.
    values["input_tokens"] = usage.get("prompt_tokens")
    values["output_tokens"] = usage.get("completion_tokens")
    problem = sample.get("error")
    if problem and (problem.get("message") or problem.get("code")):
        return Graded.of(example, {}, str(problem.get("message") or problem["code"]))
    return Graded.of(example, values)
