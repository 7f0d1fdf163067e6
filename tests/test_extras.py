"""What runs after a bare `pip install asktell`, and what names its extra instead."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import asktell
import asktell_adapters

MISSING = [
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "pymoo",
    "pandas",
    "matplotlib",
    "evaluate",
    "rouge_score",
]

BARE = f"""
import sys
for name in {MISSING!r}:
    sys.modules[name] = None
import asktell
from asktell import BestFeasible, MissingExtraError, ParetoSet, Selector

def played(method, goal, features=None):
    prompts = [f"Write {{n}} words, {{'please' if n % 2 else 'now'}}." for n in range(8)]
    selector = Selector(prompts, goal, 40, method, examples=10, features=features)
    while trial := selector.ask():
        selector.tell(trial, [trial.prompt_id * 0.1 + 0.01 * trial.example, 1 - trial.prompt_id * 0.1])
    return Selector.from_json(selector.to_json()).result()

best, pareto = BestFeasible("a", {{"b": 0.5}}), ParetoSet("a", "b")

def named(extra, function, *arguments):
    try:
        function(*arguments)
    except MissingExtraError as error:
        assert f"pip install 'asktell[{{extra}}]' (in a checkout: " in str(error), error
        assert f"pip install --editable '.[{{extra}}]')" in str(error), error
    else:
        raise AssertionError(f"{{function}} needs nothing")
"""


def bare(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BARE + code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_auto_with_features_and_every_method_on_sample_means_run() -> None:
    bare("""
for goal in (best, pareto):
    for method in ("auto", "uniform"):
        assert str(played(method, goal, "text"))
for method in ("csr", "csr-sh"):
    assert str(played(method, best))
for method in ("ege-sr", "ege-sh"):
    assert str(played(method, pareto))
""")


def test_a_structured_method_names_its_extra_before_anything_is_paid() -> None:
    bare("""
for method in ("mlp-csr", "lcsh"):
    named("structured", lambda: Selector(["x", "y"], best, 10, method, features=[[0.0], [1.0]]))
for method in ("mlp-ege", "gege"):
    named("structured", asktell.preset, method, pareto)
""")


def test_a_composed_method_names_it_when_it_decides_and_a_saved_one_is_read_without() -> (
    None
):
    bare("""
from asktell import Elimination
from asktell.methods.rounds.allocators import GOptimalDesign, Uniform
from asktell.methods.rounds.rules import ParetoGap
from asktell.methods.rounds.estimators import MLP, LeastSquares, SampleMean
from asktell.methods.rounds.schedulers import SequentialHalving
for estimator in (LeastSquares(), MLP()):
    composed = Elimination(SequentialHalving(), Uniform(), estimator, ParetoGap())
    saved = Selector([f"{n} words" for n in range(8)], pareto, 40, composed, examples=10, features="text").to_json()
    assert Selector.from_json(saved).result().spent == 0
    named("structured", played, composed, pareto, "text")
design = Elimination(SequentialHalving(), GOptimalDesign(), SampleMean(), ParetoGap())
named("structured", played, design, pareto, "text")
import asktell._util.jax_cache
named("structured", asktell._util.jax_cache.enable, "unused")
""")


def test_pictures_fronts_and_metrics_name_theirs() -> None:
    bare("""
result = played("auto", pareto)
named("plot", result.plot)
named("analysis", result.hypervolume)
named("analysis", result.layers)
from asktell_adapters.metrics import Rouge
named("metrics", lambda: Rouge().score("a", "a"))
""")


@pytest.mark.parametrize("package", [asktell, asktell_adapters])
def test_only_files_named_for_it_import_jax(package: object) -> None:
    folder = Path(package.__file__).parent  # type: ignore[attr-defined]
    for path in folder.rglob("*.py"):
        if path.stem.startswith("_") and path.stem.endswith("_jax"):
            continue
        text = path.read_text(encoding="utf-8")
        if not re.search("jax|flax|optax", text):
            continue
        for node in ast.walk(ast.parse(text)):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {
                "jax",
                "jaxlib",
                "flax",
                "optax",
            }, path


ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "docs").rglob("*.toml"),
]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["optional-dependencies"]


def test_pages_name_extras_that_exist_and_one_says_what_to_write_in_a_checkout() -> (
    None
):
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for extras in re.findall(r"(?:asktell|'\.)\[([a-z,-]+)\]'", text):
            assert set(extras.split(",")) <= set(EXTRAS), page.name
    start = " ".join((ROOT / "docs" / "README.md").read_text(encoding="utf-8").split())
    assert (
        "In a checkout of the repository, run `pip install '.[openai]'` instead."
        in start
    )


@pytest.mark.parametrize("package", [asktell, asktell_adapters])
def test_every_extra_that_the_code_names_exists(package: object) -> None:
    for path in Path(package.__file__).parent.rglob("*.py"):  # type: ignore[attr-defined]
        text = path.read_text(encoding="utf-8")
        if "extra(" not in text and "how_to_install(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            position = {
                "needs_extra": 0,
                "check_extra": 0,
                "how_to_install": 0,
                "import_extra": 1,
            }.get(node.func.id)
            if position is not None and isinstance(node.args[position], ast.Constant):
                assert node.args[position].value in EXTRAS, f"{path}:{node.lineno}"
