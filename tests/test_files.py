"""Files are replaced whole, on systems too that sync and replace in another way."""

import fcntl
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import asktell
from asktell._util import files
from asktell._util.files import replacing, sync, write_atomically
from tests.elsewhere import WINDOWS


def test_where_folders_cannot_be_opened_files_are_replaced_all_the_same(
    tmp_path: Path,
) -> None:
    code = f"{WINDOWS}\nfrom pathlib import Path\nfrom asktell._util.files import write_atomically\n"
    code += "write_atomically(Path(sys.argv[1]), 'old')\nwrite_atomically(Path(sys.argv[1]), 'new')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "file")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "file").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name")
def test_what_is_no_regular_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, "told")
    assert os.read(reader, 100) == b"told"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "folder", "x")
    if Path("/dev/full").exists():
        (tmp_path / "full").symlink_to("/dev/full")
        for path in (Path("/dev/full"), tmp_path / "full"):
            with pytest.raises(OSError, match="No space left"):
                write_atomically(path, "x")
        assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
        assert (tmp_path / "full").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "full") == [
        "folder",
        "pipe",
    ]


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "file")
    for text in ("old", "new"):  # there is none yet, and there is one
        write_atomically(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "elsewhere" / "file").read_text() == text
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file"]


@pytest.mark.parametrize("supported", [True, False])
def test_macos_is_asked_to_write_through_its_disks_cache(
    supported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def control(handle: int, what: int) -> None:
        assert what == 51
        asked.append("full")
        if not supported:
            raise OSError(45, "Operation not supported")

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda handle: asked.append("plain"))
    sync(0)
    assert asked == (["full"] if supported else ["full", "plain"])


def readers(monkeypatch: pytest.MonkeyPatch, patience: int) -> None:
    """For so many attempts, somebody has the file open."""
    replace, refused = os.replace, iter(range(patience))

    def busy(new: str, path: Path) -> None:
        if next(refused, None) is not None:
            raise PermissionError(13, "Access is denied")
        replace(new, path)

    monkeypatch.setattr(os, "replace", busy)


def test_windows_waits_for_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_WINDOWS", True)
    readers(monkeypatch, 3)
    write_atomically(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "new"


@pytest.mark.parametrize("windows", [True, False])
def test_nobody_waits_for_ever_or_where_it_does_not_help(
    windows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_WINDOWS", windows)
    monkeypatch.setattr(files, "_SECONDS_FOR_READERS", 0.05)
    readers(monkeypatch, 10**6 if windows else 1)
    with pytest.raises(PermissionError):
        write_atomically(tmp_path / "file", "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["no-such-folder/page.html", "file/page.html", "."])
def test_an_error_names_the_path_of_the_user(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / place
    selector = asktell.Selector(["a", "b"], asktell.BestFeasible("x"), 4, examples=3)
    with pytest.raises(OSError, match=re.escape(str(path))) as caught:
        selector.report(path)
    assert caught.value.filename == str(path)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_an_error_inside_of_the_block_keeps_its_class(tmp_path: Path) -> None:
    class OwnError(OSError):
        pass

    with pytest.raises(OwnError), replacing(tmp_path / "file"):
        raise OwnError(5, "own")


def test_half_of_a_surrogate_pair_is_escaped(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", ["a\ud83d", "\u00fc"])
    assert (tmp_path / "file").read_text("utf-8") == "a\\ud83d\u00fc"
