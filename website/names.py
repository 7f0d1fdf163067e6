"""The public names of the packages, read from their source: nothing is imported, so nothing has to be installed."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {"asktell": ROOT / "asktell", "asktell_adapters": ROOT / "adapters" / "asktell_adapters"}


def file_of(module: str) -> Path | None:
    """The file of a module; None if it is not one of ours."""
    package, *rest = module.split(".")
    if package not in SOURCES:
        return None
    stem = SOURCES[package].joinpath(*rest)
    return next((path for path in (stem / "__init__.py", stem.with_suffix(".py")) if path.is_file()), None)


def modules() -> list[str]:
    """Every module whose name has no underscore before it."""
    found = []
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if not any(part.startswith("_") for part in parts):
                found.append(".".join((package, *parts)))
    return found


@cache
def _body(module: str) -> tuple[ast.stmt, ...]:
    path = file_of(module)
    return () if path is None else tuple(_flat(ast.parse(path.read_text()).body))


def _flat(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements, those under `if TYPE_CHECKING` among them."""
    return [inner for each in body for inner in (_flat(each.body) if isinstance(each, ast.If) else [each])]


def _assigned(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        return []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def declared(module: str) -> tuple[str, ...] | None:
    """The module's `__all__`; None without one."""
    for statement in _body(module):
        if "__all__" in _assigned(statement) and isinstance(statement, ast.Assign):
            return tuple(ast.literal_eval(statement.value))
    return None


def public(module: str) -> tuple[str, ...]:
    """What a module offers: its `__all__`, or else the classes and functions that are defined in it."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    defined = [each.name for each in _body(module) if isinstance(each, kinds) and not each.name.startswith("_")]
    return tuple(defined) if (names := declared(module)) is None else names


def origin(module: str, name: str) -> str | None:
    """The module in which the name that `module` offers is defined; None if it is not one of ours."""
    for statement in _body(module):
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                if name == (alias.asname or alias.name) and statement.module is not None:
                    return origin(statement.module, alias.name)
        elif name in _assigned(statement) or getattr(statement, "name", None) == name:
            return module
    return None


def members(module: str, name: str) -> tuple[str, ...]:
    """The public members of a class that inherits from one of ours, its own ones first; () of any other."""
    found = _class(module, name)
    bases = [] if found is None else [each for base in found[1].bases if (each := _class(found[0], ast.unparse(base)))]
    if found is None or not bases:
        return ()
    return tuple(dict.fromkeys((*_own(found[1]), *(each for base in bases for each in _inherited(*base)))))


def _inherited(module: str, made: ast.ClassDef) -> tuple[str, ...]:
    return members(module, made.name) or _own(made)


def _own(made: ast.ClassDef) -> tuple[str, ...]:
    return tuple(
        name
        for statement in made.body
        for name in (*_assigned(statement), getattr(statement, "name", "_"))
        if not name.startswith("_")
    )


def _class(module: str, name: str) -> tuple[str, ast.ClassDef] | None:
    where = origin(module, name.partition("[")[0])
    if where is None:
        return None
    return next(((where, each) for each in _body(where) if isinstance(each, ast.ClassDef) and each.name == name), None)
