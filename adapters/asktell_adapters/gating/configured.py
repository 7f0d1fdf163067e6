"""A gate on a configuration: both prompts are evaluated until the verdict is established."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from asktell import InvalidArgumentError, PromptResult, Selector
from asktell.extend import Evaluation, reports, some
from asktell_adapters.evaluators.timed import timed
from asktell_adapters.gating.rechecks import Rechecks
from asktell_adapters.gating.rule import GateRule, beforehand, margin_for, ranged
from asktell_adapters.gating.ruling import UNDECIDED, Ruling
from asktell_adapters.gating.settle import noisy, settle
from asktell_adapters.llms.base import Asked
from asktell_adapters.llms.models import llm_of

if TYPE_CHECKING:  # it needs the extra `config`, which files of results do not need
    from asktell_adapters.config import Config

_MOST_ROUNDS = 100
_SHOWN = ("output", "judged")  # details of an evaluation that the page shows
# Evaluations, by default: two for each of the 25 examples on which a fifth of 127
# differ. A judgement
_RECHECKS = 50


class ConfiguredGate:
    """A gate on two prompts of a configuration.

    Args:
        config: the configuration.
        candidate: id of the new prompt. None: the other prompt, if there are two.
        baseline: id of the prompt in use. None: the baseline of the configuration.
        margin: accepted loss in units of the metric. None: the objective's tolerance.
        confidence: of the verdict.
        recheck: the most evaluations to repeat after the verdict, to see which
            differences hold. None: 50.
        added: prompts that were added to the run of the configuration, by id.
        dashes: "--" if the arguments are flags of a command, for error messages.

    Attributes:
        rule: the rule of the gate, with its goal and its verdicts so far.

    Raises:
        InvalidArgumentError: a prompt is missing or unknown, both are the same, or the
            margin is as wide as the metric's range.
    """

    def __init__(
        self,
        config: "Config",
        candidate: str | None = None,
        baseline: str | None = None,
        margin: float | None = None,
        confidence: float = 0.95,
        recheck: int | None = None,
        added: Mapping[str, PromptResult] | None = None,
        dashes: str = "",
    ) -> None:
        if recheck is not None and recheck < 0:
            raise InvalidArgumentError(
                f"{dashes}recheck must be a number of evaluations, or 0 for no evaluations, got {recheck}."
            )
        self._config, self._recheck = config, recheck
        self._candidate, self._baseline = _pair(
            config, candidate, baseline, added or {}, dashes
        )
        goal = ranged(config.selector.goal, config.metrics)
        self.rule = GateRule(goal, margin_for(goal, margin), confidence)

    @cached_property
    def evaluator(self) -> Any:
        """The evaluator. It has checked the two prompts, as its `repeatable` depends on them."""
        if self._config.harness is not None:
            return self._config.harness.driven
        evaluator = self._config.evaluator()
        pair = self._candidate, self._baseline
        evaluator.check_prompts(
            {str(entry.id): entry.candidate or entry.prompt for entry in pair}
        )
        return evaluator

    @property
    def whole(self) -> Selector:
        """A selector with the whole budget, including the rechecks, as for an estimate of the price."""
        return self._selector(0)

    @property
    def _doubts(self) -> dict[str, str]:
        """Why no evaluation can establish anything, by metric: a judge of the goal lacks the licence that it needs."""
        remarks: dict[str, tuple[str, bool]] = getattr(
            self.evaluator, "remarks", dict
        )()
        return {
            metric: text
            for metric, (text, is_doubtful) in remarks.items()
            if is_doubtful and metric in self.rule.goal.metrics
        }

    @property
    def _most_rechecks(self) -> int:
        """How many evaluations may be repeated. With fixed scores, none needs to be."""
        if self.evaluator.repeatable:
            return 0
        return _RECHECKS if self._recheck is None else self._recheck

    def beforehand(self, differ: float) -> str:
        """How many evaluations the gate takes if both prompts are equally good. See `rule.beforehand`."""
        if self._doubts:
            return "Nothing is evaluated, since no score could establish a verdict."
        return beforehand(self.rule, self._kept_back, differ)

    @cached_property
    def _kept_back(self) -> Selector:
        """The selector of the gate. Evaluations for the rechecks are kept back."""
        # A few equal repeats would not show that all evaluations repeat, so scores count
        # as noisy from the start.
        selector = self._selector(self._most_rechecks)
        return selector if self.evaluator.repeatable else noisy(selector)

    def _selector(self, rechecks: int) -> Selector:
        """A selector of the candidate and the baseline, in that order, which evaluates both on the same examples.

        `rechecks` evaluations are kept back, as far as the budget exceeds one round of
        the examples.
        """
        config = self._config
        problem = config.selector.state.problem
        n, repeats = len(config.examples), problem.examples.repeats
        budget = problem.budget - min(rechecks, max(0, problem.budget - 2 * n))
        # The budget beyond one round of the examples is spent on further rounds
        if not self.evaluator.repeatable:
            repeats = max(repeats, min(_MOST_ROUNDS, math.ceil(budget / (2 * n))))
        both = self._candidate, self._baseline
        pair: Any = {str(entry.id): entry.prompt for entry in both}
        if (candidates := config.selector.prompts.candidates) is not None:
            pair = candidates.part(
                [candidates.ids.index(str(entry.id)) for entry in both]
            )
        return Selector(
            pair,
            self.rule.goal,
            max(2, min(2 * n * repeats, budget)),
            "uniform",
            config.dataset.ids,
            seed=problem.seed,
            on_failure=problem.on_failure,
            max_failure_rate=1.0,  # the gate itself judges the rate of failures
            baseline=str(self._baseline.id),
            repeats=repeats,
            inputs=config.setup.get("inputs", "given"),
        )

    def decide(self, progress: bool = False) -> Ruling:
        """Evaluate both prompts until the verdict is established. Then recheck the examples on which they differ.

        Args:
            progress: whether to show a progress bar.

        Raises:
            EvaluatorError: no evaluation succeeded, or too many in a row failed.
        """
        config, rule = self._config, self.rule
        responses: dict[tuple[str, int | None], dict[str, Any]] = {}

        def keep(asked: Asked, example: int | None, outcome: object) -> None:
            details = getattr(outcome, "details", {})
            responses[_named(asked), example] = {
                name: details[name] for name in _SHOWN if name in details
            }

        clocked, most_cost = timed(self.evaluator, keep), config.selector.max_cost
        verdict, selector = UNDECIDED, self._kept_back
        remarks: Sequence[str] = ()
        if doubts := self._doubts:
            # Nothing could change the verdict, so nothing is paid
            for metric, text in doubts.items():
                selector.remark(text, topic=metric, doubtful=True)
            rule.look(selector.state)
        else:
            verdict, selector, remarks = settle(
                rule, selector, clocked, config.concurrency, progress, most_cost
            )
        # Before the rechecks, which do not count for the verdict
        result = selector.result()
        evaluations = self._with_responses(selector, responses)
        # On a copy of the selector, since the rechecked examples were chosen because they
        # differ.
        again = Rechecks(selector, rule.goal.objectives[0].metric, most_cost)
        left = min(self._most_rechecks, self.whole.budget - selector.spent)
        if not doubts:
            again.run(clocked, left, config.concurrency)
        if self._most_rechecks and again.has_doubts and not again.made:
            remarks = [*remarks, _no_rechecks(self._most_rechecks)]

        def document(heading: dict[str, Any]) -> dict[str, Any]:
            return reports.document(
                selector.state, selector.method, selector.prompts,
                name=config.path.stem, evaluations=evaluations, about=config.setup,
                inputs=[example.input for example in config.examples], ruling=heading,
            )  # fmt: skip

        ruling = Ruling(
            verdict,
            rule.verdicts,
            rule.goal,
            rule.margin,
            result.compare(self._candidate.id, self._baseline.id, rule.confidence),
            result,
            remarks,
            evaluations,
            config.examples,
            self._currency,
            config.is_priced,
            doubts=selector.state.remarks.doubts,
            rechecked=again.comparison,
            rechecks=again.made,
            recheck_cost=again.cost,
            document=document,
        )
        needed = rule.pairs_for_equal(selector, ruling.squared_difference)
        return replace(ruling, needed=needed)

    def _with_responses(
        self,
        selector: Selector,
        responses: Mapping[tuple[str, int | None], dict[str, Any]],
    ) -> list[Evaluation]:
        """The evaluations so far, with the response of each and what judges said of it, by prompt and example."""
        names = {
            str(entry.id): _named(entry.candidate or entry.prompt)
            for entry in (self._candidate, self._baseline)
        }
        evaluations = []
        for evaluation in selector.evaluations():
            details = responses.get((names[str(evaluation.prompt)], evaluation.example))
            if details:
                evaluation = evaluation._replace(details=details)
            evaluations.append(evaluation)
        return evaluations

    @property
    def _currency(self) -> str:
        """The currency of the LLM's price. It is empty if it is unknown."""
        if self._config.harness is not None:
            return ""
        asked = self._candidate.candidate or self._candidate.prompt
        request = self.evaluator.request(asked, 0)
        price = getattr(llm_of(self.evaluator.llm, request), "price", None)
        return getattr(price, "currency", "")


