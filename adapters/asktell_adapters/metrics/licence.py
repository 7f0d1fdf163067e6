"""A judge's licence: how often a judge agrees with people, which judge that is, and the file that says so.

`asktell judge` chooses a judge among several by labels that people gave, and writes the
licence of the chosen one. Wherever the judge's scores decide something, the licence is
checked: it must be for this rubric, this model and these settings, and the lower bound
of its agreement must not be below a floor.

The file names the judge by digests. It has neither a response nor a label, and no
secret. Its checksum shows that the file was damaged or edited. It is no signature:
whoever can write the file can also write another checksum.
"""

import datetime
import hashlib
import json
import math
import numbers
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np

from asktell import InvalidArgumentError
from asktell.extend import one_line, short, write_atomically
from asktell_adapters.metrics.rubric import distinct_keys

FORMAT, VERSION = "asktell.judge", 1
ACCURACY, KAPPA = "accuracy", "weighted kappa"
CONFIDENCE = 0.95
"""Confidence of the intervals in a licence."""
PARTS = ("rubric", "model", "settings")
"""What a judge consists of. A licence has a digest of each part."""

_MOST_BYTES = 100_000  # a licence has about 1,000, and some for each favored prompt
_AGAIN = "Make the licence again by `asktell judge`, or restore the file"


class Share(NamedTuple):
    """A share of labels.

    Attributes:
        number: number of labels that count.
        of: number of all labels.
        low: lower bound of the share.
        high: upper bound.
    """

    number: int
    of: int
    low: float
    high: float

    @classmethod
    def counted(cls, number: int, of: int, error: float) -> "Share":
        """A share with its exact interval, which is wrong with a probability of at most `error`.

        Source: Clopper & Pearson 1934.
        """
        from scipy import stats  # here, as it takes half a second

        low = stats.beta.ppf(error / 2, number, of - number + 1) if number else 0.0
        high = (
            stats.beta.isf(error / 2, number + 1, of - number) if number < of else 1.0
        )
        return cls(number, of, float(low), float(high))

    @property
    def is_valid(self) -> bool:
        """Whether the share may be one that was counted, for shares from a file."""
        if not all(map(_is_finite, self)):
            return False
        share = self.number / self.of if self.of else 0.0
        is_counted = isinstance(self.number, int) and isinstance(self.of, int)
        return is_counted and self.number >= 0 and 0 <= self.low <= share <= self.high <= 1  # fmt: skip


