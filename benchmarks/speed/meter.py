"""What a meter adds to calls of an LLM: `python -m benchmarks.speed.meter`.

A client sends requests to a local API, directly and through the meter, in turns, so that
both have the same load of the machine. The API is a process that responds at once with
fixed bytes, so the times are all overhead. A call is a POST on a connection that stays
open, until the last byte of its response. Calls at once have a connection each; their
time is that of a round of them, divided by their number. On a busy machine, most of the
added time is the wait for a core, so the CPU time of the meter's process for a call is
measured, too (on Linux).
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from asktell_adapters.llms.meter import Meter
from benchmarks import results

AT_ONCE = 16
EVENTS = 200
USAGE = {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200}
# Responses by the name of the model
KINDS = {
    "short": "a short response",
    "long": "a response of 1 MB",
    "stream": f"a stream of {EVENTS} events",
    "together": f"a short response, {AT_ONCE} at once",
}

_API = """
import asyncio, sys

async def serve(reader, writer):
    while True:
        try:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
        except asyncio.IncompleteReadError:
            break
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        body = await reader.readexactly(length)
        for part in parts["stream" if b"stream" in body else "long" if b"long" in body else "short"]:
            writer.write(part)
            await writer.drain()
    writer.close()

def response(kind, body):
    return b"HTTP/1.1 200 OK\\r\\ncontent-type: %s\\r\\ncontent-length: %d\\r\\n\\r\\n" % (kind, len(body)) + body

def chunk(data):
    return b"%x\\r\\n%s\\r\\n" % (len(data), data)

usage = sys.argv[1].encode()
short = b'{"model": "m", "choices": [{"message": {"content": "ok"}}], "usage": ' + usage + b"}"
long = short.replace(b'"ok"', b'"' + b"x" * 2**20 + b'"')
event = b'data: {"model": "m", "choices": [{"delta": {"content": "word "}}], "usage": null}\\n\\n'
last = b'data: {"model": "m", "choices": [], "usage": ' + usage + b"}\\n\\ndata: [DONE]\\n\\n"
head = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"
stream = [head, *[chunk(event)] * int(sys.argv[2]), chunk(last), chunk(b"")]
parts = {
    "short": [response(b"application/json", short)],
    "long": [response(b"application/json", long)],
    "stream": stream,
}

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@contextmanager
def an_api() -> Iterator[str]:
    """The address of the API."""
    command = [sys.executable, "-c", _API, json.dumps(USAGE), str(EVENTS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.kill()


class Client:
    """Calls an API on connections that stay open."""

    def __init__(self, address: str, pool: ThreadPoolExecutor) -> None:
        url = urlsplit(address)
        self._path = f"{url.path}/chat/completions"
        self._pool = pool
        self._connections = [
            http.client.HTTPConnection(url.hostname or "", url.port)
            for _ in range(AT_ONCE)
        ]

    def call(self, kind: str) -> float:
        """The seconds of a call."""
        start = time.perf_counter()
        if kind == "together":
            list(self._pool.map(self._send, self._connections, ["short"] * AT_ONCE))
            return (time.perf_counter() - start) / AT_ONCE
        self._send(self._connections[0], kind)
        return time.perf_counter() - start

    def _send(self, connection: http.client.HTTPConnection, kind: str) -> None:
        body = json.dumps({"model": kind, "messages": []})
        connection.request("POST", self._path, body)
        connection.getresponse().read()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()


def rows(n_calls: int) -> list[dict[str, str]]:
    """A row per kind of response: medians in milliseconds, and of the overhead."""
    with an_api() as address, ThreadPoolExecutor(AT_ONCE) as pool:
        meter = Meter(addresses={"OPENAI_BASE_URL": address})
        secret, variables = meter.open()
        direct = Client(address, pool)
        metered = Client(variables["OPENAI_BASE_URL"], pool)
        table = []
        for kind, words in KINDS.items():
            _medians(direct.call, metered.call, kind, 5)  # connects
            before = _cpu_seconds()
            seconds = _medians(direct.call, metered.call, kind, n_calls)
            n_metered = n_calls * (AT_ONCE if kind == "together" else 1)
            of_meter = (_cpu_seconds() - before) / n_metered
            table.append(
                {
                    "response": words,
                    "direct, ms": f"{1000 * seconds[0]:.2f}",
                    "metered, ms": f"{1000 * seconds[1]:.2f}",
                    "added, ms": f"{1000 * (seconds[1] - seconds[0]):.2f}",
                    "ratio": f"{seconds[1] / seconds[0]:.1f}",
                    "CPU of the meter, ms": f"{1000 * of_meter:.2f}",
                }
            )
        direct.close()
        metered.close()
        calls = meter.close(secret).calls
        assert all(call.is_whole and not call.is_error for call in calls)
        meter.end()
    return table


def _cpu_seconds() -> float:
    """CPU seconds of the meter, which is the only child process with this name. NaN where there is no /proc."""
    tick = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc/self/task").glob("*/children"):
        for pid in path.read_text().split():
            if b"_meter_proxy" in Path(f"/proc/{pid}/cmdline").read_bytes():
                fields = (
                    Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                )
                return (int(fields[11]) + int(fields[12])) / tick
    return float("nan")


def _medians(
    direct: Callable[[str], float],
    metered: Callable[[str], float],
    kind: str,
    n_calls: int,
) -> tuple[float, float]:
    """The median seconds of direct and of metered calls, which are made in turns."""
    pairs = [(direct(kind), metered(kind)) for _ in range(n_calls)]
    first, second = (statistics.median(times) for times in zip(*pairs, strict=True))
    return first, second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200, help="calls of each kind")
    arguments = parser.parse_args()
    table = rows(arguments.calls)
    print(results.table(table[0], [row.values() for row in table]))
    print(f"\nload average: {os.getloadavg()[0]:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
