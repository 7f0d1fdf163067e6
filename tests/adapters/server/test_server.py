"""`asktell serve` as a process: where it listens, how it ends, what it says and what it keeps to itself."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3

from asktell import (
    AccessDeniedError,
    BestFeasible,
    RemoteStudy,
    Selector,
    ServiceError,
    Study,
)
from asktell.studies.storages.sqlite import SQLiteStorage
from asktell_adapters.server.process import _without_secrets
from tests.adapters.server.conftest import Process
from tests.command_line import cli
from tests.times import wait_for

TOKEN, READ = "write-token-0123456789", "read-token-0123456789"


def small(budget: int = 12) -> Selector:
    return Selector(["p", "q"], BestFeasible("a"), budget, "uniform", examples=10)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "localhost.example.org", ""])
def test_beyond_this_machine_a_token_is_needed(
    host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ASKTELL_TOKEN", "ASKTELL_READ_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert (
        "Set ASKTELL_TOKEN"
        in cli(
            "serve", f"sqlite:///{tmp_path}/x.db", "--host", host, "--port", "0", code=2
        ).err
    )
    monkeypatch.setenv("ASKTELL_TOKEN", "short")
    error = cli(
        "serve", f"sqlite:///{tmp_path}/x.db", "--host", host, "--port", "0", code=2
    ).err
    assert "at least 16" in error
    assert "short" not in error


def test_with_a_token_all_may_be_served(serve: Any) -> None:
    process = serve(
        "--host",
        "0.0.0.0",
        "--access-log",
        ASKTELL_TOKEN=TOKEN,
        ASKTELL_READ_TOKEN=READ,
    )
    url = process.url.replace("0.0.0.0", "127.0.0.1")
    assert "ASKTELL_TOKEN and ASKTELL_READ_TOKEN" in process.line
    with RemoteStudy.create(url, "a b", small(), token=TOKEN) as study:
        assert study.ask() is not None
    with RemoteStudy.open(url, "a b", token=READ) as reader:
        assert len(reader.pending) == 1
        with pytest.raises(AccessDeniedError, match="may only read"):
            reader.ask()
    with pytest.raises(AccessDeniedError, match="unknown"):
        RemoteStudy.open(url, "a b", token="wrong-token-0123456789")
    process.process.terminate()
    code, errors = process.end()
    assert code == 143
    assert re.search(
        r'127\.0\.0\.1:\d+ - "POST /v1/studies/a%20b/ask HTTP/1.1" 200', errors
    )
    assert '"GET /v1/studies/a%20b HTTP/1.1" 401' in errors
    for secret in (TOKEN, READ, "wrong-token"):
        assert secret not in errors + process.line


@pytest.mark.parametrize("proxy", [None, "127.0.0.2", "127.0.0.1"])
def test_a_clients_address_is_taken_from_a_known_proxy_only(
    proxy: str | None, serve: Any
) -> None:
    process = serve(
        *([] if proxy is None else ["--proxy", proxy]),
        ASKTELL_TOKEN=TOKEN,
        FORWARDED_ALLOW_IPS="*",
    )

    def guess(address: str) -> int:
        headers = {
            "Authorization": "Bearer wrong-token-0123456789",
            "X-Forwarded-For": address,
        }
        return urllib3.request(
            "GET", f"{process.url}/v1/studies", headers=headers, retries=False
        ).status

    statuses = [guess(f"203.0.113.{i}") for i in range(60)]
    if proxy == "127.0.0.1":
        assert statuses == [401] * 60
        # The proxy wrote the last one
        assert 429 in [guess("203.0.113.250, 203.0.113.7") for _ in range(60)]
        assert guess("203.0.113.250") == 401
    else:
        assert 429 in statuses
    assert RemoteStudy.names(process.url, token=TOKEN) == []


@pytest.fixture(scope="module")
def guarded() -> Iterator[Process]:
    """A service with tokens, for many tests."""
    both = {"ASKTELL_TOKEN": TOKEN, "ASKTELL_READ_TOKEN": READ}
    with Process("memory://", **both) as process:
        yield process


def test_a_clients_token_may_come_from_the_environment(
    guarded: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ASKTELL_TOKEN", "ASKTELL_READ_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    RemoteStudy.create(guarded.url, "s", small(), token=TOKEN).close()
    with pytest.raises(AccessDeniedError, match="no such header"):
        RemoteStudy.names(guarded.url)
    monkeypatch.setenv("ASKTELL_READ_TOKEN", READ)  # which the command line shows
    assert "0 of 12 evaluations" in cli("studies", guarded.url).out
    assert "12" in cli("status", guarded.url, "s").out
    monkeypatch.setenv("ASKTELL_TOKEN", TOKEN)
    assert RemoteStudy.names(guarded.url) == ["s"]


def test_mistakes_on_the_command_line(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    assert "IP address" in cli("serve", url, "--proxy", "nginx", code=2).err
    assert "Set ASKTELL_TOKEN" in cli("serve", url, "--proxy", "127.0.0.1", code=2).err
    assert "got ftp://" in cli("serve ftp://x", code=2).err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert (
            "in use" in cli("serve", url, "--port", taken.getsockname()[1], code=1).err
        )
    for arguments in (["--max-mb", "0"], ["--port", "70000"]):
        assert arguments[0] in cli("serve", url, *arguments, code=2).err
    (tmp_path / "x.db").write_bytes(b"no database" * 100)
    assert "not a SQLite file" in cli("serve", url, "--port", "0", code=1).err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////data/a@b?c.db", "sqlite:////data/a@b?c.db"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("postgresql://user:secret@host/db", "postgresql://...@host/db"),
        (
            "postgresql+psycopg://user:se/cr@et@host/db",
            "postgresql+psycopg://...@host/db",
        ),
        ("postgres:///db?user=u&password=secret", "postgres:///db"),
    ],
)
def test_a_storages_address_is_shown_without_secrets(url: str, shown: str) -> None:
    assert _without_secrets(url) == shown


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = sys.modules['urllib3'] = None\n"
    code += "import asktell, asktell_adapters.cli.main\n"
    serve = (
        code
        + f"sys.exit(asktell_adapters.cli.main.main(['serve', 'sqlite:///{tmp_path}/x.db', '--port', '0']))"
    )
    process = subprocess.run(
        [sys.executable, "-c", serve], capture_output=True, text=True
    )
    assert process.returncode == 2
    assert "pip install 'asktell[server]'" in process.stderr
    client = code + "asktell.RemoteStudy.open('http://localhost:1', 's')"
    process = subprocess.run(
        [sys.executable, "-c", client], capture_output=True, text=True
    )
    assert "MissingExtraError" in process.stderr
    assert "pip install 'asktell[client]'" in process.stderr


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_requests_in_flight_are_answered_before_the_end(
    how: signal.Signals, serve: Any, tmp_path: Path
) -> None:
    process = serve()
    study = RemoteStudy.create(process.url, "s", small(), retries=0)
    trial = study.ask()
    assert trial is not None
    storage = SQLiteStorage(tmp_path / "studies.db")
    told = []
    # Whoever tells waits for this to end
    with storage.transaction(storage.find("s"), durable=False):
        teller = threading.Thread(target=lambda: told.append(study.tell(trial, [1.0])))
        teller.start()
        wait_for(lambda: "asktell_requests_running 2.0" in _metrics(process.url))
        process.process.send_signal(how)
        wait_for(lambda: _refuses(process.url))
        assert told == []
        assert process.process.poll() is None
    teller.join()
    assert told == [True]
    code, errors = process.end()
    assert (code, errors) == ({signal.SIGTERM: 143, signal.SIGINT: 130}[how], "")
    with Study.open(storage, "s") as kept:
        assert kept.spent == 1
    storage.close()


STUCK = """
import threading
from asktell import Study
from asktell_adapters.server import operations, process

