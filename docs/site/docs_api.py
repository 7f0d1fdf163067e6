"""The Python API as Markdown, from signatures and docstrings, which are read and never run."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[2]


@cache
def _package(name: str) -> griffe.Module:
    return griffe.load(name, search_paths=[str(ROOT), str(ROOT / "adapters")])  # type: ignore[return-value]


def described(path: str) -> str:
    """A section for a name such as `asktell.Selector`: its signature, docstring and members."""
    top, _, rest = path.partition(".")
    found = _package(top)[rest] if rest else _package(top)
    return "\n\n".join(_section(found, path.rpartition(".")[2], level=3)).strip() + "\n"


def errors() -> str:
    """A section for each error of `asktell`."""
    package = _package("asktell")
    found = {
        name: package[name].final_target
        for name in sorted(package.exports or ())
        if str(name).endswith("Error")
    }
    parts = []
    for name, error in found.items():
        base = next((str(each) for each in error.bases), "Exception")
        parts += [f"### {name}", f"Derives from `{base}`.", *_docstring(error)]
    return "\n\n".join(parts)


def _section(
    found: griffe.Object | griffe.Alias, name: str, level: int
) -> Iterator[str]:
    target = found.final_target if found.is_alias else found
    yield f"{'#' * level} {name}"
    signature = "" if _is_never_called(target) else _signature(target, name)
    if signature:
        yield f"```python\n{_by_lines(signature)}\n```"
    yield from _docstring(target)
    if not (target.is_module or target.is_class) or level > 4:
        return
    for member_name, member in _members(target):
        label = f"{name}.{member_name}" if target.is_class else member_name
        yield from _section(member, label, level + 1)


def _is_never_called(target: griffe.Object) -> bool:
    """True for a protocol, and for a class that asktell makes in its own way."""
    return target.is_class and (
        "__new__" in target.members or "Protocol" in map(str, target.bases)
    )


def _by_lines(signature: str) -> str:
    """The signature. The value of a long text is written line by line."""
    name, _, value = signature.partition(" = ")
    if len(signature) <= 100 or not value.startswith(("'", '"')):
        return signature
    return f'{name} = """\\\n{ast.literal_eval(value)}"""'


def _members(
    target: griffe.Object,
) -> Iterator[tuple[str, griffe.Object | griffe.Alias]]:
    """The public members that have a docstring, in the order of the source; of a module those of `__all__`."""
    members = target.all_members if target.is_class else target.members
    exports = None if target.exports is None else {str(name) for name in target.exports}
    for name, member in members.items():
        if name.startswith("_") or (exports is not None and name not in exports):
            continue
        if (
            member.is_alias
            and exports is None
            and not (target.is_class and member.inherited)
        ):
            continue
        own = member.final_target if member.is_alias else member
        # A method that no subclass overrides is described at its base class
        decorators = own.decorators if own.is_function else []
        if member.is_alias and any(str(d.value) == "final" for d in decorators):
            continue
        if own.docstring is None and target.is_class:
            _inherit_docstring(own, target)
        if own.docstring is not None and own.package.name.startswith("asktell"):
            yield name, own


def _inherit_docstring(member: griffe.Object, owner: griffe.Object) -> None:
    """Give a method that overrides a documented one the docstring of the latter."""
    for base in owner.mro():
        overridden = base.members.get(member.name)
        if overridden is not None and overridden.docstring is not None:
            member.docstring = overridden.docstring
            return


def _signature(target: griffe.Object, name: str) -> str:
    if target.is_attribute:
        # A value that only the code explains: a call of `part_at`, or private names
        is_private = re.search(r"^part_at\(|\b_[A-Za-z]", str(target.value))
        is_property = "property" in target.labels or is_private
        return "" if target.value is None or is_property else f"{name} = {target.value}"
    if target.is_class:
        opener = target.members.get("open")
        if opener is not None and "classmethod" in opener.labels:
            return ""  # a study: its class methods make it
        parameters = list(target.parameters)[1:]
        # A named tuple, or an event, which is a struct of msgspec
        if not parameters and any(
            str(base).endswith(("NamedTuple", "Event")) for base in target.bases
        ):
            fields = [
                member.name
                for member in target.members.values()
                if "instance-attribute" in member.labels
            ]
            return f"{name}({', '.join(fields)})"
        # Private fields of a dataclass, which asktell itself sets
        parameters = [each for each in parameters if not each.name.startswith("_")]
    elif target.is_function and not _is_property(target):
        parameters = [
            each for each in target.parameters if each.name not in ("self", "cls")
        ]
    else:
        return ""
    written, keyword_only = [], False
    for each in parameters:
        if each.kind is griffe.ParameterKind.keyword_only and not keyword_only:
            if not any(part.startswith("*") for part in written):
                written.append("*")
            keyword_only = True
        stars = {
            griffe.ParameterKind.var_positional: "*",
            griffe.ParameterKind.var_keyword: "**",
        }.get(each.kind, "")
        default = "" if each.default is None or stars else f"={each.default}"
        written.append(f"{stars}{each.name}{default}")
    returns = (
        "" if target.is_class or target.returns is None else f" -> {target.returns}"
    )
    # The names of an array's axes mean something only in the code
    returns = re.sub(r"(Float|Int|Bool)\[\w+, '[^']*'\]", "numpy.ndarray", returns)
    line = f"{name}({', '.join(written)}){returns}"
    if len(line) <= 100:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in written) + f"){returns}"


def _is_property(function: griffe.Function) -> bool:
    """True for a property: griffe does not know asktell's own `cached_property`."""
    return "property" in function.labels or any(
        str(each.value) == "cached_property" for each in function.decorators
    )


def _docstring(target: griffe.Object) -> Iterator[str]:
    if target.docstring is None:
        return
    for section in target.docstring.parse(
        "google",
        warnings=False,
        returns_multiple_items=False,
        returns_named_value=False,
    ):
        if section.kind is griffe.DocstringSectionKind.text:
            yield section.value.strip()
        elif section.kind is griffe.DocstringSectionKind.examples:
            yield "\n\n".join(str(text).strip() for _, text in section.value)
        elif section.kind is griffe.DocstringSectionKind.parameters:
            yield _listed(
                "Arguments",
                [(f"`{each.name}`", each.description) for each in section.value],
            )
        elif section.kind is griffe.DocstringSectionKind.attributes:
            yield _listed(
                "Attributes",
                [(f"`{each.name}`", each.description) for each in section.value],
            )
        elif section.kind is griffe.DocstringSectionKind.raises:
            yield _listed(
                "Raises",
                [(f"`{each.annotation}`", each.description) for each in section.value],
            )
        elif section.kind in (
            griffe.DocstringSectionKind.returns,
            griffe.DocstringSectionKind.yields,
        ):
            yield _listed(
                section.kind.value.capitalize(),
                [("", each.description) for each in section.value],
            )


def _listed(title: str, rows: list[tuple[str, str]]) -> str:
    items = []
    for name, about in rows:
        paragraphs = re.split(r"\n\s*\n", about.strip())
        text = "\n\n  ".join(" ".join(each.split()) for each in paragraphs)
        items.append(f"- {name}: {text}" if name else f"- {text}")
    return f"**{title}**\n\n" + "\n".join(items)
