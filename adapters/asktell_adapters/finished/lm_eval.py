"""The samples of lm-eval: `samples_*.jsonl`, which it writes with `--log_samples`."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from asktell import InvalidArgumentError
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted

_NAME = re.compile(
    r"samples_(?P<task>.+?)(_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+))?\.jsonl?"
)
# Keys of a sample that are no metrics
_OF_SAMPLES = {
    "doc_id",
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "filter",
    "metrics",
}


@final
class LmEvalReader:
    """A folder is one candidate, because lm-eval writes a folder per model.

    If a folder has a task twice, each of its files is a candidate.
    """

    name = "lm-eval's samples"

    def recognizes(self, source: Source) -> bool:
        """Whether the first row of a file, or of any file in a folder, has a document and its number.

        lm-eval's averages are recognized, too, so that `read` can name the cure.
        """
        files = source.files or (source,)
        return any(map(_is_of_samples, files)) or _has_averages(source)

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the samples of all tasks.

        Raises:
            InvalidArgumentError: a sample is damaged, or the file has averages only.
        """
        if _has_averages(source):
            raise InvalidArgumentError(
                f"{source.path} has lm-eval's averages, but a verdict needs the samples. Run lm-eval with "
                "--log_samples, and give the samples_*.jsonl that it writes next to this file."
            )
        files = [file for file in source.files or (source,) if _is_of_samples(file)]
        tasks = [_task(file.path) for file in files]
        times = Counter(
            (file.path.parent, task) for file, task in zip(files, tasks, strict=True)
        )
        # Documents of different tasks have the same numbers. The task distinguishes them.
        has_several = len(set(tasks)) > 1
        documents: dict[Path, list[Graded]] = {}
        names: dict[Path, tuple[str, ...]] = {}
        for file, task in zip(files, tasks, strict=True):
            evaluations = _documents(file, f"{task}/" if has_several else "")
            is_twice = times[file.path.parent, task] > 1
            # All tasks of a model are one candidate, so their documents come together.
            at = file.path
            if len(files) > 1 and not is_twice:
                at = file.path.parent / "samples"
            documents.setdefault(at, []).extend(evaluations)
            names[at] = () if is_twice else (file.path.parent.name,)
        return Scores(
            self.name,
            [
                ScoredCandidate(at, ScoreColumns.of(evaluations), names=names[at])
                for at, evaluations in documents.items()
            ],
            "folders" if source.is_folder else "files",
            "documents",
        )


def _task(path: Path) -> str:
    """The task in the name of a file, or else the name."""
    parts = _NAME.fullmatch(path.name)
    return path.stem if parts is None else parts["task"]


def _is_of_samples(source: Source) -> bool:
    # The first bytes suffice to pass by the other files of a folder
    if b'"doc_id"' not in source.head or b'"doc"' not in source.head:
        return False
    rows = source.records
    return bool(rows) and {"doc_id", "doc"} <= rows[0].keys()


def _has_averages(source: Source) -> bool:
    document = source.json
    return (
        isinstance(document, dict)
        and isinstance(document.get("results"), dict)
        and not {"configs", "lm_eval_version"}.isdisjoint(document)
        and "results" not in document["results"]
    )


def _rows(source: Source) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The samples with their places. Old versions wrote an array instead of lines."""
    if source.lines:
        for line, row in source.lines:
            yield f"{source.path}, line {line}", row
        return
    for number, row in enumerate(source.records, start=1):
        yield f"{source.path}, sample {number}", row


def _documents(source: Source, task: str) -> list[Graded]:
    """Read the documents of a file with their scores.

    Args:
        source: the file.
        task: prefix of the documents' names, if there are several tasks.

    Returns:
        One evaluation per document. If lm-eval applied several filters, a metric is named
        "metric,filter".
    """
    rows = list(_rows(source))
    filters = {str(row.get("filter")) for _, row in rows}
    scores: dict[str, dict[str, float]] = {}
    times: Counter[tuple[str, str]] = Counter()
    for where, row in rows:
        if "doc_id" not in row:
            raise InvalidArgumentError(
                f"{where}: The sample of lm-eval has no 'doc_id'. Give the file as lm-eval wrote it."
            )
        # By its content: lm-eval misnumbers documents that were chosen by --samples.
        document = f"{task}{str(row.get('doc_hash') or row['doc_id'])[:12]}"
        filtered_by = str(row.get("filter"))
        times[document, filtered_by] += 1
        # Number the copies of a document that the task has twice.
        if times[document, filtered_by] > 1:
            document = f"{document}#{times[document, filtered_by]}"
        suffix = f",{filtered_by}" if len(filters) > 1 else ""
        scores.setdefault(document, {}).update(
            (f"{name}{suffix}", float(row[name]))
            for name in _metrics(row)
            if isinstance(row.get(name), int | float)
        )
    return [Graded(example, numbers) for example, numbers in scores.items()]


def _metrics(row: Mapping[str, Any]) -> Sequence[str]:
    """The names of the metrics. Old versions do not list them."""
    listed = row.get("metrics")
    if isinstance(listed, list):
        return listed
    return [name for name in row if name not in _OF_SAMPLES]
