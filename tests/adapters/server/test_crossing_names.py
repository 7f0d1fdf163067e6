"""Prompts whose texts are other prompts' ids: everything that can be done with a selection is done with them."""

import copy
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import (
    BestFeasible,
    InvalidArgumentError,
    ParetoSet,
    RemoteStudy,
    Selector,
    Study,
    Trial,
)
from asktell.problem.prompts import ById
from asktell.results.entries import PromptResult
from asktell_adapters.optimizers import improve
from asktell_adapters.optimizers.improving import read
from tests.command_line import cli

Prompts = Sequence[str] | Mapping[str, str]
N = 6
SHAPES: dict[str, Prompts] = {
    "two": {"a": "b", "b": "a"},
    "a cycle": {"a": "b", "b": "c", "c": "a", "d": "none"},
    "one way": {"a": "first", "b": "a", "c": "b"},
    "its own": {"a": "a", "b": "c", "c": "b"},
    "digits": {"0": "1", "1": "0", "2": "2"},
    "positions": ["1", "2", "0"],
}
GOALS = [BestFeasible("x", subject_to={"y": 0.2}), ParetoSet("x", "y")]
_numbers = itertools.count()


def named(prompts: Prompts) -> list[tuple[str | int, str]]:
    return (
        list(prompts.items())
        if isinstance(prompts, Mapping)
        else list(enumerate(prompts))
    )


def ambiguous(prompts: Prompts) -> set[str]:
    """The names that could be two prompts."""
    by_id = {str(id_): arm for arm, (id_, _) in enumerate(named(prompts))}
    return {
        text
        for arm, (_, text) in enumerate(named(prompts))
        if by_id.get(text, arm) != arm
    }


def scores(trial: Trial) -> dict[str, float]:
    quality = sum(map(ord, str(trial.prompt_id))) % 7
    return {
        "x": quality / 7 + 0.1 * ((trial.example or 0) % 2),
        "y": 0.5 - 0.01 * quality,
    }


def evaluate(prompt: str, example: int) -> dict[str, float]:
    return {"x": (len(prompt) * 7 + example) % 5 / 5, "y": 0.4}


