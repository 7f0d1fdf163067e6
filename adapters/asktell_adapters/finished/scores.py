"""The evaluations in files of results, for a verdict."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from asktell import InvalidArgumentError, Selector
from asktell.extend import (
    FinishedTable,
    Goal,
    less_may_be_better,
    nearest,
    reports,
    some,
)
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.unclear_results_error import Reading, UnclearResultsError
from asktell_adapters.finished.wanted import Wanted

ONE_FILE = "file"
"""The description of the only candidate of the only file."""

BY_POSITION = "rows by their position"
# A column with as many values, each on so many examples on average, may be one of segments.
# A judgement
_MOST_SEGMENTS, _IN_SEGMENT = 20, 5
"""The description of examples that no column identifies."""

_SHOWN = 5  # metrics with their ranges, and reasons of failures, in a message


@dataclass(frozen=True)
class Scores:
    """The evaluations of one or several files: candidates x examples x metrics, and perhaps repeats.

    A reader makes the scores of one file. `Scores.joined` joins those of several files, after
    which each candidate has its final name.

    Attributes:
        kind: the format in words, such as "promptfoo's results".
        candidates: the candidates with their evaluations.
        of_candidates: what distinguishes the candidates, such as "column model". "columns" of
            a wide table and "files" come before the names.
        of_examples: what identifies the examples, such as "column id".
        repeats: what says that several evaluations of a candidate on an example are repeats,
            such as "epochs" or "column run". None if nothing does.
        left_out: columns that were not used.
        notes: sentences about assumptions.
        segments: example -> its segment.
        alternatives: readings that the file also permits if ids repeat: other columns that
            could identify the examples.
        fields: columns that were not used and describe the examples, such as their topic:
            column -> example -> text.
    """

    kind: str
    candidates: Sequence[ScoredCandidate]
    of_candidates: str = "files"
    of_examples: str = "examples"
    repeats: str | None = None
    left_out: Sequence[str] = ()
    notes: Sequence[str] = ()
    segments: Mapping[str, str] = field(default_factory=dict)
    alternatives: Sequence[Reading] = ()
    fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def joined(cls, parts: Sequence["Scores"], wanted: Wanted) -> "Scores":
        """Join the scores of several files, name every candidate, and keep the wanted ones.

        A candidate that has the same name in several files becomes one candidate per file,
        because two runs of one prompt are what users compare.

        Raises:
            InvalidArgumentError: no evaluation has a score, a wanted candidate is not there,
                or no two candidates have an example in common.
            UnclearResultsError: ids repeat, and nothing says whether these are repeated
                evaluations.
        """
        candidates = _named(
            [candidate for part in parts for candidate in part.candidates]
        )
        candidates = _renamed(candidates, wanted.rename)
        if len(parts) == 1:
            scores = replace(parts[0], candidates=candidates)
        else:
            repeats = {part.repeats for part in parts}
            scores = cls(
                " and ".join(dict.fromkeys(part.kind for part in parts)),
                candidates,
                _shared([part.of_candidates for part in parts], "files"),
                _shared([part.of_examples for part in parts], "ids"),
                None if None in repeats else " and ".join(sorted(map(str, repeats))),
                tuple(dict.fromkeys(name for part in parts for name in part.left_out)),
                tuple(dict.fromkeys(note for part in parts for note in part.notes)),
                {
                    name: label
                    for part in parts
                    for name, label in part.segments.items()
                },
                tuple(
                    dict.fromkeys(way for part in parts for way in part.alternatives)
                ),
                _merged(parts),
            )
        scores = scores._among(wanted.candidates)
        scores._check_scores()
        scores._check_metrics()
        scores._check_positions()
        if wanted.repeats is None and scores.repeats is None:
            scores._check_repeats()
        return scores

    @cached_property
    def by_name(self) -> dict[str, ScoreColumns]:
        """The evaluations of each candidate, by its name."""
        return {
            str(candidate.name): candidate.evaluations for candidate in self.candidates
        }

    @cached_property
    def texts(self) -> dict[str, str]:
        """The prompt of each candidate, as far as files have it, by the candidate's name."""
        texts: dict[str, str] = {}
        for candidate in self.candidates:
            # A text belongs to one candidate. Later candidates with the same text go without.
            if candidate.text and candidate.text not in texts.values():
                texts[str(candidate.name)] = candidate.text
        return texts

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics with numbers. Costs, tokens and times come last."""
        names = dict.fromkeys(
            name
            for evaluations in self.by_name.values()
            for name, column in evaluations.scores.items()
            if np.isfinite(column).any()
        )
        # Quality comes before its price.
        return sorted(names, key=less_may_be_better)

    @cached_property
    def examples(self) -> list[str]:
        """The examples with evaluations, in the order of the files."""
        # Look at a shared list of examples only once.
        lists = {
            id(evaluations.examples): evaluations.examples
            for evaluations in self.by_name.values()
        }
        return list(dict.fromkeys(name for names in lists.values() for name in names))

    def table(self, goal: Goal, prompts: Sequence[str] | None = None) -> FinishedTable:
        """Convert the evaluations to arrays with the scores in the goal's metrics.

        Args:
            goal: the goal. Each of its metrics must be a metric of the files.
            prompts: the candidates in the table (default: all). The table has the examples
                of these.

        Raises:
            InvalidArgumentError: the files do not have a metric of the goal.
        """
        for metric in goal.metrics:
            # asktell counts failures itself, so no file needs the failure rate.
            if metric not in self.metrics and metric != "failure_rate":
                raise InvalidArgumentError(
                    f"The files have no metric {metric!r}{nearest(metric, self.metrics)}. "
                    f"Their metrics are {some(self.metrics)}."
                )
        names = list(self.by_name) if prompts is None else list(prompts)
        examples: Sequence[str] = self.examples
        if prompts is not None:
            seen = {
                example for name in names for example in self.by_name[name].examples
            }
            examples = [example for example in examples if example in seen]
        place = {name: i for i, name in enumerate(examples)}

        arms, at, scores = [], [], []
        failed, failed_at, reasons = list[int](), list[int](), list[str]()
        # The candidates of a wide table share one list of examples, which can be long.
        # Look up its places once.
        places: dict[int, npt.NDArray[np.int64]] = {}
        for arm, name in enumerate(names):
            evaluations = self.by_name[name]
            key = id(evaluations.examples)
            if key not in places:
                places[key] = np.array(
                    [place.get(example, -1) for example in evaluations.examples],
                    dtype=np.int64,
                )
            rows = places[key]
            for row, why in evaluations.errors.items():
                if rows[row] >= 0:
                    failed.append(arm)
                    failed_at.append(int(rows[row]))
                    reasons.append(why)
            is_scored = rows >= 0
            # The scores of a failed evaluation, if a file has any, do not count.
            is_scored[list(evaluations.errors)] = False
            arms.append(np.full(int(is_scored.sum()), arm, dtype=np.int64))
            at.append(rows[is_scored])
            scores.append(evaluations.columns(goal.metrics)[is_scored])
        return FinishedTable(
            {name: self.texts.get(name, name) for name in names},
            examples,
            np.concatenate([*arms, np.array(failed, dtype=np.int64)]),
            np.concatenate([*at, np.array(failed_at, dtype=np.int64)]),
            np.concatenate(scores),
            reasons,
            self._labels(examples),
        )

    def overview(self) -> str:
        """What was read, as a sentence: candidates, examples, metrics, and what was left out."""
        names = list(self.by_name)
        if self.of_candidates.startswith("column "):
            names.sort()  # so that the order of the rows changes nothing
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        metrics = [_with_range(name, self.by_name.values()) for name in self.metrics]
        listed = ", ".join(metrics[:_SHOWN])
        if len(metrics) > _SHOWN:
            listed += f", and {len(metrics) - _SHOWN} other metrics"
        text = (
            f"Read {len(names):,} candidate{'s' * (len(names) != 1)} ({self.of_candidates} {shown}) x "
            f"{len(self.examples):,} example{'s' * (len(self.examples) != 1)} ({self.of_examples}), {listed}"
        )
        if self.left_out:
            left = list(self.left_out)
            more = ", ..." if len(left) > 2 * _SHOWN else ""
            text += f"; left out: {', '.join(left[: 2 * _SHOWN])}{more}"
        return f"{text}."

    def inputs(self, examples: Sequence[str]) -> list[str] | None:
        """What is known of each example: a line for each column that describes it. None without such columns."""
        if not self.fields:
            return None
        id_name = self.of_examples.removeprefix("column ")
        return [
            "\n".join(
                [f"{id_name}: {example}"] * (id_name != self.of_examples)
                + [
                    f"{name}: {texts[example]}"
                    for name, texts in self.fields.items()
                    if example in texts
                ]
            )
            for example in examples
        ]

    def document(
        self,
        selector: Selector,
        files: Sequence[Any] = (),
        ruling: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The data of an HTML page on these evaluations, for `asktell.extend.reports.write`.

        Args:
            selector: the selector that was made of the evaluations.
            files: the paths of the files. The page is named after the first.
            ruling: what heads the page of a gate. None: the result of the selection.
        """
        document: dict[str, Any] = reports.document(
            selector.state, selector.method, selector.prompts,
            name=Path(files[0]).stem if files else "results",
            about={"files": ", ".join(map(str, files))}, ruling=ruling,
            inputs=self.inputs(selector.example_ids or ()),
        )  # fmt: skip
        document["notes"] += self.offers()
        return document

    def offers(self) -> list[str]:
        """How to see the candidates by a column that was not used, such as the topic of an example, as sentences."""
        if self.segments:
            return []
        return [
            f"{name} has {n} values, from {min(values)} to {max(values)}. To compare the candidates for each, add "
            f"--rename {shlex.quote(f'{name}=segment')}."
            for name, texts in self.fields.items()
            if (values := set(texts.values()))
            and 2
            <= (n := len(values))
            <= min(_MOST_SEGMENTS, len(texts) // _IN_SEGMENT)
            and all(example in texts for example in self.examples)
        ]

    def remarks(self) -> list[str]:
        """Notes to show with a verdict, about assumptions, repeated evaluations and unused columns."""
        remarks = [*self.notes, *self.offers()]
        n_cells, times = 0, list[int]()
        for evaluations in self.by_name.values():
            counts = Counter(evaluations.examples)
            n_cells += len(counts)
            times += [count for count in counts.values() if count > 1]
        if times:
            by = f" ({self.repeats})" if self.repeats else ""
            remarks.append(
                f"{len(times):,} of {n_cells:,} cells were evaluated several times{by}, up to {max(times)}. Repeated "
                "evaluations of a cell are averaged."
            )
        return remarks

    def _among(self, wanted: Sequence[str]) -> "Scores":
        """Keep the wanted candidates. Without any, all."""
        if not wanted:
            return self
        names = list(self.by_name)
        for name in wanted:
            if name not in names:
                raise InvalidArgumentError(
                    f"There is no candidate {name!r}{nearest(name, names)}, which --candidates names. The candidates "
                    f"are {some(names)}."
                )
        among = [candidate for candidate in self.candidates if candidate.name in wanted]
        return replace(self, candidates=among)

    def _check_scores(self) -> None:
        """Check that some evaluation has a score.

        Raises:
            InvalidArgumentError: none has. The message has the reasons of failures.
        """
        if self.metrics:
            return
        where = some(sorted({str(candidate.path) for candidate in self.candidates}))
        reasons = Counter(
            why
            for evaluations in self.by_name.values()
            for why in evaluations.errors.values()
        )
        n = sum(len(evaluations.examples) for evaluations in self.by_name.values())
        text = "; ".join(
            f"{why!r} ({count:,} of {n:,})"
            for why, count in reasons.most_common(_SHOWN)
        )
        stated = f" The reasons given there: {text}." if text else ""
        raise InvalidArgumentError(
            f"No evaluation in {where} has a score.{stated} Give results in which at least one evaluation has a score."
        )

    def _check_metrics(self) -> None:
        """Check that the candidates have a metric in common."""
        metrics = {
            name: {
                m
                for m, column in evaluations.scores.items()
                if np.isfinite(column).any()
            }
            for name, evaluations in self.by_name.items()
        }
        scored = {
            name: scored_metrics
            for name, scored_metrics in metrics.items()
            if scored_metrics
        }
        if len(scored) < 2 or set.intersection(*scored.values()):
            return
        (fewest, first), (next_fewest, second), *_ = sorted(
            scored.items(), key=lambda item: len(item[1])
        )
        example = f"{min(first)}={min(second)}"
        raise InvalidArgumentError(
            f"The candidates have no metric in common: {fewest!r} has {some(sorted(first))}, {next_fewest!r} has "
            f"{some(sorted(second))}. If two names stand for the same metric, pass --rename OLD=NEW, for example "
            f"--rename {example!r}."
        )

    def _check_positions(self) -> None:
        """Check that files have equally many rows, if rows are matched by their position."""
        lengths = {
            name: len(evaluations.examples)
            for name, evaluations in self.by_name.items()
        }
        n_files = len({candidate.path for candidate in self.candidates})
        if (
            self.of_examples != BY_POSITION
            or n_files < 2
            or len(set(lengths.values())) < 2
        ):
            return
        shortest = min(lengths, key=lambda name: lengths[name])
        longest = max(lengths, key=lambda name: lengths[name])
        raise InvalidArgumentError(
            f"No column identifies the examples, and the candidates have different numbers of rows: "
            f"{lengths[longest]:,} of {longest!r}, {lengths[shortest]:,} of {shortest!r}. So rows cannot be matched "
            "by their position. Give the examples ids, or pass --example-column COLUMN."
        )

    def _check_repeats(self) -> None:
        """Check that ids repeat alike for all candidates, if they repeat.

        Raises:
            UnclearResultsError: they do not. These may be different examples with the same
                id, and averages over them would not be comparable.
        """
        counts = [
            Counter(evaluations.examples) for evaluations in self.by_name.values()
        ]
        # An example that a candidate lacks is missing, and says nothing about repeats.
        differing = next(
            (
                example
                for example in self.examples
                if len({count[example] for count in counts if example in count}) > 1
            ),
            None,
        )
        if differing is None and self.alternatives:
            # Alike for all candidates, but another column distinguishes the rows
            differing = next(
                (name for count in counts for name, n in count.items() if n > 1), None
            )
        if differing is None:
            return
        times = ", ".join(
            f"{count[differing]} rows of {name!r}"
            for name, count in list(zip(self.by_name, counts, strict=True))[:_SHOWN]
        )
        raise UnclearResultsError(
            f"The same example occurs several times: {differing!r} ({self.of_examples}) in {times}.",
            [
                *self.alternatives,
                Reading(
                    "Rows with the same candidate and example are repeated evaluations, which are averaged.",
                    ("--repeats",),
                ),
            ],
        )

    def check_common(self, metrics: Sequence[str]) -> None:
        """Check that the candidates can be compared: they share examples, directly or through other candidates.

        Args:
            metrics: the metrics of the goal.

        Raises:
            InvalidArgumentError: some candidate has no score in these metrics, or no example
                in common with the others.
        """
        complete = {
            name: evaluations.complete(metrics)
            for name, evaluations in self.by_name.items()
        }
        for name, examples in complete.items():
            if not examples:
                raise InvalidArgumentError(
                    f"{name!r} has no score in {' and '.join(metrics)}. Its metrics are "
                    f"{some(list(self.by_name[name].scores))}. Leave it out with "
                    "--candidates, or choose another metric."
                )
        (first, seen), *rest = complete.items()
        reached, reachable = [first], set(seen)
        waiting = dict(rest)
        while near := [
            n for n, examples in waiting.items() if not reachable.isdisjoint(examples)
        ]:
            for name in near:
                reachable |= waiting.pop(name)
                reached.append(name)
        if waiting:
            raise InvalidArgumentError(
                self._nothing_common([reached[0], next(iter(waiting))])
            )

    def _nothing_common(self, names: Sequence[str]) -> str:
        """The message for candidates without a common example, with an id of each."""
        ids = ", ".join(
            f"{self.by_name[name].examples[0]!r} of {name!r}"
            for name in names[:2]
            if self.by_name[name].examples
        )
        return (
            f"{some(names)} have no example in common, so they cannot be compared. Examples are matched by their ids "
            f"({self.of_examples}), for example {ids}. Give both runs the same ids, or name another column with "
            "--example-column COLUMN."
        )

    def _labels(self, examples: Sequence[str]) -> list[str] | None:
        """The examples' segments. None unless each example has one."""
        if not self.segments or any(name not in self.segments for name in examples):
            return None
        return [self.segments[name] for name in examples]


def _shared(words: Sequence[str], otherwise: str) -> str:
    """The common description of all files, or another one if they differ."""
    return words[0] if len(set(words)) == 1 else otherwise


def _with_range(metric: str, evaluations: Iterable[ScoreColumns]) -> str:
    """A metric with its lowest and its highest score."""
    columns = [part.scores[metric] for part in evaluations if metric in part.scores]
    finite = [column for column in columns if np.isfinite(column).any()]
    low = min(float(np.nanmin(column)) for column in finite)
    high = max(float(np.nanmax(column)) for column in finite)
    return f"{metric} from {low:.6g} to {high:.6g}"


# Names of candidates


def _named(candidates: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    """Give every candidate its final name, and join the evaluations of those with the same one."""
    of_file = _names_of_files([candidate.path for candidate in candidates])
    times = Counter(candidate.name for candidate in candidates)
    in_file = Counter(candidate.path for candidate in candidates)
    unnamed = _names_of_unnamed(candidates, of_file)
    parts: dict[str, list[ScoredCandidate]] = {}
    for at, candidate in enumerate(candidates):
        if candidate.name is None:
            name = unnamed[at]
        elif times[candidate.name] == 1:
            name = candidate.name
        elif in_file[candidate.path] == 1:
            name = of_file[candidate.path]
        else:
            name = f"{of_file[candidate.path]}/{candidate.name}"
        parts.setdefault(name, []).append(candidate)
    return [
        replace(
            same[0],
            name=name,
            evaluations=ScoreColumns.joined(
                [candidate.evaluations for candidate in same]
            ),
        )
        for name, same in parts.items()
    ]


def _names_of_unnamed(
    candidates: Sequence[ScoredCandidate], of_file: Mapping[Path, str]
) -> dict[int, str]:
    """Names for the candidates without a name, by their position.

    Each candidate suggests the same kinds of names, such as its model and its task. The
    first kind that tells all candidates apart is used, and otherwise the file names.
    """
    unnamed = {
        at: candidate
        for at, candidate in enumerate(candidates)
        if candidate.name is None
    }
    chosen = tuple(of_file[candidate.path] for candidate in unnamed.values())
    if len(unnamed) > 1:
        for names in zip(
            *(candidate.names for candidate in unnamed.values()), strict=False
        ):
            if len(set(names)) == len(names):
                chosen = names
                break
    return dict(zip(unnamed, chosen, strict=True))


def _names_of_files(paths: Sequence[Path]) -> dict[Path, str]:
    """Name each file by the shortest part of its path that differs between the files."""
    ways = (
        lambda path: path.stem,
        lambda path: path.parent.name or path.stem,
        lambda path: f"{path.parent.name}/{path.stem}",
        str,
    )
    distinct = list(dict.fromkeys(paths))
    lists = ([way(path) for path in distinct] for way in ways)
    names = next(names for names in lists if len(set(names)) == len(names))
    return dict(zip(distinct, names, strict=True))


def _renamed(
    candidates: Sequence[ScoredCandidate], rename: Mapping[str, str]
) -> list[ScoredCandidate]:
    """Rename candidates and metrics."""
    if not rename:
        return list(candidates)

    def renamed(each: ScoredCandidate) -> ScoredCandidate:
        scores = {
            rename.get(name, name): column
            for name, column in each.evaluations.scores.items()
        }
        return replace(
            each,
            name=rename.get(str(each.name), each.name),
            evaluations=each.evaluations._replace(scores=scores),
        )

    changed = [renamed(candidate) for candidate in candidates]
    names = [candidate.name for candidate in changed]
    if len(set(names)) < len(names):
        raise InvalidArgumentError(
            f"--rename gives two candidates the same name, got {some(names)}. Give them different names."
        )
    return changed


def _merged(parts: Sequence[Scores]) -> dict[str, dict[str, str]]:
    """The fields of all parts. A column is left out if two parts disagree on an example."""
    fields = dict[str, dict[str, str]]()
    for name in dict.fromkeys(name for part in parts for name in part.fields):
        texts = dict[str, str]()
        cells = [cell for part in parts for cell in part.fields.get(name, {}).items()]
        if all(texts.setdefault(example, text) == text for example, text in cells):
            fields[name] = texts
    return fields
