"""Answers on disk: found again, told apart by all that determines them, shared, bounded, and never a run's end."""

import contextlib
import json
import logging
import multiprocessing
import os
import random
import signal
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import asktell
from asktell.errors import InvalidArgumentError, StorageError
from asktell_adapters.evaluators import (
    Completion,
    Example,
    LLMEvaluator,
    Request,
    ScriptedLLM,
)
from asktell_adapters.llms.cache import AnswerCache, CachedLLM, answer_key
from asktell_adapters.metrics import cost, output_tokens
from tests.command_line import cli


def answer(request: Request) -> Completion:
    text = request.messages[-1]["content"]
    if "fail" in text:
        raise ValueError("no answer")
    return Completion(
        f"to {text}", 7, len(text), latency=2.0, cost=0.5, finish_reason="stop"
    )


def cached(
    tmp_path: Path, name: str = "m", **options: Any
) -> tuple[CachedLLM, ScriptedLLM]:
    llm = ScriptedLLM(answer, name)
    return CachedLLM(llm, AnswerCache(tmp_path / "answers.db", **options)), llm


def chats(*texts: str, **settings: Any) -> list[Request]:
    return [Request.chat(text, **settings) for text in texts]


def test_what_was_asked_once_is_not_asked_again(tmp_path: Path) -> None:
    first, asked = cached(tmp_path)
    found = first.complete(chats("a", "b"))
    second, asked_again = cached(tmp_path)
    again = second.complete(chats("b", "c", "a"))
    assert len(asked.requests) == 2
    assert [request.messages[0]["content"] for request in asked_again.requests] == ["c"]
    assert (second.hits, second.misses) == (2, 1)
    assert [a.from_cache for a in again if isinstance(a, Completion)] == [
        True,
        False,
        True,
    ]
    assert [a.text for a in again if isinstance(a, Completion)] == [
        "to b",
        "to c",
        "to a",
    ]
    assert isinstance(again[2], Completion)
    assert isinstance(found[0], Completion)
    assert again[2] == Completion(**{**found[0].__dict__, "from_cache": True})


REQUEST = Request.chat(
    "text", "system", max_new_tokens=9, temperature=0.5, seed=1, repeat=0
)


@pytest.mark.parametrize(
    "other",
    [
        Request.chat(
            "text.", "system", max_new_tokens=9, temperature=0.5, seed=1, repeat=0
        ),
        Request.chat(
            "text", "another", max_new_tokens=9, temperature=0.5, seed=1, repeat=0
        ),
        Request.chat(
            "text", "system", max_new_tokens=10, temperature=0.5, seed=1, repeat=0
        ),
        Request.chat(
            "text", "system", max_new_tokens=9, temperature=0.6, seed=1, repeat=0
        ),
        Request.chat(
            "text", "system", max_new_tokens=9, temperature=0.5, seed=2, repeat=0
        ),
        Request.chat(
            "text", "system", max_new_tokens=9, temperature=0.5, seed=1, repeat=1
        ),
        Request.chat(
            "systemtext", None, max_new_tokens=9, temperature=0.5, seed=1, repeat=0
        ),
    ],
)
def test_everything_that_determines_an_answer_is_in_its_key(other: Request) -> None:
    assert answer_key({"model": "m"}, REQUEST) != answer_key({"model": "m"}, other)
    assert answer_key({"model": "m"}, REQUEST) != answer_key({"model": "n"}, REQUEST)
    assert answer_key({"a": 1, "b": 2}, REQUEST) == answer_key(
        {"b": 2, "a": 1}, REQUEST
    )


def test_sampled_answers_are_kept_only_where_repeats_are_numbered(
    tmp_path: Path,
) -> None:
    llm, asked = cached(tmp_path)
    for _ in range(2):
        llm.complete(chats("a", temperature=1.0))
    assert len(asked.requests) == 2
    for repeat in (0, 1, 0, 1):
        llm.complete(chats("a", temperature=1.0, repeat=repeat))
    assert len(asked.requests) == 4


