"""Results of HumanEval, EvalPlus and BigCodeBench: whether the samples of each task pass its tests.

Checked against the source of openai/human-eval (`evaluate_functional_correctness`), of evalplus/evalplus (`evaluate`,
version 0.3.1, and a version of 2023) and of bigcode-project/bigcodebench (`evaluate`), and files of
jcanode/human-eval-test, tyfann/Evaluate_LLM_Evalplus and mrthinger/llama3-exp.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from asktell import InvalidArgumentError
from asktell.extend import short
from asktell_adapters.finished import column_names
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted

_OF_SAMPLES = {"task_id", "result", "passed"}
_CODE = ("completion", "solution")
_PASSED = ("pass", "success")  # EvalPlus wrote "success" in 2023
_STATUSES = {"base_status", "plus_status", "status"}


@final
class HumanEvalReader:
    """A file is one candidate. Several samples of a task are repeats, so that a mean is pass@1.

    A sample that timed out has not passed, as in these benchmarks. It is no failed evaluation.
    """

    name = "results of HumanEval and EvalPlus"

    def recognizes(self, source: Source) -> bool:
        """Whether the lines have a task, a program and its result, or a document has the statuses of tasks."""
        return _has_lines(source) or _has_statuses(source)

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the samples of all tasks.

        Raises:
            InvalidArgumentError: a sample is damaged.
        """
        graded = list(_lines(source) if _has_lines(source) else _tasks(source))
        return Scores(
            self.name,
            [ScoredCandidate(source.path, ScoreColumns.of(graded))],
            "file" if wanted.is_alone else "files",
            "tasks",
            repeats="samples of a task",
        )


def _has_lines(source: Source) -> bool:
    rows = source.records
    if (
        not rows
        or not rows[0].keys() >= _OF_SAMPLES
        or rows[0].keys().isdisjoint(_CODE)
    ):
        return False
    # A table with the samples of several models has a column for them, which a table's reader finds.
    return not any(
        column_names.rank(name, column_names.CANDIDATES) is not None
        and column_names.plain(name) != "prompt"
        and len({str(row.get(name)) for row in rows}) > 1
        for name in rows[0]
    )


def _lines(source: Source) -> Iterator[Graded]:
    for number, row in enumerate(source.records, start=1):
        # A sample that was not run has no score
        if row.get("task_id") in (None, "") or row.get("passed") not in (0, 1, None):
            raise InvalidArgumentError(
                f"{source.path}, sample {number}: {short(row)} is not a result of HumanEval, which has a 'task_id', "
                "and true or false in 'passed'. Run the evaluation again."
            )
        yield Graded.of(row["task_id"], {"passed": row["passed"]})


def _has_statuses(source: Source) -> bool:
    document = source.json
    tasks = document.get("eval") if isinstance(document, dict) else None
    if not isinstance(tasks, dict) or not tasks:
        return False
    samples = next(iter(tasks.values()))
    if isinstance(samples, dict):
        return {"nfiles", "base"} <= samples.keys()
    return (
        isinstance(samples, list)
        and bool(samples)
        and isinstance(samples[0], dict)
        and not _STATUSES.isdisjoint(samples[0])
    )


def _tasks(source: Source) -> Iterator[Graded]:
    for task, samples in source.json["eval"].items():
        try:
            statuses = list(_statuses(samples))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"{source.path}: The task {task!r} has {short(samples)}, which is not a result of EvalPlus. Run the "
                "evaluation again."
            ) from error
        for status in statuses:
            yield Graded.of(task, _scores(status))


def _statuses(samples: Any) -> Iterator[Mapping[str, Any]]:
    """The statuses of each sample of a task. Those of 2023 come in lists, each status with details."""
    if isinstance(samples, dict):
        plus: Sequence[Any] = samples.get("plus") or [(None,)] * len(samples["base"])
        for base, extended in zip(samples["base"], plus, strict=True):
            yield {"base_status": base[0], "plus_status": extended[0]}
        return
    for sample in samples:
        yield {name: sample[name] for name in sample.keys() & _STATUSES}


def _scores(statuses: Mapping[str, Any]) -> dict[str, object]:
    """Whether a sample passes the tests. It passes the additional ones only if it passes all, as in EvalPlus."""
    passes = {
        name: status in _PASSED
        for name, status in statuses.items()
        if status is not None
    }
    scores: dict[str, object] = {}
    if "status" in passes:
        scores["passed"] = passes["status"]
    if "base_status" in passes:
        scores["base"] = passes["base_status"]
    if "plus_status" in passes:
        scores["plus"] = passes["plus_status"] and passes.get("base_status", True)
    return scores
