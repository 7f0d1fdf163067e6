"""The schedule of GEGE (Kone, Kaufmann & Richert 2025): halving that counts directions of the features, not arms."""

from dataclasses import dataclass
from typing import ClassVar, final

from asktell.methods.rounds.schedulers.base import AbstractScheduler, Round


@final
@dataclass(frozen=True)
class GEGEHalving(AbstractScheduler):
    """The rounds of GEGE (Kone, Kaufmann & Richert 2025). They depend on the features, not on the number of arms.

    Let h be the rank of the features of all arms (see `AbstractScheduler.rounds`), and
    B the budget. If there is only one arm, there are no rounds. Otherwise there are
    R = max(1, ceil(log2 h)) rounds. Each round has floor(B / R) evaluations, and round
    1 also has the remainder. Round r keeps ceil(h / 2^r) arms. So round 1 goes from all
    arms straight to ceil(h / 2). A round that begins with no more arms than it keeps
    eliminates none.
    """

    needs_features: ClassVar[bool] = True

    def rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Round, ...]:
        assert rank is not None, "the method has checked that there are features"
        if n_arms == 1:
            return ()
        rank = max(1, rank)
        n_rounds = max(1, (rank - 1).bit_length())
        per_round, left_over = divmod(budget, n_rounds)
        return tuple(
            Round(
                pulls=per_round + (left_over if r == 1 else 0),
                keep=min(n_arms, -(-rank // 2**r)),
            )
            for r in range(1, n_rounds + 1)
        )
