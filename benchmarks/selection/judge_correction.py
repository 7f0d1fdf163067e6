"""Correcting a judge by human labels, in simulation: how often the stated interval holds the humans' mean.

python -m benchmarks.selection.judge_correction --runs 2000

Three tables: grades about the middle of the scale; skewed ones, of which bad grades are
rare; labels of 0 and 1.
"""

import argparse
import math
from itertools import product

import numpy as np
from scipy import stats

from asktell_adapters.metrics import corrected_mean

_JUDGES = {
    # name: of a human's grade, the judge's (in grades), with noise of its own
    "good": (1.0, 0.0, 0.5),
    "a grade too kind": (1.0, 1.0, 0.5),
    "compresses, and kind": (0.5, 2.2, 0.5),
    "pure noise": (0.0, 4.0, 0.8),
}


def grades(
    rng: np.random.Generator, n: int, judge: str
) -> tuple[np.ndarray, np.ndarray]:
    """What humans say of n answers, and what the judge does: whole grades from 1 to 5."""
    slope, shift, noise = _JUDGES[judge]
    human = np.clip(np.rint(3 + rng.normal(size=n)), 1, 5)
    judged = np.clip(np.rint(slope * human + shift + noise * rng.normal(size=n)), 1, 5)
    return human, judged


def row(judge: str, labels: int, others: int, runs: int, seed: int) -> list[str]:
    """Coverage, mean error and half width, of the judge alone and of the three estimates."""
    rng = np.random.default_rng(seed)
    truth = 3.0  # by symmetry
    alone, outcomes = [], {"humans": [], "weight 1": [], "default": []}
    for _ in range(runs):
        human, judged = grades(rng, labels + others, judge)
        alone.append(judged.mean() - truth)
        for name, weight in (("humans", 0.0), ("weight 1", 1.0), ("default", None)):
            corrected = corrected_mean(
                human[:labels], judged[:labels], judged[labels:], weight=weight
            )
            low, high = corrected.interval
            outcomes[name].append(
                (low <= truth <= high, corrected.mean - truth, (high - low) / 2)
            )
    cells = [judge, str(labels), f"{np.mean(alone):+.2f}"]
    for values in outcomes.values():
        held, off, half = np.mean(values, axis=0)
        cells.append(f"{held:.1%}, {off:+.3f}, ±{half:.2f}")
    return cells


_GRADES = np.arange(1.0, 6.0)
_SHARES = {
    # of the grades 1 to 5
    "about the middle": (0.07, 0.24, 0.38, 0.24, 0.07),
    "bad grades are rare": (0.03, 0.0, 0.02, 0.15, 0.8),
    "1 is rare, else 5": (0.05, 0.0, 0.0, 0.0, 0.95),
}
_KINDS = ("perfect", "good", "bad")


def skewed(
    shares: tuple[float, ...],
    judge: str,
    labels: int,
    others: int,
    runs: int,
    seed: int,
) -> tuple[float, ...]:
    """How often the interval of the default, and that of `weight=1`, hold the mean; and their half widths.

    A good judge is off by a grade now and then, a bad one says anything.
    """
    rng = np.random.default_rng(seed)
    truth = float(_GRADES @ shares)
    outcomes = []
    for _ in range(runs):
        human = rng.choice(_GRADES, labels + others, p=shares)
        judged = human if judge == "perfect" else rng.choice(_GRADES, labels + others)
        if judge == "good":
            judged = np.clip(np.rint(human + 0.5 * rng.normal(size=len(human))), 1, 5)
        intervals = [
            corrected_mean(
                human[:labels], judged[:labels], judged[labels:], weight=weight
            ).interval
            for weight in (None, 1.0)
        ]
        outcomes.append(
            [
                x
                for low, high in intervals
                for x in (low - 1e-9 <= truth <= high + 1e-9, (high - low) / 2)
            ]
        )
    return tuple(np.mean(outcomes, axis=0).tolist())


def accepted(
    share: float, agreement: float, labels: int, others: int, runs: int, seed: int
) -> tuple[float, ...]:
    """Humans accept this share of the answers, and the judge agrees with them so often.

    How often the labels' own interval by Student's t, and that of the default, hold the
    share; and the half width.
    """
    rng = np.random.default_rng(seed)
    outcomes = []
    for _ in range(runs):
        human = (rng.random(labels + others) < share).astype(float)
        judged = np.where(rng.random(labels + others) < agreement, human, 1 - human)
        corrected = corrected_mean(human[:labels], judged[:labels], judged[labels:])
        low, high = corrected.interval
        error = human[:labels].std(ddof=1) / math.sqrt(labels)
        plain = (
            abs(human[:labels].mean() - share) <= stats.t.ppf(0.975, labels - 1) * error
        )
        outcomes.append((plain, low <= share <= high, (high - low) / 2))
    return tuple(np.mean(outcomes, axis=0).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--others", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    error = math.sqrt(0.95 * 0.05 / arguments.runs)
    print(
        f"{arguments.runs} runs, {arguments.others} answers without a label; coverage ± {error:.1%}\n"
    )
    head = [
        "judge",
        "labels",
        "judge alone is off by",
        "labels alone",
        "weight=1",
        "default",
    ]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for judge in _JUDGES:
        for labels in (10, 30, 100):
            print(
                "| "
                + " | ".join(
                    row(judge, labels, arguments.others, arguments.runs, arguments.seed)
                )
                + " |"
            )
    print("\n| grades | judge | labels | default | weight=1 |\n|---|---|---|---|---|")
    for (name, shares), judge, labels in product(
        _SHARES.items(), _KINDS, (10, 20, 50, 100)
    ):
        cells = skewed(
            shares, judge, labels, arguments.others, arguments.runs, arguments.seed
        )
        held, half, held_1, half_1 = cells
        print(
            f"| {name} | {judge} | {labels} | {held:.1%}, ±{half:.2f} | {held_1:.1%}, ±{half_1:.2f} |",
            flush=True,
        )
    print(
        "\nLabels of 0 and 1\n\n| labels | accepted | judge agrees | labels alone | default |\n|---|---|---|---|---|"
    )
    for labels in (10, 20, 50, 100, 200):
        for share, agreement in product(
            (0.5, 0.8, 0.9, 0.95, 0.98, 0.99), (0.5, 0.7, 0.9, 1.0)
        ):
            plain, held, half = accepted(
                share,
                agreement,
                labels,
                arguments.others,
                arguments.runs,
                arguments.seed,
            )
            print(
                f"| {labels} | {share:.0%} | {agreement:.0%} | {plain:.1%} | {held:.1%}, ±{half:.2f} |"
            )


if __name__ == "__main__":
    main()
