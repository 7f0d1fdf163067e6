"""The same user code on a selector, a study and a study in a service."""

import itertools
import json
import multiprocessing
import os
import pickle
import re
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asktell
import asktell.methods.rounds.schedulers
from asktell import (
    BestFeasible,
    ConflictingWorkerError,
    InvalidArgumentError,
    ParetoSet,
    RemoteStudy,
    Selector,
    ServiceError,
    Study,
    StudyExistsError,
    StudyNotFoundError,
    TellManyError,
    UnknownTrialError,
    maximize,
    minimize,
)
from asktell.studies import transport
from tests.adapters.server.conftest import Process
from tests.plays import play, scores
from tests.plug_ins import install_template

Kind = Any
_numbers = itertools.count()


def small(budget: int = 12, **options: Any) -> Selector:
    prompts = {"w": "be brief", "x": "be exact", "y": "be kind"}
    return Selector(
        prompts, BestFeasible("a", {"b": 0.0}), budget, "csr-sh", examples=10, **options
    )


@pytest.fixture
def remote(server: Any) -> Iterator[RemoteStudy]:
    with RemoteStudy.create(server.url, f"s {next(_numbers)}", small()) as study:
        yield study


# The same as a Selector


def test_very_many_scores_travel_in_several_requests(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asktell.studies.remote._TELLS_AT_ONCE", 3)
    selector = Selector(
        ["x", "y"], BestFeasible("a", {"b": 0.0}), 12, "uniform", examples=10
    )
    with RemoteStudy.create(server.url, f"s {next(_numbers)}", selector) as study:
        trials = study.worker("w").ask(8)
        with pytest.raises(TellManyError) as caught:
            study.worker("w").tell_many(
                [(t, [1.0, 1.0] if t.id % 4 else "x") for t in sorted(trials)]
            )
        assert [each is True for each in caught.value.outcomes] == [
            False,
            True,
            True,
            True,
        ] * 2
        assert study.spent == 6


@pytest.mark.parametrize(
    "goal",
    [
        BestFeasible(
            minimize("t", range=(0, 9)),
            {maximize("u"): 3.0, minimize("v", range=(-1, 1)): 0.5},
        ),
        ParetoSet("é\u2028\ud800", minimize("b")),
        ParetoSet(
            "a",
            minimize("b", range=(0, 9)),
            subject_to={"b": 5.0, maximize("c", range=(-1, 1)): 0.5},
        ),
    ],
)
def test_goals_and_methods_come_back_as_they_were(goal: Any, server: Any) -> None:
    for method in ("auto", "uniform"):
        study = RemoteStudy.create(
            server.url, f"g {next(_numbers)}", Selector(["p", "q"], goal, 9, method)
        )
        assert study.goal == goal
        assert study.method == Selector(["p", "q"], goal, 9, method).method
        trial = study.ask()
        study.tell(trial, dict.fromkeys(goal.metrics, 1.0))
        assert study.result().goal == goal
        study.close()


# Studies in a service


def test_names_making_opening_and_removal(server: Any) -> None:
    names = ["plain", "a/b", "a b?c#d%2F&=+", "été 日本", "..a", "%", "x" * 200]
    for name in names:
        RemoteStudy.create(server.url, name, small()).close()
        with RemoteStudy.open(server.url, name) as study:
            assert study.name == name
            assert study.ask() is not None
        with pytest.raises(StudyExistsError):
            RemoteStudy.create(server.url, name, small())
    assert [name for name in RemoteStudy.names(server.url) if name in names] == names
    for name in names:
        RemoteStudy.delete(server.url, name)
        with pytest.raises(StudyNotFoundError):
            RemoteStudy.delete(server.url, name)
        with pytest.raises(StudyNotFoundError, match="does not exist"):
            RemoteStudy.open(server.url, name)
    for name in ("", ".", "..", "a\n", "x" * 201):
        with pytest.raises(InvalidArgumentError):
            RemoteStudy.create(server.url, name, small())


class Half(asktell.methods.rounds.schedulers.AbstractScheduler):
    """A scheduler that is not asktell's."""

    def rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Any, ...]:
        return (asktell.methods.rounds.schedulers.Round(budget, 1),)