def test_an_evaluator_scores_the_same_and_pays_nothing(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.db")
    metrics = {"tokens": output_tokens, "cost": cost}
    examples = [Example("one"), Example("two"), Example("three")]
    goal = asktell.BestFeasible(
        asktell.minimize("tokens"), subject_to={"cost": asktell.at_most(1.0)}
    )
    spent, asked = [], []
    for _ in range(2):
        llm = ScriptedLLM(answer)
        evaluator = LLMEvaluator(llm, examples, metrics, system=None, cache=cache)
        selector = asktell.Selector(
            ["p", "longer"], goal, budget=asktell.Budget(cost=3.0), examples=3, seed=0
        )
        result = asktell.run(selector, evaluator, progress=False)
        spent.append(result.spent_cost)
        asked.append(len(llm.requests))
        assert all(
            entry.estimate["cost"] == pytest.approx(0.5) for entry in result.prompts
        )
    assert spent == [pytest.approx(3.0), 0.0]
    assert asked == [6, 0]


def test_answers_age(tmp_path: Path) -> None:
    now = [1000.0]
    llm, asked = cached(tmp_path, max_age=10.0, clock=lambda: now[0])
    for now[0] in (1000.0, 1010.0, 1010.1):
        llm.complete(chats("a"))
    assert len(asked.requests) == 2


def test_the_least_used_go_when_it_is_full(tmp_path: Path) -> None:
    now = [0.0]
    cache = AnswerCache(tmp_path / "answers.db", max_bytes=20_000, clock=lambda: now[0])
    for n in range(50):
        now[0] += 100.0
        assert cache.get(["0"]) != [None] or n == 0
        cache.put([(str(n), Completion("x" * 1000))])
        assert cache.info().bytes <= 20_000
    kept = [
        n for n, found in enumerate(cache.get([str(n) for n in range(50)])) if found
    ]
    assert kept[0] == 0  # used all the time
    assert kept[1:] == list(range(50 - len(kept) + 1, 50))
    with sqlite3.connect(cache.path) as connection:
        assert connection.execute(
            "SELECT SUM(bytes), COUNT(*) FROM answers"
        ).fetchone() == (
            cache.info().bytes,
            cache.info().answers,
        )
    connection.close()


def test_nothing_that_was_asked_can_be_read_and_only_by_the_owner(
    tmp_path: Path,
) -> None:
    pytest.importorskip("openai")
    from asktell_adapters.evaluators import OpenAIChat

    secret = OpenAIChat("m", base_url="http://user:hunter2@localhost/v1?key=hunter2")
    assert "hunter2" not in json.dumps(secret.identity())
    assert (
        secret.identity() == OpenAIChat("m", base_url="http://localhost/v1/").identity()
    )
    assert not secret.sampled(Request.chat("x"))
    assert OpenAIChat("m", base_url="http://x/v1", send_sampling=False).sampled(
        Request.chat("x")
    )
    assert OpenAIChat(
        "m", base_url="http://x/v1", extra_body={"temperature": 1}
    ).sampled(Request.chat("x"))
    llm, _ = cached(tmp_path, "model-of-hunter2")
    llm.complete(chats("sesame"))
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"hunter2" not in written
    assert written.count(b"sesame") == 1  # in the answer, which repeats it
    assert (tmp_path / "answers.db").stat().st_mode & 0o777 == 0o600


def test_a_cache_that_cannot_be_used_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "answers.db").write_bytes(
        b"this is no database, but long enough to be taken for one" * 50
    )
    llm, asked = cached(tmp_path)
    with caplog.at_level(logging.WARNING, "asktell"):
        for _ in range(2):
            assert isinstance(llm.complete(chats("a"))[0], Completion)
    assert len(asked.requests) == 2
    assert [
        record.getMessage()
        for record in caplog.records
        if "Continuing without the response cache" in record.getMessage()
    ]
    assert len(caplog.records) == 1
    with pytest.raises(
        StorageError, match=r"damaged .*`asktell cache clear` removes it"
    ):
        llm.cache.info()
    assert llm.cache.clear() == 0
    assert llm.cache.info().answers == 0


