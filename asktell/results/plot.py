"""Plots of a result: a scatter plot of two metrics, a ranking by one metric, or scatter plots of all pairs."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from asktell._util.extras import needs_extra
from asktell.numerics.pareto import pareto_mask
from asktell.problem.goals import Goal, ParetoSet
from asktell.results.entries import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_LABELS = 8  # names in a plot
_LONGEST = 28  # characters of a name
# Places of a name beside its point, in the order of preference: offsets in points, and the
# side of the name that is next to the point
_PLACES = (
    (6, 9, "left"),
    (6, -9, "left"),
    (-6, 9, "right"),
    (-6, -9, "right"),
    (6, 20, "left"),
    (6, -20, "left"),
)


Point: TypeAlias = tuple[float, float]


class Label(NamedTuple):
    """A name and the point that it names, in the units of the axes."""

    text: str
    x: float
    y: float
    color: str


def drawable(text: str) -> str:
    """The text with U+FFFD for characters that cannot be drawn: half surrogate pairs and control characters."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    spaced = "".join(
        " " if letter.isspace() and letter != "\n" else letter for letter in whole
    )
    return "".join(
        letter if letter.isprintable() or letter == "\n" else "\ufffd"
        for letter in spaced
    )


def write(artist: Any, text: str) -> None:
    """Set the text of a matplotlib artist. A dollar sign does not start a formula."""
    artist.set_parse_math(False)
    artist.set_text(drawable(text))


def write_title(artist: Any, text: str) -> None:
    """Set the title of axes or of a figure, wrapped to the width of the figure."""
    write(artist, text)
    artist.set_wrap(True)


def _write_names(ax: "Axes", labels: Sequence[Label], most: int = MOST_LABELS) -> None:
    """Write the first names next to their points, each where it covers no earlier name, or not at all."""
    # The layout decides where the points are
    ax.figure.canvas.figure.draw_without_rendering()
    taken: list[Any] = []
    for label in labels[:most]:
        text = label.text
        if len(text) > _LONGEST:
            text = text[: _LONGEST - 1] + "…"
        for x, y, side in _PLACES:
            note = ax.annotate(
                "", (label.x, label.y), xytext=(x, y), textcoords="offset points", ha=side, va="center",
                color=label.color, fontsize=9, fontweight="bold", zorder=5, in_layout=False,
            )  # fmt: skip
            write(note, text)
            box = note.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            note.remove()


_GREY, _BLUE, _RED, _AMBER = "#767e8c", "#0067b0", "#b33a00", "#c98500"
# Prompts with error bars. If there are more, only the selected prompts have error bars.
_MOST_BARS = 300
_MOST_PAIRS = 10
_MOST_LABELS_OF_MANY = 5  # in each of several scatter plots


def draw(
    result: Summary, title: str, x: str | None, y: str | None, ax: "Axes | None"
) -> "Axes":
    """Draw the metrics x and y, by default those of the goal. Returns the axes, or the first axes of several."""
    with needs_extra("plot"):
        import matplotlib.pyplot as plt

    metrics = result.goal.columns
    if x is None and y is None and ax is None and len(metrics) > 2:
        return _draw_pairs(result, title)
    x = x or next(metric for metric in metrics if metric != y or len(metrics) == 1)
    y = y or next((metric for metric in metrics if metric != x), x)
    if ax is None:
        _, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
    labels = _draw_ranked(ax, result, x) if x == y else _draw_scatter(ax, result, x, y)
    write_title(ax.title, title)
    _legend(ax)
    _write_names(ax, labels)
    return ax


