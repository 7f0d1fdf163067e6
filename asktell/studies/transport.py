"""One service over HTTP: requests that are sent again where that is safe, and errors in asktell's words. By urllib3."""

import json
import os
import re
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from asktell import errors
from asktell._util.extras import needs_extra
from asktell.errors import AsktellError, InvalidArgumentError, ServiceError
from asktell.problem.checks import check_name, short

if TYPE_CHECKING:
    from urllib3 import PoolManager

TOKEN = "ASKTELL_TOKEN"  # name of the environment variable
_PROBLEM = "urn:asktell:problem:"  # the type of each error in a response begins with this
_CONNECTIONS = 64
_COME_AGAIN = (429, 502, 503, 504)
_LONGEST_PAUSE = 10.0
_FIRST_RETRIES, _FIRST_SECONDS = 2, 5.0  # of an address at which nothing has answered yet


class Connection:
    """Requests to a service, sent again while it cannot be reached or says so; with a key, so that none is done twice.

    For several threads, and goes on in a forked process.
    """

    def __init__(self, url: str, token: str | None, timeout: float, retries: int) -> None:
        self.url = address(url)
        token = checked_token("token=", token) or checked_token(TOKEN, os.environ.get(TOKEN))
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout
        self._retries = retries
        self._answered = False
        self._pid = 0
        self._pool: PoolManager | None = None

    def send(self, method: str, path: str, data: object = None) -> Any:
        """The answer's data."""
        pool = self._connected()
        from urllib3.exceptions import HTTPError

        headers = {**self._headers, "Content-Type": "application/json"}
        if method != "GET":
            headers["Idempotency-Key"] = uuid.uuid4().hex
        body = None if data is None else json.dumps(data).encode("ascii")
        try:
            options = {"headers": headers, "redirect": False, **self._patience()}
            response = pool.request(method, self.url + path, body=body, **options)
        except HTTPError as error:
            reason = getattr(error, "reason", None) or error
            doubt = "" if self._answered else " Is the address right, and does `asktell serve` run there?"
            raise ServiceError(f"The service at {self.url} cannot be reached: {reason}.{doubt}") from error
        self._answered = True
        try:
            content = json.loads(response.data) if response.data else None
        except (ValueError, RecursionError):
            content = None
        if response.status not in (200, 201, 204) or (content is None and response.status != 204):
            raise error_of(response.status, content)
        return content

    def close(self) -> None:
        """Let go of the connections."""
        if self._pool is not None and self._pid == os.getpid():
            self._pool.clear()
        self._pool = None

    def _connected(self) -> "PoolManager":
        if self._pool is None or self._pid != os.getpid():
            with needs_extra("client"):
                from urllib3 import PoolManager
            self._pool, self._pid = PoolManager(num_pools=2, maxsize=_CONNECTIONS), os.getpid()
        return self._pool

    def _patience(self) -> dict[str, Any]:
        """How often and how long to try; until something has answered, a wrong address is known within seconds."""
        from urllib3 import Retry, Timeout

        unconnected, seconds = None, self._timeout
        if not self._answered:
            unconnected, seconds = min(self._retries, _FIRST_RETRIES), min(self._timeout, _FIRST_SECONDS)
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
        return {"retries": retries, "timeout": Timeout(connect=seconds, read=self._timeout)}


def address(url: object) -> str:
    """The address of a service, checked."""
    # What may be a secret must not get into the message.
    if not isinstance(url, str):
        raise InvalidArgumentError(f"A service's URL must be text, got {type(url).__name__}.")
    if any(mark in url for mark in "@?#"):
        raise InvalidArgumentError(
            "A service is at http://HOST:PORT or https://HOST, without @, ? and #. "
            f"A token goes into token=, or {TOKEN} in the environment, and not into a URL."
        )
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidArgumentError(f"A service is at http://HOST:PORT or https://HOST, got {short(url)}.")
    return url.rstrip("/")


def checked_token(name: str, token: object) -> str | None:
    """A token that a header can hold; messages never show it."""
    if token is None or token == "":
        return None
    if not isinstance(token, str):
        raise InvalidArgumentError(f"{name} must be text, got {type(token).__name__}.")
    if not re.fullmatch("[!-~]+", token):
        raise InvalidArgumentError(
            f"{name} must be visible ASCII characters only, as a header can hold no others; it has {len(token)} "
            "characters, a blank, line break or other one among them. Does the file it came from end in a line break?"
        )
    return token


def error_of(status: int, document: object) -> AsktellError:
    """The error in a service's response, by the name that ends its type: of `unknown-trial` an UnknownTrialError."""
    if not isinstance(document, dict) or not isinstance(document.get("detail"), str):
        return ServiceError(
            f"The service answered with status {status}, and not as asktell's does. Is the address right?"
        )
    kind = str(document.get("type", "")).removeprefix(_PROBLEM)
    name = "".join(word.capitalize() for word in kind.split("-")) + "Error"
    found = getattr(errors, name, None)
    if isinstance(found, type) and issubclass(found, AsktellError):
        return found(document["detail"])
    return ServiceError(document["detail"])


def path_of(name: str) -> str:
    """The path of a study in a service."""
    encoded = quote(check_name("The name of a study", name), safe="")
    if encoded in (".", ".."):
        raise InvalidArgumentError(f"A study in a service cannot be called {name!r}: in an address it gets lost.")
    return f"/v1/studies/{encoded}"
