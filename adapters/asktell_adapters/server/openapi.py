"""The OpenAPI document. FastAPI makes it, and this module adds tokens, idempotency keys and errors."""

import gzip
import json
import re
from functools import cache
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi

from asktell_adapters.server.problems import MEDIA_TYPE

_ABOUT = "Studies of asktell: ask which prompt to evaluate next, tell its scores, read the result."
_DESCRIPTIONS = {
    400: "The body is not JSON.",
    401: "The token is missing or unknown.",
    403: "The token may only read, the request comes from another site's page, or the service has no token and the "
    "request comes from another machine.",
    404: "The study does not exist, or the trial is not pending. In the second case, "
    "`pending` has the ids of the pending trials.",
    408: "The body did not arrive in time.",
    409: "When a study is created: a study of this name exists. When scores are sent: other scores of the trial are "
    "recorded already.",
    413: "The body is too large.",
    415: "The body is not `application/json`.",
    422: "A value is invalid. `detail` has the value and the expected form. Nothing was changed.",
    429: "Too many requests with a wrong token. `Retry-After` is the number of seconds to wait.",
    500: "An unexpected error of the service.",
    501: "The selection method of the study needs a package that is not installed on the server.",
    503: "The storage is unavailable. A response with `Retry-After` is worth a retry. Nothing was changed.",
}
_IN_JSON = {"None": "null", "True": "true", "False": "false"}
_ALWAYS = (401, 403, 429, 500, 503)
_OPEN = ("/health",)
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Send a new key with each request, and the same key with its retries. A retry gets the first "
    "response and has no further effect. The latest 10,000 keys of each token (64 MiB of responses) are "
    "kept until the service ends.",
    "schema": {"type": "string", "maxLength": 200, "pattern": "^[!-~]+$"},
}


def describe(app: FastAPI, with_tokens: bool) -> None:
    """Complete the OpenAPI document of an application, which is made at its first use, and serve it.

    Args:
        app: the application.
        with_tokens: whether requests need a token.
    """

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            openapi = get_openapi(
                title=app.title,
                version=app.version,
                description=_ABOUT,
                routes=app.routes,
            )
            components = openapi.setdefault("components", {})
            # FastAPI describes its own errors, but the service responds with problem
            # details.
            for unused in ("HTTPValidationError", "ValidationError"):
                components["schemas"].pop(unused, None)
            if with_tokens:
                components["securitySchemes"] = {
                    "token": {"type": "http", "scheme": "bearer"}
                }
            for schema in components["schemas"].values():
                if "description" in schema:
                    schema["description"] = _for_clients(schema["description"])
            for path, operations in openapi["paths"].items():
                for method, operation in operations.items():
                    _complete(path, method, operation, with_tokens)
            app.openapi_schema = openapi
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]

    @cache
    def kept() -> tuple[bytes, bytes]:
        body = json.dumps(document(), separators=(",", ":")).encode("ascii")
        return body, gzip.compress(body)

    # Without a token, so that it must cost next to nothing: it is written once
    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        plain, compressed = kept()
        headers = {"Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            plain = compressed
        return Response(plain, headers=headers, media_type="application/json")


def _for_clients(docstring: str) -> str:
    """A class's docstring for clients in any language: values as in JSON, without paragraphs about Python."""
    parts = [
        part
        for part in docstring.split("\n\n")
        if not part.lstrip().startswith((">>>", "In Python, "))
    ]

    def json_word(match: re.Match[str]) -> str:
        value = _IN_JSON[match[2]]
        return match[1] + value.capitalize() if match[1] else value

    return re.sub(rf"(\.\s+)?\b({'|'.join(_IN_JSON)})\b", json_word, "\n\n".join(parts))


def _complete(
    path: str, method: str, operation: dict[str, Any], with_tokens: bool
) -> None:
    """Add the security, the idempotency key and the errors to one operation."""
    statuses = set(_ALWAYS)
    if with_tokens and path not in _OPEN:
        operation["security"] = [{"token": []}]
    else:
        statuses -= {401}
    if method in ("post", "put", "delete"):
        statuses |= {408, 413, 422}
        operation.setdefault("parameters", []).append(_KEY)
    if "requestBody" in operation:
        statuses |= {400, 409, 415, 422, 501}
    if "{name}" in path:
        statuses |= {404, 422, 501}
    schema = {"$ref": "#/components/schemas/Problem"}
    for status in sorted(statuses):
        operation["responses"][str(status)] = {
            "description": _DESCRIPTIONS[status],
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        if status == 429:
            retry = {
                "description": "Seconds.",
                "schema": {"type": "integer", "minimum": 1},
            }
            operation["responses"]["429"]["headers"] = {"Retry-After": retry}
