"""Tables with a row for each score: the metric's name in one column, and its value in another."""

from typing import Any

from asktell_adapters.finished import column_names
from asktell_adapters.finished.evidence import Evidence
from asktell_adapters.finished.frame import Frame, as_id

_METRICS = frozenset(
    (
        "metric",
        "metric_name",
        "measure",
        "criterion",
        "score_name",
        "evaluator",
        "scorer",
    )
)
_VALUES = frozenset(("value", "score", "metric_value", "score_value", "result"))


def pivoted(frame: Frame) -> Frame:
    """Give each metric a column, and each evaluation a row. Other tables are returned unchanged.

    An evaluation is one candidate on one example, and one of its repeats.
    """
    plain = {name: column_names.plain(name) for name in frame.columns}
    metric = next((name for name in plain if plain[name] in _METRICS), None)
    value = next((name for name in plain if plain[name] in _VALUES), None)
    if metric is None or value is None:
        return frame
    keys = [
        name
        for name in frame.columns
        if name not in (metric, value)
        and (
            column_names.rank(name, column_names.CANDIDATES) is not None
            or column_names.rank(name, column_names.EXAMPLES) is not None
            or plain[name] in column_names.REPEATS
        )
    ]
    evidence = Evidence(frame)
    if not keys:
        # Without a usual name: a column that has each metric once for each of its values
        keys = [
            name
            for name in frame.columns
            if name not in (metric, value) and evidence.is_distinct(name, metric)
        ][:1]
    if (
        not keys
        or evidence.n_values(metric) < 2
        or evidence.is_distinct(*keys)
        or not evidence.is_distinct(*keys, metric)
    ):
        return frame
    names = [name for name in frame.columns if name not in (metric, value)]
    # A threshold or a reason of each metric is no score of the evaluation
    apart = [
        name
        for name in names
        if plain[name] not in column_names.ERRORS | column_names.STATUSES
        and not evidence.is_function(name, *keys)
    ]
    names = [name for name in names if name not in apart]
    note = f"{frame.path.name}: columns that differ between metrics are left out: {', '.join(apart)}."
    rows: dict[tuple[str | None, ...], int] = {}
    columns: dict[str, list[Any]] = {name: [] for name in names}
    metrics = dict.fromkeys(str(cell).strip() for cell in frame.columns[metric])
    scores: dict[str, list[Any]] = {name: [] for name in metrics}
    numbers: list[int] = []
    for at in range(len(frame.numbers)):
        key = tuple(as_id(frame.columns[name][at]) for name in keys)
        if key not in rows:
            rows[key] = len(numbers)
            numbers.append(frame.numbers[at])
            for name in names:
                columns[name].append(frame.columns[name][at])
            for cells in scores.values():
                cells.append(None)
        scores[str(frame.columns[metric][at]).strip()][rows[key]] = frame.columns[
            value
        ][at]
    return Frame(
        frame.path,
        {**columns, **scores},
        numbers,
        frame.place,
        {},
        (*frame.notes, note) if apart else frame.notes,
        frame.decimal_comma,
    )
