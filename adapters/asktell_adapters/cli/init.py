"""`asktell init`: write a commented configuration for the given files, and small example files where none are given."""

import argparse
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from asktell import InvalidArgumentError
from asktell.extend import nearest, some, write_atomically
from asktell_adapters.cli.output import note, show
from asktell_adapters.config import Config, load_config
from asktell_adapters.config.model import MODELS, kinds_with
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.prompts import check_fields, unread_fields
from asktell_adapters.tables.datasets import load_prompts
from asktell_adapters.tables.rows import Table

PER_PROMPT = 8
"""Evaluations per prompt in the first budget."""

_TEMPLATES = Path(__file__).with_name("templates")
_LONGEST_ANSWER = 256  # tokens
_CHARACTERS_PER_TOKEN = 2  # a low number, since it bounds the cost from above


def template(name: str) -> str:
    """The text of an example file."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


HARNESSES = {
    "promptfoo": "a promptfoo config: its prompts, tests, providers and assertions",
    "inspect": "an Inspect task: its samples, solvers and scorers",
    "command": "a program of your own: an agent, or a script in any language",
}


def kinds() -> dict[str, str]:
    """The values of `--kind`: every kind of LLM and every harness, each with a summary."""
    built_in = {name: MODELS[name].summary for name in MODELS.built_in}
    of_packages = {
        name: f"of the package {package}" for name, package in MODELS.packages().items()
    }
    return {**built_in, **HARNESSES, **of_packages}


@dataclass
class Plan:
    """The content of a configuration to be written."""

    path: Path
    kind: str
    models: Sequence[str]
    base_url: str | None
    key: str | None
    prompts: Path
    data: Path
    input: str
    reference: str | None
    reading: Mapping[str, str]  # how to read the data: encoding, sheet, split
    encoding: str | None  # encoding of the prompts
    rubric: dict[str, str]
    budget: int
    price: Sequence[float] | None
    # Whether example files are written: for prompts, for data
    with_examples: tuple[bool, bool]
    # Rough upper bound of the cost of an evaluation; None without a price
    most_cost: float | None
    fields: bool = False

    def examples_of_ours(self) -> dict[Path, str]:
        """The example files to write next to the configuration. Existing files stay."""
        files = zip(
            self.with_examples,
            (self.prompts, self.data),
            ("prompts.txt", "examples.csv"),
            strict=True,
        )
        return {
            file: template(name)
            for ours, file, name in files
            if ours and not file.exists()
        }

    def next_steps(self) -> Iterator[str]:
        """The commands to run next, each with its purpose."""
        if self.key is not None and not os.environ.get(self.key):
            yield _commented(f"export {self.key}=...", "keep the key out of the file")
        yield _commented(
            f"asktell check {self.path}", "try one evaluation: response, scores, cost"
        )
        yield _commented(
            f"asktell run {self.path} --estimate", "estimate the whole run"
        )
        yield _commented(
            f"asktell run {self.path}", "Ctrl-C stops it; the same command resumes it"
        )
        yield _commented(f"asktell report {self.path}", "write the result as a page")

    def text(self) -> str:
        """The content of the configuration file."""
        return "\n\n".join("\n".join(section) for section in self._sections()) + "\n"

    def _sections(self) -> Iterator[list[str]]:
        """The tables of the file, each as its lines."""
        home = self.path.resolve().parent
        name = str(self.path)
        several = len(self.models) > 1
        needs = MODELS.packages().get(self.kind, f"'asktell[{self.kind}]'")
        yield [
            f"# Selects the best prompt.   Next: asktell check {name}, then asktell run {name}",
            f"# Needs: pip install {needs}",
            "# Every option: docs/reference/configuration.md",
        ]
        yield [
            _commented(
                f"budget = {self.budget}", "evaluations; asktell extend adds more later"
            ),
            _commented(
                "# budget = { cost = 1.0 }", "or money; requires a price in [model]"
            ),
            _commented("# confidence = 0.95", "stop at 95% confidence"),
            _commented(
                "# confirm_above = 5.0",
                "ask before a run that may cost more; requires a price",
            ),
        ]
        file = f"file = {quoted(relative(self.prompts, home))}"
        yield [
            "[prompts]",
            _commented(file, "one prompt per line or block, or a table"),
            *([f"encoding = {quoted(self.encoding)}"] if self.encoding else []),
            *(
                [
                    _commented(
                        "fields = true",
                        "replace {column} in prompts by the value of the row",
                    )
                ]
                if self.fields
                else []
            ),
        ]
        if several:
            yield [
                "[candidates]",
                _commented(
                    f"model = [{', '.join(map(quoted, self.models))}]",
                    "each model with every prompt",
                ),
                _commented(
                    "# temperature = [0.0, 0.7]", "settings are combined as well"
                ),
                _commented(
                    '# exclude = [{ model = "...", prompt = ["..."] }]',
                    "combinations to leave out",
                ),
            ]
        wanted = "false" if self.reference is None else quoted(self.reference)
        yield [
            "[data]",
            f"file = {quoted(relative(self.data, home))}",
            _commented(f"input = {quoted(self.input)}", "column of the input"),
            _commented(
                f"reference = {wanted}",
                "column of the reference response; false for none",
            ),
            *(f"{name} = {quoted(value)}" for name, value in self.reading.items()),
            _commented("# sample = 200", "use this many rows, drawn at random"),
        ]
        yield ["[model]", f"type = {quoted(self.kind)}", *self._model()]
        if several:
            price = "price = { input = 0.15, output = 0.6 }"
            different = [f"# {_bare(name)} = {{ {price} }}" for name in self.models]
            yield [_commented("# [models]", "settings of single models"), *different]
        yield [
            _commented("[cache]", "keep responses on disk, so that none is paid twice")
        ]
        of_words = _commented(
            "token_f1 = true", "words shared with the reference; or exact_match, rouge"
        )
        yield [
            "[metrics]",
            "output_tokens = true",
            *(
                [
                    _commented(
                        "cost = true",
                        "cost of an evaluation, from the price in [model]",
                    )
                ]
                if self.most_cost
                else []
            ),
            *([of_words] if self.reference is not None else []),
        ]
        if self.rubric:
            judge = {
                "type": self.kind,
                "model": self.models[0],
                "base_url": self.base_url,
                "api_key_env": self.key,
            }
            keys = ", ".join(
                f"{name} = {quoted(value)}" for name, value in judge.items() if value
            )
            yield [
                _commented(
                    "[metrics.quality]", "an LLM grades every response, from 1 to 5"
                ),
                _commented(
                    'metric = "judge"',
                    "uses the model itself; or set [metrics.quality.model]",
                ),
                "max_new_tokens = 512",
                *(
                    [_commented(f"model = {{ {keys} }}", "judges all models")]
                    if several
                    else []
                ),
            ]
            criteria = [
                f"{_bare(name)} = {quoted(text)}" for name, text in self.rubric.items()
            ]
            yield ["[metrics.quality.criteria]", *criteria]
        metric, ends = ("quality", "1, 5") if self.rubric else ("token_f1", "0, 1")
        yield [
            "[goal]",
            f"maximize = {quoted(metric)}",
            _commented(
                f"ranges = {{ {metric} = [{ends}] }}", "lowest and highest score"
            ),
            self._constraint(),
        ]

    def _constraint(self) -> str:
        """The line with the constraint of the goal."""
        if self.most_cost is None:
            return _commented(
                "# at_most = { output_tokens = 100 }", "a constraint on the mean"
            )
        comment = "about the highest cost of an evaluation; lower it to what you would pay on average"
        return _commented(f"at_most = {{ cost = {self.most_cost:.2g} }}", comment)

    def _model(self) -> Iterator[str]:
        """The lines of the table `[model]` after its type."""
        if len(self.models) == 1:
            yield f"model = {quoted(self.models[0])}"
        yield _commented(
            f"max_new_tokens = {_LONGEST_ANSWER}", "longer responses are cut"
        )
        yield _commented('# system = "You are ..."', "a system message for every call")
        if self.base_url:
            yield f"base_url = {quoted(self.base_url)}"
        if self.key is not None:
            yield _commented(
                f"api_key_env = {quoted(self.key)}",
                "the variable of the key, never the key itself",
            )
        if self.price:
            yield _commented(
                f"price = {{ input = {self.price[0]:g}, output = {self.price[1]:g} }}",
                "per million tokens",
            )
        settings = ("base_url", self.base_url), ("price =", self.price)
        for line, comment in MODELS[self.kind].advice:
            if not any(key in line and value is not None for key, value in settings):
                yield _commented(line, comment)


def _commented(line: str, comment: str) -> str:
    """A line with its comment. The comments of a file are aligned."""
    return f"{line:<44} # {comment}"


def relative(file: Path, home: Path) -> str:
    """The path of a file relative to the folder `home`, where possible."""
    try:
        return file.resolve().relative_to(home).as_posix()
    except ValueError:
        return Path(os.path.relpath(file.resolve(), home)).as_posix()


def quoted(text: Any) -> str:
    """A TOML string."""
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def _bare(name: str) -> str:
    """A TOML key, in quotes if it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


