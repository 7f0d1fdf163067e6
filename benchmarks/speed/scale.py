"""One elimination round over many arms: `python -m benchmarks.speed.scale [--arms 100 1000 ...] [--metrics 2 5]`.

Sample means and their errors, the Pareto gaps, who leaves and who is accepted, and the
next round's pulls per arm. Scores are uniform and independent, so that the front grows
with the number of metrics. Every size runs in a process of its own: "peak MiB" is that
of the whole process, "of it round" what the round added to the data's own.
"""

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

from asktell.methods.rounds.allocators import PullsToShare, Uniform
from asktell.methods.rounds.estimators import Sample, SampleMean
from asktell.methods.rounds.rules import ParetoGap
from asktell.numerics.tally import Tally


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--arms", type=int, nargs="+", default=[100, 1000, 10_000, 100_000, 1_000_000]
    )
    parser.add_argument("--metrics", type=int, nargs="+", default=[2, 5])
    parser.add_argument(
        "--one", action="store_true", help="measure the first size in this process"
    )
    args = parser.parse_args()
    if args.one:
        print(measure(args.arms[0], args.metrics[0]))
        return
    print("| arms | metrics | on the front | seconds | peak MiB | of it round |")
    print("|---|---|---|---|---|---|")
    for metrics in args.metrics:
        for arms in args.arms:
            command = [sys.executable, "-m", "benchmarks.speed.scale", "--one"]
            command += ["--arms", str(arms), "--metrics", str(metrics)]
            print(
                subprocess.run(
                    command, check=True, capture_output=True, text=True
                ).stdout.strip(),
                flush=True,
            )


def measure(arms: int, metrics: int) -> str:
    """A row of the table."""
    rng = np.random.default_rng(0)
    truth = rng.random((arms, metrics))
    tally = Tally.empty(arms, metrics)
    for _ in range(2):
        tally = tally.plus(np.arange(arms), truth + 0.01 * rng.normal(size=truth.shape))
    active, rule = np.arange(arms), ParetoGap()
    repeats = max(1, 1000 // arms)
    before = peak()
    start = time.perf_counter()
    for _ in range(repeats):
        means = SampleMean().estimate(Sample(tally, active)).means
        judgement = rule.judge(means)
        leaving = judgement.order[: arms // 2]
        stay = np.setdiff1d(active, leaving)
        capacity = np.full(len(stay), 1000)
        Uniform().allocate(
            PullsToShare(arms, tally.counts[stay], capacity, np.arange(len(stay)))
        )
    seconds = (time.perf_counter() - start) / repeats
    after, front = peak(), judgement.accepted.sum()
    return f"| {arms:,} | {metrics} | {front:,} | {seconds:.4f} | {after:.0f} | {after - before:.0f} |"


def peak() -> float:
    """Largest resident memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
