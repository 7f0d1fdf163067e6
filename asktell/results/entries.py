"""What is known about each prompt, as a result shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from asktell.goals import Goal


@dataclass(frozen=True)
class PromptResult:
    """What is known about one prompt.

    `estimate` and `standard_error` map a metric to a number in its own units, None where nothing is known; the error
    is that of the mean over the examples given, 0 once all were seen (unless scores are noisy, `repeats` above 1), None
    where nothing supports one (a single example). The truth is within 1.96 errors about 19 times in 20, after few
    examples too. `standard_error_population` is that of the mean over new examples like them. `status` is active,
    accepted, rejected, failed or retired; `round` and `reason` say when and why it left. `feasible` is whether
    the prompt is taken to keep every constraint (None without constraints or estimate): by its probability of that, at
    least a half, where the method has a posterior, else by its estimate. A bound at the end of the scale, as
    `at_least(1)` of a share, is taken as kept as long as every score keeps it, however small the probability that all
    others will. `p_feasible` and `p_optimal` are None unless the method has a posterior.
    """

    id: str | int
    prompt: str
    estimate: Mapping[str, float | None]
    standard_error: Mapping[str, float | None]
    pulls: int
    status: str
    round: int | None
    reason: str | None
    feasible: bool | None
    failures: int
    p_feasible: float | None = None
    p_optimal: float | None = None
    standard_error_population: Mapping[str, float | None] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON-ready data, with the same names."""
        errors = {"standard_error": dict(self.standard_error)}
        wider = {"standard_error_population": dict(self.standard_error_population)}
        return {**vars(self), "estimate": dict(self.estimate), **errors, **wider}


class Shown(Protocol):
    """A result, as far as pictures and tables of it go."""

    @property
    def goal(self) -> Goal: ...  # noqa: D102
    @property
    def selected(self) -> list[PromptResult]: ...  # noqa: D102
    @property
    def prompts(self) -> list[PromptResult]: ...  # noqa: D102
    @property
    def unresolved(self) -> list[PromptResult]: ...  # noqa: D102
    @property
    def baseline(self) -> str | int | None: ...  # noqa: D102
    @property
    def notes(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def spending(self) -> str: ...  # noqa: D102
    @property
    def sentence(self) -> str | None: ...  # noqa: D102
