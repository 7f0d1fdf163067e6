"""Is one prompt better than another, and how sure is that?"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from asktell._util.terminal import safe
from asktell.errors import InvalidArgumentError
from asktell.methods.certainty import BETTER, EQUAL, UNDECIDED, WORSE, Difference, OfNew, compare
from asktell.numerics.arrays import Indices, Means, Vector
from asktell.problem.candidates import AnyPrompt, Prompts
from asktell.problem.checks import LARGEST, check_number, check_part, short
from asktell.state import Failures, History, Problem
from asktell.state.history import Repeated, in_turns, repeated


@dataclass(frozen=True)
class Comparison:
    """Prompt `a` against prompt `b`; `str()` is a sentence for every metric, and one that says what they rest on.

    `examples`: how many there are (None: any number). `tolerance`: differences up to it do not matter. `unless`: the
    conditions under which the intervals do not hold.
    """

    a: str | int
    b: str | int
    confidence: float
    differences: Mapping[str, Difference]
    examples: int | None = None
    tolerance: float = 0.0
    unless: str = ""

    @property
    def guaranteed(self) -> bool:
        """True if every interval is guaranteed, provided that repeated evaluations give the same scores."""
        return all(difference.guaranteed for difference in self.differences.values())

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON-ready data, with the same names."""
        plain = {m: {**asdict(d), "new": d.new and list(d.new)} for m, d in self.differences.items()}
        return {**asdict(self), "differences": plain, "guaranteed": self.guaranteed}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Comparison":
        """What `to_dict` made `data` of."""
        differences = {
            name: Difference(**{**each, "new": OfNew(*each["new"]) if each["new"] else None})
            for name, each in data["differences"].items()
        }
        others = {name: data[name] for name in ("a", "b", "confidence", "examples", "tolerance", "unless")}
        return cls(**others, differences=differences)

    def __str__(self) -> str:
        lines = [f"{safe(name)}: {self.sentence(name)}" for name in self.differences]
        return "\n".join([*lines, *([self.premise] if self.premise else [])])

    def _repr_html_(self) -> str:
        from asktell.results.notebook import comparison_as_html

        return comparison_as_html(self)

    @property
    def premise(self) -> str:
        """The assumptions of the verdicts, as a sentence; empty without a verdict or without assumptions."""
        decided = any(difference.verdict != UNDECIDED for difference in self.differences.values())
        return f"This holds with confidence {self.confidence:g} {self.unless}." if decided and self.unless else ""

    def _on_new(self, difference: Difference) -> str:
        """How far what is certain of all examples given holds for new ones."""
        if difference.new is None or self.examples is None or difference.pairs < self.examples:
            return ""
        p = difference.new.p_better if difference.verdict == BETTER else 1 - difference.new.p_better
        stated = f"{p:.2f}" if p < 0.995 else "over 0.99"
        return f" (on new ones like them, {difference.verdict} with probability {stated})"

    def sentence(self, metric: str) -> str:
        """A sentence about one metric."""
        difference = self.differences[metric]
        a, b = safe(str(self.a)), safe(str(self.b))
        if difference.estimate is None:
            return f"{a} and {b} have no example in common yet"
        of = "" if self.examples is None else f" of {self.examples}"
        where = f"on {difference.pairs}{of} example{'' if (self.examples or difference.pairs) == 1 else 's'}"
        amount = f"{difference.estimate:+.3g}"
        if difference.low is not None and difference.high is not None and difference.low < difference.high:
            amount += f" [{difference.low:+.3g}, {difference.high:+.3g}]"
        amount += f" {where}" + ("" if difference.low is not None else ", too few to bound it")
        if difference.verdict == EQUAL:
            within = f" within {self.tolerance:g}" if self.tolerance else ""
            return f"{a} and {b} are equal{within}: {amount}"
        if difference.verdict in (BETTER, WORSE):
            return f"{a} is {difference.verdict} than {b}: {amount}{self._on_new(difference)}"
        if difference.p_better == 0.5:
            how = "are level" if difference.estimate == 0 else "cannot be ranked"
            return f"{a} and {b} {how} so far: {amount}"
        word = BETTER if difference.p_better > 0.5 else WORSE
        probability = max(difference.p_better, 1 - difference.p_better)
        stated = f"{probability:.2f}" if probability < 0.995 else "over 0.99"
        return f"{a} is {word} than {b} with probability {stated}, undecided: {amount}"


