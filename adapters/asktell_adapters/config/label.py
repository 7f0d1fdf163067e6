"""The table `[label]`: people give the scores, on recorded responses or on those of the LLM."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

from asktell import EvaluatorError, Selector, Trial
from asktell.extend import outside_of_loops, some
from asktell_adapters.config.data import RESPONSES, DataSet, Selected, digest, items
from asktell_adapters.config.tables import Table, key
from asktell_adapters.evaluators.llm import asked_of
from asktell_adapters.server.labeling import TIE, GoldRow, Option, Responses, Task
from asktell_adapters.tables.rows import Row, check_column, number_in
from asktell_adapters.tables.rows import Table as Rows

_COMPARISON = (
    Option("the response", 1.0),
    Option("the baseline's", 0.0),
    Option("tie", 0.5),
)
# As gold rows name the labels of a comparison
_SIDES = {"response": 0, "other": 1, "tie": TIE}
_ROLES = "Responses have the columns prompt, example and response, and perhaps scores."

# What was recorded for a prompt, by its id, on an example: the response and its scores
_Recorded: TypeAlias = dict[tuple[str, int], tuple[str, dict[str, float]]]


class LabelTable(Table):
    """People give the scores: `asktell label`."""

    question: str = key(about="What raters are asked about each response.")
    scale: dict[str, float] | None = key(
        None,
        'The labels and their scores: `{ "No" = 0, "Partly" = 0.5, "Yes" = 1 }`. A rater presses 1 for the first '
        "label, 2 for the second, and so on.",
        said="this or `compare`",
        expected="a table, LABEL = a finite number",
    )
    compare: bool = key(
        False,
        "Shows the response beside the `baseline`'s on the same example, on a random side. The score is 1 if the "
        "response is better, 0 if the baseline's is, and 0.5 for a tie.",
    )
    metric: str = key("human", "Name of the metric that the labels measure.")
    responses: str | None = key(
        None,
        "File with a table of recorded responses. Its columns are `prompt` (an id), `example` (an id) and "
        "`response`. Other columns may be metrics of the goal.",
        said="none: the LLM of `[model]` responds",
    )
    gold: str | None = key(
        None,
        "File with a table of items whose right label is known. Its columns are `input`, `response` and `label`. "
        "The items are shown now and then to measure how often raters are right, and do not count as scores. "
        "With `compare`, the table also has the column `other`, and `label` is `response`, `other` or `tie`.",
    )
    gold_every: int = key(
        10, "With 10, one in ten labels of a rater is about a row of `gold`.", ge=2
    )


@final
@dataclass(frozen=True)
class Labels:
    """The table `[label]`, read and checked."""

    table: LabelTable
    options: tuple[Option, ...]
    gold: tuple[GoldRow, ...]
    recorded: _Recorded | None  # None: the LLM responds

    @property
    def metrics(self) -> list[str]:
        """The metrics that labels and recorded responses have."""
        scores = (
            next(iter(self.recorded.values()))[1]
            if self.recorded
            else dict[str, float]()
        )
        return [self.table.metric, *scores]

    def setup(self, prompts: Selected, dataset: DataSet) -> dict[str, Any]:
        """The settings and the recorded responses that scores depend on.

        The scale is in its order, since raters get used to the keys of its labels. Each
        prompt has the digests of its responses to all examples, in one text. So prompts
        and examples can be added at the end, and nothing else can change.
        """
        table, recorded = self.table, self.recorded
        scale = None if table.scale is None else list(map(list, table.scale.items()))
        setup = {
            "question": table.question,
            "scale": scale,
            "compare": table.compare,
            "metric": table.metric,
        }
        if recorded is None:
            return setup
        responses = {
            str(id_): "".join(
                digest(recorded[str(id_), j]) for j in range(len(dataset))
            )
            for id_, _ in items(prompts)
        }
        return {**setup, RESPONSES: responses}

    def check(self, selector: Selector) -> None:
        """Check the goal and the baseline.

        Raises:
            ConfigError: the goal lacks the metric of the labels, or cannot be combined
                with a comparison.
        """
        table, metrics = self.table, list(selector.goal.metrics)
        if table.metric not in metrics:
            raise table.error(
                "metric",
                f"must be a metric of [goal] ({some(metrics)})",
                table.metric,
            )
        if table.compare:
            if selector.state.problem.baseline is None:
                raise table.error(
                    "compare",
                    "needs `baseline` at the top of the file, the id of the prompt in use",
                )
            if len(metrics) > 1:
                raise table.error(
                    "compare",
                    f"needs a goal with the one metric {table.metric!r}, since the baseline counts as a tie with "
                    f"itself. Remove {some([m for m in metrics if m != table.metric])} from [goal]",
                )

    def prepare(self, selector: Selector) -> None:
        """Record the scores that need no person in a new selector: the baseline's ties with itself."""
        table = self.table
        if table.compare:
            baseline = selector.prompts.texts[selector.state.problem.baseline or 0]
            for example in range(selector.state.problem.examples.n or 0):
                selector.observe(baseline, {table.metric: 0.5}, example)

    def task(
        self, selector: Selector, dataset: DataSet, evaluator: Callable[[], Any]
    ) -> Task:
        """What raters are asked. `evaluator` makes the LLM's evaluator, if the LLM responds."""
        table, problem = self.table, selector.state.problem
        replay = partial(self._replay, dataset.ids)
        respond = replay if self.recorded is not None else _asking(evaluator())
        baseline = problem.baseline if table.compare else None

        def responses(trial: Trial) -> Responses:
            text, scores, cost = respond(trial)
            if baseline is None:
                return Responses((text,), scores, cost)
            rival = selector.prompts.trial(trial.id, baseline, trial.example)
            rival_text, _, more = respond(rival)
            paid = None if cost is None or more is None else cost + more
            return Responses((text, rival_text), scores, paid)

        return Task(
            table.question,
            table.metric,
            self.options,
            table.compare,
            [example.input for example in dataset.examples],
            responses,
            self.gold,
            table.gold_every,
        )

    def _replay(
        self, ids: Sequence[str], trial: Trial
    ) -> tuple[str, dict[str, float], float | None]:
        assert self.recorded is not None
        assert trial.example is not None
        cell = str(trial.prompt_id), trial.example
        if cell not in self.recorded:
            raise EvaluatorError(
                f"{self.table.responses} has no response of the prompt {cell[0]!r} to the example "
                f"{ids[trial.example]!r}. Add the response, and start again."
            )
        text, scores = self.recorded[cell]
        return text, scores, None