def test_another_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "answers.db") as connection:
        connection.execute("CREATE TABLE precious (x)")
    connection.close()
    with pytest.raises(StorageError, match="not a response cache"):
        AnswerCache(tmp_path / "answers.db").clear()
    newer = AnswerCache(tmp_path / "newer.db")
    newer.put([("k", Completion("x"))])
    with sqlite3.connect(newer.path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(
        StorageError, match="version 7, but this asktell reads version 1"
    ):
        newer.get(["k"])


def test_local_models_are_known_by_what_is_in_their_files(
    tiny_model: Path, tmp_path: Path
) -> None:
    import shutil

    from asktell_adapters.evaluators import HuggingFace

    copy = tmp_path / "copy"
    shutil.copytree(tiny_model, copy)
    first, second = (
        HuggingFace(tiny_model, device="cpu"),
        HuggingFace(copy, device="cpu"),
    )
    request = Request.chat("w1 w2", max_new_tokens=4)
    assert answer_key(first.identity(), request) == answer_key(
        second.identity(), request
    )
    (copy / "another.txt").write_text("more")
    assert answer_key(first.identity(), request) != answer_key(
        second.identity(), request
    )
    assert first.count_tokens([request]) == [4]  # user w1 w2 assistant


def test_an_engine_is_known_by_its_options(vllm: ModuleType) -> None:
    from asktell_adapters.evaluators import VLLM

    plain, other = (
        VLLM("some/model"),
        VLLM("some/model", engine_options={"max_model_len": 9}),
    )
    assert answer_key(plain.identity(), REQUEST) == answer_key(
        VLLM("some/model").identity(), REQUEST
    )
    assert answer_key(plain.identity(), REQUEST) != answer_key(
        other.identity(), REQUEST
    )


@pytest.mark.parametrize(
    "change",
    [
        "answer = replace(answer, 'yes', 'no')",
        "answer = CAST(x'7B22FF' AS TEXT)",
        "checksum = CAST(x'FF' AS TEXT)",
        "made = made + 1",
        "used = 'x'",
        "(answer, checksum) = (SELECT answer, checksum FROM answers WHERE key = 'l')",
    ],
)
def test_a_damaged_answer_is_asked_for_again_and_that_is_said_once(
    change: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = AnswerCache(tmp_path / "answers.db")
    cache.put([("k", Completion("yes")), ("l", Completion("y"))])
    with sqlite3.connect(cache.path) as connection:
        connection.execute(f"UPDATE answers SET {change} WHERE key = 'k'")
    connection.close()
    with caplog.at_level(logging.WARNING, "asktell"):
        for _ in range(2):
            found = cache.get(["k", "l", "m"])
            assert [each and each.text for each in found] == [None, "y", None]
    assert [record.getMessage() for record in caplog.records] == [
        f"The response cache {cache.path} has damaged responses, which will be requested again."
    ]
    cache.put([("k", Completion("again"))])
    assert [each and each.text for each in cache.get(["k"])] == ["again"]


def test_whatever_is_damaged_no_other_answer_is_given_and_no_other_error_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "asktell")
    texts = {f"key {n}": f"an answer {n} äöü" for n in range(20)}
    AnswerCache(tmp_path / "whole.db").put(
        [(key, Completion(text)) for key, text in texts.items()]
    )
    whole = (tmp_path / "whole.db").read_bytes()
    rng = random.Random(0)
    for number in range(50):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 2, 8, 64))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        cache = AnswerCache(tmp_path / f"{number}.db", max_bytes=2000)
        cache.path.write_bytes(damaged)
        for do in (
            lambda: cache.put([("new", Completion("x"))]),  # noqa: B023
            cache.info,
            cache.clear,
        ):
            with contextlib.suppress(StorageError):
                found = dict(zip(texts, cache.get(list(texts)), strict=True))
                assert all(
                    answer is None or answer.text == texts[key]
                    for key, answer in found.items()
                )
                do()


