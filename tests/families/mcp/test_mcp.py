"""`asktell mcp` against the SDK's own client: a scripted agent over stdio, and what is refused."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from asktell import BestFeasible, Selector, Study
from asktell_adapters.cli.mcp import make_server
from tests.adapters.server.conftest import Process
from tests.words import lacking

TWO = {"old": "Be brief.", "new": "Think, then be brief."}


def accuracy(prompt: str, example: int) -> float:
    """`new` is right on 8 of 10 examples, any other prompt on 5; they are right on others."""
    return float((example * 7 + len(prompt)) % 10 < (8 if prompt == "new" else 5))


class Agent:
    """A client whose calls are kept: tool, whether it was refused, and the sentence."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.transcript: list[tuple[str, bool, str]] = []

    async def call(
        self, tool: str, study: str = "support", **arguments: Any
    ) -> dict[str, Any]:
        result = await self.client.call_tool(tool, {"study": study, **arguments})
        answer: dict[str, Any] = result.structured_content or {}
        said = answer.get("sentence") or result.content[0].text  # type: ignore[union-attr]
        self.transcript.append((tool, bool(result.is_error), said))
        return answer

    async def refused(self, tool: str, **arguments: Any) -> str:
        await self.call(tool, **arguments)
        _, is_error, said = self.transcript[-1]
        assert is_error, said
        return said

    async def evaluate(self, n: int) -> int:
        """Ask for n, tell their scores; returns how many there were."""
        trials = (await self.call("ask", n=n))["trials"]
        results = [
            {
                "trial": t["trial"],
                "scores": {"accuracy": accuracy(t["prompt"], t["example"])},
            }
            for t in trials
        ]
        if results:
            await self.call("tell", results=results)
        return len(results)


Session = Callable[[Any], None]


@pytest.fixture
def in_memory(tmp_path: Path) -> Session:
    """Runs a session of an agent with a server in this process."""

    def run(session: Any) -> None:
        async def main() -> None:
            async with Client(
                make_server(f"sqlite:///{tmp_path}/studies.db")
            ) as client:
                await session(Agent(client))

        asyncio.run(main())

    return run


def test_two_agents_under_one_worker_name_are_noticed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/studies.db"
    selector = Selector(TWO, BestFeasible("accuracy"), 20, examples=9)
    Study.create(url, "support", selector).close()

    async def session() -> None:
        async with Client(make_server(url)) as one, Client(make_server(url)) as two:
            first, second = Agent(one), Agent(two)
            trials = (await first.call("ask", n=2))["trials"]
            assert (await first.call("ask", n=2))["trials"] == trials
            assert (await second.call("ask", n=2))["trials"] == trials
            refusal = await first.refused("ask", n=2)
            assert "'agent'" in refusal
            assert "different name" in refusal
            results = [{"trial": trials[0]["trial"], "scores": {"accuracy": 1.0}}]
            assert (await first.call("tell", results=results))["recorded"] == 1
            assert (await first.call("ask", n=2, worker="agent 2"))["trials"]

    asyncio.run(session())


