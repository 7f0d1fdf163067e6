"""Whether what is stated is true: `python -m benchmarks.selection.worlds --runs FOLDER --tables FOLDER`.

Two stages, so that a changed model is measured in minutes:

1. `auto` selects on worlds (`benchmarks.problems.worlds`) and, with --tables, on
   recorded tables. Each selector is saved under --runs with the truth, and with what it
   selects after 50, 100 and 200 % more evaluations. Runs that are there are not made
   again: delete the folder if asking or choosing has changed.
2. Every saved selector states its result, which is held against the truth: the expected
   score of a prompt on a new input, evaluated once.

Of a recorded table, random examples (half of them, 300 at most) are those given, and
the others are the truth. That truth has an error of its own: coverage allows for it,
probabilities and losses do not. One of the first two metrics is the objective, and the
other one is bounded within half of a deviation of the prompts' mean, by turns.
"""

import argparse
import gzip
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from tqdm import tqdm

import asktell
from asktell.errors import InvalidStateError
from asktell.problem.goals import Goal
from asktell.results.result import Result
from benchmarks.problems import replay, worlds
from benchmarks.problems.table import Array, Table
from benchmarks.results import table
from benchmarks.selection.run import OUTPUT

Saved: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]
Mask: TypeAlias = np.typing.NDArray[np.bool_]
Cells: TypeAlias = tuple[tuple[int, float], ...]  # prompts, and evaluations per prompt

# Models of the statement may be chosen on these tables, and on none of the others.
DEVELOPMENT = replay.DEVELOPMENT | {"models/agentopt_mathqa", "models/mteb_english_v2"}
HALVES = ("development", "report")

_OF_FAMILY: Cells = ((5, 5), (30, 2))
SMALL: dict[str, Cells] = {
    "abilities": ((20, 10), (2, 5), (5, 2), (100, 3), (200, 2)),
    "spread .2": _OF_FAMILY,
    "spread .5": ((2, 5), (5, 10), (30, 5)),
    "narrow": _OF_FAMILY,
    "wide": _OF_FAMILY,
    "uniform": _OF_FAMILY,
    "bimodal": _OF_FAMILY,
    "slopes": ((20, 5),),
    "two-way": ((2, 8), (30, 3)),
    "heavy tails": ((30, 3), (200, 1)),
    "far ahead": ((30, 3), (10, 5)),
    "far ahead, gaussian": ((30, 3),),
    "easy": ((6, 10), (2, 5.5), (20, 3)),
    "alike": ((6, 10), (2, 5.5)),
    "costs": ((2, 1), (2, 3), (5, 1)),
    "idle metric": ((2, 5), (2, 20)),
    "ties": ((2, 5), (5, 2)),
    "clustered": ((10, 10),),
    "failures": ((10, 5),),
    "failures count": ((10, 5),),
    "failure rates": ((5, 20), (30, 10)),
    "rare errors": ((5, 20), (30, 10)),
    "noisy agents": ((10, 10), (5, 40)),
    "same agent": ((2, 127), (5, 60)),
    "skewed costs": ((5, 10), (30, 3)),
    "median limit": ((10, 5), (30, 3)),
}
_GRID: Cells = (
    *product((2, 5, 10, 30), (1.0, 2.0, 3.0, 5.0, 10.0)),
    (100, 1),
    (100, 5),
    (200, 1),
    (200, 3),
)
# Worlds in which more prompts show nothing new
_FEW_PROMPTS = {"costs", "idle metric", "ties", "alike", "same agent"}
FULL: dict[str, Cells] = {
    name: tuple(
        dict.fromkeys(
            cells
            + tuple(cell for cell in _GRID if name not in _FEW_PROMPTS or cell[0] <= 10)
        )
    )
    for name, cells in SMALL.items()
}
OF_TABLES: dict[str, Cells] = {
    "small": ((2, 5), (5, 3), (12, 10), (30, 3)),
    "full": tuple(product((2, 5, 12, 30, 100), (1.0, 2.0, 3.0, 5.0, 10.0))),
}
# With the number of seeds of worlds and of tables
SUITES = {"small": (SMALL, 10, 4), "full": (FULL, 10, 4)}

_LATER = (0.5, 1.0, 2.0)  # how much further runs go, in units of what was spent
_BOOTSTRAPS = 200
_MOST_GIVEN, _MOST_PROMPTS = 300, 700  # of recorded tables
_Z = 1.96
_ROUNDING = 1e-9
_PROBABILITIES = {"P(best)": "p_best", "P(feasible)": "p_feasible"}
_RIVALS = 5  # that the selected prompt is compared with, at most
_PULLS = {"1": (1, 1), "2-3": (2, 3), "4-9": (4, 9), "10+": (10, 10**9)}


