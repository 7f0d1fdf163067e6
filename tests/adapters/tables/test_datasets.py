"""Examples and prompts from files: every format, and every error with its file and line."""

import csv
import importlib.util
from pathlib import Path

import pytest

from asktell.errors import InvalidArgumentError, MissingExtraError
from asktell_adapters.evaluators import Example
from asktell_adapters.tables import datasets
from asktell_adapters.tables.datasets import load_aclsum, load_examples, load_prompts


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_jsonl_rows_become_examples(tmp_path: Path) -> None:
    rows = '{"input": "a\\u2028b", "reference": ["x", "y"], "k": 1}\n\n{"input": "c", "reference": "z", "k": 2}\n'
    assert load_examples(write(tmp_path, "d.jsonl", rows)) == [
        Example("a\u2028b", ("x", "y"), "1", {"k": 1}),
        Example("c", "z", "3", {"k": 2}),
    ]


def test_csv_rows_become_examples_by_the_columns_named(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "d.CSV",
        b'\xef\xbb\xbftext,label,key\n"one,\r\ntwo",yes,k1\nthree,no,k2\n',
    )
    assert load_examples(path, input="text", reference="label", id="key") == [
        Example("one,\r\ntwo", "yes", "k1", {}),
        Example("three", "no", "k2", {}),
    ]
    assert [
        example.reference
        for example in load_examples(path, input="text", reference=None)
    ] == [None, None]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "d.jsonl",
            '{"input": "a", "reference": "b"}\n{"input": "a"}',
            r"d\.jsonl, line 2: The row has no column 'reference'. The columns are 'input'\. Set `input`",
        ),
        ("d.jsonl", '\n{"input": "a",', r"line 2, column 15: The text is not JSON"),
        (
            "d.jsonl",
            '{"input": true, "reference": "b"}',
            "line 1: An example's input must be a text, got True",
        ),
        (
            "d.jsonl",
            '{"input": "a", "reference": null}',
            "line 1: The column 'reference' is empty",
        ),
        (
            "d.json",
            '{"a": [], "b": []}',
            "must have a list of JSON objects, or an object with one such list, got an object with 2 lists",
        ),
        (
            "d.jsonl",
            '{"input": "a", "input": "b", "reference": "c"}',
            "line 1: The key 'input' occurs twice",
        ),
        (
            "d.jsonl",
            b'{"input": "a", "reference": "b"}\n\xff',
            "line 2: The text is not UTF-8",
        ),
        (
            "d.csv",
            "input,reference\na,b,c\n",
            "line 2: Columns .*header has 2, but this row has 3.*in double quotes",
        ),
        ("d.csv", 'input,reference\n"a,b\n', "line 2: The line is not CSV"),
        (
            "d.csv",
            "text,reference\na,b\n",
            r"line 2: The row has no column 'input'. The columns are 'text', 'refer",
        ),
        (
            "d.csv",
            "Input,reference\na,b\n",
            r"no column 'input' \(did you mean 'Input'\?\)",
        ),
        ("d.csv", "\n , \n", "no rows"),
        (
            "d.csv",
            "input,reference\na,caf\xe9 au lait".encode("cp1252"),
            "line 2: The text is not UTF-8.*cp1252.*'a,café au lait'",
        ),
        ("d.parquet", "x", "is not a Parquet file"),
        ("d.xls", "x", r"cannot read rows from .* Save the file as \.xlsx"),
        ("d", "x", r"files that end with \.csv, "),
        ("d.txt", "x", r"files that end with \.csv, \.json, .*and folders that"),
    ],
)
def test_bad_data_is_named_with_its_line(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        load_examples(write(tmp_path, name, content))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("p.txt", "one\r\n two \nthree", ["one", "two", "three"]),
        ("p.txt", "one\nmore\n\n\ntwo\n", ["one\nmore", "two"]),
        ("p.txt", "one\r\nmore\r\n \r\n\r\ntwo\r\n", ["one\nmore", "two"]),
        ("p.txt", "one\rtwo\r", ["one", "two"]),
        ("p.json", '["one", "two"]', ["one", "two"]),
        ("p.json", '{"a": "one", "b": "two"}', {"a": "one", "b": "two"}),
        ("p.csv", 'prompt\none\n"two\nlines"\n', ["one", "two\nlines"]),
        ("p.csv", "id,prompt\na,one\nb,two\n", {"a": "one", "b": "two"}),
    ],
)
def test_prompts_of_every_format(
    tmp_path: Path, name: str, content: str, expected: object
) -> None:
    assert load_prompts(write(tmp_path, name, content)) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.json", "[]", "no prompts"),
        ("p.json", '{"a": " "}', "prompt 'a' is empty"),
        ("p.json", '["one"', "line 1, column 7: The text is not JSON"),
        (
            "p.csv",
            "text\none\n",
            r"line 2: The row has no column 'prompt'. The columns are 'text'",
        ),
        ("p.csv", "id,prompt\na,one\na,two\n", "line 3: The id 'a' occurs twice"),
        ("p.yaml", "a", "files, got '.*p.yaml'"),
    ],
)
def test_bad_prompts_are_named_with_their_file(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        load_prompts(write(tmp_path, name, content))
    assert name in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for load in (load_prompts, load_examples):
        with pytest.raises(InvalidArgumentError, match=r"no file .*gone\.txt"):
            load(tmp_path / "gone.txt")


class TestACLSum:
    """The packaged data set."""

    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        # Not importorskip: its import wants `sienna`.
        if importlib.util.find_spec("aclsum") is None:
            pytest.skip("aclsum is not installed")

    def test_the_reference_is_the_three_aspects_one_a_line(self) -> None:
        examples = load_aclsum("test")
        assert len(examples) == len({example.id for example in examples}) == 100
        assert all(len(example.references[0].split("\n")) == 3 for example in examples)
        assert [
            len(load_aclsum(split)) for split in ("train", "validation", "val", "all")
        ] == [100, 50, 50, 250]
        lines = examples[0].references[0].split("\n")
        assert [
            load_aclsum(aspect=name)[0].reference for name in datasets.ASPECTS
        ] == lines
        assert (
            load_aclsum(aspect=("outcome", "challenge"))[0].reference
            == f"{lines[2]}\n{lines[0]}"
        )

    def test_texts_are_detokenized_and_cut_at_whole_sentences(self) -> None:
        whole, cut = load_aclsum("all"), load_aclsum("all", max_words=80)
        assert not any(
            " ," in example.input or "( " in example.input for example in whole
        )
        assert any(
            " ," in example.input for example in load_aclsum("test", detokenize=False)
        )
        for long, short in zip(whole, cut, strict=True):
            assert long.input.startswith(short.input)
            assert len(short.input.split()) <= 80 or short.input.count(". ") == 0

    @pytest.mark.parametrize(
        "arguments",
        [{"split": "dev"}, {"aspect": "title"}, {"aspect": ()}, {"section": "body"}],
    )
    def test_unknown_parts_are_refused(self, arguments: dict[str, str]) -> None:
        with pytest.raises(InvalidArgumentError, match="must be"):
            load_aclsum(**arguments)  # type: ignore[arg-type]


def test_aclsum_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="pip install --no-deps aclsum"):
        load_aclsum()


