"""promptfoo's results as CSV: `promptfoo eval --output results.csv`, and the export of its web page."""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, final

from asktell import InvalidArgumentError
from asktell.extend import short
from asktell_adapters.finished.frame import delimiter_of
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.number_column import NumberColumn, is_unknown
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted
from asktell_adapters.tables.rows import csv_lines, from_json

_STATUS, _SCORE, _NAMED, _REASON = "Status", "Score", "Named Scores", "Grader Reason"
_PROMPT = re.compile(r"\[(?P<provider>[^\]]*)\] (?P<label>.*)", re.DOTALL)
# The web page and old versions write the outcome before the response, instead of columns
_OUTCOME = re.compile(r"\[(PASS|FAIL|ERROR)\](?: \((-?\d+(?:\.\d+)?)\))?")
_NO_ASSERTIONS = "Pass Reason: No assertions"


class _Output(NamedTuple):
    """The columns of one prompt and provider.

    Attributes:
        start: position of the column with the response, whose title names both.
        end: position after the last column.
    """

    start: int
    end: int


@final
class PromptfooCsvReader:
    """The columns of variables come first, then those of each prompt: response, status, score, named scores, reason."""

    name = "promptfoo's CSV"

    def recognizes(self, source: Source) -> bool:
        """Whether the header has columns such as "[openai:gpt-4o] Summarize {{text}}", each with status and score."""
        if source.is_binary or source.is_folder or b"[" not in source.head:
            return False
        try:
            start = source.text[:65_536]
            lines = csv_lines(start, delimiter_of(start), source.path)
        except InvalidArgumentError:
            return False
        return len(lines) > 1 and bool(_outputs(lines[0][1], lines[1][1]))

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the results of all prompts and providers.

        Raises:
            InvalidArgumentError: a score is no number.
        """
        text = source.text
        (_, header), *rows = csv_lines(text, delimiter_of(text), source.path)
        outputs = _outputs(header, rows[0][1])
        titles = [_PROMPT.fullmatch(header[output.start].strip()) for output in outputs]
        parts = [(title["provider"], title["label"]) for title in titles if title]
        n_providers = len({provider for provider, _ in parts})
        n_labels = len({label for _, label in parts})
        variables = header[: outputs[0].start]
        candidates = []
        for output, (provider, label) in zip(outputs, parts, strict=True):
            words = [provider] * (n_providers > 1)
            words += [label] * (n_labels > 1 or n_providers == 1)
            graded = [
                self._graded(source, line, cells, header, output, len(variables))
                for line, cells in rows
            ]
            candidates.append(
                ScoredCandidate(
                    source.path,
                    ScoreColumns.of(graded),
                    "/".join(words),
                    text=label if n_providers == 1 else None,
                )
            )
        return Scores(
            self.name,
            candidates,
            "providers" if n_labels == 1 < n_providers else "prompts",
            f"variables {', '.join(variables)}"
            if variables
            else "rows by their position",
            repeats="promptfoo's --repeat",
        )

    def _graded(
        self,
        source: Source,
        line: int,
        cells: Sequence[str],
        header: Sequence[str],
        output: _Output,
        n_variables: int,
    ) -> Graded:
        """The evaluation in the columns of a prompt."""
        values = {
            title: cells[at]
            for at, title in enumerate(header[output.start : output.end], output.start)
            if at < len(cells)
        }
        response = cells[output.start] if output.start < len(cells) else ""
        example = "; ".join(cell.strip() for cell in cells[:n_variables])
        if not n_variables:
            example = str(line)
        shown = _OUTCOME.match(response)
        status = (values.get(_STATUS) or (shown[1] if shown else "")).strip().upper()
        if status == "ERROR":
            reason = values.get(_REASON) or response or "no reason given"
            return Graded(
                example, {}, f"promptfoo reported this error: {reason.strip()}"
            )
        scores: dict[str, float] = {}
        score = values.get(_SCORE) or (shown[2] if shown else None)
        # Without assertions, promptfoo reports a pass, which means nothing
        if _NO_ASSERTIONS not in response:
            if status in ("PASS", "FAIL"):
                scores["success"] = float(status == "PASS")
            if not is_unknown(score):
                scores["score"] = _number(source, line, str(score))
        named: Any = values.get(_NAMED)
        if not is_unknown(named):
            parsed = from_json(named, source.path, line)
            if isinstance(parsed, dict):
                for name, value in parsed.items():
                    is_number = isinstance(value, int | float)
                    scores[name] = float(value) if is_number else math.nan
        return Graded(example, scores)


def _outputs(header: Sequence[str], first: Sequence[str]) -> list[_Output]:
    """The columns of each prompt. Empty unless promptfoo wrote the header and the first row."""
    starts = [at for at, title in enumerate(header) if _PROMPT.fullmatch(title.strip())]
    if not starts:
        return []
    ends = [*starts[1:], len(header)]
    outputs = [_Output(start, end) for start, end in zip(starts, ends, strict=True)]
    has_columns = all(
        {_STATUS, _SCORE} <= set(header[output.start : output.end])
        for output in outputs
    )
    has_outcomes = all(at < len(first) and _OUTCOME.match(first[at]) for at in starts)
    return outputs if has_columns or has_outcomes else []


def _number(source: Source, line: int, cell: str) -> float:
    column = NumberColumn.of([cell])
    if not column.is_numeric:
        raise InvalidArgumentError(
            f"{source.path}, line {line}: The score must be a number, got {short(cell)}. Export the results again."
        )
    return float(column.numbers[0])
