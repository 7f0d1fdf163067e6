"""Pictures of a result: the plane of two metrics, ranked intervals of one, the planes of all pairs, how it settled."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from asktell._util.extras import needs_extra
from asktell.numerics.pareto import pareto_mask
from asktell.problem.budget import describe_spending
from asktell.problem.goals import Goal, ParetoSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from asktell.results.result import Result


MOST_LABELS = 15
_DEFAULT = "DejaVu Sans"
_LONGEST = 28
_OFFSETS = ((6, 5), (6, -13), (-6, 5), (-6, -13), (0, 10), (0, -18), (12, 18), (12, -26), (-12, 18), (-12, -26))
"""In points from the marked place; to the left of it, text ends there."""


Point: TypeAlias = tuple[float, float]


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


def write_title(artist: Any, text: str) -> None:
    """The same for the title of axes or of a figure, in lines that are no wider than the figure."""
    write(artist, text)
    figure = artist.get_figure()
    room = 0.96 * figure.bbox.width

    def width(line: str) -> float:
        artist.set_text(line)
        return float(artist.get_window_extent(figure.canvas.get_renderer()).width)

    lines = []
    for line in artist.get_text().split("\n"):
        words, shown = line.split(" "), ""
        for word in words:
            longer = f"{shown} {word}" if shown else word
            if shown and width(longer) > room:
                lines.append(shown)
                longer = word
            shown = longer
        lines.append(shown)
    artist.set_text("\n".join(lines))


def place_labels(labels: "Mapping[Axes, Sequence[Label]]", most: int = MOST_LABELS) -> None:
    """Write the first labels of each axes of a figure beside their points, covering neither each other nor the frame.

    A label that finds no place is left out. To be called when everything else is drawn, since that moves points.
    """
    figures: set[Any] = {ax.figure for ax, names in labels.items() if names}
    for figure in figures:
        figure.draw_without_rendering()  # once for all axes, as it takes long and labels move nothing
    for ax, names in labels.items():
        taken: list[Any] = []
        for label in names:
            if len(taken) < most:
                taken += _placed(ax, label, taken)


def _placed(ax: "Axes", label: Label, taken: list[Any]) -> list[Any]:
    """The box that the label takes; none if there is no place for it."""
    frame: Any = ax.get_window_extent()
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
            return [box]
    note.remove()
    return []


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


_GREY, _BLUE, _RED, _AMBER = "#767e8c", "#0067b0", "#b33a00", "#c98500"
_MOST_BARS = 300  # prompts whose errors are drawn; of more, only those that matter
_MOST_PLANES = 10
_MOST_LABELS_OF_MANY = 5  # in each of several planes
_BESIDE = 40  # labels tried for the places there are


def draw(result: "Result", x: str | None, y: str | None, ax: "Axes | None") -> "Axes":
    """Draw the metrics x and y, or what fits the goal; the axes, of several planes the first."""
    with needs_extra("plot"):
        import matplotlib.pyplot as plt

    metrics = result.goal.columns
    if x is None and y is None and ax is None and len(metrics) > 2:
        return _draw_pairs(result)
    x = x or next(metric for metric in metrics if metric != y or len(metrics) == 1)
    y = y or next((metric for metric in metrics if metric != x), x)
    if ax is None:
        _, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
    labels = _draw_ranked(ax, result, x) if x == y else _draw_plane(ax, result, x, y)
    write_title(ax.title, _title(result))
    _legend(ax)
    place_labels({ax: labels})
    return ax


def _draw_pairs(result: "Result") -> "Axes":
    import matplotlib.pyplot as plt

    pairs = list(combinations(result.goal.columns, 2))
    shown = pairs[:_MOST_PLANES]
    n_columns = min(3, len(shown))
    n_rows = -(-len(shown) // n_columns)
    figure, grid = plt.subplots(
        n_rows, n_columns, figsize=(5 * n_columns, 4.4 * n_rows + 0.8), layout="constrained", squeeze=False
    )
    names = [_draw_plane(place, result, x, y) for place, (x, y) in zip(grid.flat, shown, strict=False)]
    for place in list(grid.flat)[len(shown) :]:
        place.set_axis_off()
    more = f"; {len(shown)} of {len(pairs)} pairs of metrics" if len(pairs) > len(shown) else ""
    write_title(figure.suptitle("", fontsize=10), _title(result) + more)
    first: Axes = grid.flat[0]
    entries = first.get_legend_handles_labels()
    if entries[0]:
        legend = figure.legend(*entries, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
        _letter(legend)
    place_labels(dict(zip(grid.flat, names, strict=False)), _MOST_LABELS_OF_MANY)
    return first


def _draw_plane(ax: "Axes", result: "Result", x: str, y: str) -> list[Label]:
    goal = result.goal
    drawn = [e for e in result.prompts if e.estimate[x] is not None and e.estimate[y] is not None]
    places = {e.id: (e.estimate[x] or 0.0, e.estimate[y] or 0.0) for e in drawn}
    errors = {e.id: (e.standard_error[x] or 0.0, e.standard_error[y] or 0.0) for e in drawn}
    names = _draw_points(ax, result, places, errors, _MOST_BARS)
    for metric, along_x in ((x, True), (y, False)):
        _thresholds(ax, result, metric, along_x)
    missing = [places[e.id] for e in drawn if e.feasible is False]
    hidden = any(bound.in_every_segment or goal.columns[bound.column] not in (x, y) for bound in goal.bounds)
    if missing and hidden:  # by a constraint that the plane does not show
        label = f"misses a constraint ({len(missing)})"
        ax.plot(*zip(*missing, strict=True), "x", color=_RED, markersize=7, mew=1.0, zorder=5, label=label)
    if isinstance(goal, ParetoSet) and sorted((x, y)) == sorted(o.metric for o in goal.objectives):
        _front(ax, result, x, y)
    write(ax.xaxis.label, _label(goal, x))
    write(ax.yaxis.label, _label(goal, y))
    ax.grid(alpha=0.25)
    return names


def _draw_ranked(ax: "Axes", result: "Result", metric: str) -> list[Label]:
    """One metric: from best to worst, with two standard errors."""
    from matplotlib.ticker import MaxNLocator

    sign = -1.0 if metric in result.goal.minimized else 1.0
    drawn = [e for e in result.prompts if e.estimate[metric] is not None]
    drawn.sort(key=lambda e: -sign * (e.estimate[metric] or 0.0))
    places = {e.id: (i + 1.0, e.estimate[metric] or 0.0) for i, e in enumerate(drawn)}
    errors = {e.id: (0.0, 2.0 * (e.standard_error[metric] or 0.0)) for e in drawn}
    names = _draw_points(ax, result, places, errors, len(drawn))
    _thresholds(ax, result, metric, False)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))  # no prompt is between two
    write(ax.xaxis.label, "prompts, the best first")
    write(ax.yaxis.label, _label(result.goal, metric))
    ax.grid(alpha=0.25, axis="y")
    return names


def _draw_points(
    ax: "Axes", result: "Result", places: dict[str | int, Point], errors: dict[str | int, Point], most_bars: int
) -> list[Label]:
    """The prompts, coloured by what may become of them, and the baseline's ring; their names, what matters most first.

    Of more prompts than `most_bars` only the selected ones have bars.
    """
    chosen, open_ = ([entry.id for entry in each] for each in (result.selected, result.unresolved))
    behind = [id_ for id_ in places if id_ not in {*chosen, *open_}]
    for ids, color, marker, size, label in (
        (behind, _GREY, "o", 4.5, "behind"),
        (open_, _AMBER, "^", 5.5, "may be better"),
        (chosen, _BLUE, "D", 6.0, "selected"),
    ):
        if ids := [id_ for id_ in ids if id_ in places]:
            many, bare = len(ids) > _MOST_BARS, len(places) > most_bars and ids[0] not in chosen
            x, y = np.transpose([places[id_] for id_ in ids])
            bars = (None, None) if bare else np.transpose([errors[id_] for id_ in ids])
            ax.errorbar(
                x, y, xerr=bars[0], yerr=bars[1], fmt=marker, color=color,
                ecolor=color, elinewidth=0.8, alpha=0.5 if many else 0.85, markersize=2.5 if many else size,
                label=f"{label} ({len(ids)})", zorder=4 if marker == "D" else 3,
            )  # fmt: skip
    baseline = [id_ for id_ in (result.baseline,) if id_ is not None and id_ in places]
    for id_ in baseline:
        ax.plot(*places[id_], "o", markersize=13, mfc="none", color=_RED, zorder=5, label=f"baseline: {id_}")
    colors = dict.fromkeys(open_, _AMBER) | dict.fromkeys(chosen, _BLUE) | dict.fromkeys(baseline, _RED)
    named = [id_ for id_ in dict.fromkeys([*chosen[:1], *baseline, *chosen[1:], *open_]) if id_ in places]
    return [Label(str(id_), *places[id_], colors[id_]) for id_ in named[:_BESIDE]]


def draw_history(goal: Goal, points: Sequence[Mapping[str, Any]], metric: str, title: str, ax: "Axes | None") -> "Axes":
    """Draw the answer's estimate, and how likely it was right, over the evaluations."""
    with needs_extra("plot"):
        import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    j = goal.columns.index(metric)
    known = [p for p in points if p["estimate"] is not None and p["estimate"][j] is not None]
    at = [p["evaluations"] for p in known]
    means = np.array([p["estimate"][j] for p in known], dtype=float)
    errors = np.array([p["error"][j] or 0.0 for p in known], dtype=float)
    ax.fill_between(at, means - errors, means + errors, color=_BLUE, alpha=0.15, lw=0)
    ax.plot(at, means, "o-", color=_BLUE, ms=4, label="estimate of the answer, and one standard error")
    if known:  # the first moments' errors may be many times as large as all that is to be seen: the band is cut there
        seen = np.minimum(errors, max(float(np.ptp(means)), 2.0 * float(np.median(errors))))
        room = 0.05 * max(float((means + seen).max() - (means - seen).min()), 1e-9)
        ax.set_ylim(float((means - seen).min()) - room, float((means + seen).max()) + room)
    changed = [i for i in range(1, len(known)) if set(known[i]["answer"]) != set(known[i - 1]["answer"])]
    if changed:
        ax.plot([at[i] for i in changed], means[changed], "D", color=_RED, ms=7, label="another answer than before")
    write(ax.xaxis.label, "evaluations")
    write(ax.yaxis.label, _label(goal, metric))
    ax.grid(alpha=0.25)
    name, words = ("p_right", "P(right)") if any(p["p_right"] is not None for p in known) else ("agreement", "F1")
    sure = [(p["evaluations"], p[name]) for p in known if p[name] is not None]
    if sure:
        right = ax.twinx()
        right.plot(*zip(*sure, strict=True), "--", color=_GREY)
        right.set_ylim(0, 1.02)
        write(right.yaxis.label, f"{words} of the answer (dashed)")
    write_title(ax.title, title)
    _legend(ax, bars=False)
    return ax


