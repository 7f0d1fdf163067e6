"""The table `[proxies]`: cheap metrics outside of the goal that help to predict its metrics."""

from collections.abc import Mapping
from typing import Any

from asktell import Selector, Trial
from asktell.extend import nearest, some
from asktell_adapters.config.data import DataSet
from asktell_adapters.config.tables import Table, key
from asktell_adapters.tables.rows import Table as Rows
from asktell_adapters.tables.rows import check_column, number_in


class ProxiesTable(Table):
    """Cheap metrics outside of the goal that help to predict its metrics."""

    metrics: list[str] = key(
        [],
        "Metrics of `[metrics]`, or of the `[evaluator]`, that the goal does not have. They are scored with every "
        "response.",
    )
    scores: str | None = key(
        None,
        "File with a table of recorded scores, which are known before the first evaluation. Its columns are `prompt` "
        "(an id), `example` (an id) and the names in `columns`.",
    )
    columns: list[str] = key(
        [], "Columns of `scores`, each with the scores of a proxy.", said="none"
    )

    @property
    def names(self) -> list[str]:
        """The names of all proxies."""
        return list(dict.fromkeys((*self.columns, *self.metrics)))

    def check(self, computed: Mapping[str, Any] | None) -> None:
        """Check the keys against each other, and against the metrics that are computed, None if that is unknown.

        Raises:
            ConfigError: there are no proxies, a key lacks another one, or a metric is
                not computed.
        """
        if (self.scores is None) == bool(self.columns):
            raise self.mistake(
                "[proxies] needs both scores = 'FILE' and columns = ['NAME', ...], or neither."
            )
        if not self.names:
            raise self.mistake(
                "[proxies] has no proxies. Add metrics = ['NAME', ...], or scores = 'FILE' and columns = ['NAME', ...]."
            )
        for name in self.metrics:
            if computed is not None and name not in computed:
                raise self.error(
                    "metrics",
                    f"has the metric {name!r}, which is not in [metrics]{nearest(name, list(computed))}. Add it to "
                    "[metrics], or correct its name",
                )

    def observe(self, selector: Selector, dataset: DataSet) -> None:
        """Record the scores of the file. Rows about other prompts or examples are left out.

        Raises:
            ConfigError: the file cannot be read, lacks a column, or has no row about
                these prompts and examples.
        """
        if self.scores is None:
            return
        with self.named():
            rows = Rows(self.beside(self.scores), ("prompt", "example", *self.columns))
        for name in self.columns:
            if name not in rows.names:
                raise self.error(
                    "columns",
                    f"has the column {name!r}, which is not in {self.scores}{nearest(name, rows.names)}. Correct its "
                    "name",
                )
        prompts = {str(id_): id_ for id_ in selector.prompts.ids}
        examples = {id_: j for j, id_ in enumerate(dataset.ids)}
        n_found = 0
        with self.named():
            for row in rows.rows:
                where = rows.where(row)
                for name in ("prompt", "example"):
                    check_column(row.values, name, where)
                prompt = prompts.get(str(row.values["prompt"]))
                example = examples.get(str(row.values["example"]))
                if prompt is None or example is None:
                    continue
                n_found += 1
                cells = (
                    (name, number_in(row.values.get(name))) for name in self.columns
                )
                scores = {name: score for name, score in cells if score is not None}
                if scores:
                    selector.observe(Trial(-1, prompt, "", example), scores, example)
        if not n_found:
            raise self.error(
                "scores",
                f"refers to {self.scores!r}, where no row has the ids of a prompt and an example of this run. The "
                f"prompts of the run have the ids {some(list(prompts))}, and its examples have the ids "
                f"{some(list(examples))}. Correct the columns 'prompt' and 'example'",
            )
