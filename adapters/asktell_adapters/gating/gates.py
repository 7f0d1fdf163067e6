"""`gate`: the verdict on a candidate, in a test suite or a notebook."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from asktell import InvalidArgumentError, Selector, Study
from asktell.extend import Goal, short, some
from asktell_adapters.finished import Scores, Wanted, read_results
from asktell_adapters.gating.finished import FinishedGate, gate_selection
from asktell_adapters.gating.ruling import Ruling
from asktell_adapters.metrics.licence import Licensing

if TYPE_CHECKING:  # it needs the extra `config`, which files of results do not need
    from asktell_adapters.config import Config

Subject: TypeAlias = (
    "str | Path | Sequence[str | Path] | Scores | Selector | Study | Config"
)
"""What a gate can be about. See `gate`."""


def gate(
    subject: Subject,
    *,
    candidate: Any = None,
    baseline: Any = None,
    margin: float | None = None,
    confidence: float = 0.95,
    goal: Goal | None = None,
    wanted: Wanted | None = None,
    inputs: Literal["new", "given"] = "given",
    recheck: int | None = None,
    accept_price: bool = False,
    progress: bool = False,
    licence: str | Path | None = None,
    floor: float | None = None,
) -> Ruling:
    """Return the verdict on a candidate: passed, failed or undecided.

    It passes if it is established that the candidate is not worse than the baseline by
    more than the margin, fails no more often, and satisfies every constraint of the
    goal. The probability that the verdict is wrong is at most 1 - `confidence`.

    ```python
    from asktell_adapters.gating import gate

    def test_the_new_prompt_is_not_worse():
        ruling = gate("gate.toml", candidate="new", baseline="mine", margin=0.05)
        assert ruling.passed, ruling
    ```

    The subject is one of

    - the path of a configuration, which ends with `.toml`, or a `Config`: both prompts
      are evaluated until the verdict is established, or the budget is spent
    - the path of a file of results, a list of paths, or `Scores`: two candidates of
      finished results are compared. Nothing is evaluated. `goal` is required
    - a `Selector` or a `Study`: two of its prompts are compared by the evaluations so
      far, whether it is done or not. Nothing is evaluated. If a prompt was selected
      among several by the same scores, the gate allows for that

    Args:
        subject: what to compare.
        candidate: id of the new prompt, or its name in files of results. None: the
            other prompt, if there are two.
        baseline: id of the prompt in use. None: the baseline of the configuration or
            the selection. For files of results, it is required.
        margin: how much worse the candidate may be, in units of the metric. None: the
            tolerance of the objective, 0 without one or with several objectives.
        confidence: the probability that the verdict is right, at least.
        goal: for files of results, the goal, such as `asktell.BestFeasible("accuracy")`.
        wanted: for files of results, how to read them. For example,
            `Wanted(candidates=("old", "new"))` compares two columns of a table.
        inputs: for files of results, whether the verdict is about unseen inputs
            ("new"), or exactly about the examples ("given").
        recheck: for a configuration, the most evaluations to repeat after the verdict,
            to see on which examples the difference holds. None: 50.
        accept_price: for a configuration, True to start although the evaluations may
            cost more than its `confirm_above`.
        progress: for a configuration, True to show a progress bar.
        licence: for files of results, the licence of the LLM judge whose scores these
            are, as `asktell judge` wrote it.
        floor: for files of results, the lowest agreement of the judge with people, from
            0 to 1. If the licence is missing, or its lower bound is below the floor,
            the gate is undecided.

    Raises:
        InvalidArgumentError: a prompt is missing or unknown, an argument does not suit
            the subject, the price is above `confirm_above`, or a file cannot be read.
        ConfigError: a mistake in the configuration.
        EvaluatorError: no evaluation succeeded, or too many in a row failed.
        UnclearResultsError: several readings of files of results are plausible.
    """
    if goal is not None and not isinstance(goal, Goal):
        raise InvalidArgumentError(
            f'goal must be a goal, such as asktell.BestFeasible("accuracy"), got {short(goal)}.'
        )
    of_files = {
        "goal": goal is not None,
        "wanted": wanted is not None,
        "inputs": inputs != "given",
        "licence": licence is not None,
        "floor": floor is not None,
    }
    of_configurations = {
        "recheck": recheck is not None,
        "accept_price": accept_price,
        "progress": progress,
    }
    if isinstance(subject, Selector | Study):
        _refuse(of_files, "files of results")
        _refuse(of_configurations, "configurations")
        return gate_selection(subject, candidate, baseline, margin, confidence)
    if isinstance(subject, Scores) or _are_results(subject):
        _refuse(of_configurations, "configurations")
        # Scores that were read before have no paths, so their page has a name of its own.
        paths: Sequence[str | Path] = ()
        if isinstance(subject, Scores):
            scores = subject
        else:
            paths = [subject] if isinstance(subject, str | Path) else list(subject)  # type: ignore[arg-type]
            scores = read_results(paths, wanted)
        if goal is None:
            raise InvalidArgumentError(
                f"{scores.overview()} No goal is given. Pass one, such as goal=asktell.BestFeasible"
                f"({scores.metrics[0]!r}). The metrics are {some(scores.metrics)}."
            )
        pair = candidate, baseline
        needs_licence = licence is not None or floor is not None
        licensing = Licensing.of_file(licence, floor) if needs_licence else None
        finished = FinishedGate(
            scores, goal, *pair, margin, confidence, inputs, licensing=licensing
        )
        return finished.decide(paths)
    if not isinstance(subject, str | Path):
        from asktell_adapters.config import Config

        if not isinstance(subject, Config):
            raise InvalidArgumentError(
                "subject must be the path of a configuration or of files of results, a Config, Scores, a Selector or "
                f"a Study, got {short(subject)}."
            )
    _refuse(of_files, "files of results")
    return _configured(
        subject, candidate, baseline, margin, confidence, recheck, accept_price, progress
    )  # fmt: skip


def _are_results(subject: object) -> bool:
    """Whether the subject is paths of files of results: all that is no configuration."""
    if isinstance(subject, str | Path):
        return Path(subject).suffix.lower() != ".toml"
    return isinstance(subject, Sequence)


def _refuse(passed: Mapping[str, bool], what: str) -> None:
    """Refuse the arguments that were passed, because they do not suit the subject."""
    wrong = [name for name, is_passed in passed.items() if is_passed]
    if wrong:
        raise InvalidArgumentError(
            f"{' and '.join(wrong)} can be used with {what} only. Remove {'it' if len(wrong) == 1 else 'them'}."
        )


def _configured(
    subject: "str | Path | Config",
    candidate: str | None,
    baseline: str | None,
    margin: float | None,
    confidence: float,
    recheck: int | None,
    accept_price: bool,
    progress: bool,
) -> Ruling:
    """The verdict on two prompts of a configuration, which are evaluated."""
    from asktell_adapters.config import load_config
    from asktell_adapters.estimate import estimate
    from asktell_adapters.gating.configured import ConfiguredGate

    config = (
        load_config(Path(subject), baseline=baseline)
        if isinstance(subject, str | Path)
        else subject
    )
    try:
        gate = ConfiguredGate(config, candidate, baseline, margin, confidence, recheck)
        if config.confirm_above is not None and not accept_price:
            most = estimate(gate.evaluator, gate.whole).most_cost
            if most is not None and most > config.confirm_above:
                raise InvalidArgumentError(
                    f"This gate may cost up to {most:.4g}, more than confirm_above = {config.confirm_above:g}. To "
                    "start it, pass accept_price=True."
                )
        return gate.decide(progress)
    finally:
        # A configuration that the caller loaded stays open for further gates.
        if config is not subject:
            config.close()
