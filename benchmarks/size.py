"""How large asktell is: `python -m benchmarks.size`. `[tool.asktell.size]` of pyproject.toml says how large it may be.

Size is counted in nodes of the syntax trees, without docstrings: line breaks, names for
steps, docstrings and comments cost nothing. Nodes per line of code, and lines of
docstrings and comments per 100 lines of code, say how dense it is.

A room is a file or a folder directly in `asktell/`. An arrow says that one room imports
another, wherever in a file the import stands. Floors are the rooms of the longest chain
of arrows, and a circle is a group of files that import each other.
`asktell/__init__.py` is a room, too.

A name is across rooms if another room takes it from the one that defines it. Each name
counts once, however many rooms take it. The more names, the more of a room has to be
known outside of it. The members of `State` and `Problem` are those without an
underscore: fields, methods and properties.

A name such as `found` or `each` does not say what it stands for. `pronoun-locals-...` is
the percentage of such names among all names that are assigned, loop variables and
annotated fields included. Parameters do not count.

A facet of the record is optional. `files-of-...` are the files of `asktell/` with a
name that has its word, such as `proxies` in `state.proxies`.

Calls are those of asktell's own functions for one score on its way: told to a selector
or to a study in memory, told where `auto` then decides, and read in a new result. Nouns
are those that AGENTS.md lists.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FACES = {
    "Selector": "asktell.selector",
    "Study": "asktell.studies.study",
    "RemoteStudy": "asktell.studies.remote",
}
PRONOUNS = [
    "each", "found", "given", "it", "kept", "known", "made", "one", "other", "others", "own", "said", "taken", "that",
    "them", "this", "told", "which",
]  # fmt: skip
FACETS = {
    "proxies": "prox",
    "repeats": "repeat",
    "failures": "fail",
    "growth": "growth",
}
RECORD = {"State": "asktell/record/state.py", "Problem": "asktell/problem/problem.py"}


def arrows(package: Path) -> set[tuple[str, str]]:
    """Which room of a package imports which other one."""
    rooms = {path.stem if path.is_file() else path.name for path in package.iterdir()}
    imports = set()
    for path in package.rglob("*.py"):
        inside = path.relative_to(package).with_suffix("").parts[0]
        for imported in _imported(
            ast.parse(path.read_text(encoding="utf-8")), package.name
        ):
            room = imported if imported in rooms else "__init__"
            if room != inside:
                imports.add((inside, room))
    return imports


def _imported(tree: ast.AST, package: str) -> list[str]:
    """The first names below the package of all that is imported from it."""
    dotted: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            dotted += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            dotted += [f"{alias.name}." for alias in node.names]
    return [name.split(".")[1] for name in dotted if name.split(".")[0] == package]


def floors(edges: set[tuple[str, str]]) -> int:
    """Rooms of the longest chain of arrows.

    Raises:
        ValueError: the arrows run in a circle.
    """

    @cache
    def depth(room: str) -> int:
        return 1 + max(
            (depth(below) for above, below in edges if above == room), default=0
        )

    try:
        return max(depth(above) for above, _ in edges)
    except RecursionError:
        raise ValueError("The rooms import each other in a circle.") from None


class Code(NamedTuple):
    """Totals over files of Python."""

    nodes: int
    lines: int  # of code: neither empty, nor of a docstring or a comment alone
    docstrings: int  # lines
    comments: int  # lines that hold nothing else
    names: int  # that are assigned, loop variables and annotated fields included
    pronouns: int  # of these names

    @classmethod
    def of(cls, source: str) -> "Code":
        """The totals of one file."""
        tree, documented = list(ast.walk(ast.parse(source))), set[int]()
        nodes = sum(not isinstance(node, ast.expr_context) for node in tree)
        for text in _docstrings(tree):
            documented |= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
            nodes -= 2  # the expression and its constant
        stripped = [line.strip() for line in source.splitlines()]
        undocumented = [
            line
            for number, line in enumerate(stripped, 1)
            if line and number not in documented
        ]
        comments = sum(line.startswith("#") for line in undocumented)
        docstrings = sum(bool(stripped[number - 1]) for number in documented)
        names = [
            node.id
            for node in tree
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        return cls(
            nodes,
            len(undocumented) - comments,
            docstrings,
            comments,
            len(names),
            sum(name in PRONOUNS for name in names),
        )

    @classmethod
    def of_folder(cls, folder: Path) -> "Code":
        """The totals of a folder's files."""
        paths = [
            path
            for path in folder.rglob("*.py")
            if not path.is_symlink() and "node_modules" not in path.parts
        ]
        totals = [cls.of(path.read_text(encoding="utf-8")) for path in paths]
        return cls(*(sum(column) for column in zip(*totals, strict=True)))


