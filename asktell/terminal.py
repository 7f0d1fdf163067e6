"""Text for a terminal: nothing in it steers one, whatever a prompt, an id or an error holds."""

from collections.abc import Sequence

from asktell.chats import readable


def safe(text: str) -> str:
    """The text with everything escaped that is not printable, line breaks too."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


def one_line(text: str, width: int) -> str:
    """Safe, in one line, and cut to a width; a chat as its turns."""
    flat = safe(" ".join(readable(text)[: 4 * width].split()))
    return flat if len(flat) <= width else flat[: width - 3] + "..."


def with_error(mean: float | None, error: float | None) -> str:
    """An estimate and its standard error, as far as they are known."""
    if mean is None:
        return "-"
    return f"{mean:.4g}" if error is None else f"{mean:.4g} +- {error:.2g}"


def with_doubt(probability: float | None) -> str:
    """A probability as far as a few hundred draws tell it."""
    if probability is None:
        return "-"
    return "<0.01" if probability < 0.005 else ">0.99" if probability > 0.995 else f"{probability:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A safe line per row, all of the same width, with the columns below each other."""
    cells = [[safe(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