# Stage 1: runs


class Task(NamedTuple):
    """A run to be made; `source` is a world's name, or a table's, which has a slash."""

    source: str
    arms: int
    per_prompt: float
    seed: int

    def rng(self) -> np.random.Generator:
        """What draws its world, or its part of a table."""
        return np.random.default_rng(
            [
                self.seed,
                self.arms,
                round(10 * self.per_prompt),
                sum(map(ord, self.source)),
            ]
        )

    @property
    def file(self) -> str:
        """Name of the file it is kept in."""
        name = self.source.replace("/", "+").replace(" ", "-").replace(",", "")
        return f"{name}_{self.arms}_{self.per_prompt:g}_{self.seed}.json.gz"


class Drawn(NamedTuple):
    """A selection to be made, and what is true.

    `cells` (K, N, repeats, m) in the goal's order of metrics, NaN where the evaluation
    fails; `truth` and `errors` (K, c) of the goal's columns. `family`: what it is
    counted among.
    """

    goal: Goal
    cells: Array
    truth: Array
    errors: Array
    family: str
    on_failure: Mapping[str, float] | None = None


def of_world(task: Task) -> Drawn:
    """A draw of a world."""
    rng = task.rng()
    name = task.source
    world = worlds.WORLDS[name](rng, task.arms)
    truth = worlds.truth(world)
    return Drawn(
        world.goal,
        worlds.cells(world, rng),
        truth,
        np.zeros_like(truth),
        name,
        world.on_failure,
    )


