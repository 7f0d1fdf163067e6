"""The process in which llama.cpp serves. `LlamaCpp` runs this file; it imports nothing but xllamacpp.

Reads one line of JSON from stdin: the search path, the parameters by their dotted names, and the seconds that loading
may take. Writes one line of JSON to stdout: the server's address, or the error. Then it serves until stdin is closed,
which also happens when the process that started it dies.
"""

import faulthandler
import json
import os
import signal
import sys
import threading
import time
from typing import Any


def main() -> None:
    """Serve until the process that started this one closes the pipe, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    parent = os.getppid()
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever llama.cpp prints must not end up among the replies
    order = json.loads(sys.stdin.readline())
    sys.path[:] = order["path"]
    faulthandler.dump_traceback_later(order["timeout"], exit=True)  # loading holds the GIL; this needs no GIL
    try:
        reply: dict[str, str] = {"address": _serve(order["parameters"]).listening_address}
    except Exception as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(reply), file=replies, flush=True)
    threading.Thread(target=_exit_at_end_of_input, daemon=True).start()
    while os.getppid() == parent:  # a forked copy of a parent that was killed may hold the pipe open
        time.sleep(1.0)
    os._exit(0)


_servers: list[Any] = []  # never destroyed: ~Server waits for its HTTP thread, which may wait for ever


def _serve(parameters: dict[str, Any]) -> Any:
    import xllamacpp

    settings = xllamacpp.CommonParams()
    for name, value in parameters.items():
        owner = settings
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        setattr(owner, last, value)
    _servers.append(xllamacpp.Server(settings))
    return _servers[-1]


def _exit_at_end_of_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
