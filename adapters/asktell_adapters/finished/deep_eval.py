"""Test runs of DeepEval: a file of its results folder, `.latest_test_run.json`, or an `EvaluationResult` as JSON.

Checked against the source of the package deepeval, version 4.3.1 (`test_run/api.py`, `test_run/test_run.py`), and the
file of Naniyarram/rag-cold-email-generator.
"""

from collections.abc import Mapping, Sequence
from typing import Any, final

from asktell import InvalidArgumentError
from asktell.extend import short
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted

_LISTS = ("testCases", "conversationalTestCases", "test_results")
# A score's own name, and the names that a file uses for it
_OF_RESPONSES = {
    "cost": ("tokenCost", "token_cost"),
    "seconds": ("completionTime", "completion_time"),
    "input_tokens": ("inputTokenCount",),
    "output_tokens": ("outputTokenCount",),
}


@final
class DeepEvalReader:
    """A test run is one candidate. Test cases are matched by their input, since DeepEval numbers their names."""

    name = "test runs of DeepEval"

    def recognizes(self, source: Source) -> bool:
        """Whether a document has test cases with the data of metrics."""
        cases = _cases(source)
        return bool(cases) and any(_metrics(case) is not None for case in cases)

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the metrics of all test cases.

        Raises:
            InvalidArgumentError: a test case is damaged.
        """
        cases = _cases(source)
        names = _names(cases)
        graded = []
        for number, (case, name) in enumerate(zip(cases, names, strict=True), start=1):
            try:
                graded.append(_graded(name, case))
            except (AttributeError, KeyError, TypeError) as error:
                raise InvalidArgumentError(
                    f"{source.path}, test case {number}: {short(case)} is not a test case of DeepEval with metrics. "
                    "Run the tests again."
                ) from error
        settings = _run(source).get("hyperparameters")
        model = settings.get("model") if isinstance(settings, dict) else None
        return Scores(
            self.name,
            [
                ScoredCandidate(
                    source.path,
                    ScoreColumns.of(graded),
                    names=(str(model or source.path.stem),),
                )
            ],
            "test run" if wanted.is_alone else "test runs",
            "test cases by their input",
            left_out=["evaluationCost"]
            * any(
                not {"evaluationCost", "evaluation_cost"}.isdisjoint(case)
                for case in cases
            ),
        )


def _run(source: Source) -> Mapping[str, Any]:
    document = source.json
    if isinstance(document, dict) and isinstance(document.get("testRunData"), dict):
        document = document["testRunData"]
    return document if isinstance(document, dict) else {}


def _cases(source: Source) -> Sequence[Mapping[str, Any]]:
    """The test cases, those of conversations last. Empty if the file has none."""
    run = _run(source)
    lists = [run[name] for name in _LISTS if isinstance(run.get(name), list)]
    cases = [case for cases in lists for case in cases]
    return cases if all(isinstance(case, dict) for case in cases) else []


def _metrics(case: Mapping[str, Any]) -> Sequence[Any] | None:
    metrics = case.get("metricsData", case.get("metrics_data"))
    return metrics if isinstance(metrics, list) else None


def _names(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name each test case by its input. Where inputs are alike, the expected output distinguishes them."""
    inputs = [
        str(case.get("input") or case.get("scenario") or case.get("name"))
        for case in cases
    ]
    expected = [
        str(case.get("expectedOutput", case.get("expected_output")) or "")
        for case in cases
    ]
    outputs: dict[str, set[str]] = {}
    for name, output in zip(inputs, expected, strict=True):
        outputs.setdefault(name, set()).add(output)
    return [
        f"{name} {output}" if len(outputs[name]) > 1 else name
        for name, output in zip(inputs, expected, strict=True)
    ]


def _graded(name: str, case: Mapping[str, Any]) -> Graded:
    """The scores of a test case. A metric that broke has no score, and then it is unknown whether the test passes."""
    metrics = _metrics(case) or []
    values: dict[str, object] = {
        metric["name"]: None if metric.get("error") else metric.get("score")
        for metric in metrics
    }
    errors = [str(metric["error"]) for metric in metrics if metric.get("error")]
    if not errors:
        values["success"] = case.get("success")
    if errors and all(value is None for value in values.values()):
        return Graded.of(name, {}, errors[0])
    for score, keys in _OF_RESPONSES.items():
        values[score] = next(
            (case[key] for key in keys if case.get(key) is not None), None
        )
    return Graded.of(name, values)
