"""The service as a process: `asktell serve URL`."""

import argparse
import ipaddress
import logging
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Collection

from asktell import InvalidArgumentError
from asktell.extend import needs_extra, safe, whole

with needs_extra("server"):
    import uvicorn

    from asktell_adapters.server.app import make_app
    from asktell_adapters.server.auth import READ, WRITE, Tokens, is_loopback
    from asktell_adapters.server.open_studies import OpenStudies
    from asktell_adapters.server.protocol import TimedProtocol

_SECONDS_TO_FINISH = 30
_SECONDS_FOR_THREADS = 2
_SECONDS_IDLE = 75

log = logging.getLogger("asktell_adapters.server")


def serve(arguments: argparse.Namespace) -> int:
    """Serve the studies at `arguments.url` until SIGTERM or Ctrl-C; running requests are finished first.

    If a request does not finish, the process ends without it. As after a kill,
    everything confirmed is in the storage.
    """
    whole("--max-mb", arguments.max_mb, 1, 2**20)
    whole("--port", arguments.port, 0, 65535)
    for proxy in arguments.proxy:
        try:
            ipaddress.ip_address(proxy)
        except ValueError:
            raise InvalidArgumentError(
                f"--proxy must be the IP address that requests of the reverse proxy come from, got {proxy!r}."
            ) from None
    tokens = Tokens.from_environment()
    if arguments.proxy and not tokens:
        raise InvalidArgumentError(
            f"--proxy requires a token, because every request that the proxy forwards reaches the service. Set {WRITE} "
            "in the environment."
        )
    if not tokens and not is_loopback(arguments.host):
        raise InvalidArgumentError(
            f"Other machines can reach {arguments.host!r}, so that a token is needed: set {WRITE} (and {READ}, for a "
            "token that may only read) in the environment, or serve on 127.0.0.1. For a new token: "
            "python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    studies = OpenStudies(arguments.url)
    app = make_app(studies, tokens, most_bytes=arguments.max_mb * 2**20)
    config = uvicorn.Config(
        app,
        http=TimedProtocol,
        log_config=None,
        access_log=arguments.access_log,
        lifespan="off",
        ws="none",
        server_header=False,
        # Otherwise uvicorn believes whatever runs on this machine
        proxy_headers=bool(arguments.proxy),
        forwarded_allow_ips=arguments.proxy,
        timeout_keep_alive=_SECONDS_IDLE,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    server = uvicorn.Server(config)
    before = threading.enumerate()
    _log_to_stderr(arguments.access_log)
    with _listening(arguments.host, arguments.port) as listener:
        try:
            studies.names()  # a storage that cannot be used is better known now
            host, port = listener.getsockname()[:2]
            address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            access = " and ".join(
                name
                for name, token in ((WRITE, tokens.write), (READ, tokens.read))
                if token
            )
            open_to = access or "no token: open to everybody here"
            print(
                f"Serving {safe(_without_secrets(arguments.url))} at {address} ({open_to})",
                flush=True,
            )
            server.run(sockets=[listener])
        except BaseException as ending:
            # SIGTERM or Ctrl-C, which uvicorn raises again when it is done
            _end_if_stuck(before, 130 if isinstance(ending, KeyboardInterrupt) else 143)
            raise
        finally:
            # A check of the storage may be stuck
            closing = threading.Thread(target=studies.close, daemon=True)
            closing.start()
            closing.join(_SECONDS_FOR_THREADS)
    return 0


def _end_if_stuck(before: Collection[threading.Thread], code: int) -> None:
    """End the process if a request's thread does not end: the interpreter would wait for it forever."""
    deadline = time.monotonic() + _SECONDS_FOR_THREADS
    working = [
        thread
        for thread in threading.enumerate()
        if thread not in before and not thread.daemon
    ]
    for thread in working:
        thread.join(max(0.0, deadline - time.monotonic()))
    if stuck := sum(thread.is_alive() for thread in working):
        log.error(
            "%d requests do not end; the service ends without them. What was confirmed is kept.",
            stuck,
        )
        logging.shutdown()
        os._exit(code)


def _without_secrets(url: str) -> str:
    """A storage's URL without user, password and options."""
    if url.startswith("postgres"):
        return re.sub(r"//.*@", "//...@", url.partition("?")[0])
    return url


def _listening(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server(address[:2], family=family, backlog=2048)


def _log_to_stderr(access_log: bool) -> None:
    """One line per record, without control characters."""

    class Lines(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            text = super().format(record)
            return "\n".join(safe(line) for line in text.split("\n"))

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines("%(asctime)s %(message)s"))
    levels = {"asktell_adapters.server": logging.INFO, "uvicorn.error": logging.WARNING}
    if access_log:
        levels["uvicorn.access"] = logging.INFO
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = False
        logger.addHandler(handler)
