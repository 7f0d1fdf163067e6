"""Limits on what is read of a server's response. OpenAI's SDK reads the bodies of errors and pages to their end.

The functions are hooks for responses, which the SDK's HTTP client calls before it reads a
body.
"""

import time
from typing import Any

MOST_BYTES = 16 * 2**20
"""Bytes of the longest reply that is read. In memory, parsed JSON takes several times its size."""

MOST_ERROR_BYTES = 2**16
"""Bytes that are read of the body of an error or a redirect. Messages have about a thousand characters of it."""

ENCODINGS = "gzip, deflate"
"""The compressions that a server may use. They shrink data to a thousandth at most."""

_MOST_PACKED_ERROR_BYTES = 2**12


async def limit_error(response: Any) -> None:
    """Cut the body of an error or a redirect. Other bodies are left for the caller to read."""
    most = _most_of_error(response)
    if not response.is_success:
        data = bytearray()
        async for part in response.stream:
            data += part
            if len(data) > most:
                break
        await response.stream.aclose()
        _replace_body(response, bytes(data[:most]))


class SyncLimits:
    """The hooks of a client without an event loop, which has no other limit on the time of a call.

    Args:
        seconds: the longest time in which a body is read.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def limit_error(self, response: Any) -> None:
        """Cut the body of an error or a redirect. Other bodies are left for the caller to read."""
        most = _most_of_error(response)
        if not response.is_success:
            data = self._start(response.stream, most)
            _replace_body(response, data[:most])

    def limit_all(self, response: Any) -> None:
        """Cut the body of an error or a redirect, and read any other body.

        Raises:
            ValueError: the body is too long, or does not come in time.
        """
        self.limit_error(response)
        if response.is_success:
            data = self._start(response.stream, MOST_BYTES)
            if len(data) > MOST_BYTES:
                raise ValueError(f"a response of more than {MOST_BYTES} bytes")
            _replace_body(response, data)

    def _start(self, stream: Any, most: int) -> bytes:
        """The first `most` bytes of a stream, and a few more if there are any."""
        data, until = bytearray(), time.monotonic() + self._seconds
        for part in stream:
            data += part
            if len(data) > most:
                break
            if time.monotonic() > until:
                raise ValueError(f"a response that took over {self._seconds:g} s")
        stream.close()
        return bytes(data)


def _most_of_error(response: Any) -> int:
    """The bytes that are read if the response is an error.

    Raises:
        ValueError: the response is compressed in a way that the client did not offer. A
            few bytes of it may become gigabytes.
    """
    used = response.headers.get("content-encoding", "identity").strip().lower()
    if used in ("", "identity"):
        return MOST_ERROR_BYTES
    if used not in ENCODINGS.split(", "):
        raise ValueError(
            f"a response with the encoding {used[:60]!r}, but only {ENCODINGS} were offered"
        )
    return _MOST_PACKED_ERROR_BYTES


def _replace_body(response: Any, data: bytes) -> None:
    # httpx or httpx2, whichever the SDK uses, has the class of such a stream.
    response.stream = type(response)(200, content=data).stream