def test_a_method_of_ones_own_is_refused(server: Any, tmp_path: Path) -> None:
    known = asktell.preset("uniform", BestFeasible("a"))
    assert isinstance(known, asktell.Elimination)
    method = asktell.Elimination(Half(), known.allocator, known.estimator, known.rule)
    selector = Selector(["x", "y"], BestFeasible("a"), 12, method)
    with pytest.raises(
        InvalidArgumentError,
        match=r"'Half'\. Code cannot be sent .*Study\.create\(location, name",
    ):
        RemoteStudy.create(server.url, "own", selector)
    connection = transport.Connection(server.url, None, 10.0, 0)
    with pytest.raises(
        asktell.MissingMethodError, match=r"'Half'.* Code cannot be sent to a service"
    ):
        connection.send(
            "PUT", "/v1/studies/own/selector", json.loads(selector.to_json())
        )
    assert "own" not in RemoteStudy.names(server.url)
    Study.create(tmp_path / "studies.db", "own", selector).close()
    with Process(f"sqlite:///{tmp_path / 'studies.db'}") as process:
        with pytest.raises(asktell.MissingMethodError, match="'Half'"):
            RemoteStudy.open(process.url, "own")
        assert RemoteStudy.names(process.url) == ["own"]


def test_the_method_of_a_package_needs_no_code(site: Path, tmp_path: Path) -> None:
    install_template(site)
    selector = Selector(["x", "yy"], BestFeasible("a"), 12, "equally", 6)
    saved = json.loads(selector.to_json())
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    with Process(url, PYTHONPATH=str(site)) as process:
        with RemoteStudy.create(process.url, "equal", selector) as study:
            play(study, lambda trial: len(trial.prompt))
            assert study.result().best.prompt == "yy"
        assert str(RemoteStudy.open(process.url, "equal").method) == "Equally(most=20)"
        connection = transport.Connection(process.url, None, 10.0, 0)
        saved["method"]["plug-in"]["name"] = "os:system"
        with pytest.raises(asktell.MissingMethodError, match="method 'os:system'"):
            connection.send("PUT", "/v1/studies/other/selector", saved)
        assert RemoteStudy.names(process.url) == ["equal"]
    with (
        Process(url) as process,
        pytest.raises(asktell.MissingMethodError, match=r"'equally' .*-parrot', which"),
    ):
        RemoteStudy.open(process.url, "equal")


def test_a_study_that_was_made_anew(server: Any) -> None:
    study = RemoteStudy.create(server.url, "again", small())
    assert study.ask() is not None
    RemoteStudy.delete(server.url, "again")
    with pytest.raises(StudyNotFoundError):
        study.ask()
    RemoteStudy.create(server.url, "again", small()).close()
    assert len(study.ask(2)) == 2
    assert len(study.pending) == 2
    study.close()


def test_a_study_goes_on_where_its_selector_stood(
    server: Any, remote: RemoteStudy
) -> None:
    trial = remote.ask()
    remote.tell(trial, scores(trial))
    held = remote.ask(2)
    copied = RemoteStudy.create(server.url, f"{remote.name} copied", remote.selector)
    assert copied.spent == 1
    assert copied.pending == held
    assert copied.result() == remote.result()
    copied.close()


def test_workers(remote: RemoteStudy) -> None:
    first, second = remote.worker("w", lease=60).ask(2)
    assert remote.worker("w", lease=60).ask(2) == [first, second]
    (third,) = remote.worker("v").ask(1)
    assert [(h.worker, h.trial, h.attempt) for h in remote.workers()] == [
        ("w", first, 1),
        ("w", second, 1),
        ("v", third, 1),
    ]
    left = remote.workers()[0].seconds_left
    assert left is not None
    assert 0 < left <= 60
    assert remote.worker("w", lease=3600).heartbeat() == [first, second]
    assert remote.worker("w").heartbeat(first) == [first]
    assert remote.worker("nobody").heartbeat() == []
    assert not remote.worker("w").release(third)
    assert remote.worker("v").release(third)
    assert remote.worker("w").tell(first, scores(first))
    with pytest.raises(InvalidArgumentError, match="bound to a worker's name"):
        remote.heartbeat()
    with pytest.raises(InvalidArgumentError, match="lease"):
        remote._post("ask", n=1, lease=3)
    with pytest.raises(InvalidArgumentError):
        remote.worker("").heartbeat()


def test_a_trial_of_another_study_is_refused(remote: RemoteStudy) -> None:
    trial = remote.ask()
    assert trial is not None
    with pytest.raises(UnknownTrialError, match="comes from another study"):
        remote.tell(
            trial._replace(example=9 if trial.example != 9 else 8), scores(trial)
        )


