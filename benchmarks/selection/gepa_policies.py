"""What GEPA finds with all validation examples for every candidate, with few, and with few and a selection at the end.

    ASKTELL_TABLES=... python -m benchmarks.selection.gepa_policies --seeds 10

Real runs of GEPA over recorded tables: an adapter looks up the scores, and a proposal
is a prompt of the table that has not been proposed yet, at random. A third of the
examples is GEPA's training set, the rest its validation set. Every way may make the
same number of metric calls. Quality is 1 - (best - chosen) / (best - median) over the
table's prompts, by their true means on the validation set, floored at 0.
"""

import argparse
import random
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

import asktell
from asktell.simulation.truth import Truth, means_of
from asktell_adapters.harnesses.gepa import AsktellPolicy, GEPAEvaluator
from benchmarks.problems.replay import default_folder, replay_names, replay_table


class TableAdapter:
    """Looks up what a prompt scored on an example; proposes the prompts in a random order."""

    def __init__(self, scores: npt.NDArray[np.float64], seed: int) -> None:
        self.scores = scores
        self.order = random.Random(seed).sample(range(len(scores)), len(scores))
        self.next = 1

    def evaluate(
        self,
        batch: list[int],
        candidate: Mapping[str, str],
        capture_traces: bool = False,
    ) -> Any:
        """By row and column."""
        from gepa.core.adapter import EvaluationBatch

        batch_scores = [
            float(self.scores[int(candidate["prompt"]), example]) for example in batch
        ]
        return EvaluationBatch(
            outputs=list(batch),
            scores=batch_scores,
            trajectories=list(batch) if capture_traces else None,
        )

    def make_reflective_dataset(
        self, candidate: object, eval_batch: object, components_to_update: list[str]
    ) -> Any:
        """Nothing to reflect on."""
        return {name: [{}] for name in components_to_update}

    def propose_new_texts(
        self,
        candidate: object,
        reflective_dataset: object,
        components_to_update: object,
    ) -> Any:
        """The next prompt of the order."""
        chosen = self.order[self.next % len(self.order)]
        self.next += 1
        return {"prompt": str(chosen)}


def optimize(
    scores: npt.NDArray[np.float64],
    train: list[int],
    val: list[int],
    policy: Any,
    calls: int,
    seed: int,
) -> Any:
    """A run of GEPA; its result, the calls it made, and its adapter."""
    import gepa

    adapter = TableAdapter(scores, seed)
    result = gepa.optimize(
        seed_candidate={"prompt": str(adapter.order[0])},
        trainset=train,
        valset=val,
        adapter=adapter,
        max_metric_calls=calls,
        val_evaluation_policy=policy,
        skip_perfect_score=False,
        seed=seed,
        logger=SimpleNamespace(log=lambda *_, **__: None),
    )
    return result, adapter


def choices(
    scores: npt.NDArray[np.float64],
    train: list[int],
    val: list[int],
    few: int,
    calls: int,
    seed: int,
) -> dict[str, tuple[int, int]]:
    """By each way: the prompt chosen, and the candidates that GEPA accepted."""
    chosen = {}
    result, _ = optimize(scores, train, val, None, calls, seed)
    chosen["all examples"] = (
        int(result.best_candidate["prompt"]),
        len(result.candidates),
    )
    policy = AsktellPolicy(few, seed=seed)
    result, _ = optimize(scores, train, val, policy, calls, seed)
    chosen[f"{few} examples"] = (
        int(policy.best_candidate(result)["prompt"]),
        len(result.candidates),
    )
    result, adapter = optimize(
        scores, train, val, AsktellPolicy(few, seed=seed), calls // 2, seed
    )
    evaluator = GEPAEvaluator(adapter, result.candidates, val)
    goal = asktell.BestFeasible("score")
    selector = asktell.Selector(
        evaluator.prompts,
        goal,
        calls - result.total_metric_calls,
        examples=len(val),
        seed=seed,
    )
    evaluator.warm_start(selector, result)
    best = asktell.run(selector, evaluator, progress=False).selected[0]
    chosen[f"{few} examples, then selection"] = int(best.prompt), len(result.candidates)
    return chosen


def main() -> None:
    """Print the mean quality of each way, and its gain with the standard error over tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, default=default_folder())
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--few", type=int, default=20, help="examples for each candidate"
    )
    parser.add_argument(
        "--calls",
        type=int,
        default=6,
        help="metric calls allowed, for each validation example",
    )
    args = parser.parse_args()
    names = [name for name in replay_names(args.tables) if name.startswith("capo/")]
    quality: dict[str, dict[str, list[float]]] = {}
    pool: dict[str, list[int]] = {}
    for name in names:
        scores = replay_table(name, args.tables).scores[:, :, 0]
        n_train = scores.shape[1] // 3
        for seed in range(args.seeds):
            examples = random.Random(seed).sample(
                range(scores.shape[1]), scores.shape[1]
            )
            train, val = examples[:n_train], examples[n_train:]
            truth = Truth(
                *means_of(scores[:, val, None], asktell.BestFeasible("score"))
            )
            calls = args.calls * len(val)
            for way, (chosen, candidates) in choices(
                scores, train, val, args.few, calls, seed
            ).items():
                quality.setdefault(way, {}).setdefault(name, []).append(
                    truth.judge([chosen])["quality"]
                )
                pool.setdefault(way, []).append(candidates)
    print(
        f"{len(names)} tables, {args.seeds} seeds, {args.calls} metric calls per validation example"
    )
    by_table = {
        way: np.array([np.mean(values) for values in tables.values()])
        for way, tables in quality.items()
    }
    for way, means in by_table.items():
        gain = means - by_table["all examples"]
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        print(
            f"{way:32} quality {means.mean():.3f}, by {gain.mean():+.3f} +- {error:.3f} better than with all examples, "
            f"candidates {np.mean(pool[way]):.1f}"
        )


if __name__ == "__main__":
    main()
