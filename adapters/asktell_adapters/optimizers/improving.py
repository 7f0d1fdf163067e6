"""The loop of `improve`: select prompts, let a writer write new prompts from the best ones, and select again."""

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import asktell
from asktell import (
    AsktellError,
    Budget,
    EvaluatorError,
    InvalidArgumentError,
    PromptResult,
    Result,
    Selector,
)
from asktell.extend import (
    Evaluation,
    Evaluator,
    MaxFailures,
    OnTell,
    State,
    events,
    in_percent,
    in_words,
    one_line,
    short,
    whole,
)
from asktell_adapters.optimizers.briefs import Brief, FailedExample, Writer

__all__ = [
    "Brief",
    "FailedExample",
    "Generation",
    "Improvement",
    "Writer",
    "check_method",
    "improve",
]

# Generations are stored in the study's log. The key of the request that added their
# prompts identifies them.


_KEY = re.compile(
    r"improve (\d{1,9}) of ((?:\d{1,9}(?:,\d{1,9})*)?); (better|no better): (.*)"
)
_LONGEST = 200  # The number of characters that a request's key may have.
MOST_PARENTS = 20
"""Upper limit of parents per generation, so that their numbers fit into a request's key."""


class GenerationVerdict(NamedTuple):
    """Whether a generation was an improvement, and why."""

    better: bool
    why: str


class Begun(NamedTuple):
    """A generation whose prompts have been added.

    Attributes:
        number: number of the generation. Generation 0 has the study's first prompts.
        first: number of its first arm.
        parents: arms of its parents, best first.
        before: the verdict on the previous generation.
        spent: evaluations spent before the generation.
        cost: cost spent before the generation.
        paid: whether the budget of the generation has been added to the study.
    """

    number: int
    first: int
    parents: tuple[int, ...] = ()
    before: GenerationVerdict | None = None
    spent: int = 0
    cost: float = 0.0
    paid: bool = True


def key_of(number: int, parents: Sequence[int], before: GenerationVerdict) -> str:
    """Return the key of the request that adds a generation's prompts.

    Args:
        number: number of the generation.
        parents: arms of its parents, best first.
        before: the verdict on the previous generation.
    """
    word = "better" if before.better else "no better"
    key = f"improve {number} of {','.join(map(str, parents))}; {word}: {before.why}"
    # The reason contains ids of prompts, which may have any characters.
    return "".join(char if char.isprintable() else "?" for char in key)[:_LONGEST]


def key_of_budget(number: int) -> str:
    """Return the key of the request that adds a generation's budget."""
    return f"improve {number}: budget"


def read(state: State) -> list[Begun]:
    """Return the generations so far. Prompts added by other requests belong to the generation they were added in."""
    generations, n_arms = [Begun(0, 0)], state.growth.origin.n_arms
    for grown in state.growth.events:
        event = grown.event
        if isinstance(event, events.Added):
            match = _KEY.fullmatch(event.key or "")
            parents = (
                tuple(int(arm) for arm in match[2].split(",") if arm) if match else ()
            )
            # Another caller's request may have a key of this form. Its parents may then
            # not exist.
            if (
                match
                and int(match[1]) == len(generations)
                and all(arm < n_arms for arm in parents)
            ):
                before = GenerationVerdict(match[3] == "better", match[4])
                generations.append(
                    Begun(
                        len(generations),
                        n_arms,
                        parents,
                        before,
                        grown.spent,
                        grown.cost,
                        False,
                    )
                )
            n_arms += len(event.texts)
        elif isinstance(event, events.Extended) and event.key == key_of_budget(
            generations[-1].number
        ):
            generations[-1] = generations[-1]._replace(paid=True)
    return generations


