"""The benchmark of many workers counts what was told."""

import subprocess
import sys
from pathlib import Path

from benchmarks.results import tables
from benchmarks.speed import workers


def test_every_kind_of_worker_is_counted(tmp_path: Path) -> None:
    # In a process of its own, because it forks.
    script = f"""
from benchmarks.speed import workers
for kind in (
    workers.asktell("single", "{tmp_path}/x.db"),
    workers.asktell("batches", "{tmp_path}/x.db", batch=4),
    workers.asktell("ahead", "{tmp_path}/x.db", ahead=3),
    workers.asktell("threads", "{tmp_path}/x.db", in_threads=True),
):
    assert workers.measure(kind, 2, 0.05, kind.name)["per second"] > 0, kind.name
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr


def test_the_table_compares_many_with_one() -> None:
    medians = {"a": {1: {"per second": 1000.0, "slowest": 0.01}, 16: {"per second": 1500.0, "slowest": 0.25}}}
    ((header, row),) = tables(workers.render(medians, "note"))
    assert header == ["evaluations per second", "1 worker", "16 workers", "16 / 1", "slowest of 16"]
    assert row == ["a", "1,000", "1,500", "1.5", "250 ms"]
