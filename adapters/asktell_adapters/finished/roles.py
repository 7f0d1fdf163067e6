"""The roles of a table's columns: from its cells and its structure first, and from names second."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from asktell import InvalidArgumentError
from asktell.extend import less_may_be_better, nearest, short, some
from asktell_adapters.finished import column_names
from asktell_adapters.finished.evidence import Evidence
from asktell_adapters.finished.frame import as_id
from asktell_adapters.finished.number_column import PERCENT, PLAIN, NumberColumn
from asktell_adapters.finished.unclear_results_error import Reading, UnclearResultsError
from asktell_adapters.finished.wanted import Wanted

# Share of the pairs of a candidate and an example that a table must have before a column
# without a usual name may name candidates
_COMPLETE = 0.9
_MOST_CANDIDATES = 200
_METRIC_WORDS = 3  # at most in the name of a metric. A longer text is an input
_MANY = 5  # rows, of which rising numbers are no coincidence
# Between the name of a candidate and that of a metric in the name of a column
_SEPARATORS = (".", "/", ":", "|", " - ", " ", "_", "-")


class Roles(NamedTuple):
    """The roles of columns. A column without one is left out.

    Attributes:
        candidates: the columns that name the candidate of a row. Empty if a row has all
            candidates, or if the file has one candidate.
        wide: the columns with the scores of a candidate each.
        groups: column of a candidate -> the candidate and the metric, if a candidate has a
            column for each metric.
        examples: the columns that identify the example. Empty: the row does.
        metrics: the columns of scores of the row's candidate.
        repeat: the column that numbers repeated evaluations.
        segment: the column of segments.
        error: the column of reasons of failures.
        status: the column of outcomes, some of which are failures.
        text: the column with the candidate's prompt.
    """

    candidates: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, str]] = {}
    examples: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    repeat: str | None = None
    segment: str | None = None
    error: str | None = None
    status: str | None = None
    text: str | None = None


def roles_of(evidence: Evidence, wanted: Wanted) -> Roles:
    """Assign the roles.

    Raises:
        InvalidArgumentError: a column that the user names is missing, or nothing can be a
            score.
        UnclearResultsError: several readings are plausible.
    """
    frame = evidence.frame
    names = list(frame.columns)
    for flagged, flag in (
        (wanted.candidate_columns, "--candidate-column"),
        (wanted.example_columns, "--example-column"),
        (wanted.metrics, "--metrics"),
    ):
        for name in flagged:
            if name not in names:
                raise InvalidArgumentError(
                    f"{frame.path} has no column {name!r}{nearest(name, names)}, which {flag} names. Its columns are "
                    f"{some(names)}."
                )
    roles = Roles(
        segment=_first(names, column_names.SEGMENTS),
        error=_first(names, column_names.ERRORS),
        status=_status(evidence, names),
    )
    candidates, examples = _long(evidence, wanted, roles)
    if candidates:
        if not wanted.candidate_columns:
            _check_comparisons(evidence, wanted)
        return _with_metrics(evidence, wanted, roles, candidates, examples)
    examples = wanted.example_columns or _examples(evidence, ())
    if not wanted.metrics and not wanted.example_columns:
        _check_comparisons(evidence, wanted)
        _check_rows(evidence, wanted, examples)
        _check_benchmarks(evidence, wanted)
    if groups := _groups(evidence, wanted, roles, examples):
        return roles._replace(wide=tuple(groups), groups=groups, examples=examples)
    wide = _wide(evidence, wanted, roles, examples)
    if wide:
        return roles._replace(wide=wide, examples=examples)
    apart: tuple[str, ...] = ()
    if not wanted.metrics and not wanted.example_columns:
        _check_rows(evidence, wanted, examples, may_be_inputs=False)
        apart = _apart(evidence, examples)
        if apart and not examples:
            _checked(evidence, apart, ())
    return _with_metrics(evidence, wanted, roles, apart, examples)


def _first(names: Sequence[str], usual: frozenset[str]) -> str | None:
    return next((name for name in names if column_names.plain(name) in usual), None)


def _status(evidence: Evidence, names: Sequence[str]) -> str | None:
    """The column of outcomes. One with nothing but passes and fails is a score instead."""
    for name in names:
        if column_names.plain(name) in column_names.STATUSES and evidence.is_text(name):
            return name
    return None


def _examples(evidence: Evidence, candidates: tuple[str, ...]) -> tuple[str, ...]:
    """The column that identifies the example, for each candidate. Empty if there is none."""
    names = [name for name in evidence.frame.columns if name not in candidates]
    usual = sorted(
        (place, name)
        for name in names
        if (place := column_names.rank(name, column_names.EXAMPLES)) is not None
        and evidence.n_filled(name)
        and (not evidence.numbers(name).is_numeric or evidence.is_whole(name))
    )
    indexes = [name for name in names if evidence.is_index(name)]
    if names and _begins_with_ids(evidence, names[0]):
        indexes.append(names[0])
    inputs = sorted(
        (place, name)
        for name in names
        if (place := column_names.rank(name, column_names.INPUTS)) is not None
        and evidence.is_text(name)
        and evidence.n_filled(name) == evidence.n_rows
    )
    # Without a usual name: texts that are all different, such as the names of tickets
    labels = [
        name
        for name in names
        if evidence.numbers(name).n_known == 0
        and evidence.n_filled(name) == evidence.n_rows
        and not column_names.is_no_score(name)
    ]
    ordered = [name for _, name in [*usual, *inputs]] + labels + indexes
    # The prompts of a model are inputs
    ordered += [name for name in names if column_names.is_input_id(name)]
    if candidates:
        # Candidates meet on an example, which a number of the row does not permit.
        meeting = [name for name in ordered if evidence.is_fuller(name, candidates[0])]
        exact = [name for name in meeting if evidence.is_distinct(*candidates, name)]
        chosen = exact or meeting or [name for _, name in usual]
    else:
        exact = [name for name in ordered if evidence.is_distinct(name)]
        chosen = exact or [name for _, name in usual]
        # An id in its usual place that repeats is asked about rather than passed by
        if usual and exact and exact[0] in indexes and exact[0] != usual[0][1]:
            chosen = [usual[0][1]]
    return tuple(chosen[:1])


def _begins_with_ids(evidence: Evidence, name: str) -> bool:
    """Whether the first column has rising whole numbers, as ids are and scores are not."""
    return (
        evidence.may_be_index(name)
        and evidence.n_rows >= _MANY
        and not column_names.is_metric(name)
        and not column_names.is_reference(name)
    )


# A row for each evaluation


def _long(
    evidence: Evidence, wanted: Wanted, roles: Roles
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns with the names of candidates and of examples, or twice nothing."""
    if wanted.candidate_columns:
        examples = wanted.example_columns or _examples(
            evidence, wanted.candidate_columns
        )
        return wanted.candidate_columns, _checked(
            evidence, wanted.candidate_columns, examples
        )
    frame = evidence.frame
    columns = list(frame.columns)
    if _names_columns(wanted.candidates, columns) or (
        wanted.metrics and not wanted.candidates and not _usual(evidence)
    ):
        return (), ()
    named = [name for name in wanted.compared if name in columns]
    if named and len(named) == len(wanted.compared):
        # The baseline is a column
        return (), ()
    used = {roles.segment, roles.error, roles.status}
    usual = [name for name in _usual(evidence) if name not in used]
    meeting = {
        name: examples
        for name in usual
        if (examples := wanted.example_columns or _examples(evidence, (name,)))
        and evidence.is_fuller(examples[0], name)
        and evidence.is_fuller(name, examples[0])
    }
    if named_in := [
        name
        for name in meeting
        if _has_values(evidence, name, wanted.compared or wanted.candidates)
    ]:
        # The baseline is a value of this column
        meeting = {name: meeting[name] for name in named_in}
    meeting = _independent(evidence, meeting)
    if len(meeting) > 1:
        _ask_combination(evidence, list(meeting))
    if meeting:
        ((name, examples),) = meeting.items()
        return (name,), _checked(evidence, (name,), examples)
    return _unusual(evidence, wanted, used)


