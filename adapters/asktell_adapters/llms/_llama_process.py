"""The process of the llama.cpp server. `LlamaCpp` runs this file, which imports nothing but xllamacpp.

It reads one line of JSON from stdin: the search path, the parameters by their dotted
names, and the seconds that loading may take. It writes one line of JSON to stdout: the
server's address, or the error. Then it serves until stdin is closed, which also happens
when the process that started it dies.
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
    """Serve until the process that started this one closes the pipe or ends."""
    # Ctrl-C is for the parent, which then ends this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Sends llama.cpp's own output to stderr, so that stdout has nothing but the reply
    os.dup2(2, 1)
    order = json.loads(sys.stdin.readline())
    sys.path[:] = order["path"]
    # Works although loading holds the GIL
    faulthandler.dump_traceback_later(order["timeout"], exit=True)
    try:
        reply: dict[str, str] = {
            "address": _serve(order["parameters"]).listening_address
        }
    except Exception as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(reply), file=replies, flush=True)
    threading.Thread(target=_exit_at_end_of_input, daemon=True).start()
    # The pipe is not enough: a forked copy of a killed parent may hold it open
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)


# Never destroyed, because ~Server may wait forever for its HTTP thread
_servers: list[Any] = []


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