def of_table(source: Table, task: Task) -> Drawn:
    """Random prompts of a recorded table; the first metric is bounded if the seed is odd, else the second one."""
    rng = task.rng()
    rows = np.sort(rng.permutation(len(source.prompts))[: task.arms])
    examples = rng.permutation(source.scores.shape[1])
    n_given = min(_MOST_GIVEN, len(examples) // 2)
    order = [1, 0] if task.seed % 2 else [0, 1]
    scores = source.scores[rows][:, :, order]
    unseen = scores[:, examples[n_given:]]
    truth = unseen.mean(axis=1)
    spread = max(
        truth[:, 1].std(), 0.5 * source.scores[:, :, order[1]].mean(axis=1).std()
    )
    objective, constrained = (source.metrics[j] for j in order)
    bound = float(truth[:, 1].mean() + 0.5 * rng.normal() * spread)
    goal = asktell.BestFeasible(
        asktell.maximize(objective), {constrained: asktell.at_least(bound)}
    )
    half = "development" if source.name in DEVELOPMENT else "report"
    is_models = source.name.startswith(("models/", "alpaca_eval/", "summarization/"))
    family = f"{'models' if is_models else 'prompts'}, {half}"
    errors = unseen.std(axis=1, ddof=1) / np.sqrt(unseen.shape[1])
    return Drawn(goal, scores[:, examples[:n_given], None], truth, errors, family)


def run(drawn: Drawn, per_prompt: float, seed: int) -> Saved:
    """Select, and select again with more evaluations."""
    n_prompts, n_examples, repeats, _ = drawn.cells.shape
    selector = asktell.Selector(
        [f"prompt {i}" for i in range(n_prompts)],
        drawn.goal,
        round(per_prompt * n_prompts),
        "auto",
        n_examples,
        seed=seed,
        repeats=repeats,
        on_failure=drawn.on_failure or "skip",
    )
    log_of_tells: list[tuple[int, int, Array]] = []
    answers = [_play(selector, drawn.cells, log_of_tells)]
    text = selector.to_json()
    spent, log = selector.spent, list(log_of_tells)
    for part in _LATER:
        selector.extend(spent + round(part * spent) - selector.budget)
        answers.append(_play(selector, drawn.cells, log_of_tells))
    return {
        "family": drawn.family,
        "truth": drawn.truth.tolist(),
        "errors": drawn.errors.tolist(),
        "scales": [_scale(column) for column in np.moveaxis(drawn.cells, 3, 0)],
        "answers": answers,
        "bootstrap": _bootstrap(drawn, log, answers[0]),
        "selector": json.loads(text),
    }


def _play(
    selector: asktell.Selector, cells: Array, told: list[tuple[int, int, Array]]
) -> int:
    """Evaluate until the budget is spent; the position of the answer."""
    while trial := selector.ask():
        arm, example = int(trial.prompt_id), int(trial.example or 0)
        scores = cells[arm, example, selector.repeat_of(trial)]
        if np.isnan(scores).any():
            selector.fail(trial, "recorded as a failure")
        else:
            selector.tell(trial, scores.tolist())
        told.append((arm, example, scores))
    return int(selector.result().selected[0].id)


def _scale(scores: Array) -> float:
    """Width of a metric's scores, from the 1st to the 99th percentile; 1 if they are 0 and 1."""
    numbers = scores[~np.isnan(scores)]
    if np.isin(numbers, (0.0, 1.0)).all():
        return 1.0
    low, high = np.quantile(numbers, [0.01, 0.99])
    return float(high - low) or 1.0


def _bootstrap(
    drawn: Drawn, told: Sequence[tuple[int, int, Array]], answer: int
) -> tuple[float, float | None]:
    """P(best) and P(feasible) of the answer by resampling the examples that were seen."""
    goal, n_arms = drawn.goal, len(drawn.truth)
    arms, examples = (np.array([row[i] for row in told]) for i in (0, 1))
    scores = np.stack([row[2] for row in told])
    failed: Mask = np.any(np.isnan(scores), axis=1)
    if drawn.on_failure is not None:
        scores[failed] = [drawn.on_failure[name] for name in goal.metrics]
    is_known: Mask = np.all(~np.isnan(scores), axis=1)
    scores = np.where(is_known[:, None], scores, 0.0)
    seen, places = np.unique(examples, return_inverse=True)
    rng, hits = np.random.default_rng(len(told)), np.zeros(2)
    for _ in range(_BOOTSTRAPS):
        weights = rng.multinomial(len(seen), np.full(len(seen), 1.0 / len(seen)))[
            places
        ].astype(float)
        counts = np.bincount(arms, weights * is_known, n_arms)
        sums = [
            np.bincount(arms, weights * column, n_arms) / np.maximum(counts, _ROUNDING)
            for column in scores.T
        ]
        if goal.counts_failures:
            asked = np.bincount(arms, weights, n_arms)
            sums.append(
                np.bincount(arms, weights * failed, n_arms)
                / np.maximum(asked, _ROUNDING)
            )
        values = goal.values(np.stack(sums, axis=1))
        values[counts == 0] = -np.inf
        keeps: Mask = np.all(values[:, 1:] >= 0, axis=1)
        best = np.where(keeps, values[:, 0], -np.inf)
        hits += [keeps[answer] and best[answer] == best.max(), keeps[answer]]
    p_best, p_feasible = (hits / _BOOTSTRAPS).tolist()
    return p_best, p_feasible if goal.is_constrained else None


def tasks(
    suite: str,
    names: Iterable[str],
    tables: Iterable[str],
    seeds: int | None = None,
    first: int = 0,
) -> list[Task]:
    """The runs of a suite: of these worlds and these tables, with so many seeds from the first one on."""
    cells, *default = SUITES[suite]
    of_worlds, of_tables = (
        range(first, first + (n if seeds is None else seeds)) for n in default
    )
    planned = [
        Task(name, k, b, seed)
        for name in names
        for k, b in cells[name]
        for seed in of_worlds
    ]
    planned += [
        Task(name, k, b, seed)
        for name in tables
        for k, b in OF_TABLES[suite]
        for seed in of_tables
    ]
    # So that there are runs of all, wherever it is stopped
    return sorted(planned, key=lambda task: task.seed)


def make(wanted: Sequence[Task], folder: Path, tables: Path | None) -> None:
    """Make the runs that are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    sources: dict[str, Table] = {}
    for task in tqdm(
        [task for task in wanted if not (folder / task.file).exists()],
        unit="run",
        mininterval=20,
    ):
        if "/" in task.source:
            if task.source not in sources:
                sources[task.source] = replay.replay_table(
                    task.source, tables, _MOST_PROMPTS
                )
            if task.arms > len(sources[task.source].prompts):
                continue
            drawn = of_table(sources[task.source], task)
        else:
            drawn = of_world(task)
        saved = {**task._asdict(), **run(drawn, task.per_prompt, task.seed)}
        partial = folder / f"partial-{os.getpid()}"
        with gzip.open(partial, "wt") as file:
            json.dump(saved, file)
        partial.rename(folder / task.file)


# Stage 2: what is stated of a run, against the truth


class Chance(NamedTuple):
    """A probability as stated and by the bootstrap, and whether it came true: 1, 0, or a share of several that tie."""

    said: float
    bootstrap: float
    true: float


class Later(NamedTuple):
    """Losses now and after more evaluations, as stated and as they were; `part`: how many more, of those spent."""

    part: float
    said_now: float
    said: float
    now: float
    after: float


class Lead(NamedTuple):
    """A comparison in the objective: whether the interval holds the true lead, and whether a decision is right."""

    holds: bool | None  # None: no interval
    is_right: bool | None  # None: undecided


class Stated(NamedTuple):
    """What one run states, with what is true.

    `estimates`: for every metric, a row per prompt with an error: evaluations, estimate
    less truth in units of the scores' range, whether that is within 1.96 errors, the
    truth's place from the weakest (0) to the best (1), whether it is selected.
    `unstated`: evaluated prompts without an error.
    """

    task: Task
    family: str
    action: str
    estimates: Mapping[str, Array]
    unstated: int
    p_best: Chance | None
    p_feasible: Chance | None
    of_all: Array  # (K, 2) P(feasible) of every prompt, and whether it is feasible
    is_constrained: bool
    is_best: float
    keeps: bool
    some_keep: bool
    loss: tuple[float, float, float] | None  # stated, its bound, and as it is
    # Their share of all prompts, and whether the best is among them
    contenders: tuple[float, bool] | None
    later: list[Later]
    leads: list[Lead]  # of worlds


def state(saved: Saved) -> Stated:
    """Have a saved selector state its result, and hold that against the truth."""
    task = Task(*(saved[name] for name in Task._fields))
    try:
        selector = asktell.Selector.from_json(saved["selector"])
    except InvalidStateError as error:
        message = f"{task.file} is of another version of asktell: delete it to have it made again. {error}"
        raise SystemExit(message) from error
    result = selector.result()
    truth = Truths.of(result.goal, np.array(saved["truth"]))
    answer, verdict = int(result.selected[0].id), result.verdict
    selected, rival = result.prompts[answer], saved["bootstrap"]
    p_best = p_feasible = loss = None
    if selected.p_best is not None:
        p_best = Chance(selected.p_best, rival[0], float(truth.best[answer]))
    if selected.p_feasible is not None:
        p_feasible = Chance(selected.p_feasible, rival[1], float(truth.keeps[answer]))
    if verdict.loss is not None and verdict.loss_95 is not None:
        loss = verdict.loss, verdict.loss_95, truth.loss(answer)
    estimates, unstated = _estimates(result, truth, saved, answer)
    of_all = [
        (entry.p_feasible, truth.keeps[int(entry.id)])
        for entry in result.prompts
        if entry.p_feasible is not None
    ]
    held = {int(id_) for id_, _ in verdict.contenders}
    return Stated(
        task=task,
        family=saved["family"],
        action=verdict.action,
        estimates=estimates,
        unstated=unstated,
        p_best=p_best,
        p_feasible=p_feasible,
        of_all=np.array(of_all, dtype=float).reshape(-1, 2),
        is_constrained=result.goal.is_constrained,
        is_best=float(truth.best[answer]),
        keeps=bool(truth.keeps[answer]),
        some_keep=bool(truth.keeps.any()),
        loss=loss,
        contenders=(len(held) / len(truth.keeps), bool(truth.best[list(held)].any()))
        if truth.keeps.any()
        else None,
        later=_later(result, truth, saved["answers"]),
        leads=[] if np.any(saved["errors"]) else _leads(result, truth, answer),
    )


class Truths(NamedTuple):
    """What is true of every prompt: objective (K,), larger is better; whether it keeps every bound; and if it is best.

    Of several best ones, each is by its share.
    """

    means: Array
    objective: Array
    keeps: Mask
    best: Array

    @classmethod
    def of(cls, goal: Goal, means: Array) -> "Truths":
        """By the means (K, c) of the goal's columns."""
        values = goal.values(means)
        keeps: Mask = np.all(values[:, 1:] >= -_ROUNDING, axis=1)
        objective = np.where(keeps, values[:, 0], -np.inf)
        best = keeps & (objective >= objective.max() - _ROUNDING)
        return cls(means, values[:, 0], keeps, best / max(1, best.sum()))

    def loss(self, answer: int) -> float:
        """How much worse it is than the best one; 0 if no prompt keeps every bound."""
        best = self.objective[self.keeps].max(initial=-np.inf)
        return max(0.0, float(best - self.objective[answer]))


def _estimates(
    result: Result, truth: Truths, saved: Saved, answer: int
) -> tuple[dict[str, Array], int]:
    by_metric, unstated = {}, 0
    n = len(truth.objective)
    places = np.argsort(np.argsort(truth.objective)) / max(1, n - 1)
    for j, metric in enumerate(result.goal.columns):
        rows = []
        scale = saved["scales"][j] if j < len(saved["scales"]) else 1.0
        for arm, entry in enumerate(result.prompts):
            estimate = entry.estimate.get(metric)
            error = entry.standard_error.get(metric)
            if estimate is None or error is None:
                unstated += entry.evaluations > 0
                continue
            off = estimate - truth.means[arm, j]
            within = (
                abs(off) <= _Z * np.hypot(error, saved["errors"][arm][j]) + _ROUNDING
            )
            rows.append(
                (entry.evaluations, off / scale, within, places[arm], arm == answer)
            )
        by_metric[metric] = np.array(rows, dtype=float).reshape(-1, 5)
    return by_metric, unstated


def _later(result: Result, truth: Truths, answers: Sequence[int]) -> list[Later]:
    now, *after = (truth.loss(answer) for answer in answers)
    loss_after = {
        forecast.evaluations: forecast.loss for forecast in result.verdict.outlook
    }
    later = []
    for part, loss in zip(_LATER, after, strict=True):
        n = round(part * result.spent)
        if n in loss_after and result.verdict.loss is not None:
            later.append(Later(part, result.verdict.loss, loss_after[n], now, loss))
    return later


def _leads(result: Result, truth: Truths, answer: int) -> list[Lead]:
    """The selected prompt against others, those that are evaluated most."""
    rivals = sorted(
        (entry for entry in result.prompts if int(entry.id) != answer),
        key=lambda entry: -entry.evaluations,
    )
    objective, leads = result.goal.objectives[0], []
    for rival in rivals[:_RIVALS]:
        difference = result.compare(result.prompts[answer], rival).differences[
            objective.metric
        ]
        true = truth.objective[answer] - truth.objective[int(rival.id)]
        holds = is_right = None
        if difference.low is not None and difference.high is not None:
            holds = (
                difference.low - _ROUNDING
                <= objective.sign * true
                <= difference.high + _ROUNDING
            )
        if difference.verdict in ("better", "worse"):
            is_right = bool(
                true > _ROUNDING
                if difference.verdict == "better"
                else true < -_ROUNDING
            )
        leads.append(Lead(holds, is_right))
    return leads


# Tables


def overview(runs: Sequence[Stated]) -> Row:
    """A few numbers of every statement; the better one of constant and bootstrap is the rival."""
    row: Row = {"runs": len(runs)}
    of_estimates = estimates(runs)
    row |= {name: of_estimates[name] for name in ("within", "+-", "bias")}
    for title, name in _PROBABILITIES.items():
        scores = chance(name)(runs)
        row[f"{title}: said / true"] = [scores["said"], scores["true"]]
        row[f"Brier of {title} / a rival's"] = [
            scores["Brier"],
            min(scores["constant"], scores["bootstrap"]),
        ]
    loss = losses(runs)
    row["loss: said / true"] = [loss["said"], loss["true"]]
    row["loss_95 holds"] = loss["holds"]
    none, gain = nones(runs), outlook(1.0)(runs)
    row['"none" / wrong'] = [none['"none" said'], none["though some keep"]]
    row["gain of +100 %: said / true"] = [gain["gain said"], gain["gain true"]]
    row["contenders hold the best"] = contenders(runs)["hold the best"]
    return row


def estimates(runs: Sequence[Stated]) -> Row:
    """Coverage, bias, by evaluations of the prompt."""
    row: Row = {}
    by_run = [np.concatenate(list(run.estimates.values())) for run in runs]
    every = np.concatenate(by_run)
    row["prompts"] = len(every)
    row["no error"] = sum(run.unstated for run in runs)
    covered, noise = _clustered([rows[:, 2] for rows in by_run])
    row["within"], row["+-"], row["bias"] = covered, noise, _mean(every[:, 1])
    chosen = {
        name: (every[:, 0] >= low) & (every[:, 0] <= high)
        for name, (low, high) in _PULLS.items()
    }
    chosen["weakest 1/3"], chosen["selected"] = every[:, 3] < 1 / 3, every[:, 4] > 0
    for name, mask in chosen.items():
        row[name] = [_mean(every[mask, 2]), _mean(every[mask, 1])]
    return row


def chance(name: str) -> Callable[[Sequence[Stated]], Row]:
    """Brier scores of P(best) or P(feasible) of the selected prompt."""

    def measure(runs: Sequence[Stated]) -> Row:
        return briers(
            [
                stated
                for stated in (getattr(run, name) for run in runs)
                if stated is not None
            ]
        )

    return measure


def briers(found: Sequence[Chance]) -> Row:
    """What was said and came true, and the mean square of the difference; also of a constant and of the bootstrap."""
    stated, bootstrap, true = np.array(found, dtype=float).reshape(-1, 3).T
    return {
        "stated": len(stated),
        "said": _mean(stated),
        "true": _mean(true),
        "+-": _noise(true),
        "Brier": _mean((stated - true) ** 2),
        "constant": _mean((true - _mean(true)) ** 2),
        "bootstrap": _mean((bootstrap - true) ** 2),
    }


def of_all(runs: Sequence[Stated]) -> Row:
    """P(feasible) of all prompts."""
    stated, true = np.concatenate([run.of_all for run in runs]).T
    share = _mean(true)
    return {"prompts": len(stated), "said": _mean(stated), "true": share, "Brier": _mean((stated - true) ** 2),
            "constant": share * (1.0 - share)}  # fmt: skip


def losses(runs: Sequence[Stated]) -> Row:
    """The loss as stated and as it is, and how often its bound holds."""
    stated, bound, true = (
        np.array([run.loss for run in runs if run.loss is not None]).reshape(-1, 3).T
    )
    return {"stated": len(stated), "said": _mean(stated), "true": _mean(true), "loss_95": _mean(bound),
            "holds": _mean(true <= bound + _ROUNDING), "+-": _noise(true <= bound + _ROUNDING)}  # fmt: skip


def nones(runs: Sequence[Stated]) -> Row:
    """How often no prompt is said to keep every bound, and how often one does."""
    mine = [run for run in runs if run.is_constrained]
    without_answer = [run for run in mine if run.action == "none"]
    beside = [
        run.p_feasible.said for run in without_answer if run.p_feasible is not None
    ]
    return {
        "constrained": len(mine),
        "some keep": _mean([run.some_keep for run in mine]),
        '"none" said': len(without_answer),
        "though some keep": _mean([run.some_keep for run in without_answer]),
        "P(feasible) beside it": _mean(beside),
    }


def outlook(part: float) -> Callable[[Sequence[Stated]], Row]:
    """The gain of more evaluations, as predicted and as it was."""

    def measure(runs: Sequence[Stated]) -> Row:
        return gains(
            [later for run in runs for later in run.later if later.part == part]
        )

    return measure


def gains(found: Sequence[Later]) -> Row:
    """Mean losses before and after, and the ratio of the gains if the true one is above its standard error."""
    _, said_now, said_later, now, after = np.array(found, dtype=float).reshape(-1, 5).T
    predicted = _mean(said_now - said_later)
    realized = _mean(now - after)
    noise = _noise(now - after)
    return {
        "runs": len(said_later),
        "loss said": [_mean(said_now), _mean(said_later)],
        "true ": [_mean(now), _mean(after)],
        "gain said": predicted,
        "gain true": realized,
        "+-": noise,
        "ratio": predicted / realized if realized > noise else np.nan,
    }


def actions(runs: Sequence[Stated]) -> Row:
    """What is advised, what of it is wrong, and takes of prompts that rather break a bound."""
    row: Row = {"runs": len(runs)}
    for action in ("take", "either", "go on", "none"):
        mine = [run for run in runs if run.action == action]
        row[action] = len(mine)
    took = [run for run in runs if run.action == "take"]
    row["take: best"] = _mean([run.is_best for run in took])
    row["take: infeasible"] = _mean([not run.keeps for run in took])
    doubtful = [
        run for run in took if run.p_feasible is not None and run.p_feasible.said < 0.5
    ]
    row["below 1/2"] = len(doubtful)
    row["of them infeasible"] = _mean([not run.keeps for run in doubtful])
    going = [
        later
        for run in runs
        if run.action == "go on"
        for later in run.later
        if later.part == 1.0
    ]
    row["go on: loss now / +100 %"] = [
        _mean([later.now for later in going]),
        _mean([later.after for later in going]),
    ]
    return row


def contenders(runs: Sequence[Stated]) -> Row:
    """How often the true best is among the contenders, and how many these are."""
    share, held = (
        np.array(
            [run.contenders for run in runs if run.contenders is not None], dtype=float
        )
        .reshape(-1, 2)
        .T
    )
    return {
        "runs": len(held),
        "hold the best": _mean(held),
        "+-": _noise(held),
        "share of prompts": _mean(share),
    }


def comparisons(runs: Sequence[Stated]) -> Row:
    """Intervals of the selected prompt's lead over others, and decisions; of equal prompts, every decision is wrong."""
    leads = [lead for run in runs for lead in run.leads]
    decided = [lead.is_right for lead in leads if lead.is_right is not None]
    return {
        "pairs": len(leads),
        "interval holds": _mean(
            [lead.holds for lead in leads if lead.holds is not None]
        ),
        "decided": len(decided),
        "wrong, of all pairs": _mean([lead.is_right is False for lead in leads]),
        "wrong, of those decided": _mean([not is_right for is_right in decided]),
    }


def tenths(runs: Sequence[Stated]) -> list[Row]:
    """A row per tenth of what is said: its mean, what came true, and of how many."""
    rows: list[Row] = []
    columns: dict[str, Array] = {}
    for kind, (title, name) in product(("worlds", "tables"), _PROBABILITIES.items()):
        mine = [
            getattr(run, name)
            for run in runs
            if ("/" in run.task.source) == (kind == "tables")
        ]
        columns[f"{kind}, {title}"] = np.array(
            [probability for probability in mine if probability is not None],
            dtype=float,
        ).reshape(-1, 3)
    for low in range(10):
        row: Row = {"of": f"{low / 10:.1f} to {(low + 1) / 10:.1f}"}
        for name, triples in columns.items():
            here = np.minimum((10 * triples[:, 0]).astype(int), 9) == low
            row[name] = [
                _mean(triples[here, 0]),
                _mean(triples[here, 2]),
                int(here.sum()),
            ]
        rows.append(row)
    return rows


def _mean(values: Any) -> float:
    values = np.asarray(values, dtype=float)
    return float(values.mean()) if len(values) else np.nan


def _noise(values: Any) -> float:
    """The standard error of a mean."""
    values = np.asarray(values, dtype=float)
    return float(values.std() / np.sqrt(len(values))) if len(values) else np.nan


def _clustered(by_run: Sequence[Array]) -> tuple[float, float]:
    """The mean of all, and its standard error where those of a run go together."""
    every = np.concatenate(by_run)
    mean = _mean(every)
    sums = np.array([(values - mean).sum() for values in by_run])
    return mean, float(np.sqrt((sums**2).sum()) / max(1, len(every)))


def groups(runs: Sequence[Stated], by_cell: bool) -> dict[str, list[Stated]]:
    """Runs by what they are counted among: world, family of tables, all of each, and number of prompts."""
    by_group: dict[str, list[Stated]] = {}
    for run in runs:
        cell = f", K={run.task.arms}, b={run.task.per_prompt:g}" if by_cell else ""
        by_group.setdefault(run.family + cell, []).append(run)
    for kind, has_slash in (("WORLDS", False), ("TABLES", True)):
        mine = [run for run in runs if ("/" in run.task.source) == has_slash]
        if mine:
            by_group[f"{kind}, all"] = mine
            for k in sorted({run.task.arms for run in mine}):
                by_group[f"{kind}, K={k}"] = [run for run in mine if run.task.arms == k]
    return by_group


def by_metric(found: Mapping[str, list[Stated]]) -> dict[str, list[Stated]]:
    """Groups of one world with several metrics, one for each metric."""
    parted: dict[str, list[Stated]] = {}
    for name, runs in found.items():
        metrics = list(
            dict.fromkeys(metric for run in runs for metric in run.estimates)
        )
        if (
            "/" in runs[0].task.source
            or len({run.family for run in runs}) > 1
            or len(metrics) == 1
        ):
            parted[name] = runs
            continue
        for metric in metrics:
            parted[f"{name}: {metric}"] = [
                run._replace(estimates={metric: run.estimates[metric]}) for run in runs
            ]
    return parted


def report(runs: Sequence[Stated], by_cell: bool = False) -> dict[str, list[Row]]:
    """Every table, by its title."""
    by_group = groups(runs, by_cell)

    def rows(
        measure: Callable[[Sequence[Stated]], Row],
        of: Mapping[str, list[Stated]] = by_group,
    ) -> list[Row]:
        every = ({"of": name, **measure(mine)} for name, mine in of.items())
        return [
            row
            for row in every
            if next(value for key, value in row.items() if key != "of")
        ]

    constrained = {
        n: [run for run in mine if run.is_constrained] for n, mine in by_group.items()
    }
    constrained = {name: mine for name, mine in constrained.items() if mine}
    return {
        "Overview": rows(overview),
        "Estimates: share within 1.96 errors, and bias in units of the scores' range; by evaluations: within / bias":
            rows(estimates, by_metric(by_group)),
        "P(best) of the selected prompt": rows(chance("p_best")),
        "P(feasible) of the selected prompt": rows(chance("p_feasible"), constrained),
        "P(feasible) of all prompts": rows(of_all, constrained),
        "Tenths of what is said of the selected prompt: said / true / runs": tenths(runs),
        "Loss": rows(losses),
        '"none"': rows(nones, constrained),
        **{f"Outlook, {100 * part:.0f} % more evaluations: losses now / then": rows(outlook(part)) for part in _LATER},
        "Actions": rows(actions),
        "Contenders": rows(contenders),
        "`compare`, the selected prompt with up to five others": rows(comparisons),
    }  # fmt: skip


def text(title: str, rows: Sequence[Row]) -> str:
    """A table to print, with its columns aligned."""
    if not rows:
        return f"{title}: nothing was stated."
    cells = [[_cell(value, name) for name, value in row.items()] for row in rows]
    header = ["", *[name.strip() for name in rows[0]][1:]]
    widths = [max(len(row[i]) for row in [header, *cells]) for i in range(len(header))]
    lined = [[cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
             for row in [header, *cells]]  # fmt: skip
    return f"{title}\n\n{table(lined[0], lined[1:])}"


def _cell(value: Any, name: str) -> str:
    if isinstance(value, list):
        return " / ".join(_cell(part, name) for part in value)
    if value is None:  # what was no number, after JSON
        return "-"
    if isinstance(value, float):
        return (
            "-"
            if np.isnan(value)
            else f"{value:.1f}"
            if name == "ratio"
            else _short(value)
        )
    return str(value)


def _short(value: float) -> str:
    """Three digits after the point, without the zero before it; small ones as they are."""
    digits = (
        f"{value:.3f}"
        if abs(value) >= 0.001 or abs(value) < _ROUNDING
        else f"{value:.0e}"
    )
    return (
        digits.replace("0.", ".", 1) if digits.lstrip("-").startswith("0.") else digits
    )


def main() -> None:
    """Parse the command line, make the runs that are missing, and print what is stated of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=tuple(SUITES), default="small")
    parser.add_argument(
        "--runs", type=Path, default=OUTPUT / "worlds", help="folder of the saved runs"
    )
    parser.add_argument(
        "--tables", type=Path, help="folder of recorded tables: selections on them, too"
    )
    parser.add_argument(
        "--half",
        nargs="+",
        choices=HALVES,
        default=["development"],
        help="of the recorded tables",
    )
    parser.add_argument(
        "--worlds",
        nargs="*",
        choices=tuple(worlds.WORLDS),
        default=tuple(worlds.WORLDS),
    )
    parser.add_argument("--seeds", type=int, help="instead of those of the suite")
    parser.add_argument(
        "--first-seed",
        type=int,
        default=0,
        help="other seeds than those that a model was chosen on",
    )
    parser.add_argument(
        "--by-cell",
        action="store_true",
        help="a row for every number of prompts and of evaluations",
    )
    parser.add_argument(
        "--overview", action="store_true", help="print only the overview and the tenths"
    )
    parser.add_argument("--json", type=Path, help="file to write the numbers to")
    parser.add_argument(
        "--against",
        type=Path,
        help="such a file, from before a change: the overview shows it, too",
    )
    args = parser.parse_args()
    names = (
        []
        if args.tables is None
        else [n for n in replay.replay_names(args.tables) if _half(n) in args.half]
    )
    wanted = tasks(args.suite, args.worlds, names, args.seeds, args.first_seed)
    make(wanted, args.runs, args.tables)
    stated = []
    for task in tqdm(
        [task for task in wanted if (args.runs / task.file).exists()],
        unit="run",
        mininterval=20,
    ):
        with gzip.open(args.runs / task.file, "rt") as file:
            stated.append(state(json.load(file)))
    shown = report(stated, args.by_cell)
    if args.json:
        args.json.write_text(json.dumps(shown, indent=1).replace("NaN", "null"))
    if args.against:
        shown["Overview"] = _with_before(
            shown["Overview"], json.loads(args.against.read_text())["Overview"]
        )
    halves = (
        ""
        if args.tables is None
        else f" and of recorded tables ({', '.join(args.half)})"
    )
    print(
        f"Suite {args.suite}: {len(stated)} runs of {len(args.worlds)} worlds{halves}\n"
    )
    for title, rows in shown.items():
        if args.overview and not title.startswith(("Overview", "Tenths")):
            continue
        print(text(title, rows) + "\n")


def _with_before(rows: Sequence[Row], before: Sequence[Row]) -> list[Row]:
    """Below each row, the one of the same name from before."""
    old = {row["of"]: {**row, "of": "- before"} for row in before}
    return [
        shown
        for row in rows
        for shown in (row, old.get(row["of"]))
        if shown is not None
    ]


def _half(name: str) -> str:
    return "development" if name in DEVELOPMENT else "report"


if __name__ == "__main__":
    main()
