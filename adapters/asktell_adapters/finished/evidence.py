"""What the cells of a table say about the roles of its columns."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from asktell_adapters.finished import column_names
from asktell_adapters.finished.frame import Frame, as_id
from asktell_adapters.finished.number_column import (
    Floats,
    NumberColumn,
    is_unknown,
)

Codes = npt.NDArray[np.int64]

_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}([T ,].*)?|\d{4}/\d\d?/\d\d?.*"
)
_DIGITS = re.compile(r"\d+")
_RANDOM_ID = re.compile(r"[0-9a-f-]{6,}", re.IGNORECASE)
_MOST_WORDS = 6  # in the name of a candidate. A longer text is an input
_DATES = 1_000  # cells among which dates are looked for
_ALIKE = 20.0  # ratio of the widths of two ranges that may be one scale


@dataclass(frozen=True)
class Evidence:
    """The values of a table's columns, compared with each other. Results are kept, since a table may be large.

    Attributes:
        frame: the table.
    """

    frame: Frame
    _numbers: dict[str, NumberColumn] = field(default_factory=dict)
    _codes: dict[tuple[str, ...], tuple[Codes, int]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.frame.numbers)

    def numbers(self, name: str) -> NumberColumn:
        """A column as numbers."""
        if name not in self._numbers:
            self._numbers[name] = self.frame.number_column(name)
        return self._numbers[name]

    def codes(self, *names: str) -> tuple[Codes, int]:
        """A number for each different value, or combination of values, of columns.

        Returns:
            (n,) the numbers from 0, and how many values there are. An empty cell has the
            number -1, as has a combination with one, and is not counted.
        """
        if names not in self._codes:
            if len(names) == 1:
                values: dict[str, int] = {}
                codes = np.empty(self.n_rows, dtype=np.int64)
                for at, cell in enumerate(self.frame.columns[names[0]]):
                    text = as_id(cell)
                    codes[at] = (
                        -1 if text is None else values.setdefault(text, len(values))
                    )
                self._codes[names] = codes, len(values)
            else:
                first, _ = self.codes(*names[:-1])
                second, n = self.codes(names[-1])
                joint = np.where((first < 0) | (second < 0), -1, first * n + second)
                distinct, inverse = np.unique(joint, return_inverse=True)
                has_empty = int(len(distinct) > 0 and distinct[0] < 0)
                self._codes[names] = (
                    inverse.reshape(-1).astype(np.int64) - has_empty,
                    len(distinct) - has_empty,
                )
        return self._codes[names]

    def n_values(self, *names: str) -> int:
        """The number of different values, or combinations of values."""
        return self.codes(*names)[1]

    def n_filled(self, name: str) -> int:
        """The number of cells that are not empty."""
        return int(np.count_nonzero(self.codes(name)[0] >= 0))

    def is_distinct(self, *names: str) -> bool:
        """Whether no value, or combination of values, occurs twice. Empty cells do not count."""
        codes, n = self.codes(*names)
        return n > 0 and n == int(np.count_nonzero(codes >= 0))

    def is_function(self, name: str, *of: str) -> bool:
        """Whether a column has one value for each value, or combination of values, of other columns."""
        return self.n_values(*of, name) <= self.n_values(*of)

    def is_fuller(self, name: str, of: str) -> bool:
        """Whether values of a column occur with several values of another one."""
        return self.n_values(of, name) > self.n_values(name)

    def is_number(self, name: str) -> bool:
        """Whether every cell with a value is a number, and at least one is."""
        return self.numbers(name).is_numeric

    def is_whole(self, name: str) -> bool:
        """Whether every cell with a value is a whole number."""
        column = self.numbers(name)
        numbers = _known(column)
        return column.is_numeric and bool((numbers == np.round(numbers)).all())

    def is_index(self, name: str) -> bool:
        """Whether a column numbers the rows: from 0 or 1 on, or by whole numbers under a usual name."""
        if not self.is_whole(name):
            return False
        numbers = _known(self.numbers(name))
        if len(numbers) < self.n_rows or len(numbers) < 2:
            return False
        counts = bool((np.diff(numbers) == 1).all()) and numbers[0] in (0, 1)
        is_usual = column_names.plain(name) in column_names.INDEXES
        # Three scores such as 0, 1 or 1, 2, 3 may be a coincidence
        return is_usual or (counts and len(numbers) > 2)

    def may_be_index(self, name: str) -> bool:
        """Whether a column has different whole numbers, each only once, in rising order."""
        if not self.is_whole(name):
            return False
        numbers = _known(self.numbers(name))
        return len(numbers) > 2 and bool((np.diff(numbers) > 0).all())

    def is_date(self, name: str) -> bool:
        """Whether most of the first cells are dates."""
        cells = [cell for cell in self.frame.columns[name] if not is_unknown(cell)]
        cells = cells[:_DATES]
        dates = [
            cell
            for cell in cells
            if isinstance(cell, str) and _DATE.fullmatch(cell.strip())
        ]
        return bool(dates) and 2 * len(dates) > len(cells)

    def is_score(self, name: str) -> bool:
        """Whether a column may be a score: numbers that are no index, date, reference or setting by their name."""
        if not self.is_number(name) or self.is_index(name) or self.is_date(name):
            return False
        return not column_names.is_reference(name)

    def is_difference(self, name: str) -> bool:
        """Whether a column has the differences of two others, by its name and its numbers, which may be rounded."""
        if not column_names.is_difference(name) or not self.is_number(name):
            return False
        numbers = self.numbers(name).numbers
        others = [
            self.numbers(other).numbers
            for other in self.frame.columns
            if other != name and self.is_score(other)
        ]
        finite = numbers[np.isfinite(numbers)]
        tolerance = 0.02 * float(np.abs(finite).max(initial=0.0)) + 1e-9
        return any(
            np.allclose(numbers, new - old, rtol=0.0, atol=tolerance, equal_nan=True)
            for new, old in itertools.permutations(others, 2)
        )

    def is_text(self, name: str) -> bool:
        """Whether a column has values that are no numbers."""
        return self.n_filled(name) > 0 and not self.is_number(name)

    def may_be_candidates(self, name: str) -> bool:
        """Whether a column has a different short text in each row, and not numbered or random ids."""
        cells = [str(cell) for cell in self.frame.columns[name]]
        is_complete = self.n_filled(name) == self.n_rows and self.is_distinct(name)
        if not self.is_text(name) or not is_complete:
            return False
        stems = {column_names.plain(_DIGITS.sub("", cell)).strip("_") for cell in cells}
        has_numbers = all(map(_DIGITS.search, cells))
        if has_numbers and 2 * len(stems) <= len(cells):
            # "prompt 1" and "v1" are candidates, and "ticket 1" is none
            return stems <= {*column_names.CANDIDATES, "v", ""}
        return not all(map(_RANDOM_ID.fullmatch, cells)) and all(
            len(cell.split()) <= _MOST_WORDS for cell in cells
        )

    def share_a_scale(self, names: Sequence[str]) -> bool:
        """Whether columns of numbers may be scores on one scale."""
        ranges = [
            (float(numbers.min()), float(numbers.max()))
            for numbers in (_known(self.numbers(name)) for name in names)
        ]
        if all(low >= 0.0 and high <= 1.0 for low, high in ranges):
            return True
        # 0 to 1 beside 0 to 100 are two scales
        if any(low >= 0.0 and 0 < high <= 1.0 for low, high in ranges) and any(
            high > 5.0 for _, high in ranges
        ):
            return False
        sizes = [max(abs(low), abs(high)) for low, high in ranges]
        sizes = [size for size in sizes if size > 0]
        return not sizes or max(sizes) <= _ALIKE * min(sizes)


def _known(column: NumberColumn) -> Floats:
    return column.numbers[~np.isnan(column.numbers)]