def test_an_agent_over_stdio_cannot_declare_victory_after_one_proposal(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/studies.db"
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "asktell", "mcp", url]
    )

    async def session() -> list[tuple[str, bool, str]]:
        async with Client(stdio_client(server)) as client:
            agent = Agent(client)
            tools = (await client.list_tools()).tools
            reads = {
                tool.name: tool.annotations.read_only_hint
                for tool in tools
                if tool.annotations
            }
            assert reads == {
                **dict.fromkeys(("studies", "verdict", "why"), True),
                **dict.fromkeys(
                    ("create", "add", "ask", "propose", "tell", "report"), False
                ),
            }
            for tool in tools:
                properties = (
                    tool.output_schema["properties"] if tool.output_schema else {}
                )
                assert properties["sentence"]["type"] == "string", tool.name
                assert len(properties) > 1
            assert not lacking(
                client.instructions or "", "verdict", "too_early", "winner"
            )
            await agent.call(
                "create",
                prompts={"old": TWO["old"]},
                maximize=["accuracy"],
                budget=200,
                examples=100,
            )
            await agent.evaluate(2)
            assert (await agent.call("verdict"))["too_early"]  # alone
            assert (await agent.call("add", prompts={"new": TWO["new"]}))["ids"] == [
                "new"
            ]
            assert (await agent.call("verdict"))["too_early"]  # not evaluated
            while (found := await agent.call("verdict"))["too_early"]:
                assert await agent.evaluate(10)
            assert found["verdict"]["answer"] == "new"
            assert 10 < found["spent"] < 200
            evidence = await agent.call("why", prompt="new")
            assert evidence["prompt"]["status"] in ("active", "accepted")
            assert evidence["comparison"]["differences"]["accuracy"]["estimate"] > 0
            await agent.call("report", path=str(tmp_path / "support.html"))
            return agent.transcript

    transcript = asyncio.run(session())
    assert not any(is_error for _, is_error, _ in transcript)
    verdicts = [said for tool, _, said in transcript if tool == "verdict"]
    assert not lacking(verdicts[0], "too early", "only one prompt")
    assert not lacking(verdicts[1], "too early", "no score", "'new'")
    for said in verdicts[3:-1]:
        assert not lacking(said, "too early")
        assert lacking(said, "no score")
    assert not lacking(verdicts[-1], "ship", '"new"', 'than "old"')
    assert lacking(verdicts[-1], "too early")
    assert "Think, then be brief." in (tmp_path / "support.html").read_text()
    with Study.open(url, "support") as study:  # all of it is there for others
        assert study.spent == len(list(study.evaluations()))


def test_an_undecided_study_is_reported_as_such_when_its_budget_is_spent(
    in_memory: Session,
) -> None:
    async def session(agent: Agent) -> None:
        await agent.call(
            "create", prompts=TWO, maximize=["accuracy"], budget=4, examples=100
        )
        while await agent.evaluate(4):
            pass
        assert not lacking(agent.transcript[-1][2], "nothing is left", "`verdict`")
        found = await agent.call("verdict")
        assert found["too_early"]
        assert not lacking(
            found["sentence"], "undecided", "budget is spent", "extend", "person"
        )

    in_memory(session)


def test_a_prompt_without_a_score_keeps_others_from_winning_after_the_budget(
    in_memory: Session,
) -> None:
    prompts = {**{f"poor{i}": f"Poor {i}." for i in range(12)}, "good": "Good."}

    async def session(agent: Agent) -> None:
        await agent.call(
            "create", prompts=prompts, maximize=["accuracy"], budget=130, examples=10
        )
        while trials := (await agent.call("ask", n=65))["trials"]:
            scores = [
                {
                    "trial": t["trial"],
                    "scores": {"accuracy": float(t["prompt"] == "good")},
                }
                for t in trials
            ]
            await agent.call("tell", results=scores)
        assert not (await agent.call("verdict"))["too_early"]
        await agent.call("add", prompts={"late": "Late."})
        found = await agent.call("verdict")
        assert found["too_early"]
        assert not lacking(found["sentence"], "no score", "'late'")

    in_memory(session)


def test_a_study_goes_on_where_it_was_left(in_memory: Session) -> None:
    goal = {
        "prompts": TWO,
        "maximize": ["accuracy"],
        "budget": 20,
        "examples": ["a", "b", "c"],
    }

    async def first(agent: Agent) -> None:
        await agent.call("create", **goal)
        asked = await agent.call("ask", n=2)
        assert asked["prompts"] == {
            id_: TWO[id_] for id_ in {trial["prompt"] for trial in asked["trials"]}
        }
        assert {trial["example"] for trial in asked["trials"]} <= {"a", "b", "c"}

    async def second(agent: Agent) -> None:
        await agent.call("create", **goal)
        again = await agent.call("ask", n=2)
        # Those that it held
        assert {trial["trial"] for trial in again["trials"]} == {0, 1}
        others = await agent.call("ask", n=2, worker="helper")
        assert {trial["trial"] for trial in others["trials"]} == {2, 3}
        said = await agent.refused("create", **{**goal, "budget": 30})
        assert not lacking(said, "support", "budget")

    in_memory(first)
    in_memory(second)


