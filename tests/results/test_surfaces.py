"""Whatever shows a result says the same: over sixty small selections, every surface against the verdict."""

import html
import json
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import reports
from asktell.results import Result, Verdict
from asktell.results.verdict import in_percent
from asktell.service.schemas import ResultModel
from asktell_adapters.tracking.core import View

GOALS = (
    asktell.BestFeasible(asktell.maximize("s", range=(0.0, 1.0))),
    asktell.BestFeasible(asktell.minimize("s")),
    asktell.BestFeasible("s", subject_to={"t": 0.5}),
    asktell.BestFeasible("s", subject_to={"t": asktell.at_most(0.4)}),
    asktell.ParetoSet("s", asktell.minimize("t")),
    asktell.ParetoSet("s", "t"),
)
FORBIDDEN = re.compile(
    r"ship it|not told apart|\btied\b|P\(optimal\)|p_optimal|every other prompt is behind", re.IGNORECASE
)


@cache
def selection(seed: int) -> asktell.Selector:
    """A small selection: of any goal and method, with ties, failures, a baseline; every fourth is not finished."""
    rng = np.random.default_rng(seed)
    goal, n = GOALS[seed % len(GOALS)], int(rng.integers(2, 13))
    fixed = isinstance(goal, asktell.BestFeasible) and not goal.is_constrained
    method = "race" if fixed and seed % 12 == 0 else str(rng.choice(["auto", "uniform"]))
    examples = 40 if seed % 42 == 0 else int(rng.integers(3, 13))
    budget = n * examples if seed % 42 == 0 else int(rng.integers(1 if method == "auto" else n, n * examples + 1))
    given: Any = {f"p{k}": f"Text {k}." for k in range(n)} if seed % 5 else [f"Text {k}." for k in range(n)]
    baseline = (1 if isinstance(given, list) else "p1") if seed % 3 == 0 else None
    selector = asktell.Selector(given, goal, budget, method, examples=examples, baseline=baseline, seed=seed)
    ties, binary, failing = seed % 7 == 0, bool(rng.integers(2)) and seed % 42 > 0, bool(rng.integers(2))
    m = len(goal.metrics)
    stop = budget // 2 if seed % 4 == 1 else budget
    while selector.spent < stop and (trial := selector.ask()):
        k = given.index(trial.prompt) if isinstance(given, list) else list(given).index(str(trial.prompt_id))
        if failing and rng.random() < 0.1:
            selector.fail(trial, "TimeoutError: no answer", cost=0.01)
            continue
        means = 0.5 if ties else 0.3 + 0.05 * k + 0.1 * np.arange(m)
        noise = np.random.default_rng([seed, trial.example or 0]).normal(0, 0.2) + (
            0 if ties else rng.normal(0, 0.1, m)
        )
        scores = np.broadcast_to(np.clip(means + noise, 0, 1), m)
        selector.tell(trial, [float(x > 0.5) if binary else float(x) for x in scores], cost=0.01)
    return selector


def flat(text: str) -> str:
    return " ".join(text.split())


def as_words(data: Any) -> str:
    """The texts in JSON, without the backslashes that JSON puts before quotes."""
    return json.dumps(data, ensure_ascii=False).replace('\\"', '"')


def over_http(result: Result) -> dict[str, Any]:
    answer = {**result.to_dict(), "examples": result.examples}
    return json.loads(ResultModel.model_validate(answer).model_dump_json())  # type: ignore[no-any-return]


def shown(result: Result, document: dict[str, Any], served: dict[str, Any]) -> dict[str, str]:
    """What every surface says, in words."""
    return {
        "str": str(result),
        "asktell result": result.table(),
        "asktell result --json": as_words(result.to_dict()),
        "HTTP": as_words(served),
        "notebook": html.unescape(re.sub("<[^>]*>", " ", result._repr_html_())),
        "report": document["words"]["verdict"],
        "report without scripts": html.unescape(
            reports.render(document).split("<noscript>")[1].split("</noscript>")[0]
        ),
        "report, all words": " ".join(document["words"].values()),
        "report, data": as_words(document),
    }


