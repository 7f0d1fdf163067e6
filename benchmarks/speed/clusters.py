"""What an evaluation costs through Ray and Dask, and how throughput grows with the workers.

    python -m benchmarks.speed.clusters            # needs ray and distributed

Two tables: seconds per evaluation of an evaluator that does nothing (everything but the
evaluation), with a selector in memory and with a study on the disk; and evaluations per
second of one that sleeps 50 ms, over the most that the workers could do, with a study.
Clusters are local. The time runs from when every worker has begun.
"""

import argparse
import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asktell
from asktell_adapters.executors import per_process

SLEEP = 0.05
Drive = Callable[[Any, Callable[[], Any], int, int, Callable[..., None]], object]
"""(selector or study, factory, workers, batch size, on_tell)"""


def here(
    study: Any,
    factory: Callable[[], Any],
    workers: int,
    batch: int,
    on_tell: Callable[..., None],
) -> object:
    return asktell.run(study, factory(), progress=False, on_tell=on_tell)


def ray(
    study: Any,
    factory: Callable[[], Any],
    workers: int,
    batch: int,
    on_tell: Callable[..., None],
) -> object:
    from asktell_adapters.executors.ray import run

    # The machine has fewer CPUs than there are workers.
    return run(
        study,
        factory,
        workers,
        num_cpus=0,
        batch_size=batch,
        on_tell=on_tell,
        progress=False,
    )


@contextmanager
def dask(workers: int) -> Iterator[Drive]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):

        def drive(
            study: Any,
            factory: Callable[[], Any],
            workers: int,
            batch: int,
            on_tell: Callable[..., None],
        ) -> object:
            executor, at_once = client.get_executor(), workers * batch
            return asktell.run(
                study,
                per_process(factory),
                executor,
                at_once,
                False,
                batch_size=batch,
                on_tell=on_tell,
            )

        yield drive


class EnoughError(Exception):
    """The time is over."""


def rate(
    drive: Drive, seconds: float, workers: int, batch: int, sleep: float, durable: bool
) -> float:
    """Evaluations per second, over some seconds from when every worker has begun."""
    prompts = [f"prompt {i}" for i in range(10)]
    selector = asktell.Selector(
        prompts, asktell.BestFeasible("score"), 10**6, "uniform", examples=10**5
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def factory() -> Any:
            def evaluate(prompt: str, example: int) -> dict[str, float]:
                if not evaluate.began:
                    (folder / f"{os.getpid()}.began").touch()
                    evaluate.began = True
                if sleep:
                    time.sleep(sleep)
                return {"score": 0.5}

            evaluate.began = False
            return evaluate

        times: list[float] = []

        def on_tell(selector: Any, trial: Any) -> None:
            if times or len(list(folder.glob("*.began"))) == workers:
                times.append(time.perf_counter())
                if times[-1] - times[0] > seconds:
                    raise EnoughError

        study: Any = selector
        if durable:
            study = stack.enter_context(
                asktell.Study.create(folder / "study.db", "s", selector)
            )
        with contextlib.suppress(EnoughError):
            drive(study, factory, workers, batch, on_tell)
        return (len(times) - 1) / (times[-1] - times[0])


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        help="for each number (default: %(default)s)",
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    arguments = parser.parse_args()
    import ray as package

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    package.init(
        num_cpus=1, include_dashboard=False, logging_level="ERROR", log_to_driver=False
    )
    print("| | batch | Selector, ms | Study in SQLite, ms |\n|---|---|---|---|")
    with dask(2) as two:
        cases: list[tuple[str, Drive, int, int]] = [("this process", here, 1, 1)]
        cases += [("Ray, 2 workers", ray, 2, batch) for batch in (1, 16)]
        cases += [("Dask, 2 workers", two, 2, batch) for batch in (1, 16)]
        for name, drive, count, batch in cases:
            costs = [
                1000 / rate(drive, arguments.seconds, count, batch, 0.0, durable)
                for durable in (False, True)
            ]
            print(f"| {name} | {batch} | {costs[0]:.2f} | {costs[1]:.2f} |", flush=True)
    print("\n| workers | evaluations per s at most | Ray | Dask |\n|---|---|---|---|")
    for count in arguments.workers:
        most = count / SLEEP
        with dask(count) as many:
            rates = [
                rate(drive, arguments.seconds, count, 1, SLEEP, True)
                for drive in (ray, many)
            ]
        print(
            f"| {count} | {most:.0f} | {rates[0] / most:.0%} | {rates[1] / most:.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