def _docstrings(nodes: Iterable[ast.AST]) -> Iterator[ast.Expr]:
    """The docstrings of modules and functions, and those of classes and their attributes."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef):
            texts = node.body
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            texts = node.body[:1]
        else:
            continue
        for text in texts:
            if (
                isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                yield text


def names_across(package: Path) -> set[tuple[str, str]]:
    """The names that rooms of a package take from each other, each with the module that defines it.

    An `__init__` only passes on names. A name that is taken from it counts where it is
    defined, and what an `__init__` imports itself does not count.
    """
    trees = {
        _dotted(path, package).removesuffix(".__init__"): ast.parse(
            path.read_text(encoding="utf-8")
        )
        for path in package.rglob("*.py")
    }
    passed_on = {
        _dotted(path.parent, package)
        for path in package.rglob("__init__.py")
        if path.parent != package
    } | {package.name}
    across = set()
    for module, tree in trees.items():
        if module in passed_on:
            continue
        for taken_from, name in _taken(tree):
            home = _home(taken_from, name, trees, passed_on)
            if home is not None and _room(home) != _room(module):
                across.add((home, name))
    return across


def _taken(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The module and the name of all `from MODULE import NAME`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.module, alias.name


def _home(
    module: str, name: str, trees: Mapping[str, ast.AST], passed_on: set[str]
) -> str | None:
    """The module that defines a name, where an `__init__` may pass the name on. None outside of the package."""
    if f"{module}.{name}" in trees:
        return f"{module}.{name}"
    if module not in trees:
        return None
    if module in passed_on:
        for source, passed in _taken(trees[module]):
            if passed == name and source != module:
                return _home(source, name, trees, passed_on)
    return module


def _room(module: str) -> str:
    """The room of a module, such as `problem` of `asktell.problem.goals`."""
    return module.split(".")[1] if "." in module else module


def members(path: Path, name: str) -> int:
    """The number of fields, methods and properties of a class in a file, without those that begin with an underscore.

    Raises:
        ValueError: the file has no such class.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name == name:
            names = set()
            for part in node.body:
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    names.add(part.name)
                elif isinstance(part, ast.AnnAssign):
                    names.add(ast.unparse(part.target))
            return sum(not name.startswith("_") for name in names)
    raise ValueError(f"{path} has no class {name!r}.")


def circles(package: Path) -> int:
    """The number of groups of files that import each other, directly or by way of others.

    Imports inside functions and for types alone count as well as those at the top of a
    file. An `__init__` only passes on the names of its folder, so it is part of no
    circle.
    """
    names = {
        _dotted(path, package): path
        for path in package.rglob("*.py")
        if path.stem != "__init__"
    }
    edges: dict[str, set[str]] = {}
    for name, path in names.items():
        imported = _dotted_imports(ast.parse(path.read_text(encoding="utf-8")))
        edges[name] = {
            module for module in imported if module in names and module != name
        }
    reached = {name: _reached(name, edges) for name in names}
    groups = {
        frozenset(
            reachable for reachable in reached[name] if name in reached[reachable]
        )
        for name in names
    }
    return sum(len(group) > 1 for group in groups)


def _dotted(path: Path, package: Path) -> str:
    return ".".join(path.relative_to(package.parent).with_suffix("").parts)


def _dotted_imports(tree: ast.AST) -> set[str]:
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            # A name may be a module of its own. If it is none, the module it comes from
            # counts.
            imported |= {node.module} | {
                f"{node.module}.{alias.name}" for alias in node.names
            }
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    return imported


