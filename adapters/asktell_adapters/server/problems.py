"""Problem details (RFC 9457) for asktell's errors. `RemoteStudy` converts them back to the same errors."""

import re
from collections.abc import Mapping

import asktell
from asktell_adapters.server.answers import InvalidPart, Problem

MEDIA_TYPE = "application/problem+json"
_PREFIX = "urn:asktell:problem:"

# Status by error. The first class that fits counts, so subclasses come first.
_STATUS: tuple[tuple[type[asktell.AsktellError], int], ...] = (
    (asktell.StudyNotFoundError, 404),
    (asktell.UnknownTrialError, 404),
    (asktell.StudyExistsError, 409),
    (asktell.ConflictingTellError, 409),
    (asktell.ConflictingWorkerError, 409),
    (asktell.MissingExtraError, 501),
    (asktell.StorageError, 503),
    (asktell.AsktellError, 422),
)
_TITLES = {
    400: "The request is malformed",
    401: "A token is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "The request took too long",
    409: "In conflict with the existing data",
    413: "The request is too large",
    415: "The body is not JSON",
    422: "The request cannot be used",
    429: "Too many requests",
    500: "An error of the service",
    501: "A package is missing on the server",
    503: "The storage cannot be used",
}


class ProblemDetails(Exception):  # noqa: N818 - RFC 9457's word
    """An error as an HTTP response.

    Args:
        status: the HTTP status.
        detail: the message.
        kind: last part of the problem's type (default: the title in lower case).
        headers: headers of the response.
        pending: ids of pending trials, if the trial is unknown.
        errors: the invalid parts of the request.
        title: what kind of problem it is, in a few words (default: the title of the status).
    """

    def __init__(
        self,
        status: int,
        detail: str,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        pending: list[int] | None = None,
        errors: list[InvalidPart] | None = None,
        title: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = dict(headers or {})
        title = title or _TITLES.get(status, "The request failed")
        self.document: Problem = {
            "type": _PREFIX + (kind or re.sub(r"[^a-z]+", "-", title.lower())),
            "title": title,
            "status": status,
            "detail": detail,
        }
        if pending is not None:
            self.document["pending"] = pending
        if errors is not None:
            self.document["errors"] = errors


def problem_of(
    error: asktell.AsktellError, pending: list[int] | None = None
) -> ProblemDetails:
    """Convert an error to problem details, without paths and addresses of the server.

    Args:
        error: the error.
        pending: ids of pending trials, if the trial is unknown.
    """
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    detail, headers = str(error), {}
    if isinstance(error, asktell.StorageBusyError):
        detail = "Another process has held the storage for too long. Nothing was changed. Try again."
        headers = {"Retry-After": "1"}
    elif isinstance(error, asktell.StorageError):
        detail = "The storage cannot be used. The service's log has the reason. Recorded scores are not lost."
        headers = {"Retry-After": "5"}
    return ProblemDetails(
        status, detail, kind_of(type(error)), headers, pending=pending
    )


def kind_of(error: type[asktell.AsktellError]) -> str:
    """Convert the name of an error to its kind. UnknownTrialError becomes `unknown-trial`."""
    return re.sub(
        r"(?<=[a-z])(?=[A-Z])", "-", error.__name__.removesuffix("Error")
    ).lower()
