"""What every request passes before it reaches an operation: address, token, rate, size, and whether it came before."""

import asyncio
import hashlib
import json
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote

from asktell.service.limits import Answer, Answers, RateLimit
from asktell.service.metrics import Metrics
from asktell.service.pages import html_response, problem_page, wants_html
from asktell.service.problems import MEDIA_TYPE, ProblemDetails
from asktell.service.tokens import WRITE, Role, Tokens, is_loopback
from asktell.service.visitors import VISITOR, Sessions, Visitor, came_by_https, check_own, cookies, session_of

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_FOR_PROGRAMS = ("/health", "/metrics", "/openapi.json", "/v1")
_OPEN = ("/health", "/openapi.json")
_SESSION = ("/login", "/logout")
_READING = ("GET", "HEAD", "OPTIONS")
_CHANGING = ("POST", "PUT", "DELETE")
_LONGEST_KEY = 200
_LOGIN_BYTES, _LOGIN_SECONDS = 4096, 5.0
_OF_PAGES = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",  # where the page has none of its own
}
_OF_PROXIES = re.compile(
    rb"forwarded|via|x-(original-)?forwarded(-.*)?|x-original-(host|url)|x-real-ip|x-(cluster-)?client-ip|"
    rb"true-client-ip|(cf|fastly)-(connecting|client)-ip|cf-ray|x-envoy-.*"
)

LET_IN = "asktell.let_in"
"""In a connection's state: what is called when a request on it is let in."""

log = logging.getLogger("asktell.service")


@dataclass(frozen=True)
class Limits:
    """What a client may take.

    Attributes:
        body: bytes of a request.
        body_seconds: for it to come.
        linger: bytes of a body that nobody wants, to be thrown away so that the answer arrives.
        linger_seconds: for them to come.
        rate: requests per second of a client, for ever; four times as many at once after a rest. 0 for no limit.
        strangers: requests per second of an address that has no token, or a wrong one; also wrong logins. Never those
            that show the page to log in, and never those with a right token.
    """

    body: int = 2**26
    body_seconds: float = 30.0
    linger: int = 2**18
    linger_seconds: float = 1.0
    rate: float = 500.0
    strangers: float = 5.0


