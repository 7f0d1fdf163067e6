"""lm-eval itself makes the requests and scores the answers; the models are an LM of our own and a scripted server."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import datasets
import pytest
from lm_eval.api.model import LM

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.testing.evaluator_contract import EvaluatorContract, Make, Script
from asktell_adapters.harnesses.lm_eval import LMEvalTask
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply
from tests.words import lacking

Config: TypeAlias = dict[str, Any]


class Scripted(LM):  # type: ignore[misc]
    """Answers with functions of the text."""

    def __init__(
        self,
        write: Callable[[str], str | None] = str.upper,
        likelihood: Callable[[str, str], float] = lambda context, text: (
            -float(len(text))
        ),
    ) -> None:
        super().__init__()
        self.write = write
        self.likelihood = likelihood
        self.seen: list[str] = []
        self.calls = 0

    def generate_until(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[str | None]:
        self.calls += 1
        self.seen += [request.args[0] for request in requests]
        return [self.write(request.args[0]) for request in requests]

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        self.calls += 1
        self.seen += [request.args[0] for request in requests]
        return [(self.likelihood(*request.args), False) for request in requests]

    def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
        return [self.likelihood("", request.args[0]) for request in requests]

    def apply_chat_template(
        self, chat: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        return "".join(f"<{turn['role']}>{turn['content']}" for turn in chat)


def rows(**_: Any) -> dict[str, datasets.Dataset]:
    test = [{"question": f"q{i}", "answer": f"a{i}", "gold": i % 2} for i in range(6)]
    train = [{"question": f"t{i}", "answer": f"b{i}", "gold": i % 2} for i in range(20)]
    return {
        "test": datasets.Dataset.from_list(test),
        "train": datasets.Dataset.from_list(train),
    }


def exact(references: list[str], predictions: list[str], **_: Any) -> float:
    return float(references[0] == predictions[0])


GENERATE: Config = {
    "task": "questions",
    "custom_dataset": rows,
    "test_split": "test",
    "training_split": "train",
    "fewshot_split": "train",
    "output_type": "generate_until",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 9},
    "doc_to_text": "{{question}}:",
    "doc_to_target": "{{answer}}",
    "metric_list": [{"metric": exact, "aggregation": "mean", "higher_is_better": True}],
}
CHOOSE: Config = {
    "task": "choices",
    "custom_dataset": rows,
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}?",
    "doc_to_choice": ["no", "yes"],
    "doc_to_target": "gold",
    "metric_list": [
        {"metric": "acc", "aggregation": "mean", "higher_is_better": True},
        {"metric": "f1", "aggregation": "f1", "higher_is_better": True},
    ],
}


def trials(*pairs: tuple[str, int]) -> list[asktell.Trial]:
    return [
        asktell.Trial(index, f"p{index}", prompt, example)
        for index, (prompt, example) in enumerate(pairs)
    ]


def numbers(outcome: object) -> dict[str, float]:
    assert isinstance(outcome, dict), outcome
    assert outcome.pop("latency") >= 0
    return outcome


class TestContract(EvaluatorContract):
    metric = "written"

    @pytest.fixture
    def make(self) -> Make:
        def written(references: list[str], predictions: list[str], **_: Any) -> float:
            return float(predictions[0])

        def made(script: Script) -> LMEvalTask:
            def write(context: str) -> str | None:
                prompt, question = context.split("\n\n")
                outcome = script(prompt, int(question[1]))
                if outcome == "raises":
                    raise ZeroDivisionError("scripted")
                if outcome == "times out":
                    raise TimeoutError("scripted")
                return None if outcome == "no score" else str(outcome)

            metric = {
                "metric": written,
                "aggregation": "mean",
                "higher_is_better": True,
            }
            return LMEvalTask({**GENERATE, "metric_list": [metric]}, Scripted(write))

        return made


def test_generation() -> None:
    model = Scripted(lambda context: f"a{context[-2]}")
    evaluator = LMEvalTask(
        GENERATE, model, count_tokens=len, metrics=["exact", "output_tokens"]
    )
    assert len(evaluator.examples) == 6
    first, second = evaluator.evaluate_batch(
        trials(("Be brief.", 4), ("Be {brief} {{question}}", 0))
    )
    assert numbers(first) == numbers(second) == {"exact": 1.0, "output_tokens": 2.0}
    assert model.seen == ["Be brief.\n\nq4:", "Be {brief} {{question}}\n\nq0:"]
    assert model.calls == 1


# lm-eval's own `samples` mixes them up
def test_documents_in_any_order_keep_their_scores() -> None:
    model = Scripted(lambda context: "a4")
    outcomes = LMEvalTask(GENERATE, model).evaluate_batch(
        trials(("P", 4), ("P", 3), ("P", 5), ("P", 4))
    )
    assert [numbers(outcome)["exact"] for outcome in outcomes] == [1.0, 0.0, 0.0, 1.0]
    assert LMEvalTask(GENERATE, model).evaluate_batch([]) == []
    assert len(model.seen) == 4


def test_choices() -> None:
    model = Scripted(
        likelihood=lambda context, text: float(("yes" in context) == ("yes" in text))
    )
    outcomes = LMEvalTask(CHOOSE, model, metrics=["acc"]).evaluate_batch(
        trials(("yes", 1), ("yes", 2), ("no", 2))
    )
    assert [numbers(outcome) for outcome in outcomes] == [
        {"acc": 1.0},
        {"acc": 0.0},
        {"acc": 1.0},
    ]
    assert model.seen[:2] == ["yes\n\nq1?", "yes\n\nq1?"]


@pytest.mark.parametrize(
    ("insert", "prompt", "options", "expected"),
    [
        ("system", "Be brief.", {}, "Be brief.\n\nq1:"),
        ("system", "Be brief.\n", {}, "Be brief.\nq1:"),
        (
            "system",
            "Be {{brief}}.",
            {"apply_chat_template": True},
            "<system>Be {{brief}}.<user>q1:",
        ),
        ("description", "About {{question}}. ", {}, "About q1. q1:"),
        (
            "description",
            "{% raw %}{{x}} {%{% endraw %}{{'{# #}'}} ",
            {},
            "{{x}} {%{# #} q1:",
        ),
        ("description", "question", {}, "questionq1:"),
        ("doc_to_text", "Now {{question}} =", {}, "Now q1 ="),
        (
            "doc_to_text",
            "{{question | regex_replace('q', 'Q')}}{% for a in [1, 2] %}{{loop.index}}{% endfor %}",
            {},
            "Q112",
        ),
        ("doc_to_text", "{{question.upper()}} {{'{{x}}'}}", {}, "Q1 {{x}}"),
    ],
)
def test_how_a_prompt_enters(
    insert: str, prompt: str, options: Any, expected: str
) -> None:
    model = Scripted()
    LMEvalTask(GENERATE, model, insert=insert, **options).evaluate_batch(
        trials((prompt, 1))
    )
    assert model.seen == [expected]


@pytest.mark.parametrize("insert", ["description", "doc_to_text"])
@pytest.mark.parametrize(
    "template",
    [
        "{{ cycler.__init__.__globals__.os.mkdir('ran') }}",
        "{{ question.__class__.__base__.__subclasses__() }}",
        "{{ question['__class__'] }}",
        "{{ question | attr('__class__') }}",
        "{{ '{0.__class__.__base__}'.format(question) }}",
        "{% set f = question.format %}{{ f.__self__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ lipsum.__globals__.os.mkdir('ran') }}",
        "{{ picture.save('ran') }}",
        "{{ numbers.append(3) }}",
    ],
)
def test_a_template_reaches_nothing_but_the_document(
    template: str, insert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = Scripted()
    evaluator = LMEvalTask(GENERATE, model, insert=insert)
    evaluator.examples = [
        {
            "question": "q",
            "answer": "a",
            "gold": 0,
            "picture": Picture(),
            "numbers": [1, 2],
        }
    ]
    outcomes = evaluator.evaluate_batch(trials((template, 0), ("{{question}}", 0)))
    assert isinstance(outcomes[0], EvaluatorError)
    assert "SecurityError" in str(outcomes[0]) or "UndefinedError" in str(outcomes[0])
    assert isinstance(outcomes[1], dict)
    assert not (tmp_path / "ran").exists()


class Picture:
    """A field with methods, as an image has them."""

    def save(self, name: str) -> None:
        Path(name).mkdir()


def test_a_doc_to_text_also_shapes_the_few_shot_examples() -> None:
    model = Scripted()
    evaluator = LMEvalTask(GENERATE, model, insert="doc_to_text", num_fewshot=2)
    evaluator.evaluate_batch(trials(("Now {{question}} =", 1)))
    assert model.seen[0].count("Now t") == 2
    assert model.seen[0].endswith("Now q1 =")
    (failure,) = evaluator.evaluate_batch(trials(("Be brief.", 1)))
    assert "{{question}}" in str(failure)


def test_every_prompt_sees_the_same_few_shot_examples_in_any_order() -> None:
    def shots(*pairs: tuple[str, int]) -> dict[str, list[str]]:
        model = Scripted()
        LMEvalTask(GENERATE, model, num_fewshot=3).evaluate_batch(trials(*pairs))
        return {text.split("\n\n")[-1]: text.split("\n\n")[1:-1] for text in model.seen}

    first = shots(("A", 0), ("A", 1), ("A", 2))
    assert first == shots(("B", 2), ("B", 0), ("B", 1))
    assert len({tuple(examples) for examples in first.values()}) == 3
    assert {len(examples) for examples in first.values()} == {3}


def test_several_filters_are_several_metrics() -> None:
    filters = [
        {"name": "strict", "filter": [{"function": "take_first"}]},
        {
            "name": "found",
            "filter": [
                {"function": "regex", "regex_pattern": "(a.)"},
                {"function": "take_first"},
            ],
        },
    ]
    evaluator = LMEvalTask(
        {**GENERATE, "filter_list": filters},
        Scripted(lambda _: "It is a1."),
        metrics=["exact,found"],
    )
    (outcome,) = evaluator.evaluate_batch(trials(("P", 1)))
    assert numbers(outcome) == {"exact,strict": 0.0, "exact,found": 1.0}


def test_repeats() -> None:
    filters = [
        {
            "name": "vote",
            "filter": [{"function": "majority_vote"}, {"function": "take_first"}],
        }
    ]
    answers = iter(["a1", "a2", "a1"])
    evaluator = LMEvalTask(
        {**GENERATE, "repeats": 3, "filter_list": filters},
        Scripted(lambda _: next(answers)),
    )
    (outcome,) = evaluator.evaluate_batch(trials(("P", 1)))
    assert numbers(outcome) == {"exact": 1.0}


@pytest.mark.parametrize("answer", [None, "<nothing>"])
def test_no_answer_is_no_empty_answer(
    answer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER", "<nothing>")
    (failure,) = LMEvalTask(GENERATE, Scripted(lambda _: answer)).evaluate_batch(
        trials(("P", 1))
    )
    assert "returned no response to a generate_until request" in str(failure)


def test_a_likelihood_that_is_nan_is_no_wrong_answer() -> None:
    model = Scripted(
        likelihood=lambda context, text: math.nan if "bad" in context else -1.0
    )
    good, bad = LMEvalTask(CHOOSE, model).evaluate_batch(
        trials(("good", 0), ("bad", 0))
    )
    assert numbers(good) == {"acc": 1.0}
    assert "no response to a loglikelihood request" in str(bad)


def test_a_metric_that_gives_no_number_fails_only_if_it_is_wanted() -> None:
    def broken(references: list[str], predictions: list[str], **_: Any) -> float:
        return math.nan

    both = [
        *GENERATE["metric_list"],
        {"metric": broken, "aggregation": "mean", "higher_is_better": True},
    ]
    config = {**GENERATE, "metric_list": both}
    (outcome,) = LMEvalTask(config, Scripted(), metrics=["exact"]).evaluate_batch(
        trials(("P", 1))
    )
    assert math.isnan(numbers(outcome)["broken"])
    (failure,) = LMEvalTask(config, Scripted(), metrics=["broken"]).evaluate_batch(
        trials(("P", 1))
    )
    assert isinstance(failure, EvaluatorError)
    assert not lacking(str(failure), "'broken'", "nan")


ONLY_F1 = {**CHOOSE, "metric_list": CHOOSE["metric_list"][1:]}


@pytest.mark.parametrize(
    ("task", "options", "words"),
    [
        (
            CHOOSE,
            {"metrics": ["f1"]},
            r"'f1'.*all documents",
        ),
        (
            CHOOSE,
            {"metrics": ["accuracy"]},
            r"'accuracy'.*'acc', 'latency'",
        ),
        (CHOOSE, {"metrics": "acc"}, "list.*'acc'"),
        (ONLY_F1, {}, "all documents"),
        (CHOOSE, {"insert": "prompt"}, "insert.*'prompt'"),
        ({**CHOOSE, "unsafe_code": True}, {}, "confirm_run_unsafe_code=True"),
        ({"task": "nothing"}, {}, "task.*'nothing'"),
        (
            "no/such.yaml",
            {},
            r"task 'no/such.yaml'.*FileNotFoundError",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(
    task: Any, options: Any, words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        LMEvalTask(task, Scripted(), **options)


def test_models_that_cannot_be_used() -> None:
    with pytest.raises(InvalidArgumentError, match=r"LM or its name.*object"):
        LMEvalTask(CHOOSE, object())
    with pytest.raises(EvaluatorError, match="model 'nobody'"):
        LMEvalTask(CHOOSE, "nobody")
    (outcome,) = LMEvalTask(CHOOSE, "dummy").evaluate_batch(trials(("P", 1)))
    assert set(numbers(outcome)) == {"acc"}


def test_a_missing_example_fails_alone() -> None:
    good, bad = LMEvalTask(CHOOSE, Scripted()).evaluate_batch(
        trials(("P", 0), ("P", 6))
    )
    assert isinstance(good, dict)
    assert "Make the selector with examples=" in str(bad)


YAML = """
task: from_a_file
dataset_path: json
dataset_kwargs:
  data_files: {file}
