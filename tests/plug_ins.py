"""Packages with plug-ins, as if they were installed."""

import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from asktell.methods.presets import REGISTRY
from asktell_adapters.config.metrics import METRICS
from asktell_adapters.config.model import MODELS
from asktell_adapters.config.tracker import TRACKERS
from asktell_adapters.finished.readers import FORMATS, readers

TEMPLATE = Path(__file__).parents[1] / "docs" / "examples" / "plug-in"


def install(
    folder: Path,
    package: str,
    points: Mapping[str, Mapping[str, str]],
    **modules: str,
) -> None:
    """Write a package with entry points (group -> name -> object) and modules (name -> code) as pip would."""
    information = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
    )
    lines = [
        line
        for group, names in points.items()
        for line in (f"[{group}]", *(f"{name} = {at}" for name, at in names.items()))
    ]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)


def install_template(folder: Path) -> None:
    """Write the template of docs/examples as a package."""
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]
    code = (TEMPLATE / "asktell_parrot.py").read_text()
    install(folder, project["name"], project["entry-points"], asktell_parrot=code)


@contextmanager
def packages_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let this process look for modules and entry points in a folder."""
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    readers.cache_clear()
    yield folder
    for name, module in list(sys.modules.items()):
        if str(folder) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]
    for registry in (REGISTRY, MODELS, METRICS, FORMATS, TRACKERS):
        registry._loaded.clear()
    readers.cache_clear()