@pytest.mark.parametrize("size", [131_072, 131_073])
def test_a_field_may_be_long_and_the_limit_of_others_stays(
    tmp_path: Path, size: int
) -> None:
    before = csv.field_size_limit()
    text = "x" * size
    (tmp_path / "d.csv").write_text(f'input,reference\n"{text}",a\n{text},b\n')
    assert [len(example.input) for example in load_examples(tmp_path / "d.csv")] == [
        size,
        size,
    ]
    (tmp_path / "p.csv").write_text(f"id,prompt\na,{text}\n")
    assert load_prompts(tmp_path / "p.csv") == {"a": text}
    (tmp_path / "bad.csv").write_text(f'input,reference\n{text},"a\n')
    with pytest.raises(InvalidArgumentError, match="not CSV"):
        load_examples(tmp_path / "bad.csv")
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("p.csv", "name,prompt\nshort,Be brief.\nlong,Tell all.\n"),
        (
            "p.jsonl",
            '{"name": "short", "prompt": "Be brief."}\n{"name": "long", "prompt": "Tell all."}\n',
        ),
    ],
)
def test_a_name_is_an_id_where_there_is_none(
    tmp_path: Path, file: str, text: str
) -> None:
    (tmp_path / file).write_text(text)
    assert load_prompts(tmp_path / file) == {"short": "Be brief.", "long": "Tell all."}
