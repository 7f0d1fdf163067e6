"""Whether verdicts are right: `python -m benchmarks.selection.verdicts --tables FOLDER`.

A recorded table is the population: random prompts of it, and examples drawn from it with replacement as those given. So
the means over new examples like them are known exactly: they are the table's. `auto` runs to b evaluations per prompt
under either kind of bound, on the second metric or on the first, drawn within half of a deviation of the prompts' mean.
P(best) and P(feasible) of the answer are held against the truth, by tenths; their Brier scores also against those of a
bootstrap of the scores. With `--outlook` runs of three evaluations per prompt go on for a half, once and twice as many,
and what the outlook predicted is held against what came.

Appends a JSON line per run to --output and skips runs that are there.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

import asktell
from asktell.simulation.lines import read_lines
from asktell.simulation.replay import play
from benchmarks.problems import replay
from benchmarks.problems.table import Table
from benchmarks.results import table
from benchmarks.selection.run import OUTPUT

Line: TypeAlias = dict[str, Any]
Array: TypeAlias = npt.NDArray[np.float64]

# Models of the statement were chosen on these tables, and on none of the others.
DEVELOPMENT = replay.DEVELOPMENT | {"models/agentopt_mathqa", "models/mteb_english_v2"}
_MOST_EXAMPLES, _MOST_PROMPTS = 100, 700
_PARTS = (0.5, 1.0, 2.0)  # of the outlook
_BOOTSTRAPS = 200
_FEWEST = 50  # runs in a tenth that is shown
_NEAR = 0.05  # of a probability; `*` where it is further off by more than two standard errors over tables
_AXES = ("table", "prompts", "per_prompt", "bound", "seed")


class Drawn(NamedTuple):
    """Scores (K, N, 2) of the examples given in the goal's order of metrics, means (K, 2) over new ones, the goal."""

    cells: Array
    means: Array
    goal: asktell.BestFeasible


def draw(source: Table, n_prompts: int, per_prompt: float, bound: str, seed: int) -> Drawn:
    """Random prompts and examples of a table; `bound` is "second" or "first", the metric that is bounded."""
    rng = np.random.default_rng([seed, n_prompts, round(per_prompt), bound == "first", sum(map(ord, source.name))])
    rows = np.sort(rng.permutation(len(source.prompts))[:n_prompts])
    given = rng.integers(0, source.scores.shape[1], min(_MOST_EXAMPLES, source.scores.shape[1]))
    order = [1, 0] if bound == "first" else [0, 1]
    scores = source.scores[:, :, order]
    means = scores[rows].mean(axis=1)
    spread = max(means[:, 1].std(), 0.5 * scores.mean(axis=1)[:, 1].std())
    objective, constrained = (source.metrics[j] for j in order)
    goal = asktell.BestFeasible(objective, {constrained: float(means[:, 1].mean() + 0.5 * rng.normal() * spread)})
    return Drawn(scores[rows][:, given], means, goal)


def measure(drawn: Drawn, per_prompt: float, seed: int, outlook: bool) -> Line:
    """What a verdict said, and what is true."""
    n_prompts, n_examples, _ = drawn.cells.shape
    budget = round(per_prompt * n_prompts)
    prompts = [f"p{i}" for i in range(n_prompts)]
    selector = asktell.Selector(prompts, drawn.goal, budget, "auto", examples=n_examples, seed=seed)
    now = _play(selector, drawn)
    verdict = selector.result().verdict
    line: Line = {"p_best": verdict.p_best, "p_feasible": verdict.p_feasible, "loss": verdict.loss}
    line |= {"loss_95": verdict.loss_95, "truth": now, "bootstrap": _bootstrap(selector, drawn.goal)}
    if outlook:
        line["outlook"], done = [], 0
        for part, then in zip(_PARTS, verdict.outlook, strict=False):
            if then.evaluations != round(part * budget):
                break
            selector.extend(then.evaluations - done)
            done = then.evaluations
            line["outlook"].append([part, then.p_best, then.loss, *_play(selector, drawn)])
    return line


def _play(selector: asktell.Selector, drawn: Drawn) -> list[float]:
    """Whether the answer is the best on new examples, whether it is feasible, and how much worse than the best."""
    answer = int(play(selector, drawn.cells).selected[0].id)
    values = drawn.goal.values(drawn.means)
    feasible = values[:, 1] >= 0
    best = float(values[feasible, 0].max(initial=-np.inf))
    is_best = feasible[answer] and values[answer, 0] == best
    spread = float(np.ptp(values[:, 0])) or 1.0
    return [float(is_best), float(feasible[answer]), max(0.0, best - float(values[answer, 0])), spread]


def _bootstrap(selector: asktell.Selector, goal: asktell.BestFeasible) -> list[float]:
    """P(best) and P(feasible) of the answer by resampling the examples that were seen."""
    history, n_arms = selector.state.history, selector.state.problem.n_arms
    rng, arms, scores = np.random.default_rng(len(history)), history.arms(), history.scores()
    answer = int(selector.result().selected[0].id)
    seen, places = np.unique(history.examples(), return_inverse=True)
    hits = np.zeros(2)
    for _ in range(_BOOTSTRAPS):
        weights = rng.multinomial(len(seen), np.full(len(seen), 1.0 / len(seen)))[places].astype(float)
        counts = np.bincount(arms, weights, n_arms)
        sums = np.stack([np.bincount(arms, weights * column, n_arms) for column in scores.T], axis=1)
        values = goal.values(sums / np.maximum(counts, 1e-9)[:, None])
        values[counts == 0] = -np.inf
        keeps = values[:, 1] >= 0
        best = np.where(keeps, values[:, 0], -np.inf)
        hits += [keeps[answer] and best[answer] == best.max(), keeps[answer]]
    return (hits / _BOOTSTRAPS).tolist()


