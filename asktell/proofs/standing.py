"""The standing of the prompts: which are out, which are open, and whether the selection is established.

All early stops look here: those of `Race`, of `Adaptive(confidence=...)`, and of harnesses
that choose the evaluations themselves. `asktell.proofs.against` compares two given prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int
from asktell.problem.goals import BestFeasible
from asktell.proofs import claims
from asktell.proofs.bounds import Bounds, Limits, limits_if_binary
from asktell.proofs.ordered import OrderedScores, first_out
from asktell.record import State


@final
@dataclass(frozen=True, eq=False)
class PromptStanding:
    """What the scores so far establish about the prompts, at a confidence that holds at every look.

    Make it by `standing`. The attributes below are computed when they are first read.
    A prompt is an arm, a number from 0, as everywhere in a `State`.

    Attributes:
        out: the active arms that are established not to be selected, with the reason
            of each.
        left: the active arms that are not out, ascending.
        open: the active arms whose further scores may change the standing. These are
            the arms that are not out, the baseline, and the arms to which constraints
            of others are relative. If an answer was given, they are only the arms that
            a claim of this answer needs, and there are none once it is established.
        answer: the selected arms if the selection is established, up to the goal's
            tolerances. An empty tuple if all active arms are out. None if nothing is
            established.
    """

    _state: State
    _confidence: float
    _given: tuple[int, ...] | None = None
    _means: Float[Floats, "arms metrics"] | None = None

    @cached_property
    def out(self) -> dict[int, str]:
        """The active arms that are established not to be selected, with the reason of each."""
        if self._given is not None:
            return {}
        bounds, errors = self._evidence
        return claims.excluded(self._state, bounds, *errors)

    @cached_property
    def left(self) -> Int[Ints, " left"]:
        """The active arms that are not out, ascending."""
        active = self._state.active
        return np.setdiff1d(active, list(self.out)) if self.out else active

    @cached_property
    def open(self) -> Int[Ints, " open"]:
        """The active arms whose further scores may change the standing, ascending."""
        state = self._state
        if self._given is not None:
            means = state.current_tally().means if self._means is None else self._means
            error = 1.0 - self._confidence
            return claims.unproven(state, list(self._given), means, error)
        if not self.out:
            return self.left
        needed = {state.problem.baseline, *claims.references(self._evidence[0])}
        return np.setdiff1d(state.active, list(self.out.keys() - needed))

    @cached_property
    def answer(self) -> tuple[int, ...] | None:
        """The selected arms if the selection is established, else None."""
        if self._given is not None:
            return None if len(self.open) else self._given
        if self._state.remarks.doubts:
            return None
        (bounds, errors), left = self._evidence, self.left
        if not len(left):
            return ()
        # A single arm without failures needs no scores to be the best.
        needs_scores = len(left) > 1 or self._state.failures.count(int(left[0]))
        if needs_scores and (bounds.scores.counts[left] == 0).any():
            return None
        if isinstance(bounds.problem.goal, BestFeasible):
            best = claims.certain_best(bounds, left, errors.claim)
            return None if best is None else (best,)
        front = claims.certain_front(bounds, left, errors.claim)
        return None if front is None else tuple(front)

    @cached_property
    def _evidence(self) -> tuple[Bounds, claims.ErrorsOfBest]:
        """The bounds from the scores so far, and the errors that the confidence permits."""
        state, error = self._state, 1 - self._confidence
        reach = first_out(state, set(state.left))
        problem, history, missing = state.seen, state.history, state.missing

        def recorded() -> tuple[OrderedScores, tuple[Limits, ...]]:
            scores = OrderedScores.of(problem, history, missing, reach)
            return scores, limits_if_binary(problem.goal, history.scores())

        key = "ordered scores", problem, missing.key, reach
        scores, limits = history.memo.get(key, recorded)
        bounds = Bounds(scores, limits, tuple(state.left.no_rivals()))
        if isinstance(problem.goal, BestFeasible):
            return bounds, claims.errors_of_best(bounds, error)
        of_front = claims.error_of_front(problem.goal, problem.n_arms, error)
        return bounds, claims.ErrorsOfBest(of_front, race=0.0)


def standing(
    state: State,
    confidence: float,
    answer: Sequence[int] | None = None,
    means: Float[Floats, "arms metrics"] | None = None,
) -> PromptStanding:
    """Return which prompts are out, which are open, and whether the selection is established.

    You can look after any number of evaluations, as often as you like. The probability
    that a prompt that should be selected is ever out, or that a false selection is ever
    established, is at most 1 - `confidence`. A selection counts as right up to the
    tolerances of the goal. The conditions are those of `Race`: the examples are
    evaluated in one random order, every metric has a range, no evaluation fails, and
    the evaluated model does not change. Doubtful scores establish nothing.

    Args:
        state: the state of the selection. All active prompts are evaluated on the
            examples in the order of the selection.
        confidence: the probability in the guarantee, above 0 and below 1.
        answer: the positions of the prompts that a model selects. Then only this
            selection is tested, and no prompt is ever out. None: the selection follows
            from the bounds themselves.
        means: with `answer`, means of all prompts that decide which comparisons come
            first. None: the means of the scores.
    """
    selected = None if answer is None else tuple(answer)
    return PromptStanding(state, confidence, selected, means)