operations._SECONDS_FOR_A_CHECK = operations._SECONDS_FOR_A_LOOK = process._SECONDS_FOR_THREADS = 0.2
process._SECONDS_TO_FINISH = 1

def ask(study, *arguments, **options):
    with study._replica.storage.transaction(study._replica.key, durable=False):
        threading.Event().wait()

Study.ask = ask
"""


def test_requests_that_do_not_end_do_not_keep_the_service_alive(serve: Any) -> None:
    process = serve(first=STUCK)
    RemoteStudy.create(process.url, "s", small())
    answers: list[Any] = []
    ask = partial(_ask, process.url, answers)
    # More than there are threads
    askers = [threading.Thread(target=ask) for _ in range(50)]
    for asker in askers:
        asker.start()
    wait_for(lambda: "asktell_requests_running 51.0" in _metrics(process.url))
    assert (
        urllib3.request(
            "GET", f"{process.url}/health", timeout=60, retries=False
        ).status
        == 503
    )
    process.process.terminate()
    code, errors = process.end()
    assert code == 143
    assert "do not end" in errors
    assert "Traceback" not in errors
    for asker in askers:
        asker.join()
    assert {(answer.status, answer.json()["title"]) for answer in answers} == {
        (503, "The service ends")
    }


STUCK_CHECK = """
import threading
from asktell_adapters.server import operations, process
from asktell.studies.storages.sqlite import SQLiteStorage

