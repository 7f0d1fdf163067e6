"""What a decision of `auto` takes, and a whole run: `python -m benchmarks.speed.decisions [--arms 100 10000]`.

Decisions: CPU time of one process, so that what else runs on the machine counts little.
After one and after two evaluations per prompt, N = 300 examples and two metrics: the
time of one decision with its posterior, and of a result; the median of some
repetitions.

With `--runs`: whole runs on simulated scores as users have them, each in a new process
with the defaults for threads: wall-clock time over evaluations, the median of some
runs. First with nothing beside it, then beside a process that multiplies matrices on as
many threads as BLAS starts, one per core.
"""

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np

import asktell
from asktell._util.threads import undisturbed
from asktell.numerics.cached import Memo
from asktell.record import decision_of
from asktell.simulation.processes import ONE_THREAD
from asktell.simulation.replay import play
from benchmarks import results

N = 300
RUNS = ((10, 500), (100, 1500), (1000, 3000))  # prompts and evaluations
GOALS = (asktell.BestFeasible("a", subject_to={"b": 0.5}), asktell.ParetoSet("a", "b"))


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--arms", type=int, nargs="+", default=[100, 1000, 3000, 10_000]
    )
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--runs", action="store_true", help="whole runs instead")
    # The child process
    parser.add_argument("--run", type=int, nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(run(*args.run))
        return
    if args.runs:
        print(runs(args.repetitions))
        return
    print("| prompts | goal | evaluations | decision, ms | result, ms |")
    print("|---|---|---|---|---|")
    for k in args.arms:
        for goal in GOALS:
            measure(k, goal, args.repetitions)


def measure(k: int, goal: asktell.problem.goals.Goal, repetitions: int) -> None:
    """Two rows."""
    rng = np.random.default_rng(0)
    effects, difficulties = 0.2 * rng.normal(size=(k, 2)), 0.4 * rng.normal(size=(N, 2))
    selector = asktell.Selector(
        [f"p{i}" for i in range(k)], goal, 10 * k, "auto", examples=N
    )
    for target in (k, 2 * k):
        while selector.spent < target:
            for trial in selector.ask(max(1, min(k // 4, target - selector.spent))):
                mean = 0.5 + effects[trial.prompt_id] + difficulties[trial.example]
                selector.tell(trial, (mean + 0.3 * rng.normal(size=2)).tolist())
        # As if the plan were spent: a decision is due.
        state = selector.state._replace(plan=selector.state.plan.ended())
        times = [
            milliseconds(call, repetitions)
            for call in (
                undisturbed(lambda s=state: decision_of(selector.method, s)),
                selector.result,
            )
        ]
        name = type(goal).__name__
        print(
            f"| {k} | {name} | {selector.spent} | {times[0]:.0f} | {times[1]:.0f} |",
            flush=True,
        )


def run(k: int, n_evaluations: int, goal: int) -> float:
    """Milliseconds per evaluation of a run, ask, tell and decisions together."""
    rng = np.random.default_rng(0)
    right = (rng.random((k, N)) < rng.uniform(0.3, 0.8, k)[:, None]).astype(float)
    scores = np.stack(
        (right, rng.normal(rng.uniform(0, 1, k)[:, None], 0.3, (k, N))), axis=2
    )
    prompts = [f"p{i}" for i in range(k)]
    # What is imported once
    play(asktell.Selector(prompts[:5], GOALS[goal], 20, "auto", N), scores)
    selector = asktell.Selector(prompts, GOALS[goal], n_evaluations, "auto", N)
    rows = scores.tolist()
    start = time.perf_counter()
    while trial := selector.ask():
        selector.tell(trial, rows[int(trial.prompt_id)][trial.example or 0])
    return 1e3 * (time.perf_counter() - start) / n_evaluations


def runs(repetitions: int) -> str:
    """The table of whole runs."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ONE_THREAD
    }

    def mean(k: int, n: int, goal: int) -> str:
        command = [
            sys.executable,
            "-m",
            "benchmarks.speed.decisions",
            "--run",
            str(k),
            str(n),
            str(goal),
        ]
        outputs = [
            subprocess.check_output(command, env=environment, text=True)
            for _ in range(repetitions)
        ]
        return f"{statistics.median(map(float, outputs)):.2f}"

    cells = [[str(k), f"{n:,}", type(goal).__name__] for k, n in RUNS for goal in GOALS]
    tasks = [(k, n, goal) for k, n in RUNS for goal in range(len(GOALS))]
    neighbour = multiprocessing.get_context("spawn").Process(
        target=multiply, daemon=True
    )
    for busy in (False, True):
        if busy:
            neighbour.start()
        for row, task in zip(cells, tasks, strict=True):
            row.append(mean(*task))
    neighbour.terminate()
    header = [
        "prompts",
        "evaluations",
        "goal",
        "ms per evaluation",
        "beside a busy neighbour",
    ]
    return results.table(header, cells)


def multiply() -> None:
    """Keep every core busy."""
    matrix = np.random.default_rng(0).normal(size=(400, 400))
    while True:
        matrix @ matrix


def milliseconds(call: Callable[[], object], repetitions: int) -> float:
    """Median CPU time of a call that remembers nothing."""
    times = []
    with patch.object(Memo, "get", lambda memo, key, compute: compute()):
        for _ in range(repetitions):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


if __name__ == "__main__":
    main()
