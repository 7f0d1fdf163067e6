"""The parts of a result: an entry for each prompt, and failures by reason."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from asktell._util.terminal import one_line, with_error
from asktell.numerics.arrays import Vector
from asktell.problem.budget import money_per
from asktell.problem.candidates import Value
from asktell.problem.goals import Goal


@dataclass(frozen=True)
class PromptResult:
    """The estimates and status of one prompt.

    `estimate` maps each metric to the prompt's mean in the metric's units, and `standard_error` to its error; both are
    None where nothing supports a number. The mean is the expected score on a new input that is evaluated once or, with
    inputs="given", the mean over the given examples. The truth is within 1.96 errors about 19 times in 20, after few
    examples too. Both come from the same posterior for every method.

    `p_best` is the probability of being the best feasible prompt, or of belonging to the Pareto set. `p_feasible` is
    the probability that the prompt satisfies every constraint. Both are None as long as nothing supports them, as after
    a single example. `feasible` is True where `p_feasible` is at least one half, and None without constraints. A bound
    at the end of the scale, such as `at_least(1)` of a share, counts as satisfied as long as every score satisfies it,
    however small the probability that all others will.

    `evaluations` is how often the prompt was evaluated, `failures` how often that failed. `status` is "active",
    "accepted", "rejected", "failed" or "retired", and `round` and `reason` say when and why it left. `candidate` maps
    each factor to its value where the selection is among `Candidates`. `segments` maps a segment's label to a mapping
    from metric to (estimate, error).
    """

    id: str | int
    prompt: str
    estimate: Mapping[str, float | None]
    standard_error: Mapping[str, float | None]
    evaluations: int
    status: str
    round: int | None
    reason: str | None
    feasible: bool | None
    failures: int
    p_feasible: float | None = None
    p_best: float | None = None
    candidate: Mapping[str, Value] | None = None
    segments: Mapping[str, Mapping[str, tuple[float, float | None]]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON-ready data, with the same names; without candidate and segments where there are none."""
        data = {**vars(self), "estimate": dict(self.estimate), "standard_error": dict(self.standard_error)}
        return {name: value for name, value in data.items() if name not in ("candidate", "segments") or value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "PromptResult":
        """What `to_dict` made `data` of."""
        segments = {
            name: {metric: (mean, error) for metric, (mean, error) in metrics.items()}
            for name, metrics in data.get("segments", {}).items()
        }
        return cls(**{**data, "segments": segments})


class Summary(Protocol):
    """The parts of a result that its table and its plots show.

    `selected`: the selected prompts, best first. `unresolved`: the other contenders. `dominated` maps the id of a
    selected prompt to the id of the selected prompt that dominates it. `bounds`: the bound of each constraint, in the
    units of its metric.
    """

    @property
    def goal(self) -> Goal:
        """The goal."""

    @property
    def prompts(self) -> Sequence[PromptResult]:
        """Every prompt."""

    @property
    def selected(self) -> Sequence[PromptResult]:
        """The selected prompts, best first."""

    @property
    def unresolved(self) -> Sequence[PromptResult]:
        """The other contenders."""

    @property
    def dominated(self) -> Mapping[str | int, str | int]:
        """Selected prompts that a selected prompt dominates."""

    @property
    def bounds(self) -> Sequence[float]:
        """One bound per constraint."""

    @property
    def baseline(self) -> str | int | None:
        """The id of the prompt in use."""


_LONGEST_ID = 60  # characters of an id in a sentence


def quoted(id_: str | int) -> str:
    """A prompt's id in a sentence: in quotes, or `prompt 3` if ids are positions."""
    return f'"{one_line(id_, _LONGEST_ID)}"' if isinstance(id_, str) else f"prompt {id_}"


def bounds_of(goal: Goal, prompts: Sequence[PromptResult], baseline: str | int | None) -> Vector:
    """(B,) the goal's bounds in metric units, by the estimates: relative ones move with the prompt they refer to."""
    if not goal.is_relative:
        return goal.offsets
    means = np.array([[entry.estimate[name] for name in goal.columns] for entry in prompts], dtype=np.float64)
    counts = [entry.evaluations > 0 and entry.status not in ("failed", "retired") for entry in prompts]
    in_use = [arm for arm, entry in enumerate(prompts) if entry.id == baseline]
    return goal.with_baseline(in_use[0] if in_use else None).resolved(means, np.flatnonzero(counts))


def unit_of(metric: str, means: Iterable[float | None]) -> tuple[str, int]:
    """A metric's name for readers, and what its numbers are multiplied by.

    A metric "cost" is money; a small one is given for 1,000 evaluations, and its name says so.
    """
    per = money_per(means) if metric == "cost" else 1
    return metric if per == 1 else f"{metric} per {per:,}", per


def shown_estimates(entries: Sequence[PromptResult], metric: str) -> tuple[str, list[str]]:
    """A metric's name for readers, and the estimates of prompts with their errors."""
    name, per = unit_of(metric, [entry.estimate[metric] for entry in entries])
    known = [(entry.estimate[metric], entry.standard_error[metric]) for entry in entries]
    cells = [with_error(*(None if number is None else per * number for number in each)) for each in known]
    return name, cells


# What differs from evaluation to evaluation: names, numbers.
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|[-+]?\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)
_COMPARED = 300  # characters of a reason


def kind_of(reason: str) -> str:
    """The same text for reasons that differ only in numbers and in what stands in quotes."""
    return _PARTICULAR.sub("#", reason)[:_COMPARED]


@dataclass(frozen=True)
class FailureGroup:
    """Evaluations that failed in the same way.

    `reason`: that of the first of them, `count`: how many, `prompts`: the ids of their prompts.
    """

    reason: str
    count: int
    prompts: list[str | int]


def grouped(failures: Iterable[tuple[str | int, str]]) -> list[FailureGroup]:
    """Prompts' ids and reasons, the most common reason first."""
    found: dict[str, tuple[str, list[str | int]]] = {}
    for prompt, reason in failures:
        found.setdefault(kind_of(reason), (reason, []))[1].append(prompt)
    groups = [FailureGroup(reason, len(ids), list(dict.fromkeys(ids))) for reason, ids in found.values()]
    return sorted(groups, key=lambda group: -group.count)


def in_words(groups: list[FailureGroup], most: int = 3) -> Iterator[str]:
    """A line for each of the most common reasons."""
    total = sum(group.count for group in groups)
    for group in groups[:most]:
        ids = ", ".join(map(quoted, group.prompts[:5])) + (", ..." if len(group.prompts) > 5 else "")
        yield f"{group.count} of {total} failures ({ids}): {group.reason}"
    if len(groups) > most:
        yield f"... and {len(groups) - most} other reasons"
