"""Whatever shows a result says the same: over sixty small selections, every surface against the result."""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

import asktell
from asktell import reports
from asktell.results.entries import shown_estimates
from asktell.results.result import Result
from asktell.results.verdict import Verdict, in_percent
from asktell_adapters.server import answers
from asktell_adapters.tracking.core import Moment
from tests.plays import play

GOALS = (
    asktell.BestFeasible(asktell.maximize("s", range=(0.0, 1.0))),
    asktell.BestFeasible(asktell.minimize("s")),
    asktell.BestFeasible("s", subject_to={"t": 0.5}),
    asktell.BestFeasible("s", subject_to={"t": asktell.at_most(0.4)}),
    asktell.ParetoSet("s", asktell.minimize("t")),
    asktell.ParetoSet("s", "t"),
)
DOCUMENTED = TypeAdapter[dict[str, Any]](answers.Result)
FORBIDDEN = re.compile(
    r"ship it|not told apart|\btied\b|P\(optimal\)|p_optimal|every other prompt is behind"
    r"|given_p|standard_error_population|unless evaluations differ|on new examples like these|\bpulls\b",
    re.IGNORECASE,
)


def selection(seed: int) -> asktell.Selector:
    """A small selection: of any goal, method and inputs, with ties, failures, a baseline; some are not finished."""
    rng = np.random.default_rng(seed)
    goal, n = GOALS[seed % len(GOALS)], int(rng.integers(2, 13))
    fixed = isinstance(goal, asktell.BestFeasible) and not goal.is_constrained
    method = (
        "race" if fixed and seed % 12 == 0 else str(rng.choice(["auto", "uniform"]))
    )
    examples = 40 if seed % 42 == 0 else int(rng.integers(3, 13))
    budget = (
        n * examples
        if seed % 42 == 0
        else int(rng.integers(1 if method == "auto" else n, n * examples + 1))
    )
    given: Any = (
        {f"p{k}": f"Text {k}." for k in range(n)}
        if seed % 5
        else [f"Text {k}." for k in range(n)]
    )
    baseline = (1 if isinstance(given, list) else "p1") if seed % 3 == 0 else None
    world: Any = (
        {"inputs": "given", "repeats": 1 if seed % 22 == 0 else None}
        if seed % 11 == 0
        else {}
    )
    selector = asktell.Selector(
        given,
        goal,
        budget,
        method,
        examples=examples,
        baseline=baseline,
        seed=seed,
        **world,
    )
    ties, binary, failing = (
        seed % 7 == 0,
        bool(rng.integers(2)) and seed % 42 > 0,
        bool(rng.integers(2)),
    )
    m = len(goal.metrics)
    stop = budget // 2 if seed % 4 == 1 else budget
    while selector.spent < stop and (trial := selector.ask()):
        k = (
            given.index(trial.prompt)
            if isinstance(given, list)
            else list(given).index(str(trial.prompt_id))
        )
        if failing and rng.random() < 0.1:
            selector.fail(trial, "TimeoutError: no answer", cost=0.01)
            continue
        means = 0.5 if ties else 0.3 + 0.05 * k + 0.1 * np.arange(m)
        noise = np.random.default_rng([seed, trial.example or 0]).normal(0, 0.2) + (
            0 if ties else rng.normal(0, 0.1, m)
        )
        scores = np.broadcast_to(np.clip(means + noise, 0, 1), m)
        selector.tell(
            trial, [float(x > 0.5) if binary else float(x) for x in scores], cost=0.01
        )
    return selector


def flat(text: str) -> str:
    return " ".join(text.split())


def texts(data: object) -> Iterator[str]:
    """All texts in JSON data."""
    if isinstance(data, dict | list):
        for each in data.values() if isinstance(data, dict) else data:
            yield from texts(each)
    elif isinstance(data, str):
        yield data


def over_http(result: Result) -> dict[str, Any]:
    answer = {**result.to_dict(), "n_examples": result.n_examples}
    assert DOCUMENTED.validate_python(answer).keys() == answer.keys()
    return plain(answer)  # type: ignore[no-any-return]


