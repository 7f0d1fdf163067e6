"""The comparison of starts: which examples come first, and the gains that its table shows."""

import math
import sys
from pathlib import Path

import pytest

import asktell
from benchmarks.results import tables
from benchmarks.selection import limit


@pytest.mark.parametrize(
    ("variant", "n_first"),
    [("decided, from two examples", 2), ("decided, from one example", 1)],
)
@pytest.mark.parametrize("are_equal", [True, False])
def test_twelve_prompts_decide_the_start_of_the_others(
    variant: str, n_first: int, are_equal: bool
) -> None:
    # Without constraints, 30 prompts at two evaluations each: all of them take part.
    selector = asktell.Selector(
        [f"prompt {i}" for i in range(30)], asktell.BestFeasible("a"), 60, examples=50
    )
    examples = []
    with limit.decided_start(*limit.DECIDED[variant]):
        for i in range(30):
            trial = selector.ask()
            assert trial is not None
            examples.append(trial.example)
            # Prompts differ, and the two examples do not
            selector.tell(trial, 0.5 if are_equal else i % 4)
    assert len(set(examples[:12])) == n_first
    # Equal scores are no reason for one common example, and a large ratio is.
    assert len(set(examples)) == (4 if are_equal else n_first)


def test_the_best_start_is_chosen_on_the_other_seeds() -> None:
    # Gains of 1, 3, -1, -1: the even seeds would choose `auto` (0), the odd ones the
    # other start (1). So the even seeds gain 1 and -1, and the odd ones 0.
    lines = [
        {"problem": "a", "variant": variant, "budget": 1, "quality": quality}
        for variant, qualities in (
            ("auto", (0.0, 0.0, 1.0, 1.0)),
            ("one first example", (1.0, 3.0, 0.0, 0.0)),
        )
        for quality in qualities
    ]
    assert limit.mean_gain(lines, "one first example", 1) == "+0.500 ± 0.957"
    error = math.sqrt(2 / 3 / 4)
    assert limit.mean_gain(lines, limit.BEST_START, 1) == f"+0.000 ± {error:.3f}"


def test_starts_run(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.delenv("ASKTELL_TABLES", raising=False)
    options = "--starts --seeds 2 --per-prompt 1 --output"
    monkeypatch.setattr(sys, "argv", ["", *options.split(), f"{tmp_path}/lines.jsonl"])
    limit.main()
    ((header, *rows),) = tables(capsys.readouterr().out)
    assert header == ["tables", "variant", "b = 1"]
    starts = [*limit.STARTS, *limit.DECIDED, limit.BEST_START]
    assert [row[:2] for row in rows] == [["drawn from the model", s] for s in starts]
