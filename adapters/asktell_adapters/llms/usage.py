"""The tokens of a response, as it has them in OpenAI's chat completions and responses, and in Anthropic's messages.

Everything comes from another machine, so it is checked before it is counted.
"""

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import msgspec

from asktell.extend import short

NO_USAGE = "a response had no usage"
NO_USAGE_IN_STREAM = (
    "a stream had no usage. Let the agent ask for it: OpenAI's API wants stream_options = "
    '{"include_usage": true} in the request'
)
CUT = "a response was cut before its end"

# In one request. A larger number is a server's mistake, and would become a cost.
_MOST_TOKENS = 10**9
# Of a response that is not a stream, or of one event. OpenAI's last event has the whole response.
_MOST_BYTES = 64 * 2**20


class Usage(NamedTuple):
    """The tokens of one response.

    Attributes:
        read: number of tokens read, with the tokens in a prefix cache.
        written: number of tokens written, with the tokens of the reasoning.
        cached: number of tokens read from the prefix cache. None if the server does not
            count it.
        cache_written: number of tokens read that were also written to the prefix cache.
        reasoning: number of tokens written as reasoning. None if the server does not
            count it.
    """

    read: int
    written: int
    cached: int | None = None
    cache_written: int = 0
    reasoning: int | None = None


NOTHING = Usage(0, 0, 0, 0, 0)
"""The usage of a request that was refused."""


def field_of(
    thing: object, key: str, kind: type | tuple[type, ...], *, needed: bool = False
) -> Any:
    """The value of a key in a JSON object, or None if there is no value and none is needed.

    Raises:
        ValueError: the value is of another type, or is needed and missing.
    """
    value = thing.get(key) if isinstance(thing, dict) else None
    if value is None and not needed:
        return None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{key!r} is {short(value)}")
    return value


def read_usage(usage: object) -> Usage | None:
    """The tokens in the object `usage` of a response. None if there is no such object.

    Raises:
        ValueError: it is malformed.
    """
    if usage is None:
        return None
    if not isinstance(usage, dict):
        raise ValueError(f"'usage' is {short(usage)}")
    # Proxies add the fields of the other API, whose numbers mean something else
    if "prompt_tokens" not in usage and "input_tokens" in usage:
        if "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage:
            return _of_anthropic(usage)
        return _of_openai(usage, "input", "output")
    return _of_openai(usage, "prompt", "completion")


def _of_openai(usage: Mapping[str, Any], read_name: str, written_name: str) -> Usage:
    """The tokens in OpenAI's `usage`. Its fields have other names in chat completions."""
    read = _tokens(usage, f"{read_name}_tokens", needed=True)
    cached = _detail(usage, f"{read_name}_tokens_details", "cached_tokens")
    if cached is not None and cached > read:
        raise ValueError(
            f"'cached_tokens' is {cached}, more than the {read} '{read_name}_tokens'"
        )
    # Some servers count the tokens of the reasoning in the total alone, and charge for
    # them.
    written = max(
        _tokens(usage, f"{written_name}_tokens"), _tokens(usage, "total_tokens") - read
    )
    reasoning = _detail(usage, f"{written_name}_tokens_details", "reasoning_tokens")
    return Usage(read, written, cached, 0, reasoning)


def _of_anthropic(usage: Mapping[str, Any]) -> Usage:
    """The tokens in Anthropic's `usage`, whose `input_tokens` are those outside of the cache only."""
    cached = _tokens(usage, "cache_read_input_tokens")
    cache_written = _tokens(usage, "cache_creation_input_tokens")
    fresh = _tokens(usage, "input_tokens", needed=True)
    written = _tokens(usage, "output_tokens")
    reasoning = _detail(usage, "output_tokens_details", "thinking_tokens")
    return Usage(
        fresh + cached + cache_written, written, cached, cache_written, reasoning
    )


def _detail(usage: Mapping[str, Any], details: str, key: str) -> int | None:
    """A number of tokens in an object inside of the usage. None if it is missing."""
    inner = field_of(usage, details, dict)
    return None if inner is None or inner.get(key) is None else _tokens(inner, key)


def _tokens(usage: object, key: str, *, needed: bool = False) -> int:
    """Read a number of tokens. 0 if it is missing and not needed.

    Raises:
        ValueError: it is not a whole number, or implausibly large.
    """
    count = field_of(usage, key, (int, float), needed=needed) or 0
    if not 0 <= count <= _MOST_TOKENS or count != int(count):
        raise ValueError(
            f"{key!r} is {count!r:.40}, not a whole number of at most {_MOST_TOKENS}"
        )
    return int(count)


