"""Candidates that differ in several factors, such as models, prompts and settings."""

import itertools
import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, overload

from asktell.errors import InvalidArgumentError
from asktell.problem.checks import LARGEST, plain
from asktell.problem.words import short, some

_MOST_CANDIDATES = 10**6
_LONGEST_LEVEL = 40  # characters of a text that is also the name of its level

# The value of a factor: anything that one item of JSON can hold
Value: TypeAlias = str | int | float | bool | None


class Candidates(Sequence[dict[str, Value]]):
    """Candidates that differ in several factors, such as models, prompts and settings.

        >>> import asktell
        >>> given = [{"model": "small", "temperature": 0}, {"model": "large", "temperature": 1}]
        >>> candidates = asktell.Candidates(given)
        >>> candidates.ids
        ['small/0', 'large/1']
        >>> candidates.factors
        {'model': {'small': 'small', 'large': 'large'}, 'temperature': {'0': 0, '1': 1}}

    Each value that a factor has is a level of this factor. The name of a level is its
    value as text. A text of more than 40 characters, or with line breaks, is replaced
    by its beginning and a checksum. `asktell.grid` combines levels, and lets you choose
    their names.

    Args:
        candidates: for each candidate a mapping from factor to value. All candidates
            have the same factors. A value is text, a finite number, True, False or
            None.

    Attributes:
        factors: a nested mapping: factor -> name of the level -> value.
        levels: for each candidate the names of its levels, in the order of the factors.
        ids: for each candidate its id: the names of its levels, joined by "/".
        texts: for each candidate its text: the value of the factor "prompt". Without
            this factor, the text is the id.

    Raises:
        InvalidArgumentError: there is no candidate, the factors differ, two candidates
            have the same id, or a value has another type. The values of the factor
            "prompt" must be texts.
    """

    def __init__(self, candidates: Iterable[Mapping[str, Value]]) -> None:
        rows = list(candidates)
        if wrong := [row for row in rows if not isinstance(row, Mapping)]:
            raise InvalidArgumentError(
                f"A candidate maps factors to values, got {short(wrong[0])}."
            )
        names = list(rows[0]) if rows else []
        factors: dict[str, dict[str, Value]] = {name: {} for name in names}
        levels = []
        for row in rows:
            if set(row) != set(names):
                raise InvalidArgumentError(
                    f"All candidates must have the same factors. The first candidate has {some(names)}, and another "
                    f"has {some(list(row))}."
                )
            levels.append(
                tuple(_named_level(factors[name], name, row[name]) for name in names)
            )
        self._set(factors, levels)

    def _set(
        self,
        factors: Mapping[str, Mapping[str, Value]],
        levels: Iterable[Sequence[str]],
    ) -> "Candidates":
        """Check the parts of the candidates, set them, and return the candidates."""
        self.levels = [tuple(names) for names in levels]
        """The names of each candidate's levels, in the order of the factors."""
        if not self.levels or not factors:
            raise InvalidArgumentError(
                "There are no candidates. Pass at least one candidate with at least one factor."
            )
        for factor, named in factors.items():
            _check_factor(factor, named)
        self.factors: dict[str, dict[str, Value]] = {}
        # A factor keeps the levels that a candidate uses.
        used = zip(*self.levels, strict=True)
        for (factor, named), names in zip(factors.items(), used, strict=True):
            used_names = set(names)
            self.factors[factor] = {
                level: value for level, value in named.items() if level in used_names
            }
        self.ids = ["/".join(names) for names in self.levels]
        if len(set(self.ids)) < len(self.ids):
            twice = next(id_ for i, id_ in enumerate(self.ids) if id_ in self.ids[:i])
            raise InvalidArgumentError(
                f"Two candidates have the id {short(twice)}. The id of a candidate joins the names of its values (its "
                "levels). Remove one of the two candidates, or give one of its values another name."
            )
        self.texts = self.ids
        if "prompt" in self.factors:
            place, texts = list(self.factors).index("prompt"), self.factors["prompt"]
            self.texts = [str(texts[names[place]]) for names in self.levels]
        return self

    @overload
    def __getitem__(self, item: int) -> dict[str, Value]: ...

    @overload
    def __getitem__(self, item: slice) -> list[dict[str, Value]]: ...

    def __getitem__(
        self, item: int | slice
    ) -> dict[str, Value] | list[dict[str, Value]]:
        if isinstance(item, slice):
            return [self[i] for i in range(len(self))[item]]
        names = zip(self.factors.items(), self.levels[item], strict=True)
        return {factor: named[level] for (factor, named), level in names}

    def __len__(self) -> int:
        return len(self.levels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidates) and (self.factors, self.levels) == (
            other.factors,
            other.levels,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{factor} ({len(named)})" for factor, named in self.factors.items()
        )
        return f"<Candidates: {len(self)} of {sizes}>"

    def part(self, places: Iterable[int]) -> "Candidates":
        """The candidates at these positions, from 0."""
        return Candidates.__new__(Candidates)._set(
            self.factors, [self.levels[i] for i in places]
        )

    def joined(self, more: "Candidates") -> "Candidates":
        """The candidates, followed by more candidates.

        Args:
            more: candidates with the same factors in the same order. They can have new
                levels.

        Raises:
            InvalidArgumentError: the factors differ, or two candidates have the same
                id.
        """
        if list(more.factors) != list(self.factors):
            raise InvalidArgumentError(
                f"The existing candidates have the factors {list(self.factors)}. New candidates must have the same "
                f"factors in the same order, but theirs are {list(more.factors)}. Nothing was added."
            )
        factors = {factor: dict(named) for factor, named in self.factors.items()}
        for factor, named in more.factors.items():
            for level, value in named.items():
                _put_level(factors[factor], factor, level, value)
        return Candidates.__new__(Candidates)._set(
            factors, [*self.levels, *more.levels]
        )

    def to_data(self) -> dict[str, Any]:
        """The candidates as a mapping that JSON can represent. `from_data` reads it."""
        return {
            "factors": self.factors,
            "candidates": [list(names) for names in self.levels],
        }

    @classmethod
    def from_data(cls, data: object) -> "Candidates":
        """Read the candidates from a mapping that `to_data` returned.

        If the mapping has no key "candidates", the result has all combinations of the
        levels in its "factors".

        Raises:
            InvalidArgumentError: the mapping has other keys, or a candidate has an
                unknown level.
        """
        factors = data.get("factors") if isinstance(data, Mapping) else None
        is_known = isinstance(data, Mapping) and set(data) <= {"factors", "candidates"}
        if (
            not isinstance(data, Mapping)
            or not isinstance(factors, Mapping)
            or not is_known
        ):
            raise InvalidArgumentError(
                f"Saved candidates must have the keys `factors` and `candidates`, got {short(data)}."
            )
        if data.get("candidates") is None:
            return grid(**factors)
        for names in data["candidates"]:
            is_known = isinstance(names, Sequence) and len(names) == len(factors)
            if not is_known or any(
                level not in named
                for level, named in zip(names, factors.values(), strict=True)
            ):
                raise InvalidArgumentError(
                    "A saved candidate must have one level for each factor, and each level must be among the saved "
                    f"levels of its factor. Got {short(names)}."
                )
        return cls.__new__(cls)._set(factors, data["candidates"])