def test_refusals_say_what_to_do(in_memory: Session, tmp_path: Path) -> None:
    async def session(agent: Agent) -> None:
        assert not lacking(await agent.refused("ask"), "'support'", "`create`")
        assert not lacking(
            await agent.refused("create", prompts=TWO, budget=9), "one metric"
        )
        wrong = {
            "prompts": TWO,
            "maximize": ["accuracy"],
            "budget": 9,
            "ranges": {"acuracy": [0, 1]},
        }
        assert not lacking(
            await agent.refused("create", **wrong), "'acuracy'", "mean 'accuracy'"
        )
        del wrong["ranges"]
        wrong["tolerances"] = {"accuracy": 0}
        assert not lacking(await agent.refused("create", **wrong), "above 0")
        await agent.call(
            "create",
            prompts=TWO,
            maximize=["accuracy"],
            budget=9,
            ranges={"accuracy": [0, 1]},
            tolerances={"accuracy": 0.01},
        )
        said = await agent.refused("verdict", study="suport")
        assert not lacking(said, "'suport'", "'support'")
        said = await agent.refused("why", prompt="older")
        assert not lacking(said, "'older'", "'old'", "'new'")
        await agent.call("ask", n=4)
        score = {"accuracy": 1.0}
        said = await agent.refused(
            "tell",
            results=[
                {"trial": 0, "scores": score, "answer": "Yes."},
                {"trial": 1, "scores": {"accuracy": 7}},
                {"trial": 2, "scores": {"exact": 1}},
                {"trial": 3},
                {"trial": 77, "scores": score},
            ],
        )
        assert not lacking(said, "1 of 5")
        for trial, why in (
            (1, "7"),
            (2, "'accuracy'"),
            (3, "`failed`"),
            (77, "not pending"),
        ):
            assert not lacking(said.partition(f"Trial {trial}: ")[2], why), said
        await agent.call(
            "tell",
            results=[{"trial": 0, "scores": score}, {"trial": 1, "failed": "timeout"}],
        )
        said = await agent.refused(
            "tell", results=[{"trial": 0, "scores": {"accuracy": 0}}]
        )
        assert not lacking(said, "recorded", "'accuracy': 1.0", "'accuracy': 0")
        said = await agent.refused("tell", results=[{"trial": "first"}])
        assert not lacking(said, "results.0.trial")
        said = await agent.refused("report", path="report.txt")
        assert not lacking(said, ".html", "'report.txt'")
        said = await agent.refused("report", path=str(tmp_path / "nowhere" / "a.html"))
        assert not lacking(said, "no folder", str(tmp_path / "nowhere"), "create")
        said = await agent.refused("add", prompts={"new": "Another text."})
        assert not lacking(said, "'new'")
        failures = [
            (await agent.call("why", prompt=id_))["prompt"]["failures"] for id_ in TWO
        ]
        assert sum(failures) == 1

    in_memory(session)


def test_a_failure_after_a_score_records_nothing_and_says_so(
    in_memory: Session,
) -> None:
    async def session(agent: Agent) -> None:
        await agent.call(
            "create", prompts=TWO, maximize=["accuracy"], budget=9, examples=9
        )
        await agent.call("ask", n=2)
        told = await agent.call(
            "tell", results=[{"trial": 0, "scores": {"accuracy": 1}}]
        )
        assert (told["recorded"], told["unchanged"]) == (1, [])
        again = await agent.call(
            "tell",
            results=[
                {"trial": 0, "failed": "timeout"},
                {"trial": 1, "failed": "timeout"},
            ],
        )
        assert (again["recorded"], again["unchanged"]) == (1, [0])
        assert not lacking(
            again["sentence"], "1 recorded", "trials 0", "nothing was recorded"
        )
        assert not lacking(again["sentence"], "1 of 9 evaluations")

    in_memory(session)