@pytest.mark.parametrize("tens", range(6))
def test_no_surface_contradicts_another(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        selector = selection(seed)
        result = selector.result()
        verdict = result.verdict
        document = reports.document(selector.state, selector.method, selector.prompts, patience=0.0)
        served = over_http(result)
        for where, text in shown(result, document, served).items():
            assert flat(verdict.sentence) in flat(text), (seed, where, text)
            assert not FORBIDDEN.search(text), (seed, where, text)
        numbers_agree(selector, result, document, served)


def test_the_sixty_are_of_every_kind() -> None:
    everybody = [selection(seed) for seed in range(60)]
    results = [each.result() for each in everybody]
    assert {result.verdict.action for result in results} == {"take", "either", "go on", "none"}
    assert {type(each.method).__name__ for each in everybody} >= {"Adaptive", "Elimination", "Race"}
    assert any(result.failures for result in results)
    assert any(result.verdict.answer is None and not result.selected for result in results)
    assert {result.done for result in results} == {True, False}


def numbers_agree(selector: asktell.Selector, result: Result, document: dict[str, Any], served: dict[str, Any]) -> None:
    verdict, data = result.verdict, result.verdict.to_dict()
    for told in (result.to_dict()["verdict"], document["verdict"], served["verdict"]):
        assert json.loads(json.dumps(told)) == json.loads(json.dumps(data))
        assert Verdict.from_dict(told) == verdict
    tracked = View(selector.state, result).progress()
    assert [tracked.get(f"verdict/{name}") for name in ("p_best", "p_feasible", "loss")] == [
        verdict.p_best, verdict.p_feasible, verdict.loss,
    ]  # fmt: skip
    ids = [str(id_) for id_, _ in verdict.contenders]
    chosen = [str(entry.id) for entry in result.selected]
    assert [str(entry.id) for entry in result.unresolved] == [id_ for id_ in ids if id_ not in chosen]
    named = document["prompts"]["ids"]
    assert [named[arm] for arm in document["unresolved"]] == (
        [id_ for id_ in ids if id_ not in chosen] if chosen else []
    )
    columns, rows = View(selector.state, result).prompts()
    assert [row[0] for row in rows if row[columns.index("selected")]] == chosen
    by_id = {str(entry.id): entry for entry in result.prompts}
    for entry in result.prompts:
        assert document["prompts"]["p_best"][named.index(str(entry.id))] == entry.p_best
    assert [row[columns.index("p_best")] for row in rows] == [by_id[row[0]].p_best for row in rows]
    if verdict.p_best is not None:  # the answer's row, and every percentage of the sentence
        best = result.best
        assert best.p_best == verdict.p_best
        if said := re.findall(r"is the best with (.*?) probability", verdict.sentence):
            assert said == [in_percent(verdict.p_best)]
    if said := re.findall(r"satisf(?:y|ies) (?:the|every) constraint with (.*?) probability", verdict.sentence):
        assert verdict.p_feasible is not None
        assert said == [in_percent(verdict.p_feasible)]
    if verdict.answer is not None:
        assert str(verdict.answer) == chosen[0]
        assert verdict.contenders[0][0] == verdict.answer


@pytest.mark.parametrize(("dear", "name"), [(1.0, "cost"), (1e-4, "cost per 1,000")])
def test_tiny_costs_are_given_for_a_thousand_evaluations(dear: float, name: str) -> None:
    goal = asktell.BestFeasible("s", {"cost": asktell.at_most(dear)})
    selector = asktell.Selector(["x", "y"], goal, 20, examples=20)
    while trial := selector.ask():
        selector.tell(trial, [trial.id % 2, dear * (0.337 + 0.0001 * (trial.id % 3))])
    result = selector.result()
    for shown in (str(result), result._repr_html_()):
        table = shown.replace(str(result.goal), "")
        assert name in table
        assert not re.search(r"\de-\d\d ±|± \de-|e-\d\d</td>", table)
    estimate = result.prompts[0].estimate["cost"]
    assert estimate == pytest.approx(dear * 0.337, rel=0.01), "the numbers themselves stay"