test_split: train
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a task in a YAML file, and a group with it."""
    (tmp_path / "docs.jsonl").write_text(
        '{"question": "q0", "answer": "a0"}\n{"question": "q1", "answer": "a1"}\n'
    )
    (tmp_path / "task.yaml").write_text(YAML.format(file=tmp_path / "docs.jsonl"))
    (tmp_path / "other.yaml").write_text(
        YAML.format(file=tmp_path / "docs.jsonl").replace("from_a_file", "another")
    )
    (tmp_path / "group.yaml").write_text(
        "group: both\ntask:\n  - from_a_file\n  - another\n"
    )
    return tmp_path


def test_a_task_from_a_file(folder: Path) -> None:
    for file in (folder / "task.yaml", str(folder / "task.yaml")):
        (outcome,) = LMEvalTask(file, Scripted(lambda _: "a1")).evaluate_batch(
            trials(("P", 1))
        )
        assert numbers(outcome) == {"exact_match": 1.0}


def test_a_group_of_tasks_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lm_eval.tasks import TaskManager

    from asktell_adapters.harnesses import lm_eval

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    monkeypatch.setattr(lm_eval, "_manager", lambda: manager)
    with pytest.raises(
        InvalidArgumentError,
        match=r"'both'.*group.*another, from_a_file",
    ):
        LMEvalTask("both", Scripted())
    with pytest.raises(InvalidArgumentError, match="task 'neither'"):
        LMEvalTask("neither", Scripted())
    assert len(LMEvalTask("another", Scripted()).examples) == 2


def test_over_http() -> None:
    refused = Reply(status=400, text="too long")
    with FaultyLLMServer([refused, refused], echo=True) as server:
        arguments = {
            "model": "m",
            "base_url": f"{server.base_url}/chat/completions",
            "max_retries": 1,
        }
        config = {**GENERATE, "doc_to_text": "{{answer}}"}
        evaluator = LMEvalTask(
            config,
            "local-chat-completions",
            arguments,
            apply_chat_template=True,
            count_tokens=lambda text: len(text.split()),
        )
        goal = asktell.BestFeasible("exact", {asktell.minimize("output_tokens"): 100})
        selector = asktell.Selector(
            ["Repeat.", "Say it again."],
            goal,
            8,
            "uniform",
            examples=len(evaluator.examples),
        )
        result = asktell.run(selector, evaluator, concurrency=3, progress=False)
    assert sum(entry.failures for entry in result.prompts) == 1
    recorded = [found.scores for found in selector.evaluations() if not found.error]
    assert recorded == [{"exact": 1.0, "output_tokens": 1.0}] * result.spent
    (reason,) = selector.state.failures.reasons()
    assert "400" in reason
    assert {body["messages"][0]["content"] for body in server.requests} == {
        "Repeat.",
        "Say it again.",
    }


def test_with_a_study(tmp_path: Path) -> None:
    evaluator = LMEvalTask(CHOOSE, Scripted(), metrics=["acc"])
    selector = asktell.Selector(
        ["A", "B"],
        asktell.BestFeasible("acc"),
        6,
        "uniform",
        examples=len(evaluator.examples),
    )
    with asktell.Study.create(tmp_path / "studies.db", "lm-eval", selector) as study:
        assert asktell.run(study, evaluator, progress=False).spent == 6