@pytest.mark.filterwarnings("ignore:.*fork.*")  # of JAX, if another test has loaded it
def test_threads_and_forked_processes_may_share_a_remote_study(
    remote: RemoteStudy,
) -> None:
    def work(name: str) -> None:
        while trials := remote.worker(name).ask(2):
            for trial in trials:
                remote.worker(name).tell(trial, scores(trial))

    threads = [threading.Thread(target=work, args=(f"thread {i}",)) for i in range(3)]
    fork = multiprocessing.get_context("fork").Process(target=work, args=("child",))
    fork.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fork.join()
    assert fork.exitcode == 0
    # Whoever waits for nobody may leave too early
    while (trial := remote.worker("last").ask()) is not None:
        remote.worker("last").tell(trial, scores(trial))
    assert remote.done
    assert remote.spent == 12


def test_a_study_that_every_worker_may_make(server: Any, remote: RemoteStudy) -> None:
    trial = remote.ask()
    with RemoteStudy.create(server.url, remote.name, small(), exist_ok=True) as same:
        assert same.pending == [trial]
    with pytest.raises(StudyExistsError, match="other values of budget"):
        RemoteStudy.create(server.url, remote.name, small(13), exist_ok=True)


def test_a_program_with_a_larger_budget_extends_the_study(server: Any) -> None:
    def made(budget: int) -> RemoteStudy:
        selector = Selector(["a", "b"], BestFeasible("q"), budget, examples=9)
        return RemoteStudy.create(server.url, "grown", selector, exist_ok=True)

    for budget, expected in ((6, 6), (10, 10), (10, 10), (6, 10)):
        with made(budget) as study:
            assert study.budget == expected
    with pytest.raises(StudyExistsError, match=r"6 evaluations then, 5 .* now"):
        made(5)


def test_a_lost_answer_to_a_client_without_a_name_is_no_leak(
    remote: RemoteStudy,
) -> None:
    trial = remote.ask()
    holding = remote.workers()[0]
    assert holding.worker is not None
    assert 0 < (holding.seconds_left or 0) <= 600
    remote._unnamed.ended(trial)  # as if the answer had never come
    assert remote.ask() == trial
    assert remote.tell(trial, scores(trial))


def test_two_clients_under_one_name_are_noticed(remote: RemoteStudy) -> None:
    first, second = remote.worker("same"), remote.worker("same")
    trial = first.ask()
    assert second.ask() == trial
    for use in (first.ask, first.heartbeat):
        with pytest.raises(ConflictingWorkerError, match="'same'"):
            use()
    assert not first.release(trial)
    assert second.heartbeat() == [trial]
    assert first.tell(trial, scores(trial))


def test_others_than_those_a_worker_is_busy_with(remote: RemoteStudy) -> None:
    first, second = remote.worker("w").ask(2)
    (third,) = remote.worker("w", besides=[first.id, second.id]).ask(1)
    assert remote.worker("w", besides=[second.id]).ask(2) == sorted([first, third])
    with pytest.raises(
        InvalidArgumentError, match="besides can be given for a worker only"
    ):
        remote._post("ask", n=1, besides=[0])


def evaluate(prompt: str, example: int) -> dict[str, float]:
    if example == 3:
        raise ValueError("no such document")
    return {"a": len(prompt) + 0.1 * example, "b": 1.0, "cost": 0.5}


@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor(3)])
def test_run_drives_a_remote_study(executor: Any, remote: RemoteStudy) -> None:
    result = asktell.run(remote, evaluate, executor, progress=False)
    assert result == remote.result()
    assert result.done
    assert remote.spent == 12
    with remote.worker("late", lease=5) as worker:
        assert asktell.run(worker, evaluate, progress=False) == result


# Services that cannot be used


