"""The service as a process: `asktell serve URL`."""

import argparse
import logging
import math
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from asktell.arguments import whole
from asktell.errors import InvalidArgumentError, MissingExtraError
from asktell.service.tokens import READ, WRITE, Tokens, is_loopback
from asktell.terminal import safe

_SECONDS_TO_FINISH = 30
_SECONDS_IDLE = 75
_CONNECTIONS = 1000


def serve(arguments: argparse.Namespace) -> int:
    """Serve the studies at `arguments.url` until SIGTERM or Ctrl-C; requests that are running are answered first.

    Raises:
        InvalidArgumentError: the URL or a token cannot be used, or other machines could reach it without a token.
        MissingExtraError: the packages of the service are missing.
        OSError: the address is in use, or is none of this machine's.
    """
    if not 0 <= arguments.rate < math.inf:
        raise InvalidArgumentError(f"--rate must be requests per second, 0 for no limit; got {arguments.rate}.")
    whole("--max-mb", arguments.max_mb, 1, 2**20)
    whole("--port", arguments.port, 0, 65535)
    tokens = Tokens.from_environment()
    if not tokens and not is_loopback(arguments.host):
        raise InvalidArgumentError(
            f"Other machines can reach {arguments.host!r}, so that a token is needed: set {WRITE} (and {READ}, for a "
            "token that may only read) in the environment, or serve on 127.0.0.1. For a new token: "
            "python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    try:
        import uvicorn

        from asktell.service.app import make_app
        from asktell.service.gate import Gate, Limits
        from asktell.service.metrics import Metrics
        from asktell.service.studies import Studies
    except ImportError as error:
        raise MissingExtraError(f"{error}. Run: pip install 'asktell[service]'", name=error.name) from error
    studies = Studies(arguments.url)
    metrics = Metrics(lambda: len(studies))
    limits = Limits(body=arguments.max_mb * 2**20, rate=arguments.rate)
    gate = Gate(make_app(studies, metrics, bool(tokens)), tokens, metrics, limits, arguments.access_log)
    config = uvicorn.Config(
        gate,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_SECONDS_IDLE,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    with _listening(arguments.host, arguments.port) as listener, _logging():
        try:
            studies.names()  # a storage that cannot be used is better known now
            host, port = listener.getsockname()[:2]
            address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            access = " and ".join(name for name, token in ((WRITE, tokens.write), (READ, tokens.read)) if token)
            where = safe(re.sub(r"//[^/@]*@", "//...@", arguments.url))
            print(f"Serving {where} at {address} ({access or 'no token: open to everybody here'})", flush=True)
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            studies.close()
    return 0


def _listening(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family, backlog=2048)


@contextmanager
def _logging() -> Iterator[None]:
    """Errors, and requests where they are wanted, go to stderr, a line each and safe for a terminal."""

    class Lines(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            text = super().format(record)
            return "\n".join(safe(line) for line in text.split("\n"))

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines("%(asctime)s %(message)s"))
    loggers = {logging.getLogger("asktell.service"): logging.INFO, logging.getLogger("uvicorn.error"): logging.WARNING}
    before = [(log, log.level, log.propagate) for log in loggers]
    for log, level in loggers.items():
        log.setLevel(level)
        log.propagate = False
        log.addHandler(handler)
    try:
        yield
    finally:
        for log, level, propagate in before:
            log.setLevel(level)
            log.propagate = propagate
            log.removeHandler(handler)
