"""The table `[judge]`: the judge must have a licence, and among which judges `asktell judge` chooses."""

from collections.abc import Mapping
from typing import Any

from asktell.extend import nearest
from asktell_adapters.config.tables import Table, key, listed
from asktell_adapters.llms.base import Metric
from asktell_adapters.metrics import Judge, Preference


class LicenceTable(Table):
    """The licence of the judge in `[metrics]`, and the judges among which `asktell judge` chooses."""

    metric: str | None = key(
        None,
        "Name of the judge in `[metrics]`, a `judge` or a `preference`.",
        said="the only one",
    )
    licence: str = key(
        "judge.json",
        "File of the licence, which `asktell judge` writes. A run, `asktell gate` and the report show the licence. If "
        "there is none, or if it is for another rubric, model or settings, nothing is established, and the gate is "
        "undecided.",
    )
    floor: float | None = key(
        None,
        "Lowest agreement with people, from 0 to 1. If the lower bound of the judge's agreement is below it, nothing "
        "is established, and the gate is undecided.",
        ge=0,
        le=1,
    )
    candidates: dict[str, Any] = key(
        {},
        "Factors, whose combinations are the judges to choose among. A factor is a key of the judge's table, such as "
        "`criteria`, `instructions`, `temperature` or `model`, with a list of values or a table NAME = value. A factor "
        "with another name, such as `rubric`, has a table NAME = several keys of the judge's table.",
        said="the judge alone",
        expected="a table, FACTOR = a list of values or a table NAME = value",
    )
    at_most: dict[str, float] = key(
        {},
        "Upper bounds for the judge to take: `cost` (mean cost of a judgment), `false_passes` and `false_fails` "
        "(shares of all labeled responses).",
        expected="a table, METRIC = a finite number",
    )
    pass_at: float | None = key(
        None,
        "Lowest grade with which a response passes. With it, the agreement is always the accuracy of passing and "
        "failing. Without it, that is so only if the labels have no more than two grades. Otherwise, the agreement is "
        "the weighted kappa.",
        said="the lowest grade above the middle of the scale",
    )
    budget: int | None = key(
        None,
        "Number of judgments. It includes those that complete the judge to take, which has to grade every labeled "
        "response.",
        said="every judge on every labeled response",
        ge=1,
    )
    responses: str | None = key(
        None,
        "File with a table of recorded responses, if the labels name them by ids only. Its columns are `prompt`, "
        "`example` and `response`.",
        said="`responses` of `[label]`",
    )

    def name_of_judge(self, judges: Mapping[str, Any]) -> str:
        """The name of the judge that the table is about.

        Args:
            judges: all judges in `[metrics]`, by their names.

        Raises:
            ConfigError: there is no such judge, or there are several.
        """
        if not judges:
            raise self.mistake(
                "[judge] needs a judge in [metrics], such as [metrics.quality] with metric = 'judge' and criteria = "
                "{ ... }. Add it, or remove [judge]."
            )
        if self.metric is None and len(judges) > 1:
            raise self.error(
                "metric",
                f"is missing, because [metrics] has several judges. It must be one of {listed(list(judges))}",
            )
        name = next(iter(judges)) if self.metric is None else self.metric
        if name not in judges:
            raise self.error(
                "metric",
                f"must be a judge in [metrics]{nearest(name, list(judges))}. The judges there are "
                f"{listed(list(judges))}",
                name,
            )
        return name

    def demanded_of(self, metrics: Mapping[str, Metric]) -> dict[str, Metric]:
        """The metrics. Each judge needs a licence from now on, and the file is that of one judge.

        Raises:
            ConfigError: there is no such judge, or the file is no licence.
        """
        judges: dict[str, Any] = {
            name: metric
            for name, metric in metrics.items()
            if isinstance(metric, Judge | Preference)
        }
        licensed = self.name_of_judge(judges)
        with self.named():
            demanded = {
                name: judge.licensed(
                    self.beside(self.licence) if name == licensed else None, self.floor
                )
                for name, judge in judges.items()
            }
        return {**metrics, **demanded}
