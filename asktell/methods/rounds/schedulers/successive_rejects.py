"""Successive rejects (Audibert, Bubeck & Munos 2010): K - 1 phases, each of which eliminates one arm."""

from dataclasses import dataclass
from math import ceil
from typing import final

from asktell.methods.rounds.schedulers.base import AbstractScheduler, Round


@final
@dataclass(frozen=True)
class SuccessiveRejects(AbstractScheduler):
    """Each round eliminates one arm (Audibert, Bubeck & Munos 2010).

    K arms take K - 1 rounds. At the end of round k, every active arm has had n_k
    evaluations in total. B is the budget.

    Attributes:
        tight: True (default): n_k = ceil(c / (K + 1 - k)), with the largest c for which
            the rounds fit into the budget. This needs a budget of at least K, and
            leaves only a few evaluations unspent. No n_k is below the published n_k.
            False: the published n_k = ceil((B - K) / (logbar(K) (K + 1 - k))), where
            logbar(K) = 1/2 + (1/2 + 1/3 + ... + 1/K). This leaves up to a fifth of a
            small budget unspent.
    """

    tight: bool = True

    def rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Round, ...]:
        totals = self.pulls_per_arm(n_arms, budget)
        # In phase k = 1, 2, ..., the K + 1 - k active arms go from n_(k-1) to n_k.
        return tuple(
            Round(pulls=(n_arms - k) * (total - before), keep=n_arms - k - 1)
            for k, (before, total) in enumerate(zip([0, *totals], totals, strict=False))
        )

    def pulls_per_arm(self, n_arms: int, budget: int) -> list[int]:
        """Return n_1, ..., n_{K-1}: how many evaluations each active arm has had at the end of each round.

        Args:
            n_arms: K, the number of arms.
            budget: B, the number of evaluations.
        """
        sizes = range(n_arms, 1, -1)  # K + 1 - k
        if not self.tight:
            logbar = 0.5 + sum(1.0 / i for i in range(2, n_arms + 1))
            return [max(0, ceil((budget - n_arms) / (logbar * size))) for size in sizes]
        # Every n_k changes only where c is a whole number, so a search over whole
        # numbers finds the largest c.
        low, high = 0, budget
        while low < high:
            c = (low + high + 1) // 2
            totals = [-(-c // size) for size in sizes]
            if sum(totals) + (totals[-1] if totals else 0) <= budget:
                low = c
            else:
                high = c - 1
        return [-(-low // size) for size in sizes]
