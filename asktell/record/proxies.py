"""The scores of proxies: cheap metrics outside of the goal that help to predict its metrics."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cached import Memo
from asktell.numerics.shapes import Float, Int
from asktell.problem.checks import MalformedError
from asktell.problem.problem import Problem
from asktell.record.facet import Pack, Saved, column, matrix
from asktell.record.history import History


@dataclass(frozen=True, eq=False)
class ProxyScores:
    """Scores of proxies in the order of recording, as an immutable value. Each row is one score of one proxy."""

    # Each row has two numbers: the position of the proxy, and its score.
    _rows: History = field(default_factory=lambda: History(2))
    # Values that were computed from these scores
    memo: Memo = field(default_factory=Memo)

    def __len__(self) -> int:
        return len(self._rows)

    def append(
        self, arm: int, example: int | None, scores: tuple[float | None, ...]
    ) -> "ProxyScores":
        """With the scores of a response, by proxy. None stands for a missing score, and adds no row."""
        rows = self._rows
        for proxy, score in enumerate(scores):
            if score is not None:
                rows = rows.append(None, arm, example, (proxy, score))
        return self if rows is self._rows else ProxyScores(rows)

    @property
    def key(self) -> Hashable:
        """A cache key for results computed from these scores: equal for the same scores, and for no scores."""
        return self._rows if len(self) else None

    def arms(self, start: int = 0) -> Int[Ints, " rows"]:
        """The arm of each row from `start` on."""
        return self._rows.arms(start)

    def examples(self, start: int = 0) -> Int[Ints, " rows"]:
        """The example of each row from `start` on."""
        return self._rows.examples(start)

    def proxies(self, start: int = 0) -> Int[Ints, " rows"]:
        """The position of each row's proxy in `Problem.proxies`, from `start` on."""
        return self._rows.scores(start)[:, 0].astype(np.int64)

    def scores(self, start: int = 0) -> Float[Floats, " rows"]:
        """The score of each row from `start` on, in the unit of its proxy."""
        return self._rows.scores(start)[:, 1]

    def cover(self, n_arms: int) -> bool:
        """True if every arm has a score of a proxy."""
        return self.memo.get(
            ("cover", n_arms), lambda: len(np.unique(self.arms())) == n_arms
        )

    def of_cells(
        self, proxy: int
    ) -> tuple[Int[Ints, " cells"], Int[Ints, " cells"], Float[Floats, " cells"]]:
        """Arms, examples and mean scores of the cells with a score of a proxy, in the order of their last score.

        A score may be recorded twice: alone, and once more with the scores of the goal.
        It counts once.
        """
        return self.memo.get(("cells", proxy), lambda: self._cells(proxy))

    def _cells(
        self, proxy: int
    ) -> tuple[Int[Ints, " cells"], Int[Ints, " cells"], Float[Floats, " cells"]]:
        """The same, not cached."""
        rows = self.proxies() == proxy
        arms, examples, scores = (
            self.arms()[rows],
            self.examples()[rows],
            self.scores()[rows],
        )
        cells = arms * (examples.max(initial=0) + 1) + examples
        _, first_of_reversed, place, counts = np.unique(
            cells[::-1], return_index=True, return_inverse=True, return_counts=True
        )
        means = np.bincount(place, scores[::-1], len(counts)) / counts
        order = np.argsort(-first_of_reversed)
        last = len(cells) - 1 - first_of_reversed[order]
        return arms[last], examples[last], means[order]

    def means(self, names: Sequence[str], n_arms: int) -> list[dict[str, float]]:
        """For each arm, proxy -> the mean of its scores over the cells, without proxies that have none."""
        by_arm: list[dict[str, float]] = [{} for _ in range(n_arms)]
        for proxy, name in enumerate(names):
            arms, _, scores = self.of_cells(proxy)
            counts = np.bincount(arms, minlength=n_arms)
            sums = np.bincount(arms, scores, n_arms)
            for arm in np.flatnonzero(counts).tolist():
                by_arm[arm][name] = float(sums[arm] / counts[arm])
        return by_arm

    @staticmethod
    def check(
        problem: Problem, example: int | None, scores: tuple[float | None, ...]
    ) -> None:
        """Check that there is a score or None for each proxy, and that scores belong to an example."""
        if not scores:
            return
        if len(scores) != len(problem.proxies):
            raise MalformedError(
                f"An evaluation has {len(scores)} scores of proxies, but there are {len(problem.proxies)} proxies."
            )
        if example is None:
            raise MalformedError("An evaluation has scores of proxies, but no example.")

    def dump(self, start: int, pack: Pack) -> "SavedProxies":
        """The scores from the row `start` on, as JSON."""
        if len(self) <= start:
            return SavedProxies()
        return SavedProxies(
            arms=pack(self.arms(start)),
            examples=pack(self.examples(start)),
            proxies=pack(self.proxies(start)),
            scores=pack(self.scores(start)),
        )


class SavedProxies(Saved, frozen=True, kw_only=True):
    """The scores of proxies, oldest first. See `ProxyScores`."""

    arms: Any = ()
    examples: Any = ()
    proxies: Any = ()
    scores: Any = ()

    def load(self, problem: Problem) -> ProxyScores:
        """The scores, checked."""
        n, last_example = len(self.arms), (problem.examples.n or 0) - 1
        arms = column("proxies", self.arms, 0, problem.n_arms - 1, n)
        examples = column("proxies", self.examples, 0, last_example, n)
        proxies = column("proxies", self.proxies, 0, len(problem.proxies) - 1, n)
        scores = matrix("proxies", np.reshape(self.scores, (-1, 1)), n, 1)
        rows = np.column_stack((proxies.astype(float), scores))
        return ProxyScores(History.from_columns(np.full(n, -1), arms, examples, rows))
