import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.problems import InvalidTableError, Table, read_table, write_table


def arrays(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "metrics": np.array(["a", "b"]),
        "scores": np.random.default_rng(0).normal(size=(3, 4, 2)),
        "prompts": np.array(["x", "y", "z"]),
        "examples": np.array(["1", "2", "3", "4"]),
        "embeddings": np.eye(3),
        "segments": np.array(["law", "law", "law", "physics"]),
        "outputs": np.full((3, 4), "text"),
        "provenance": np.array('{"model": "m"}'),
    }
    return {
        name: value for name, value in (whole | changes).items() if value is not None
    }


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "made.npz"
    write_table(path, **arrays())
    table = read_table(path)
    assert (table.name, table.metrics, table.prompts) == (
        "made",
        ("a", "b"),
        ("x", "y", "z"),
    )
    np.testing.assert_array_equal(table.scores, arrays()["scores"])
    np.testing.assert_array_equal(table.means, arrays()["scores"].mean(axis=1))
    assert table.provenance == {"model": "m"}
    assert table.features.shape == (3, 3)


def test_optional_arrays_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "made.npz"
    write_table(
        path,
        **arrays(
            examples=None, segments=None, embeddings=None, outputs=None, provenance=None
        ),
    )
    assert read_table(path).features is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": None}, "no ['scores']"),
        ({"scores": np.zeros((3, 4))}, "axes prompt, example and metric"),
        ({"scores": np.full((3, 4, 2), np.nan)}, "finite"),
        ({"metrics": np.array(["a", "a"])}, "occurs twice"),
        ({"prompts": np.array(["x", "y", "x"])}, "a prompt occurs twice"),
        ({"prompts": np.array(["x", "y"])}, "2 prompts for 3 rows"),
        ({"examples": np.array(["1", "1", "2", "3"])}, "example's id occurs twice"),
        ({"embeddings": np.eye(2)}, "features (2, 2) for 3 prompts"),
        ({"provenance": np.array("{")}, "not JSON"),
        ({"surprise": np.zeros(1)}, "unknown arrays ['surprise']"),
    ],
)
def test_a_malformed_file_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidTableError, match=re.escape(message)):
        write_table(tmp_path / "made.npz", **arrays(**changes))


def test_foreign_cut_and_pickled_files_are_refused(tmp_path: Path) -> None:
    foreign, cut, pickled = (
        tmp_path / f"{name}.npz" for name in ("foreign", "cut", "pickled")
    )
    foreign.write_bytes(b"no archive")
    write_table(cut, **arrays())
    cut.write_bytes(cut.read_bytes()[:-100])
    np.savez(pickled, scores=np.array([{}], dtype=object))
    for path in (foreign, cut, pickled):
        with pytest.raises(InvalidTableError):
            read_table(path)


def test_shares_of_variance_are_found_again() -> None:
    rng = np.random.default_rng(1)
    parts = np.sqrt([0.2, 0.5, 0.3])
    scores = (
        parts[0] * rng.normal(size=(400, 1, 1))
        + parts[1] * rng.normal(size=(1, 400, 1))
        + parts[2] * rng.normal(size=(400, 400, 1))
    )
    table = Table("made", ("a",), scores, tuple(map(str, range(400))))
    np.testing.assert_allclose(table.variance_shares()[0], [0.2, 0.5, 0.3], atol=0.05)
