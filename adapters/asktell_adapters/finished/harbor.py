"""Jobs of Harbor, which runs agents on Terminal-Bench, SWE-bench and other tasks: `jobs/JOB/TRIAL/result.json`."""

from typing import final

from asktell import InvalidArgumentError
from asktell.extend import some
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.unclear_results_error import Reading, UnclearResultsError
from asktell_adapters.finished.wanted import Wanted
from asktell_adapters.harnesses.harbor.trial import HarborTrial, is_trial, names_of

_JOB = "job"  # --candidate-column job


@final
class HarborReader:
    """An agent with its model and options is a candidate. The attempts at a task are repeats.

    A trial without a valid reward, such as one whose container broke, is a failure with the
    reason that Harbor gives. A timeout of the agent that was graded keeps its reward.
    """

    name = "jobs of Harbor"

    def recognizes(self, source: Source) -> bool:
        """Whether a document, or one in the folder, has a task with its checksum, a trial and its reward."""
        return any(map(_is_trial, source.files or (source,)))

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the trials of one or several jobs.

        Raises:
            InvalidArgumentError: a trial is damaged.
            UnclearResultsError: several jobs have the same agent.
        """
        if wanted.candidate_columns not in ((), (_JOB,)):
            raise InvalidArgumentError(
                f"The jobs of Harbor in {source.path} have no column {'/'.join(wanted.candidate_columns)!r}, which "
                f"--candidate-column names. Pass --candidate-column {_JOB} to make each job a candidate, or leave the "
                "flag out to make each agent a candidate."
            )
        files = [file for file in source.files or (source,) if _is_trial(file)]
        trials = [HarborTrial.of(file.path, file.json) for file in files]
        _check_jobs(source, trials, wanted)
        by_job = bool(wanted.candidate_columns)
        evaluations: dict[str, list[Graded]] = {}
        # Of a file alone, other trials of the job are not known
        names = names_of(trials, always=not source.is_folder)
        for trial, (agent, task) in zip(trials, names, strict=True):
            values = {**trial.rewards, **trial.usage} if trial.rewards else {}
            graded = Graded.of(task, values, trial.reason)
            evaluations.setdefault(trial.job if by_job else agent, []).append(graded)
        # The trials of a job may also be given file by file
        path = source.path if source.is_folder else source.path.parent.parent
        return Scores(
            self.name,
            [
                ScoredCandidate(path, ScoreColumns.of(graded), name)
                for name, graded in evaluations.items()
            ],
            "jobs" if by_job else "agents",
            "tasks",
            repeats="attempts",
        )


def _is_trial(source: Source) -> bool:
    # The first bytes suffice to pass by the other files of a folder
    if b'"task_checksum"' not in source.head or b'"trial_name"' not in source.head:
        return False
    return is_trial(source.json)


def _check_jobs(source: Source, trials: list[HarborTrial], wanted: Wanted) -> None:
    """Check that no agent is in several jobs, unless the user says what that means."""
    if wanted.repeats is not None or wanted.candidate_columns:
        return
    jobs: dict[tuple[str, str], dict[str, None]] = {}
    for trial in trials:
        jobs.setdefault((trial.agent, trial.settings), {})[trial.job] = None
    for (agent, _), names in jobs.items():
        if len(names) > 1:
            raise UnclearResultsError(
                f"{source.path} has {len(names)} jobs with the same agent {agent!r}: {some(list(names))}.",
                [
                    Reading("Each job is a candidate.", ("--candidate-column", _JOB)),
                    Reading(
                        "Each agent is a candidate, and its jobs are repeated evaluations, which are averaged.",
                        ("--repeats",),
                    ),
                ],
            )
