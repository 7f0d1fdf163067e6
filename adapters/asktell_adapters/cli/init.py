"""`asktell init`: a configuration for what is at hand, with comments, and small files where there is nothing yet."""

import argparse
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asktell.arguments import nearest
from asktell.errors import InvalidArgumentError
from asktell_adapters.cli.arguments import KINDS
from asktell_adapters.cli.first_config import HARNESSES, MODELS, PER_PROMPT, PROMPTS, TASK, Plan, quoted, relative
from asktell_adapters.cli.output import show
from asktell_adapters.datasets import load_prompts
from asktell_adapters.rows import Table

if TYPE_CHECKING:
    from asktell_adapters.config import Config

_KEY = "OPENAI_API_KEY"
_OF_MODELS = ("base_url", "api_key_env", "price", "data", "input", "reference", "encoding", "rubric")
_INPUTS = ("input", "text", "question", "document", "article", "content", "message", "query")
_REFERENCES = ("reference", "answer", "expected", "target", "label", "summary", "output", "ideal")
_RUBRIC = "The answer does what was asked, correctly and completely."


def init(arguments: argparse.Namespace) -> int:
    """`asktell init`."""
    ask = _Asking(sys.stdin.isatty() and not arguments.yes)
    kind = arguments.kind or ask.one_of("What answers?", {name: _what(name) for name in KINDS})
    path: Path = arguments.config or Path("selection.toml")
    _free(path, arguments.force)
    if kind in HARNESSES:
        return _harness(kind, path, arguments, ask)
    plan = _plan(kind, path, arguments, ask)
    made = plan.examples_of_ours()
    config = _written(path, plan.text(), made)
    counts = f"{len(config.selector.prompts)} prompts, {len(config.dataset)} examples"
    show(f"Wrote {', '.join(map(str, [path, *made]))}: {counts}.")
    show("Next:")
    for line in plan.next_steps():
        show(f"  {line}")
    return 0


def _written(path: Path, text: str, beside: Mapping[Path, str]) -> "Config":
    """The configuration, written if it can be read; if not, nothing is left behind.

    Raises:
        ConfigError: it cannot, or something in it looks like a key.
    """
    from asktell_adapters.config import load_config, refuse_secrets

    refuse_secrets(path.name, tomllib.loads(text))
    new = path.with_name(f".{path.name}.new")
    try:
        for file, content in {**beside, new: text}.items():
            file.write_text(content, encoding="utf-8")
        load_config(new)
    except BaseException:
        for file in (new, *beside):
            file.unlink(missing_ok=True)
        raise
    new.replace(path)
    return load_config(path)


def _what(kind: str) -> str:
    return MODELS[kind].what if kind in MODELS else HARNESSES[kind][0]


