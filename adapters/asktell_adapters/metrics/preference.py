"""Which of two answers is better: an LLM as a judge of pairs, and how far people agree with it."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import short
from asktell_adapters._loop import Lock
from asktell_adapters._scores import or_raise
from asktell_adapters.llms.base import Asked, Completion, Example
from asktell_adapters.metrics.judge import Answered, Judge, Judgement, Spent
from asktell_adapters.metrics.rubric import Criterion

Id = TypeVar("Id", bound=str | int)

BASELINE = "baseline"
BETTER = "The answer that does better what the task asks for, as whoever set the task would see it."
_OTHER = "the other answer"  # the column in which the judge finds it
_VERDICTS = (0.0, 0.5, 1.0)
_SIGNIFICANT = 0.05


@final
class Preference:
    """Scores an answer against another one to the same example: 1 if it is better, 0 if it is worse, 0.5 for a tie.

    A judge compares the two in both orders; where the orders disagree, that is a tie. Of several judges or opinions the
    majority counts. Equal answers are a tie without a call, and so is the baseline against itself. The baseline answers
    each example once: the answer comes from the evaluator's cache or goes there, and is kept in memory.

    Args:
        judge: an LLM, a sequence of several, or a `Judge` with criteria and settings of its own.
        against: "baseline", the selection's; or the answers to compare with: a mapping from example id to answer, a
            sequence in the order of the evaluator's examples, a column of the examples' `fields`, or a function of an
            example.
        criteria: name -> what makes an answer better, where `judge` is not a `Judge`.
        labels: what people say, (prompt's id or text, example's id or position) -> 1, 0.5 or 0 as in the scores. The
            judge is asked about these pairs before a run begins. If it differs from the labels of a prompt by more
            than chance, this prompt's scores become what people said where the judge said the same, and the result
            claims no certainty. By chance alone that happens to any of the prompts in 5 % of the runs at most (sign
            tests with Holm's correction).
        name: the metric's name in a sequence of metrics.
    """

    repeatable = False
    range = (0.0, 1.0)

    def __init__(
        self,
        judge: Any,
        against: str | Mapping[str, str] | Sequence[str] | Callable[[Example], str] = BASELINE,
        *,
        criteria: Mapping[str, str | Criterion] | None = None,
        labels: Mapping[tuple[str | int, str | int], float] | None = None,
        name: str = "preference",
    ) -> None:
        if not isinstance(judge, Judge):
            judge = Judge(judge, criteria or {"better": BETTER}, name=name)
        self.judge: Judge = judge.of_pairs(_OTHER)
        self.against = against
        self.labels = dict(labels or {})
        if wrong := [label for label in self.labels.values() if not 0 <= label <= 1]:
            raise InvalidArgumentError(f"A label is 1 (better), 0.5 (a tie) or 0 (worse), got {short(wrong[0])}.")
        self.name = name
        self._evaluator: Any = None
        self._corrections: dict[str, dict[float, float]] = {}
        self._said_by_labels: list[str] = []
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def spent(self) -> Spent:
        return self.judge.spent

    def begin(self, evaluator: Any, prompts: Mapping[str | int, Asked]) -> None:
        """Prepare for a run: compare with its baseline, and ask the judge about the pairs that have labels.

        Raises:
            InvalidArgumentError: there is no baseline, or a label is of no prompt or example.
            EvaluatorError: the judge judged none of the pairs that have labels.
        """
        if self.against == BASELINE and evaluator.baseline is None:
            raise InvalidArgumentError(
                f"The metric {self.name!r} compares with the selection's baseline, but there is none: give the "
                "selection one (baseline=...), or the metric the answers to compare with (against=...)."
            )
        self._evaluator, self._corrections, self._said_by_labels = evaluator, {}, []
        by_prompt: dict[str | int, dict[int, float]] = {}
        for (prompt, example), label in self.labels.items():
            id_ = next((each for each, text in prompts.items() if prompt in (each, text) or prompt == str(each)), None)
            row = next((i for i, each in enumerate(evaluator.examples) if example in (i, each.id)), None)
            if id_ is None or row is None:
                what, known = ("prompt", prompt) if id_ is None else ("example", example)
                raise InvalidArgumentError(
                    f"A label of {self.name!r} is of the {what} {short(known)}, which is unknown."
                )
            by_prompt.setdefault(id_, {})[row] = float(label)
        pairs = {id_: self._labelled(str(id_), prompts[id_], labels) for id_, labels in by_prompt.items()}
        for id_ in contradicted(pairs):
            self._correct(str(id_), prompts[id_], pairs[id_])

    def _labelled(self, id_: str, candidate: Asked, labels: Mapping[int, float]) -> list[tuple[float, float]]:
        """What people say of a prompt's answers, and what the judge does."""
        evaluator = self._evaluator
        answers = self.judge.complete(evaluator.answers, [evaluator.request(candidate, row) for row in labels])
        rows = zip(labels, answers, strict=True)
        asked = [(row, each) for row, each in rows if isinstance(each, Completion)]
        judged = self.score_all([(answer, evaluator.examples[row], 0, candidate) for row, answer in asked])
        pairs = [
            (labels[row], float(score))
            for (row, _), score in zip(asked, judged, strict=True)
            if not isinstance(score, Exception)
        ]
        if not pairs:
            failed = [each for each in (*answers, *judged) if isinstance(each, Exception)]
            raise EvaluatorError(f"none of the answers of {id_!r} that have labels could be judged: {failed[0]}")
        return pairs

    def _correct(self, id_: str, candidate: Asked, pairs: Sequence[tuple[float, float]]) -> None:
        """From now on, a prompt's scores are what people said where the judge said the same."""
        people, by_judge = (math.fsum(column) / len(pairs) for column in zip(*pairs, strict=True))
        self._said_by_labels.append(f"{id_} ({by_judge:.2f} by the judge, {people:.2f} by {len(pairs)} labels)")
        alike = {verdict: [label for label, score in pairs if score == verdict] for verdict in _VERDICTS}
        # Post-stratified by what the judge says; it counts as one label itself.
        self._corrections[_key(candidate)] = {
            verdict: (math.fsum(given) + verdict) / (len(given) + 1) for verdict, given in alike.items()
        }

    def __call__(self, completion: Completion, example: Example, /) -> Judgement:
        return or_raise(self.score_all([(completion, example, 0, None)])[0])

    def score_all(self, answered: Sequence[Answered], /) -> list[Judgement | Exception]:
        others = iter(self._others([each[1] for each in answered if not self._is_own(each)]))
        pairs = [(None, 0.0) if self._is_own(each) else self._pair(each, next(others)) for each in answered]
        judged = iter(self.judge.score_all([pair for pair, _ in pairs if isinstance(pair, tuple)]))
        return [self._scored(pair, next(judged) if isinstance(pair, tuple) else pair, paid) for pair, paid in pairs]

    async def ascore(
        self, completion: Completion, example: Example, repeat: int = 0, candidate: Asked | None = None, /
    ) -> Judgement:
        each = (completion, example, repeat, candidate)
        pair, paid = None, 0.0
        if not self._is_own(each):
            by_baseline = self.against == BASELINE and self._evaluator is not None
            asked = [self._evaluator.request(self._evaluator.baseline, self._row(example))] if by_baseline else []
            others = await self.judge.acomplete(self._evaluator.answers, asked) if asked else self._others([example])
            pair, paid = self._pair(each, others[0])
        judged: Judgement | Exception | None
        try:
            judged = await self.judge.ascore(*pair) if isinstance(pair, tuple) else pair
        except Exception as error:
            judged = error
        return or_raise(self._scored(pair, judged, paid))

    def remarks(self) -> tuple[str, bool]:
        """What a result by this metric has to say, and whether that leaves no certainty."""
        llms = " and ".join(_name(llm) for llm in self.judge.llms)
        against = " against the baseline" if self.against == BASELINE else ""
        said = [f"{self.name} is what a judge ({llms}) prefers{against}, not what people do."]
        counts = self._counts
        if n := counts["opinions"]:
            said.append(f"{counts['swayed'] / n:.0%} of {n:,} comparisons changed with the order of the answers.")
            if len(self.judge.llms) > 1:
                said.append(f"The {len(self.judge.llms)} judges agree on {counts['agreed'] / counts['pairs']:.0%}.")
        if self._said_by_labels:
            said.append(f"People disagree with it on {', '.join(self._said_by_labels)}: nothing is certain.")
        elif self.labels:
            said.append(f"{len(self.labels)} labels of people do not contradict it.")
        return " ".join(said), bool(self._said_by_labels)

    def _is_own(self, each: Answered) -> bool:
        return (
            self.against == BASELINE and each[3] is not None and each[3] == getattr(self._evaluator, "baseline", None)
        )

    def _row(self, example: Example) -> int | Example:
        rows = enumerate(() if self._evaluator is None else self._evaluator.examples)
        return next((i for i, each in rows if each is example), example)

    def _others(self, examples: Sequence[Example]) -> Sequence[Completion | Exception]:
        if self.against != BASELINE:
            return [self._given(example) for example in examples]
        if self._evaluator is None:
            return [
                EvaluatorError(
                    "the baseline is not known: asktell.run says which it is; in a loop of your own, "
                    "evaluator.begin(selector.result) does"
                )
            ] * len(examples)
        asked = [self._evaluator.request(self._evaluator.baseline, self._row(example)) for example in examples]
        return self.judge.complete(self._evaluator.answers, asked) if asked else []

    def _given(self, example: Example) -> Completion | Exception:
        found: Any = None
        if isinstance(self.against, str):
            found = example.fields.get(self.against)
        elif callable(self.against):
            found = self.against(example)
        elif isinstance(self.against, Mapping):
            found = self.against.get(example.id or "")
        elif isinstance(row := self._row(example), int) and row < len(self.against):
            found = self.against[row]
        return Completion(found) if isinstance(found, str) else EvaluatorError("against= has none")

    def _pair(self, each: Answered, other: Completion | Exception) -> tuple[Answered | Exception | None, float]:
        """What to judge, None for a tie; and what the other answer cost now."""
        answer, example, repeat, candidate = each
        if isinstance(other, Exception):
            name = example.id or example.input[:40]
            failure = EvaluatorError(f"there is no answer to example {name!r} to compare with: {other}")
            return failure, float(getattr(other, "cost", 0.0))
        paid = 0.0 if other.from_cache else other.cost
        if answer.text == other.text:
            return None, paid
        return (answer, beside(example, other.text), repeat, candidate), paid

    def _scored(
        self, pair: Answered | Exception | None, judged: Judgement | Exception | None, paid: float
    ) -> Judgement | Exception:
        if judged is None:
            return Judgement(0.5, {"same": True}, paid)
        if not isinstance(pair, tuple) or isinstance(judged, Exception):
            judged.cost = getattr(judged, "cost", 0.0) + paid  # type: ignore[union-attr]
            return judged
        orders = [[_verdict(each) for each in both] for both in judged.details["by_order"]]
        opinions = [first if first == second else 0.5 for first, second in orders]
        n, swayed = self.judge.n, sum(first != second for first, second in orders)
        by_judge = [_verdict(math.fsum(opinions[i : i + n]) / n) for i in range(0, len(opinions), n)]
        with self._lock:
            agreed = len(set(by_judge)) == 1
            self._counts.update(pairs=1, opinions=len(opinions), swayed=swayed, agreed=agreed)
        score = _verdict(math.fsum(opinions) / len(opinions))
        details = {**judged.details, "opinions": opinions, "swayed_by_order": swayed, "verdict": score}
        return Judgement(self._corrections.get(_key(pair[3]), {}).get(score, score), details, judged.cost + paid)

    def __repr__(self) -> str:
        return f"Preference({self.judge!r}, against={short(self.against)})"


def beside(example: Example, answer: str) -> Example:
    """The example as the judge of pairs needs it, with the answer to compare with."""
    return replace(example, fields={**example.fields, _OTHER: answer})


def _verdict(score: float) -> float:
    """1 above a half, 0 below."""
    return 0.5 if math.isclose(score, 0.5) else 1.0 if score > 0.5 else 0.0


def contradicted(pairs: Mapping[Id, Sequence[tuple[float, float]]]) -> list[Id]:
    """The prompts of whose labels a judge differs by more than chance; `pairs` are labels and the judge's scores.

    A judge who differs from people to both sides alike is taken for another in 5 % of the cases at most, however many
    prompts have labels. Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    p_values = {}
    for id_, of_prompt in pairs.items():
        kinder, harsher = (sum(sign * (score - label) > 0 for label, score in of_prompt) for sign in (1, -1))
        p_values[id_] = _sign_test(kinder, harsher)
    found: list[Id] = []
    for id_ in sorted(p_values, key=lambda id_: p_values[id_]):
        if p_values[id_] > _SIGNIFICANT / (len(p_values) - len(found)):
            break
        found.append(id_)
    return found


def _sign_test(more: int, less: int) -> float:
    """The two-sided p value of as uneven signs by chance."""
    n, most = more + less, max(more, less)
    tail: int = sum(math.comb(n, k) for k in range(most, n + 1))
    return min(1.0, 2 * tail / (1 << n))


def _key(candidate: Asked | None) -> str:
    return json.dumps(candidate, sort_keys=True, default=str)


def _name(llm: Any) -> str:
    return str(getattr(llm, "name", None) or getattr(llm, "model", None) or type(llm).__name__)
