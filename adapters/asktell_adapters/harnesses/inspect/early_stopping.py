"""Early stopping for Inspect: samples are skipped once the verdict is established.

The samples must be in random order (`sample_shuffle`). Inspect runs several samples in
parallel, and asks before each sample whether to run it. Samples that complete first may
be easier than the others. So a sample counts only when all samples before it in the
random order are complete.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, final
from weakref import WeakValueDictionary

import asktell
from asktell import (
    BestFeasible,
    InvalidArgumentError,
    ParetoSet,
    Race,
    Result,
    Selector,
    Study,
)
from asktell.extend import (
    Goal,
    State,
    apply,
    events,
    log,
    needs_extra,
    some,
    standing,
)
from asktell_adapters.harnesses.inspect.logs import Logs, observe_logs
from asktell_adapters.harnesses.inspect.samples import (
    ValueToFloat,
    check_scorers,
    numbers,
)

with needs_extra("inspect"):
    import anyio
    import anyio.to_thread
    from inspect_ai.hooks import Hooks, SampleEnd, hooks
    from inspect_ai.log import EvalSpec
    from inspect_ai.scorer import SampleScore
    from inspect_ai.util import EarlyStop

__all__ = ["EarlyStopping"]

_BASELINE = "baseline"
_MOST_SCORELESS = 5  # as in `asktell.run`


@dataclass(eq=False)
class _Run:
    """One task that Inspect runs, and its completed samples that do not count yet.

    Attributes:
        owner: the early stopping that the task was given.
        arm: the name of the run in the selection.
        turns: the place of each sample in the random order, by the sample's id.
        complete: scores by turn, or None for a failed sample.
        next: the first turn that is not complete.
        scoreless: the number of samples so far that ended without a score of the goal.
            None after the first sample that has all scores.
    """

    owner: "EarlyStopping"
    arm: str
    turns: dict[str, int]
    complete: dict[int, dict[str, float] | None] = field(default_factory=dict)
    next: int = 0
    scoreless: int | None = 0

    def turn(self, id_: object, epoch: int) -> int:
        """Return the place of an epoch of a sample. All first epochs are before all second epochs, as in Inspect."""
        return (epoch - 1) * len(self.turns) + self.turns[str(id_)]


# Inspect's tasks for samples inherit it.
_current: ContextVar[_Run | None] = ContextVar("asktell_run", default=None)
_runs: WeakValueDictionary[str, _Run] = WeakValueDictionary()  # By the id of the eval.


@final
class EarlyStopping:
    """Stop an eval as soon as its verdict is established: `Task(..., early_stopping=EarlyStopping(goal, ...))`.

    There are three comparisons, which can be combined. The mean scores of a task are
    compared with a bound, with the mean scores in a log, or with the mean scores of
    other models or tasks:

    - `EarlyStopping(BestFeasible("includes", {"includes": 0.8}))` stops when it is
      established whether the mean over all samples is at least 0.8.
    - `EarlyStopping(goal, baseline="logs/old.eval")` stops when it is established
      whether the task is better than the task in the log.
    - `EarlyStopping(goal, among=["openai/a", "openai/b"])`, with `eval(task,
      model=[...])`, stops the eval of a model when it is established to be worse than
      another model. When the best model is established, all evals stop.

    A *run* is the eval of one task with one model. Samples must run in random order,
    and the order must be the same in all runs. So pass the same number to each:
    `eval(..., sample_shuffle=1)`.

    The goal can use the task's scorers, under the names that they have in
    `InspectTask`. It cannot use tokens, latency or cost. If the task has several
    epochs, the mean over all epochs counts. A failed sample does not count: the mean is
    over the samples that have scores, and two runs are compared on the samples that
    have scores in both. Samples that are running when the eval stops are completed.

    Args:
        goal: a `BestFeasible` or a `ParetoSet`. The confidence is guaranteed only if
            every metric has a range, as in `maximize("includes", range=(0, 1))`, and no
            sample fails. See `asktell.Race`. Two runs count as equally good if their
            means differ by at most the metric's `tolerance`.
        among: the names of all runs to compare. Without `name`, write models, such as
            "openai/a", if the runs differ in their models, and tasks if they differ in
            their tasks. By default, there is a single run.
        name: a function from the `EvalSpec` of a run to its name. Pass it to use other
            names in `among` than those of models and tasks.
        baseline: logs of the same samples, to compare with: a log file, a folder, an
            EvalLog, or a list of these. In results, the baseline is called "baseline".
        confidence: with at least this probability, the early verdict equals the verdict
            that the full eval would have.
        study: the URL of a storage and the name of a study in it, such as
            `("sqlite:///studies.db", "agents")`. Use it if the runs are in different
            processes or on different days. By default, scores are kept in memory.
        value_to_float: as for `InspectTask`.

    Raises:
        InvalidArgumentError: the goal is neither a `BestFeasible` nor a `ParetoSet`, or
            there is nothing to compare a single run with: no constraint, no baseline,
            and fewer than two names in `among`.
    """

    def __init__(
        self,
        goal: Goal,
        *,
        among: Sequence[str] = (),
        name: Callable[[EvalSpec], str] | None = None,
        baseline: Logs | None = None,
        confidence: float = 0.95,
        study: tuple[str, str] | None = None,
        value_to_float: ValueToFloat | None = None,
    ) -> None:
        if not isinstance(goal, BestFeasible | ParetoSet):
            raise InvalidArgumentError(
                f"goal must be a BestFeasible or a ParetoSet, got {goal!r:.100}."
            )
        if isinstance(among, str):
            raise InvalidArgumentError(
                f"among must be a list with the name of each run, got {among!r}."
            )
        if len(among) < 2 and baseline is None and not goal.is_constrained:
            raise InvalidArgumentError(
                "A single task needs a comparison. Give a bound in subject_to, a baseline, or several runs in among."
            )
        self._goal, self._among, self._baseline = goal, tuple(among), baseline
        # By default, a run has the name of its model, or else of its task.
        self._name = name or (
            lambda task: next(
                (each for each in (task.model, task.task) if each in self._among),
                str(task.model),
            )
        )
        self._race = Race(confidence)
        self._study, self._to_float = study, value_to_float
        self._selection: Selector | Study | None = None
        self._order: tuple[str, ...] = ()
        # The reason of each stopped run, by its name.
        self._stopped: dict[str, str] = {}
        # The first turn that is not complete, by the name of the run.
        self._reached: dict[str, int] = {}
        # The last run that began.
        self._only: _Run | None = None
        self._lock = anyio.Lock()

    def result(self) -> Result:
        """Return the result so far. See `Selector.result`.

        Its `spent` and `budget` are numbers of evaluations, and each epoch of a sample
        is one. `spent` has the evaluations with scores, up to the first sample in the
        random order that is not complete. `budget` has all evaluations of all runs.
        Neither includes the baseline.

        Raises:
            InvalidStateError: no task has begun.
        """
        if self._selection is None:
            raise asktell.InvalidStateError(
                "No task has begun. Pass this object to a Task as early_stopping, and run the task."
            )
        result, state = self._selection.result(), self._state.state
        # Inspect chooses the samples, so the selection itself has spent nothing: count
        # the observed scores instead.
        names = self._state.prompts.ids
        competing = [
            arm
            for arm, name in enumerate(names)
            if self._baseline is None or name != _BASELINE
        ]
        epochs_of_samples = state.problem.examples.repeats * len(self._order)
        return replace(
            result,
            spent=int(state.told[competing].sum()),
            budget=len(competing) * epochs_of_samples,
        )

    # Inspect's interface

    async def start_task(self, task: EvalSpec, samples: list[Any], epochs: int) -> str:
        """Begin a run, or resume it. Inspect calls this method when a task starts.

        Raises:
            InvalidArgumentError: the task lacks a metric of the goal, does not shuffle
                its samples, reduces epochs by something else than the mean, has other
                samples or another order than the first run, or its name is not in
                `among`.
        """
        check_scorers(
            self._goal.metrics,
            [scorer.name.split("/")[-1] for scorer in task.scorers or ()],
        )
        reducers = task.config.epochs_reducer or ["mean"]
        if epochs > 1 and reducers != ["mean"]:
            raise InvalidArgumentError(
                f"Early stopping compares the mean over epochs, but the task reduces epochs by {reducers}. Use the "
                "reducer 'mean'."
            )
        if not (task.dataset.shuffled or task.config.sample_shuffle):
            raise InvalidArgumentError(
                "The samples must run in random order, because the first samples must represent all. Use "
                "eval(..., sample_shuffle=1), inspect eval --sample-shuffle 1, or dataset.shuffle(seed=1)."
            )
        _hear_of_failures()
        arm = self._name(task)
        async with self._lock:
            order = tuple(str(sample.id) for sample in samples)
            if self._selection is None:
                self._selection = await anyio.to_thread.run_sync(
                    partial(self._begin, arm, order, samples, epochs)
                )
                self._order = order
            if order != self._order:
                raise InvalidArgumentError(
                    "The samples or their order differ from the first run. Use the same samples and shuffle them with "
                    "the same seed."
                )
            names = self._state.prompts.ids
            if arm not in names:
                raise InvalidArgumentError(
                    f"The run {arm!r} is not among {some(list(names))}. Add it to among, or pass a function as name "
                    "that returns one of these names."
                )
            run = self._only = _runs[task.eval_id] = _Run(
                self, arm, {id_: i for i, id_ in enumerate(order)}
            )
            _current.set(run)
            await anyio.to_thread.run_sync(self._look)
        return "asktell"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:  # noqa: A002 - Inspect's name
        """Return an `EarlyStop` if the run is stopped, so that Inspect skips the sample. Otherwise return None."""
        # Wait for scores that are being recorded.
        async with self._lock:
            reason = self._stopped.get(self._run.arm)
        return None if reason is None else EarlyStop(id=id, epoch=epoch, reason=reason)

    async def complete_sample(
        self,
        id: str | int,  # noqa: A002
        epoch: int,
        scores: dict[str, SampleScore],
    ) -> None:
        """Record the scores of a sample. If it lacks a score for a metric of the goal, it counts as failed.

        If the first five samples of a run all lack one, the run is stopped, because its
        scorers do not fit the goal.

        Inspect calls this method after each epoch of a sample.
        """
        values = numbers(
            {name: scored.score for name, scored in scores.items()}, self._to_float
        )
        valid = {
            name: values[name]
            for name in self._goal.metrics
            if not math.isnan(values.get(name, math.nan))
        }
        run = self._run
        lacks = [name for name in self._goal.metrics if name not in valid]
        if not lacks:
            run.scoreless = None
        elif run.scoreless is not None:
            run.scoreless += 1
            if run.scoreless == _MOST_SCORELESS:
                self._stopped[run.arm] = (
                    f"the first {run.scoreless} samples all ended without a number for {some(lacks)}. The scorers gave "
                    f"{some(sorted(values)) or 'no scores'}. Change the goal or the scorers"
                )
                log.error("%s is stopped: %s.", run.arm, self._stopped[run.arm])
        await self._take(run, id, epoch, None if lacks else valid)

    async def complete_task(self) -> dict[str, Any]:
        """Return the entry for Inspect's log.

        It has the `name` of the run, the `verdict` as a text, and the reason why the
        run was stopped (`stopped`). The reason is None if the run was not stopped.
        """
        verdict = (await anyio.to_thread.run_sync(self.result)).verdict
        return {
            "name": self._run.arm,
            "verdict": verdict.sentence,
            "stopped": self._stopped.get(self._run.arm),
        }

    async def _take(
        self, run: _Run, id_: object, epoch: int, scores: dict[str, float] | None
    ) -> None:
        """Record an epoch of a sample. `scores` is None if it failed.

        If the same epoch is recorded again, its first scores are kept. If it failed
        before, scores replace the failure, because Inspect retries failed samples. This
        is no longer possible when all samples before it in the random order are
        complete: then the failed sample is already left out.
        """
        async with self._lock:
            turn = run.turn(id_, epoch)
            # Inspect retries failed samples, so a failure may be followed by scores.
            if turn >= run.next and run.complete.get(turn) is None:
                run.complete[turn] = scores
                await anyio.to_thread.run_sync(lambda: self._advance(run))

    # These methods run in threads, because a storage or a decision may take a while.

    def _begin(
        self, arm: str, order: Sequence[str], samples: Sequence[Any], epochs: int
    ) -> Selector | Study:
        """Create the selection, or open the study, and record the scores of the baseline."""
        arms = self._among or (arm,)
        if self._baseline is not None:
            arms = (*arms, _BASELINE)
        new_selector = partial(
            Selector,
            dict(zip(arms, arms, strict=True)),
            self._goal,
            len(arms) * len(order) * epochs,
            self._race,
            baseline=None if self._baseline is None else _BASELINE,
            repeats=epochs,
            # The verdict is that of the full eval, about exactly these samples.
            inputs="given",
            # However many samples of a run fail, its other samples count.
            max_failure_rate=1.0,
        )
        # Arrange the examples so that the engine's random order of examples is
        # Inspect's order of samples.
        places = new_selector(examples=len(order)).state.problem.examples.order
        ids, in_place = [""] * len(order), list(samples)
        for sample, place in zip(samples, places.tolist(), strict=True):
            ids[place], in_place[place] = str(sample.id), sample
        selector = new_selector(examples=ids)
        selection = (
            selector
            if self._study is None
            else Study.create(*self._study, selector, exist_ok=True)
        )
        if self._baseline is not None and not self._known(selection, _BASELINE):
            observe_logs(
                selection,
                self._baseline,
                dataset=in_place,
                prompt=_BASELINE,
                value_to_float=self._to_float,
            )
        return selection

    def _advance(self, run: _Run) -> None:
        """Record the completed samples up to the first incomplete one. Then stop the runs that can be stopped."""
        assert self._selection is not None
        known_scores, before = self._known(self._selection, run.arm), run.next
        while run.next in run.complete:
            scores = run.complete.pop(run.next)
            epoch, place = divmod(run.next, len(self._order))
            # A study may have the scores of this epoch already, from an interrupted
            # run.
            if scores is not None and known_scores[self._order[place]] <= epoch:
                self._selection.observe(run.arm, scores, self._order[place])
            run.next += 1
        self._reached[run.arm] = max(run.next, self._reached.get(run.arm, 0))
        if run.next > before:
            self._look()

    def _look(self) -> None:
        """Stop every run if the verdict is established, else the eliminated runs."""
        selector = self._state
        state = self._with_failures(selector)
        now, names = standing(state, self._race.confidence), selector.prompts.ids
        if now.answer is None:
            self._stopped |= {
                str(names[arm]): reason
                for arm, reason in now.out.items()
                if arm not in now.open
            }
            return
        selected = now.answer or self._race.answer(state)
        sentence = "the selection is established: " + ", ".join(
            str(names[arm]) for arm in selected
        )
        if self._goal.is_constrained and not selector.result().feasible:
            sentence = "no prompt satisfies every constraint"
        self._stopped |= {
            str(name): sentence for name in names if name not in self._stopped
        }

    def _with_failures(self, selector: Selector) -> State:
        """The state of the selection, with the failed epochs of samples as failed evaluations.

        Scores are recorded in their order, so an epoch of a sample has failed if its
        turn has passed and it has no score. The selection itself does not record it,
        and the race would wait for its score.
        """
        state, n_samples = selector.state, len(self._order)
        failed = list[tuple[int, int]]()
        for arm, name in enumerate(selector.prompts.ids):
            known_scores = self._known(selector, str(name))
            scored = [known_scores[id_] for id_ in self._order]
            reached = self._reached.get(str(name), 0)
            if self._baseline is not None and name == _BASELINE:
                # A log gets no further scores.
                reached = n_samples * state.problem.examples.repeats
            # In a study, other processes may have reached more.
            last = (
                (n - 1) * n_samples + place + 1 for place, n in enumerate(scored) if n
            )
            reached = max(reached, max(last, default=0))
            for place, n_scores in enumerate(scored):
                n_epochs = -((place - reached) // n_samples)
                example = int(state.problem.examples.order[place])
                failed += [(arm, example)] * max(0, n_epochs - n_scores)
        if failed:
            plan = events.Decided(len(state.decisions), plan=tuple(failed))
            state = apply(state, plan)
        for arm, example in failed:
            trial = state.plan.asked
            state = apply(state, events.Asked(trial, arm, example))
            state = apply(state, events.Failed(trial, "no score"))
        return state

    def _known(self, selection: Selector | Study, arm: str) -> Counter[str]:
        """Count the recorded scores of a run, by the sample's id."""
        selector = selection.selector if isinstance(selection, Study) else selection
        history, ids = selector.state.history, selector.example_ids or ()
        mine = history.examples()[history.arms() == selector.prompts.arm(arm)]
        return Counter(ids[example] for example in mine.tolist())

    @property
    def _state(self) -> Selector:
        assert self._selection is not None
        return (
            self._selection.selector
            if isinstance(self._selection, Study)
            else self._selection
        )

    @property
    def _run(self) -> _Run:
        """The run of the sample that Inspect is calling for. Outside of samples, the last run that began."""
        run = _current.get()
        running = run if run is not None and run.owner is self else self._only
        assert running is not None
        return running


@cache
def _hear_of_failures() -> None:
    """Register the hook when the first task starts, because Inspect announces hooks that exist at its start."""
    hooks(
        name="asktell_early_stopping",
        description="Reports failed samples to early stopping.",
    )(FailedSamples)


class FailedSamples(Hooks):  # type: ignore[misc]
    """Report samples without scores to early stopping.

    Inspect reports only samples with scores. Early stopping would wait forever for the
    others.
    """

    def enabled(self) -> bool:
        """Return whether any run has early stopping."""
        return bool(_runs)

    async def on_sample_end(self, data: SampleEnd) -> None:
        """Record a sample that has no scores as failed."""
        run = _runs.get(data.eval_id)
        if run is not None and not data.sample.scores:
            await run.owner._take(run, data.sample.id, data.sample.epoch, None)
