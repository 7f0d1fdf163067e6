"""An evaluator that lets promptfoo run selected pairs of a config's prompts and tests, and returns its scores."""

import hashlib
import json
import math
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, final

from asktell import EvaluatorError, InvalidArgumentError, InvalidStateError, Trial
from asktell.extend import log, write_atomically
from asktell_adapters._util.scores import checked_example, if_ready, or_raise, positive
from asktell_adapters.harnesses.promptfoo.node import (
    NodeWorker,
    RefusedError,
    WorkerLostError,
    find_node,
    find_promptfoo,
)
from asktell_adapters.llms.base import CompletionError

Row = dict[str, Any]
"""An EvaluateResult of promptfoo."""

# Seconds for loading promptfoo and the config, in addition to those of the evaluations.
_GRACE = 60.0
_ERROR = 2  # promptfoo's ResultFailureReason: 0 none, 1 an assertion, 2 an error.
# promptfoo scores an assertion that could not run as 0. These are the beginnings of its
# reasons in that case.
_BROKEN = (
    "Custom function threw error",
    "Python code execution failed",
    "Ruby code execution failed",
)


@final
class PromptfooEvaluator(AbstractContextManager["PromptfooEvaluator"]):
    """Evaluate prompts on the tests of a promptfoo config, for `asktell.run`. promptfoo runs in one Node process.

    ```python
    with PromptfooEvaluator("promptfooconfig.yaml") as evaluator:
        selector = asktell.Selector(evaluator.prompts, goal, budget=500, examples=len(evaluator.tests))
        result = asktell.run(selector, evaluator)
    ```

    An example is a test of the config: its index is the position in `tests`. A prompt
    may be any text, also one that is not among the `prompts` of the config. In a
    prompt, only variables are filled in (`{{name}}`, `{{name.key}}`). The rest of the
    prompt is left as it is, and so are the values of variables, even if they look like
    code.

    An evaluation has these scores:

    - the named metrics of the test's assertions.
    - `score`: the mean over all assertions. It is left out if an assertion returned a
      value outside [0, 1], because that value alone could determine the mean.
    - `success`: 1 if the test passed, else 0. A test without assertions has neither
      `success` nor `score`.
    - `latency` (seconds), `cost`, `tokens`, `input_tokens`, `output_tokens`: of the
      provider alone. Each is left out if promptfoo does not report it.

    If a named metric has the name of another score, such as `cost`, the evaluation has
    the named metric.

    `asktell.run` evaluates trials in batches, whose size is its argument `concurrency`.
    promptfoo runs the trials of a batch in parallel, but not more at a time than the
    config allows (`evaluateOptions.maxConcurrency`). If the Node process dies
    during a batch, the trials without a result are evaluated again, one by one. So only
    a trial that ends the process is a failure.

    Args:
        config: path of a promptfooconfig (YAML, JSON or JavaScript), or its content as
            a mapping.
        provider: label or id of the provider to evaluate. Required if the config has
            several.
        timeout: seconds that one evaluation may take, including its assertions.
        prompts_are_code: True: promptfoo renders prompts and the values of variables in
            its full template language. Such a template is code: it can run any command
            on this machine and read its environment. Use this only for prompts and
            tests that you wrote yourself, and never if they come from an LLM, a dataset
            or an HTTP request.
        rows: a file. Each result of promptfoo is appended to it as one line of JSON.
            `write_results` needs this file. By default, results are not kept.
        node_modules: the folder `node_modules` with the package promptfoo. By default,
            promptfoo is searched for in the folder of the config and all folders above
            it, and then through the command `promptfoo`.
        node: the command `node`, or its path.

    Attributes:
        prompts: the prompts of the config, as a mapping from labels to texts. A prompt
            without a label is called "prompt-1", by its position from 1.
        timeout: seconds that one evaluation may take.

    Raises:
        InvalidArgumentError: promptfoo cannot read the config, or the config has
            nothing that asktell can select from.
        MissingExtraError: Node or promptfoo is not installed.
    """

    def __init__(
        self,
        config: str | Path | Mapping[str, Any] = "promptfooconfig.yaml",
        *,
        provider: str | None = None,
        timeout: float = 300.0,
        prompts_are_code: bool = False,
        rows: str | Path | None = None,
        node_modules: str | Path | None = None,
        node: str | Path = "node",
    ) -> None:
        folder = Path.cwd()
        if not isinstance(config, Mapping):
            path = Path(config).expanduser().absolute()
            if not path.is_file():
                raise InvalidArgumentError(
                    f"There is no promptfoo config {str(path)!r}. Pass the path of one."
                )
            folder, config = path.parent, str(path)
        else:
            try:
                json.dumps(config)
            except (TypeError, ValueError) as error:
                raise InvalidArgumentError(
                    f"A promptfoo config that is a mapping must be plain data ({error})."
                ) from None
        self._open = {
            "open": {"config": config, "provider": provider, "code": prompts_are_code}
        }
        self._worker = NodeWorker(
            find_node(node), find_promptfoo(node_modules, folder), folder
        )
        self._lock = threading.Lock()
        self.timeout = positive("timeout", timeout, " of seconds")
        try:
            self._suite = self._worker.ask(self._open, _GRACE)
            self.prompts = _named(self._suite["prompts"])
        except (RefusedError, InvalidArgumentError) as error:
            self._worker.close()
            raise InvalidArgumentError(
                f"The promptfoo config cannot be used: {error}"
            ) from error
        unsupported = self._suite["unsupported"]
        if unsupported:
            log.warning(
                "%s. promptfoo's own commands refuse this version. Install another Node, or pass node=PATH.",
                unsupported,
            )
        self._index = {text: index for index, text in enumerate(self.prompts.values())}
        self._rows = None if rows is None else Path(rows)
        # Indices of the prompts in the file of rows.
        self._places: dict[Key, int] = {}
        # Whether the warning about a missing `score` has been shown.
        self._warned = False

    @property
    def tests(self) -> list[dict[str, Any]]:
        """The tests of the config, by index.

        Each is a mapping. Among its keys are `description`, `vars`, `metadata`, and
        `metrics`: the names of the metrics of its assertions.
        """
        return list(self._suite["tests"])

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that the assertions of every test have.

        A metric that only some tests have is not included, nor are scores that need no
        entry in the config, such as `score` or `cost`.
        """
        named = [test["metrics"] for test in self._suite["tests"]]
        first = named[0] if named else []
        return [name for name in first if all(name in metrics for metrics in named)]

    @property
    def unbounded(self) -> list[str]:
        """Names of the assertions that can return a number outside [0, 1], because they run code.

        An assertion has the name of its metric. If it has no metric, its type is the
        name.
        """
        return sorted(
            {name for test in self._suite["tests"] for name in test["unbounded"]}
        )

    def __call__(self, prompt: str, example: int | None) -> dict[str, float]:
        """Return the scores of a prompt on the test with this index.

        Raises:
            EvaluatorError: the evaluation failed.
        """
        return or_raise(self._outcomes([(prompt, "prompt", example)])[0])

    def evaluate_batch(
        self, trials: Sequence[Trial]
    ) -> list[dict[str, float] | Exception]:
        """Evaluate trials. Return, in their order, the scores of each trial, or an exception if it failed."""
        return self._outcomes([(t.prompt, str(t.prompt_id), t.example) for t in trials])

    def _outcomes(
        self, wanted: list[tuple[str, str, int | None]]
    ) -> list[dict[str, float] | Exception]:
        """Evaluate the wanted (prompt, label, test) triples."""

        def pair(triple: tuple[str, str, int | None]) -> dict[str, Any]:
            text, name, example = triple
            test = checked_example(example, len(self._suite["tests"]))
            return {
                "prompt": self._index.get(text, {"raw": text, "label": name}),
                "test": test,
            }

        def evaluate(pairs: list[dict[str, Any]]) -> list[dict[str, float] | Exception]:
            results = zip(self._evaluate(pairs), pairs, strict=True)
            return [self._outcome(result, pair["test"]) for result, pair in results]

        with self._lock:
            return if_ready(wanted, pair, evaluate)

    def _outcome(
        self, result: Row | Exception, example: int | None
    ) -> dict[str, float] | Exception:
        """Store a result, and return its scores. Warn once about an assertion outside [0, 1]."""
        if isinstance(result, Exception):
            return result
        if self._rows is not None:
            self._keep(self._rows, {**result, "testIdx": example})
        beyond = _beyond(result)
        if beyond is not None and not self._warned:
            self._warned = True
            name, value = beyond
            log.warning(
                "The assertion %r returned %g, which is outside [0, 1]. promptfoo's `score` is the mean over all "
                "assertions, and this value alone could determine it, so `score` is left out. Use the `metric` of an "
                "assertion in the goal.",
                name,
                value,
            )
        return scores_of(result)

    def _keep(self, path: Path, row: Row) -> None:
        """Append a result to the file of rows. Its index of the prompt in the batch is replaced by that in the file."""
        try:
            if not self._places:
                self._places = places(self._suite, [])
                # A damaged file is reported by write_results().
                with suppress(InvalidStateError):
                    self._places = places(self._suite, read_rows(path))
            row["promptIdx"] = self._places.setdefault(key_of(row), len(self._places))
            append_row(path, row)
        except OSError as error:
            # The scores are valid anyway.
            log.warning(
                "A result of promptfoo could not be written to %s: %s", path, error
            )

    def _evaluate(self, pairs: list[dict[str, Any]]) -> list[Row | Exception]:
        """Return a row or an error for each pair. Pairs without a row in a batch are evaluated again one by one."""
        try:
            rows = self._ask(pairs)
        except (RefusedError, WorkerLostError) as error:
            if len(pairs) == 1:
                return [error]
            rows = [None] * len(pairs)
        if len(pairs) == 1:
            return [
                rows[0]
                or EvaluatorError(
                    "promptfoo returned no result for this prompt and test"
                )
            ]
        return [
            row or self._evaluate([pair])[0]
            for row, pair in zip(rows, pairs, strict=True)
        ]

    def _ask(self, pairs: list[dict[str, Any]]) -> list[Row | None]:
        """Let the Node process evaluate the pairs, and start the process first if it is not running."""
        if not self._worker.running:
            suite = self._worker.ask(self._open, _GRACE)
            if (suite["prompts"], suite["tests"]) != (
                self._suite["prompts"],
                self._suite["tests"],
            ):
                raise RefusedError(
                    "the promptfoo config, or a file that it refers to, has changed since it was read"
                )
        # The timeout of a call depends on how many evaluations run one after another.
        limit = self._suite["concurrency"] or len(pairs)
        serial = any(self._suite["tests"][pair["test"]]["serial"] for pair in pairs)
        # Evaluations that run one after the other.
        turns = len(pairs) if serial else math.ceil(len(pairs) / limit)
        request = {"evaluate": {"pairs": pairs, "timeout": self.timeout}}
        rows: list[Row | None] = self._worker.ask(
            request, turns * self.timeout + _GRACE
        )
        return rows

    def write_results(self, path: str | Path) -> Path:
        """Write all results in the format of `promptfoo eval --output`, for `promptfoo import` and `promptfoo view`.

        The written file has all results in the file `rows`, also the results of earlier
        runs. If a prompt ran on a test several times, the file has the last result.

        Args:
            path: the file to write. An existing file is replaced.

        Returns:
            The path of the written file.

        Raises:
            InvalidArgumentError: the evaluator has no file `rows`.
            InvalidStateError: a line of the file `rows` is not a result.
        """
        if self._rows is None:
            raise InvalidArgumentError(
                "write_results() needs a file of results. Pass PromptfooEvaluator(..., rows='rows.jsonl')."
            )
        return write_results(Path(path), read_rows(self._rows), self._suite)

    def close(self) -> None:
        """End the Node process. A later evaluation starts it again."""
        with self._lock:
            self._worker.close()

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _named(prompts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the prompts' texts by label.

    If a prompt has no label, promptfoo makes one from the text. The prompt is then
    named after its place.

    Raises:
        InvalidArgumentError: two prompts have the same text or label.
    """
    named: dict[str, str] = {}
    texts: dict[str, str] = {}
    for place, prompt in enumerate(prompts, 1):
        text, label = prompt["raw"], prompt["label"]
        name = f"prompt-{place}" if text in label else label
        if text in texts:
            raise InvalidArgumentError(
                f"the prompts {texts[text]!r} and {name!r} have the same text. Remove a prompt, or change its text."
            )
        if name in named:
            raise InvalidArgumentError(
                f"it has two prompts labelled {name!r}. Remove one, or change its label."
            )
        named[name], texts[text] = text, name
    return named


