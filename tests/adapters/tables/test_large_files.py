"""Small files of others that are large when they are read: refused with the limit, in time and memory of the file."""

import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell.errors import InvalidArgumentError
from asktell_adapters.finished import inspect_files
from asktell_adapters.tables import rows
from asktell_adapters.tables.rows import Table


def gap(path: Path, row: int, column: int) -> Path:
    """A sheet with a header, and one cell far away."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["example", "a"])
    book.active.cell(row=row, column=1, value="x")
    book.active.cell(row=row, column=column, value=0.5)
    book.save(path)
    return path


def parquet(path: Path, columns: Callable[[Any], dict[str, Any]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(columns(pyarrow))
    pytest.importorskip("pyarrow.parquet").write_table(table, path, compression="zstd")
    return path


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_last_row_of_a_sheet_is_read(tmp_path: Path) -> None:
    (row,) = Table(gap(tmp_path / "t.xlsx", 1_048_576, 2)).rows
    assert (row.number, row.values) == (1_048_576, {"example": "x", "a": 0.5})


def test_a_cell_outside_of_the_header_adds_no_column(tmp_path: Path) -> None:
    (row,) = Table(gap(tmp_path / "t.xlsx", 1000, 16_384)).rows
    assert row.values == {"example": "x", "a": ""}


def test_a_sheet_with_too_many_cells_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_MOST_CELLS", 16_000)
    with pytest.raises(InvalidArgumentError, match="more than 16,000 cells, the limit"):
        Table(gap(tmp_path / "t.xlsx", 1000, 16_384))


def test_a_sheet_that_unpacks_to_a_gigabyte_is_refused(tmp_path: Path) -> None:
    path = gap(tmp_path / "t.xlsx", 2, 2)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("xl/more.xml", "w") as file,
    ):
        for _ in range(300):
            file.write(b" " * 2**20)
    with pytest.raises(InvalidArgumentError, match="over 1 GiB of memory, the limit"):
        Table(path)


def test_a_row_that_is_written_a_million_times_is_refused(tmp_path: Path) -> None:
    path = parquet(
        tmp_path / "t.parquet",
        lambda pyarrow: {name: pyarrow.array([1] * 3_000_000) for name in "ab"},
    )
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    with pytest.raises(InvalidArgumentError, match="over 1 GiB of memory, the limit"):
        Table(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1e7


def test_a_long_text_in_many_rows_is_kept_once(tmp_path: Path) -> None:
    texts = ["x" * 100_000, "y" * 100_000]
    path = parquet(
        tmp_path / "t.parquet",
        lambda pyarrow: {"a": texts * 1500, "b": pyarrow.array([0.5] * 3000)},
    )
    tracemalloc.start()
    table = Table(path)
    now, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [row.values["a"] for row in table.rows] == texts * 1500
    assert [row.number for row in table.rows] == list(range(1, 3001))
    assert now < 1e7


def test_long_texts_are_read_until_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(
        tmp_path / "t.parquet", lambda pyarrow: {"a": [f"{i:050}" for i in range(100)]}
    )
    assert len(Table(path).rows) == 100
    monkeypatch.setattr(rows, "_MOST_UNPACKED", 100 * 400 + 50 * 99)
    with pytest.raises(InvalidArgumentError, match="too large when unpacked"):
        Table(path)


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl", "parquet"])
def test_a_million_columns_are_refused(tmp_path: Path, kind: str) -> None:
    names = [f"c{i}" for i in range(20_000)]
    path = tmp_path / f"t.{kind}"
    row = json.dumps(dict.fromkeys(names, 1))
    if kind == "parquet":
        parquet(path, lambda pyarrow: {key: [1] for key in names})
    else:
        lines = {
            "csv": f"{','.join(names)}\n{','.join('1' * 20_000)}\n",
            "json": f"[{row}]",
            "jsonl": f"{row}\n",
        }
        written(path, lines[kind])
    with pytest.raises(
        InvalidArgumentError, match="more than 16,384 columns, the limit"
    ):
        Table(path)


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_rows_with_other_keys_each_are_refused(tmp_path: Path, kind: str) -> None:
    objects = [json.dumps({f"k{i}": i}) for i in range(5000)]
    text = f"[{','.join(objects)}]" if kind == "json" else "\n".join(objects)
    path = written(tmp_path / f"t.{kind}", text)
    with pytest.raises(InvalidArgumentError, match="Give each row the same keys"):
        Table(path)
    path = written(tmp_path / "few.jsonl", "\n".join(objects[:500]))
    assert len(Table(path).rows) == 500


def test_a_key_that_occurs_twice_is_named_however_many_there_are(
    tmp_path: Path,
) -> None:
    keys = ",".join(f'"k{i}":0' for i in range(60_000))
    path = written(tmp_path / "t.json", f'[{{{keys},"k59999":1}}]')
    with pytest.raises(InvalidArgumentError, match="'k59999' occurs twice"):
        Table(path)


def log(path: Path, samples: list[bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", '{"eval": {"task": "t", "model": "m"}}')
        for at, sample in enumerate(samples):
            archive.writestr(f"samples/{at}_epoch_1.json", sample)
    return path


def test_a_log_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    path = log(tmp_path / "t.eval", [b'{"id": 1, "x": "' + b" " * 2**26 + b'"}'])
    tracemalloc.start()
    with pytest.raises(
        InvalidArgumentError,
        match=r"holds 64 MiB of JSON, and the limit .* is 3[0-9] MiB",
    ):
        inspect_files.read_log(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1e7


def test_the_conversations_of_a_log_are_not_kept(tmp_path: Path) -> None:
    sample = b'{"id": 1, "scores": {}, "messages": "' + b"m" * 2**20 + b'"}'
    path = log(tmp_path / "t.eval", [sample] * 20)
    tracemalloc.start()
    read = inspect_files.read_log(path)
    now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(read.samples) == 20
    assert now < 2e6
    assert most < 1e7
