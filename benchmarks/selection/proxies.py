"""What cheap proxies are worth: the selected prompt with and without them.

`python -m benchmarks.selection.proxies --tables FOLDER` prints, for each case and
budget, the mean quality of the prompt that `auto` selects without proxies and with all
of their scores known from the start, and the share of the estimates within 1.96
standard errors of the truth. Differences are over seeds, which both runs share.

Worlds have 24 prompts, 100 examples and Gaussian scores, whose variance belongs to
prompts, examples and residuals by .15, .35 and .50. A proxy's parts correlate with
these parts as the case says. Tables of summarization have people's grades as the goal,
and other grades, ROUGE-L and the number of words as proxies.
"""

import argparse
from collections.abc import Iterator, Mapping
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asktell import BestFeasible
from asktell.simulation.simulate import run_once
from benchmarks.problems import replay
from benchmarks.problems.table import Array
from benchmarks.results import table

K, N = 24, 100
SHARES = (0.15, 0.35, 0.5)  # of prompts, examples and residuals
GOAL = BestFeasible("score")

# Name of a world -> the number of proxies, and the correlations of their parts of
# prompts, examples and residuals with those of the score
WORLDS: Mapping[str, tuple[int, float, float, float]] = {
    "correlation 0": (1, 0.0, 0.0, 0.0),
    "correlation 0, 3 proxies": (3, 0.0, 0.0, 0.0),
    "correlation .3": (1, 0.3, 0.3, 0.3),
    "correlation .6": (1, 0.6, 0.4, 0.4),
    "correlation .9": (1, 0.9, 0.4, 0.4),
    "correlation .9, 3 proxies": (3, 0.9, 0.4, 0.4),
    "correlation .9 of prompts only": (1, 0.9, 0.0, 0.0),
    "perfect": (1, 1.0, 1.0, 1.0),
}
GRADES = ("coherence", "consistency", "fluency", "relevance")
CHEAP = ("rougeL_f_ours", "summary_words")


class Case(NamedTuple):
    """Scores (K, N), the prompts' true means, and the scores of each proxy (K, N)."""

    scores: Array
    truth: Array
    proxies: dict[str, Array]


def world(name: str, seed: int) -> Case:
    """A world of this name."""
    n_proxies, *correlations = WORLDS[name]
    rng = np.random.default_rng([seed, 2026])
    parts = [
        rng.normal(size=(K, 1)),
        rng.normal(size=(1, N)),
        rng.normal(size=(K, N)),
    ]
    sizes = np.sqrt(SHARES)
    proxies = {}
    for k in range(n_proxies):
        like = [
            r * part + np.sqrt(1.0 - r**2) * rng.normal(size=part.shape)
            for r, part in zip(correlations, parts, strict=True)
        ]
        # In another unit than the score
        proxies[f"proxy {k}"] = 3.0 + 2.0 * sum(
            size * part for size, part in zip(sizes, like, strict=True)
        )
    scores = np.asarray(sum(s * p for s, p in zip(sizes, parts, strict=True)))
    return Case(scores, sizes[0] * parts[0][:, 0], proxies)


def summarization(folder: Path, goal: str, by: tuple[str, ...]) -> Case:
    """People's grades of 16 summarizers, with other metrics as proxies."""
    with np.load(folder / "summarization" / "summeval.npz") as file:
        metrics, values = file["metrics"].tolist(), file["values"].astype(float)
    scores = values[:, :, metrics.index(goal)]
    proxies = {name: values[:, :, metrics.index(name)] for name in by}
    return Case(scores, scores.mean(axis=1), proxies)


def cases(folder: Path | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The name of each case, and its arguments."""
    for name in WORLDS:
        yield name, (name,)
    if folder is not None:
        for goal in GRADES:
            yield f"{goal} by ROUGE-L and words", (goal, *CHEAP)
        for goal in GRADES:
            by = tuple(grade for grade in GRADES if grade != goal)
            yield f"{goal} by the other grades", (goal, *by)


def quality(truth: Array, chosen: int) -> float:
    """1 for the best prompt, 0 for the median and below."""
    best = float(truth.max())
    return max(0.0, 1.0 - (best - truth[chosen]) / (best - float(np.median(truth))))


def run(task: tuple[tuple[str, ...], Path | None, float, int]) -> Array:
    """Quality without and with proxies, and coverage without and with them."""
    (name, *by), folder, per_prompt, seed = task
    if by:
        assert folder is not None
        case = summarization(folder, name, tuple(by))
    else:
        case = world(name, seed)
    rows = []
    for proxies in ({}, case.proxies):
        n = round(per_prompt * len(case.scores))
        scores = case.scores[:, :, None]
        answer, _, result = run_once("auto", scores, GOAL, n, seed, proxies=proxies)
        assert result is not None
        entries = [e for e in result.prompts if e.standard_error["score"] is not None]
        means = np.array([entry.estimate["score"] for entry in entries])
        errors = np.array([entry.standard_error["score"] for entry in entries])
        truth = case.truth[[int(entry.id) for entry in entries]]
        covered = (np.abs(means - truth) <= 1.96 * errors).mean() if entries else np.nan
        rows.append((quality(case.truth, answer[0]), covered))
    return np.array(rows).T.ravel()


def main() -> None:
    """Parse the command line, run all cases, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, default=replay.default_folder())
    parser.add_argument("--per-prompt", nargs="+", type=float, default=[0.5, 1, 3])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--only", default="", help="beginning of the names of cases")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    header = [
        "case",
        "b",
        "without proxies",
        "with proxies",
        "difference",
        "covered without",
        "covered with",
    ]
    print(table(header, []), flush=True)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    with Pool(args.jobs) as pool:
        for name, about in cases(args.tables):
            if not name.startswith(args.only):
                continue
            for b in args.per_prompt:
                tasks = [(about, args.tables, b, seed) for seed in seeds]
                outcomes = np.array(pool.map(run, tasks))
                gain = outcomes[:, 1] - outcomes[:, 0]
                error = gain.std(ddof=1) / np.sqrt(len(gain))
                means = np.nanmean(outcomes, axis=0)
                row = [
                    name,
                    f"{b:g}",
                    *(f"{x:.2f}" for x in means[:2]),
                    f"{gain.mean():+.3f} ± {error:.3f}",
                    # On tables, the mean over new inputs is not known
                    *(f"{x:.3f}" if len(about) == 1 else "" for x in means[2:]),
                ]
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