@final
@dataclass(frozen=True)
class Licence:
    """The agreement of one judge with labels by people.

    All intervals allow for the choice: they hold with 95% probability for whichever of
    the `candidates` was chosen, by these labels or otherwise.

    Attributes:
        judge: name of the judge among the candidates, such as "strict/gpt-4o".
        model: name of its LLM, or of its LLMs.
        digests: part of the judge ("rubric", "model", "settings") -> digest.
        measure: "accuracy": the share of responses that judge and people both pass or
            both fail. "weighted kappa": agreement of grades beyond chance (see
            `weighted_kappa`).
        labels: number of labeled responses.
        candidates: number of judges that this one was chosen among.
        agreement: the measure on these labels.
        low: lower bound of the measure.
        high: upper bound.
        confidence: probability with which the intervals hold.
        pass_at: lowest grade with which a response passes.
        false_passes: of the responses that people fail, those that the judge passes.
        false_fails: of the responses that people pass, those that the judge fails.
        favored: prompt -> how much higher the judge grades its responses than other
            responses with the same labels, in grades. Below 0, it grades them lower.
            Only prompts for which chance does not explain it (see `favored`).
        failures: number of responses that the judge could not grade. They count as the
            worst disagreement.
        cost: mean cost of a judgment, in the currency of the price. None if unknown.
        date: day on which the agreement was measured, such as "2026-01-31".
    """

    judge: str
    model: str
    digests: Mapping[str, str]
    measure: str
    labels: int
    candidates: int
    agreement: float
    low: float
    high: float
    confidence: float
    pass_at: float
    false_passes: Share
    false_fails: Share
    favored: Mapping[str, float]
    failures: int
    cost: float | None
    date: str

    @classmethod
    def measured(
        cls,
        judge: str,
        model: str,
        digests: Mapping[str, str],
        labels: Sequence[float],
        grades: Sequence[float | None],
        scale: Sequence[float],
        *,
        measure: str = ACCURACY,
        pass_at: float | None = None,
        prompts: Sequence[str] | None = None,
        candidates: int = 1,
        cost: float | None = None,
        date: str | None = None,
    ) -> "Licence":
        """The licence of a judge that has graded labeled responses.

        Args:
            judge: name of the judge.
            model: name of its LLM.
            digests: digests of its parts.
            labels: grades by people, on the scale.
            grades: grades by the judge of the same responses, None where it failed.
            scale: all possible grades, ascending.
            measure: "accuracy" or "weighted kappa".
            pass_at: lowest grade with which a response passes (default: the lowest
                above the middle of the scale).
            prompts: the prompt of each response. None if they are unknown.
            candidates: number of judges that this one was chosen among.
            cost: mean cost of a judgment.
            date: day of the measurement (default: today).

        Raises:
            InvalidArgumentError: there are no labels, or all are of one kind.
        """
        pass_at = passing(scale) if pass_at is None else pass_at
        check_labels(labels, measure, pass_at)
        people = np.asarray(labels, dtype=float)
        by_judge = np.array(
            [
                worst(label, scale, pass_at, measure) if grade is None else grade
                for label, grade in zip(labels, grades, strict=True)
            ]
        )
        # A union bound over the judges (Bonferroni): whichever was chosen, its interval
        # is wrong only if one of so many is.
        error = (1.0 - CONFIDENCE) / candidates
        right, passed = people >= pass_at, by_judge >= pass_at
        n = len(people)
        if measure == ACCURACY:
            share = Share.counted(int((right == passed).sum()), n, error)
            agreement, low, high = share.number / n, share.low, share.high
        else:
            agreement = weighted_kappa(people, by_judge)
            low, high = kappa_interval(people, by_judge, error)
        return cls(
            judge, model, dict(digests), measure, n, candidates, agreement, low, high, CONFIDENCE, pass_at,
            Share.counted(int((passed & ~right).sum()), int((~right).sum()), error),
            Share.counted(int((~passed & right).sum()), int(right.sum()), error),
            {} if prompts is None else favored(prompts, labels, grades),
            sum(grade is None for grade in grades), cost,
            date or today(),
        )  # fmt: skip

    @property
    def sentence(self) -> str:
        """The agreement in one sentence."""
        if self.measure == ACCURACY:
            agreement = f"agrees with people on {self.agreement:.0%} of {self.labels:,} labeled responses"
            interval = f"{self.low:.1%} to {self.high:.1%}"
        else:
            agreement = (
                f"agrees with people on {self.labels:,} labeled responses with a weighted kappa of "
                f"{self.agreement:.2f}"
            )
            interval = f"{self.low:.3f} to {self.high:.3f}"
        among = (
            f", chosen among {self.candidates:,} judges" if self.candidates > 1 else ""
        )
        return f"{agreement} ({self.confidence:.0%} interval {interval}{among}, {self.date})"

    @property
    def errors(self) -> str:
        """The false passes and the false fails in one sentence, or two if the judge failed on responses."""
        passes, fails = self.false_passes, self.false_fails
        words = (
            f"It passes {passes.number:,} of the {passes.of:,} responses that people fail ({passes.low:.0%} to "
            f"{passes.high:.0%}), and fails {fails.number:,} of the {fails.of:,} that people pass ({fails.low:.0%} to "
            f"{fails.high:.0%})."
        )
        if self.failures:
            words += f" It gave no grade to {self.failures:,} of them, which count as the worst disagreement."
        return words

    @property
    def favors(self) -> str:
        """A warning if the judge favors or disfavors prompts. Empty otherwise."""
        if not self.favored:
            return ""
        names = ", ".join(
            f'"{one_line(prompt, 60)}" ({by:+.2f})'
            for prompt, by in self.favored.items()
        )
        return (
            f"With the same labels, it does not grade the responses of all prompts alike: {names}. A comparison of "
            "these prompts by this judge may be wrong."
        )

    @property
    def blind(self) -> str:
        """A warning if a judge that reads nothing could agree as often. Empty otherwise."""
        most = max(self.false_passes.of, self.false_fails.of)
        share = most / self.labels
        if self.measure != ACCURACY or self.low > share:
            return ""
        verb = "passes" if most == self.false_fails.of else "fails"
        return (
            f"A judge that {verb} every response would agree on {share:.0%}, so the agreement is not established to be "
            f"better than that. Label more responses that people {'fail' if verb == 'passes' else 'pass'}."
        )

    def difference(self, digests: Mapping[str, str]) -> str:
        """The parts of a judge that differ from the licensed one, in words. Empty if none does."""
        parts = [part for part in PARTS if digests.get(part) != self.digests[part]]
        if not parts:
            return ""
        *others, last = parts
        if others:
            return f"{', '.join(others)} and {last} differ"
        return "settings differ" if last == "settings" else f"{last} differs"

    def to_dict(self) -> dict[str, Any]:
        """The licence as JSON data, with a checksum."""
        data = {"format": FORMAT, "version": VERSION, **asdict(self)}
        data["digests"], data["favored"] = dict(self.digests), dict(self.favored)
        for name in ("false_passes", "false_fails"):
            data[name] = data[name]._asdict()
        return {**data, "checksum": _checksum(data)}

    def write(self, path: str | Path) -> None:
        """Write the licence to a file of JSON."""
        write_atomically(Path(path), json.dumps(self.to_dict(), indent=2) + "\n")

    @classmethod
    def read(cls, path: str | Path) -> "Licence":
        """Read a licence.

        Raises:
            InvalidArgumentError: there is no file, or it is no licence, damaged, or of
                another version.
        """
        path = Path(path)
        try:
            # No more than that is read, since a device or a pipe has no size
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise _not_a_licence(path, "it is too large")
            text = content.decode("utf-8-sig")
        except FileNotFoundError:
            raise InvalidArgumentError(
                f"There is no licence {str(path)!r}. Make it by `asktell judge CONFIG --labels FILE`."
            ) from None
        except OSError as error:
            raise InvalidArgumentError(
                f"{str(path)!r} cannot be read ({error.strerror}). Give the path of a judge's licence."
            ) from error
        except UnicodeDecodeError:
            raise _not_a_licence(path, "it is not text in UTF-8") from None
        try:
            data = json.loads(
                text, parse_constant=_refuse_constant, object_pairs_hook=distinct_keys
            )
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(
                f"{str(path)!r} is not complete JSON ({error}). {_AGAIN}."
            ) from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise _not_a_licence(path, f'it lacks "format": "{FORMAT}"')
        if data.get("version") != VERSION:
            raise InvalidArgumentError(
                f"{str(path)!r} has the version {short(data.get('version'))}, but this asktell reads version "
                f"{VERSION}. Make the licence again by `asktell judge`, or use the asktell that made it."
            )
        checksum = data.pop("checksum", None)
        if checksum != _checksum(data):
            raise InvalidArgumentError(
                f"{str(path)!r} was changed after it was written: its checksum is wrong. {_AGAIN}."
            )
        try:
            return cls._from(data)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"{str(path)!r} is damaged ({type(error).__name__}: {error}). {_AGAIN}."
            ) from None

    @classmethod
    def _from(cls, data: Mapping[str, Any]) -> "Licence":
        """The licence of checked JSON data.

        Raises:
            KeyError: a field is missing.
            TypeError: a field is of another type.
            ValueError: a field is out of its range.
            OverflowError: a number has too many digits.
        """
        values: dict[str, Any] = {field.name: data[field.name] for field in fields(cls)}
        for name, kind in _TYPES.items():
            if isinstance(values[name], bool) or not isinstance(values[name], kind):
                raise TypeError(f"{name} is {short(values[name])}")
        for name in ("false_passes", "false_fails"):
            values[name] = Share(**values[name])
        if not all(isinstance(values["digests"].get(part), str) for part in PARTS):
            raise KeyError("digests")
        datetime.date.fromisoformat(values["date"])
        licence = cls(**values)
        licence._check()
        return licence

    def _check(self) -> None:
        """Check the ranges of all numbers, whose types are right.

        Raises:
            ValueError: a number is out of its range.
        """
        cost = 0.0 if self.cost is None else self.cost
        is_right = {
            "measure": self.measure in (ACCURACY, KAPPA),
            "labels": self.labels >= 1,
            "candidates": self.candidates >= 1,
            "failures": 0 <= self.failures <= self.labels,
            "confidence": 0 < self.confidence < 1,
            "pass_at": math.isfinite(self.pass_at),
            "cost": math.isfinite(cost) and cost >= 0,
            "favored": all(map(_is_finite, self.favored.values())),
            "false_passes": self.false_passes.is_valid,
            "false_fails": self.false_fails.is_valid,
        }
        for name, is_in_range in is_right.items():
            if not is_in_range:
                raise ValueError(f"{name} is {short(getattr(self, name))}")
        if self.false_passes.of + self.false_fails.of != self.labels:
            raise ValueError("false_passes and false_fails are not of all labels")
        lowest = 0 if self.measure == ACCURACY else -1
        if not lowest <= self.low <= self.agreement <= self.high <= 1:
            raise ValueError("the bounds are not in order")