@pytest.fixture(params=["selector", "memory", "sqlite", "remote"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """What makes a selector, a study or a remote study of a selector."""
    made: list[Any] = []

    def make(selector: Selector) -> Any:
        name = f"crossing {next(_numbers)}"
        if request.param == "selector":
            return selector
        if request.param == "remote":
            made.append(
                RemoteStudy.create(
                    request.getfixturevalue("server").url, name, selector
                )
            )
        else:
            made.append(
                Study.create(
                    f"memory://{name}"
                    if request.param == "memory"
                    else tmp_path / "s.db",
                    name,
                    selector,
                )
            )
        return made[-1]

    yield make
    for study in made:
        study.close()


def look(kept: Any, n: int, path: Path) -> None:
    """Read everything that can be read of a selector or a study, and of its result."""
    repr(kept)
    repr(kept.pending)
    result = kept.result()
    look_at(result, n)
    everyone = result.prompts
    for one, other in itertools.combinations(everyone, 2):
        compared = kept.compare(one, other)
        assert (compared.a, compared.b) == (one.id, other.id)
        assert (
            result.compare(one, other)
            == compared
            == kept.compare(ById(one.id), ById(other.id))
        )
        if isinstance(one.id, int):
            assert kept.compare(one.id, other.id) == compared
    if result.baseline is not None:
        one = next(entry for entry in everyone if entry.id != result.baseline)
        assert kept.compare(one).b == result.baseline
    kept.report(path)
    assert path.stat().st_size > 10_000
    ids = [entry.id for entry in everyone]
    assert {each.prompt for each in kept.evaluations()} <= set(ids)
    kept.evaluations().to_dataframe()
    selector = kept if isinstance(kept, Selector) else kept.selector
    assert list(selector.prompts.ids) == ids
    for other in (copy.deepcopy(selector), Selector.from_json(selector.to_json())):
        assert other.result().to_dict() == selector.result().to_dict()


def look_at(result: Any, n: int) -> None:
    repr(result)
    assert str(result)
    assert json.loads(json.dumps(result.to_dict()))["spent"] == result.spent
    assert ("<table" in result._repr_html_()) == bool(
        [*result.selected, *result.unresolved]
    )
    assert len(result.to_dataframe()) == n == len(result.prompts)
    _ = (result.comparison, result.sentence, result.dominated, result.early)
    if result.selected:
        result.plot()
    if isinstance(result.goal, ParetoSet):
        result.hypervolume()
        result.layers()

    from matplotlib import pyplot

    pyplot.close("all")


@pytest.mark.parametrize(
    ("kept", "shape"),
    [
        ("selector", "positions"),
        ("memory", "two"),
        ("sqlite", "a cycle"),
        ("remote", "its own"),
    ],
    indirect=["kept"],
)
def test_everything_works_on_crossing_names(
    kept: Any, shape: str, tmp_path: Path
) -> None:
    prompts, goal = SHAPES[shape], GOALS[list(SHAPES).index(shape) % 2]
    all_ids = [id_ for id_, _ in named(prompts)]
    page = tmp_path / "report.html"
    study = kept(Selector(prompts, goal, 14, examples=N, baseline=ById(all_ids[-1])))
    look(study, len(all_ids), page)
    study.release(study.ask())
    for trial in itertools.islice(iter(study.ask, None), 6):
        assert (trial.prompt_id, trial.prompt) in named(prompts)
        assert study.repeat_of(trial) == 0
        study.tell(trial, scores(trial))
    trial = study.ask()
    study.observe(trial, scores(trial), example=(trial.example + 1) % N)
    study.fail(trial, "none came")
    look(study, len(all_ids), page)

    for name in ambiguous(prompts):  # refused for these calls alone
        other = next(id_ for id_ in all_ids if id_ != name)
        for call in (
            lambda name=name, other=other: study.compare(name, ById(other)),
            lambda name=name: study.observe(name, scores(trial)),
            lambda name=name: study.retire(name, "is out"),
            lambda name=name: study.tell(name, scores(trial)),
        ):
            with pytest.raises(InvalidArgumentError, match="Pass an entry of result"):
                call()

    more: Prompts = (
        [str(len(all_ids) + 1), "0 again"]
        if isinstance(prompts, list)
        else {"new": str(all_ids[0]) + "!", "b!": "new"}
    )
    all_ids += study.add(more)
    if isinstance(more, dict):
        assert study.add(more) == list(more)  # they are there already
    look(study, len(all_ids), page)
    retired = study.result().prompts[0]
    study.retire(retired, "is out", key="r")
    study.retire(retired, "is out", key="r")
    study.extend(4)
    for trial in iter(study.ask, None):
        assert trial.prompt_id != retired.id
        study.tell(trial, scores(trial))
    assert study.done
    look(study, len(all_ids), page)
    assert study.result().prompts[0].status == "retired"
    if not isinstance(study, (Selector, RemoteStudy)):
        study.export(tmp_path / "export.jsonl")
        with Study.import_(
            f"memory://{next(_numbers)}", tmp_path / "export.jsonl"
        ) as again:
            look(again, len(all_ids), page)


@pytest.mark.parametrize(
    ("shape", "method"),
    [("one way", "csr"), ("digits", "csr-sh"), ("positions", "race")],
)
def test_every_method_answers_on_crossing_names(shape: str, method: str) -> None:
    selector = Selector(SHAPES[shape], GOALS[0], 18, method, examples=N)
    asktell.run(selector, evaluate, progress=False)
    look_at(selector.result(), len(SHAPES[shape]))


@pytest.mark.parametrize("shape", ["one way", "its own", "positions"])
def test_the_service_answers_in_json(service: Any, shape: str) -> None:
    prompts, goal = SHAPES[shape], {"maximize": "x", "at_least": {"y": 0.2}}
    first, *_, last = [id_ for id_, _ in named(prompts)]
    body = {
        "name": "s",
        "prompts": prompts,
        "goal": goal,
        "budget": 8,
        "examples": N,
        "baseline": {"id": last},
    }
    service.post("/v1/studies", body, status=201)
    for _ in range(8):
        trial = service.post("/v1/studies/s/ask", {})["trials"][0]
        service.post(
            "/v1/studies/s/tell",
            {"trial": trial, "scores": {"x": len(str(trial["prompt_id"])), "y": 1.0}},
        )
    service.post(
        "/v1/studies/s/observe",
        {"prompt": {"id": first}, "scores": [1.0, 1.0], "example": 5},
    )
    assert service.get("/v1/studies/s/result")["baseline"] == last
    assert service.get("/v1/studies/s/report")["baseline"] == len(prompts) - 1
    assert service.get(f"/v1/studies/s/compare?a_id={first}&b_id={last}")["a"] == first
    assert service.get(f"/v1/studies/s/compare?a_id={first}")["b"] == last
    for wrong in (
        f"a={first}&a_id={first}",
        "b_id=x",
        f"a_id={first}&b_id={last}&b={last}",
    ):
        service.get(f"/v1/studies/s/compare?{wrong}", status=422)
    for name in ambiguous(prompts):
        service.get(f"/v1/studies/s/compare?a={name}", status=422)
    assert service.send("GET", "/studies/s").status_code == 200
    service.post("/v1/studies/s/extend", {"evaluations": 1})
    service.post("/v1/studies/s/retire", {"prompt": {"id": first}, "reason": "is out"})
    assert service.get("/v1/studies/s/result")["prompts"][0]["status"] == "retired"


@pytest.mark.parametrize("shape", ["digits", "its own", "positions"])
def test_the_command_line_shows_crossing_names(shape: str, tmp_path: Path) -> None:
    prompts, url = SHAPES[shape], str(tmp_path / "s.db")
    last = named(prompts)[-1][0]
    with Study.create(
        url, "s", Selector(prompts, GOALS[0], 8, examples=N, baseline=ById(last))
    ) as study:
        asktell.run(study, evaluate, progress=False)
    for words in (
        ["status"],
        ["result"],
        ["result", "--json"],
        ["report", "-o", str(tmp_path / "r.html")],
    ):
        said = cli(words[0], url, "s", *words[1:]).out
        assert (f'"baseline": {json.dumps(last)}' in said) == ("--json" in words)
    for name in ambiguous(prompts):
        cli("compare", url, "s", name, code=2)
        assert (
            "Pass an entry of result"
            in cli("retire", url, "s", name, "--reason", "is out", code=2).err
        )
    with Study.open(url, "s") as study:
        study.result()


def test_a_loop_goes_on_with_texts_that_are_ids() -> None:
    """What a language model writes may be any text, as the id of another prompt."""
    written = iter([["b", "g1-2"], ["a", "g2-2"], ["g1-1"]])
    selector = Selector({"a": "one", "b": "two"}, GOALS[0], 6, examples=N)
    found = improve(
        selector,
        evaluate,
        lambda brief, w=written: next(w, []),
        budget=40,
        patience=None,
        progress=False,
    )
    assert [len(each.prompts) for each in found.generations] == [2, 2, 2, 1]
    assert str(found)
    json.dumps(found.to_dict())
    entries: list[PromptResult] = selector.result().prompts
    for begun, each in zip(read(selector.state), found.generations, strict=True):
        assert each.parents == [entries[arm].id for arm in begun.parents]