def ranked(result: Result, entries: Iterable[PromptResult]) -> list[PromptResult]:
    """Return the prompts that are still candidates and have scores, best first.

    Selected prompts come first, in their order. The others are ordered by feasibility,
    then by their violation of the constraints, then by whether and with which
    probability they may be selected, and last by their estimates.
    """
    place = {entry.id: i for i, entry in enumerate(result.selected)}
    open_ = {entry.id for entry in result.unresolved}

    def order(entry: PromptResult) -> tuple[float, ...]:
        means = np.array(
            [[entry.estimate[name] for name in result.goal.columns]], dtype=float
        )
        values = result.goal.values(means, np.array(result.bounds))[0]
        n = len(result.goal.objectives)
        infeasible = entry.feasible is False
        level = values[:n].mean()
        violation = -np.minimum(values[n:], 0).sum() if infeasible else 0.0
        first = place.get(entry.id, len(place))
        return (
            first,
            infeasible,
            violation,
            entry.id not in open_,
            -(entry.p_best or 0.0),
            -level,
        )

    scored = [
        entry
        for entry in entries
        if entry.status not in ("failed", "retired")
        and entry.evaluations
        and None not in entry.estimate.values()
    ]
    return sorted(scored, key=order)


def judge(result: Result, newest: Begun, has_referee: bool) -> GenerationVerdict:
    """Decide whether the newest generation, which has ended, was an improvement.

    With a `Referee`, it was if one of its prompts was accepted. Otherwise it was if one
    of its prompts is selected.

    Args:
        result: the result of the study.
        newest: the newest generation.
        has_referee: whether the method of the study is a `Referee`.
    """
    if not newest.number:
        return GenerationVerdict(True, "the first generation")
    if not result.selected:
        return GenerationVerdict(False, "no prompt is selected")
    young = result.prompts[newest.first :]
    if has_referee:
        accepted = [entry for entry in young if entry.status == "accepted"]
        why = f"accepted: {_ids(accepted)}" if accepted else "none was accepted"
        return GenerationVerdict(bool(accepted), why)
    ids = {entry.id for entry in young}
    new = [entry for entry in result.selected if entry.id in ids]
    if not isinstance(result.goal, asktell.BestFeasible):
        why = f"new in the Pareto set: {_ids(new)}"
        return GenerationVerdict(
            bool(new), why if new else "none of its prompts is in the Pareto set"
        )
    selected = result.selected[0]
    if not new:
        rivals = ranked(result, young)
        why = "no new prompt has scores"
        if rivals:
            why = _sentence(result, rivals[0], selected)
        joint = ". " if rivals else ", and "
        return GenerationVerdict(
            False, f"{_name(selected)} is still selected{joint}{why}"
        )
    # Compare with the best earlier prompt, not with the parents, which may not be the
    # best.
    earlier = ranked(result, result.prompts[: newest.first])
    if not earlier:
        return GenerationVerdict(
            True, f"{_name(selected)} is selected, and no earlier prompt has scores"
        )
    return GenerationVerdict(True, _sentence(result, selected, earlier[0]))


def _ids(entries: Sequence[PromptResult]) -> str:
    """The ids of the first five prompts."""
    ids = ", ".join(str(entry.id) for entry in entries[:5])
    return f"{ids}, ..." if len(entries) > 5 else ids


def _name(entry: PromptResult, word: str = "Prompt") -> str:
    """The prompt's id, quoted, or its number after the word."""
    return f'"{entry.id}"' if isinstance(entry.id, str) else f"{word} {entry.id}"


def _sentence(result: Result, a: PromptResult, b: PromptResult) -> str:
    """Which of two prompts is better in the first objective, and how probable that is, short enough for a key."""
    metric = result.goal.objectives[0].metric
    difference = result.compare(a, b).differences[metric]
    first, second = _name(a), _name(b, "prompt")
    if difference.p_better == 0.5:
        return f"{first} and {second} cannot be ranked yet"
    word, p = "better", difference.p_better
    if p < 0.5:
        word, p = "worse", 1.0 - p
    amount = (
        ""
        if difference.estimate is None
        else f" (estimated difference {difference.estimate:+.3g})"
    )
    return f"{first} is {word} than {second} with {in_percent(p)} probability{amount}"