def tenths(lines: Sequence[Line]) -> str:
    """A row per tenth of what is said: its mean, the share that came true, and the runs, for every kind and bound."""
    columns = []
    for kind, bound, at in product(("prompts", "models"), ("second", "first"), (0, 1)):
        mine = [line for line in lines if line["kind"] == kind and line["bound"] == bound]
        said = np.array([line[("p_best", "p_feasible")[at]] for line in mine])
        sources = np.unique([line["table"] for line in mine], return_inverse=True)[1]
        columns.append(
            (f"{kind}, bound on the {bound}, {('P(best)', 'P(feasible)')[at]}", said, _true(mine, at), sources)
        )
    rows = []
    for low in range(10):
        cells = [f"{low / 10:.1f} to {(low + 1) / 10:.1f}"]
        for _, said, true, sources in columns:
            here = np.minimum((10 * said).astype(int), 9) == low
            cells.append(_tenth(said[here], true[here], sources[here]) if here.sum() >= _FEWEST else "")
        rows.append(cells)
    return table(["said", *(column[0] for column in columns)], rows)


def _tenth(said: Array, true: Array, sources: npt.NDArray[np.int64]) -> str:
    off = true - said
    noise = float(np.sqrt((np.bincount(sources, off - off.mean()) ** 2).sum())) / len(off)
    mark = "*" if abs(off.mean()) > _NEAR + 2.0 * noise else ""
    return f"{said.mean():.2f} / {true.mean():.2f}{mark} ({len(off)})"


def briers(lines: Sequence[Line]) -> str:
    """Brier scores by b, of the verdict and of a bootstrap, and how often the loss was below its bound."""
    rows = []
    for kind, bound in product(("prompts", "models"), ("second", "first")):
        for b in sorted({line["per_prompt"] for line in lines}):
            mine = [x for x in lines if (x["kind"], x["bound"], x["per_prompt"]) == (kind, bound, b)]
            if not mine:
                continue
            cells = [kind, bound, f"{b:g}", str(len(mine))]
            for at, name in enumerate(("p_best", "p_feasible")):
                said, true = np.array([line[name] for line in mine]), _true(mine, at)
                other = np.array([line["bootstrap"][at] for line in mine])
                cells.append(f"{said.mean():.2f} / {true.mean():.2f}")
                cells.append(f"{((said - true) ** 2).mean():.3f} / {((other - true) ** 2).mean():.3f}")
            loss = np.array([[line["loss_95"], line["truth"][2]] for line in mine])
            cells.append(f"{100 * (loss[:, 1] <= loss[:, 0] + 1e-9).mean():.0f}")
            rows.append(cells)
    return table(
        ["tables", "bound on", "b", "runs", "P(best) said / true", "its Brier score / bootstrap's",
         "P(feasible) said / true", "its Brier score / bootstrap's ", "within loss_95 (%)"], rows
    )  # fmt: skip


def outlooks(lines: Sequence[Line]) -> str:
    """Predicted and realized P(best) and loss, in units of the spread of prompts' means."""
    rows = []
    for kind, part in product(("prompts", "models"), _PARTS):
        found = [(p_best, loss / spread, hit, lost / spread) for line in lines if line["kind"] == kind
                 for at, p_best, loss, hit, _, lost, spread in line.get("outlook", []) if at == part]  # fmt: skip
        if found:
            said, loss, hit, lost = np.array(found).mean(axis=0)
            rows.append(
                [kind, f"{100 * part:.0f} %", str(len(found)), f"{said:.2f} / {hit:.2f}", f"{loss:.3f} / {lost:.3f}"]
            )
    return table(["tables", "more evaluations", "runs", "P(best) predicted / true", "loss predicted / true"], rows)


def _true(lines: Sequence[Line], at: int) -> Array:
    return np.array([line["truth"][at] for line in lines])


def main() -> None:
    """Parse the command line, run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, default=replay.default_folder(), help="folder of recorded tables")
    parser.add_argument("--half", choices=("development", "report"), default="report")
    parser.add_argument("--prompts", nargs="+", type=int, default=[2, 5, 12, 30, 100])
    parser.add_argument("--per-prompt", nargs="+", type=float, default=[1, 2, 3, 10])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--outlook", action="store_true", help="go on, and measure the outlook too")
    parser.add_argument("--output", type=Path, default=OUTPUT / "verdicts.jsonl")
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    names = [n for n in replay.replay_names(args.tables) if (n in DEVELOPMENT) == (args.half == "development")]
    sources = {name: replay.replay_table(name, args.tables, _MOST_PROMPTS) for name in names}
    lines = {tuple(line[axis] for axis in _AXES): line for line in read_lines(args.output)}
    wanted = [(name, k, b, bound, seed) for seed, name, k, b, bound in product(
        range(args.seeds), names, args.prompts, args.per_prompt, ("second", "first")
    ) if k <= len(sources[name].prompts)]  # fmt: skip
    with args.output.open("a") as file:
        for task in tqdm([task for task in wanted if task not in lines], unit="run", mininterval=20):
            name, k, b, bound, seed = task
            found = measure(draw(sources[name], k, b, bound, seed), b, seed, args.outlook)
            kind = "models" if name.startswith(("models/", "alpaca_eval/", "summarization/")) else "prompts"
            lines[task] = {**dict(zip(_AXES, task, strict=True)), "kind": kind, **found}
            file.write(json.dumps(lines[task]) + "\n")
            file.flush()
    there = [lines[task] for task in wanted if task in lines]
    for said in (tenths(there), briers(there), outlooks(there) if args.outlook else ""):
        print(said + "\n")


if __name__ == "__main__":
    main()