_T = TypeVar("_T")

_KEY = "OPENAI_API_KEY"
_OF_MODELS = ("base_url", "api_key_env", "price", "rubric")
_OF_DATA = ("data", "input", "reference", "encoding", "sheet", "split")
_INPUTS = (
    "input",
    "text",
    "question",
    "document",
    "article",
    "content",
    "message",
    "query",
)
# Patterns of column names in lower case without spaces and punctuation, the surest
# first
_REFERENCES = (
    r"(references?|expected|targets?|ideal|gold(en)?|groundtruths?|correct(?=.))"
    r"(answers?|outputs?|responses?|replies|reply|labels?|summar(y|ies)|texts?|values?)?",
    r"answers?",
    r"labels?(answers?)?",
    r"summar(y|ies)|outputs?",
)
# Columns that identify rows, and are no inputs
_NAMES = ("id", "uuid", "key", "index", "nr", "no", "number")
_RUBRIC = "The response does what was asked, correctly and completely."


def init(arguments: argparse.Namespace) -> int:
    """`asktell init`: write a configuration, and the example files that are missing."""
    ask = _Asking(sys.stdin.isatty() and not arguments.yes)
    kind = _kind(arguments) or ask.one_of("What do you want to evaluate?", kinds())
    path: Path = arguments.config or Path("selection.toml")
    if path.exists() and not arguments.force:
        raise InvalidArgumentError(
            f"{str(path)!r} exists already. Choose another name, or pass --force to replace the file."
        )
    if not path.resolve().parent.is_dir():
        raise InvalidArgumentError(
            f"There is no folder {str(path.resolve().parent)!r}. Create it first."
        )
    if kind in HARNESSES:
        return _harness(kind, path, arguments, ask)
    plan = _plan(kind, path, arguments, ask)
    files = plan.examples_of_ours()
    config = _written(plan, files)
    what = "prompts" if config.selector.prompts.candidates is None else "candidates"
    counts = f"{len(config.selector.prompts)} {what}, {len(config.dataset)} examples"
    show(f"Wrote {', '.join(map(str, [path, *files]))}: {counts}.")
    reference = (
        f"reference: {quoted(plan.reference)}"
        if plan.reference
        else "no reference (--reference COLUMN)"
    )
    show(f"Columns of {plan.data}: input: {quoted(plan.input)}, {reference}.")
    show("\n  ".join(["Next:", *plan.next_steps()]))
    return 0


