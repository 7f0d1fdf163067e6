"""What a user wants from files of results."""

from collections.abc import Mapping
from typing import NamedTuple


class Wanted(NamedTuple):
    """How files of results are to be read, as far as the user determines it by flags of `asktell analyze`.

    A reader of a format with a fixed structure needs none of them. `Scores.joined` applies `candidates` and `rename` to
    the candidates of every format.

    Attributes:
        candidates: the candidates to read. In a table, these may be names of columns.
        metrics: the columns of a table that are metrics.
        candidate_columns: the columns of a table that name the candidate. With several, a
            candidate is a combination of their values.
        example_columns: the columns of a table that name the example, likewise.
        ignore: columns to leave out.
        repeats: whether rows with the same candidate and example are repeated evaluations.
            None to decide by the evidence.
        rename: old name -> new name, of columns, metrics and candidates.
        sheet: the sheet of a spreadsheet.
        encoding: the encoding of a text file.
        drop_limited: whether samples that reached a limit, such as a number of messages,
            count as failures, although the file has their scores.
        goal: the metrics of the goal.
        compared: the candidates that the user names, such as the baseline.
        is_alone: whether there is only this file. Of several files, each usually has one
            candidate.
    """

    candidates: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    candidate_columns: tuple[str, ...] = ()
    example_columns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    repeats: bool | None = None
    rename: Mapping[str, str] = {}
    sheet: str | None = None
    encoding: str | None = None
    drop_limited: bool = False
    goal: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    is_alone: bool = True

    def renamed(self) -> "Wanted":
        """The same with the new names, since files are renamed before anything else."""

        def new(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(self.rename.get(name, name) for name in names)

        return self._replace(
            candidates=new(self.candidates),
            metrics=new(self.metrics),
            candidate_columns=new(self.candidate_columns),
            example_columns=new(self.example_columns),
            goal=new(self.goal),
            compared=new(self.compared),
        )
