"""`simulate` replays recorded scores, to compare how good methods are at the same number of evaluations."""

import contextlib
import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from asktell._util.extras import check_extra
from asktell.errors import (
    BudgetTooSmallError,
    IncompatibleMethodError,
    InvalidArgumentError,
)
from asktell.methods import AbstractMethod, preset
from asktell.numerics.arrays import Floats
from asktell.problem.checks import is_bool, own_version, real, whole
from asktell.problem.goals import Goal, ParetoSet
from asktell.problem.words import short
from asktell.results.result import Result
from asktell.selector import Selector
from asktell.simulation.lines import Line, OnProgress, known_lines
from asktell.simulation.processes import can_leave, in_processes
from asktell.simulation.replay import Replay, by_chance, play
from asktell.simulation.simulation import Simulation
from asktell.simulation.truth import Truth, means_of

Rival: TypeAlias = Callable[[Replay, int, int], int | Sequence[int]]
"""A function `(problem, budget, seed)` that returns the row of the selected prompt, or several rows, best first."""

Methods: TypeAlias = Iterable[
    str | AbstractMethod | Rival | Mapping[str, str | AbstractMethod | Rival]
]


def simulate(
    scores: npt.ArrayLike,
    goal: Goal,
    methods: Methods | Mapping[str, str | AbstractMethod | Rival] = (
        "auto",
        "csr-sh",
        "uniform",
    ),
    budgets: float | Sequence[float] = (1, 2, 3, 5, 10),
    seeds: int | Sequence[int] = 20,
    jobs: int | None = None,
    on_progress: OnProgress | None = None,
    *,
    features: npt.ArrayLike | None = None,
    segments: Sequence[str] | None = None,
    sampling: str = "shared",
    baseline: int | None = None,
    repeats: int | None = None,
    proxies: Mapping[str, npt.ArrayLike] | None = None,
    lines: str | Path | None = None,
) -> Simulation:
    """Compare methods on recorded scores, without evaluating anything.

    Each method runs many times on the scores, with different seeds and budgets. The
    prompts that it selects are judged by the means of all scores.

        >>> import asktell
        >>> scores = [[1, 1, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0], [0, 0, 0, 1, 0, 0]]
        >>> simulation = asktell.simulate(
        ...     scores, asktell.BestFeasible("accuracy"), ["auto", "uniform"], budgets=[2, 4], seeds=5, jobs=1,
        ...     on_progress=lambda done, total: None,
        ... )
        >>> [(row.method, row.budget, row.runs) for row in simulation.summary().rows]
        [('auto', 2.0, 5), ('uniform', 2.0, 5), ('auto', 4.0, 5), ('uniform', 4.0, 5)]

    `print(simulation.summary())` prints a table, and `simulation.plot()` draws curves.

    A method that does not support the goal, or needs a larger budget, is left out. The
    summary has the reason.

    Args:
        scores: the scores of all K prompts on all N examples in m metrics, shape (K, N,
            m). The metrics have the order of `goal.metrics`. Scores are in the metric's
            own units, also if less is better. NaN is an evaluation that failed. With a
            single metric, the shape can be (K, N).

            If every prompt was evaluated R times on every example, as agents often are,
            the shape is (K, N, m, R). Each evaluation of a prompt on an example then
            takes another of its R scores, in a random order that depends on the seed.
            Methods are judged by the means over all examples and all R evaluations.
        goal: `BestFeasible(...)` or `ParetoSet(...)`.
        methods: the names of asktell's methods, method objects such as
            `asktell.Race(...)`, and functions of your own. The other methods are
            compared with the first method.

            asktell calls a function as `function(problem, budget, seed)`. The function
            calls `problem.evaluate(prompt, example)` (see
            `asktell.simulation.replay.Replay`). It returns the row number of the
            selected prompt in `scores`, or a list of row numbers, the best first. To
            name a function, pass a mapping `{"mine": function}`, alone or as an item of
            the list.
        budgets: the budgets to try, in evaluations per prompt.
        seeds: the number of runs for each method and budget, or a list of seeds.
        jobs: the number of processes, each with one thread. The default is one for each
            core. Functions from an importable module run in parallel. Functions that
            are defined in a script or a notebook run in this process.
        on_progress: a function that gets the number of finished runs and the number of
            all runs. By default, a progress bar is shown.
        features: numbers that describe the prompts, shape (K, d), for methods that use
            them.
        segments: the label of each example's segment, N labels, for goals with
            segments.
        baseline: the row number of the prompt in use, for goals with `within(...,
            of="baseline")`.
        sampling: as for `Selector`, for asktell's methods. With "iid", an example can
            be drawn more often than it was recorded. Its scores are then used again
            from the first.
        repeats: how often a method may evaluate a prompt on the same example, from 1 to
            R. The default is R.
        proxies: a mapping from the name of a cheap metric outside of the goal to its
            scores, shape (K, N). NaN is a missing score. asktell's methods get all
            these scores before the first evaluation. Functions of your own do not get
            them.
        lines: the path of a file of JSON lines, to which a line is added for each run.
            A run that the file has already is not repeated. Two runs count as the same
            if they have the same scores, goal, other arguments, name of the method,
            budget, seed and version of asktell. The code of a function is not compared.

    Raises:
        InvalidArgumentError: an argument is invalid, no prompt satisfies the
            constraints, or a function of your own returned something else than row
            numbers, or evaluated more than its budget.
        MissingExtraError: a package that a method needs is missing, or pymoo for a
            `ParetoSet`.
    """
    if not isinstance(goal, Goal):
        raise InvalidArgumentError(
            f"goal must be a BestFeasible or a ParetoSet, such as BestFeasible('accuracy'), got {short(goal)}."
        )
    if isinstance(goal, ParetoSet):
        check_extra("analysis", "pymoo")

    # The problem, with every prompt's true means
    recorded = _checked(scores, goal, segments)
    if baseline is not None:
        baseline = whole("baseline, a row of scores,", baseline, 0, len(recorded) - 1)
    goal = goal.with_baseline(baseline)
    work = _Work(
        recorded,
        goal,
        _named(methods, goal),
        features,
        segments,
        sampling,
        _repeats(repeats, recorded),
        baseline,
        _checked_proxies(proxies, recorded),
    )
    _check_feasible(work.truth, goal)

    # The runs: every method at every budget with every seed
    wanted = _wanted(work, budgets, seeds)
    if jobs is None:
        # Windows and macOS cannot restrict a process to some of the cores
        has_affinity = hasattr(os, "sched_getaffinity")
        jobs = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    line_of = known_lines(
        None if lines is None else Path(lines),
        wanted,
        lambda line: _Run(line["method"], line["budget"], line["seed"]),
        partial(_run_all, work, whole("jobs", jobs, 1)),
        lambda line: line.get("data") == work.data,
        on_progress,
    )
    runs = [
        {name: value for name, value in line_of[run].items() if name != "data"}
        for run in wanted
    ]
    return Simulation(goal, runs, list(work.methods))


