"""Inspect's early stopping: samples that cannot change the verdict any more are not run.

Inspect runs samples in an order of its own, several at once, and asks before each whether it should. Slow samples may
be hard ones, so that what is complete is no random part of the whole. Therefore only an unbroken beginning of the
random order counts: what came sooner waits for what was begun before it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, final
from weakref import WeakValueDictionary

import asktell
from asktell import BestFeasible, InvalidArgumentError, ParetoSet, Race, Result, Selector, Study
from asktell.extend import Goal, decide, needs_extra, some
from asktell_adapters.harnesses.inspect.logs import Logs, observe_logs
from asktell_adapters.harnesses.inspect.samples import ValueToFloat, check_scorers, numbers

with needs_extra("inspect"):
    import anyio
    import anyio.to_thread
    from inspect_ai.hooks import Hooks, SampleEnd, hooks
    from inspect_ai.log import EvalSpec
    from inspect_ai.scorer import SampleScore
    from inspect_ai.util import EarlyStop

_BASELINE = "baseline"


@dataclass(eq=False)
class _Run:
    owner: "EarlyStopping"
    arm: str
    turns: dict[str, int]  # by the sample's id: its place in the order
    complete: dict[int, dict[str, float] | None] = field(default_factory=dict)  # by turn, epoch by epoch; None: failed
    next: int = 0  # the first turn that is not complete

    def turn(self, id_: object, epoch: int) -> int:
        """The place of an epoch of a sample: Inspect begins all samples' first epoch before a second one."""
        return (epoch - 1) * len(self.turns) + self.turns[str(id_)]


_current: ContextVar[_Run | None] = ContextVar("asktell_run", default=None)  # samples' tasks inherit it
_runs: WeakValueDictionary[str, _Run] = WeakValueDictionary()  # by eval


