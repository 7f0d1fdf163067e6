"""What the engine itself costs, ours and Optuna's in one run: `python -m benchmarks.speed.overhead`.

K = 100 prompts, two objectives, in memory, one core; every engine in an interpreter of
its own. Ask + tell is the median of a window of trials just before 100, 10,000 and
1,000,000 told ones. Optuna cannot be asked a million times in reasonable time: its
studies are filled with finished trials (`add_trials`, whose choices and scores are
random) up to the window, and stop where filling takes longer than `--patience`. Saved
size: our JSON text, Optuna's pickled study with its sampler, the only way it resumes
exactly; reload is reading that back. Import is a new interpreter's time, less an empty
one's.
"""

import argparse
import json
import pickle
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import results

K = 100
MARKS = (100, 10_000, 1_000_000)
WINDOW = 50
METRICS = ("quality", "brevity")

Row = dict[str, Any]


def asktell_rows(method: str, marks: tuple[int, ...], patience: float) -> None:
    """Print a row per mark."""
    import asktell

    goal = asktell.ParetoSet(*METRICS)
    prompts = [f"prompt {i}" for i in range(K)]
    # More than are timed
    selector = asktell.Selector(prompts, goal, marks[-1] + 10 * K, method, seed=0)
    scores = np.random.default_rng(0).normal(0.5, 0.2, (marks[-1], 2)).tolist()

    def step(i: int) -> None:
        trial = selector.ask()
        assert trial is not None
        selector.tell(trial, scores[i])

    done, deadline = 0, time.monotonic() + patience
    for mark in marks:
        while done < mark - WINDOW:
            step(done)
            done += 1
            if time.monotonic() > deadline:
                return
        times = [_timed(lambda: step(done + i)) for i in range(mark - done)]  # noqa: B023 - called at once
        done = mark
        _report(
            mark, times, lambda: selector.to_json().encode(), asktell.Selector.from_json
        )


def optuna_rows(sampler: str, marks: tuple[int, ...], patience: float) -> None:
    """Print a row per mark, until filling takes too long."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space: dict[str, optuna.distributions.BaseDistribution] = {
        "prompt": optuna.distributions.CategoricalDistribution(range(K))
    }
    study = optuna.create_study(
        sampler=getattr(optuna.samplers, sampler)(seed=0), directions=["maximize"] * 2
    )
    rng = np.random.default_rng(0)

    def step() -> None:
        trial = study.ask(space)
        study.tell(trial, rng.normal(0.5, 0.2, 2).tolist())

    done, deadline = 0, time.monotonic() + patience
    for mark in marks:
        while done < mark - WINDOW:
            n = min(1000, mark - WINDOW - done)
            study.add_trials(
                optuna.trial.create_trial(
                    params={"prompt": int(rng.integers(K))},
                    distributions=space,
                    values=rng.normal(0.5, 0.2, 2).tolist(),
                )
                for _ in range(n)
            )
            done += n
            if time.monotonic() > deadline:
                return
        times = [_timed(step) for _ in range(mark - done)]
        done = mark
        # Our own bytes, read back at once
        _report(mark, times, lambda: pickle.dumps(study), pickle.loads)


ENGINES: dict[str, Callable[[tuple[int, ...], float], None]] = {
    "asktell uniform": lambda marks, patience: asktell_rows("uniform", marks, patience),
    "asktell ege-sr": lambda marks, patience: asktell_rows("ege-sr", marks, patience),
    "asktell auto": lambda marks, patience: asktell_rows("auto", marks, patience),
    "optuna RandomSampler": lambda marks, patience: optuna_rows(
        "RandomSampler", marks, patience
    ),
    "optuna NSGAIISampler": lambda marks, patience: optuna_rows(
        "NSGAIISampler", marks, patience
    ),
    "optuna TPESampler": lambda marks, patience: optuna_rows(
        "TPESampler", marks, patience
    ),
}


def import_seconds(module: str) -> float:
    """Median of a few new interpreters."""

    def seconds(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    return statistics.median(
        seconds(f"import {module}") for _ in range(7)
    ) - statistics.median(seconds("pass") for _ in range(7))


def _timed(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _report(
    mark: int,
    times: list[float],
    save: Callable[[], bytes],
    load: Callable[[bytes], Any],
) -> None:
    saved = save()
    row = {
        "trials": mark,
        "median_ms": statistics.median(times) * 1e3,
        "worst_ms": max(times) * 1e3,
        "saved_mb": len(saved) / 1e6,
        "reload_s": _timed(lambda: load(saved)),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(row), flush=True)


def table(engines: list[str], marks: tuple[int, ...], patience: float) -> str:
    """The table, every engine in a process of its own."""
    cells = []
    for engine in engines:
        command = [
            sys.executable,
            "-m",
            "benchmarks.speed.overhead",
            "--engine",
            engine,
            "--patience",
            str(patience),
        ]
        text = subprocess.run(
            [*command, "--marks", *map(str, marks)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        rows = {row["trials"]: row for row in map(json.loads, text.splitlines())}
        for mark in marks:
            if mark not in rows:
                cells.append(
                    [
                        engine,
                        f"{mark:,}",
                        f"not reached in {patience:g} s",
                        "",
                        "",
                        "",
                        "",
                    ]
                )
                continue
            row = rows[mark]
            numbers = [
                row["median_ms"],
                row["worst_ms"],
                row["saved_mb"],
                row["reload_s"],
            ]
            cells.append(
                [
                    engine,
                    f"{mark:,}",
                    *(f"{number:.3f}" for number in numbers),
                    f"{row['peak_mb']:.0f}",
                ]
            )
    header = [
        "engine",
        "trials",
        "ask + tell, median ms",
        f"worst of {WINDOW}",
        "saved MB",
        "reload s",
        "peak MB",
    ]
    return results.table(header, cells)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    # The child process
    parser.add_argument("--engine", choices=sorted(ENGINES), help=argparse.SUPPRESS)
    parser.add_argument(
        "--engines",
        nargs="+",
        choices=list(ENGINES),
        default=list(ENGINES),
        metavar="ENGINE",
    )
    parser.add_argument(
        "--marks", nargs="+", type=int, default=MARKS, help="numbers of trials"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=120,
        help="seconds per engine (default: %(default)s)",
    )
    args = parser.parse_args()
    marks = tuple(sorted(args.marks))
    if args.engine:
        ENGINES[args.engine](marks, args.patience)
        return
    ours, optuna = import_seconds("asktell; asktell.Selector"), import_seconds("optuna")
    imports = f"Import: asktell {ours:.3f} s, Optuna {optuna:.3f} s."
    print(f"{imports}\n\n{table(args.engines, marks, args.patience)}")


if __name__ == "__main__":
    main()
