"""Loops that write prompts: select, write new ones from the winners and their failures, select again, in one study."""

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import asktell
from asktell import AsktellError, Budget, EvaluatorError, InvalidArgumentError, PromptResult, Result, Selector
from asktell.extend import (
    Evaluation,
    Evaluator,
    MaxFailures,
    OnTell,
    State,
    Worker,
    events,
    in_words,
    one_line,
    short,
    whole,
)
from asktell_adapters.optimizers.briefs import Brief, FailedExample, Writer

__all__ = ["Brief", "FailedExample", "Generation", "Improvement", "Writer", "check_method", "improve"]

# The loop's generations, found again in the study's log


_KEY = re.compile(r"improve (\d{1,9}) of ((?:\d{1,9}(?:,\d{1,9})*)?); (better|no better): (.*)")
_LONGEST = 200  # characters of a request's name
MOST_PARENTS = 20
"""So that a request's name has room for them."""


class Verdict(NamedTuple):
    """Says if a generation was an improvement, and why."""

    better: bool
    why: str


class Begun(NamedTuple):
    """A generation that was begun.

    `first` is its first arm, `parents` are the arms of its parents, best first, `before` the verdict on the generation
    before it; `spent` and `cost` are those at its beginning; `paid` says whether its budget was added.
    """

    number: int
    first: int
    parents: tuple[int, ...] = ()
    before: Verdict | None = None
    spent: int = 0
    cost: float = 0.0
    paid: bool = True


def key_of(number: int, parents: Sequence[int], before: Verdict) -> str:
    """The name of the request that adds a generation's prompts."""
    word = "better" if before.better else "no better"
    key = f"improve {number} of {','.join(map(str, parents))}; {word}: {before.why}"
    return "".join(char if char.isprintable() else "?" for char in key)[:_LONGEST]  # ids may have anything


def key_of_budget(number: int) -> str:
    return f"improve {number}: budget"


def read(state: State) -> list[Begun]:
    """The generations so far; prompts that joined otherwise count to the one in which they did."""
    found, n_arms = [Begun(0, 0)], state.origin.n_arms
    for grown in state.growth:
        event = grown.event
        if isinstance(event, events.Added):
            match = _KEY.fullmatch(event.key or "")
            parents = tuple(int(arm) for arm in match[2].split(",") if arm) if match else ()
            # Somebody else's request may have such a name; its parents were not there.
            if match and int(match[1]) == len(found) and all(arm < n_arms for arm in parents):
                before = Verdict(match[3] == "better", match[4])
                found.append(Begun(len(found), n_arms, parents, before, grown.spent, grown.cost, False))
            n_arms += len(event.texts)
        elif isinstance(event, events.Extended) and event.key == key_of_budget(found[-1].number):
            found[-1] = found[-1]._replace(paid=True)
    return found


def ranked(result: Result, entries: Iterable[PromptResult]) -> list[PromptResult]:
    """Those that are in the race and of which something is known, best first.

    The answer comes first, then feasible ones, those that may be the answer, and those with the better estimates.
    """
    place = {entry.id: i for i, entry in enumerate(result.selected)}
    open_ = {entry.id for entry in result.unresolved}

    def order(entry: PromptResult) -> tuple[float, ...]:
        means = np.array([[entry.estimate[name] for name in result.goal.columns]], dtype=float)
        values = result.goal.values(means, np.array(result.bounds))[0]
        n = len(result.goal.objectives)
        misses = entry.feasible is False
        level, violation = values[:n].mean(), -np.minimum(values[n:], 0).sum() if misses else 0.0
        first = place.get(entry.id, len(place))
        return (first, misses, violation, entry.id not in open_, -(entry.p_best or 0.0), -level)

    known = [
        entry
        for entry in entries
        if entry.status not in ("failed", "retired") and entry.evaluations and None not in entry.estimate.values()
    ]
    return sorted(known, key=order)


