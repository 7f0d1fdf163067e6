"""The package for OptunaHub's registry: its form, and its example as a user would run it."""

import re
from pathlib import Path
from typing import Any

import optunahub
import pytest
import yaml

from asktell_adapters.optimizers.optuna import AsktellSampler

REGISTRY = Path(__file__).parents[3] / "adapters" / "optunahub-registry" / "package"
PACKAGE = REGISTRY / "samplers" / "asktell"
README = (PACKAGE / "README.md").read_text()
pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


def test_the_front_matter_has_what_the_registry_checks() -> None:
    front = yaml.safe_load(README.split("---\n")[1])
    assert set(front) == {
        "author",
        "title",
        "description",
        "tags",
        "optuna_versions",
        "license",
    }
    assert all(
        isinstance(front[key], str) for key in ("author", "title", "description")
    )
    assert all(
        isinstance(each, str)
        for key in ("tags", "optuna_versions")
        for each in front[key]
    )
    assert "sampler" in front["tags"]  # of every package in samplers/
    assert front["license"] == "MIT License"
    assert (
        (PACKAGE / "LICENSE")
        .read_text()
        .startswith("MIT License\n\nCopyright (c) 2026 The developers of asktell\n")
    )
    headings = re.findall("^## (.*)$", README, re.MULTILINE)
    assert headings == [
        "Abstract",
        "Class or Function Names",
        "Installation",
        "Example",
        "Others",
    ]


def test_the_example_runs_on_the_local_package(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def local(package: str) -> Any:
        return optunahub.load_local_module(package=package, registry_root=str(REGISTRY))

    monkeypatch.setattr(optunahub, "load_module", local)
    names: dict[str, Any] = {}
    (example,) = re.findall("^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    exec(compile(example, "README.md", "exec"), names)
    assert isinstance(names["sampler"], AsktellSampler)
    assert [entry.id for entry in names["sampler"].result(names["study"]).selected] == [
        "steps"
    ]
    assert "60 of 60 evaluations spent" in capsys.readouterr().out
