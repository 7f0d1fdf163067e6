"""The paper's data sets, through `datasets`: for those with a network, or with a folder of the same files.

python -m benchmarks.selection.record --name llama_xsum --data xsum --model llama.gguf
--max-words 400 --tau 20 80
"""

from pathlib import Path
from typing import NamedTuple

from asktell_adapters.llms.base import Example


class Source(NamedTuple):
    """Where a data set is on the Hugging Face hub, and its columns."""

    path: str
    config: str | None
    document: str
    summary: str


SOURCES = {
    "xsum": Source("EdinburghNLP/xsum", None, "document", "summary"),
    "cnn_dailymail": Source("abisee/cnn_dailymail", "3.0.0", "article", "highlights"),
}


def load_summaries(
    name: str,
    n: int | None = None,
    max_words: int | None = None,
    folder: Path | None = None,
    split: str = "test",
) -> list[Example]:
    """The first `n` documents and their summaries; of each document the first `max_words` words.

    Args:
        name: "xsum" or "cnn_dailymail".
        n: None: all.
        max_words: None: all.
        folder: with files such as test.jsonl or test.parquet, in place of the hub.
        split: which part of the data set.

    Raises:
        SystemExit: the data set cannot be had, or lacks a column; the message says
            which it has.
    """
    from datasets import load_dataset

    source = SOURCES[name]
    try:
        if folder is None:
            rows = load_dataset(source.path, source.config, split=split)
        else:
            rows = load_dataset(str(folder), split=split)
    except (OSError, ValueError) as error:
        where = folder or source.path
        raise SystemExit(
            f"{name} cannot be read from {where}: {error}. A folder with {split}.jsonl will do."
        ) from error
    missing = [column for column in source[2:] if column not in rows.column_names]
    if missing:
        raise SystemExit(
            f"{name} has no column {' and '.join(missing)}; its columns are {rows.column_names}."
        )
    some = rows if n is None else rows.select(range(min(n, len(rows))))
    return [
        Example(
            " ".join(row[source.document].split()[:max_words]),
            row[source.summary],
            str(row.get("id", i)),
        )
        for i, row in enumerate(some)
    ]
