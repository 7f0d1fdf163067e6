"""The English of pages, errors, docstrings and comments: habits per 1,000 words, and words that were replaced.

A number is a symptom. Rewrite the sentence, and never just the spelling that a pattern
looks for. The style sheet is docs/contributing/style.md.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.conftest import DOCS, ROOT

KINDS = ("docs", "errors", "docstrings", "comments")

_HEADLESS = (
    r"\b(the|an?other|new|old|earlier|later|several|true|best|large|small|first|last|current|existing|known|whole)"
    r" one\b"
    r"|\bthose (that|of|who|which|in|with|whose|from|there|it|they|given|seen)\b|\bthat of\b"
    r"|\bone (that|of|who|whose|with|in|is)\b"
)
_WHAT = (
    r"\b[Ww]hat (is|was|are|were|has|have|had|it|they|came|comes|counts|follows|becomes|would|more|each|this|holds"
    r"|stands|must|may|many|its|few|others|an|a|the)\b"
)

# Pattern, and the most per 1,000 words of pages, errors, docstrings and comments.
HABITS: dict[str, tuple[str, tuple[float, float, float, float]]] = {
    "objects that speak": (
        r"\b(says|knows|names|tells|speaks|states|proves|claims|sees)\b",
        (1.1, 2.7, 2.2, 2.4),
    ),
    "headless pronouns": (_HEADLESS, (0.8, 5.0, 2.1, 2.4)),
    "what-clauses as nouns": (_WHAT, (0.6, 0.3, 1.2, 1.5)),
    "semicolons": (";", (1.5, 8.7, 3.5, 4.6)),
    "colon and lower case": (r"[\w`)]: [a-z`]", (3.2, 24.6, 10.0, 10.9)),
    "persons for things": (
        r"\b([Ww]hoever|[Nn]obody|[Ss]omebody|[Ee]verybody|[Ww]hom)\b",
        (0.1, 0.1, 0.3, 0.7),
    ),
}

# Words that were replaced, and where: docs/contributing/style.md says by which. Bandit
# theory has pulls and arms.
REPLACED = {
    "95 %": (r"\d %(?![sdrfgeix(])", KINDS),
    "pulls": (r"\bpulls\b", ("docs", "errors")),
    "go on": (r"\b[Gg]o on\b", ("errors",)),
    "keep every limit": (r"\bkeeps? (every|all) (limit|threshold|bound)s?\b", KINDS),
}


@cache
def texts(kind: str) -> tuple[tuple[str, str], ...]:
    """Place and text of everything that a person reads."""
    if kind == "docs":
        return tuple(_pages())
    sources = [
        path
        for folder in ("asktell", "adapters")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    read = {"errors": _errors, "docstrings": _docstrings, "comments": _comments}[kind]
    return tuple((place, text) for path in sources for place, text in read(path))


def _pages() -> Iterator[tuple[str, str]]:
    skipped = {"changes", "site", "api"}
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        name = path.relative_to(ROOT)
        # The style sheet quotes the habits and the words that it advises against.
        if not skipped & set(name.parts) and name.name != "style.md":
            yield str(name), _prose(path.read_text(encoding="utf-8"))


def _prose(text: str) -> str:
    """Markdown without code, pictures, comments and the targets of links."""
    for pattern, new in (
        (r"^---\n.*?\n---\n", ""),
        # Docstrings and help texts, which are read where they stand
        (r"<!-- generated: .*?<!-- end -->", ""),
        (r"```.*?```", ""),
        (r"!\[[^\]]*\]\([^)]*\)", ""),
        (r"\[([^\]]*)\]\([^)]*\)", r"\1"),
        (r"<!--.*?-->", ""),
        (r"`[^`\n]*`", "x"),
    ):
        text = re.sub(pattern, new, text, flags=re.DOTALL | re.MULTILINE)
    return text


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    """What has a docstring, or raises an error."""
    kinds = (
        ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Raise
    )
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(node for node in found if isinstance(node, kinds))


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    for node in _nodes(path):
        if not isinstance(node, ast.Raise):
            text = ast.get_docstring(node)
            if text:
                # Code, and the name of an argument in front of its text, are no prose.
                text = re.sub(r"^ *```.*?```", "", text, flags=re.DOTALL | re.MULTILINE)
                text = re.sub(r"^    [*\w]+: ", "", text, flags=re.MULTILINE)
                yield (
                    f"{path.relative_to(ROOT)}:{node.body[0].lineno}",
                    re.sub(r"`[^`\n]*`", "x", text),
                )


def _errors(path: Path) -> Iterator[tuple[str, str]]:
    for node in _nodes(path):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for text in map(_string, node.exc.args):
                if len(text) > 15:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def _string(node: ast.expr) -> str:
    """The constant parts of a text; x for the others."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "x"
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _string(node.left) + _string(node.right)
    return (
        f"{_string(node.body)} {_string(node.orelse)}"
        if isinstance(node, ast.IfExp)
        else ""
    )


def _comments(path: Path) -> Iterator[tuple[str, str]]:
    source = path.read_text(encoding="utf-8")
    if "#" not in source:
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(
            ("# noqa", "# type:", "# fmt")
        ):
            yield f"{path.relative_to(ROOT)}:{token.start[0]}", token.string


@pytest.mark.parametrize("kind", KINDS)
def test_habits(kind: str) -> None:
    n_words = sum(len(text.split()) for _, text in texts(kind))
    assert n_words > 5000
    wrong = {}
    for habit, (pattern, most) in HABITS.items():
        compiled = re.compile(pattern, re.MULTILINE)
        found = sum(len(compiled.findall(text)) for _, text in texts(kind))
        rate = 1000 * found / n_words
        if rate > most[KINDS.index(kind)]:
            wrong[habit] = (
                f"{rate:.2f} per 1,000 words, at most {most[KINDS.index(kind)]}"
            )
    assert wrong == {}


@pytest.mark.parametrize("kind", KINDS)
def test_replaced_words_stay_away(kind: str) -> None:
    found = [
        f"{place}: {word}"
        for word, (pattern, kinds) in REPLACED.items()
        for place, text in texts(kind)
        if kind in kinds and re.search(pattern, text)
    ]
    assert found == []


def test_habits_are_counted() -> None:
    assert (
        len(re.findall(HABITS["objects that speak"][0], "It says what it knows.")) == 2
    )
    assert re.search(HABITS["headless pronouns"][0], "The scores of those that left.")
    assert re.search(REPLACED["95 %"][0], "It is right with 95 % probability.")
    assert not re.search(REPLACED["95 %"][0], "n %d, 5 %(name)s, 95%")
    assert (
        _prose("Read [this](that.md) `code`.\n```python\nx; y\n```\n")
        == "Read this x.\n\n"
    )
