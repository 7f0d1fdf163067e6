"""`asktell view`: the page of a run in the browser of this machine, up to date.

The page is served to this machine only, below a random path. Requests with the name of
another host are refused, so that no page elsewhere can reach it by a name of its own
(DNS rebinding). Nothing can be changed through it.
"""

import argparse
import secrets
import webbrowser
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from asktell import Study
from asktell.extend import reports
from asktell_adapters.cli.output import show
from asktell_adapters.cli.places import Place
from asktell_adapters.cli.process import signals
from asktell_adapters.server.watching import LiveReport


class PageServer(ThreadingHTTPServer):
    """A server of one study's page at `url`. Close it like a file."""

    daemon_threads = True

    def __init__(
        self,
        study: Study,
        about: dict[str, Any] | None = None,
        port: int = 0,
        inputs: Sequence[str] | None = None,
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.page = reports.render_live(study.name, "state")
        self.report = LiveReport(study, about, inputs)
        self.path = f"/{secrets.token_urlsafe(24)}/"
        self.url = f"http://127.0.0.1:{self.server_port}{self.path}"
        self.hosts = {
            f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")
        }


class _Handler(BaseHTTPRequestHandler):
    """Answers requests for the page and for its state."""

    server: PageServer
    timeout = 30
    server_version, sys_version = "asktell", ""

    def do_GET(self) -> None:
        """Send the page or its state, to this machine's browser only."""
        if self.headers.get("Host") not in self.server.hosts:
            self._send(
                HTTPStatus.MISDIRECTED_REQUEST,
                "text/plain",
                "This page is served to localhost only. Use the address that `asktell view` printed.",
            )
        elif self.path == self.server.path:
            self._send(HTTPStatus.OK, "text/html", self.server.page)
        elif self.path == f"{self.server.path}state":
            self._send(HTTPStatus.OK, "application/json", self.server.report.text())
        else:
            self._send(
                HTTPStatus.NOT_FOUND,
                "text/plain",
                "There is no page at this address. Use the one that `asktell view` printed.",
            )

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        """Send an answer that no browser stores, embeds or guesses the type of."""
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in {
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
        """Log nothing, since a page asks every other second."""


def view(arguments: argparse.Namespace) -> int:
    """`asktell view`: show the page until Ctrl-C."""
    place = Place(arguments.run, arguments.name)
    with (
        place.local("asktell view") as study,
        PageServer(study, place.about(), arguments.port, place.inputs()) as server,
        signals(),
    ):
        show(f"Page: {server.url}   (Ctrl-C ends it)")
        if not arguments.no_browser:
            webbrowser.open(server.url)
        server.serve_forever()
    return 0
