"""A study in a file, and a folder, that may only be read."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from asktell import BestFeasible, Selector, StorageError, Study

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that everybody can reach."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


# JAX's, where another test has loaded it
@pytest.mark.filterwarnings("ignore:.*os.fork\\(\\):RuntimeWarning")
# Python's from 3.12 on, where there are threads
@pytest.mark.filterwarnings("ignore:.*fork\\(\\):DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process without rights")
def test_reading_needs_no_right_to_write_although_a_decision_is_due(
    folder: Path,
) -> None:
    file, answer = folder / "s.db", folder / "answer"
    with Study.create(
        file, "s", Selector(["a", "b", "c"], BestFeasible("q"), 6, "csr-sh", examples=5)
    ) as study:
        while study.spent < 6:
            for trial in study.ask(10):
                study.tell(trial, [0.1 * int(trial.prompt_id)])
        expected = json.dumps(study.result().to_dict())
        assert study.done
    answer.touch()
    answer.chmod(0o666)
    file.chmod(0o444)
    folder.chmod(0o555)
    pid = os.fork()
    if not pid:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setuid(NOBODY)
            with Study.open(file, "s") as study:
                answer.write_text(json.dumps(study.result().to_dict()))
                assert study.done
                with pytest.raises(StorageError):
                    study.ask()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert status == 0
    assert answer.read_text() == expected
    assert [path.name for path in folder.iterdir() if path.name.startswith("s.db")] == [
        "s.db"
    ]
