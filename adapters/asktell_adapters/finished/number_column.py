"""A column of a table as numbers, in any common notation."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

UNKNOWN = frozenset(
    ("", "nan", "na", "n/a", "#n/a", "null", "none", "nil", "-", "--", "–", "—", "?")
)
"""Texts of a cell without a value, in lower case."""

_POSITIVE = """
true yes y ja oui si sí sì sim да tak evet joo ano igen 是 对 正确 はい 正解 예 네 참
t correct right pass passed success succeeded solved resolved accepted win won
wahr richtig bestanden vrai correcto correcta verdadero verdadeiro vero corretto верно правильно истина goed
o ✅ ✔ ✔️ ✓ ☑ ☑️ 👍 ⭕ ○
"""
_NEGATIVE = """
false no n nein non não nao нет nie hayır ei ne nem 否 错 错误 いいえ 不正解 아니오 거짓
f incorrect wrong fail failed failure unsolved unresolved rejected loss lost
falsch faux incorrecto incorrecta falso errato неверно неправильно ложь fout
x ❌ ✘ ✗ ✖ ✖️ ☒ 👎 ×
"""
TRUTHS = dict.fromkeys(_POSITIVE.split(), 1.0) | dict.fromkeys(_NEGATIVE.split(), 0.0)
"""Words and marks for a success and a failure, in lower case."""
# Words of more than one truth, of which a column may have neither more nor less
TRUTHS |= {"partial": 0.5, "partially correct": 0.5, "not correct": 0.0}

# Letters that mean a success or a failure if they are all that a column has
_LETTERS = [set(pair) for pair in ("", "y", "n", "yn", "t", "f", "tf", "o", "ox")]

_SIGNS = str.maketrans(
    {"−": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'"}
)
_CURRENCY = r"(?:[$€£¥₹₽]|USD|EUR|GBP|JPY|CHF|CNY|INR)"
_DIGITS = r"[-+]?(?:\d[\d.,' ]*|\.\d+)(?:e[-+]?\d+)?"
_MONEY = re.compile(
    rf"-?{_CURRENCY} ?({_DIGITS})|({_DIGITS}) ?{_CURRENCY}", re.IGNORECASE
)
_UNITS = re.compile(rf"{_CURRENCY}|%", re.IGNORECASE)
_PERCENT = re.compile(rf"({_DIGITS}) ?%")
_SHARE = re.compile(r"(\d+(?:\.\d+)?) ?(?:/| of | out of ) ?(\d+(?:\.\d+)?)")
# A comma that is surely a decimal one: it does not precede a group of three digits, or
# follows a zero
_DECIMAL_COMMA = re.compile(r"[-+]?(?:0,\d+|\d[\d. ']*,(?:\d{1,2}|\d{4,}))")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:[,' ]\d{3})+(?:\.\d+)?")
_THOUSANDS_WITH_POINTS = re.compile(r"[-+]?\d{1,3}(?:[.' ]\d{3})*(?:,\d+)?")
_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
_COMMA = re.compile(r"[-+]?\d+,\d+")

_ENOUGH = 1_000  # texts, after which a column without a number is one of texts

PLAIN, PERCENT, MONEY, SHARE, WORD = "number", "percentage", "amount", "share", "word"


@dataclass(frozen=True)
class NumberColumn:
    """The n cells of a column as numbers.

    Attributes:
        numbers: (n,) the numbers, NaN for an empty cell and for one that is no number.
        wrong: the positions of cells with a value that is no finite number.
        notations: notation -> the position of its first cell.
    """

    numbers: Annotated[Floats, " n"]
    wrong: Sequence[int]
    notations: dict[str, int]

    @classmethod
    def of(cls, cells: Sequence[Any], decimal_comma: bool = False) -> "NumberColumn":
        """Convert the cells of a column.

        60% is 0.6, 3/5 is 0.6, $1,200 is 1200, correct is 1, ❌ is 0.

        Args:
            cells: the cells.
            decimal_comma: whether 1,234 is 1.234 (otherwise 1234). If another cell of the
                column decides it, this is ignored.
        """
        try:
            # Fast, since a large table has millions of cells
            numbers = np.array(
                [math.nan if cell == "" else cell for cell in cells], dtype=np.float64
            )
        except (TypeError, ValueError, OverflowError):
            numbers = np.empty(0)
        if numbers.shape == (len(cells),):
            infinite = np.flatnonzero(np.isinf(numbers)).tolist()
            finite = np.flatnonzero(np.isfinite(numbers))
            notations = {PLAIN: int(finite[0])} if len(finite) else {}
            return cls(
                np.where(np.isinf(numbers), np.nan, numbers), infinite, notations
            )
        commas = [str(cell) for cell in cells if isinstance(cell, str) and "," in cell]
        decimal_comma = has_decimal_comma(commas) or (
            decimal_comma and all(map(_COMMA.fullmatch, map(str.strip, commas)))
        )
        numbers = np.full(len(cells), np.nan)
        wrong, notations = list[int](), dict[str, int]()
        for at, cell in enumerate(cells):
            if is_unknown(cell):
                continue
            if len(wrong) > _ENOUGH and not notations:
                # A long column that begins with so many texts is a column of texts
                wrong.append(at)
                continue
            number, notation = _number(cell, decimal_comma)
            if not math.isfinite(number):
                wrong.append(at)
                continue
            numbers[at] = number
            notations.setdefault(notation, at)
        words = {
            str(cell).strip().lower()
            for cell in cells
            if notations.keys() == {WORD} and isinstance(cell, str)
        }
        if not _is_pair(words):
            # "x" and "y" are names, and "y" and "n" are not
            return cls(
                np.full(len(cells), np.nan),
                [at for at, cell in enumerate(cells) if not is_unknown(cell)],
                {},
            )
        return cls(numbers, wrong, notations)

    @property
    def n_known(self) -> int:
        """The number of cells with a number."""
        return int(np.count_nonzero(~np.isnan(self.numbers)))

    @property
    def is_numeric(self) -> bool:
        """Whether every cell with a value is a number, and at least one is."""
        return not self.wrong and self.n_known > 0

    @property
    def is_mixed(self) -> bool:
        """Whether some cells are numbers and others are not."""
        return bool(self.wrong) and self.n_known > 0


def _is_pair(words: set[str]) -> bool:
    """Whether letters among the words of a column are the short forms of a success and a failure."""
    letters = {word for word in words if len(word) == 1 and "a" <= word <= "z"}
    marks = {word for word in words - letters if word in TRUTHS}
    return letters in _LETTERS or (letters == {"x"} and bool(marks))


def has_decimal_comma(cells: Sequence[str]) -> bool:
    """Whether some number among texts surely has a decimal comma."""
    return any(_DECIMAL_COMMA.fullmatch(_UNITS.sub("", cell).strip()) for cell in cells)


def is_unknown(cell: object) -> bool:
    """Whether a cell has no value."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return True
    return isinstance(cell, str) and cell.strip().lower() in UNKNOWN


