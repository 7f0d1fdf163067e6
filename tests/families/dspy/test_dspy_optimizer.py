"""The optimizer: what compile returns, and that it survives a crash."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils import DummyLM

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError, StudyExistsError
from asktell_adapters.evaluators import Price
from asktell_adapters.harnesses.dspy import (
    AsktellOptimizer,
    DSPyEvaluator,
    bootstrap_demos,
    propose_instructions,
)
from asktell_adapters.harnesses.gepa import AsktellPolicy
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply
from tests.words import lacking

QUALITY = {
    "Poor.": 0.2,
    "Good.": 0.8,
    "Best.": 0.9,
    "Given the fields `question`, produce the fields `answer`.": 0.1,
}
TRAINSET = [
    dspy.Example(question=str(n), answer=str(n)).with_inputs("question")
    for n in range(12)
]


class Program(dspy.Module):
    """As good as its instruction; brevity falls with quality; demos add a little."""

    def __init__(self) -> None:
        super().__init__()
        self.predict = dspy.Predict("question -> answer")

    def forward(self, question: str) -> Any:
        quality = QUALITY[self.predict.signature.instructions]
        return dspy.Prediction(
            answer=question,
            quality=quality + 0.01 * len(self.predict.demos) + int(question) / 1000,
            short=1 - quality,
        )


def quality(example: Any, prediction: Any, trace: Any = None) -> float:
    return float(prediction.quality)


def both(example: Any, prediction: Any, trace: Any = None) -> dict[str, float]:
    return {"quality": prediction.quality, "short": prediction.short}


def instruction(program: Any) -> str:
    return str(program.predict.signature.instructions)


@pytest.mark.parametrize("threads", [1, 3])
def test_compile_returns_the_best_program(threads: int) -> None:
    student = Program()
    optimizer = AsktellOptimizer(
        quality, ["Poor.", "Good.", "Best."], budget=24, num_threads=threads
    )
    compiled = optimizer.compile(student, trainset=TRAINSET)
    assert instruction(compiled) == "Best."
    assert instruction(student) not in ("Poor.", "Good.", "Best.")
    assert compiled._compiled
    assert compiled(question="3").answer == "3"
    found = compiled.candidate_programs
    assert [entry["selected"] for entry in found] == [True, False, False, False]
    assert [instruction(entry["program"]) for entry in found][:3] == [
        "Best.",
        "Good.",
        "Poor.",
    ]
    assert found[0]["score"] == pytest.approx(0.9, abs=0.02)
    assert compiled.asktell_result.spent <= 24


def test_a_compiled_program_is_saved_and_loaded_as_any(tmp_path: Path) -> None:
    compiled = AsktellOptimizer(quality, ["Best."], budget=4, num_threads=1).compile(
        Program(), trainset=TRAINSET
    )
    compiled.save(str(tmp_path / "program.json"))
    again = Program()
    again.load(str(tmp_path / "program.json"))
    assert instruction(again) == "Best."
    assert instruction(compiled.deepcopy()) == "Best."


def test_constraints_and_the_pareto_set() -> None:
    candidates = ["Poor.", "Good.", "Best."]
    constrained = AsktellOptimizer(
        both,
        candidates,
        budget=36,
        goal=asktell.BestFeasible("quality", {"short": 0.15}),
        keep_original=False,
    ).compile(Program(), trainset=TRAINSET)
    assert instruction(constrained) == "Good."
    front = AsktellOptimizer(
        both,
        candidates,
        budget=36,
        goal=asktell.ParetoSet("quality", "short"),
        keep_original=False,
    ).compile(Program(), trainset=TRAINSET)
    chosen = [entry for entry in front.candidate_programs if entry["selected"]]
    assert [instruction(entry["program"]) for entry in chosen] == [
        "Best.",
        "Good.",
        "Poor.",
    ]
    assert instruction(front) == "Best."


def test_an_impossible_constraint_gives_the_nearest_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    goal = asktell.BestFeasible("quality", {"short": 2})
    compiled = AsktellOptimizer(
        both, ["Poor.", "Best."], budget=16, goal=goal, keep_original=False
    ).compile(Program(), trainset=TRAINSET)
    assert instruction(compiled) == "Poor."
    assert compiled.asktell_result.feasible is False
    assert not lacking(caplog.text, "no candidate", "constraint")


def test_demo_sets_are_combined_with_instructions() -> None:
    demos = [
        [dspy.Example(question="1", answer="1")] * 2,
        [dspy.Example(question="2", answer="2")] * 9,
    ]
    optimizer = AsktellOptimizer(
        quality, ["Good.", "Best."], demos, budget=54, num_threads=1
    )
    compiled = optimizer.compile(Program(), trainset=TRAINSET)
    assert len(compiled.asktell_result.prompts) == 3 * 3
    assert instruction(compiled) == "Best."
    assert len(compiled.predict.demos) == 9


def test_a_candidate_that_always_fails_leaves_and_the_others_go_on() -> None:
    compiled = AsktellOptimizer(
        quality, ["Unknown.", "Good."], budget=20, num_threads=1, keep_original=False
    ).compile(Program(), trainset=TRAINSET)
    assert instruction(compiled) == "Good."
    bad = compiled.asktell_result.prompts[0]
    assert (bad.status, bad.evaluations) == ("failed", 0)
    assert not lacking(str(bad.reason), "program", "KeyError", "'Unknown.'")
    assert all(
        instruction(entry["program"]) != "Unknown."
        for entry in compiled.candidate_programs
    )


@pytest.mark.parametrize("value", [None, math.nan, "good"])
def test_a_metric_without_scores_ends_with_its_reason(value: Any) -> None:
    optimizer = AsktellOptimizer(
        lambda *_: value,
        ["Good.", "Best.", "Poor."],
        budget=20,
        max_failures_in_a_row=4,
    )
    with pytest.raises(EvaluatorError, match=rf"failed.*'score'.*{value}"):
        optimizer.compile(Program(), trainset=TRAINSET)


def test_money_can_be_the_budget() -> None:
    answer = "[[ ## answer ## ]]\n3\n\n[[ ## completed ## ]]"
    with FaultyLLMServer([Reply(text=answer, usage=(90, 10, 0))] * 40) as server:
        lm = dspy.LM(
            "openai/priced", api_base=server.base_url, api_key="none", cache=False
        )
        optimizer = AsktellOptimizer(
            lambda example, prediction, trace=None: example.answer == prediction.answer,
            ["Good.", "Best."],
            budget=asktell.Budget(cost=1000),
            prices={"openai/priced": Price(input=1e6, output=1e6)},
            num_threads=2,
        )
        with dspy.context(lm=lm):
            result = optimizer.compile(
                dspy.Predict("question -> answer"), trainset=TRAINSET
            ).asktell_result
    assert result.spent_cost == 100 * result.spent <= 1000
    assert result.spent >= 8
    assert len(server.requests) == result.spent


# Demos and instructions of DSPy's own making


def test_demos_are_bootstrapped_as_for_miprov2() -> None:
    lm = DummyLM({str(n): {"answer": str(n)} for n in range(12)})
    student = dspy.Predict("question -> answer")
    with dspy.context(lm=lm):
        sets = bootstrap_demos(
            student,
            lambda example, prediction, trace: True,
            TRAINSET[:6],
            4,
            max_bootstrapped=2,
        )
        assert [len(demos["self"]) > 0 for demos in sets] == [False, True, True, True]
        optimizer = AsktellOptimizer(
            lambda example, prediction, trace=None: {
                "right": example.answer == prediction.answer
            },
            demos=4,
            budget=8,
            goal=asktell.BestFeasible("right"),
            num_threads=2,
            bootstrap={"max_labeled": 2},
            inputs="given",
        )
        compiled = optimizer.compile(
            student, trainset=TRAINSET[:6], valset=TRAINSET[6:10]
        )
    assert 2 <= len(compiled.asktell_result.prompts) <= 4
    # The mean of what was recorded: every answer of the scripted LM is right.
    assert compiled.asktell_result.selected[0].estimate["right"] == 1
    optimizer.goal = asktell.BestFeasible("other")
    with pytest.raises(InvalidArgumentError, match=r"'other'.*metric.*right"):
        optimizer._success(TRAINSET[0], dspy.Prediction(answer="0"))


def proposing() -> Any:
    fields = ["observations", "summary", "program_description", "module_description"]
    return DummyLM(
        [
            {**dict.fromkeys(fields, "x"), "proposed_instruction": f"Written {n}."}
            for n in range(60)
        ]
    )


def test_instructions_are_proposed_as_for_miprov2() -> None:
    with dspy.context(lm=proposing()):
        made = propose_instructions(Program(), TRAINSET, 3)
    assert len(made) == 3
    assert all(
        set(texts) == {"predict"} and texts["predict"].startswith("Written")
        for texts in made
    )


# Studies


@pytest.fixture
def repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run evaluates nothing again to see if scores differ."""
    monkeypatch.setattr(DSPyEvaluator, "repeatable", True, raising=False)


