"""A judge's licence, in simulation: how often its interval holds, and which judges it lets through a floor.

python -m benchmarks.selection.judge_licence --runs 1000

Three tables. Labels of passing and failing, and grades from 1 to 5: judges that are
equally good are chosen among by the labels, and the licence of the chosen one is
compared with its true agreement. An interval of the same labels without the correction
for the choice is beside it. `--choice`: judges that differ are chosen among with a part
of the judgments, and the judge to take is then completed, as `asktell judge` does.
"""

import argparse
from itertools import product
from typing import Any

import numpy as np

import asktell
from asktell_adapters.metrics.licence import KAPPA, PARTS, Licence

_DIGESTS = dict.fromkeys(PARTS, "")
_YES_OR_NO = (0.0, 1.0)
_GRADES = (1.0, 2.0, 3.0, 4.0, 5.0)
_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3)
"""Shares of the grades that people give."""
_PASSED = 0.6
"""Share of the responses that people pass."""
_FLOOR = 0.85


def _licence(
    labels: np.ndarray, grades: np.ndarray, scale: Any, n: int, measure: str
) -> Licence:
    return Licence.measured(
        "", "", _DIGESTS, labels.tolist(), grades.tolist(), scale, measure=measure,
        candidates=n,
    )  # fmt: skip


def accuracy(
    truth: float, judges: int, labels: int, shared: float, runs: int, seed: int
) -> list[str]:
    """Coverage for the judge that agrees most often among equal ones, and how often it is let through the floor.

    `shared` is the part of the responses on which all judges are right or wrong
    together.
    """
    rng = np.random.default_rng(seed)
    held, held_alone, accepted, widths, stated = 0, 0, 0, [], []
    n = 0
    while n < runs:
        people = (rng.random(labels) < _PASSED).astype(float)
        if people.min() == people.max():
            continue
        n += 1
        of_each = rng.random((judges, labels)) < truth
        of_all = rng.random(labels) < truth
        agree = np.where(rng.random(labels) < shared, of_all, of_each)
        best = agree[agree.mean(axis=1).argmax()]
        grades = np.where(best, people, 1 - people)
        licence = _licence(people, grades, _YES_OR_NO, judges, "accuracy")
        alone = _licence(people, grades, _YES_OR_NO, 1, "accuracy")
        held += licence.low <= truth <= licence.high
        held_alone += alone.low <= truth <= alone.high
        accepted += licence.low >= _FLOOR
        widths.append(licence.high - licence.low)
        stated.append(licence.agreement)
    return [
        f"{truth:g}", str(judges), str(labels), f"{shared:.0%}", f"{np.mean(stated):.3f}", f"{held_alone / runs:.1%}",
        f"{held / runs:.1%}", f"{np.mean(widths):.3f}", f"{accepted / runs:.1%}",
    ]  # fmt: skip


def _graded(
    rng: np.random.Generator, people: np.ndarray, noise: float, blunders: float
) -> np.ndarray:
    """Grades of a judge that is off by a grade now and then, and gives any grade to a part of the responses."""
    near = np.clip(np.rint(people + noise * rng.normal(size=people.shape)), 1, 5)
    wild = rng.integers(1, 6, people.shape)
    return np.where(rng.random(people.shape) < blunders, wild, near)