_NUMBER = (int, float)
_TYPES: Mapping[str, Any] = {
    "judge": str, "model": str, "digests": dict, "measure": str, "labels": int, "candidates": int,
    "agreement": _NUMBER, "low": _NUMBER, "high": _NUMBER, "confidence": _NUMBER, "pass_at": _NUMBER,
    "false_passes": dict, "false_fails": dict, "favored": dict, "failures": int,
    "cost": (int, float, type(None)), "date": str,
}  # fmt: skip


@final
@dataclass(frozen=True)
class Licensing:
    """The demand that a judge has a licence, before its scores establish anything.

    Attributes:
        licence: the licence. None if there is none.
        floor: lowest lower bound of the agreement, from 0 to 1. None for no floor.
        file: the file that should have the licence, for messages. Empty if no file is
            named.

    Raises:
        InvalidArgumentError: the floor is not a number from 0 to 1.
    """

    licence: Licence | None
    floor: float | None = None
    file: str = ""

    def __post_init__(self) -> None:
        floor: Any = self.floor
        is_number = isinstance(floor, int | float) and not isinstance(floor, bool)
        if floor is not None and not (is_number and 0 <= floor <= 1):
            raise InvalidArgumentError(
                f"The floor of a judge's agreement must be a number from 0 to 1, such as 0.85, got {short(floor)}."
            )

    @classmethod
    def of_file(
        cls, path: str | Path | None, floor: float | None = None
    ) -> "Licensing":
        """The demand for the licence in a file. A missing file is a missing licence.

        Raises:
            InvalidArgumentError: the file cannot be read, or the floor is invalid.
        """
        if path is None:
            return cls(None, floor)
        # Path.exists would raise an error for a name that is too long
        licence = Licence.read(path) if os.path.exists(path) else None
        return cls(licence, floor, Path(path).name)

    def remark(
        self, name: str, digests: Mapping[str, str] | None = None
    ) -> tuple[str, bool]:
        """The licence in words, and whether the judge lacks one that covers it.

        Args:
            name: the judge's metric.
            digests: the digests of the judge's parts. None if the judge is unknown,
                because its scores are read from a file.
        """
        licence = self.licence
        if licence is None:
            why = f", because there is no file {self.file!r}" if self.file else ""
            return (
                f'The judge of "{name}" has no licence{why}. So nothing is established. Make a licence by '
                "`asktell judge CONFIG --labels FILE`.",
                True,
            )
        difference = "" if digests is None else licence.difference(digests)
        if difference:
            judge, model = one_line(licence.judge, 120), one_line(licence.model, 120)
            return (
                f'The licence is not for the judge of "{name}", so nothing is established. It is for "{judge}" '
                f"({model}), whose {difference}. Use that judge, or make a licence for this one by `asktell "
                "judge CONFIG --labels FILE`.",
                True,
            )
        words = f'The judge of "{name}" {licence.sentence}. {licence.errors}'
        if self.floor is not None and licence.low < self.floor:
            # With as many digits as show that it is below
            digits = next(n for n in range(3, 18) if round(licence.low, n) < self.floor)
            return (
                f"{words} The lower bound, {licence.low:.{digits}f}, is below the floor of {self.floor:g}, so nothing "
                "is established. Label more responses, or choose a better judge by `asktell judge`.",
                True,
            )
        if digests is None:
            words += " Whether the scores came from this judge cannot be checked."
        return " ".join(filter(None, [words, licence.favors, licence.blind])), False