def _reached(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    """The files that can be reached from one along imports."""
    reached, open_ = set[str](), [start]
    while open_:
        for name in edges[open_.pop()] - reached:
            reached.add(name)
            open_.append(name)
    return reached


def measure(root: Path = ROOT) -> dict[str, float]:
    """Every size by its name in pyproject.toml."""
    edges = arrows(root / "asktell")
    rooms = [
        p
        for p in (root / "asktell").iterdir()
        if p.suffix == ".py" or (p.is_dir() and any(p.rglob("*.py")))
    ]
    sizes: dict[str, float] = {
        "rooms": sum(room.stem != "__main__" for room in rooms),
        "arrows": len(edges),
        "floors": floors(edges),
    }
    adapters = root / "adapters" / "asktell_adapters"
    of_adapters = arrows(adapters)
    sizes["rooms-adapters"] = len({room for pair in of_adapters for room in pair})
    sizes["arrows-adapters"] = len(of_adapters)
    for facet, word in FACETS.items():
        sizes[f"files-of-{facet}"] = files_of(word, root / "asktell")
    sizes["circles"] = circles(root / "asktell")
    sizes["circles-adapters"] = circles(adapters)
    sizes["names-across-asktell"] = len(names_across(root / "asktell"))
    sizes["names-across-adapters"] = len(names_across(adapters))
    sizes["nodes-kernel"] = sum(
        Code.of(path.read_text(encoding="utf-8")).nodes for path in kernel(root)
    )
    for folder in ("asktell", "adapters", "tests", "benchmarks"):
        code = Code.of_folder(root / folder)
        sizes[f"nodes-{folder}"] = code.nodes
        if folder in ("asktell", "adapters"):
            sizes[f"nodes-per-line-{folder}"] = round(code.nodes / code.lines, 2)
            sizes[f"least-docstring-lines-{folder}"] = round(
                100 * code.docstrings / code.lines, 1
            )
            sizes[f"least-comment-lines-{folder}"] = round(
                100 * code.comments / code.lines, 1
            )
            sizes[f"pronoun-locals-{folder}"] = round(
                100 * code.pronouns / code.names, 2
            )
    loaded = "import json, sys, asktell; print(json.dumps([m for m in sys.modules if m.split('.')[0] == 'asktell']))"
    sizes["modules-imported"] = len(json.loads(_run(root, loaded)))
    for name, file in RECORD.items():
        sizes[f"members-{name}"] = members(root / file, name)
    for face, module in FACES.items():
        listed = f"from {module} import {face}; print(sum(not name.startswith('_') for name in dir({face})))"
        sizes[f"members-{face}"] = int(_run(root, listed))
    counted = (
        "import json; from benchmarks.size import calls; print(json.dumps(calls()))"
    )
    sizes |= json.loads(_run(root, counted))
    sizes["nouns"] = nouns(root)
    return sizes


def files_of(word: str, package: Path) -> int:
    """The number of files of a package with a name that has this word."""
    fields = ("id", "attr", "arg", "name")
    return sum(
        any(
            word in str(getattr(node, field, "")).lower()
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for field in fields
        )
        for path in package.rglob("*.py")
    )


def nouns(root: Path = ROOT) -> int:
    """The number of nouns that AGENTS.md lists."""
    text = (root / "AGENTS.md").read_text(encoding="utf-8")
    section = text.partition("## The nouns\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| [a-z ]+ \| (.+) \| \d+ \|$", section, re.MULTILINE)
    return sum(len(row.split(", ")) for row in rows)


def calls() -> dict[str, int]:
    """Calls of asktell's functions, on the ways of one score. The scores are the same each time."""
    import asktell
    from asktell.studies.storages.memory import MemoryStorage

    package = f"{Path(asktell.__file__).parent}{os.sep}"

    def counted(function: Callable[[], object]) -> int:
        entered = Counter[str]()

        def note(frame: FrameType, event: str, _: object) -> None:
            entered[event] += frame.f_code.co_filename.startswith(package)

        sys.setprofile(note)
        try:
            function()
        finally:
            sys.setprofile(None)
        return entered["call"]

    def selector() -> asktell.Selector:
        goal = asktell.BestFeasible("quality")
        return asktell.Selector(list("abcdefghij"), goal, 200, examples=100)

    def tell_next(face: asktell.Selector | asktell.Study) -> int:
        trial = face.ask()
        assert trial is not None
        scores = {"quality": (7 * trial.prompt_id + 3 * trial.example) % 11 / 11}
        return counted(lambda: face.tell(trial, scores))

    alone = selector()
    study = asktell.Study.create(MemoryStorage(), "study", selector())
    # Both have made several decisions, and make another one in the last twenty tells
    of_selector = [tell_next(alone) for _ in range(80)][60:]
    of_study = [tell_next(study) for _ in range(80)][60:]
    return {
        "calls-Selector.tell": min(of_selector),
        "calls-Study.tell": min(of_study),
        "calls-tell-and-decide": max(of_selector),
        "calls-new-result": counted(alone.result),
    }


def kernel(root: Path = ROOT) -> list[Path]:
    """The files that AGENTS.md tells a newcomer to read first, in its order."""
    text = (root / "AGENTS.md").read_text(encoding="utf-8")
    section = text.partition("## The kernel\n")[2].partition("\n## ")[0]
    return [
        root / name for name in re.findall(r"^\d+\. `([^`]+)`", section, re.MULTILINE)
    ]


def budget(root: Path = ROOT) -> dict[str, float]:
    """The largest size allowed, by the names of `measure`; of names that begin with "least", the smallest."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    allowed: dict[str, float] = settings["tool"]["asktell"]["size"]
    return allowed


def exceeds(name: str, size: float, allowed: float) -> bool:
    """True if a size is on the wrong side of what is allowed."""
    return size < allowed if name.startswith("least") else size > allowed


def _run(root: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    allowed = budget()
    for name, size in measure().items():
        wrong = "TOO LITTLE" if name.startswith("least") else "TOO MUCH"
        print(
            f"{name:32} {size:9,} of {allowed[name]:9,}  {wrong if exceeds(name, size, allowed[name]) else ''}"
        )
