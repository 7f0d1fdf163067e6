"""The best worst segment, and every segment above a bound: `python -m benchmarks.selection.segments --tables FOLDER`.

28 models on the 1,400 questions of MMLU-Pro in 14 categories (`models/mmlu_pro.npz`,
whether each answer is right); and `drawn`, as many with shares of .6 on average, whose
deviation is .07 from model to model and .12 in a category beside that, so that the best
mean is rarely the best worst category:

- *worst*: `maximize("right", worst_segment=True)`. Quality is that of the answer's
  worst category: 1 for the best model in this sense, 0 from the median down.
- *every*: the best mean among the models whose share of right answers is in each
  category at least the bound, the median of all models' worst categories; quality
  likewise among the feasible ones, 0 for an infeasible answer.

Ways: `auto` and `uniform` with the goal that speaks of segments; `auto by the mean`,
which knows nothing of them; and for *every* also `auto, 14 metrics`, where an
evaluation is a question of each category, so that it costs 14. The models are each time
a random half. Prints means over seeds and their standard errors.
"""

import argparse
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TypeAlias

import numpy as np
from tqdm import tqdm

from asktell import BestFeasible, Selector, at_least, maximize
from asktell.problem.goals import Goal
from asktell.simulation.replay import play
from asktell.simulation.truth import Truth, means_of
from benchmarks.problems import replay
from benchmarks.problems.table import Array
from benchmarks.results import table

MEAN, WORST = BestFeasible("right"), BestFeasible(maximize("right", worst_segment=True))
Way: TypeAlias = Callable[[Array, list[str], int, int], int]


def by_question(goal: Goal, method: str) -> Way:
    """Select with an evaluation per question."""

    def way(right: Array, segments: list[str], budget: int, seed: int) -> int:
        prompts = [f"model {i}" for i in range(len(right))]
        selector = Selector(
            prompts, goal, budget, method, right.shape[1], seed=seed, segments=segments
        )
        best = play(selector, right[:, :, None]).best
        assert best is not None
        return int(best.id)

    return way


def by_metrics(bound: float) -> Way:
    """Select with a metric per category: the n-th evaluation is the n-th question of each."""

    def way(right: Array, segments: list[str], budget: int, seed: int) -> int:
        names = sorted(set(segments))
        rng, labels = np.random.default_rng(seed), np.array(segments)
        order = [rng.permutation(np.flatnonzero(labels == name)) for name in names]
        n_examples = min(map(len, order))
        goal = BestFeasible("right", {name: at_least(bound) for name in names})
        selector = Selector(
            [f"model {i}" for i in range(len(right))],
            goal,
            budget // len(names),
            "auto",
            n_examples,
            seed=seed,
        )
        while trial := selector.ask():
            scores = [
                right[int(trial.prompt_id), questions[trial.example or 0]]
                for questions in order
            ]
            selector.tell(
                trial,
                {
                    "right": float(np.mean(scores)),
                    **dict(zip(names, scores, strict=True)),
                },
            )
        best = selector.result().best
        assert best is not None
        return int(best.id)

    return way


def every_segment(bound: float) -> BestFeasible:
    """The best mean of those that are good enough in every category."""
    return BestFeasible("right", {"right": at_least(bound, in_every_segment=True)})


def ways(bound: float) -> dict[str, dict[str, Way]]:
    """By goal and name."""
    every = every_segment(bound)
    return {
        "worst": {
            "auto": by_question(WORST, "auto"),
            "auto by the mean": by_question(MEAN, "auto"),
            "uniform": by_question(WORST, "uniform"),
        },
        "every": {
            "auto": by_question(every, "auto"),
            "auto by the mean": by_question(MEAN, "auto"),
            "auto, 14 metrics": by_metrics(bound),
            "uniform": by_question(every, "uniform"),
        },
    }


def qualities(right: Array, segments: list[str], bound: float) -> dict[str, Array]:
    """(K,) by goal."""
    by_goal = {}
    for name, goal in (("worst", WORST), ("every", every_segment(bound))):
        truth = Truth(*means_of(right[:, :, None], goal, segments))
        by_goal[name] = np.array(
            [truth.judge([model])["quality"] for model in range(len(right))]
        )
    return by_goal


def worst_of(right: Array, segments: list[str]) -> Array:
    """(K,) each model's share of right answers in its worst category."""
    labels = np.array(segments)
    return np.asarray(
        np.min(
            [right[:, labels == name].mean(axis=1) for name in sorted(set(segments))],
            axis=0,
        )
    )


def drawn(n_models: int, segments: list[str]) -> Array:
    """(K, N) right answers of models that are good at different categories."""
    rng = np.random.default_rng(7)
    names, places = np.unique(segments, return_inverse=True)
    share = (
        0.6
        + 0.07 * rng.normal(size=(n_models, 1))
        + 0.12 * rng.normal(size=(n_models, len(names)))
    )
    return np.asarray(
        rng.random((n_models, len(segments))) < np.clip(share, 0.05, 0.95)[:, places],
        dtype=np.float64,
    )


def main() -> None:
    """Parse the command line, run, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tables",
        type=Path,
        default=replay.default_folder(),
        help="folder of recorded tables",
    )
    parser.add_argument("--per-prompt", nargs="+", type=int, default=[5, 15, 30, 60])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--sources",
        nargs="+",
        choices=("mmlu_pro", "drawn"),
        default=["mmlu_pro", "drawn"],
    )
    args = parser.parse_args()
    with np.load(args.tables / "models" / "mmlu_pro.npz") as file:
        scores, segments = file["scores"][:, :, 0], file["segments"].tolist()
    sources = {"mmlu_pro": scores, "drawn": drawn(len(scores), segments)}
    rows = []
    for source, b in product(args.sources, args.per_prompt):
        scores, outcomes = sources[source], dict[tuple[str, str], list[float]]()
        bound = float(np.round(np.median(worst_of(scores, segments)), 2))
        for seed in tqdm(range(args.seeds), desc=f"{source}, b = {b}"):
            some = np.random.default_rng([seed, 5]).permutation(len(scores))[
                : len(scores) // 2
            ]
            right = scores[some]
            quality = qualities(right, segments, bound)
            for goal, all_ways in ways(bound).items():
                for name, way in all_ways.items():
                    outcomes.setdefault((goal, name), []).append(
                        quality[goal][way(right, segments, b * len(right), seed)]
                    )
        for (goal, name), of_seeds in outcomes.items():
            error = np.std(of_seeds, ddof=1) / np.sqrt(len(of_seeds))
            rows.append(
                [source, goal, str(b), name, f"{np.mean(of_seeds):.3f}", f"{error:.3f}"]
            )
    print(table(["table", "goal", "b", "way", "quality", "standard error"], rows))


if __name__ == "__main__":
    main()