def shown(
    result: Result, document: dict[str, Any], served: dict[str, Any]
) -> dict[str, str]:
    """What every surface says, in words; of data, all texts, in which quotes are not escaped."""
    return {
        "str": str(result),
        "asktell result": result.table(),
        "asktell result --json": "\n".join(texts(plain(result.to_dict()))),
        "HTTP": "\n".join(texts(served)),
        "notebook": html.unescape(re.sub("<[^>]*>", " ", result._repr_html_())),
        "report": f"{document['words']['answer']} {document['words']['verdict']}",
        "report without scripts": html.unescape(
            reports.render(document).split("<noscript>")[1].split("</noscript>")[0]
        ),
        "report, all words": " ".join(document["words"].values()),
        "report, data": "\n".join(texts(plain(document))),
    }


def plain(data: Any) -> Any:
    return json.loads(json.dumps(data))


def test_no_surface_contradicts_another() -> None:
    everybody = [selection(seed) for seed in range(36)]
    results = [each.result() for each in everybody]
    are_of_every_kind(everybody, results)
    for seed, (selector, result) in enumerate(zip(everybody, results, strict=True)):
        verdict = result.verdict
        document = reports.document(selector.state, selector.method, selector.prompts)
        served = over_http(result)
        for where, text in shown(result, document, served).items():
            for words in (verdict.headline, verdict.reasons):
                assert flat(words) in flat(text), (seed, where, text)
            assert not FORBIDDEN.search(text), (seed, where, text)
        verdicts_agree(selector, result, document, served)
        prompts_agree(selector, result, document, served)
        checks_agree(result, document, served)


def are_of_every_kind(everybody: list[asktell.Selector], results: list[Result]) -> None:
    assert {result.verdict.action for result in results} == {
        "take",
        "either",
        "go on",
        "best so far",
        "none",
    }
    assert {type(each.method).__name__ for each in everybody} >= {
        "Adaptive",
        "Elimination",
        "Race",
    }
    assert {result.inputs for result in results} == {"new", "given"}
    assert any(result.failures for result in results)
    assert any(
        result.verdict.answer is None and not result.selected for result in results
    )
    assert {result.done for result in results} == {True, False}
    checks = [check for result in results for check in result.checks]
    assert {check.name for check in checks} == {
        "range",
        "noise",
        "order",
        "failures",
        "drift",
        "labels",
        "examples",
    }
    assert {check.ok for check in checks} == {True, False, None}


def verdicts_agree(
    selector: asktell.Selector,
    result: Result,
    document: dict[str, Any],
    served: dict[str, Any],
) -> None:
    verdict = result.verdict
    for told in (result.to_dict()["verdict"], document["verdict"], served["verdict"]):
        assert plain(told) == plain(verdict.to_dict())
        assert Verdict.from_dict(told) == verdict
    tracked = Moment(selector.state, result).progress()
    assert [tracked.get(f"verdict/{name}") for name in ("p_best", "p_feasible", "loss")] == [
        verdict.p_best, verdict.p_feasible, verdict.loss,
    ]  # fmt: skip
    ids = [str(id_) for id_, _ in verdict.contenders]
    chosen = [str(entry.id) for entry in result.selected]
    assert [str(entry.id) for entry in result.unresolved] == [
        id_ for id_ in ids if id_ not in chosen
    ]
    named = document["prompts"]["ids"]
    assert [named[arm] for arm in document["unresolved"]] == (
        [id_ for id_ in ids if id_ not in chosen] if chosen else []
    )
    best, sentence = result.best, verdict.sentence
    # The answer's row, and every percentage of the sentence
    if verdict.p_best is not None:
        assert best is not None
        assert best.p_best == verdict.p_best
        if "the best with" in sentence:
            assert f"the best with {in_percent(verdict.p_best)} probability" in sentence
    if verdict.p_feasible is not None and re.search(
        "It satisfies|All of them satisfy", sentence
    ):
        assert re.search(
            rf"satisf(ies|y) (the|every) constraint with {in_percent(verdict.p_feasible)} ",
            sentence,
        )
    if verdict.answer is not None:
        assert str(verdict.answer) == chosen[0]
        assert verdict.contenders[0][0] == verdict.answer
    change, comparison = verdict.change, result.comparison
    if change is not None and change.low is not None and comparison is not None:
        # What the headline says of the baseline, `compare` says, too
        metric = result.goal.objectives[0].metric
        lead = comparison.differences[metric]
        assert (change.difference, change.low, change.high) == (
            lead.estimate,
            lead.low,
            lead.high,
        )
        assert result.compare(comparison.a, comparison.b).to_dict() == (
            comparison.to_dict()
        )
        assert comparison.sentence(metric) in flat(str(result))
        if lead.verdict != "better":
            assert not re.search("Ship .*better than", verdict.headline)


