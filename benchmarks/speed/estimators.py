"""What a decision of a structured method costs: `python -m benchmarks.speed.estimators [--arms 100] [--cache FOLDER]`.

Each part runs in a process of its own. "first" is the first decision, imports and
compilation included; "later" the median of decisions with new data and fewer active
arms. On a busy machine processor time is the better guide to what a part costs.
`--cache` keeps compiled functions on disk: run twice.
"""

import argparse
import statistics
import subprocess
import sys
import time

import numpy as np

PARTS = ("least squares", "G-optimal design", "MLP")


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arms", type=int, default=100)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--cache", help="folder for compiled functions (default: none)")
    parser.add_argument(
        "--part", choices=PARTS, help="measure this one in this process"
    )
    args = parser.parse_args()
    if args.part:
        print(measure(args.part, args.arms, args.features, args.cache))
        return
    print(f"K = {args.arms}, d = {args.features}, 2 metrics, 3 pulls per arm\n")
    print("| part | first, s | its processor time | later, ms | its processor time |")
    print("|---|---|---|---|---|")
    for part in PARTS:
        command = [sys.executable, "-m", "benchmarks.speed.estimators", "--part", part]
        command += ["--arms", str(args.arms), "--features", str(args.features)]
        command += ["--cache", args.cache] if args.cache else []
        print(
            subprocess.run(
                command, check=True, capture_output=True, text=True
            ).stdout.strip(),
            flush=True,
        )


def measure(part: str, arms: int, n_features: int, cache: str | None) -> str:
    """A row of the table."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(arms, n_features))
    truth = np.column_stack((np.sin(features[:, 0]), features[:, 1]))
    pulled = np.repeat(np.arange(arms), 3)
    start, used = time.perf_counter(), time.process_time()
    if cache:
        import asktell._util.jax_cache

        asktell._util.jax_cache.enable(cache)
    from asktell.methods.rounds.allocators import GOptimalDesign, PullsToShare
    from asktell.methods.rounds.estimators import MLP, LeastSquares, Sample
    from asktell.numerics.tally import Tally

    estimators = {"least squares": LeastSquares(), "MLP": MLP()}

    def decide(active: np.ndarray) -> None:
        if part in estimators:
            scores = truth[pulled] + rng.normal(size=(len(pulled), 2))
            tally = Tally.empty(arms, 2).plus(pulled, scores)
            estimators[part].estimate(Sample(tally, active, features, population=100))
        else:
            n = len(active)
            pulls = PullsToShare(
                max(n, 50),
                np.zeros(n, int),
                np.full(n, 100),
                np.arange(n),
                features[active],
            )
            GOptimalDesign().allocate(pulls)

    decide(np.arange(arms))
    first = time.perf_counter() - start, time.process_time() - used
    later, busy = [], []
    for left in np.linspace(arms, arms // 2 + 1, 15).astype(int):
        start, used = time.perf_counter(), time.process_time()
        decide(np.sort(rng.permutation(arms)[:left]))
        later.append(1000 * (time.perf_counter() - start))
        busy.append(1000 * (time.process_time() - used))
    wall, processor = statistics.median(later), statistics.median(busy)
    return (
        f"| {part} | {first[0]:.1f} | {first[1]:.1f} | {wall:.0f} | {processor:.0f} |"
    )


if __name__ == "__main__":
    main()