def read_labels(table: LabelTable, dataset: DataSet) -> Labels:
    """The table `[label]`, with the files that it names.

    Raises:
        ConfigError: keys contradict each other, or a file cannot be used.
    """
    if table.compare == (table.scale is not None):
        raise table.mistake(
            "[label] needs either scale = { LABEL = SCORE, ... } or compare = true."
        )
    if not table.question.strip():
        raise table.error("question", "must not be empty")
    options: tuple[Option, ...] = _COMPARISON
    if table.scale is not None:
        options = tuple(Option(label, score) for label, score in table.scale.items())
        if not 2 <= len(options) <= 9 or len({option.score for option in options}) < 2:
            raise table.error(
                "scale",
                "must have 2 to 9 labels, and their scores must not all be equal",
                table.scale,
            )
    recorded = None
    if table.responses is not None:
        with table.named():
            recorded = _read_recorded(table, dataset)
    gold: tuple[GoldRow, ...] = ()
    if table.gold is not None:
        with table.named():
            gold = _read_gold(table, options)
    return Labels(table, options, gold, recorded)


def prompts_of(recorded: Mapping[tuple[str, int], Any]) -> dict[str, str]:
    """The prompts of recorded responses. Their texts are not known, so their ids stand for them."""
    return {prompt: prompt for prompt, _ in recorded}


def check_study(labels: Labels, selector: Selector, dataset: DataSet) -> None:
    """Check that a study has no prompts without recorded responses, which another program may have added.

    Raises:
        ConfigError: a response is missing.
    """
    left = selector.state.left
    ids = map(str, selector.prompts.ids)
    check_complete(
        labels,
        {id_: id_ for arm, id_ in enumerate(ids) if arm not in left},
        dataset,
        "Add the missing rows, or remove the prompt from the study by `asktell retire`",
    )


