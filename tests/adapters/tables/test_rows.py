"""Tables as people have them: the same rows from every kind of file, numbers as texts where texts are meant."""

import datetime
import decimal
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asktell.errors import InvalidArgumentError, MissingExtraError
from asktell_adapters.evaluators import Example
from asktell_adapters.tables.datasets import draw, load_examples, load_prompts
from asktell_adapters.tables.rows import Table

ROWS = [
    {"question": "What is 2 + 2?", "answer": "4", "key": "007", "note": "easy"},
    {
        "question": "Où, exactly?\nThere; or here",
        "answer": 'a "café"',
        "key": "8",
        "note": "",
    },
    {"question": "12", "answer": "007", "key": "9", "note": "ünï"},
]
COLUMNS = {"input": "question", "reference": "answer", "id": "key"}
EXPECTED = [
    Example(r["question"], r["answer"], r["key"], {"note": r["note"]}) for r in ROWS
]


def as_csv(delimiter: str = ",") -> str:
    lines = [list(ROWS[0]), *(list(row.values()) for row in ROWS)]
    cells = [
        [
            '"' + cell.replace('"', '""') + '"' if not cell.isalnum() else cell
            for cell in line
        ]
        for line in lines
    ]
    return "\r\n".join(delimiter.join(line) for line in cells) + "\r\n"


