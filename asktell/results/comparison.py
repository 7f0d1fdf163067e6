"""Comparisons of two prompts, with the difference, its interval and the probability that one is better."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from asktell._util.terminal import in_percent, safe
from asktell.errors import InvalidArgumentError
from asktell.numerics.arrays import Floats
from asktell.numerics.shapes import Float
from asktell.posterior.statement import Statement
from asktell.problem.checks import LARGEST, check_number, check_part
from asktell.problem.objectives import check_less_than_range
from asktell.problem.problem import Problem
from asktell.problem.prompts import AnyPrompt, Prompts
from asktell.problem.words import short, some
from asktell.proofs.bounds import n_sequences
from asktell.proofs.ordered import common_scores
from asktell.record import Failures, History, Pull
from asktell.results import notebook
from asktell.results.difference import BETTER, EQUAL, WORSE, Difference, compare
from asktell.results.entries import capitalized, quoted
from asktell.results.flips import Flips, at_rate
from asktell.results.printing import printable, with_doubt

# From this probability, a sentence calls the difference probable. A judgement: few
# people call 51% probable.
_PROBABLY = 0.6


@dataclass(frozen=True)
class ChangedExample:
    """An example on which prompts a and b differ. From `Comparison.regressions` or `Comparison.improvements`.

    Attributes:
        example: the id of the example, or its position if the examples have no ids.
        a: the mean score of prompt a on the example, in the metric's units.
        b: the mean score of prompt b on the example.
        evaluations_a: the number of evaluations of prompt a on the example.
        evaluations_b: the number of evaluations of prompt b on the example.
        false_rate: the probability that this entry is a false alarm, so that the
            difference is only noise. In a list of regressions, a is then not really
            worse on this example. In a list of improvements, a is not really better.
    """

    example: str | int
    a: float
    b: float
    evaluations_a: int
    evaluations_b: int
    false_rate: float


@dataclass(frozen=True)
class Noise:
    """How many examples have different scores, and how many would differ by noise alone. `str()` is a sentence.

    Attributes:
        differ: the number of examples on which the first evaluations of the two prompts
            differ.
        examples: the number of examples on which both prompts were evaluated.
        share: the share of examples on which two evaluations of prompt a would differ.
            0 if repeated evaluations always give the same scores. None if it is
            unknown. To estimate it, all scores must be 0 or 1, and some examples must
            have been evaluated several times.
    """

    differ: int
    examples: int
    share: float | None

    @property
    def expected(self) -> float | None:
        """The expected number of examples on which two runs of prompt a would differ. None if it is unknown."""
        return None if self.share is None else self.share * self.examples

    def __str__(self) -> str:
        plural = "" if self.examples == 1 else "s"
        differing = f"The two prompts scored differently on {self.differ:,} of {self.examples:,} example{plural}."
        if self.expected is None:
            return f"{differing} It is not known how often two runs of the same candidate would differ."
        if self.share == 0.0:
            return f"{differing} Repeated evaluations do not differ."
        rate = f"{100 * (self.share or 0.0):.2g}%"
        return (
            f"{differing} With the measured noise, two runs of the same candidate would differ on about "
            f"{self.expected:,.0f} of {self.examples:,} examples ({rate})."
        )


_Changes: TypeAlias = Callable[[str], Flips | None]
"""A metric -> the examples on which two prompts differ. None without examples, or if the scores are doubtful."""


@dataclass(frozen=True)
class Comparison:
    """Prompt a compared with prompt b in every metric.

    In Python, `Result.compare` makes it, and `str()` turns it into a sentence for each
    metric.

        >>> import asktell
        >>> scores = [[1, 1, 1, 0] * 10, [1, 0, 1, 0] * 10, [0, 0, 1, 0] * 10]
        >>> goal = asktell.BestFeasible(asktell.maximize("accuracy", range=(0, 1)))
        >>> result = asktell.analyze(scores, goal, prompts=["a", "b", "c"])
        >>> comparison = result.compare("a", "b")
        >>> difference = comparison.differences["accuracy"]
        >>> difference.verdict, round(difference.estimate, 2), difference.pairs
        ('better', 0.23, 40)
        >>> [changed.example for changed in comparison.improvements(fdr=1)][:3]
        [1, 5, 9]

    Attributes:
        a: the id of prompt a.
        b: the id of prompt b.
        confidence: the probability that all intervals contain the true differences.
        differences: metric -> the difference a minus b, with its interval.
        examples: the number of examples. None if it is unlimited.
        tolerances: metric -> the difference up to which the two prompts count as equal,
            in the metric's units. Metrics without a tolerance are left out.
        looks_once: True if the intervals are for one look: at a finished table, or at
            the end of a selection whose budget was fixed beforehand. Otherwise they
            hold no matter how often you look, and are wider.

    The premises of the intervals are the `checks` of the result.
    """

    a: str | int
    b: str | int
    confidence: float
    differences: Mapping[str, Difference]
    examples: int | None = None
    tolerances: Mapping[str, float] = field(default_factory=dict)
    looks_once: bool = False
    _changes: _Changes | None = field(default=None, repr=False, compare=False)
    _example_ids: tuple[str, ...] | None = field(
        default=None, repr=False, compare=False
    )
    _minimized: Collection[str] = field(default=(), repr=False, compare=False)

    def regressions(
        self, fdr: float = 0.1, metric: str | None = None
    ) -> tuple[ChangedExample, ...]:
        """The examples on which prompt a is really worse than prompt b. The most certain come first.

        Scores also differ by noise. For example, two runs of the same agent often
        differ on a fifth of the examples. The amount of noise is estimated from
        repeated evaluations. Without repeats, differences in both directions look like
        noise. Examples are then listed only if nearly all differences go in one
        direction.

        Args:
            fdr: the largest allowed `false_rate`, the probability that an entry is a
                false alarm. Above 0 and at most 1. With 1, all examples are listed on
                which the mean score of a is worse.
            metric: the metric, by default the first objective.

        Raises:
            InvalidArgumentError: `fdr` is not above 0 and at most 1, the metric is
                unknown, or the comparison has no scores because it came over HTTP or
                from JSON.
        """
        return self._changed(fdr, metric, wanted=-1)

    def improvements(
        self, fdr: float = 0.1, metric: str | None = None
    ) -> tuple[ChangedExample, ...]:
        """The examples on which prompt a is really better than prompt b. The most certain come first.

        The arguments and errors are those of `regressions`.
        """
        return self._changed(fdr, metric, wanted=1)

    def noise(self, metric: str | None = None) -> Noise | None:
        """How many examples have different scores, and how many would differ between two runs of prompt a.

        None if no example was evaluated with both prompts, or if a remark says that the
        scores are doubtful.

        Args:
            metric: the metric, by default the first objective.

        Raises:
            InvalidArgumentError: the metric is unknown, or the comparison has no scores
                because it came over HTTP or from JSON.
        """
        flips = self._flips(metric)
        if flips is None or not len(flips.examples):
            return None
        return Noise(flips.differ, len(flips.examples), flips.noise)

    def _changed(
        self, fdr: float, metric: str | None, wanted: int
    ) -> tuple[ChangedExample, ...]:
        """The regressions (`wanted` -1) or the improvements (1)."""
        fdr = check_number("fdr", fdr, 0.0, 1.0, above=True)
        flips = self._flips(metric)
        if flips is None:
            return ()
        name = self._metric(metric)
        sign = -wanted if name in self._minimized else wanted
        rates = flips.not_less if sign < 0 else flips.not_more
        rows = [
            row
            for row in at_rate(rates, fdr)
            if sign * (flips.a[row] - flips.b[row]) > 0.0
        ]
        ids = self._example_ids
        return tuple(
            ChangedExample(
                example=int(flips.examples[row])
                if ids is None
                else ids[int(flips.examples[row])],
                a=float(flips.a[row]),
                b=float(flips.b[row]),
                evaluations_a=int(flips.times_a[row]),
                evaluations_b=int(flips.times_b[row]),
                false_rate=float(rates[row]),
            )
            for row in rows
        )

    def _metric(self, metric: str | None) -> str:
        name = next(iter(self.differences)) if metric is None else metric
        if name not in self.differences:
            metrics = some(list(self.differences))
            raise InvalidArgumentError(
                f"There is no metric {short(name)}. The metrics are {metrics}."
            )
        return name

    def _flips(self, metric: str | None) -> Flips | None:
        name = self._metric(metric)
        if self._changes is None:
            raise InvalidArgumentError(
                "This comparison has no scores by example, because it came over HTTP or from JSON. Use a Selector or a "
                "Study in this process: study.compare(a, b).regressions()."
            )
        return self._changes(name)

    @property
    def guaranteed(self) -> bool:
        """True if the intervals of all metrics are guaranteed. See `Difference.guaranteed`."""
        return all(difference.guaranteed for difference in self.differences.values())

    def to_dict(self) -> dict[str, Any]:
        """The comparison as a mapping that JSON can represent.

        Its keys are the names of the attributes, and "guaranteed".
        """
        plain = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if not field.name.startswith("_")
        }
        differences = {
            name: asdict(difference) for name, difference in self.differences.items()
        }
        return {
            **plain,
            "differences": differences,
            "tolerances": dict(self.tolerances),
            "guaranteed": self.guaranteed,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Comparison":
        """Read a comparison from a mapping that `to_dict` returned."""
        differences = {
            name: Difference(**difference)
            for name, difference in data["differences"].items()
        }
        columns = {
            name: data[name]
            for name in ("a", "b", "confidence", "examples", "tolerances", "looks_once")
        }
        return cls(**columns, differences=differences)

    def __str__(self) -> str:
        lines = (
            f"{safe(name)}{' (lower is better)' * (name in self._minimized)}: {self.sentence(name)}"
            for name in self.differences
        )
        return printable("\n".join(lines))

    def _repr_html_(self) -> str:
        a, b = quoted(self.a), quoted(self.b)
        verdicts = ", ".join(
            f"{each.verdict} in {metric}" for metric, each in self.differences.items()
        )
        rows = []
        for metric, each in self.differences.items():
            interval = (
                "-"
                if each.low is None or each.high is None
                else f"{each.low:+.3g} to {each.high:+.3g}"
            )
            estimate = "-" if each.estimate is None else f"{each.estimate:+.3g}"
            rows.append(
                [
                    metric,
                    estimate,
                    interval,
                    with_doubt(each.p_better),
                    str(each.pairs),
                    each.verdict,
                ]
            )
        head = [
            "metric",
            f"{a} minus {b}",
            f"{self._percent} interval",
            "P(better)",
            "common examples",
            "verdict",
        ]
        return notebook.block(
            notebook.heading(f"{a} against {b}: {verdicts}."),
            notebook.table(head, rows),
        )

    @property
    def _percent(self) -> str:
        """The confidence, such as "95%"."""
        return f"{100 * self.confidence:g}%"

    def sentence(self, metric: str) -> str:
        """The comparison in one metric as a sentence: the better prompt, the difference and its interval.

        Args:
            metric: the name of a metric, a key of `differences`.
        """
        difference = self.differences[metric]
        if difference.estimate is None:
            both = f"{quoted(self.a)} and {quoted(self.b)}"
            return capitalized(f"{both} have no common example yet.")
        claim = self._claim(difference, self.tolerances.get(metric, 0.0))
        amount = self._amount(difference)
        # The data of a claim follow a colon. A reason may not have data after it.
        is_doubted = claim.endswith(".")
        return capitalized(
            f"{claim} Estimated {amount}." if is_doubted else f"{claim}: {amount}."
        )

    def _doubt(self, difference: Difference) -> str:
        """Why a difference is not established, although its estimated probability may be high."""
        if not difference.pairs:
            return "they have no common examples"
        if difference.low is None or difference.high is None:
            return (
                "there is no interval yet. To get one, declare the metric's range, or evaluate both on more common "
                "examples"
            )
        return (
            f"the {self._percent} interval includes 0. The probability depends on a statistical model, but the "
            "interval does not"
        )

    def _claim(self, difference: Difference, tolerance: float) -> str:
        """Which prompt is better, without the numbers. A claim in doubt ends with a period."""
        a, b = quoted(self.a), quoted(self.b)
        if difference.verdict == EQUAL:
            is_exact = difference.low == difference.high == 0.0
            within = f" within the tolerance of {tolerance:g}" * (
                tolerance > 0.0 and not is_exact
            )
            return f"{a} and {b} are equal{within}"
        if difference.verdict in (BETTER, WORSE):
            return f"{a} is {difference.verdict} than {b}"
        if difference.estimate == 0:
            return f"{a} and {b} have the same mean so far"
        word, probability = BETTER, difference.p_better
        if probability < 0.5:
            word, probability = WORSE, 1.0 - probability
        if probability < _PROBABLY:
            # In terms of a, as the difference is
            p_better = in_percent(difference.p_better)
            return f"{a} and {b} cannot be ranked yet (estimated probability that {a} is better: {p_better})."
        # The probability rests on the model of all scores, the interval on the common
        # examples alone. So a probability over 99% does not contradict the interval.
        return (
            f"{a} is probably {word} than {b} (estimated probability {in_percent(probability)}). This is not "
            f"established, because {self._doubt(difference)}."
        )

    def _amount(self, difference: Difference) -> str:
        """The difference, its interval and the number of common examples."""
        estimate = _signed(difference.estimate)
        if not difference.pairs:
            return f"difference {estimate}"
        parts = [f"difference {estimate}"]
        has_interval = difference.low is not None and difference.high is not None
        if has_interval and difference.low != difference.high:
            looks = "" if self.looks_once else " at every look"
            parts.append(
                f"{self._percent} interval{looks} {_signed(difference.low)} to {_signed(difference.high)}"
            )
        # Not "5 of 20 common examples": 20 is the number of all examples
        of = "" if self.examples is None else f" of {self.examples}"
        plural = "" if difference.pairs == 1 else "s"
        common = f"{difference.pairs} common example{plural}{of}"
        if difference.pairs == self.examples:
            common = f"all {self.examples} examples" if plural else "the only example"
            if has_interval and difference.low == difference.high:
                common = f"exact for the given examples, since both were evaluated on {common}"
        # In parentheses, because the estimate also uses other examples
        return f"{', '.join(parts)} ({common})"


def _signed(number: float | None) -> str:
    """A difference with its sign, in three digits. 0 has no sign."""
    return f"{number:+.3g}" if number else "0"


Place: TypeAlias = tuple[int, str | int]
Comparer: TypeAlias = Callable[[Place, Place, float, float | None], Comparison]
"""Two prompts, each as (position, id), a confidence and a tolerance or None -> their comparison."""


# Of the largest mean of a metric: a smaller difference is an error of rounding. Sums of
# thousands of scores lose up to six of a double's sixteen digits.
_ROUNDING = 1e-9


def lead(
    draws: Float[Floats, "draws arms"],
    means: Float[Floats, " arms"],
    a: int,
    b: int,
    minimize: bool,
) -> tuple[float, float]:
    """The lead of arm a over arm b, and the probability that a is better. Ties count half.

    A difference that is only an error of rounding counts as 0. Its sign would depend on
    the processor.

    Args:
        draws: joint draws of a metric's means, in units of the metric.
        means: the expectations of these means.
        a: the first arm.
        b: the second arm.
        minimize: whether less is better.
    """
    rounding = _ROUNDING * float(np.abs(draws).max(initial=0.0))
    differences = np.append(draws[:, a] - draws[:, b], means[a] - means[b])
    differences[np.abs(differences) <= rounding] = 0.0
    ahead = np.sign(differences[:-1]) * (-1.0 if minimize else 1.0)
    return float(differences[-1]), float((1.0 + ahead).mean() / 2.0)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Compares prompts, with everything that was recorded when the result was made.

    Attributes:
        problem: the problem.
        seen: the problem with the number of repeats and the noise that were observed
            (see `State.seen`).
        history: the recorded evaluations.
        missing: the failed evaluations.
        out: the pending evaluations.
        stated: the posterior, None if nothing was recorded.
        doubtful: whether a remark marks the scores as doubtful.
        late: the arms that were added after the first scores, which may have been used
            to write them.
        has_drifted: whether the scores seem to have changed during the run.
        looks_once: whether the intervals are for one look: at a finished table, or after a
            selection that ended with the budget that it began with.
        selected: the selected arms. They were chosen by the same scores, so an interval
            of their lead pays for a choice among all evaluated arms (Bonferroni).
    """

    problem: Problem
    seen: Problem
    history: History
    missing: Failures
    out: Sequence[Pull]
    stated: Statement | None
    doubtful: bool
    late: Collection[int] = ()
    has_drifted: Callable[[], bool] = lambda: False
    looks_once: bool = False
    selected: Collection[int] = ()

    def __call__(
        self, a: Place, b: Place, confidence: float, tolerance: float | None
    ) -> Comparison:
        """Compare two prompts. The error is divided among the metrics."""
        goal = self.problem.goal
        (arm_a, id_a), (arm_b, id_b) = a, b
        tolerances = dict(goal.tolerances)
        if tolerance is not None:
            tolerances = dict.fromkeys(goal.columns, tolerance) if tolerance else {}
        for metric in tolerances.keys() & goal.ranges.keys():
            name = f"The tolerance for {metric!r}"
            check_less_than_range(name, tolerances[metric], goal.ranges[metric])
        of_a, of_b, is_whole = self._common(arm_a, arm_b)
        # Doubtful scores guarantee nothing. After a change of the model, scores are not
        # identically distributed.
        is_late = arm_a in self.late or arm_b in self.late
        holds = (
            is_whole and not is_late and not self.doubtful and not self.has_drifted()
        )
        # The failure rate is the last column, if it is constrained. It has no scores to
        # compare.
        compared = goal.columns[: len(goal.columns) - goal.counts_failures]
        error = (1 - confidence) / (len(compared) * n_sequences(self.seen))
        if arm_a in self.selected or arm_b in self.selected:
            error /= max(1, len(np.unique(self.history.arms())) - 1)
        differences: dict[str, Difference] = {}
        for j, metric in enumerate(compared):
            minimize = metric in goal.minimized
            estimate, p_better = self._lead(j, arm_a, arm_b, minimize)
            differences[metric] = compare(
                of_a[:, j], of_b[:, j], estimate, p_better,
                population=self.seen.examples.target, limits=goal.ranges.get(metric), confidence=1 - error,
                tolerance=tolerances.get(metric, 0.0), minimize=minimize, rounds=self.seen.examples.rounds,
                guaranteed=holds, looks_once=self.looks_once,
            )  # fmt: skip
        # Changed examples are found only when they are asked for.
        ids = self.problem.examples.ids
        changes = partial(self._changes, arm_a, arm_b)
        return Comparison(
            id_a,
            id_b,
            confidence,
            differences,
            self.problem.examples.population,
            {name: tolerances[name] for name in compared if name in tolerances},
            self.looks_once,
            changes,
            ids,
            goal.minimized,
        )

    def _changes(self, a: int, b: int, metric: str) -> Flips | None:
        """The examples on which two arms differ in a metric."""
        if self.doubtful or self.problem.examples.n is None:
            return None
        history, problem = self.history, self.problem
        scores = history.scores()[:, problem.goal.columns.index(metric)]
        is_exact = problem.examples.exact and not self.seen.examples.differs
        return Flips.of(history.arms(), history.examples(), scores, a, b, is_exact)

    def _lead(
        self, metric: int, a: int, b: int, minimize: bool
    ) -> tuple[float | None, float]:
        """The lead of a over b, and P(a is better), by the model. None and 0.5 if one of them has no score."""
        stated, scored = self.stated, self.history.arms()
        if stated is None or not (scored == a).any() or not (scored == b).any():
            return None, 0.5
        estimate, p_better = lead(
            stated.columns[metric], stated.means[:, metric], a, b, minimize
        )
        return estimate, 0.5 if stated.is_guess or self.doubtful else p_better

    def _common(
        self, a: int, b: int
    ) -> tuple[Float[Floats, "n metrics"], Float[Floats, "n metrics"], bool]:
        """Paired scores (n, m) of both arms for confidence statements, and whether these statements are guaranteed.

        The pairs are the first examples of the shared order that both arms have
        completed. The order does not depend on scores. The number of pairs may, and
        confidence sequences allow that. If an evaluation failed, its score cannot be
        known. Arms that draw their own examples are paired draw by draw.
        """
        history, problem, missing = self.history, self.seen, self.missing
        if self.doubtful:
            nothing = history.scores()[:0]
            return nothing, nothing, False
        if problem.examples.population is None:
            (of_a, drawn_a), (of_b, drawn_b) = self._draws(a), self._draws(b)
            n = min(len(of_a), len(of_b))
            # A draw from given examples can repeat an example, which is not a new
            # input.
            return (
                of_a[:n],
                of_b[:n],
                drawn_a and drawn_b and problem.examples.n is None,
            )
        return common_scores(problem, history, missing, self.out, a, b)

    def _draws(self, arm: int) -> tuple[Float[Floats, "n metrics"], bool]:
        """Scores of one arm in the order drawn, up to a pending evaluation, and whether the method drew all of them."""
        history = self.history
        # A pending score may be late because of its value, so all draws after it wait.
        mine = history.arms() == arm
        trials, scores = history.trials()[mine], history.scores()[mine]
        first_out = min(
            (p.trial for p in self.out if p.arm == arm and p.trial is not None),
            default=np.inf,
        )
        order = np.argsort(trials, kind="stable")
        order = order[trials[order] < first_out]
        failed = bool((self.missing.pulls.arms() == arm).any())
        return scores[order], bool((trials >= 0).all()) and not failed


