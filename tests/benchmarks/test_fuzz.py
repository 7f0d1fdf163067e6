"""The short version; the long one is `python -m benchmarks.durability.fuzz`."""

from benchmarks.durability.fuzz import fuzz


def test_malformed_input_is_refused_and_nothing_else() -> None:
    seen = fuzz(700, seed=1)
    assert set(seen) == {"selector", "study", "snapshot"}
    assert all(counts["refused"] > 50 for counts in seen.values())
