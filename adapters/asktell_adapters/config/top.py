"""The top of a configuration file, and the tables that need no other module: `[goal]`, `[budget]` and more."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import asktell
from asktell import AsktellError, ConfigError, InvalidArgumentError
from asktell.extend import nearest
from asktell_adapters.config.tables import (
    EXAMPLE_OF_A_PRICE,
    InTables,
    Table,
    expected,
    key,
    listed,
)

if TYPE_CHECKING:
    from asktell.extend import Goal
    from asktell_adapters.config.candidates import CandidatesTable
    from asktell_adapters.config.data import DataTable, PromptsTable
    from asktell_adapters.config.harness import EvaluatorTable
    from asktell_adapters.config.improve import ImproveTable
    from asktell_adapters.config.label import LabelTable
    from asktell_adapters.config.licence import LicenceTable
    from asktell_adapters.config.proxies import ProxiesTable
    from asktell_adapters.llms.cache import AnswerCache
else:
    # Their modules are imported when a file has these tables
    CandidatesTable = Annotated[Any, InTables("candidates")]
    DataTable = Annotated[Any, InTables("data")]
    PromptsTable = Annotated[Any, InTables("prompts")]
    EvaluatorTable = Annotated[Any, InTables("evaluator")]
    ImproveTable = Annotated[Any, InTables("improve")]
    LabelTable = Annotated[Any, InTables("label")]
    LicenceTable = Annotated[Any, InTables("judge")]
    ProxiesTable = Annotated[Any, InTables("proxies")]

STUDY = "study.db"
"""The file of a run's study in its folder."""


class ProfileTable(Table):
    """Learns from earlier runs which examples discriminate best."""

    runs: list[str] = key(
        about="Earlier runs on the same examples, oldest first: folders, their TOML files, or profiles (`.json`).",
        alias="from",
    )
    half_life: float | None = key(
        None,
        "Number of later runs after which a run counts half as much. Without it, all runs count equally.",
    )

    def profile(self) -> "asktell.ExampleProfile":
        """The profile of the runs. Each is a folder or TOML file, a study's SQLite file, or a profile's .json."""
        if not self.runs:
            raise self.error("from", "must name at least one earlier run")
        profiles = []
        for name in self.runs:
            try:
                profiles.append(profile_of(self.beside(name)))
            except (AsktellError, OSError) as error:
                raise self.mistake(
                    f"'from' in [profile] refers to {name!r}, which cannot be used. {error}"
                ) from error
        with self.named():
            return asktell.ExampleProfile.merged(*profiles, half_life=self.half_life)


def profile_of(path: Path) -> "asktell.ExampleProfile":
    """The profile of an earlier run, or of a file.

    Raises:
        ConfigError: there is no such run or file.
    """
    if path.suffix == ".json":
        return asktell.ExampleProfile.from_json(path.read_bytes())
    if path.suffix == ".toml" and path.is_file():
        path = output_folder(path)
    file = path / STUDY if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(
            f"There is no run at {str(path)!r}. Give the folder or the TOML file of a run, the SQLite file of a study, "
            "or the .json file of a profile."
        )
    profiles = []
    for name in asktell.Study.names(str(file)):
        with asktell.Study.open(str(file), name) as study:
            profiles.append(asktell.ExampleProfile.of(study))
    return asktell.ExampleProfile.merged(*profiles)


_METRICS = "a metric's name, or a list of them"
_BOUNDS = (
    "a table, METRIC = a finite number, a text such as 'within 0.02 of best' or 'within 0.02 of baseline', or "
    "{ bound = 2.0, quantile = 0.95, in_every_segment = true }"
)


