"""The reference of the command line, from its parser."""

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from asktell_adapters.cli.arguments import make_parser
from website.tables import table

COMMON = ("--help", "--debug")
"""Options of every command."""


class _Any(defaultdict[str, object]):
    """Commands by any name: the parser asks for what each of its commands does."""


def commands() -> Mapping[str, argparse.ArgumentParser]:
    """The parser of each command."""
    parser = make_parser(_Any(lambda: lambda _: 0))
    (choices,) = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return choices


def written() -> str:
    """A section for each command: what it does, how it is called, its arguments and options."""
    made = commands()
    rows = [[f"[`{name}`](#asktell-{name})", _first_line(parser)] for name, parser in made.items()]
    parts = [table(["command", ""], rows)]
    parts += [_section(name, parser) for name, parser in made.items()]
    return "\n\n".join(parts)


def undocumented() -> list[str]:
    """Commands without a description, and arguments without help, in words."""
    found = [f"asktell {name} has no description." for name, parser in commands().items() if not parser.description]
    for name, parser in commands().items():
        found += [f"asktell {name}: {_named(action)} has no help." for action in _actions(parser) if not action.help]
    return found


def _first_line(parser: argparse.ArgumentParser) -> str:
    return re.split(r"(?<=[.:]) ", " ".join(str(parser.description).split()), maxsplit=1)[0].rstrip(":.")


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Its arguments, then its options; those of all commands are left out."""
    own = [action for action in parser._actions if not set(action.option_strings) & set(COMMON)]
    return iter(sorted(own, key=lambda action: bool(action.option_strings)))


def _named(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar or action.dest)
    value = "" if action.nargs == 0 else f" {_called(action, _value(action))}"
    return ", ".join(action.option_strings) + value


def _value(action: argparse.Action) -> str:
    names = action.metavar or action.dest.upper()
    return names if isinstance(names, str) else " ".join(names)


def _section(name: str, parser: argparse.ArgumentParser) -> str:
    actions = list(_actions(parser))
    positional = [action for action in actions if not action.option_strings]
    arguments = [_called(each, "|".join(map(str, each.choices or ())) or _value(each)) for each in positional]
    usage = parser.usage or " ".join([f"asktell {name} [OPTIONS]", *arguments])
    rows = [[f"`{_named(action)}`", _help(action)] for action in actions]
    parts = [f"## asktell {name}", str(parser.description), f"```text\n{usage}\n```", table(["", ""], rows)]
    if parser.epilog and len(parser.epilog.splitlines()) < 5:
        example = "\n".join(line.removeprefix("example:").strip() for line in parser.epilog.splitlines())
        parts.append(f"For example:\n\n```sh\n{example}\n```")
    return "\n\n".join(parts)


def _called(action: argparse.Action, name: str) -> str:
    return {"?": f"[{name}]", "+": f"{name} ...", "*": f"[{name} ...]"}.get(str(action.nargs), name)


def _help(action: argparse.Action) -> str:
    text = str(action.help) % {**vars(action), "prog": "asktell"}
    return text + (f": {' or '.join(f'`{choice}`' for choice in action.choices)}" if action.choices else "")