def _kind(arguments: argparse.Namespace) -> str | None:
    """The kind that the flags choose; None if they leave it open.

    Raises:
        InvalidArgumentError: the flags contradict each other.
    """
    kind: str | None = arguments.kind
    if kind is not None and kind not in kinds():
        names = list(kinds())
        raise InvalidArgumentError(
            f"--kind must be one of {', '.join(names)}, got {kind!r}{nearest(kind, names)}."
        )
    if arguments.promptfoo is not None and kind not in (None, "promptfoo"):
        raise InvalidArgumentError(
            f"--promptfoo can be used only with --kind promptfoo, got --kind {kind}. Remove --promptfoo or --kind."
        )
    if arguments.program is not None and (
        arguments.promptfoo or kind not in (None, "command")
    ):
        raise InvalidArgumentError(
            "--command can be used only with --kind command and without --promptfoo. Remove one of these flags."
        )
    if kind is None and arguments.promptfoo is not None:
        kind = "promptfoo"
    if kind is None and arguments.program is not None:
        kind = "command"
    if (
        arguments.maximize is not None
        and arguments.promptfoo is None
        and kind != "command"
    ):
        raise InvalidArgumentError(
            "--maximize can be used only with --promptfoo FILE or --command WORDS. Add one of these flags, or remove "
            "--maximize."
        )
    return kind


