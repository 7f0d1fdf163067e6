"""Scores from past Inspect logs for a new selection, so that these samples need not be evaluated again."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from asktell import AsktellError, InvalidArgumentError, Selector
from asktell.extend import AbstractStudy, import_extra, log
from asktell_adapters.harnesses.inspect.samples import KEY, Scoring, ValueToFloat

Logs: TypeAlias = Any
"""A log file, a folder of log files, an EvalLog, or an iterable of these."""


def observe_logs(
    selector: Selector | AbstractStudy,
    logs: Logs,
    *,
    dataset: Sequence[Any] | None = None,
    prompt: str | int | Callable[[Any], str | int | None] | None = None,
    score_limited: bool = False,
    value_to_float: ValueToFloat | None = None,
) -> int:
    """Record the scores of past evals in a selector or a study. They do not count against the budget.

    In logs of `InspectTask` and `InspectSource`, the metadata of each sample has its
    prompt and the index of its example. For other logs, pass `prompt` and `dataset`.

    Args:
        selector: a Selector or a Study with the same examples. Samples of prompts that
            it does not have are skipped.
        logs: log files, folders of log files, or EvalLogs. The completed samples of
            interrupted evals count, too.
        dataset: the task's dataset, in the order of the examples. If it is given, a
            logged sample is found in it by input and target. Otherwise, the index in
            the sample's metadata counts.
        prompt: id or text of the prompt that the logs were made with. Or a function
            that gets an EvalLog and returns the id or the text, or None to skip the
            log. If it is given, prompts in the metadata are ignored.
        score_limited: as for `InspectTask`.
        value_to_float: as for `InspectTask`.

    Returns:
        The number of recorded samples. If samples were skipped, a warning of the logger
        "asktell" has their number and the most common reasons, such as an error of the
        sample, an unknown prompt, or no score for a metric of the goal.

    Raises:
        InvalidArgumentError: a log cannot be read.
    """
    scoring = Scoring(value_to_float, score_limited, tuple(selector.metrics))
    places = None if dataset is None else _places(dataset)
    # A study has its selector as an attribute.
    holder: Any = getattr(selector, "selector", selector)
    prompts = holder.prompts
    skipped: Counter[str] = Counter()
    observed = 0
    for eval_log in _logs(logs):
        of_log = prompt(eval_log) if callable(prompt) else prompt
        for sample in eval_log.samples or ():
            ours = sample.metadata.get(KEY, {})
            try:
                prompt_id = _prompt_of(ours, prompts) if prompt is None else of_log
                if prompt_id is None:
                    raise InvalidArgumentError(
                        "not written by InspectTask, and no prompt=... given"
                    )
                example = _example_of(sample, ours, places)
                scores = scoring.of_epochs([sample], eval_log.eval.model)
                selector.observe(
                    prompt_id,
                    {name: scores[name] for name in selector.metrics},
                    example,
                )
            except AsktellError as error:
                skipped[str(error)] += 1
            else:
                observed += 1
    if skipped:
        reasons = "; ".join(
            f"{count} x {why:.200}" for why, count in skipped.most_common(5)
        )
        log.warning(
            "%d samples of Inspect logs were skipped: %s", skipped.total(), reasons
        )
    return observed


def _prompt_of(ours: Mapping[str, Any], prompts: Any) -> Any:
    """Return the id of the prompt in a sample's metadata, or None if the metadata has none.

    Raises:
        InvalidArgumentError: the selection does not have the prompt.
    """
    text = ours.get("prompt")
    prompt_id = prompts.texted(text)
    if prompt_id is None and text is not None:
        raise InvalidArgumentError(prompts.unknown(text))
    return prompt_id


def _example_of(
    sample: Any, ours: Mapping[str, Any], places: Mapping[object, int] | None
) -> Any:
    """Return the index of a sample: by its content if there is a dataset, else from its metadata."""
    example = ours.get("example") if places is None else places.get(_content(sample))
    if example is None:
        raise InvalidArgumentError(
            "not in the dataset" if places else "no dataset=... given to find it in"
        )
    return example


def _logs(logs: Logs) -> Iterator[Any]:
    """Yield every log as an EvalLog."""
    inspect_log = import_extra("inspect_ai.log", "inspect")
    if isinstance(logs, inspect_log.EvalLog):
        yield logs
    elif isinstance(logs, str | Path) and Path(logs).is_dir():
        yield from _logs(inspect_log.list_eval_logs(str(logs), descending=False))
    elif isinstance(logs, str | Path | inspect_log.EvalLogInfo):
        try:
            yield inspect_log.read_eval_log(
                str(logs) if isinstance(logs, Path) else logs, resolve_attachments=True
            )
        except Exception as error:
            raise InvalidArgumentError(
                f"{logs} is not an Inspect log ({type(error).__name__}: {error})."
            ) from error
    elif isinstance(logs, Iterable):
        for log in logs:
            yield from _logs(log)
    else:
        raise InvalidArgumentError(
            f"logs must be files, folders or EvalLogs, got {logs!r:.100}."
        )


def _places(dataset: Sequence[Any]) -> dict[object, int]:
    """Index of each sample by its content. The first of several equal samples counts."""
    places: dict[object, int] = {}
    for index, sample in enumerate(dataset):
        places.setdefault(_content(sample), index)
    return places


def _content(sample: Any) -> object:
    """Input and target of a sample. Messages are reduced to role and text, because their ids are random."""
    turns = (
        sample.input
        if isinstance(sample.input, str)
        else tuple((turn.role, turn.text) for turn in sample.input)
    )
    return turns, sample.target if isinstance(sample.target, str) else tuple(
        sample.target
    )
