"""Connections that are silent, slow, or too many, at `asktell serve` as a process."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
import urllib3

from asktell import BestFeasible, RemoteStudy, Selector
from tests.service.conftest import Process

TOKEN = "write-token-0123456789"
LET_IN = f"GET /v1/studies HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def limited(**limits: float) -> str:
    """Python that gives a service other limits."""
    return f"""
import functools
from asktell.service import connections

connections.ConnectionLimits = functools.partial(connections.ConnectionLimits, **{limits})
"""


@pytest.fixture(scope="module")
def hasty() -> Iterator[str]:
    """The address of a service that waits for a head a tenth of a second."""
    with Process("memory://", first=limited(head_seconds=0.1), ASKTELL_TOKEN=TOKEN) as process:
        yield process.url


@pytest.fixture(scope="module")
def usual() -> Iterator[str]:
    """The address of a service with the usual limits."""
    with Process("memory://", ASKTELL_TOKEN=TOKEN) as process:
        yield process.url


@contextmanager
def connected(url: str, n: int) -> Iterator[list[socket.socket]]:
    """Connections on which nothing has been sent."""
    host, _, port = url.removeprefix("http://").partition(":")
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection((host, int(port)), timeout=60)) for _ in range(n)]


def spoken(connection: socket.socket, request: bytes) -> bytes:
    """The answer, which is a JSON object."""
    connection.sendall(request)
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(10_000)
    return answer


def is_closed(connection: socket.socket) -> bool:
    """Whether the service has closed it, after whatever it has sent; waits for it for a minute."""
    try:
        while connection.recv(10_000):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("request_", [b"", b"GET /health HT", HEALTH], ids=["silent", "half a head", "a stranger's"])
def test_strangers_connections_give_way_to_new_ones(request_: bytes, serve: Any) -> None:
    limits = limited(strangers=12, strangers_per_address=8, head_seconds=3600.0)
    url = serve(first=limits, ASKTELL_TOKEN=TOKEN).url
    with connected(url, 3) as ours:
        assert all(spoken(connection, LET_IN).startswith(b"HTTP/1.1 200") for connection in ours)
        with connected(url, 40) as theirs:
            for connection in theirs:
                with suppress(ConnectionError):  # some have given way already
                    connection.sendall(request_)
            selector = Selector(["p", "q"], BestFeasible("a"), 4)
            with RemoteStudy.create(url, "s", selector, token=TOKEN, retries=0) as study:
                assert study.ask() is not None
            assert all(is_closed(connection) for connection in theirs[:32])
        assert all(spoken(connection, LET_IN).startswith(b"HTTP/1.1 200") for connection in ours)


@pytest.mark.parametrize("sent", [b"", b"G", LET_IN + b"GET /v1/stu"], ids=["silent", "half", "half of the second"])
def test_a_head_must_come_in_time(sent: bytes, hasty: str) -> None:
    with connected(hasty, 1) as (connection,):
        connection.sendall(sent[: len(LET_IN)])
        if len(sent) > len(LET_IN):
            assert spoken(connection, b"").startswith(b"HTTP/1.1 200")
            connection.sendall(sent[len(LET_IN) :])
        assert is_closed(connection)


def test_between_requests_a_connection_may_rest(hasty: str) -> None:
    with connected(hasty, 2) as (ours, theirs):
        assert spoken(ours, LET_IN).startswith(b"HTTP/1.1 200")
        assert is_closed(theirs)  # so that time enough has gone by
        assert spoken(ours, LET_IN).startswith(b"HTTP/1.1 200")


def test_who_does_not_take_an_answer_is_cut_off(serve: Any) -> None:
    process = serve("--rate", "0", first=limited(stalled_seconds=0.1), ASKTELL_TOKEN=TOKEN)
    selector = Selector([f"{i} " + "long " * 10_000 for i in range(400)], BestFeasible("a"), 400)
    RemoteStudy.create(process.url, "s", selector, token=TOKEN).close()
    with urllib3.PoolManager(headers={"Authorization": f"Bearer {TOKEN}"}) as pool, connected(process.url, 1) as ours:
        whole = len(pool.request("GET", f"{process.url}/v1/studies/s/export").data)
        n_open = _n_open(pool, process.url)
        ours[0].sendall(LET_IN.replace(b"studies", b"studies/s/export"))
        taken = len(ours[0].recv(1))
        while _n_open(pool, process.url) >= n_open:
            time.sleep(0.05)
        while part := ours[0].recv(2**20):
            taken += len(part)
        assert taken < whole


def _n_open(pool: urllib3.PoolManager, url: str) -> int:
    found = re.search(r"^process_open_fds (\S+)$", pool.request("GET", f"{url}/metrics").data.decode(), re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


def test_of_a_strangers_body_little_is_taken(usual: str) -> None:
    for request in (b"GET /health", b"GET /openapi.json", b"POST /v1/studies"):
        with connected(usual, 1) as (connection,):
            connection.sendall(request + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
            answer = connection.recv(10_000)
            assert b"\r\nconnection: close\r\n" in answer
            sent = 0
            with suppress(ConnectionError):
                while sent < 10**9:
                    sent += connection.send(b"x" * 65536)
            assert sent < 10**8  # what the system keeps for a connection, and not more


def test_an_answer_arrives_although_the_body_was_not_wanted(usual: str) -> None:
    headers = {"Content-Type": "application/json", "Authorization": "Bearer wrong-token-0123456789"}
    for size in (10, 10_000, 200_000):
        response = urllib3.request("POST", f"{usual}/v1/studies", body=b"x" * size, headers=headers, retries=False)
        assert response.status == 401
