"""transformers in process: batching on a tiny random model, and the packaged GGUF (slow)."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell_adapters.evaluators import (
    Completion,
    CompletionError,
    HuggingFace,
    Request,
)
from asktell_adapters.llms.gguf import smollm2
from asktell_adapters.testing.llm_contract import completions as good

torch: Any = None
transformers: Any = None
GEMMA_LIKE = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"


@pytest.fixture(autouse=True, scope="module")
def packages() -> None:
    """Imported only by the process that runs these tests: they take longer than most of the suite's collection."""
    global torch, transformers
    torch, transformers = (
        pytest.importorskip("torch"),
        pytest.importorskip("transformers"),
    )


@pytest.fixture
def llm(tiny_model: Path) -> HuggingFace:
    return HuggingFace(tiny_model, device="cpu", batch_size=4)


def requests(count: int, limit: int = 6) -> list[Request]:
    return [
        Request.chat(
            " ".join(f"w{(n * 7 + k) % 59}" for k in range(1 + n % 5)),
            max_new_tokens=limit,
        )
        for n in range(count)
    ]


def counting(
    llm: HuggingFace, monkeypatch: pytest.MonkeyPatch, before: Callable[[int], None]
) -> list[int]:
    """Sizes of the batches that reach the model; `before(size)` runs first and may raise."""
    llm.complete(requests(1))
    sizes: list[int] = []
    generate = llm._model.generate

    def generate_and_count(**settings: Any) -> Any:
        sizes.append(len(settings["input_ids"]))
        before(len(settings["input_ids"]))
        return generate(**settings)

    monkeypatch.setattr(llm._model, "generate", generate_and_count)
    return sizes


def test_batches_give_what_single_requests_give_in_their_order(
    tiny_model: Path, llm: HuggingFace
) -> None:
    batched = good(llm.complete(requests(11)))
    one = HuggingFace(tiny_model, device="cpu", batch_size=1)
    single = [good(one.complete([request]))[0] for request in requests(11)]
    assert [answer.text for answer in batched] == [answer.text for answer in single]
    assert [answer.prompt_tokens for answer in batched] == [
        3 + n % 5 for n in range(11)
    ]
    assert len({answer.text for answer in batched}) > 1


def test_the_limit_and_the_end_token_are_told_apart(llm: HuggingFace) -> None:
    llm.complete(requests(1))
    llm._model.generation_config.eos_token_id = list(range(5, 15))
    answers = good(llm.complete(requests(40, limit=20)))
    assert {answer.finish_reason for answer in answers} == {"stop", "length"}
    for answer in answers:
        assert (answer.completion_tokens == 20) == (answer.finish_reason == "length")
        assert len(answer.text.split()) <= answer.completion_tokens


