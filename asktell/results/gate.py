"""The gate: is a candidate established to be not worse than a baseline, and did no score drift?"""

from asktell.posterior.of_state import has_drifted
from asktell.problem.checks import LARGEST, check_number
from asktell.proofs.against import standing_against
from asktell.record import State


def not_worse(
    state: State,
    candidate: int,
    baseline: int,
    margin: float,
    confidence: float,
    is_last: bool = True,
) -> dict[str, bool | None]:
    """Check whether a candidate is established to be not worse than a baseline.

    The selection must evaluate both prompts on the same examples, as the method
    "uniform" does. You can call `not_worse` after any number of evaluations, as often
    as you like. It returns a mapping with these keys:

    - the metric of each objective: the candidate is worse by at most `margin`
    - each constraint as text, such as "latency <= 2": the candidate satisfies it
    - "failure_rate": the candidate fails on at most as many examples as the baseline,
      apart from a tolerated difference

    A value is True if the statement is established, False if its opposite is
    established, and None if it is undecided. Every value is None if a remark calls the
    scores doubtful, or if the scores seem to change over time (a drift).

    The tolerated difference of the failure rates is `margin` divided by the width of
    the objective's range. With several objectives, it is the smallest of these
    quotients. If an objective has no range, but all its scores are 0 or 1, its range
    counts as 0 to 1. If it has other scores and no range, the tolerated difference is
    0. While the candidate has failed no more often than the baseline, the tolerated
    difference is at least `UNSEEN_FAILURES`.

    Two guarantees hold for all calls together:

    - The probability that all values are True at some call, although one of the
      statements is false, is at most 1 - `confidence`.
    - The probability that a value is False at some call, although its statement is
      true, is at most 1 - `confidence`, too.

    They require that the order of the examples does not depend on the scores, that the
    distribution of scores does not change over time, and that the range of each metric
    is declared. Without a range, they hold approximately if there are many examples.

    The statements about a finished table are for one look, so they are established from
    fewer examples. There, an example on which only one of the two prompts has a score
    counts like a failed evaluation of the other, although not as a failure.

    A failed evaluation has no score. Perhaps it failed because its score would have
    been bad. So for a True, the failed evaluations of the candidate count as the worst
    possible scores, and those of the baseline as the best. For a False, it is the other
    way round. A score is possible if it is in the range of the metric. Without a range,
    it is possible if it is between the lowest and the highest recorded score.

    Args:
        state: the state of the selection.
        candidate: the position of the candidate among the prompts, from 0.
        baseline: the position of the baseline among the prompts, from 0.
        margin: how much worse than the baseline the candidate may be in an objective,
            in units of the metric. At least 0.
        confidence: the probability in the two guarantees, such as 0.95.
        is_last: False if more evaluations follow. Then the check for a drift, which
            takes long, is made only if it matters: a value is False, or all are True.

    Raises:
        IncompatibleMethodError: the worst segment counts for a metric of the goal.
        InvalidArgumentError: the margin is as wide as the range of an objective, or the
            confidence is not above 0 and below 1. See `check_margin`.
    """
    margin = check_number("The margin", margin, 0.0, LARGEST)
    claims = standing_against(state, candidate, baseline, margin, confidence)
    # Look for a drift last, since this takes longest and matters only if something is
    # certain.
    certain = [claim for claim in claims.values() if claim is not None]
    matters = certain if is_last else len(certain) == len(claims) or False in certain
    return dict.fromkeys(claims) if matters and has_drifted(state) else claims