@pytest.mark.parametrize(
    "url",
    [
        *("localhost:8000", "ftp://localhost", "http://", "http://[", 3),
        *(
            "http://user:secret@localhost",
            "http://localhost?token=secret",
            "http://localhost#secret",
        ),
        *("secret@localhost", "http://user:secret@[", b"http://secret@localhost"),
    ],
)
def test_unusable_addresses(url: Any) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        RemoteStudy.open(url, "s")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "wrong", ["\n", "\r\nX-Other: y", " ", "\0", "\x7f", "é", "\ud800", "日"]
)
@pytest.mark.parametrize("given", ["argument", "environment"])
def test_a_token_that_no_header_can_hold_is_not_shown(
    given: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, token = "http://127.0.0.1:9", "0123456789secret" + wrong
    options: dict[str, Any] = {"retries": 0}
    if given == "argument":
        options["token"] = token
    else:
        # The real one can hold no zero
        monkeypatch.setattr(os, "environ", {"ASKTELL_TOKEN": token})
    for call in (
        lambda: RemoteStudy.open(url, "s", **options),
        lambda: RemoteStudy.create(url, "s", small(), **options),
        lambda: RemoteStudy.names(url, **options),
        lambda: RemoteStudy.delete(url, "s", **options),
    ):
        with pytest.raises(
            InvalidArgumentError, match="must have visible ASCII"
        ) as error:
            call()
        assert "secret" not in "".join(traceback.format_exception(error.value))
        assert ("token=" if given == "argument" else "ASKTELL_TOKEN") in str(
            error.value
        )


def test_a_token_is_text() -> None:
    with pytest.raises(InvalidArgumentError, match=r"must be text, got bytes\.$"):
        RemoteStudy.open("http://127.0.0.1:9", "s", token=b"secret")  # type: ignore[arg-type]


class Quiet(BaseHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        ThreadPoolExecutor(1) as thread,
    ):
        thread.submit(server.serve_forever, 0.02)
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@contextmanager
def flaky(target: str, script: list[str]) -> Iterator[tuple[str, list[str | None]]]:
    """Between a client and a service: drops connections after passing the request on, and says 503; its keys, too."""
    import urllib3

    pool, keys = urllib3.PoolManager(retries=False), list[str | None]()

    class Handler(Quiet):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            what = script.pop(0) if script else "pass"
            keys.append(self.headers.get("Idempotency-Key"))
            if what == "busy":
                self.send_response(503)
                self.send_header("Retry-After", "0")
                self.end_headers()
                return
            headers = {
                k: v
                for k, v in self.headers.items()
                if k.lower() not in ("host", "content-length")
            }
            response = pool.request(
                self.command, target + self.path, body=body, headers=headers
            )
            if what == "drop":
                self.close_connection = True
                return
            self.send_response(response.status)
            for name in ("Content-Type", "Content-Length"):
                if name in response.headers:
                    self.send_header(name, response.headers[name])
            self.end_headers()
            self.wfile.write(response.data)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any

    with serving(Handler) as url:
        yield url, keys


def test_what_is_sent_again_is_not_done_again(server: Any) -> None:
    lossy = ["drop", "busy", "pass"]
    name = f"s {next(_numbers)}"
    with (
        flaky(server.url, lossy * 7) as (url, keys),
        RemoteStudy.create(url, name, small()) as study,
    ):
        first, second, third = study.ask(3)
        study.observe("w", [1.0, 1.0])
        assert study.tell(first, scores(first))
        assert study.fail(second, "no")
        assert study.release(third)
        assert [h.trial for h in study.workers()] == []
        assert study.spent == 1
        assert sum(entry.failures for entry in study.result().prompts) == 1
        observed = [entry for entry in study.result().prompts if entry.id == "w"]
        assert observed[0].evaluations == 1 + (first.prompt_id == "w")
        RemoteStudy.delete(url, study.name)
        assert keys[:3] == [keys[0]] * 3
        assert len(set(keys) - {None}) == 7


def test_who_asks_again_without_end_is_told(server: Any) -> None:
    with (
        flaky(server.url, ["busy"] * 3) as (url, _),
        pytest.raises(ServiceError, match="status 503"),
    ):
        RemoteStudy.open(url, "s", retries=2)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'"x"', b'{"detail": 3}'])
@pytest.mark.parametrize("status", [200, 404, 500])
def test_something_else_at_the_address(status: int, body: bytes) -> None:
    class Handler(Quiet):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with (
        serving(Handler) as url,
        pytest.raises(ServiceError, match="does not come from an asktell service"),
    ):
        RemoteStudy.open(url, "s", retries=0)


# Hostile texts

HOSTILE = {
    "quotes": "'\"`;-- DROP TABLE asktell_studies; {}",
    "NUL": "a\0b",
    "surrogate": "\ud800 alone \udfff",
    "escapes": "\x1b[2J\x1b]0;owned\x07\r\n\u202e",
    "html": "<script>alert(1)</script>&amp;",
    "big": "é" * 2_000_000,
    "\ud83d": "an id that is half a character",
}