def _draw_pairs(result: Summary, title: str) -> "Axes":
    """Draw a scatter plot for each pair of metrics, with one legend. Returns the first axes."""
    import matplotlib.pyplot as plt

    pairs = list(combinations(result.goal.columns, 2))
    shown = pairs[:_MOST_PAIRS]
    n_columns = min(3, len(shown))
    n_rows = -(-len(shown) // n_columns)
    figure, grid = plt.subplots(
        n_rows,
        n_columns,
        figsize=(5 * n_columns, 4.4 * n_rows + 0.8),
        layout="constrained",
        squeeze=False,
    )
    names = [
        _draw_scatter(place, result, x, y)
        for place, (x, y) in zip(grid.flat, shown, strict=False)
    ]
    for place in list(grid.flat)[len(shown) :]:
        place.set_axis_off()
    more = (
        f"; {len(shown)} of {len(pairs)} pairs of metrics"
        if len(pairs) > len(shown)
        else ""
    )
    write_title(figure.suptitle("", fontsize=10), title + more)
    first: Axes = grid.flat[0]
    entries = first.get_legend_handles_labels()
    if entries[0]:
        legend = figure.legend(
            *entries, loc="outside lower center", ncols=4, fontsize=8, frameon=False
        )
        _letter(legend)
    for place, labels in zip(grid.flat, names, strict=False):
        _write_names(place, labels, _MOST_LABELS_OF_MANY)
    return first


def _draw_scatter(ax: "Axes", result: Summary, x: str, y: str) -> list[Label]:
    """Draw two metrics, with one standard error."""
    goal = result.goal
    places, errors = {}, {}
    for entry in result.prompts:
        mean_x, mean_y = entry.estimate[x], entry.estimate[y]
        if mean_x is not None and mean_y is not None:
            places[entry.id] = mean_x, mean_y
            errors[entry.id] = (
                entry.standard_error[x] or 0.0,
                entry.standard_error[y] or 0.0,
            )
    names = _draw_points(ax, result, places, errors, _MOST_BARS)
    _constraints(ax, result, x, True)
    _constraints(ax, result, y, False)
    _violations(ax, result, places, (x, y))
    objectives = sorted(objective.metric for objective in goal.objectives)
    if isinstance(goal, ParetoSet) and objectives == sorted((x, y)):
        _staircase(ax, result, x, y)
    write(ax.xaxis.label, _label(goal, x))
    write(ax.yaxis.label, _label(goal, y))
    ax.grid(alpha=0.25)
    return names


def _violations(
    ax: "Axes",
    result: Summary,
    places: dict[str | int, Point],
    metrics: tuple[str, str],
) -> None:
    """Cross out prompts that violate a constraint, if one is on a metric that is on neither axis."""
    goal = result.goal
    violating = [
        places[entry.id]
        for entry in result.prompts
        if entry.id in places and entry.feasible is False
    ]
    hidden = any(
        len(counted) > 1 or goal.columns[bound.column] not in metrics
        for bound, counted in zip(
            goal.bounds, goal.worst_of[len(goal.objectives) :], strict=True
        )
    )
    if violating and hidden:
        xs, ys = zip(*violating, strict=True)
        label = f"violates a constraint ({len(violating)})"
        ax.plot(xs, ys, "x", color=_RED, markersize=7, mew=1.0, zorder=5, label=label)


def _draw_ranked(ax: "Axes", result: Summary, metric: str) -> list[Label]:
    """Draw one metric, the prompts from best to worst, with two standard errors."""
    from matplotlib.ticker import MaxNLocator

    sign = -1.0 if metric in result.goal.minimized else 1.0
    drawn = [e for e in result.prompts if e.estimate[metric] is not None]
    drawn.sort(key=lambda e: -sign * (e.estimate[metric] or 0.0))
    places = {e.id: (i + 1.0, e.estimate[metric] or 0.0) for i, e in enumerate(drawn)}
    errors = {e.id: (0.0, 2.0 * (e.standard_error[metric] or 0.0)) for e in drawn}
    names = _draw_points(ax, result, places, errors, len(drawn))
    _constraints(ax, result, metric, False)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))  # no prompt is between two
    write(ax.xaxis.label, "prompts, the best first")
    write(ax.yaxis.label, _label(result.goal, metric))
    ax.grid(alpha=0.25, axis="y")
    return names


