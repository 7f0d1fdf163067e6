"""Programs whose calls of LLMs are counted: scores, failures, timeouts and stops."""

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from asktell import (
    BestFeasible,
    Budget,
    EvaluatorError,
    Selector,
    Trial,
    at_most,
    minimize,
)
from asktell_adapters.evaluators import CommandEvaluator, Meter, Price
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
pytest.importorskip("uvicorn")

COST = BestFeasible(minimize("cost"))
TRIAL = Trial(0, "a", "a", 0)
CALL = """
import http.client, json, os, sys, time, urllib.parse
def call(model="m"):
    url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = http.client.HTTPConnection(url.hostname, url.port)
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]})
    connection.request("POST", url.path + "/chat/completions", body)
    return connection.getresponse().read()
"""
SUCCESS = "print(json.dumps({'success': 1}))"


class Server(FaultyLLMServer):
    """One whose script changes."""

    def replies(self, *replies: Reply) -> None:
        self._script[:] = replies


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def meter(server: Server) -> Iterator[Meter]:
    meter = Meter({"m": Price(1.0, 2.0)}, {"OPENAI_BASE_URL": server.base_url})
    yield meter
    meter.end()


def evaluator(meter: Meter, code: str, timeout: float = 60.0) -> CommandEvaluator:
    command = [sys.executable, "-S", "-c", CALL + code]
    return CommandEvaluator(
        command, [{"task": "a"}], timeout=timeout, grace=0.3, meter=meter
    )


def evaluated(
    meter: Meter, code: str, timeout: float = 60.0, goal: Any = None
) -> dict[str, float]:
    program = evaluator(meter, code, timeout)
    if goal is not None:
        selector = Selector(["a", "b"], goal, 10, examples=1)
        program.check_selection(selector)
    return asyncio.run(program(TRIAL))


def test_what_a_program_calls_is_counted_for_it(meter: Meter) -> None:
    scores = evaluated(meter, f"call(); call(); {SUCCESS}")
    assert scores["seconds"] > scores["call_seconds"] > 0
    assert {
        name: scores[name]
        for name in ("success", "calls", "errors", "tokens_in", "tokens_out", "cost")
    } == {
        "success": 1,
        "calls": 2,
        "errors": 0,
        "tokens_in": 20,
        "tokens_out": 10,
        "cost": pytest.approx(40e-6),
    }


def test_what_the_program_prints_counts_instead(meter: Meter) -> None:
    scores = evaluated(meter, "call(); print(json.dumps({'cost': 7, 'calls': 3}))")
    assert (scores["cost"], scores["calls"], scores["tokens_in"]) == (7, 3, 10)


def test_a_program_that_fails_has_paid_for_its_calls(meter: Meter) -> None:
    with pytest.raises(EvaluatorError, match="exit code 1") as failure:
        evaluated(meter, "call(); sys.exit('no luck')")
    assert failure.value.cost == pytest.approx(20e-6)  # type: ignore[attr-defined]
    with pytest.raises(EvaluatorError) as failure:
        evaluated(meter, "call(); print('{\"cost\": 3}'); sys.exit('no luck')")
    assert failure.value.cost == 3  # type: ignore[attr-defined]


def test_a_timeout_counts_the_calls_until_then(meter: Meter, server: Server) -> None:
    server.replies(Reply(), Reply(delay=60))
    with pytest.raises(EvaluatorError, match="timeout of 2 seconds") as failure:
        evaluated(meter, "call(); call()", timeout=2.0)
    assert failure.value.cost == pytest.approx(20e-6)  # type: ignore[attr-defined]


def test_a_stopped_program_counts_its_calls_until_then(meter: Meter) -> None:
    async def stopped() -> float:
        task = asyncio.create_task(
            evaluator(meter, "call(); print('x', flush=True); time.sleep(60)")(TRIAL)
        )
        await asyncio.sleep(2.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as stop:
            await task
        cost: float = stop.value.cost  # type: ignore[attr-defined]
        return cost

    assert asyncio.run(stopped()) == pytest.approx(20e-6)


def test_the_goal_needs_what_the_meter_does_not_know(
    meter: Meter, server: Server
) -> None:
    goal = BestFeasible("success", subject_to={"tokens_out": at_most(100)})
    server.replies(Reply(usage=None), Reply())
    with pytest.raises(
        EvaluatorError,
        match="the meter has no 'tokens_out': the tokens of 1 of 2 calls are unknown, because a response had no usage",
    ) as failure:
        evaluated(meter, f"call(); call(); {SUCCESS}", goal=goal)
    assert failure.value.cost == pytest.approx(20e-6)  # type: ignore[attr-defined]
    # Of several, the first in the order of the documentation, in every process
    both = {name: at_most(100) for name in ("tokens_out", "cost", "tokens_in")}
    goal = BestFeasible("success", subject_to=both)
    server.replies(Reply(usage=None))
    with pytest.raises(EvaluatorError, match="the meter has no 'tokens_in'"):
        evaluated(meter, f"call(); {SUCCESS}", goal=goal)
    server.replies(Reply(usage=None))
    assert "tokens_out" not in evaluated(meter, f"call(); {SUCCESS}")
    with pytest.raises(EvaluatorError, match="no price of the model 'other'"):
        evaluated(meter, f"call('other'); {SUCCESS}", goal=COST)
    # No call is no proof of none: the program may not read the variable
    with pytest.raises(EvaluatorError, match="no call went through the meter"):
        evaluated(meter, SUCCESS, goal=COST)
    scores = evaluated(meter, "print('{\"cost\": 0}')", goal=COST)
    assert scores["cost"] == 0
    assert scores["calls"] == 0


def test_a_budget_in_money_needs_the_cost(meter: Meter) -> None:
    program = evaluator(meter, f"call('other'); {SUCCESS}")
    program.check_selection(
        Selector(["a", "b"], BestFeasible("success"), Budget(cost=1.0), examples=1)
    )
    with pytest.raises(EvaluatorError, match="the meter has no 'cost'"):
        asyncio.run(program(TRIAL))


def test_retries_of_the_agent_are_calls(meter: Meter, server: Server) -> None:
    server.replies(Reply.rate_limited(), Reply.server_error(503), Reply(drop=True))
    scores = evaluated(meter, f"[call() for _ in range(4)]; {SUCCESS}", goal=COST)
    assert (scores["calls"], scores["errors"], scores["tokens_in"]) == (4, 3, 10)


def test_many_programs_at_once(meter: Meter) -> None:
    program = evaluator(
        meter,
        "n = json.load(sys.stdin)['trial'] + 1\nfor _ in range(n): call()\n" + SUCCESS,
    )

    async def together() -> list[dict[str, float]]:
        trials = [Trial(n, "a", "a", 0) for n in range(6)]
        return await asyncio.gather(*map(program, trials))

    counted = [scores["calls"] for scores in asyncio.run(together())]
    assert counted == [1, 2, 3, 4, 5, 6]


def test_no_key_is_in_the_scores(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    scores = evaluated(meter, f"call(); {SUCCESS}")
    assert "sk-secret" not in json.dumps(scores)
    program = evaluator(meter, SUCCESS)
    program.close()
    program.close()