def failures_of(
    result: Result,
    best: PromptResult,
    evaluations: Iterable[Evaluation],
    examples: Sequence[Any] | None,
    most: int,
) -> tuple[FailedExample, ...]:
    """Return the examples on which a prompt scores worst, worst first.

    Examples with the prompt's best score are left out, unless all its scores are equal.

    Args:
        result: the result of the study.
        best: the prompt.
        evaluations: evaluations of all prompts. Of several on an example, the last
            counts.
        examples: the dataset by position, or None.
        most: upper limit of examples returned.
    """
    goal, n = result.goal, len(result.goal.objectives)
    latest: dict[int, Evaluation] = {}
    for evaluation in evaluations:
        if (
            evaluation.prompt == best.id
            and evaluation.scores
            and evaluation.example is not None
        ):
            latest[evaluation.example] = evaluation
    if not latest:
        return ()
    scores = [
        [(evaluation.scores or {})[name] for name in goal.metrics]
        for evaluation in latest.values()
    ]
    values = goal.values(goal.complete(np.array(scores)), goal.offsets)
    # Columns of values: n objectives, then the constraints, negative if violated. Only
    # an infeasible prompt needs examples on which it violates constraints.
    if best.feasible is not False:
        values = values[:, :n]
    values[:, n:] = np.minimum(values[:, n:], 0.0)
    width = np.ptp(values, axis=0)
    # 0 at the best value of every column, -1 at the worst.
    level = ((values - values.max(axis=0)) / np.where(width > 0, width, 1.0)).mean(
        axis=1
    )
    worst = [
        int(i)
        for i in np.argsort(level, kind="stable")
        if level[i] < 0 or not width.any()
    ]
    positions = list(latest)
    return tuple(
        _failed_example(latest[positions[i]], positions[i], goal.metrics, examples)
        for i in worst[:most]
    )


def _failed_example(
    evaluation: Evaluation,
    position: int,
    metrics: Sequence[str],
    examples: Sequence[Any] | None,
) -> FailedExample:
    """One evaluation as a failed example, for a `Brief`."""
    scores = {name: (evaluation.scores or {})[name] for name in metrics}
    example = None if examples is None else examples[position]
    return FailedExample(
        position, evaluation.example_id, scores, evaluation.answer, example
    )


# The loop


MOST_FAILURES = 8
"""Upper limit of failed examples in a brief."""

AnyStudy: TypeAlias = Any
"""A Selector, a Study, a RemoteStudy, or a worker of a study."""


@dataclass(frozen=True)
class Generation:
    """Prompts that were written together.

    Attributes:
        number: number of the generation. Generation 0 has the prompts that the study
            was created with.
        prompts: the prompts of the generation, with their final estimates.
        parents: ids of the prompts that the writer was shown, best first. Empty for
            generation 0.
        better: whether the generation was an improvement (see the argument `patience`
            of `improve`). It is decided once, when the budget of the generation is
            spent. Always True for generation 0.
        why: the reason for `better`, as a text.
    """

    number: int
    prompts: list[PromptResult]
    parents: list[str | int]
    better: bool
    why: str