def kappa(
    noise: float, blunders: float, judges: int, labels: int, runs: int, seed: int
) -> list[str]:
    """The same for grades and the weighted kappa."""
    rng = np.random.default_rng(seed)
    everyone = rng.choice(_GRADES, 400_000, p=_SHARES)
    judged = _graded(rng, everyone, noise, blunders)
    by_chance = np.abs(everyone - rng.permutation(judged)).mean()
    truth = 1 - np.abs(everyone - judged).mean() / by_chance
    held, held_alone, below, widths = 0, 0, 0, []
    for _ in range(runs):
        people = rng.choice(_GRADES, labels, p=_SHARES)
        of_each = _graded(rng, np.tile(people, (judges, 1)), noise, blunders)
        best = of_each[np.abs(of_each - people).mean(axis=1).argmin()]
        licence = _licence(people, best, _GRADES, judges, KAPPA)
        alone = _licence(people, best, _GRADES, 1, KAPPA)
        held += licence.low <= truth <= licence.high
        held_alone += alone.low <= truth <= alone.high
        below += licence.low <= truth
        widths.append(licence.high - licence.low)
    return [
        f"{noise:g}", f"{blunders:.0%}", f"{truth:.3f}", str(judges), str(labels), f"{held_alone / runs:.1%}",
        f"{held / runs:.1%}", f"{below / runs:.1%}", f"{np.mean(widths):.3f}",
    ]  # fmt: skip


def choice(part: float, judges: int, labels: int, runs: int, seed: int) -> list[str]:
    """The true agreement of the judge to take, and coverage, with a part of all judgments before the choice."""
    rng = np.random.default_rng(seed)
    held, loss, made = 0, [], []
    for run in range(runs):
        truths = rng.uniform(0.6, 0.9, judges)
        people = (rng.random(labels) < _PASSED).astype(float)
        agree = rng.random((judges, labels)) < truths[:, None]
        selector = asktell.Selector(
            [str(i) for i in range(judges)],
            asktell.BestFeasible(asktell.maximize("agreement", range=(0, 1))),
            max(judges, round(part * judges * labels)),
            examples=labels,
            seed=run,
        )
        while trials := selector.ask(8):
            for trial in trials:
                right = agree[int(trial.prompt), trial.example or 0]
                selector.tell(trial, {"agreement": float(right)})
        best = int(selector.result().best.prompt)
        grades = np.where(agree[best], people, 1 - people)
        licence = _licence(people, grades, _YES_OR_NO, judges, "accuracy")
        held += licence.low <= truths[best] <= licence.high
        loss.append(truths.max() - truths[best])
        evaluated = selector.state.history.arms() == best
        made.append(selector.spent + labels - int(evaluated.sum()))
    error = np.std(loss, ddof=1) / np.sqrt(runs)
    return [
        f"{part:.0%}", str(judges), str(labels), f"{np.mean(made):,.0f}", f"{judges * labels:,}",
        f"{np.mean(loss):.3f} ± {error:.3f}", f"{held} of {runs}",
    ]  # fmt: skip


def _print(head: list[str], rows: Any) -> None:
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--choice", action="store_true")
    arguments = parser.parse_args()
    runs, seed = arguments.runs, arguments.seed
    if arguments.choice:
        head = ["judgments before the choice", "judges", "labels", "judgments", "all judgments",
                "below the best judge", "interval holds"]  # fmt: skip
        _print(
            head,
            (choice(part, 12, 150, runs, seed) for part in (0.1, 0.2, 0.4, 1.0)),
        )
        return
    head = ["true accuracy", "judges", "labels", "shared", "stated", "holds without correction", "holds", "width",
            f"above {_FLOOR:g}"]  # fmt: skip
    _print(
        head,
        (
            accuracy(truth, judges, labels, shared, runs, seed)
            for truth, (judges, shared), labels in product(
                (0.7, 0.83, 0.9, 0.95),
                ((1, 0.0), (12, 0.0), (12, 0.5)),
                (50, 100, 200, 400),
            )
        ),
    )
    head = ["noise", "blunders", "true kappa", "judges", "labels", "holds without correction", "holds",
            "lower bound holds", "width"]  # fmt: skip
    _print(
        head,
        (
            kappa(noise, blunders, judges, labels, runs, seed)
            for (noise, blunders), judges, labels in product(
                ((0.3, 0.0), (0.3, 0.05), (0.01, 0.02), (0.6, 0.02)),
                (1, 12),
                (50, 100, 200, 400),
            )
        ),
    )


if __name__ == "__main__":
    main()
