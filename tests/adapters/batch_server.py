"""A server of OpenAI's files and batches whose batches end as told: for tests of whatever submits some."""

import json
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from asktell_adapters.testing.llm_server import Reply, content

Ending = Literal["completed", "expired", "cancelled", "failed"]


@dataclass
class ServedBatch:
    """A batch on the server: `data` as the API shows it, and the requests of its input file."""

    data: dict[str, Any]
    requests: list[dict[str, Any]]


@dataclass
class Fault:
    """A scripted fault of one call: `reply` replaces the answer, after the call took effect or not."""

    reply: Reply
    with_effect: bool = False


@dataclass
class BatchServer:
    """Serves `/v1/files` and `/v1/batches` on a free local port; used in a `with` block.

    A batch stays in progress until `end` says how it ends.

    Attributes:
        answer: body of a request -> the reply to it; one with a status from 400 on goes
            to the error file.
        page: batches in one answer of the list.
        files: contents by id.
        batches: by id, oldest first.
        faults: what goes wrong next, by "POST /v1/files", "POST /v1/batches", "GET
            /v1/batches", "GET content".
        calls: method and path of what came.
    """

    answer: Callable[[dict[str, Any]], Reply] = lambda body: Reply()
    page: int = 100
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, ServedBatch] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    @property
    def base_url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> "BatchServer":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def end(
        self,
        batch: str | None = None,
        status: Ending = "completed",
        *,
        unfinished: Collection[int] = (),
        missing: Collection[int] = (),
        twice: Collection[int] = (),
        strangers: int = 0,
        garbage: bool = False,
        shuffled: bool = True,
    ) -> None:
        """End a batch, by default the newest.

        Args:
            batch: its id.
            status: how. A failed one has no files, as when its input is refused.
            unfinished: positions of requests that were not reached: they are in the
                error file of a batch that expired, and in no file of one that was
                cancelled.
            missing: positions of requests that are in no file.
            twice: positions of those that are in their file twice.
            strangers: answers to requests that were never made.
            garbage: add a line that is no JSON.
            shuffled: the files are not in the order of the requests.
        """
        with self._lock:
            served = self.batches[batch or list(self.batches)[-1]]
            served.data["status"] = status
            served.data[f"{status}_at"] = int(time.time())
            if status == "failed":
                error = {
                    "code": "token_limit_exceeded",
                    "message": "Enqueued token limit reached",
                    "line": None,
                }
                served.data["errors"] = {"object": "list", "data": [error]}
                return
            good: list[bytes] = []
            bad: list[bytes] = []
            for position, request in enumerate(served.requests):
                if position in missing or (
                    status == "cancelled" and position in unfinished
                ):
                    continue
                reply = self.answer(request["body"])
                line: dict[str, Any] = {
                    "id": f"r{position}",
                    "custom_id": request["custom_id"],
                    "error": None,
                }
                if position in unfinished:
                    line["response"] = None
                    line["error"] = {
                        "code": "batch_expired",
                        "message": "This request could not be executed.",
                    }
                else:
                    body = (
                        content(reply, request["body"]["model"])
                        if reply.body is None
                        else json.loads(reply.body)
                    )
                    line["response"] = {
                        "status_code": reply.status,
                        "request_id": f"q{position}",
                        "body": body,
                    }
                lines = bad if position in unfinished or reply.status >= 400 else good
                lines += [json.dumps(line).encode()] * (2 if position in twice else 1)
            stranger = {
                "response": {"status_code": 200, "body": content(Reply(), "m")},
                "error": None,
            }
            good += [
                json.dumps({"custom_id": f"stranger-{n}", **stranger}).encode()
                for n in range(strangers)
            ]
            good += [b'{"custom_id": "t'] if garbage else []
            for name, lines in (("output_file_id", good), ("error_file_id", bad)):
                if shuffled:
                    random.Random(0).shuffle(lines)
                if lines:
                    served.data[name] = f"file-{name}-{served.data['id']}"
                    self.files[served.data[name]] = b"\n".join(lines) + b"\n"
            counts = served.data["request_counts"]
            counts.update(completed=len(good), failed=len(bad))

    def _upload(self, data: bytes) -> dict[str, Any]:
        id_ = f"file-{len(self.files)}"
        self.files[id_] = data
        shown = {
            "id": id_,
            "object": "file",
            "bytes": len(data),
            "created_at": 0,
            "filename": "f",
            "purpose": "batch",
        }
        return {**shown, "status": "processed"}

    def _create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        requests = [
            json.loads(line) for line in self.files[body["input_file_id"]].splitlines()
        ]
        id_ = f"batch-{len(self.batches)}"
        data = {
            "id": id_,
            "object": "batch",
            "status": "in_progress",
            "created_at": int(time.time()),
            "endpoint": body["endpoint"],
            "input_file_id": body["input_file_id"],
            "completion_window": body["completion_window"],
            "metadata": body.get("metadata"),
            "request_counts": {"total": len(requests), "completed": 0, "failed": 0},
            "output_file_id": None,
            "error_file_id": None,
        }
        self.batches[id_] = ServedBatch(data, requests)
        return data

    def _list(self, query: Mapping[str, list[str]]) -> dict[str, Any]:
        newest = [served.data for served in reversed(self.batches.values())]
        after = query.get("after", [""])[0]
        start = next(
            (place + 1 for place, data in enumerate(newest) if data["id"] == after), 0
        )
        rows = newest[
            start : start + min(self.page, int(query.get("limit", ["20"])[0]))
        ]
        last = rows[-1]["id"] if rows else None
        more = start + len(rows) < len(newest)
        return {
            "object": "list",
            "data": rows,
            "first_id": None,
            "last_id": last,
            "has_more": more,
        }


def _handler(owner: BatchServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # a head and a body are two writes

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            path = urlsplit(self.path).path
            if path == "/v1/files":
                self._serve(
                    "POST /v1/files",
                    lambda: owner._upload(_file(self.headers["Content-Type"], data)),
                )
            else:
                self._serve("POST /v1/batches", lambda: owner._create(json.loads(data)))

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            parts = url.path.split("/")[2:]
            if parts[0] == "files":
                self._serve("GET content", lambda: owner.files[parts[1]])
            elif len(parts) == 2:
                self._serve("GET /v1/batches/ID", lambda: owner.batches[parts[1]].data)
            else:
                self._serve("GET /v1/batches", lambda: owner._list(parse_qs(url.query)))

        def _serve(self, call: str, effect: Callable[[], Any]) -> None:
            with owner._lock:
                owner.calls.append(call)
                waiting = owner.faults.get(call, [])
                fault = waiting.pop(0) if waiting else None
                found = (
                    None if fault is not None and not fault.with_effect else effect()
                )
            if fault is None:
                self._send(
                    200,
                    found if isinstance(found, bytes) else json.dumps(found).encode(),
                )
            elif fault.reply.drop:
                self.close_connection = True
            else:
                self._send(
                    fault.reply.status,
                    fault.reply.body or json.dumps(content(fault.reply, "")).encode(),
                )

        def _send(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    return Handler


def _file(content_type: str, data: bytes) -> bytes:
    """The file of a form."""
    form = message_from_bytes(
        b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + data
    )
    for part in form.get_payload():
        if isinstance(part, str):
            continue
        if part.get_param("name", header="content-disposition") == "file":
            payload = part.get_payload(decode=True)
            return payload if isinstance(payload, bytes) else b""
    return b""
