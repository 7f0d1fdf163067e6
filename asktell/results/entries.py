"""The parts of a result, which are one entry per prompt, and failures by reason."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from asktell._util.terminal import one_line, with_error
from asktell.numerics.arrays import Floats
from asktell.problem.budget import money_per
from asktell.problem.candidates import Value
from asktell.problem.goals import Goal


@dataclass(frozen=True)
class PromptResult:
    """The estimates and the status of one prompt.

        >>> import asktell
        >>> scores = [[1, 1, 1, 0] * 10, [1, 0, 1, 0] * 10, [0, 0, 1, 0] * 10]
        >>> goal = asktell.BestFeasible(asktell.maximize("accuracy", range=(0, 1)))
        >>> result = asktell.analyze(scores, goal, prompts=["a", "b", "c"])
        >>> entry = result.prompts[2]
        >>> entry.prompt, entry.evaluations, entry.status
        ('c', 40, 'rejected')
        >>> f"{entry.estimate['accuracy']:.2f} ± {entry.standard_error['accuracy']:.2f}"
        '0.27 ± 0.08'

    Attributes:
        id: the prompt's id, or its position if the prompts have no ids.
        prompt: the prompt's text.
        estimate: metric -> the estimated mean of the prompt, in the metric's units.
            This is the expected score of one evaluation on a new input. With
            inputs="given", it is the mean over the given examples. All methods use the
            same statistical model for it. None if there is not enough data.
        standard_error: metric -> the standard error of the estimate. The true mean is
            within 1.96 standard errors of the estimate about 19 times in 20. None if
            there is not enough data.
        evaluations: the number of recorded evaluations of the prompt.
        status: "active" (may still be evaluated), "accepted" (selected), "rejected"
            (eliminated, or not selected at the end), "failed" (too many of its
            evaluations failed, or it has no scores at the end) or "retired" (withdrawn
            by a user). A baseline that is not selected stays "active".
        round: the round in which the prompt was accepted, eliminated or retired. None
            if it is active. The methods "auto" and "race" have no rounds, so ignore it
            there.
        reason: why the prompt was eliminated, failed or was retired. None if it is
            unknown.
        feasible: True if the prompt satisfies every constraint with a probability of at
            least 50%. Exception: if a bound is the best possible score, such as at
            least 1 on a scale from 0 to 1, it counts as satisfied as long as every
            score satisfies it. None without constraints or with too little data.
        failures: the number of failed evaluations.
        p_feasible: the probability that the prompt satisfies every constraint. None
            without constraints or with too little data, such as a single example.
        p_best: the probability that the prompt is the best feasible prompt, or that it
            belongs to the Pareto set. None with too little data.
        candidate: factor -> value. None if the candidates do not differ in several
            factors.
        segments: segment -> metric -> the pair of estimate and standard error. Empty if
            the examples have no segments.
        proxies: proxy -> the mean of its recorded scores for the prompt. Empty without
            such scores.
        plain_mean: metric -> the plain mean of the recorded scores, without a model.
            Several scores on an example count as one. Only for finished tables
            (`asktell.analyze`), to check how they were read. Otherwise, it is empty:
            the method then chose the examples, so plain means are not comparable.
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
    segments: Mapping[str, Mapping[str, tuple[float, float | None]]] = field(
        default_factory=dict
    )
    proxies: Mapping[str, float] = field(default_factory=dict)
    plain_mean: Mapping[str, float | None] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The entry as a mapping that JSON can represent. Its keys are the names of the attributes.

        It leaves out `candidate`, `segments`, `proxies` and `plain_mean` if they are
        empty.
        """
        data = {
            **vars(self),
            "estimate": dict(self.estimate),
            "standard_error": dict(self.standard_error),
        }
        return {
            name: value
            for name, value in data.items()
            if name not in ("candidate", "segments", "proxies", "plain_mean") or value
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "PromptResult":
        """Read an entry from a mapping that `to_dict` returned."""
        segments = {
            name: {metric: (mean, error) for metric, (mean, error) in metrics.items()}
            for name, metrics in data.get("segments", {}).items()
        }
        return cls(**{**data, "segments": segments})


class Summary(Protocol):
    """The parts of a result that its table and its plots show.

    `selected`: the selected prompts, best first. `unresolved`: the other contenders.
    `dominated` maps the id of a selected prompt to the id of the selected prompt that
    dominates it. `bounds`: the bound of each constraint, in the units of its metric.
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
    """A prompt's id in a sentence. Text is quoted, and a position becomes `prompt 3`."""
    return (
        f'"{one_line(id_, _LONGEST_ID)}"' if isinstance(id_, str) else f"prompt {id_}"
    )


