"""One prompt per segment: `python -m benchmarks.selection.assignment --tables FOLDER`.

Prints three tables about `result.assignment()`:

1. *Equal*: all prompts are equally good in every segment, so each segment with another
   prompt than the selected one is a mistake. Scores are a finished table, or a run of
   `auto` that is looked at ten times.
2. *Simulated*: prompts differ over all, and in each segment beside that. The stated gain
   over the selected prompt is compared with the true one, and `p_not_worse` with how
   often no segment is truly worse.
3. *Recorded* (`--tables`): half of the examples assign, and the other half shows the
   gain. 28 models on the 14 categories of MMLU-Pro, and the translation systems of WMT25
   on four kinds of text (GEMBA-ESA by GPT-4.1, from 0 to 1). Halves are random within
   each segment. Both halves of a split are used, in turn, with all candidates, and with
   8 random ones.

Gains are in units of the scores, from 0 to 1, over all segments. An error is a standard
error over tables. That of recorded tables is over splits, which share examples.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import asktell
from asktell import Assignment, BestFeasible, maximize
from benchmarks.results import table

Floats = npt.NDArray[np.float64]
GOAL = BestFeasible(maximize("score", range=(0, 1)))
LOOKS = 10
KINDS = ("0/1", "graded")
NOISE = 0.2  # of graded scores; 0.2 for examples, too


class World(NamedTuple):
    """Simulated scores (K, N) of prompts on examples, the segment of each example, and the true means (K, G)."""

    scores: Floats
    labels: list[str]
    means: Floats


def world(
    kind: str, k: int, g: int, per_segment: int, apart: float, rng: np.random.Generator
) -> World:
    """Prompts whose deviations over all, and in each segment beside that, are `apart` on average."""
    segments = np.repeat(np.arange(g), per_segment)
    ability = 0.6 + apart * (rng.normal(size=(k, 1)) + rng.normal(size=(k, g)))
    ability += 0.1 * rng.normal(size=g)
    ease = 0.2 * rng.normal(size=len(segments))
    cells = ability[:, segments] + ease
    if kind == "graded":
        scores = np.clip(cells + NOISE * rng.normal(size=cells.shape), 0.0, 1.0)
        deviation = (0.2**2 + NOISE**2) ** 0.5
    else:
        scores = (rng.random(cells.shape) < np.clip(cells, 0.0, 1.0)).astype(np.float64)
        deviation = 0.2
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    shares = np.clip(ability[..., None] + deviation * points, 0.0, 1.0)
    means = shares @ (weights / weights.sum())
    return World(scores, [f"s{kind}" for kind in segments], np.asarray(means))


def assigned(scores: Floats, labels: Sequence[str]) -> Assignment:
    """The assignment of a finished table."""
    return asktell.analyze(scores, GOAL, segments=labels).assignment()


def looked_at(drawn: World, budget: int, seed: int) -> bool:
    """Whether an assignment at one of several looks at a run of `auto` has another prompt in a segment."""
    k, n = drawn.scores.shape
    selector = asktell.Selector(
        [f"p{arm}" for arm in range(k)], GOAL, budget, "auto", n, seed=seed, segments=drawn.labels
    )  # fmt: skip
    looks = np.linspace(budget / LOOKS, budget, LOOKS).astype(int).tolist()
    while trial := selector.ask():
        assert trial.example is not None
        score = float(drawn.scores[int(trial.prompt_id), trial.example])
        selector.tell(trial, {"score": score})
        if selector.spent in looks and selector.result().assignment().changed:
            return True
    return bool(selector.result().assignment().changed)


def equals(n_tables: int, n_runs: int) -> Iterator[list[str]]:
    """A row for each size and kind of scores: how often an equal prompt is assigned."""
    for kind, (k, g, size) in product(KINDS, ((4, 3, 20), (12, 5, 20), (12, 5, 60))):
        wrong = 0
        for seed in range(n_tables):
            rng = np.random.default_rng([seed, k, g, size])
            drawn = world(kind, k, g, size, 0.0, rng)
            wrong += bool(assigned(drawn.scores, drawn.labels).changed)
        sizes = [str(k), str(g), str(size)]
        share = f"{100 * wrong / n_tables:.1f}"
        yield ["finished tables", kind, *sizes, str(n_tables), share]
    k, g, size = 4, 3, 40
    for kind in KINDS:
        wrong = 0
        for seed in range(n_runs):
            rng = np.random.default_rng([seed, k, g, size])
            wrong += looked_at(world(kind, k, g, size, 0.0, rng), 2 * size * g, seed)
        share = f"{100 * wrong / max(1, n_runs):.1f}"
        yield ["runs", kind, str(k), str(g), str(size), str(n_runs), share]


class Line(NamedTuple):
    """One assignment beside the truth: gains over all segments, and the changed segments of which some are worse."""

    stated: float
    realized: float
    p_not_worse: float
    none_worse: bool
    n_changed: int
    n_worse: int


def line(assignment: Assignment, means: Floats, labels: Sequence[str]) -> Line:
    """An assignment beside the true means (K, G) of the prompts in the segments, by ascending labels."""
    names, sizes = np.unique(labels, return_counts=True)
    chosen = [int(assignment.candidates[name]) for name in names]
    leads = means[chosen, np.arange(len(names))] - means[int(assignment.single)]
    n_worse = int((leads < 0.0).sum())
    return Line(
        assignment.gain,
        float(leads @ sizes / sizes.sum()),
        assignment.p_not_worse,
        n_worse == 0,
        len(assignment.changed),
        n_worse,
    )


def summary(lines: Sequence[Line]) -> list[str]:
    """The cells about assignments of one kind."""
    off = np.array([each.stated - each.realized for each in lines])
    changing = [each for each in lines if each.n_changed]
    n_changed = sum(each.n_changed for each in lines)
    n_worse = sum(each.n_worse for each in lines)
    stated = float(np.mean([each.stated for each in lines]))
    realized = float(np.mean([each.realized for each in lines]))
    sure = [each.p_not_worse for each in changing]
    right = [each.none_worse for each in changing]
    return [
        str(len(lines)),
        str(n_changed),
        f"{n_worse} ({100 * n_worse / max(1, n_changed):.1f}%)",
        f"{stated:.4f}",
        f"{realized:.4f}",
        f"{off.mean():+.4f} ± {off.std() / len(off) ** 0.5:.4f}",
        f"{np.mean(sure):.2f}" if sure else "",
        f"{np.mean(right):.2f}" if right else "",
    ]


HEAD = (
    "tables", "changed segments", "of these worse", "stated gain", "true gain", "stated less true",
    "stated P(none worse)", "none worse",
)  # fmt: skip


def simulated(n_tables: int) -> Iterator[list[str]]:
    """A row for each size, kind of scores and distance of the prompts."""
    for kind, (k, g, size), apart in product(
        KINDS, ((5, 4, 40), (20, 8, 40)), (0.05, 0.15)
    ):
        lines = []
        for seed in range(n_tables):
            rng = np.random.default_rng([seed, k, g, size, round(100 * apart)])
            drawn = world(kind, k, g, size, apart, rng)
            names, first = np.unique(drawn.labels, return_index=True)
            order = [int(name[1:]) for name in names]
            assert len(first) == g
            assignment = assigned(drawn.scores, drawn.labels)
            lines.append(line(assignment, drawn.means[:, order], drawn.labels))
        yield [kind, str(k), str(g), str(size), f"{apart:g}", *summary(lines)]


def recorded(folder: Path) -> Iterator[tuple[str, Floats, npt.NDArray[np.str_]]]:
    """Recorded scores (K, N) from 0 to 1, and the segment of each example."""
    with np.load(folder / "models/mmlu_pro.npz", allow_pickle=False) as data:
        yield "mmlu_pro", data["scores"][:, :, 0].astype(np.float64), data["segments"]
    for path in sorted((folder / "wmt25").glob("*.npz")):
        with np.load(path, allow_pickle=False) as data:
            first = data["scores"][:, :, 0].astype(np.float64) / 100.0
            keeps = ~np.isnan(first).any(axis=0)
            yield f"wmt25 {path.stem}", first[:, keeps], data["domain"][keeps]


def halves(labels: npt.NDArray[np.str_], seed: int) -> list[npt.NDArray[np.int64]]:
    """The examples of two halves, each with half of every segment."""
    rng = np.random.default_rng(seed)
    parts: tuple[list[int], list[int]] = [], []
    for name in np.unique(labels):
        examples = rng.permutation(np.flatnonzero(labels == name))
        middle = (len(examples) + seed % 2) // 2
        parts[0].extend(examples[:middle].tolist())
        parts[1].extend(examples[middle:].tolist())
    return [np.array(sorted(part)) for part in parts]


FEW = 8  # candidates of a recorded table


def by_table(folder: Path, n_splits: int) -> Iterator[list[str]]:
    """A row for each recorded table with some of its candidates, and two for all tables."""
    some, everything = list[Line](), list[Line]()
    for name, scores, labels in recorded(folder):
        k, g = len(scores), len(np.unique(labels))
        of_some = []
        for seed in range(n_splits):
            few = np.random.default_rng(seed).permutation(k)[:FEW]
            of_some += split(scores[few], labels, seed)
            # A quarter of the splits, since larger tables take longer
            everything += split(scores, labels, seed) if seed % 4 == 0 else []
        some += of_some
        yield [name, f"{FEW} of {k}", str(g), *summary(of_some)]
    yield ["all tables", str(FEW), "", *summary(some)]
    yield ["all tables", "all", "", *summary(everything)]


def split(scores: Floats, labels: npt.NDArray[np.str_], seed: int) -> list[Line]:
    """The assignments by both halves of the examples, each with the gains in the other half."""
    first, second = halves(labels, seed)
    lines = []
    for at, then in ((first, second), (second, first)):
        assignment = assigned(scores[:, at], labels[at].tolist())
        means = np.stack(
            [
                scores[:, then[labels[then] == name]].mean(axis=1)
                for name in np.unique(labels[at])
            ],
            axis=1,
        )
        lines.append(line(assignment, means, labels[at].tolist()))
    return lines


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--equal", type=int, default=400, help="tables of a row")
    parser.add_argument("--runs", type=int, default=60, help="runs of a row")
    parser.add_argument("--worlds", type=int, default=100, help="tables of a row")
    parser.add_argument("--splits", type=int, default=12, help="of a recorded table")
    parser.add_argument("--tables", type=Path, help="a folder of recorded tables")
    args = parser.parse_args()
    head = ("scores", "prompts", "segments", "examples in each")
    if args.equal:
        rows = list(equals(args.equal, args.runs))
        print(table(("of", *head, "number", "wrong, %"), rows), "\n", flush=True)
    if args.worlds:
        rows = list(simulated(args.worlds))
        print(table((*head, "apart", *HEAD), rows), "\n", flush=True)
    if args.tables is not None:
        rows = list(by_table(args.tables, args.splits))
        sys.stdout.write(table(("table", "candidates", "segments", *HEAD), rows) + "\n")


if __name__ == "__main__":
    main()