def _check_feasible(truth: Truth, goal: Goal) -> None:
    """Raise an error if no prompt satisfies the constraints, because then every method fails."""
    if truth.feasible.any():
        return
    closest = math.nan
    if np.isfinite(truth.values).any():
        closest = float(np.nanmax(truth.slack))
    raise InvalidArgumentError(
        f"Judged by all scores, no prompt satisfies the constraints, so no method can succeed. The goal is: {goal}. "
        f"The closest prompt violates the constraints by {-closest:.3g}. Relax the constraints, or check that the "
        f"columns have the order {list(goal.metrics)}."
    )


def _wanted(
    work: "_Work", budgets: float | Sequence[float], seeds: int | Sequence[int]
) -> list["_Run"]:
    """The runs of a simulation, in the order of its table."""
    per_prompt = list(budgets) if isinstance(budgets, Iterable) else [budgets]
    k = len(work.scores)
    checked = [math.nan if is_bool(b) else real(b) or math.nan for b in per_prompt]
    if not checked or not all(math.isfinite(b) and round(b * k) >= 1 for b in checked):
        raise InvalidArgumentError(
            "budgets must be numbers of evaluations per prompt, such as (1, 3, 10). Each must allow at least one "
            f"evaluation of one of the {k} prompts. Got {short(budgets)}."
        )
    numbers = seeds if isinstance(seeds, Iterable) else range(whole("seeds", seeds, 1))
    numbers = [whole("seeds", seed, 0) for seed in numbers]
    return [
        _Run(name, budget, seed)
        for name, budget, seed in product(work.methods, checked, numbers)
    ]


