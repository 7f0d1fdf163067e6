"""Hugging Face evaluate, offline: its modules as metrics."""

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asktell.errors import EvaluatorError, MissingExtraError
from asktell_adapters.evaluators import Completion, Example, LLMEvaluator, ScriptedLLM
from asktell_adapters.metrics import HuggingFaceMetric, Rouge

MODULE = Path(__file__).parents[2] / "assets" / "rouge"


@pytest.fixture(scope="module")
def modules() -> SimpleNamespace:
    """Made when the first test wants them: to import evaluate takes longer than all of the tests here."""
    evaluate = pytest.importorskip("evaluate")
    datasets = pytest.importorskip("datasets")
    text, number = datasets.Value("string"), datasets.Value("int64")

    def info(features: dict[str, Any], of: Any = evaluate.MetricInfo) -> Any:
        return of(
            description="",
            citation="",
            inputs_description="",
            features=datasets.Features(features),
        )

    class Says(evaluate.Metric):  # type: ignore[misc]
        """The prediction itself, as a number."""

        def _info(self) -> Any:
            return info({"predictions": text, "references": text})

        def _compute(
            self, predictions: list[str], references: list[str]
        ) -> dict[str, float]:
            (said,) = predictions
            return {} if said == "no score" else {"score": float(said)}

    class Same(evaluate.Metric):  # type: ignore[misc]
        calls = 0

        def _info(self) -> Any:
            return info({"predictions": number, "references": number})

        def _compute(
            self, predictions: list[int], references: list[int]
        ) -> dict[str, float]:
            Same.calls += 1
            return {"accuracy": float(predictions == references), "n": len(predictions)}

    class Words(evaluate.Measurement):  # type: ignore[misc]
        def _info(self) -> Any:
            return info({"data": text}, evaluate.MeasurementInfo)

        def _compute(self, data: list[str]) -> dict[str, Any]:
            return {"words": len(data[0].split()), "note": "not a number"}

    class Bare(evaluate.Metric):  # type: ignore[misc]
        """As the hub's wer, which returns a number and no mapping."""

        def _info(self) -> Any:
            return info({"predictions": text, "references": text})

        def _compute(self, predictions: list[str], references: list[str]) -> float:
            return 0.25

    return SimpleNamespace(
        Says=Says, Same=Same, Words=Words, Bare=Bare, combine=evaluate.combine
    )


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_EVALUATE_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


# Modules as metrics

LABELS = ["no", "yes"]


def label(completion: Completion, example: Example) -> int:
    return LABELS.index(completion.text)


def test_what_is_no_text_is_made_of_it(modules: SimpleNamespace) -> None:
    accuracy = HuggingFaceMetric(
        modules.Same(),
        "accuracy",
        prediction=label,
        reference=lambda completion, example: example.fields["label"],
    )
    example = Example("is it?", fields={"label": 1})
    assert accuracy(Completion("yes"), example) == 1.0
    assert accuracy(Completion("no"), example) == 0.0
    with pytest.raises(ValueError, match="perhaps"):
        accuracy(Completion("perhaps"), example)


def test_a_measurement_needs_no_reference(modules: SimpleNamespace) -> None:
    assert (
        HuggingFaceMetric(modules.Words(), "words")(
            Completion("three short words"), Example("")
        )
        == 3.0
    )


def test_a_module_without_keys_has_its_name(modules: SimpleNamespace) -> None:
    assert (
        HuggingFaceMetric(modules.Bare(), "bare")(Completion("a"), Example("", "b"))
        == 0.25
    )


def test_several_values_are_computed_once(modules: SimpleNamespace) -> None:
    modules.Same.calls = 0
    both = modules.combine(
        {"a": modules.Same(), "b": modules.Same()}, force_prefix=True
    )
    metrics = HuggingFaceMetric.several(
        both,
        {"first": "a_accuracy", "second": "b_accuracy"},
        prediction=label,
        reference=lambda completion, example: 1,
    )
    llm = ScriptedLLM(lambda request: Completion("yes"))
    evaluator = LLMEvaluator(llm, [Example("?"), Example("!")], metrics)
    assert evaluator("p", 0) == {"first": 1.0, "second": 1.0}
    assert modules.Same.calls == 2, "each of the two modules once"
    evaluator("p", 1)
    assert modules.Same.calls == 4, "another completion is computed anew"


def test_several_keys_of_a_folder() -> None:
    metrics = HuggingFaceMetric.several(
        MODULE, ["rouge1", "rougeL"], use_aggregator=False
    )
    completion, example = Completion("the cat sat"), Example("", "the cat")
    metrics["rouge1"].load()
    assert {name: metric(completion, example) for name, metric in metrics.items()} == {
        name: Rouge(name)(completion, example) for name in ("rouge1", "rougeL")
    }
    again = pickle.loads(
        pickle.dumps(HuggingFaceMetric(str(MODULE), "rouge1", use_aggregator=False))
    )
    assert again(completion, example) == metrics["rouge1"](completion, example)


def test_a_nan_or_no_number_is_an_error(modules: SimpleNamespace) -> None:
    with pytest.raises(EvaluatorError, match="'score' returned nan"):
        HuggingFaceMetric(modules.Says(), "score")(Completion("nan"), Example("", "b"))
    with pytest.raises(EvaluatorError, match="'note' returned 'not a number'"):
        HuggingFaceMetric(modules.Words(), "note")(Completion("a"), Example("", "b"))
    with pytest.raises(EvaluatorError, match="not the key 'bleu'"):
        HuggingFaceMetric(modules.Says(), "bleu")(Completion("1"), Example("", "b"))


def test_a_package_that_a_module_needs_is_named_and_no_extra(tmp_path: Path) -> None:
    pytest.importorskip("evaluate")
    folder = tmp_path / "bleu_of_a_test"
    folder.mkdir()
    module = (MODULE / "rouge.py").read_text()
    (folder / "bleu_of_a_test.py").write_text(f"import sacrebleu_of_a_test\n{module}")
    with pytest.raises(
        MissingExtraError, match="pip install sacrebleu_of_a_test"
    ) as raised:
        HuggingFaceMetric(folder, "rouge1").load()
    assert "asktell[" not in str(raised.value)
