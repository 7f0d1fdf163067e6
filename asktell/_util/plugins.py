"""Names that users write, such as "race" or "rouge": those of asktell, and those that other packages add.

A package adds a name by an entry point in its `pyproject.toml`:

    [project.entry-points."asktell.metrics"]
    politeness = "our_package:Politeness"

Nothing is imported until the name is used, and only installed packages can add names. So
text from a file or a service chooses among installed plug-ins, and never a module.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, final

from asktell._util.extras import needs_extra
from asktell.errors import AsktellError, InvalidArgumentError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_T = TypeVar("_T")


class BuiltIn(NamedTuple):
    """An entry of asktell itself. It is imported when its name is used.

    Attributes:
        path: `MODULE:NAME` of the object.
        extra: the extra of asktell that installs the packages it needs. None if it
            needs none.
    """

    path: str
    extra: str | None = None


@final
class Registry(Generic[_T]):
    """The entries of one kind by name. A package cannot replace a built-in entry.

    Attributes:
        group: the group of entry points, such as "asktell.metrics".
        built_in: the entries of asktell by name.

    Args:
        made: makes the entry of a name from the imported object. It is called for
            plug-ins and for `BuiltIn`. If the object is unsuitable, it raises an
            AsktellError whose message begins with "it must".
    """

    def __init__(
        self,
        group: str,
        built_in: Mapping[str, _T | BuiltIn],
        made: Callable[[str, Any], _T],
    ) -> None:
        self.group = group
        self.built_in = built_in
        self._made = made
        # By entry point and by path, so that a name always gives the same object
        self._loaded: dict[object, _T] = {}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (
            name in self.built_in or bool(self._points(name))
        )

    def __getitem__(self, name: str) -> _T:
        """The entry of a name.

        Raises:
            KeyError: no entry has the name.
            InvalidArgumentError: two packages add the name, or the plug-in cannot be
                imported or is unsuitable. The message names the package.
            MissingExtraError: a package that a built-in entry needs is not installed.
        """
        entry = self.built_in.get(name)
        if isinstance(entry, BuiltIn):
            if entry not in self._loaded:
                self._loaded[entry] = self._made(name, _imported(entry))
            return self._loaded[entry]
        return self._package_entry(name) if entry is None else entry

    def names(self) -> list[str]:
        """All names, those of asktell first. Imports nothing."""
        return [*self.built_in, *self.packages()]

    def packages(self) -> dict[str, str]:
        """The package of each name that is not asktell's, in the order of the names. Imports nothing."""
        return {
            point.name: _package_of(point)
            for point in self._points()
            if point.name not in self.built_in
        }

    def name_of(self, entry: object) -> tuple[str, str] | None:
        """The name and the package of a plug-in that a package registers. None if it is not registered, or broken.

        Args:
            entry: a class or a function.
        """
        home = _top(getattr(entry, "__module__", None) or "")
        # What a package has damaged must not keep a selection from being saved
        with suppress(InvalidArgumentError):
            for point in self._points():
                if point.name not in self.built_in and _top(point.module) == home:
                    with suppress(InvalidArgumentError):
                        if self[point.name] is entry:
                            return point.name, _package_of(point)
        return None

    @contextmanager
    def blamed(self, name: str, doing: str = "be used") -> Iterator[None]:
        """Turn an error in a `with` block, in which a plug-in's code runs, into one that names its package.

        It does nothing for a built-in name. What a plug-in prints goes to standard error.

        Raises:
            InvalidArgumentError: the block raised an error.
        """
        if name in self.built_in:
            yield
            return
        (point, *_) = self._points(name)
        try:
            with redirect_stdout(sys.stderr):
                yield
        except (Exception, SystemExit) as error:
            cause = str(error)
            if not isinstance(error, AsktellError):
                cause = f"{type(error).__name__}: {cause}"
            raise InvalidArgumentError(
                f"The plug-in {name!r} ({point.value}, in the group {self.group}) of the package "
                f"{_package_of(point)!r} cannot {doing}: {cause.rstrip('.')}. Upgrade, repair or uninstall the package."
            ) from error

    def _package_entry(self, name: str) -> _T:
        """The entry that a package adds."""
        points = self._points(name)
        if not points:
            raise KeyError(name)
        if len(points) > 1:
            packages = " and ".join(repr(_package_of(point)) for point in points)
            raise InvalidArgumentError(
                f"{packages} both add the name {name!r} to the group {self.group}. Uninstall one of the packages."
            )
        (point,) = points
        if point not in self._loaded:
            with self.blamed(name, "be imported"):
                imported = point.load()
            with self.blamed(name):
                self._loaded[point] = self._made(name, imported)
        return self._loaded[point]

    def _points(self, name: str | None = None) -> "list[EntryPoint]":
        """The entry points of a name, or of all names, in a fixed order."""
        # Imported here, to keep the import of asktell light
        from importlib.metadata import entry_points

        try:
            points = entry_points(group=self.group)
            return sorted(
                (point for point in points if name in (None, point.name)),
                key=lambda point: (point.name, _package_of(point), point.value),
            )
        except Exception as error:
            raise InvalidArgumentError(
                f"The entry points of the installed packages cannot be read: {type(error).__name__}: {error}. Repair "
                "or uninstall the package whose entry_points.txt is damaged."
            ) from error


def _imported(entry: BuiltIn) -> Any:
    """Import a built-in entry."""
    module, _, name = entry.path.partition(":")
    if entry.extra is None:
        return getattr(import_module(module), name)
    with needs_extra(entry.extra):
        return getattr(import_module(module), name)


def _package_of(point: "EntryPoint") -> str:
    """The name of the package that has an entry point, as pip knows it."""
    name = None if point.dist is None else point.dist.metadata["Name"]
    return name or _top(point.module)


def _top(module: str) -> str:
    """The package of a module."""
    return module.partition(".")[0]