def test_hostile_texts_survive(server: Any) -> None:
    name = "<b>'\"; DROP TABLE x --/../%00"
    goal = BestFeasible('<q>"\ud800')
    with RemoteStudy.create(
        server.url, name, Selector(HOSTILE, goal, 20, "uniform", examples=3)
    ) as study:
        for trial in study.ask(len(HOSTILE)):
            assert trial.prompt == HOSTILE[str(trial.prompt_id)]
            study.tell(trial.prompt if trial.prompt_id != "big" else trial, [1.0])
        trial = study.ask()
        study.fail(
            trial, "".join(HOSTILE[kind] for kind in ("NUL", "surrogate", "escapes"))
        )
        assert {entry.id: entry.prompt for entry in study.result().prompts} == HOSTILE
        assert json.loads(study.selector.to_json())["prompts"]["texts"] == list(
            HOSTILE.values()
        )
        assert os.linesep not in repr(study)


def test_prompts_with_a_lone_surrogate_are_compared_by_the_service(server: Any) -> None:
    prompts = {"a\ud800": "half \udfff a pair", "b": "other +&=%41", "": "none"}
    selector = Selector(prompts, BestFeasible("q"), 12, "uniform", 4, baseline="b")
    with RemoteStudy.create(server.url, "surrogates", selector) as study:
        play(study, lambda trial: [0.1 * (trial.example or 0)])
        local = study.selector
        for names in (
            ("a\ud800", "b"),
            ("half \udfff a pair", "other +&=%41"),
            ("none", "a\ud800"),
        ):
            assert study.compare(*names) == local.compare(*names)
        with pytest.raises(
            InvalidArgumentError, match=re.escape(r"There is no prompt 'x\ud800'")
        ):
            study.compare("x\ud800")
        with pytest.raises(InvalidArgumentError, match=r"percent-encoded UTF-8"):
            study._get("compare?a=%FF")


def test_two_prompts_are_compared_by_the_service(server: Any) -> None:
    selector = Selector(
        ["be brief", "be exact", "be kind"],
        BestFeasible(minimize("a", range=(0, 1))),
        18,
        "uniform",
        examples=10,
        baseline="be exact",
    )
    with RemoteStudy.create(server.url, "compared", selector) as study:
        play(
            study,
            lambda trial: [0.1 * (trial.example or 0) / (1 + int(trial.prompt_id))],
        )
        local = study.selector.result()
        assert study.compare(0) == local.compare(0)
        assert str(study.compare(0)) == str(local.compare(0))
        assert str(study.compare(0)).startswith("a (lower is better): ")
        assert study.compare(
            "be kind", 0, confidence=0.9, tolerance=0.01
        ) == local.compare(2, 0, 0.9, 0.01)
        result = study.result()
        assert result == local
        assert str(result) == str(local)
        assert result.comparison == local.comparison
        assert result.compare(2) == local.compare(2)
        assert result.examples("a", fdr=0.2) == local.examples("a", fdr=0.2)
        copied = pickle.loads(pickle.dumps(result))
        assert copied == result
        assert str(copied) == str(result)
        with pytest.raises(InvalidArgumentError, match=r"the RemoteStudy"):
            copied.compare(0)
        with pytest.raises(InvalidArgumentError, match="has no scores by example"):
            copied.examples()
        assert pickle.loads(pickle.dumps(local)).compare(2) == local.compare(2)
        for wrong in ((9,), (0, 0), (1,), (0, 1, 2.0)):
            with pytest.raises(InvalidArgumentError):
                study.compare(*wrong)
            with pytest.raises(InvalidArgumentError):
                result.compare(*wrong)


def test_details_travel(serve: Any, tmp_path: Any) -> None:
    place = f"sqlite:///{tmp_path}/details.db"
    with (
        RemoteStudy.create(serve(url=place).url, "s", small()) as remote,
        remote.worker("w") as worker,
    ):
        told, failed = worker.ask(2)
        worker.tell(told, [0.1, 0.2], details={"output": "\x00\ud800"})
        worker.fail(failed, "no", 0.5, details={"seconds": 2})
        with pytest.raises(InvalidArgumentError, match="details"):
            remote.tell(told, [0.1, 0.2], details=["output"])  # type: ignore[arg-type]
    with Study.open(place, "s") as study:
        assert [(e.trial, e.error, e.details) for e in study.evaluations()] == [
            (told.id, None, {"output": "\x00\ud800"}),
            (failed.id, "no", {"seconds": 2}),
        ]