def prompts_agree(
    selector: asktell.Selector,
    result: Result,
    document: dict[str, Any],
    served: dict[str, Any],
) -> None:
    """Every prompt's estimates, errors, probabilities and evaluations, as numbers and in tables."""
    metrics, entries, shown_ = result.goal.columns, result.prompts, document["prompts"]
    assert [entry["id"] for entry in served["prompts"]] == [
        entry.id for entry in entries
    ]
    assert shown_["ids"] == [str(entry.id) for entry in entries]
    columns, rows = Moment(selector.state, result).prompts()
    tracked = {row[0]: dict(zip(columns, row, strict=True)) for row in rows}
    frame = result.to_dataframe()
    table = flat(result.table(width=400))
    for arm, entry in enumerate(entries):
        told, of_frame, of_tracker = (
            served["prompts"][arm],
            frame.iloc[arm],
            tracked[str(entry.id)],
        )
        of_report = {
            name: shown_[name][arm] for name in ("evaluations", "p_best", "p_feasible")
        }
        for name in ("evaluations", "p_best", "p_feasible"):
            own = getattr(entry, name)
            assert told[name] == of_report[name] == of_tracker[name] == own
            assert (None if np.isnan(of_frame[name]) else of_frame[name]) == own
        for j, metric in enumerate(metrics):
            mean, error = entry.estimate[metric], entry.standard_error[metric]
            assert (told["estimate"][metric], told["standard_error"][metric]) == (
                mean,
                error,
            )
            assert (shown_["estimates"][arm][j], shown_["errors"][arm][j]) == (
                mean,
                error,
            )
            assert (of_tracker[metric], of_tracker[f"{metric} error"]) == (mean, error)
            pair = [
                None if np.isnan(x) else x
                for x in (of_frame[metric], of_frame[f"{metric} error"])
            ]
            assert pair == [mean, error]
        if result.selected:
            cells = [shown_estimates(entries, metric)[1][arm] for metric in metrics]
            assert f"{entry.id} {' '.join(cells)}" in table
    assert [row[0] for row in rows if row[columns.index("selected")]] == [
        str(entry.id) for entry in result.selected
    ]


def checks_agree(
    result: Result, document: dict[str, Any], served: dict[str, Any]
) -> None:
    """The checks are one list; one that fails is a note, and the notebook shows those that no note says."""
    checks = [asdict(check) for check in result.checks]
    assert (
        result.to_dict()["checks"] == document["checks"] == served["checks"] == checks
    )
    assert result.notes == tuple(document["notes"]) == tuple(served["notes"])
    notebook = html.unescape(re.sub("<[^>]*>", " ", result._repr_html_()))
    words = document["words"]["checks"]
    for is_ok, said in ((False, "not hold"), (None, "cannot be checked")):
        n = sum(check.ok is is_ok for check in result.checks)
        assert (said in words) == (n > 0)
        assert n == 0 or f"{n} " in words
    for check in result.checks:
        assert check.sentence in notebook
        assert check.ok is not False or check.sentence in result.notes


@pytest.mark.parametrize(("dear", "name"), [(1.0, "cost"), (1e-4, "cost per 1,000")])
def test_tiny_costs_are_given_for_a_thousand_evaluations(
    dear: float, name: str
) -> None:
    goal = asktell.BestFeasible("s", {"cost": asktell.at_most(dear)})
    selector = asktell.Selector(["x", "y"], goal, 20, examples=20)
    play(
        selector, lambda trial: [trial.id % 2, dear * (0.337 + 0.0001 * (trial.id % 3))]
    )
    result = selector.result()
    for shown in (str(result), result._repr_html_()):
        table = shown.replace(str(result.goal), "")
        assert name in table
        assert not re.search(r"\de-\d\d ±|± \de-|e-\d\d</td>", table)
    estimate = result.prompts[0].estimate["cost"]
    assert estimate == pytest.approx(dear * 0.337, rel=0.01), (
        "the numbers themselves stay"
    )
