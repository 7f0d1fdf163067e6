"""Reading usage from the bodies of responses, whole, streamed, cut, compressed and malformed."""

import gzip
import json
import zlib
from typing import Any

import pytest

from asktell_adapters.llms import usage
from asktell_adapters.llms.usage import (
    CUT,
    NO_USAGE,
    NO_USAGE_IN_STREAM,
    BodyReader,
    Usage,
    read_usage,
)
from tests.adapters.llms.stated_usage import ANTHROPIC, CHAT, RESPONSES


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (CHAT, Usage(10, 5, 4, 0, 2)),
        (RESPONSES, Usage(10, 5, 4, 0, 2)),
        (ANTHROPIC, Usage(10, 5, 4, 3, None)),
        # A proxy's fields of the other API count nothing twice
        ({**CHAT, "cache_read_input_tokens": 4}, Usage(10, 5, 4, 0, 2)),
        # Not stated is not 0
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(10, 5)),
        ({"input_tokens": 10, "output_tokens": 5}, Usage(10, 5)),
        # Reasoning that is in the total alone
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}, Usage(10, 30)),
        # Embeddings
        ({"prompt_tokens": 10, "total_tokens": 10}, Usage(10, 0)),
        (None, None),
    ],
)  # fmt: skip
def test_the_usage_of_each_api(stated: object, expected: Usage | None) -> None:
    assert read_usage(stated) == expected


@pytest.mark.parametrize(
    "stated",
    [
        7,
        {},
        {"prompt_tokens": -1},
        {"prompt_tokens": 1.5},
        {"prompt_tokens": "10"},
        {"prompt_tokens": True},
        {"prompt_tokens": 10**12},
        {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}},
        {"prompt_tokens": 1, "prompt_tokens_details": []},
    ],
)
def test_a_malformed_usage_is_an_error(stated: object) -> None:
    with pytest.raises(ValueError, match=r"tokens|usage"):
        read_usage(stated)


def events(*data: Any, done: bool = True) -> bytes:
    lines = [
        f"event: {item.get('type', 'message')}\ndata: {json.dumps(item)}\n\n"
        for item in data
    ]
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


CHAT_STREAM = events(
    {"model": "m-1", "choices": [{"delta": {"content": 'a "usage" of words'}}]},
    {"model": "m-1", "choices": [{"delta": {"content": "b"}}], "usage": None},
    {"model": "m-1", "choices": [], "usage": CHAT},
)
RESPONSES_STREAM = events(
    {"type": "response.created", "response": {"model": "m-1", "usage": None}},
    {"type": "response.output_text.delta", "delta": "a"},
    {"type": "response.completed", "response": {"model": "m-1", "usage": RESPONSES}},
    done=False,
)
MESSAGES_STREAM = events(
    {
        "type": "message_start",
        "message": {"model": "m-1", "usage": {**ANTHROPIC, "output_tokens": 1}},
    },
    {"type": "content_block_delta", "delta": {"text": "a"}},
    {"type": "message_delta", "usage": {"output_tokens": 2}},
    {"type": "message_delta", "usage": {"output_tokens": 5, "input_tokens": None}},
    {"type": "message_stop"},
    done=False,
)
STREAM = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}


def read(
    body: bytes,
    headers: dict[str, str],
    size: int = 1000,
    is_complete: bool = True,
) -> BodyReader:
    reader = BodyReader(headers)
    for start in range(0, len(body), size):
        reader.feed(body[start : start + size])
    reader.end(is_complete=is_complete)
    return reader


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (CHAT_STREAM, Usage(10, 5, 4, 0, 2)),
        (RESPONSES_STREAM, Usage(10, 5, 4, 0, 2)),
        (MESSAGES_STREAM, Usage(10, 5, 4, 3, None)),
        (CHAT_STREAM.replace(b"\n", b"\r\n"), Usage(10, 5, 4, 0, 2)),
    ],
)
def test_a_stream_in_parts_of_any_size(body: bytes, expected: Usage, size: int) -> None:
    reader = read(body, STREAM, size)
    assert (reader.usage, reader.model) == (expected, "m-1")
    assert (reader.is_whole, reader.problem) == (True, "")
    # The client may leave after the last event, before the end of the body
    assert read(body, STREAM, size, is_complete=False).is_whole


def test_a_stream_that_was_cut_is_not_whole() -> None:
    reader = read(MESSAGES_STREAM[:300], STREAM, is_complete=False)
    assert reader.usage == Usage(10, 1, 4, 3, None)
    assert (reader.is_whole, reader.problem) == (False, CUT)
    # Neither is it if the server ended it in good order
    assert not read(MESSAGES_STREAM[:300], STREAM).is_whole
    reader = read(CHAT_STREAM[:-20], STREAM, is_complete=False)
    assert (reader.is_whole, reader.problem) == (False, CUT)


def test_an_empty_usage_of_a_part_hides_nothing() -> None:
    parts = [{"type": "message", "usage": None}]
    done = {"response": {"usage": RESPONSES, "output": parts}}
    line = json.dumps(done, separators=(",", ":"))
    assert read(f"data: {line}\n\n".encode(), STREAM).usage == Usage(10, 5, 4, 0, 2)


def test_no_usage_is_unknown_and_says_why() -> None:
    assert read(events({"choices": []}), STREAM).problem == NO_USAGE_IN_STREAM
    assert read(b'{"choices": []}', JSON).problem == NO_USAGE
    assert read(b'{"choices": [], "usa', JSON, is_complete=False).problem == CUT
    assert read(b"<html>", {"content-type": "text/html"}).problem == NO_USAGE
    assert read(b"", {}).problem == NO_USAGE
    malformed = read(b'{"usage": {"prompt_tokens": -1}}', JSON)
    assert "malformed, because 'prompt_tokens' is -1" in malformed.problem
    assert read(b"[" * 100_000, JSON).problem == NO_USAGE


@pytest.mark.parametrize("size", [1, 10_000])
def test_a_malformed_usage_stays_unknown_in_parts_of_any_size(size: int) -> None:
    body = events({"usage": {"prompt_tokens": -1}}) + CHAT_STREAM
    reader = read(body, STREAM, size)
    assert (reader.usage, reader.is_whole) == (None, False)
    assert "malformed" in reader.problem


@pytest.mark.parametrize("size", [1, 10_000])
def test_compressed_bodies(size: int) -> None:
    body = json.dumps({"model": "m-1", "usage": CHAT}).encode()
    packed = {**JSON, "content-encoding": "gzip"}
    assert read(gzip.compress(body), packed, size).usage == Usage(10, 5, 4, 0, 2)
    packed["content-encoding"] = "deflate"
    assert read(zlib.compress(body), packed, size).usage == Usage(10, 5, 4, 0, 2)
    streamed = {**STREAM, "content-encoding": "gzip"}
    assert read(gzip.compress(CHAT_STREAM), streamed, size).is_whole
    for encoding, wrong in [("br", body), ("gzip", body)]:
        reader = read(wrong, {**JSON, "content-encoding": encoding}, size)
        assert not reader.is_whole
        assert "response" in reader.problem


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_MOST_BYTES", 1000)
    packed = {**JSON, "content-encoding": "gzip"}
    reader = read(gzip.compress(b" " * 10_000_000), packed, 10**6)
    assert "cannot be read" in reader.problem
    assert "more than 1000 bytes" in read(b" " * 5000, JSON).problem
