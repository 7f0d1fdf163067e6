"""Samples of every format of version 1, as `tests/test_formats.py` reads them: python -m tests.saved_formats FOLDER.

Run it for a new version of a format only. Samples of a version that was released are
never written again.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asktell
from asktell import (
    BestFeasible,
    ParetoSet,
    Selector,
    Study,
    at_least,
    at_most,
    maximize,
    minimize,
)
from asktell.problem.objectives import Objective
from asktell.studies import replica
from asktell_adapters.cli import main as cli
from asktell_adapters.llms.base import Completion, Request

PROMPTS = {f"p{i}": f"Summarize{'!' * i}" for i in range(9)}
GOALS = {
    "best": BestFeasible("rouge", {"brevity": 0.3}),
    "front": ParetoSet("rouge", minimize("cost"), subject_to={"safety": 0.2}),
}

CONFIG = """\
output = "out"
budget = 24
[prompts]
texts = { short = "Answer with noise 1", long = "Answer with noise 4", plain = "Answer with noise 0" }
[data]
file = "data.jsonl"
[model]
loader = "tests.saved_formats:Parrot"
[metrics]
token_f1 = true
brevity = { low = 2, high = 12 }
[goal]
maximize = "token_f1"
at_least = { brevity = 0.3 }
[cache]
file = "answers.db"
"""


class Parrot:
    """An LLM that repeats what it is given, with as many words more as the prompt says."""

    asked = 0
    stop_at = 0  # the call that is interrupted

    def identity(self) -> dict[str, str]:
        return {"model": "parrot", "version": "1"}

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        return [self._one(str(request.messages[-1]["content"])) for request in requests]

    def _one(self, message: str) -> Completion:
        Parrot.asked += 1
        if Parrot.asked == Parrot.stop_at:
            raise KeyboardInterrupt
        prompt, text = message.split("\n\n")
        words = text.split() + ["x"] * int(prompt.split()[-1])
        return Completion(" ".join(words), completion_tokens=len(words), cost=0.5)


def score(trial: asktell.Trial, n_metrics: int) -> list[float]:
    """Made of the trial alone, so that whoever loads a sample can go on."""
    return [(trial.id * 37 % 101) / 101 + j / 7 for j in range(n_metrics)]


def play(selection: Any, n: int) -> None:
    """Tell so many trials; the fifth fails, the next is handed back, two stay pending."""
    for number in range(n):
        trial = selection.ask()
        if number == 4:
            selection.fail(trial, "no answer", cost=0.25)
        elif number == 5:
            selection.release(trial)
        elif trial is not None:
            selection.tell(trial, score(trial, len(selection.metrics)), cost=0.5)
    selection.ask(2)


def selectors() -> dict[str, Selector]:
    """A selector of every kind of method, midway."""
    found = {}
    for name, method, goal in (
        ("csr", "csr", "best"), ("ege-sr", "ege-sr", "front"), ("auto", "auto", "best"), ("race", "race", "front"),
    ):  # fmt: skip
        found[name] = Selector(
            PROMPTS,
            GOALS[goal],
            120,
            method,
            examples=[f"e{i}" for i in range(40)],
            seed=7,
        )
        play(found[name], 30)
    published = asktell.preset(
        "ege-sh", GOALS["front"], schedule="published", data="round"
    )
    found["ege-sh-published"] = Selector(
        PROMPTS, GOALS["front"], 120, published, examples=40, sampling="iid", seed=7
    )
    play(found["ege-sh-published"], 30)
    options: dict[str, Any] = {
        "repeats": 2,
        "baseline": "p1",
        "on_failure": {"rouge": 0.0, "brevity": 0.0},
    }
    grown = Selector(
        PROMPTS,
        GOALS["best"],
        asktell.Budget(evaluations=60, cost=100.0),
        examples=20,
        seed=7,
        **options,
    )
    play(grown, 20)
    grown.add({"late": "Be late."})
    grown.retire("p3", "too long")
    grown.extend(evaluations=10, cost=5.0, examples=4)
    play(grown, 8)
    found["grown"] = grown
    found["segments"] = segmented()
    return found


def segmented() -> Selector:
    """Models and prompts together, for segments, under a limit on the tail, with the profile of an earlier one."""
    ids = [f"e{i}" for i in range(20)]
    factors: Any = {
        "model": {"small": "m-1", "large": "m-2"},
        "prompt": {"short": "Be short.", "kind": "Be kind."},
    }
    bounds: dict[str | Objective, Any]
    bounds = {
        "brevity": at_least(0.2, quantile=0.1),
        "safety": at_most(1.2, in_every_segment=True),
    }
    earlier = Selector(PROMPTS, GOALS["best"], 120, examples=ids, seed=7)
    play(earlier, 30)
    best = Selector(
        asktell.grid(**factors), BestFeasible(maximize("rouge", worst_segment=True), bounds, sure=0.8), 60,
        examples=ids, segments=["de", "en"] * 10, profile=asktell.ExampleProfile.of(earlier), seed=7,
    )  # fmt: skip
    play(best, 20)
    return best


_OF_RESULTS = (
    "spent",
    "budget",
    "spent_cost",
    "max_cost",
    "done",
    "n_examples",
    "repeats",
    "inputs",
    "baseline",
)
_OF_PROMPTS = ("id", "prompt", "evaluations", "failures", "status", "round")


def facts(selector: Selector) -> Any:
    """What a file holds of a selection and how it goes on, as JSON data; estimates and words are no facts of a file."""
    result = selector.result()
    found = {
        "goal": str(result.goal),
        **{name: getattr(result, name) for name in _OF_RESULTS},
        "prompts": [
            {name: getattr(entry, name) for name in _OF_PROMPTS}
            for entry in result.prompts
        ],
        "evaluations": [each._asdict() for each in selector.evaluations()],
        "pending": selector.pending,
        "next": selector.ask(3),
    }
    return json.loads(json.dumps(found))


def write(folder: Path) -> None:
    """Write all samples, and what is to be read of them."""
    for name, selector in selectors().items():
        (folder / f"selector-v1-{name}.json").write_text(
            selector.to_json(), encoding="utf-8"
        )
        expected = facts(Selector.from_json(selector.to_json()))
        (folder / f"expected-selector-v1-{name}.json").write_text(
            json.dumps(expected), encoding="utf-8"
        )
    (folder / "studies-v1.db").unlink(missing_ok=True)
    replica.ENTRIES_PER_SNAPSHOT = 40  # so that the sample has one
    first = Selector(
        PROMPTS, GOALS["best"], 120, examples=[f"e{i}" for i in range(40)], seed=7
    )
    with Study.create(
        f"sqlite:///{folder / 'studies-v1.db'}", "sample", first
    ) as study:
        study.worker("w", lease=60).ask()  # the snapshot has a lease
        play(study, 30)
        trial = study.ask()
        study.tell(trial, score(trial, 2), details={"answer": "short"})
        study.add({"late": "Be late."})
        study.export(folder / "study-v1.jsonl")
        profile = asktell.ExampleProfile.of(study)
    (folder / "profile-v1.json").write_text(profile.to_json(), encoding="utf-8")
    write_run(folder / "run-v1")


def write_run(home: Path) -> None:
    """Write a configuration and the folder of a run that was interrupted, with its cache of answers."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    (home / "a.toml").write_text(CONFIG, encoding="utf-8")
    rows = [
        {"input": "word " * (1 + i % 4) + str(i), "reference": f"word word {i}"}
        for i in range(8)
    ]
    (home / "data.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    # Not that of __main__: the configuration names it
    from tests.saved_formats import Parrot

    Parrot.asked, Parrot.stop_at = 0, 13
    assert cli.main(["run", str(home / "a.toml")]) == 130


if __name__ == "__main__":
    write(Path(sys.argv[1]))