def scale_of(low: float, high: float, is_pairwise: bool) -> tuple[float, ...]:
    """All grades of a judge, ascending. A comparison has the grades 0, 0.5 and 1."""
    if is_pairwise:
        return (0.0, 0.5, 1.0)
    return tuple(float(grade) for grade in range(int(low), int(high) + 1))


def grade_of(score: float, scale: Sequence[float]) -> float:
    """The grade that is nearest to a score. In the middle between two, it is the lower one."""
    # Rounded, since a mean of opinions may be off the middle by an error of rounding
    return min(scale, key=lambda grade: (round(abs(grade - score), 9), grade))


def passing(scale: Sequence[float]) -> float:
    """The lowest grade above the middle of a scale."""
    middle = (scale[0] + scale[-1]) / 2
    return next(grade for grade in scale if grade > middle)


def worst(label: float, scale: Sequence[float], pass_at: float, measure: str) -> float:
    """The grade that disagrees most with a label."""
    if measure == ACCURACY:
        return scale[0] if label >= pass_at else scale[-1]
    return max(scale, key=lambda grade: abs(grade - label))


def check_labels(labels: Sequence[float], measure: str, pass_at: float) -> None:
    """Refuse labels of one kind, with which every judge that never changes its mind would agree.

    Raises:
        InvalidArgumentError: there are no labels, or all are of one kind.
    """
    if not labels:
        raise InvalidArgumentError("There are no labels. Label some responses.")
    if measure == KAPPA and len(set(labels)) < 2:
        raise InvalidArgumentError(
            f"All {len(labels):,} labels are {labels[0]:g}. A judge's agreement needs labels of at least two grades. "
            "Label more responses."
        )
    passed = sum(label >= pass_at for label in labels)
    if measure == ACCURACY and passed in (0, len(labels)):
        verb = "pass" if passed else "fail"
        raise InvalidArgumentError(
            f"All {len(labels):,} labels {verb} (a response passes with {pass_at:g} or more). A judge that {verb}"
            f"{'es' if passed else 's'} everything would agree with all of them. Label responses of both kinds, or set "
            "`pass_at` in [judge]."
        )


