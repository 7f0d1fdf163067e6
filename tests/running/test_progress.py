"""The bar of a run counts evaluations, or the money that is bounded."""

import io
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.running import progress
from asktell.running.progress import in_three_digits


def shown(
    budget: Any, monkeypatch: pytest.MonkeyPatch, examples: int | None = None
) -> str:
    """What the bar looks like at the end."""
    import tqdm.auto

    text, made = io.StringIO(), tqdm.auto.tqdm
    monkeypatch.setattr(
        tqdm.auto,
        "tqdm",
        lambda **options: made(**{**options, "file": text, "ncols": 200}),
    )
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LOOKS", 0.0)
    selector = asktell.Selector(
        ["x", "yy", "zzz"], asktell.BestFeasible("a"), budget, examples=examples
    )
    asktell.run(
        selector, lambda prompt, example: {"a": len(prompt), "cost": 0.3}, progress=True
    )
    return text.getvalue().rstrip().rpartition("\r")[2]


def test_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "12/12" in shown(12, monkeypatch, 10)


def test_money(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = shown(asktell.Budget(cost=2.0), monkeypatch)
    assert re.search(
        r" 90%\|.*, 6 evaluations and a cost of 1.8 of 2, 0 active, best", bar
    )
    assert "100000000" not in bar


def test_more_money_than_there_was(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = shown(asktell.Budget(cost=0.2), monkeypatch, 10)
    assert re.search(r"100%\|.*1 of 30 evaluations and a cost of 0.3 of 0.2", bar)


@pytest.mark.parametrize(
    ("score", "words"),
    [(0.5, "a 0.500"), (2.0, "a 2.00"), (123.4, "a 123]"), (1234.5, "a 1,234")],
)
def test_a_score_has_digits_also_where_they_are_zero(
    score: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tqdm.auto

    text, made = io.StringIO(), tqdm.auto.tqdm
    monkeypatch.setattr(
        tqdm.auto,
        "tqdm",
        lambda **options: made(**{**options, "file": text, "ncols": 200}),
    )
    selector = asktell.Selector(
        ["x", "yy"], asktell.BestFeasible("a"), 4, "uniform", examples=2
    )
    asktell.run(selector, lambda prompt, example: score, progress=True, repeatable=True)
    assert f": {words}" in text.getvalue()
    assert in_three_digits(0.0) == "0.00"
    assert in_three_digits(0.00009634) == "0.0000963"


class _Broken:
    """A bar that raises in one of its methods."""

    n = 0

    def __init__(self, method: str) -> None:
        self._method = method
        self._do("__init__")

    def _do(self, method: str) -> None:
        if method == self._method:
            raise OSError("the terminal is gone")

    def update(self, n: float) -> None:
        self._do("update")

    def set_postfix_str(self, text: str) -> None:
        self._do("set_postfix_str")

    def close(self) -> None:
        self._do("close")


class _RaisingHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("the handler is broken")


@pytest.mark.parametrize("method", ["__init__", "update", "set_postfix_str", "close"])
@pytest.mark.parametrize("logs", [True, False])
def test_a_bar_that_raises_is_noted_once_and_the_run_goes_on(
    method: str,
    logs: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    import tqdm.auto

    monkeypatch.setattr(tqdm.auto, "tqdm", lambda **options: _Broken(method))
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LOOKS", 0.0)
    if not logs:
        handler = _RaisingHandler()
        monkeypatch.setattr(logging.getLogger("asktell"), "handlers", [handler])
    selector = asktell.Selector(["x", "y"], asktell.BestFeasible("a"), 12, examples=10)
    asktell.run(selector, lambda prompt, example: 0.5, progress=True, repeatable=True)
    assert selector.spent == 12
    if logs:
        (message,) = caplog.messages
        assert "goes on without its progress bar" in message
        assert "OSError: the terminal is gone" in message
        assert caplog.records[0].filename == "progress.py"


RUN = """
import asktell, os, sys
{how}
s = asktell.Selector(["a", "b"], asktell.BestFeasible("acc"), 40, examples=20)
asktell.run(s, lambda p, e: .5)
open(sys.argv[1], "w").write(str(s.spent))
"""


@pytest.mark.parametrize(
    "how",
    [
        "sys.stderr = sys.stdout = None",
        "sys.stderr.close()",
        "os.close(2)",
        "reading, writing = os.pipe(); os.dup2(writing, 2); os.close(reading)",
        "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)",
    ],
)
def test_a_run_needs_no_stderr(how: str, tmp_path: Path) -> None:
    if "/dev/full" in how and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    subprocess.run(
        [sys.executable, "-c", RUN.format(how=how), str(tmp_path / "spent")],
        capture_output=True,
        timeout=120,
    )
    assert (tmp_path / "spent").read_text() == "40"
