"""One round for all: uniform allocation, the baseline."""

from dataclasses import dataclass
from typing import final

from asktell.schedulers.base import AbstractScheduler, Round


@final
@dataclass(frozen=True)
class Single(AbstractScheduler):
    """The whole budget in one round that eliminates no arm. The selected arms follow from the estimates."""

    def rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Round, ...]:
        """One round that keeps all arms."""
        return (Round(pulls=budget, keep=n_arms),)
