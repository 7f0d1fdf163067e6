"""Run methods on problems: `python -m benchmarks.selection.run --suite small --tables FOLDER`.

Writes one JSON line per (problem, goal, method, budget, seed, commit), and skips those
that the file has already, so an interrupted run goes on where it was. The same command
on the same commit gives the same lines, whatever the number of processes, but for
`seconds` of CPU time. A method that is not for a problem (wrong goal, budget below what
it needs, no features) has a line with `refused`, the reason.
"""

import argparse
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from asktell.errors import BudgetTooSmallError, IncompatibleMethodError
from asktell.simulation.lines import known_lines
from asktell.simulation.processes import ONE_THREAD
from benchmarks import problems
from benchmarks.problems import replay
from benchmarks.selection import methods
from benchmarks.selection.metrics import evaluate

OUTPUT = Path("benchmark-output")


class Task(NamedTuple):
    """One run; `per_prompt` is the budget over the number of prompts."""

    problem: str
    goal: str
    method: str
    per_prompt: float
    seed: int


class Suite(NamedTuple):
    """What a named suite runs. Slow methods (those with a model to fit, and Optuna's) have fewer seeds and budgets."""

    goals: tuple[str, ...]
    per_prompt: tuple[float, ...]
    seeds: int
    slow_per_prompt: tuple[float, ...]
    slow_seeds: int


SLOW = ("mlp-", "uniform+", "optuna-")
SUITES = {
    "small": Suite(("best@.5", "pareto"), (3, 5, 10), 4, (3,), 2),
    "fronts": Suite(problems.FRONTS, (1, 3, 10), 3, (1, 3, 10), 3),
    "models": Suite(
        ("best@.5", "pareto"), (1, 2, 3, 5, 10, 20), 20, (1, 2, 3, 5, 10, 20), 20
    ),
    "full": Suite(problems.GOALS, (1, 2, 3, 5, 8, 10), 100, (1, 3, 5, 10), 20),
}


def tasks(
    suite: Suite, problem_names: Sequence[str], method_names: Sequence[str]
) -> list[Task]:
    """Every combination, problem by problem."""
    planned = []
    for problem, goal, method in product(problem_names, suite.goals, method_names):
        slow = method.startswith(SLOW)
        budgets = suite.slow_per_prompt if slow else suite.per_prompt
        seeds = range(suite.slow_seeds if slow else suite.seeds)
        planned += [
            Task(problem, goal, method, b, seed) for b, seed in product(budgets, seeds)
        ]
    return planned


def run_task(task: Task, folder: Path | None) -> dict[str, Any]:
    """The line of one run, without the commit."""
    problem = problems.load(task.problem, task.goal, folder, task.seed)
    k, n, _ = problem.scores.shape
    budget = round(task.per_prompt * k)
    line: dict[str, Any] = {**task._asdict(), "budget": budget, "k": k, "n": n}
    start = time.process_time()
    try:
        outcome = methods.run(task.method, problem, budget, task.seed)
    except (IncompatibleMethodError, BudgetTooSmallError) as error:
        return {**line, "refused": str(error)}
    line["seconds"] = round(time.process_time() - start, 4)
    measures = {
        name: round(value, 6)
        for name, value in evaluate(problem, outcome.answer).items()
    }
    return {**line, "spent": outcome.spent, "answer": outcome.answer, **measures}


def run_tasks(
    wanted: Sequence[Task],
    path: Path,
    folder: Path | None,
    jobs: int,
    any_commit: bool = False,
) -> list[dict[str, Any]]:
    """The lines of the tasks, in their order; those that the file lacks are run and appended to it."""
    commit = this_commit()

    def run_all(missing: Sequence[Task]) -> Iterator[dict[str, Any]]:
        return ({**line, "commit": commit} for line in _run_all(missing, folder, jobs))

    line_of = known_lines(
        path, wanted, key, run_all, lambda line: any_commit or line["commit"] == commit
    )
    return [line_of[task] for task in wanted]


def by_half(
    name: str,
    lines: Sequence[dict[str, Any]],
    half: str | None,
    summary: Callable[[Sequence[dict[str, Any]]], str],
) -> dict[str, str]:
    """A page's parts `NAME-development` and `NAME-report`, or one of them: the summary of a half's lines, if any."""
    parts = {}
    for of_half in ("development", "report") if half is None else (half,):
        mine = [line for line in lines if problems.half(line["problem"]) == of_half]
        if mine:
            parts[f"{name}-{of_half}"] = summary(mine)
    return parts