def capitalized(sentence: str) -> str:
    """The sentence with a capital letter at the start, where it may start with `prompt 3`."""
    return sentence[:1].upper() + sentence[1:]


def shown_status(entry: PromptResult) -> str:
    """The status for readers: a prompt that was never evaluated was not rejected for its scores."""
    is_unseen = not entry.evaluations and not entry.failures
    return "not evaluated" if is_unseen and entry.status == "rejected" else entry.status


def bounds_of(
    goal: Goal, prompts: Sequence[PromptResult], baseline: str | int | None
) -> Float[Floats, " bounds"]:
    """The goal's bounds in metric units. Relative bounds use the estimate of their reference."""
    if not goal.is_relative:
        return goal.offsets
    means = np.array(
        [[entry.estimate[name] for name in goal.columns] for entry in prompts],
        dtype=np.float64,
    )
    counts = [
        entry.evaluations > 0 and entry.status not in ("failed", "retired")
        for entry in prompts
    ]
    in_use = [arm for arm, entry in enumerate(prompts) if entry.id == baseline]
    return goal.with_baseline(in_use[0] if in_use else None).resolved(
        means, np.flatnonzero(counts)
    )


def unit_of(metric: str, means: Iterable[float | None]) -> tuple[str, int]:
    """A metric's name for readers, and the factor for its numbers.

    The metric "cost" is money. Small costs are shown per 1,000 evaluations, and the
    name then includes that.
    """
    per = money_per(means) if metric == "cost" else 1
    return metric if per == 1 else f"{metric} per {per:,}", per


def shown_estimates(
    entries: Sequence[PromptResult], metric: str
) -> tuple[str, list[str]]:
    """The estimates of a metric as text: first the metric's name, then a list with a text for each prompt.

    A text has the estimate and its standard error, such as "0.865 ± 0.16". If a cost is
    below 0.01, costs are shown per 1,000 evaluations. The name then says so: "cost per
    1,000".

    Args:
        entries: the prompts' entries of a result.
        metric: the metric.
    """
    name, per = unit_of(metric, [entry.estimate[metric] for entry in entries])
    known = [
        (entry.estimate[metric], entry.standard_error[metric]) for entry in entries
    ]
    cells = [
        with_error(*(None if number is None else per * number for number in each))
        for each in known
    ]
    return name, cells


# The parts of a reason that differ between evaluations: quoted names and numbers.
_PARTICULAR = re.compile(
    r"'[^']*'|\"[^\"]*\"|[-+]?\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE
)
_COMPARED = 300  # characters of a reason


def kind_of(reason: str) -> str:
    """A text that is the same for reasons that differ only in numbers and quoted parts."""
    return _PARTICULAR.sub("#", reason)[:_COMPARED]


@dataclass(frozen=True)
class FailureGroup:
    """Evaluations that failed for the same reason.

    Attributes:
        reason: the reason of the first failure in the group. The other reasons differ
            from it only in numbers and quoted parts.
        count: the number of failed evaluations in the group.
        prompts: the ids of the prompts whose evaluations failed.
    """

    reason: str
    count: int
    prompts: list[str | int]


def grouped(failures: Iterable[tuple[str | int, str]]) -> list[FailureGroup]:
    """Group failures, given as (prompt id, reason), by kind of reason. The most common reason comes first."""
    found: dict[str, tuple[str, list[str | int]]] = {}
    for prompt, reason in failures:
        found.setdefault(kind_of(reason), (reason, []))[1].append(prompt)
    groups = [
        FailureGroup(reason, len(ids), list(dict.fromkeys(ids)))
        for reason, ids in found.values()
    ]
    return sorted(groups, key=lambda group: -group.count)


def in_words(groups: list[FailureGroup], most: int = 3) -> Iterator[str]:
    """One line per reason, for the most common reasons."""
    total = sum(group.count for group in groups)
    for group in groups[:most]:
        ids = ", ".join(map(quoted, group.prompts[:5])) + (
            ", ..." if len(group.prompts) > 5 else ""
        )
        which = f"{group.count} of the {total} failures"
        if group.count == total:
            which = "The only failure" if total == 1 else f"All {total} failures"
        yield f"{which}, when evaluating {ids}: {group.reason}"
    if len(groups) > most:
        yield f"... and {len(groups) - most} other reasons"