class GoalTable(Table):
    """The objectives and constraints of the selection."""

    type: str = key(
        "best-feasible",
        '`"best-feasible"` (the best prompt under constraints) or `"pareto-set"` (the best trade-offs).',
    )
    maximize: str | list[str] = key(
        [],
        "Metrics to maximize.",
        said="this or `minimize`",
        expected=_METRICS,
    )
    minimize: str | list[str] = key(
        [],
        "Metrics to minimize.",
        said="this or `maximize`",
        expected=_METRICS,
    )
    worst_segment: str | list[str] = key(
        [],
        "Metrics of `maximize` and `minimize` for which the mean of a prompt's worst [segment](#data) counts, instead "
        "of its mean over all examples.",
        expected=_METRICS,
    )
    at_least: dict[str, float | str | dict[str, Any]] = key(
        {},
        'For each metric, the lower bound of its mean, or of a quantile over the examples. `"within 0.02 of best"` '
        "(or `of "
        "baseline`): the mean is at most 0.02 lower than the best prompt's (or the baseline's). With "
        "`in_every_segment`, the bound holds for each [segment](#data).",
        expected=_BOUNDS,
    )
    at_most: dict[str, float | str | dict[str, Any]] = key(
        {},
        'For each metric, the upper bound of its mean, or of a quantile over the examples. `"within 0.5 of best"`: '
        "the mean is at "
        "most 0.5 higher than the lowest mean of any prompt.",
        expected=_BOUNDS,
    )
    ranges: dict[str, list[float]] = key(
        {},
        "For each metric, its lowest and its highest possible score.",
        expected="a table, METRIC = [low, high]",
    )
    tolerances: dict[str, float] = key(
        {},
        "For each metric, the difference that does not matter, in units of the metric. The verdict counts a prompt as "
        "good if it is within the tolerance of the best. With `confidence`, the run ends with such a prompt, which may "
        "also violate a constraint by up to the tolerance of its metric. If a quantile has a bound, write `tolerance` "
        "next to `quantile`. There, it is a share of the examples.",
        said="none. For the verdict: 1% of the range",
        expected="a table, METRIC = number",
    )

    sure: float | None = key(
        None,
        "Probability with which the selected prompt must satisfy the constraints, such as 0.95. Only with the type "
        "`best-feasible` and the method `auto`.",
        said="at least 0.5",
    )

    def goal(
        self, computed: Mapping[str, Any] | None, home: str = "[metrics] has"
    ) -> "Goal":
        """The goal. `computed`: the available metrics, or None if a harness decides. `home`: their table."""
        from asktell.extend import parse_goal

        best = [
            [names] if isinstance(names, str) else names
            for names in (self.maximize, self.minimize)
        ]
        parts = self.at_least, self.at_most, self.ranges, self.sure, self.worst_segment
        with self.named():
            goal = parse_goal(
                self.type, best[0], best[1], *parts, tolerances=self.tolerances
            )
        for name in goal.metrics:
            if computed is not None and name not in computed:
                if name == "cost":
                    raise self.mistake(
                        "The goal in [goal] uses the metric 'cost', which is not computed. Add cost = true to "
                        f"[metrics], and a price to [model], {EXAMPLE_OF_A_PRICE}."
                    )
                near = nearest(name, list(computed))
                raise self.mistake(
                    f"The goal in [goal] uses the metric {name!r}, which is not computed{near}. {home} "
                    f"{listed(list(computed))}."
                )
        return goal


class BudgetTable(Table):
    """A budget of evaluations, of money, or of both."""

    evaluations: int | None = key(
        None, "Number of evaluations.", said="unlimited", ge=1
    )
    cost: float | None = key(
        None,
        "Maximum total cost, in the currency of the prices. The cost of an evaluation comes from `price` in `[model]` "
        "or from the metric `cost`. For each evaluation in progress, the highest cost so far of its prompt is "
        "reserved.",
        said="unlimited",
        gt=0,
    )
    max_cost_per_evaluation: float | None = key(
        None,
        "The most that an evaluation can cost. This amount is reserved for each evaluation in progress, so that the "
        "budget is never exceeded.",
        gt=0,
    )


class CacheTable(Table):
    """The cache of responses on disk."""

    file: str | None = key(
        None,
        "File in which the responses are kept.",
        said="one for all runs, in the user's cache folder",
    )
    max_mb: float = key(
        1000,
        "Largest size of the file, in megabytes. The responses that were not used for the longest time are removed "
        "first.",
    )
    max_age_days: float | None = key(
        None,
        "Responses that are older than this are requested again.",
        said="unlimited",
    )


