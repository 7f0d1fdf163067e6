"""Authentication by two tokens, and protection against requests that other sites make a browser send (CSRF)."""

import base64
import hmac
import ipaddress
import math
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import urlsplit

from asktell import InvalidArgumentError
from asktell_adapters.server.problems import ProblemDetails

WRITE, READ = "ASKTELL_TOKEN", "ASKTELL_READ_TOKEN"
LABEL = "ASKTELL_LABEL_TOKEN"
ROLE = "asktell.role"
"""Key of a request's role in its scope."""
_SHORTEST = 16  # characters of a token
_OPEN = ("/health", "/openapi.json")
# The page for raters, and what it sends. A rater sees nothing else of a study, since the
# rest names the prompts.
_FOR_RATERS = re.compile("/studies/[^/]+/label(/[a-z]+)?")
# Methods that change nothing (RFC 9110, section 9.2.1)
_READING = ("GET", "HEAD", "OPTIONS")
_BASIC = 'Basic realm="asktell: any user, the token as password"'
_GUESSES_PER_SECOND, _GUESSES_AT_ONCE, _MOST_ADDRESSES = 5.0, 20, 10_000
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{0,5})?")
# Headers that reverse proxies and content delivery networks add
_FORWARDED = re.compile(
    r"forwarded|via|x-(original-)?forwarded(-.*)?|x-original-(host|url)|x-real-ip|x-(cluster-)?client-ip|"
    r"true-client-ip|(cf|fastly)-(connecting|client)-ip|cf-ray|x-envoy-.*"
)


class Role(Enum):
    """Permissions of a request."""

    NOTHING = "nothing"
    LABEL = "label"
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Tokens:
    """The tokens of a service. A service without tokens allows every request everything.

    Attributes:
        write: the token of requests that may change studies.
        read: the token of requests that may only read.
        label: the token of raters, who may use the pages for labels and nothing else.

    Raises:
        InvalidArgumentError: a token is short or has other characters than a token of
            HTTP may have, or two tokens are the same.
    """

    write: str | None = field(default=None, repr=False)
    read: str | None = field(default=None, repr=False)
    label: str | None = field(default=None, repr=False)

    @property
    def named(self) -> dict[str, str]:
        """The tokens that are given, by the names of their variables."""
        all_ = {WRITE: self.write, READ: self.read, LABEL: self.label}
        return {name: token for name, token in all_.items() if token is not None}

    def __post_init__(self) -> None:
        for name, token in self.named.items():
            if not re.fullmatch(rf"[A-Za-z0-9._~+/=-]{{{_SHORTEST},}}", token):
                raise InvalidArgumentError(
                    f"{name} must have at least {_SHORTEST} characters. Letters, digits and the characters "
                    f"'._~+/=-' are allowed. It has {len(token)} characters. Make a new token with "
                    "python -c 'import secrets; print(secrets.token_urlsafe())'"
                )
        by_token: dict[str, str] = {}
        for name, token in self.named.items():
            first = by_token.setdefault(token, name)
            if first != name:
                raise InvalidArgumentError(
                    f"{first} and {name} are the same token. Use two different tokens."
                )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Tokens":
        """Read the tokens from ASKTELL_TOKEN, ASKTELL_READ_TOKEN and ASKTELL_LABEL_TOKEN."""
        return cls(*(environment.get(name) for name in (WRITE, READ, LABEL)))

    def __bool__(self) -> bool:
        return bool(self.named)

    def role(self, authorization: str | None) -> Role:
        """Look up the role that a request's token gives.

        Args:
            authorization: the header Authorization, which is `Bearer TOKEN`, or `Basic`
                with the token as the password of any user. None if the request has no such
                header.
        """
        if not self:
            return Role.WRITE
        sent = _token_of(authorization or "")
        # Compare all tokens, each in constant time. Otherwise the time of a response
        # would help to guess a token.
        writes, reads, labels = (
            token is not None and hmac.compare_digest(sent, token.encode("ascii"))
            for token in (self.write, self.read, self.label)
        )
        if writes:
            return Role.WRITE
        return Role.READ if reads else Role.LABEL if labels else Role.NOTHING


def _token_of(authorization: str) -> bytes:
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip().encode("utf-8", "surrogatepass")
    if scheme.lower() == "basic":
        with suppress(ValueError):
            return base64.b64decode(credentials, validate=True).partition(b":")[2]
    return b""


