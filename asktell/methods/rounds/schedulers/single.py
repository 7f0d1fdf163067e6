"""One round for all: uniform allocation, the baseline."""

from dataclasses import dataclass
from typing import final

from asktell.methods.rounds.schedulers.base import AbstractScheduler, Round


@final
@dataclass(frozen=True)
class Single(AbstractScheduler):
    """One round with the whole budget. It eliminates no arm. The arms are selected by the estimates at its end."""

    def rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Round, ...]:
        return (Round(pulls=budget, keep=n_arms),)