def judge(result: Result, newest: Begun, certainty: float) -> Verdict:
    """Decide if the newest generation, which has ended, was an improvement."""
    if not newest.number:
        return Verdict(True, "the first generation")
    if not result.selected:
        return Verdict(False, "there is no answer")
    young = {entry.id for entry in result.prompts[newest.first :]}
    new = [entry for entry in result.selected if entry.id in young]
    if not isinstance(result.goal, asktell.BestFeasible):
        names = ", ".join(str(entry.id) for entry in new[:5]) + (", ..." if len(new) > 5 else "")
        return Verdict(bool(new), f"new in the Pareto set: {names}" if new else "none of it is in the Pareto set")
    answer = result.selected[0]
    earlier = ranked(result, result.prompts[: newest.first])
    if answer.id not in young:
        rivals = ranked(result, result.prompts[newest.first :])
        if not rivals:
            return Verdict(False, f"{answer.id} is still the answer, and nothing is known of its rivals")
        return Verdict(False, f"{answer.id} is still the answer: {_sentence(result, rivals[0], answer)}")
    if not earlier:
        return Verdict(True, f"{answer.id} is the first prompt of which anything is known")
    rival = earlier[0]
    if rival.feasible is False and answer.feasible is not False:
        return Verdict(True, f"{answer.id} keeps every constraint, {rival.id} does not")
    p_better = result.compare(answer, rival).differences[result.goal.objective.metric].p_better
    return Verdict(p_better >= certainty, _sentence(result, answer, rival))


def _sentence(result: Result, a: PromptResult, b: PromptResult) -> str:
    metric = result.goal.objectives[0].metric
    return result.compare(a, b).sentence(metric)


def failures_of(
    result: Result, best: PromptResult, evaluations: Iterable[Evaluation], examples: Sequence[Any] | None, most: int
) -> tuple[FailedExample, ...]:
    """The examples on which a prompt scores worst, worst first; none on which it scores as well as it ever does."""
    goal, n = result.goal, len(result.goal.objectives)
    known = {e.example: e for e in evaluations if e.prompt == best.id and e.scores and e.example is not None}
    if not known:
        return ()
    found = list(known.values())
    scores = goal.complete(np.array([[(e.scores or {})[name] for name in goal.metrics] for e in found]))
    values = goal.values(scores, goal.offsets)
    if best.feasible is not False:
        values = values[:, :n]
    values[:, n:] = np.minimum(values[:, n:], 0.0)
    width = np.ptp(values, axis=0)
    level = ((values - values.max(axis=0)) / np.where(width > 0, width, 1.0)).mean(axis=1)
    worst = [int(i) for i in np.argsort(level, kind="stable") if level[i] < 0 or not width.any()]
    return tuple(
        FailedExample(
            e.example or 0,
            e.example_id,
            {name: (e.scores or {})[name] for name in goal.metrics},
            e.answer,
            None if examples is None else examples[e.example or 0],
        )
        for e in (found[i] for i in worst[:most])
    )


# The loop


MOST_FAILURES = 8
"""That a writer is shown."""

AnyStudy: TypeAlias = Any
"""A Selector, a Study, a RemoteStudy, or a worker of one."""


@dataclass(frozen=True)
class Generation:
    """Prompts that were written together.

    `parents` are the ids of the prompts they were written from, best first. `better` is true if one of them was the
    answer, or in the Pareto set, when their share of the budget was spent; `why` explains it.
    """

    number: int
    prompts: list[PromptResult]
    parents: list[str | int]
    better: bool
    why: str