def scores_of(row: Row) -> dict[str, float] | Exception:
    """Return the scores of a promptfoo result by metric, or an error if its evaluation failed.

    A score that is not a number is NaN.
    """
    response = row.get("response") or {}
    # The cost of the row itself is 0 if it is unknown.
    cost = response.get("cost")
    failure = _failure(row)
    if failure is not None:
        spent = float(cost) if isinstance(cost, int | float) else 0.0
        return CompletionError(f"promptfoo reported {failure}", cost=spent)
    tokens = row.get("tokenUsage") or response.get("tokenUsage") or {}
    quantities = {"latency": (row.get("latencyMs") or 0) / 1000, "cost": cost}
    if tokens.get("total"):
        quantities |= {
            "input_tokens": tokens.get("prompt"),
            "output_tokens": tokens.get("completion"),
        }
        quantities["tokens"] = tokens["total"]
    if (row.get("gradingResult") or {}).get("componentResults"):
        # Without assertions, promptfoo reports the score 1, which means nothing.
        quantities["success"] = float(bool(row.get("success")))
        if _beyond(row) is None:
            quantities["score"] = row.get("score")
    scores = {name: value for name, value in quantities.items() if value is not None}
    scores |= row.get("namedScores") or {}
    # JSON has no NaN, so promptfoo writes null. As NaN, tell() can name the metric in
    # its error.
    return {
        name: float(value) if isinstance(value, int | float) else math.nan
        for name, value in scores.items()
    }


