"""HELM's results for each instance: `per_instance_stats.json` and `display_predictions.json`, or a folder of runs.

Checked against the source of stanford-crfm/helm (`benchmark/runner.py`, `benchmark/metrics/metric.py`, the types of its
frontend).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

from asktell import InvalidArgumentError
from asktell.extend import short
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted

_KEYS = {"instance_id", "train_trial_index", "stats"}
# The name of a run, such as mmlu:subject=anatomy,method=multiple_choice_joint,model=openai_gpt-4, is that of its folder
_RUN = re.compile(r"(?P<scenario>[^:]+)(:(?P<arguments>.*=.*))?")
# Arguments that describe how a model is asked, and not what
_OF_CANDIDATES_WORDS = """
model model_deployment method prompt instructions num_prompt_variants max_train_instances num_train_trials
data_augmentation temperature num_outputs max_tokens stop output_format_instructions follow_format_instructions
increase_max_tokens
"""
_OF_CANDIDATES = frozenset(_OF_CANDIDATES_WORDS.split())


class _Run(NamedTuple):
    """What the name of a run says.

    Attributes:
        scenario: the scenario with its arguments. Empty if the name is unknown.
        model: the model. None if the name is unknown.
        arguments: the other arguments of the candidate, in one text.
    """

    scenario: str
    model: str | None
    arguments: str


@final
class HelmReader:
    """A candidate is a model with its way of being asked. The trials of an instance are repeats.

    Scenarios have instances with the same ids, so the name of the run, as far as it is
    known, distinguishes them. A perturbed instance is another example.
    """

    name = "HELM's results per instance"

    def recognizes(self, source: Source) -> bool:
        """Whether the first entry has an instance, a trial and its statistics, in this file or one of the folder."""
        return any(map(_is_of_instances, source.files or (source,)))

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the instances of all runs.

        Raises:
            InvalidArgumentError: an entry is damaged.
        """
        files = [file for file in source.files or (source,) if _is_of_instances(file)]
        # Both files of a run have the same scores, and the statistics have more of them
        detailed = {file.path.parent for file in files if _is_detailed(file)}
        if source.is_folder:
            files = [
                file
                for file in files
                if _is_detailed(file) or file.path.parent not in detailed
            ]
        runs = [_run(file.path) for file in files]
        variants = {
            run.model: {
                variant.arguments for variant in runs if variant.model == run.model
            }
            for run in runs
        }
        candidates: dict[tuple[Path, str | None], list[Graded]] = {}
        for file, run in zip(files, runs, strict=True):
            path, name = file.path, None
            if run.model is not None:
                # All runs of a suite with this model, which may also be given file by file
                path = source.path if source.is_folder else file.path.parent.parent
                name = run.model
                if len(variants[run.model]) > 1 or not source.is_folder:
                    name = ",".join(filter(None, [name, run.arguments]))
            prefix = f"{run.scenario}/" if run.scenario else ""
            graded = candidates.setdefault((path, name), [])
            graded.extend(_instances(file, prefix))
        return Scores(
            self.name,
            [
                ScoredCandidate(path, ScoreColumns.of(graded), name)
                for (path, name), graded in candidates.items()
            ],
            "models" if all(run.model for run in runs) else "files",
            "instances",
            repeats="trials",
        )


def _is_of_instances(source: Source) -> bool:
    # The first bytes suffice to pass by the other files of a folder
    if b'"instance_id"' not in source.head or b'"stats"' not in source.head:
        return False
    rows = source.records
    return (
        bool(rows)
        and rows[0].keys() >= _KEYS
        and isinstance(rows[0]["stats"], list | dict)
    )


def _is_detailed(source: Source) -> bool:
    return isinstance(source.records[0]["stats"], list)


def _run(path: Path) -> _Run:
    """What the folder of a file says about its run."""
    parts = _RUN.fullmatch(path.absolute().parent.name)
    if parts is None or "model=" not in (parts["arguments"] or ""):
        return _Run("", None, "")
    pairs = [argument.partition("=") for argument in parts["arguments"].split(",")]
    inputs = [
        f"{name}={value}" for name, _, value in pairs if name not in _OF_CANDIDATES
    ]
    of_candidate = [
        f"{name}={value}"
        for name, _, value in pairs
        if name in _OF_CANDIDATES and name not in ("model", "model_deployment")
    ]
    model = next(value for name, _, value in pairs if name == "model")
    scenario = ":".join([parts["scenario"], *[",".join(inputs)] * bool(inputs)])
    return _Run(scenario, model, ",".join(of_candidate))


def _instances(source: Source, prefix: str) -> Iterator[Graded]:
    """The trials of all instances. Each of HELM's metrics adds entries of its own for the same trials."""
    trials: dict[tuple[str, str], dict[str, object]] = {}
    for number, row in enumerate(source.records, start=1):
        try:
            perturbation = (row.get("perturbation") or {}).get("name")
            example = f"{prefix}{row['instance_id']}" + f" ({perturbation})" * bool(
                perturbation
            )
            scores = _scores(row["stats"])
        except (AttributeError, KeyError, TypeError) as error:
            raise InvalidArgumentError(
                f"{source.path}, entry {number}: {short(row)} is not an instance of HELM with its statistics. Give the "
                "file as HELM wrote it."
            ) from error
        trial = str(row.get("train_trial_index"))
        trials.setdefault((example, trial), {}).update(scores)
    for (example, _), scores in trials.items():
        yield Graded.of(example, scores)


def _scores(
    stats: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> dict[str, object]:
    """The mean of each statistic. One that counted nothing is unknown."""
    if isinstance(stats, Mapping):
        return dict(stats)
    return {str(stat["name"]["name"]): _mean(stat) for stat in stats}


def _mean(stat: Mapping[str, Any]) -> object:
    count = stat.get("count", 1)
    if not count:
        return None
    return stat["mean"] if "mean" in stat else stat["sum"] / count
