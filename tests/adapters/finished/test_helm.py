"""HELM's results for each instance."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell import InvalidArgumentError
from asktell_adapters.finished import read_results

Write = Callable[[str, Any], Path]
RUN = "mmlu:subject={},method=multiple_choice_joint,model={}"


def stat(name: str, mean: float, count: int = 1) -> dict[str, Any]:
    named = {"name": name, "split": "test"}
    return {"name": named, "count": count, "sum": mean, "mean": mean}


def entry(
    at: int, stats: list[dict[str, Any]], trial: int = 0, **more: Any
) -> dict[str, Any]:
    named = {"instance_id": f"id{at}", "train_trial_index": trial}
    return {**named, "stats": stats, **more}


def run(*matches: float) -> list[dict[str, Any]]:
    """HELM writes the entries of one metric after those of another."""
    scored = [entry(at, [stat("exact_match", x)]) for at, x in enumerate(matches)]
    return scored + [
        entry(at, [stat("num_output_tokens", 5.0)]) for at, _ in enumerate(matches)
    ]


def test_the_trial_is_no_metric_and_entries_of_an_instance_are_one(
    write: Write,
) -> None:
    path = write("claude.json", run(0, 1, 1))
    scores = read_results([path, write("gpt.json", run(1, 1, 1))])
    assert scores.overview() == (
        "Read 2 candidates (files claude, gpt) x 3 examples (instances), exact_match from 0 to 1, num_output_tokens "
        "from 5 to 5."
    )
    assert scores.by_name["claude"].scores["exact_match"].tolist() == [0, 1, 1]
    assert scores.remarks() == []


def test_trials_are_repeats_and_perturbed_instances_are_examples(write: Write) -> None:
    rows = [
        entry(0, [stat("f1", 0.2)], trial=0),
        entry(0, [stat("f1", 0.4)], trial=1),
        entry(0, [stat("f1", 0.1)], perturbation={"name": "typos", "robustness": True}),
        entry(1, [stat("f1", 0.0, count=0)]),
        entry(2, [{"name": {"name": "f1"}, "count": 2, "sum": 1.0}]),
    ]
    scores = read_results([write("r.json", rows)])
    assert scores.examples == ["id0", "id0 (typos)", "id1", "id2"]
    assert "(trials), up to 2" in scores.remarks()[0]
    assert scores.by_name["r"].complete(["f1"]) == {"id0", "id0 (typos)", "id2"}
    assert scores.by_name["r"].scores["f1"][-1] == 0.5


def test_a_folder_of_runs_has_a_candidate_for_each_model(write: Write) -> None:
    for model, matches in (("a_small", (0, 1)), ("b_large", (1, 1))):
        for subject in ("anatomy", "physics"):
            folder = f"runs/v1/{RUN.format(subject, model)}"
            write(f"{folder}/per_instance_stats.json", run(*matches))
            # The same scores in another file are not counted twice
            shown = [
                {**row, "stats": {"exact_match": 0}, "predicted_text": "A"}
                for row in run(0, 0)[:2]
            ]
            write(f"{folder}/display_predictions.json", shown)
            write(f"{folder}/stats.json", [stat("exact_match", 0.5)])
    scores = read_results(["runs/v1"])
    assert list(scores.by_name) == ["a_small", "b_large"]
    assert scores.examples[0] == "mmlu:subject=anatomy/id0"
    assert len(scores.examples) == 4
    assert scores.by_name["a_small"].scores["exact_match"].tolist() == [0, 1, 0, 1]
    files = sorted(Path("runs").rglob("per_instance_stats.json"))
    by_file = read_results(files)
    assert [len(each.examples) for each in by_file.by_name.values()] == [4, 4]


def test_predictions_alone_have_scores(write: Write) -> None:
    rows = [{**row, "stats": {"exact_match": 1.0}} for row in run(1, 1)[:2]]
    scores = read_results([write("display_predictions.json", rows)])
    assert scores.metrics == ["exact_match"]


def test_ways_to_ask_a_model_are_candidates(write: Write) -> None:
    for method in ("multiple_choice_joint", "generation"):
        name = f"runs/mmlu:subject=anatomy,method={method},model=m"
        write(f"{name}/per_instance_stats.json", run(1, 0))
    scores = read_results(["runs"])
    assert list(scores.by_name) == [
        "m,method=generation",
        "m,method=multiple_choice_joint",
    ]
    assert len(scores.examples) == 2


def test_a_damaged_entry_is_named(write: Write) -> None:
    path = write("r.json", [*run(1), {"instance_id": "id9", "stats": [3]}])
    with pytest.raises(InvalidArgumentError, match=r"entry 3: .*not an instance"):
        read_results([path])
