"""Strangers at the service: large bodies, silent connections, tricks with addresses and headers, wrong tokens.

A stranger gets nothing but `/health` and `/openapi.json`, changes nothing, takes little
memory, and keeps nobody who has the token from working. Each case has a service of its
own, which must end in the end.
"""

import itertools
import resource
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from asktell import AsktellError, BestFeasible, RemoteStudy, Selector
from benchmarks.attack.findings import BrokenPromiseError, Finding, Limit, Report
from benchmarks.attack.service import READ, WRITE, Service
from benchmarks.attack.tricks import ATTEMPTS, OPEN, WITHOUT_TOKENS, by_readers

NAME = "study"
BODY = 48 * 2**20
MOST_MEMORY = 2**27
CONNECTIONS = 1100
PATIENCE = 90.0  # seconds after which a connection that says nothing must be closed
_addresses = (
    f"127.{a}.{b}.{c}" for a, b, c in itertools.product(range(1, 255), repeat=3)
)


def connect(
    service: Service, address: str | None = None, timeout: float = 20.0
) -> socket.socket:
    """A connection from an address of this machine, by default one that was never used."""
    source = next(_addresses) if address is None else address
    return socket.create_connection(("127.0.0.1", service.port), timeout, (source, 0))


def say(service: Service, data: bytes) -> list[int]:
    """The statuses of the answers to what is sent on one connection."""
    answer = b""
    with connect(service, timeout=2.0) as connection, suppress(OSError):
        connection.sendall(data)
        answer += connection.recv(65536)
        if b"Connection: close" not in data:
            # For the answer to a second request, if it was taken for one
            time.sleep(0.1)
            # Not before: whoever has gone is not answered
            connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65536):
            answer += part
    return [
        int(line[9:12])
        for line in answer.split(b"\r\n")
        if line.startswith(b"HTTP/1.") and line[9:12].isdigit()
    ]


# What the owner does meanwhile


def owner(service: Service, token: str | None = WRITE) -> RemoteStudy:
    """The study, on connections of its own."""
    return RemoteStudy.open(service.url, NAME, token=token, retries=0, timeout=60.0)


def work(service: Service, rounds: int, token: str | None = WRITE) -> None:
    """Ask and tell.

    Raises:
        BrokenPromiseError: the owner is not let in.
    """
    try:
        for _ in range(rounds):
            with owner(service, token) as study:
                for trial in study.worker("owner").ask(1):
                    study.worker("owner").tell(trial, [0.5])
    except AsktellError as error:
        raise BrokenPromiseError(
            f"the owner cannot work: {type(error).__name__}: {error}"
        ) from error


# Cases