def _concurrency() -> str:
    """How many evaluations run at once by default, in words."""
    from asktell_adapters.config.model import concurrency_in_words

    return concurrency_in_words()


class TopTable(Table):
    """The top of the file."""

    # fmt: off
    budget: int | BudgetTable | None = key(None, "Number of evaluations, or a table: see [budget](#budget).",
        said="needed", expected="a whole number, or a table with evaluations, cost or both")
    output: str | None = key(None, "The run's folder, relative to the file.", said="the file's name without `.toml`")
    method: str = key("auto", "The name of a [method](methods.md).")
    confidence: float | None = key(None,
        "Ends the run early, once the selected prompt is the best with this probability, such as 0.95. With the method "
        "`referee`, the probability that no candidate is ever accepted falsely. Only with the methods `auto`, `race` "
        "and `referee`.",
        said="none. For `race` and `referee`: 0.95")
    each: int | None = key(None,
        "Largest number of evaluations of a candidate. Only with the method `referee`.", said="200")
    confidence_kind: str | None = key(None,
        "What `confidence` needs. `proof`: the statistical model gives this probability, and a test that does not "
        "depend on this model confirms the selection. `posterior`: only the statistical model gives this probability. "
        "This takes fewer evaluations, but has no guarantee. Only with the method `auto`.", said='`"proof"`')
    features: str | None = key(None,
        '`"text"`: computes a row of numbers (*features*) for each prompt from its text. Some [methods](methods.md) '
        "need features.")
    seed: int = key(0, "Seed of all random choices of the run.")
    sampling: str = key("shared",
        '`"shared"`: prompts are evaluated on the same examples. `"iid"`: the example of every evaluation is drawn '
        "at random.")
    on_failure: str | dict[str, Any] = key("skip",
        '`"skip"`: a failed evaluation is a missing value. A table has the scores that a failure counts as, one '
        'for each '
        "metric of the goal: `{ accuracy = 0.0 }`.")
    max_failure_rate: float = key(0.5,
        "A prompt is eliminated once its true failure rate is above this value with a probability of 99%. With 1, no "
        "prompt is eliminated.")
    baseline: str | int | None = key(None,
        "Id or text of the prompt in use. It is never eliminated, and is compared with the selected prompt.")
    repeats: int | None = key(None,
        "Largest number of evaluations of a prompt on the same example: [noisy scores](../how-to/noisy-scores.md).",
        said="`1`")
    inputs: Literal["new", "given"] | None = key(None,
        '`"new"`: estimates are about unseen inputs like the examples. `"given"`: they are about exactly the given '
        "examples (a fixed suite).", said='`"new"`. For `asktell gate`: `"given"`')
    concurrency: int | None = key(None, "Number of evaluations at the same time.",
        said=_concurrency, ge=1)
    confirm_above: float | None = key(None,
        "Asks for confirmation before a run that may cost more than this, in the currency of the prices. Needs the "
        "`price` of every model.")
    prompts: PromptsTable | None = key(None, "The prompts to choose among: [prompts](#prompts).",
        said="needed, unless there are `[candidates]`")
    data: DataTable | None = key(None, "The examples: [data](#data).",
        said="needed, unless `[evaluator]` has its own")
    candidates: CandidatesTable | None = key(None,
        "Combinations of models, prompts and settings to choose among: [candidates](#candidates).")
    # Read by the table of its kind, once [models] and [candidates] are merged into it
    model: dict[str, Any] | None = key(None, "The LLM that responds: [model](#model).",
        said="needed, unless `[evaluator]` or `[label]` replaces it")
    models: dict[str, Any] | None = key(None, "Keys that differ between several LLMs: [models](#models).")
    # Each metric is read by the table of its name
    metrics: dict[str, Any] | None = key(None, "The scores of every response: [metrics](#metrics).",
        said="needed, unless `[evaluator]` or `[label]` replaces them")
    evaluator: EvaluatorTable | None = key(None,
        "A program or another tool that evaluates, instead of `[model]` and `[metrics]`: [evaluator](#evaluator).")
    goal: GoalTable | None = key(None, "The objectives and constraints: [goal](#goal).", said="needed")
    label: LabelTable | None = key(None, "People give the scores: [label](#label).")
    judge: LicenceTable | None = key(None,
        "The licence of the judge in `[metrics]`: how often it agrees with people: [judge](#judges-licence).")
    cache: CacheTable | None = key(None, "Keeps responses on disk, so that they are paid only once: [cache](#cache).")
    improve: ImproveTable | None = key(None, "How `asktell improve` writes prompts: [improve](#improve).",
        said="its defaults")
    profile: ProfileTable | None = key(None,
        "Learns from earlier runs which examples distinguish best between prompts: [profile](#profile).")
    proxies: ProxiesTable | None = key(None,
        "Cheap metrics outside of the goal that help to predict its metrics: [proxies](#proxies).")
    # Read by the table of its kind
    tracker: dict[str, Any] | None = key(None, "Writes the run to MLflow, W&B or another tool: [tracker](#tracker).")
    # fmt: on

    def check_needed(self) -> None:
        """Check that the file has what every file needs: a budget and a goal.

        Raises:
            ConfigError: one of the two is missing.
        """
        if self.budget is None:
            field = type(self).model_fields["budget"]
            raise self.error(
                "budget", f"is missing. Add it. It must be {expected(field)}"
            )
        self.needed("goal", self.goal)