def _run_all(
    missing: Sequence[Task], folder: Path | None, jobs: int
) -> Iterator[dict[str, Any]]:
    one_thread()
    work = partial(run_task, folder=folder)
    if jobs == 1:
        yield from map(work, missing)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(work, missing, chunksize=4)


def one_thread() -> None:
    """Processes that are started from now on compute on one thread each, but where the environment says otherwise."""
    os.environ.update(
        {name: value for name, value in ONE_THREAD.items() if name not in os.environ}
    )


def key(line: dict[str, Any]) -> Task:
    """What a line is the result of."""
    return Task(*(line[name] for name in Task._fields))


def this_commit() -> str:
    """The last commit that changed the engine or the benchmarks, with "+" if they have been changed since."""
    paths = ["--", "asktell", "benchmarks"]
    root = Path(__file__).parents[2]

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments, *paths], cwd=root, capture_output=True, text=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return (git("log", "-1", "--format=%h") or "unknown") + ("+" if changed else "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that every script of the suite has."""
    parser.add_argument(
        "--tables",
        type=Path,
        default=replay.default_folder(),
        help="folder of recorded tables",
    )
    parser.add_argument(
        "--problems", nargs="+", help="names, or beginnings of names (default: all)"
    )
    parser.add_argument(
        "--half", choices=problems.HALVES, help="only the problems of that half"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes (default: %(default)s)",
    )
    parser.add_argument(
        "--any-commit", action="store_true", help="keep the lines of other commits too"
    )


def chosen_problems(args: argparse.Namespace) -> list[str]:
    """The problems that the arguments name.

    Raises:
        SystemExit: a name is that of none.
    """
    everything = problems.names(args.tables)
    names = everything
    if args.problems:
        all_names = [*everything, *problems.grown.NAMES]
        unknown = [
            name
            for name in args.problems
            if not any(candidate.startswith(base(name)) for candidate in all_names)
        ]
        if unknown:
            where = (
                f" in {args.tables}"
                if args.tables
                else "; recorded tables are read from --tables FOLDER"
            )
            raise SystemExit(
                f"No problem begins with {', '.join(unknown)}{where}. There are: {', '.join(everything)}."
            )
        sized = [
            name
            for name in args.problems
            if "@" in name and not name.rpartition("@")[2].isdecimal()
        ]
        if sized:
            raise SystemExit(
                f"After @ comes a number of prompts, as in {base(sized[0])}@50; got {', '.join(sized)}."
            )
        names = [name for name in everything if name.startswith(tuple(args.problems))]
        names += [name for name in args.problems if "@" in name]
    chosen = [name for name in names if args.half in (None, problems.half(name))]
    if not chosen:
        raise SystemExit(
            f"None of these problems is of the {args.half} half: {', '.join(names)}."
        )
    return chosen


def base(problem: str) -> str:
    """The name without `@K`, the number of prompts."""
    return problem.partition("@")[0]


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--suite", choices=sorted(SUITES), default="small")
    parser.add_argument(
        "--output",
        type=Path,
        help="JSON-lines file (default: benchmark-output/SUITE.jsonl)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=methods.names(),
        default=methods.names(),
        metavar="METHOD",
    )
    parser.add_argument(
        "--goals", nargs="+", choices=(*problems.GOALS, *problems.FRONTS)
    )
    parser.add_argument(
        "--per-prompt", nargs="+", type=float, help="budgets, in evaluations per prompt"
    )
    parser.add_argument("--seeds", type=int, help="of every method")
    args = parser.parse_args()
    suite = SUITES[args.suite]
    if args.seeds:
        suite = suite._replace(seeds=args.seeds, slow_seeds=args.seeds)
    if args.goals:
        suite = suite._replace(goals=tuple(args.goals))
    if args.per_prompt:
        suite = suite._replace(
            per_prompt=tuple(args.per_prompt), slow_per_prompt=tuple(args.per_prompt)
        )
    wanted = tasks(suite, chosen_problems(args), args.methods)
    path = args.output or OUTPUT / f"{args.suite}.jsonl"
    if path.suffix == ".xz":
        parser.error(f"{path} is read only: unpack it first, by xz --decompress --keep")
    started = time.monotonic()
    lines = run_tasks(wanted, path, args.tables, args.jobs, args.any_commit)
    refused = sum("refused" in line for line in lines)
    print(
        f"{len(lines) - refused} runs ({refused} refused) in {path}, {time.monotonic() - started:.0f} s."
    )


if __name__ == "__main__":
    main()
