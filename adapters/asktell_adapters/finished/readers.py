"""The formats of results, and the reader of a file."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from asktell import AsktellError, InvalidArgumentError
from asktell.extend import BuiltIn, Registry, in_words, short
from asktell_adapters.finished.reader import Reader
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted

# What readers raise for a value of another type than their format has
_OF_ODD_VALUES = (TypeError, ValueError, AttributeError, LookupError, OverflowError)

_HERE = "asktell_adapters.finished"

_BUILT_IN = {
    "inspect": BuiltIn(f"{_HERE}.inspect:InspectReader"),
    "promptfoo": BuiltIn(f"{_HERE}.promptfoo:PromptfooReader"),
    "promptfoo-csv": BuiltIn(f"{_HERE}.promptfoo_csv:PromptfooCsvReader"),
    "lm-eval": BuiltIn(f"{_HERE}.lm_eval:LmEvalReader"),
    "human-eval": BuiltIn(f"{_HERE}.human_eval:HumanEvalReader"),
    "helm": BuiltIn(f"{_HERE}.helm:HelmReader"),
    "openai-evals": BuiltIn(f"{_HERE}.openai_evals:OpenAIEvalsReader"),
    "openai-output-items": BuiltIn(
        f"{_HERE}.openai_output_items:OpenAIOutputItemsReader"
    ),
    "harbor": BuiltIn(f"{_HERE}.harbor:HarborReader"),
    "deep-eval": BuiltIn(f"{_HERE}.deep_eval:DeepEvalReader"),
    "ml-flow": BuiltIn(f"{_HERE}.ml_flow:MlflowReader"),
    "ragas": BuiltIn(f"{_HERE}.ragas:RagasReader"),
    "langsmith": BuiltIn(f"{_HERE}.langsmith:LangSmithReader"),
    "langfuse": BuiltIn(f"{_HERE}.langfuse:LangfuseReader"),
    "table": BuiltIn(f"{_HERE}.table:TableReader"),
}


def _made(name: str, kind: Any) -> Reader:
    """The reader of a format, from its class."""
    reader: Reader = kind()
    for needed in ("name", "recognizes", "read"):
        if not hasattr(reader, needed):
            raise InvalidArgumentError(
                f"it must be a class with `name`, `recognizes` and `read`, got {short(kind)}"
            )
    return reader


FORMATS: Registry[Reader] = Registry("asktell.readers", _BUILT_IN, _made)
"""All formats. The first that recognizes a file reads it, so the more specific ones come first. Readers of other
packages come before the built-in ones, in the order of their names. A table is last, since many formats are tables,
too."""


@cache
def readers() -> tuple[Reader, ...]:
    """All readers, in the order in which they are asked."""
    return tuple(FORMATS[name] for name in (*FORMATS.packages(), *FORMATS.built_in))


def read_results(paths: Sequence[str | Path], wanted: Wanted | None = None) -> Scores:
    """Read the evaluations in files and folders.

    ```python
    scores = read_results(["baseline.csv", "candidate.csv"])
    selector = scores.table(goal).selector(goal)
    print(selector.result())
    ```

    Args:
        paths: the files, or folders of a format such as lm-eval's, or of Inspect logs.
        wanted: how to read them (default: by the evidence in the files alone).

    Raises:
        InvalidArgumentError: a file has no known format, is damaged, or has no scores.
        UnclearResultsError: several readings are plausible.
    """
    if not paths:
        raise InvalidArgumentError(
            "No file is given. Give the paths of one or more files of results."
        )
    wanted = (wanted or Wanted()).renamed()._replace(is_alone=len(paths) == 1)
    sources = [Source(Path(path).expanduser(), wanted.encoding) for path in paths]
    parts = [part for source in sources for part in _parts(source, wanted)]
    return Scores.joined(parts, wanted)


def _parts(source: Source, wanted: Wanted) -> Iterator[Scores]:
    """Read a file, or a folder as a whole or file by file."""
    if not source.path.exists():
        raise InvalidArgumentError(f"There is no file {str(source.path)!r}.")
    reader = _reader_of(source, readers())
    if reader is not None:
        yield _read(reader, source, wanted)
        return
    if not source.is_folder:
        raise InvalidArgumentError(
            f"asktell cannot read results from {source.path}. {_known()}"
        )
    # A table is recognized too easily: a folder has other tables than results.
    *specific, _ = readers()
    pairs = [
        (file, reader)
        for file in source.files
        if (reader := _reader_of(file, specific)) is not None
    ]
    if not pairs:
        raise InvalidArgumentError(
            f"The folder {str(source.path)!r} has no results of a known format. If lm-eval wrote the folder, run "
            f"lm-eval with --log_samples. If it has tables, give their paths. {_known()}"
        )
    for file, reader in pairs:
        yield _read(reader, file, wanted)


def _reader_of(source: Source, among: Sequence[Reader]) -> Reader | None:
    """The first reader that recognizes a file or folder."""
    for reader in among:
        try:
            if reader.recognizes(source):
                return reader
        except _OF_ODD_VALUES:
            # Not this format, then
            continue
    return None


def _read(reader: Reader, source: Source, wanted: Wanted) -> Scores:
    """Read a file. A value of another type than the format has is an error of the file."""
    try:
        return reader.read(source, wanted)
    except _OF_ODD_VALUES as error:
        if isinstance(error, AsktellError):
            raise
        raise InvalidArgumentError(
            f"{source.path} was recognized as {reader.name}, but cannot be read ({in_words(error)}). Export the "
            "results again."
        ) from error


def _known() -> str:
    names = [reader.name for reader in readers()]
    return f"asktell reads {', '.join(names[:-1])} and {names[-1]}."
