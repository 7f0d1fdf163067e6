"""The set-up: all settings and data that a run's outcome depends on. Another set-up is another run."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from asktell.extend import changes, short
from asktell_adapters.config.data import (
    DIGEST,
    RESPONSES,
    DataSet,
    Selected,
    digest,
    distinct,
    items,
)
from asktell_adapters.config.metrics import turned_on
from asktell_adapters.config.model import TUNING

_MISSING = object()
_ROWS = ("data.rows", "data.ids")


def describe(
    settings: Mapping[str, Any],
    data: Mapping[str, Any],
    model: Mapping[str, Any],
    prompts: Selected,
    dataset: DataSet,
) -> dict[str, Any]:
    """The set-up as JSON data: the `settings` of the selector, the file's `data`, and its prompts and examples."""
    setup = {
        **settings,
        "goal": {"type": "best-feasible", **data["goal"]},
        "metrics": {
            name: {} if entry is True else entry
            for name, entry in turned_on(data.get("metrics", {}))
        },
        "model": _untuned(model),
        **(
            {
                "models": {
                    name: _untuned(model) for name, model in data["models"].items()
                }
            }
            if "models" in data
            else {}
        ),
        "prompts": {"count": len(prompts), "sha256": digest(list(items(prompts)))},
        "data": {
            "count": len(dataset),
            "sha256": digest(
                [[e.input, e.reference, e.fields] for e in dataset.examples]
            ),
            "rows": dataset.digests,
            **({} if dataset.names is None else {"ids": dataset.names}),
        },
    }
    # TOML has dates
    as_read_again: dict[str, Any] = json.loads(json.dumps(setup, default=str))
    return as_read_again


def _untuned(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model's table without the keys that cannot change a response."""
    return {name: value for name, value in model.items() if name not in TUNING}


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences between two set-ups, each as a sentence without its period. Empty if there are none.

    Args:
        saved: the set-up of an earlier run, `Config.setup`.
        now: the set-up of a configuration now.
    """
    before, after = (dict(_flat(_without_responses(setup))) for setup in (saved, now))
    sentences = []
    if rows := _changed_rows(saved["data"], now["data"]):
        sentences.append(f"The examples have changed: {rows}")
    if only_more_rows(saved, now) and (responses := changed_responses(saved, now)):
        sentences.append(responses)
    for name in dict.fromkeys((*before, *after)):
        section, _, key = name.partition(".")
        if before.get(name, _MISSING) == after.get(name, _MISSING) or name in _ROWS:
            continue
        if section == "data" and rows:
            continue
        if section in ("prompts", "data") and key in ("count", "sha256"):
            old, new = before.get(f"{section}.count"), after.get(f"{section}.count")
            what = "prompts" if section == "prompts" else "examples"
            sentences.append(
                f"The {what} have changed (there were {old}, and there are {new} now)"
            )
        else:
            old, new = (
                "not given" if flat.get(name) is None else short(flat[name])
                for flat in (before, after)
            )
            sentences.append(f"{name!r} was {old}, and is {new} now")
    return list(dict.fromkeys(sentences))


def only_more_rows(saved: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """True if the data of two set-ups are the same, apart from rows that were added at the end.

    Args:
        saved: the set-up of an earlier run, `Config.setup`.
        now: the set-up of a configuration now.
    """
    before, after = (
        [list(data["rows"]), list(data.get("ids") or ())]
        for data in (saved["data"], now["data"])
    )
    had_ids = bool(before[1]) == bool(after[1])
    return had_ids and all(
        new[: len(old)] == old for old, new in zip(before, after, strict=True)
    )


def changed_responses(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How recorded responses differ between two set-ups, as a sentence without its period. Empty if they do not.

    Responses of additional prompts, and to examples that were added at the end, are no
    difference.
    """
    before, after = (setup.get("label", {}).get(RESPONSES) for setup in (saved, now))
    if before is None and after is not None:
        return "The responses came from the LLM, and are recorded ones now"
    if before is not None and after is None:
        return "The responses were recorded ones, and come from the LLM now"
    changed = [
        (prompt, i // DIGEST)
        for prompt, digests in (before or {}).items()
        for i in range(0, len(digests), DIGEST)
        if prompt in after and after[prompt][i : i + DIGEST] != digests[i : i + DIGEST]
    ]
    if not changed:
        return ""
    prompt, example = changed[0]
    ids = now["data"].get("ids")
    name = repr(ids[example]) if ids else f"row {example + 1}"
    return (
        f"{len(changed):,} of the recorded responses have changed. The first is that of the prompt {prompt!r} on the "
        f"example {name}"
    )


def _without_responses(setup: Mapping[str, Any]) -> dict[str, Any]:
    """A set-up without the digests of recorded responses."""
    label = setup.get("label", {})
    rest = {name: value for name, value in label.items() if name != RESPONSES}
    return {**setup, **({"label": rest} if label else {})}


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables, by their full names."""
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _changed_rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The changes of the data, in words. Empty if there are none."""
    if before.get("ids") and after.get("ids"):
        change = changes(before["ids"], after["ids"])
        was = dict(zip(before["ids"], before["rows"], strict=True))
        now = zip(after["ids"], after["rows"], strict=True)
        return str(
            change._replace(
                edited=[id_ for id_, row in now if was.get(id_, row) != row]
            )
        )
    found_by_digest = changed_digests(distinct(before["rows"]), distinct(after["rows"]))
    if found_by_digest and before.get("ids"):
        found_by_digest += ". They had distinct ids, and have none now"
    return found_by_digest


def changed_rows(then: Sequence[str], dataset: DataSet) -> str:
    """How a dataset differs from an earlier dataset, in words.

    The text is empty if the dataset begins with all earlier examples, in the same
    order.

    Args:
        then: the ids of the earlier examples.
        dataset: the dataset now, `Config.dataset`.
    """
    if dataset.ids[: len(then)] == tuple(then):
        return ""
    return (
        changed_digests(then, dataset.ids)
        if dataset.names is None
        else str(changes(then, dataset.ids))
    )


def changed_digests(before: Sequence[str], after: Sequence[str]) -> str:
    """The changes of rows without ids, in words. Rows are compared by their digests and named by numbers, from 1.

    A row that moved has its number then and its number now.

    Rows that were replaced between the same neighbors count as edited.
    """
    change = changes(before, after)
    gone, come = (
        _rows_by_neighbour(before, change.missing),
        _rows_by_neighbour(after, change.added),
    )
    pairs = [
        pair
        for neighbour in gone
        for pair in zip(gone[neighbour], come.get(neighbour, ()), strict=False)
    ]
    was, edited = ({pair[i] for pair in pairs} for i in (0, 1))
    change = change._replace(
        edited=[row for row in change.added if row in edited],
        added=[row for row in change.added if row not in edited],
        missing=[row for row in change.missing if row not in was],
    )
    numbers = [{row: n for n, row in enumerate(rows, 1)} for rows in (before, after)]
    return change.in_words(
        lambda row: " to ".join(
            f"row {number[row]}" for number in numbers if row in number
        )
    )


def _rows_by_neighbour(
    rows: Sequence[str], some: Iterable[str]
) -> dict[str | None, list[str]]:
    """The chosen rows, by the last row before them that is not chosen. None stands for the beginning."""
    chosen, rows_after, last = set(some), dict[str | None, list[str]](), None
    for row in rows:
        if row in chosen:
            rows_after.setdefault(last, []).append(row)
        else:
            last = row
    return rows_after
