"""Labels by people for `asktell judge`: a table with a response and its label in each row."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, final

from asktell import InvalidArgumentError
from asktell.extend import short, some
from asktell_adapters.config.data import DataSet, distinct
from asktell_adapters.llms.base import Example
from asktell_adapters.tables.rows import Row, check_column, number_in
from asktell_adapters.tables.rows import Table as Rows
from asktell_adapters.tables.spreadsheets import original

OTHER = "other"
"""Column of the response that the labeled one is compared with."""

_COLUMNS = ("id", "prompt", "example", "input", "reference", "response", OTHER, "label", "rater")  # fmt: skip
_TEXTS = ("input", "reference", "response", OTHER)
_HINT = "Labels have the columns input (or example), response (or prompt and example), and label."


class _Place(NamedTuple):
    """A label, its row and its rater, for messages."""

    label: float
    where: str
    rater: str


@final
class LabeledResponses:
    """Responses with labels by people. Equal rows count once.

    Args:
        path: the table. Its columns are `input` or `example` (an id of `dataset`),
            `response` or `prompt` and `example` (ids of `recorded`), `label`, and
            perhaps `reference`, `other`, `id` and `rater`. Other columns are fields of
            the example. Rows without a label are left out.
        scale: all grades that a label may be, ascending.
        dataset: reads the examples of `[data]`, for labels without inputs. None if there
            are none.
        recorded: reads recorded responses, (prompt, example) -> response, for labels
            without responses. None if there are none.
        against: column of the response to compare with, if labels are comparisons.

    Attributes:
        dataset: the inputs, references and fields, with an id for each response.
        responses: the responses.
        labels: the labels.
        prompts: the prompt of each response. None if a row lacks it.

    Raises:
        InvalidArgumentError: the file cannot be read, a column or an id is missing or
            unknown, a label is not a grade of the scale, or two raters disagree on a
            response.
    """

    def __init__(
        self,
        path: Path,
        scale: Sequence[float],
        *,
        dataset: Callable[[], DataSet] | None = None,
        recorded: Callable[[], Mapping[tuple[str, str], str]] | None = None,
        against: str | None = None,
    ) -> None:
        self._scale, self._against = scale, against
        self._read_examples, self._read_recorded = dataset, recorded
        rows = Rows(path, _COLUMNS)
        if "label" not in rows.names:
            raise InvalidArgumentError(
                f"{path} has no column 'label'. {_HINT} The columns are {some(rows.names)}."
            )
        self.responses: list[str] = []
        self.labels: list[float] = []
        examples: list[Example] = []
        ids: list[str] = []
        prompts: list[Any] = []
        places: dict[Any, _Place] = {}
        is_csv = path.suffix.lower() in (".csv", ".tsv")
        contradictions: list[tuple[_Place, _Place]] = []
        for row in map(_as_judged, rows.rows) if is_csv else rows.rows:
            where = rows.where(row)
            if row.values.get("label") in (None, ""):
                continue
            label, response = self._label(row, where), self._response(row, where)
            example = self._example(row, where)
            compared = "" if against is None else example.fields.get(against)
            place = _Place(label, where, str(row.values.get("rater") or ""))
            first = places.setdefault((example.input, response, compared), place)
            if first is not place:
                # All of them are counted, so that people can settle them at once
                if first.label != label:
                    contradictions.append((first, place))
                continue
            self.responses.append(response)
            self.labels.append(label)
            examples.append(example)
            ids.append(_id(row) or f"row {row.number}")
            prompts.append(row.values.get("prompt"))
        if contradictions:
            raise _contradicted(contradictions)
        if not examples:
            raise InvalidArgumentError(
                f"{path} has no row with a label. Write labels into the column 'label'."
            )
        self.prompts = None if None in prompts else list(map(str, prompts))
        labeled = zip(examples, self.responses, self.labels, strict=True)
        self.dataset = DataSet(
            tuple(
                # A digest of the fields is in the set-up of the run
                Example(
                    example.input,
                    example.reference,
                    fields={**example.fields, "response": response, "label": label},
                )
                for example, response, label in labeled
            ),
            distinct(ids),
        )

    @cached_property
    def _examples(self) -> dict[str, Example]:
        """The examples of the data, by their ids. Only labels without inputs need them."""
        dataset = DataSet(()) if self._read_examples is None else self._read_examples()
        return dict(zip(dataset.ids, dataset.examples, strict=True))

    @cached_property
    def _recorded(self) -> Mapping[tuple[str, str], str]:
        """The recorded responses. Only labels without responses need them."""
        return {} if self._read_recorded is None else self._read_recorded()

    def _label(self, row: Row, where: str) -> float:
        """The label of a row, which is a grade of the scale."""
        value = row.values["label"]
        label = number_in(value)
        # True is 1 as a number, which is the worst grade of the scale from 1 to 5
        is_truth = isinstance(value, bool) and self._scale[-1] != 1
        if label is None or label not in self._scale or is_truth:
            grades = ", ".join(f"{grade:g}" for grade in self._scale)
            raise InvalidArgumentError(
                f"{where}: The label must be a grade of the judge ({grades}), got {short(value)}. Correct the label, "
                "or the judge's scale. Write words such as pass and fail as numbers."
            )
        return label

    def _response(self, row: Row, where: str) -> str:
        """The response of a row, or the recorded response that it names."""
        text = row.values.get("response")
        # An empty cell may be an empty response, unless the row names a recorded one
        is_named = self._read_recorded is not None and row.values.get("example")
        if text or (text is not None and not is_named):
            return str(text)
        if self._read_recorded is None:
            check_column(row.values, "response", where, _HINT)
        for name in ("prompt", "example"):
            check_column(row.values, name, where, _HINT)
        cell = str(row.values["prompt"]), str(row.values["example"])
        if cell not in self._recorded:
            prompts = list(dict.fromkeys(prompt for prompt, _ in self._recorded))
            raise InvalidArgumentError(
                f"{where}: There is no recorded response of the prompt {cell[0]!r} to the example {cell[1]!r}. The "
                f"responses are of the prompts {some(prompts)}. Correct the ids, or add the response."
            )
        return self._recorded[cell]

    def _example(self, row: Row, where: str) -> Example:
        """The example of a row, by its input or by its id in the data."""
        values = row.values
        fields = {name: value for name, value in values.items() if name not in _COLUMNS}
        text = values.get("input")
        # An empty cell may be an empty input, unless the row names an example
        is_named = self._read_examples is not None and values.get("example")
        if text or (text is not None and not is_named):
            reference = values.get("reference")
            example = Example(str(text), None if reference is None else str(reference))
        else:
            if self._read_examples is None:
                check_column(values, "input", where, _HINT)
            check_column(values, "example", where, _HINT)
            id_ = str(values["example"])
            if id_ not in self._examples:
                raise InvalidArgumentError(
                    f"{where}: There is no example {id_!r} in [data]. The ids there are {some(list(self._examples))}. "
                    "Correct the id, or add a column 'input' to the labels."
                )
            example = self._examples[id_]
        if values.get(OTHER) is not None:
            fields[OTHER] = str(values[OTHER])
        fields = {**example.fields, **fields}
        if self._against is not None and not isinstance(fields.get(self._against), str):
            raise InvalidArgumentError(
                f"{where}: The judge compares two responses, but the row has no text in the column {self._against!r}. "
                "Add the response that people compared with."
            )
        return Example(example.input, example.reference, fields=fields)


def _as_judged(row: Row) -> Row:
    """The row of a CSV file with the texts that `asktell label` wrote, without the apostrophes of formulas."""
    texts = {
        name: original(text)
        for name in _TEXTS
        if isinstance(text := row.values.get(name), str)
    }
    return row._replace(values={**row.values, **texts})


def _id(row: Row) -> str:
    """The id of a labeled response, if the row has one or names a prompt and an example."""
    values = row.values
    if values.get("id") is not None:
        return str(values["id"])
    parts = [str(values[name]) for name in ("prompt", "example") if values.get(name)]
    return "/".join(parts)


def _contradicted(
    contradictions: Sequence[tuple[_Place, _Place]],
) -> InvalidArgumentError:
    """The error that people disagree on responses."""
    first, second = contradictions[0]
    n = len(contradictions)
    labels = " and ".join(
        f"{place.label:g} in {place.where}{f' (by {short(place.rater)})' if place.rater else ''}"
        for place in (first, second)
    )
    return InvalidArgumentError(
        f"{n:,} response{'s have' if n > 1 else ' has'} contradictory labels. The first has the labels {labels}. "
        "Agree on one label for each response, and keep one row."
    )
