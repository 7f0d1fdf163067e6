"""A storage of your own: everything in one JSON file, for small studies and several processes (Linux and macOS).

The page docs/how-to/bring-your-own.md shows its test. asktell.studies.storages.AbstractStorage
documents each method.
"""

import fcntl
import json
import time
from contextlib import contextmanager
from pathlib import Path

from asktell.errors import StorageError, StudyExistsError, StudyNotFoundError
from asktell.extend import write_atomically
from asktell.studies.storages import MOST, AbstractStorage, Line, Snapshot


class OneFile(AbstractStorage):
    """All studies in one JSON file, which is rewritten as a whole under a lock."""

    def __init__(self, path):
        self.path = Path(path)

    @contextmanager
    # Excludes other threads and processes. After an exception nothing has changed
    def locked(self, key=None):
        with open(f"{self.path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            data = (
                json.loads(self.path.read_text())
                if self.path.exists()
                else {"next": 1, "studies": {}}
            )
            if key is not None and str(key) not in data["studies"]:
                raise StudyNotFoundError(f"The study was deleted from {self.path}.")
            yield data if key is None else data["studies"][str(key)]
            write_atomically(self.path, json.dumps(data))

    def create(self, name, document, lines=(), details=()):
        with self.locked() as data:
            if any(study["name"] == name for study in data["studies"].values()):
                raise StudyExistsError(
                    f"There is a study {name!r} in {self.path} already."
                )
            key, data["next"] = data["next"], data["next"] + 1
            study = {
                "name": name,
                "document": document.hex(),
                "lines": list(lines),
                "snapshot": None,
            }
            study["details"] = {str(trial): text for trial, text in details}
            data["studies"][str(key)] = study
            return key

    def find(self, name):
        with self.locked() as data:
            names = {study["name"]: int(key) for key, study in data["studies"].items()}
        if name not in names:
            raise StudyNotFoundError(
                f"There is no study {name!r} in {self.path}, only {list(names)}."
            )
        return names[name]

    def names(self):
        with self.locked() as data:
            return [study["name"] for study in data["studies"].values()]

    def delete(self, name):
        key = self.find(name)
        with self.locked() as data:
            data["studies"].pop(str(key), None)

    def document(self, key):
        with self.locked(key) as study:
            return bytes.fromhex(study["document"])

    def read(self, key, after, most=MOST):
        with self.locked(key) as study:
            return Changes(study).read(after)[:most]

    def details(self, key, trials):
        with self.locked(key) as study:
            stored = study["details"]
            return {
                trial: stored[str(trial)] for trial in trials if str(trial) in stored
            }

    def snapshot(self, key):
        with self.locked(key) as study:
            return Changes(study).head()

    @contextmanager
    def transaction(self, key, durable):
        with self.locked(key) as study:
            yield Changes(study)

    def now(self):
        return time.time()

    def check(self, patience=1.0):
        with self.locked():
            pass

    def close(self):
        pass


class Changes:
    """One study of the file, inside a transaction."""

    def __init__(self, study):
        self.study = study

    def read(self, after):
        return [
            Line(after + n, text)
            for n, text in enumerate(self.study["lines"][after:], start=1)
        ]

    def append(self, line):
        if line.position != len(self.study["lines"]) + 1:
            raise StorageError(f"There is a line {line.position} already.")
        self.study["lines"].append(line.text)

    def attach(self, trial, details):
        if str(trial) in self.study["details"]:
            raise StorageError(f"Trial {trial} has details already.")
        self.study["details"][str(trial)] = details

    def now(self):
        return time.time()

    def head(self):
        saved = self.study["snapshot"]
        return saved and Snapshot(
            saved[0], bytes.fromhex(saved[1]), tuple(map(bytes.fromhex, saved[2]))
        )

    def save(self, position, head, part, replace=False):
        parts = (
            self.study["snapshot"][2] if self.study["snapshot"] and not replace else []
        )
        self.study["snapshot"] = [position, head.hex(), [*parts, part.hex()]]
