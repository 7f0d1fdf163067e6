"""asktell's errors as problem details (RFC 9457), and back."""

import re
from collections.abc import Mapping
from typing import Any

from asktell import errors

MEDIA_TYPE = "application/problem+json"
_PREFIX = "urn:asktell:problem:"

# The first that fits.
_STATUS: tuple[tuple[type[errors.AsktellError], int], ...] = (
    (errors.StudyNotFoundError, 404),
    (errors.UnknownTrialError, 404),
    (errors.StudyExistsError, 409),
    (errors.ConflictingTellError, 409),
    (errors.MissingExtraError, 501),
    (errors.StorageError, 503),
    (errors.AsktellError, 422),
)
_TITLES = {
    400: "The request is malformed",
    401: "A token is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "The request took too long",
    409: "In conflict with what is there",
    413: "The request is too large",
    415: "The body is not JSON",
    422: "The request cannot be used",
    429: "Too many requests",
    500: "An error of the service",
    501: "A package is missing on the server",
    503: "The storage cannot be used",
}


class ProblemDetails(Exception):  # noqa: N818 - RFC 9457's word
    """An error as an HTTP response; `kind` is the last part of its type, by default that of the status."""

    def __init__(
        self,
        status: int,
        detail: str,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = dict(headers or {})
        title = _TITLES.get(status, "The request failed")
        self.document = {
            "type": _PREFIX + (kind or re.sub(r"[^a-z]+", "-", title.lower())),
            "title": title,
            "status": status,
            "detail": detail,
            **members,
        }


def problem_of(error: errors.AsktellError, **members: Any) -> ProblemDetails:
    """The problem details of an error, without the server's paths and addresses."""
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    detail, headers = str(error), {}
    if isinstance(error, errors.StorageBusyError):
        detail = "The storage has been held by another process for too long. Nothing was changed; try again."
        headers = {"Retry-After": "1"}
    elif isinstance(error, errors.StorageError):
        detail = "The storage cannot be used; the service's log says why. What was confirmed is not lost."
        headers = {"Retry-After": "5"}
    return ProblemDetails(status, detail, kind_of(type(error)), headers, **members)


def kind_of(error: type[errors.AsktellError]) -> str:
    """An error's name, as UnknownTrialError: unknown-trial."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", error.__name__.removesuffix("Error")).lower()


_BY_KIND = {
    kind_of(error): error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, errors.AsktellError)
}


def error_of(status: int, document: object) -> errors.AsktellError:
    """The error in a service's response."""
    if isinstance(document, dict) and isinstance(document.get("detail"), str):
        kind = str(document.get("type", "")).removeprefix(_PREFIX)
        return _BY_KIND.get(kind, errors.ServiceError)(document["detail"])
    return errors.ServiceError(
        f"The service answered with status {status}, and not as asktell's does. Is the address right?"
    )