def _written(plan: Plan, beside: Mapping[Path, str]) -> Config:
    """Write the configuration, and return it as read. If it cannot be read, leave no file behind."""
    for file, content in beside.items():
        write_atomically(file, content)
    config = _check_or_unlink(plan.path, plan.text(), beside)
    if _are_templates(config):
        plan = replace(plan, fields=True)
        config = _check_or_unlink(plan.path, plan.text(), beside)
    write_atomically(plan.path, plan.text())
    return config


def _check_or_unlink(path: Path, text: str, beside: Iterable[Path]) -> Config:
    """Read a configuration that is not written yet. If it cannot be read, remove the files `beside`."""
    try:
        return load_config(path, text=text)
    except BaseException:
        for file in beside:
            file.unlink(missing_ok=True)
        raise


def _are_templates(config: Config) -> bool:
    """Whether all names in braces in the prompts are columns, so that they are meant to be replaced."""
    prompts = config.selector.prompts.texts
    try:
        check_fields(prompts, config.examples, True)
    except InvalidArgumentError:
        return False
    return bool(unread_fields(prompts, config.examples))


class _Asking:
    """Ask a person at a terminal. Without a terminal, every question has its default as its answer."""

    def __init__(self, at_terminal: bool) -> None:
        self.at_terminal = at_terminal

    def text(
        self,
        question: str,
        default: str = "",
        check: Callable[[str], str] = lambda answer: answer,
    ) -> str:
        """Ask until `check` accepts the answer. It returns the answer's meaning, or raises an InvalidArgumentError."""
        while self.at_terminal:
            note(f"{question} [{default or 'none'}] ", end="")
            line = sys.stdin.readline()
            if not line:
                break
            try:
                return check(line.strip() or default)
            except InvalidArgumentError as error:
                note(str(error))
        return check(default)

    def file(self, what: str) -> Path | None:
        """Ask for a file that exists. None if an example is to be written."""
        question = f"File of {what}? (none: write a small example)"
        answer = self.text(question, "", _there)
        return Path(answer).expanduser() if answer else None

    def rubric(self, has_reference: bool) -> dict[str, str]:
        """Ask for the criterion of a judge. There is none if responses are compared with references."""
        criterion = self.text(
            "What makes a response good? (criterion for an LLM judge; none: compare with the reference)"
        )
        if criterion:
            return {"good": criterion}
        return {} if has_reference else {"good": _RUBRIC}

    def one_of(self, question: str, choices: Mapping[str, str]) -> str:
        """Ask for one of several names, whose descriptions are shown at a terminal."""
        if self.at_terminal:
            for name, what in choices.items():
                note(f"  {name:<12} {what}")

        def known(answer: str) -> str:
            if answer not in choices:
                raise InvalidArgumentError(
                    f"There is no choice {answer!r}{nearest(answer, list(choices))}. Choose one of "
                    f"{some(list(choices))}."
                )
            return answer

        return self.text(question, next(iter(choices)), known)


