"""Recorded and failed evaluations one by one, as a study or a selector lists them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from asktell.problem.problem import Problem
from asktell.record import State
from asktell.results.frames import frame_of

if TYPE_CHECKING:
    import pandas

# Keys of the details of an evaluation that may have the response of the model
ANSWER_KEYS = ("output", "answer")


class Evaluation(NamedTuple):
    """One evaluation: recorded with scores, or failed with an error.

    Attributes:
        trial: the id of the trial.
        prompt: the id of the prompt.
        example: the position of the example, from 0. None if the evaluator draws its
            own.
        scores: metric -> score. None if the evaluation failed, unless the selection's
            `on_failure` counts failures as scores.
        cost: the recorded cost. None if none was recorded.
        error: the reason of the failure. None if the evaluation did not fail.
        details: further data that was recorded with the evaluation, by name. None
            without such data.
        example_id: the id of the example. None if the examples have no ids.
    """

    trial: int
    prompt: str | int
    example: int | None
    scores: dict[str, float] | None
    cost: float | None = None
    error: str | None = None
    details: dict[str, Any] | None = None
    example_id: str | None = None

    @property
    def answer(self) -> str | None:
        """The response of the model, from "output" or "answer" in the details. None if neither is a text there."""
        details = self.details or {}
        return next(
            (details[key] for key in ANSWER_KEYS if isinstance(details.get(key), str)),
            None,
        )


class Evaluations(Iterator[Evaluation]):
    """An iterator of evaluations, which can also make a table. `Selector.evaluations` returns it.

    Each evaluation is an `asktell.extend.Evaluation`.

    Args:
        evaluations: the evaluations.
        metrics: the names of the goal's metrics.
    """

    def __init__(
        self, evaluations: Iterable[Evaluation], metrics: Sequence[str]
    ) -> None:
        self._evaluations = iter(evaluations)
        self._metrics = tuple(metrics)

    def __next__(self) -> Evaluation:
        """The next evaluation, in the order of recording."""
        return next(self._evaluations)

    def to_dataframe(self) -> "pandas.DataFrame":
        """A table with one row for each remaining evaluation. Needs pandas.

        The columns are trial, prompt, example (its position), example_id, every metric,
        cost, error and answer. "answer" is the response of the model, if the details of
        the evaluation have it as "output" or "answer". Only a study stores details. If
        a metric has the name of another column, its column is "metric NAME".

        Raises:
            MissingExtraError: pandas is missing.
        """
        names = column_names(self._metrics, _COLUMNS)
        columns: dict[str, list[Any]] = {
            name: [] for name in (*_COLUMNS[:4], *names, *_COLUMNS[4:])
        }
        for e in self:
            scores = [(e.scores or {}).get(metric) for metric in self._metrics]
            row = (*e[:3], e.example_id, *scores, e.cost, e.error, e.answer)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
        kinds = {"example": "Int64", **dict.fromkeys([*names, "cost"], "float64")}
        return frame_of(columns, kinds)


_COLUMNS = ("trial", "prompt", "example", "example_id", "cost", "error", "answer")


def column_names(metrics: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names of the metrics' columns. A metric with a taken name becomes "metric NAME"."""
    return [f"metric {name}" if name in taken else name for name in metrics]


def evaluations_of(state: State, ids: Sequence[str | int]) -> Iterator[Evaluation]:
    """The evaluations of a state: recorded scores in their order, then failures.

    Scores that were observed elsewhere are not included. A failure that counts as
    scores has both, and stands among the scores.
    """
    metrics, history = state.problem.goal.metrics, state.history
    columns = (history.trials(), history.arms(), history.examples(), history.scores())
    errors = {trial: reason for trial, _, _, reason in state.failures}
    for trial, arm, example, vector in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        if trial >= 0:  # observed scores have no trial
            scores = dict(zip(metrics, vector, strict=False))
            example = None if example < 0 else example
            id_ = id_of_example(state.problem, example)
            yield Evaluation(
                trial,
                ids[arm],
                example,
                scores,
                None,
                errors.get(trial),
                example_id=id_,
            )
    # Not `failures`, because failures that count as scores were listed with their
    # scores.
    for trial, arm, example, reason in state.missing:
        id_ = id_of_example(state.problem, example)
        yield Evaluation(trial, ids[arm], example, None, None, reason, example_id=id_)


def id_of_example(problem: Problem, example: int | None) -> str | None:
    """The id of an example by its position. None if the examples have no ids."""
    ids = problem.examples.ids
    return None if example is None or ids is None else ids[example]


def example_name(problem: Problem, example: int | None) -> str | int | None:
    """The id of an example by its position, or the position if the examples have no ids."""
    id_ = id_of_example(problem, example)
    return example if id_ is None else id_