@pytest.mark.usefixtures("repeatable")
def test_a_compile_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    spent: list[str] = []

    def costly(example: Any, prediction: Any, trace: Any = None) -> float:
        if len(spent) == 5:
            raise KeyboardInterrupt
        spent.append(example.question)
        return float(prediction.quality)

    location = f"sqlite:///{tmp_path / 'study.db'}"
    settings: dict[str, Any] = {
        "budget": 16,
        "study": (location, "qa"),
        "num_threads": 1,
        "worker": "w",
    }
    with pytest.raises(KeyboardInterrupt):
        AsktellOptimizer(costly, ["Good.", "Best."], **settings).compile(
            Program(), trainset=TRAINSET
        )
    told: list[str] = []

    def counted(example: Any, prediction: Any, trace: Any = None) -> float:
        told.append(example.question)
        return float(prediction.quality)

    compiled = AsktellOptimizer(counted, ["Good.", "Best."], **settings).compile(
        Program(), trainset=TRAINSET
    )
    assert instruction(compiled) == "Best."
    assert compiled.asktell_result.spent == len(told) + 5
    told.clear()
    again = AsktellOptimizer(counted, ["Good.", "Best."], **settings).compile(
        Program(), trainset=TRAINSET
    )
    assert (instruction(again), told) == ("Best.", [])
    with pytest.raises(StudyExistsError, match="prompts"):
        AsktellOptimizer(counted, ["Poor.", "Best."], **settings).compile(
            Program(), trainset=TRAINSET
        )


