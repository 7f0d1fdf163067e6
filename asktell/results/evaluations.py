"""Evaluations one by one: what was told of each, as a study or a selector gives them back."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from asktell._util.extras import needs_extra
from asktell.state import Problem, State

if TYPE_CHECKING:
    import pandas

# Under which the details of an evaluation may hold the model's answer
ANSWER_KEYS = ("output", "answer")


class Evaluation(NamedTuple):
    """An evaluation that was told, with `scores`, or that failed, with the `error`; `details` are the teller's own.

    One that failed has scores too where `Selector(..., on_failure={...})` says as which
    it counts. `example` is the example's position, `example_id` its id, None where the
    examples have none.
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
        """The model's answer, where the details hold it as text under "output" or "answer"."""
        details = self.details or {}
        return next(
            (details[key] for key in ANSWER_KEYS if isinstance(details.get(key), str)),
            None,
        )


class Evaluations(Iterator[Evaluation]):
    """Evaluations to go through once, or to have as a table."""

    def __init__(
        self, evaluations: Iterable[Evaluation], metrics: Sequence[str]
    ) -> None:
        self._evaluations = iter(evaluations)
        self._metrics = tuple(metrics)

    def __next__(self) -> Evaluation:
        """The next one, in the order in which they were told."""
        return next(self._evaluations)

    def to_dataframe(self) -> "pandas.DataFrame":
        """The evaluations that are left, a row each.

        Columns: trial, prompt, example (its position), example_id (where they have
        ids), every metric, cost, error, answer. A metric that has the name of another
        column becomes "metric NAME". Needs pandas.

        Raises:
            MissingExtraError: pandas is missing.
        """
        with needs_extra("analysis"):
            import pandas
        names = column_names(self._metrics, _COLUMNS)
        rows = [
            (
                *e[:3],
                e.example_id,
                *((e.scores or {}).get(m) for m in self._metrics),
                e.cost,
                e.error,
                e.answer,
            )
            for e in self
        ]
        frame = pandas.DataFrame(rows, columns=[*_COLUMNS[:4], *names, *_COLUMNS[4:]])
        kinds = {"example": "Int64", **dict.fromkeys([*names, "cost"], "float64")}
        return frame.astype(kinds)


_COLUMNS = ("trial", "prompt", "example", "example_id", "cost", "error", "answer")


def column_names(metrics: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names of the metrics' columns beside those that are taken."""
    return [f"metric {name}" if name in taken else name for name in metrics]


def evaluations_of(state: State, ids: Sequence[str | int]) -> Iterator[Evaluation]:
    """What a state knows: the scores that were told, in that order, then the failures. Observed scores are none.

    Failures that count as scores have both, and their place among the scores.
    """
    metrics, history = state.problem.goal.metrics, state.history
    columns = (history.trials(), history.arms(), history.examples(), history.scores())
    errors = {failure.trial: failure.reason for failure in state.failures}
    for trial, arm, example, vector in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        if trial >= 0:  # the others were observed
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
    for trial, arm, example, reason in state.missing:
        id_ = id_of_example(state.problem, example)
        yield Evaluation(trial, ids[arm], example, None, None, reason, example_id=id_)


def id_of_example(problem: Problem, example: int | None) -> str | None:
    """The id of an example by its position; None where the examples have none."""
    return (
        None
        if example is None or problem.examples is None
        else problem.examples.ids[example]
    )
