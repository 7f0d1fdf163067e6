"""What a decision of `auto` takes: `python -m benchmarks.speed.decisions [--arms 100 10000]`.

CPU time of one process, so that what else runs on the machine counts little (set OPENBLAS_NUM_THREADS=1). After one
and after two evaluations per prompt, N = 300 examples and two metrics: the time of one decision with its posterior,
and of a result; the median of some repetitions.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import asktell
from asktell.methods import belief
from asktell.state import decide

N = 300
GOALS = (asktell.BestFeasible("a", subject_to={"b": 0.5}), asktell.ParetoSet("a", "b"))


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, nargs="+", default=[100, 1000, 3000, 10_000])
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()
    print("| prompts | goal | evaluations | decision, ms | result, ms |")
    print("|---|---|---|---|---|")
    for k in args.arms:
        for goal in GOALS:
            measure(k, goal, args.repetitions)


def measure(k: int, goal: asktell.problem.goals.Goal, repetitions: int) -> None:
    """Two rows."""
    rng = np.random.default_rng(0)
    effects, difficulties = 0.2 * rng.normal(size=(k, 2)), 0.4 * rng.normal(size=(N, 2))
    selector = asktell.Selector([f"p{i}" for i in range(k)], goal, 10 * k, "auto", examples=N)
    for target in (k, 2 * k):
        while selector.spent < target:
            for trial in selector.ask(max(1, min(k // 4, target - selector.spent))):
                mean = 0.5 + effects[trial.prompt_id] + difficulties[trial.example]
                selector.tell(trial, (mean + 0.3 * rng.normal(size=2)).tolist())
        # As if the plan were spent: a decision is due.
        state = selector.state._replace(plan_arms=(), plan_examples=(), position=0)
        times = [
            milliseconds(call, repetitions) for call in (lambda s=state: decide(selector.method, s), selector.result)
        ]
        name = type(goal).__name__
        print(f"| {k} | {name} | {selector.spent} | {times[0]:.0f} | {times[1]:.0f} |", flush=True)


def milliseconds(call: Callable[[], object], repetitions: int) -> float:
    """Median CPU time of a call that remembers nothing."""
    times = []
    for _ in range(repetitions):
        belief._belief.cache_clear()
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


if __name__ == "__main__":
    main()