def _draw_points(
    ax: "Axes",
    result: Summary,
    places: dict[str | int, Point],
    errors: dict[str | int, Point],
    most_bars: int,
) -> list[Label]:
    """Draw the prompts, colored by whether they are selected or contenders, and a ring around the baseline.

    With more prompts than `most_bars`, only the selected prompts have error bars.
    Returns the names, the most important first.
    """
    chosen = [entry.id for entry in result.selected if entry.id in places]
    open_ = [entry.id for entry in result.unresolved if entry.id in places]
    behind = [id_ for id_ in places if id_ not in {*chosen, *open_}]
    for ids, color, marker, size, label in (
        (behind, _GREY, "o", 4.5, "other"),
        (open_, _AMBER, "^", 5.5, "may be better"),
        (chosen, _BLUE, "D", 6.0, "selected"),
    ):
        if not ids:
            continue
        look: dict[str, Any] = {"alpha": 0.85, "markersize": size}
        if len(ids) > _MOST_BARS:
            look = {"alpha": 0.5, "markersize": 2.5}
        x, y = np.transpose([places[id_] for id_ in ids])
        bars: Any = (None, None)
        if len(places) <= most_bars or ids is chosen:
            bars = np.transpose([errors[id_] for id_ in ids])
        ax.errorbar(
            x, y, xerr=bars[0], yerr=bars[1], fmt=marker, color=color, ecolor=color, elinewidth=0.8,
            label=f"{label} ({len(ids)})", zorder=4 if ids is chosen else 3, **look,
        )  # fmt: skip
    colors = dict.fromkeys(open_, _AMBER) | dict.fromkeys(chosen, _BLUE)
    named = [*chosen, *open_]
    if (id_ := result.baseline) is not None and id_ in places:
        ax.plot(
            *places[id_],
            "o",
            markersize=13,
            mfc="none",
            color=_RED,
            zorder=5,
            label=f"baseline: {id_}",
        )
        colors[id_] = _RED
        named.insert(1, id_)  # after the first selected prompt
    return [Label(str(id_), *places[id_], colors[id_]) for id_ in dict.fromkeys(named)]


def _constraints(ax: "Axes", result: Summary, metric: str, along_x: bool) -> None:
    """Draw the bounds on a metric as dashed lines, and shade the side that violates them."""
    goal = result.goal
    bounds = zip(goal.constraints, goal.bounds, result.bounds, strict=True)
    for constraint, (column, _, is_most, *_), bound in bounds:
        if goal.columns[column] != metric or math.isnan(bound):
            continue
        (ax.axvline if along_x else ax.axhline)(
            bound, color=_RED, lw=1.2, ls="--", label=str(constraint)
        )
        low, high = ax.get_xlim() if along_x else ax.get_ylim()
        # Shade the infeasible side. The limits are set again, because a span would
        # stretch them.
        side = (bound, max(high, bound)) if is_most else (min(low, bound), bound)
        (ax.axvspan if along_x else ax.axhspan)(*side, color=_RED, alpha=0.06, lw=0)
        (ax.set_xlim if along_x else ax.set_ylim)(min(low, bound), max(high, bound))


def _staircase(ax: "Axes", result: Summary, x: str, y: str) -> None:
    """Draw the Pareto set of the selected prompts as a staircase. Everything on its worse side is dominated."""
    goal = result.goal
    selected = [
        e
        for e in result.selected
        if None not in e.estimate.values() and e.feasible is not False
    ]
    means = np.array(
        [[e.estimate[metric] for metric in goal.columns] for e in selected], dtype=float
    )
    means = means.reshape(len(selected), len(goal.columns))
    optimal = pareto_mask(goal.values(means, goal.offsets)[:, : len(goal.objectives)])
    points = sorted(
        (e.estimate[x], e.estimate[y])
        for e, on in zip(selected, optimal, strict=True)
        if on
    )
    # Points are ordered by x. Where more is better, a point dominates everything to its
    # left.
    where: Literal["pre", "post"] = "pre" if x not in goal.minimized else "post"
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    ax.step(xs, ys, where=where, color=_BLUE, lw=1.2, alpha=0.6, label="Pareto set")  # type: ignore[arg-type]


def _legend(ax: "Axes", bars: bool = True) -> None:
    """Put the legend below the axes, where it covers no point."""
    if not ax.get_legend_handles_labels()[0]:
        return
    ranked = ax.get_xlabel().startswith("prompts")
    title = (
        ("bars: two standard errors" if ranked else "bars: one standard error")
        if bars
        else None
    )
    legend = ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=4, fontsize=8, frameon=False, title=title,
        title_fontsize=8,
    )  # fmt: skip
    _letter(legend)


def _letter(legend: Any) -> None:
    """Write the texts of a legend again, so that no dollar sign starts a formula."""
    for text in legend.get_texts():
        write(text, text.get_text())


def _label(goal: Goal, metric: str) -> str:
    """The label of an axis: the metric, and its direction if it is an objective."""
    directions = [
        ("minimized" if o.minimize else "maximized")
        for o in goal.objectives
        if o.metric == metric
    ]
    return f"{metric} ({directions[0]})" if directions else metric
