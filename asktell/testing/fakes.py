"""An evaluator that returns recorded scores, so that tests need no model, no network and no clock."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from asktell import EvaluatorError
from asktell.numerics.arrays import Floats


class Table:
    """An evaluator `table(prompt, example)` that returns recorded scores.

        >>> from asktell.testing.fakes import Table
        >>> table = Table([[[1.0], [0.0]], [[0.0], [0.0]]])  # 2 prompts, 2 examples, 1 metric
        >>> table("prompt 0", 0)
        {'a': 1.0}

    Args:
        scores: the scores, by prompt, example and metric: an array of shape (K, N, m).
        metrics: the names of the m metrics. By default "a", "b", ...
        prompts: the texts of the K prompts. By default "prompt 0", "prompt 1", ...

    Attributes:
        calls: every (prompt, example) that was evaluated, in order.

    If `example` is None, the first call with a prompt returns the scores of the prompt
    on the first example, the second call on the second example, and so on. After the
    last example, the first example follows again.

    Raises:
        EvaluatorError: `scores` does not have three dimensions, or the number of
            metrics or prompts does not match it.
    """

    def __init__(
        self,
        scores: npt.ArrayLike,
        metrics: Sequence[str] | None = None,
        prompts: Sequence[str] | None = None,
    ) -> None:
        self.scores = np.array(scores, dtype=np.float64)
        if self.scores.ndim != 3:
            raise EvaluatorError(
                f"A Table needs scores (prompts, examples, metrics), got shape {self.scores.shape}."
            )
        n_prompts, _, n_metrics = self.scores.shape
        self.metrics = tuple(
            "abcdefghijklmnopqrstuvwxyz"[:n_metrics] if metrics is None else metrics
        )
        self.prompts = (
            [f"prompt {k}" for k in range(n_prompts)]
            if prompts is None
            else list(prompts)
        )
        if len(self.metrics) != n_metrics or len(self.prompts) != n_prompts:
            raise EvaluatorError(
                f"Scores of shape {self.scores.shape} need {n_metrics} metrics and {n_prompts} prompts, "
                f"got {len(self.metrics)} and {len(self.prompts)}."
            )
        self.calls: list[tuple[str, int | None]] = []
        self._row = {prompt: k for k, prompt in enumerate(self.prompts)}
        self._drawn: Counter[str] = Counter()

    def __call__(self, prompt: str, example: int | None) -> dict[str, float]:
        """Return the recorded scores, by metric."""
        self.calls.append((prompt, example))
        if example is None:
            example = self._drawn[prompt] % self.scores.shape[1]
            self._drawn[prompt] += 1
        row = self.scores[self._row[prompt], example]
        return dict(zip(self.metrics, row.tolist(), strict=True))

    @property
    def means(self) -> Floats:
        """The mean over all examples, for each prompt and metric. Shape (K, m).

        A selector with `inputs="given"` estimates these means.
        """
        return np.asarray(self.scores.mean(axis=1))
