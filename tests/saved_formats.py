"""Samples of every format of version 1, as `tests/test_formats.py` reads them: python -m tests.saved_formats FOLDER.

Run it for a new version of a format only. Samples of a version that was released are never written again.
"""

import json
import sys
from pathlib import Path
from typing import Any

import asktell
from asktell import BestFeasible, ParetoSet, Selector, Study, minimize

PROMPTS = {f"p{i}": f"Summarize{'!' * i}" for i in range(9)}
GOALS = {
    "best": BestFeasible("rouge", {"brevity": 0.3}),
    "front": ParetoSet("rouge", minimize("cost"), subject_to={"safety": 0.2}),
}


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
        found[name] = Selector(PROMPTS, GOALS[goal], 120, method, examples=[f"e{i}" for i in range(40)], seed=7)
        play(found[name], 30)
    published = asktell.preset("ege-sh", GOALS["front"], schedule="published", data="round")
    found["ege-sh-published"] = Selector(PROMPTS, GOALS["front"], 120, published, examples=40, sampling="iid", seed=7)
    play(found["ege-sh-published"], 30)
    options: dict[str, Any] = {"repeats": 2, "baseline": "p1", "on_failure": {"rouge": 0.0, "brevity": 0.0}}
    grown = Selector(PROMPTS, GOALS["best"], asktell.Budget(evaluations=60, cost=100.0), examples=20, seed=7, **options)
    play(grown, 20)
    grown.add({"late": "Be late."})
    grown.retire("p3", "too long")
    grown.extend(evaluations=10, cost=5.0, examples=4)
    play(grown, 8)
    found["grown"] = grown
    return found


def write(folder: Path) -> None:
    """Write all samples, and what is to be read of them."""
    for name, selector in selectors().items():
        (folder / f"selector-v1-{name}.json").write_text(selector.to_json(), encoding="utf-8")
        loaded = Selector.from_json(selector.to_json())
        expected = {"result": loaded.result().to_dict(), "pending": loaded.pending, "next": loaded.ask(3)}
        (folder / f"expected-selector-v1-{name}.json").write_text(json.dumps(expected), encoding="utf-8")
    (folder / "studies-v1.db").unlink(missing_ok=True)
    first = Selector(PROMPTS, GOALS["best"], 120, examples=[f"e{i}" for i in range(40)], seed=7)
    with Study.create(f"sqlite:///{folder / 'studies-v1.db'}", "sample", first) as study:
        play(study, 30)
        trial = study.ask()
        assert trial is not None
        study.tell(trial, score(trial, 2), details={"answer": "short"})
        study.add({"late": "Be late."})
        study.export(folder / "study-v1.jsonl")
        profile = asktell.ExampleProfile.of(study)
    (folder / "profile-v1.json").write_text(profile.to_json(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
