"""`asktell gate` and `asktell compare`: compare two prompts, such as a new prompt with the prompt in use."""

import argparse
import asyncio
import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asktell
from asktell import (
    AsktellError,
    ChangedExample,
    EvaluatorError,
    InvalidArgumentError,
    PromptResult,
    Selector,
    run,
)
from asktell.extend import (
    Calling,
    Evaluation,
    Goal,
    at_state,
    attempt,
    besides_definition,
    goal_scores,
    in_words,
    outside_of_loops,
    reports,
    some,
    write_atomically,
)
from asktell_adapters.cli.arguments import OF_RESULTS
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.gate_rule import (
    BASELINE,
    CANDIDATE,
    GateRule,
    beforehand,
    margin_for,
    ranged,
)
from asktell_adapters.cli.output import note, show, show_json, written
from asktell_adapters.cli.process import logging_to_stderr, signals
from asktell_adapters.cli.ruling import (
    FAILED,
    PASSED,
    UNDECIDED,
    Ruling,
)
from asktell_adapters.llms.base import Asked
from asktell_adapters.llms.models import llm_of

if TYPE_CHECKING:  # it needs the extra `config`, which files of results do not need
    from asktell_adapters.config import Config

_CODES = {PASSED: 0, FAILED: 1, UNDECIDED: 3}
_PATIENCE = 10  # failures in a row, after which the cause is unlikely to be the prompt
_MOST_ROUNDS = 100
_SHOWN = ("output", "judged")  # details of an evaluation that the page shows
# Evaluations, by default: two for each of the 25 examples on which a fifth of 127
# differ. A judgement
_RECHECKS = 50
# Least number of rechecks before the examples in doubt are determined again
_AT_ONCE = 5
# An example whose false discovery rate is below the first or above the second is not
# rechecked. By simulation.
_SURE, _NOISE = 0.02, 0.97
# An improvement is rechecked before a regression only if its false discovery rate is
# lower by this.
_REGRESSIONS_FIRST = 0.15


@signals()
@logging_to_stderr()
def gate(arguments: argparse.Namespace) -> int:
    """`asktell gate`: compare a candidate with the baseline, and return the exit code of the verdict."""
    files = _check_flags(arguments)
    if arguments.config.suffix.lower() == ".toml":
        decide = _configured(arguments)
    else:
        from asktell_adapters.cli.gate_finished import finished_gate

        decide = finished_gate(arguments)
    for path in files:
        # Written by an earlier gate, with a verdict that may differ from this one
        if path.is_file():
            path.unlink()
    try:
        ruling = decide()
    except AsktellError:
        raise
    except Exception as error:  # the exit code 1 would mean that the candidate is worse
        raise EvaluatorError(
            "asktell gate stopped before its verdict. Remove the cause, and repeat the command. The error was "
            + in_words(error).removesuffix(": ")
        ) from error
    # Without a reader, the exit code is enough
    with contextlib.suppress(OSError, ValueError):
        for line in ruling.lines():
            show(line)
    for path, text in (
        (arguments.summary, ruling.markdown),
        (arguments.junit, ruling.junit),
    ):
        if path is not None:
            written(path, partial(write_atomically, path, text()))
    return _CODES[ruling.verdict]


def _check_flags(arguments: argparse.Namespace) -> list[Path]:
    """Check the numbers and the files to write. Return these files."""
    if not 0 < arguments.confidence < 1:
        raise InvalidArgumentError(
            f"--confidence must be a number above 0 and below 1, got {arguments.confidence}."
        )
    if arguments.margin is not None and not 0 <= arguments.margin < math.inf:
        raise InvalidArgumentError(
            f"--margin must be a number of at least 0, got {arguments.margin}."
        )
    if not 0 <= arguments.differ <= 1:
        raise InvalidArgumentError(
            f"--differ must be a number from 0 to 1, got {arguments.differ}."
        )
    given = arguments.summary, arguments.junit, arguments.report
    files = [path for path in given if path is not None]
    for path in files:
        if path.is_dir() or not path.resolve().parent.is_dir():
            raise InvalidArgumentError(
                f"{str(path)!r} cannot be written. Give a file in a folder that exists."
            )
    return files


