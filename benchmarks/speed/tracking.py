"""What a tracker costs per evaluation: a run of evaluations that take no time, with and without it.

python -m benchmarks.speed.tracking --evaluations 20000; mlflow and wandb are measured
where they are installed.
"""

import argparse
import contextlib
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import asktell
from asktell_adapters.tracking.core import Tracker

PROMPTS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluations", type=int, default=20_000)
    parser.add_argument("--method", default="csr-sh")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, make in trackers(Path(folder)):
            bare = seconds(arguments, None)
            tracked = seconds(arguments, make)
            per_evaluation = 1e6 / arguments.evaluations
            print(
                f"{name}: {per_evaluation * bare:.0f} us an evaluation without, {per_evaluation * tracked:.0f} with, "
                "end included"
            )


def trackers(folder: Path) -> Iterator[tuple[str, Callable[[], Tracker]]]:
    if importlib.util.find_spec("mlflow"):
        import mlflow

        from asktell_adapters.tracking.mlflow import MLflowTracker

        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        mlflow.MlflowClient().search_experiments()  # makes the database, once
        yield "MLflow, SQLite", MLflowTracker
    if importlib.util.find_spec("wandb"):
        from asktell_adapters.tracking.wandb import WandbTracker

        os.environ["WANDB_SILENT"] = "true"
        yield "W&B, offline", lambda: WandbTracker(mode="offline")


def seconds(arguments: argparse.Namespace, make: Callable[[], Tracker] | None) -> float:
    """How long a run with two metrics takes."""
    selector = asktell.Selector(
        [f"prompt {n}" for n in range(PROMPTS)],
        asktell.BestFeasible("a", subject_to={"b": 0.5}),
        arguments.evaluations,
        arguments.method,
        examples=arguments.evaluations,
    )

    def evaluate(prompt: str, example: int | None) -> dict[str, float]:
        return {"a": (len(prompt) + (example or 0)) % 7, "b": (example or 0) % 2}

    start = time.perf_counter()
    with make() if make else contextlib.nullcontext() as tracker:
        asktell.run(selector, evaluate, progress=False, on_tell=tracker)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
