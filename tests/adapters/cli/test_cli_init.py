"""`asktell init` and `asktell check`: a configuration that runs, and one evaluation of it seen whole."""

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from asktell import ConfigError
from asktell_adapters.cli.main import main
from asktell_adapters.config import load_config
from asktell_adapters.config.model import MODELS, ModelType, NamedModel, PriceTable
from asktell_adapters.config.tables import options_table
from asktell_adapters.llms.base import Completion, Request
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.metrics import range_of
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply
from tests.adapters.cli.test_cli import Project
from tests.command_line import Terminal, cli


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


# init


@pytest.mark.parametrize("rubric", [False, True])
@pytest.mark.parametrize("kind", MODELS.built_in)
def test_what_is_written_can_be_read_for_every_kind(
    kind: str, rubric: bool, home: Path
) -> None:
    said = cli(
        f"init a.toml --kind {kind} {'--rubric helpful=Helps.' if rubric else ''}"
    ).out
    config = load_config(home / "a.toml")
    assert config.models.first.type == kind
    assert (
        len(config.selector.prompts),
        len(config.examples),
        config.selector.budget,
    ) == (4, 8, 32)
    (objective,) = config.selector.goal.objectives
    metric = "quality" if rubric else "token_f1"
    assert (objective.metric, objective.range) == (
        metric,
        range_of(config.metrics[metric]),
    )
    assert "Wrote a.toml, prompts.txt, examples.csv: 4 prompts, 8 examples." in said
    assert [
        line in said
        for line in ("asktell check a.toml", "asktell run a.toml --estimate")
    ] == [True, True]
    assert ("export OPENAI_API_KEY" in said) == (kind == "openai")


@pytest.mark.parametrize("kind", MODELS.built_in)
def test_every_line_of_advice_can_be_taken(kind: str, home: Path) -> None:
    cli(f"init a.toml --kind {kind} --rubric Good.")
    text = (home / "a.toml").read_text()
    advice = re.findall(r"^# (\w+ = .*)$", text, re.MULTILINE)
    assert len(advice) >= 5
    for line in advice:
        taken = text.replace(f"# {line}", line)
        if line.startswith("budget"):
            taken = taken.replace("budget = 32", "")
        if line.startswith(("budget", "confirm_above")):  # which go with a price
            if kind != "openai":
                continue
            taken = taken.replace("# price", "price")
        (home / "b.toml").write_text(taken)
        load_config(home / "b.toml")


class Echo:
    """An LLM that repeats the user message."""

    def __init__(
        self,
        model: str,
        *,
        concurrency: int = 1,
        shout: bool = False,
        price: Price | None = None,
    ) -> None:
        self.shout = shout

    def identity(self) -> dict[str, Any]:
        return {"llm": "echo"}

    def complete(self, requests: list[Request], /) -> list[Completion]:
        return [
            Completion(str(each.messages[-1]["content"]), 1, 1) for each in requests
        ]