def bodies(service: Service) -> None:
    """Large bodies to every path at once.

    Raises:
        BrokenPromiseError: they are kept in memory, or the owner cannot work.
    """
    before = service.peak()
    block = b"x" * 2**18

    def send(head: str, chunked: bool) -> None:
        with suppress(OSError), connect(service) as connection:
            how = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {BODY}"
            connection.sendall(
                f"{head} HTTP/1.1\r\nHost: localhost\r\n{how}\r\n\r\n".encode()
            )
            for _ in range(BODY // len(block) - 1):  # the last of it never comes
                connection.sendall(b"40000\r\n" + block + b"\r\n" if chunked else block)
            connection.recv(100)

    paths = [
        *OPEN,
        *OPEN,
        "/metrics",
        "/v1/studies",
        f"/v1/studies/{NAME}",
        f"/v1/studies/{NAME}/ask",
        "/nothing",
    ]
    heads = [f"{method} {path}" for path in paths for method in ("GET", "POST")]
    senders = [
        threading.Thread(target=send, args=(head, chunked))
        for head in heads
        for chunked in (False, True)
    ]
    for sender in senders:
        sender.start()
    work(service, 3)
    for sender in senders:
        sender.join()
    if (grown := service.peak() - before) > MOST_MEMORY:
        raise BrokenPromiseError(
            f"bodies of strangers took {grown / 2**20:.0f} MiB of memory"
        )


def crowd(service: Service) -> None:
    """A thousand connections that say nothing, or not enough, while the owner works.

    Raises:
        BrokenPromiseError: the owner cannot work.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(CONNECTIONS, soft - 200)
    assert most > 1000, (
        f"More than 1200 files must be allowed: ulimit -n says {soft}, at most {hard}."
    )
    with ExitStack() as stack:
        for i in range(most):
            # Also from where the owner is: many are behind one address.
            connection = stack.enter_context(connect(service, f"127.0.0.{1 + i % 4}"))
            with suppress(OSError):
                connection.sendall(
                    [
                        b"",
                        b"GET /health HTT",
                        b"GET /health HTTP/1.1\r\nHost: x\r\nX-Y",
                    ][i % 3]
                )
        work(service, 20)


def slow(service: Service) -> None:
    """Connections that say nothing, or drip.

    Raises:
        BrokenPromiseError: they are borne for ever.
    """
    with ExitStack() as stack:
        connections = [
            stack.enter_context(connect(service, timeout=0.001)) for _ in range(30)
        ]
        left = dict(enumerate(connections))
        for i, connection in left.items():
            connection.sendall(
                [
                    b"",
                    b"GET /health HTTP/1.1\r\n",
                    b"POST /v1/studies HTTP/1.1\r\nHost: x\r\n",
                ][i % 3]
            )
        end = time.monotonic() + PATIENCE
        while left and time.monotonic() < end:
            time.sleep(0.5)
            for i, connection in list(left.items()):
                try:
                    if i % 3:
                        connection.sendall(b"X-Y: z\r\n")
                    ended = connection.recv(1000) == b""
                except TimeoutError:
                    continue
                except OSError:
                    ended = True
                if ended:
                    del left[i]
        work(service, 1)
    if left:
        kinds = sorted(
            {("silent", "drip a head", "drip a head of a change")[i % 3] for i in left}
        )
        raise BrokenPromiseError(
            f"after {PATIENCE:g} s connections are still open that are {', '.join(kinds)}"
        )


def tricks(service: Service) -> None:
    """Requests that try to get by.

    Raises:
        BrokenPromiseError: one did, or something has changed.
    """
    with owner(service) as study:
        before = study.selector.to_json()
    _refused(service, ATTEMPTS)
    _refused(service, by_readers(READ))
    with owner(service) as study:
        if study.selector.to_json() != before:
            raise BrokenPromiseError("a stranger has changed the study")
    work(service, 3)


def without_tokens(service: Service) -> None:
    """A service without tokens, which answers to this machine only, behind a proxy or a web page.

    Raises:
        BrokenPromiseError: it answers to others.
    """
    work(service, 1, token=None)
    _refused(service, WITHOUT_TOKENS)
    work(service, 1, token=None)


def _refused(service: Service, attempts: Sequence[bytes]) -> None:
    wrong = []
    for attempt in attempts:
        statuses = say(service, attempt)
        if not all(400 <= status < 500 for status in statuses):
            wrong.append(f"{statuses} to {attempt[:200]!r}")
    if wrong:
        more = f"\n... {len(wrong)} in all" if len(wrong) > 5 else ""
        raise BrokenPromiseError("not refused:\n" + "\n".join(wrong[:5]) + more)


CASES: tuple[Callable[[Service], None], ...] = (
    bodies,
    crowd,
    tricks,
    without_tokens,
    slow,
)


def run(case: Callable[[Service], None]) -> Iterator[str]:
    """What a case finds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        has_tokens = case is not without_tokens
        with Service(
            f"sqlite:///{folder}/studies.db", folder, tokens=has_tokens
        ) as service:
            selector = Selector(
                ["p", "q"], BestFeasible("a"), 1000, "uniform", examples=600
            )
            RemoteStudy.create(
                service.url, NAME, selector, token=WRITE if has_tokens else None
            ).close()
            try:
                case(service)
            except BrokenPromiseError as error:
                yield str(error)
            if (code := service.stop()) != 143:
                yield f"SIGTERM does not end the service: exit code {code}"


def attack(seed: int, limit: Limit) -> Report:
    """The cases in turn, each once."""
    report = Report()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE,
        (min(hard, 4096) if hard != resource.RLIM_INFINITY else 4096, hard),
    )
    for number in limit.numbers():
        if number == len(CASES):
            break
        report.cases += 1
        case = CASES[(seed + number) % len(CASES)]
        for what in run(case):
            if report.is_new(what):
                command = f"python -m benchmarks.attack strangers --seed {seed + number} --cases 1"
                what, _, detail = what.partition("\n")
                report.add(Finding(f"{case.__name__}: {what}", command, detail))
    return report
