"""The meter's proxy: what passes through it, what does not, and what it counts."""

import gzip
import http.client
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from asktell import InvalidArgumentError, MissingExtraError
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.meter import Meter
from asktell_adapters.llms.metering import Reading
from tests.adapters.llms.stated_usage import ANTHROPIC, CHAT

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
pytest.importorskip("uvicorn")

BODY = json.dumps({"model": "m-1", "choices": [], "usage": CHAT}).encode()
STREAM = [
    b'data: {"choices": [{"delta": {"content": "a"}}], "usage": null}\n\n',
    b'data: {"choices": [{"delta": {"content": "b"}}], "usage": null}\n\ndata: {"cho',
    f'ices": [], "usage": {json.dumps(CHAT)}}}\n\n'.encode(),
    b"data: [DONE]\n\n",
]
BEGINNING = f'data: {{"type": "message_start", "message": {{"usage": {json.dumps(ANTHROPIC)}}}}}\n\n'.encode()


class Upstream(ThreadingHTTPServer):
    """An API. The model in a request chooses the response."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, 0), Handler)
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.gone = threading.Event()
        self.barrier = threading.Barrier(50)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append((self.command, self.path, headers, body))
        try:
            model = json.loads(body)["model"]
        except (ValueError, KeyError):
            model = "ok"
        getattr(self, f"say_{model}", self.say_ok)()

    do_GET = do_DELETE = do_POST

    def say(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def say_ok(self) -> None:
        self.say(BODY, X_Request_Id="abc", Set_Cookie="a=1")

    def say_together(self) -> None:
        self.server.barrier.wait(60)
        self.say(BODY)

    def say_gzip(self) -> None:
        self.say(gzip.compress(BODY, mtime=0), Content_Encoding="gzip")

    def say_big(self) -> None:
        self.say(BODY[:-1] + b', "text": "' + b"x" * 2**20 + b'"}')

    def say_no_usage(self) -> None:
        self.say(b'{"choices": []}')

    def say_refused(self) -> None:
        self.say(b'{"error": {"message": "slow down"}}', 429, Retry_After="7")

    def say_elsewhere(self) -> None:
        self.say(b"", 307, Location="http://192.0.2.1/v1/chat/completions")

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, part: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def say_stream(self) -> None:
        self.begin()
        for part in STREAM:
            self.chunk(part)
            time.sleep(0.02)
        self.chunk(b"")

    def say_cut(self) -> None:
        self.begin()
        self.chunk(BEGINNING)
        self.close_connection = True

    def say_endless(self) -> None:
        self.begin()
        self.chunk(BEGINNING)
        self.wait_for_the_end()

    def say_hang_up(self) -> None:
        self.close_connection = True

    def say_nothing(self) -> None:
        self.wait_for_the_end()

    def wait_for_the_end(self) -> None:
        """Until the client closes its connection."""
        self.connection.settimeout(30)
        if self.connection.recv(1) == b"":
            self.server.gone.set()
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def meter(upstream: Upstream) -> Iterator[Meter]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    addresses = {"OPENAI_BASE_URL": f"{upstream.address}/v1", "NOBODY_URL": nobody}
    meter = Meter({"ok": Price(1.0, 2.0), "m-1": Price(1.0, 2.0)}, addresses)
    yield meter
    meter.end()


class Evaluation:
    """What a program does with its variables."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.secret, self.variables = meter.open()
        self.connections: list[http.client.HTTPConnection] = []

    def connect(self, variable: str = "OPENAI_BASE_URL") -> http.client.HTTPConnection:
        url = urlsplit(self.variables[variable])
        assert url.hostname == "127.0.0.1"
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
        self.connections.append(connection)
        return connection

    def path(self, rest: str, variable: str = "OPENAI_BASE_URL") -> str:
        return urlsplit(self.variables[variable]).path + rest

    def send(
        self,
        model: str = "ok",
        rest: str = "/chat/completions",
        variable: str = "OPENAI_BASE_URL",
        method: str = "POST",
        **headers: str,
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self.connect(variable)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = json.dumps({"model": model}) if method == "POST" else None
        connection.request(method, self.path(rest, variable), body, named)
        response = connection.getresponse()
        data = response.read()
        response.close()
        connection.close()
        return response, data

    def close(self) -> Reading:
        reading = self.meter.close(self.secret)
        for connection in self.connections:
            connection.close()
        return reading


@pytest.fixture
def evaluation(meter: Meter) -> Evaluation:
    return Evaluation(meter)


def test_requests_and_responses_pass_unchanged(
    evaluation: Evaluation, upstream: Upstream
) -> None:
    upstream.seen.clear()
    response, data = evaluation.send(
        rest="/chat/completions?a=%2F&b=1",
        Authorization="Bearer sk-secret",
        X_Stainless_Lang="python",
        Accept_Encoding="br, gzip;q=0.5, zstd",
        Connection="keep-alive, X-Hop",
        X_Hop="1",
    )
    assert (response.status, data) == (200, BODY)
    assert response.headers["X-Request-Id"] == "abc"
    assert response.headers["Set-Cookie"] == "a=1"
    assert response.headers.get_all("Date") is not None
    assert len(response.headers.get_all("Date") or ()) == 1
    ((method, path, headers, body),) = upstream.seen
    assert (method, path) == ("POST", "/v1/chat/completions?a=%2F&b=1")
    assert json.loads(body) == {"model": "ok"}
    assert headers == {
        "host": urlsplit(upstream.address).netloc,
        "accept-encoding": "gzip;q=0.5",
        "authorization": "Bearer sk-secret",
        "content-length": str(len(body)),
        "x-stainless-lang": "python",
    }
    reading = evaluation.close()
    assert reading.scores() == {
        "calls": 1,
        "errors": 0,
        "call_seconds": reading.calls[0].seconds,
        "tokens_in": 10,
        "tokens_out": 5,
        "tokens_cached": 4,
        "tokens_reasoning": 2,
        "cost": pytest.approx(20e-6),
    }


def test_cookies_of_one_evaluation_are_not_sent_by_another(
    meter: Meter, upstream: Upstream
) -> None:
    for _ in range(2):
        upstream.seen.clear()
        evaluation = Evaluation(meter)
        evaluation.send()
        evaluation.close()
        assert "cookie" not in upstream.seen[0][2]


def test_a_stream_comes_as_it_is_sent(evaluation: Evaluation) -> None:
    connection = evaluation.connect()
    connection.request("POST", evaluation.path("/messages"), '{"model": "stream"}')
    with connection.getresponse() as response:
        parts = [response.read1(10_000) for _ in STREAM]
        assert parts == STREAM
        assert response.read() == b""
    reading = evaluation.close()
    assert reading.scores()["tokens_out"] == 5
    assert reading.calls[0].seconds > 0.05


@pytest.mark.parametrize("model", ["gzip", "big"])
def test_long_and_compressed_bodies(evaluation: Evaluation, model: str) -> None:
    response, data = evaluation.send(model, Accept_Encoding="gzip")
    assert len(data) == int(response.headers["Content-Length"])
    if model == "gzip":
        assert gzip.decompress(data) == BODY
    assert evaluation.close().scores()["tokens_in"] == 10


def test_a_stream_without_usage_is_unknown(evaluation: Evaluation) -> None:
    evaluation.send()
    evaluation.send("no_usage")
    reading = evaluation.close()
    assert set(reading.scores()) == {"calls", "errors", "call_seconds"}
    assert "1 of 2 calls are unknown" in reading.why_unknown("tokens_out")


def test_errors_of_the_api_pass_and_are_counted(evaluation: Evaluation) -> None:
    response, data = evaluation.send("refused")
    assert response.status == 429
    assert response.headers["Retry-After"] == "7"
    assert json.loads(data)["error"]["message"] == "slow down"
    evaluation.send()
    reading = evaluation.close()
    assert (reading.scores()["calls"], reading.scores()["errors"]) == (2, 1)
    assert reading.scores()["tokens_in"] == 10


def test_an_api_that_is_down_is_a_clear_error(evaluation: Evaluation) -> None:
    response, data = evaluation.send(variable="NOBODY_URL")
    assert response.status == 502
    message = json.loads(data)["error"]["message"]
    assert "asktell's meter cannot reach http://127.0.0.1:" in message
    assert "ConnectError" in message
    scores = evaluation.close().scores()
    assert (scores["calls"], scores["errors"], scores["tokens_in"]) == (1, 1, 0)


def test_an_api_that_hangs_up_is_not_said_to_be_down(evaluation: Evaluation) -> None:
    response, data = evaluation.send("hang_up")
    assert response.status == 502
    message = json.loads(data)["error"]["message"]
    assert "asktell's meter got no response from http://127.0.0.1:" in message
    assert evaluation.close().scores()["errors"] == 1


def test_redirects_are_not_followed(evaluation: Evaluation) -> None:
    response, _ = evaluation.send("elsewhere")
    assert response.status == 307
    assert response.headers["Location"].startswith("http://192.0.2.1/")
    assert evaluation.close().scores()["errors"] == 1


def test_a_response_that_breaks_off_breaks_off_for_the_agent(
    evaluation: Evaluation,
) -> None:
    with pytest.raises(http.client.IncompleteRead):
        evaluation.send("cut")
    reading = evaluation.close()
    assert set(reading.scores()) == {"calls", "errors", "call_seconds"}
    assert reading.scores()["errors"] == 1
    (call,) = reading.calls
    # What the model has read is known all the same
    assert call.usage is not None
    assert (call.usage.read, call.is_whole) == (10, False)


def test_other_requests_are_no_calls(evaluation: Evaluation) -> None:
    evaluation.send(method="GET", rest="/models")
    assert evaluation.close().scores()["calls"] == 1  # its response has a usage
    other = Evaluation(evaluation.meter)
    other.send("no_usage", rest="/messages/count_tokens")
    assert other.close().scores()["calls"] == 0


@pytest.mark.parametrize(
    "path",
    [
        "/../admin",
        "/..%2fadmin",
        "/%2e%2e/admin",
        "/%252e%252e/admin",
        "/a/..\\admin",
        "/./a",
        "/a#b",
    ],
)
def test_no_path_leaves_the_upstream(
    evaluation: Evaluation, upstream: Upstream, path: str
) -> None:
    upstream.seen.clear()
    response, _ = evaluation.send(rest=path)
    assert response.status in (400, 404)
    assert upstream.seen == []


def test_nothing_but_the_upstream_can_be_reached(
    evaluation: Evaluation, upstream: Upstream
) -> None:
    upstream.seen.clear()
    netloc = urlsplit(evaluation.variables["OPENAI_BASE_URL"]).netloc
    host, _, port = netloc.partition(":")
    secret = evaluation.secret
    for target in [
        f"{upstream.address}/v1/chat/completions",
        f"http://{netloc}/{secret}/http://192.0.2.1/",
        "/v1/chat/completions",
        f"/{secret}",
        f"/{secret}/HOME/x",
        f"//{secret}/OPENAI_BASE_URL/x",
        f"/{secret[:-1]}/OPENAI_BASE_URL/x",
        "*",
    ]:
        with socket.create_connection((host, int(port))) as connection:
            lines = f"GET {target} HTTP/1.1\r\nHost: {netloc}\r\nConnection: close\r\n"
            connection.sendall(f"{lines}\r\n".encode())
            first = connection.makefile("rb").readline()
        assert first.split()[1] in (b"400", b"404"), (target, first)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"CONNECT 192.0.2.1:443 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.makefile("rb").readline().split()[1][:1] == b"4"
    assert upstream.seen == []


def test_an_ended_evaluation_reaches_nothing(
    evaluation: Evaluation, upstream: Upstream
) -> None:
    evaluation.close()
    upstream.seen.clear()
    assert evaluation.send()[0].status == 404
    assert upstream.seen == []


def begun(
    evaluation: Evaluation, upstream: Upstream, model: str
) -> http.client.HTTPConnection:
    """The connection of a call that the API has seen, and that does not end."""
    upstream.gone.clear()
    upstream.seen.clear()
    connection = evaluation.connect()
    connection.request("POST", evaluation.path("/messages"), f'{{"model": "{model}"}}')
    until = time.monotonic() + 30
    while not upstream.seen and time.monotonic() < until:
        time.sleep(0.01)
    return connection


@pytest.mark.parametrize("model", ["nothing", "endless"])
def test_calls_in_progress_end_with_their_evaluation(
    evaluation: Evaluation, upstream: Upstream, model: str
) -> None:
    connection = begun(evaluation, upstream, model)
    if model == "endless":
        with connection.getresponse() as response:
            assert response.read1(100) == BEGINNING[:100]
    reading = evaluation.close()
    assert upstream.gone.wait(30)
    assert reading.scores().keys() == {"calls", "errors", "call_seconds"}
    assert "cut before its end" in reading.why_unknown("cost")
    assert [call.usage is None for call in reading.calls] == [model == "nothing"]


@pytest.mark.parametrize("model", ["nothing", "endless"])
def test_an_agent_that_gives_up_ends_the_call_at_the_api(
    evaluation: Evaluation, upstream: Upstream, model: str
) -> None:
    connection = begun(evaluation, upstream, model)
    connection.close()
    assert upstream.gone.wait(30)
    evaluation.send()
    assert evaluation.close().scores()["calls"] == 2


def test_fifty_calls_at_once_each_for_its_evaluation(
    meter: Meter, upstream: Upstream
) -> None:
    evaluations = [Evaluation(meter) for _ in range(25)]

    def work(number: int) -> int:
        return evaluations[number % 25].send("together")[0].status

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(work, range(50))) == [200] * 50
    for evaluation in evaluations:
        scores = evaluation.close().scores()
        assert (scores["calls"], scores["tokens_in"]) == (2, 20)


