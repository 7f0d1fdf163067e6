"""How long asking and telling takes, and what saving costs: `python -m benchmarks.speed.latency [--trials 1000000]`.

One core, K = 100 prompts, two metrics, in memory. Prints a row for the trials just
before 100, 10,000, ...: the median of an ask and a tell together, then the size and the
times of the saved state. Import time is that of a new interpreter, less an empty one's.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

import asktell

K = 100
WINDOW = 1000


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=1_000_000,
        help="how many trials to run (default: %(default)s)",
    )
    parser.add_argument("--method", default="csr", help="preset (default: %(default)s)")
    args = parser.parse_args()
    print(f"import asktell: {import_seconds():.3f} s")
    print(
        "| trial | ask + tell, median us | p99 us | saved MB | save s | load s | peak MB |"
    )
    print("|---|---|---|---|---|---|---|")
    goal = asktell.BestFeasible("quality", subject_to={"brevity": 0.5})
    selector = asktell.Selector(
        [f"prompt {i}" for i in range(K)], goal, args.trials, args.method, seed=0
    )
    scores = np.random.default_rng(0).normal(0.5, 0.2, (args.trials, 2)).tolist()
    marks = {10**e for e in range(2, 9) if 10**e <= args.trials} | {args.trials}
    times: list[float] = []
    clock = time.perf_counter
    for row in scores:
        start = clock()
        trial = selector.ask()
        assert trial is not None
        selector.tell(trial, row)
        times.append(clock() - start)
        if len(times) in marks:
            report(selector, times)


def report(selector: asktell.Selector, times: list[float]) -> None:
    """One row."""
    window = sorted(times[-WINDOW:])
    start = time.perf_counter()
    text = selector.to_json()
    saved = time.perf_counter()
    asktell.Selector.from_json(text)
    loaded = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"| {len(times):,} | {statistics.median(window) * 1e6:.1f} | {window[int(len(window) * 0.99)] * 1e6:.0f} | "
        f"{len(text) / 1e6:.2f} | {saved - start:.3f} | {loaded - saved:.3f} | {peak:.0f} |",
        flush=True,
    )


def import_seconds() -> float:
    """Median of a few new interpreters."""

    def seconds(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    return statistics.median(
        seconds("import asktell") for _ in range(7)
    ) - statistics.median(seconds("pass") for _ in range(7))


if __name__ == "__main__":
    main()