def _configured(arguments: argparse.Namespace) -> Callable[[], Ruling]:
    """Read the configuration of a gate, and check its flags. The function that is returned decides."""
    if arguments.more:
        raise InvalidArgumentError(
            f"The configuration {arguments.config.name} cannot be combined with other files, got "
            f"{some(list(map(str, arguments.more)))}. Give either the configuration alone, or only files of results."
        )
    of_results = [
        flag
        for flag, default in OF_RESULTS.items()
        if getattr(arguments, flag) != default
    ]
    if of_results:
        names = ", ".join(f"--{flag.replace('_', '-')}" for flag in of_results)
        raise InvalidArgumentError(
            f"{names} can be used with files of results only, but {arguments.config.name} is a configuration. Remove "
            f"{names}. A configuration has its goal in [goal], and its data in [data]."
        )
    if arguments.recheck is not None and arguments.recheck < 0:
        raise InvalidArgumentError(
            f"--recheck must be a number of evaluations, or 0 for no evaluations, got {arguments.recheck}."
        )
    from asktell_adapters.config import load_config

    config = load_config(arguments.config, baseline=arguments.baseline)
    baseline, candidate = _pair(config, arguments)
    goal = ranged(config.selector.goal, config.metrics)
    rule = GateRule(goal, margin_for(goal, arguments.margin), arguments.confidence)
    return lambda: _judge(config, rule, baseline, candidate, arguments)


def _judge(
    config: "Config",
    rule: GateRule,
    baseline: PromptResult,
    candidate: PromptResult,
    arguments: argparse.Namespace,
) -> Ruling:
    """Evaluate both prompts until the verdict is established. Then recheck the examples on which they differ."""
    from asktell_adapters.cli.work import confirm, timed

    evaluator = _evaluator(config, baseline, candidate)
    most_rechecks = _RECHECKS if arguments.recheck is None else arguments.recheck
    if evaluator.repeatable:
        most_rechecks = 0
    # The user is asked about the price of the whole budget, including the rechecks.
    whole = _selector(config, rule.goal, baseline, candidate, evaluator.repeatable)
    confirm(config, whole, evaluator, arguments.yes)
    selector = _selector(
        config, rule.goal, baseline, candidate, evaluator.repeatable, most_rechecks
    )
    if not evaluator.repeatable:
        selector = noisy(selector)
    note(beforehand(rule, selector, arguments.differ))
    progress = not arguments.no_progress and sys.stderr.isatty()
    said: dict[tuple[str, int | None], dict[str, Any]] = {}

    def keep(asked: Asked, example: int | None, outcome: object) -> None:
        details = getattr(outcome, "details", {})
        said[_named(asked), example] = {
            name: details[name] for name in _SHOWN if name in details
        }

    clocked = timed(evaluator, keep)
    verdict, selector, remarks = settle(
        rule, selector, clocked, config.concurrency, progress, config.selector.max_cost
    )
    # Before the rechecks, which do not count for the verdict
    result = selector.result()
    evaluations = _with_responses(selector, (candidate, baseline), said)
    again = Rechecks(selector, rule.goal.objectives[0].metric, config.selector.max_cost)
    left = min(most_rechecks, whole.budget - selector.spent)
    again.run(clocked, left, config.concurrency)
    if most_rechecks and again.has_doubts and not again.made:
        remarks = [*remarks, _no_rechecks(most_rechecks)]
    ruling = Ruling(
        verdict,
        rule.verdicts,
        rule.goal,
        rule.margin,
        result.compare(candidate.id, baseline.id, rule.confidence),
        result,
        remarks,
        evaluations,
        config.examples,
        _currency(config, evaluator, candidate),
        config.is_priced,
        doubts=selector.state.remarks.doubts,
        rechecked=again.comparison,
        rechecks=again.made,
        recheck_cost=again.cost,
    )
    needed = rule.pairs_for_equal(selector, ruling.squared_difference)
    ruling, link = replace(ruling, needed=needed), None
    if arguments.report is not None:
        document = reports.document(
            selector.state, selector.method, selector.prompts,
            name=config.path.stem, evaluations=evaluations, about=config.setup,
            inputs=[each.input for each in config.examples], ruling=ruling.to_dict(),
        )  # fmt: skip
        if written(
            arguments.report, partial(reports.write, arguments.report, document)
        ):
            beside = (arguments.summary or arguments.report).parent
            link = Path(os.path.relpath(arguments.report, beside))
    return replace(ruling, report=link)


