"""How good an answer is, by the true means of the problem."""

from asktell import BestFeasible
from benchmarks.problems import BenchmarkProblem

TOLERATED = 0.1  # of the threshold, by the soft constrained reward


def evaluate(problem: BenchmarkProblem, answer: list[int]) -> dict[str, float]:
    """What `Truth.judge` says, by name; `quality` is the headline's. Of the best feasible prompt also the rewards.

    `hard`, `soft`: the chosen prompt's objective over the best's (constrained reward);
    0 if it misses the threshold (hard), or misses it by more than a tenth of it (soft,
    as published).
    """
    measures = problem.truth.judge(answer)
    if not isinstance(problem.goal, BestFeasible):
        return measures
    if not answer:
        return {**measures, "hard": 0.0, "soft": 0.0}
    best, chosen = (
        float(problem.means[at, 0].max()) for at in (problem.truth.feasible, answer[:1])
    )
    relative = chosen / best if best > 0 else float(chosen >= best)
    tolerated = bool(
        problem.means[answer[0], -1]
        >= problem.threshold - TOLERATED * abs(problem.threshold)
    )
    keeps = not measures["infeasible"]
    return {
        **measures,
        "hard": relative * keeps,
        "soft": relative * (keeps or tolerated),
    }
