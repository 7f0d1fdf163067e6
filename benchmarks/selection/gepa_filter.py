"""What GEPA finds by its own rules and by asktell's, with the same number of metric calls.

    ASKTELL_TABLES=... python -m benchmarks.selection.gepa_filter --seeds 20

Real runs of `gepa.optimize`. A quarter of a task's examples is GEPA's training set, a
quarter its validation set, and quality is the answer's mean score on the other half,
which nobody has seen. Tasks are recorded tables, in which a proposal is a prompt of a
quality near its parent's (the seed is at the lowest tenth), and scripted ones, in which
a proposal is its parent with a gain or a loss, mostly a loss. The rules were chosen on
scripted tasks of other seeds.
"""

import argparse
import math
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from asktell_adapters.harnesses.gepa import AsktellPolicy
from benchmarks.problems.replay import default_folder, replay_table
from benchmarks.results import table

TABLES = (
    "capo/gsm8k_llama_seed42", "capo/gsm8k_mistral_seed42", "capo/subj_mistral_seed42", "capo/agnews_mistral_seed42",
    "models/mmlu_pro", "alpaca_eval/alpaca_eval_gpt4", "summarization/summeval",
)  # fmt: skip
SCRIPTED = {"right or wrong": False, "graded": True}
MOST_EXAMPLES = 400
FEW = "val_evaluation_policy"
PARENTS = "candidate_selection_strategy"
ACCEPTANCE = "acceptance_criterion"
WAYS: dict[str, tuple[str, ...]] = {
    "GEPA": (),
    "GEPA with current_best": (),
    "parents": (PARENTS,),
    "acceptance": (ACCEPTANCE,),
    "parents and acceptance": (PARENTS, ACCEPTANCE),
    "20 examples": (FEW,),
    "20 examples, parents and acceptance": (FEW, PARENTS, ACCEPTANCE),
}


class Task(Protocol):
    """Prompts by number, their scores by example, and new ones."""

    seed: int
    n_examples: int

    def scores(self, prompt: int) -> npt.NDArray[np.float64]:
        """By example."""

    def child(self, parent: int) -> int:
        """A prompt proposed in its place."""


