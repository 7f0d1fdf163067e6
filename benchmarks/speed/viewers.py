"""What viewers cost workers: `python -m benchmarks.speed.viewers [--viewers 300]`.

A service in a process of its own, a worker in another that asks and tells as fast as it
can, and in a third as many viewers as are wanted. Each follows the worker's study as
its page does: every other second it asks for the study's document over a connection
that stays open, and takes in what comes. Measured in turn without and with them. All
share the machine's cores, so that the viewers' own work is part of what the worker
misses.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import statistics
import tempfile
import time
import zlib
from typing import Any
from urllib.parse import quote, urlsplit

from benchmarks.speed.service import Row, measure, render, served

SECONDS_BETWEEN_LOOKS = 2.0


class Seen:
    """What all viewers saw."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.states = self.bytes = self.errors = 0


async def view(
    host: str, port: int, path: str, wait: float, until: float, seen: Seen
) -> None:
    """One viewer."""
    await asyncio.sleep(wait)
    reader, writer = await asyncio.open_connection(host, port)
    version = ""
    while time.time() < until:
        start = time.perf_counter()
        head = (
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n"
        )
        writer.write(head.encode("ascii"))
        answer = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", answer)
        body = await reader.readexactly(int(length[1])) if length else b""
        seen.times.append(time.perf_counter() - start)
        if answer.startswith(b"HTTP/1.1 200"):
            seen.bytes += len(body)
        if answer.startswith(b"HTTP/1.1 200") and b"content-encoding" in answer.lower():
            begin = zlib.decompressobj(31).decompress(body, 400).decode()
            match = re.search(r'"state":"([\d.]+)"', begin)
            seen.states += match is not None and match[1] != version
            version = match[1] if match else ""
        elif not re.match(rb"HTTP/1.1 (200|404)", answer):
            # At first there is no study yet
            seen.errors += 1
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    writer.close()


def audience(
    url: str, path: str, viewers: int, seconds: float, ready: Any, results: Any
) -> None:
    """All viewers, in their process."""
    parts, seen = urlsplit(url), Seen()

    async def watch() -> None:
        until = time.time() + seconds
        waits = (i / viewers * SECONDS_BETWEEN_LOOKS for i in range(viewers))
        async with asyncio.TaskGroup() as group:
            for wait in waits:
                group.create_task(
                    view(
                        str(parts.hostname),
                        int(parts.port or 80),
                        path,
                        wait,
                        until,
                        seen,
                    )
                )

    ready.set()
    asyncio.run(watch())
    results.put(
        (len(seen.times), sorted(seen.times), seen.states, seen.bytes, seen.errors)
    )


def measured(
    url: str, viewers: int, workers: int, seconds: float
) -> tuple[Row, dict[str, float]]:
    """A worker's row beside so many viewers, and what those saw."""
    if not viewers:
        return measure(url, workers, seconds)._replace(label="no viewers"), {}
    context = multiprocessing.get_context("spawn")
    ready, results = context.Event(), context.Queue()
    name = f"{workers} client{'s'}"
    path = f"/studies/{quote(name, safe='')}/data"
    process = context.Process(
        target=audience, args=(url, path, viewers, seconds + 3.0, ready, results)
    )
    process.start()
    ready.wait()
    row = measure(url, workers, seconds)._replace(label=f"{viewers} viewers")
    looks, times, states, size, errors = results.get()
    process.join()
    return row, {
        "looks/s": looks / (seconds + 3.0),
        "median ms": 1e3 * times[len(times) // 2],
        "p99 ms": 1e3 * times[int(len(times) * 0.99)],
        "states": states,
        "MB": size / 1e6,
        "errors": errors,
    }


def main() -> None:
    """Parse the command line, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--viewers", type=int, default=300)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help="for each row (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds", type=int, default=2, help="of both rows (default: %(default)s)"
    )
    args = parser.parse_args()
    rows: list[Row] = []
    seen_by_all: list[dict[str, float]] = []
    for _ in range(args.rounds):
        for viewers in (0, args.viewers):
            with tempfile.TemporaryDirectory() as folder:

                def use(url: str, viewers: int = viewers) -> list[Row]:
                    row, seen = measured(url, viewers, args.workers, args.seconds)
                    if seen:
                        seen_by_all.append(seen)
                        print(
                            json.dumps(
                                {name: round(value, 2) for name, value in seen.items()}
                            )
                        )
                    return [row]

                rows += served(f"sqlite:///{folder}/studies.db", use)
    print(told(rows, seen_by_all, args.viewers))


def told(rows: list[Row], seen: list[dict[str, float]], viewers: int) -> str:
    """What viewers cost, in words and as a table of all rounds: rows without and with them take turns."""
    rates = [(len(row.asks) + len(row.tells)) / row.seconds for row in rows]
    parts = [
        with_ / without for without, with_ in zip(rates[::2], rates[1::2], strict=True)
    ]
    middle = {
        name: statistics.median(viewer[name] for viewer in seen)
        for name in ("looks/s", "median ms", "p99 ms")
    }
    errors = sum(viewer["errors"] for viewer in seen)
    return (
        f"{os.cpu_count()} shared cores; load average of the machine at the end: {os.getloadavg()[0]:.1f}. Beside "
        f"{viewers} viewers the worker makes {statistics.median(parts):.2f} of the requests per second that it makes "
        f"alone (median of {len(parts)} rounds: {', '.join(f'{part:.2f}' for part in parts)}). Together they look "
        f"{middle['looks/s']:.0f} times a second, and are answered in {middle['median ms']:.0f} ms (median; 99 of 100 "
        f"in {middle['p99 ms']:.0f} ms), with {errors:.0f} errors.\n\n{render(rows)}"
    )


if __name__ == "__main__":
    main()