@dataclass
class Gate:
    """An ASGI application around another one.

    A body is read only of who may change something, and then does. The answer to any other closes the connection, if
    a body was announced that has not come to its end. A client is a token at an address.
    """

    app: App
    tokens: Tokens
    metrics: Metrics
    limits: Limits = field(default_factory=Limits)
    access_log: bool = False

    def __post_init__(self) -> None:
        """Start with nobody known and no answer kept."""
        self._clients = RateLimit(self.limits.rate, 4 * self.limits.rate)
        self._strangers = RateLimit(self.limits.strangers, 4 * self.limits.strangers)
        self._answers = Answers()
        self._sessions = Sessions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # there are no web sockets
        # As it came: a name may hold an encoded slash, which must not part it.
        scope = dict(scope, path=quote(scope["raw_path"], safe="/%:@!$&'()*+,;=~"))
        started = time.perf_counter()
        self.metrics.running.inc()
        body = _Body(scope, receive)
        try:
            answer = await self._answer(scope, body)
        except ProblemDetails as problem:
            answer = _of_problem(problem)
        except asyncio.CancelledError:  # nobody else cancels
            text = (
                "The service ends, and this request has taken too long to wait for. It may have been done; come again."
            )
            answer = _of_problem(ProblemDetails(503, text, "service", {"Retry-After": "1"}, title="The service ends"))
        except Exception:
            log.exception("An error of the service")
            answer = _of_problem(ProblemDetails(500, "An error of the service; its log says more."))
        finally:
            self.metrics.running.dec()
        if answer.status >= 400 and _is_for_people(scope, body.headers):
            answer = _page_of(scope["path"], answer)
        seconds = time.perf_counter() - started
        route = scope.get("route")
        self.metrics.count(getattr(route, "name", None) or "other", answer.status, seconds)
        if self.access_log:
            log.info("%s %s %d %.1f ms", scope["method"], scope["path"], answer.status, 1e3 * seconds)
        content = b"" if scope["method"] == "HEAD" else answer.body
        is_page = _is_page(scope["path"]) or (b"content-type", b"text/html; charset=utf-8") in answer.headers
        headers = [*answer.headers, *(_missing(answer) if is_page else [])]
        if body.is_due:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": content, "more_body": body.is_due})
        if body.is_due:
            await body.skip(self.limits.linger, self.limits.linger_seconds)
            await send({"type": "http.response.body"})

    async def _answer(self, scope: Scope, announced: "_Body") -> Answer:
        headers = announced.headers
        visitor = scope[VISITOR] = self._visitor(scope, headers)
        if scope["method"] in _READING:
            return await self._pass(scope, b"")
        if self.tokens and scope["method"] == "POST" and scope["path"] in _SESSION:
            return await self._change_session(scope, announced)
        if visitor.role is not Role.WRITE:
            raise ProblemDetails(403, "This token may only read. Changes need the read-write token.", "access-denied")
        body = await announced.read(self.limits.body, self.limits.body_seconds)
        if body and not _is_json(headers.get(b"content-type", "")):
            raise ProblemDetails(415, "The body must be JSON, with the header `Content-Type: application/json`.")
        key = headers.get(b"idempotency-key")
        if key is None or scope["method"] not in _CHANGING:
            return await self._pass(scope, body)
        if not 0 < len(key) <= _LONGEST_KEY:
            raise ProblemDetails(422, f"An Idempotency-Key has 1 to {_LONGEST_KEY} characters.", "invalid-argument")
        request = b"\n".join((scope["method"].encode(), scope["raw_path"], scope["query_string"], body))
        digest = hashlib.sha256(request).digest()
        found = await self._answers.get(key, digest, lambda: self._pass(scope, body))
        if found is None:
            raise ProblemDetails(422, "This Idempotency-Key came with another request before.", "invalid-argument")
        return found

    async def _change_session(self, scope: Scope, announced: "_Body") -> Answer:
        """Log in or out."""
        headers = announced.headers
        secure = came_by_https(scope.get("scheme", "http"), headers)
        body = await announced.read(_LOGIN_BYTES, _LOGIN_SECONDS)
        name = ""
        if scope["path"] == "/login":
            if not _is_json(headers.get(b"content-type", "")):
                raise ProblemDetails(415, "The body must be JSON, with the header `Content-Type: application/json`.")
            name = self._log_in(_address(scope), body)
        self._sessions.end(session_of(headers))
        return Answer(204, [(b"set-cookie", cookie.encode("ascii")) for cookie in cookies(name, secure)], b"")

    def _log_in(self, address: str, body: bytes) -> str:
        """A new session's name. A right token is never refused, however many guesses came from its address.

        Raises:
            ProblemDetails: the token is unknown.
        """
        try:
            token = json.loads(body)["token"]
        except (ValueError, TypeError, KeyError, RecursionError):
            token = None
        role = self.tokens.role(f"Bearer {token}") if isinstance(token, str) else Role.NOTHING
        if role is not Role.NOTHING:
            return self._sessions.begin(role)
        if (wait := self._strangers.wait(address)) > 0:
            raise _too_many(wait)
        raise ProblemDetails(403, "This token is unknown.", "access-denied")

    def _visitor(self, scope: Scope, headers: dict[bytes, str]) -> Visitor:
        """What the request may do.

        Raises:
            ProblemDetails: it may nothing, or not now.
        """
        address, is_page = _address(scope), _is_page(scope["path"])
        if not self.tokens:
            _check_local(headers)
        check_own(scope["method"], is_page, headers)
        authorization = headers.get(b"authorization")
        role = self.tokens.role(authorization)
        session = False
        if role is Role.NOTHING and authorization is None and is_page:  # the API never listens to a cookie
            role = self._sessions.role(session_of(headers))
            session = role is not Role.NOTHING
        stranger = role is Role.NOTHING
        if not stranger and (let_in := scope.get("state", {}).get(LET_IN)) is not None:
            let_in()
        limit, client = (self._strangers, address) if stranger else (self._clients, (role, session, address))
        may_log_in = stranger and is_page and authorization is None
        if not may_log_in and (wait := limit.wait(client)) > 0:
            raise _too_many(wait)
        if stranger and scope["path"] not in _OPEN and (scope["method"] != "POST" or scope["path"] not in _SESSION):
            sent = "the token is unknown" if b"authorization" in headers else "there is none"
            raise ProblemDetails(
                401,
                f"A request needs the header `Authorization: Bearer TOKEN`; {sent}.",
                "access-denied",
                {"WWW-Authenticate": "Bearer"},
            )
        return Visitor(role if not stranger else Role.READ, session)

    async def _pass(self, scope: Scope, body: bytes) -> Answer:
        """The operation's answer."""
        start: Message = {}
        parts: list[bytes] = []
        ended = asyncio.Event()
        sent = False

        async def receive() -> Message:
            nonlocal sent
            if sent:
                await ended.wait()
                return {"type": "http.disconnect"}
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                parts.append(message.get("body", b""))

        try:
            await self.app(scope, receive, send)
        except Exception:
            if not start:
                raise  # otherwise it was logged, and has its answer
        finally:
            ended.set()
        return Answer(start["status"], list(start["headers"]), b"".join(parts))


