"""vLLM's adapter against a fake with the real package's signatures; tests/families/vllm runs the real one."""

import copy
import multiprocessing
import pickle
import threading
from pathlib import Path
from types import ModuleType

import pytest

from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell_adapters.evaluators import VLLM, Completion, CompletionError, Request
from asktell_adapters.testing.llm_contract import completions as good


def ask(text: str, limit: int = 8, **settings: float) -> Request:
    return Request.chat(text, max_new_tokens=limit, **settings)


def test_a_batch_is_one_call_with_each_requests_own_settings(vllm: ModuleType) -> None:
    answers = good(
        VLLM("org/model").complete(
            [ask("a b c", 2), ask("a", temperature=0.7, seed=5), ask("b " * 30, 40)]
        )
    )
    (engine,) = vllm.engines
    (call,) = engine.calls
    settings = {
        tuple(chat[0]["content"].split())[:3]: params
        for chat, params in zip(*_columns(call), strict=True)
    }
    assert [
        (p.max_tokens, p.temperature, p.seed) for _, p in sorted(settings.items())
    ] == [
        (8, 0.7, 5),
        (2, 0.0, None),
        (40, 0.0, None),
    ]
    assert call["use_tqdm"] is False
    assert [answer.text for answer in answers] == ["a b", "a", "b " * 29 + "b"]
    assert [answer.finish_reason for answer in answers] == ["length", "stop", "stop"]
    # The end token is not counted
    assert [answer.completion_tokens for answer in answers] == [2, 1, 30]
    assert [answer.prompt_tokens for answer in answers] == [4, 2, 31]


def _columns(call: dict[str, list[object]]) -> tuple[list[object], list[object]]:
    return call["messages"], call["sampling_params"]


def test_what_begins_alike_stands_together_and_is_read_once(vllm: ModuleType) -> None:
    prompts = [
        "Answer in one word and no more please:",
        "Think step by step and then answer this:",
    ]
    requests = [ask(f"{prompts[n % 2]} x{n}", 16) for n in range(8)]
    llm = VLLM("org/model")
    answers = good(llm.complete(requests))
    sent = [chat[0]["content"] for chat in vllm.engines[0].calls[0]["messages"]]
    assert sent == sorted(sent)
    assert [answer.text.split()[-1] for answer in answers] == [
        f"x{n}" for n in range(8)
    ]
    assert [answer.cached_tokens for answer in answers] == [0, 0] + [8] * 6
    assert vllm.engines[0].options["enable_prefix_caching"] is True
    without = VLLM(
        "org/model",
        engine_options={"enable_prefix_caching": False, "max_model_len": 32},
    )
    assert {answer.cached_tokens for answer in good(without.complete(requests))} == {0}
    assert vllm.engines[1].options == {
        "enable_prefix_caching": False,
        "max_model_len": 32,
    }


def test_refused_requests_fail_alone_and_what_they_left_behind_is_passed_over(
    vllm: ModuleType,
) -> None:
    llm = VLLM("org/model")
    asked = [f"m{n} " * 70 if n in (3, 9) else f"m{n}" for n in range(12)]
    answers = llm.complete([ask(text) for text in asked])
    for n, answer in enumerate(answers):
        if n in (3, 9):
            assert isinstance(answer, CompletionError)
            assert "prompt (length 71) is longer than 64" in str(answer)
        else:
            assert isinstance(answer, Completion)
            assert answer.text == f"m{n}"
    assert [answer.text for answer in good(llm.complete([ask("q"), ask("p")]))] == [
        "q",
        "p",
    ]


def test_a_step_that_breaks_costs_the_request_that_breaks_it(vllm: ModuleType) -> None:
    llm = VLLM("org/model")
    llm.load()
    vllm.engines[0].breaks = {"c"}
    answers = llm.complete([ask(text) for text in "abcdef"])
    assert [getattr(answer, "text", None) for answer in answers] == [
        "a",
        "b",
        None,
        "d",
        "e",
        "f",
    ]
    assert "a step broke" in str(answers[2])


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_was_broken_off_is_a_failure(
    reason: str, vllm: ModuleType
) -> None:
    llm = VLLM("org/model")
    llm.load()
    vllm.engines[0].ends = {"b": reason}
    first, second = llm.complete([ask("a"), ask("b")])
    assert isinstance(first, Completion)
    with pytest.raises(CompletionError, match=reason):
        raise second  # type: ignore[misc]


def test_a_template_without_a_system_role_gets_it_in_the_user_turn(
    vllm: ModuleType,
) -> None:
    llm = VLLM("org/model")
    llm.load()
    engine = vllm.engines[0]
    engine.system_role = False
    requests = [
        Request.chat("u1", "s1", max_new_tokens=8),
        ask("w " * 70),
        Request.chat("u2", "s2"),
    ]
    one, long, two = llm.complete(requests)
    assert isinstance(one, Completion)
    assert isinstance(two, Completion)
    assert (one.text, two.text) == ("s1 u1", "s2 u2")
    assert "is longer than 64" in str(long)
    engine.calls.clear()
    good(llm.complete([requests[0], requests[2]]))
    assert len(engine.calls) == 1  # it has learned


