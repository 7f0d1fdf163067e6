"""HTTP clients for OpenAI's SDK that believe no server: its answers have a limit, whatever they are compressed with."""

import importlib
import json
import os
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

from asktell._util.extras import import_extra

MOST_BYTES = 16 * 2**20
"""The most bytes of one answer in JSON, which takes several times its size when it is read."""

_PIECE = 2**16


def parsed(data: bytes) -> object:
    """What an answer in JSON says.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("too many brackets within each other") from None


def http_client(most_bytes: int = MOST_BYTES) -> Any:
    """A client for `openai.OpenAI` that reads answers of at most so many bytes, decompressed.

    A longer one, or one that cannot be decompressed, is taken for a refusal (413), which the SDK does not try again.
    """

    def read(response: Any) -> None:
        body = _Body(response, most_bytes)
        for part in response.stream:
            if not body.take(part):
                break
        response.stream.close()
        body.put_back(library)

    made, library = _client("DefaultHttpxClient", read)
    return made


def async_http_client(most_bytes: int = MOST_BYTES) -> Any:
    """The same for `openai.AsyncOpenAI`."""

    async def read(response: Any) -> None:
        body = _Body(response, most_bytes)
        parts: AsyncIterator[bytes] = response.stream
        async for part in parts:
            if not body.take(part):
                break
        await response.stream.aclose()
        body.put_back(library)

    made, library = _client("DefaultAsyncHttpxClient", read)
    return made


def _client(name: str, read: Any) -> tuple[Any, Any]:
    kind = getattr(import_extra("openai", "openai"), name)
    # httpx, or httpx2 in newer versions. A hook, unlike a transport, leaves proxies and certificates as they are.
    library = importlib.import_module(kind.__mro__[1].__module__.partition(".")[0])
    # Only what can be decompressed in pieces here.
    headers = {"Accept-Encoding": "gzip"}
    verify = _certificates(library.__name__, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))
    return kind(headers=headers, event_hooks={"response": [read]}, verify=verify), library


@cache
def _certificates(library: str, file: str | None, folder: str | None) -> ssl.SSLContext:
    """What the library trusts under these settings; read once, as that takes longer than many an exchange."""
    return importlib.import_module(library).create_ssl_context()  # type: ignore[no-any-return]


class _Body:
    """What has come of a response's body, decompressed."""

    def __init__(self, response: Any, most_bytes: int) -> None:
        self._response = response
        self._most = most_bytes
        self._data = bytearray()
        self._problem = ""
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "", "gzip", "deflate"):
            self._problem = f"in {encoding[:40]!r}, but was asked for gzip"
        self._unzip = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in ("gzip", "deflate") else None

    def take(self, part: bytes) -> bool:
        """Whether more of it is wanted."""
        try:
            for piece in self._pieces(part):
                self._data += piece
                if len(self._data) > self._most:
                    self._problem = f"of more than {self._most} bytes"
                    break
        except zlib.error as error:
            self._problem = f"that cannot be decompressed: {error}"
        return not self._problem

    def _pieces(self, part: bytes) -> Iterator[bytes]:
        if self._unzip is None:
            yield part
            return
        while not self._unzip.eof:
            piece = self._unzip.decompress(part, _PIECE)
            if not piece and not self._unzip.unconsumed_tail:
                return
            yield piece
            part = self._unzip.unconsumed_tail

    def put_back(self, library: Any) -> None:
        """Let the response have the body, for the SDK to read."""
        response = self._response
        response.headers.pop("content-encoding", None)
        if self._problem:
            response.status_code = 413
            response.headers["x-should-retry"] = "false"
            words = f"the server sent an answer {self._problem}"
            self._data = bytearray(json.dumps({"error": {"message": words}}).encode())
        response.stream = library.ByteStream(bytes(self._data))