def _failure(row: Row) -> str | None:
    """Return why an evaluation failed: by an error, or because an assertion could not run. None if it did not."""
    if row.get("failureReason") == _ERROR:
        return f"this error: {_first_line(row.get('error'))}"
    grading = row.get("gradingResult") or {}
    # promptfoo 0.x has no failureReason. There, a failed assertion has a grading result.
    if row.get("error") and not grading and "failureReason" not in row:
        return f"this error: {_first_line(row['error'])}"
    for part in [*(grading.get("componentResults") or []), grading]:
        reason = str(part.get("reason") or "")
        broken = reason.startswith((*_BROKEN, "Scoring function error"))
        if broken or (part.get("metadata") or {}).get("graderError"):
            return (
                f"that the assertion {_assertion(part)!r} failed: {_first_line(reason)}"
            )
    return None


def _beyond(row: Row) -> tuple[str, float] | None:
    """Return the name and the value of the first assertion with a value outside [0, 1], or None."""
    for part in (row.get("gradingResult") or {}).get("componentResults") or []:
        value = part.get("score")
        if isinstance(value, int | float) and not 0 <= value <= 1:
            return str(_assertion(part)), float(value)
    return None


def _assertion(part: Mapping[str, Any]) -> Any:
    """The name of an assertion: its metric, or else its type."""
    assertion = part.get("assertion") or {}
    return assertion.get("metric") or assertion.get("type") or "of the test"


