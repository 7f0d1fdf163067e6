"""Hugging Face evaluate, offline: its modules as metrics, and its task evaluators."""

import pickle
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.testing.evaluator_contract import EvaluatorContract, Make, Script
from asktell_adapters.evaluators import Completion, Example, LLMEvaluator, ScriptedLLM
from asktell_adapters.metrics import ROUGE_MODULE, HuggingFaceMetric, Rouge

evaluate = pytest.importorskip("evaluate")
datasets = pytest.importorskip("datasets")
pytest.importorskip("transformers")

from asktell_adapters.evaluators.hf_evaluate import TaskEvaluator, answers  # noqa: E402

TEXT, NUMBER = datasets.Value("string"), datasets.Value("int64")


def info(features: dict[str, Any], kind: str = "metric") -> Any:
    of = {"metric": evaluate.MetricInfo, "measurement": evaluate.MeasurementInfo}[kind]
    return of(description="", citation="", inputs_description="", features=datasets.Features(features))


class Says(evaluate.Metric):  # type: ignore[misc]
    """The prediction itself, as a number."""

    def _info(self) -> Any:
        return info({"predictions": TEXT, "references": TEXT})

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        (text,) = predictions
        return {} if text == "no score" else {"score": float(text)}


class Same(evaluate.Metric):  # type: ignore[misc]
    calls = 0

    def _info(self) -> Any:
        return info({"predictions": NUMBER, "references": NUMBER})

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        Same.calls += 1
        return {"accuracy": float(predictions == references), "n": len(predictions)}


class Words(evaluate.Measurement):  # type: ignore[misc]
    def _info(self) -> Any:
        return info({"data": TEXT}, "measurement")

    def _compute(self, data: list[str]) -> dict[str, Any]:
        return {"words": len(data[0].split()), "note": "not a number"}


class Bare(evaluate.Metric):  # type: ignore[misc]
    """As the hub's wer, which returns a number and no mapping."""

    def _info(self) -> Any:
        return info({"predictions": TEXT, "references": TEXT})

    def _compute(self, predictions: list[str], references: list[str]) -> float:
        return 0.25


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_EVALUATE_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


# Modules as metrics

LABELS = ["no", "yes"]


def label(completion: Completion, example: Example) -> int:
    return LABELS.index(completion.text)


def test_what_is_no_text_is_made_of_it() -> None:
    accuracy = HuggingFaceMetric(
        Same(), "accuracy", prediction=label, reference=lambda completion, example: example.fields["label"]
    )
    example = Example("is it?", fields={"label": 1})
    assert accuracy(Completion("yes"), example) == 1.0
    assert accuracy(Completion("no"), example) == 0.0
    with pytest.raises(ValueError, match="perhaps"):
        accuracy(Completion("perhaps"), example)


def test_a_measurement_needs_no_reference() -> None:
    assert HuggingFaceMetric(Words(), "words")(Completion("three short words"), Example("")) == 3.0


def test_a_module_without_keys_has_its_name() -> None:
    assert HuggingFaceMetric(Bare(), "bare")(Completion("a"), Example("", "b")) == 0.25


def test_several_values_are_computed_once() -> None:
    Same.calls = 0
    both = evaluate.combine({"a": Same(), "b": Same()}, force_prefix=True)
    metrics = HuggingFaceMetric.several(
        both, {"first": "a_accuracy", "second": "b_accuracy"}, prediction=label, reference=lambda completion, example: 1
    )
    llm = ScriptedLLM(lambda request: Completion("yes"))
    evaluator = LLMEvaluator(llm, [Example("?"), Example("!")], metrics)
    assert evaluator("p", 0) == {"first": 1.0, "second": 1.0}
    assert Same.calls == 2, "each of the two modules once"
    evaluator("p", 1)
    assert Same.calls == 4, "another completion is computed anew"


def test_several_keys_of_a_folder() -> None:
    metrics = HuggingFaceMetric.several(ROUGE_MODULE, ["rouge1", "rougeL"], use_aggregator=False)
    completion, example = Completion("the cat sat"), Example("", "the cat")
    metrics["rouge1"].load()
    assert {name: metric(completion, example) for name, metric in metrics.items()} == {
        name: Rouge(name)(completion, example) for name in ("rouge1", "rougeL")
    }
    again = pickle.loads(pickle.dumps(HuggingFaceMetric(str(ROUGE_MODULE), "rouge1", use_aggregator=False)))
    assert again(completion, example) == metrics["rouge1"](completion, example)


