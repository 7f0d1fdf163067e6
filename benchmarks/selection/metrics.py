"""How good an answer is, by the true means of the problem."""

import numpy as np

from asktell.results.result import hypervolume
from benchmarks.problems import FRONTS, PARETO, BenchmarkProblem

TOLERATED = 0.1  # of the threshold, by the soft constrained reward


def evaluate(problem: BenchmarkProblem, answer: list[int]) -> dict[str, float]:
    """Every metric of the problem's goal, by name; `quality` is the headline's."""
    if problem.goal_name == PARETO or problem.goal_name in FRONTS:
        return pareto_set(problem, answer)
    return best_feasible(problem, answer)


def best_feasible(problem: BenchmarkProblem, answer: list[int]) -> dict[str, float]:
    """How good the first prompt of the answer is.

    - `quality`: 0 if infeasible, else 1 - (best - chosen) / (best - median) over the feasible prompts, at least 0.
    - `hard`, `soft`: the chosen prompt's objective over the best's (constrained reward); 0 if it misses the
      threshold (hard), or misses it by more than a tenth of it (soft, as published).
    - `violation`: how far the threshold is missed; `infeasible`: whether.
    - `identified`: whether it is the best. `regret`: how far its objective is below the best's, 0 if above.
    """
    objective, constrained = problem.means[:, 0], problem.means[:, -1]
    feasible, threshold = problem.feasible, problem.threshold
    best, median = float(objective[feasible].max()), float(np.median(objective[feasible]))
    if not answer:
        return {"quality": 0.0, "hard": 0.0, "soft": 0.0, "infeasible": 1.0, "identified": 0.0}
    arm = answer[0]
    chosen, keeps = float(objective[arm]), bool(feasible[arm])
    quality = max(0.0, 1.0 - (best - chosen) / (best - median)) if best > median else float(chosen >= best)
    relative = chosen / best if best > 0 else float(chosen >= best)
    tolerated = keeps or bool(constrained[arm] >= threshold - TOLERATED * abs(threshold))
    return {
        "quality": quality * keeps,
        "hard": relative * keeps,
        "soft": relative * tolerated,
        "violation": max(0.0, threshold - float(constrained[arm])) * (not keeps),
        "infeasible": float(not keeps),
        "identified": float(keeps and chosen >= best),
        "regret": max(0.0, best - chosen),
    }


def pareto_set(problem: BenchmarkProblem, answer: list[int]) -> dict[str, float]:
    """How good the whole answer is.

    - `hypervolume`: of the answer's true means over that of the true Pareto set, from the worst value of each
      metric among all prompts, in units of its range. It never falls when more prompts are returned. Under a
      constraint, of the answer's feasible prompts, in the box of all that are feasible.
    - `precision`, `recall`, `f1` of the set, its `size`, and how many of it are `infeasible`.
    - `quality`: the mean of hypervolume and F1; 0 if nothing that was returned is feasible.
    """
    front = problem.front
    chosen = np.zeros(len(front), dtype=bool)
    chosen[answer] = True
    hits = float((chosen & front).sum())
    volume = relative_hypervolume(problem, chosen & problem.feasible)
    precision = hits / chosen.sum() if chosen.any() else 0.0
    recall = hits / front.sum()
    f1 = 2 * hits / (chosen.sum() + front.sum())
    return {
        "quality": float((volume + f1) / 2),
        "hypervolume": volume,
        "f1": float(f1),
        "precision": float(precision),
        "recall": float(recall),
        "size": float(chosen.sum()),
        **({"infeasible": float((chosen & ~problem.feasible).sum())} if problem.goal.is_constrained else {}),
    }


def relative_hypervolume(problem: BenchmarkProblem, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
    """The volume that the chosen prompts dominate, over the one that the true front dominates."""
    among = problem.means[problem.feasible]
    low, high = among.min(axis=0), among.max(axis=0)
    unit = (problem.means - low) / np.where(high > low, high - low, 1.0)
    unit = unit[:, high > low]  # a constant metric tells nothing
    if not unit.shape[1]:
        return float(chosen.any())
    worst = np.zeros(unit.shape[1])
    whole = hypervolume(unit[problem.front], worst)
    if whole == 0.0:
        return float((chosen & problem.front).any())
    return hypervolume(unit[chosen], worst) / whole
