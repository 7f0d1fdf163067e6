"""An evaluator that remembers: every evaluation goes to a JSON-lines file, and what is in the file is not paid again.

Selectors are deterministic, so an interrupted script that is simply repeated replays
its evaluations from the file and goes on where it was.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path

from asktell import Trial

Scores = Mapping[str, float]


class Recorded:
    """A batch evaluator around `evaluate(prompt, example) -> scores`, which runs in the executor.

    `fresh` counts the evaluations that were really made. Evaluations that fail are not
    recorded.
    """

    def __init__(
        self, evaluate: Callable[[str, int], Scores], path: Path, executor: Executor
    ) -> None:
        self._evaluate = evaluate
        self._executor = executor
        self._path = path
        self._known: dict[tuple[str, int], Scores] = {}
        self.fresh = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            whole = path.read_bytes()
            end = whole.rfind(b"\n") + 1  # a line cut short by a crash is dropped
            if end < len(whole):
                os.truncate(path, end)
            for line in whole[:end].decode().splitlines():
                row = json.loads(line)
                self._known[row["prompt"], row["example"]] = row["scores"]

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[Scores | Exception]:
        """Scores of each trial, from the file or from the evaluator."""
        return self.evaluate([(trial.prompt, trial.example or 0) for trial in trials])

    def evaluate(self, cells: Sequence[tuple[str, int]]) -> list[Scores | Exception]:
        """Scores of each (prompt, example)."""
        running = {
            cell: self._executor.submit(self._evaluate, *cell)
            for cell in cells
            if cell not in self._known
        }
        outcomes: list[Scores | Exception] = []
        with self._path.open("a") as file:
            for cell in cells:
                if cell in running:
                    try:
                        self._known[cell] = running.pop(cell).result()
                    except Exception as error:
                        outcomes.append(error)
                        continue
                    self.fresh += 1
                    row = {
                        "prompt": cell[0],
                        "example": cell[1],
                        "scores": dict(self._known[cell]),
                    }
                    file.write(json.dumps(row) + "\n")
                    file.flush()
                outcomes.append(self._known[cell])
        return outcomes
