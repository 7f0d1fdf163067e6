"""The parts of a result, which are one entry per prompt, and failures by reason."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from asktell._util.terminal import one_line, with_error
from asktell.numerics.arrays import Floats
from asktell.numerics.shapes import Float
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
            by a user). A baseline that is not selected stays "active". With the method
            "referee", a candidate is "accepted" if it became the incumbent, also if
            another one has replaced it since. It is "undecided" if its evaluations
            are used up.
        round: the round in which the prompt was accepted, eliminated or retired. None
            if it is active, and for the methods "auto", "race" and "referee", which
            have no rounds.
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
    def assigned(self) -> Mapping[str | int, Sequence[str]] | None:
        """Prompt -> the segments that it is assigned to. None without an assignment."""

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
    estimated = [
        (entry.estimate[metric], entry.standard_error[metric]) for entry in entries
    ]
    cells = [
        with_error(*(None if number is None else per * number for number in entry))
        for entry in estimated
    ]
    return name, cells


_READ = 20_000  # characters of a reason that are compared
_COMPARED = 300  # characters of a kind
# The exception's type at the start of a reason, and perhaps its HTTP status
_TYPE = re.compile(r"[A-Za-z_][\w.]*(?: \(HTTP \d{3}\))?(?=: |$)")
# Quoted parts, also one whose end was cut off. A single quote inside of a word is an
# apostrophe. No alternative overlaps another one, so the time is linear.
_QUOTED = re.compile(
    r'"(?:[^"\\]|\\.)*(?:"|\Z)'
    r"|(?<!\w)'(?:[^'\\]|\\.|'(?=\w))*(?:'|\Z)|`[^`]*(?:`|\Z)",
    re.DOTALL,
)
# What follows is a response, an HTML page or an object, not the program's own words
_ECHO = re.compile(
    r"(?:\b(?:response|reply|answer|output|completion|content|text|body|got|received|returned)\s*[:=]|[{]|<!|<html)",
    re.IGNORECASE,
)
# Words, and long tokens with the other characters of base64, paths and UUIDs
_WORD = re.compile(r"[A-Za-z0-9+/_=-]{16,}|\w+")
_HEX = re.compile(r"[0-9a-f]{6,}", re.IGNORECASE)
_HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_STATUS = re.compile(r"[345]\d\d")
_BEFORE_STATUS = {"http", "status", "code", "error"}
_SHORTEST_TOKEN = 8  # characters of a token that may be random letters
_SHORTEST_HUMP = 3.5  # letters between capitals: 2 in random letters, 5 in CamelCase


def kind_of(reason: str) -> str:
    """A text that is the same for reasons that are the same mistake.

    These have the same type of exception and the same HTTP status, and differ only in
    numbers, ids (UUIDs, hexadecimal and base64 tokens, addresses), times, quoted parts
    and repeated responses. At most 20,000 characters are read, in linear time.
    """
    text = reason[:_READ]
    head = _TYPE.match(text)
    type_ = "" if head is None else head.group()
    text = _own_words(text[len(type_) :])
    echo = _ECHO.search(text)
    words, before = [type_], ""
    for word in _WORD.findall(text if echo is None else text[: echo.end()]):
        is_status = _STATUS.fullmatch(word) and before in _BEFORE_STATUS
        shown = "#" if _is_particular(word) and not is_status else word
        before = word.lower()
        # Times and lists of numbers are a single one
        if shown != words[-1] or shown != "#":
            words.append(shown)
    return " ".join(words)[:_COMPARED]


def _own_words(text: str) -> str:
    """The first line of a text, and the last line of a traceback in it. Quoted parts become a number."""
    first, *rest = text.strip().split("\n", 1)
    if rest and '  File "' in rest[0]:
        first = f"{first.split('...')[0]} {rest[0].rstrip().rsplit(chr(10), 1)[-1]}"
    return _QUOTED.sub(" 0 ", first)


def _is_particular(word: str) -> bool:
    """True if a word is a number or an id, which differs between evaluations."""
    if _HEX.fullmatch(word) or any(map(str.isdigit, word)):
        return True
    humps = _HUMP.findall(word)
    n_letters = sum(map(len, humps))
    return len(word) >= _SHORTEST_TOKEN and n_letters < _SHORTEST_HUMP * len(humps)


@dataclass(frozen=True)
class FailureGroup:
    """Evaluations that failed for the same reason.

    Attributes:
        reason: the reason of the first failure in the group. The other reasons have the
            same type of exception and HTTP status, and differ from it only in numbers,
            ids, times, quoted parts and repeated responses.
        count: the number of failed evaluations in the group.
        prompts: the ids of the prompts whose evaluations failed.
        examples: the ids of the examples on which they failed, or the positions of
            examples without ids. Empty if the evaluator draws its own examples.
    """

    reason: str
    count: int
    prompts: list[str | int]
    examples: list[str | int]


def grouped(
    failures: Iterable[tuple[str | int, str | int | None, str]],
) -> list[FailureGroup]:
    """Group failures by kind of reason. The most common reason comes first.

    Args:
        failures: for each failure, the prompt's id, the example and the reason.
    """
    found: dict[str, list[tuple[str | int, str | int | None, str]]] = {}
    for failure in failures:
        found.setdefault(kind_of(failure[-1]), []).append(failure)
    groups = []
    for alike in found.values():
        prompts, examples, reasons = zip(*alike, strict=True)
        named = [example for example in dict.fromkeys(examples) if example is not None]
        groups.append(
            FailureGroup(reasons[0], len(alike), list(dict.fromkeys(prompts)), named)
        )
    return sorted(groups, key=lambda group: -group.count)


def in_words(groups: list[FailureGroup], most: int = 3) -> Iterator[str]:
    """One line per reason, for the most common reasons."""
    total = sum(group.count for group in groups)
    for group in groups[:most]:
        where = _some(list(map(quoted, group.prompts)), 5)
        if group.examples:
            which_of = "example" if len(group.examples) == 1 else "examples"
            names = [
                quoted(name) if isinstance(name, str) else str(name)
                for name in group.examples
            ]
            where += f" on the {which_of} {_some(names, 3)}"
        these = f"{group.count} of the {total} failures"
        if group.count == total:
            these = "The only failure" if total == 1 else f"All {total} failures"
        yield f"{these}, when evaluating {where}: {group.reason}"
    if len(groups) > most:
        yield f"... and {len(groups) - most} other reasons"


def _some(names: Sequence[str], most: int) -> str:
    """The first names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
