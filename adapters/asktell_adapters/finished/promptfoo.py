"""promptfoo's results: `promptfoo eval --output results.json` or `.jsonl`, of the versions 2 to 4."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, final

from asktell import InvalidArgumentError
from asktell.extend import short
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted
from asktell_adapters.harnesses.promptfoo.evaluator import scores_of

_ANSWER = ("vars", "testCase", "namedScores")
# Scores of the call that made the response. A response from the cache has none of its own.
_OF_CALL = ("cost", "latency")


@final
class PromptfooReader:
    """A candidate is a prompt with a provider. Tests are matched by their variables, since filters renumber them."""

    name = "promptfoo's results"

    def recognizes(self, source: Source) -> bool:
        """Whether a result has a prompt, and variables or named scores."""
        rows = _rows(source)
        return bool(rows) and _is_result(rows[0])

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the results of all prompts and providers.

        Raises:
            InvalidArgumentError: a result is damaged.
        """
        rows = _rows(source)
        for number, row in enumerate(rows, start=1):
            if not _is_result(row):
                raise InvalidArgumentError(
                    f"{source.path}, result {number}: {short(row)} is not a result of promptfoo. Export the results "
                    "again."
                )
        # A part of the name that is the same for all candidates is left out.
        providers = {_provider(row) for row in rows}
        labels = {_label(row) for row in rows}
        try:
            tests = _tests(rows)
        except (TypeError, ValueError, AttributeError) as error:
            raise _unreadable(source, "a test", error) from error
        evaluations: dict[str, list[Graded]] = {}
        texts: dict[str, str | None] = {}
        n_cached = 0
        for number, (row, test) in enumerate(zip(rows, tests, strict=True), start=1):
            parts = [_provider(row)] * (len(providers) > 1)
            parts += [_label(row)] * (len(labels) > 1 or len(providers) == 1)
            try:
                scores = scores_of(row)
                if (row.get("response") or {}).get("cached"):
                    n_cached += 1
                    if isinstance(scores, dict):
                        scores = {k: x for k, x in scores.items() if k not in _OF_CALL}
            except (TypeError, ValueError, AttributeError) as error:
                raise _unreadable(source, f"result {number}", error) from error
            graded = (
                Graded(test, {}, str(scores))
                if isinstance(scores, Exception)
                else Graded(test, scores)
            )
            name = "/".join(parts)
            evaluations.setdefault(name, []).append(graded)
            texts.setdefault(name, _text(row) if len(providers) == 1 else None)
        notes = []
        if n_cached:
            notes.append(
                f"{source.path.name}: {n_cached:,} of {len(rows):,} responses are from promptfoo's cache. Their cost "
                "and latency are unknown. Run promptfoo with --no-cache to measure them."
            )
        return Scores(
            self.name,
            [
                ScoredCandidate(
                    source.path, ScoreColumns.of(rows_of), name, text=texts[name]
                )
                for name, rows_of in evaluations.items()
            ],
            "providers" if len(labels) == 1 < len(providers) else "prompts",
            "tests by their variables",
            repeats="promptfoo's --repeat",
            notes=notes,
        )


def _rows(source: Source) -> Sequence[Any]:
    """The results in a file, or nothing."""
    document = source.json
    if isinstance(document, dict):
        results = document.get("results")
        rows = results.get("results") if isinstance(results, dict) else results
        if isinstance(rows, list):
            return rows
    return source.records


def _is_result(row: object) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("prompt"), dict)
        and not set(_ANSWER).isdisjoint(row)
    )


def _unreadable(source: Source, what: str, error: Exception) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{source.path}, {what}: The result of promptfoo cannot be read ({error}). Export the results again."
    )


def _text(row: Mapping[str, Any]) -> str | None:
    """The prompt's template, or None if the result has no text."""
    raw = row["prompt"].get("template") or row["prompt"].get("raw")
    return raw if isinstance(raw, str) and raw.strip() else None


def _label(row: Mapping[str, Any]) -> str:
    """The label of the prompt of a result, or else its id or number."""
    prompt = row["prompt"]
    return str(
        prompt.get("label") or prompt.get("id") or f"prompt-{row.get('promptIdx', 0)}"
    )


def _provider(row: Mapping[str, Any]) -> str:
    """The label or the id of the provider of a result. Empty if it has none."""
    provider = row.get("provider")
    return (
        str(provider.get("label") or provider.get("id"))
        if isinstance(provider, dict)
        else str(provider or "")
    )


def _tests(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The name of the test of each result.

    The number of a test is no name, because a filter changes it. Tests are named by their
    variables alone, so that they match after a rubric was reworded. If several tests have
    the same variables, their descriptions and assertions distinguish them.
    """
    variables = [
        row.get("vars") or (row.get("testCase") or {}).get("vars") or {} for row in rows
    ]
    details = []
    for row in rows:
        case = row.get("testCase") or {}
        details.append(
            _as_text(
                {"description": case.get("description"), "assert": case.get("assert")}
            )
        )
    names = [_test(values) for values in variables]
    n_tests = Counter(name for name, _ in set(zip(names, details, strict=True)))
    return [
        f"{name} {detail}" if n_tests[name] > 1 else name
        for name, detail in zip(names, details, strict=True)
    ]


def _test(variables: Mapping[str, Any]) -> str:
    """A short variable alone is shown as it is, since readers recognize it."""
    (*_, only) = variables.values() if variables else ("",)
    if len(variables) == 1 and isinstance(only, str) and len(only) <= 60:
        return only
    return _as_text(dict(variables))


def _as_text(values: Mapping[str, Any]) -> str:
    present = {name: value for name, value in values.items() if value}
    return json.dumps(present, sort_keys=True, default=str)