@dataclass(frozen=True)
class Improvement:
    """The outcome of `improve`. `print(outcome)` shows the generations and the result.

    Attributes:
        result: the result of the study, with the prompts of all generations.
        generations: all generations, in order.
        stopped: why the loop ended, such as "the budget is spent".
    """

    result: Result
    generations: list[Generation]
    stopped: str

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as data for JSON, with the keys `result`, `generations` and `stopped`.

        Each generation has the ids of its prompts.
        """
        return {**self.history(), "result": self.result.to_dict()}

    def history(self) -> dict[str, Any]:
        """Return the same data as `to_dict`, without `result`."""
        generations = [
            {**asdict(generation), "prompts": [p.id for p in generation.prompts]}
            for generation in self.generations
        ]
        return {"generations": generations, "stopped": self.stopped}

    def __str__(self) -> str:
        n = len(self.generations)
        lines = [f"{n} generation{'s' * (n != 1)}. Stopped: {self.stopped}."]
        for generation in self.generations:
            n = len(generation.prompts)
            of = (
                f" from {', '.join(map(str, generation.parents))}"
                if generation.parents
                else ""
            )
            line = f"  {generation.number}: {n} prompt{'s' * (n != 1)}{of}"
            if not generation.number:
                lines.append(one_line(f"{line}, {generation.why}", 320))
                continue
            word = "Improved" if generation.better else "No improvement"
            lines.append(one_line(f"{line}. {word}: {generation.why}", 320))
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
    examples: Sequence[Any] | None = None,
    executor: Executor | None = None,
    concurrency: int | None = None,
    batch_size: int | None = None,
    progress: bool = True,
    on_tell: OnTell | None = None,
    max_failures_in_a_row: MaxFailures = "first",
) -> Improvement:
    """Select prompts, let the writer write new prompts from the best ones and their failures, and repeat.

    ```python
    study = asktell.Study.create("sqlite:///studies.db", "answers", selector)
    outcome = improve(study, evaluator, LLMWriter(OpenAIChat("gpt-4o")), budget=2000)
    print(outcome)
    ```

    The study's own budget is for generation 0. For each further generation, the new
    prompts are added to the study. The study's budget is then extended, so that the
    generation can spend as much as generation 0. Exception: if less than 1.5 times this
    amount is left of `budget`, the generation can spend all that is left. The loop ends
    in any of these cases:

    - `budget` is spent.
    - `patience` generations in a row were no improvement.
    - The writer returned no new text.
    - No prompt has scores, because all evaluations failed.

    To continue the loop, also after a crash, make the same call with the same study. A
    generation whose prompts are in the study is not written again. Several processes
    may make this call on the same study. A Selector works in the same way, but only in
    memory: a crash loses it.

    Args:
        study: a Selector, a Study, a RemoteStudy, or a worker of a study. It has the
            prompts of generation 0. Its method is "auto", "race" or "referee", or an
            `Adaptive`, `Race` or `Referee`. A `Referee` keeps a new prompt only if it is
            established to be better. Its promise needs a writer that does not know the
            scores of these examples. So the brief has only the incumbent, without
            estimates and failures. Give the writer other examples.
        evaluator: as for `asktell.run`.
        writer: a function from a `Brief` to the texts of new prompts, such as
            `asktell_adapters.optimizers.writers.LLMWriter`. A text is dropped if it is
            empty, or is already a prompt of the study. It is also dropped if the
            evaluator refuses it, for example because it has the placeholder
            `{question}` and the data have no column `question`. The cost of the writer
            does not count against the budget.
        budget: the budget of all generations together: a number of evaluations, or an
            `asktell.Budget`. It must limit the same things (evaluations, cost, or both)
            as the budget of the study.
        candidates: the largest number of new prompts in a generation.
        parents: number of prompts that a writer is shown, at most 20.
        patience: the loop ends after this many generations in a row without
            improvement. None: only the other reasons end it. A generation is an
            improvement if one of its prompts is selected at its end, or, with a
            `Referee`, was accepted. That a new prompt is selected is no evidence that
            it is better, because it was chosen for its good scores. That it was
            accepted is.
        examples: the dataset, in the order of the study's examples. The failures in a
            `Brief` then have the examples themselves. By default, they have only
            positions and ids.
        executor: as for `asktell.run`.
        concurrency: number of simultaneous evaluations, as for `asktell.run`.
        batch_size: trials per call of a batch evaluator, as for `asktell.run`.
        progress: True (default): show a progress bar on stderr for each generation.
        on_tell: called after each trial, as for `asktell.run`.
        max_failures_in_a_row: stop with an error after this number of failures in a
            row. With "first" (default), stop only if the first five evaluations all
            fail in the same way. None: never stop. See `asktell.run`.

    Raises:
        InvalidArgumentError: an argument cannot be used. Or `budget` is smaller than
            the budget of the study, or limits other things.
        IncompatibleMethodError: the method of the study has rounds, so prompts cannot
            be added.
        EvaluatorError: the writer failed, or too many evaluations failed. The scores so
            far are kept, and the same call resumes the loop.
        StorageError: the study's storage cannot be used.
    """
    candidates = whole("candidates", candidates, 1)
    parents = whole("parents", parents, 1, MOST_PARENTS)
    patience = None if patience is None else whole("patience", patience, 1)
    if not callable(writer):
        raise InvalidArgumentError(
            f"writer must be a function of a Brief, got {short(writer)}."
        )
    selector = _selector(study)
    check_method(selector)
    has_referee = isinstance(selector.method, asktell.Referee)
    total = _Total.of(budget, selector.state)
    _check_examples(examples, selector.state.problem.examples.n)
    while True:
        # Everything is read from the log in each turn, because other processes may have
        # gone ahead.
        newest = read(selector.state)[-1]
        _pay(study, newest, total.more(newest, selector.state))
        if not study.done:
            asktell.run(
                study,
                evaluator,
                executor,
                concurrency,
                progress,
                batch_size=batch_size,
                on_tell=on_tell,
                max_failures_in_a_row=max_failures_in_a_row,
            )
        selector = _selector(study)
        if (
            not selector.state.finished
            or read(selector.state)[-1].number != newest.number
        ):
            # Another process has begun a generation.
            continue
        result = study.result()
        begun = read(selector.state)
        verdicts = [
            *(
                generation.before
                for generation in begun[1:]
                if generation.before is not None
            ),
            judge(result, newest, has_referee),
        ]
        # The promise of a referee needs a writer that knows no scores of its examples.
        chosen = (
            result.selected if has_referee else ranked(result, result.prompts)[:parents]
        )
        afford = total.evaluations(selector.state)
        texts: list[str] = []
        stopped = _ending(afford, verdicts, patience, chosen)
        if not stopped:
            failures = failures_of(
                result,
                chosen[0],
                () if has_referee else _evaluations(study, selector),
                examples,
                MOST_FAILURES,
            )
            brief = Brief(
                newest.number + 1,
                min(candidates, afford),
                selector.goal,
                tuple(map(_without_scores, chosen) if has_referee else chosen),
                failures,
                tuple(selector.prompts.texts),
            )
            texts = [
                text
                for text in _written(writer, brief)
                if _is_accepted(evaluator, text)
            ]
            stopped = "" if texts else "the writer wrote nothing new"
        if stopped:
            return Improvement(result, _generations(begun, verdicts, result), stopped)
        arms = [selector.prompts.arm(entry) for entry in chosen]
        _add(
            study,
            texts,
            newest.number + 1,
            key_of(newest.number + 1, arms, verdicts[-1]),
        )
        selector = _selector(study)


def _without_scores(entry: PromptResult) -> PromptResult:
    """The entry of a prompt without what follows from its scores, except its status."""
    nothing = dict.fromkeys(entry.estimate)
    return replace(
        entry,
        estimate=nothing,
        standard_error=nothing,
        feasible=None,
        p_feasible=None,
        p_best=None,
        segments={},
        proxies={},
        failures=0,
        plain_mean={},
    )


def _pay(study: AnyStudy, newest: Begun, more: tuple[float, float]) -> None:
    """Add the newest generation's budget to the study, unless that has been done.

    Args:
        study: the study.
        newest: the newest generation.
        more: the evaluations and the cost to add.
    """
    if not newest.paid and any(more):
        # The study ignores a second request with the key, of another process.
        key = key_of_budget(newest.number)
        study.extend(more[0] or None, more[1] or None, key=key)


def _evaluations(study: AnyStudy, selector: Selector) -> Iterable[Evaluation]:
    """The evaluations so far. Only a Study has the responses of the model."""
    return (
        study.evaluations()
        if isinstance(study, asktell.Study)
        else selector.evaluations()
    )


def _check_examples(examples: Sequence[Any] | None, n: int | None) -> None:
    if examples is not None and n is not None and len(examples) != n:
        raise InvalidArgumentError(
            f"examples must be the dataset of the study, with {n:,} rows, got {len(examples):,}. Pass all rows in the "
            "same order."
        )


def check_method(selector: Selector) -> None:
    """Check that prompts can be added to a selection.

    Raises:
        IncompatibleMethodError: the method plans rounds.
    """
    growing = asktell.Adaptive | asktell.Race | asktell.Referee
    if not isinstance(selector.method, growing):
        raise asktell.IncompatibleMethodError(
            "The method plans its rounds at the start, so better prompts cannot be added later. Use the method "
            "'auto', 'race' or 'referee'."
        )


@dataclass(frozen=True)
class _Total:
    """The budget of all generations (`limits`) and of the first generation (`first`).

    Both are pairs of evaluations and cost. A number is 0 if the study has no such
    limit.
    """

    limits: tuple[float, float]
    first: tuple[float, float]

    @classmethod
    def of(cls, budget: object, state: State) -> "_Total":
        """Read the argument `budget`, and check it against the study's budget."""
        if not isinstance(budget, Budget):
            budget = Budget(whole("budget", budget, 1))
        limits = (budget.evaluations or 0, budget.cost or 0.0)
        current = _limits(state.problem)
        if [limit > 0 for limit in limits] != [limit > 0 for limit in current]:
            raise InvalidArgumentError(
                f"budget limits {_names(limits)}, but the study's budget limits {_names(current)}. Both must limit the "
                "same: the evaluations, the cost or both."
            )
        if any(
            limit < of_study for limit, of_study in zip(limits, current, strict=True)
        ):
            raise InvalidArgumentError(
                f"The budget of all generations is {_named(limits)}, but the study's own budget is already "
                f"{_named(current)}. Create the study with the budget of its first generation, or pass a larger budget."
            )
        return cls(limits, _limits(state.growth.origin))

    def more(self, newest: Begun, state: State) -> tuple[int, float]:
        """Return the evaluations and the cost by which the study's budget must grow for the newest generation."""
        added = []
        began = (newest.spent, newest.cost)
        for limit, first, spent, current in zip(
            self.limits, self.first, began, _limits(state.problem), strict=True
        ):
            left = limit - spent
            # If less than half a generation would remain, this generation gets the
            # rest.
            share = left if left < 1.5 * first else first
            added.append(max(0.0, spent + share - current))
        # Ignore a rounding error of the cost.
        cost = added[1] if added[1] > 1e-12 * self.limits[1] else 0.0
        return int(added[0]), cost

    def evaluations(self, state: State) -> int:
        """Return how many evaluations the rest of the budget allows."""
        left = self.limits[1] - state.costs.total
        if self.limits[1]:
            most = state.problem.max_cost_per_evaluation or state.costs.pool.highest
            if left <= 0 or left < most:
                return 0
        return int(self.limits[0]) - state.spent if self.limits[0] else 10**8


