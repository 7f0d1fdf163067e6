"""A metric that compares two responses with an LLM as a judge."""

import copy
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import short
from asktell_adapters._util.loop import Lock
from asktell_adapters._util.scores import or_raise
from asktell_adapters.llms.base import Asked, Completion, Example
from asktell_adapters.metrics.judge import Answered, Judge, Judgement, Spent
from asktell_adapters.metrics.licence import Licence, digest
from asktell_adapters.metrics.rubric import Criterion

BASELINE = "baseline"
BETTER = "The answer that does better what the task asks for, as whoever set the task would see it."
# Column in which the judge finds the response to compare with
_OTHER = "the other answer"


@final
class Preference:
    """A metric that lets a judge (an LLM) compare a response with another response to the same example.

    The score is 1 if the response is better, 0 if it is worse, and 0.5 for a tie.

    ```python
    preference = Preference(OpenAIChat("gpt-4o"))
    evaluator = LLMEvaluator(llm, examples, [preference])
    selector = asktell.Selector(
        prompts, asktell.BestFeasible("preference"), budget=500, examples=len(examples), baseline=0
    )
    ```

    **Comparisons.** The judge is asked twice, because LLMs favor a position: once with
    the response first, and once with the response second. If its preference changes
    with the order, the comparison is a tie. With several LLMs or opinions, the majority
    counts. If the two responses are equal, it is a tie, and the judge is not asked. The
    baseline gets a tie on every example if responses are compared with the baseline's.

    **The baseline.** The baseline's response to an example is requested only once, and
    is then kept in memory. If the evaluator has a cache, the response is also stored
    there.

    **People.** A judge may prefer other responses than people do. `asktell judge` measures how often, and writes a
    licence. See `licensed`.

    Args:
        judge: an LLM, a list of LLMs, or a `Judge` with its own criteria and settings.
        against: the response to compare with. "baseline" is the response of the
            selection's baseline. Any other text is a column with the responses (a key
            of the examples' `fields`). You may also pass a mapping from example id to
            response, a list of responses in the order of the evaluator's examples, or a
            function of an example.
        criteria: name -> description of a better response (default: one criterion: how
            well the response does what the task asks for). If `judge` is a `Judge`,
            this argument is ignored.
        name: the metric's name in a sequence of metrics.

    Raises:
        InvalidArgumentError: an argument of the judge is invalid.
    """

    repeatable = False
    range = (0.0, 1.0)

    def __init__(
        self,
        judge: Any,
        against: str
        | Mapping[str, str]
        | Sequence[str]
        | Callable[[Example], str] = BASELINE,
        *,
        criteria: Mapping[str, str | Criterion] | None = None,
        name: str = "preference",
    ) -> None:
        if not isinstance(judge, Judge):
            judge = Judge(judge, criteria or {"better": BETTER}, name=name)
        self.judge: Judge = judge.of_pairs(_OTHER)
        self.against = against
        self.name = name
        self._evaluator: Any = None
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def licensed(
        self, licence: Licence | str | Path | None, floor: float | None = None
    ) -> "Preference":
        """Make a copy of the metric whose scores establish something only with a licence. See `Judge.licensed`."""
        preference = copy.copy(self)
        preference.judge = self.judge.licensed(licence, floor)
        return preference

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the rubric, the model and the settings. The settings differ from those of a `Judge`."""
        digests = self.judge.digests
        return {**digests, "settings": digest(["preference", digests["settings"]])}

    @property
    def spent(self) -> Spent:
        """Requests, tokens and money that the judge has used so far."""
        return self.judge.spent

    def begin(self, evaluator: Any, prompts: Mapping[str | int, Asked]) -> None:
        """Prepare for a run: find the baseline. The evaluator calls this in its own method `begin`.

        Args:
            evaluator: the evaluator of the run.
            prompts: id -> prompt or candidate.

        Raises:
            InvalidArgumentError: the selection has no baseline to compare with.
        """
        if self.against == BASELINE and evaluator.baseline is None:
            raise InvalidArgumentError(
                f"The metric {self.name!r} compares with the selection's baseline, but there is none. Pass "
                "baseline=... to the selection, or against=... to the metric."
            )
        self._evaluator = evaluator

    def __call__(self, completion: Completion, example: Example, /) -> Judgement:
        return or_raise(self.score_all([(completion, example, 0, None)])[0])

    def score_all(self, answered: Sequence[Answered], /) -> list[Judgement | Exception]:
        """Score many responses at once, in one call of each of the judge's LLMs.

        Args:
            answered: for each response, a tuple of four items: the response, its
                example, the number of the repeat, and the prompt or candidate (None if
                unknown).

        Returns:
            For each response, in order, its score, or the exception if it failed.
        """
        # The responses of the baseline are requested in one call, then the comparisons
        # in another.
        responses = iter(
            self._others([row[1] for row in answered if not self._is_own(row)])
        )
        pairs = [
            (None, 0.0) if self._is_own(row) else self._pair(row, next(responses))
            for row in answered
        ]
        judged = iter(
            self.judge.score_all([pair for pair, _ in pairs if isinstance(pair, tuple)])
        )
        return [
            self._scored(pair, next(judged) if isinstance(pair, tuple) else pair, paid)
            for pair, paid in pairs
        ]

    async def ascore(
        self,
        completion: Completion,
        example: Example,
        repeat: int = 0,
        candidate: Asked | None = None,
        /,
    ) -> Judgement:
        """Score one response without blocking the event loop.

        Args:
            completion: the response.
            example: its example.
            repeat: number of the repeat, from 0. The judge is asked anew for each repeat.
            candidate: the prompt or candidate of the response, or None if it is unknown.

        Raises:
            JudgementError: an LLM gave no reply, or its reply cannot be read.
            EvaluatorError: there is no response to compare with.
        """
        answered = (completion, example, repeat, candidate)
        pair, paid = None, 0.0
        if not self._is_own(answered):
            by_baseline = self.against == BASELINE and self._evaluator is not None
            asked = (
                [self._evaluator.request(self._evaluator.baseline, self._row(example))]
                if by_baseline
                else []
            )
            responses = (
                await self.judge.acomplete(self._evaluator.answers, asked)
                if asked
                else self._others([example])
            )
            pair, paid = self._pair(answered, responses[0])
        judged: Judgement | Exception | None
        try:
            judged = await self.judge.ascore(*pair) if isinstance(pair, tuple) else pair
        except Exception as error:
            judged = error
        return or_raise(self._scored(pair, judged, paid))

    def remarks(self) -> tuple[str, bool]:
        """The remark about the scores of this metric in a result, and a flag.

        Returns:
            The remark, and True if a licence is demanded and none covers the judge.
            Then nothing in the result is established.
        """
        llms = " and ".join(_name(llm) for llm in self.judge.llms)
        rival = "baseline's" if self.against == BASELINE else "other"
        sentences = [
            f'The metric "{self.name}" is how often a judge ({llms}) prefers a prompt\'s response over the {rival} '
            "response. People may prefer other responses."
        ]
        counts = self._counts
        if n := counts["opinions"]:
            sentences.append(
                f"Swapping the two responses changed the judge's preference in {counts['swayed'] / n:.0%} of {n:,} "
                "comparisons."
            )
            if len(self.judge.llms) > 1:
                sentences.append(
                    f"The {len(self.judge.llms)} judges agree on {counts['agreed'] / counts['pairs']:.0%} of "
                    f"the comparisons."
                )
        doubtful = False
        if self.judge.licensing is not None:
            words, doubtful = self.judge.licensing.remark(self.name, self.digests)
            sentences.append(words)
        return " ".join(sentences), doubtful

    def _is_own(self, answered: Answered) -> bool:
        """True if the response is the baseline's own, so that there is nothing to compare."""
        candidate = answered[3]
        if self.against != BASELINE or candidate is None:
            return False
        return bool(candidate == getattr(self._evaluator, "baseline", None))

    def _row(self, example: Example) -> int | Example:
        """The position of the example in the evaluator, or the example itself if it is not one of the evaluator's."""
        rows = enumerate(() if self._evaluator is None else self._evaluator.examples)
        return next((i for i, candidate in rows if candidate is example), example)

    def _others(self, examples: Sequence[Example]) -> Sequence[Completion | Exception]:
        """The response to compare with, for each example."""
        if self.against != BASELINE:
            return [self._given(example) for example in examples]
        if self._evaluator is None:
            return [
                EvaluatorError(
                    "the baseline is unknown. asktell.run sets it. In your own loop, call "
                    "evaluator.begin(selector.result) first"
                )
            ] * len(examples)
        asked = [
            self._evaluator.request(self._evaluator.baseline, self._row(example))
            for example in examples
        ]
        return self.judge.complete(self._evaluator.answers, asked) if asked else []

    def _given(self, example: Example) -> Completion | Exception:
        """The response that the user passed in `against` for an example."""
        text: Any = None
        if isinstance(self.against, str):
            text = example.fields.get(self.against)
        elif callable(self.against):
            text = self.against(example)
        elif isinstance(self.against, Mapping):
            text = self.against.get(example.id or "")
        elif isinstance(row := self._row(example), int) and row < len(self.against):
            text = self.against[row]
        return (
            Completion(text)
            if isinstance(text, str)
            else EvaluatorError(
                f"against must give a text for each example, but gave {short(text)}"
            )
        )

    def _pair(
        self, answered: Answered, rival: Completion | Exception
    ) -> tuple[Answered | Exception | None, float]:
        """The comparison to judge, and the money that the other response cost now.

        The comparison is None for a tie, or an exception if there is no other response.
        """
        answer, example, repeat, candidate = answered
        if isinstance(rival, Exception):
            name = example.id or example.input[:40]
            failure = EvaluatorError(
                f"example {name!r} has no response to compare with: {rival}"
            )
            return failure, float(getattr(rival, "cost", 0.0))
        paid = 0.0 if rival.from_cache else rival.cost
        if answer.text == rival.text:
            return None, paid
        return (answer, beside(example, rival.text), repeat, candidate), paid

    def _scored(
        self,
        pair: Answered | Exception | None,
        judged: Judgement | Exception | None,
        paid: float,
    ) -> Judgement | Exception:
        """The score of a comparison.

        Args:
            pair: the comparison, an exception, or None for a tie.
            judged: the judgement, its exception, or None for a tie.
            paid: cost of the other response.
        """
        if judged is None:
            return Judgement(0.5, {"same": True}, paid)
        if not isinstance(pair, tuple) or isinstance(judged, Exception):
            judged.cost = getattr(judged, "cost", 0.0) + paid  # type: ignore[union-attr]
            return judged
        orders = [
            [_verdict(score) for score in both] for both in judged.details["by_order"]
        ]
        # An opinion that depends on the order is no preference.
        opinions = [first if first == second else 0.5 for first, second in orders]
        n, swayed = self.judge.n, sum(first != second for first, second in orders)
        by_judge = [
            _verdict(math.fsum(opinions[i : i + n]) / n)
            for i in range(0, len(opinions), n)
        ]
        with self._lock:
            agreed = len(set(by_judge)) == 1
            self._counts.update(
                pairs=1, opinions=len(opinions), swayed=swayed, agreed=agreed
            )
        details = {
            **judged.details,
            "opinions": opinions,
            "swayed_by_order": swayed,
        }
        score = _verdict(math.fsum(opinions) / len(opinions))
        return Judgement(score, details, judged.cost + paid)

    def __repr__(self) -> str:
        return f"Preference({self.judge!r}, against={short(self.against)})"


def beside(example: Example, answer: str) -> Example:
    """The example with the response to compare with, in the column that the judge reads."""
    return replace(example, fields={**example.fields, _OTHER: answer})


def _verdict(score: float) -> float:
    """Round a score to a verdict: 1 above 0.5, 0 below, 0.5 for a tie."""
    if math.isclose(score, 0.5):
        return 0.5
    return 1.0 if score > 0.5 else 0.0


def _name(llm: Any) -> str:
    """The name of a judge, for notes."""
    return str(
        getattr(llm, "name", None) or getattr(llm, "model", None) or type(llm).__name__
    )