def test_the_sdk_of_openai(evaluation: Evaluation) -> None:
    openai = pytest.importorskip("openai")
    address = evaluation.variables["OPENAI_BASE_URL"]
    turns = [{"role": "user", "content": "a"}]
    with openai.OpenAI(api_key="sk-secret", base_url=address) as client:
        create = client.chat.completions.create
        assert create(model="ok", messages=turns).usage.total_tokens == 15
        parts = list(create(model="stream", messages=turns, stream=True))
        assert parts[-1].usage.completion_tokens == 5
        with pytest.raises(openai.RateLimitError, match="slow down"):
            client.with_options(max_retries=0).chat.completions.create(
                model="refused", messages=turns
            )
    scores = evaluation.close().scores()
    assert (scores["calls"], scores["errors"], scores["tokens_out"]) == (3, 1, 10)


def test_a_proxy_that_is_killed_starts_again(upstream: Upstream) -> None:
    meter = Meter(addresses={"OPENAI_BASE_URL": f"{upstream.address}/v1"})
    evaluation = Evaluation(meter)
    evaluation.send()
    assert meter._process is not None
    os.kill(meter._process._process.pid, signal.SIGKILL)
    reading = evaluation.close()
    assert reading.scores() == {}
    assert "has ended" in reading.why_unknown("calls")
    meter._process._process.wait(30)
    again = Evaluation(meter)
    again.send()
    assert again.close().scores()["calls"] == 1
    meter.end()
    meter.end()


