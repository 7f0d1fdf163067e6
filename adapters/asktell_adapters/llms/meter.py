"""A meter of the calls of LLMs that programs make, whatever they are written in."""

import json
import os
import re
import secrets
import sys
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, final
from urllib.parse import urlsplit

import msgspec

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import check_extra, some
from asktell_adapters._util.child import end_child, start_child
from asktell_adapters._util.loop import Lock
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.metering import Call, Reading

_OPENAI = "https://api.openai.com/v1"
_ANTHROPIC = "https://api.anthropic.com"
_VARIABLES: Final[Mapping[str, tuple[str, str | None]]] = {
    # OpenAI's SDKs, and most clients of OpenAI-compatible servers
    "OPENAI_BASE_URL": ("OPENAI_API_BASE", _OPENAI),
    # LangChain, LiteLLM, and OpenAI's SDK before version 1
    "OPENAI_API_BASE": ("OPENAI_BASE_URL", _OPENAI),
    # Anthropic's SDKs, and Claude Code
    "ANTHROPIC_BASE_URL": ("ANTHROPIC_API_BASE", _ANTHROPIC),
    # LiteLLM
    "ANTHROPIC_API_BASE": ("ANTHROPIC_BASE_URL", _ANTHROPIC),
    # OpenAI's SDK for Azure, where each account has an address of its own
    "AZURE_OPENAI_ENDPOINT": ("AZURE_OPENAI_ENDPOINT", None),
}
"""The variables that SDKs read the address of an API from: another one that may have it, and the SDK's own address."""

_LOOPBACK = "127.0.0.1"


@final
class Meter:
    """Counts the calls of LLMs that the programs of a `CommandEvaluator` make, with their tokens and costs.

    ```python
    meter = Meter({"gpt-4o-mini": Price(0.15, 0.60, currency="USD")})
    evaluator = CommandEvaluator(["python", "agent.py"], examples, meter=meter)
    ```

    Each program gets the address of a proxy on this machine in environment variables such
    as OPENAI_BASE_URL and ANTHROPIC_BASE_URL, from which the SDKs of these APIs read it.
    The proxy passes every request on to the real API, and every response back, unchanged
    and as it comes. The real address is the value of the variable in this process, or else
    the SDK's own. API keys pass through, and are neither stored nor logged.

    **Metrics.** `calls` (failed calls included), `errors` (of the API), `call_seconds`
    (the sum over all calls), `tokens_in`, `tokens_out`, `tokens_cached` (a part of
    `tokens_in`), `tokens_reasoning` (a part of `tokens_out`) and `cost`. If a response
    does not state its tokens, the numbers of tokens and the cost are unknown, and never 0.
    They are also unknown if there was no call.

    **Safety.** The proxy can be reached from this machine only, under an address that
    contains a secret of the evaluation, and not after the end of the evaluation. It
    connects to the real addresses and nowhere else, and follows no redirects. If
    HTTP_PROXY or HTTPS_PROXY is set, it connects through that proxy, except to addresses
    of this machine.

    The proxy is a process, which starts with the first program and ends with this object
    or with your Python process.

    Args:
        prices: model -> price. Without the price of a model that is called, the cost of
            the evaluation is unknown.
        addresses: further environment variables for programs, with the real address of
            each: `{"OPENROUTER_BASE_URL": "https://openrouter.ai/api/v1"}`. They may
            also replace the address of a variable that the meter sets by itself.

    Raises:
        InvalidArgumentError: an address is no URL of http or https, or the prices have
            several currencies.
        MissingExtraError: the packages of the extra `meter` are not installed.
    """

    def __init__(
        self,
        prices: Mapping[str, Price] | None = None,
        addresses: Mapping[str, str] | None = None,
    ) -> None:
        check_extra("meter", "starlette", "uvicorn", "httpx2")
        self.prices: Final = dict(prices or {})
        currencies = {price.currency for price in self.prices.values()} - {""}
        if len(currencies) > 1:
            raise InvalidArgumentError(
                f"The prices of a meter are added up, so they need one currency, got {some(sorted(currencies))}. "
                "Convert them."
            )
        self.addresses: Final = _real_addresses(addresses or {})
        self._lock = Lock()
        self._process: _Process | None = None

    def open(self) -> tuple[str, dict[str, str]]:
        """Begin to count for an evaluation.

        Returns:
            The evaluation's secret, for `close`, and the environment variables of its
            program.

        Raises:
            EvaluatorError: the proxy does not start.
        """
        secret = secrets.token_urlsafe(24)
        with self._lock:
            if self._process is None or not self._process.alive:
                self._process = _Process(self.addresses)
            port = self._process.port
            self._order("open", secret)
        return secret, _direct() | {
            name: f"http://{_LOOPBACK}:{port}/{secret}/{name}"
            for name in self.addresses
        }

    def close(self, secret: str) -> Reading:
        """End all requests of an evaluation, and return what was counted. Nothing is known if the proxy has ended."""
        with self._lock:
            try:
                calls = self._order("close", secret)
            except EvaluatorError as error:
                return Reading(problem=str(error))
        if calls is None:
            # Another process has replaced the one that counted
            return Reading(problem=_LOST)
        return Reading(tuple(msgspec.convert(calls, list[Call])), self.prices)

    def end(self) -> None:
        """End the proxy. It starts again with the next evaluation."""
        with self._lock:
            if self._process is not None:
                self._process.end()
            self._process = None

    def _order(self, what: str, secret: str) -> Any:
        """Give the proxy an order, and return its reply.

        Raises:
            EvaluatorError: the proxy has ended.
        """
        if self._process is None:
            raise EvaluatorError(_LOST)
        try:
            return self._process.order(what, secret)
        except EvaluatorError:
            raise
        except BaseException:
            # Interrupted. The next order would read the reply to this one.
            self._process.end()
            self._process = None
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_process": None}


