"""AGENTS.md: its paths exist, and its commands are those of the Makefile."""

import re

from tests.docs.conftest import ROOT

TEXT = (ROOT / "AGENTS.md").read_text(encoding="utf-8")


def test_every_path_exists() -> None:
    named = re.findall(r"`((?:asktell|adapters|docs|tests|benchmarks)/[\w./-]+)`", TEXT)
    assert len(named) > 25
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_room_of_the_core_is_on_the_map() -> None:
    rooms = {
        path.name
        for path in (ROOT / "asktell").iterdir()
        if path.is_dir() and not path.name.startswith("_")
    }
    assert {
        room for room in rooms - {"testing"} if f"`asktell/{room}`" not in TEXT
    } == set()


def test_every_command_of_make_is_a_target() -> None:
    targets = set(
        re.findall(
            r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    commands = set(re.findall(r"^make ([\w-]+)", TEXT, re.MULTILINE))
    assert commands
    assert commands <= targets