_UNSEEN = 3.0  # the rule of three: what n examples did not show is at most 3 / n of all, with a probability of 95 %


class Premises(NamedTuple):
    """The conditions under which a statement is guaranteed: "unless ... or ...", empty without any."""

    guaranteed: bool
    unless: str


def premises(
    problem: Problem,
    repeated: Repeated,
    n_seen: int,
    *,
    in_order: bool = True,
    failures: bool = False,
    widened: bool = False,
) -> Premises:
    """The premises of a statement that rests on the scores of `n_seen` examples, `repeated` as it says.

    `in_order`: the examples were taken in an order that does not depend on scores. `failures`: evaluations are missing
    because they failed. `widened`: prompts or examples joined that may have been chosen for what was seen before.
    """
    noisy = problem.is_noisy  # known beforehand, and allowed for
    exact = n_seen == problem.exhausted_at
    broken = list(_broken(problem, n_seen, exact, in_order, failures, widened))
    differs = bool(repeated.changed) and (not noisy or repeated.has_drifted)
    clauses = list(broken)
    if differs and repeated.late_changed:  # of noise alone the intervals know by now
        clauses.append("what is evaluated has changed during the run")
    elif not noisy and not differs:
        agreed = f" ({repeated.times} of {repeated.times} repeated evaluations agreed)" if repeated.times else ""
        clauses.append(f"evaluations differ when repeated{agreed}")
    # Whoever repeats evaluations does not know whether they can be: a few that agree leave room for some that do not.
    guaranteed = not broken and not differs and (noisy or not repeated.times)
    return Premises(guaranteed, f"unless {', or '.join(clauses)}" if clauses else "")


def _broken(problem: Problem, n_seen: int, exact: bool, in_order: bool, failures: bool, widened: bool) -> Iterator[str]:
    if not exact and not in_order:
        yield "the examples that were not evaluated behave unlike those that were"
    elif not exact and not all(metric in problem.goal.ranges for metric in problem.goal.columns):
        yield unlike(n_seen, problem.population)
    if failures:
        yield "evaluations that failed would have scored unlike the others"
    if widened:
        yield "prompts or examples that joined on the way were chosen for the scores seen before"


def differ(problem: Problem, repeated: Repeated) -> bool:
    """True if evaluations differ when repeated, where they should not, or by more than noise."""
    return bool(repeated.changed) and (problem.repeats == 1 or repeated.has_drifted)


def of_repeats(problem: Problem, repeated: Repeated) -> Iterator[str]:
    """Sentences about repeated evaluations; empty if they agree."""
    if not differ(problem, repeated):
        return
    counts = [f"{repeated.late_changed} of {repeated.late} late"] if repeated.late else []
    if soon := repeated.times - repeated.late:
        counts.insert(0, f"{repeated.changed - repeated.late_changed} of {soon} soon")
    means = repeated.moved.mean(axis=0) if repeated.late else np.zeros(0)
    moved = [f"{safe(problem.goal.columns[j])} moved by {means[j]:+.2g} late" for j in np.flatnonzero(means)]
    found = f"Evaluations differ when repeated: {', '.join(counts + moved)}."
    if repeated.has_drifted:
        yield f"{found} What is evaluated seems to have changed during the run."
        return
    other = "" if repeated.changed > repeated.late_changed else " Or what is evaluated has changed during the run."
    yield f"{found} So scores count as noisy; `repeats` above 1 averages several evaluations of an example.{other}"


def unlike(n_seen: int, population: int | None) -> str:
    """How many examples may still surprise, where nothing bounds what they may score: the rule of three."""
    share = min(1.0, _UNSEEN / max(1, n_seen))
    if population is not None:
        share = min(share, 1.0 - n_seen / population)
    return f"more than about {100 * share:.2g} % of the examples behave unlike those seen"