def _plan(kind: str, path: Path, arguments: argparse.Namespace, ask: _Asking) -> Plan:
    """Plan a run with an LLM. Ask for everything that no flag gives."""
    models = arguments.model
    if not models:
        question = "Which model? (separate several with spaces)"
        models = ask.text(question, MODELS[kind].first).split()
    base_url, key = _address(kind, arguments, ask)
    prompts = arguments.prompts or ask.file("prompts")
    data = arguments.data or ask.file("examples")
    ours = prompts is None, data is None
    prompts, texts, encoding = _texts(prompts, path.parent / "prompts.txt")
    data = data or path.parent / "examples.csv"
    if ours[1] and not data.exists():
        # --encoding, --sheet and --split do not apply to our own examples
        example = Table(_TEMPLATES / "examples.csv")
        rows, reading = [row.values for row in example.rows], dict[str, str]()
    else:
        rows, reading = _rows(data, arguments)
    chosen, reference = _columns(data, rows, arguments, ask)
    rubric = _rubric(arguments.rubric or [])
    if not rubric:
        rubric = ask.rubric(has_reference=bool(reference))
    n_prompts = len(texts) * len(models)
    budget = arguments.budget
    if budget is None:
        budget = min(n_prompts * len(rows), max(1, PER_PROMPT * n_prompts))
    return Plan(
        path, kind, models, base_url, key, prompts, data, chosen, reference or None, reading, encoding, rubric,
        budget, arguments.price, ours, _most_cost(arguments.price, texts, rows),
    )  # fmt: skip


def _texts(chosen: Path | None, usual: Path) -> tuple[Path, list[str], str | None]:
    """The file of prompts, its texts and a needed encoding. Without a file, the texts are those of our example."""
    path = chosen or usual
    if chosen is None and not usual.exists():
        return path, template("prompts.txt").splitlines(), None
    prompts, encoding = _decoded(lambda name: load_prompts(path, encoding=name), None)
    return (
        path,
        list(prompts.values() if isinstance(prompts, dict) else prompts),
        encoding,
    )


