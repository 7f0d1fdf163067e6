"""A page of the documentation whose code runs from top to bottom."""

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "site"))


class Page:
    """The code blocks of a page. Those in Python share their names."""

    def __init__(self, name: str, blocks: Sequence[int] | None = None) -> None:
        self.path = DOCS / name
        self.text = self.path.read_text()
        self.names: dict[str, Any] = {}
        self.left = list(range(len(self.blocks("python"))) if blocks is None else blocks)

    def blocks(self, language: str) -> list[str]:
        """The blocks in a language, each after as many empty lines as stand above it, so that tracebacks are right."""
        found = re.finditer(rf"^```{language}\n(.*?)^```$", self.text, re.DOTALL | re.MULTILINE)
        return ["\n" * self.text[: block.start(1)].count("\n") + block[1] for block in found]

    def block(self, language: str) -> str:
        """The only block in a language."""
        (block,) = self.blocks(language)
        return block.lstrip("\n")

    def commands(self) -> list[list[str]]:
        """The words of each call of `asktell` in a shell."""
        lines = "\n".join(self.blocks("sh")).replace("\\\n", " ").splitlines()
        return [shlex.split(line, comments=True) for line in lines if line.startswith("asktell ")]

    def replace(self, old: str, new: str) -> None:
        """Change the page's code; what is changed has to be there."""
        assert old in self.text
        self.text = self.text.replace(old, new)

    def take(self) -> str:
        """The next block in Python."""
        return self.blocks("python")[self.left.pop(0)]

    def execute(self, code: str, **names: Any) -> None:
        """Run code with the page's names and some more."""
        self.names |= names
        exec(compile(code, str(self.path), "exec"), self.names)

    def run(self, n_blocks: int | None = None, **names: Any) -> dict[str, Any]:
        """Run the next blocks in Python, or all that are left; returns the page's names."""
        for _ in range(len(self.left) if n_blocks is None else n_blocks):
            self.execute(self.take(), **names)
            names = {}
        return self.names


@pytest.fixture
def page(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """The page, or the blocks of it, that the test's mark names, in an empty folder. All of its Python has to run."""
    monkeypatch.chdir(tmp_path)
    mark = request.node.get_closest_marker("page")
    page = Page(mark.args[0], mark.kwargs.get("blocks"))
    yield page
    assert not page.left, f"{page.path.name}: block(s) {page.left} did not run"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Pages on a harness that needs an environment of its own run there only: make test-adapters."""
    marks = [(item, item.get_closest_marker("page")) for item in items]
    families = {item: mark.kwargs.get("family") for item, mark in marks if mark is not None}
    wanted = config.getoption("--family")
    gone = {item for item, family in families.items() if family != wanted}
    if wanted is not None:
        gone |= {item for item in items if item.path.parent == Path(__file__).parent and item not in families}
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=list(gone))
