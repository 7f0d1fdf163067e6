"""What `import asktell` brings along, and what it offers."""

import inspect
import json
import subprocess
import sys

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


def test_the_import_loads_neither_numpy_nor_the_engine() -> None:
    code = "import asktell, sys; print([m for m in sys.modules if m.startswith(('numpy', 'asktell.'))])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert (
        loaded.strip() == "['asktell._util', 'asktell.errors', 'asktell._util.extras']"
    )


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