def test_a_kind_of_llm_is_added_in_one_place(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = options_table(
        Echo, "shout", base=NamedModel, price=(PriceTable | None, None)
    )
    row = ModelType(
        Echo,
        table,
        about="a name of your choice",
        summary="an LLM that repeats",
        first="parrot",
        advice=(("shout = true", "in capitals"),),
        concurrency=5,
    )
    monkeypatch.setitem(MODELS.built_in, "echo", row)  # type: ignore[arg-type]
    with pytest.raises(SystemExit):
        main(["init", "--help"])
    assert "echo, promptfoo" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr("sys.stdin", Terminal("echo\n" + 10 * "\n"))
    assert "  echo         an LLM that repeats" in cli("init asked.toml").err

    cli("init a.toml --kind echo")
    text = (home / "a.toml").read_text()
    assert 'type = "echo"\nmodel = "parrot"' in text
    config = load_config(home / "a.toml")
    assert config.concurrency == 5
    assert config.evaluator().llm.shout is True
    unpriced = text.replace("[metrics]", "[metrics]\ncost = true")
    with pytest.raises(
        ConfigError, match="The types 'openai', 'litellm', 'echo' can have a price"
    ):
        load_config(home / "a.toml", text=unpriced)
    priced = unpriced.replace(
        "\n[model]\n", "\n[model]\nprice = { input = 1, output = 2 }\n"
    )
    assert load_config(home / "a.toml", text=priced).is_priced
    with pytest.raises(
        ConfigError, match=r"must be one of .*'vllm', 'echo' .did you mean 'echo'"
    ):
        load_config(home / "a.toml", text=text.replace('"echo"', '"ecko"'))
    with pytest.raises(SystemExit):
        main(["init", "b.toml", "--kind", "ecko"])
    assert "invalid choice: 'ecko'" in capsys.readouterr().err


def test_data_of_ones_own_are_taken_as_they_are(home: Path) -> None:
    (home / "data").mkdir()
    (home / "data" / "tickets.csv").write_bytes(
        "nr;text;reply\n1;Où est-il ?;à côté\n2;b;c\n".encode("cp1252")
    )
    (home / "p.json").write_text('{"a": "A", "b": "B"}')
    made = "init runs.toml --kind openai --model m --base-url http://localhost:1/v1 --api-key-env MY_KEY --price 1 2"
    cli(f"{made} --data data/tickets.csv --prompts p.json --reference reply --budget 3")
    config = load_config(home / "runs.toml")
    assert [(e.input, e.reference) for e in config.examples] == [
        ("Où est-il ?", "à côté"),
        ("b", "c"),
    ]
    assert config.selector.prompts.ids == ["a", "b"]
    assert config.selector.budget == 3
    assert config.models.first.api_key_env == "MY_KEY"
    assert config.models.first.price.price() == Price(1, 2)
    assert "cost" in config.metrics
    (limit,) = config.selector.goal.constraints
    assert (limit.metric, limit.bound) == (
        "cost",
        pytest.approx((8 * 1 + 256 * 2) / 1e6, rel=0.02),
    )
    assert sorted(path.name for path in home.iterdir()) == [
        "data",
        "p.json",
        "runs.toml",
    ]


@pytest.mark.parametrize("option", ["--encoding utf-16", "--sheet 2", "--split test"])
def test_how_data_are_to_be_read_is_not_said_of_the_small_example(
    option: str, home: Path
) -> None:
    cli(f"init --kind openai {option}")
    assert load_config(home / "selection.toml").examples[0].reference == "Paris"


def test_without_a_wanted_answer_a_judge_grades(home: Path) -> None:
    (home / "d.jsonl").write_text('{"article": "a", "id": "x"}\n')
    cli(
        "init --kind openai --data d.jsonl --rubric 'Is right.' --rubric 'short=Is short: \"one\" line.'"
    )
    config: Any = load_config(home / "selection.toml")
    assert config.dataset.names == ("x",)
    criteria = config.metrics["quality"].rubric.criteria
    assert {name: each.text for name, each in criteria.items()} == {
        "criterion 1": "Is right.", "short": 'Is short: "one" line.',
    }  # fmt: skip


def test_nothing_is_replaced_unless_told(home: Path) -> None:
    (home / "prompts.txt").write_text("mine\nalso mine\n")
    (home / "a.toml").write_text("mine")
    assert "'a.toml' exists already" in cli("init a.toml --kind openai", code=2).err
    assert (home / "a.toml").read_text() == "mine"
    cli("init a.toml --kind openai --force")
    assert load_config(home / "a.toml").selector.prompts.texts == ["mine", "also mine"]
    assert (home / "prompts.txt").read_text() == "mine\nalso mine\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "--kind openai --api-key-env sk-abcdefghijklmnopqrstuvwx",
            "Never give the key",
        ),
        (
            "--kind openai --base-url https://me:secret@example.org",
            "a URL with a password",
        ),
        ("--kind llama-cpp --price 1 2", "can be used only with --kind openai"),
        ("--kind openai --data none.csv", "There is no file 'none.csv'"),
        (
            "--kind openai --data d.csv --input questoin",
            "no column 'questoin' (did you mean 'question'?)",
        ),
        ("--kind openai --data d.csv --reference nothing", "no column 'nothing'"),
        ("--kind openai --prompts d.csv", "no column 'prompt'"),
        ("--kind openai --budget 0", "budget"),
        (
            "--kind promptfoo --data d.csv",
            "--data cannot be used with --kind promptfoo",
        ),
        (
            "--kind promptfoo --prompts d.csv",
            "the prompts are in promptfoo's configuration",
        ),
        ("--kind inspect --prompts none.txt", "There is no file 'none.txt'"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(
    options: str, said: str, home: Path
) -> None:
    (home / "d.csv").write_text("question,answer\na,b\n")
    error = cli(f"init a.toml {options}", code=2).err
    assert said in error
    assert "secret" not in error.replace("secrets", "")
    assert "sk-abc" not in error
    assert [path.name for path in home.iterdir()] == ["d.csv"]


def test_in_a_terminal_it_asks_until_it_understands(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "d.csv").write_text("question;answer;who\na;b;c\n")
    answers = [
        "openia",
        "openai",
        "m",
        "",
        "sk-x",
        "MY_KEY",
        "",
        "none.csv",
        "d.csv",
        "nobody",
        "who",
        "answer",
        "",
    ]
    monkeypatch.setattr("sys.stdin", Terminal("\n".join([*answers, ""])))
    asked = cli("init").err
    assert "(did you mean 'openai'?)" in asked
    assert "There is no file 'none.csv'" in asked
    assert "has no column 'nobody'" in asked
    config = load_config(home / "selection.toml")
    assert (config.examples[0].input, config.examples[0].reference) == ("c", "b")
    assert config.models.first.api_key_env == "MY_KEY"


@pytest.mark.parametrize("in_terminal", [False, True])
@pytest.mark.parametrize(
    ("columns", "reference"),
    [
        ("Customer message,Reference answer", "Reference answer"),
        ("message,answer,EXPECTED", "EXPECTED"),
        ("message,Ground Truth Answer", "Ground Truth Answer"),
        ("message,gold-answer", "gold-answer"),
        ("message,expectedOutput", "expectedOutput"),
        ("message,correct", None),
        ("message,answered by", None),
    ],
)
def test_the_column_of_the_wanted_answer_is_recognized_and_named(
    columns: str,
    reference: str | None,
    in_terminal: bool,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = ["some text", "other text", "third text"][: columns.count(",") + 1]
    (home / "d.csv").write_text(f"{columns}\n{','.join(texts)}\n")
    monkeypatch.setattr(
        "sys.stdin", Terminal("\n" * 20) if in_terminal else io.StringIO()
    )
    shown = cli("init --kind openai --data d.csv" + ("" if in_terminal else " --yes"))
    expected = None if reference is None else texts[columns.split(",").index(reference)]
    assert load_config(home / "selection.toml").examples[0].reference == expected
    wanted = (
        "no reference (--reference COLUMN)"
        if reference is None
        else f'reference: "{reference}"'
    )
    assert wanted in shown.out
    if in_terminal:
        question = f"Column of the reference response? (columns: {columns.replace(',', ', ')}) [{reference or 'none'}]"
        assert question in shown.err


@pytest.mark.parametrize(
    ("prompts", "fields"),
    [
        ("Q: {question}\nBe brief.\n", True),
        ('Return {"question": 1}\n', None),
        ("{question}, as {name}\n", None),
    ],
)
def test_prompts_that_name_columns_are_templates(
    prompts: str, fields: bool | None, home: Path
) -> None:
    (home / "p.txt").write_text(prompts)
    cli("init --kind openai --prompts p.txt")
    assert load_config(home / "selection.toml").fields is fields


@pytest.mark.parametrize(
    ("said", "noted"),
    [("", True), ("fields = true\n", False), ("fields = false\n", False)],
)
def test_a_column_in_braces_that_stands_for_nothing_is_pointed_out(
    said: str, noted: bool, home: Path
) -> None:
    (home / "p.txt").write_text("Q: {question}\nBe brief.\n")
    cli("init a.toml --kind openai --prompts p.txt")
    text = (home / "a.toml").read_text()
    (home / "a.toml").write_text(
        re.sub(r"^fields = true .*\n", said, text, flags=re.MULTILINE)
    )
    warned = cli("run a.toml --estimate", code=2).err  # without a key
    assert ("{question} is sent as it is (prompt 0)" in warned) is noted


def test_how_files_are_to_be_read_is_written(home: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_list([{"question": "a", "answer": "b"}])
    datasets.DatasetDict({"train": rows, "test": rows}).save_to_disk(str(home / "d"))
    (home / "p.txt").write_bytes("Höflich.\nKürzer.\n".encode("cp1252"))
    assert (
        "Choose one of the splits 'train', 'test', for example split = 'train'"
        in cli("init --kind openai --data d --prompts p.txt", code=2).err
    )
    cli("init --kind openai --data d --prompts p.txt --split test")
    assert load_config(home / "selection.toml").selector.prompts.texts == [
        "Höflich.",
        "Kürzer.",
    ]


class Fake:
    """A harness that is not installed here: it scores by the prompt's length."""

    tests: ClassVar[Any] = [{"description": "", "vars": {"n": n}} for n in range(5)]
    examples = tuple(
        SimpleNamespace(input=f"What is {n}?", id=n + 1, target=f"{n}!")
        for n in range(20)
    )
    prompts: ClassVar[Any] = {"prompt-1": "a", "prompt-2": "abc"}

    closed: ClassVar[list[Any]] = []

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.given = arguments, options

    def close(self) -> None:
        self.closed.append(self)

    def evaluate_batch(self, trials: Any) -> list[Any]:
        return [
            {"score": len(t.prompt) / 100, "includes": len(t.prompt) / 100, "cost": 0.5}
            for t in trials
        ]


@pytest.mark.parametrize("kind", ["promptfoo", "inspect"])
def test_a_harness_is_configured_checked_and_run(
    kind: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asktell_adapters.harnesses.inspect.task
    import asktell_adapters.harnesses.promptfoo

    monkeypatch.setattr(Fake, "closed", [])
    monkeypatch.setattr(
        asktell_adapters.harnesses.promptfoo, "PromptfooEvaluator", Fake
    )
    monkeypatch.setattr(asktell_adapters.harnesses.inspect.task, "InspectTask", Fake)
    assert "asktell check a.toml" in cli(f"init a.toml --kind {kind}").out
    if kind == "inspect":
        compile((home / "inspect_task.py").read_text(), "inspect_task.py", "exec")
        (home / "a.toml").write_text(
            (home / "a.toml").read_text().replace("inspect_task:", "task_of_a_test:")
        )
        (home / "task_of_a_test.py").write_text("def task():\n    return 'the task'\n")
    config = load_config(home / "a.toml")
    given, options = config.harness.evaluator.given
    if kind == "inspect":
        assert (given[0], given[1], options["log_dir"].name) == (
            "the task",
            "openai/gpt-4o-mini",
            "logs",
        )
        assert config.dataset.names == tuple(str(n + 1) for n in range(20))
    else:
        assert given[0] == home / "promptfooconfig.yaml"
        assert config.selector.prompts.ids == ["prompt-1", "prompt-2"]
        assert (len(config.dataset), config.dataset.names) == (5, None)
    checked = cli("check a.toml").out
    assert re.search(r"\nincludes  0\.\d+\n", checked)
    assert ("--- reference\n0!\n--- scores" in checked) == (kind == "inspect")
    assert "unknown until an evaluation is tried" in cli("run a.toml --estimate").out
    estimated = json.loads(cli("run a.toml --estimate 2 --json").out)
    assert (estimated["tried"], estimated["tried_cost"]) == (2, 1.0)
    assert estimated["cost"] == 0.5 * (estimated["evaluations"] + estimated["repeats"])
    assert "final" in (said := cli("run a.toml").out)
    longest = max(config.selector.prompts.texts, key=len)
    assert longest[:20] in said.split("prompt\n")[1].split("\n")[0]
    assert (
        "[evaluator] cannot be used by asktell improve"
        in cli("improve a.toml", code=2).err
    )
    cli("report a.toml")
    assert len(Fake.closed) == 4, "a check, two estimates and a run"
    text = (home / "a.toml").read_text()
    (home / "a.toml").write_text(text.replace('maximize = "', 'maximize = "no_'))
    assert (
        "but the evaluator returned only ['cost', 'includes', 'score']"
        in cli("check a.toml", code=2).err
    )


class Promptfoo(Fake):
    """A promptfoo config with two assertions, one of which runs code."""

    metrics: ClassVar[Any] = ["accuracy", "length"]
    unbounded: ClassVar[Any] = ["length"]

    def __enter__(self) -> "Promptfoo":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def test_promptfoos_score_is_not_maximized_unasked_where_it_may_mean_anything(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asktell_adapters.harnesses.promptfoo

    monkeypatch.setattr(
        asktell_adapters.harnesses.promptfoo, "PromptfooEvaluator", Promptfoo
    )

    def maximized(words: str = "") -> str:
        cli(f"init a.toml --force --promptfoo promptfooconfig.yaml {words}")
        return str(load_config(home / "a.toml").selector.goal.metrics[0])

    refused = cli("init a.toml --promptfoo promptfooconfig.yaml", code=2).err
    assert "the assertion 'length' runs code that may return any number" in refused
    assert "with one of the metrics 'accuracy', 'success', 'length', 'score'" in refused
    assert not (home / "a.toml").exists()
    assert maximized("--maximize length") == "length"
    assert maximized("--maximize score") == "score"
    assert (
        "(did you mean 'accuracy'?)"
        in cli(
            "init b.toml --promptfoo promptfooconfig.yaml --maximize acuracy", code=2
        ).err
    )
    assert (
        "--maximize can be used only with --promptfoo"
        in cli("init b.toml --kind openai --maximize score", code=2).err
    )
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    assert maximized() == "accuracy"
    monkeypatch.setattr(Promptfoo, "unbounded", [])
    assert maximized("--yes") == "score"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            "",
            "[evaluator] needs exactly one of command = [...], type = '...' and loader = '...', got none",
        ),
        ("type = 'inspect'\nloader = 'a:b'", "got type and loader"),
        (
            "loader = 'harness_of_a_test:good'\nworkers = 2",
            "'workers' in [evaluator] can be used only with `command`",
        ),
        (
            "loader = 'harness_of_a_test:good'\n[data]\nfile = 'a.csv'",
            "which has data, models and metrics of its own",
        ),
        ("command = ['true']", "'command' in [evaluator] needs the table [data]"),
        (
            "command = ['true']\n[metrics]\nrouge = true",
            "[metrics] cannot be combined with [evaluator]",
        ),
        ("type = 'promtfoo'", "must be one of 'promptfoo', 'inspect'"),
        ("loader = 'harness_of_a_test:empty'", "gives an evaluator without examples"),
        (
            "loader = 'harness_of_a_test:no_batches'",
            "must return an object with evaluate_batch",
        ),
        (
            "loader = 'harness_of_a_test:good'\n[model]\ntype = 'openai'",
            "[model] cannot be combined with [evaluator]",
        ),
    ],
)
def test_mistakes_in_the_table_of_an_evaluator_are_named(
    table: str, said: str, home: Path
) -> None:
    (home / "harness_of_a_test.py").write_text(
        "class Good:\n    examples = ['a', 'b']\n    def evaluate_batch(self, trials):\n"
        "        return [{'s': 1.0 if t.prompt_id else 0.5} for t in trials]\n"
        "class Empty(Good):\n    examples = []\n"
        "class NoBatches:\n    examples = ['a']\n"
        "good, empty, no_batches = Good, Empty, NoBatches\n"
    )
    text = "budget = 4\ninputs = 'given'\nrepeats = 1\n[prompts]\ntexts = ['p', 'q']\n"
    text += "[goal]\nmaximize = 's'\n[evaluator]\n"
    (home / "a.toml").write_text(text + table)
    assert said in cli("run a.toml", code=2).err
    (home / "a.toml").write_text(text + "loader = 'harness_of_a_test:good'")
    assert "1   1 ± 0" in cli("run a.toml").out


# check


def test_a_check_shows_one_evaluation_and_keeps_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    said = cli("check", project.config).out
    assert "prompt 'p0' on example" in said
    assert "--- user, as sent\nAnswer with noise 0\n\nword 0" in said
    assert "--- response (0 tokens read, " in said
    assert "\n--- reference\nword word 0\n--- scores\n" in said
    assert re.search(r"token_f1 +0\.\d", said)
    assert "cost: 0.5; seconds:" in said
    assert "asktell run" in said
    assert len(project.paid) == 1
    assert not project.folder.path.exists()


@pytest.mark.parametrize("kind", ["Sync", "Async"])
def test_a_prompt_and_an_example_can_be_named(kind: str, tmp_path: Path) -> None:
    project = Project(tmp_path, kind)
    found = json.loads(
        cli("check", project.config, "--prompt", "p2", "--example", "3", "--json").out
    )
    assert found["messages"][-1] == {
        "role": "user",
        "content": "Answer with noise 2\n\nword word word 2",
    }
    assert (found["prompt"], found["cost"], found["reference"]) == (
        "p2",
        0.5,
        "word word 2",
    )
    assert set(found["scores"]) == {"token_f1", "brevity", "output_tokens", "cost"}
    for option, said in (
        ("--prompt", "There is no prompt 'p9'. Give one of these ids: 'p0'"),
        ("--example", "There is no example 'p9'"),
    ):
        assert said in cli("check", project.config, option, "p9", code=2).err
    assert len(project.paid) == 1


@pytest.mark.parametrize("kind", ["Sync", "Async"])
def test_a_check_repeats_the_evaluation_to_show_the_noise(
    kind: str, tmp_path: Path
) -> None:
    project = Project(tmp_path, kind)
    said = cli("check", project.config, "--repeats", "3").out
    assert "\n--- noise: 3 evaluations of this prompt and example\n" in said
    noise = said.partition("--- noise")[2]
    assert re.search(r"token_f1 +(0\.\d+) \1 \1: all agree\n", noise)
    assert len(project.paid) == 3
    assert "cost: 1.5; seconds:" in said
    found = json.loads(cli("check", project.config, "--repeats", "2", "--json").out)
    assert found["repeats"] == [found["scores"]] * 2
    assert "repeats" not in json.loads(cli("check", project.config, "--json").out)
    assert (
        "--repeats must be"
        in cli("check", project.config, "--repeats", "0", code=2).err
    )


def test_a_prompt_that_joined_the_run_can_be_named(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.run()
    cli("add", project.config, "short=Answer with noise 6")
    found = json.loads(cli("check", project.config, "--prompt", "short", "--json").out)
    assert (found["prompt"], found["messages"][-1]["content"]) == (
        "short",
        "Answer with noise 6\n\nword 0",
    )
    assert "'short'" in cli("check", project.config, "--prompt", "shrot", code=2).err


def test_what_goes_wrong_is_shown_with_what_was_sent(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(down=True)
    shown = cli("check", project.config, code=1)
    assert "--- user, as sent\nAnswer with noise 0" in shown.out
    assert "This works" not in shown.out
    assert (
        "The model returned no response. The error was Down: no \\x1b[31mconnection"
        in shown.err
    )
    (tmp_path / "metric_of_check.py").write_text(
        "def m(completion, example):\n    raise ValueError('no luck')\n"
    )
    project.write(
        changes={"cost = true": "cost = true\nm = { loader = 'metric_of_check:m' }"}
    )
    shown = cli("check", project.config, code=1)
    assert "--- response (" in shown.out
    assert "the metric 'm' failed with ValueError: no luck" in shown.err
    project.write(
        changes={"at_least = { brevity = 0.3 }": "ranges = { token_f1 = [0.9, 1] }"}
    )
    shown = cli("check", project.config, code=2)
    assert re.search(r"token_f1 +0\.\d", shown.out)
    assert "must be within its range [0.9, 1]" in shown.err


def test_a_check_shows_what_the_judge_said(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    verdict = Reply(
        '{"reason": "Names the city.", "grades": {"helpful": 4}}', usage=(200, 20, 0)
    )
    with FaultyLLMServer([Reply("Paris"), verdict, verdict], api_key="k") as server:
        made = f"init a.toml --kind openai --model m --base-url {server.base_url} --price 1 10 --rubric helpful=Helps."
        cli(made)
        said = cli("check a.toml").out
        assert "What is the capital of France?" in said
        assert "\nParis\n" in said
        assert re.search(r"quality +4   \(helpful 4\)  Names the city\.", said)
        assert f"cost: {(10 + 5 * 10 + 200 + 20 * 10) / 1e6:.4g}" in said
        assert len(server.requests) == 2
        assert "from the cache" in (said := cli("check a.toml").out)
        assert "cost: 0;" in said
        assert len(server.requests) == 2
        unpriced = re.sub(
            r"^(price|cost|at_most) = .*$",
            "",
            (home / "a.toml").read_text(),
            flags=re.MULTILINE,
        )
        (home / "a.toml").write_text(unpriced)
        assert "cost: no price is known;" in cli("check a.toml").out
    assert not (home / "a").exists()


def test_several_models_are_candidates_and_have_one_judge(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    said = cli(
        "init --kind openai --model a --model b/1 --rubric Kind --base-url http://x/v1"
    ).out
    assert "8 candidates, 8 examples" in said
    text = (home / "selection.toml").read_text()
    uncommented = (
        text.replace("# [models]", "[models]")
        .replace("# a = {", "a = {")
        .replace('# "b/1" = {', '"b/1" = {')
    )
    for written in (text, uncommented):
        (home / "selection.toml").write_text(written)
        config = load_config(home / "selection.toml")
        assert bool(config.models.unpriced()) == (written is text)
        evaluator = config.evaluator()
        assert {
            evaluator.llm.of({"model": name}).base_url for name in ("a", "b/1")
        } == {"http://x/v1"}
        assert [llm.base_url for llm in evaluator.metrics["quality"].llms] == [
            "http://x/v1"
        ]
