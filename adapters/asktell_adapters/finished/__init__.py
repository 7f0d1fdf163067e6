"""Results that people have already, as evaluations. One file for each format.

To add a format, for example that of a tool named Foo:

1. Write `foo.py` with one final class, `FooReader`, as `reader.Reader` describes: `name`, `recognizes(source)` and
   `read(source, wanted)`. 50 to 150 lines. `promptfoo.py` is an example.
2. `recognizes` looks at the content, through `source.json` (one document), `source.records` (JSON lines, or a list of
   objects), `source.text`, `source.members` (a zip archive), `source.head` (first bytes), or `source.files` (a
   folder). It needs several keys that only this format has together, and raises nothing.
3. `read` returns `Scores`: a `ScoredCandidate` for each candidate, with `ScoreColumns.of([Graded.of(example, values,
   error), ...])`. An evaluation without scores that failed has its reason in `error`. An unknown score is left out,
   never 0. `name=None` with `names=(model, task)` lets the names be chosen when all files are known. Attempts or
   epochs of one example are several `Graded` with the same example, and `repeats` then says what they are. Give
   `of_candidates` and `of_examples` in words: they are in the first line of every reading. `known_table` reads a table
   whose columns have fixed names, as in `ragas.py`.
4. Add a line to `FORMATS` in `readers.py`, before `table`, since the first reader that recognizes a file reads it. If
   two formats have the same keys, the one with more of its own comes first. If it needs a package, name the extra.
5. Add a test in `tests/adapters/finished/test_foo.py`, with a small file as the tool writes it, and one for a damaged
   file. Add the format to `docs/how-to/read-your-data.md`.

A package outside of asktell registers its reader instead: the entry-point group `asktell.readers`, with
`foo = "package.module:FooReader"`. Its readers come before the built-in ones.
"""

from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.reader import Reader
from asktell_adapters.finished.readers import read_results
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import ONE_FILE, Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.unclear_results_error import Reading, UnclearResultsError
from asktell_adapters.finished.wanted import Wanted

__all__ = [
    "ONE_FILE",
    "Graded",
    "Reader",
    "Reading",
    "ScoreColumns",
    "ScoredCandidate",
    "Scores",
    "Source",
    "UnclearResultsError",
    "Wanted",
    "read_results",
]