def _with_responses(
    selector: Selector,
    pair: Sequence[PromptResult],
    said: Mapping[tuple[str, int | None], dict[str, Any]],
) -> list[Evaluation]:
    """The evaluations so far, with what was kept by prompt and example: the response, and what judges said of it."""
    names = {str(each.id): _named(each.candidate or each.prompt) for each in pair}
    found = []
    for evaluation in selector.evaluations():
        details = said.get((names[str(evaluation.prompt)], evaluation.example))
        if details:
            evaluation = evaluation._replace(details=details)
        found.append(evaluation)
    return found


def _currency(config: "Config", evaluator: Any, candidate: PromptResult) -> str:
    """The currency of the LLM's price. It is empty if it is unknown."""
    if config.harness is not None:
        return ""
    request = evaluator.request(candidate.candidate or candidate.prompt, 0)
    price = getattr(llm_of(evaluator.llm, request), "price", None)
    return getattr(price, "currency", "")


def _no_rechecks(wanted: int) -> str:
    """A note that no evaluation was left for the rechecks."""
    return (
        f"The budget left nothing to recheck the examples that differ. With {wanted:,} more evaluations in the budget, "
        "or a smaller --recheck, the gate separates regressions from noise."
    )


class Rechecks:
    """Evaluates examples on which the candidate and the baseline differ again, to find the differences that hold.

    The verdict ignores these evaluations. Their examples were chosen because they
    differ, so the two means regress towards each other even if the candidate is worse.
    Only the lists of examples use them.
    """

    def __init__(self, selector: Selector, metric: str, max_cost: float | None) -> None:
        """Start with a selector of the candidate and the baseline, in that order, in its state at the verdict."""
        self._selector = at_state(selector, selector.state)
        self._candidate, self._baseline = selector.prompts.ids
        self._metric, self._max_cost = metric, max_cost
        self._cost_before = selector.spent_cost
        self._example_of = {
            name: i for i, name in enumerate(selector.example_ids or ())
        }
        self._failed: set[tuple[int, int]] = set()
        self.made = 0
        self._compare()

    def _compare(self) -> None:
        """Compare the two prompts by all evaluations so far."""
        self.comparison = self._selector.compare(self._candidate, self._baseline)

    @property
    def cost(self) -> float:
        """Cost of the rechecks."""
        return self._selector.spent_cost - self._cost_before

    @property
    def has_doubts(self) -> bool:
        """Whether it is in doubt on some example if the two prompts differ."""
        return bool(self._cells(1))

    def run(self, evaluator: Any, most: int, concurrency: int | None = None) -> None:
        """Make at most `most` evaluations, and update the comparison."""
        while self.made < most and (
            self._max_cost is None or self._selector.spent_cost < self._max_cost
        ):
            cells = self._cells(min(most - self.made, max(_AT_ONCE, concurrency or 1)))
            if not cells:
                return
            self._evaluate(evaluator, cells)
            self.made += len(cells)
            self._compare()

    def _cells(self, n: int) -> list[tuple[int, int, int]]:
        """At most n cells to evaluate next, as arm, example and number of earlier evaluations, most certain first.

        The prompt with fewer evaluations of an example is next. A difference by noise
        then often takes one evaluation.
        """
        found: list[tuple[float, int, int, int]] = []
        lists = (
            (self.comparison.regressions(1.0, self._metric), 0.0),
            (
                self.comparison.improvements(1.0, self._metric),
                _REGRESSIONS_FIRST,
            ),
        )
        for changed, handicap in lists:
            for each in changed:
                example = (
                    each.example
                    if isinstance(each.example, int)
                    else self._example_of[each.example]
                )
                of_candidate = each.evaluations_a <= each.evaluations_b
                arm, times = (
                    (CANDIDATE, each.evaluations_a)
                    if of_candidate
                    else (BASELINE, each.evaluations_b)
                )
                if _is_in_doubt(each) and (arm, example) not in self._failed:
                    found.append((each.false_rate + handicap, example, arm, times))
        return [(arm, example, times) for _, example, arm, times in sorted(found)[:n]]

    def _evaluate(self, evaluator: Any, cells: Sequence[tuple[int, int, int]]) -> None:
        """Evaluate the cells, and record their scores beyond the budget."""
        prompts, beyond = self._selector.prompts, len(self._selector.state.history)
        trials = [
            prompts.trial(-1 - beyond - i, arm, example)
            for i, (arm, example, _) in enumerate(cells)
        ]
        repeats = {
            trial.id: times for trial, (_, _, times) in zip(trials, cells, strict=True)
        }
        for (arm, example, _), outcome in zip(
            cells, _outcomes(evaluator, trials, repeats), strict=True
        ):
            try:
                if isinstance(outcome, BaseException):
                    raise outcome
                scores, cost = goal_scores(self._selector, outcome)
                self._selector.observe(prompts.ids[arm], scores, example, cost)
            except (Exception, SystemExit):
                # The cell is not tried again: one example matters little in the lists
                self._failed.add((arm, example))