def test_a_nan_or_no_number_is_an_error() -> None:
    with pytest.raises(EvaluatorError, match="'score' gave nan"):
        HuggingFaceMetric(Says(), "score")(Completion("nan"), Example("", "b"))
    with pytest.raises(EvaluatorError, match="'note' gave 'not a number'"):
        HuggingFaceMetric(Words(), "note")(Completion("a"), Example("", "b"))
    with pytest.raises(EvaluatorError, match="lacks 'bleu'"):
        HuggingFaceMetric(Says(), "bleu")(Completion("1"), Example("", "b"))


# Task evaluators


class TestContract(EvaluatorContract):
    @pytest.fixture
    def make(self) -> Make:
        def make(script: Script) -> TaskEvaluator:
            def pipe(texts: list[str]) -> list[str]:
                (text,) = texts
                prompt, row = text.split("\n\n")
                outcome = script(prompt, int(row.split()[1]))
                if outcome == "raises":
                    raise ConnectionError("scripted")
                if outcome == "times out":
                    raise TimeoutError("scripted")
                return [str(outcome)]

            rows = [{"text": f"row {i}", "label": "?"} for i in range(self.n_examples)]
            return TaskEvaluator("text2text-generation", pipe, rows, Says())

        return make


ROWS = [{"document": "The cat sat on the mat.", "summary": "cat on mat"}, {"document": "It rained.", "summary": "rain"}]


def summarizer(texts: list[str]) -> list[str]:
    return ["cat on mat" if text.startswith("Briefly.") else text for text in texts]


def test_it_says_what_evaluate_says() -> None:
    """Here on two rows one by one; there on a data set whose inputs have the prompt in them."""
    from evaluate import SummarizationEvaluator

    theirs = SummarizationEvaluator()
    ours = TaskEvaluator(theirs, summarizer, ROWS, str(ROUGE_MODULE), input_column="document", label_column="summary")
    assert "prepare_pipeline" not in vars(theirs), "the evaluator that was passed stays as it was"
    theirs.prepare_pipeline = lambda **_: lambda texts, **_: [{"summary_text": s} for s in summarizer(list(texts))]
    for row, document in enumerate(ROWS):
        prompted = datasets.Dataset.from_list([{**document, "document": f"Briefly.\n\n{document['document']}"}])
        expected = theirs.compute(
            data=prompted, metric=evaluate.load(str(ROUGE_MODULE)), input_column="document", label_column="summary"
        )
        for name in ("rouge1", "rougeL"):
            assert ours("Briefly.", row)[name] == expected[name]


def test_text_generation_has_measurements() -> None:
    evaluator = TaskEvaluator("text-generation", lambda texts: ["one two"], [{"text": "a"}], Words())
    scores = evaluator("p", 0)
    assert scores["words"] == 2.0
    assert "note" not in scores


def test_text_classification_maps_labels() -> None:
    rows = [{"text": "fine", "label": 1}, {"text": "poor", "label": 0}]
    evaluator = TaskEvaluator(
        "text-classification",
        lambda texts: [{"label": "POS" if "fine" in text["text"] else "NEG", "score": 0.9} for text in texts],
        rows,
        Same(),
        label_mapping={"NEG": 0, "POS": 1},
    )
    assert [evaluator("Classify.", row)["accuracy"] for row in range(2)] == [1.0, 1.0]


class Squad(evaluate.Metric):  # type: ignore[misc]
    def _info(self) -> Any:
        answers = datasets.Features({"text": datasets.Sequence(TEXT), "answer_start": datasets.Sequence(NUMBER)})
        return info(
            {"predictions": {"id": TEXT, "prediction_text": TEXT}, "references": {"id": TEXT, "answers": answers}}
        )

    def _compute(self, predictions: list[Any], references: list[Any]) -> dict[str, float]:
        return {"exact": float(predictions[0]["prediction_text"] in references[0]["answers"]["text"])}


