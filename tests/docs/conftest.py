"""A page of the documentation whose code runs from top to bottom."""

import io
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "site"))


class Page:
    """The code blocks of a page. The blocks in Python share their names.

    A block "output" shows what the block above it prints. `run` compares the two, and
    so does `printed` for a command. With `--renew-pages`, the page is rewritten with
    the new output instead.
    """

    def __init__(
        self, name: str, blocks: Sequence[int] | None = None, renew: bool = False
    ) -> None:
        self.path = DOCS / name
        self.text = self.path.read_text()
        self.renew = renew
        self.names: dict[str, Any] = {}
        self.left = list(
            range(len(self.blocks("python"))) if blocks is None else blocks
        )

    def blocks(self, language: str) -> list[str]:
        """The blocks in a language, each after as many empty lines as stand above it, so that tracebacks are right."""
        found = re.finditer(
            rf"^```{language}\n(.*?)^```$", self.text, re.DOTALL | re.MULTILINE
        )
        return [
            "\n" * self.text[: block.start(1)].count("\n") + block[1] for block in found
        ]

    def block(self, language: str) -> str:
        """The only block in a language."""
        (block,) = self.blocks(language)
        return block.lstrip("\n")

    def commands(self) -> list[list[str]]:
        """The words of each call of `asktell` in a shell."""
        lines = "\n".join(self.blocks("sh")).replace("\\\n", " ").splitlines()
        return [
            shlex.split(line, comments=True)
            for line in lines
            if line.startswith("asktell ")
        ]

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
            code = self.take()
            with redirect_stdout(Copying(sys.stdout)) as out:
                self.execute(code, **names)
            names = {}
            self.printed(code.lstrip("\n"), out.getvalue())
        return self.names

    def printed(self, source: str, output: str) -> None:
        """Hold the block "output" below the block that contains this source to what the source printed.

        Lines of the block that consist of "..." stand for any number of lines.
        """
        closing = re.compile(r"^```\n", re.MULTILINE).search(
            self.text, self.text.index(source)
        )
        assert closing is not None
        shown = re.compile(
            r"\n*^```output\n(.*?)^```$", re.DOTALL | re.MULTILINE
        ).match(self.text, closing.end())
        if shown is None:
            return
        parts = [
            re.escape(part)
            for part in re.split(r"^\.\.\.\n", shown[1], flags=re.MULTILINE)
        ]
        # How long something may take is estimated from a busy machine
        parts = [
            re.sub(r"^(time(?:\\ )+about\\ )\d+", r"\1\\d+", part, flags=re.MULTILINE)
            for part in parts
        ]
        if re.fullmatch(".*".join(parts), _without_trailing_space(output), re.DOTALL):
            return
        assert self.renew, (
            f"{self.path.name} shows other output. Run the test with --renew-pages, and read the page."
        )
        # Found by its number, since a test may have changed the code above it
        # (`replace`).
        number = self.text.count("\n```output\n", 0, shown.start(1))
        original = self.path.read_text()
        start = list(re.finditer(r"\n```output\n", original))[number - 1].end()
        self.path.write_text(
            original[:start]
            + _without_trailing_space(output)
            + original[start + len(shown[1]) :]
        )


class Copying(io.StringIO):
    """A stream that keeps what is written, and passes it on to another stream."""

    def __init__(self, other: Any) -> None:
        super().__init__()
        self.other = other

    def write(self, text: str) -> int:
        self.other.write(text)
        return super().write(text)


def _without_trailing_space(text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "\n".join(lines) + "\n"


@pytest.fixture
def page(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Page]:
    """The page, or the blocks of it, that the test's mark names, in an empty folder. All of its Python has to run."""
    monkeypatch.chdir(tmp_path)
    mark = request.node.get_closest_marker("page")
    page = Page(
        mark.args[0],
        mark.kwargs.get("blocks"),
        request.config.getoption("--renew-pages"),
    )
    yield page
    assert not page.left, f"{page.path.name}: block(s) {page.left} did not run"


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Pages on a harness that needs an environment of its own run there only: make test-adapters."""
    marks = [(item, item.get_closest_marker("page")) for item in items]
    families = {
        item: mark.kwargs.get("family") for item, mark in marks if mark is not None
    }
    wanted = config.getoption("--family")
    gone = {item for item, family in families.items() if family != wanted}
    if wanted is not None:
        gone |= {
            item
            for item in items
            if item.path.parent == Path(__file__).parent and item not in families
        }
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=list(gone))