operations._SECONDS_FOR_A_CHECK = process._SECONDS_FOR_THREADS = 0.2

def check(storage, *arguments):
    with storage._lock:
        threading.Event().wait()

SQLiteStorage.check = check
"""


def test_a_check_of_the_storage_that_does_not_end_does_not_keep_the_service_alive(
    serve: Any,
) -> None:
    process = serve(first=STUCK_CHECK)
    for _ in range(2):
        assert (
            urllib3.request(
                "GET", f"{process.url}/health", timeout=60, retries=False
            ).status
            == 503
        )
    process.process.terminate()
    code, _ = process.end()
    assert code == 143


def _ask(url: str, answers: list[Any]) -> None:
    headers = {"Content-Type": "application/json"}
    with urllib3.PoolManager(retries=False) as pool:
        answers.append(
            pool.request("POST", f"{url}/v1/studies/s/ask", body=b"{}", headers=headers)
        )


def test_results_may_be_read_while_workers_ask_and_tell(serve: Any) -> None:
    process = serve(ASKTELL_TOKEN=TOKEN, ASKTELL_READ_TOKEN=READ)
    prompts = [f"prompt {i}" for i in range(8)]
    selector = Selector(prompts, BestFeasible("a"), 100, examples=100)
    # Who is not answered in this time waits for ever.
    options: dict[str, Any] = {"retries": 0, "timeout": 120.0}
    RemoteStudy.create(process.url, "s", selector, token=TOKEN, **options).close()

    def work(name: str) -> int:
        told = 0
        with RemoteStudy.open(process.url, "s", token=TOKEN, **options) as study:
            while not study.done:
                for trial in study.worker(name).ask(2):
                    told += study.worker(name).tell(
                        trial, [len(trial.prompt) + 0.01 * (trial.example or 0)]
                    )
        return told

    def read() -> int:
        results = 0
        with RemoteStudy.open(process.url, "s", token=READ, **options) as study:
            while not study.result().done:
                results += 1
        return results

    with ThreadPoolExecutor(6) as pool:
        workers = [pool.submit(work, f"worker {i}") for i in range(4)]
        readers = [pool.submit(read) for _ in range(2)]
        told = sum(worker.result() for worker in workers)
        assert min(reader.result() for reader in readers) > 0
    assert told <= 100
    with RemoteStudy.open(process.url, "s", token=READ) as study:
        assert study.spent == told
    process.process.terminate()
    assert process.end() == (143, "")


def test_what_was_told_survives_the_death_of_the_service(
    serve: Any, tmp_path: Path
) -> None:
    process = serve()
    study = RemoteStudy.create(process.url, "s", small(), retries=0)
    trials = study.worker("w").ask(5)
    for trial in trials[:3]:
        study.worker("w").tell(trial, [float(trial.id)])
    process.process.kill()
    process.end()
    with pytest.raises(ServiceError, match="cannot be reached"):
        study.worker("w").tell(trials[3], [3.0])
    process = serve()
    again = RemoteStudy.open(process.url, "s")
    assert again.spent == 3
    assert again.worker("w").ask(2) == trials[3:]


def test_a_client_waits_for_a_service_that_is_restarted(serve: Any) -> None:
    process = serve()
    study = RemoteStudy.create(process.url, "s", small())
    process.process.terminate()
    process.end()
    port = process.url.rpartition(":")[2]
    asked: list[Any] = []
    asker = threading.Thread(target=lambda: asked.append(study.worker("w").ask()))
    asker.start()
    time.sleep(0.2)  # not needed, but so that it usually comes too early
    serve("--port", port)
    asker.join()
    assert asked[0] is not None


def test_errors_of_the_storage_are_told_without_its_whereabouts(
    serve: Any, tmp_path: Path
) -> None:
    process = serve()
    study = RemoteStudy.create(process.url, "s", small(), retries=0)
    for file in tmp_path.glob("studies.db*"):
        file.write_bytes(os.urandom(8192))
    pool = urllib3.PoolManager(retries=False)
    headers = {"Content-Type": "application/json"}
    response = pool.request(
        "POST", f"{process.url}/v1/studies/s/ask", body=b"{}", headers=headers
    )
    assert response.status == 503
    assert int(response.headers["Retry-After"]) >= 1
    assert str(tmp_path) not in response.data.decode()
    assert "log has the reason" in json.loads(response.data)["detail"]
    assert pool.request("GET", f"{process.url}/health").status == 503
    process.process.terminate()
    _, errors = process.end()
    assert str(tmp_path) in errors
    assert "Traceback" not in errors
    study.close()


def test_metrics(serve: Any) -> None:
    process = serve()
    for name in ("s", "t/u"):
        with RemoteStudy.create(process.url, name, small()) as study:
            trial = study.ask()
            study.tell(trial, [1.0])
    text = _metrics(process.url)
    assert 'asktell_requests_total{operation="tell",status="200"} 2.0' in text
    assert 'asktell_request_seconds_count{operation="ask"} 2.0' in text
    assert "asktell_open_studies 2.0" in text
    assert "process_resident_memory_bytes" in text


def _metrics(url: str) -> str:
    return urllib3.request("GET", f"{url}/metrics").data.decode()


def _refuses(url: str) -> bool:
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


# Slow clients

HASTY = """
from asktell_adapters.server import protocol

