"""Every recorded table has a data card, and the card says what is in the file."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

TABLES = Path(__file__).parents[2] / "benchmarks" / "tables"
FILES = sorted(TABLES.glob("*.npz"))


def cards() -> dict[str, str]:
    """Section by heading."""
    parts = re.split(r"^## (.+)$", (TABLES / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_there_is_a_card_for_each_table_and_a_table_for_each_card() -> None:
    assert [path.stem for path in FILES] == sorted(cards())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_card_says_what_is_in_the_file(path: Path) -> None:
    card = cards()[path.stem]
    table = np.load(path, allow_pickle=False)
    made = json.loads(str(table["provenance"]))
    assert f"`{hashlib.sha256(path.read_bytes()).hexdigest()}`" in card
    assert table["scores"].shape == (100, 60, 2)
    assert np.isfinite(table["scores"]).all()
    means = zip(table["metrics"], table["scores"].mean((0, 1)), strict=True)
    assert ", ".join(f"{metric} {mean:.3f}" for metric, mean in means) in card
    assert f"{made['n_examples']} {made['section']}s" in card
    assert f"{made['max_words']} words" in card
    assert f"at most {made['max_new_tokens']} tokens" in card
    assert f"1 up to {made['tau_low']:g} tokens, 0 from {made['tau_high']:g}" in card
    assert f"--name {path.stem} " in card


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_table_holds_the_pool_that_its_card_names(path: Path) -> None:
    pool = json.loads((TABLES.parent / "pools" / "summarize.json").read_text(encoding="utf-8"))
    assert np.load(path, allow_pickle=False)["prompts"].tolist() == pool
