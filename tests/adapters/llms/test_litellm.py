"""LiteLLM as an LLM: names of providers, a router, its own prices. Against the real package, or else a stand-in."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

import asktell
from asktell.errors import ConfigError, InvalidArgumentError
from asktell_adapters.config import load_config
from asktell_adapters.evaluators import (
    LLM,
    Completion,
    CompletionError,
    Example,
    LiteLLM,
    Price,
    Request,
)
from asktell_adapters.llms.cache import AnswerCache, CachedLLM
from asktell_adapters.llms.litellm import known_price
from asktell_adapters.metrics import Judge
from asktell_adapters.testing.llm_contract import LLMContract
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply
from tests.adapters.fake_litellm import fake_litellm

KEY = "sk-very-secret-0123456789"
MODEL = "openai/gpt-4o-mini"
HELLO = Request.chat("hello", max_new_tokens=8)


@pytest.fixture(autouse=True)
def litellm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    if importlib.util.find_spec("litellm") is not None:
        return importlib.import_module("litellm")
    fake = fake_litellm()
    monkeypatch.setitem(sys.modules, "litellm", fake)
    return fake


def client(url: str | None, model: str = MODEL, **settings: Any) -> LiteLLM:
    return LiteLLM(
        model,
        **{
            "base_url": url,
            "backoff": 0.001,
            "max_wait": 0.01,
            "max_retries": 3,
            **settings,
        },
    )


def deployments(*urls: str) -> list[dict[str, Any]]:
    params = [
        {"model": MODEL, "api_base": url, "api_key": "os.environ/OPENAI_API_KEY"}
        for url in urls
    ]
    return [{"model_name": "small", "litellm_params": each} for each in params]


class TestLiteLLM(LLMContract):
    refused: ClassVar[str | None] = None
    limit: ClassVar[int] = 5

    @pytest.fixture
    def llm(self) -> Iterator[LLM]:
        with FaultyLLMServer(echo=True) as server, client(server.base_url) as remote:
            yield remote


@pytest.mark.parametrize(
    ("faults", "attempts"),
    [
        ([], 1),
        ([Reply.rate_limited(0)], 2),
        ([Reply.rate_limited(3600)], 2),  # at most max_wait
        ([Reply(drop=True), Reply.rate_limited(), Reply.server_error(503)], 4),
    ],
)
def test_transient_faults_are_outlasted(faults: list[Reply], attempts: int) -> None:
    with FaultyLLMServer(faults) as server, client(server.base_url) as llm:
        (answer,) = llm.complete([HELLO])
    assert isinstance(answer, Completion), answer
    assert (answer.text, answer.attempts, len(server.requests)) == (
        "ok",
        attempts,
        attempts,
    )
    body = server.requests[-1]
    assert body["messages"] == [{"role": "user", "content": "hello"}]
    assert (body["model"], body["max_tokens"], body["temperature"]) == (
        "gpt-4o-mini",
        8,
        0.0,
    )


@pytest.mark.parametrize(
    ("fault", "message", "attempts"),
    [
        (
            Reply.server_error(),
            "by LiteLLM failed after 4 attempts with InternalServerError",
            4,
        ),
        (Reply.rate_limited(), "failed after 4 attempts with RateLimitError", 4),
        (
            Reply(status=400, code="context_length_exceeded"),
            "failed after 1 attempt with BadRequestError",
            1,
        ),
        (Reply(text=""), "empty completion .*5 tokens", 1),
        (Reply.malformed(b'{"choices": []}'), "a response that cannot be read", 1),
        (Reply(delay=30), "did not answer within 0.5 s", 1),
    ],
    ids=lambda value: str(value)[:20],
)
def test_lasting_faults_fail_that_request(
    fault: Reply, message: str, attempts: int
) -> None:
    settings = {"timeout": 0.5, "max_retries": 0} if fault.delay else {}
    with (
        FaultyLLMServer([fault] * attempts) as server,
        client(server.base_url, **settings) as llm,
    ):
        (failed,) = llm.complete([HELLO])
    assert isinstance(failed, CompletionError)
    with pytest.raises(CompletionError, match=message):
        raise failed
    assert failed.attempts == attempts


def test_the_cost_is_what_its_price_data_say() -> None:
    with (
        FaultyLLMServer([Reply(usage=(1000, 500, 0))] * 2) as server,
        client(server.base_url) as llm,
    ):
        (answer,) = llm.complete([HELLO])
        known = known_price(MODEL)
        assert isinstance(answer, Completion)
        assert answer.cost == pytest.approx(known.of(1000, 500))
        assert answer.cost > 0
        assert (llm.is_priced, llm.price) == (True, known)
        with client(server.base_url, price=Price(1.0, 2.0)) as dear:
            assert dear.complete([HELLO])[0].cost == pytest.approx(0.002)  # type: ignore[union-attr]


def test_a_router_sends_the_next_attempt_elsewhere() -> None:
    with (
        FaultyLLMServer([Reply.server_error()] * 50) as broken,
        FaultyLLMServer() as good,
    ):
        with client(
            None,
            "small",
            router=deployments(broken.base_url, good.base_url),
            max_retries=8,
        ) as llm:
            answers = llm.complete([HELLO] * 6)
        assert [getattr(answer, "text", answer) for answer in answers] == ["ok"] * 6
        assert len(good.requests) == 6
        assert llm.is_priced
        assert sum(answer.attempts for answer in answers) == 6 + len(broken.requests)  # type: ignore[union-attr]


def test_a_router_that_is_ready_is_used(litellm: ModuleType) -> None:
    with FaultyLLMServer() as server:
        router = litellm.Router(model_list=deployments(server.base_url), num_retries=0)
        with client(None, "small", router=router) as llm:
            assert isinstance(llm.complete([HELLO])[0], Completion)
            with pytest.raises(TypeError, match="list of deployments"):
                pickle.dumps(llm)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"router": deployments("http://a"), "model": "large"},
            r"no model 'large', only \['small'\]",
        ),
        ({"router": []}, "a litellm.Router or a list of at least one deployment"),
        ({"router": [{"model": "x"}]}, "A deployment must be .*, but one is"),
        ({"router": 7}, "got 7"),
        (
            {"router_options": {"num_retries": 1}},
            "router_options apply only to a router",
        ),
        ({"concurrency": 0}, "concurrency"),
    ],
)
def test_bad_arguments_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        LiteLLM(**{"model": "small", **settings})


def test_the_key_never_shows() -> None:
    with FaultyLLMServer(api_key="another") as server, client(server.base_url) as llm:
        (failed,) = llm.complete([HELLO])
        assert isinstance(failed, CompletionError)
        assert "Check the environment variables" in str(failed)
        assert KEY not in f"{failed!r} {llm!r} {pickle.dumps(llm)!r}"
        assert failed.attempts == 1
    with_key = deployments("http://me:password@there/v1?key=abc")
    with_key[0]["litellm_params"]["api_key"] = KEY
    shown = str(LiteLLM("small", router=with_key).identity())
    assert KEY not in shown
    assert "password" not in shown
    assert "http://there/v1" in shown


def test_a_key_that_a_router_was_given_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with FaultyLLMServer(api_key="another") as server:
        given = deployments(server.base_url)
        given[0]["litellm_params"]["api_key"] = KEY
        with client(None, "small", router=given) as llm:
            (failed,) = llm.complete([HELLO])
    assert "Error" in str(failed)
    assert "***" in str(failed)
    assert KEY not in f"{failed!r}"


def test_tools_schemas_and_further_arguments_are_passed_on() -> None:
    tool = {
        "type": "function",
        "function": {
            "name": "search",
            "parameters": {"type": "object", "properties": {}},
        },
    }
    request = Request.chat(
        "x", schema={"type": "object"}, temperature=0.5, seed=3, tools=(tool,)
    )
    with (
        FaultyLLMServer() as server,
        client(server.base_url, extra_body={"max_tokens": 9}) as llm,
    ):
        assert isinstance(llm.complete([request])[0], Completion)
        assert isinstance(
            client(server.base_url, send_sampling=False).complete([request])[0],
            Completion,
        )
    first, second = server.requests
    assert (
        first["max_tokens"],
        first["temperature"],
        first["seed"],
        first["tools"],
    ) == (9, 0.5, 3, [tool])
    assert first["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert not {"temperature", "seed"} & set(second)


def test_a_cache_and_a_judge_take_it(tmp_path: Path) -> None:
    reply = Reply('{"reason": "", "grades": {"good": 4}}')
    with (
        FaultyLLMServer([Reply(), reply, reply]) as server,
        client(server.base_url) as llm,
    ):
        cached = CachedLLM(llm, AnswerCache(tmp_path / "a.db"))
        assert [cached.complete([HELLO])[0].from_cache for _ in range(2)] == [
            False,
            True,
        ]  # type: ignore[union-attr]
        judge = Judge(llm, {"good": "It is good."})
        grade = judge(Completion("answer"), Example("question"))
        assert grade == 4
        assert judge.spent.cost > 0
    assert len(server.requests) == 2


# A configuration

FILE = """
budget = {budget}
inputs = "given"
repeats = 1
[prompts]
texts = ["a", "b"]
[data]
file = "data.csv"
[model]
type = "litellm"
{model}
[metrics]
exact_match = true
{metrics}
[goal]
maximize = "exact_match"
"""
ROUTED = """
model = "small"
backoff = 0.001
[[model.router]]
model_name = "small"
litellm_params = {{ model = "openai/gpt-4o-mini", api_base = "{url}", api_key = "os.environ/OPENAI_API_KEY" }}
[[model.router]]
model_name = "small"
litellm_params = {{ model = "openai/gpt-4o-mini", api_base = "{url}" }}
"""
WITH_KEY = ROUTED.format(url="http://a").replace(
    "os.environ/OPENAI_API_KEY", "abcdef123456"
)


def write(folder: Path, model: str, budget: str = "4", metrics: str = "") -> Path:
    (folder / "data.csv").write_text("input,reference\nq0,ok\nq1,ok\n")
    (folder / "a.toml").write_text(
        FILE.format(model=model, budget=budget, metrics=metrics)
    )
    return folder / "a.toml"


def test_a_configuration_names_it(tmp_path: Path) -> None:
    with FaultyLLMServer() as server:
        config = load_config(
            write(tmp_path, ROUTED.format(url=server.base_url), "{ cost = 1.0 }")
        )
        assert config.concurrency == 8
        evaluator = config.evaluator()
        result = asktell.run(config.selector, evaluator, progress=False)
        evaluator.llm.close()  # type: ignore[union-attr]
    assert result.selected[0].estimate["exact_match"] == 1.0
    assert result.spent_cost == pytest.approx(4 * known_price(MODEL).of(10, 5))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("model", "parts", "said"),
    [
        (
            'model = "openai/our-own"',
            {"budget": "{ cost = 1.0 }"},
            ("is a limit on costs"),
        ),
        ('model = "openai/our-own"', {"metrics": "cost = true"}, "'cost' needs prices"),
        (
            "model = 'x'\nrouter = 'x'",
            {},
            "'router' in .model. must be a list of tables",
        ),
        ("model = 'x'\nn_ctx = 3", {}, "unknown key 'n_ctx'"),
        (WITH_KEY, {}, "looks like a secret, which has no place in a file"),
    ],
)
def test_mistakes_of_a_configuration_are_named(
    tmp_path: Path, model: str, parts: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(write(tmp_path, model, **parts))