def test_evaluations_and_reports_travel(
    serve: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asktell.studies.remote._EVALUATIONS_AT_ONCE", 3)
    place = f"sqlite:///{tmp_path}/evaluations.db"
    with RemoteStudy.create(serve(url=place).url, "s", small()) as remote:
        assert list(remote.evaluations()) == []
        for k, trial in enumerate(remote.ask(7)):
            if k == 2:
                remote.fail(trial, "no </script>\ud800", 0.5)
            else:
                remote.tell(
                    trial, scores(trial), 0.1 * k, details={"output": f"<b>{k}"}
                )
        with Study.open(place, "s") as study:
            assert list(remote.evaluations()) == list(study.evaluations())
            assert list(remote.evaluations(after=6)) == list(study.evaluations())[6:]
            study.report(tmp_path / "here.html", {"model": "small", "path": tmp_path})
        remote.report(tmp_path / "there.html", {"model": "small", "path": tmp_path})
        pages = [(tmp_path / f"{name}.html").read_text() for name in ("here", "there")]
        documents = [
            json.loads(re.findall('id="data">(.*?)</script>', page, re.S)[0])
            for page in pages
        ]
        for document in documents:
            document["made"].pop("at")
        assert documents[0] == documents[1]
        assert documents[1]["made"]["about"]["model"] == "small"
        info = remote._info()
        assert (
            info["examples"],
            info["repeats"],
            info["baseline"],
            info["paused"],
        ) == (10, 1, None, False)
        with monkeypatch.context() as newer:
            newer.setattr("asktell.reports.VERSION", 2)
            with pytest.raises(ServiceError, match="version 1"):
                remote.report(tmp_path / "there.html")


# Ids of examples


def test_ids_of_examples_travel(server: Any) -> None:
    ids = ["a", "b", "c"]
    selector = Selector(["x", "y"], BestFeasible("q"), 6, "uniform", ids)
    with RemoteStudy.create(server.url, "with ids", selector) as study:
        assert study.example_ids == tuple(ids)
        study.observe("x", [0.5], "b")
        with pytest.raises(InvalidArgumentError, match="no example 'z'"):
            study.observe("x", [0.5], "z")
        assert study.selector.state.history.examples().tolist() == [1]
        assert study.result().example_ids == tuple(ids)
    RemoteStudy.open(server.url, "with ids", examples=ids).close()
    with pytest.raises(InvalidArgumentError, match=r"'with ids'.*1 moved \('.'\)"):
        RemoteStudy.open(server.url, "with ids", examples=["a", "c", "b"])
    other = Selector(["x", "y"], BestFeasible("q"), 6, "uniform", ["a", "b", "z"])
    with pytest.raises(
        StudyExistsError, match=r"examples: 1 added \('z'\); 1 missing \('c'\)"
    ):
        RemoteStudy.create(server.url, "with ids", other, exist_ok=True)
    with RemoteStudy.create(
        server.url, "without", Selector(["x"], BestFeasible("q"), 3, "uniform", 3)
    ) as study:
        assert study.example_ids is None
    with pytest.raises(InvalidArgumentError, match="3 then, 4 now"):
        RemoteStudy.open(server.url, "without", examples=4)


# An address that is wrong


def test_what_are_no_further_examples_is_refused_before_it_travels(server: Any) -> None:
    selector = Selector(["x", "y"], BestFeasible("q"), 8, examples=["a", "b"])
    study = RemoteStudy.create(server.url, "no further examples", selector)
    wrong: Any
    for wrong in ("row 17", b"row 17", {"row 17": 1}, True, 0):
        with pytest.raises(InvalidArgumentError, match="examples must be"):
            study.extend(examples=wrong)
    assert study.example_ids == ("a", "b")
    study.extend(examples=np.array(["row 17"]))
    assert study.example_ids == ("a", "b", "row 17")
    study.close()


def test_a_wrong_address_is_known_after_seconds() -> None:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}", "http://no-such-host.invalid"):
        with pytest.raises(
            ServiceError,
            match=r"cannot be reached\. Check the address, and whether `asktell serve`",
        ):
            RemoteStudy.open(url, "s")
        with pytest.raises(ServiceError, match="cannot be reached"):
            RemoteStudy.create(url, "s", small())
    assert issubclass(ServiceError, asktell.StorageError)