def test_a_dead_engine_is_a_clear_error_and_the_next_call_starts_another(
    vllm: ModuleType,
) -> None:
    llm = VLLM("org/model")
    good(llm.complete([ask("a")]))
    vllm.engines[0].dead = True
    with pytest.raises(
        EvaluatorError, match=r"engine died during a call .*gpu_memory_utilization"
    ):
        llm.complete([ask("a"), ask("b")])
    assert good(llm.complete([ask("a")]))[0].text == "a"
    assert len(vllm.engines) == 2
    ready = VLLM(vllm.engines[1])
    vllm.engines[1].dead = True
    for _ in range(2):
        with pytest.raises(EvaluatorError, match="engine died"):
            ready.complete([ask("a")])
    assert len(vllm.engines) == 2


class Process:
    """A process of an engine, as multiprocessing lists it."""

    name = "EngineCore"

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.alive = True

    def is_alive(self) -> bool:
        return self.alive


def test_a_killed_engine_that_vllm_would_wait_for_is_noticed(
    vllm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = [Process(1)]
    monkeypatch.setattr(multiprocessing, "active_children", lambda: list(processes))
    monkeypatch.setattr("asktell_adapters.llms.vllm._SECONDS_BETWEEN_LOOKS", 0.02)
    make = vllm.LLM.__init__

    def start(self: object, *args: object, **kwargs: object) -> None:
        make(self, *args, **kwargs)
        processes.append(Process(len(processes) + 1))

    monkeypatch.setattr(vllm.LLM, "__init__", start)
    llm = VLLM("org/model")
    assert good(llm.complete([ask("a")]))[0].text == "a"
    answered = threading.Event()

    def killed(*args: object, **kwargs: object) -> None:
        processes[1].alive = False
        answered.wait()

    vllm.engines[0].chat = killed
    with pytest.raises(
        EvaluatorError, match=r"engine died .*its process ended without a message"
    ):
        llm.complete([ask("a")])
    answered.set()
    processes[0].alive = False  # somebody else's
    assert good(llm.complete([ask("a")]))[0].text == "a"
    assert len(vllm.engines) == 2


def test_a_call_that_was_broken_off_ends_before_the_next_begins(
    vllm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiprocessing, "active_children", lambda: [Process(1)])
    llm = VLLM(vllm.LLM("org/model"))
    go, steps = threading.Event(), []
    chat = vllm.engines[0].chat

    def slow(*args: object, **kwargs: object) -> object:
        steps.append("begins")
        go.wait()
        steps.append("ends")
        return chat(*args, **kwargs)

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    vllm.engines[0].chat = slow
    with monkeypatch.context() as patch:
        patch.setattr("asktell_adapters.llms.vllm.wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            llm.complete([ask("a")])
    threading.Timer(0.05, go.set).start()
    assert good(llm.complete([ask("b")]))[0].text == "b"
    assert steps == ["begins", "ends"] * 2


def test_an_engine_that_cannot_start_is_a_clear_error(vllm: ModuleType) -> None:
    vllm.refuse_start = True
    llm = VLLM("org/model")
    with pytest.raises(
        EvaluatorError,
        match=r"could not start with 'org/model' \(Engine core initialization failed",
    ):
        llm.load()
    with pytest.raises(
        EvaluatorError, match="unexpected keyword argument 'tensor_parallel'"
    ):
        VLLM("org/model", engine_options={"tensor_parallel": 2}).load()


def test_a_ready_engine_is_taken_and_left_alone(vllm: ModuleType) -> None:
    engine = vllm.LLM("org/model", max_model_len=32)
    llm = VLLM(engine)
    assert good(llm.complete([ask("a")]))[0].text == "a"
    llm.close()
    assert good(llm.complete([ask("b")]))[0].text == "b"
    assert len(vllm.engines) == 1
    with pytest.raises(InvalidArgumentError, match="engine_options"):
        VLLM(engine, engine_options={"max_model_len": 3})
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(llm)


def test_one_made_from_a_name_can_be_pickled_and_closed(
    vllm: ModuleType, tmp_path: Path
) -> None:
    llm = VLLM(tmp_path)
    good(llm.complete([ask("a")]))
    good(pickle.loads(pickle.dumps(llm)).complete([ask("a")]))
    good(copy.copy(llm).complete([ask("a")]))
    assert len(vllm.engines) == 3
    llm.close()
    good(llm.complete([ask("a")]))
    assert len(vllm.engines) == 4