def _is_in_doubt(each: ChangedExample) -> bool:
    """Whether another evaluation may show if the difference is noise."""
    is_fresh = each.evaluations_a + each.evaluations_b <= 2
    return each.false_rate >= _SURE and (is_fresh or each.false_rate <= _NOISE)


def _outcomes(
    evaluator: Any, trials: list[asktell.Trial], repeats: Mapping[int, int]
) -> Sequence[Any]:
    """The outcome of the evaluator for each trial, or the exception that it raises."""
    how = Calling.of(evaluator)

    def repeat_of(trial: asktell.Trial) -> int:
        return repeats[trial.id]

    if how.in_batches:
        found = attempt(how.call, *how.arguments(trials, repeat_of))
        if isinstance(found, Sequence) and len(found) == len(trials):
            return found
        wrong = EvaluatorError(
            "evaluate_batch() did not return an outcome for each trial."
        )
        return [found if isinstance(found, BaseException) else wrong] * len(trials)
    if not how.is_async:
        return [
            attempt(how.call, *how.arguments([trial], repeat_of)) for trial in trials
        ]

    async def together() -> Sequence[Any]:
        calls = (how.call(*how.arguments([trial], repeat_of)) for trial in trials)
        return await asyncio.gather(*calls, return_exceptions=True)

    return outside_of_loops(together)


def _evaluator(config: "Config", *pair: PromptResult) -> Any:
    """The evaluator. It checks the two prompts first, as its `repeatable` depends on them."""
    if config.harness is not None:
        return config.harness.driven
    evaluator = config.evaluator()
    evaluator.check_prompts(
        {str(each.id): each.candidate or each.prompt for each in pair}
    )
    return evaluator


def _named(asked: Asked) -> str:
    """A name of a prompt or candidate: the same for the same content."""
    return json.dumps(
        {"prompt": asked} if isinstance(asked, str) else dict(asked), sort_keys=True
    )


def _selector(
    config: "Config",
    goal: Goal,
    baseline: PromptResult,
    candidate: PromptResult,
    repeatable: bool,
    rechecks: int = 0,
) -> Selector:
    """A selector of the candidate and the baseline, in that order, which evaluates both on the same examples.

    `rechecks` evaluations are kept back, as far as the budget exceeds one round of the
    examples.
    """
    problem = config.selector.state.problem
    n, repeats = len(config.examples), problem.examples.repeats
    budget = problem.budget - min(rechecks, max(0, problem.budget - 2 * n))
    # The budget beyond one round of the examples is spent on further rounds
    if not repeatable:
        repeats = max(repeats, min(_MOST_ROUNDS, math.ceil(budget / (2 * n))))
    pair: Any = {str(candidate.id): candidate.prompt, str(baseline.id): baseline.prompt}
    if (candidates := config.selector.prompts.candidates) is not None:
        pair = candidates.part(
            [candidates.ids.index(str(each.id)) for each in (candidate, baseline)]
        )
    return Selector(
        pair,
        goal,
        max(2, min(2 * n * repeats, budget)),
        "uniform",
        config.dataset.ids,
        seed=problem.seed,
        on_failure=problem.on_failure,
        max_failure_rate=1.0,  # the gate itself judges the rate of failures
        baseline=str(baseline.id),
        repeats=repeats,
        inputs=config.setup.get("inputs", "given"),
    )


def noisy(selector: Selector) -> Selector:
    """The selector with scores that may differ when an evaluation is repeated."""
    if selector.state.problem.examples.is_noisy:
        return selector
    state, differs = selector.state, selector.state.problem.by_noise[True]
    return at_state(
        selector,
        state._replace(problem=differs, growth=replace(state.growth, origin=differs)),
    )


