"""What a rival sees: prompts that can be pulled, a budget, and sample means."""

import numpy as np
import numpy.typing as npt

from asktell.errors import IncompatibleMethodError
from asktell.methods.rounds.elimination import rule_of
from asktell.numerics import counters
from asktell.numerics.pareto import pareto_mask
from asktell.problem.goals import BestFeasible, Goal
from asktell.simulation.replay import Replay

Array = npt.NDArray[np.float64]


class Pool:
    """Hands out each cell as if just evaluated, and counts.

    The t-th pull of every prompt takes the t-th example of the seed's order, the one
    our own methods have: the rivals get shared examples without replacement, which is
    better for them than what most of them do. A prompt that has seen all examples
    starts again from the first. `iid=True` draws an example for every pull instead, and
    draws again where the prompt was evaluated on it as often as it was recorded.

    Arms are numbered in the seed's order of chance, the one that decides among equals
    in our own methods: a rival that takes the first of several maxima takes one of them
    by chance. `features` (K, d) of the prompts are in that order, too, or None. `order`
    (N,) are the examples as pulls take them.
    """

    def __init__(self, problem: Replay, seed: int, iid: bool = False) -> None:
        self._problem, self._seed, self._iid = problem, seed, iid
        self._prompts = counters.chance_order(seed, np.arange(problem.n_prompts))
        self.features = (
            None if problem.features is None else problem.features[self._prompts]
        )
        self.n_arms = problem.n_prompts
        self.n_examples = problem.n_examples
        n_metrics = len(problem.goal.metrics)
        self.budget, self.order = problem.budget, problem.order
        self.counts = np.zeros(self.n_arms, dtype=np.int64)
        # Pulls of each cell
        self.times = np.zeros((self.n_arms, self.n_examples), dtype=np.int64)
        self.sums = np.zeros((self.n_arms, n_metrics))
        self.squares = np.zeros((self.n_arms, n_metrics))
        self.observed = np.full(
            (self.n_arms, self.n_examples, n_metrics), np.nan
        )  # (K, N, m), for rivals that choose cells or model them

    @property
    def left(self) -> int:
        """Pulls that the budget still allows."""
        return self._problem.left

    @property
    def spent(self) -> int:
        """Pulls so far."""
        return self._problem.spent

    def pull(self, arm: int, example: int | None = None) -> Array:
        """Scores (m,) of the prompt on its next example, or on that one."""
        example = self._next(arm) if example is None else example
        scores = self._problem.evaluate(int(self._prompts[arm]), int(example))
        if scores is None:
            raise IncompatibleMethodError(
                "The rivals of the benchmarks take scores without failures only."
            )
        row = self.observed[arm, example] = np.array(scores)
        self.counts[arm] += 1
        self.times[arm, example] += 1
        self.sums[arm] += row
        self.squares[arm] += row**2
        return row

    def _next(self, arm: int) -> int:
        nth = int(self.counts[arm])
        if self._iid:
            drawn = int(
                counters.integers(
                    self._seed, "example", self.n_examples, arm, nth
                ).item()
            )
            tries = 0
            while self.times[arm, drawn] == (self._problem.repeats or np.inf):
                tries += 1
                drawn = int(
                    counters.integers(
                        self._seed, "example again", self.n_examples, arm, nth, tries
                    ).item()
                )
            return drawn
        return int(self.order[nth % self.n_examples])

    @property
    def means(self) -> Array:
        """(K, m) sample means; NaN where nothing is known."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.sums / self.counts[:, None])

    @property
    def deviation(self) -> Array:
        """(m,) pooled standard deviation of a score within a prompt; 1 while nothing is known of it."""
        degrees = int(np.maximum(self.counts - 1, 0).sum())
        if degrees == 0:
            return np.ones(self.sums.shape[1])
        within = self.squares - self.sums**2 / np.maximum(self.counts, 1)[:, None]
        return np.asarray(np.sqrt(np.maximum(within.sum(axis=0) / degrees, 1e-12)))

    def best(
        self,
        goal: Goal,
        among: npt.NDArray[np.int64] | None = None,
        means: Array | None = None,
    ) -> list[int]:
        """The answer by sample means among the pulled arms: the best feasible prompt, or the Pareto set, as positions.

        `among`: these arms only; of equals, the first. `means` (K, m): estimates in the
        place of the sample means.
        """
        arms = (
            np.flatnonzero(self.counts)
            if among is None
            else among[self.counts[among] > 0]
        )
        if not len(arms):
            return []
        values = goal.values((self.means if means is None else means)[arms])
        if isinstance(goal, BestFeasible) or goal.is_constrained:
            chosen = rule_of(goal).answer(values)
        else:
            chosen = np.flatnonzero(pareto_mask(values))
        return self._prompts[arms[chosen]].tolist()
