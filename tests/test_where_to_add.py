"""What AGENTS.md promises: each kind of addition changes at most three files, besides its docs and its tests.

Each addition is made in a copy of the code, and then used as a user would.
"""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
MOST_FILES = 3


class Addition(NamedTuple):
    """New files; for existing files, pairs of a line and of lines to insert before it; a program that uses all this."""

    new: dict[str, str]
    inserted: dict[str, list[tuple[str, str]]]
    program: str


ADDITIONS = {
    "a scheduler": Addition(
        {
            "asktell/methods/rounds/schedulers/halves.py": """
            from dataclasses import dataclass
            from typing import final

            from asktell.methods.rounds.schedulers.base import AbstractScheduler, Round


            @final
            @dataclass(frozen=True)
            class Halves(AbstractScheduler):
                def rounds(self, n_arms, budget, rank=None):
                    first = budget // 2
                    return Round(first, -(-n_arms // 2)), Round(budget - first, 1)
            """
        },
        {
            "asktell/methods/rounds/schedulers/__init__.py": [
                (
                    "from asktell.methods.rounds.schedulers.sequential_halving",
                    "from asktell.methods.rounds.schedulers.halves import Halves",
                ),
                ('    "Round",', '    "Halves",'),
            ],
            "asktell/methods/presets.py": [
                ("    SequentialHalving,", "    Halves,"),
                (
                    '    "csr": _Preset',
                    '    "halves": _Preset(BestFeasible, lambda tuned: Halves()),',
                ),
            ],
        },
        """
        import asktell

        goal = asktell.BestFeasible("score")
        selector = asktell.Selector(["a", "b", "c"], goal, 9, "halves", examples=5)
        while trial := selector.ask():
            selector.tell(trial, float(trial.prompt == "b"))
            selector = asktell.Selector.from_json(selector.to_json())
        assert selector.result().best.prompt == "b"
        assert "Halves" in selector.to_json()
        """,
    ),
    "a column of the result": Addition(
        {},
        {
            "asktell/results/entries.py": [
                ("    p_feasible: float | None = None", "    words: int = 0")
            ],
            "asktell/results/summary.py": [
                (
                    "                evaluations=int",
                    "                words=len(text.split()),",
                )
            ],
            "asktell/results/table.py": [
                (
                    '        _count("evaluations"',
                    '        _count("words", "words", entries, shown=True),',
                )
            ],
        },
        """
        import asktell

        goal = asktell.BestFeasible("score")
        result = asktell.analyze([[1, 1, 0], [0, 0, 1]], goal, prompts=["say a", "b"])
        assert [entry.words for entry in result.prompts] == [2, 1]
        assert result.to_dataframe().words.tolist() == [2, 1]
        assert "words" in str(result) and result.to_dict()["prompts"][0]["words"] == 2
        """,
    ),
    "a command": Addition(
        {
            "adapters/asktell_adapters/cli/hello.py": """
            import argparse


            def hello(args: argparse.Namespace) -> int:
                print(f"hello, {args.name}")
                return 0
            """
        },
        {
            "adapters/asktell_adapters/cli/arguments.py": [
                (
                    '    Command("cache"',
                    '    Command("hello", "hello:hello", "say hello", "Say hello.", "example: asktell hello you",\n'
                    '        (_a("name", metavar="NAME", help="whom to greet"),)),',
                )
            ]
        },
        """
        from asktell_adapters.cli.main import main

        assert main(["hello", "you"]) == 0
        """,
    ),
    "a format of results": Addition(
        {
            "adapters/asktell_adapters/finished/pairs.py": """
            from asktell_adapters.finished.graded import Graded
            from asktell_adapters.finished.score_columns import ScoreColumns
            from asktell_adapters.finished.scored_candidate import ScoredCandidate
            from asktell_adapters.finished.scores import Scores


            class PairsReader:
                name = "pairs of a task and a score"

                def recognizes(self, source):
                    return source.path.suffix == ".pairs"

                def read(self, source, wanted):
                    pairs = [line.split() for line in source.path.read_text().splitlines()]
                    graded = [Graded(task, {"score": float(score)}) for task, score in pairs]
                    return Scores(
                        self.name,
                        [ScoredCandidate(source.path, ScoreColumns.of(graded))],
                        "file" if wanted.is_alone else "files",
                        "tasks",
                    )
            """
        },
        {
            "adapters/asktell_adapters/finished/readers.py": [
                (
                    '    "table": BuiltIn',
                    '    "pairs": BuiltIn(f"{_HERE}.pairs:PairsReader"),',
                )
            ]
        },
        """
        from pathlib import Path

        from asktell_adapters.cli.main import main

        for name, score in (("a", 1), ("b", 0)):
            lines = [f"task-{task} {score}" for task in range(12)]
            Path(f"{name}.pairs").write_text("\\n".join(lines))
        assert main(["analyze", "a.pairs", "b.pairs", "--maximize", "score"]) == 0
        """,
    ),
    "a metric": Addition(
        {
            "adapters/asktell_adapters/metrics/vowels.py": """
            def vowels(completion, example, /):
                return float(sum(letter in "aeiou" for letter in completion.text))
            """
        },
        {
            "adapters/asktell_adapters/config/metrics.py": [
                (
                    "from asktell_adapters.metrics.preference",
                    "from asktell_adapters.metrics.vowels import vowels",
                ),
                (
                    '    "latency": MetricType',
                    '    "vowels": MetricType(PlainTable, "Number of vowels.", lambda: vowels),',
                ),
            ]
        },
        """
        from asktell_adapters.config.metrics import METRICS
        from asktell_adapters.llms.base import Completion, Example

        metric = METRICS["vowels"].made()
        assert metric(Completion("audio"), Example("")) == 4.0
        """,
    ),
    "a kind of LLM": Addition(
        {
            "adapters/asktell_adapters/llms/echo.py": '''
            from collections.abc import Sequence

            from asktell_adapters.llms.base import Completion, Request


            class Echo:
                """Responds with the request.

                Args:
                    model: any name.
                    times: how often.
                """

                def __init__(self, model: str, *, times: int = 1, concurrency: int = 1) -> None:
                    self.times = times

                def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
                    return [Completion("echo " * self.times) for _ in requests]

                def identity(self) -> dict[str, str]:
                    return {"llm": "echo"}
            '''
        },
        {
            "adapters/asktell_adapters/config/model.py": [
                (
                    "from asktell_adapters.llms.huggingface",
                    "from asktell_adapters.llms.echo import Echo",
                ),
                (
                    '    "vllm": ModelType',
                    '    "echo": ModelType(Echo, options_table(Echo, "times", base=NamedModel),\n'
                    '        about="any name", summary="an echo", first="echo"),',
                ),
            ]
        },
        """
        from pathlib import Path

        from asktell_adapters.cli.main import main

        Path("run.toml").write_text('''
        budget = 4
        [goal]
        maximize = "brevity"
        [model]
        type = "echo"
        model = "any"
        times = 3
        [data]
        file = "data.jsonl"
        [prompts.texts]
        a = "Say a. {{ input }}"
        b = "Say b. {{ input }}"
        [metrics]
        brevity = { low = 1, high = 9 }
        ''')
        Path("data.jsonl").write_text('{"input": "x", "reference": ""}\\n{"input": "y", "reference": ""}\\n')
        assert main(["check", "run.toml"]) == 0
        """,
    ),
}


def _insert(path: Path, before: str, lines: str) -> None:
    text = path.read_text()
    assert before in text, f"{path}: {before}"
    path.write_text(text.replace(before, f"{lines}\n{before}", 1))


@pytest.mark.parametrize("kind", ADDITIONS)
def test_an_addition_changes_at_most_three_files(kind: str, tmp_path: Path) -> None:
    addition = ADDITIONS[kind]
    assert len({*addition.new, *addition.inserted}) <= MOST_FILES
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "asktell", tmp_path / "asktell", ignore=ignored)
    shutil.copytree(
        ROOT / "adapters" / "asktell_adapters",
        tmp_path / "adapters" / "asktell_adapters",
        ignore=ignored,
    )
    for name, text in addition.new.items():
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip())
    for name, pairs in addition.inserted.items():
        for before, lines in pairs:
            _insert(tmp_path / name, before, lines)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(addition.program)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(tmp_path / "adapters")]),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
