"""The HTTP connection to a service, by urllib3: safe retries, and responses with errors converted to exceptions."""

import json
import os
import re
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from asktell import errors
from asktell._util.extras import needs_extra
from asktell.errors import AsktellError, InvalidArgumentError, ServiceError
from asktell.problem.checks import check_name
from asktell.problem.words import short

if TYPE_CHECKING:
    from urllib3 import HTTPConnectionPool

TOKEN = "ASKTELL_TOKEN"  # name of the environment variable
# The type of each error in a response begins with this
_PROBLEM = "urn:asktell:problem:"
_CONNECTIONS = 64  # kept open at most; more threads open and close their own
_COME_AGAIN = (429, 502, 503, 504)  # statuses after which a request is sent again
_LONGEST_PAUSE = 10.0  # seconds between two attempts
# Until the address has answered once, so that a wrong one fails soon
_FIRST_RETRIES, _FIRST_SECONDS = 2, 5.0


class Connection:
    """Requests to one service.

    A request is sent again if the service cannot be reached or responds with 429, 502,
    503 or 504. All attempts carry the same idempotency key, so that the service does no
    request twice.

    May be used from several threads, and also in a forked process.
    """

    def __init__(
        self, url: str, token: str | None, timeout: float, retries: int
    ) -> None:
        self.url = address(url)
        token = checked_token("token=", token) or checked_token(
            TOKEN, os.environ.get(TOKEN)
        )
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout
        self._retries = retries
        self._answered = False
        self._pid = 0
        self._pool: HTTPConnectionPool | None = None
        # Before the path of each request: the service may share its host with others
        self._root = urlsplit(self.url).path

    def send(self, method: str, path: str, data: object = None) -> Any:
        """Send a request and return the JSON of the response, None if it has no body.

        Raises:
            ServiceError: the service cannot be reached, or the response is not from an
                asktell service.
            AsktellError: the error that the service reports, by its own class.
        """
        pool = self._connected()
        from urllib3.exceptions import HTTPError

        headers = {**self._headers, "Content-Type": "application/json"}
        if method != "GET":
            headers["Idempotency-Key"] = uuid.uuid4().hex
        body = None if data is None else json.dumps(data).encode("ascii")
        try:
            options = {"headers": headers, "redirect": False, **self._patience()}
            response = pool.urlopen(method, self._root + path, body=body, **options)
        except HTTPError as error:
            # Without the name of the connection
            reason = str(getattr(error, "reason", None) or error).rpartition("): ")[2]
            cure = (
                "Try again."
                if self._answered
                else "Check the address, and whether `asktell serve` is running there."
            )
            raise ServiceError(
                f'The service at {self.url} cannot be reached. {cure} The reason was "{reason}".'
            ) from error
        self._answered = True
        try:
            content = json.loads(response.data) if response.data else None
        except (ValueError, RecursionError):
            content = None
        if response.status not in (200, 201, 204) or (
            content is None and response.status != 204
        ):
            raise error_of(response.status, content)
        return content

    def close(self) -> None:
        """Close the connections."""
        if self._pool is not None and self._pid == os.getpid():
            self._pool.close()
        self._pool = None

    def _connected(self) -> "HTTPConnectionPool":
        # A forked process must not share its parent's sockets.
        if self._pool is None or self._pid != os.getpid():
            with needs_extra("client"):
                from urllib3 import connection_from_url
            # A PoolManager would parse the address and look up its host at each request.
            self._pool = connection_from_url(self.url, maxsize=_CONNECTIONS)
            self._pid = os.getpid()
        return self._pool

    def _patience(self) -> dict[str, Any]:
        """Return urllib3's options for retries and timeouts. Before the first response, they are small."""
        from urllib3 import Retry, Timeout

        unconnected, seconds = None, self._timeout
        if not self._answered:
            unconnected = min(self._retries, _FIRST_RETRIES)
            seconds = min(self._timeout, _FIRST_SECONDS)
        retries = Retry(
            self._retries,
            connect=unconnected,
            other=unconnected,
            backoff_factor=0.1,
            backoff_max=_LONGEST_PAUSE,
            backoff_jitter=0.1,
            status_forcelist=_COME_AGAIN,
            allowed_methods=None,
            raise_on_status=False,
            retry_after_max=60,
        )
        return {
            "retries": retries,
            "timeout": Timeout(connect=seconds, read=self._timeout),
        }


def address(url: object) -> str:
    """Return the address of a service without a slash at its end.

    Raises:
        InvalidArgumentError: it is not an address. The message does not show a URL that
            may contain a token.
    """
    if not isinstance(url, str):
        raise InvalidArgumentError(
            f"A service's URL must be text, got {type(url).__name__}."
        )
    if any(mark in url for mark in "@?#"):
        raise InvalidArgumentError(
            "A service's URL is http://HOST:PORT or https://HOST, without @, ? and #. "
            f"Pass a token as token=, or set {TOKEN} in the environment. Do not put it into the URL."
        )
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidArgumentError(
            f"A service's URL is http://HOST:PORT or https://HOST, got {short(url)}."
        )
    return url.rstrip("/")


def checked_token(name: str, token: object) -> str | None:
    """Return the token, or None if it is None or empty.

    Raises:
        InvalidArgumentError: a header cannot hold it. The message does not show it.
    """
    if token is None or token == "":
        return None
    if not isinstance(token, str):
        raise InvalidArgumentError(f"{name} must be text, got {type(token).__name__}.")
    if not re.fullmatch("[!-~]+", token):
        raise InvalidArgumentError(
            f"{name} must have visible ASCII characters only, because it is sent in a header. It has {len(token)} "
            "characters, among them a space, a line break or another invalid one. If it comes from a file, remove the "
            "line break at its end."
        )
    return token


def error_of(status: int, document: object) -> AsktellError:
    """Return the error in a service's response. The type `unknown-trial` is an UnknownTrialError."""
    if not isinstance(document, dict) or not isinstance(document.get("detail"), str):
        return ServiceError(
            f"The response has status {status}, and does not come from an asktell service. Check the URL. If "
            "it is right, look at the log of the service."
        )
    kind = str(document.get("type", "")).removeprefix(_PROBLEM)
    name = "".join(word.capitalize() for word in kind.split("-")) + "Error"
    kind_of_error = getattr(errors, name, None)
    if isinstance(kind_of_error, type) and issubclass(kind_of_error, AsktellError):
        return kind_of_error(document["detail"])
    return ServiceError(document["detail"])


def path_of(name: str) -> str:
    """Return the path of a study's URL in a service.

    Raises:
        InvalidArgumentError: the name cannot be a part of a URL.
    """
    encoded = quote(check_name("The name of a study", name), safe="")
    if encoded in (".", ".."):
        raise InvalidArgumentError(
            f"{name!r} is not a valid study name here, because it would be removed from the URL. Choose another name."
        )
    return f"/v1/studies/{encoded}"
