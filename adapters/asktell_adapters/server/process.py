"""The service as a process: `asktell serve URL`."""

import argparse
import asyncio
import ipaddress
import logging
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from asktell import InvalidArgumentError
from asktell.extend import needs_extra, safe, whole

with needs_extra("server"):
    import uvicorn
    from fastapi import FastAPI

    from asktell_adapters.server.app import make_app
    from asktell_adapters.server.auth import LABEL, READ, WRITE, Tokens, is_loopback
    from asktell_adapters.server.labeling import Labeling
    from asktell_adapters.server.open_studies import OpenStudies
    from asktell_adapters.server.protocol import TimedProtocol

# Requests get this long to finish after SIGTERM. The threads of requests that are still
# running get the time below.
_SECONDS_TO_FINISH = 30
_SECONDS_FOR_THREADS = 2
_SECONDS_IDLE = 75

log = logging.getLogger("asktell_adapters.server")


def serve(
    arguments: argparse.Namespace, labelings: Mapping[str, Labeling] | None = None
) -> int:
    """Serve the studies at `arguments.url` until SIGTERM or Ctrl-C, and finish running requests first.

    If a request does not finish, the process ends without it. This is as safe as a kill,
    because everything confirmed is in the storage.

    Args:
        arguments: the options of `asktell serve`.
        labelings: for studies that people label, their raters, by the study's name.

    Returns:
        The exit status of the command.

    Raises:
        InvalidArgumentError: an option is invalid, or the service needs a token.
    """
    whole("--max-mb", arguments.max_mb, 1, 2**20)
    for proxy in arguments.proxy:
        try:
            ipaddress.ip_address(proxy)
        except ValueError:
            raise InvalidArgumentError(
                f"--proxy must be the IP address of the reverse proxy, got {proxy!r}."
            ) from None
    tokens = Tokens.from_environment()
    if arguments.proxy and not tokens:
        raise InvalidArgumentError(
            f"--proxy requires a token, because every request that the proxy forwards reaches the service. Set {WRITE} "
            "in the environment."
        )
    _check_reach(arguments.host, arguments.port, tokens)
    studies = OpenStudies(arguments.url)
    app = make_app(
        studies, tokens, most_bytes=arguments.max_mb * 2**20, labelings=labelings
    )

    def ready(address: str) -> None:
        access = " and ".join(tokens.named) or "no token: open to everybody here"
        url = safe(_without_secrets(arguments.url))
        print(f"Serving {url} at {address} ({access})", flush=True)

    _run(
        app,
        studies,
        arguments.host,
        arguments.port,
        ready,
        access_log=arguments.access_log,
        # By default, uvicorn trusts the headers of every program on this machine.
        proxy_headers=bool(arguments.proxy),
        forwarded_allow_ips=arguments.proxy,
    )
    return 0


def serve_labels(
    labelings: Mapping[str, Labeling],
    url: str,
    *,
    host: str,
    port: int,
    ready: Callable[[str], None],
) -> None:
    """Serve the label page of a study, and nothing else, until SIGTERM or Ctrl-C.

    Args:
        labelings: the raters of the study, by its name.
        url: the storage of the study.
        host: the address to listen on.
        port: the port, 0 for any free one.
        ready: is called with the address of the service.

    Raises:
        InvalidArgumentError: an option is invalid, or the service needs a token.
    """
    tokens = Tokens.from_environment()
    _check_reach(host, port, tokens)
    studies = OpenStudies(url)
    app = make_app(studies, tokens, labelings=labelings, only_labels=True)
    _run(app, studies, host, port, ready, access_log=False)


def _check_reach(host: str, port: int, tokens: Tokens) -> None:
    """Refuse to serve other machines without a token."""
    whole("--port", port, 0, 65535)
    if not tokens and not is_loopback(host):
        raise InvalidArgumentError(
            f"Other machines can reach {host!r}, so the service needs a token. Set {WRITE} in the "
            f"environment (and {READ}, for a token that may only read, or {LABEL}, for raters), or serve on 127.0.0.1. "
            "Make a new token with python -c 'import secrets; print(secrets.token_urlsafe())'"
        )


def _run(
    app: FastAPI,
    studies: OpenStudies,
    host: str,
    port: int,
    ready: Callable[[str], None],
    *,
    access_log: bool,
    **options: Any,
) -> None:
    """Run an application until SIGTERM or Ctrl-C. `options`: of uvicorn."""
    config = uvicorn.Config(
        app,
        http=TimedProtocol,
        log_config=None,
        access_log=access_log,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_keep_alive=_SECONDS_IDLE,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
        **options,
    )
    # Threads that exist now do not belong to requests. See _end_if_stuck.
    server = uvicorn.Server(config)
    before = threading.enumerate()
    _log_to_stderr(access_log)
    with _listening(host, port) as listener:
        try:
            # Fail now, not at the first request, if the storage cannot be used.
            studies.names()
            name, bound_port = listener.getsockname()[:2]
            ready(f"http://{f'[{name}]' if ':' in name else name}:{bound_port}")
            _run_loop(server, listener)
        except BaseException as ending:
            # SIGTERM or Ctrl-C, which uvicorn raises again when it is done. The command
            # line has a subclass of KeyboardInterrupt for SIGTERM.
            _end_if_stuck(before, 130 if type(ending) is KeyboardInterrupt else 143)
            raise
        finally:
            # A check of the storage may hang, so do not wait for it forever.
            closing = threading.Thread(target=studies.close, daemon=True)
            closing.start()
            closing.join(_SECONDS_FOR_THREADS)


def _run_loop(server: uvicorn.Server, listener: socket.socket) -> None:
    """Do what `Server.run` does, also if Ctrl-C comes before the event loop has begun."""
    serving = server.serve(sockets=[listener])
    try:
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(serving)
    finally:
        # Python would warn of a coroutine that was never begun.
        serving.close()


def _end_if_stuck(before: Collection[threading.Thread], code: int) -> None:
    """End the process if the thread of a request hangs, for which the interpreter would wait forever.

    Args:
        before: threads that do not belong to requests.
        code: exit status of the process.
    """
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
            "%d requests do not end, so the service ends without them. Recorded scores are not lost.",
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
    """Open the socket before the server starts, so that port 0 can be printed as the port in use."""
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server(address[:2], family=family, backlog=2048)


def _log_to_stderr(access_log: bool) -> None:
    """Log to the standard error stream, one line per record, without control characters.

    Args:
        access_log: whether to log every request.
    """

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
        # The root logger of the command would print each line again.
        logger.propagate = False
        logger.addHandler(handler)
