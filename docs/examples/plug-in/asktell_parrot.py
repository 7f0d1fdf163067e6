"""Plug-ins for asktell: a method, an LLM, a metric and a format of results."""

from dataclasses import dataclass

import numpy as np

from asktell.extend import AbstractMethod, events
from asktell_adapters.evaluators import Completion
from asktell_adapters.finished import Graded, ScoreColumns, ScoredCandidate, Scores


@dataclass(frozen=True)
class Equally(AbstractMethod):
    """Evaluates every prompt equally often, at most `most` times, and selects the highest mean."""

    most: int = 20

    def decide(self, state):
        number = len(state.decisions)
        room = min(state.room // len(state.active), int(state.capacity().min()))
        if number == 0 and room > 0:
            return events.Decided(number, pulls=min(room, self.most))
        (best,) = self.answer(state)
        departures = [
            events.Departure.of(
                arm, arm == best, "evaluated as often as the others", None
            )
            for arm in state.active.tolist()
        ]
        return events.Decided(number, tuple(departures), finished=True, answer=(best,))

    def answer(self, state):
        means = state.current_tally().means[:, 0]
        return [int(np.nan_to_num(means, nan=-np.inf).argmax())]


class Parrot:
    """Repeats the last words of a message."""

    def __init__(self, model: str, words: int = 5) -> None:
        self.model, self.words = model, words

    def complete(self, requests):
        return [self.repeat(request) for request in requests]

    def repeat(self, request):
        read = request.messages[-1]["content"].split()
        said = read[-min(self.words, request.max_new_tokens) :]
        return Completion(" ".join(said), len(read), len(said), finish_reason="stop")


class Politeness:
    """1 if a polite word is in the response, else 0."""

    range = (0, 1)

    def __init__(self, word: str = "please") -> None:
        self.word = word

    def __call__(self, completion, example) -> float:
        return float(self.word in completion.text.lower().split())


class ParrotReader:
    """Reads {"parrot": {CANDIDATE: {EXAMPLE: SCORE}}}."""

    name = "parrot's results"

    def recognizes(self, source):
        return isinstance(source.json, dict) and list(source.json) == ["parrot"]

    def read(self, source, wanted):
        candidates = [
            ScoredCandidate(
                source.path,
                ScoreColumns.of(
                    [Graded.of(id_, {"score": score}) for id_, score in scores.items()]
                ),
                name,
            )
            for name, scores in source.json["parrot"].items()
        ]
        return Scores(self.name, candidates, of_candidates="keys")
