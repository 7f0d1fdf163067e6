"""How often limits on tails, failures and segments are kept as stated: `python -m benchmarks.selection.limits`.

Simulated tables of 60 examples for 2 and 8 prompts, scores of 0 and 1, b = 3, 10 or 30
evaluations per prompt by `auto`. The truth is that of new examples. P(feasible) of
every prompt evaluated, in fifths: stated / true (how many).
"""

import argparse
from collections.abc import Iterator, Mapping

import numpy as np
from tqdm import tqdm

from asktell import BestFeasible, Selector, at_least, at_most
from asktell.problem.goals import Goal
from benchmarks.problems.table import Array
from benchmarks.results import table

N, SEGMENTS = 60, 4
FIFTHS = (0.0, 0.2, 0.4, 0.6, 0.8)


def probabilities(
    goal: Goal, scores: Mapping[str, Array], budget: int, seed: int
) -> Iterator[tuple[int, float]]:
    """Prompts that were evaluated, and their P(feasible); a score of "failed" is whether an evaluation fails."""
    failed = scores.get("failed", np.zeros((len(scores["right"]), N)))
    labels = [str(i % SEGMENTS) for i in range(N)] if goal.by_segment else None
    selector = Selector(
        [f"p{i}" for i in range(len(failed))],
        goal,
        budget,
        "auto",
        N,
        seed=seed,
        max_failure_rate=1.0,
        segments=labels,
    )
    while trial := selector.ask():
        cell = int(trial.prompt_id), trial.example or 0
        if failed[cell]:
            selector.fail(trial, "simulated")
        else:
            selector.tell(
                trial,
                {name: float(scores_of[cell]) for name, scores_of in scores.items()},
            )
    for arm, entry in enumerate(selector.result().prompts):
        if entry.evaluations and entry.p_feasible is not None:
            yield arm, entry.p_feasible


def cases(
    k: int, rng: np.random.Generator
) -> Iterator[tuple[str, Goal, dict[str, Array], Array]]:
    """Of each kind the goal, the scores, and who keeps the limit on new examples."""
    ability, ease = rng.normal(0, 0.5, (k, 1)), rng.normal(0, 1.5, N)
    right = (rng.random((k, N)) < 1 / (1 + np.exp(-ability - ease))).astype(float)
    share = 1 / (1 + np.exp(-2.5 - rng.normal(size=k)))
    latency = np.where(
        rng.random((k, N)) < share[:, None], 1.0, 3.0
    ) + 0.1 * rng.random((k, N))
    for quantile in (0.9, 0.95):
        goal = BestFeasible("right", {"latency": at_most(2.0, quantile=quantile)})
        yield "quantile", goal, {"right": right, "latency": latency}, share >= quantile
    rate = rng.beta(1, 12, k)
    failed = (rng.random((k, N)) < rate[:, None]).astype(float)
    yield (
        "failure rate",
        BestFeasible("right", {"failure_rate": at_most(0.1)}),
        {"right": right, "failed": failed},
        rate <= 0.1,
    )
    parts = (
        rng.normal(0, size, shape)
        for size, shape in ((0.1, (k, 1)), (0.08, (1, SEGMENTS)), (0.08, (k, SEGMENTS)))
    )
    of_segment = np.clip(0.65 + sum(parts), 0.02, 0.98)
    right = (rng.random((k, N)) < of_segment[:, np.arange(N) % SEGMENTS]).astype(float)
    goal = BestFeasible("right", {"right": at_least(0.5, in_every_segment=True)})
    yield "every segment", goal, {"right": right}, of_segment.min(axis=1) >= 0.5


def main() -> None:
    """Parse the command line, simulate, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=60)
    args = parser.parse_args()
    pairs_of: dict[tuple[str, int], list[tuple[float, bool]]] = {}
    for seed in tqdm(range(args.runs)):
        rng = np.random.default_rng(seed)
        for k in (2, 8):
            b = int(rng.choice((3, 10, 30)))
            for kind, goal, scores, keeps in cases(k, rng):
                for arm, p in probabilities(goal, scores, b * k, seed):
                    pairs_of.setdefault((kind, b), []).append((p, bool(keeps[arm])))
    rows = []
    for (kind, b), pairs in sorted(pairs_of.items()):
        stated, true = np.array(pairs, dtype=float).T
        of_fifth = [
            (stated >= low) & (stated < low + 0.2 + (low == FIFTHS[-1]))
            for low in FIFTHS
        ]
        cells = [
            f"{stated[is_in_fifth].mean():.2f} / {true[is_in_fifth].mean():.2f} ({is_in_fifth.sum()})"
            if is_in_fifth.any()
            else ""
            for is_in_fifth in of_fifth
        ]
        rows.append(
            [
                kind,
                str(b),
                *cells,
                f"{((stated - true) ** 2).mean():.3f}",
                f"{true.mean() * (1 - true.mean()):.3f}",
            ]
        )
    header = [
        "constraint on",
        "b",
        *(f"{low:.1f} to {low + 0.2:.1f}" for low in FIFTHS),
        "Brier score",
        "of a constant",
    ]
    print(table(header, rows))


if __name__ == "__main__":
    main()