def test_a_run_whose_prompt_is_retired_is_stopped_and_its_cost_is_booked(
    in_memory: Session, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/studies.db"

    async def session(agent: Agent) -> None:
        await agent.call(
            "create", prompts=TWO, maximize=["accuracy"], budget=20, examples=10
        )
        asked = await agent.call("ask", n=2)
        (mine,) = [each["trial"] for each in asked["trials"] if each["prompt"] == "new"]
        assert asked["stop"] == []
        await agent.call("ask", n=1, worker="other")
        with Study.open(url, "support") as study:
            study.retire("new", "not wanted")
        asked = await agent.call("ask", n=2)
        assert asked["stop"] == [mine]
        assert mine not in [each["trial"] for each in asked["trials"]]
        assert not lacking(asked["sentence"], f"stop trial {mine}", "eliminated")
        told = await agent.call(
            "tell", results=[{"trial": mine, "stopped": True, "cost": 0.25}]
        )
        assert (told["recorded"], told["unchanged"]) == (1, [])
        assert (await agent.call("ask", n=2))["stop"] == []
        told = await agent.call(
            "tell", results=[{"trial": mine, "stopped": True, "cost": 0.25}]
        )
        assert (told["recorded"], told["unchanged"]) == (0, [mine])
        both = {
            "trial": asked["trials"][0]["trial"],
            "stopped": True,
            "scores": {"accuracy": 1.0},
        }
        said = await agent.refused("tell", results=[both])
        assert not lacking(said, "exactly one", "`scores`", "`failed`", "`stopped`")

    in_memory(session)
    with Study.open(url, "support") as study:
        assert study.spent_cost == 0.25
        assert not any(entry.failures for entry in study.result().prompts)


def test_a_bound_may_be_a_text_for_the_parser_of_goals(in_memory: Session) -> None:
    async def session(agent: Agent) -> None:
        words = {"prompts": TWO, "maximize": ["accuracy"], "budget": 20, "examples": 10}
        refused = await agent.refused(
            "create", **words, at_least={"brevity": "about half"}
        )
        assert not lacking(refused, "'about half'")

    in_memory(session)


def test_errors_name_only_tools(in_memory: Session) -> None:
    async def session(agent: Agent) -> None:
        await agent.call(
            "create", prompts=TWO, maximize=["accuracy"], budget=9, examples=9
        )
        said = await agent.refused(
            "tell", results=[{"trial": 5, "scores": {"accuracy": 1}}]
        )
        assert not lacking(said, "trial 5", "not pending", "`ask`")
        assert "ask()" not in said
        await agent.call("ask")
        await agent.call("tell", results=[{"trial": 0, "scores": {"accuracy": 1}}])
        said = await agent.refused(
            "tell", results=[{"trial": 0, "scores": {"accuracy": 0}}]
        )
        assert not lacking(said, "recorded", "{'accuracy': 1.0}")
        assert lacking(said, "observe")

    in_memory(session)


def test_studies_are_listed(in_memory: Session) -> None:
    async def session(agent: Agent) -> None:
        async def listed() -> tuple[list[str], str]:
            answer = (
                await agent.client.call_tool("studies", {})
            ).structured_content or {}
            return answer["studies"], answer["sentence"]

        names, said = await listed()
        assert (names, lacking(said, "no studies", "`create`")) == ([], [])
        for name in ("one", "two"):
            await agent.call(
                "create",
                study=name,
                prompts=TWO,
                maximize=["accuracy"],
                budget=9,
                examples=9,
            )
        names, said = await listed()
        assert (names, lacking(said, "2", "'one'", "'two'")) == (["one", "two"], [])

    in_memory(session)


def test_a_report_is_written_to_ordinary_files_only(
    in_memory: Session, tmp_path: Path
) -> None:
    secret, link, pipe, folder = (
        tmp_path / name for name in ("secret", "link.html", "pipe.html", "folder.html")
    )
    secret.write_text("mine")
    link.symlink_to(secret)
    os.mkfifo(pipe)
    folder.mkdir()
    dangling = tmp_path / "dangling.html"
    dangling.symlink_to(tmp_path / "new")

    async def session(agent: Agent) -> None:
        await agent.call(
            "create", prompts=TWO, maximize=["accuracy"], budget=9, examples=9
        )
        for path in (link, pipe, folder, dangling):
            said = await agent.refused("report", path=str(path))
            assert not lacking(said, "ordinary files", str(path))
        for _ in range(2):
            await agent.call("report", path=str(tmp_path / "page.html"))

    in_memory(session)
    assert secret.read_text() == "mine"
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "studies.db").stat().st_mode & 0o777 == 0o600