def _limits(problem: Any) -> tuple[float, float]:
    """The limits of a budget, as evaluations and cost. 0 stands for no limit."""
    return (
        0 if problem.is_bound_by_cost_alone else problem.budget,
        problem.max_cost or 0.0,
    )


def _names(limits: tuple[float, float]) -> str:
    """The names of the limits that a budget has."""
    return " and ".join(
        name
        for name, limit in zip(("evaluations", "cost"), limits, strict=True)
        if limit
    )


def _named(limits: tuple[float, float]) -> str:
    """The limits of a budget in words."""
    parts = [f"{limits[0]:,.0f} evaluations"] if limits[0] else []
    return " and ".join([*parts, *([f"a cost of {limits[1]:g}"] if limits[1] else [])])


def _selector(study: AnyStudy) -> Selector:
    """Return the selector of a study.

    Raises:
        InvalidArgumentError: it is neither a selector nor a study.
    """
    if isinstance(study, Selector):
        return study
    selector = getattr(study, "selector", None)
    if not isinstance(selector, Selector):
        raise InvalidArgumentError(
            f"study must be a Selector or a Study, got {type(study).__name__}."
        )
    return selector


def _ending(
    afford: int,
    verdicts: Sequence[GenerationVerdict],
    patience: int | None,
    chosen: Sequence[PromptResult],
) -> str:
    """Return why the loop ends, or an empty text if it continues."""
    if not chosen:
        return "no prompt has scores"
    if afford < 1:
        return "the budget is spent"
    idle = 0
    for verdict in reversed(verdicts):
        if verdict.better:
            break
        idle += 1
    if patience is not None and idle >= patience:
        return (
            f"no improvement in the last {idle} generations"
            if idle > 1
            else "no improvement in the last generation"
        )
    return ""