def _pair(
    config: "Config",
    candidate: str | None,
    baseline: str | None,
    added: Mapping[str, PromptResult],
    dashes: str,
) -> tuple[PromptResult, PromptResult]:
    """The candidate and the baseline, by their ids or by default.

    Raises:
        InvalidArgumentError: one of them is unknown or not given, or both are the same.
    """
    result = config.selector.result()
    written = {str(entry.id): entry for entry in result.prompts}
    joined = {id_: entry for id_, entry in added.items() if id_ not in written}
    prompts = {**written, **joined}
    in_use = baseline or result.baseline
    rivals = [id_ for id_ in written if id_ != str(in_use)] or [
        id_ for id_ in joined if id_ != str(in_use)
    ]
    if candidate is None and len(rivals) == 1:
        candidate = rivals[0]
    for role, id_ in (("baseline", in_use), ("candidate", candidate)):
        if str(id_) not in prompts:
            came = (
                f"Got {dashes}{role} {id_!r}"
                if id_ is not None
                else f"No {dashes}{role} is given"
            )
            raise InvalidArgumentError(
                f"{came}. Pass the id of a prompt of {config.path.name}. The ids are {some(list(prompts))}."
            )
    if str(in_use) == str(candidate):
        raise InvalidArgumentError(
            f"The candidate and the baseline are the same prompt, {candidate!r}. Give two different prompts."
        )
    return prompts[str(candidate)], prompts[str(in_use)]


def _named(asked: Asked) -> str:
    """A name of a prompt or candidate: the same for the same content."""
    return json.dumps(
        {"prompt": asked} if isinstance(asked, str) else dict(asked), sort_keys=True
    )


def _no_rechecks(wanted: int) -> str:
    """A note that no evaluation was left for the rechecks."""
    return (
        f"The budget left nothing to recheck the examples that differ. With {wanted:,} more evaluations in the budget, "
        "or fewer rechecks (`recheck`), the gate separates regressions from noise."
    )