def test_a_text_that_is_no_unicode_is_refused_with_a_reason(
    in_memory: Session, tmp_path: Path
) -> None:
    selector = Selector(
        {"a": "half \ud800", "b": "other"}, BestFeasible("accuracy"), 9, examples=9
    )
    Study.create(f"sqlite:///{tmp_path}/studies.db", "support", selector).close()

    async def session(agent: Agent) -> None:
        said = await agent.refused("ask", n=9)
        assert not lacking(said, "surrogate", "unicode", "retire")
        assert not lacking(await agent.refused("why", prompt="c"), "no prompt 'c'")

    in_memory(session)


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "asktell",
        "mcp",
        f"sqlite:///{tmp_path}/studies.db",
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        process.stdin.write(json.dumps(ping).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1  # it serves
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        yield stack.enter_context(Process(f"sqlite:///{tmp_path}/served.db")).url


def test_studies_of_a_service(service: str) -> None:
    async def main() -> None:
        async with Client(make_server(service)) as client:
            agent = Agent(client)
            await agent.call(
                "create",
                prompts=TWO,
                maximize=["accuracy"],
                minimize=["seconds"],
                budget=9,
                examples=9,
            )
            trial = (await agent.call("ask"))["trials"][0]["trial"]
            await agent.call(
                "tell",
                results=[{"trial": trial, "scores": {"accuracy": 1, "seconds": 2}}],
            )
            assert (await agent.call("verdict"))["spent"] == 1
            assert not any(is_error for _, is_error, _ in agent.transcript)

    asyncio.run(main())


def test_a_referee_judges_what_an_agent_proposes(in_memory: Session) -> None:
    async def session(agent: Agent) -> None:
        await agent.call(
            "create",
            prompts={"v1": "Be brief."},
            budget=3000,
            maximize=["accuracy"],
            ranges={"accuracy": [0, 1]},
            examples=400,
            method="referee",
            each=100,
        )
        incumbent = "v1"
        for id_, right in (("v2", 0.5), ("v3", 0.95), ("v4", 0.0)):
            asked = 0
            while True:
                answer = await agent.call(
                    "propose", prompt=id_, text=f"Text of {id_}.", n=20
                )
                if answer["decision"]:
                    break
                assert answer["trials"]
                assert answer["incumbent"] == incumbent
                asked += len(answer["trials"])
                results = [
                    {
                        "trial": t["trial"],
                        "scores": {
                            "accuracy": float(
                                t["example"] % 20
                                < 20 * (right if t["prompt"] == id_ else 0.5)
                            )
                        },
                    }
                    for t in answer["trials"]
                ]
                await agent.call("tell", results=results)
            assert asked <= 200
            incumbent = answer["incumbent"]
            assert answer["sentence"].startswith(f"{id_} is {answer['decision']}: ")
            assert f"Keep {incumbent}." in answer["sentence"]
            assert (answer["decision"] == "accepted") == (id_ == "v3")
        assert incumbent == "v3"
        # Again: the same decision, and nothing is evaluated
        again = await agent.call("propose", prompt="v3", text="Text of v3.")
        assert (again["decision"], again["trials"]) == ("accepted", [])
        assert "v3" in await agent.refused("propose", prompt="v3", text="Other.")
        await agent.call(
            "create",
            study="plain",
            prompts={"v1": "Be brief."},
            budget=30,
            maximize=["accuracy"],
            examples=10,
        )
        refused = await agent.refused(
            "propose", study="plain", prompt="v2", text="Be exact."
        )
        assert "not created with the method referee" in refused
        assert "only for the method referee" in await agent.refused(
            "create",
            study="other",
            prompts={"v1": "Be brief."},
            budget=30,
            maximize=["accuracy"],
            each=5,
        )

    in_memory(session)
