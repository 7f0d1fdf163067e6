"""Loops that write prompts, with scripted writers: they find what is written, resume, stop, and never overspend."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Budget, ParetoSet, Selector, Study
from asktell.errors import EvaluatorError, IncompatibleMethodError, InvalidArgumentError
from asktell_adapters.optimizers import Brief, Improvement, improve

N = 20


def evaluate(prompt: str, example: int) -> dict[str, float]:
    """The more x the better, up to 10 of them; and the longer the worse."""
    quality = min(prompt.count("x"), 10) / 10
    return {
        "quality": quality * 0.8 + (example * 7 % 5) / 25,
        "brevity": 1 - len(prompt) / 40,
        "cost": 0.5,
    }


def more(brief: Brief) -> list[str]:
    """Each parent with some more x."""
    return [f"{parent.prompt}{'x' * (1 + i)}" for i, parent in enumerate(brief.parents)]


def selector(
    goal: Any = None, budget: Any = 18, method: Any = "auto", **others: Any
) -> Selector:
    goal = goal or BestFeasible("quality")
    return Selector(["ax", "bx", "cxx"], goal, budget, method, examples=N, **others)


def loop(
    study: Any, writer: Callable[[Brief], Sequence[str]] = more, **settings: Any
) -> Improvement:
    given = {"budget": 90, "candidates": 4, "progress": False, **settings}
    evaluator = given.pop("evaluator", evaluate)
    return improve(study, evaluator, writer, **given)


def test_a_better_prompt_of_a_later_generation_is_found() -> None:
    briefs: list[Brief] = []

    def writer(brief: Brief) -> list[str]:
        briefs.append(brief)
        return ["xxxxxxxxxx"] if brief.generation == 2 else [f"y{brief.generation}"]

    found = loop(study := selector(), writer)
    assert [entry.prompt for entry in found.result.selected] == ["xxxxxxxxxx"]
    assert [each.better for each in found.generations] == [
        True,
        False,
        True,
        False,
        False,
    ]
    assert found.stopped == "the budget is spent" or found.stopped.startswith(
        "no improvement"
    )
    assert [brief.generation for brief in briefs] == list(
        range(1, len(found.generations))
    )
    assert briefs[0].parents[0].prompt == "cxx"
    assert briefs[2].parents[0].prompt == "xxxxxxxxxx"
    assert briefs[1].tried == ("ax", "bx", "cxx", "y1")
    assert all(brief.failures for brief in briefs)
    assert found.generations[2].parents == [parent.id for parent in briefs[1].parents]
    assert [entry.prompt for entry in found.generations[2].prompts] == ["xxxxxxxxxx"]
    assert "is better than prompt 2" in found.generations[2].why
    assert study.spent <= 90
    assert found.to_dict()["generations"][1]["why"] == found.generations[1].why
    assert f"{len(found.generations)} generations. Stopped: {found.stopped}" in str(
        found
    )


@pytest.mark.parametrize(
    ("goal", "method"),
    [
        (BestFeasible("quality"), "race"),
        (BestFeasible("quality", {"brevity": 0.8}), "auto"),
        (ParetoSet("quality", "brevity"), "auto"),
        (ParetoSet("quality", "brevity", subject_to={"brevity": 0.7}), "race"),
    ],
    ids=str,
)
def test_every_goal_and_method_goes_through_all_of_the_budget_and_no_more(
    goal: Any, method: str
) -> None:
    found = loop(selector(goal, method=method), patience=None)
    assert len(found.generations) > 2
    assert found.result.spent <= 90
    assert found.result.selected
    assert sum(len(each.prompts) for each in found.generations) == len(
        found.result.prompts
    )
    if found.result.goal.is_constrained:
        assert found.result.feasible


def test_money_is_shared_and_never_exceeded() -> None:
    found = loop(
        selector(budget=Budget(cost=9.0, max_cost_per_evaluation=0.5)),
        budget=Budget(cost=30.0),
        patience=None,
    )
    assert 25 < found.result.spent_cost <= 30
    assert len(found.generations) > 2
    both = loop(
        selector(budget=Budget(evaluations=18, cost=9.0)),
        budget=Budget(evaluations=40, cost=100.0),
    )
    assert both.result.spent == 40


@contextmanager
def opened(kind: str, tmp_path: Path, budget: int = 18) -> Iterator[Callable[[], Any]]:
    """A function that opens the study, anew each time."""
    if kind == "Selector":
        one = selector(budget=budget)
        yield lambda: one
    elif kind == "Study":
        Study.create(tmp_path / "s.db", "s", selector(budget=budget)).close()
        yield lambda: Study.open(tmp_path / "s.db", "s")
    else:
        pytest.importorskip("fastapi")
        from tests.adapters.server.conftest import Process

        with Process(f"sqlite:///{tmp_path}/remote.db") as service:
            asktell.RemoteStudy.create(
                service.url, "s", selector(budget=budget)
            ).close()
            yield lambda: asktell.RemoteStudy.open(service.url, "s")


class Killed(BaseException):
    """What a kill is to the code that it meets."""


class Calls:
    """Counts calls of anything, and ends the process, so to speak, at one of them."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.n, self.stop_at = 0, stop_at

    def __call__(
        self, inner: Callable[..., Any], after: bool = False
    ) -> Callable[..., Any]:
        def wrapped(*args: Any, **named: Any) -> Any:
            result = inner(*args, **named) if after else None
            self.n += 1
            if self.n == self.stop_at:
                raise Killed
            return result if after else inner(*args, **named)

        return wrapped


