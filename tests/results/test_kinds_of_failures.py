"""Failures are grouped by the exception's type and HTTP status, then by text without ids: the same mistake once."""

import base64
import uuid
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Selector
from asktell.problem.words import in_words
from asktell.results.entries import kind_of


def _random(n: int, seed: int) -> bytes:
    return uuid.uuid5(uuid.NAMESPACE_DNS, str(seed)).bytes[:n]


SAME = {
    "a UUID": lambda i: f"denied (request {uuid.UUID(bytes=_random(16, i))})",
    "a UUID in hex": lambda i: f"denied (request {_random(16, i).hex()})",
    "short hex": lambda i: f"denied: {_random(4, i).hex()}, try again",
    "base64": lambda i: f"bad token {base64.b64encode(_random(16, i)).decode()} here",
    "base64 for URLs": lambda i: (
        f"req_{base64.urlsafe_b64encode(_random(12, i)).decode()} failed"
    ),
    "an address": lambda i: f"<Client object at {hex(140_000_000_000 + i)}> is closed",
    "numbers": lambda i: f"line {i} column {i / 7} (char {-i})",
    "a list of numbers": lambda i: f"shape {tuple(range(i + 1))} is wrong",
    "a time": lambda i: f"2026-11-{i + 1:02}T16:15:{i:02}.{i}+00:00 limit exceeded",
    "quotes": lambda i: f"no number in {['it is', 'say “x”', 'a' * 9][i % 3]!r}, sorry",
    "both quotes": lambda i: f"no JSON in {chr(34) + 'don' + chr(39) + 't' * i!r}.",
    "long quotes": lambda i: f"no JSON in {'word ' * 200 * i!r}, sorry",
    "quotes that were cut off": lambda i: f"no JSON in {chr(39)}Sure! {'so ' * i} the",
    "an echo": lambda i: f"no JSON in the response: {'well ' * i} I think\nso",
    "an object": lambda i: f"refused - {{'id': {i}, 'x': word{'s' * i}}}",
    "a page": lambda i: f"refused <!doctype html><p>{'sorry ' * i}",
    "a traceback": lambda i: (
        f"exit code {i}: Traceback (most recent call last):\n"
        f'  File "/tmp/{i}.py", line {i}, in f{i}\n    call{"x" * i}()\nKeyError: {i!r}'
    ),
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_reasons_that_differ_in_ids_are_one_kind(text: Any) -> None:
    assert len({kind_of(f"RuntimeError: {text(i)}") for i in range(1, 20)}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("KeyError: 'x'", "TypeError: 'x'"),
        ("RuntimeError: key denied", "RuntimeError: no quota"),
        ("APIError (HTTP 401): try again", "APIError (HTTP 429): try again"),
        ("E: Error code: 401 - {}", "E: Error code: 429 - {}"),
        ("E: failed with the status 500", "E: failed with the status 503"),
        ("E: the key can't be read", "E: the file can't be read"),
        (
            'E: exit code 1:\n  File "a.py"\nKeyError: 1',
            'E: exit code 1:\n  File "a.py"\nTypeError: 1',
        ),
        ("E: ContextWindowExceededError", "E: ContentPolicyViolationError"),
    ],
)
def test_other_mistakes_are_other_kinds(one: str, other: str) -> None:
    assert kind_of(one) != kind_of(other)


@pytest.mark.parametrize(
    "unit", ["'", '"', '"\\', "`x", "a'b", "' ", "aB", "\n", "response ", '  File "']
)
def test_a_kind_is_short_and_takes_linear_time(unit: str) -> None:
    # With a quadratic pattern, this would take hours
    assert len(kind_of("E: " + unit * 1_000_000)) <= 300


class _Response:
    status_code = 503


class _StatusError(Exception):
    def __init__(self, text: str, **attributes: Any) -> None:
        super().__init__(text)
        vars(self).update(attributes)


class _BrokenError(Exception):
    @property
    def status_code(self) -> int:
        raise RuntimeError("no response")


def _caused() -> Exception:
    error = ValueError("the task failed")
    error.__cause__ = _StatusError("denied", status_code=401)
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (_StatusError("denied", status_code=401), "_StatusError (HTTP 401): denied"),
        (_StatusError("denied", code=429), "_StatusError (HTTP 429): denied"),
        (_StatusError("", response=_Response()), "_StatusError (HTTP 503)"),
        (_StatusError("status 401", status_code=401), "_StatusError: status 401"),
        (
            _StatusError("denied, request 9f401a-b", status_code=401),
            "_StatusError (HTTP 401): denied, request 9f401a-b",
        ),
        (_StatusError("denied", code="no_key"), "_StatusError: denied"),
        (_StatusError("denied", code=True), "_StatusError: denied"),
        (SystemExit(1), "SystemExit: 1"),
        (_BrokenError("denied"), "_BrokenError: denied"),
        (_caused(), "ValueError (HTTP 401): the task failed"),
    ],
)
def test_the_reason_has_the_http_status(error: Exception, text: str) -> None:
    assert in_words(error) == text


def test_the_result_groups_what_a_run_groups() -> None:
    selector = Selector(["a", "b"], BestFeasible("acc"), 40, examples=20)

    def evaluate(prompt: str, example: int) -> float:
        if example % 3:
            status = 401 + example % 2
            raise _StatusError(f"denied, request {uuid.uuid4()}", status_code=status)
        return 1.0

    asktell.run(selector, evaluate, progress=False, max_failures_in_a_row=None)
    found = {group.reason.split(":")[0] for group in selector.result().failures}
    assert found == {"_StatusError (HTTP 401)", "_StatusError (HTTP 402)"}
    assert len(selector.result().failures) == 2
