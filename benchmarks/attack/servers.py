"""LLM servers that are silent, or lie, at `OpenAIChat` and at the batch API.

Whatever a server does, the outcome is a trial's failure, or scores with a cost that can
be: no bare error, no time beyond the timeout, no memory beyond a bound. The cases run
in a child process, whose memory is limited and measured.
"""

import argparse
import faulthandler
import json
import math
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asktell import AsktellError, BestFeasible, Selector, Study, maximize, run
from asktell.studies.storages.memory import MemoryStorage
from asktell_adapters.testing.llm_server import Reply
from benchmarks.attack.findings import (
    BrokenPromiseError,
    Finding,
    Limit,
    Report,
    our_frames,
)
from benchmarks.attack.liars import CONVERSATIONS, LIES, PAGES, WORDS, Liar, lie
from tests.adapters.batch_server import BatchServer, Fault

TIMEOUT = 1.0  # seconds that the LLM is given
PATIENCE = 60.0  # seconds for a case, on a machine with much else to do
MOST_MEMORY = 2**27  # bytes of one case
_HARD_LIMIT = 2**32  # that the operating system sets
_PAGES_READ = 1500


def chat_case(name: str) -> None:
    """One evaluation by an LLM whose server misbehaves.

    Raises:
        BrokenPromiseError: the outcome is no failure, and no sound answer either.
    """
    from asktell_adapters.evaluators.llm import LLMEvaluator
    from asktell_adapters.llms.base import Completion, CompletionError, Example
    from asktell_adapters.llms.chat_api import Price
    from asktell_adapters.llms.openai import OpenAIChat

    behaviour = CONVERSATIONS.get(name) or lie(LIES[name])
    price = Price(input=1.0, output=2.0, cached_input=0.5)
    with Liar(behaviour) as server:
        options: dict[str, Any] = {
            "timeout": TIMEOUT,
            "max_retries": 0,
            "max_wait": 0.1,
        }
        llm = OpenAIChat(
            "m",
            base_url=server.base_url,
            price=price,
            api_key_env="NO_SUCH_KEY",
            **options,
        )
        answers: list[Any] = []

        class Watched:
            """Keeps what the LLM answers."""

            def complete(self, requests: Sequence[Any]) -> list[Any]:
                answers.extend(completions := llm.complete(requests))
                return completions

        evaluator = LLMEvaluator(
            Watched(),
            [Example("x", "y")],
            {"length": lambda answer, _: len(answer.text)},
        )  # type: ignore[arg-type, list-item]
        selector = Selector(
            ["prompt"],
            BestFeasible(maximize("length")),
            1,
            "uniform",
            examples=1,
            max_failure_rate=1e-6,
        )
        with llm:
            try:
                result = run(
                    selector, evaluator, progress=False, max_failures_in_a_row=None
                )
            except Exception as error:
                raise BrokenPromiseError(
                    f"asktell.run ended with {type(error).__name__}: {error}"
                ) from error
    for answer in answers:
        if isinstance(answer, Completion):
            numbers = (
                answer.cost,
                answer.prompt_tokens,
                answer.completion_tokens,
                answer.cached_tokens,
            )
            if not all(0 <= number < math.inf for number in numbers):
                raise BrokenPromiseError(
                    f"it is believed: cost {answer.cost:g}, tokens {numbers[1:]}"
                )
        elif not isinstance(answer, CompletionError):
            raise BrokenPromiseError(
                f"it led to a bare {type(answer).__name__}: {answer}"
            )
        elif not 0 <= (getattr(answer, "cost", None) or 0.0) < math.inf:
            raise BrokenPromiseError(f"its failure has the cost {answer.cost!r}")
    if not 0 <= result.spent_cost < math.inf:
        raise BrokenPromiseError(f"the result has the cost {result.spent_cost!r}")


def batch_case(
    call: str, body: bytes | None = None, answer: bytes | None = None
) -> None:
    """Submit and collect at a server that lies once, in a call or in its answers, and go on afterwards.

    Raises:
        BrokenPromiseError: a bare error, or the study is not brought to its end.
    """
    from asktell_adapters.evaluators.llm import LLMEvaluator
    from asktell_adapters.evaluators.openai_batch import OpenAIBatch
    from asktell_adapters.llms.base import Example
    from asktell_adapters.llms.chat_api import Price
    from asktell_adapters.llms.openai import OpenAIChat

    clock = [time.time()]
    replies = iter([Reply(body=answer)] if answer is not None else [])
    with BatchServer(answer=lambda _: next(replies, Reply())) as server:
        pages = call == PAGES
        if pages:
            server.faults["GET /v1/batches"] = [
                Fault(Reply(body=_page(i))) for i in range(_PAGES_READ)
            ]
        elif body is not None:
            server.faults[call] = [Fault(Reply(body=body))]
        selector = Selector(
            ["p", "q"],
            BestFeasible(maximize("length")),
            4,
            "uniform",
            examples=9,
        )
        study = Study.create(MemoryStorage(clock=lambda: clock[0]), "study", selector)
        llm = OpenAIChat(
            "m",
            base_url=server.base_url,
            price=Price(1.0, 2.0),
            api_key_env="NO_SUCH_KEY",
            timeout=5.0,
        )
        examples = [Example(str(i), "y") for i in range(9)]
        evaluator = LLMEvaluator(
            llm, examples, {"length": lambda answer, _: float(len(answer.text))}
        )
        batch = OpenAIBatch(evaluator, clock=lambda: clock[0], timeout=5.0)
        for _ in range(12):
            for step in (lambda: batch.submit(study, 2), lambda: batch.collect(study)):
                try:
                    step()
                except AsktellError:
                    pass
                except Exception as error:
                    raise BrokenPromiseError(
                        f"a bare {type(error).__name__}: {error}"
                    ) from error
                for served in server.batches:
                    if server.batches[served].data["status"] == "in_progress":
                        server.end(served)
                if pages and not server.faults["GET /v1/batches"]:
                    raise BrokenPromiseError(
                        f"it reads {_PAGES_READ} pages of batches, and would read on"
                    )
                if pages:
                    return
            if study.done:
                break
            clock[0] += 4000.0
        else:
            raise BrokenPromiseError("the study does not come to its end afterwards")
        cost = study.result().spent_cost
        if not 0 <= cost < math.inf:
            raise BrokenPromiseError(
                f"it is believed: the result has the cost {cost!r}"
            )


