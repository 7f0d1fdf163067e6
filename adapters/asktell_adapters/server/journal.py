"""The journal of labels: a file beside a study, to which each label is synced before it counts as saved.

The file has one JSON object per line. Nothing in it depends on a position in something
that its user may edit: a label is saved by its name, and a gold row by a digest of it.

| line                                                                        | meaning                         |
|-----------------------------------------------------------------------------|---------------------------------|
| `format`, `version`, `key`, `study`                                         | the first line, see `Journal`   |
| `do: "response"`, `item`, `prompt`, `example`, `texts`, `scores`, `cost`    | the responses of a trial        |
| `do: "label"`, `at`, `rater`, `item`, `label`, `response`, `seconds`        | a label of these responses      |
| `do: "undo"` or `"skip"`, `at`, `rater`, `item`                             | the last label, or an item      |
| `do: "again"`, `rater`                                                      | skipped items are shown again   |
| `do: "told"`, `rater`, `item`, `taken`                                      | the study has the label's score |

An item is "t" and the id of a trial, or "g" and the digest of a gold row.
"""

import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from threading import RLock
from typing import Any, final

from asktell import InvalidStateError
from asktell.extend import write_atomically

FORMAT, VERSION = "asktell.labels", 1

_LONGEST_HEAD = 4096  # bytes
_ITEM = re.compile(r"t[0-9]{1,18}|g[0-9a-f]+")
_OF_RATER: Mapping[str, type | tuple[type, ...]] = {"rater": str, "item": str}
# The fields of each kind of entry that are read again
_FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "response": {
        "item": str,
        "prompt": (str, int),
        "example": int,
        "texts": list,
        "scores": dict,
        "cost": (int, float, type(None)),
    },
    "label": {**_OF_RATER, "label": str, "response": str, "seconds": (int, float)},
    "undo": _OF_RATER,
    "skip": _OF_RATER,
    "again": {"rater": str},
    "told": _OF_RATER,
}


@final
class Journal:
    """A file of labels, which belongs to one study.

    A file that is no journal, or the journal of another study, is refused and left
    unchanged.

    Args:
        path: the file. It is created if it is missing.
        study: the id of the study.

    Attributes:
        path: the file.
        key: secret from which the ids on the page are made. They stay the same when the
            server is started again.
        entries: the entries that the file had.

    Raises:
        InvalidStateError: the file is not a journal of labels, belongs to another study,
            or is damaged.
    """

    def __init__(self, path: Path, study: str) -> None:
        self.path = path
        self._lock = RLock()
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # At once, so that a file without a complete first line is never a journal
            key = secrets.token_hex(32)
            head = {"format": FORMAT, "version": VERSION, "key": key, "study": study}
            write_atomically(path, json.dumps(head, separators=(",", ":")) + "\n")
        owner = study_of(path)
        if owner != study:
            raise other_study(path)
        data = path.read_bytes()
        end = data.rfind(b"\n") + 1
        first, *lines = data[:end].split(b"\n")[:-1]
        self.key = bytes.fromhex(str(json.loads(first)["key"]))
        self.entries = [self._parsed(i, line) for i, line in enumerate(lines, start=2)]
        self._file = path.open("r+b", buffering=0)
        # An incomplete last line, from a killed server
        self._file.truncate(end)
        self._file.seek(end)

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        """The entry in a line, with all fields that its kind needs."""
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        fields = _FIELDS.get(str(entry.get("do"))) if isinstance(entry, dict) else None
        is_whole = fields is not None and all(
            name in entry and isinstance(entry[name], kind)
            for name, kind in fields.items()
        )
        if not is_whole or not _ITEM.fullmatch(entry.get("item", "t0")):
            raise InvalidStateError(
                f"{self.path}, line {number} is not an entry of a journal of labels. Restore the file from a backup, "
                "or move it to another folder. The study keeps all recorded scores."
            )
        return dict(entry)

    @property
    def labels(self) -> list[dict[str, Any]]:
        """The labels that the file had, without those of gold rows, and without those that were undone.

        Each has the `rater`, the name of the `label`, and the `prompt`, the `example`
        (its position) and the `texts` that were labeled.
        """
        responses: dict[str, dict[str, Any]] = {}
        labels: dict[tuple[str, str], dict[str, Any]] = {}
        for entry in self.entries:
            place = str(entry.get("rater")), str(entry.get("item"))
            if entry["do"] == "response":
                responses[entry["item"]] = entry
            elif entry["do"] == "undo":
                labels.pop(place, None)
            elif entry["do"] == "label" and entry["item"] in responses:
                of = responses[entry["item"]]
                shown = {name: of[name] for name in ("prompt", "example", "texts")}
                labels[place] = {"rater": entry["rater"], "label": entry["label"], **shown}  # fmt: skip
        return list(labels.values())

    def append(self, entry: Mapping[str, Any], durable: bool = True) -> None:
        """Add an entry. `durable`: return only once it, and all before it, are on the disk.

        Raises:
            OSError: the file cannot be written, for example because the disk is full.
                It then has the same entries as before.
        """
        line = json.dumps(entry, separators=(",", ":")).encode("ascii") + b"\n"
        with self._lock:
            before = os.fstat(self._file.fileno()).st_size
            try:
                # A nearly full disk takes a part of the line, and then raises.
                while line:
                    line = line[self._file.write(line) :]
                if durable:
                    os.fsync(self._file.fileno())
            except OSError:
                self._file.truncate(before)
                self._file.seek(before)
                raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def study_of(path: Path) -> str | None:
    """The id of the study that a journal belongs to. None if there is no file.

    Raises:
        InvalidStateError: the file is not a journal of labels.
    """
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_HEAD)
    except FileNotFoundError:
        return None
    study = None
    try:
        head: Any = json.loads(line) if line.endswith(b"\n") else None
        is_right = head["format"] == FORMAT and head["version"] == VERSION
        bytes.fromhex(head["key"])
        study = head["study"]
    except (ValueError, RecursionError, TypeError, KeyError):
        is_right = False
    if not is_right or not isinstance(study, str):
        raise InvalidStateError(
            f"{path} is not a journal of labels, version {VERSION}, and was left unchanged. asktell saves labels in a "
            "file of this name. Move your file to another folder, or set another `output`."
        )
    return study


def other_study(path: Path) -> InvalidStateError:
    """The error for a journal that belongs to another study."""
    return InvalidStateError(
        f"{path} has the labels of another study, which was deleted or is in another storage. To continue that study, "
        "use its storage again. To label this study, move the file to another folder."
    )
