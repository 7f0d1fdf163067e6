"""Tables of tools that give their columns fixed names."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from asktell import InvalidArgumentError, MissingExtraError
from asktell_adapters.finished.evidence import Evidence
from asktell_adapters.finished.frame import Frame
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.table import TableReader
from asktell_adapters.finished.wanted import Wanted


@lru_cache(maxsize=1)  # all readers of such tables ask in turn
def header_of(source: Source) -> Sequence[str]:
    """The names of a table's columns. Empty for a file that is no table, or a damaged one.

    Those of CSV and TSV are the cells of the first line, and those of JSON the keys of the
    first row, or the columns of pandas' form `split`.
    """
    if source.is_folder:
        return ()
    if source.is_binary:
        try:
            return list(Frame.read(source, Wanted()).columns)
        except (InvalidArgumentError, MissingExtraError):
            return ()
    document = source.json
    if isinstance(document, dict) and isinstance(document.get("columns"), list):
        return [str(name) for name in document["columns"]]
    if source.records:
        return list(source.records[0])
    if source.is_json:
        return ()
    first, _, _ = source.head.decode("utf-8-sig", errors="replace").partition("\n")
    delimiter = max(",;\t|", key=first.count)
    return [name.strip().strip('"') for name in first.split(delimiter)]


def known_table(
    source: Source,
    wanted: Wanted,
    kind: str,
    is_metric: Callable[[Evidence, str], bool],
    examples: Sequence[str],
    candidate: str = "",
) -> Scores:
    """Read a table in which the names of columns, and not the cells, determine the roles.

    Flags of the user come first, as in any table.

    Args:
        source: the table.
        wanted: what the user wants.
        kind: the format in words.
        is_metric: whether a column is a metric, if its cells are numbers.
        examples: columns that may identify the example. The first of them with texts does.
        candidate: a column that names the candidate, if it has several values. Empty if
            the tool has no such column.

    Raises:
        InvalidArgumentError: the table is damaged, or has no scores.
        UnclearResultsError: the ids of examples repeat, and nothing says why.
    """

    def new_name(name: str) -> str:
        return wanted.rename.get(name, name)

    # A new name of a column does not change what it is
    as_written = wanted._replace(rename={})
    evidence = Evidence(Frame.read(source, wanted).changed(as_written))
    names = list(evidence.frame.columns)
    metrics = [
        name
        for name in names
        if new_name(name) in wanted.goal
        or (is_metric(evidence, name) and evidence.is_number(name))
    ]
    present = [name for name in examples if name in names and evidence.is_text(name)]
    has_several = candidate in names and evidence.n_values(candidate) > 1
    wanted = wanted._replace(
        metrics=wanted.metrics or tuple(map(new_name, metrics)),
        example_columns=wanted.example_columns or tuple(map(new_name, present[:1])),
        candidate_columns=wanted.candidate_columns
        or (new_name(candidate),) * has_several,
    )
    return replace(TableReader().read(source, wanted), kind=kind)
