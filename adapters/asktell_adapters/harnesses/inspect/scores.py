"""Scores of a sample in an Inspect log: numbers by name, or a failure with its reason."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from asktell.extend import in_words
from asktell_adapters.llms.base import CompletionError

KEY = "asktell"
"""Under which a sample's metadata has its prompt and example."""

GROUP = "asktell_prompt"
"""Under which it has the prompt's id alone, to group metrics by."""

USAGE = ("input_tokens", "output_tokens", "total_tokens", "latency", "cost")

ValueToFloat: TypeAlias = Callable[[Any], float]

_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def value_to_float(value: Any) -> float:
    """The same as Inspect's function of this name, but NaN for what that turns into 0 with a warning."""
    if isinstance(value, str):
        value = _WORDS.get(value, _WORDS.get(value.lower(), value))
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def numbers(scores: Mapping[str, Any], to_float: ValueToFloat | None = None) -> dict[str, float]:
    """Scorers' Scores as numbers by name; `scorer/key` of those that are mappings or lists."""
    to_float, found = to_float or value_to_float, {}
    for scorer, score in scores.items():
        value = score.value
        if isinstance(value, Mapping):
            found.update({f"{scorer}/{key}": to_float(part) for key, part in value.items()})
        elif isinstance(value, Sequence) and not isinstance(value, str):
            found.update({f"{scorer}/{index}": to_float(part) for index, part in enumerate(value)})
        else:
            found[scorer] = to_float(value)
    return found


@dataclass(frozen=True)
class Scoring:
    """How samples are read."""

    value_to_float: ValueToFloat | None = None  # of a score's value; None for the function above
    score_limited: bool = False  # whether a sample that ran into a limit has scores; otherwise it failed
    metrics: tuple[str, ...] | None = None  # without one of these, a sample failed

    def of_epochs(self, samples: Sequence[Any], model: str) -> dict[str, float]:
        """Means over the epochs of one sample, NaN where a scorer gave no number; and what all epochs cost."""
        cost = _cost(samples)
        paid = cost or 0.0
        rows = []
        for sample in samples:
            try:
                rows.append({**_usage(sample, model), **self._scores(sample)})
            except Exception as error:
                why = str(error) if isinstance(error, CompletionError) else in_words(error)
                raise CompletionError(f"sample {sample.id!r} of Inspect: {why}", cost=paid) from error
        names = [name for name in rows[0] if all(name in row for row in rows)]
        means = {name: math.fsum(row[name] for row in rows) / len(rows) for name in names}
        if cost is not None:
            means.setdefault("cost", cost)  # unless a scorer has that name
        for name in self.metrics or ():
            if not math.isfinite(means.get(name, math.nan)):
                raise CompletionError(f"sample {samples[0].id!r} of Inspect has no score {name!r}", cost=paid)
        return means

    def _scores(self, sample: Any) -> dict[str, float]:
        if sample.error is not None:
            raise CompletionError(_why(sample.error))
        if sample.limit is not None and not self.score_limited:
            raise CompletionError(f"its {sample.limit.type} limit of {sample.limit.limit:g} was reached")
        return numbers(sample.scores or {}, self.value_to_float)


_DIRECT_CAUSE = "\nThe above exception was the direct cause of the following exception:\n"


def _why(error: Any) -> str:
    """An error's message; of tenacity's RetryError, which says nothing, the line in the traceback for its cause."""
    message = str(error.message)
    if not message.startswith("RetryError"):
        return message
    *_, cause, _ = "", *str(error.traceback).split(_DIRECT_CAUSE)
    lines = cause.rstrip().split("\n")
    after = 1 + max((at for at, line in enumerate(lines) if line.startswith(" ")), default=-1)
    said = "\n".join(lines[after:])
    return re.sub(r"^[\w.]+\.(?=\w+(:|$))", "", said) or message


def _usage(sample: Any, model: str) -> dict[str, float]:
    """Tokens of the evaluated model (of its graders none), and wall seconds, as far as the log has them."""
    usage: dict[str, float] = {}
    own = sample.model_usage.get(model)
    if own is not None:
        usage |= {name: float(getattr(own, name)) for name in ("input_tokens", "output_tokens", "total_tokens")}
    if sample.total_time is not None:
        usage["latency"] = float(sample.total_time)
    return usage


def _cost(samples: Sequence[Any]) -> float | None:
    """The cost of all models, in dollars; None unless Inspect knows every price."""
    costs = [getattr(used, "total_cost", None) for sample in samples for used in sample.model_usage.values()]
    known = [float(cost) for cost in costs if cost is not None]
    return math.fsum(known) if known and len(known) == len(costs) else None