Place: TypeAlias = tuple[int, str | int]
Comparer: TypeAlias = Callable[[Place, Place, float, float], Comparison]
"""Two prompts, each its position and its id, a confidence and a tolerance -> how they compare."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """What was told, as it was when the result was made.

    `seen`: the problem by what was seen, see `State.seen`. `shared_order`: whether the method gives every prompt the
    examples of one order that does not depend on scores.
    """

    problem: Problem
    seen: Problem
    history: History
    missing: Failures
    shared_order: bool

    def __call__(self, a: Place, b: Place, confidence: float, tolerance: float) -> Comparison:
        """Compare two prompts; the error is divided among the metrics."""
        goal, population = self.problem.goal, self.problem.population
        (arm_a, id_a), (arm_b, id_b) = a, b
        of_a, of_b, places, in_order = self._common(arm_a, arm_b)
        compared = goal.columns[: len(goal.columns) - goal.counts_failures]  # of which an evaluation has scores
        each = 1 - (1 - confidence) / len(compared) if len(compared) > 1 else confidence
        differences: dict[str, Difference] = {}
        for j, metric in enumerate(compared):
            x, y, limits = of_a[:, j], of_b[:, j], goal.ranges.get(metric)
            if (weights := self._weights(j, places)) is not None:
                x, y, limits = weights * x, weights * y, None
            differences[metric] = compare(
                x, y,
                population=population, limits=limits, confidence=each, tolerance=tolerance,
                minimize=metric in goal.minimized, random_order=in_order, rounds=self.seen.rounds,
            )  # fmt: skip
        rests_on = premises(self.problem, repeated(self.problem, self.history), len(places), in_order=in_order)
        if not rests_on.guaranteed:
            differences = {name: replace(each, guaranteed=False) for name, each in differences.items()}
        return Comparison(id_a, id_b, confidence, differences, population, tolerance, rests_on.unless)

    def _weights(self, metric: int, places: Indices) -> Vector | None:
        """By which the differences' mean is one of the means over all examples; None where they count alike.

        On examples that were chosen because they divide prompts, two prompts differ by more than on all: by as often
        as the loadings say. The weights are those of least squares, of differences on loadings.
        """
        problem, shape = self.problem, self.problem.shapes[metric]
        if self.shared_order or shape is None or not 0 < len(places) < len(problem.order) or self.seen.is_noisy:
            return None
        examples = problem.order[places]
        loading, weights = shape.loading[examples], shape.loading[examples] / shape.residual[examples]
        told = float(weights @ loading)
        return weights * (len(places) / told) if told > 0.0 else None

    def _common(self, a: int, b: int) -> tuple[Means, Means, Indices, bool]:
        """Scores of both on their common examples, their places in the shared order, and whether that has no gap.

        A gap would be an example that was left out for what somebody scored, or failed, on it. Prompts that draw
        examples of their own are paired draw by draw.
        """
        (places_a, of_a, drawn_a), (places_b, of_b, drawn_b) = self._of(a), self._of(b)
        common, in_a, in_b = np.intersect1d(places_a, places_b, assume_unique=True, return_indices=True)
        without_gap = bool((common == np.arange(len(common))).all())
        return of_a[in_a], of_b[in_b], common, self.shared_order and drawn_a and drawn_b and without_gap

    def _of(self, arm: int) -> tuple[Indices, Means, bool]:
        """Places in the order and scores of one arm, and whether they were drawn by the method."""
        history, problem = self.history, self.problem
        mine = history.arms() == arm
        trials, examples, scores = history.trials()[mine], history.examples()[mine], history.scores()[mine]
        if problem.population is None:
            order = np.argsort(trials, kind="stable")
            return np.arange(len(order)), scores[order], bool((trials >= 0).all())
        arms = np.full(len(trials), arm, dtype=np.int64)
        _, turns, scores = in_turns(problem, self.missing, trials, arms, examples, scores)
        return turns, scores, True


def compare_two(
    comparer: Comparer | None,
    prompts: Prompts,
    a: AnyPrompt,
    b: AnyPrompt | None,
    default: int | None,
    confidence: float,
    tolerance: float,
) -> Comparison:
    """Two prompts as somebody named them; see `Result.compare`. `default` is the arm that stands for b if b is None."""
    check_part("The confidence", confidence)
    check_number("The tolerance", tolerance, 0.0, LARGEST)
    one = prompts.arm(a)
    other = default if b is None else prompts.arm(b)
    if other is None:
        raise InvalidArgumentError("compare() needs b, since there is no baseline and nothing is selected yet.")
    if one == other:
        what = "" if b is not None else " (by default b is the baseline, or else the selected prompt)"
        raise InvalidArgumentError(f"compare() needs two different prompts, got {short(a)} twice{what}.")
    if comparer is None:
        raise InvalidArgumentError(
            "This result holds no scores to compare prompts by: it was not made by a selector or a study here. "
            "RemoteStudy.compare(a, b) asks a service."
        )
    return comparer((one, prompts.ids[one]), (other, prompts.ids[other]), confidence, tolerance)
