"""What `import asktell` brings along, and what it offers."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import asktell

HEAVY = [
    *[
        "jax",
        "jaxlib",
        "flax",
        "optax",
        "scipy",
        "pymoo",
        "sqlalchemy",
        "pandas",
        "matplotlib",
        "torch",
    ],
    *["transformers", "openai", "evaluate", "xllamacpp", "ray", "sklearn"],
    *["fastapi", "starlette", "pydantic", "uvicorn", "prometheus_client", "urllib3"],
]


# They take a fifth of the time to import asktell, and nothing of asktell needs them before
# something runs.
NEEDLESS = {"asyncio", "email", "jaxtyping", "sqlite3", "ssl", "unittest"}


def modules_after(code: str) -> set[str]:
    code += "\nimport sys, json; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(json.loads(process.stdout))


@pytest.mark.parametrize(
    "code",
    [
        "import asktell",
        # A whole run with the sample mean needs none of them either.
        "from asktell import ParetoSet, Selector\n"
        "s = Selector(['x', 'y'], ParetoSet('a', 'b'), 6, examples=4)\n"
        "while t := s.ask(): s.tell(t, [t.id, -t.id])\n"
        "str(s.result()); s = Selector.from_json(s.to_json())",
    ],
)
def test_heavy_packages_are_not_imported(code: str) -> None:
    assert modules_after(code) & set(HEAVY) == set()


def test_a_selector_imports_nothing_that_it_does_not_need() -> None:
    loaded = modules_after("import asktell; asktell.Selector")
    assert "numpy" in loaded
    assert loaded & (set(HEAVY) | NEEDLESS) == set()


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"]])
def test_the_help_of_a_command_imports_no_engine(words: list[str]) -> None:
    loaded = modules_after(
        "import contextlib, os\nfrom asktell_adapters.cli.main import main\n"
        "with contextlib.redirect_stdout(open(os.devnull, 'w')), contextlib.suppress(SystemExit):\n"
        f"    main({words})"
    )
    assert loaded & {"numpy", "asyncio", "pydantic"} == set()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("budgett = 10\n", "Did you mean 'budget'?"),
        ("[prompts]\ntexts = ['a']\n", "'budget' at the top is missing"),
        ("budget = 10\n", "the table [goal] is missing"),
        ("budget = 10\n[goal]\nmaximise = 'a'\n", "Did you mean 'maximize'?"),
        ("budget = 10\n[data]\nfile = 3\n", "'file' in [data] must be a text, got 3"),
    ],
)
def test_a_mistake_in_a_configuration_needs_no_engine(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text)
    process = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys\nfrom asktell_adapters.cli.main import main\n"
            f"code = main(['run', {str(file)!r}])\n"
            "print([name for name in sys.modules if name in ('numpy', 'asktell.selector')])\nsys.exit(code)",
        ],
        capture_output=True,
        text=True,
    )
    assert message in process.stderr
    assert process.returncode == 2
    assert process.stdout.strip() == "[]"


def test_the_import_loads_neither_numpy_nor_the_engine() -> None:
    code = "import asktell, sys; print([m for m in sys.modules if m.startswith(('numpy', 'asktell.'))])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert loaded.strip() == "['asktell.errors']"


def test_every_public_name_exists_and_is_documented() -> None:
    assert asktell.__doc__
    assert sorted(set(asktell.__all__), key=asktell.__all__.index) == asktell.__all__
    for name in asktell.__all__:
        thing = getattr(asktell, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            assert inspect.getdoc(thing), name
            # Made by dataclass
            assert not (inspect.isclass(thing) and thing.__doc__.startswith(f"{name}("))


@pytest.mark.parametrize(
    "kind",
    [
        asktell.Selector,
        asktell.Result,
        asktell.BestFeasible,
        asktell.ParetoSet,
        asktell.RemoteStudy,
    ],
)
def test_every_public_method_is_documented(kind: type) -> None:
    for name, member in vars(kind).items():
        if not name.startswith("_") and (
            callable(member) or isinstance(member, (property, classmethod))
        ):
            assert inspect.getdoc(getattr(kind, name)), f"{kind.__name__}.{name}"


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Optimizer'"):
        asktell.Optimizer  # noqa: B018