def test_candidates_of_an_lms_making_are_those_of_the_study(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "budget": 8,
        "study": (f"sqlite:///{tmp_path / 'study.db'}", "qa"),
        "num_threads": 1,
    }

    def right(example: Any, prediction: Any, trace: Any = None) -> bool:
        return bool(example.answer == prediction.answer)

    student = dspy.Predict("question -> answer")
    rows = [
        {"answer": str(n), "proposed_instruction": f"Written {n}."} for n in range(90)
    ]
    fields = ["observations", "summary", "program_description", "module_description"]
    with dspy.context(
        lm=DummyLM([{**dict.fromkeys(fields, "x"), **row} for row in rows])
    ):
        first = AsktellOptimizer(right, 2, 3, **settings).compile(
            student, trainset=TRAINSET[:4], valset=TRAINSET[4:]
        )
    with dspy.context(lm=None):  # nothing is written, bootstrapped or evaluated again
        again = AsktellOptimizer(right, 2, 3, **settings).compile(
            student, trainset=TRAINSET[:4], valset=TRAINSET[4:]
        )
    assert [p.prompt for p in first.asktell_result.prompts] == [
        p.prompt for p in again.asktell_result.prompts
    ]
    assert any("demos" in p.prompt for p in first.asktell_result.prompts)
    assert first.signature.instructions == again.signature.instructions
    assert [demo.toDict() for demo in first.demos] == [
        demo.toDict() for demo in again.demos
    ]


