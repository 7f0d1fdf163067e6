"""An evaluator whose harness is promptfoo: chosen pairs of its config's prompts and tests, its assertions' scores."""

import hashlib
import json
import logging
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
from asktell.extend import write_atomically
from asktell_adapters._scores import checked_example, if_ready, or_raise, positive
from asktell_adapters.harnesses.promptfoo.node import (
    NodeWorker,
    RefusedError,
    WorkerLostError,
    find_node,
    find_promptfoo,
)
from asktell_adapters.llms.base import CompletionError

_log = logging.getLogger("asktell")
Row = dict[str, Any]
"""An EvaluateResult of promptfoo."""

_GRACE = 60.0  # seconds beyond the evaluations' own, for loading and reading
_ERROR = 2  # promptfoo's ResultFailureReason: none 0, an assertion 1, an error 2
# How promptfoo, which scores them 0, says that an assertion could not be tried.
_BROKEN = ("Custom function threw error", "Python code execution failed", "Ruby code execution failed")


@final
class PromptfooEvaluator(AbstractContextManager["PromptfooEvaluator"]):
    """Evaluates prompts on the tests of a promptfoo config, by one Node process that stays.

    A trial's example is the index of a test (`tests`), its prompt one of `prompts` or any other text. A prompt is data:
    its variables (`{{name}}`, `{{name.key}}`) are filled in, and whatever else stands in it or in their values stays
    text. Scores are `score` (unless an assertion's value leaves [0, 1], which would decide that mean alone) and
    `success` (0 or 1), the assertions' named metrics, and where
    promptfoo knows them `latency` (seconds), `cost`, `tokens`, `input_tokens` and `output_tokens`, of the provider
    alone. A metric of that name in the config comes before them.

    Args:
        config: path of a promptfooconfig (YAML, JSON, JavaScript), or the same as a mapping.
        provider: label or id of the one to evaluate, if the config has several.
        timeout: seconds for one evaluation, its assertions included.
        prompts_are_code: let promptfoo evaluate prompts, and the variables' values, in its whole template language. A
            template of it is code, which can run any command on this machine and read its environment: only for
            prompts and tests that nobody else writes, neither an LLM, nor a data set, nor somebody over HTTP.
        rows: a file to append promptfoo's results to, one JSON line each; `write_results` needs it.
        node_modules: the folder in which promptfoo is; by default it is looked for from the config's folder upwards,
            then by the command `promptfoo`.
        node: the command, or path, of Node.

    Pairs of a batch are evaluated at once, as many as `evaluateOptions.maxConcurrency` lets. If the process dies with a
    batch, its pairs are evaluated again, one by one, so that only the one that kills it fails.

    Raises:
        InvalidArgumentError: promptfoo cannot read the config, or asktell cannot choose from it.
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
                raise InvalidArgumentError(f"There is no promptfoo config {str(path)!r}.")
            folder, config = path.parent, str(path)
        else:
            try:
                json.dumps(config)
            except (TypeError, ValueError) as error:
                raise InvalidArgumentError(
                    f"A promptfoo config given as a mapping must be plain data: {error}."
                ) from None
        self._open = {"open": {"config": config, "provider": provider, "code": prompts_are_code}}
        self._worker = NodeWorker(find_node(node), find_promptfoo(node_modules, folder), folder)
        self._lock = threading.Lock()
        self.timeout = positive("timeout", timeout, " of seconds")
        try:
            self._suite = self._worker.ask(self._open, _GRACE)
            self.prompts = _named(self._suite["prompts"])
        except (RefusedError, InvalidArgumentError) as error:
            self._worker.close()
            raise InvalidArgumentError(f"The promptfoo config cannot be used: {error}") from error
        if unsupported := self._suite["unsupported"]:
            _log.warning(
                "%s; promptfoo's own commands refuse it. Install another Node, or give node=PATH.", unsupported
            )
        self._index = {text: index for index, text in enumerate(self.prompts.values())}
        self._rows = None if rows is None else Path(rows)
        self._places: dict[Key, int] = {}  # of the prompts in the file of rows
        self._warned = False  # that there is no `score`

    @property
    def tests(self) -> list[dict[str, Any]]:
        """The tests, in the order of their indices: `description`, `vars`, `metadata`, and the `metrics` they name."""
        return list(self._suite["tests"])

    @property
    def metrics(self) -> list[str]:
        """The metrics that every test's assertions name, apart from those that promptfoo adds."""
        named = [test["metrics"] for test in self._suite["tests"]]
        return [name for name in (named[0] if named else []) if all(name in metrics for metrics in named)]

    @property
    def unbounded(self) -> list[str]:
        """Assertions that may give any number, by their metric or else their type: they run code."""
        return sorted({name for test in self._suite["tests"] for name in test["unbounded"]})

    def __call__(self, prompt: str, example: int | None) -> dict[str, float]:
        return or_raise(self._outcomes([(prompt, "prompt", example)])[0])

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[dict[str, float] | Exception]:
        return self._outcomes([(t.prompt, str(t.prompt_id), t.example) for t in trials])

    def _outcomes(self, wanted: list[tuple[str, str, int | None]]) -> list[dict[str, float] | Exception]:
        def pair(each: tuple[str, str, int | None]) -> dict[str, Any]:
            text, name, example = each
            test = checked_example(example, len(self._suite["tests"]))
            return {"prompt": self._index.get(text, {"raw": text, "label": name}), "test": test}

        def evaluate(pairs: list[dict[str, Any]]) -> list[dict[str, float] | Exception]:
            found = zip(self._evaluate(pairs), pairs, strict=True)
            return [self._outcome(result, each["test"]) for result, each in found]

        with self._lock:
            return if_ready(wanted, pair, evaluate)

    def _outcome(self, result: Row | Exception, example: int | None) -> dict[str, float] | Exception:
        if isinstance(result, Exception):
            return result
        if self._rows is not None:
            self._keep(self._rows, {**result, "testIdx": example})
        if (found := _beyond(result)) and not self._warned:
            self._warned = True
            name, value = found
            _log.warning(
                "The assertion %r gave %g, which is not in [0, 1]. promptfoo's `score` is the mean over all "
                "assertions, which it would decide alone, so there is no `score`: choose by the `metric` of an "
                "assertion.",
                name, value,
            )  # fmt: skip
        return scores_of(result)

    def _keep(self, path: Path, row: Row) -> None:
        """Add a result to the file of rows, with the prompt's own index in the place of that in its batch."""
        try:
            if not self._places:
                self._places = places(self._suite, [])
                with suppress(InvalidStateError):  # write_results() will say so
                    self._places = places(self._suite, read_rows(path))
            row["promptIdx"] = self._places.setdefault(key_of(row), len(self._places))
            append_row(path, row)
        except OSError as error:  # the scores are good all the same
            _log.warning("A result of promptfoo could not be kept in %s: %s", path, error)

    def _evaluate(self, pairs: list[dict[str, Any]]) -> list[Row | Exception]:
        """A row or a failure for each pair; those that a batch was left without are tried alone."""
        try:
            rows = self._ask(pairs)
        except (RefusedError, WorkerLostError) as error:
            if len(pairs) == 1:
                return [error]
            rows = [None] * len(pairs)
        if len(pairs) == 1:
            return [rows[0] or EvaluatorError("promptfoo returned no result for this prompt and test")]
        return [row or self._evaluate([pair])[0] for row, pair in zip(rows, pairs, strict=True)]

    def _ask(self, pairs: list[dict[str, Any]]) -> list[Row | None]:
        if not self._worker.running:
            suite = self._worker.ask(self._open, _GRACE)
            if (suite["prompts"], suite["tests"]) != (self._suite["prompts"], self._suite["tests"]):
                raise RefusedError("the promptfoo config, or a file that it names, has changed since it was read")
        limit = self._suite["concurrency"] or len(pairs)
        serial = any(self._suite["tests"][pair["test"]]["serial"] for pair in pairs)
        turns = len(pairs) if serial else math.ceil(len(pairs) / limit)
        request = {"evaluate": {"pairs": pairs, "timeout": self.timeout}}
        rows: list[Row | None] = self._worker.ask(request, turns * self.timeout + _GRACE)
        return rows

    def write_results(self, path: str | Path) -> Path:
        """Write what was evaluated as `promptfoo eval --output` does, for `promptfoo import` and `promptfoo view`.

        Every row of the file `rows` is in it, those of earlier runs too; of several of one prompt and test, the last.
        """
        if self._rows is None:
            raise InvalidArgumentError("write_results() needs the rows: PromptfooEvaluator(..., rows='rows.jsonl').")
        return write_results(Path(path), read_rows(self._rows), self._suite)

    def close(self) -> None:
        with self._lock:
            self._worker.close()

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _named(prompts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Texts by their labels; by their place where promptfoo made the label out of the text."""
    named: dict[str, str] = {}
    texts: dict[str, str] = {}
    for place, prompt in enumerate(prompts, 1):
        text, label = prompt["raw"], prompt["label"]
        name = f"prompt-{place}" if text in label else label
        if text in texts or name in named:
            twice = f"one text as {texts[text]!r} and {name!r}" if text in texts else f"two prompts labelled {name!r}"
            raise InvalidArgumentError(f"it has {twice}. Keep one of them, or tell them apart.")
        named[name], texts[text] = text, name
    return named


def scores_of(row: Row) -> dict[str, float] | Exception:
    """The scores of a result of promptfoo by metric, or the error by which its evaluation failed."""
    response = row.get("response") or {}
    cost = response.get("cost")  # the row's own is 0 where it is unknown
    spent = float(cost) if isinstance(cost, int | float) else 0.0
    grading = row.get("gradingResult") or {}
    if row.get("failureReason") == _ERROR:
        return CompletionError(f"promptfoo: {_first_line(row.get('error'))}", cost=spent)
    for part in [*(grading.get("componentResults") or []), grading]:
        reason = str(part.get("reason") or "")
        if reason.startswith((*_BROKEN, "Scoring function error")) or (part.get("metadata") or {}).get("graderError"):
            assertion = part.get("assertion") or {}
            name = assertion.get("metric") or assertion.get("type") or "of the test"
            return CompletionError(f"promptfoo: the assertion {name!r} failed: {_first_line(reason)}", cost=spent)
    tokens = row.get("tokenUsage") or response.get("tokenUsage") or {}
    found = {"latency": (row.get("latencyMs") or 0) / 1000, "cost": cost}
    if tokens.get("total"):
        found |= {"input_tokens": tokens.get("prompt"), "output_tokens": tokens.get("completion")}
        found["tokens"] = tokens["total"]
    if grading.get("componentResults"):  # without assertions promptfoo gives 1, which is no score
        found["success"] = float(bool(row.get("success")))
        if _beyond(row) is None:
            found["score"] = row.get("score")
    scores = {name: value for name, value in found.items() if value is not None}
    scores |= row.get("namedScores") or {}
    # JSON has no NaN, and promptfoo writes null: tell() is to refuse it by its name.
    return {name: float(value) if isinstance(value, int | float) else math.nan for name, value in scores.items()}


def _beyond(row: Row) -> tuple[str, float] | None:
    """An assertion whose value is not in [0, 1], by its metric or type, and that value; None if there is none."""
    for part in (row.get("gradingResult") or {}).get("componentResults") or []:
        value, assertion = part.get("score"), part.get("assertion") or {}
        if isinstance(value, int | float) and not 0 <= value <= 1:
            return str(assertion.get("metric") or assertion.get("type") or "of the test"), float(value)
    return None


def _first_line(text: object) -> str:
    lines = str(text or "").strip().splitlines()
    return lines[0][:500] if lines else "no reason given"


# promptfoo's results: rows kept as they come, and the file of version 3 that `promptfoo import` and `view` take


Key: TypeAlias = tuple[str, str]
"""A prompt's label and template."""

_OUTCOMES = ("testPassCount", "testFailCount", "testErrorCount")  # by failureReason: none, an assertion, an error
_TOKENS = ("prompt", "completion", "cached", "total", "numRequests")


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Add a result to the file, in the JSON lines that `promptfoo eval --output results.jsonl` writes."""
    with open(path, "a", encoding="utf-8", opener=_for_its_owner) as file:
        file.write(json.dumps(row) + "\n")


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The results of a file, oldest first; of a last line that a crash has cut off, nothing."""
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
            raise InvalidStateError(f"{path}, line {number} is not a result that was kept here: {error!r}") from error
    return rows


def key_of(row: Mapping[str, Any]) -> Key:
    """Which prompt a result is of."""
    return row["prompt"]["label"], row["prompt"]["template"]


def places(suite: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> dict[Key, int]:
    """Every prompt's index: that of the config; of prompts from elsewhere the next ones, in the order of the rows."""
    keys = [*((prompt["label"], prompt["raw"]) for prompt in suite["prompts"]), *map(key_of, rows)]
    return {key: place for place, key in enumerate(dict.fromkeys(keys))}


def write_results(path: Path, rows: Iterable[Mapping[str, Any]], suite: Mapping[str, Any]) -> Path:
    """Write rows as one evaluation; `suite` is what the worker said of the config."""
    rows = list(rows)
    latest = {(key_of(row), row["testIdx"]): dict(row) for row in rows}
    columns: dict[Key, list[Row]] = {key: [] for key in places(suite, rows)}
    for (key, _), row in latest.items():
        columns[key].append(row)
    # promptfoo's list of evaluations takes the number of tests of the first column for that of all.
    order = sorted(columns, key=lambda key: -len(columns[key]))
    place, ids = {key: i for i, key in enumerate(order)}, {key: _sha256(key[0]) for key in order}
    results = [
        {**row, "promptIdx": place[key], "testIdx": test, "promptId": ids[key]} for (key, test), row in latest.items()
    ]
    results.sort(key=lambda row: (row["testIdx"], row["promptIdx"]))
    now = datetime.now(UTC)
    moment = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    total, tests = _metrics([*latest.values()]), len({test for _, test in latest})
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
                **{name: total[of] for name, of in zip(("successes", "failures", "errors"), _OUTCOMES, strict=True)},
                "tokenUsage": total["tokenUsage"],
            },
        },
        "config": {
            "description": (
                f"Chosen by asktell: {total[_OUTCOMES[0]]} of {len(latest)} evaluations passed, {tests} tests"
            ),
            "prompts": [{"raw": template, "label": label} for label, template in order],
            "providers": [provider["id"]],
            "tests": [{"vars": test["vars"], "metadata": test["metadata"]} for test in suite["tests"]],
        },
        "shareableUrl": None,
        "metadata": {"promptfooVersion": suite["version"], "exportedAt": moment, "evaluationCreatedAt": moment},
    }
    write_atomically(path, json.dumps(document))
    return path


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of results, what promptfoo counts and adds up for a prompt."""
    gradings = [row.get("gradingResult") or {} for row in rows]
    passed = [bool(part.get("pass")) for each in gradings for part in each.get("componentResults") or []]
    reasons = Counter(row.get("failureReason") or 0 for row in rows)
    used = [row.get("tokenUsage") or {} for row in rows]
    named, weights, counts = defaultdict[str, float](float), defaultdict[str, float](float), Counter[str]()
    for row, grading in zip(rows, gradings, strict=True):
        for name, value in (row.get("namedScores") or {}).items():
            weight = (grading.get("namedScoreWeights") or {}).get(name, 1)
            named[name] += (value or 0) * weight
            weights[name] += weight
            counts[name] += 1
    return {
        **{name: reasons[reason] for reason, name in enumerate(_OUTCOMES)},
        "assertPassCount": sum(passed),
        "assertFailCount": len(passed) - sum(passed),
        "tokenUsage": {name: sum(each.get(name) or 0 for each in used) for name in _TOKENS},
        "namedScores": named,
        "namedScoresCount": counts,
        "namedScoreWeights": weights,
        **{
            name: sum(row.get(of) or 0 for row in rows)
            for name, of in (("score", "score"), ("totalLatencyMs", "latencyMs"), ("cost", "cost"))
        },
    }