def _page(number: int) -> bytes:
    """A page of batches of others, with another page to come."""
    batch = {
        "object": "batch",
        "created_at": 4e9,
        "status": "completed",
        "metadata": {},
        "endpoint": "x",
    }
    rows = [
        {
            **batch,
            "id": f"batch-{number}-{i}",
            "input_file_id": "f",
            "completion_window": "24h",
        }
        for i in range(3)
    ]
    return json.dumps(
        {"object": "list", "data": rows, "last_id": rows[-1]["id"], "has_more": True}
    ).encode()


def names() -> list[str]:
    """All cases, in an order that mixes them."""
    calls = ("POST /v1/files", "POST /v1/batches", "GET /v1/batches", "GET content")
    cases = [f"chat: {name}" for name in (*CONVERSATIONS, *LIES)]
    cases += [f"batch: {call}: {word}" for call in calls for word in WORDS] + [
        f"batch: {PAGES}"
    ]
    cases += [f"batch: answer: {name}" for name in LIES]
    random.Random(0).shuffle(cases)
    return cases


def case(name: str) -> None:
    """Run a case by its name."""
    kind, _, rest = name.partition(": ")
    if kind == "chat":
        chat_case(rest)
        return
    call, _, word = rest.partition(": ")
    if call == "answer":
        try:
            json.loads(LIES[word])
        except (ValueError, RecursionError):
            return  # no line of a file
        batch_case("", answer=LIES[word])
    else:
        batch_case(call, WORDS.get(word))


# The child


def _memory(what: str) -> int:
    match = re.search(rf"{what}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return 1024 * int(match[1])


def child(seed: int, n: int) -> None:
    """Run cases, with a line for each."""
    chat_case("closes at once")  # everything is imported now
    limit = _memory("VmSize") + _HARD_LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    every = names()
    for number in range(n):
        name = every[(seed + number) % len(every)]
        print(json.dumps({"number": seed + number, "case": name}), flush=True)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = _memory("VmRSS")
        problem = None
        try:
            case(name)
        except BrokenPromiseError as error:
            problem = str(error)
        except BaseException:
            problem = traceback.format_exc()
        faulthandler.cancel_dump_traceback_later()
        if (grown := _memory("VmHWM") - before) > MOST_MEMORY:
            problem = f"it took {grown / 2**20:.0f} MiB of memory"
        print(json.dumps({"found": problem}), flush=True)


def attack(seed: int, limit: Limit) -> Report:
    """Every case once, or so many of them."""
    report = Report()
    every = len(names())
    end = seed + min(every, limit.cases or every)
    deadline = time.monotonic() + limit.seconds
    number = seed
    while number < end and time.monotonic() < deadline:
        number = _run_child(report, number, end, deadline)
    return report


def _run_child(report: Report, number: int, end: int, deadline: float) -> int:
    """Cases in a process of their own; the number of the next one, if one of them ends the process."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.attack.servers",
        "--seed",
        str(number),
        "--cases",
        str(end - number),
    ]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("OPENAI_")
    }
    last: dict[str, Any] = {"case": "the child", "number": number}
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            for text in process.stdout:
                line = json.loads(text)
                if "case" in line:
                    report.cases += 1
                    last = line
                elif line["found"] is not None:
                    _add(report, last, line["found"])
                if "found" in line and time.monotonic() > deadline:
                    process.kill()
                    return end
        if process.returncode:
            errors.seek(0)
            _add(
                report,
                last,
                "it takes too long, or ends the process\n"
                + our_frames(errors.read()[-20_000:]),
            )
    return int(last["number"]) + 1 if process.returncode else end


def _add(report: Report, line: dict[str, Any], found: str) -> None:
    what, _, detail = f"{line['case']}: {found}".partition("\n")
    if report.is_new(what):
        report.add(
            Finding(
                what,
                f"python -m benchmarks.attack servers --seed {line['number']} --cases 1",
                detail,
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="The child of the attack by servers.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1)
    arguments = parser.parse_args()
    child(arguments.seed, arguments.cases)


if __name__ == "__main__":
    main()
