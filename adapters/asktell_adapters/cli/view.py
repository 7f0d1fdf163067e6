"""`asktell view`: a run's page, live, in the browser of this machine.

Served to this machine only, below a path that nobody can guess. Requests that name another host are refused, so that
no page elsewhere can reach it by a name of its own (DNS rebinding); nothing can be changed through it.
"""

import argparse
import secrets
import threading
import time
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from asktell import Study
from asktell.extend import Watch, reports
from asktell_adapters.cli.output import show
from asktell_adapters.cli.places import Place
from asktell_adapters.cli.process import signals

_SECONDS_BETWEEN_LOOKS = 2.0  # at who works
_UNKNOWN = -1  # a state is kept longer than who works on it
_PATIENCE = 2.0  # seconds for how the answer settled, while workers go on
_PAUSE = 3.0  # between two states, in units of what making one takes: three quarters of a core are the workers'


class View(ThreadingHTTPServer):
    """A server of one study's page at `url`; closed like a file."""

    daemon_threads = True

    def __init__(self, study: Study, about: dict[str, Any] | None = None, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self._study = study
        self._about = about
        self._lock = threading.Lock()
        self._made: tuple[str, str, str] | None = None  # the version, its data, its page
        self._watch = Watch(study)
        self._live: dict[str, Any] = {}
        self._look, self._look_from = 0, 0.0
        self._pause_until = 0.0
        self.path = f"/{secrets.token_urlsafe(24)}/"
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_port}{self.path}"

    def answer(self, kind: str, version: str | None, look: str | None = None) -> tuple[str | None, int]:
        """The page, or the data unless they are of this version; made once for all who look.

        Of the same version only who works on it, if that is not what it was at this `look`; and its number.
        """
        with self._lock:
            start = time.monotonic()
            if start >= self._look_from:
                live = self._watch.look()
                self._look += {**live, "now": None} != {**self._live, "now": None}
                self._live, self._look_from = live, start + _SECONDS_BETWEEN_LOOKS
            if self._made is None or (start >= self._pause_until and self._made[0] != self._study.standing.version):
                data = {**self._study.report_data(self._about, _PATIENCE), "live": self._live}
                self._made = data["state"], reports.encode(data), reports.render(data, "state")
                took = time.monotonic() - start
                self._pause_until = start + took * (1 + _PAUSE)
            if kind == "page":
                return self._made[2], _UNKNOWN
            if version != self._made[0]:
                return self._made[1], _UNKNOWN
            new = look is not None and look != str(self._look)
            return (reports.encode({"live": self._live}) if new else None), self._look


class _Handler(BaseHTTPRequestHandler):
    server: View
    timeout = 30
    server_version, sys_version = "asktell", ""

    def do_GET(self) -> None:
        """Answer a look."""
        address = urlsplit(self.path)
        kind = {self.server.path: "page", f"{self.server.path}state": "state"}.get(address.path)
        if self.headers.get("Host") not in self.server.hosts:
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", "This host is not served here.")
        elif kind is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "There is nothing here.")
        else:
            query = parse_qs(address.query)
            text, look = self.server.answer(kind, *(query.get(name, [None])[0] for name in ("version", "look")))
            if text is None:
                self._send(HTTPStatus.NO_CONTENT, "text/plain", "", look)
            else:
                self._send(HTTPStatus.OK, "text/html" if kind == "page" else "application/json", text, look)

    def _send(self, status: HTTPStatus, kind: str, text: str, look: int = 0) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in {
            "Asktell-Look": str(look),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
        """Say nothing: a page asks every other second."""


def view(arguments: argparse.Namespace) -> int:
    """`asktell view`: until Ctrl-C."""
    place = Place(arguments.run, arguments.name)
    with place.local("asktell view") as study, View(study, place.about(), arguments.port) as server, signals():
        show(f"Page: {server.url}   (Ctrl-C ends it)")
        if not arguments.no_browser:
            webbrowser.open(server.url)
        server.serve_forever()
    return 0