def settle(
    rule: GateRule,
    selector: Selector,
    evaluator: Any,
    concurrency: int | None = None,
    progress: bool = False,
    max_cost: float | None = None,
) -> tuple[str, Selector, Sequence[str]]:
    """Evaluate until the verdict is established or the budget is spent.

    `selector` has the candidate and the baseline, in that order. No evaluation is
    started once `max_cost` is reached. Unless the evaluator is `repeatable`, scores
    count as noisy from the start. A few equal repeats would not show that all
    evaluations repeat.

    Returns:
        The verdict, the selector in its final state, and notes on the evaluations.

    Raises:
        EvaluatorError: no evaluation succeeded, or too many in a row failed.
    """
    verdict = UNDECIDED
    if not getattr(evaluator, "repeatable", False):
        selector = noisy(selector)

    def is_enough(selector: Selector) -> bool:
        nonlocal verdict
        too_dear = max_cost is not None and selector.state.costs.total >= max_cost
        verdict = rule.look(selector.state, is_last=False)
        return too_dear or bool(selector.state.left) or verdict != UNDECIDED

    result = run(
        selector,
        evaluator,
        None,
        concurrency,
        progress,
        max_failures_in_a_row=_PATIENCE,
        until=is_enough,
    )
    failed = [entry.reason for entry in result.prompts if entry.status == "failed"]
    if failed and not selector.spent:
        raise EvaluatorError(f"No evaluation succeeded: {failed[0]}")
    before = rule.verdicts
    rule.look(selector.state)
    # The repeats at the end have shown a drift of the model
    if set(rule.verdicts.values()) == {UNDECIDED}:
        return UNDECIDED, selector, result.notes
    rule.verdicts = before
    return verdict, selector, result.notes


def _pair(
    config: "Config", arguments: argparse.Namespace
) -> tuple[PromptResult, PromptResult]:
    """The baseline and the candidate, by the flags or by default.

    Raises:
        InvalidArgumentError: one of them is unknown or not given, or both are the same.
    """
    result = config.selector.result()
    written = {str(entry.id): entry for entry in result.prompts}
    added = {id_: entry for id_, entry in _added(config).items() if id_ not in written}
    prompts = {**written, **added}
    baseline, candidate = arguments.baseline or result.baseline, arguments.candidate
    others = [id_ for id_ in written if id_ != str(baseline)] or [
        id_ for id_ in added if id_ != str(baseline)
    ]
    if candidate is None and len(others) == 1:
        candidate = others[0]
    for name, given in (("--baseline", baseline), ("--candidate", candidate)):
        if str(given) not in prompts:
            came = (
                f"Got {name} {given!r}" if given is not None else f"No {name} is given"
            )
            raise InvalidArgumentError(
                f"{came}. Pass the id of a prompt of {config.path.name}. The ids are {some(list(prompts))}."
            )
    if str(baseline) == str(candidate):
        raise InvalidArgumentError(
            f"The candidate and the baseline are the same prompt, {candidate!r}. Give two different prompts."
        )
    return prompts[str(baseline)], prompts[str(candidate)]


def _added(config: "Config") -> dict[str, PromptResult]:
    """The prompts that `asktell add` added to the run of the configuration, by id."""
    folder = RunFolder(config.output)
    if folder.study_name is None or config.selector.prompts.candidates is not None:
        return {}
    with folder.open_study() as study:
        joined = {
            str(study.selector.prompts.ids[arm])
            for arm in besides_definition(study.selector.state)
        }
        return {
            str(entry.id): entry
            for entry in study.result().prompts
            if str(entry.id) in joined
        }


def compare(arguments: argparse.Namespace) -> int:
    """`asktell compare`: compare prompts of a run, or of a study, whose name then comes first."""
    from asktell_adapters.cli.places import needs_name
    from asktell_adapters.cli.studies import result_of

    names = list(arguments.prompts)
    study = names.pop(0) if needs_name(arguments.run) else None
    if not 1 <= len(names) <= 2:
        raise InvalidArgumentError(
            f"asktell compare needs the ids of one or two prompts, got {len(names)}. Write `asktell compare RUN A "
            "[B]`, or `asktell compare URL NAME A [B]`, where NAME is the name of a study."
        )
    a, b = names[0], [*names, None][1]
    found = result_of(arguments.run, study).compare(
        a, b, arguments.confidence, arguments.tolerance
    )
    if arguments.json:
        show_json(found.to_dict())
    else:
        show(str(found))
    return 0
