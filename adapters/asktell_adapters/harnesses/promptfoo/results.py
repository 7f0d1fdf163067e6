"""promptfoo's results: rows kept as they come, and the file of version 3 that `promptfoo import` and `view` take."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from asktell import InvalidStateError

Key: TypeAlias = tuple[str, str]
"""A prompt's label and template."""

_OUTCOMES = ("testPassCount", "testFailCount", "testErrorCount")  # by failureReason: none, an assertion, an error


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Add a result to the file, in the JSON lines that `promptfoo eval --output results.jsonl` writes."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


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
    """Write rows as one evaluation.

    Args:
        path: the file.
        rows: results, with the prompt's template and label and the test's index in them.
        suite: what the worker said of the config: its version, provider, prompts and tests.
    """
    rows = list(rows)
    latest = {(key_of(row), row["testIdx"]): dict(row) for row in rows}
    # promptfoo's list of evaluations takes the number of tests of the first column for that of all.
    counts = Counter(key for key, _ in latest)
    place = {key: index for index, key in enumerate(sorted(places(suite, rows), key=lambda key: -counts[key]))}
    columns = {key: _column(*key, suite) for key in place}
    results = []
    for (key, test), row in latest.items():
        _count(columns[key]["metrics"], row)
        results.append({**row, "promptIdx": place[key], "testIdx": test, "promptId": columns[key]["id"]})
    results.sort(key=lambda row: (row["testIdx"], row["promptIdx"]))
    now = datetime.now(UTC)
    moment = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    totals = [column["metrics"] for column in columns.values()]
    passed, tests = sum(metrics["testPassCount"] for metrics in totals), len({test for _, test in latest})
    document = {
        "evalId": f"eval-ask-{now:%Y-%m-%dT%H:%M:%S}",
        "results": {
            "version": 3,
            "timestamp": moment,
            "prompts": list(columns.values()),
            "results": results,
            "stats": {
                "successes": passed,
                "failures": sum(metrics["testFailCount"] for metrics in totals),
                "errors": sum(metrics["testErrorCount"] for metrics in totals),
                "tokenUsage": {
                    name: sum(metrics["tokenUsage"][name] for metrics in totals) for name in totals[0]["tokenUsage"]
                }
                if totals
                else {},
            },
        },
        "config": {
            "description": f"Chosen by asktell: {passed} of {len(latest)} evaluations passed, {tests} tests",
            "prompts": [{"raw": template, "label": label} for label, template in columns],
            "providers": [suite["provider"]["id"]],
            "tests": [{"vars": test["vars"], "metadata": test["metadata"]} for test in suite["tests"]],
        },
        "shareableUrl": None,
        "metadata": {"promptfooVersion": suite["version"], "exportedAt": moment, "evaluationCreatedAt": moment},
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def _column(label: str, template: str, suite: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "raw": template,
        "label": label,
        "id": hashlib.sha256(label.encode()).hexdigest(),
        "provider": suite["provider"]["label"],
        "metrics": {
            "score": 0.0,
            **dict.fromkeys(_OUTCOMES, 0),
            "assertPassCount": 0,
            "assertFailCount": 0,
            "totalLatencyMs": 0,
            "tokenUsage": dict.fromkeys(("prompt", "completion", "cached", "total", "numRequests"), 0),
            "namedScores": {},
            "namedScoresCount": {},
            "namedScoreWeights": {},
            "cost": 0.0,
        },
    }


def _count(metrics: dict[str, Any], row: Mapping[str, Any]) -> None:
    metrics["score"] += row.get("score") or 0
    metrics[_OUTCOMES[row.get("failureReason") or 0]] += 1
    parts = (row.get("gradingResult") or {}).get("componentResults") or []
    metrics["assertPassCount"] += sum(1 for part in parts if part.get("pass"))
    metrics["assertFailCount"] += sum(1 for part in parts if not part.get("pass"))
    metrics["totalLatencyMs"] += row.get("latencyMs") or 0
    for name in metrics["tokenUsage"]:
        metrics["tokenUsage"][name] += (row.get("tokenUsage") or {}).get(name) or 0
    weights = (row.get("gradingResult") or {}).get("namedScoreWeights") or {}
    for name, value in (row.get("namedScores") or {}).items():
        weight = weights.get(name, 1)
        metrics["namedScores"][name] = metrics["namedScores"].get(name, 0) + (value or 0) * weight
        metrics["namedScoresCount"][name] = metrics["namedScoresCount"].get(name, 0) + 1
        metrics["namedScoreWeights"][name] = metrics["namedScoreWeights"].get(name, 0) + weight
    metrics["cost"] += row.get("cost") or 0