def _run_all(work: "_Work", jobs: int, missing: Sequence["_Run"]) -> Iterator[Line]:
    """The lines of the runs. Methods that can be pickled run in parallel, and then the others in this process."""
    portable = {
        name: method
        for name, method in work.methods.items()
        if jobs > 1 and can_leave(method)
    }
    apart = [run for run in missing if run.method in portable]
    # Starting processes for a single run takes longer than the run
    if len(apart) > 1:
        yield from in_processes(replace(work, methods=portable), apart, jobs)
        missing = [run for run in missing if run.method not in portable]
    yield from map(work, missing)


class Played(NamedTuple):
    """The outcome of one run.

    Attributes:
        answer: rows of the selected prompts, best first.
        spent: number of evaluations.
        result: the result of asktell's own methods, None for other functions.
    """

    answer: list[int]
    spent: int
    result: Result | None = None


def run_once(
    method: str | AbstractMethod | Rival,
    scores: Floats,
    goal: Goal,
    budget: int,
    seed: int,
    features: npt.ArrayLike | None = None,
    segments: Sequence[str] | None = None,
    sampling: str = "shared",
    repeats: int = 1,
    baseline: int | None = None,
    proxies: Mapping[str, Floats] | None = None,
) -> Played:
    """Run a method once, on scores (K, N, m) or (K, N, m, R), with a budget in evaluations.

    The other arguments are those of `simulate`.
    """
    k, n = scores.shape[:2]
    shuffled = by_chance(scores, seed)
    if isinstance(method, str | AbstractMethod):
        texts = [f"prompt {i}" for i in range(k)]
        selector = Selector(
            texts, goal, budget, method, n, features, seed, segments=segments, sampling=sampling,
            repeats=repeats if repeats > 1 else None, baseline=baseline, proxies=tuple(proxies or ()),
        )  # fmt: skip
        _observe(selector, proxies or {})
        result = play(selector, shuffled)
        return Played(
            [int(entry.id) for entry in result.selected], selector.spent, result
        )
    numbers = None if features is None else np.asarray(features, dtype=float)
    allowed = shuffled if shuffled.ndim == 3 else shuffled[..., :repeats]
    problem = Replay(
        allowed, goal.with_baseline(baseline), budget, seed, numbers, segments
    )
    returned = method(problem, budget, seed)
    try:
        answer = [int(row) for row in np.atleast_1d(np.asarray(returned)).tolist()]
        fits = all(0 <= row < k for row in answer)
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise InvalidArgumentError(
            f"A method must return the row of the selected prompt, from 0 to {k - 1}, or a list of rows. Got "
            f"{short(returned)}."
        )
    return Played(list(dict.fromkeys(answer)), problem.spent)


def _observe(selector: Selector, proxies: Mapping[str, Floats]) -> None:
    """Record all scores of the proxies."""
    if not proxies:
        return
    stacked = np.stack(list(proxies.values()))
    for arm, example in np.argwhere(~np.isnan(stacked).all(axis=0)).tolist():
        scores = dict(zip(proxies, stacked[:, arm, example].tolist(), strict=True))
        selector.observe(arm, scores, example=example)


class _Run(NamedTuple):
    """A run to do. `budget` is in evaluations per prompt."""

    method: str
    budget: float
    seed: int


@dataclass(frozen=True)
class _Work:
    """Does a run and returns its line for the file."""

    scores: Floats
    goal: Goal
    methods: Mapping[str, str | AbstractMethod | Rival]
    features: npt.ArrayLike | None
    segments: Sequence[str] | None
    sampling: str
    repeats: int
    baseline: int | None = None
    proxies: Mapping[str, Floats] | None = None

    @cached_property
    def truth(self) -> Truth:
        return Truth(*means_of(self.scores, self.goal, self.segments))

    @cached_property
    def data(self) -> str:
        """A digest of everything that all runs of a simulation have in common."""
        features = None if self.features is None else np.asarray(self.features).tolist()
        alike = (
            self.goal,
            self.scores.shape,
            self.segments,
            self.sampling,
            self.repeats,
            features,
            self.baseline,
        )
        of_proxies = {name: x.tolist() for name, x in (self.proxies or {}).items()}
        text = repr((own_version(), *alike, of_proxies))
        return hashlib.sha256(text.encode() + self.scores.tobytes()).hexdigest()[:16]

    def __call__(self, run: _Run) -> Line:
        method, budget = self.methods[run.method], round(run.budget * len(self.scores))
        try:
            answer, spent, _ = run_once(
                method, self.scores, self.goal, budget, run.seed, self.features, self.segments, self.sampling,
                self.repeats,
                self.baseline,
                self.proxies,
            )  # fmt: skip
        except (IncompatibleMethodError, BudgetTooSmallError) as error:
            return {"data": self.data, **run._asdict(), "refused": str(error)}
        except Exception as error:
            error.add_note(
                f"Method {run.method}, budget {run.budget:g} per prompt, seed {run.seed}."
            )
            raise
        judged = self.truth.judge(answer)
        return {
            "data": self.data,
            **run._asdict(),
            "quality": judged["quality"],
            "regret": judged["regret"],
            "feasible": bool(answer) and bool(self.truth.feasible[answer].all()),
            "size": len(answer),
            "hypervolume": judged.get("hypervolume"),
            "f1": judged.get("f1"),
            "evaluations": spent,
            "answer": answer,
        }