def test_a_connection_tries_longer_once_it_was_answered(server: Any) -> None:
    with RemoteStudy.create(
        server.url, f"longer {next(_numbers)}", small(), retries=5
    ) as study:
        connection = study._connection
        assert connection._answered
        assert connection._patience()["retries"].connect is None
        connection._answered = False
        first = connection._patience()["retries"]
        assert (first.connect, first.other, first.total) == (2, 2, 5)


# Studies that go on


def test_a_study_is_paused_for_whoever_asks(server: Any, remote: RemoteStudy) -> None:
    with RemoteStudy.open(server.url, remote.name) as other:
        (trial,) = other.ask(1)
        remote.pause()
        remote.pause()
        assert other.paused
        assert (other.ask(), other.done, other.worker("w").paused) == (
            None,
            False,
            True,
        )
        assert other.tell(trial, scores(trial))
        other.resume()
        assert not remote.paused
        assert other.ask() is not None


def test_candidates_of_factors(server: Any) -> None:
    """Made from a selector or by a request, they are asked, told, joined and shown as in this process."""
    made = Selector(
        asktell.grid(model=["a", "b"], temperature=[0.0, 1]),
        BestFeasible("x"),
        12,
        examples=4,
    )
    with RemoteStudy.create(server.url, "grid", made) as study:
        trial = study.ask()
        assert trial == made.ask()
        assert trial.candidate in list(made.prompts.candidates)  # type: ignore[arg-type]
        assert study.tell(trial, [0.5])
        for other in study.ask(3):
            study.tell(other, [0.25])
        assert study.result().factors() == study.selector.result().factors() != {}
        for other in made.ask(3):
            made.tell(other, [0.25])
        more = asktell.grid(model=["c"], temperature=[0.0, 1])
        assert study.add(more) == made.add(more) == ["c/0.0", "c/1"]
        assert study.selector.prompts.candidates == made.prompts.candidates
        assert study.result().prompts[-1].candidate == {"model": "c", "temperature": 1}
        with pytest.raises(InvalidArgumentError, match="have the factors"):
            study.add(asktell.grid(model=["d"]))


def test_scalars_of_numpy_travel_as_plain_numbers(
    server: Any, remote: RemoteStudy
) -> None:
    trial = remote.ask(np.int64(1))[0]
    assert remote.tell(np.int64(trial.id), np.float32([0.5, 1]), np.float32(0.25))
    assert remote.observe(np.str_("w"), [0.5, 1.0], np.int64(3), np.float32(0.5))
    play(remote, scores, 4)
    frame = remote.result().to_dataframe()
    best, other = (np.str_(name) for name in frame["id"].iloc[:2])
    compared = remote.compare(best, other, np.float32(0.9), np.float32(0.125))
    assert compared.a == str(best)
    assert compared.tolerances == dict.fromkeys(remote.metrics, 0.125)
    remote.remark("a note", doubtful=np.True_)  # type: ignore[arg-type]
    remote.retire(other, "worse")
    with RemoteStudy.create(
        server.url,
        f"s {next(_numbers)}",
        Selector(["x", "y"], BestFeasible("a"), 5, examples=5),
    ) as numbered:
        numbered.extend(np.int64(3), examples=np.int64(2))
        assert numbered.budget == 8
        assert numbered.add([np.str_("z")]) == [2]
        numbered.retire(np.int64(1), "worse")


def test_a_referee_in_a_service_judges_candidates_one_by_one(server: Any) -> None:
    goal = BestFeasible(maximize("a", range=(0, 1)))
    night = Selector({"v1": "one"}, goal, 900, "referee", 100, baseline="v1")
    with RemoteStudy.create(server.url, f"s {next(_numbers)}", night) as remote:
        for id_, score in {"v2": 0.9, "v3": 0.1}.items():
            remote.add({id_: id_})
            while trials := remote.ask(10):
                of = {"v1": 0.5, "v2": 0.9, id_: score}
                remote.tell_many([(t, of[t.prompt_id]) for t in trials])
        result = remote.result()
        statuses = [entry.status for entry in result.prompts[1:]]
        assert statuses == ["accepted", "rejected"]
        assert result.best is not None
        assert result.best.id == "v2"
        with pytest.raises(InvalidArgumentError, match="incumbent cannot be retired"):
            remote.retire("v2", "old")
