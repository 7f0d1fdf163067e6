"""Configuration files: what they may say, and what is said about their mistakes."""

from __future__ import annotations

import importlib.util
import itertools
import json
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import asktell
from asktell import ConfigError
from asktell_adapters.config import differences, load_config, output_folder
from asktell_adapters.evaluators import Completion
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator

_numbers = itertools.count()

GOOD = """
output = "runs/first"
budget = 30
{top}
[prompts]
{prompts}
[data]
{data}
[model]
{model}
[metrics]
{metrics}
[goal]
{goal}
"""
PARTS = {
    "top": "",
    "prompts": 'texts = ["Be brief", "Be long", "Be odd"]',
    "data": 'file = "data.jsonl"',
    "model": 'loader = "MODULE:make"',
    "metrics": "exact_match = true\nbrevity = { low = 2, high = 12 }",
    "goal": 'maximize = "exact_match"\nat_least = { brevity = 0.5 }',
}
MODULE = """
from asktell_adapters.evaluators import Completion, Example, ScriptedLLM

def make(answer="a"):
    return ScriptedLLM(lambda request: Completion(answer, completion_tokens=1))

class Half:
    def complete(self, requests):
        return [Completion("a") for _ in requests]

def rows(n=3, **more):
    return [{"input": f"i{k}", "reference": "a", **more} for k in range(n)]

def examples():
    return (Example(f"i{k}", "a", id=f"e{k}") for k in range(3))

def number():
    return 3

def broken():
    raise RuntimeError("no luck")

def length(completion, example):
    return len(completion.text)

def at_most(n):
    return lambda completion, example: float(len(completion.text) <= n)

class Always:
    def __call__(self, completion, example):
        return 1.0
"""