def weighted_kappa(labels: Any, grades: Any) -> float:
    """Cohen's kappa with linear weights: 1 for equal grades, 0 for agreement by chance.

    It is 1 minus the mean distance of grade and label, divided by the mean distance of
    grades and labels that are paired at random (Cohen 1968). With quadratic weights,
    one blunder in a hundred grades could decide, so that no interval from a few labels
    would be reliable.

    Args:
        labels: grades by people, which are not all equal.
        grades: grades by the judge.
    """
    x, y = np.asarray(labels, dtype=float), np.asarray(grades, dtype=float)
    return 1.0 - float(np.abs(x - y).mean() / _distances(x, y).mean())


def kappa_interval(labels: Any, grades: Any, error: float) -> tuple[float, float]:
    """An interval of the weighted kappa, which is wrong with a probability of about `error`.

    It is Student's, of log(1 - kappa), which is nearly normal, by the influence of each
    response. A few labels may contain no blunder although the judge makes some. So the
    lower bound counts one response more, which disagrees as much as the worst of the
    others, and by one grade at least. `benchmarks.selection.judge_licence` measures how
    often the interval is wrong.
    """
    from scipy import stats

    x, y = np.asarray(labels, dtype=float), np.asarray(grades, dtype=float)
    n, distances = len(x), np.abs(x - y)
    # Two responses have no variance to speak of
    if n < 3:
        return -1.0, 1.0
    of_labels, of_grades = _distances(x, y), _distances(y, x)
    by_chance = float(of_labels.mean())
    # As of a U statistic (Hoeffding 1948): each response is in two of its means
    of_chance = (of_labels + of_grades) / by_chance - 2.0
    step = float(np.diff(np.unique(np.concatenate([x, y]))).min())
    reach = float(stats.t.isf(error / 2, n - 1))

    def bound(added: float, sign: float) -> float:
        total = float(distances.sum()) + added
        if not total:
            return 1.0
        influence = (distances - distances.mean()) / (total / n) - of_chance
        variance = float(influence.var(ddof=1)) / n + (added / total) ** 2
        exponent = math.log(total / n / by_chance) + sign * reach * math.sqrt(variance)
        return max(-1.0, 1.0 - math.exp(min(exponent, 1.0)))

    return bound(max(float(distances.max()), step), 1.0), bound(0.0, -1.0)