def compare_two(
    comparer: Comparer | None,
    prompts: Prompts,
    a: AnyPrompt,
    b: AnyPrompt | None,
    default: int | None,
    confidence: float,
    tolerance: float | None,
) -> Comparison:
    """Compare two prompts, given as in `Result.compare`. `default`: the arm to use if b is None."""
    confidence = check_part("The confidence", confidence)
    if tolerance is not None:
        tolerance = check_number("The tolerance", tolerance, 0.0, LARGEST)
    first = prompts.arm(a)
    second = default if b is None else prompts.arm(b)
    if second is None:
        raise InvalidArgumentError(
            "compare() needs b, because there is no baseline and no prompt is selected yet."
        )
    if first == second:
        what = f"a and b are both the prompt {short(a)}. Pass another prompt as b."
        if b is None:
            what = (
                f"the prompt {short(a)} would be compared with itself. Pass another prompt as b. Without b, the other "
                "prompt is the baseline, or the selected prompt if there is no baseline."
            )
        raise InvalidArgumentError(f"compare() needs two different prompts, but {what}")
    if comparer is None:
        raise InvalidArgumentError(
            "This result has no scores to compare, because it was loaded from JSON or came over HTTP. Call compare(a, "
            "b) of the Selector, the Study or the RemoteStudy."
        )
    return comparer(
        (first, prompts.ids[first]),
        (second, prompts.ids[second]),
        confidence,
        tolerance,
    )