def _written(writer: Writer, brief: Brief) -> list[str]:
    """Call the writer, and return its usable new texts, at most `brief.n`.

    Raises:
        EvaluatorError: the writer raised an exception or returned something else than a
            list of texts.
    """
    name = getattr(writer, "__name__", None) or type(writer).__name__
    try:
        returned = writer(brief)
        texts = [] if isinstance(returned, str) else list(returned)
        if isinstance(returned, str) or not all(
            isinstance(text, str) for text in texts
        ):
            raise EvaluatorError(
                f"the writer returned {short(returned)} instead of a list of texts"
            )
    except Exception as error:
        if isinstance(error, AsktellError) and not isinstance(error, EvaluatorError):
            raise
        reason = str(error) if isinstance(error, EvaluatorError) else in_words(error)
        raise EvaluatorError(
            f"The writer {name} failed to write generation {brief.generation}. Nothing is lost. Repeat the same call "
            f"or command to continue. The error was: {reason}"
        ) from error
    tried = {text.strip() for text in brief.tried}
    usable: list[str] = []
    for text in texts:
        stripped = text.strip()
        try:
            stripped.encode()
        except UnicodeEncodeError:
            # A lone surrogate, which no storage accepts.
            continue
        if stripped and stripped not in tried:
            tried.add(stripped)
            usable.append(stripped)
    return usable[: brief.n]