def _first_line(text: object) -> str:
    lines = str(text or "").strip().splitlines()
    return lines[0][:500] if lines else "no reason given"


# promptfoo's results: rows that are appended as they come, and the file (version 3) for
# `promptfoo import` and `view`


Key: TypeAlias = tuple[str, str]
"""A prompt's label and template."""

# By failureReason: none, an assertion, an error.
_OUTCOMES = ("testPassCount", "testFailCount", "testErrorCount")
_TOKENS = ("prompt", "completion", "cached", "total", "numRequests")


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append a result to the file, in the JSON Lines format of `promptfoo eval --output results.jsonl`."""
    with open(path, "a", encoding="utf-8", opener=_open_privately) as file:
        file.write(json.dumps(row) + "\n")


def _open_privately(path: str, flags: int) -> int:
    """Open a file that only its owner can read, because rows contain prompts and outputs."""
    return os.open(path, flags, 0o600)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the results in a file, oldest first. A last line that a crash has cut off is skipped.

    Raises:
        InvalidStateError: another line is not a result.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            rows.append(row)
            _ = row["prompt"]["template"], row["prompt"]["label"], row["testIdx"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if number == len(lines):
                break
            raise InvalidStateError(
                f"{path}, line {number} is not a result of promptfoo ({error!r}). Remove the line, or use another file."
            ) from error
    return rows


def key_of(row: Mapping[str, Any]) -> Key:
    """Return the label and the template of a result's prompt."""
    return row["prompt"]["label"], row["prompt"]["template"]