def _usual(evidence: Evidence) -> list[str]:
    """Columns with a usual name for candidates, at least two values and no scores, the usual names first."""
    ranked = sorted(
        (place, name)
        for name in evidence.frame.columns
        if (place := column_names.rank(name, column_names.CANDIDATES)) is not None
        and evidence.n_values(name) > 1
    )
    return [name for _, name in ranked]


def _names_columns(names: Sequence[str], columns: Sequence[str]) -> bool:
    return bool(names) and all(name in columns for name in names)


def _has_values(evidence: Evidence, column: str, names: Sequence[str]) -> bool:
    if not names:
        return False
    cells = {as_id(cell) for cell in evidence.frame.columns[column]}
    return all(name in cells for name in names)


def _checked(
    evidence: Evidence, candidates: tuple[str, ...], examples: tuple[str, ...]
) -> tuple[str, ...]:
    if not examples:
        names = [name for name in evidence.frame.columns if name not in candidates]
        if shared := [
            name for name in names if _may_be_shared(evidence, name, candidates)
        ]:
            raise UnclearResultsError(
                f"{evidence.frame.path} has the candidates in the column {candidates[0]!r}, but no column that "
                "certainly identifies the examples.",
                [
                    Reading(
                        f"The column {name} identifies the example, and other rows of an example are repeats.",
                        (
                            "--candidate-column",
                            ",".join(map(quoted, candidates)),
                            "--example-column",
                            quoted(name),
                            "--repeats",
                        ),
                    )
                    for name in shared
                ],
            )
        raise InvalidArgumentError(
            f"{evidence.frame.path} has the candidates in the column {candidates[0]!r}, but no column that identifies "
            "the examples. Candidates are compared on the same examples. Pass --example-column COLUMN. If the column "
            f"has no candidates, pass --ignore {in_command(candidates[0])}. The other columns are {some(names)}."
        )
    return examples