def needs(package: str) -> None:
    """Skip without the package; not importorskip, since importing some takes seconds."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a configuration, parts of it replaced, and return its path."""
    module = f"module_of_test_{next(_numbers)}"
    (tmp_path / f"{module}.py").write_text(MODULE)
    rows = [
        {"input": f"i{i}", "reference": "a", "text": f"t{i}", "name": f"n{i}"}
        for i in range(6)
    ]
    (tmp_path / "data.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    (tmp_path / "data.csv").write_text("question,answer\nq0,a0\nq1,a1\n")

    def make(**parts: str) -> Path:
        path = tmp_path / "a.toml"
        path.write_text(GOOD.format(**{**PARTS, **parts}).replace("MODULE", module))
        return path

    return make


def test_a_good_one(write: Any, tmp_path: Path) -> None:
    config = load_config(write())
    assert config.output == tmp_path / "runs" / "first" == output_folder(config.path)
    assert config.selector.budget == 30
    assert str(config.selector.goal) == "maximize exact_match subject to brevity >= 0.5"
    assert [example.input for example in config.examples] == [f"i{i}" for i in range(6)]
    assert (
        config.selector.example_ids
        == config.dataset.ids
        == tuple(f"n{i}" for i in range(6))
    )
    assert config.concurrency == config.batch_size == 1
    assert config.setup["model"]["system"] is None
    json.dumps(config.setup)
    assert differences(config.setup, load_config(write()).setup) == []


def change(path: Path, old: str, new: str) -> Path:
    path.write_text(path.read_text().replace(old, new))
    return path


PRICED = {"metrics": PARTS["metrics"] + "\ncost = true"}


def test_a_budget_of_cost(write: Any) -> None:
    config = load_config(
        change(
            write(**PRICED), "budget = 30", "budget = { cost = 1.5, evaluations = 20 }"
        )
    )
    assert (config.selector.max_cost, config.selector.budget) == (1.5, 20)
    again = load_config(
        change(write(**PRICED), "budget = 30", "budget = { cost = 2.5 }")
    )
    assert again.selector.budget == 18  # all there are
    assert any(
        item.startswith("'budget.cost' was 1.5, and is 2.5 now")
        for item in differences(config.setup, again.setup)
    )


@pytest.mark.parametrize(
    ("budget", "parts", "said"),
    [
        (
            "{ cost = 1 }",
            {},
            (
                "'cost' in [budget] is a limit on costs, which are not known. Give [model] a price"
            ),
        ),
        ("{ cost = 0 }", PRICED, "'cost' in [budget] must be above 0, got 0"),
        ("{ money = 1 }", PRICED, "unknown key 'money' in [budget]"),
        (
            "1.5",
            {},
            "must be a whole number, or a table with evaluations, cost or both, got 1.5",
        ),
        (
            "{ cost = 1 }\nmethod = 'csr'",
            PRICED,
            "Only the methods 'auto' and 'race' support a budget of cost",
        ),
        ("30\nconfidence = 2", {}, "confidence of Adaptive must be"),
        (
            "30\nconfidence = 0.9\nconfidence_kind = 'hope'",
            {},
            'must be "proof" or "posterior", got \'hope\'',
        ),
        (
            "30\nmethod = 'race'\nconfidence_kind = 'posterior'",
            {},
            "works with method = 'auto' only, but method is 'race'",
        ),
        (
            "30\nmethod = 'csr'\nconfidence = 0.9",
            {},
            "'confidence' at the top works with method = 'auto', 'race' or 'referee' only, but",
        ),
        (
            "30\nmethod = 'race'\neach = 50",
            {},
            "'each' at the top works with method = 'referee' only, but method is 'race'",
        ),
        ("30\nmethod = 'referee'\nbaseline = 0\neach = 0", {}, "each of Referee must"),
        ("30\nmethod = 'referee'", {}, "in a file baseline = ID"),
    ],
)
def test_mistakes_about_the_budget(
    write: Any, budget: str, parts: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(change(write(**parts), "budget = 30", f"budget = {budget}"))
    assert said in str(error.value)


def test_a_run_may_stop_early(write: Any) -> None:
    config = load_config(write(top="confidence = 0.95"))
    assert config.selector.method == asktell.Adaptive(confidence=0.95)
    by_model = load_config(write(top="confidence = 0.9\nconfidence_kind = 'posterior'"))
    assert by_model.selector.method == asktell.Adaptive(
        confidence=0.9, confidence_kind="posterior"
    )
    race = load_config(
        write(top="method = 'race'\nconfidence = 0.9\nbaseline = 0")
    ).selector
    assert race.method == asktell.Race(confidence=0.9)
    assert race.result().baseline == 0
    top = "method = 'referee'\nconfidence = 0.9\neach = 50\nbaseline = 0"
    assert load_config(write(top=top)).selector.method == asktell.Referee(0.9, 50)
    assert differences(load_config(write()).setup, config.setup) == [
        "'confidence' was not given, and is 0.95 now",
    ]


def test_tolerances_are_of_the_goal(write: Any) -> None:
    goal = (
        'maximize = "exact_match"\nranges = { exact_match = [0, 1] }\n'
        "at_least = { brevity = { bound = 0.5, quantile = 0.1, tolerance = 0.05 }, length = 'within 2 of best' }\n"
        "tolerances = { exact_match = 0.01, length = 1 }"
    )
    metrics = PARTS["metrics"] + '\nlength = { loader = "MODULE:length" }'
    config = load_config(write(goal=goal, metrics=metrics))
    assert config.selector.goal == asktell.BestFeasible(
        asktell.maximize("exact_match", range=(0, 1), tolerance=0.01),
        {
            "brevity": asktell.at_least(0.5, quantile=0.1, tolerance=0.05),
            asktell.maximize("length"): asktell.within(2, tolerance=1),
        },
    )
    assert config.setup["goal"]["tolerances"] == {"exact_match": 0.01, "length": 1}


def test_noisy_scores(write: Any) -> None:
    config = load_config(
        write(
            top="repeats = 3\nseed = 5",
            model='loader = "MODULE:make"\ntemperature = 0.7',
        )
    )
    assert config.selector.state.problem.examples.repeats == 3
    evaluator = config.evaluator()
    assert (evaluator.temperature, evaluator.seed) == (0.7, 5)
    plain = load_config(write())
    found = differences(plain.setup, config.setup)
    assert "'repeats' was not given, and is 3 now" in found
    assert "'model.temperature' was not given, and is 0.7 now" in found
    assert plain.evaluator().temperature == 0.0


def test_prompts_come_from_files_beside(write: Any, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id,prompt\na,one\nb,two\n")
    selector = load_config(write(prompts='file = "p.csv"')).selector
    assert {entry.id: entry.prompt for entry in selector.result().prompts} == {
        "a": "one",
        "b": "two",
    }


@pytest.mark.parametrize(
    ("data", "inputs"),
    [
        ('file = "data.csv"\ninput = "question"\nreference = "answer"', ["q0", "q1"]),
        ('file = "data.jsonl"\ninput = "text"\nlimit = 2', ["t0", "t1"]),
        ('file = "data.jsonl"\nshuffle = 1', ["i2", "i3", "i5", "i0", "i4", "i1"]),
        ('file = "data.jsonl"\nshuffle = 1\nlimit = 2', ["i2", "i3"]),
        ('loader = "MODULE:rows"', ["i0", "i1", "i2"]),
        (
            'loader = "MODULE:rows"\ninput = "reference"\nreference = "input"',
            ["a", "a", "a"],
        ),
        ('loader = "MODULE:examples"', ["i0", "i1", "i2"]),
    ],
)
def test_data_come_from_files_and_functions(
    write: Any, data: str, inputs: list[str]
) -> None:
    assert [
        example.input for example in load_config(write(data=data)).examples
    ] == inputs


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (
            'maximize = "m"\nat_most = { n = 2 }\nat_least = { o = 1 }',
            "maximize m subject to o >= 1, n <= 2",
        ),
        (
            'type = "pareto-set"\nmaximize = "m"\nminimize = "n"\nat_most = { n = 5, o = 2 }',
            "Pareto set: maximize m, minimize n subject to n <= 5, o <= 2",
        ),
    ],
)
def test_goals(write: Any, goal: str, said: str) -> None:
    metrics = "\n".join(f'{name} = {{ loader = "MODULE:length" }}' for name in "mno")
    assert str(load_config(write(metrics=metrics, goal=goal)).selector.goal) == said


def test_ranges_put_metrics_on_a_common_scale(write: Any) -> None:
    metrics = "exact_match = true\nlatency = true"
    goal = 'type = "pareto-set"\nmaximize = "exact_match"\nminimize = "latency"\nranges = { latency = [0, 10] }'
    assert load_config(
        write(metrics=metrics, goal=goal)
    ).selector.goal == asktell.ParetoSet(
        "exact_match", asktell.minimize("latency", range=(0, 10))
    )
    goal = 'maximize = "exact_match"\nat_most = { latency = 5 }\nranges = { latency = [0, 10] }'
    constrained = load_config(write(metrics=metrics, goal=goal)).selector.goal
    assert isinstance(constrained, asktell.BestFeasible)
    assert constrained.constraints[0].scale == 10


def test_metrics_by_name_and_of_ones_own(write: Any) -> None:
    metrics = """
    exact_match = { normalized = false }
    strict = { metric = "exact_match", normalized = false }
    brevity = { low = 1, high = 11 }
    token_f1 = true
    output_tokens = {}
    latency = true
    cost = false
    length = { loader = "MODULE:length" }
    short = { loader = "MODULE:at_most", arguments = { n = 2 } }
    always = { loader = "MODULE:Always" }
    """
    config = load_config(write(metrics=metrics))
    completion = Completion("the a", completion_tokens=6, latency=2.0)
    assert {name: metric(completion, config.examples[0]) for name, metric in config.metrics.items()} == {
        "exact_match": 0, "strict": 0, "brevity": 0.5, "token_f1": 1, "output_tokens": 6, "latency": 2,
        "length": 5, "short": 0, "always": 1,
    }  # fmt: skip


def test_rouge_of_several_kinds(write: Any) -> None:
    needs("rouge_score")
    metrics = 'rouge = { split = true }\nrouge1 = { metric = "rouge", rouge_type = "rouge1", use_stemmer = true }'
    config = load_config(
        write(
            metrics=metrics, goal='maximize = "rouge1"', model='loader = "MODULE:Half"'
        )
    )
    assert config.evaluator()("Be brief", 0) == {"rouge": 1, "rouge1": 1}


def test_scores_carry_the_output(write: Any) -> None:
    evaluator = load_config(
        write(model='loader = "MODULE:Half"\nmax_new_tokens = 7')
    ).evaluator()
    assert isinstance(evaluator, LLMEvaluator)
    scores = evaluator("Be brief", 0)
    assert scores == {"exact_match": 1, "brevity": 1}
    assert getattr(scores, "details", None) == {"output": "a"}
    request = evaluator.request("Be brief", 0)
    assert request.max_new_tokens == 7
    assert [message["role"] for message in request.messages] == ["user"]


def test_an_api_is_asked_many_at_once_and_its_cost_is_summed(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("openai")
    monkeypatch.setenv("MY_KEY", "secret")
    model = """
    type = "openai"
    model = "small"
    base_url = "http://127.0.0.1:1/v1"
    api_key_env = "MY_KEY"
    timeout = 3
    price = { input = 1, output = 2.5 }
    """
    config = load_config(write(model=model, top="concurrency = 5"))
    evaluator = config.evaluator()
    assert isinstance(evaluator, AsyncLLMEvaluator)
    assert evaluator.with_cost
    llm: Any = evaluator.llm
    assert (llm.api.model, llm.concurrency, llm.timeout, llm.api.price.output) == (
        "small",
        5,
        3,
        2.5,
    )
    assert "secret" not in json.dumps(config.setup)
    assert "api_key_env" not in config.setup["model"]
    assert load_config(write(model=model)).concurrency == 8
    llm.close()


def test_without_a_key_nothing_starts(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("openai")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    config = load_config(write(model='type = "openai"\nmodel = "small"'))
    with pytest.raises(
        ConfigError, match="Set the environment variable OPENAI_API_KEY"
    ):
        config.evaluator()


def test_a_vllm_engine_takes_all_at_once(
    write: Any, vllm: ModuleType, tmp_path: Path
) -> None:
    model = 'type = "vllm"\nmodel = "folder"\nengine_options = { max_model_len = 32 }'
    config = load_config(write(model=model))
    assert config.concurrency == config.batch_size == 64
    assert load_config(write(model=model, top="concurrency = 20")).batch_size == 20
    config.evaluator()
    (tmp_path / "folder").mkdir()
    config.evaluator()
    hub, local = vllm.engines
    assert hub.options == {"enable_prefix_caching": True, "max_model_len": 32}
    assert (hub.model, local.model) == ("folder", str(tmp_path / "folder"))


@pytest.mark.parametrize(
    "model",
    [
        'type = "llama-cpp"\nmodel = "none.gguf"',
        'type = "huggingface"\nmodel = "none.gguf"',
    ],
)
def test_a_missing_model_file_is_named(write: Any, model: str) -> None:
    needs("xllamacpp" if "llama" in model else "transformers")
    with pytest.raises(
        ConfigError, match=r"a\.toml, \[model\]: There is no GGUF file '.*none\.gguf'"
    ):
        load_config(write(model=model)).evaluator()


MISTAKES = [
    ({"top": "budgt = 3"}, "unknown key 'budgt' at the top. Did you mean 'budget'?"),
    (
        {"goal": PARTS["goal"] + "\nseed = 1"},
        "'seed' belongs at the top of the file, before the first [table]",
    ),
    (
        {"data": PARTS["data"] + "\nmax_new_tokens = 1"},
        "'max_new_tokens' belongs in [model]",
    ),
    ({"top": "seed = 'x'"}, "'seed' at the top must be a whole number, got 'x'"),
    ({"top": "method = 'ege-sr'"}, "is for ParetoSet"),
    ({"prompts": ""}, "[prompts] needs either file = '...' or texts"),
    (
        {"prompts": "file = 'MODULE.py'"},
        "reads prompts from .txt, .csv, .json, .jsonl, .parquet, .toml, .tsv, .xlsm, .xlsx",
    ),
    ({"prompts": "texts = ['a', 'a']"}, "A prompt is given more than once"),
    ({"prompts": 'texts = { "a\\u001b" = "x" }'}, "cannot be shown"),
    ({"data": "file = 'none.jsonl'"}, "[data]: There is no file"),
    (
        {"data": "file = 'data.jsonl'\ninput = 'txt'"},
        "line 1: The row has no column 'txt' (did you mean 'text'?)",
    ),
    (
        {"data": "file = 'data.jsonl'\nsample = 2\nlimit = 1"},
        "'limit' in [data] cannot be combined with sample",
    ),
    (
        {"data": "file = 'data.jsonl'\ndelimiter = ';'"},
        "only to .csv and .tsv. Remove delimiter.",
    ),
    ({"data": "loader = 'rows'"}, "must look like 'package.module:function'"),
    (
        {"data": "loader = 'no_such_module_:f'"},
        "cannot be imported (ModuleNotFoundError",
    ),
    (
        {"data": "loader = 'MODULE:broken'"},
        "broken', which raised RuntimeError: no luck",
    ),
    ({"data": "loader = 'MODULE:rows'\narguments = { n = 0 }"}, "returned no rows"),
    (
        {"model": ""},
        "'type' in [model] is missing. It must be one of 'openai', 'litellm',",
    ),
    (
        {"model": "type = 'openal'\nmodel = 'x'"},
        "(did you mean 'openai'?), got 'openal'",
    ),
    (
        {"model": "type = 'openai'"},
        "'model' is missing in [model]. Add it. It must be a text",
    ),
    (
        {"model": "type = 'openai'\nmodel = 'x'\nprice = { input = 1 }"},
        "'output' is missing in [model.price]",
    ),
    ({"metrics": ""}, "[metrics] is empty"),
    (
        {"metrics": "exactmatch = true"},
        "unknown metric 'exactmatch' in [metrics] (did you mean 'exact_match'?)",
    ),
    (
        {"metrics": "brevity = true"},
        "'low' is missing in [metrics.brevity]. Add it. It must be a finite number",
    ),
    (
        {"metrics": "brevity = { low = 9, high = 3 }"},
        "[metrics.brevity]: The two lengths of brevity must be finite numbers",
    ),
    (
        {"metrics": "brevity = { low = 1, hihg = 3 }"},
        "unknown key 'hihg' in [metrics.brevity]. Did you mean 'high'?",
    ),
    (
        {"data": "file = 'data.jsonl'\nreference = false"},
        "the metric 'exact_match' needs references",
    ),
    (
        {"model": "type = 'llama-cpp'\nmodel = 'x'", "metrics": "cost = true"},
        "the metric 'cost' needs prices",
    ),
    ({"goal": ""}, "needs exactly one metric in maximize or minimize, got none"),
    ({"goal": "maximize = ['exact_match', 'brevity']"}, "or use type 'pareto-set'"),
    (
        {"goal": "maximize = 'brevity'\nat_most = { cost = 1 }"},
        "Add cost = true to [metrics], and a price to [model], such as price = {",
    ),
    (
        {"goal": "maximize = 'brevty'"},
        "'brevty', which is not computed (did you mean 'brevity'?)",
    ),
    (
        {"goal": "maximize = 'brevity'\nat_least = { exact_match = 'x' }"},
        "The bound on 'exact_match' must be a number, or a text such as 'within 0.02 of best'",
    ),
    (
        {"goal": "maximize = 'brevity'\nranges = { brevity = [0] }"},
        "[goal]: The range of 'brevity' must be two",
    ),
    (
        {
            "goal": "maximize = 'brevity'\nat_least = { exact_match = 1 }\nat_most = { exact_match = 1 }"
        },
        "[goal]: at_least and at_most both bound 'exact_match'. Remove one bound",
    ),
    ({"goal": "type = 'pareto'\nmaximize = 'brevity'"}, "(did you mean 'pareto-set'?)"),
    (
        {
            "goal": "type = 'pareto-set'\nmaximize = 'brevity'\nat_least = { brevity = 1 }\nat_most = { brevity = 2 }"
        },
        "both bound 'brevity'",
    ),
    (
        {"goal": "maximize = 'brevity'\nranges = { exact_match = [0, 1] }"},
        "which is not a metric of the goal",
    ),
    (
        {
            "goal": "maximize = 'brevity'\nranges = { brevity = [0, 1] }\ntolerances = { brevity = 5 }"
        },
        "[goal]: The tolerance for 'brevity' must be less than the width",
    ),
    (
        {"goal": "maximize = 'brevity'\ntolerances = { exact_match = 0.1 }"},
        "[goal]: tolerances has 'exact_match', which is not a metric of the goal",
    ),
    ({"top": "tolerance = 0.01"}, "tolerance"),
    (
        {
            "goal": "maximize = 'brevity'\nat_most = { exact_match = { bound = 1, quantile = 0.9 } }\n"
            "tolerances = { exact_match = 0.1 }"
        },
        "There the tolerance is a share of the examples",
    ),
    (
        {"prompts": f"texts = {[str(i) for i in range(40)]}", "top": "method = 'csr'"},
        "A budget of 30 evaluations is too small",
    ),
    ({"goal": "maximize = "}, "is not TOML (Invalid value (at line"),
]


@pytest.mark.parametrize(
    ("parts", "said"), MISTAKES, ids=[said[:50] for _, said in MISTAKES]
)
def test_each_mistake_is_named(write: Any, parts: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(write(**parts))
    assert said in str(error.value)
    assert str(error.value).startswith(("a.toml: ", "a.toml, ["))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("model", "never"),
    [
        ('type = "openai"\nmodel = "x"\napi_key = "sk-abcdef123456789"', "abcdef"),
        ('type = "openai"\nmodel = "x"\napi_key_env = "sk-abcdef123456789"', "abcdef"),
        ('type = "openai"\nmodel = "sk-abcdef123456789"', "abcdef"),
        (
            'type = "openai"\nmodel = "x"\nextra_body = { headers = { Authorization = "abcdef" } }',
            "abcdef",
        ),
        ('loader = "MODULE:make"\narguments = { api_key = "abcdef" }', "abcdef"),
    ],
)
def test_a_key_in_the_file_is_refused_and_not_repeated(
    write: Any, model: str, never: str
) -> None:
    with pytest.raises(ConfigError, match=r"environment variable") as error:
        load_config(write(model=model))
    assert never not in str(error.value)


SECRETS = [
    'client_secret = "never7"', 'clientSecret = "never7"', 'hf_token = "never7-0123456789"', 'token = "never7"',
    'access_token = "never7"', 'password = "never7"', 'db_password = "never7"', "password = 1234567", 'pwd = "never7"',
    'api_key = "never7"', 'X-Api-Key = "never7"', 'apikey = "never7"', 'private_key = "never7"', 'pass = "never7"',
    'aws_secret_access_key = "never7"', 'Authorization = "never7"', 'credentials = "never7"', 'secrets = ["never7"]',
    'Cookie = "never7"', 'deep = { list = [{ secret = "never7" }] }', 'deep = [["sk-never7abcdefghijkl"]]',
    'url = "https://me:never7@example.org/x"', 'url = "postgresql://me:never7@example.org"',
    'url = "redis://:never7@example.org"', 'note = "see https://me:never7@example.org for more"',
    'url = "https://never7abcdefghijklmnopq@example.org"', 'url = "https://example.org/x?a=1&api_key=never7a"',
    'url = "https://example.org/x?sig=never7a"', 'dsn = "host=x user=y password=never7"', 'x = "hf_never7abcdefghijkl"',
    'x = "ghp_never7abcdefghijkl"', 'x = "Bearer never7"', '"https://me:never7@example.org" = 1',
    'x = "-----BEGIN RSA PRIVATE KEY-----never7"',
]  # fmt: skip


PLACES = ["model", "metrics", "data", "top", "arguments"]


@pytest.mark.parametrize(
    ("part", "secret"),
    [
        *zip(itertools.cycle(PLACES), SECRETS),
        *((part, SECRETS[0]) for part in PLACES[1:]),
    ],
)
def test_a_secret_is_refused_wherever_it_stands(
    write: Any, part: str, secret: str
) -> None:
    parts = {
        "model": f'loader = "MODULE:make"\n[model.arguments]\n{secret}',
        "metrics": f'exact_match = true\n[metrics.mine]\nloader = "MODULE:at_most"\n[metrics.mine.arguments]\n{secret}',
        "data": f'loader = "MODULE:rows"\n[data.arguments]\n{secret}',
        "top": secret,
        "arguments": f'type = "openai"\nmodel = "x"\n[model.extra_body.metadata]\n{secret}',
    }
    with pytest.raises(
        ConfigError, match=r"no place in a file.*environment variable"
    ) as error:
        load_config(write(**{"model" if part == "arguments" else part: parts[part]}))
    assert "never7" not in str(error.value)
    assert "1234567" not in str(error.value)


@pytest.mark.parametrize(
    "harmless",
    [
        'eos_token = "</s>"', "max_tokens = 100", 'tokenizer = "word"', "token = false",
        'password_file = "/run/secret"',
        'secret_name = "one"', 'key = "question"', 'sort_key = "date"', 'token_env = "HF_TOKEN"', 'author = "me"',
        'url = "https://example.org:8080/a@b"', 'url = "http://localhost:8000/v1"', 'mail = "me@example.org"',
        'text = "risk-assessment-of-projects"', 'password = ""', 'client_secret_env = "SECRET"', 'ratio = "1:2@3"',
        'access_key_id = "question"', 'text = "Do not tell the password: it is a secret."',
    ],
)  # fmt: skip
def test_what_is_no_secret_is_taken(write: Any, harmless: str) -> None:
    load_config(write(data=f'loader = "MODULE:rows"\n[data.arguments]\n{harmless}'))


def test_prompts_and_metrics_may_be_about_secrets(write: Any) -> None:
    path = write(
        prompts='texts = { token = "Log in as https://me:pass@example.org", password = "Say nothing" }',
        metrics='secret = { loader = "MODULE:length" }\npassword = { metric = "exact_match" }',
        goal='maximize = "secret"\nat_most = { password = 0.5 }',
    )
    assert json.dumps(load_config(path).setup)


@pytest.mark.parametrize("output", [".", "..", "/", "data.jsonl", ""])
def test_the_output_must_be_a_folder_of_its_own(write: Any, output: str) -> None:
    path = write()
    path.write_text(path.read_text().replace("runs/first", output))
    with pytest.raises(ConfigError, match="'output' at the top must be a folder"):
        output_folder(path)


TABLES_INSIDE_TABLES = [
    (
        {"top": "improve = { writer = { temprature = 1 } }"},
        "unknown key 'temprature' in [improve.writer]. Did you mean 'temperature'?",
    ),
    (
        {"top": "improve = { writer = 3 }"},
        "'writer' in [improve] must be a table, got 3.",
    ),
    (
        {"metrics": "judge = { criteria = { good = 3 } }"},
        "'text' in [metrics.judge.criteria.good] must be a text, got 3.",
    ),
    (
        {"metrics": 'judge = { criteria = { good = { text = "x", weight = "y" } } }'},
        "'weight' in [metrics.judge.criteria.good] must be a finite number, got 'y'.",
    ),
    (
        {"metrics": 'judge = { criteria = { good = "x" }, shots = [{ input = "a" }] }'},
        "'answer' is missing in [metrics.judge.shots]. Add it. It must be a text.",
    ),
    (
        {"metrics": 'judge = { criteria = { good = "x" }, shots = [3] }'},
        "'shots' in [metrics.judge] must be a list of tables, got [3].",
    ),
    (
        {"model": 'type = "openai"\nmodel = "x"\nprice = { input = "a", output = 1 }'},
        "'input' in [model.price] must be a finite number, got 'a'.",
    ),
]


@pytest.mark.parametrize(("parts", "said"), TABLES_INSIDE_TABLES)
def test_a_mistake_names_the_innermost_table(
    write: Any, parts: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(write(**parts))
    assert str(error.value) == f"a.toml: {said}"


def test_a_mistake_elsewhere_does_not_hide_the_folder_of_a_run(write: Any) -> None:
    path = write(goal="maximise = 3")
    with pytest.raises(ConfigError, match="unknown key 'maximise'"):
        load_config(path)
    assert output_folder(path).name == "first"


def test_the_documented_example_is_valid() -> None:
    needs("aclsum")
    config = load_config(
        Path(__file__).parents[3] / "docs" / "examples" / "summarize.toml"
    )
    assert len(config.examples) == 40
    assert len(config.selector.result().prompts) == 8
    # What is commented out there is valid, too.
    text = config.path.read_text()
    for line in (
        "method",
        "features",
        "seed",
        "sampling",
        "on_failure",
        "max_failure_rate",
        "concurrency",
    ):
        assert f"# {line} = " in text
        text = text.replace(f"# {line} = ", f"{line} = ")
    tomllib.loads(text)
