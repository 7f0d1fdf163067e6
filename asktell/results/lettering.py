"""Text in pictures: in fonts that have its letters, and at places where it covers no other text."""

import contextlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LABELS = 15
_DEFAULT = "DejaVu Sans"
_LONGEST = 28
_OFFSETS = ((6, 5), (6, -13), (-6, 5), (-6, -13), (0, 10), (0, -18), (12, 18), (12, -26), (-12, 18), (-12, -26))
"""In points from the marked place; to the left of it, text ends there."""


class Label(NamedTuple):
    """A name and the point that it names, in the units of the axes."""

    text: str
    x: float
    y: float
    color: str


def drawable(text: str) -> tuple[str, list[str]]:
    """The text and the fonts to draw it in; U+FFFD stands for what no font here has."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    fonts = [_DEFAULT]
    for letter in sorted(set(text)):
        if letter.isspace():
            text = text if letter == "\n" else text.replace(letter, " ")
            continue
        if any(ord(letter) in _letters(font) for font in fonts):
            continue
        found = next((font for font in _fonts() if ord(letter) in _letters(font)), None)
        if found is None:
            text = text.replace(letter, "\ufffd" if letter.isprintable() else "")
        else:
            fonts.append(found)
    return text, fonts


def write(artist: Any, text: str) -> None:
    """Give a text of matplotlib's its content; a dollar in it is no formula."""
    shown, fonts = drawable(text)
    artist.set_parse_math(False)
    artist.set_text(shown)
    artist.set_fontfamily(fonts)


def place_labels(labels: "Mapping[Axes, Sequence[Label]]", most: int = MOST_LABELS) -> None:
    """Write the first labels of each axes of a figure beside their points, covering neither each other nor the frame.

    A label that finds no place is left out. To be called when everything else is drawn, since that moves points.
    """
    labels = {ax: names for ax, names in labels.items() if names}
    if labels:
        figure: Any = next(iter(labels)).figure
        figure.draw_without_rendering()  # once for all axes, as it takes long and labels move nothing
    for ax, names in labels.items():
        _place(ax, names, most)


def _place(ax: "Axes", labels: Sequence[Label], most: int) -> None:
    frame: Any = ax.get_window_extent()
    taken: list[Any] = []
    placed = 0
    for label in labels:
        if placed == most:
            break
        note = ax.annotate(
            "", (label.x, label.y), xytext=_OFFSETS[0], textcoords="offset points", color=label.color, fontsize=9,
            fontweight="bold", zorder=5, in_layout=False,
        )  # fmt: skip
        write(note, label.text if len(label.text) <= _LONGEST else label.text[: _LONGEST - 1] + "…")
        for dx, dy in _OFFSETS:
            note.set_position((dx, dy))
            note.set_horizontalalignment("left" if dx > 0 else "right" if dx < 0 else "center")
            box = note.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                placed += 1
                break
        else:
            note.remove()


@cache
def _fonts() -> dict[str, str]:
    """The files of the fonts here by their names, those of the first choice first."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    # Matplotlib keeps a list of what was there when it first looked.
    for path in set(font_manager.findSystemFonts()) - {font.fname for font in manager.ttflist}:
        with contextlib.suppress(RuntimeError, ValueError, OSError, KeyError):
            manager.addfont(path)
    upright = [font for font in manager.ttflist if font.style == "normal" and "Last Resort" not in font.name]
    upright.sort(key=lambda font: ("Noto Sans" not in font.name, "Emoji" in font.name, font.name, font.weight != 400))
    files: dict[str, str] = {}
    for font in upright:
        files.setdefault(font.name, font.fname)
    return files


@cache
def _letters(name: str) -> frozenset[int]:
    """The code points that a font has; none if it cannot be drawn with, as those of coloured pictures cannot."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(_fonts()[name])
        letters = frozenset(font.get_charmap())
        if ord(" ") not in letters:  # one of signs for formulas
            return frozenset()
        font.load_char(ord(" "))
    except (KeyError, RuntimeError, ValueError, OSError):
        return frozenset()
    return letters