def check_complete(
    labels: Labels,
    prompts: Selected,
    dataset: DataSet,
    cure: str = "Add the missing rows, or remove prompts or examples",
) -> None:
    """Check that every prompt has a recorded response to every example.

    Raises:
        ConfigError: a response is missing.
    """
    if labels.recorded is None:
        return
    cells = [(str(id_), j) for id_, _ in items(prompts) for j in range(len(dataset))]
    missing = [cell for cell in cells if cell not in labels.recorded]
    if missing:
        prompt, example = missing[0]
        raise labels.table.error(
            "responses",
            f"lacks {len(missing):,} of {len(cells):,} responses. The first missing response is that of the prompt "
            f"{prompt!r} on the example {dataset.ids[example]!r}. {cure}",
        )


def _read_recorded(table: LabelTable, dataset: DataSet) -> _Recorded:
    """The recorded responses, with their scores."""
    assert table.responses is not None
    columns = ("prompt", "example", "response")
    rows = Rows(table.beside(table.responses), columns)
    metrics = [name for name in rows.names if name not in columns]
    positions = {id_: j for j, id_ in enumerate(dataset.ids)}
    recorded: _Recorded = {}
    for row in rows.rows:
        where, values = rows.where(row), row.values
        for name in ("prompt", "example"):
            check_column(values, name, where, _ROLES)
        example = positions.get(str(values["example"]))
        if example is None:
            continue  # [data] may be a part of what was recorded
        cell = str(values["prompt"]), example
        if cell in recorded:
            raise table.mistake(
                f"{where} is the second response of the prompt {cell[0]!r} on the example {values['example']!r}. "
                "Keep one of the two rows."
            )
        text = values.get("response")
        scores = {
            name: number
            for name in metrics
            if (number := number_in(values.get(name))) is not None
        }
        recorded[cell] = "" if text is None else str(text), scores
    if not recorded:
        row = rows.rows[0]
        raise table.mistake(
            f"no row of 'responses' in [label] is about an example of [data]. In {rows.where(row)}, the column "
            f"'example' has {str(row.values.get('example'))!r}. The ids of [data] are {some(dataset.ids)}. If they are "
            "in another column, name it by id = '...' in [data]."
        )
    return recorded


def _read_gold(table: LabelTable, options: Sequence[Option]) -> tuple[GoldRow, ...]:
    """The gold rows."""
    assert table.gold is not None
    labels = (
        _SIDES
        if table.compare
        else {option.label: k for k, option in enumerate(options)}
    )
    columns = ("input", "response", *(["other"] if table.compare else []), "label")
    rows = Rows(table.beside(table.gold), columns)
    return tuple(_gold_row(table, rows, row, columns, labels) for row in rows.rows)


def _gold_row(
    table: LabelTable,
    rows: Rows,
    row: Row,
    columns: Sequence[str],
    labels: Mapping[str, int],
) -> GoldRow:
    where = rows.where(row)
    for name in columns:
        check_column(row.values, name, where)
    label = str(row.values["label"])
    if label not in labels:
        raise table.mistake(
            f"{where} has the label {label!r}. It must be one of {some(list(labels))}."
        )
    texts = tuple(str(row.values[name]) for name in columns[1:-1])
    return GoldRow(str(row.values["input"]), texts, labels[label])


def _asking(
    evaluator: Any,
) -> Callable[[Trial], tuple[str, dict[str, float], float | None]]:
    """A function that gets the LLM's response to a trial, its scores and its cost."""

    def respond(trial: Trial) -> tuple[str, dict[str, float], float | None]:
        if callable(getattr(evaluator, "evaluate_batch", None)):
            (outcome,) = evaluator.evaluate_batch([trial], [0])
        else:
            asked = asked_of(trial), trial.example
            outcome = outside_of_loops(lambda: evaluator(*asked))
        if isinstance(outcome, BaseException):
            raise outcome
        details = outcome.details
        if "output" not in details:
            raise EvaluatorError("The evaluator did not keep the LLM's response.")
        cost = outcome.get("cost") if outcome.paid is None else outcome.paid
        return str(details["output"]), dict(outcome), cost

    return respond
