"""What a meter has counted in one evaluation: the calls, their tokens, seconds and errors, and what they cost."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, final

import msgspec

from asktell.extend import some
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.usage import NOTHING, Usage

METRICS: Final = (
    "calls",
    "errors",
    "call_seconds",
    "tokens_in",
    "tokens_out",
    "tokens_cached",
    "tokens_reasoning",
    "cost",
)
"""The metrics of a meter."""


class Call(msgspec.Struct, frozen=True):
    """One request of an agent to an LLM.

    Attributes:
        model: the model that the request names, or None.
        served: the model that the response names, or None.
        seconds: from the request to the end of the response.
        is_error: whether the API refused it, could not be reached, or broke off.
        usage: the tokens, or None if they are unknown.
        is_whole: whether `usage` counts the whole response. If not, the response
            was cut, and more tokens may have been charged.
        problem: why the usage is unknown, in words.
    """

    model: str | None
    served: str | None
    seconds: float
    is_error: bool
    usage: Usage | None
    is_whole: bool
    problem: str = ""


def refused(model: str | None, seconds: float) -> Call:
    """A call that the API refused, which costs nothing."""
    return Call(model, None, seconds, True, NOTHING, True)


@final
@dataclass(frozen=True)
class Reading:
    """The calls of one evaluation.

    Attributes:
        calls: the calls, in the order of their ends.
        prices: model -> price.
        problem: why nothing is known, in words. Empty if the calls are.
    """

    calls: tuple[Call, ...] = ()
    prices: Mapping[str, Price] = field(default_factory=dict)
    problem: str = ""

    def scores(self) -> dict[str, float]:
        """The metrics that are known, by the names in `METRICS`. An unknown number of tokens is left out, never 0."""
        if self.problem:
            return {}
        counted = {
            "calls": float(len(self.calls)),
            "errors": float(sum(call.is_error for call in self.calls)),
            "call_seconds": sum(call.seconds for call in self.calls),
        }
        uncertain = [name for name in METRICS if name not in counted]
        return counted | {
            name: self._total(name) for name in uncertain if not self.why_unknown(name)
        }

    def why_unknown(self, metric: str) -> str:
        """Why a metric is unknown, in words that continue a sentence, with a remedy. Empty if it is known.

        Args:
            metric: a name in `METRICS`.
        """
        if self.problem or metric in ("calls", "errors", "call_seconds"):
            return self.problem
        if not self.calls:
            return (
                "no call went through the meter. Let the agent read the API's address from an environment variable "
                f"such as OPENAI_BASE_URL. If it needs no LLM, let it print {metric!r} itself"
            )
        if vague := [call for call in self.calls if not call.is_whole]:
            return f"the tokens of {len(vague)} of {len(self.calls)} calls are unknown, because {vague[0].problem}"
        if metric == "cost":
            names = dict.fromkeys(
                call.model or call.served or "a model without a name"
                for call in self._charged
                if self._price(call) is None
            )
            if names:
                return (
                    f"there is no price of the model {some(list(names))}. Add it to the meter's prices, with the name "
                    "that the agent uses"
                )
        if metric in _DETAILS and any(
            _DETAILS[metric](call.usage) is None for call in self._charged if call.usage
        ):
            return f"the API does not count how many tokens are {metric.removeprefix('tokens_')}"
        return ""

    @property
    def paid(self) -> float | None:
        """The cost of everything that is known, for an evaluation that failed. None if nothing is.

        More may have been charged for a response that was cut, so it is a lower bound.
        """
        costs = [
            price.of_usage(call.usage)
            for call in self.calls
            if call.usage is not None and (price := self._price(call)) is not None
        ]
        return sum(costs) if costs else None

    @property
    def _charged(self) -> list[Call]:
        return [call for call in self.calls if call.usage != NOTHING]

    def _price(self, call: Call) -> Price | None:
        """The price of the model that the agent asked for, or else of the model that responded."""
        for name in (call.model, call.served):
            if name is not None and name in self.prices:
                return self.prices[name]
        return None

    def _total(self, metric: str) -> float:
        if metric == "cost":
            return self.paid or 0.0
        usages: Iterable[Usage] = (call.usage for call in self.calls if call.usage)
        return float(sum(_NUMBERS[metric](usage) or 0 for usage in usages))


_DETAILS: dict[str, Callable[[Usage], int | None]] = {
    "tokens_cached": lambda usage: usage.cached,
    "tokens_reasoning": lambda usage: usage.reasoning,
}
_NUMBERS: dict[str, Callable[[Usage], int | None]] = {
    "tokens_in": lambda usage: usage.read,
    "tokens_out": lambda usage: usage.written,
    **_DETAILS,
}
