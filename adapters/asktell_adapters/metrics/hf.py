"""Any metric of Hugging Face `evaluate` as a metric here: a loaded module, a local folder, or a hub name."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, final

from asktell.errors import EvaluatorError
from asktell_adapters._extras import import_extra
from asktell_adapters.evaluators.base import Completion, Example


@final
class HuggingFaceMetric:
    """One value of `module.compute(predictions=[text], references=[reference])`. Takes 3 to 20 ms a call.

    Args:
        module: an `evaluate.EvaluationModule`, the folder of one, or its name on the hub (loaded at the first call).
        key: which of the results counts.
        name: the metric's name in a sequence of metrics; by default the key.
        settings: further arguments of `compute`.
    """

    def __init__(self, module: object, key: str, *, name: str | None = None, **settings: object) -> None:
        self._source = module
        self.key = key
        self.name = name or key
        self.settings = settings

    def __call__(self, completion: Completion, example: Example, /) -> float:
        """The value.

        Raises:
            EvaluatorError: the module could not be loaded, or its result has no such key.
            MissingExtraError: `evaluate`, or a package that the module needs, is not installed.
        """
        references = example.references
        result = self._module.compute(
            predictions=[completion.text],
            references=[references[0] if isinstance(example.reference, str) else list(references)],
            **self.settings,
        )
        if self.key not in result:
            raise EvaluatorError(f"the metric returned {sorted(result)}, which lacks {self.key!r}")
        value = result[self.key]
        return float(value[0] if isinstance(value, list) and len(value) == 1 else value)

    @cached_property
    def _module(self) -> Any:
        if not isinstance(self._source, str | Path):
            return self._source
        evaluate = import_extra("evaluate", "metrics")
        try:
            return evaluate.load(str(self._source))
        except (FileNotFoundError, ConnectionError, OSError) as error:
            raise EvaluatorError(
                f"evaluate could not load {str(self._source)!r}: {error}. Without a network, pass the folder of a "
                "metric module (as metrics.rouge.ROUGE_MODULE is one) or a loaded module"
            ) from error
