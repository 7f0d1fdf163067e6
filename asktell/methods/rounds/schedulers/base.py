"""A scheduler turns a number of arms and a budget into rounds, before the first evaluation."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, NamedTuple, final

from asktell.methods.rounds.returned import refuse
from asktell.problem.checks import as_integer
from asktell.problem.words import short


class Round(NamedTuple):
    """One round. At its end, only the best arms stay.

    Attributes:
        pulls: number of evaluations, which are divided among the active arms.
        keep: number of arms that stay.
    """

    pulls: int
    keep: int


class AbstractScheduler(ABC):
    """Plans the rounds of an elimination method.

    A scheduler of your own derives from this class and implements `rounds`.
    """

    needs_features: ClassVar[bool] = False

    @abstractmethod
    def rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Round, ...]:
        """Return the rounds, in order. Together, they have at most `budget` evaluations.

        Args:
            n_arms: K, the number of arms.
            budget: B, the number of evaluations.
            rank: the rank of the matrix of all arms' features: how many features are
                not combinations of other features. None without features. `GEGEHalving`
                uses it instead of the number of arms.
        """

    @final
    def checked_rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Round, ...]:
        """Return the result of `rounds`, checked. A method of asktell calls this method.

        Args:
            n_arms: as in `rounds`.
            budget: as in `rounds`.
            rank: as in `rounds`.

        Raises:
            IncompatibleMethodError: `rounds` returned something else than whole
                numbers, more evaluations than the budget, or a round that keeps more
                arms than the round before it.
        """
        expected = (
            f"a sequence of Round(pulls, keep) in order, with whole numbers. The evaluations of all rounds sum to at "
            f"most the budget of {budget:,}, a round keeps 1 to {n_arms:,} arms, and no more than the round before it"
        )
        rounds: object = self.rounds(n_arms, budget, rank)
        if not isinstance(rounds, Iterable):
            refuse(self, "rounds", f"returned {short(rounds)}", expected)
        planned: list[Round] = []
        n_left = n_arms
        for number, round_ in enumerate(rounds, start=1):
            is_pair = isinstance(round_, tuple) and len(round_) == 2
            pulls, keep = map(as_integer, round_) if is_pair else (None, None)
            if pulls is None or keep is None or pulls < 0 or not 1 <= keep <= n_left:
                came = f"returned {short(round_)} as round {number}"
                refuse(self, "rounds", came, expected)
            planned.append(Round(pulls, keep))
            n_left = keep
        if (total := sum(plan.pulls for plan in planned)) > budget:
            came = f"returned rounds with {total:,} evaluations"
            refuse(self, "rounds", came, expected)
        return tuple(planned)
