"""How large asktell is: `python -m benchmarks.size`. `[tool.asktell.size]` of pyproject.toml says how large it may be.

A room is a file or a folder directly in `asktell/`; an arrow says that one room imports another, wherever in a file the
import stands; floors are the rooms of the longest chain of arrows. `asktell/__init__.py` is a room, too.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FACES = {
    "Selector": "asktell.selector",
    "Study": "asktell.studies.study",
    "RemoteStudy": "asktell.service.client",
    "Worker": "asktell.studies.worker",
}


def arrows(package: Path) -> set[tuple[str, str]]:
    """Which room of a package imports which other one."""
    rooms = {path.stem if path.is_file() else path.name for path in package.iterdir()}
    found = set()
    for path in package.rglob("*.py"):
        inside = path.relative_to(package).with_suffix("").parts[0]
        for imported in _imported(ast.parse(path.read_text(encoding="utf-8")), package.name):
            room = imported if imported in rooms else "__init__"
            if room != inside:
                found.add((inside, room))
    return found


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
        return 1 + max((depth(below) for above, below in edges if above == room), default=0)

    try:
        return max(depth(above) for above, _ in edges)
    except RecursionError:
        raise ValueError("The rooms import each other in a circle.") from None


def measure(root: Path = ROOT) -> dict[str, int]:
    """Every size by its name in pyproject.toml."""
    edges = arrows(root / "asktell")
    rooms = [p for p in (root / "asktell").iterdir() if p.suffix == ".py" or (p.is_dir() and any(p.rglob("*.py")))]
    sizes = {
        "rooms": sum(room.stem != "__main__" for room in rooms),
        "arrows": len(edges),
        "floors": floors(edges),
    }
    for folder in ("asktell", "adapters", "tests", "benchmarks"):
        sizes[f"lines-{folder}"] = sum(
            len(path.read_text(encoding="utf-8").splitlines())
            for path in (root / folder).rglob("*.py")
            if not path.is_symlink() and "node_modules" not in path.parts
        )
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    sizes["words-docs"] = sum(len(re.findall(r"\S+", page.read_text(encoding="utf-8"))) for page in pages)
    loaded = "import json, sys, asktell; print(json.dumps([m for m in sys.modules if m.split('.')[0] == 'asktell']))"
    sizes["modules-imported"] = len(json.loads(_run(root, loaded)))
    for face, module in FACES.items():
        listed = f"from {module} import {face}; print(sum(not name.startswith('_') for name in dir({face})))"
        sizes[f"members-{face}"] = int(_run(root, listed))
    return sizes


def budget(root: Path = ROOT) -> dict[str, int]:
    """The largest size allowed, by the names of `measure`."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    allowed: dict[str, int] = settings["tool"]["asktell"]["size"]
    return allowed


def _run(root: Path, code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    allowed = budget()
    for name, size in measure().items():
        print(f"{name:22} {size:7,} of {allowed[name]:7,}{'  TOO MUCH' if size > allowed[name] else ''}")