def output_of(top: TopTable) -> Path:
    """The folder of the run.

    Raises:
        ConfigError: it would be a file, or contain the configuration itself.
    """
    path = top.config_file
    name = (
        (path.stem if path.suffix else f"{path.name}-run")
        if top.output is None
        else top.output
    )
    home = path.resolve().parent
    folder = top.beside(name).resolve() if name else home
    if folder == home or folder in home.parents:
        raise top.error(
            "output",
            "must be a folder of the run's own, as in output = 'runs/first'",
            name,
        )
    if folder.exists() and not folder.is_dir():
        raise top.error(
            "output", "must be a folder, but this is a file. Choose another name", name
        )
    return folder


def parse(path: Path) -> dict[str, Any]:
    """Parse the TOML file.

    Raises:
        ConfigError: the file is missing, cannot be read, or is not TOML.
    """
    from asktell_adapters.tables.rows import from_toml

    try:
        return from_toml(path.read_bytes().decode("utf-8-sig"), path.name)
    except FileNotFoundError:
        raise ConfigError(f"There is no file {str(path)!r}.") from None
    except IsADirectoryError:
        raise ConfigError(
            f"{str(path)!r} is a folder. Give the path of a TOML file."
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{str(path)!r} cannot be read ({error.strerror}). Make the file readable."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path.name}: The file is not UTF-8 ({error.reason} at byte {error.start}). Save the file as UTF-8."
        ) from error
    except InvalidArgumentError as error:
        raise ConfigError(str(error)) from error


def output_folder(path: Path) -> Path:
    """The run's folder that a configuration names. By default, it has the file's name without `.toml`.

    Args:
        path: the TOML file. Mistakes in other keys of the file are ignored.

    Raises:
        ConfigError: the file does not exist, is not TOML, or its key `output` is invalid.
    """
    return output_of(_only(path, "output"))


def load_cache(path: Path) -> "AnswerCache | None":
    """The cache of a configuration. None if the file has no table `[cache]`.

    Args:
        path: the TOML file. Mistakes in other tables of the file are ignored.

    Raises:
        ConfigError: the file does not exist, is not TOML, or its table `[cache]` is
            invalid.
    """
    return open_cache(_only(path, "cache"))


def _only(path: Path, name: str) -> TopTable:
    """One key of a file. A mistake elsewhere in the file does not hide its finished run."""
    data = parse(path)
    return TopTable.read(path, "", {name: data[name]} if name in data else {})


def open_cache(top: TopTable) -> "AnswerCache | None":
    """The cache of responses. None if the file has no table `[cache]`."""
    from asktell_adapters.llms.cache import AnswerCache

    table = top.cache
    if table is None:
        return None
    with table.named():
        return AnswerCache(
            None if table.file is None else table.beside(table.file),
            max_bytes=int(table.max_mb * 10**6),
            max_age=None
            if table.max_age_days is None
            else table.max_age_days * 86400.0,
        )
