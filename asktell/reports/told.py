"""What evaluations have cost and shown beside their scores, added up prompt by prompt in one pass."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from asktell.results.evaluations import Evaluation

_MOST_QUANTITIES = 8
_MOST_GROUPS = 50
_REASON = 600
_LARGEST = 1e100  # so that sums stay finite; what is larger was no measurement
_NUMBERS = re.compile(r"\d+(\.\d+)?")


class Told:
    """Sums over evaluations.

    Args:
        evaluations: in the order in which they were told.
        ids: of the prompts.
        metrics: the goal's; what else is a number among the details is a quantity of its own, as seconds or tokens.
        answers_of: arms whose answers are to be kept.
    """

    def __init__(
        self,
        evaluations: Iterable[Evaluation],
        ids: Sequence[str | int],
        metrics: Collection[str],
        answers_of: Collection[int],
    ) -> None:
        self.costs: dict[int, float] = {}  # by trial
        self.answers: dict[tuple[int, int], str] = {}  # by arm and example
        self._sums: dict[str, dict[int, tuple[int, float]]] = defaultdict(dict)
        self._reasons: dict[str, dict[str, Any]] = {}
        self._metrics = metrics
        arms = {id_: arm for arm, id_ in enumerate(ids)}
        for each in evaluations:
            self._add(each, arms[each.prompt], answers_of)

    def _add(self, each: Evaluation, arm: int, answers_of: Collection[int]) -> None:
        if each.cost is not None:
            self.costs[each.trial] = each.cost
            self._count("cost", arm, each.cost)
        details = each.details or {}
        extra = details.get("scores")
        for name, value in [*details.items(), *(extra.items() if isinstance(extra, dict) else ())]:
            if name not in self._metrics and name != "cost" and _is_number(value):
                self._count(str(name), arm, float(value))
        if each.error is not None:
            self._fail(arm, each.example, each.error)
        elif arm in answers_of and each.example is not None and each.answer is not None:
            self.answers[arm, each.example] = each.answer

    def _count(self, name: str, arm: int, value: float) -> None:
        if name in self._sums or len(self._sums) < _MOST_QUANTITIES:
            n, total = self._sums[name].get(arm, (0, 0.0))
            self._sums[name][arm] = n + 1, total + value

    def _fail(self, arm: int, example: int | None, reason: str) -> None:
        """Reasons that differ in numbers only are one."""
        group = self._reasons.setdefault(
            _NUMBERS.sub("#", " ".join(reason.split()))[:_REASON],
            {"reason": reason[:_REASON], "count": 0, "prompts": {}, "examples": []},
        )
        group["count"] += 1
        group["prompts"][arm] = group["prompts"].get(arm, 0) + 1
        if example is not None and len(group["examples"]) < 20 and example not in group["examples"]:
            group["examples"].append(example)

    def quantities(self, n_arms: int) -> list[dict[str, Any]]:
        """Means per prompt of what was told beside the scores, None where nothing was."""
        found = []
        for name, of_arm in self._sums.items():
            means = [None if arm not in of_arm else of_arm[arm][1] / of_arm[arm][0] for arm in range(n_arms)]
            n, total = (sum(column) for column in zip(*of_arm.values(), strict=True))
            found.append({"name": name, "mean": total / n, "total": total, "of": n, "means": means})
        return found

    def failures(self) -> list[dict[str, Any]]:
        """Failures by reason, the most frequent first."""
        groups = sorted(self._reasons.values(), key=lambda group: -group["count"])[:_MOST_GROUPS]
        return [
            {
                **group,
                "prompts": [[arm, n] for arm, n in sorted(group["prompts"].items(), key=lambda item: -item[1])[:20]],
                "n_prompts": len(group["prompts"]),
            }
            for group in groups
        ]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
