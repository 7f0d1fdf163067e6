"""A server that does as it likes with a connection, and what it may do."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeAlias

from asktell_adapters.testing.llm_server import Reply, content

Behaviour: TypeAlias = Callable[[socket.socket], None]

_LONGEST = 20.0  # seconds of one connection
_MOST_SENT = 2**30  # bytes of one connection
_BLOCK = b"x" * 2**20
PAGES = "endless pages"


class Liar:
    """Reads a request, and hands the connection to a behaviour; used in a `with` block."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def base_url(self) -> str:
        """What to give a client as base URL."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def __enter__(self) -> "Liar":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(connection,), daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(_LONGEST)
        with connection, suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                if not (part := connection.recv(65536)):
                    return
                data += part
            self._behaviour(connection)


def _head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join(
        [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers, "", ""]
    ).encode()


def _flood(head: bytes, block: bytes, most: int = _MOST_SENT) -> Behaviour:
    def behave(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(most // len(block)):
            connection.sendall(block)

    return behave


def _drip(head: bytes, drop: bytes) -> Behaviour:
    def behave(connection: socket.socket) -> None:
        connection.sendall(head)
        end = time.monotonic() + _LONGEST
        while time.monotonic() < end:
            connection.sendall(drop)
            time.sleep(0.02)

    return behave


def _say(data: bytes) -> Behaviour:
    return lambda connection: connection.sendall(data)


def _wait(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def lie(body: bytes, *headers: str, status: str = "200 OK") -> Behaviour:
    """A whole answer."""
    return _say(
        _head(
            f"Content-Length: {len(body)}", "Connection: close", *headers, status=status
        )
        + body
    )


_CHUNKED, _CLOSED = _head("Transfer-Encoding: chunked"), _head("Connection: close")
_BOMB = gzip.compress(bytes(2**29), 6)
CONVERSATIONS: Mapping[str, Behaviour] = {
    "silent": _wait,
    "closes at once": lambda connection: None,
    "closes in the head": _say(b"HTTP/1.1 200 OK\r\nContent-"),
    "closes in the body": _say(_head("Content-Length: 1000") + b'{"choices": ['),
    "closes in a chunk": _say(_CHUNKED + b"400\r\n{"),
    "drips its head": _drip(b"HTTP/1.1 200 OK\r\n", b"X"),
    "drips headers": _drip(b"HTTP/1.1 200 OK\r\n", b"X-Y: z\r\n"),
    "drips its body": _drip(_CLOSED, b" "),
    "drips chunks": _drip(_CHUNKED, b"1\r\n \r\n"),
    "endless body": _flood(_CLOSED, _BLOCK),
    "endless blanks": _flood(_CLOSED, b" " * 2**20),
    "endless body, announced": _flood(_head("Content-Length: 999999999999999"), _BLOCK),
    "endless chunks": _flood(_CHUNKED, b"100000\r\n" + _BLOCK + b"\r\n"),
    "endless chunk header": _flood(_CHUNKED, _BLOCK),
    "endless headers": _flood(b"HTTP/1.1 200 OK\r\n", b"X-Y: z\r\n" * 10_000),
    "endless status line": _flood(b"HTTP/1.1 200 ", _BLOCK),
    "endless continues": _flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 2**27),
    "endless error body": _flood(_head("Connection: close", status="400 No"), _BLOCK),
    "gzip bomb": lie(_BOMB, "Content-Encoding: gzip"),
    "gzip bomb in gzip": lie(
        gzip.compress(gzip.compress(bytes(2**29))), "Content-Encoding: gzip, gzip"
    ),
    "gzip bomb of an error": lie(_BOMB, "Content-Encoding: gzip", status="400 No"),
    "gzip that is none": lie(b"{}", "Content-Encoding: gzip"),
    "deflate that is none": lie(b"{}", "Content-Encoding: deflate"),
    "not HTTP": _say(b"\0\1\2\3" * 100),
    "HTTP/9": _say(b"HTTP/9.9 200 OK\r\n\r\n{}"),
    "status 99999": lie(b"{}", status="99999 ?"),
    "status 0": lie(b"{}", status="000 ?"),
    "a length that is no number": _say(_head("Content-Length: -5") + b"{}"),
    "two lengths": _say(_head("Content-Length: 2", "Content-Length: 3") + b"{}"),
    "redirected to itself": lie(
        b"", "Location: /v1/chat/completions", status="307 There"
    ),
    "redirected nowhere": lie(b"", "Location: \\\\[", status="307 There"),
    "redirected to a file": lie(
        b"", "Location: file:///etc/hostname", status="302 There"
    ),
    **{
        f"try again after {text or 'nothing'}": lie(
            b"{}", f"Retry-After: {text}", status="429 No"
        )
        for text in (
            "nan",
            "inf",
            "-1",
            "1e400",
            "x",
            "",
            "Thu, 99 Foo 9999 99:99:99 GMT",
            "9" * 400,
        )
    },
}
"""What a server may do with a connection."""


def _completion(changes: Mapping[str, Any]) -> bytes:
    return json.dumps({**content(Reply("text"), "m"), **changes}).encode()


def _usage(prompt: str, completion: str = "5", details: str = "{}") -> bytes:
    whole = _completion({"usage": "USAGE"})
    usage = (
        f'{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":1,'
    )
    return whole.replace(
        b'"USAGE"', f'{usage}"prompt_tokens_details":{details}}}'.encode()
    )


def _choice(message: Any) -> bytes:
    return _completion(
        {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    )


LIES: Mapping[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "a number": b"5",
    "a text": b'"x"',
    "a list": b"[]",
    "an object": b"{}",
    "a page": b"<html>",
    "no UTF-8": b"\xff\xfe{",
    "deep lists": b"[" * 100_000,
    "deep lists that end": b'{"choices":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "a long number": b'{"choices":' + b"9" * 10_000 + b"}",
    "an error with status 200": b'{"error":{"message":"no"}}',
    **{
        f"choices {text}": _completion({"choices": json.loads(text)})
        for text in (
            "null",
            "{}",
            '{"0":{}}',
            "[]",
            "[null]",
            "[5]",
            '"text"',
            "5",
            "[[]]",
            "true",
            "[{}]",
        )
    },
    **{
        f"message {text}": _choice(json.loads(text))
        for text in (
            "null",
            "[]",
            "5",
            '"x"',
            "{}",
            '{"content":5}',
            '{"content":["x"]}',
            '{"content":{"a":1}}',
            '{"content":"\\ud800"}',
        )
    },
    **{
        f"usage {text}": _completion({"usage": json.loads(text)})
        for text in ("[]", "5", '"x"', "{}", "true", "[1]")
    },
    **{
        f"{text} prompt tokens": _usage(text)
        for text in (
            "-1000000",
            "1e400",
            "-1e400",
            "NaN",
            '"many"',
            "[]",
            "1.5",
            "true",
            "null",
            "9" * 5000,
            "9e99",
        )
    },
    **{
        f"{text} completion tokens": _usage("1", text)
        for text in ("-1000000", "1e400", "NaN", '"x"', "[1]", "1e300")
    },
    **{
        f"details {text}": _usage("1", "1", text)
        for text in (
            "[]",
            "5",
            '{"cached_tokens":-1000000}',
            '{"cached_tokens":1e400}',
            '{"cached_tokens":1000000000000}',
            '{"cached_tokens":"x"}',
        )
    },
    "finish reason {}": _completion(
        {"choices": [{"index": 0, "finish_reason": {}, "message": {"content": "x"}}]}
    ),
}
"""Whole bodies that are no sound completion."""

WORDS: Mapping[str, bytes] = {
    text: text.encode()
    for text in (
        "null",
        "[]",
        "5",
        '"x"',
        "{}",
        "[[",
        '{"data":null}',
        '{"data":5}',
        '{"data":{}}',
        '{"data":[null]}',
        '{"data":[5]}',
        '{"data":[{}]}',
        '{"data":[{"id":null,"created_at":"x"}]}',
        '{"data":[{"id":"b","created_at":4e9,"metadata":5}]}',
        '{"data":[{"id":"b","created_at":4e9,"metadata":{"asktell_worker":[],"asktell_study":"study"}}]}',
        '{"data":[{"id":"b","created_at":4e9,"status":"completed","output_file_id":5,"metadata":'
        '{"asktell_worker":"openai-batch-x","asktell_study":"study","asktell_lease":"x"}}]}',
        '{"id":5}',
        '{"id":null}',
        '{"id":{}}',
    )
}
"""Answers of the batch API that are not what was asked for."""
