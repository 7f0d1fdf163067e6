"""The size that one person can hold: a larger number in pyproject.toml is a decision, with its reason in the commit."""

from pathlib import Path

import pytest

from benchmarks.size import (
    ROOT,
    Code,
    arrows,
    budget,
    circles,
    exceeds,
    files_of,
    floors,
    kernel,
    measure,
    members,
    names_across,
    nouns,
)


def test_nothing_has_grown_past_its_budget() -> None:
    sizes, allowed = measure(), budget()
    assert sizes.keys() == allowed.keys()
    wrong = {
        name: (size, allowed[name])
        for name, size in sizes.items()
        if exceeds(name, size, allowed[name])
    }
    assert not wrong, (
        f"not as [tool.asktell.size] of pyproject.toml allows (now, allowed): {wrong}"
    )


def test_agents_counts_the_nouns_that_it_lists() -> None:
    assert f"| all | | {nouns()} |" in (ROOT / "AGENTS.md").read_text("utf-8")


def test_a_file_is_of_a_facet_if_a_name_has_its_word_and_not_a_text(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.py").write_text("x = state.proxies\n")
    (tmp_path / "b.py").write_text('"""Proxies."""\n')
    assert files_of("prox", tmp_path) == 1


def test_documentation_costs_nothing() -> None:
    source = '"""A module."""\n\n# Why.\nx = 1  # here\n\n\ndef f():\n    """Return one.\n\n    At once.\n    """\n'
    source += "    return x\n"
    # Module; assignment, its name and its number; function, its arguments, its return
    # and the name returned.
    assert Code.of(source) == Code(
        nodes=8, lines=3, docstrings=4, comments=1, names=1, pronouns=0
    )
    assert exceeds("nodes-asktell", 2, 1)
    assert exceeds("least-comment-lines-asktell", 1.0, 2.0)


def test_files_that_import_each_other_are_a_circle(tmp_path: Path) -> None:
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from house import b\n")
    (package / "b.py").write_text("def late():\n    from house.c import jar\n")
    (package / "c.py").write_text("import house.a\n")
    (package / "d.py").write_text("from house.a import b\n")
    assert circles(package) == 1


def test_rooms_arrows_and_floors_by_hand(tmp_path: Path) -> None:
    package = tmp_path / "house"
    (package / "cellar").mkdir(parents=True)
    (package / "__init__.py").write_text("from house.roof import tiles\n")
    (package / "roof.py").write_text(
        "from house.cellar import wine\n\ndef late():\n    import house.attic\n"
    )
    (package / "attic.py").write_text("import os\nfrom house.cellar.shelf import jar\n")
    (package / "cellar" / "shelf.py").write_text("from house.cellar import wine\n")
    edges = arrows(package)
    assert edges == {
        ("__init__", "roof"),
        ("roof", "cellar"),
        ("roof", "attic"),
        ("attic", "cellar"),
    }
    assert floors(edges) == 4
    with pytest.raises(ValueError, match="circle"):
        floors({*edges, ("cellar", "roof")})


def test_names_across_rooms_by_hand(tmp_path: Path) -> None:
    package = tmp_path / "house"
    (package / "cellar").mkdir(parents=True)
    (package / "__init__.py").write_text("from house.roof import tiles\n")
    # It passes on a name of its own folder and the module `shelf`
    (package / "cellar" / "__init__.py").write_text(
        "from house.cellar.shelf import jar\n"
    )
    (package / "cellar" / "shelf.py").write_text("jar, box = 1, 2\n")
    (package / "cellar" / "door.py").write_text("from house.cellar.shelf import box\n")
    (package / "roof.py").write_text(
        "import os\nfrom house.cellar import jar, shelf\ntiles = jar\n"
    )
    (package / "attic.py").write_text(
        "def late():\n    from house.cellar.shelf import jar\n    from house import tiles\n"
    )
    assert names_across(package) == {
        ("house.cellar.shelf", "jar"),
        ("house.cellar.shelf", "shelf"),
        ("house.roof", "tiles"),
    }


def test_pronouns_among_the_assigned_names_by_hand() -> None:
    code = Code.of(
        "def first(given, rows):\n"
        "    found = [each for each in rows if each.own]\n"
        "    for place, row in enumerate(found):\n"
        "        row.found: int = place\n"
        "    (it, *others), size = given(found=found)\n"
    )
    # Parameters, attributes, keywords and names that are read do not count
    assert (code.names, code.pronouns) == (7, 4)


def test_the_kernel_is_what_the_guide_names() -> None:
    names = [path.name for path in kernel()]
    assert names[0] == "trials.py"
    assert names[-1] == "selector.py"
    assert all(path.is_file() for path in kernel())


def test_members_are_fields_methods_and_properties(tmp_path: Path) -> None:
    path = tmp_path / "state.py"
    path.write_text(
        "class State:\n"
        "    arms: int\n    _cells: int = 0\n    limit = 3\n"
        "    @property\n    def left(self): ...\n"
        "    @left.setter\n    def left(self, value): ...\n"
        "    async def wait(self): ...\n"
        "    def __len__(self): ...\n"
        "    class Inner:\n        depth: int\n"
    )
    assert members(path, "State") == 3
    with pytest.raises(ValueError, match="no class 'Problem'"):
        members(path, "Problem")
