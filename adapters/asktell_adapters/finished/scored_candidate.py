"""One candidate of a file of results."""

from dataclasses import dataclass
from pathlib import Path

from asktell_adapters.finished.score_columns import ScoreColumns


@dataclass(frozen=True)
class ScoredCandidate:
    """A candidate in a file of results, with its evaluations.

    Attributes:
        path: the file or folder that has the evaluations.
        evaluations: the evaluations.
        name: the name in the file. None if the file has no name for it. Then one of
            `names`, or the name of the file, stands for it.
        names: names to choose from, in the order of preference, such as the model and the
            task. The first kind of name that distinguishes all candidates is used.
        text: the prompt, if the file has it.
    """

    path: Path
    evaluations: ScoreColumns
    name: str | None = None
    names: tuple[str, ...] = ()
    text: str | None = None