@final
class EarlyStopping:
    """Ends evaluations whose outcome is certain: `Task(..., early_stopping=EarlyStopping(goal, ...))`.

    A task is held against a bound, against a log, or against the same task with other models; these may be combined:

    - `EarlyStopping(BestFeasible("includes", {"includes": 0.8}))` ends when it is certain that the mean over all
      samples is at least 0.8, or that it is not.
    - `EarlyStopping(goal, baseline="logs/old.eval")` ends when it is certain whether the task is better.
    - `EarlyStopping(goal, among=["openai/a", "openai/b"])`, with `eval(task, model=[...])`, ends models that are
      certainly worse than another, and all of them when the best is certain.

    Samples must run in random order, the same for all: `eval(..., sample_shuffle=1)`. Metrics are the task's scorers,
    named as by `InspectTask`; of several epochs the mean counts. Failed samples are missing values. Samples that run
    when it becomes certain are completed.

    Args:
        goal: a `BestFeasible` or a `ParetoSet`. With ranges of its metrics, as in `maximize("includes", range=(0, 1))`,
            the confidence is guaranteed; see `asktell.Race`.
        among: names of all that compete; by default there is one. A run is called after its model or its task.
        name: what a run is called instead, from its `EvalSpec`, where `among` are other names.
        baseline: log files, folders or EvalLogs of the same samples, to compare with; it is called "baseline".
        confidence: how often the verdict is the one that all samples would give.
        tolerance: a difference in the first metric that does not matter.
        study: URL of a storage and name of a study in it, `("sqlite:///studies.db", "agents")`, for runs in several
            processes, or one after the other; by default scores are kept in memory.
        value_to_float: as for `InspectTask`.
    """

    def __init__(
        self,
        goal: Goal,
        *,
        among: Sequence[str] = (),
        name: Callable[[EvalSpec], str] | None = None,
        baseline: Logs | None = None,
        confidence: float = 0.95,
        tolerance: float = 0.0,
        study: tuple[str, str] | None = None,
        value_to_float: ValueToFloat | None = None,
    ) -> None:
        if not isinstance(goal, BestFeasible | ParetoSet):
            raise InvalidArgumentError(f"goal must be a BestFeasible or a ParetoSet, got {goal!r:.100}.")
        if isinstance(among, str):
            raise InvalidArgumentError(f"among are the names of all that compete, as a list; got {among!r}.")
        if len(among) < 2 and baseline is None and not goal.is_constrained:
            raise InvalidArgumentError(
                "A single task needs something to be held against: a bound in subject_to, a baseline, or others in "
                "among."
            )
        self._goal, self._among, self._baseline = goal, tuple(among), baseline
        self._name = name or self._default_name
        self._race = Race(confidence, tolerance)
        self._study, self._to_float = study, value_to_float
        self._selection: Selector | Study | None = None
        self._order: tuple[str, ...] = ()
        self._stopped: dict[str, str] = {}  # arm to reason
        self._only: _Run | None = None  # the last one
        self._lock = anyio.Lock()

    def result(self) -> Result:
        """The answer so far, once a task has begun: see `Selector.result`.

        `spent` are the epochs of samples that ran, in the order of the samples up to the first that has not ended, and
        `budget` those of whole runs; a baseline's are in neither.
        """
        if self._selection is None:
            raise asktell.InvalidStateError("No task has begun: give this to a Task as early_stopping, and run that.")
        result, state = self._selection.result(), self._state.state
        # Inspect hands out the samples, so that to the selection all scores come from elsewhere.
        names = self._state.prompts.ids
        competing = [arm for arm, name in enumerate(names) if self._baseline is None or name != _BASELINE]
        epochs_of_samples = state.problem.repeats * len(self._order)
        return replace(result, spent=int(state.told[competing].sum()), budget=len(competing) * epochs_of_samples)

    # Inspect's interface

    async def start_task(self, task: EvalSpec, samples: list[Any], epochs: int) -> str:
        """Begin a run, or take it up again."""
        check_scorers(self._goal.metrics, [scorer.name.split("/")[-1] for scorer in task.scorers or ()])
        reducers = task.config.epochs_reducer or ["mean"]
        if epochs > 1 and reducers != ["mean"]:
            raise InvalidArgumentError(f"The mean over epochs is compared, but the task reduces them by {reducers}.")
        if not (task.dataset.shuffled or task.config.sample_shuffle):
            raise InvalidArgumentError(
                "Samples must run in random order, or the first ones say nothing of the others: "
                "eval(..., sample_shuffle=1), inspect eval --sample-shuffle 1, or dataset.shuffle(seed=1)."
            )
        _hear_of_failures()
        arm = self._name(task)
        async with self._lock:
            order = tuple(str(sample.id) for sample in samples)
            if self._selection is None:
                self._selection = await anyio.to_thread.run_sync(partial(self._begin, arm, order, samples, epochs))
                self._order = order
            if order != self._order:
                raise InvalidArgumentError(
                    "The samples are others than in the first run, or in another order; shuffle them by the same seed."
                )
            names = self._state.prompts.ids
            if arm not in names:
                raise InvalidArgumentError(f"{arm!r} is not among {some(list(names))}: name it there, or by name=.")
            run = self._only = _runs[task.eval_id] = _Run(self, arm, {id_: i for i, id_ in enumerate(order)})
            _current.set(run)
            await anyio.to_thread.run_sync(self._look)
        return "asktell"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:  # noqa: A002 - Inspect's name
        async with self._lock:  # what is complete is looked at first
            reason = self._stopped.get(self._run.arm)
        return None if reason is None else EarlyStop(id=id, epoch=epoch, reason=reason)

    async def complete_sample(self, id: str | int, epoch: int, scores: dict[str, SampleScore]) -> None:  # noqa: A002
        found = numbers({name: each.score for name, each in scores.items()}, self._to_float)
        known = {name: found[name] for name in self._goal.metrics if name in found and found[name] == found[name]}
        await self.take(self._run, id, epoch, known if len(known) == len(self._goal.metrics) else None)

    async def complete_task(self) -> dict[str, Any]:
        verdict = (await anyio.to_thread.run_sync(self.result)).verdict
        return {"name": self._run.arm, "verdict": verdict.sentence, "stopped": self._stopped.get(self._run.arm)}

    async def take(self, run: _Run, id_: object, epoch: int, scores: dict[str, float] | None) -> None:
        """Take an epoch of a sample; `scores` are None if it failed. The first time counts."""
        async with self._lock:
            turn = run.turn(id_, epoch)
            if turn >= run.next and run.complete.get(turn) is None:
                run.complete[turn] = scores
                await anyio.to_thread.run_sync(lambda: self._advance(run))

    # In threads: a storage, or a decision, may take a while

    def _begin(self, arm: str, order: Sequence[str], samples: Sequence[Any], epochs: int) -> Selector | Study:
        arms = self._among or (arm,)
        if self._baseline is not None:
            arms = (*arms, _BASELINE)
        made = partial(
            Selector,
            dict(zip(arms, arms, strict=True)),
            self._goal,
            len(arms) * len(order) * epochs,
            self._race,
            baseline=None if self._baseline is None else _BASELINE,
            repeats=epochs,
        )
        # An example has the place in the engine's order that its sample has in Inspect's.
        places = made(examples=len(order)).state.problem.order
        ids, in_place = [""] * len(order), list(samples)
        for sample, place in zip(samples, places.tolist(), strict=True):
            ids[place], in_place[place] = str(sample.id), sample
        selector = made(examples=ids)
        selection = selector if self._study is None else Study.create(*self._study, selector, exist_ok=True)
        if self._baseline is not None and not self._known(selection, _BASELINE):
            observe_logs(selection, self._baseline, dataset=in_place, prompt=_BASELINE, value_to_float=self._to_float)
        return selection

    def _advance(self, run: _Run) -> None:
        """Observe what is complete up to the first turn that is not, and see what is certain by now."""
        assert self._selection is not None
        known, before = self._known(self._selection, run.arm), run.next
        while run.next in run.complete:
            scores = run.complete.pop(run.next)
            epoch, place = divmod(run.next, len(self._order))
            if scores is not None and known[self._order[place]] <= epoch:  # else of a run that was taken up again
                self._selection.observe(run.arm, scores, self._order[place])
            run.next += 1
        if run.next > before:
            self._look()

    def _look(self) -> None:
        selector = self._state
        decided = decide(self._race, selector.state)
        if decided is None:
            return
        names = selector.prompts.ids
        if decided.settled:
            sentence = "the answer is certain: " + ", ".join(str(names[arm]) for arm in decided.answer)
            if self._goal.is_constrained and not selector.result().feasible:
                sentence = "no prompt satisfies every constraint"
            self._stopped |= {str(name): sentence for name in names if name not in self._stopped}
        elif not decided.finished:
            self._stopped |= {str(names[each.arm]): each.reason for each in decided.departures}

    def _known(self, selection: Selector | Study, arm: str) -> Counter[str]:
        selector = selection.selector if isinstance(selection, Study) else selection
        history, ids = selector.state.history, selector.example_ids or ()
        mine = history.examples()[history.arms() == selector.prompts.arm(arm)]
        return Counter(ids[example] for example in mine.tolist())

    @property
    def _state(self) -> Selector:
        assert self._selection is not None
        return self._selection.selector if isinstance(self._selection, Study) else self._selection

    @property
    def _run(self) -> _Run:
        """That of the sample that calls; outside of all, the last one."""
        run = _current.get()
        found = run if run is not None and run.owner is self else self._only
        assert found is not None
        return found

    def _default_name(self, task: EvalSpec) -> str:
        return next((name for name in (task.model, task.task) if name in self._among), str(task.model))


@cache
def _hear_of_failures() -> None:
    """From now on; Inspect would announce a hook that was there from the beginning."""
    hooks(name="asktell_early_stopping", description="Tells early stopping which samples failed.")(FailedSamples)


class FailedSamples(Hooks):  # type: ignore[misc]
    """Inspect reports samples with scores alone to early stopping; others would be waited for."""

    def enabled(self) -> bool:
        return bool(_runs)

    async def on_sample_end(self, data: SampleEnd) -> None:
        """Take a sample that has no scores."""
        run = _runs.get(data.eval_id)
        if run is not None and not data.sample.scores:
            await run.owner.take(run, data.sample.id, data.sample.epoch, None)
