"""Sequential halving (Karnin, Koren & Somekh 2013): the better half stays, every round has the same budget."""

from dataclasses import dataclass
from math import ceil
from typing import final

from asktell.schedulers.base import AbstractScheduler, Round


@final
@dataclass(frozen=True)
class SequentialHalving(AbstractScheduler):
    """R = ceil(log2 K) rounds of floor(B / R) pulls that keep ceil(K / 2^r) arms. The remainder goes to round 1.

    With `adaptive` (default) and floor(B / R) < K, some arms would not be evaluated in
    round 1. There are then R = max(1, floor(B / K)) rounds that keep ceil(K^(1 - r/R))
    arms. `adaptive=False` is the published schedule, where sample means are undefined
    for the arms that round 1 does not reach.
    """

    adaptive: bool = True

    def rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Round, ...]:
        """The rounds, each with the same budget. None for a single arm."""
        n_rounds = (n_arms - 1).bit_length()  # ceil(log2 K)
        if n_rounds == 0:
            return ()
        keep = [-(-n_arms // 2**r) for r in range(1, n_rounds + 1)]
        if self.adaptive and budget // n_rounds < n_arms:
            # Fewer rounds, so that round 1 reaches every arm.
            n_rounds = max(1, budget // n_arms)
            # The rounding guards against 1000^(2/3) = 100.00000000000001.
            keep = [
                ceil(round(n_arms ** (1 - r / n_rounds), 9))
                for r in range(1, n_rounds + 1)
            ]
            keep[-1] = 1
        per_round, left_over = divmod(budget, n_rounds)
        return tuple(
            Round(pulls=per_round + (left_over if r == 0 else 0), keep=k)
            for r, k in enumerate(keep)
        )