def test_out_of_memory_halves_the_batch_and_the_smaller_size_stays(
    llm: HuggingFace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_one_fits(size: int) -> None:
        if size > 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")

    sizes = counting(llm, monkeypatch, only_one_fits)
    assert len(good(llm.complete(requests(5)))) == 5
    assert sizes == [4, 2, 1, 1, 1, 1, 1]
    assert llm.batch_size == 1


def test_a_request_that_runs_out_of_memory_alone_fails_alone(
    llm: HuggingFace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_fits(size: int) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    counting(llm, monkeypatch, none_fits)
    answers = llm.complete(requests(3))
    assert [type(answer) for answer in answers] == [CompletionError] * 3
    assert "can't allocate memory" in str(answers[0])


def test_a_request_that_breaks_its_batch_fails_alone(
    llm: HuggingFace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = counting(llm, monkeypatch, lambda size: None)
    generate = llm._model.generate

    def broken(**settings: Any) -> Any:
        if (settings["input_ids"] == 9).any():  # w4
            raise IndexError("scripted")
        return generate(**settings)

    monkeypatch.setattr(llm._model, "generate", broken)
    texts = ["w1", "w4", "w3"]
    first, second, third = llm.complete(
        [Request.chat(text, max_new_tokens=2) for text in texts]
    )
    assert isinstance(second, CompletionError)
    assert "IndexError: scripted" in str(second)
    assert len(good([first, third])) == 2
    assert sizes == [1, 1]


def test_a_request_beyond_the_context_fails_alone(llm: HuggingFace) -> None:
    long, short = llm.complete(
        [
            Request.chat("w1 " * 60, max_new_tokens=10),
            Request.chat("w1", max_new_tokens=2),
        ]
    )
    assert isinstance(long, CompletionError)
    assert "62 tokens and asks for 10 more, but the context has 64" in str(long)
    assert isinstance(short, Completion)


def test_sampling_follows_the_seed_and_leaves_the_callers_alone(
    llm: HuggingFace,
) -> None:
    asked = [
        Request.chat("w1", max_new_tokens=8, temperature=3.0, seed=seed)
        for seed in (1, 2, 1)
    ]
    before = torch.random.get_rng_state()
    one, two, again = good(llm.complete(asked))
    assert one.text == again.text != two.text
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_template_without_a_system_role_gets_it_in_the_user_turn(
    llm: HuggingFace,
) -> None:
    llm.complete(requests(1))
    request = Request.chat("w1 w2", "w3", max_new_tokens=2)
    with_role = good(llm.complete([request]))[0].prompt_tokens
    llm._tokenizer.chat_template = GEMMA_LIKE + llm._tokenizer.chat_template
    assert good(llm.complete([request]))[0].prompt_tokens == with_role - 1


def test_a_loaded_model_is_taken_with_its_tokenizer(llm: HuggingFace) -> None:
    llm.complete(requests(1))
    other = HuggingFace(llm._model, tokenizer=llm._tokenizer)
    assert good(other.complete(requests(2)))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(other)
    copy = pickle.loads(pickle.dumps(llm))
    assert (
        good(copy.complete(requests(1)))[0].text
        == good(llm.complete(requests(1)))[0].text
    )


def test_bad_arguments_are_refused(tmp_path: Path, tiny_model: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="batch_size"):
        HuggingFace("x", batch_size=0)
    with pytest.raises(InvalidArgumentError, match="tokenizer"):
        HuggingFace(object())
    with pytest.raises(InvalidArgumentError, match="no dtype 'float31'"):
        HuggingFace(tiny_model, dtype="float31", device="cpu").load()
    with pytest.raises(EvaluatorError, match="no GGUF file"):
        HuggingFace(tmp_path / "gone.gguf").load()
    with pytest.raises(EvaluatorError, match="could not load"):
        HuggingFace(tmp_path).load()


def test_placing_and_attention_are_passed_on(
    tiny_model: Path, llm: HuggingFace
) -> None:
    pytest.importorskip("accelerate")
    expected = good(llm.complete(requests(3)))
    spread = HuggingFace(
        tiny_model, device_map="cpu", dtype="auto", attn_implementation="eager"
    )
    assert [answer.text for answer in good(spread.complete(requests(3)))] == [
        answer.text for answer in expected
    ]
    assert spread._model.config._attn_implementation == "eager"
    assert spread.device is None
    assert "device_map='cpu'" in repr(spread)
    with pytest.raises(InvalidArgumentError, match="either a device or a device_map"):
        HuggingFace(tiny_model, device="cpu", device_map="auto")
    with pytest.raises(InvalidArgumentError, match="passed by its name"):
        HuggingFace(llm._model, tokenizer=llm._tokenizer, dtype="float16")
    with pytest.raises(EvaluatorError, match="could not load"):
        HuggingFace(
            tiny_model, device="cpu", attn_implementation="flash_attention_9"
        ).load()


@pytest.mark.parametrize(
    ("computes", "expected"), [(True, "bfloat16"), (False, "float16")]
)
def test_a_gpu_that_only_emulates_bfloat16_gets_float16(
    computes: bool, expected: str, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: computes
    )
    assert HuggingFace(tiny_model, device="cuda")._usual_dtype() == expected
    assert HuggingFace(tiny_model, device_map="auto")._usual_dtype() == expected
    assert HuggingFace(tiny_model, device="cpu")._usual_dtype() == "float32"


@pytest.mark.slow
def test_the_packaged_gguf_answers_through_transformers() -> None:
    pytest.importorskip("gguf")
    llm = HuggingFace(smollm2(dtype=None), device="cpu", batch_size=2)
    asked = [
        Request.chat(f"Repeat the word.\n\n{word}", max_new_tokens=6)
        for word in ("cat", "a dog and a horse")
    ]
    answers = good(llm.complete(asked))
    assert all(answer.text and 0 < answer.completion_tokens <= 6 for answer in answers)