def _most_cost(
    price: Sequence[float] | None,
    prompts: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
) -> float | None:
    """Bound the cost of an evaluation roughly from above, by the longest prompt, row and response."""
    if not price or not any(price):
        return None
    characters = max(map(len, prompts)) + max(
        sum(len(str(value)) for value in row.values()) for row in rows
    )
    read, written = price
    return Price(read, written).of(characters // _CHARACTERS_PER_TOKEN, _LONGEST_ANSWER)


def _address(
    kind: str, arguments: argparse.Namespace, ask: _Asking
) -> tuple[str | None, str | None]:
    """The address of the API and the variable of its key, for a kind that has them."""
    base_url: str | None = arguments.base_url
    kinds_with_key = kinds_with("api_key_env")
    if kind not in kinds_with_key:
        if base_url or arguments.api_key_env or arguments.price:
            raise InvalidArgumentError(
                f"--base-url, --api-key-env and --price can be used only with --kind {' or '.join(kinds_with_key)}, "
                f"got {kind}. Remove these flags, or change --kind."
            )
        return None, None
    if base_url is None:
        base_url = ask.text("Address of the API? (none: OpenAI's)") or None
    key = arguments.api_key_env or ask.text(
        "Environment variable of the key?", _KEY, _variable
    )
    return base_url, _variable(key)


def _columns(
    data: Path,
    rows: Sequence[Mapping[str, Any]],
    arguments: argparse.Namespace,
    ask: _Asking,
) -> tuple[str, str]:
    """The columns of the input and of the reference. The latter is empty if there is none."""
    columns = list(map(str, rows[0]))

    def column(answer: str) -> str:
        if answer and answer not in columns:
            raise InvalidArgumentError(
                f"{data} has no column {answer!r}{nearest(answer, columns)}. Choose one of {some(columns)}."
            )
        return answer

    wanted = arguments.input
    listed = f"(columns: {', '.join(columns)})"
    chosen = (
        column(wanted)
        if wanted
        else ask.text(f"Column of the input? {listed}", _likely_input(rows), column)
    )
    likely = _likely_reference([name for name in columns if name != chosen])
    wanted = arguments.reference
    if wanted:
        return chosen, column("" if wanted == "none" else wanted)
    return chosen, ask.text(
        f"Column of the reference response? {listed}", likely, column
    )


def _likely_input(rows: Sequence[Mapping[str, Any]]) -> str:
    """The column that most likely contains the input: by its name, or else the first one with texts."""
    columns = list(map(str, rows[0]))
    reference = _likely_reference(columns)
    by_name = {name.strip().lower(): name for name in columns}
    if usual := [by_name[name] for name in _INPUTS if name in by_name]:
        return usual[0]
    candidates = [
        name for name in columns if name.lower() not in _NAMES and name != reference
    ]
    return next(
        (name for name in candidates if any(_is_text(row.get(name)) for row in rows)),
        columns[0],
    )


def _likely_reference(columns: Sequence[str]) -> str:
    """The column that, by its name, most likely contains the reference; empty if no name fits."""
    plain = {name: re.sub(r"[\W_]+", "", name.lower()) for name in columns}
    names = (
        name
        for usual in _REFERENCES
        for name in columns
        if re.fullmatch(usual, plain[name])
    )
    return next(names, "")


def _is_text(value: object) -> bool:
    """Whether a value is a text, and no number or date in a text."""
    return isinstance(value, str) and not re.fullmatch(r"[\s\d.,+-]*", value)


def _rows(
    data: Path, arguments: argparse.Namespace
) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
    """The rows of a file, and the keys of `[data]` with which the file can be read."""
    named = {
        name: value
        for name in ("sheet", "split")
        if (value := getattr(arguments, name)) is not None
    }
    table, encoding = _decoded(
        lambda name: Table(data, encoding=name, **named), arguments.encoding
    )
    return [row.values for row in table.rows], {
        **named,
        **({"encoding": encoding} if encoding else {}),
    }


def _decoded(
    read: Callable[[str | None], _T], encoding: str | None
) -> tuple[_T, str | None]:
    """Read with an encoding: the given one, or else UTF-8, or else cp1252. Return the content and a needed encoding."""
    try:
        return read(encoding), encoding
    except InvalidArgumentError as error:
        if encoding is not None or "not UTF-8" not in str(error):
            raise
    return read("cp1252"), "cp1252"  # written by Excel on Windows


def _rubric(criteria: Sequence[str]) -> dict[str, str]:
    """The criteria of a judge by their names. A criterion without a name is numbered, or "good" if it is alone."""
    rubric = {}
    for number, text in enumerate(criteria, start=1):
        name, equals, rest = text.partition("=")
        if equals and re.fullmatch(r"[\w -]{1,64}", name.strip()):
            rubric[name.strip()] = rest.strip()
        else:
            rubric["good" if len(criteria) == 1 else f"criterion {number}"] = text
    return rubric


def _harness(kind: str, path: Path, arguments: argparse.Namespace, ask: _Asking) -> int:
    """Write the configuration of a harness or a program, and the example files that are missing."""
    _check_harness(kind, arguments)
    text = template(f"{kind}.toml").replace("NAME", str(path))
    files: list[Path] = []
    notes: list[str] = []
    if kind == "promptfoo":
        text, notes = _promptfoo_config(text, path, arguments, ask)
    elif kind == "inspect":
        text, files = _inspect_config(text, path, arguments, ask)
    else:
        text, files = _command_config(text, path, arguments, ask)
    if arguments.budget is not None:
        text = text.replace("budget = 32 ", f"budget = {arguments.budget} ")
    if kind == "command":  # others are read by their harness, which may be missing
        _check_or_unlink(path, text, files)
    write_atomically(path, text)
    wrote = f"Wrote {', '.join(map(str, [path, *files]))}."
    next_steps = ["Next:", f"  asktell check {path}", f"  asktell run {path}"]
    show("\n".join([wrote, *notes, *next_steps]))
    return 0


def _check_harness(kind: str, arguments: argparse.Namespace) -> None:
    """Refuse flags for data or metrics that a harness has itself."""
    refused = (*_OF_MODELS, "model") if kind == "command" else (*_OF_MODELS, *_OF_DATA)
    for name in refused:
        if getattr(arguments, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InvalidArgumentError(
                f"{flag} cannot be used with --kind {kind}, where asktell does not control this setting. Remove {flag}."
            )
    prompts = arguments.prompts
    if prompts is not None and kind == "promptfoo":
        raise InvalidArgumentError(
            f"--prompts {str(prompts)!r} cannot be used, because the prompts are in promptfoo's configuration. "
            "Remove --prompts."
        )
    if prompts is not None and not prompts.exists():
        raise InvalidArgumentError(
            f"There is no file {str(prompts)!r}. Give --prompts the path of a file."
        )
    if len(arguments.model or ()) > 1:
        raise InvalidArgumentError(
            f"{kind} takes one --model, got {len(arguments.model)}. Keep one of them."
        )


def _inspect_config(
    text: str, path: Path, arguments: argparse.Namespace, ask: _Asking
) -> tuple[str, list[Path]]:
    """Fill in the configuration of an Inspect task. Return its text and the example files written next to it."""
    if arguments.model:
        (model,) = arguments.model
    else:
        model = ask.text("Which model, by Inspect's name?", "openai/gpt-4o-mini")
    prompts = arguments.prompts or path.parent / "prompts.txt"
    ours = {prompts: "prompts.txt", path.parent / "inspect_task.py": "inspect_task.txt"}
    files = _write_missing(ours)
    file = quoted(relative(prompts, path.resolve().parent))
    text = text.replace('"PROMPTS"', file).replace('"MODEL"', quoted(model))
    return text, files


def _write_missing(ours: Mapping[Path, str]) -> list[Path]:
    """Write the templates of the files that do not exist. Return these files."""
    missing = [file for file in ours if not file.exists()]
    for file in missing:
        write_atomically(file, template(ours[file]))
    return missing


def _promptfoo_config(
    text: str, path: Path, arguments: argparse.Namespace, ask: _Asking
) -> tuple[str, list[str]]:
    """Fill in the configuration from a promptfoo configuration, if given. Return its text and what to print."""
    provider = next(iter(arguments.model or ()), None)
    if provider is not None:
        text = re.sub(
            "^# (provider =) .*",
            lambda match: f"{match[1]} {quoted(provider)}",
            text,
            flags=re.MULTILINE,
        )
    if (source := arguments.promptfoo) is None:
        return text, []
    if source.suffix == ".jsonl":
        raise InvalidArgumentError(
            f"{source} looks like results of past runs, as OpenAI Evals exports them. Import them by `promptfoo "
            "import`, and give a configuration of prompts, providers and tests in YAML or JSON."
        )
    from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator

    source = source / "promptfooconfig.yaml" if source.is_dir() else source
    with PromptfooEvaluator(source, provider=provider) as evaluator:
        n_prompts = len(evaluator.prompts)
        n_tests = len(evaluator.tests)
        metrics = evaluator.metrics
        unbounded = evaluator.unbounded
    text = text.replace(
        '"promptfooconfig.yaml"', quoted(relative(source, path.resolve().parent))
    )
    text = text.replace(
        "budget = 32 ", f"budget = {min(n_prompts * n_tests, PER_PROMPT * n_prompts)} "
    )
    names = ["score", "success", *metrics]
    text = text.replace(
        'maximize = "score" ',
        f"maximize = {quoted(_maximized(arguments, names, unbounded, ask))} ",
    )
    notes = [
        f"{source} has {n_prompts} prompts and {n_tests} tests. Metrics to choose by, in [goal]: {', '.join(names)}."
    ]
    if n_prompts == 1:
        notes.append(
            "It has only one prompt. Add others to its `prompts` before the run."
        )
    return text, notes


def _command_config(
    text: str, path: Path, arguments: argparse.Namespace, ask: _Asking
) -> tuple[str, list[Path]]:
    """Fill in the configuration of a program. Return its text and the example files written next to it."""
    home, beside = path.parent, path.resolve().parent
    usual = "python agent.py" if shutil.which("python") else "python3 agent.py"
    command = arguments.program or ask.text("Command that evaluates?", usual)
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidArgumentError(
            f"--command must be words as in a shell, got {command!r} ({error}). Correct the quotation marks."
        ) from error
    data = arguments.data or ask.file("tasks")
    ours: dict[Path, str] = {}
    if data is None:
        data = home / "examples.csv"
        ours[data] = "examples.csv"
    if words[1:] == ["agent.py"] and words[0].startswith("python"):
        ours[home / "agent.py"] = "agent.txt"
    prompts = template("candidates.txt")
    if arguments.prompts is None:
        ours[home / "SKILL.md"] = "skill.txt"
    else:
        prompts = f"\n[prompts]\nfile = {quoted(relative(arguments.prompts, beside))}\n"
    files = _write_missing(ours)
    of_data = _data_of_command(data, beside, arguments, ask)
    line = f"command = [{', '.join(map(quoted, words))}]"
    why = "started in this folder for every evaluation, without a shell"
    text = _with_line(text, "command", _commented(line, why))
    text = text.replace("PROMPTS\n", f"{prompts}\n")
    text = text.replace("\nDATA\n", "\n" + "\n".join(of_data) + "\n")
    if arguments.maximize not in (None, "success"):
        # The range in the template is that of "success"
        text = re.sub(r"^ranges = .*\n", "", text, flags=re.MULTILINE)
        line = f"maximize = {quoted(arguments.maximize)}"
        text = _with_line(
            text, "maximize", _commented(line, "a metric that the program prints")
        )
    return text, files


def _data_of_command(
    data: Path, beside: Path, arguments: argparse.Namespace, ask: _Asking
) -> list[str]:
    """The lines of the table `[data]` for the tasks of a program."""
    rows, reading = _rows(data, arguments)
    chosen, reference = _columns(data, rows, arguments, ask)
    wanted = quoted(reference) if reference else "false"
    why = "column that identifies a row; the program gets all"
    return [
        f"file = {quoted(relative(data, beside))}",
        _commented(f"input = {quoted(chosen)}", why),
        _commented(f"reference = {wanted}", "column of the reference; false for none"),
        *(f"{name} = {quoted(value)}" for name, value in reading.items()),
    ]


def _with_line(text: str, name: str, line: str) -> str:
    """The text with another line for a key."""
    # A function, since a text would be searched for references such as \1
    return re.sub(rf"^{name} = .*", lambda _: line, text, flags=re.MULTILINE)


def _maximized(
    arguments: argparse.Namespace,
    names: Sequence[str],
    unbounded: Sequence[str],
    ask: _Asking,
) -> str:
    """The metric to maximize. If promptfoo's `score` is unbounded, it has to be chosen explicitly."""
    wanted: str | None = arguments.maximize
    if wanted is not None:
        if wanted not in names:
            raise InvalidArgumentError(
                f"--maximize must be one of {some(names)}, got {wanted!r}{nearest(wanted, names)}."
            )
        return wanted
    if not unbounded:
        return "score"
    is_one = len(unbounded) == 1
    checked = (
        f"the assertion {unbounded[0]!r} runs"
        if is_one
        else f"the assertions {', '.join(map(repr, unbounded))} run"
    )
    why = (
        f"Which metric is to be maximized? promptfoo's score is the mean over the assertions, and {checked} code that "
        "may return any number, such as the length of the response. So a response with a high score may be bad."
    )
    plain = [name for name in names if name not in ("score", "success", *unbounded)]
    metrics = [*plain, "success", *unbounded, "score"]
    if not ask.at_terminal:
        raise InvalidArgumentError(
            f"{why} Pass --maximize METRIC, with one of the metrics {some(metrics)}."
        )
    return ask.one_of(why, dict.fromkeys(metrics, ""))


def _variable(name: str) -> str:
    """The name of an environment variable, checked."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        # The value is not repeated: it may be the key itself.
        raise InvalidArgumentError(
            "The environment variable of the key must be given by its name, such as OPENAI_API_KEY. Never give the key "
            "itself."
        )
    return name


def _there(answer: str) -> str:
    """The name of a file that exists, or an empty text."""
    if answer and not Path(answer).expanduser().exists():
        raise InvalidArgumentError(f"There is no file {answer!r}.")
    return answer