def _is_accepted(evaluator: Any, text: str) -> bool:
    """True if the evaluator provides everything that the prompt uses, such as columns of the data."""
    check = getattr(evaluator, "check_prompts", None)
    try:
        if callable(check):
            check([text])
    except InvalidArgumentError:
        return False
    return True


def _add(
    study: AnyStudy,
    texts: list[str],
    number: int,
    key: str,
) -> None:
    """Add a generation's prompts, unless another process has added the generation already."""
    existing = _selector(study).prompts
    prompts: Any = texts
    if not isinstance(existing.ids, range):
        names = (f"g{number}-{i}" for i in count(1))
        free = (name for name in names if existing.with_id(name) is None)
        # Studies with names need a name for each new prompt.
        prompts = dict(zip(free, texts, strict=False))
    try:
        study.add(prompts, key=key)
    except InvalidArgumentError:
        if read(_selector(study).state)[-1].number < number:
            raise


def _generations(
    begun: Sequence[Begun], verdicts: Sequence[GenerationVerdict], result: Result
) -> list[Generation]:
    """The generations with their verdicts, for the outcome of the loop."""
    ends = [*(generation.first for generation in begun[1:]), len(result.prompts)]
    generations = []
    for generation, end, verdict in zip(begun, ends, verdicts, strict=True):
        parents = [result.prompts[arm].id for arm in generation.parents]
        generations.append(
            Generation(
                generation.number,
                result.prompts[generation.first : end],
                parents,
                *verdict,
            )
        )
    return generations
