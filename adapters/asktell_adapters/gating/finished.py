"""A gate on results that exist: two candidates of files, or two prompts of a selector or study in memory."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from asktell import InvalidArgumentError, Selector, Study
from asktell.extend import Goal, nearest, reports, some
from asktell_adapters.finished import Scores
from asktell_adapters.gating.rule import GateRule, margin_for, ranged
from asktell_adapters.gating.ruling import Ruling
from asktell_adapters.llms.base import Example
from asktell_adapters.metrics.licence import Licensing

_OBSERVED = (
    "Scores from `observe` are of no evaluation here, so it is not known how often evaluations failed, and nothing can "
    "pass. Write the scores into a table, and pass its path to the gate."
)


class FinishedGate:
    """A gate on two candidates of files of results. It evaluates nothing.

    Args:
        scores: the evaluations of the files.
        goal: the goal. Ranges are added where all scores of a metric are 0 or 1.
        candidate: name of the candidate. None: the other one, if the files have two.
        baseline: name of the baseline.
        margin: accepted loss in units of the metric. None: the objective's tolerance.
        confidence: of the verdict.
        inputs: whether the verdict is about unseen inputs, or exactly the examples.
        dashes: "--" if the arguments are flags of a command, for error messages.
        licensing: the licence that the judge of the scores needs. None if it needs none.

    Raises:
        InvalidArgumentError: a candidate is missing or unknown, the two have no example
            in common, or the margin is as wide as the metric's range.
    """

    def __init__(
        self,
        scores: Scores,
        goal: Goal,
        candidate: str | None,
        baseline: str | None,
        margin: float | None = None,
        confidence: float = 0.95,
        inputs: Literal["new", "given"] = "given",
        dashes: str = "",
        licensing: Licensing | None = None,
    ) -> None:
        self._scores = scores
        self._pair = _pair(scores, candidate, baseline, dashes)
        binary = {
            name: SimpleNamespace(range=(0.0, 1.0))
            for name in goal.metrics
            if _is_binary(scores, name)
        }
        goal = ranged(goal, binary)
        self._rule = GateRule(goal, margin_for(goal, margin), confidence)
        # The gate itself judges the rate of failures, so no candidate is eliminated for
        # it.
        self._selector = scores.table(goal, self._pair).selector(
            goal,
            self._pair[1],
            inputs,
            max_failure_rate=1.0,
            is_noisy=True,
        )
        self._remarks = [*scores.remarks(), *_unpaired(scores, *self._pair)]
        if licensing is not None:
            metric = goal.metrics[0]
            text, is_doubtful = licensing.remark(metric)
            self._selector.remark(text, topic=metric, doubtful=is_doubtful)
            if not is_doubtful:
                self._remarks.append(text)

    def decide(self, files: Sequence[Any] = (), notes: Sequence[str] = ()) -> Ruling:
        """Return the verdict.

        Args:
            files: the paths of the files, which the page names.
            notes: further sentences for the ruling.
        """
        ids = self._selector.prompts.ids
        candidate, baseline = map(ids.index, self._pair)
        remarks = [*self._remarks, *notes]
        ruling = ruled(self._rule, self._selector, candidate, baseline, remarks)
        return replace(
            ruling,
            reading=self._scores.overview(),
            document=lambda heading: self._scores.document(
                self._selector, files, heading
            ),
        )


def gate_selection(
    selection: Selector | Study,
    candidate: object = None,
    baseline: object = None,
    margin: float | None = None,
    confidence: float = 0.95,
) -> Ruling:
    """Return the verdict on a prompt of a selector or study, by the evaluations so far.

    If the candidate or the baseline is the selected prompt, chance has helped it: it
    leads all prompts on the same scores. The permitted error is then divided by the
    number of comparisons among which it was selected.

    Args:
        selection: the selector or study. It need not be done.
        candidate: the new prompt, as an id, a text or an entry of a result. None: the
            other prompt, if there are two.
        baseline: the prompt in use. None: the baseline of the selection.
        margin: accepted loss in units of the metric. None: the objective's tolerance.
        confidence: of the verdict.

    Raises:
        InvalidArgumentError: a prompt is missing or unknown, or both are the same.
    """
    selector = selection.selector if isinstance(selection, Study) else selection
    prompts, goal = selector.prompts, selector.state.problem.goal
    if baseline is None and selector.state.problem.baseline is None:
        raise InvalidArgumentError(
            "No baseline is given. Pass baseline=ID, or make the selection with a baseline. The ids are "
            f"{some(list(prompts.ids))}."
        )
    arm_of_baseline = (
        selector.state.problem.baseline
        if baseline is None
        else prompts.arm(baseline, "baseline: ")
    )
    rivals = [arm for arm in range(len(prompts.ids)) if arm != arm_of_baseline]
    if candidate is None and len(rivals) != 1:
        raise InvalidArgumentError(
            f"No candidate is given. Pass candidate=ID. The ids are {some(list(prompts.ids))}."
        )
    arm = rivals[0] if candidate is None else prompts.arm(candidate, "candidate: ")
    if arm == arm_of_baseline:
        raise InvalidArgumentError(
            f"The candidate and the baseline are the same prompt, {prompts.ids[arm]!r}. Give two different prompts."
        )
    assert arm_of_baseline is not None
    # As `Result.compare` does: a union bound over the comparisons of the selected prompt.
    error = 1.0 - confidence
    selected = {entry.id for entry in selector.result().selected}
    pair = {prompts.ids[arm], prompts.ids[arm_of_baseline]}
    if not selected.isdisjoint(pair):
        error /= max(1, int((selector.state.told > 0).sum()) - 1)
    rule = GateRule(goal, margin_for(goal, margin), 1.0 - error)
    evaluations = list(selection.evaluations())
    ruling = ruled(
        rule,
        selector,
        arm,
        arm_of_baseline,
        []
        if pair <= {evaluation.prompt for evaluation in evaluations}
        else [_OBSERVED],
        evaluations,
        confidence,
    )

    def document(heading: dict[str, Any]) -> dict[str, Any]:
        return reports.document(
            selector.state, selector.method, prompts, name="gate", ruling=heading,
            evaluations=ruling.evaluations,
        )  # fmt: skip

    return replace(ruling, document=document)


def ruled(
    rule: GateRule,
    selector: Selector,
    candidate: int,
    baseline: int,
    remarks: Sequence[str] = (),
    evaluations: Sequence[Any] | None = None,
    confidence: float | None = None,
) -> Ruling:
    """The ruling on two arms of a selector, by its scores. Nothing is evaluated.

    `confidence` is the one to state (default: that of the rule).
    """
    verdict = rule.look(selector.state, pair=(candidate, baseline))
    result, ids = selector.result(), selector.prompts.ids
    confidence = rule.confidence if confidence is None else confidence
    comparison = result.compare(ids[candidate], ids[baseline], confidence)
    examples = [Example(name) for name in selector.example_ids or ()]
    if evaluations is None:
        evaluations = list(selector.evaluations())
    ruling = Ruling(
        verdict, rule.verdicts, rule.goal, rule.margin, comparison, result, remarks,
        evaluations, examples, doubts=selector.state.remarks.doubts,
    )  # fmt: skip
    needed = rule.pairs_for_equal(selector, ruling.squared_difference)
    return replace(ruling, needed=needed)


def _pair(
    scores: Scores, candidate: str | None, baseline: str | None, dashes: str
) -> tuple[str, str]:
    """The names of the candidate and the baseline. Of two candidates, one name is enough."""
    names = list(scores.by_name)
    if len(names) == 1:
        columns = 'wanted=Wanted(candidates=("A", "B"))'
        column = 'wanted=Wanted(candidate_columns=("COLUMN",))'
        if dashes:
            columns, column = "--candidates A,B", "--candidate-column COLUMN"
        raise InvalidArgumentError(
            f"The files have one candidate, {names[0]!r}, but a gate compares two. Give the results of the other one "
            f"as another file. If columns of a table are candidates, name them with {columns}, and if a column has "
            f"their names, pass {column}."
        )
    if baseline is None or (candidate is None and len(names) != 2):
        missing = "baseline" if baseline is None else "candidate"
        raise InvalidArgumentError(
            f"No {missing} is given. Choose it by {dashes}{missing}{' ' if dashes else '='}ID. The ids in the files "
            f"are {some(names)}."
        )
    for name, role in ((baseline, "baseline"), (candidate, "candidate")):
        if name is not None and name not in names:
            raise InvalidArgumentError(
                f"There is no candidate {name!r}{nearest(name, names)}. Give {dashes}{role} one of {some(names)}."
            )
    if candidate is None:
        (candidate,) = (name for name in names if name != baseline)
    if candidate == baseline:
        raise InvalidArgumentError(
            f"{dashes}candidate and {dashes}baseline are both {candidate!r}. Give two different ids of {some(names)}."
        )
    return candidate, baseline


def _is_binary(scores: Scores, metric: str) -> bool:
    """Whether all scores of a metric are 0 or 1."""
    columns = (evaluations.columns([metric]) for evaluations in scores.by_name.values())
    return all(
        bool((np.isin(column, (0.0, 1.0)) | np.isnan(column)).all())
        for column in columns
    )


def _unpaired(scores: Scores, candidate: str, baseline: str) -> list[str]:
    """A note on examples with evaluations of one candidate only, if there are any."""
    of_candidate = set(scores.by_name[candidate].examples)
    of_baseline = set(scores.by_name[baseline].examples)
    if not of_candidate & of_baseline:
        raise InvalidArgumentError(
            f"{candidate!r} and {baseline!r} have no example in common. Examples are matched by their ids. Give both "
            "runs the same ids."
        )
    if of_candidate == of_baseline:
        return []
    lacks = {
        candidate: len(of_baseline - of_candidate),
        baseline: len(of_candidate - of_baseline),
    }
    missing = " and ".join(
        f'"{name}" has no score on {n:,}' for name, n in lacks.items() if n
    )
    return [
        f"{missing} of {len(of_candidate | of_baseline):,} examples. An example that only one of the two has counts "
        "against a verdict, as a failed evaluation does, because its score is unknown."
    ]