def grid(
    *,
    where: Callable[[dict[str, Value]], bool] | None = None,
    **factors: Iterable[Value] | Mapping[str, Value],
) -> Candidates:
    """All combinations of the factors' levels, at most a million.

    The last factor changes fastest, as in `itertools.product`.

        >>> import asktell
        >>> asktell.grid(model=["small", "large"], temperature=[0, 1]).ids
        ['small/0', 'small/1', 'large/0', 'large/1']

    Args:
        where: a function that gets a candidate, which is a mapping from factor to
            value. Candidates for which it returns False are left out.
        factors: for each factor a list of its values, or a mapping from the name of a
            level to its value, such as `prompt={"short": "Be brief.", "long": "Take
            your time."}`.

    Raises:
        InvalidArgumentError: there are more than a million combinations, a factor has a
            value twice, or `where` leaves no candidate.
    """
    named: dict[str, dict[str, Value]] = {}
    for factor, values in factors.items():
        if isinstance(values, Mapping):
            named[factor] = {
                plain(level): plain(value) for level, value in values.items()
            }
        elif isinstance(values, str) or not isinstance(values, Iterable):
            raise InvalidArgumentError(
                f"The factor {factor!r} needs a list of values, or a mapping from the name of each value to the value. "
                f"Got {short(values)}."
            )
        else:
            named[factor], values = {}, list(values)
            for value in values:
                _named_level(named[factor], factor, value)
            if len(named[factor]) < len(values):
                raise InvalidArgumentError(
                    f"The factor {factor!r} has the same value more than once in {some(values)}. Pass each value once."
                )
    if math.prod(map(len, named.values())) > _MOST_CANDIDATES:
        raise InvalidArgumentError(
            f"The values of the factors have more than {_MOST_CANDIDATES:,} combinations. Use fewer values, or pass "
            "Candidates([...]) with the combinations to try."
        )
    combinations = Candidates.__new__(Candidates)._set(
        named, itertools.product(*named.values())
    )
    if where is None:
        return combinations
    remaining = [i for i, candidate in enumerate(combinations) if where(candidate)]
    if not remaining:
        raise InvalidArgumentError(
            "`where` returned False for every candidate. It must return True for each candidate to keep."
        )
    return combinations.part(remaining)