def _thresholds(ax: "Axes", result: "Result", metric: str, along_x: bool) -> None:
    goal = result.goal
    found = zip(goal.constraints, goal.bounds, result.bounds, strict=True)
    for constraint, (column, _, is_most, *_), bound in found:
        if goal.columns[column] != metric or math.isnan(bound):
            continue
        (ax.axvline if along_x else ax.axhline)(bound, color=_RED, lw=1.2, ls="--", label=str(constraint))
        low, high = ax.get_xlim() if along_x else ax.get_ylim()
        # The infeasible side; the limits are set again because a span would stretch them.
        side = (bound, max(high, bound)) if is_most else (min(low, bound), bound)
        (ax.axvspan if along_x else ax.axhspan)(*side, color=_RED, alpha=0.06, lw=0)
        (ax.set_xlim if along_x else ax.set_ylim)(min(low, bound), max(high, bound))


def _front(ax: "Axes", result: "Result", x: str, y: str) -> None:
    """The staircase below which (in the directions of the objectives) everything is dominated."""
    goal = result.goal
    selected = [e for e in result.selected if None not in e.estimate.values() and e.feasible is not False]
    means = np.array([[e.estimate[metric] for metric in goal.columns] for e in selected], dtype=float)
    means = means.reshape(len(selected), len(goal.columns))
    optimal = pareto_mask(goal.values(means, goal.offsets)[:, : len(goal.objectives)])
    points = sorted((e.estimate[x], e.estimate[y]) for e, on in zip(selected, optimal, strict=True) if on)
    where = "pre" if x not in goal.minimized else "post"
    ax.step([p[0] for p in points], [p[1] for p in points], where=where, color=_BLUE, lw=1.2, alpha=0.6, label="front")  # type: ignore[arg-type]


def _legend(ax: "Axes", bars: bool = True) -> None:
    """Below the points rather than on them."""
    if not ax.get_legend_handles_labels()[0]:
        return
    ranked = ax.get_xlabel().startswith("prompts")
    title = ("bars: two standard errors" if ranked else "bars: one standard error") if bars else None
    legend = ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=4, fontsize=8, frameon=False, title=title,
        title_fontsize=8,
    )  # fmt: skip
    _letter(legend)


def _letter(legend: Any) -> None:
    for text in legend.get_texts():
        write(text, text.get_text())


def _title(result: "Result") -> str:
    return f"{result.goal}\n{describe_spending(result)}, {len(result.prompts)} prompts"


def _label(goal: Goal, metric: str) -> str:
    directions = [("minimized" if o.minimize else "maximized") for o in goal.objectives if o.metric == metric]
    return f"{metric} ({directions[0]})" if directions else metric
