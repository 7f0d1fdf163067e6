"""An OpenAI-compatible server with scripted replies and failures, for tests of clients that call an LLM over HTTP."""

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """A scripted reply to one request.

    Attributes:
        text: the content of the completion, or the message of the error object. None
            sends a completion whose content is null.
        status: the HTTP status. If it is 400 or more, the body is an error object as
            OpenAI's API sends it. Otherwise the body is a completion.
        headers: further HTTP headers.
        delay: seconds before the reply.
        drop: True closes the connection without a reply.
        body: bytes to send instead of the completion or the error object.
        endless: True sends the body again and again, until the client stops reading.
        code: the `code` of the error object.
        usage: the numbers of prompt tokens, completion tokens and cached tokens. None
            leaves the usage out of the completion.
    """

    text: str | None = "ok"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False
    body: bytes | None = None
    endless: bool = False
    code: str | None = None
    usage: tuple[int, int, int] | None = (10, 5, 0)

    @classmethod
    def rate_limited(cls, retry_after: float | str | None = None) -> "Reply":
        """A reply with the status 429 (too many requests) and an error object.

        Args:
            retry_after: the value of the header Retry-After, in seconds or as a date.
                None sends no such header.
        """
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return cls(status=429, headers=headers, code="rate_limit_exceeded")

    @classmethod
    def server_error(cls, status: int = 500) -> "Reply":
        """A reply with a status of 500 or more (the server has failed), and an error object.

        Args:
            status: the HTTP status, 500 or more.
        """
        return cls(status=status, code="server_error")

    @classmethod
    def malformed(cls, body: bytes = b'{"choices": [{"mess') -> "Reply":
        """A reply with the status 200, and a body that is not a chat completion.

        Args:
            body: the bytes to send.
        """
        return cls(body=body)


class FaultyLLMServer:
    """A server of `/v1/chat/completions` on a free local port. It sends the scripted replies, and then good replies.

    ```python
    with FaultyLLMServer([Reply.rate_limited(retry_after=1), Reply(text="yes")]) as server:
        llm = OpenAIChat("any", base_url=server.base_url)
    ```

    Use it in a `with` block. It can serve several clients at the same time. Requests
    get the scripted replies in the order of their arrival.

    Args:
        script: a reply for each of the first requests. Later requests get `Reply()`.
        api_key: the bearer token that requests must have. A request with another token
            gets the status 401. The error message repeats its token, as some servers
            do, so that you can test that your client hides it. None: no token is
            needed.
        echo: True: after the script, a reply repeats the content of the last message of
            the request, instead of "ok".

    Attributes:
        requests: the JSON bodies of all requests, in the order of their arrival.
        in_flight_peak: the largest number of requests at the same time.
    """

    def __init__(
        self,
        script: Iterable[Reply] = (),
        *,
        api_key: str | None = None,
        echo: bool = False,
    ) -> None:
        self._script = list(script)
        self._api_key = api_key
        self._echo = echo
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._in_flight = 0
        self.in_flight_peak = 0
        self.requests: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    @property
    def base_url(self) -> str:
        """The base URL for clients: the address of the server, with `/v1` at the end."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> "FaultyLLMServer":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _begin(self, body: dict[str, Any], token: str) -> Reply:
        """Record a request, and choose its reply."""
        with self._lock:
            self.requests.append(body)
            self._in_flight += 1
            self.in_flight_peak = max(self.in_flight_peak, self._in_flight)
            if self._api_key is not None and token != self._api_key:
                return Reply(
                    text=f"Incorrect API key provided: {token}",
                    status=401,
                    code="invalid_api_key",
                )
            if self._script:
                return self._script.pop(0)
            return (
                Reply(text=body["messages"][-1]["content"]) if self._echo else Reply()
            )

    def _end(self) -> None:
        with self._lock:
            self._in_flight -= 1


def _handler(owner: FaultyLLMServer) -> type[BaseHTTPRequestHandler]:
    """A handler of HTTP requests that gets its replies from the server object."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = owner._begin(
                body, self.headers.get("Authorization", "").removeprefix("Bearer ")
            )
            try:
                if reply.delay:
                    owner._stopping.wait(reply.delay)
                if reply.drop:
                    self.close_connection = True
                    return
                self._send(reply, body.get("model", ""))
            except OSError:
                # The client gave up waiting.
                self.close_connection = True
            finally:
                owner._end()

        def _send(self, reply: Reply, model: str) -> None:
            data = (
                reply.body
                if reply.body is not None
                else json.dumps(content(reply, model)).encode()
            )
            self.send_response(reply.status)
            for name, value in {
                "Content-Type": "application/json",
                **reply.headers,
            }.items():
                self.send_header(name, value)
            if reply.endless:
                self.close_connection = True
            else:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            while reply.endless and not owner._stopping.is_set():
                self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Write no log."""

    return Handler


def content(reply: Reply, model: str) -> dict[str, Any]:
    """Return the body of a reply as JSON data: a chat completion, or an error object.

    Args:
        reply: the reply.
        model: the name of the model in the chat completion.
    """
    if reply.status >= 400:
        return {
            "error": {
                "message": reply.text or "scripted fault",
                "type": "scripted",
                "code": reply.code,
            }
        }
    answer: dict[str, Any] = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": reply.text},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
    }
    if reply.usage is not None:
        prompt, completion, cached = reply.usage
        answer["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
    return answer