_LOST = (
    "the process of the meter has ended, so the calls of this evaluation are not known"
)


@final
class _Process:
    """The process of the proxy.

    Raises:
        EvaluatorError: it does not start.
    """

    def __init__(self, addresses: Mapping[str, str]) -> None:
        # The folders of this process are on its search path
        path = os.pathsep.join(filter(None, sys.path))
        # In a session of its own, so that Ctrl-C does not end it before the agents
        self._process = start_child(
            ["-m", "asktell_adapters.llms._meter_proxy"],
            {**os.environ, "PYTHONPATH": path},
            in_own_session=True,
        )
        assert self._process.stdout is not None
        # Without a buffer, each byte of a reply would be a system call
        self._replies = os.fdopen(self._process.stdout.fileno(), "rb", closefd=False)
        self._finalizer = weakref.finalize(self, end_child, self._process, os.getpid())
        try:
            self.port = int(self._ask(addresses))
        except EvaluatorError:
            self.end()
            raise EvaluatorError(
                "the proxy of the meter did not start. Its message is above, on standard error"
            ) from None
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def order(self, what: str, secret: str) -> Any:
        """Begin or end an evaluation. Return the reply."""
        return self._ask([what, secret])

    def _ask(self, order: object) -> Any:
        """Write a line, and read the reply.

        Raises:
            EvaluatorError: the process has ended.
        """
        stdin = self._process.stdin
        assert stdin is not None
        reply = b""
        with suppress(BrokenPipeError):
            stdin.write(json.dumps(order).encode() + b"\n")
            reply = self._replies.readline()
        # A process that is killed may have written a part of its reply
        if not reply.endswith(b"\n"):
            raise EvaluatorError(_LOST)
        return json.loads(reply)

    def end(self) -> None:
        """Kill the process. It has nothing to save."""
        self._finalizer()


def _direct() -> dict[str, str]:
    """Variables without which programs would ask a proxy for the internet for an address of this machine."""
    variables = {}
    for name in ("no_proxy", "NO_PROXY"):
        # Programs use the first of the two that is set, so a new one must not hide the other
        hosts = os.environ.get(name) or os.environ.get(name.swapcase()) or ""
        # For curl and urllib, "*" means all hosts only if it stands alone
        if hosts.strip() != "*":
            hosts = ",".join(filter(None, [hosts, _LOOPBACK]))
        variables[name] = hosts
    return variables


def _real_addresses(further: Mapping[str, str]) -> dict[str, str]:
    """The real address for each environment variable.

    Raises:
        InvalidArgumentError: a variable or an address is not valid.
    """
    addresses = {}
    for name, (alternative, usual) in _VARIABLES.items():
        address = os.environ.get(name) or os.environ.get(alternative) or usual
        if name not in further and address is not None:
            addresses[name] = _checked(name, address)
    for name, address in further.items():
        if not name.isidentifier() or not name.isascii():
            raise InvalidArgumentError(
                f"The addresses of a meter have names of environment variables, such as OPENAI_BASE_URL, got {name!r}."
            )
        addresses[name] = _checked(name, address)
    return addresses


def _checked(name: str, address: str) -> str:
    """An address, checked.

    Raises:
        InvalidArgumentError: it is no URL of http or https, or has a query.
    """
    try:
        parts = urlsplit(address)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_url = is_url and not parts.query and not parts.fragment and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        # Not a password or a key in it
        shown = re.split("[?#]", address)[0].rpartition("@")[2]
        raise InvalidArgumentError(
            f"The address in {name} must be the root of an API, such as {_OPENAI!r}, got {shown!r}. Correct it."
        )
    return address