class Guard:
    """Authorization of requests.

    The rate limit counts requests with a wrong token only, per address. So a client with a
    correct token is never refused because others guess tokens.

    Args:
        tokens: the tokens of the service.
        clock: returns seconds.
    """

    def __init__(
        self, tokens: Tokens, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tokens, self._clock = tokens, clock
        # By address, the time at which its guesses would be spent evenly. See _limit.
        self._due: dict[str, float] = {}

    def admit(
        self, method: str, path: str, headers: Mapping[str, str], address: str
    ) -> Role:
        """Check that a request is allowed, and return its role.

        Args:
            method: the HTTP method in capital letters.
            path: the path of the URL.
            headers: the headers, with names in lower case.
            address: the address of the client, for the rate limit.

        Raises:
            ProblemDetails: 401 without a known token, 403 if the role or another site's page
                does not allow the request, and 429 after too many wrong tokens.
        """
        if not self._tokens:
            _check_local(headers)
        check_site(method, headers)
        authorization = headers.get("authorization")
        role = self._tokens.role(authorization)
        if role is Role.NOTHING:
            if authorization is not None:
                self._limit(address)
            if path not in _OPEN:
                sent = (
                    "This request has no such header."
                    if authorization is None
                    else "The token of this request is unknown."
                )
                # Scripts of our pages send Origin or Sec-Fetch-Site. A browser then adds
                # the token that the user typed for the same realm.
                is_page = path in ("/", "/studies") or path.startswith("/studies/")
                browser = is_page or "origin" in headers or "sec-fetch-site" in headers
                raise ProblemDetails(
                    401,
                    f"A request needs the header `Authorization: Bearer TOKEN`. {sent}",
                    "access-denied",
                    {"WWW-Authenticate": _BASIC if browser else "Bearer"},
                )
        if role is Role.LABEL and path not in _OPEN:
            if not _FOR_RATERS.fullmatch(path):
                raise ProblemDetails(
                    403,
                    "This token is for the label pages only. They are at /studies/NAME/label.",
                    "access-denied",
                )
            return role
        if role is not Role.WRITE and method not in _READING:
            raise ProblemDetails(
                403,
                "This token may only read. Changes need the read-write token.",
                "access-denied",
            )
        return role

    def _limit(self, address: str) -> None:
        """Refuse guesses beyond the rate, by the generic cell rate algorithm (ITU-T I.371).

        Raises:
            ProblemDetails: the address has sent too many wrong tokens.
        """
        # Time in units of guesses, so that each guess takes one unit
        now = self._clock() * _GUESSES_PER_SECOND
        due = max(self._due.get(address, -math.inf), now - _GUESSES_AT_ONCE + 1)
        if due > now:
            seconds = str(math.ceil((due - now) / _GUESSES_PER_SECOND))
            problem = f"Too many requests with a wrong token. Check the token, and try again in {seconds} s."
            raise ProblemDetails(429, problem, headers={"Retry-After": seconds})
        # Bound the memory. Forgetting all addresses gives each a few guesses more.
        if len(self._due) >= _MOST_ADDRESSES:
            self._due.clear()
        self._due[address] = due + 1


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address or name, which other machines cannot reach.

    Args:
        host: a name or an address. An IPv6 address may be in brackets.
    """
    # The usual addresses, which need no parser
    if host.lower() in ("localhost", "127.0.0.1", "[::1]"):
        return True
    in_brackets = host.startswith("[") and host.endswith("]")
    try:
        return (
            ipaddress.IPv6Address(host[1:-1])
            if in_brackets
            else ipaddress.ip_address(host)
        ).is_loopback
    except ValueError:
        return False


def check_site(method: str, headers: Mapping[str, str]) -> None:
    """Refuse requests that a page of another site made a browser send (CSRF).

    Following a link from another site is allowed. The header Sec-Fetch-Site is the
    browser's own statement, so it comes first. Behind a proxy, Host may differ from Origin.
    Programs other than browsers send neither header.

    Raises:
        ProblemDetails: the request comes from another site.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        follows = method in _READING and headers.get("sec-fetch-mode") == "navigate"
        # none: the user typed the address
        allowed = follows or site in ("same-origin", "none")
    else:
        allowed = (
            method in _READING
            or origin is None
            or _host_of(origin) == headers.get("host", "").lower()
        )
    if not allowed:
        raise ProblemDetails(
            403,
            "A page of another site sent this request. If the service is behind a proxy, let "
            "the proxy forward the header Host unchanged.",
            "access-denied",
        )


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _check_local(headers: Mapping[str, str]) -> None:
    """Refuse requests that came, or may have come, from another machine."""
    match = _HOST.fullmatch(headers.get("host", ""))
    # A page in a browser can make a name of its own lead here (DNS rebinding).
    if match is None or not is_loopback(match[1]):
        raise ProblemDetails(
            403,
            "A service without a token only responds to requests to localhost. Start the service with a token in "
            f"{WRITE}, or send the request to localhost on its machine.",
            "access-denied",
        )
    if forwarded := sorted(name for name in headers if _FORWARDED.fullmatch(name)):
        raise ProblemDetails(
            403,
            "A service without a token only responds to requests from this machine. This request came through a "
            f"proxy, because it has the header {forwarded[0]}. Start the service with a token in {WRITE}, or send "
            "the request without the proxy.",
            "access-denied",
        )