@dataclass(frozen=True)
class Improvement:
    """The outcome of a loop: the study's `result`, every generation, and why it `stopped`."""

    result: Result
    generations: list[Generation]
    stopped: str

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-ready data, with the same names."""
        return {**self.history(), "result": self.result.to_dict()}

    def history(self) -> dict[str, Any]:
        generations = [{**asdict(each), "prompts": [p.id for p in each.prompts]} for each in self.generations]
        return {"generations": generations, "stopped": self.stopped}

    def __str__(self) -> str:
        lines = [f"{len(self.generations)} generations; stopped: {self.stopped}"]
        for each in self.generations:
            of = f" from {', '.join(map(str, each.parents))}" if each.parents else ""
            word = "" if not each.number else "better: " if each.better else "nothing better: "
            lines.append(one_line(f"  {each.number}: {len(each.prompts)} prompts{of}; {word}{each.why}", 200))
        return "\n".join([*lines, str(self.result)])


def improve(
    study: AnyStudy,
    evaluator: Evaluator,
    writer: Writer,
    *,
    budget: int | Budget,
    candidates: int = 8,
    parents: int = 4,
    patience: int | None = 2,
    certainty: float = 0.6,
    examples: Sequence[Any] | None = None,
    features: Callable[[Sequence[str]], Any] | None = None,
    executor: Executor | None = None,
    concurrency: int | None = None,
    batch_size: int | None = None,
    progress: bool = True,
    on_tell: OnTell | None = None,
    max_failures_in_a_row: MaxFailures = "first",
) -> Improvement:
    """Select, let the writer write new prompts from the winners and their failures, and repeat.

    The study's own budget is for the first generation. Each further one gets the same, or what is left of `budget`: its
    prompts are added and the budget is extended. The loop ends when `budget` is spent, after `patience` generations in
    a row without improvement, or when the writer has nothing new.

    All decisions are stored in the study, so that a second call continues, also after a crash, and does not write a
    generation again. Several processes may call it on the same study.

    Args:
        study: a Selector, a Study, a RemoteStudy, or a worker of such a study, with prompts to begin with and the
            method "auto", an `Adaptive` or a `Race`.
        evaluator: as for `asktell.run`.
        writer: a callable from a `Brief` to texts; see `asktell_adapters.optimizers.writers`. Texts that are empty,
            there already or name fields that the data have not are left out. What it costs is no part of the budget.
        budget: of everything: evaluations, or an `asktell.Budget` with the limits that the study has.
        candidates: new prompts in a generation.
        parents: prompts that a writer is shown, 20 at most.
        patience: None: until the budget ends.
        certainty: of `BestFeasible`, a generation brought something better if the answer is one of it, and is better
            than the best of those before with at least this probability (`Result.compare`; a chance that was chosen
            for, so on the high side). Near 0.5, small steps count and the loop goes on; near 1, only large ones do. Of
            a `ParetoSet`, one of it in the set is enough.
        examples: the data set by position, for the failures in a `Brief`.
        features: of new texts, as rows, where the prompts have features that were not made of the texts.
        executor: as for `asktell.run`, like those that follow.
        concurrency: evaluations at once.
        batch_size: trials per call of a batch evaluator.
        progress: show a progress bar on stderr, one for each generation.
        on_tell: called after each trial.
        max_failures_in_a_row: after which it stops.

    Raises:
        InvalidArgumentError: an argument cannot be used; the study has more budget than `budget`, or other limits.
        IncompatibleMethodError: the method plans rounds.
        EvaluatorError: the writer failed, or nothing but failures came. Nothing is lost: the same call goes on.
        StorageError: the study's storage cannot be used.
    """
    worker, study = (study, study.study) if isinstance(study, Worker) else (study, study)
    candidates = whole("candidates", candidates, 1)
    parents = whole("parents", parents, 1, MOST_PARENTS)
    patience = None if patience is None else whole("patience", patience, 1)
    if isinstance(certainty, bool) or not isinstance(certainty, int | float) or not 0 <= certainty <= 1:
        raise InvalidArgumentError(f"certainty must be from 0 to 1, got {short(certainty)}.")
    if not callable(writer):
        raise InvalidArgumentError(f"writer must be callable, with a Brief; got {short(writer)}.")
    selector = _selector(study)
    check_method(selector)
    total = _Total.of(budget, selector.state)
    n = selector.state.problem.n_examples
    if examples is not None and n is not None and len(examples) != n:
        raise InvalidArgumentError(
            f"examples are the study's data set, by position: it has {n} examples, but {len(examples)} were given."
        )
    while True:
        newest = read(selector.state)[-1]
        if not newest.paid:
            more = total.more(newest, selector.state)
            if any(more):
                study.extend(more[0] or None, more[1] or None, key=key_of_budget(newest.number))
        if not study.done:
            asktell.run(
                worker,
                evaluator,
                executor,
                concurrency,
                progress,
                batch_size=batch_size,
                on_tell=on_tell,
                max_failures_in_a_row=max_failures_in_a_row,
            )
        selector = _selector(study)
        if not selector.state.finished or read(selector.state)[-1].number != newest.number:
            continue  # another process has begun a generation
        result = study.result()
        begun = read(selector.state)
        verdicts = [*(each.before for each in begun[1:] if each.before is not None), judge(result, newest, certainty)]
        chosen = ranked(result, result.prompts)[:parents]
        afford = total.evaluations(selector.state)
        texts: list[str] = []
        stopped = _ending(afford, verdicts, patience, chosen)
        if not stopped:
            # With their details, where those can be read.
            evaluations = study.evaluations() if isinstance(study, asktell.Study) else selector.evaluations()
            brief = Brief(
                newest.number + 1,
                min(candidates, afford),
                selector.goal,
                tuple(chosen),
                failures_of(result, chosen[0], evaluations, examples, MOST_FAILURES),
                tuple(selector.prompts.texts),
            )
            texts = [text for text in _written(writer, brief) if _is_taken(evaluator, text)]
            stopped = "" if texts else "the writer wrote nothing new"
        if stopped:
            return Improvement(result, _told(begun, verdicts, result), stopped)
        arms = [selector.prompts.arm(entry) for entry in chosen]
        _join(study, texts, features, newest.number + 1, key_of(newest.number + 1, arms, verdicts[-1]))
        selector = _selector(study)


def check_method(selector: Selector) -> None:
    """Check that prompts can join a selection: its method must not plan rounds."""
    if not isinstance(selector.method, asktell.Adaptive | asktell.Race):
        raise asktell.IncompatibleMethodError(
            f"Prompts cannot join a selection by {type(selector.method).__name__}, which plans its rounds; improve() "
            'needs method="auto", or "race".'
        )


@dataclass(frozen=True)
class _Total:
    """The whole budget, and its parts: pairs of evaluations and cost, 0 where the study has no such limit."""

    limits: tuple[float, float]
    first: tuple[float, float]

    @classmethod
    def of(cls, budget: object, state: State) -> "_Total":
        if not isinstance(budget, Budget):
            budget = Budget(whole("budget", budget, 1))
        limits, there = (budget.evaluations or 0, budget.cost or 0.0), _limits(state.problem)
        if [limit > 0 for limit in limits] != [limit > 0 for limit in there]:
            raise InvalidArgumentError(
                f"budget limits {_names(limits)}, but the study's budget limits {_names(there)}: give the same."
            )
        if any(limit < other for limit, other in zip(limits, there, strict=True)):
            raise InvalidArgumentError(
                f"budget is that of all generations, {_named(limits)}, but the study has {_named(there)} already: make "
                "it with the budget of its first generation, or give a larger one here."
            )
        return cls(limits, _limits(state.origin))

    def more(self, newest: Begun, state: State) -> tuple[int, float]:
        found = []
        began = (newest.spent, newest.cost)
        for limit, first, spent, there in zip(self.limits, self.first, began, _limits(state.problem), strict=True):
            left = limit - spent
            # A rest that is no half generation goes to this one.
            found.append(max(0.0, spent + (left if left < 1.5 * first else first) - there))
        return int(found[0]), found[1] if found[1] > 1e-12 * self.limits[1] else 0.0

    def evaluations(self, state: State) -> int:
        left = self.limits[1] - state.cost
        if self.limits[1]:
            most = state.problem.allowance.per_evaluation or state.costs.pool.highest
            if left <= 0 or left < most:
                return 0
        return int(self.limits[0]) - state.spent if self.limits[0] else 10**8


def _limits(problem: Any) -> tuple[float, float]:
    return 0 if problem.is_bound_by_cost_alone else problem.budget, problem.max_cost or 0.0


def _names(limits: tuple[float, float]) -> str:
    return " and ".join(name for name, limit in zip(("evaluations", "cost"), limits, strict=True) if limit)


def _named(limits: tuple[float, float]) -> str:
    parts = [f"{limits[0]:.0f} evaluations"] if limits[0] else []
    return " and ".join([*parts, *([f"a cost of {limits[1]:g}"] if limits[1] else [])])


def _selector(study: AnyStudy) -> Selector:
    if isinstance(study, Selector):
        return study
    found = getattr(study, "selector", None)
    if not isinstance(found, Selector):
        raise InvalidArgumentError(f"improve() needs a Selector or a Study, got {type(study).__name__}.")
    return found


def _ending(afford: int, verdicts: Sequence[Verdict], patience: int | None, chosen: Sequence[PromptResult]) -> str:
    """Why no further generation is written; empty if one is."""
    if not chosen:
        return "nothing is known of any prompt"
    if afford < 1:
        return "the budget is spent"
    idle = 0
    for verdict in reversed(verdicts):
        if verdict.better:
            break
        idle += 1
    if patience is not None and idle >= patience:
        return f"nothing better came of the last {idle} generations" if idle > 1 else "the last brought nothing better"
    return ""


def _written(writer: Writer, brief: Brief) -> list[str]:
    name = getattr(writer, "__name__", None) or type(writer).__name__
    try:
        returned = writer(brief)
        texts = [] if isinstance(returned, str) else list(returned)
        if isinstance(returned, str) or not all(isinstance(text, str) for text in texts):
            raise EvaluatorError(f"it returned {short(returned)}, and should return a list of texts")
    except Exception as error:
        if isinstance(error, AsktellError) and not isinstance(error, EvaluatorError):
            raise
        told = str(error) if isinstance(error, EvaluatorError) else in_words(error)
        raise EvaluatorError(
            f"The writer {name} failed to write generation {brief.generation}: {told}. Nothing is lost: the same call "
            "goes on."
        ) from error
    known = {text.strip() for text in brief.tried}
    found = dict.fromkeys(stripped for text in texts if (stripped := text.strip()) not in known and _is_usable(text))
    return list(found)[: brief.n]


def _is_taken(evaluator: Any, text: str) -> bool:
    """True if the evaluator provides everything a prompt uses, such as the columns it names."""
    try:
        if callable(check := getattr(evaluator, "check_prompts", None)):
            check([text])
    except InvalidArgumentError:
        return False
    return True


def _is_usable(text: str) -> bool:
    """True if the text is not empty and has no lone surrogates, which no storage accepts."""
    try:
        return bool(text.strip().encode())
    except UnicodeEncodeError:
        return False


def _join(
    study: AnyStudy, texts: list[str], features: Callable[[Sequence[str]], Any] | None, number: int, key: str
) -> None:
    """Let a generation join, unless another process has been faster."""
    there = _selector(study).prompts
    prompts: Any = texts
    if not isinstance(there.ids, range):
        ids = (id_ for i in count(1) if there.with_id(id_ := f"g{number}-{i}") is None)
        prompts = dict(zip(ids, texts, strict=False))
    try:
        study.add(prompts, None if features is None else features(texts), key=key)
    except InvalidArgumentError:
        if read(_selector(study).state)[-1].number < number:
            raise


def _told(begun: Sequence[Begun], verdicts: Sequence[Verdict], result: Result) -> list[Generation]:
    ends = [*(each.first for each in begun[1:]), len(result.prompts)]
    return [
        Generation(
            each.number, result.prompts[each.first : end], [result.prompts[arm].id for arm in each.parents], *verdict
        )
        for each, end, verdict in zip(begun, ends, verdicts, strict=True)
    ]
