"""The size that one person can hold: a larger number in pyproject.toml is a decision, with its reason in the commit."""

from pathlib import Path

import pytest

from benchmarks.size import arrows, budget, floors, measure


def test_nothing_has_grown_past_its_budget() -> None:
    sizes, allowed = measure(), budget()
    assert sizes.keys() == allowed.keys()
    grown = {name: (size, allowed[name]) for name, size in sizes.items() if size > allowed[name]}
    assert not grown, f"larger than [tool.asktell.size] of pyproject.toml allows (now, allowed): {grown}"


def test_rooms_arrows_and_floors_by_hand(tmp_path: Path) -> None:
    package = tmp_path / "house"
    (package / "cellar").mkdir(parents=True)
    (package / "__init__.py").write_text("from house.roof import tiles\n")
    (package / "roof.py").write_text("from house.cellar import wine\n\ndef late():\n    import house.attic\n")
    (package / "attic.py").write_text("import os\nfrom house.cellar.shelf import jar\n")
    (package / "cellar" / "shelf.py").write_text("from house.cellar import wine\n")
    edges = arrows(package)
    assert edges == {("__init__", "roof"), ("roof", "cellar"), ("roof", "attic"), ("attic", "cellar")}
    assert floors(edges) == 4
    with pytest.raises(ValueError, match="circle"):
        floors({*edges, ("cellar", "roof")})