def test_arguments_are_checked(tmp_path: Path) -> None:
    for options in ({"max_bytes": 0}, {"max_age": -1.0}, {"patience": float("inf")}):
        with pytest.raises(
            InvalidArgumentError, match="must be a positive, finite number"
        ):
            AnswerCache(tmp_path / "x", **options)  # type: ignore[arg-type]

    class Nameless:
        def complete(self, requests: Sequence[Request]) -> list[Completion | Exception]:
            return []

    with pytest.raises(
        InvalidArgumentError, match=r"method identity\(\), but Nameless has none"
    ):
        LLMEvaluator(
            Nameless(),
            [Example("x")],
            [output_tokens],
            cache=AnswerCache(tmp_path / "x"),
        )


def _fill(path: Path, name: str, n: int) -> None:
    cache = AnswerCache(path)
    for number in range(n):
        cache.put(
            [(f"{name}-{number}", Completion("x" * 500)), ("shared", Completion(name))]
        )
        cache.get([f"{name}-{number}", "shared"])


def test_many_processes_share_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_fill, args=(tmp_path / "answers.db", f"w{n}", 25))
        for n in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    cache = AnswerCache(tmp_path / "answers.db")
    assert cache.info().answers == 2 * 25 + 1
    assert None not in cache.get(
        [f"w{n}-{number}" for n in range(2) for number in range(25)]
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_a_process_that_is_killed_leaves_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    for round_ in range(2):
        worker = multiprocessing.get_context("spawn").Process(
            target=_fill, args=(path, f"r{round_}", 100_000)
        )
        worker.start()
        deadline = time.monotonic() + 60
        while (
            AnswerCache(path).info().answers < 10 * (round_ + 1)
        ) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join(60)
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            counted = connection.execute(
                "SELECT SUM(bytes), COUNT(*) FROM answers"
            ).fetchone()
            assert (
                connection.execute("SELECT bytes, answers FROM total").fetchone()
                == counted
            )
        connection.close()
        AnswerCache(path).put([(f"after {round_}", Completion("x"))])


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="no fork"
)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
# JAX's, where another test has loaded it
@pytest.mark.filterwarnings("ignore:.*os.fork\\(\\):RuntimeWarning")
def test_a_forked_process_may_use_it(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.db")
    cache.put([("parent", Completion("x"))])
    child = multiprocessing.get_context("fork").Process(
        target=_fill, args=(cache.path, "child", 3)
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert None not in cache.get(["parent", "child-2"])


CONFIG = """
budget = 8
method = "uniform"
[prompts]
texts = ["p", "longer"]
[data]
file = "data.jsonl"
input = "text"
reference = false
[model]
loader = "my_llm:make"
[metrics]
output_tokens = true
[goal]
minimize = "output_tokens"
{cache}
"""
MY_LLM = """
from asktell_adapters.evaluators import Completion, ScriptedLLM

def make():
    return ScriptedLLM(lambda request: Completion("yes", 3, len(request.messages[-1]["content"])), "mine")
"""


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text(
        "".join(json.dumps({"text": f"t{n}"}) + "\n" for n in range(4))
    )
    Path("my_llm.py").write_text(MY_LLM)
    Path("plain.toml").write_text(CONFIG.format(cache=""))
    for name in ("one", "two"):
        Path(f"{name}.toml").write_text(
            CONFIG.format(cache="[cache]\nfile = 'kept.db'\nmax_mb = 5")
        )
        said = cli("run", f"{name}.toml", "--no-progress").out
        assert said.count("came from the cache") == (name == "two")
    assert "8 of 8 evaluations came from the cache and cost nothing." in said
    assert "8 of 8 evaluations came from the cache" in cli("status two.toml").out
    assert (
        "kept.db: 8 responses, 0.0 MB of at most 5.0 MB"
        in cli("cache info two.toml").out
    )
    assert "8 responses removed" in cli("cache clear kept.db").out
    assert "no table [cache]" in cli("cache info plain.toml", code=2).err
    Path("plain.toml").write_text(CONFIG.format(cache="[cache]\nmax_mb = -1"))
    assert (
        "[cache]: max_bytes must be a positive, finite number"
        in cli("run plain.toml", code=2).err
    )