class _Part(msgspec.Struct):
    """The part of a response, or of an event of a stream, that usage is read from. The rest is not decoded."""

    type: Any = None
    model: Any = None
    usage: Any = None
    response: Any = None  # in events of OpenAI's responses
    message: Any = None  # in the first event of Anthropic's messages


_decoder = msgspec.json.Decoder(_Part)


@final
class BodyReader:
    """Reads usage from the bytes of a response while they pass through. The bytes are not changed.

    Args:
        headers: the headers of the response, with names in lower case.

    Attributes:
        model: the model that the response names, or None.
        usage: the tokens so far, or None. The first event of Anthropic's stream already
            has the tokens that the model reads.
        is_whole: whether `usage` counts the whole response.
        problem: why `usage` does not count the whole response, in words. Empty if it
            does, and before the end.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        self._is_stream = kind == "text/event-stream"
        self._encoding = headers.get("content-encoding", "identity").strip().lower()
        self._unpack = _unpacker(self._encoding)
        self._buffer = bytearray()
        # Fields of all events so far, of which the latest count
        self._merged: dict[str, Any] = {}
        self._has_last = False
        # Whether the usage is that of Anthropic's first event, before the response
        self._is_beginning = False
        self.model: str | None = None
        self.usage: Usage | None = None
        self.is_whole = False
        self.problem = ""
        if self._unpack is None:
            self.problem = (
                f"a response had the unknown encoding {self._encoding[:40]!r}"
            )

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the body."""
        if self._unpack is None or self.problem:
            return
        try:
            self._buffer += self._unpack(data)
        except (zlib.error, ValueError):
            self._give_up("a response was compressed in a way that cannot be read")
            return
        if len(self._buffer) > _MOST_BYTES:
            self._give_up(f"a response had more than {_MOST_BYTES} bytes")
        elif self._is_stream:
            *lines, rest = self._buffer.split(b"\n")
            self._buffer = rest
            for line in lines:
                self._line(line)

    def end(self, *, is_complete: bool) -> None:
        """Read what is left, at the end of the body.

        Args:
            is_complete: whether the server has sent all of it.
        """
        if self._is_stream:
            self._line(self._buffer)
            self.is_whole = self.usage is not None and (
                self._has_last if not is_complete else not self._is_beginning
            )
            nothing = NO_USAGE_IN_STREAM
        else:
            # A body that was cut is no JSON
            self._part(self._buffer, is_event=False)
            self.is_whole = self.usage is not None
            nothing = NO_USAGE
        if not self.is_whole and not self.problem:
            self.problem = nothing if is_complete else CUT
        self._buffer = bytearray()

    def _give_up(self, problem: str) -> None:
        self.problem = problem
        self._buffer = bytearray()

    def _line(self, line: bytes | bytearray) -> None:
        """Read a line of a stream. Most events have no usage, and are not decoded."""
        if self.problem or not line.startswith(b"data:"):
            return
        data = line[5:].strip()
        if data == b"[DONE]" or b'"message_stop"' in data[:200]:
            self._has_last = True
        elif data.count(b'"usage"') > data.count(b'"usage":null'):
            self._part(data, is_event=True)

    def _part(self, data: bytes | bytearray, *, is_event: bool) -> None:
        """Read a response, or an event of a stream."""
        try:
            part = _decoder.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return
        inner = part.response if part.response is not None else part.message
        inner = inner if isinstance(inner, dict) else {}
        usage = part.usage if part.usage is not None else inner.get("usage")
        model = part.model if part.model is not None else inner.get("model")
        if isinstance(model, str):
            self.model = model[:200]
        if not isinstance(usage, dict):
            return
        self._has_last |= is_event and isinstance(part.response, dict)
        stated = {name: value for name, value in usage.items() if value is not None}
        self._merged |= stated
        self._is_beginning = part.type == "message_start"
        try:
            self.usage = read_usage(self._merged)
        except ValueError as error:
            self.usage = None
            self._give_up(f"the usage of a response is malformed, because {error}")


def _unpacker(encoding: str) -> Any:
    """A function that unpacks the next bytes of a body. None if the encoding is unknown."""
    if encoding in ("", "identity"):
        return bytes
    if encoding in ("gzip", "x-gzip"):
        return _bounded(zlib.decompressobj(16 + zlib.MAX_WBITS))
    if encoding == "deflate":
        return _bounded(zlib.decompressobj())
    return None


def _bounded(unpacking: Any) -> Any:
    """A function that unpacks at most `_MOST_BYTES` at once: a few bytes may become gigabytes."""

    def unpack(data: bytes) -> bytes:
        unpacked: bytes = unpacking.decompress(data, _MOST_BYTES)
        if unpacking.unconsumed_tail:
            raise ValueError("too many bytes")
        return unpacked

    return unpack
