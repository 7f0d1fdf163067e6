"""What an index, a citation manager and a code host are told of asktell is right."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


def page_of_index() -> str:
    """README.md as the build changes it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for each in PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"][
        "substitutions"
    ]:
        replacement = each["replacement"].replace("$HFPR_VERSION", PROJECT["version"])
        text = re.sub(each["pattern"], replacement, text)
    return text


def test_links_and_pictures_of_the_index_page_lead_to_files_of_this_version() -> None:
    links = re.findall(r"\]\(([^)]+)\)", page_of_index())
    ours = [link for link in links if link.startswith(PROJECT["urls"]["Repository"])]
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert len(ours) > 20
    for link in ours:
        kind, version, path = link.removeprefix(
            f"{PROJECT['urls']['Repository']}/"
        ).split("/", 2)
        assert kind == ("raw" if path.endswith(".png") else "blob")
        assert version == f"v{PROJECT['version']}"
        assert (ROOT / path.partition("#")[0]).is_file(), path


def test_all_addresses_are_of_one_repository() -> None:
    assert all(
        url.startswith(PROJECT["urls"]["Repository"])
        for url in PROJECT["urls"].values()
    )
    for url in PROJECT["urls"].values():
        path = url.removeprefix(PROJECT["urls"]["Repository"]).partition("/main/")[2]
        assert (ROOT / path).exists()


@pytest.mark.parametrize("package", ["asktell", "asktell_adapters"])
def test_types_are_shipped_and_said_to_be(package: str) -> None:
    assert (
        Path(importlib.import_module(package).__file__ or "").parent / "py.typed"
    ).is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_pythons_that_are_claimed_are_tested() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={claimed[0]}"
    tested = re.search(
        r"^PYTHONS \?= (.+)$",
        (ROOT / "Makefile").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert tested[1].split() == [*claimed, "oldest"]
    workflow = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    )
    assert {*claimed, "oldest"} <= set(
        workflow["jobs"]["pythons"]["strategy"]["matrix"]["python"]
    )


def test_the_oldest_versions_are_the_lower_bounds() -> None:
    """Of what the engine needs; `make lock` resolves them."""
    lines = (
        (ROOT / "tests" / "packages" / "oldest.txt")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    oldest = dict(line.split("==") for line in lines)
    for requirement in PROJECT["dependencies"]:
        name, bound = requirement.split(">=")
        assert f"{oldest[name]}.".startswith(f"{bound}."), name


def test_the_citation_is_of_this_version_and_names_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Repository"]
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == [
        "Li",
        "Shi",
        "Ou",
        "Shen",
        "Yang",
    ]


def test_changes_are_in_fragments_of_known_kinds() -> None:
    kinds = "|".join(
        kind["directory"] for kind in PYPROJECT["tool"]["towncrier"]["type"]
    )
    for fragment in (ROOT / "docs" / "changes").iterdir():
        if fragment.name not in ("README.md", ".gitignore"):
            assert re.fullmatch(
                rf"(\+[\w-]+|\d+)\.({kinds})(\.\d+)?\.md", fragment.name
            ), fragment.name
            assert fragment.read_text(encoding="utf-8").strip()


def test_every_recipe_names_what_there_is() -> None:
    """Files, folders, modules and targets that CONTRIBUTING.md names."""
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(
        r"\bmake (test[\w-]*|slow|lock|bench[\w-]*|changelog|lint)\b", text
    ):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for module in re.findall(r"python -m (benchmarks[a-z_.]+)[ `]", text):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module
    for path in re.findall(
        r"`((?:asktell|adapters|benchmarks|tests|docs)/[\w./-]*)`", text
    ):
        assert "NAME" in path or (ROOT / path).exists(), path
