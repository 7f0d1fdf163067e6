"""llama.cpp in a process of its own, on the packaged SmolLM2: right answers, slots, limits, and what can go wrong."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.problem.trials import Trial
from asktell_adapters.evaluators import (
    Completion,
    CompletionError,
    Example,
    LlamaCpp,
    LLMEvaluator,
    Request,
)
from asktell_adapters.llms.llama_cpp import _Server
from asktell_adapters.metrics import Brevity, output_tokens
from asktell_adapters.testing.llm_contract import completions


@pytest.fixture(scope="module")
def llm(smollm2_file: Path) -> Iterator[LlamaCpp]:
    llm = LlamaCpp(smollm2_file, n_ctx=512, n_slots=3, n_threads=1)
    yield llm
    llm.close()


def chat(user: str, limit: int = 8) -> Request:
    return Request.chat(user, "Answer with the output only.", max_new_tokens=limit)


def test_it_answers_greedily_and_reuses_the_common_prefix(llm: LlamaCpp) -> None:
    (first,) = completions(llm.complete([chat("Repeat the word.\n\ncat")]))
    second, third = completions(
        llm.complete([chat("Repeat the word.\n\ndog"), chat("Repeat the word.\n\ncat")])
    )
    assert first.text == third.text
    assert 0 < first.completion_tokens <= 8
    assert max(second.cached_tokens, third.cached_tokens) > first.prompt_tokens // 2
    assert first.latency > 0


def test_a_request_that_does_not_fit_fails_alone(llm: LlamaCpp) -> None:
    long, short = llm.complete([chat("word " * 600), chat("Say yes.", 2)])
    assert isinstance(long, CompletionError)
    assert "exceeds the available context size (512 tokens)" in str(long)
    assert "larger n_ctx" in str(long)
    assert not isinstance(short, Exception)


def test_an_answer_that_fills_the_context_is_cut(llm: LlamaCpp) -> None:
    (answer,) = completions(llm.complete([chat("word " * 420 + " Go on.", 200)]))
    assert answer.prompt_tokens + answer.completion_tokens <= 513
    assert answer.finish_reason in ("stop", "length")


def test_tokens_are_counted_without_an_answer(llm: LlamaCpp) -> None:
    requests = [chat("Say yes.", 1), Request.chat("Say no, please.", max_new_tokens=1)]
    assert llm.count_tokens(requests) == [
        answer.prompt_tokens for answer in completions(llm.complete(requests))
    ]


def test_sampling_follows_the_seed(smollm2_file: Path) -> None:
    fresh = LlamaCpp(
        smollm2_file, n_ctx=512, n_slots=1, n_threads=1, reuse_prefix=False
    )

    def sample(seed: int) -> str:
        request = Request.chat(
            "Name an animal.", max_new_tokens=12, temperature=1.5, seed=seed
        )
        return completions(fresh.complete([request]))[0].text

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(4)}) > 1
    fresh.close()


def test_a_pickled_copy_gives_the_same_answer_without_a_reused_prefix(
    smollm2_file: Path,
) -> None:
    fresh = LlamaCpp(
        smollm2_file, n_ctx=512, n_slots=1, n_threads=1, reuse_prefix=False
    )
    fresh.load()
    saved = pickle.dumps(fresh)
    assert fresh._server._key.encode() not in saved
    copy = pickle.loads(saved)
    answers = completions(
        [
            fresh.complete([chat("Say yes.", 4)])[0],
            *copy.complete([chat("Say yes.", 4)] * 2),
        ]
    )
    copy.close()
    fresh.close()
    assert [answer.cached_tokens for answer in answers] == [0, 0, 0]
    assert len({answer.text for answer in answers}) == 1


_shared: LlamaCpp | None = None


def _ask_the_shared_one(text: str) -> str:
    return completions(_shared.complete([chat(text, 4)]))[0].text


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="no fork"
)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
# JAX's, where another test has loaded it
@pytest.mark.filterwarnings("ignore:.*os.fork\\(\\):RuntimeWarning")
def test_a_forked_process_loads_it_anew(llm: LlamaCpp) -> None:
    global _shared
    _shared = llm
    expected = _ask_the_shared_one("Say yes.")
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        assert (
            pool.submit(_ask_the_shared_one, "Say yes.").result(timeout=120) == expected
        )
    assert _ask_the_shared_one("Say yes.") == expected


def server_of(llm: LlamaCpp) -> _Server:
    llm.load()
    assert llm._server is not None
    return llm._server


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return (
        not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    )


def ends_within(seconds: float, pid: int) -> bool:
    deadline = time.monotonic() + seconds
    while is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


needs_signals = pytest.mark.skipif(
    "not hasattr(signal, 'SIGSTOP')", reason="no SIGSTOP, no os.kill(pid, 0)"
)


@needs_signals
def test_closing_ends_its_process_and_the_next_request_loads_again(
    smollm2_file: Path,
) -> None:
    llm = LlamaCpp(smollm2_file, n_ctx=512, n_slots=2, n_threads=1)
    pid = server_of(llm)._process.pid
    assert is_running(pid)
    llm.close()
    assert not is_running(pid)
    assert len(completions(llm.complete([chat("Say yes.", 1)]))) == 1
    llm.close()
    llm.close()


@needs_signals
def test_a_model_that_hangs_fails_its_requests_in_time_and_is_ended(
    smollm2_file: Path,
) -> None:
    llm = LlamaCpp(smollm2_file, n_ctx=512, n_slots=1, n_threads=1, timeout=20.0)
    server = server_of(llm)
    llm.timeout = server._timeout = 0.5
    os.kill(server._process.pid, signal.SIGSTOP)
    (failed,) = llm.complete([chat("Say yes.", 1)])
    assert isinstance(failed, CompletionError)
    assert (
        str(failed)
        == "llama.cpp did not respond within 0.5 s. Pass a larger timeout if it needs longer."
    )
    llm.close()
    assert not is_running(server._process.pid)


@needs_signals
def test_closing_waits_for_a_request_under_way_but_not_for_ever(
    smollm2_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asktell_adapters.llms.llama_cpp._SECONDS_TO_FINISH", 0.5)
    llm = LlamaCpp(smollm2_file, n_ctx=512, n_slots=1, n_threads=1)
    server = server_of(llm)
    os.kill(server._process.pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(llm.complete, [chat("Say yes.", 1)] * 2)
        while len(llm._pending) < 2:
            time.sleep(0.01)
        llm.close()
        assert [str(answer) for answer in answers.result(timeout=30)] == [
            "llama.cpp was closed."
        ] * 2


@needs_signals
def test_a_model_that_is_killed_says_so_and_is_loaded_again(smollm2_file: Path) -> None:
    llm = LlamaCpp(smollm2_file, n_ctx=512, n_slots=1, n_threads=1)
    server = server_of(llm)
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(llm.complete, [chat("Tell a long story.", 400)])
        time.sleep(0.5)
        os.kill(server._process.pid, signal.SIGKILL)
        (failed,) = answers.result(timeout=30)
    assert isinstance(failed, CompletionError)
    assert "llama.cpp ended by signal 9. Perhaps memory ran out." in str(failed)
    assert len(completions(llm.complete([chat("Say yes.", 1)]))) == 1
    llm.close()


@needs_signals
def test_a_model_that_does_not_load_in_time_is_ended(smollm2_file: Path) -> None:
    with pytest.raises(
        EvaluatorError, match=r"did not load .* within 0\.01 s\. Pass a larger timeout"
    ):
        LlamaCpp(smollm2_file, timeout=0.01).load()


@needs_signals
def test_it_ends_with_the_object(smollm2_file: Path) -> None:
    llm = LlamaCpp(smollm2_file, n_ctx=512, n_slots=1, n_threads=1)
    pid = server_of(llm)._process.pid
    del llm
    assert ends_within(10, pid)


PARENT = """
import os, sys, time
from asktell_adapters.evaluators import LlamaCpp
if __name__ == "__main__":
    llm = LlamaCpp(sys.argv[1], n_ctx=512, n_slots=1, n_threads=1)
    llm.load()
    print(llm._server._process.pid, flush=True)
    if sys.argv[2] == "fork" and os.fork() == 0:
        time.sleep(600)
    if sys.argv[2] != "exit":
        time.sleep(600)