KILLED = """
import os, sys
sys.path.insert(0, {folder!r})
from test_dspy_optimizer import Program, TRAINSET, AsktellOptimizer
count = 0
def metric(example, prediction, trace=None):
    global count
    count += 1
    if count == 7:
        os.kill(os.getpid(), 9)
    return float(prediction.quality)
AsktellOptimizer(metric, ["Good.", "Best."], budget=16, study=({location!r}, "qa"), worker="w", num_threads=1).compile(
    Program(), trainset=TRAINSET)
"""


@pytest.mark.usefixtures("repeatable")
def test_kill_minus_nine_loses_nothing_that_was_told(tmp_path: Path) -> None:
    location = f"sqlite:///{tmp_path / 'study.db'}"
    code = KILLED.format(folder=str(Path(__file__).parent), location=location)
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert process.returncode == -9, process.stderr
    calls: list[int] = []

    def metric(example: Any, prediction: Any, trace: Any = None) -> float:
        calls.append(1)
        return float(prediction.quality)

    compiled = AsktellOptimizer(
        metric,
        ["Good.", "Best."],
        budget=16,
        study=(location, "qa"),
        worker="w",
        num_threads=1,
    ).compile(Program(), trainset=TRAINSET)
    assert instruction(compiled) == "Best."
    assert compiled.asktell_result.spent == len(calls) + 6


@pytest.mark.usefixtures("repeatable")
def test_compiles_in_two_threads_share_a_study(tmp_path: Path) -> None:
    location = f"sqlite:///{tmp_path / 'study.db'}"
    calls: list[str] = []
    lock = threading.Lock()

    def metric(example: Any, prediction: Any, trace: Any = None) -> float:
        with lock:
            calls.append(json.dumps([example.question, prediction.quality]))
        return float(prediction.quality)

    found: list[str] = []

    def work() -> None:
        optimizer = AsktellOptimizer(
            metric, ["Good.", "Best."], budget=30, study=(location, "qa"), num_threads=2
        )
        found.append(instruction(optimizer.compile(Program(), trainset=TRAINSET)))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["Best.", "Best."]
    assert len(calls) == len(set(calls)) <= 30


def test_dspys_gepa_takes_the_policy() -> None:
    class Judged(dspy.Module):
        """The longer the instruction, the better."""

        def __init__(self) -> None:
            super().__init__()
            self.predict = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            self.predict(question=question)
            return dspy.Prediction(
                answer=len(self.predict.signature.instructions) / 1000
            )

    def metric(
        gold: Any,
        pred: Any,
        trace: Any = None,
        pred_name: Any = None,
        pred_trace: Any = None,
    ) -> float:
        return float(pred.answer)

    def longer(
        candidate: dict[str, str],
        reflective_dataset: Any,
        components_to_update: list[str],
    ) -> dict[str, str]:
        return {name: candidate[name] + " Think." for name in components_to_update}

    dataset = [dspy.Example(question=str(n)).with_inputs("question") for n in range(12)]
    policy = AsktellPolicy(3)
    settings: dict[str, Any] = {"gepa_kwargs": {"val_evaluation_policy": policy}}
    if find_spec("gepa.strategies.acceptance"):  # since 0.1.4
        settings["gepa_kwargs"]["acceptance_criterion"] = policy
        settings["candidate_selection_strategy"] = policy
    optimizer = dspy.GEPA(
        metric=metric,
        max_metric_calls=60,
        instruction_proposer=longer,
        reflection_lm=DummyLM([]),
        track_stats=True,
        num_threads=1,
        use_merge=False,
        **settings,
    )
    with dspy.context(lm=DummyLM([{"answer": "a"}] * 500)):
        compiled = optimizer.compile(Judged(), trainset=dataset, valset=dataset)
    scores = compiled.detailed_results.val_subscores
    assert len(scores) > 1
    assert all(len(by_example) == 3 for by_example in scores[1:])