class _Body:
    """What a request carries beside its head, if it says that it does."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self._announced = self.headers.get(b"content-length", "0")
        self._receive = receive
        self.is_due = b"transfer-encoding" in self.headers or self._announced.strip("0") != ""

    async def read(self, limit: int, seconds: float) -> bytes:
        """All of it.

        Raises:
            ProblemDetails: it is too large, or does not come in time.
        """
        too_large = ProblemDetails(413, f"A request may have at most {limit} bytes.")
        if self._announced.isdecimal() and int(self._announced[:20]) > limit:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(seconds):
                while self.is_due:
                    parts.append(await self._next())
                    size += len(parts[-1])
                    if size > limit:
                        raise too_large
        except TimeoutError:
            raise ProblemDetails(408, f"The body did not come within {seconds:g} s.") from None
        return b"".join(parts)

    async def skip(self, limit: int, seconds: float) -> None:
        """Throw it away, or so much of it: who closes on what has come takes back what was sent."""
        with suppress(TimeoutError, ProblemDetails):
            async with asyncio.timeout(seconds):
                while self.is_due and limit > 0:
                    limit -= len(await self._next())

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ProblemDetails(400, "The client has left.")
        self.is_due = message.get("more_body", False)
        return message.get("body", b"")  # type: ignore[no-any-return]


def _address(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def _too_many(wait: float) -> ProblemDetails:
    seconds = math.ceil(wait)
    return ProblemDetails(429, f"Too many requests. Try again in {seconds} s.", headers={"Retry-After": str(seconds)})


def _is_page(path: str) -> bool:
    """Whether it is for browsers, which a session lets in."""
    return path in ("/", "/studies", *_SESSION) or path.startswith("/studies/")


def _missing(answer: Answer) -> list[tuple[bytes, bytes]]:
    """What keeps a browser from doing more with an answer than to show it."""
    there = {name for name, _ in answer.headers}
    pairs = ((name.lower().encode(), value.encode()) for name, value in _OF_PAGES.items())
    return [(name, value) for name, value in pairs if name not in there]


def _is_for_people(scope: Scope, headers: Mapping[bytes, str]) -> bool:
    """Whether a browser wants to show what comes; the API speaks to programs only."""
    is_api = scope["path"] in _FOR_PROGRAMS or scope["path"].startswith("/v1/")
    return scope["method"] in ("GET", "HEAD") and not is_api and wants_html(headers.get(b"accept", ""))


def _page_of(path: str, refusal: Answer) -> Answer:
    """What a refusal says, as a page; where a token is missing, the page that asks for it."""
    if refusal.status == 401 and _is_page(path):
        up = "../" * (path.count("/") - 1)
        page = html_response("login", "Log in", {"login": f"{up}login"}, 401)
    else:
        page = problem_page(path, json.loads(refusal.body))
    kept = [each for each in refusal.headers if each[0] not in (b"content-type", b"content-length")]
    return Answer(refusal.status, [*page.raw_headers, *kept], bytes(page.body))


def _of_problem(problem: ProblemDetails) -> Answer:
    body = problem.body()
    headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), **problem.headers}
    return Answer(problem.status, [(k.lower().encode(), v.encode("latin-1")) for k, v in headers.items()], body)


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"


def _check_local(headers: Mapping[bytes, str]) -> None:
    """Refuse what came from elsewhere, or may have.

    Raises:
        ProblemDetails: it did.
    """
    if not _names_this_machine(headers.get(b"host", "")):
        # A page in a browser can make a name of its own lead here.
        raise ProblemDetails(403, "Without a token this service answers only to localhost.", "access-denied")
    passed_on = sorted(name.decode("latin-1") for name in headers if _OF_PROXIES.fullmatch(name))
    if passed_on:
        raise ProblemDetails(
            403,
            "Without a token this service answers only requests from this machine, and this one came through a proxy "
            f"(it has the header {passed_on[0]}). Start the service with a token in {WRITE}, or ask it directly.",
            "access-denied",
        )


def _names_this_machine(host: str) -> bool:
    name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return is_loopback(name)
