"""Past Inspect logs as a warm start: what they hold is observed, and not evaluated again."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from asktell import AsktellError, InvalidArgumentError, Selector
from asktell.extend import AbstractStudy, import_extra
from asktell_adapters.harnesses.inspect.samples import KEY, Scoring, ValueToFloat

Logs: TypeAlias = Any
"""A log file, a folder of them, an EvalLog, or several of these."""

_log = logging.getLogger("asktell")


def observe_logs(
    selector: Selector | AbstractStudy,
    logs: Logs,
    *,
    dataset: Sequence[Any] | None = None,
    prompt: str | int | Callable[[Any], str | int | None] | None = None,
    score_limited: bool = False,
    value_to_float: ValueToFloat | None = None,
) -> int:
    """Tell a selector or a study the scores of past evals; they inform it and cost no budget.

    Logs that `InspectTask` wrote say themselves which prompt and which example a sample belongs to. Of others, say the
    prompt, and give the dataset, in which samples are found again by their input and target.

    Args:
        selector: a Selector or a Study with the same prompts (other prompts are left out) and examples.
        logs: log files, folders of them, or EvalLogs. Interrupted ones too: samples that were ready count.
        dataset: the task's dataset, if the examples are to be found by what they are and not by their index.
        prompt: id or text of the prompt that the logs were made with; or a function from an EvalLog to that, or to
            None if it is to be left out.
        score_limited: as for InspectTask.
        value_to_float: as for InspectTask.

    Returns:
        How many samples were observed. Those that were not (an error, an unknown prompt, no score for a metric of the
        goal) are counted, with reasons, in a warning of the logger "asktell".

    Raises:
        InvalidArgumentError: a log cannot be read.
    """
    scoring = Scoring(value_to_float, score_limited, tuple(selector.metrics))
    places = None if dataset is None else _places(dataset)
    holder: Any = getattr(selector, "selector", selector)  # of a study
    known = holder.prompts
    skipped: Counter[str] = Counter()
    observed = 0
    for log in _logs(logs):
        of_log = prompt(log) if callable(prompt) else prompt
        for sample in log.samples or ():
            ours = sample.metadata.get(KEY, {})
            try:
                text = ours.get("prompt")
                which = of_log if prompt is not None else known.texted(text)
                if which is None and prompt is None and text is not None:
                    raise InvalidArgumentError(known.unknown(text))
                if which is None:
                    raise InvalidArgumentError("not written by InspectTask, and no prompt=... given")
                example = ours.get("example") if places is None else places.get(_content(sample))
                if example is None:
                    raise InvalidArgumentError(
                        "not in the dataset" if dataset else "no dataset=... given to find it in"
                    )
                scores = scoring.of_epochs([sample], log.eval.model)
                selector.observe(which, {name: scores[name] for name in selector.metrics}, example)
            except AsktellError as error:
                skipped[str(error)] += 1
            else:
                observed += 1
    if skipped:
        reasons = "; ".join(f"{count} x {why:.200}" for why, count in skipped.most_common(5))
        _log.warning("%d samples of Inspect logs were left out: %s", skipped.total(), reasons)
    return observed


def _logs(logs: Logs) -> Iterator[Any]:
    inspect_log = import_extra("inspect_ai.log", "inspect")
    if isinstance(logs, inspect_log.EvalLog):
        yield logs
    elif isinstance(logs, str | Path) and Path(logs).is_dir():
        yield from _logs(inspect_log.list_eval_logs(str(logs), descending=False))
    elif isinstance(logs, str | Path | inspect_log.EvalLogInfo):
        try:
            yield inspect_log.read_eval_log(str(logs) if isinstance(logs, Path) else logs, resolve_attachments=True)
        except Exception as error:
            raise InvalidArgumentError(f"{logs} is no Inspect log: {type(error).__name__}: {error}") from error
    elif isinstance(logs, Iterable):
        for log in logs:
            yield from _logs(log)
    else:
        raise InvalidArgumentError(f"logs are files, folders or EvalLogs, got {logs!r:.100}.")


def _places(dataset: Sequence[Any]) -> dict[object, int]:
    places: dict[object, int] = {}
    for index, sample in enumerate(dataset):
        places.setdefault(_content(sample), index)
    return places


def _content(sample: Any) -> object:
    """What tells samples apart: messages have random ids."""
    turns = sample.input if isinstance(sample.input, str) else tuple((turn.role, turn.text) for turn in sample.input)
    return turns, sample.target if isinstance(sample.target, str) else tuple(sample.target)