def places(
    suite: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> dict[Key, int]:
    """Return the index of every prompt: first the prompts of the config, then others in the order of the rows."""
    keys = [
        *((prompt["label"], prompt["raw"]) for prompt in suite["prompts"]),
        *map(key_of, rows),
    ]
    return {key: place for place, key in enumerate(dict.fromkeys(keys))}


def write_results(
    path: Path, rows: Iterable[Mapping[str, Any]], suite: Mapping[str, Any]
) -> Path:
    """Write rows as one evaluation of promptfoo.

    Args:
        path: the file to write.
        rows: results. The last of several for the same prompt and test counts.
        suite: the worker's description of the config.
    """
    rows = list(rows)
    latest = {(key_of(row), row["testIdx"]): dict(row) for row in rows}
    columns: dict[Key, list[Row]] = {key: [] for key in places(suite, rows)}
    for (key, _), row in latest.items():
        columns[key].append(row)
    # promptfoo's list of evaluations shows the number of tests of the first column, so
    # the longest column is first.
    order = sorted(columns, key=lambda key: -len(columns[key]))
    place = {key: i for i, key in enumerate(order)}
    ids = {key: hashlib.sha256(key[0].encode()).hexdigest() for key in order}
    results = [
        {**row, "promptIdx": place[key], "testIdx": test, "promptId": ids[key]}
        for (key, test), row in latest.items()
    ]
    results.sort(key=lambda row: (row["testIdx"], row["promptIdx"]))
    now = datetime.now(UTC)
    moment = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    total = _metrics([*latest.values()])
    tests = len({test for _, test in latest})
    provider = suite["provider"]
    document = {
        "evalId": f"eval-ask-{now:%Y-%m-%dT%H:%M:%S}",
        "results": {
            "version": 3,
            "timestamp": moment,
            "prompts": [
                {
                    "raw": key[1],
                    "label": key[0],
                    "id": ids[key],
                    "provider": provider["label"],
                    "metrics": _metrics(columns[key]),
                }
                for key in order
            ],
            "results": results,
            "stats": {
                "successes": total["testPassCount"],
                "failures": total["testFailCount"],
                "errors": total["testErrorCount"],
                "tokenUsage": total["tokenUsage"],
            },
        },
        "config": {
            "description": (
                f"Chosen by asktell: {total['testPassCount']} of {len(latest)} evaluations passed, {tests} tests"
            ),
            "prompts": [{"raw": template, "label": label} for label, template in order],
            "providers": [provider["id"]],
            "tests": [
                {"vars": test["vars"], "metadata": test["metadata"]}
                for test in suite["tests"]
            ],
        },
        "shareableUrl": None,
        "metadata": {
            "promptfooVersion": suite["version"],
            "exportedAt": moment,
            "evaluationCreatedAt": moment,
        },
    }
    write_atomically(path, json.dumps(document))
    return path


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the counts and sums over results that promptfoo has for each prompt."""
    gradings = [row.get("gradingResult") or {} for row in rows]
    passed = [
        bool(part.get("pass"))
        for grading in gradings
        for part in grading.get("componentResults") or []
    ]
    reasons = Counter(row.get("failureReason") or 0 for row in rows)
    used = [row.get("tokenUsage") or {} for row in rows]
    return {
        **{name: reasons[reason] for reason, name in enumerate(_OUTCOMES)},
        "assertPassCount": sum(passed),
        "assertFailCount": len(passed) - sum(passed),
        "tokenUsage": {name: _sum(used, name) for name in _TOKENS},
        **_named_scores(rows),
        "score": _sum(rows, "score"),
        "totalLatencyMs": _sum(rows, "latencyMs"),
        "cost": _sum(rows, "cost"),
    }


def _named_scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the weighted sum, the count and the sum of weights of each named metric, under promptfoo's names."""
    sums = defaultdict[str, float](float)
    weights = defaultdict[str, float](float)
    counts = Counter[str]()
    for row in rows:
        weights_of_row = (row.get("gradingResult") or {}).get("namedScoreWeights") or {}
        for name, value in (row.get("namedScores") or {}).items():
            weight = weights_of_row.get(name, 1)
            sums[name] += (value or 0) * weight
            weights[name] += weight
            counts[name] += 1
    return {
        "namedScores": sums,
        "namedScoresCount": counts,
        "namedScoreWeights": weights,
    }


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> Any:
    """The sum of a column. A missing value counts as 0."""
    return sum(row.get(name) or 0 for row in rows)