class Recorded:
    """Prompts of a table; a proposal is drawn by how near its mean is to its parent's."""

    def __init__(self, table: npt.NDArray[np.float64], seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._table = table[:, self._rng.permutation(table.shape[1])[:MOST_EXAMPLES]]
        self._means = table.mean(axis=1)
        self.seed = int(np.argsort(self._means)[len(table) // 10])
        self.n_examples = self._table.shape[1]

    def scores(self, prompt: int) -> npt.NDArray[np.float64]:
        """By example."""
        return self._table[prompt]

    def child(self, parent: int) -> int:
        """Any other prompt of the table; of one standard deviation of the means away, with weight exp(-1/2)."""
        weights = np.exp(
            -(((self._means - self._means[parent]) / self._means.std()) ** 2) / 2
        )
        weights[parent] = 0.0
        return int(self._rng.choice(len(weights), p=weights / weights.sum()))


class Scripted:
    """Latent quality, difficulty and an own taste for each example; a child inherits seven tenths of the taste."""

    seed = 0
    n_examples = MOST_EXAMPLES

    def __init__(self, is_graded: bool, seed: int) -> None:
        self._rng, self._is_graded = np.random.default_rng([seed, 1]), is_graded
        self._difficulty = self._rng.normal(0, 1.5, self.n_examples)
        self._qualities, self._tastes = [0.0], [self._rng.normal(0, 1, self.n_examples)]

    def scores(self, prompt: int) -> npt.NDArray[np.float64]:
        """By example."""
        latent = self._qualities[prompt] + self._difficulty + self._tastes[prompt]
        return (
            1 / (1 + np.exp(-latent))
            if self._is_graded
            else (latent > 0).astype(np.float64)
        )

    def child(self, parent: int) -> int:
        """A new prompt, of a quality 0.1 lower on average, with a standard deviation of 0.4."""
        self._qualities.append(self._qualities[parent] + self._rng.normal(-0.1, 0.4))
        taste = self._rng.normal(0, 1, self.n_examples)
        self._tastes.append(0.7 * self._tastes[parent] + math.sqrt(1 - 0.7**2) * taste)
        return len(self._qualities) - 1


class Adapter:
    """A GEPA adapter that looks scores up; a candidate is a prompt's number."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def evaluate(
        self,
        batch: list[int],
        candidate: Mapping[str, str],
        capture_traces: bool = False,
    ) -> Any:
        """By prompt and example."""
        from gepa.core.adapter import EvaluationBatch

        scores = [
            float(score) for score in self.task.scores(int(candidate["prompt"]))[batch]
        ]
        return EvaluationBatch(
            outputs=list(batch),
            scores=scores,
            trajectories=list(batch) if capture_traces else None,
        )

    def make_reflective_dataset(
        self, candidate: object, eval_batch: object, components_to_update: list[str]
    ) -> Any:
        """Nothing to reflect on."""
        return {name: [{}] for name in components_to_update}

    def propose_new_texts(
        self, candidate: Mapping[str, str], dataset: object, components: object
    ) -> Any:
        """A child."""
        return {"prompt": str(self.task.child(int(candidate["prompt"])))}


def outcome(task: Task, way: str, per_validation: int, seed: int) -> tuple[float, int]:
    """The mean score of the answer on unseen examples, and how many candidates were validated."""
    import gepa

    examples = random.Random(seed).sample(range(task.n_examples), task.n_examples)
    quarter = task.n_examples // 4
    is_few = FEW in WAYS[way]
    policy = AsktellPolicy(20 if is_few else None, seed=seed)
    settings: dict[str, Any] = dict.fromkeys(WAYS[way], policy)
    if "current_best" in way:
        settings[PARENTS] = "current_best"
    result = gepa.optimize(
        seed_candidate={"prompt": str(task.seed)},
        trainset=examples[:quarter],
        valset=examples[quarter : 2 * quarter],
        adapter=Adapter(task),
        max_metric_calls=per_validation * quarter,
        seed=seed,
        logger=SimpleNamespace(log=lambda *_, **__: None),
        **settings,
    )
    best = policy.best_candidate(result) if is_few else result.best_candidate
    return float(task.scores(int(best["prompt"]))[examples[2 * quarter :]].mean()), len(
        result.candidates
    )


def tasks(folder: Path | None) -> Iterator[tuple[str, Any]]:
    """A name, and what makes the task of a seed."""
    for name in TABLES if folder else ():
        scores = replay_table(name, folder).scores[:, :, 0]
        yield name, lambda seed, scores=scores: Recorded(scores, seed)
    for name, is_graded in SCRIPTED.items():
        yield (
            f"scripted/{name}",
            lambda seed, is_graded=is_graded: Scripted(is_graded, seed),
        )


def main() -> None:
    """Print for each task GEPA's mean score, and the leads of the other ways with their standard errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, default=default_folder())
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--calls",
        type=int,
        default=15,
        help="metric calls allowed, for each validation example",
    )
    args = parser.parse_args()
    rows = []
    for name, make in tasks(args.tables):
        outcomes = {
            way: [
                outcome(make(seed), way, args.calls, seed) for seed in range(args.seeds)
            ]
            for way in WAYS
        }
        gepas = np.array([score for score, _ in outcomes["GEPA"]])
        row = [name, f"{gepas.mean():.3f}"]
        for way in list(WAYS)[1:]:
            leads = np.array([score for score, _ in outcomes[way]]) - gepas
            row.append(
                f"{leads.mean():+.3f} ({leads.std(ddof=1) / math.sqrt(args.seeds):.3f})"
            )
        rows.append(
            [
                *row,
                *(
                    f"{np.mean([n for _, n in outcomes[way]]):.1f}"
                    for way in ("GEPA", *list(WAYS)[-1:])
                ),
            ]
        )
        print(f"{name}: done", file=sys.stderr, flush=True)
    print(
        table(["task", *WAYS, "candidates of GEPA", "candidates of the last way"], rows)
    )


if __name__ == "__main__":
    main()
