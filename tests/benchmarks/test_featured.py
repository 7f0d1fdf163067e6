"""The benchmark of features for `auto`."""

import numpy as np

from benchmarks.selection.featured import apart, features_of, has, run, summary

NAME = "recorded/smollm2_aclsum_short@24"


def test_exemplars_follow_the_instruction() -> None:
    assert apart("Say it.\n\nInput:\na\nOutput:\nb\n\nInput:") == ("Say it.", "a\nOutput:\nb\n\nInput:")
    assert apart("Say it.\n\nInput:") == ("Say it.\n\nInput:", "")


def test_only_what_a_table_has_is_compared() -> None:
    assert has(NAME, "none", None)
    assert has(NAME, "text", None)
    assert not has(NAME, "apart", None)
    assert features_of(NAME, "text", None).shape == (24, 10)


def test_runs_differ_by_their_features_alone() -> None:
    lines = [run(NAME, "pareto", 1, features, 0, None) for features in ("none", "text")]
    assert [line["features"] for line in lines] == ["none", "text"]
    assert run(NAME, "pareto", 1, "text", 0, None)["quality"] == lines[1]["quality"]


def test_the_summary_compares_by_table() -> None:
    lines = [
        {"problem": p, "goal": "pareto", "per_prompt": 1.0, "features": f, "seed": 0, "quality": q}
        for p, f, q in (("x", "none", 0.2), ("x", "text", 0.5), ("y", "none", 0.4), ("y", "text", 0.5))
    ]
    error = np.std([0.3, 0.1], ddof=1) / np.sqrt(2)
    assert summary(lines).splitlines()[2:] == [
        "| pareto | 1 | none | 2 | 0.300 |  |",
        f"| pareto | 1 | text | 2 | 0.500 | +0.200 ({error:.3f}) |",
    ]