def _named_level(levels: dict[str, Value], factor: str, value: Any) -> str:
    """Return the name of a value's level. A new level is added to `levels`."""
    value = plain(value)
    name = value if isinstance(value, str) else json.dumps(value, default=short)
    if len(name) > _LONGEST_LEVEL or not name.isprintable() or not name:
        first = " ".join(name[:_LONGEST_LEVEL].split())[: _LONGEST_LEVEL // 2]
        name = f"{first}~{zlib.crc32(name.encode('utf-8', 'surrogatepass')):08x}"
    _put_level(levels, factor, name, value)
    return name


def _put_level(levels: dict[str, Value], factor: str, name: str, value: Value) -> None:
    """Add a level to the levels of a factor. A name must not stand for two values."""
    present = levels.setdefault(name, value)
    if (type(present), present) != (type(value), value):
        raise InvalidArgumentError(
            f"The level {short(name)} of the factor {factor!r} stands for two values, {short(present)} and "
            f"{short(value)}. Give each value its own name: grid({factor}={{name: value, ...}})."
        )


def _check_factor(factor: object, levels: Mapping[str, Value]) -> None:
    """Check the name of a factor and all its levels."""
    if not isinstance(factor, str) or not factor:
        raise InvalidArgumentError(
            f"The name of a factor must be text that is not empty, got {short(factor)}."
        )
    for level, value in levels.items():
        _check_level(factor, level, value)


def _check_level(factor: str, level: object, value: object) -> None:
    """Check the name and the value of a level."""
    if not isinstance(level, str) or not level:
        raise InvalidArgumentError(
            f"The name of a level of {factor!r} must be text that is not empty, got {short(level)}."
        )
    if factor == "prompt" and not isinstance(value, str):
        raise InvalidArgumentError(
            f"The values of the factor 'prompt' must be texts, got {short(value)}."
        )
    is_number = isinstance(value, int | float) and -LARGEST <= value <= LARGEST
    if not (value is None or isinstance(value, str) or is_number):
        raise InvalidArgumentError(
            f"The value of a factor must be text, a finite number of at most {LARGEST} in size, True, False or None. "
            f"{factor!r} has {short(value)}."
        )