def _may_be_shared(evidence: Evidence, name: str, candidates: tuple[str, ...]) -> bool:
    """Whether several candidates have a value of a column of texts, such as the name of a dataset."""
    return (
        evidence.is_text(name)
        and evidence.n_filled(name) == evidence.n_rows
        and evidence.n_values(name) > 1
        and column_names.plain(name) not in column_names.RESPONSES
        and not evidence.is_date(name)
        and evidence.is_fuller(name, candidates[0])
        and evidence.is_fuller(candidates[0], name)
    )


def _independent(
    evidence: Evidence, columns: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Drop columns that follow from others: a provider follows from the model."""
    independent: dict[str, tuple[str, ...]] = {}
    for name, examples in columns.items():
        # Of two that follow from each other, the first stays
        follows = any(
            evidence.is_function(name, before) for before in independent
        ) or any(
            evidence.is_function(name, column)
            and not evidence.is_function(column, name)
            for column in columns
            if column != name
        )
        if not follows:
            independent[name] = examples
    return independent


def _ask_combination(evidence: Evidence, names: list[str]) -> None:
    """Ask which of several columns that vary independently names the candidates."""
    joint = ",".join(map(quoted, names))
    raise UnclearResultsError(
        f"{evidence.frame.path} has several columns that could name the candidates: {some(names)}.",
        [
            Reading(
                f"Each combination of {' and '.join(names)} is a candidate.",
                ("--candidate-column", joint),
            ),
            *(
                Reading(
                    f"The values of {name} are the candidates, and other rows of an example are repeats.",
                    ("--candidate-column", quoted(name), "--repeats"),
                )
                for name in names
            ),
        ],
    )


def _unusual(
    evidence: Evidence, wanted: Wanted, taken: set[str | None]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ask about columns whose cells look like the names of candidates, under another name."""
    n = evidence.n_rows
    base = wanted.example_columns or _examples(evidence, ())
    is_single = not base or evidence.is_distinct(*base)
    if is_single:
        return (), ()
    crossing = [
        name
        for name in evidence.frame.columns
        if name not in (*base, *taken)
        and evidence.is_text(name)
        and 1 < evidence.n_values(name) <= min(n // 2, _MOST_CANDIDATES)
        and column_names.plain(name)
        not in column_names.RESPONSES | column_names.REPEATS
        and evidence.is_distinct(name, *base)
        and n >= _COMPLETE * evidence.n_values(name) * evidence.n_values(*base)
    ]
    for name in crossing:
        if _has_values(evidence, name, wanted.compared or wanted.candidates):
            return (name,), base
    if crossing and wanted.repeats is None:
        raise UnclearResultsError(
            f"{evidence.frame.path} has several rows for each example (column {' and '.join(base)}).",
            [
                *(
                    Reading(
                        f"The column {name} names the candidates: {some(_values(evidence, name))}.",
                        ("--candidate-column", quoted(name)),
                    )
                    for name in crossing
                ),
                Reading(
                    "The rows of an example are repeated evaluations of one candidate.",
                    ("--repeats",),
                ),
            ],
        )
    return (), ()


def _values(evidence: Evidence, name: str) -> list[str]:
    return list(dict.fromkeys(str(cell) for cell in evidence.frame.columns[name]))


def _apart(evidence: Evidence, examples: tuple[str, ...]) -> tuple[str, ...]:
    """The column of candidates that have no example in common. Empty if there is none."""
    for name in _usual(evidence):
        has_many = evidence.n_rows >= 2 * evidence.n_values(name)
        if has_many and evidence.is_text(name) and name not in examples:
            return (name,)
    # A name is missing in a row: the error names the cell
    for name in evidence.frame.columns:
        if (
            examples
            and column_names.rank(name, column_names.CANDIDATES) is not None
            and 0 < evidence.n_filled(name) < evidence.n_rows
            and not evidence.is_distinct(*examples)
        ):
            return (name,)
    return ()


def _check_rows(
    evidence: Evidence,
    wanted: Wanted,
    examples: tuple[str, ...],
    may_be_inputs: bool = True,
) -> None:
    """Check that the rows of a table are examples.

    A column of prompts has the inputs of examples or, without `may_be_inputs`, the
    candidates.

    Raises:
        InvalidArgumentError: the rows are candidates, runs or metrics, so the numbers are
            averages.
    """
    columns = list(evidence.frame.columns)
    names = wanted.candidates or wanted.compared
    if not wanted.is_alone or _names_columns(names, columns):
        return
    for has, name, may_swap in _other_rows(evidence, examples, may_be_inputs):
        swap = " If the columns are examples, swap rows and columns." * may_swap
        raise InvalidArgumentError(
            f"{evidence.frame.path} has {has}. If the rows are averages, no verdict is possible, because it needs the "
            f"scores of each example. Give a table with a row for each candidate and example.{swap} If the rows are "
            f"examples, pass --example-column {in_command(name)}."
        )


def _other_rows(
    evidence: Evidence, examples: tuple[str, ...], may_be_inputs: bool
) -> Iterator[tuple[str, str, bool]]:
    """What a table has whose rows are no examples, the column that identifies them, and whether columns may be."""
    columns = list(evidence.frame.columns)

    def one_row_for_each(kind: str, name: str) -> tuple[str, str, bool]:
        values = some(_values(evidence, name))
        has = f"one row for each {kind} (column {name!r}: {values})"
        return has, name, kind == "candidate"

    has_runs = any(name.startswith("metrics.") for name in columns)
    for name in columns:
        is_run = has_runs and column_names.plain(name) == "run_id"
        if is_run and evidence.is_distinct(name):
            yield one_row_for_each("run", name)
    # Neither a rank nor any other text is the id of an example beside the names of candidates
    is_certain = any(
        (
            column_names.rank(name, column_names.EXAMPLES) is not None
            or column_names.rank(name, column_names.INPUTS) is not None
        )
        and not evidence.may_be_index(name)
        for name in examples
    )
    for name in _usual(evidence):
        is_id = name in examples or not is_certain
        rank = column_names.rank(name, column_names.INPUTS)
        is_input = rank is not None or column_names.is_input_id(name)
        if is_id and evidence.is_distinct(name) and not (is_input and may_be_inputs):
            yield one_row_for_each("candidate", name)
    for name in examples:
        is_metric = column_names.plain(name) in column_names.METRICS
        if is_metric or _are_metrics(_values(evidence, name)):
            yield one_row_for_each("metric", name)
        for column in filter(column_names.is_standard_error, columns):
            yield f"standard errors in the column {column!r}", name, False
    has_several = sum(map(evidence.is_score, columns)) > 1
    for name in columns if has_several and evidence.n_rows <= _MOST_CANDIDATES else ():
        is_untitled = column_names.plain(name) in column_names.UNTITLED
        if is_untitled and evidence.may_be_candidates(name):
            has = f"rows whose names may be those of candidates ({some(_values(evidence, name))})"
            yield has, name, True


def _are_metrics(cells: Sequence[str]) -> bool:
    """Whether texts are metrics, of some of which more is better and of others less."""
    n_less = sum(map(less_may_be_better, cells))
    return 0 < n_less < len(cells) and all(
        column_names.is_metric(cell) and len(column_names.words(cell)) <= _METRIC_WORDS
        for cell in cells
    )


def _check_benchmarks(evidence: Evidence, wanted: Wanted) -> None:
    """Check that columns are no benchmarks.

    Raises:
        InvalidArgumentError: most columns of scores have the names of public benchmarks, so
            they have averages.
    """
    scores = [name for name in evidence.frame.columns if evidence.is_score(name)]
    benchmarks = list(filter(column_names.is_benchmark, scores))
    is_chosen = not wanted.is_alone or wanted.candidates or wanted.compared
    if is_chosen or len(benchmarks) < 2 or 2 * len(benchmarks) < len(scores):
        return
    raise InvalidArgumentError(
        f"{evidence.frame.path} has columns with the names of benchmarks ({some(benchmarks)}), so its numbers are "
        "probably averages. No verdict is possible, because it needs the scores of each example. Give a table with a "
        "row for each candidate and example. If the columns are candidates, pass --candidates "
        f"{shlex.quote(','.join(map(quoted, scores)))}."
    )


def _check_comparisons(evidence: Evidence, wanted: Wanted) -> None:
    """Check that rows have scores rather than the better one of two responses.

    Raises:
        InvalidArgumentError: a column has the winner of two candidates, which are in other
            columns.
    """
    columns = list(evidence.frame.columns)
    # Numbers are the scores of two candidates
    texts = {column_names.plain(name) for name in columns if evidence.is_text(name)}
    pairs = {
        stem
        for stem in {text[:-1] for text in texts}
        if {f"{stem}a", f"{stem}b"} <= texts
        and column_names.rank(stem.rstrip("_"), column_names.CANDIDATES) is not None
    }
    winners = [n for n in columns if column_names.plain(n) in column_names.WINNERS]
    is_chosen = wanted.goal or wanted.candidates or wanted.metrics
    if is_chosen or not pairs or not winners:
        return
    raise InvalidArgumentError(
        f"{evidence.frame.path} compares two responses in each row, with the better one in the column {winners[0]!r}. "
        "A verdict needs a score for each candidate and example. Give a table with such scores. If another column has "
        "scores, name it with --metrics COLUMN."
    )


def _with_metrics(
    evidence: Evidence,
    wanted: Wanted,
    roles: Roles,
    candidates: tuple[str, ...],
    examples: tuple[str, ...],
) -> Roles:
    """The roles in a table of which each row is one evaluation."""
    names = list(evidence.frame.columns)
    repeat = next(
        (
            name
            for name in names
            if column_names.plain(name) in column_names.REPEATS
            and name not in (*candidates, *examples)
            and evidence.n_filled(name) == evidence.n_rows
            and evidence.is_distinct(*candidates, *examples, name)
            and not (examples and evidence.is_distinct(*candidates, *examples))
        ),
        None,
    )
    used = (*candidates, *examples, repeat, roles.segment, roles.error)
    rest = [name for name in names if name not in used]
    scores = [
        name
        for name in rest
        if name in wanted.goal
        or (
            evidence.is_score(name)
            and column_names.plain(name) not in column_names.REPEATS
        )
    ]
    # The last column of numbers is a score, even if it follows from the candidate
    metrics = wanted.metrics or tuple(
        [
            name
            for name in scores
            if name in wanted.goal
            or not _is_property(evidence, name, candidates, examples)
        ]
        or scores
    )
    if not metrics and roles.status is not None:
        # Passes and fails are scores, unless timeouts are all that the status has
        cells = [
            None if column_names.is_failure(cell) else cell
            for cell in evidence.frame.columns[roles.status]
        ]
        if NumberColumn.of(cells).is_numeric:
            metrics = (roles.status,)
    if not wanted.goal and not wanted.metrics and len(metrics) < 2:
        _check_mixed(evidence, rest)
    text = next(
        (
            name
            for name in rest
            if candidates
            and column_names.plain(name)
            in ("prompt", "template", "prompt_text", "text")
            and evidence.is_text(name)
            and evidence.is_function(name, *candidates)
        ),
        None,
    )
    return roles._replace(
        candidates=candidates,
        examples=examples,
        metrics=metrics,
        repeat=repeat,
        text=text,
    )


def _is_property(
    evidence: Evidence,
    name: str,
    candidates: tuple[str, ...],
    examples: tuple[str, ...],
) -> bool:
    """Whether a number follows from the example or from the candidate alone, as a difficulty or a model's size does."""
    if not candidates or column_names.is_metric(name) or evidence.n_values(name) == 1:
        return False
    return evidence.is_function(name, *candidates) or (
        bool(examples) and evidence.is_function(name, *examples)
    )


# A row for each example


def _possible_scores(
    evidence: Evidence, roles: Roles, examples: tuple[str, ...]
) -> list[str]:
    used = (*examples, roles.segment, roles.error)
    return [
        name
        for name in evidence.frame.columns
        if name not in used
        and evidence.is_score(name)
        and not evidence.is_difference(name)
        and column_names.plain(name) not in column_names.REPEATS
    ]


def _groups(
    evidence: Evidence, wanted: Wanted, roles: Roles, examples: tuple[str, ...]
) -> dict[str, tuple[str, str]]:
    """The candidate and the metric of each column, if every candidate has a column for every metric. Else nothing.

    The header has two rows, or names such as "old_accuracy", "new_accuracy", "old_cost" and
    "new_cost".
    """
    if wanted.candidates or wanted.metrics or not wanted.is_alone:
        return {}
    scores = _possible_scores(evidence, roles, examples)
    groups = _candidates_first(evidence.frame.groups, scores)
    ways = [{name: groups[name] for name in scores if name in groups}] if groups else []
    for separator in _SEPARATORS:
        if all(separator in name for name in scores):
            pairs = [name.split(separator, 1) for name in scores]
            ways.append({n: (a, b) for n, (a, b) in zip(scores, pairs, strict=True)})
            pairs = [name.rsplit(separator, 1) for name in scores]
            ways.append({n: (a, b) for n, (a, b) in zip(scores, pairs, strict=True)})
            ways.append({n: (b, a) for n, (a, b) in zip(scores, pairs, strict=True)})
    for way in ways:
        candidates = {candidate for candidate, _ in way.values()}
        metrics = {metric for _, metric in way.values()}
        is_full = len(way) == len(candidates) * len(metrics) == len(set(way.values()))
        is_known = way is ways[0] and bool(groups)
        if (
            is_full
            and len(candidates) > 1
            and (len(metrics) > 1 or is_known)
            and (is_known or all(map(column_names.is_metric, metrics)))
            and (is_known or not any(map(column_names.is_metric, candidates)))
            and (
                is_known
                or all(_without_metrics(c, list(candidates)) for c in candidates)
            )
            and set(wanted.goal) <= metrics
        ):
            return way
    return {}


def _candidates_first(
    groups: Mapping[str, tuple[str, str]], scores: Sequence[str]
) -> Mapping[str, tuple[str, str]]:
    """The candidate and the metric of each column. A pivot table has the metrics above the candidates."""
    tops = {groups[name][0] for name in scores if name in groups}
    parts = {groups[name][1] for name in scores if name in groups}
    has_metrics_above = all(map(column_names.is_metric, tops)) and not any(
        map(column_names.is_metric, parts)
    )
    if not has_metrics_above:
        return groups
    return {name: (part, top) for name, (top, part) in groups.items()}


def _wide(
    evidence: Evidence, wanted: Wanted, roles: Roles, examples: tuple[str, ...]
) -> tuple[str, ...]:
    """The columns with the scores of a candidate each. Empty if the file has one candidate."""
    frame = evidence.frame
    columns = list(frame.columns)
    if _names_columns(wanted.candidates, columns):
        return wanted.candidates
    if wanted.metrics or any(name in columns for name in wanted.goal):
        return ()
    scores = _possible_scores(evidence, roles, examples)
    used = (*examples, roles.segment, roles.error)
    rest = [name for name in columns if name not in used]
    named = [name for name in wanted.compared if name in scores]
    if wanted.is_alone and len(scores) == 1:
        # Perhaps the other candidates have a text in a cell
        _check_mixed(evidence, rest)
    if not wanted.is_alone or len(scores) < 2:
        return ()
    _check_percentages(evidence, scores)
    metrics = [name for name in scores if column_names.is_metric(name)]
    rests = {name: _without_metrics(name, scores) for name in scores}
    if all(rests.values()):
        metrics = []
    if named and len(named) == len(wanted.compared):
        # The user names columns as candidates
        if len(named) > 1 or len(scores) == 2:
            return tuple(named if len(named) > 1 else scores)
    elif len(metrics) == len(scores):
        return ()
    responses = [
        name
        for name in columns
        if column_names.plain(name) in column_names.RESPONSES and evidence.is_text(name)
    ]
    indexes = [name for name in scores if evidence.may_be_index(name)]
    is_clear = (
        not metrics
        and not responses
        and evidence.share_a_scale(scores)
        and (not indexes or len(indexes) == len(scores))
        and len(_unexplained(evidence, rest, scores)) < len(scores)
        and not all(_numbers_repeats(name) for name in scores)
    )
    if is_clear:
        _check_mixed(evidence, rest)
        return tuple(scores)
    unmatched = [name for name in scores if name not in metrics]
    likely = [name for name in unmatched if name not in indexes] or unmatched
    readings = [
        Reading(
            f"One candidate, the file, with the metrics {some(scores)}.",
            ("--metrics", ",".join(map(quoted, scores))),
        )
    ]
    if len(likely) > 1:
        readings.insert(
            0 if len(likely) > len(metrics) else 1,
            Reading(
                f"The candidates {some(likely)}, each with a column of scores.",
                ("--candidates", ",".join(map(quoted, likely))),
            ),
        )
    if len(readings) == 1:
        return ()
    raise UnclearResultsError(
        f"{frame.path} has several columns of numbers, which may be candidates or metrics: {some(scores)}.",
        readings,
    )


def _unexplained(
    evidence: Evidence, columns: Sequence[str], scores: Sequence[str]
) -> list[str]:
    """Columns that a table of candidates does not usually have.

    If there are many, columns of numbers are probably properties of the example, too.
    """
    return [
        name
        for name in columns
        if name not in scores
        and not column_names.is_no_score(name)
        and not evidence.is_index(name)
        and not evidence.is_date(name)
        and evidence.n_filled(name)
    ]


def _check_mixed(evidence: Evidence, columns: Sequence[str]) -> None:
    """Check that no column of numbers has a text.

    Raises:
        InvalidArgumentError: one has. A verdict without it might be about other scores
            than the user means.
    """
    for name in columns:
        column = evidence.numbers(name)
        if (
            not column.is_mixed
            or len(column.wrong) > column.n_known
            or column_names.is_no_score(name)
        ):
            continue
        cell = evidence.frame.columns[name][column.wrong[0]]
        raise InvalidArgumentError(
            f"{evidence.frame.where(column.wrong[0])}: The column {name!r} must hold finite numbers, got "
            f"{short(cell)}. Write a number there, or leave the cell empty if it is unknown. If the column is no "
            f"score, pass --ignore {in_command(name)}."
        )


def _check_percentages(evidence: Evidence, columns: Sequence[str]) -> None:
    """Check that candidates have percentages alike.

    Raises:
        InvalidArgumentError: a column has percentages, and another one numbers above 1.
    """
    frame = evidence.frame
    percent = {
        name: at
        for name in columns
        if (at := evidence.numbers(name).notations.get(PERCENT)) is not None
    }
    for name in columns if percent else ():
        column = evidence.numbers(name)
        at = column.notations.get(PLAIN)
        if at is None or column_names.is_metric(name) or abs(column.numbers[at]) <= 1.0:
            continue
        in_percent, where = next(iter(percent.items()))
        raise InvalidArgumentError(
            f"{frame.where(at)}: The column {name!r} has the number {short(frame.columns[name][at])}, and the column "
            f"{in_percent!r} has the percentage {short(frame.columns[in_percent][where])}, which is "
            f"{evidence.numbers(in_percent).numbers[where]:g}. Write all scores with % or all without it."
        )


def shared_metric(names: Sequence[str]) -> str:
    """The metric in the name of every candidate: "loss" in "loss_v1" and "loss_v2". Empty if there is none."""
    if len(names) < 2:
        return ""
    shared = _shared_words(names)
    first = dict.fromkeys(column_names.words(names[0]))
    return "_".join(w for w in first if w in shared and column_names.is_metric(w))


def _shared_words(names: Sequence[str]) -> set[str]:
    return set(column_names.words(names[0])).intersection(
        *(column_names.words(name) for name in names)
    )


def _without_metrics(name: str, names: Sequence[str]) -> str:
    """The part of a name that names a candidate. Empty if it names a metric.

    In "old score" and "new score", the word that both have is the metric.
    """
    shared = _shared_words(names)
    rest = [
        word
        for word in column_names.words(name)
        if not (word in shared and column_names.is_metric(word))
    ]
    if not set(rest) - shared or any(column_names.is_metric(word) for word in rest):
        return ""
    return " ".join(rest) if any(not word.isdigit() for word in rest) else ""


def _numbers_repeats(name: str) -> bool:
    """Whether a column may be one of several repeats, such as "run 1"."""
    first, *rest = [word.rstrip("0123456789") for word in column_names.words(name)] or [
        ""
    ]
    return first in column_names.REPEATS and not any(rest)


def quoted(name: str) -> str:
    """A name for a flag that takes several, separated by commas."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"' if "," in name or '"' in name else name


def in_command(name: str) -> str:
    """A name for a flag in a command that the user may copy."""
    return shlex.quote(quoted(name))
