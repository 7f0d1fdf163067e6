"""Metrics of Hugging Face `evaluate`, from a loaded module, a local folder, or a name on the hub."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from asktell import EvaluatorError, MissingExtraError
from asktell.extend import import_extra
from asktell_adapters._util.loop import Lock
from asktell_adapters._util.scores import number
from asktell_adapters.llms.base import Completion, Example

Read = Callable[[Completion, Example], object]
"""Function of a response and its example that returns an input of a module."""


def load_module(source: object) -> Any:
    """Load a module from a folder, or by its name on the hub. A loaded module is returned as it is.

    Raises:
        MissingExtraError: the module needs a package that is not installed.
        EvaluatorError: the module cannot be loaded.
    """
    if not isinstance(source, str | Path):
        return source
    evaluate = import_extra("evaluate", "metrics")
    try:
        return evaluate.load(str(source))
    except ImportError as error:
        # The packages of a single metric are in no extra. The message of evaluate has
        # their names.
        install = f" Run: pip install {error.name}" if error.name else ""
        message = f"The metric {str(source)!r} needs a package that is not installed: {error}.{install}"
        raise MissingExtraError(message, name=error.name, path=error.path) from error
    except (FileNotFoundError, ConnectionError, OSError) as error:
        raise EvaluatorError(
            f"evaluate could not load {str(source)!r} ({error}). Without a network, pass the folder of a metric module "
            "or a loaded module"
        ) from error


@final
class HuggingFaceMetric:
    """A metric of Hugging Face's library `evaluate`: one of the values that a module of this library computes.

    ```python
    bleu = HuggingFaceMetric("sacrebleu", "score", name="bleu")
    metrics = HuggingFaceMetric.several("rouge", ["rouge1", "rougeL"])
    ```

    For each response, it calls `module.compute(predictions=[text],
    references=[reference])`. If the type of the module is *measurement*, it calls
    `module.compute(data=[text])` instead. A call takes 3 to 20 ms.

    Args:
        module: an `evaluate.EvaluationModule`, its folder, or its name on the hub. It
            is loaded at the first call. It may also be the return value of
            `evaluate.combine`.
        key: the key of the value in the module's results.
        name: the metric's name in a sequence of metrics (default: the key).
        prediction: a function of (completion, example) that returns the prediction,
            such as the number of a label for `accuracy` (default: the response's text).
        reference: a function of (completion, example) that returns the reference
            (default: the example's reference, or the list of its references).
        settings: further arguments of `compute`.
    """

    def __init__(
        self,
        module: object,
        key: str,
        *,
        name: str | None = None,
        prediction: Read | None = None,
        reference: Read | None = None,
        **settings: object,
    ) -> None:
        self._computed = _Computed(
            module, prediction or _text, reference or _references, settings
        )
        self.key = key
        self.name = name or key

    @classmethod
    def several(
        cls, module: object, keys: Sequence[str] | Mapping[str, str], **settings: Any
    ) -> "dict[str, HuggingFaceMetric]":
        """Make a metric for each of several values of one module. The module is called once per response.

        Args:
            module: the module, as for `HuggingFaceMetric`.
            keys: the keys of the values in the module's results, or metric name -> key.
            settings: the other arguments of `HuggingFaceMetric`.

        Returns:
            Metric name -> metric, as evaluators take it. Without names, the keys are the
            names.
        """
        named = keys if isinstance(keys, Mapping) else {key: key for key in keys}
        metrics = {
            name: cls(module, key, name=name, **settings) for name, key in named.items()
        }
        for metric in metrics.values():
            metric._computed = next(iter(metrics.values()))._computed
        return metrics

    def load(self) -> None:
        """Load the module now, not at the first call.

        Raises:
            MissingExtraError: the module needs a package that is not installed.
            EvaluatorError: the module cannot be loaded.
        """
        self._computed.load()

    def __call__(self, completion: Completion, example: Example, /) -> float:
        result = self._computed(completion, example)
        if self.key not in result:
            raise EvaluatorError(
                f"the metric returned {sorted(result)}, but not the key {self.key!r}. Pass a key that it returns"
            )
        value = result[self.key]
        return number(
            self.name,
            value[0] if isinstance(value, list) and len(value) == 1 else value,
        )


class _Computed:
    """A module's results for a response. The results for the last response are kept for the metrics that share them."""

    def __init__(
        self,
        source: object,
        prediction: Read,
        reference: Read,
        settings: dict[str, object],
    ) -> None:
        self._source = source
        self._module: Any = None
        self._prediction = prediction
        self._reference = reference
        self._settings = settings
        self._lock = Lock()
        self._last: tuple[Completion, Example, Mapping[str, Any]] | None = None

    def load(self) -> None:
        with self._lock:
            self._load()

    def __call__(self, completion: Completion, example: Example) -> Mapping[str, Any]:
        # Modules collect their inputs in their own state.
        with self._lock:
            if (
                self._last is None
                or self._last[0] is not completion
                or self._last[1] is not example
            ):
                self._load()
                inputs: dict[str, list[object]] = {
                    "predictions": [self._prediction(completion, example)]
                }
                if getattr(self._module, "module_type", "metric") == "measurement":
                    inputs = {"data": inputs["predictions"]}
                else:
                    inputs["references"] = [self._reference(completion, example)]
                result = self._module.compute(**inputs, **self._settings)
                if not isinstance(result, Mapping):
                    result = {self._module.name: result}
                self._last = completion, example, result
            return self._last[2]

    def _load(self) -> None:
        if self._module is None:
            self._module = load_module(self._source)


def _text(completion: Completion, example: Example) -> str:
    return completion.text


def _references(completion: Completion, example: Example) -> object:
    references = example.references
    return references[0] if isinstance(example.reference, str) else list(references)