def summary(found: Improvement) -> Any:
    generations = [
        (
            each.number,
            [p.prompt for p in each.prompts],
            each.parents,
            each.better,
            each.why,
        )
        for each in found.generations
    ]
    return (
        generations,
        found.stopped,
        found.result.spent,
        [entry.prompt for entry in found.result.selected],
    )


@pytest.mark.parametrize("kind", ["Selector", "Study"])
def test_a_loop_killed_at_any_instant_ends_as_one_that_was_not(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whole").mkdir()
    with opened(kind, tmp_path / "whole") as study:
        whole = summary(loop(study(), budget=60))
    owner = Selector if kind == "Selector" else Study
    add, extend = owner.add, owner.extend
    for stop_at in [*range(1, 70, 14 if kind == "Selector" else 23), 19, 20, 21, 22]:
        home = tmp_path / str(stop_at)
        home.mkdir(exist_ok=True)
        calls = Calls(stop_at)
        with opened(kind, home) as study, monkeypatch.context() as patch:
            patch.setattr(owner, "add", calls(calls(add), after=True))
            patch.setattr(owner, "extend", calls(calls(extend), after=True))
            for _ in range(2):
                try:
                    found = loop(
                        study(), calls(more), evaluator=calls(evaluate), budget=60
                    )
                except Killed:
                    continue
                assert summary(found) == whole
                break
            else:
                pytest.fail("it was killed twice")
        if (home / "s.db").exists():
            (home / "s.db").unlink()


def test_a_finished_loop_returns_at_once_and_goes_on_with_more() -> None:
    study = selector()
    first = loop(study)
    assert summary(loop(study, lambda brief: pytest.fail("asked again"))) == summary(
        first
    )
    longer = loop(study, budget=126, patience=None)
    assert summary(longer)[0][: len(first.generations)] == summary(first)[0]
    assert longer.result.spent == 126


def test_every_kind_of_study_comes_to_the_same_end(tmp_path: Path) -> None:
    ends = []
    for kind in ("Selector", "Study", "RemoteStudy"):
        with opened(kind, tmp_path) as study:
            ends.append(summary(loop(study(), budget=60)))
            assert summary(loop(study(), budget=60)) == ends[0]
    assert ends[0] == ends[1] == ends[2]


def test_several_processes_make_one_loop(tmp_path: Path) -> None:
    written: list[int] = []

    def writer(brief: Brief) -> list[str]:
        written.append(brief.generation)
        return more(brief)

    with opened("Study", tmp_path) as study, ThreadPoolExecutor(3) as threads:
        ends = list(
            threads.map(lambda _: loop(study(), writer, patience=None), range(3))
        )
        assert {end.stopped for end in ends} == {"the budget is spent"}
        assert {end.result.spent for end in ends} == {90}
        prompts = [entry.prompt for entry in study().result().prompts]
    assert (
        len(prompts)
        == len(set(prompts))
        == sum(len(each.prompts) for each in ends[0].generations)
    )
    assert [each.number for each in ends[0].generations] == sorted(set(written) | {0})


def test_patience_ends_it_and_the_rest_stays_unspent() -> None:
    def worse(brief: Brief) -> list[str]:
        return [f"y{brief.generation}{i}" for i in range(4)]

    found = loop(study := selector(), worse, budget=500, patience=3)
    assert found.stopped == "no improvement in the last 3 generations"
    assert len(found.generations) == 4
    assert study.budget == 4 * 18
    assert "still selected" in found.generations[-1].why
    assert (
        loop(selector(), worse, budget=500, patience=1).stopped
        == "no improvement in the last generation"
    )


def test_what_is_known_empty_or_written_twice_is_dropped() -> None:
    def writer(brief: Brief) -> list[str]:
        return (
            ["ax", " ", "", "new", "new ", "\ud800"]
            if brief.generation == 1
            else [" cxx\n", "new"]
        )

    found = loop(selector(), writer, patience=None)
    assert [entry.prompt for entry in found.generations[1].prompts] == ["new"]
    assert found.stopped == "the writer wrote nothing new"
    assert found.result.spent == 36


@pytest.mark.parametrize(
    ("writer", "message"),
    [
        (lambda brief: 1 / 0, "ZeroDivisionError"),
        (lambda brief: "one text", "a list of texts"),
        (lambda brief: [1], "a list of texts"),
        (lambda brief: None, "TypeError"),
    ],
)
def test_a_writer_that_fails_costs_nothing(writer: Any, message: str) -> None:
    study = selector()
    with pytest.raises(
        EvaluatorError,
        match=f"The writer <lambda> failed to write generation 1.*{message}",
    ):
        loop(study, writer)
    assert study.spent == 18
    assert summary(loop(study, budget=36)) == summary(loop(selector(), budget=36))


def test_failures_are_the_examples_on_which_the_best_parent_does_worst() -> None:
    told: list[Brief] = []
    data = [f"row {i}" for i in range(N)]
    loop(selector(), lambda brief: told.append(brief) or [], examples=data)
    failures = told[0].failures
    scores = [failure.scores["quality"] for failure in failures]
    assert scores == sorted(scores)
    assert all(failure.example == f"row {failure.position}" for failure in failures)
    seen = {e.example: e.scores["quality"] for e in _evaluations(told[0])}
    assert scores[0] == min(seen.values())
    assert len(failures) <= 8


def _evaluations(brief: Brief) -> list[Any]:
    study = selector()
    asktell.run(study, evaluate, progress=False)
    best = brief.parents[0].id
    return [each for each in study.evaluations() if each.prompt == best]


def test_details_of_a_study_carry_the_models_answer(tmp_path: Path) -> None:
    class Scores(dict[str, float]):
        details = {"output": "what it said"}  # noqa: RUF012

    told: list[Brief] = []
    with Study.create(tmp_path / "s.db", "s", selector()) as study:
        improve(
            study.worker("me"),
            lambda prompt, example: Scores(evaluate(prompt, example)),
            lambda brief: told.append(brief) or [],
            budget=90,
            progress=False,
        )
    assert {failure.answer for failure in told[0].failures} == {"what it said"}


def test_a_study_with_features_is_improved() -> None:
    assert len(loop(selector(features="text")).generations) > 1


def test_a_referee_decides_which_prompts_are_kept_and_shows_no_scores() -> None:
    briefs: list[Brief] = []

    def writer(brief: Brief) -> list[str]:
        briefs.append(brief)
        n = brief.parents[0].prompt.count("x")
        # Much better in every other generation
        return ["y" * len(briefs) + "x" * (n + 5 * (brief.generation % 2))]

    goal = BestFeasible(asktell.maximize("quality", range=(0, 1)))
    study = Selector(["x"], goal, 200, "referee", examples=200, baseline=0)
    found = loop(study, writer, budget=1000, patience=None, candidates=1)
    n = len(briefs)
    assert [one.better for one in found.generations[1:4]] == [True, False, True]
    assert [one.why for one in found.generations[1:3]] == [
        "accepted: 1",
        "none was accepted",
    ]
    assert found.result.best is not None
    assert found.result.best.prompt.count("x") == 11
    assert found.result.best.id == 3
    for brief in briefs:
        (incumbent,) = brief.parents
        assert incumbent.id in (0, 1, 3)
        assert set(incumbent.estimate.values()) == {None}
        assert brief.failures == ()
        assert (incumbent.failures, incumbent.plain_mean) == (0, {})
    # The same call returns at once
    assert loop(study, writer, budget=1000, patience=None, candidates=1)
    assert n >= 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 17}, "own budget is already 18 evaluations"),
        ({"budget": 0}, "budget"),
        (
            {"budget": Budget(cost=5.0)},
            "limits cost, but the study's budget limits evaluations",
        ),
        ({"candidates": 0}, "candidates"),
        ({"parents": 0}, "parents"),
        ({"parents": 21}, "parents"),
        ({"patience": 0}, "patience"),
        ({"writer": "no function"}, "writer"),
        ({"examples": ["one"]}, r"with 20 rows, got 1\. Pass all"),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(
    settings: Any, message: str
) -> None:
    study = selector()
    with pytest.raises(InvalidArgumentError, match=message):
        loop(study, **{"writer": more, **settings})
    assert study.spent == 0


def test_a_method_that_plans_rounds_and_what_is_no_study_are_refused() -> None:
    with pytest.raises(IncompatibleMethodError, match="plans its rounds"):
        loop(selector(method="csr"))
    with pytest.raises(InvalidArgumentError, match="must be a Selector or a Study"):
        loop("study")
