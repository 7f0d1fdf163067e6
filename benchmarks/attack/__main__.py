"""What an attacker, and bad luck, would do: are the promises kept?

    python -m benchmarks.attack all --seconds 600
    python -m benchmarks.attack plays --seed 17 --cases 1
    python -m benchmarks.attack plays --seconds 600 --url postgresql://...

- `plays`: every operation with every argument in random order; whatever can be made
  anew must equal the live state;
- `threads`: threads and processes that do everything at once, on one object, on one
  file, and over HTTP;
- `servers`: LLM servers that are silent, or lie, at the adapters that call them;
- `strangers`: at the service, without a token.

A line of JSON for each; exit code 1 if a promise was broken. Nothing leaves this
machine, and everything ends by itself.
"""

import argparse
import json
import sys
import time

from benchmarks.attack import plays, servers, strangers, threads
from benchmarks.attack.findings import Limit, Report

FAMILIES = ("plays", "threads", "servers", "strangers")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Attack asktell, and see whether its promises are kept."
    )
    parser.add_argument("family", choices=[*FAMILIES, "all"], nargs="?", default="all")
    parser.add_argument(
        "--seconds",
        type=float,
        default=600.0,
        help="in all; the case that runs then is ended",
    )
    parser.add_argument("--cases", type=int, help="of each family, at most")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of the first case; each further one has the next number",
    )
    parser.add_argument(
        "--url",
        help="of a PostgreSQL database to play in; by default memory and SQLite files",
    )
    arguments = parser.parse_args()
    chosen = FAMILIES if arguments.family == "all" else (arguments.family,)
    n_found = 0
    for family in chosen:
        limit = Limit(arguments.seconds / len(chosen), arguments.cases)
        start = time.perf_counter()
        report: Report
        if family == "plays":
            report = plays.attack(arguments.seed, limit, arguments.url)
        elif family == "threads":
            report = threads.attack(arguments.seed, limit, arguments.url)
        elif family == "servers":
            report = servers.attack(arguments.seed, limit)
        else:
            report = strangers.attack(arguments.seed, limit)
        line = {
            "attack": family,
            "cases": report.cases,
            "found": sum(report.times.values()),
            "kinds": len(report.times),
        }
        print(
            json.dumps({**line, "seconds": round(time.perf_counter() - start)}),
            flush=True,
        )
        n_found += len(report.times)
    sys.exit(1 if n_found else 0)


if __name__ == "__main__":
    main()
