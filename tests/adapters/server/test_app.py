"""Operations and problems, in this process."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from asktell import BestFeasible, ExampleProfile, Selector, Study, errors
from asktell.errors import (
    AsktellError,
    ServiceError,
    StorageBusyError,
    StorageError,
    StudyNotFoundError,
)
from asktell.studies.storages.sqlite import SQLiteStorage
from asktell.studies.transport import error_of
from asktell_adapters.server.open_studies import OpenStudies
from asktell_adapters.server.problems import problem_of
from tests.plays import play

STUDY = {
    "name": "s",
    "prompts": {"p": "P", "q": "Q"},
    "goal": {"maximize": "a"},
    "budget": 6,
    "examples": 4,
}


def test_a_study_from_begin_to_end(service: Any) -> None:
    created = service.send("POST", "/v1/studies", STUDY)
    assert created.status_code == 201
    assert created.headers["Location"] == "/v1/studies/s"
    assert service.get("/v1/studies") == {"studies": ["s"]}
    while trials := service.post("/v1/studies/s/ask", {"n": 2, "worker": "w"})[
        "trials"
    ]:
        for trial in trials:
            assert set(trial) == {"id", "prompt_id", "prompt", "example", "candidate"}
            scores = {"a": 1.0 if trial["prompt_id"] == "p" else 2.0}
            assert service.post(
                "/v1/studies/s/tell", {"trial": trial, "scores": scores}
            ) == {"taken": True}
    info = service.get("/v1/studies/s")
    assert (info["done"], info["spent"], info["pending"], info["goal"]) == (
        True,
        6,
        0,
        "maximize a",
    )
    result = service.get("/v1/studies/s/result")
    assert [entry["id"] for entry in result["selected"]] == ["q"]
    assert service.post("/v1/studies/s/ask", {}) == {"trials": [], "done": True}
    assert service.send("DELETE", "/v1/studies/s").status_code == 204
    assert (
        service.get("/v1/studies/s", 404)["type"]
        == "urn:asktell:problem:study-not-found"
    )


def test_a_study_that_learns_from_an_earlier_one(service: Any) -> None:
    ids = [f"example {j}" for j in range(4)]
    earlier = Selector(["x", "y"], BestFeasible("a"), 4, "uniform", examples=ids)
    play(earlier, lambda trial: [float(trial.id)])
    profile = ExampleProfile.of(earlier)
    study = {**STUDY, "examples": ids, "profile": profile.to_data()}
    service.post("/v1/studies", study, 201)
    assert service.post("/v1/studies/s/ask", {})["trials"]
    assert (
        "version"
        in service.post(
            "/v1/studies", {**study, "profile": {**study["profile"], "version": 7}}, 422
        )["detail"]
    )
    assert "ids" in service.post("/v1/studies", {**study, "examples": 4}, 422)["detail"]


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (
            {"maximize": "a", "at_least": {"b": 0.5}, "ranges": {"a": [0, 9]}},
            "maximize a subject to b >= 0.5",
        ),
        ({"minimize": ["a"], "at_most": {"b": 2}}, "minimize a subject to b <= 2"),
        ({"type": "pareto-set", "maximize": ["a", "b"], "minimize": "c"}, None),
        (
            {"type": "pareto-set", "maximize": "a", "at_least": {"b": 1}},
            "Pareto set: maximize a subject to b >= 1",
        ),
    ],
)
def test_goals(goal: Any, said: str | None, service: Any) -> None:
    info = service.post("/v1/studies", {**STUDY, "goal": goal}, 201)
    assert said is None or info["goal"] == said
    assert info["metrics"][:2] == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"goal": {}}, "exactly one metric"),
        ({"goal": {"maximize": ["a", "b"]}}, "exactly one metric"),
        (
            {"goal": {"maximize": "a", "at_least": {"b": 1}, "at_most": {"b": 2}}},
            "both bound 'b'",
        ),
        ({"prompts": ["x", "x"]}, "more than once"),
        ({"prompts": []}, "empty"),
        ({"budget": 0}, "budget"),
        ({"method": "magic"}, "method must be one of"),
        ({"name": ".."}, "removed from the URL"),
        ({"name": "a\nb"}, "printable"),
        ({"unknown": 1}, "body: unknown key 'unknown'. The keys are"),
        (
            {"examples": 1.5},
            "body.examples: must be a whole number or a list, got 1.5.",
        ),
        (
            {"budget": {"cost": "x"}},
            "body.budget: must be a whole number, got {'cost': 'x'}; or must be a number",
        ),
    ],
)
def test_studies_that_cannot_be_made(change: Any, said: str, service: Any) -> None:
    problem = service.post("/v1/studies", {**STUDY, **change}, 422)
    assert said in problem["detail"]
    assert service.get("/v1/studies") == {"studies": []}


def test_a_name_that_is_taken(service: Any, tmp_path: Path) -> None:
    service.post("/v1/studies", STUDY, 201)
    problem = service.post("/v1/studies", STUDY, 409)
    assert problem["type"] == "urn:asktell:problem:study-exists"
    assert str(tmp_path) not in problem["detail"]
    service.post("/v1/studies", {**STUDY, "exist_ok": True}, 201)
    assert (
        "budget"
        in service.post("/v1/studies", {**STUDY, "budget": 5, "exist_ok": True}, 409)[
            "detail"
        ]
    )


def test_several_scores_at_once_stand_each_for_itself(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    first, second = service.post("/v1/studies/s/ask", {"n": 2})["trials"]
    tells = [
        {"trial": first["id"], "scores": [1.0]},
        {"trial": second, "scores": {"b": 1.0}},
        {"trial": 99, "scores": [1.0]},
        {"trial": first["id"], "scores": [2.0]},
        {"trial": second["id"], "scores": [1.0], "cost": 2},
    ]
    outcomes = service.post("/v1/studies/s/tell-many", {"tells": tells})["outcomes"]
    assert [outcome["taken"] for outcome in outcomes] == [
        True,
        False,
        False,
        False,
        True,
    ]
    kinds = [
        outcome["problem"] and outcome["problem"]["type"].rpartition(":")[2]
        for outcome in outcomes
    ]
    assert kinds == [None, "invalid-scores", "unknown-trial", "conflicting-tell", None]
    assert service.get("/v1/studies/s")["spent"] == 2


def test_an_unknown_trial_comes_with_those_that_are_out(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    service.post("/v1/studies/s/ask", {"n": 3})
    assert service.post("/v1/studies/s/release", {"trial": 77}, 404)["pending"] == [
        0,
        1,
        2,
    ]


def test_a_trial_without_a_workers_name_is_leased(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    for _ in range(2):
        assert len(service.post("/v1/studies/s/ask", {"n": 2})["trials"]) == 2
    holdings = service.get("/v1/studies/s/workers")["holdings"]
    names = [holding["worker"] for holding in holdings]
    assert names[0] == names[1] != names[2] == names[3]
    assert all(590 < holding["seconds_left"] <= 600 for holding in holdings)
    assert all(0 <= holding["seconds_held"] < 10 for holding in holdings)
    told = {"trial": holdings[0]["trial"]["id"], "scores": [0.5]}
    assert service.post("/v1/studies/s/tell", told)["taken"]


def test_an_export_is_a_study(service: Any, tmp_path: Path) -> None:
    service.post("/v1/studies", STUDY, 201)
    service.post("/v1/studies/s/ask", {"n": 3, "worker": "w"})
    response = service.send("GET", "/v1/studies/s/export")
    assert response.headers["Content-Type"] == "application/jsonl"
    (tmp_path / "s.jsonl").write_bytes(response.content)
    with Study.import_("memory://imported", tmp_path / "s.jsonl") as study:
        assert [holding.worker for holding in study.workers()] == ["w"] * 3


def test_methods_that_an_address_does_not_know(service: Any) -> None:
    response = service.send("PATCH", "/v1/studies")
    assert response.status_code == 405
    assert response.headers["Allow"] == "GET, POST"
    assert service.send("GET", "/v1/studies/s/ask").status_code == 405
    assert service.send("GET", "/v1/studies/a/b/c/d").status_code == 404


def test_a_bug_is_told_without_its_trace(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(service.studies, "names", broken)
    response = service.send("GET", "/v1/studies")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.headers["Content-Type"] == "application/problem+json"


def test_every_error_is_a_problem_and_comes_back() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, AsktellError)
    ]
    for kind in kinds:
        problem = problem_of(kind("what came"))
        assert 400 <= problem.status <= 503
        assert problem.document["status"] == problem.status
        assert type(error_of(problem.status, problem.document)) is kind
    assert problem_of(StorageBusyError("in /var/x")).headers["Retry-After"] == "1"
    assert "/var/x" not in problem_of(StorageBusyError("in /var/x")).document["detail"]


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"detail": 1},
        {"detail": "d"},
        {"type": "urn:asktell:problem:import", "detail": "d"},
    ],
)
def test_a_problem_that_names_no_error_of_asktell_is_a_service_error(
    document: object,
) -> None:
    assert type(error_of(500, document)) is ServiceError


def test_answers_have_the_fields_that_the_document_describes(service: Any) -> None:
    service.post("/v1/studies", {**STUDY, "examples": ["e0", "e1", "e2", "e3"]}, 201)
    trials = service.post("/v1/studies/s/ask", {"n": 6, "worker": "w"})["trials"]
    [holding, *_] = service.get("/v1/studies/s/workers")["holdings"]
    service.post(
        "/v1/studies/s/tell-many",
        {"tells": [{"trial": t, "scores": 0.5} for t in trials[:5]]},
    )
    service.post("/v1/studies/s/fail", {"trial": trials[5], "reason": "no answer"})
    result, comparison = (
        service.get("/v1/studies/s/result"),
        service.get("/v1/studies/s/compare?a=p&b=q"),
    )
    answers = {
        "Trial": trials[0],
        "Holding": holding,
        "Evaluation": service.get("/v1/studies/s/evaluations")["evaluations"][0],
        "Info": service.get("/v1/studies/s"),
        "Result": {**result, "factors": {}},  # there are none
        "Comparison": comparison,
        "Difference": comparison["differences"]["a"],
        "Check": result["checks"][0],
        "FailureGroup": result["failures"][0],
        "Problem": {
            **service.post("/v1/studies/s/tell", {"trial": 99, "scores": 1}, 404),
            "errors": [],
        },
    }
    schemas = service.get("/openapi.json")["components"]["schemas"]
    for name, found in answers.items():
        assert found.keys() == schemas[name]["properties"].keys(), name


def test_schemas_are_described_in_the_words_of_json(service: Any) -> None:
    schemas = service.get("/openapi.json")["components"]["schemas"]
    words = " ".join(schema["description"] for schema in schemas.values())
    assert not re.search(r"\bNone\b|>>>|\bprint\(", words)
    assert "null without constraints" in words.lower()


# Health


def test_health_finds_out_whether_studies_can_be_changed(
    service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "asktell_adapters.server.open_studies._SECONDS_FOR_A_CHECK", 0.05
    )
    monkeypatch.setattr(
        "asktell_adapters.server.operations._SECONDS_BETWEEN_CHECKS", 0.0
    )
    assert service.get("/health") == {"status": "ok"}  # there is nothing yet
    service.post("/v1/studies", STUDY, 201)
    assert service.get("/health") == {"status": "ok"}
    storage = SQLiteStorage(tmp_path / "studies.db")
    with storage.transaction(storage.find("s"), durable=False):
        for _ in range(3):
            assert "Another process has held" in service.get("/health", 503)["detail"]
        assert service.get("/v1/studies") == {"studies": ["s"]}
    assert service.get("/health") == {"status": "ok"}
    storage.close()
    for file in tmp_path.glob("studies.db*"):
        file.rename(tmp_path / f"moved-{file.name}")
    assert service.send("GET", "/health").status_code == 503


def test_health_writes_nothing(
    new_service: Any, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr(
        "asktell_adapters.server.operations._SECONDS_BETWEEN_CHECKS", 0.0
    )
    service = new_service(postgresql_url)
    assert service.get("/health") == {"status": "ok"}
    service.post("/v1/studies", STUDY, 201)
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        row = connection.execute("SELECT xmin, xmax FROM asktell_studies").fetchone()
        assert service.get("/health") == {"status": "ok"}
        assert (
            connection.execute("SELECT xmin, xmax FROM asktell_studies").fetchone()
            == row
        )


def test_health_is_found_out_seldom_and_by_one_at_a_time(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks, go_on = list[int](), threading.Event()

    def check() -> None:
        checks.append(1)
        go_on.wait()
        if len(checks) > 1:
            raise StorageError("gone")

    monkeypatch.setattr(service.studies, "check", check)
    monkeypatch.setattr("asktell_adapters.server.operations._SECONDS_FOR_A_CHECK", 0.1)
    for _ in range(2):
        assert "Another process has held" in service.get("/health", 503)["detail"]
    assert len(checks) == 1
    go_on.set()
    while service.send("GET", "/health").status_code == 503:
        assert len(checks) == 1
    monkeypatch.setattr(
        "asktell_adapters.server.operations._SECONDS_BETWEEN_CHECKS", 0.0
    )
    assert "cannot be used" in service.get("/health", 503)["detail"]
    monkeypatch.setattr(
        "asktell_adapters.server.operations._SECONDS_BETWEEN_CHECKS", 60.0
    )
    assert "cannot be used" in service.get("/health", 503)["detail"]
    assert len(checks) == 2


# Studies kept open


def selector() -> Selector:
    return Selector(["p", "q"], BestFeasible("a"), 100, "uniform", examples=100)


def test_so_many_studies_are_kept_open(tmp_path: Path) -> None:
    studies = OpenStudies(f"sqlite:///{tmp_path}/x.db", most=2)
    assert studies.names() == []
    for name in "abcde":
        studies.create(name, selector(), 3, exist_ok=False)
        studies.call(name, lambda study: study.ask())
        assert len(studies) <= 2
    assert [
        studies.call(name, lambda study: len(study.pending)) for name in "abcde"
    ] == [1] * 5
    for _ in range(3):
        with pytest.raises(
            StudyNotFoundError, match=r"^The study 'f' does not exist\.$"
        ):
            studies.call("f", lambda study: study.ask())
    assert len(studies) <= 2
    studies.close()
    assert len(studies) == 0


def test_all_studies_share_one_storage(tmp_path: Path) -> None:
    studies = OpenStudies(f"sqlite:///{tmp_path}/x.db")
    for name in "abc":
        studies.create(name, selector(), 3, exist_ok=False)
    storages = {
        studies.call(name, lambda study: study._replica.storage) for name in "abc"
    }
    assert len(storages) == 1
    studies.close()


def test_a_study_in_use_may_give_way(tmp_path: Path) -> None:
    studies = OpenStudies(f"sqlite:///{tmp_path}/x.db", most=1)
    for name in "ab":
        studies.create(name, selector(), 3, exist_ok=False)

    def operation(study: Study) -> Any:
        studies.call("b", lambda other: other.ask())
        return study.ask()

    assert studies.call("a", operation) is not None
    assert studies.call("a", lambda study: len(study.pending)) == 1
    assert len(studies) == 1
    studies.close()


def test_threads_share_one_object_per_study(tmp_path: Path) -> None:
    studies = OpenStudies(f"sqlite:///{tmp_path}/x.db")
    studies.create("a", selector(), 3, exist_ok=False)
    with ThreadPoolExecutor(8) as threads:
        asking = [
            threads.submit(studies.call, "a", lambda study: (id(study), study.ask()))
            for _ in range(8)
        ]
    found = [each.result() for each in asking]
    assert len({identity for identity, _ in found}) == 1
    assert len({trial.id for _, trial in found}) == 8
    studies.close()


def test_a_study_is_made_with_ids_of_examples(service: Any) -> None:
    service.post("/v1/studies", {**STUDY, "examples": ["a", "b", "c", "d"]}, 201)
    assert service.get("/v1/studies/s/examples") == {"ids": ["a", "b", "c", "d"]}
    service.post(
        "/v1/studies/s/observe", {"prompt": "p", "scores": {"a": 1.0}, "example": "c"}
    )
    assert service.get("/v1/studies/s/result")["example_ids"] == ["a", "b", "c", "d"]
    twice = {**STUDY, "name": "t", "examples": ["a", "a"]}
    assert "distinct" in service.post("/v1/studies", twice, 422)["detail"]
    service.post("/v1/studies", {**STUDY, "name": "n"}, 201)
    assert service.get("/v1/studies/n/examples") == {"ids": None}


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (
            "/v1/studies",
            {**STUDY, "goal": {"maximise": "a"}},
            "unknown key 'maximise' (did you mean 'maximize'?)",
        ),
        (
            "/v1/studies",
            {**STUDY, "exampels": 3},
            "unknown key 'exampels' (did you mean 'examples'?)",
        ),
        (
            "/v1/studies",
            {**STUDY, "budget": {"money": 3}},
            "unknown key 'money'. The keys are 'evaluations', 'cost'",
        ),
        ("/v1/studies/s/ask", {"workr": "w"}, "(did you mean 'worker'?)"),
        (
            "/v1/studies/s/tell",
            {"trial": 0, "score": [1.0]},
            "unknown key 'score' (did you mean 'scores'?)",
        ),
        (
            "/v1/studies/s/tell-many",
            {"tells": [{"trial": 0, "score": [1.0]}]},
            "(did you mean 'scores'?)",
        ),
    ],
)
def test_a_misspelt_key_is_answered_with_the_nearest(
    path: str, body: Any, said: str, service: Any
) -> None:
    if path != "/v1/studies":
        service.post("/v1/studies", STUDY, 201)
    assert said in service.post(path, body, 422)["detail"]


def test_a_bare_number_is_the_score_of_one_metric(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    trials = service.post("/v1/studies/s/ask", {"n": 2})["trials"]
    assert service.post("/v1/studies/s/tell", {"trial": trials[0], "scores": 0.5}) == {
        "taken": True
    }
    assert service.post("/v1/studies/s/tell", {"trial": trials[1], "scores": 1}) == {
        "taken": True
    }
    service.post("/v1/studies/s/observe", {"prompt": "p", "scores": 0.5})
    service.post(
        "/v1/studies",
        {
            **STUDY,
            "name": "two",
            "goal": {"type": "pareto-set", "maximize": ["a", "b"]},
        },
        201,
    )
    assert (
        "in the order"
        in service.post("/v1/studies/two/observe", {"prompt": "p", "scores": 0.5}, 422)[
            "detail"
        ]
    )


def test_a_study_may_end_early_with_a_confidence_of_its_own(service: Any) -> None:
    goal = {"maximize": "a", "tolerances": {"a": 0.1}}
    race = {**STUDY, "goal": goal, "method": "race", "confidence": 0.9}
    definition = service.post("/v1/studies", race, 201)["definition"]
    assert definition["goal"]["objectives"][0]["tolerance"] == 0.1
    method = definition["method"]
    assert (method["type"], method["confidence"]) == ("Race", 0.9)
    for wrong, said in (
        (
            {"confidence": 9.0},
            "confidence of Race must be a number above 0 and below 1",
        ),
        (
            {"method": "uniform"},
            "confidence requires one of the methods ['auto', 'race', 'referee'], got 'uniform'",
        ),
        ({"each": 5}, "each requires the method 'referee', got 'race'"),
        ({"method": "referee", "confidence": None}, "needs to know the prompt in use"),
        (
            {"goal": {**goal, "tolerances": {"b": 0.1}}},
            "tolerances has 'b', which is not a metric of the goal",
        ),
        (
            {"goal": {**goal, "tolerances": {"a": 0}}},
            "The tolerance for 'a' must be a number above 0",
        ),
    ):
        assert (
            said
            in service.post("/v1/studies", {**race, "name": "t", **wrong}, 422)[
                "detail"
            ]
        )


def test_a_referee_judges_candidates_as_they_arrive(service: Any) -> None:
    goal = {"maximize": "a", "ranges": {"a": [0, 1]}}
    options = {"method": "referee", "each": 40, "confidence": 0.9, "examples": 200}
    study = {**STUDY, **options, "goal": goal, "prompts": {"v1": "p"}, "budget": 900}
    body = service.post("/v1/studies", {**study, "baseline": "v1"}, 201)
    method = body["definition"]["method"]
    assert method == {"type": "Referee", "confidence": 0.9, "each": 40}
    assert service.post("/v1/studies/s/ask", {"n": 2})["trials"] == []
    for number, score in ((2, 0.9), (3, 0.1)):
        service.post("/v1/studies/s/add", {"prompts": {f"v{number}": str(number)}})
        while trials := service.post("/v1/studies/s/ask", {"n": 5})["trials"]:
            for trial in trials:
                scores = score if trial["prompt_id"] == f"v{number}" else 0.5
                service.post("/v1/studies/s/tell", {"trial": trial, "scores": scores})
    result = service.get("/v1/studies/s/result")
    assert [entry["status"] for entry in result["prompts"][1:]] == [
        "accepted",
        "rejected",
    ]
    assert result["selected"][0]["id"] == "v2"


def test_a_question_with_a_key_that_there_is_not_is_refused(service: Any) -> None:
    service.post("/v1/studies", {**STUDY, "baseline": "q"}, 201)
    assert service.get("/v1/studies/s/compare?a=p&confidence=0.9")["confidence"] == 0.9
    detail = service.get("/v1/studies/s/compare?a=p&confidance=0.9", 422)["detail"]
    assert detail == "query: unknown key 'confidance' (did you mean 'confidence'?)."
    said = "query: give either `a` or `a_id`, and at most one of `b` and `b_id`."
    assert service.get("/v1/studies/s/compare", 422)["detail"] == said


def test_candidates_of_factors_over_http(service: Any) -> None:
    factors = {
        "model": {"a": "vendor/a-1", "b": "vendor/b-1"},
        "prompt": {"short": "Be brief."},
        "seed": {"1": 1},
    }
    made = {"name": "grid", "goal": {"maximize": "x"}, "budget": 8, "examples": 4}
    service.post("/v1/studies", {**made, "prompts": {"factors": factors}}, 201)
    trial = service.post("/v1/studies/grid/ask", {})["trials"][0]
    assert trial["candidate"] in [
        {"model": f"vendor/{m}-1", "prompt": "Be brief.", "seed": 1} for m in "ab"
    ]
    assert service.post("/v1/studies/grid/tell", {"trial": trial, "scores": {"x": 1}})[
        "taken"
    ]
    factors = {**factors, "model": {"c": "vendor/c-1"}}
    added = {"factors": factors, "candidates": [["c", "short", "1"]]}
    assert service.post("/v1/studies/grid/add", {"prompts": added}) == {
        "ids": ["c/short/1"]
    }
    found = service.get("/v1/studies/grid/result")["prompts"]
    assert found[2]["candidate"] == {
        "model": "vendor/c-1",
        "prompt": "Be brief.",
        "seed": 1,
    }
    for wrong in (
        {"factors": {"model": {"a": [1]}}},
        {"factors": factors, "candidates": [["c"]]},
        {"factors": {}},
    ):
        service.post("/v1/studies", {**made, "prompts": wrong, "name": "wrong"}, 422)


def test_only_invalid_requests_to_a_study_take_the_long_way(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fastapi.routing

    service.send("POST", "/v1/studies", STUDY)
    solved: list[str] = []
    solve = fastapi.routing.solve_dependencies

    async def noted(**options: Any) -> Any:
        solved.append(options["request"].url.path)
        return await solve(**options)

    monkeypatch.setattr(fastapi.routing, "solve_dependencies", noted)
    (trial,) = service.post("/v1/studies/s/ask", {})["trials"]
    told = {"trial": trial, "scores": [1.0]}
    assert service.post("/v1/studies/s/tell", told) == {"taken": True}
    assert not solved
    for body in (b"{", b"", b"[]", b"[" * 100_000, b'{"score": 1}', b"\xff"):
        response = service.send("POST", "/v1/studies/s/tell", body)
        assert response.status_code in (400, 422), response.text
        assert response.headers["content-type"] == "application/problem+json"
    assert solved.count("/v1/studies/s/tell") >= 3
