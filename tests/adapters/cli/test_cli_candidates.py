"""One file over several models, prompts and settings: check, estimate, run, more models, gate, init."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from asktell import ConfigError
from asktell_adapters.cli.main import main
from asktell_adapters.config import load_config
from tests.command_line import cli

LLM = """
from pathlib import Path
from asktell_adapters.evaluators import Completion, Price

QUALITY = {"a": 0.2, "b": 0.5, "c": 0.9}

class Model:
    def __init__(self, model, price=True):
        self.model, self.price = model, Price(1e6, 2e6) if price else None

    def complete(self, requests):
        return list(map(self.one, requests))

    def one(self, request):
        prompt, text = request.messages[-1]["content"].split("\\n\\n")
        with Path(__file__).with_name("asked.txt").open("a") as file:
            print(self.model, prompt, request.temperature, file=file)
        words = [self.model, prompt, str(request.temperature)]
        good = QUALITY[self.model] + ("carefully" in prompt) / 20 > int(text) / 8
        return Completion("right" if good else " ".join(words), completion_tokens=3, cost=ord(self.model) / 97)
"""
TEXT = """
output = "out"
budget = 24
concurrency = 4
[candidates]
model = ["a", "b"]
prompt = { short = "Answer.", long = "Answer carefully." }
temperature = [0.0, 0.7]
exclude = [{ model = "b", temperature = 0.7 }]
[data]
file = "data.jsonl"
[model]
loader = "MODULE:Model"
[metrics]
exact_match = true
cost = true
[goal]
maximize = "exact_match"
"""
API = """
budget = 8
[candidates]
model = ["x", "y"]
[prompts]
texts = { p = "P" }
[data]
file = "data.jsonl"
[model]
type = "openai"
base_url = "http://127.0.0.1:9/v1"
[models]
y = { base_url = "http://127.0.0.1:8/v1" }
[metrics]
output_tokens = true
[goal]
minimize = "output_tokens"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    module = f"models_of_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(LLM)
    rows = [{"input": str(i), "reference": "right"} for i in range(8)]
    (tmp_path / "data.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    (tmp_path / "a.toml").write_text(TEXT.replace("MODULE", module))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changed(home: Path, *changes: tuple[str, str], text: str | None = None) -> Path:
    path = home / "a.toml"
    text = path.read_text() if text is None else text
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def test_one_file_runs_over_models_prompts_and_settings_and_more_models_join(
    home: Path,
) -> None:
    assert "model: b, temperature: 0.0" in cli("check a.toml --prompt b/long/0.0").out
    assert "24" in cli("run a.toml --estimate").out
    assert "b/long/0.0" in cli("run a.toml --no-progress").out
    result = json.loads((home / "out" / "result.json").read_text())
    assert result["selected"][0]["candidate"] == {
        "model": "b",
        "prompt": "Answer carefully.",
        "temperature": 0.0,
    }
    assert {entry["id"] for entry in result["prompts"]} == {
        "a/short/0.0", "a/short/0.7", "a/long/0.0", "a/long/0.7", "b/short/0.0", "b/long/0.0"
    }  # fmt: skip
    asked = set((home / "asked.txt").read_text().splitlines())
    assert "a Answer. 0.7" in asked
    assert not any(line.startswith("b") and "0.7" in line for line in asked)
    assert result["spent_cost"] == pytest.approx(
        sum(
            json.loads(line)["cost"]
            for line in (home / "out" / "evaluations.jsonl").read_text().splitlines()
        ),
        abs=5,
    )
    assert "Add a value to [candidates]" in cli("add a.toml", "x=Be kind.", code=2).err
    changed(home, ('["a", "b"]', '["a", "b", "c"]'), ("budget = 24", "budget = 48"))
    assert "4 candidates" in cli("run a.toml --no-progress").err
    result = json.loads((home / "out" / "result.json").read_text())
    assert result["selected"][0]["candidate"]["model"] == "c"


def test_a_gate_compares_two_candidates_of_the_same_text(
    home: Path, capsys: Any
) -> None:
    gate = ["gate", "a.toml", "--no-progress", "--margin", "0.1"]
    cli(*gate, "--baseline", "b/short/0.0", "--candidate", "a/short/0.0", code=1)
    assert {
        line.split()[0] for line in (home / "asked.txt").read_text().splitlines()
    } == {"a", "b"}
    assert main([*gate, "--baseline", "a/short/0.0", "--candidate", "b/short/0.0"]) in (
        0,
        3,
    )
    assert "b/short/0.0" in capsys.readouterr().out


def test_every_model_has_its_table_and_what_a_price_is_needed_for_names_the_one_without(
    home: Path,
) -> None:
    path = changed(home, text=API)
    config = load_config(path)
    assert config.selector.prompts.ids == ["x/p", "y/p"]
    llm = pickle.loads(pickle.dumps(config.evaluator())).llm
    assert [llm.of({"model": name}).base_url[-4:] for name in "xy"] == ["9/v1", "8/v1"]
    priced = 'base_url = "http://127.0.0.1:8/v1", price = { input = 1, output = 2, currency = "USD" } }'
    changed(
        home,
        ('base_url = "http://127.0.0.1:8/v1" }', priced),
        ("budget = 8", "budget = { cost = 1.0 }"),
    )
    with pytest.raises(ConfigError, match=r'Give \[models."x"\] a price'):
        load_config(path)
    changed(
        home,
        ("[models]", "[models.x]\nprice = { input = 3, output = 4 }\n[models]"),
        text=path.read_text(),
    )
    with pytest.raises(ConfigError, match="the same currency, but they have '', 'USD'"):
        load_config(path)
    changed(home, ("output = 4 }", 'output = 4, currency = "USD" }'))
    llm = load_config(path).evaluator().llm
    assert [llm.of({"model": name}).price.input for name in "xy"] == [3, 1]


def test_options_of_a_client_can_be_factors(home: Path) -> None:
    path = changed(
        home,
        (
            'model = ["x", "y"]',
            'model = ["x", "y"]\nsend_sampling = [true, false]\ntop_p = [0.5]',
        ),
        text=API,
    )
    evaluator = load_config(path).evaluator()
    request = evaluator.request(
        {"model": "x", "prompt": "P", "send_sampling": False, "top_p": 0.5}, 0
    )
    assert request.options == {"top_p": 0.5}
    assert not evaluator.llm.of(request.client).api.send_sampling


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('model = "b", temp', 'modell = "b", temp', "exclude.* has 'modell', which is not a factor .did you mean"),
        ('model = "b", temp', 'model = "z", temp', "must have values of 'model', which are 'a', 'b', got 'z'"),
        ('{ model = "b", temperature = 0.7 }', '{ temperature = [0.0, 0.7] }', "excludes all 8 combinations"),
        ("exclude", "where", "To leave combinations out, use exclude"),
        ("[data]", '[prompts]\ntexts = ["x"]\n[data]', "'prompt' in .candidates. cannot be combined with the prompts"),
        ("[model]", '[model]\nmodel = "a"', "'model' is in .model. and in .candidates."),
        ("[model]", "[models]\nz = {}\n[model]", "has 'z', which is not a model in .candidates.. .* 'a', 'b'"),
        ("[model]", "[models]\na = { system = 'x' }\n[model]", "'system' in .models. must be the same for all models"),
        ("temperature = [0.0, 0.7]", "temperature = 0.5", "must be a list of numbers, got 0.5"),
        ("temperature = [0.0, 0.7]", "temperature = [0.0, 0.7]\ntone = [[1]]", "must be text, a finite number"),
    ],
)  # fmt: skip
def test_mistakes_are_named(home: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(changed(home, (old, new)))


def test_mistakes_that_only_the_model_knows_are_named_before_a_run(home: Path) -> None:
    changed(
        home, ("temperature = [0.0, 0.7]", "temperature = [0.0, 0.7]\nmax_tokens = [5]")
    )
    assert (
        "[candidates]: The factor 'max_tokens' has no effect. It is not a setting"
        in cli("run a.toml", code=2).err
    )
    assert not (home / "out").exists()
    judged = (
        '[metrics.good]\nmetric = "judge"\ncriteria = { good = "Is good." }\n[goal]'
    )
    changed(home, ("\nmax_tokens = [5]", ""), ("[goal]", judged))
    assert "The judge 'good' needs an LLM of its own" in cli("run a.toml", code=2).err
    assert "cannot be used by asktell improve" in cli("improve a.toml", code=2).err