def parquet(path: Path, columns: dict[str, list[Any]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)
    return path


def excel(path: Path, *sheets: tuple[str, list[list[Any]]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def saved(path: Path, rows: Any) -> Path:
    datasets = pytest.importorskip("datasets")
    found = (
        {name: datasets.Dataset.from_list(each) for name, each in rows.items()}
        if isinstance(rows, dict)
        else None
    )
    (
        datasets.DatasetDict(found) if found else datasets.Dataset.from_list(rows)
    ).save_to_disk(str(path))
    return path


def text(name: str, content: str, encoding: str = "utf-8") -> Callable[[Path], Path]:
    def make(home: Path) -> Path:
        (home / name).write_bytes(content.encode(encoding))
        return home / name

    return make


MADE: dict[str, Callable[[Path], Path]] = {
    "csv": text("d.csv", as_csv()),
    "csv of Excel": text("d.csv", as_csv(";"), "utf-8-sig"),
    "tsv": text("d.tsv", as_csv("\t")),
    "utf-16": text("d.csv", as_csv(), "utf-16"),
    "json": text("d.json", json.dumps(ROWS)),
    "json with a list inside": text("d.json", json.dumps({"version": 1, "data": ROWS})),
    "jsonl": text("d.jsonl", "\n\n".join(map(json.dumps, ROWS))),
    "parquet": lambda home: parquet(home / "d.parquet", {name: [row[name] for row in ROWS] for name in ROWS[0]}),
    "datasets": lambda home: saved(home / "d", ROWS),
    "datasets with one split": lambda home: saved(home / "d", {"train": ROWS}),
    "excel": lambda home: excel(
        home / "d.xlsx",
        # Numbers where a person typed numbers, and rows and columns that only look
        # empty.
        ("one", [[], [*ROWS[0], None, None], ["What is 2 + 2?", 4, "007", "easy"], ["", None],
                 [*ROWS[1].values()], [12, "007", 9, "ünï"], [None] * 6]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", MADE)
def test_every_kind_of_file_gives_the_same_examples(kind: str, tmp_path: Path) -> None:
    assert load_examples(MADE[kind](tmp_path), **COLUMNS) == EXPECTED


def test_numbers_are_texts_where_texts_are_meant_and_stay_numbers_elsewhere(
    tmp_path: Path,
) -> None:
    path = parquet(
        tmp_path / "d.parquet",
        {
            "input": [1, 2], "reference": [0.5, 2.0], "key": [7, 8], "n": [3, 4], "x": [float("nan"), 1.5],
            "day": [datetime.date(2024, 1, 31)] * 2, "at": [datetime.datetime(2024, 1, 31, 12, 30)] * 2,
            "price": [decimal.Decimal("1.50")] * 2,
        },
    )  # fmt: skip
    first, second = load_examples(path, id="key")
    assert (first.input, first.reference, first.id) == ("1", "0.5", "7")
    assert second.reference == "2.0"
    assert first.fields == {
        "n": 3,
        "x": None,
        "day": "2024-01-31",
        "at": "2024-01-31T12:30:00",
        "price": "1.50",
    }
    json.dumps(first.fields)


def test_a_class_is_its_name(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        input=datasets.Value("string"), label=datasets.ClassLabel(names=["bad", "good"])
    )
    rows = {"input": ["a", "b"], "label": [1, 0]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(
        str(tmp_path / "d")
    )
    assert [e.reference for e in load_examples(tmp_path / "d", reference="label")] == [
        "good",
        "bad",
    ]


def test_a_split_and_a_sheet_are_named(tmp_path: Path) -> None:
    folder = saved(tmp_path / "d", {"train": ROWS[:2], "test": ROWS[2:]})
    assert load_examples(folder, **COLUMNS, split="test") == EXPECTED[2:]
    for split, said in (
        (None, r"needs a split. Choose one of the splits 'train', 'test'"),
        ("tets", "did you mean 'test'"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            load_examples(folder, split=split)
    with pytest.raises(
        InvalidArgumentError, match="folder has one dataset without splits"
    ):
        load_examples(saved(tmp_path / "one", ROWS), split="test")
    with pytest.raises(
        InvalidArgumentError,
        match=r"save_to_disk. did not write.*Give the path of a file in the folder",
    ):
        load_examples(tmp_path)


def test_a_sheet_is_named(tmp_path: Path) -> None:
    other = [
        ["question", "answer", "key", "note"],
        *([row[name] for name in row] for row in ROWS),
    ]
    path = excel(
        tmp_path / "d.xlsx",
        ("read me", [["see the next sheet"]]),
        ("data", other),
        ("empty", []),
    )
    assert load_examples(path, **COLUMNS, sheet="data") == EXPECTED
    with pytest.raises(
        InvalidArgumentError, match=r"no sheet 'dat' \(did you mean 'data'\?\)"
    ):
        Table(path, sheet="dat")
    for sheet in ("empty", "read me"):
        with pytest.raises(InvalidArgumentError, match="no rows"):
            Table(path, sheet=sheet)
    with pytest.raises(InvalidArgumentError, match="not an Excel file"):
        Table(text("x.xlsx", "no")(tmp_path))


def test_formulas_whose_values_are_not_in_the_file_are_refused(tmp_path: Path) -> None:
    rows = [["input", "reference"], ["a", "b"], ["c", "=B2"], ["=A2", "=B2"]]
    path = excel(tmp_path / "d.xlsx", ("data", rows))
    with pytest.raises(
        InvalidArgumentError,
        match=r"'data': The cells 'B3', 'A4', 'B4' have formulas without values\. Open",
    ):
        load_examples(path)
    with (
        zipfile.ZipFile(path) as source,
        zipfile.ZipFile(tmp_path / "e.xlsx", "w") as target,
    ):
        for name in source.namelist():
            # As Excel writes values that are texts, empty ones too: those rows are
            # empty, and left out as others are.
            pattern, value = (
                rb'(<c r="(A|B)(3|4)")(>.*?)<v ?/>',
                rb'\1 t="str"\4<v>x</v>',
            )
            content = re.sub(pattern, value.replace(b"x", b""), source.read(name))
            target.writestr(
                name, content.replace(b"<f>B2</f><v></v>", b"<f>B2</f><v>d</v>", 1)
            )
    assert [(e.input, e.reference) for e in load_examples(tmp_path / "e.xlsx")] == [
        ("a", "b"),
        ("c", "d"),
    ]


def test_an_encoding_and_a_delimiter_are_named(tmp_path: Path) -> None:
    cp1252 = text("d.csv", as_csv("^").replace("ünï", "x"), "cp1252")(tmp_path)
    found = load_examples(cp1252, **COLUMNS, encoding="cp1252", delimiter="^")
    assert [(e.input, e.reference) for e in found] == [
        (e.input, e.reference) for e in EXPECTED
    ]
    with pytest.raises(
        InvalidArgumentError, match="the encoding 'martian', which is unknown"
    ):
        Table(cp1252, encoding="martian")
    with pytest.raises(InvalidArgumentError, match="must be one character"):
        Table(cp1252, encoding="cp1252", delimiter="::")


@pytest.mark.parametrize("name", ["d.parquet", "d.xlsx", "d"])
def test_a_package_that_is_missing_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.mkdir() if name == "d" else path.write_text("x")
    for module in ("pyarrow", "openpyxl", "datasets"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtraError, match=r"asktell\[tables\]"):
        load_examples(path)


def test_a_sample_is_the_same_each_time_and_in_order() -> None:
    examples = [Example(str(n)) for n in range(50)]
    drawn = draw(examples, 10, seed=3)
    assert drawn == draw(examples, 10, seed=3) != draw(examples, 10, seed=4)
    assert [int(e.input) for e in drawn] == sorted({int(e.input) for e in drawn})
    assert draw(examples, 80) == examples
    with pytest.raises(InvalidArgumentError, match="sample"):
        draw(examples, 0)


@pytest.mark.parametrize("kind", ["tsv", "jsonl", "xlsx", "parquet"])
def test_prompts_are_read_from_tables_too(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"p.{kind}"
    if kind == "tsv":
        path.write_text("id\tprompt\n1\tone, two\n2\tthree\n")
    elif kind == "jsonl":
        path.write_text(
            '{"id": 1, "prompt": "one, two"}\n{"id": 2, "prompt": "three"}\n'
        )
    elif kind == "xlsx":
        excel(path, ("p", [["id", "prompt"], [1, "one, two"], [2, "three"]]))
    else:
        parquet(path, {"id": [1, 2], "prompt": ["one, two", "three"]})
    assert load_prompts(path) == {"1": "one, two", "2": "three"}