protocol.SECONDS_FOR_A_HEAD = 0.1
"""
WHOLE = f"GET /v1/studies HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
REFUSED = b"POST /v1/studies HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"


@pytest.fixture(scope="module")
def hasty() -> Iterator[str]:
    """The address of a service that waits for a head a tenth of a second."""
    with Process("memory://", first=HASTY, ASKTELL_TOKEN=TOKEN) as process:
        yield process.url


def connected(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def answered(connection: socket.socket, request: bytes) -> bytes:
    """The answer, which is a JSON object."""
    connection.sendall(request)
    answer = b""
    while not answer.endswith(b"}"):
        part = connection.recv(10_000)
        assert part
        answer += part
    return answer


def drip(connection: socket.socket) -> None:
    for _ in range(10_000):
        connection.sendall(b"x" * 1000)
        time.sleep(0.01)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(10_000) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "begun",
    [b"", b"G", WHOLE + b"GET /v1/stu"],
    ids=["silent", "half", "half of the second"],
)
def test_a_head_must_come_in_time(begun: bytes, hasty: str) -> None:
    with connected(hasty) as connection:
        if begun.startswith(WHOLE):
            assert answered(connection, WHOLE).startswith(b"HTTP/1.1 200")
        connection.sendall(begun.removeprefix(WHOLE))
        assert is_closed(connection)


def test_between_requests_a_connection_may_rest(hasty: str) -> None:
    with connected(hasty) as ours, connected(hasty) as theirs:
        assert answered(ours, WHOLE).startswith(b"HTTP/1.1 200")
        assert is_closed(theirs)  # so that time enough has gone by
        assert answered(ours, WHOLE).startswith(b"HTTP/1.1 200")


def test_the_body_of_a_refused_request_is_thrown_away_and_not_for_long(
    hasty: str,
) -> None:
    with connected(hasty) as connection:
        assert answered(connection, REFUSED).startswith(b"HTTP/1.1 401")
        with pytest.raises(ConnectionError):
            drip(connection)


def test_an_answer_arrives_although_the_body_was_not_wanted(guarded: Process) -> None:
    headers = {
        "Content-Type": "application/json",
        "Authorization": "Bearer wrong-token-0123456789",
    }
    for size in (10, 10_000, 200_000, 10_000_000):
        response = urllib3.request(
            "POST",
            f"{guarded.url}/v1/studies",
            body=b"x" * size,
            headers=headers,
            retries=False,
        )
        assert response.status == 401