def test_question_answering() -> None:
    asked: list[tuple[list[str], list[str]]] = []

    def reader(question: list[str], context: list[str]) -> list[str]:
        asked.append((question, context))
        return ["Paris"]

    row = {"id": "q", "question": "Where?", "context": "In Paris.", "answers": {"text": ["Paris"], "answer_start": [3]}}
    evaluator = TaskEvaluator("question-answering", reader, [row], Squad(), squad_v2_format=False)
    assert evaluator("Read.", 0)["exact"] == 1.0
    assert asked == [(["Read.\n\nWhere?"], ["In Paris."])]


def test_an_llm_is_a_pipeline() -> None:
    llm = ScriptedLLM(lambda request: Completion(request.messages[-1]["content"].split()[0]))
    evaluator = TaskEvaluator("translation", answers(llm), [{"text": "a", "label": "b"}], Says())
    assert evaluator("0.5 is what to say.", 0)["score"] == 0.5

    broken = ScriptedLLM(lambda request: ConnectionError("offline"))
    with pytest.raises(ConnectionError):
        TaskEvaluator("translation", answers(broken), [{"text": "a", "label": "b"}], Says())("p", 0)


def test_wrong_set_ups(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": "b"}]
    with pytest.raises(InvalidArgumentError, match=r"no task 'poetry'; it has .*summarization"):
        TaskEvaluator("poetry", summarizer, rows, Says())
    with pytest.raises(InvalidArgumentError, match="at least one row"):
        TaskEvaluator("translation", summarizer, [], Says())
    with pytest.raises(InvalidArgumentError, match=r"no column 'source' .*\['text', 'label'\].*input_column"):
        TaskEvaluator("translation", summarizer, rows, Says(), input_column="source")
    with pytest.raises(InvalidArgumentError, match=r"names \{topic\}"):
        TaskEvaluator("translation", summarizer, rows, Says(), template="{prompt} {topic}")
    with pytest.raises(InvalidArgumentError, match="must be a module of evaluate"):
        TaskEvaluator("translation", summarizer, rows, 3)
    with pytest.raises(EvaluatorError, match="Without a network"):
        TaskEvaluator("summarization", summarizer, rows)  # its own metric is on the hub
    with pytest.raises(EvaluatorError, match="could not make a pipeline of"):
        TaskEvaluator("text-generation", str(tmp_path), rows, Words())
    evaluator = TaskEvaluator("translation", summarizer, rows, Says())
    for example in (None, 1):
        with pytest.raises(InvalidArgumentError, match="make the selector with examples="):
            evaluator("p", example)


def test_a_factor_model_is_a_pipeline_of_its_own_and_what_cannot_be_is_refused() -> None:
    made: list[str] = []

    def prepare(model_or_pipeline: str, **_: Any) -> Any:
        made.append(model_or_pipeline)
        return lambda texts, **_: [model_or_pipeline for _ in texts]

    task = TaskEvaluator("translation", lambda texts: list(texts), ROWS_OF_TEXT, Says())._evaluator
    task.prepare_pipeline = prepare
    evaluator = TaskEvaluator(task, "0.5", ROWS_OF_TEXT, Says())
    grid = asktell.grid(model=["0.25", "0.75"], prompt={"p": "Translate."})
    selector = asktell.Selector(grid, asktell.BestFeasible("score"), 4, examples=2)
    result = asktell.run(selector, evaluator, progress=False)
    assert [entry.estimate["score"] for entry in result.prompts] == [0.25, 0.75]
    assert made == ["0.5", "0.25", "0.75"]
    assert evaluator("Translate.", 0)["score"] == 0.5
    ready = TaskEvaluator("translation", lambda texts: ["1" for _ in texts], ROWS_OF_TEXT, Says())
    with pytest.raises(InvalidArgumentError, match="a ready pipeline of one model"):
        ready.check_prompts(dict(zip(grid.ids, grid, strict=True)))
    with pytest.raises(InvalidArgumentError, match=r"takes the factors 'prompt' and 'model', got \['temperature'\]"):
        ready({"temperature": 0.5}, 0)


ROWS_OF_TEXT = [{"text": "a", "label": "b"}, {"text": "c", "label": "d"}]