def _named(
    methods: Methods | Mapping[str, str | AbstractMethod | Rival], goal: Goal
) -> dict[str, str | AbstractMethod | Rival]:
    """Return the methods by name, after checking the names of presets."""
    by_name: dict[str, str | AbstractMethod | Rival] = {}
    for item in [methods] if isinstance(methods, str | Mapping) else methods:
        pairs = (
            item.items()
            if isinstance(item, Mapping)
            else [(getattr(item, "__name__", str(item)), item)]
        )
        for name, method in pairs:
            if name in by_name:
                raise InvalidArgumentError(
                    f"Two methods have the name {short(name)}. Give one of them a different name: {{'mine': ...}}."
                )
            if isinstance(method, str):
                # Its runs report that
                with contextlib.suppress(IncompatibleMethodError):
                    preset(method, goal)
            elif not isinstance(method, AbstractMethod) and not callable(method):
                raise InvalidArgumentError(
                    "A method must be a name, an asktell method, or a function (problem, budget, seed). Got "
                    f"{short(method)}."
                )
            by_name[str(name)] = method
    if not by_name:
        raise InvalidArgumentError(
            "methods is empty. Pass at least one method, such as 'auto'."
        )
    return by_name


def _checked(
    scores: npt.ArrayLike, goal: Goal, segments: Sequence[str] | None
) -> Floats:
    try:
        array = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"scores must be numbers of shape (K, N, m) or (K, N, m, R), got {short(scores)}."
        ) from error
    m = len(goal.metrics)
    if array.ndim == 2 and m == 1:
        array = array[:, :, None]
    if array.ndim not in (3, 4) or array.shape[2] != m or 0 in array.shape:
        raise InvalidArgumentError(
            f"scores must have the shape (K prompts, N examples, m = {m}), or (K, N, {m}, R) with R evaluations of "
            f"each pair, and the metrics in the order {list(goal.metrics)}. Got {np.shape(scores)}."
        )
    if np.isinf(array).any():
        raise InvalidArgumentError(
            "A score is infinite. Write NaN where an evaluation failed."
        )
    n = array.shape[1]
    if segments is not None and len(segments) != n:
        raise InvalidArgumentError(
            f"The number of segments is {len(segments)}, but the number of examples is {n}. Pass one label for "
            "each example."
        )
    return array


def _checked_proxies(
    proxies: Mapping[str, npt.ArrayLike] | None, scores: Floats
) -> dict[str, Floats]:
    """Return the scores of proxies as arrays, after checking their shape."""
    arrays = {}
    for name, values in (proxies or {}).items():
        try:
            arrays[name] = np.array(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"The scores of proxy {short(name)} must be numbers, with a row for each prompt and a column for each "
                f"example. Got {short(values)}."
            ) from error
        if arrays[name].shape != scores.shape[:2]:
            raise InvalidArgumentError(
                f"The scores of proxy {short(name)} must have the shape {scores.shape[:2]}, with a row for each "
                f"prompt and a column for each example. Got {arrays[name].shape}. Write NaN for a missing score."
            )
    return arrays


def _repeats(n_repeats: int | None, scores: Floats) -> int:
    """Return how often a method may evaluate a prompt on the same example."""
    recorded = 1 if scores.ndim == 3 else scores.shape[3]
    repeats = recorded if n_repeats is None else whole("repeats", n_repeats, 1)
    if repeats > recorded:
        raise InvalidArgumentError(
            f"repeats={repeats}, but every prompt was evaluated {recorded} time{'s' * (recorded > 1)} on each example. "
            f"Pass at most {recorded}, or scores of shape (K, N, m, R) with a larger R."
        )
    return repeats