def favored(
    prompts: Sequence[str], labels: Sequence[float], grades: Sequence[float | None]
) -> dict[str, float]:
    """Prompts whose responses a judge grades higher or lower than others with the same labels.

    The agreement hides a judge that is wrong mostly about one prompt. For each prompt,
    the grades of its responses are compared with those of all responses that have the
    same label (Mantel 1963). If the judge's grades depend on the label alone, the
    result is empty in about 95% of the cases, however many prompts there are (Holm
    1979).

    Args:
        prompts: the prompt of each response.
        labels: grades by people.
        grades: grades by the judge, None where it failed. These are left out.

    Returns:
        Prompt -> mean difference from the grades that its labels let expect.
    """
    graded = [i for i, grade in enumerate(grades) if grade is not None]
    x = np.array([labels[i] for i in graded])
    y = np.array([grades[i] for i in graded], dtype=float)
    names = np.array([prompts[i] for i in graded], dtype=object)
    standing_out: dict[str, float] = {}
    # The others are compared with each other, since a favored prompt would make them
    # look disfavored.
    while (n_prompts := len(set(names.tolist()))) > 1:
        p_value, prompt, difference = min(
            _compared(names == prompt, prompt, x, y)
            for prompt in dict.fromkeys(names.tolist())
        )
        if p_value > (1.0 - CONFIDENCE) / n_prompts:
            break
        standing_out[prompt] = difference
        remaining = names != prompt
        x, y, names = x[remaining], y[remaining], names[remaining]
    return standing_out


def _compared(is_own: Any, prompt: str, x: Any, y: Any) -> tuple[float, str, float]:
    """The p value of Mantel's test for a prompt, its name, and the mean distance of its grades from the expected ones.

    Args:
        is_own: whether each response is of the prompt.
        prompt: the name of the prompt.
        x: the labels.
        y: the grades.
    """
    from scipy import stats

    more, variance = 0.0, 0.0
    for label in np.unique(x):
        alike = x == label
        n, n_own = int(alike.sum()), int((alike & is_own).sum())
        more += float(y[alike & is_own].sum() - n_own * y[alike].mean())
        variance += n_own * (n - n_own) / max(n - 1, 1) * float(y[alike].var())
    if variance <= 0:
        return 1.0, prompt, 0.0
    # Less half a step, as of Yates, since sums of grades are whole numbers of steps
    step = float(np.diff(np.unique(y)).min())
    z = max(0.0, abs(more) - step / 2) / math.sqrt(variance)
    return 2 * float(stats.norm.sf(z)), prompt, more / int(is_own.sum())


def _distances(x: Any, y: Any) -> Any:
    """For each of some grades x, its mean distance from all grades y."""
    grades, counts = np.unique(y, return_counts=True)
    return np.abs(x[:, None] - grades) @ (counts / len(y))


def today() -> str:
    """The day, in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def digest(data: Any) -> str:
    """A digest of JSON data, in which numbers may be of NumPy.

    Raises:
        InvalidArgumentError: a value is no JSON data.
    """
    text = json.dumps(data, sort_keys=True, default=_number_of_json)
    return hashlib.sha256(text.encode()).hexdigest()


def _number_of_json(value: Any) -> float:
    """The number of NumPy as one of Python.

    Raises:
        InvalidArgumentError: the value is no number. Two judges that differ in such a
            value could not be told apart.
    """
    if not isinstance(value, numbers.Real):
        raise InvalidArgumentError(
            f"A licence names a judge by its settings as JSON data, but one of them is {short(value)}. If the "
            "value is from identity() of an LLM, return a text or a number instead."
        )
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _is_finite(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _checksum(data: Mapping[str, Any]) -> str:
    return digest({name: value for name, value in data.items() if name != "checksum"})


def _refuse_constant(name: str) -> Literal[0]:
    raise ValueError(f"{name} is no number of JSON")


def _not_a_licence(path: Path, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{str(path)!r} is no judge's licence, because {why}. Give a file that `asktell judge` wrote."
    )