def _free(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise InvalidArgumentError(
            f"There is a file {str(path)!r} already. Name another one, or replace it with --force."
        )
    if not path.resolve().parent.is_dir():
        raise InvalidArgumentError(f"There is no folder {str(path.resolve().parent)!r}.")


class _Asking:
    """Questions to a person, where there is one; elsewhere the defaults."""

    def __init__(self, there: bool) -> None:
        self._there = there

    def text(self, question: str, default: str = "", check: Callable[[str], str] = lambda answer: answer) -> str:
        """An answer that passes `check`, which may raise an InvalidArgumentError."""
        while self._there:
            print(f"{question} [{default or 'none'}] ", end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
            if not line:
                break
            try:
                return check(line.strip() or default)
            except InvalidArgumentError as error:
                print(error, file=sys.stderr)
        return check(default)

    def one_of(self, question: str, choices: Mapping[str, str]) -> str:
        """One of the names; the first by default."""
        if self._there:
            for name, what in choices.items():
                print(f"  {name:<12} {what}", file=sys.stderr)

        def known(answer: str) -> str:
            if answer not in choices:
                raise InvalidArgumentError(
                    f"One of {', '.join(choices)}{nearest(answer, list(choices))}; got {answer!r}."
                )
            return answer

        return self.text(question, next(iter(choices)), known)


def _plan(kind: str, path: Path, arguments: argparse.Namespace, ask: _Asking) -> Plan:
    home = path.parent
    model = arguments.model or ask.text("Which model?", MODELS[kind].model)
    base_url = arguments.base_url
    key = None
    if kind == "openai":
        if base_url is None:
            base_url = ask.text("Address of the API, if it is not OpenAI's?") or None
        key = arguments.api_key_env or ask.text("Environment variable that holds the key?", _KEY, _variable)
        _variable(key)
    elif base_url or arguments.api_key_env or arguments.price:
        raise InvalidArgumentError(f"--base-url, --api-key-env and --price go with --kind openai, not with {kind}.")
    prompts = arguments.prompts or _path(ask.text("File of prompts? (none: a small example)", "", _there))
    data = arguments.data or _path(ask.text("File of examples? (none: a small example)", "", _there))
    own_prompts, own_data = prompts is not None, data is not None
    prompts, data = prompts or home / "prompts.txt", data or home / "examples.csv"
    there = own_data or data.exists()
    columns, n_rows, encoding = _columns(data, arguments.encoding) if there else (["question", "answer"], 8, None)

    def column(answer: str) -> str:
        if answer and answer not in columns:
            raise InvalidArgumentError(
                f"{data} has no column {answer!r}{nearest(answer, columns)}; there are {', '.join(columns)}."
            )
        return answer

    first = next((name for name in _INPUTS if name in columns), columns[0])
    chosen = column(arguments.input) if arguments.input else ask.text("Column of the input?", first, column)
    likely = next((name for name in _REFERENCES if name in columns and name != chosen), "")
    given = arguments.reference
    reference = (
        column("" if given == "none" else given) if given else ask.text("Column of the wanted answer?", likely, column)
    )
    rubric = _rubric(arguments.rubric or [])
    if not rubric:
        said = ask.text("What makes an answer good? (an LLM judges by it; none: only the wanted answer)", "")
        rubric = {"good": said or _RUBRIC} if said or not reference else {}
    n_prompts = len(load_prompts(prompts)) if own_prompts or prompts.exists() else len(PROMPTS.splitlines())
    budget = (
        arguments.budget if arguments.budget is not None else min(n_prompts * n_rows, max(1, PER_PROMPT * n_prompts))
    )
    return Plan(
        path, kind, model, base_url, key, prompts, data, chosen, reference or None, encoding, rubric, budget,
        arguments.price, (not own_prompts, not own_data),
    )  # fmt: skip


def _columns(data: Path, encoding: str | None) -> tuple[list[str], int, str | None]:
    """The columns of a table, its rows, and the encoding that has to be named."""
    try:
        table = Table(data, encoding=encoding)
    except InvalidArgumentError as error:
        if encoding is not None or "not UTF-8" not in str(error):
            raise
        encoding = "cp1252"  # Excel's on Windows
        table = Table(data, encoding=encoding)
    return list(map(str, table.rows[0].values)), len(table.rows), encoding


def _rubric(given: Sequence[str]) -> dict[str, str]:
    rubric = {}
    for number, text in enumerate(given, start=1):
        name, equals, rest = text.partition("=")
        named = equals and re.fullmatch(r"[\w -]{1,64}", name.strip())
        rubric[name.strip() if named else f"criterion {number}" if len(given) > 1 else "good"] = (
            rest.strip() if named else text
        )
    return rubric


def _harness(kind: str, path: Path, arguments: argparse.Namespace, ask: _Asking) -> int:
    """The configuration for what has models, data and metrics of its own."""
    for name in (*_OF_MODELS, *(["model"] if kind == "promptfoo" else [])):
        if getattr(arguments, name) is not None:
            raise InvalidArgumentError(f"--{name.replace('_', '-')} does not go with {kind}, which has that itself.")
    if arguments.prompts is not None and (kind == "promptfoo" or not arguments.prompts.exists()):
        had = "its config has the prompts" if kind == "promptfoo" else "there is no such file"
        raise InvalidArgumentError(f"--prompts {str(arguments.prompts)!r}: {had}.")
    text = HARNESSES[kind][1].replace("NAME", str(path))
    made: list[Path] = [path]
    if kind == "inspect":
        model = arguments.model or ask.text("Which model, by Inspect's name?", "openai/gpt-4o-mini")
        prompts = arguments.prompts or path.parent / "prompts.txt"
        for file, content in ((prompts, PROMPTS), (path.parent / "inspect_task.py", TASK)):
            if not file.exists():
                file.write_text(content, encoding="utf-8")
                made.append(file)
        home = path.resolve().parent
        text = text.replace("PROMPTS", quoted(relative(prompts, home))).replace("MODEL", quoted(model))
    if arguments.budget is not None:
        text = text.replace("budget = 32 ", f"budget = {arguments.budget} ")
    path.write_text(text, encoding="utf-8")
    show(f"Wrote {', '.join(map(str, made))}.")
    show("Next:")
    show(f"  asktell check {path}")
    show(f"  asktell run {path}")
    return 0


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        # The value is not repeated: it may be the key itself.
        raise InvalidArgumentError(
            "The name of an environment variable is wanted, such as OPENAI_API_KEY, never the key."
        )
    return name


def _there(answer: str) -> str:
    if answer and not Path(answer).expanduser().exists():
        raise InvalidArgumentError(f"There is no file {answer!r}.")
    return answer


def _path(answer: str) -> Path | None:
    return Path(answer).expanduser() if answer else None
