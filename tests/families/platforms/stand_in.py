"""A server in the place of a platform's: it keeps what it is sent, and answers by the request's path."""

import gzip
import json
import re
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Answer = Callable[[dict[str, Any], list[str]], Any]
"""What a request with this JSON body, and these groups of its path, is answered: JSON data, or a status."""


class Request(NamedTuple):
    """What came."""

    method: str
    path: str
    body: Any


class StandIn:
    """A `with` block in which the server runs, at `url`; a request that no pattern of "METHOD /path" fits gets `{}`."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.requests: list[Request] = []
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.headers.get("Content-Encoding") == "gzip":
                    given = gzip.decompress(given)
                body = (
                    json.loads(given)
                    if "json" in self.headers.get("Content-Type", "") and given
                    else {}
                )
                path = self.path.split("?")[0]
                stand_in.requests.append(Request(self.command, path, body or given))
                found: Any = {}
                for pattern, answer in answers.items():
                    if fits := re.fullmatch(pattern, f"{self.command} {path}"):
                        found = answer(body, list(fits.groups()))
                        break
                status = found if isinstance(found, int) else 200
                text = (
                    found
                    if isinstance(found, str)
                    else json.dumps({} if isinstance(found, int) else found)
                )
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def sent(self, method: str, pattern: str) -> list[Any]:
        """The bodies of the requests whose whole path fits."""
        return [
            each.body
            for each in self.requests
            if each.method == method and re.fullmatch(pattern, each.path)
        ]

    def __enter__(self) -> "StandIn":
        threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


ROWS = ["Lima", "Oslo", "Rome", "Bern", "Riga", "Doha", "Baku", "Kyiv", "Male", "Lome"]
"""Of the data set: what is asked, and what the answer is."""
_SINCE = {"createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z"}


def opik() -> StandIn:
    """Opik's server, with the data set."""
    dataset = {"id": _uuid(99), "name": "capitals"}
    items = [
        {"id": _uuid(i), "source": "sdk", "data": {"question": row, "answer": row}}
        for i, row in enumerate(ROWS)
    ]
    page = {
        "page": 1,
        "size": len(items),
        "total": len(items),
        "content": items,
        "columns": [],
    }
    return StandIn(
        {
            r"POST /v1/private/datasets/retrieve": lambda body, _: dataset,
            r"GET /v1/private/datasets/[\w-]+/items": lambda body, _: page,
            r"GET /v1/private/datasets/[\w-]+": lambda body, _: dataset,
            r"POST /v1/private/datasets/items/stream": lambda body, _: "\n".join(
                map(json.dumps, items)
            ),
        }
    )


def langfuse() -> StandIn:
    """Langfuse's server, with the data set."""
    project = {
        "id": "p",
        "name": "p",
        "organization": {"id": "o", "name": "o"},
        "metadata": {},
    }
    common = {
        "status": "ACTIVE",
        "metadata": {},
        "datasetId": "d",
        "datasetName": "capitals",
        "mediaReferences": [],
    }
    items = [
        {
            "id": f"item-{i}",
            "input": {"question": row},
            "expectedOutput": row,
            **common,
            **_SINCE,
        }
        for i, row in enumerate(ROWS)
    ]
    meta = {"page": 1, "limit": 50, "totalItems": len(items), "totalPages": 1}
    return StandIn(
        {
            "GET /api/public/projects": lambda body, _: {"data": [project]},
            r"GET /api/public/v2/datasets/\w+": lambda body, _: (
                {
                    "id": "d",
                    "name": "capitals",
                    "projectId": "p",
                    "metadata": {},
                    **_SINCE,
                }
            ),
            "GET /api/public/dataset-items": lambda body, _: {
                "data": items,
                "meta": meta,
            },
        }
    )


def phoenix() -> StandIn:
    """Phoenix's server, with the data set; it keeps experiments, and refuses a run that was there with a success."""
    dataset = {
        "id": "d",
        "name": "capitals",
        "metadata": {},
        "example_count": len(ROWS),
    }
    rows = [
        {
            "id": f"row-{i}",
            "input": {"question": row},
            "output": {"answer": row},
            "metadata": {},
        }
        for i, row in enumerate(ROWS)
    ]
    experiments: list[dict[str, Any]] = []
    runs: set[tuple[str, str, int]] = set()

    def create(body: dict[str, Any], _: list[str]) -> Any:
        made = {
            "id": f"x{len(experiments)}",
            "metadata": body["metadata"],
            "dataset_version_id": body["version_id"],
        }
        experiments.append(made)
        return {"data": made}

    def run(body: dict[str, Any], groups: list[str]) -> Any:
        key = (groups[0], body["dataset_example_id"], body["repetition_number"])
        if key in runs:
            return 409
        if not body.get("error"):
            runs.add(key)
        return {"data": {"id": "-".join(map(str, key))}}

    return StandIn(
        {
            "GET /v1/datasets": lambda body, _: {
                "data": [dataset],
                "next_cursor": None,
            },
            r"GET /v1/datasets/\w+": lambda body, _: {"data": dataset},
            r"GET /v1/datasets/\w+/examples": lambda body, _: (
                {"data": {"dataset_id": "d", "version_id": "v", "examples": rows}}
            ),
            r"GET /v1/datasets/\w+/experiments": lambda body, _: {
                "data": experiments,
                "next_cursor": None,
            },
            r"POST /v1/datasets/\w+/experiments": create,
            r"POST /v1/experiments/(\w+)/runs": run,
            "POST /v1/experiment_evaluations": lambda body, _: {
                "data": {"id": "evaluation"}
            },
        }
    )


def _uuid(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012d}"