"""


@needs_signals
@pytest.mark.parametrize("how", ["exit", "fork"])
def test_it_ends_with_the_process_that_loaded_it(
    smollm2_file: Path, tmp_path: Path, how: str
) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    command = [sys.executable, str(tmp_path / "parent.py"), str(smollm2_file), how]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, start_new_session=True
    ) as parent:
        pid = int(parent.stdout.readline())
        if how != "exit":
            assert is_running(pid)
            parent.kill()
        parent.wait(60)
        try:
            assert ends_within(10, pid)
        finally:
            if how == "fork":
                os.killpg(parent.pid, signal.SIGKILL)


def test_strangers_on_this_machine_are_not_served(llm: LlamaCpp) -> None:
    import urllib.error
    import urllib.request

    address = server_of(llm).address
    assert address.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{address}/v1/models", timeout=10)


def test_scores_of_a_batch(llm: LlamaCpp) -> None:
    examples = [
        Example("The cat sat on the mat.", "A cat sat."),
        Example("Dogs run fast.", "Dogs run."),
    ]
    metrics = {"brevity": Brevity(2, 6), "tokens": output_tokens}
    evaluator = LLMEvaluator(llm, examples, metrics, max_new_tokens=6)
    trials = [
        Trial(0, 0, "Summarize.", 0),
        Trial(1, 0, "Summarize.", 1),
        Trial(2, 0, "Summarize.", 5),
    ]
    *scored, failed = evaluator.evaluate_batch(trials)
    assert isinstance(failed, InvalidArgumentError)
    for scores in scored:
        assert isinstance(scores, dict)
        assert list(scores) == ["brevity", "tokens"]
        assert 1 <= scores["tokens"] <= 6


def test_what_cannot_be_loaded_says_why(tmp_path: Path, smollm2_file: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no GGUF file .*gone\.gguf"):
        LlamaCpp(tmp_path / "gone.gguf")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"not a model")
    with pytest.raises(
        EvaluatorError, match=r"could not load .*broken\.gguf.*begins with b'not '"
    ):
        LlamaCpp(broken).load()
    with smollm2_file.open("rb") as file:
        broken.write_bytes(file.read(3_000_000))
    with pytest.raises(
        EvaluatorError, match=r"could not load .*broken\.gguf.*damaged or incomplete"
    ):
        LlamaCpp(broken).complete([chat("Say yes.")])


@pytest.mark.parametrize(
    "option", [{"n_ctx": -1}, {"n_slots": 0}, {"n_threads": 0}, {"n_slots": 1.5}]
)
def test_numbers_out_of_range_are_refused(
    smollm2_file: Path, option: dict[str, int]
) -> None:
    with pytest.raises(
        InvalidArgumentError, match=f"{next(iter(option))} must be a whole number"
    ):
        LlamaCpp(smollm2_file, **option)


def test_a_template_without_a_system_role_gets_it_in_the_user_turn(
    llm: LlamaCpp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def post(path: str, body: Mapping[str, Any]) -> dict[str, object]:
        """Answers like a server whose chat template is like Gemma's."""
        assert path == "/v1/chat/completions"
        if body["messages"][0]["role"] == "system":
            return {
                "error": {
                    "message": "System role not supported",
                    "type": "server_error",
                }
            }
        choice = {
            "message": {"content": body["messages"][0]["content"]},
            "finish_reason": "stop",
        }
        usage = {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        return {"choices": [choice], "usage": usage}

    monkeypatch.setattr(server_of(llm), "post", post)
    (answer,) = llm.complete([Request.chat("user words", "system words")])
    assert isinstance(answer, Completion)
    assert answer.text == "system words\n\nuser words"
    assert answer.completion_tokens == 1  # without the token that ends the turn