def test_an_evaluation_of_a_lost_proxy_does_not_end_the_next_one(
    upstream: Upstream,
) -> None:
    meter = Meter(addresses={"OPENAI_BASE_URL": f"{upstream.address}/v1"})
    lost = Evaluation(meter)
    meter.end()
    again = Evaluation(meter)
    assert "has ended" in lost.close().why_unknown("calls")
    again.send()
    assert again.close().scores()["calls"] == 1
    meter.end()


def test_the_reply_to_an_interrupted_order_is_not_that_to_the_next(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        def readline(self) -> bytes:
            raise KeyboardInterrupt

    meter = Meter(addresses={"OPENAI_BASE_URL": f"{upstream.address}/v1"})
    first, second = Evaluation(meter), Evaluation(meter)
    first.send()
    with monkeypatch.context() as patch:
        patch.setattr(meter._process, "_replies", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            first.close()
    # It made no call, and had the one of the first
    assert "has ended" in second.close().why_unknown("calls")
    again = Evaluation(meter)
    again.send()
    assert again.close().scores()["calls"] == 1
    meter.end()


def test_the_proxy_ends_with_a_process_that_is_killed() -> None:
    code = """
import os, signal
from asktell_adapters.llms.meter import Meter
meter = Meter()
meter.open()
print(meter._process._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    stat = Path(f"/proc/{int(done.stdout)}/stat")
    until = time.monotonic() + 20
    # A zombie has ended
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_meter_can_be_pickled(meter: Meter) -> None:
    copy: Meter = pickle.loads(pickle.dumps(meter))
    assert (copy.prices, copy.addresses) == (meter.prices, meter.addresses)
    copy.end()


def test_the_addresses_are_those_that_the_variables_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")  # fmt: skip
    for name in (*names, "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert Meter().addresses == dict(
        zip(
            names,
            ["https://api.openai.com/v1"] * 2 + ["https://api.anthropic.com"] * 2,
            strict=True,
        )
    )
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com")
    addresses = Meter(addresses={"X_URL": "https://x.example/v1"}).addresses
    assert addresses["OPENAI_API_BASE"] == "http://localhost:8000/v1"
    assert addresses["AZURE_OPENAI_ENDPOINT"] == "https://me.openai.azure.com"
    assert addresses["X_URL"] == "https://x.example/v1"
    monkeypatch.setenv("OPENAI_API_BASE", "localhost:8000")
    with pytest.raises(InvalidArgumentError, match=r"OPENAI_API_BASE must be the root"):
        Meter()


@pytest.mark.parametrize(
    "address",
    ["", "x", "ftp://a", "http://", "http://[", "http://a:0/", "https://a/?key=sk-1", "https://a/#sk-1", "file:///etc/passwd"],
)  # fmt: skip
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match="must be the root of an API"
    ) as info:
        Meter(addresses={"A_URL": address})
    assert "sk-1" not in str(info.value)
    with pytest.raises(InvalidArgumentError, match="names of environment variables"):
        Meter(addresses={"A URL": "http://a"})


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "uvicorn", raising=False)
    monkeypatch.delitem(sys.modules, "starlette", raising=False)
    with pytest.raises(MissingExtraError, match=r"asktell\[meter\]"):
        Meter()


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (None, None, ("127.0.0.1", "127.0.0.1")),
        ("a.example", None, ("a.example,127.0.0.1", "a.example,127.0.0.1")),
        (None, "a.example", ("a.example,127.0.0.1", "a.example,127.0.0.1")),
        ("a.example", "b.example", ("a.example,127.0.0.1", "b.example,127.0.0.1")),
        # curl and urllib do not understand it in a list
        ("*", None, ("*", "*")),
    ],
)
def test_programs_ask_no_other_proxy_for_the_meter(
    monkeypatch: pytest.MonkeyPatch,
    meter: Meter,
    lower: str | None,
    upper: str | None,
    expected: tuple[str, str],
) -> None:
    for name, value in [("no_proxy", lower), ("NO_PROXY", upper)]:
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    evaluation = Evaluation(meter)
    evaluation.close()
    variables = evaluation.variables
    assert (variables["no_proxy"], variables["NO_PROXY"]) == expected


def test_a_proxy_of_the_environment_is_asked_only_for_other_machines(
    monkeypatch: pytest.MonkeyPatch, upstream: Upstream
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    company = Upstream()
    monkeypatch.setenv("HTTP_PROXY", company.address)
    monkeypatch.setenv("http_proxy", company.address)
    addresses = {
        "HERE_URL": upstream.address,
        "NAMED_URL": f"http://localhost:{upstream.server_port}",
        "THERE_URL": "http://api.example/v1",
    }
    evaluation = Evaluation(Meter(addresses=addresses))
    for name in addresses:
        evaluation.send(variable=name)
    assert evaluation.close().scores()["calls"] == 3
    evaluation.meter.end()
    company.shutdown()
    company.server_close()
    asked = [path for _, path, *_ in company.seen]
    assert asked == ["http://api.example/v1/chat/completions"]


@pytest.mark.parametrize(
    ("root", "rest", "expected"),
    [
        ("/v1/", "/chat/completions", "/v1/chat/completions"),
        ("/v1", "/v1/messages", "/v1/v1/messages"),
        ("", "/v1/models/a%2Fb%20c?x=a+b", "/v1/models/a%2Fb%20c?x=a+b"),
        ("/a%2Fb", "/messages", "/a%2Fb/messages"),
    ],
)
def test_the_path_is_that_of_the_address_and_of_the_request(
    upstream: Upstream, root: str, rest: str, expected: str
) -> None:
    meter = Meter(addresses={"A_URL": upstream.address + root})
    evaluation = Evaluation(meter)
    upstream.seen.clear()
    evaluation.send(rest=rest, variable="A_URL")
    evaluation.close()
    meter.end()
    assert upstream.seen[0][1] == expected


def test_an_address_of_ipv6() -> None:
    try:
        server = Upstream("::1")
    except OSError:
        pytest.skip("no IPv6 here")
    meter = Meter(addresses={"A_URL": f"http://[::1]:{server.server_port}/v1"})
    evaluation = Evaluation(meter)
    assert evaluation.send(variable="A_URL")[0].status == 200
    assert evaluation.close().scores()["tokens_in"] == 10
    assert server.seen[0][2]["host"] == f"[::1]:{server.server_port}"
    meter.end()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("model", ["ok", "stream"])
def test_a_client_of_http_1_0(evaluation: Evaluation, model: str) -> None:
    url = urlsplit(evaluation.variables["OPENAI_BASE_URL"])
    body = json.dumps({"model": model})
    head = f"POST {url.path}/completions HTTP/1.0\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection((str(url.hostname), url.port or 0)) as connection:
        connection.sendall(f"{head}\r\n{body}".encode())
        received = connection.makefile("rb").read()
    sent = BODY if model == "ok" else b"".join(STREAM)
    assert received.partition(b"\r\n\r\n")[2] == sent
    assert evaluation.close().scores()["tokens_out"] == 5


def test_prices_of_several_currencies_are_refused() -> None:
    prices = {"a": Price(1.0, 2.0, currency="USD"), "b": Price(1.0, 2.0)}
    assert Meter(prices).prices == prices
    with pytest.raises(InvalidArgumentError, match="one currency, got 'EUR', 'USD'"):
        Meter({**prices, "c": Price(1.0, 2.0, currency="EUR")})