def _number(cell: object, decimal_comma: bool) -> tuple[float, str]:
    """The number of a cell with its notation. NaN if it has none."""
    if isinstance(cell, bool | int | float | np.number):
        try:
            return float(cell), PLAIN
        except OverflowError:
            return math.inf, PLAIN
    if not isinstance(cell, str):
        return math.nan, ""
    text = cell.translate(_SIGNS).strip()
    word = text.lower().rstrip(".!")
    if word in TRUTHS:
        return TRUTHS[word], WORD
    if match := _PERCENT.fullmatch(text):
        return _digits(match[1], decimal_comma) / 100.0, PERCENT
    if match := _SHARE.fullmatch(text):
        top, bottom = float(match[1]), float(match[2])
        return (top / bottom if 0 < bottom >= top else math.nan), SHARE
    if match := _MONEY.fullmatch(text):
        sign = -1.0 if text.startswith("-") and match[1] else 1.0
        return sign * _digits(match[1] or match[2], decimal_comma), MONEY
    return _digits(text, decimal_comma), PLAIN


def _digits(text: str, decimal_comma: bool) -> float:
    """A number in digits, with separators of thousands and a decimal point or comma."""
    text = text.strip()
    if decimal_comma and _THOUSANDS_WITH_POINTS.fullmatch(text):
        text = re.sub(r"[.' ]", "", text).replace(",", ".")
    elif decimal_comma and _COMMA.fullmatch(text):
        text = text.replace(",", ".")
    elif _THOUSANDS.fullmatch(text):
        text = re.sub(r"[,' ]", "", text)
    return float(text) if _PLAIN.fullmatch(text) else math.nan
