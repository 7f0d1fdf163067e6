"""Sequential halving (Karnin, Koren & Somekh 2013): the better half stays, every round has the same budget."""

from dataclasses import dataclass
from math import ceil
from typing import final

from asktell.methods.rounds.schedulers.base import AbstractScheduler, Round


@final
@dataclass(frozen=True)
class SequentialHalving(AbstractScheduler):
    """About half of the arms stay after each round (Karnin, Koren & Somekh 2013).

    With K arms and a budget of B evaluations, there are R = ceil(log2 K) rounds. Each
    round has floor(B / R) evaluations, and round 1 also has the remainder. Round r
    keeps ceil(K / 2^r) arms. A single arm has no rounds.

    If floor(B / R) < K, round 1 of this schedule may have too few evaluations for all
    arms. With `adaptive`, there are then only R = max(1, floor(B / K)) rounds, and
    round r keeps ceil(K^(1 - r/R)) arms. So round 1 evaluates every arm if B is at
    least K.

    Attributes:
        adaptive: True (default) has fewer rounds if the budget is small, as described
            above. False is the published schedule, whatever the budget.
    """

    adaptive: bool = True

    def rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Round, ...]:
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
