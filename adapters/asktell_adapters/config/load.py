"""A run described in a TOML file, read and checked."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from asktell import Adaptive, Budget, ConfigError, Race, Selector
from asktell_adapters.cache import AnswerCache
from asktell_adapters.config.cache import read_cache
from asktell_adapters.config.data import DataSet, read_examples, read_fields, read_prompts
from asktell_adapters.config.evaluator import make_evaluator
from asktell_adapters.config.goal import read_goal
from asktell_adapters.config.harness import Harness, read_harness
from asktell_adapters.config.improve import Improving, read_improve
from asktell_adapters.config.metrics import read_metrics
from asktell_adapters.config.model import has_price, read_model
from asktell_adapters.config.profile import read_profile
from asktell_adapters.config.secret_check import refuse_secrets
from asktell_adapters.config.setup import describe
from asktell_adapters.config.tables import KEYS, Table
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.llms.base import Example, Metric
from asktell_adapters.llms.llama_cpp import SLOTS
from asktell_adapters.optimizers.improving import check_method

_CONCURRENCY = {"openai": 8, "litellm": 8, "vllm": 64}  # by the model's type; otherwise a batch


@final
@dataclass(frozen=True)
class Config:
    """A checked configuration.

    Attributes:
        path: the file.
        output: the run's folder.
        selector: with prompts, goal, budget and method; nothing asked yet.
        dataset: the examples, with their ids.
        metrics: name -> metric.
        model: the table `[model]`.
        concurrency: evaluations at once.
        batch_size: evaluations that the model wants in one call.
        setup: everything that a run's outcome depends on, as JSON data: another set-up is another run.
        cache: of answers; None for none.
        confirm_above: a run that may cost more is asked about first; None: never.
        improving: how prompts are written and selected in turn; None where they are only selected. The selector then
            has the budget of the first generation.
        harness: what evaluates, where that is no LLM with metrics of this file.
        fields: whether names in braces in prompts stand for columns; None: in chats only.
    """

    path: Path
    output: Path
    selector: Selector
    dataset: DataSet
    metrics: Mapping[str, Metric]
    model: Mapping[str, Any]
    concurrency: int
    batch_size: int
    setup: Mapping[str, Any]
    cache: AnswerCache | None = None
    confirm_above: float | None = None
    improving: Improving | None = None
    harness: Harness | None = None
    fields: bool | None = None

    @property
    def examples(self) -> tuple[Example, ...]:
        """The data set."""
        return self.dataset.examples

    def close(self) -> None:
        """End what a harness has started."""
        if self.harness is not None and callable(close := getattr(self.harness.evaluator, "close", None)):
            close()

    def evaluator(self) -> LLMEvaluator | AsyncLLMEvaluator:
        """The evaluator of an LLM, the model loaded. Scores carry the LLM's answer, as `details["output"]`.

        Raises:
            AsktellError: the model or a metric cannot be used.
            MissingExtraError: a package is missing.
        """
        if self.harness is not None:
            raise ConfigError(f"{self.path.name}: this goes with [model], and not with [evaluator].")
        model = Table(self.path, "model", dict(self.model), ())
        seed = self.selector.state.problem.seed
        return make_evaluator(model, self.examples, self.metrics, self.concurrency, seed, self.cache, self.fields)


def output_folder(path: Path) -> Path:
    """The run's folder that a configuration names; by default its own name without `.toml`, beside it.

    Raises:
        ConfigError: the file cannot be read, or `output` is not a usable folder.
    """
    return _output(Table(path, "", _parse(path), KEYS[""]))


def load_cache(path: Path) -> AnswerCache | None:
    """The cache that a configuration names; None without a table `[cache]`.

    Raises:
        ConfigError: the file cannot be read, or that table has a mistake.
    """
    return read_cache(Table(path, "", _parse(path), KEYS[""]))


def load_config(path: Path, improve: bool = False, *, text: str | None = None) -> Config:
    """Read a configuration, its prompts and its data set, and check everything that needs no model.

    A function that the file names as `loader` is imported and called; modules beside the file are found. With
    `improve`, it is for a loop that writes prompts. `text` is what the file is to hold, where it is not there yet.

    Raises:
        ConfigError: there is a mistake in the file, or in a file that it names.
        MissingExtraError: a package that the data set needs is missing.
    """
    data = _parse(path) if text is None else tomllib.loads(text)
    refuse_secrets(path.name, data)
    top = Table(path, "", data, KEYS[""])
    output = _output(top)
    with top.named():
        harness = read_harness(top)
    computed: dict[str, Metric] | None = None
    model: dict[str, Any] = {}
    if harness is None:
        dataset = read_examples(top.table("data", KEYS["data"]))
        model = read_model(top)
        computed = read_metrics(top, dataset.examples, model)
    else:
        dataset = harness.dataset
        if improve:
            raise top.error("evaluator", "goes with asktell run; asktell improve shows an LLM's answers to a writer")
    goal = read_goal(top.table("goal", KEYS["goal"]), computed)
    budget = top.take("budget", "whole or table")
    features = top.take("features", "text", None)
    settings: dict[str, Any] = {
        "method": top.take("method", "text", "auto"),
        "seed": top.take("seed", "whole", 0),
        "sampling": top.take("sampling", "text", "shared"),
        "on_failure": top.take("on_failure", "text or table", "skip"),
        "max_failure_rate": top.take("max_failure_rate", "number", 0.5),
        **{key: top.take(key, "number") for key in ("confidence", "tolerance") if key in top},
        **({"baseline": top.take("baseline", "text or whole")} if "baseline" in top else {}),
        **({"repeats": top.take("repeats", "whole")} if "repeats" in top else {}),
    }
    prompts, fields = harness.prompts if harness is not None and "prompts" not in top else None, None
    if prompts is None:
        of_prompts = top.table("prompts", [key for key in KEYS["prompts"] if harness is None or key != "fields"])
        prompts = read_prompts(of_prompts)
        fields = None if harness is not None else read_fields(of_prompts, prompts, dataset.examples)
    with top.named():
        whole = _budget(top, budget, computed, model)
        improving = read_improve(top, model, whole)  # checked in any case: the file is one for both
        allowed = improving.first if improve else whole
        options = {**_with_method(top, settings), **({"features": features} if features else {})}
        profile = read_profile(top, output_folder)
        selector = Selector(prompts, goal, allowed, examples=dataset.ids, profile=profile, **options)
        if improve:
            check_method(selector)
    kind = model.get("type")
    at_once = {"huggingface": ("batch_size", 16), "llama-cpp": ("n_slots", SLOTS)}  # in one call
    batch_size = model.get(*at_once[kind]) if kind in at_once else 1
    concurrency = top.take("concurrency", "whole", _CONCURRENCY.get(str(kind), batch_size))
    if concurrency < 1:
        raise top.error("concurrency", "must be at least 1", concurrency)
    if kind == "vllm" or harness is not None:  # its engine makes batches of its own of whatever it is given
        batch_size = concurrency
    settings = {"budget": budget, **settings, "features": features, **({} if fields is None else {"fields": fields})}
    if harness is not None:
        settings["evaluator"] = data["evaluator"]
    if "profile" in data:
        settings["profile"] = data["profile"]
    setup = describe(settings, data, model, prompts, dataset)
    batch_size = min(batch_size, concurrency)
    return Config(
        path,
        output,
        selector,
        dataset,
        computed or {},
        model,
        concurrency,
        batch_size,
        setup,
        read_cache(top),
        _confirm_above(top, model),
        improving if improve else None,
        harness,
        fields,
    )


def _budget(
    top: Table, given: int | dict[str, Any], computed: Mapping[str, Any] | None, model: Mapping[str, Any]
) -> Any:
    if isinstance(given, int):
        return given
    table = top.inner("budget", given, KEYS["budget"])
    kinds = {"evaluations": "whole", "cost": "number", "max_cost_per_evaluation": "number"}
    with table.named():
        budget = Budget(**{key: table.take(key, kind) for key, kind in kinds.items() if key in table})
    if budget.cost is not None and computed is not None and "cost" not in computed and not has_price(model):
        raise table.error("cost", "needs to know what an evaluation costs: give [model] a price, or [metrics] cost")
    return budget


def _confirm_above(top: Table, model: Mapping[str, Any]) -> float | None:
    found: float | None = top.take("confirm_above", "number", None)
    if found is not None and not has_price(model):
        raise top.error("confirm_above", "needs to know what an evaluation costs: give [model] a price")
    return found


def _with_method(top: Table, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a method that may stop early, if that is wanted."""
    stop = {key: settings[key] for key in ("confidence", "tolerance") if key in settings}
    others = {key: value for key, value in settings.items() if key not in stop}
    if not stop:
        return others
    if settings["method"] not in ("auto", "race"):
        raise top.error(next(iter(stop)), "is for method = 'auto' or 'race' only", settings["method"])
    return {**others, "method": {"auto": Adaptive, "race": Race}[settings["method"]](**stop)}


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"There is no file {str(path)!r}.") from None
    except IsADirectoryError:
        raise ConfigError(f"{str(path)!r} is a folder; give the path of a TOML file.") from None
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name}: not UTF-8: {error.reason} at byte {error.start}.") from error
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, or a number with too many digits
        raise ConfigError(f"{path.name}: not TOML: {error}.") from error


def _output(top: Table) -> Path:
    path = top.path
    given = top.take("output", "text", path.stem if path.suffix else f"{path.name}-run")
    home = path.resolve().parent
    folder = top.beside(given).resolve() if given else home
    if folder == home or folder in home.parents:
        raise top.error("output", "must be a folder of the run's own, as in output = 'runs/first'", given)
    if folder.exists() and not folder.is_dir():
        raise top.error("output", "must be a folder, and there is a file of that name", given)
    return folder
