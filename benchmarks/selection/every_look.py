"""Whether early stops could ever be wrong: `python -m benchmarks.selection.every_look`.

The bounds that early stops of `Adaptive(confidence=0.95)` rest on are taken after every
example, of every claim that a wrong answer could rest on, in the tables of
`benchmarks.selection.simulated` seen in full. A table counts as wrong if any false
claim was proven at any of these looks: no way of spending evaluations and no moment to
stop does worse. So this is an upper limit of how often runs stop early with a wrong
answer; `simulated` plays some of them. Unlike there, the range of a metric of few
values is known from the start, and not from scores that came again. With `--inputs
given` the truth is the mean over the N examples. With `--inputs new` it is that over
twenty times as many, of which these are drawn.
"""

import argparse
from itertools import product

import numpy as np
import numpy.typing as npt

from asktell.proofs.bounds import LARGEST_PART
from asktell.proofs.claims import FEW
from asktell.proofs.intervals.asymptotic import Asymptotic
from asktell.proofs.intervals.betting import Betting
from asktell.proofs.intervals.racing import certainly_worse
from benchmarks.selection.race import MANY, WORLDS
from benchmarks.selection.simulated import GOALS, KINDS, table

Array = npt.NDArray[np.float64]

_ERROR = 0.05
_FEW_VALUES = 8
# Looks at all numbers of examples up to this, at every fourth beyond: asymptotic bounds
# only
_EVERY = 40


def wrong(
    kind: str,
    n_arms: int,
    goal: str,
    tolerance: float,
    seed: int,
    n_examples: int,
    inputs: str,
) -> bool:
    """Whether a false claim of one table was ever proven."""
    n_inputs = n_examples * (MANY if inputs == "new" else 1)
    cells, wanted = table(kind, n_arms, goal, n_inputs, seed)
    rng = np.random.default_rng(seed)
    cells = cells[:, rng.permutation(n_inputs)]
    values = wanted.values(cells.reshape(-1, cells.shape[2])).reshape(
        n_arms, n_inputs, -1
    )
    means, values = values.mean(axis=1), values[:, :n_examples]
    population = n_examples if inputs == "given" else None
    if goal == "front":
        share = _ERROR / (n_arms * (n_arms - 1) * values.shape[2])
        pairs = (
            (i, j, k)
            for i, j, k in product(range(n_arms), range(n_arms), range(values.shape[2]))
            if i != j
        )
        false = [
            (i, j, k) for i, j, k in pairs if means[i, k] - means[j, k] > tolerance
        ]
        leads = [
            (values[j, :, k] - values[i, :, k], values[:, :, k]) for i, j, k in false
        ]
        return any(
            _proven(lead, -tolerance, share, metric, True, population)
            for lead, metric in leads
        )
    slack = means[:, 1:].min(axis=1, initial=np.inf)
    best = int(np.where(slack >= 0, means[:, 0], -np.inf).argmax())
    n_constraints = values.shape[2] - 1
    part = _ERROR / 2 if n_constraints else _ERROR
    of_rival = part / (n_arms - 1 + n_constraints)
    seen = np.unique(values[:, :, 0])
    if (
        not n_constraints
        and 1 < len(seen) <= _FEW_VALUES
        and (not tolerance or n_arms > FEW)
    ):
        leads = Betting(seen[0] - seen[-1], seen[-1] - seen[0], population)
        # What is known exactly needs no proof
        most = n_examples - 1 if population else n_examples
        zero, error = np.zeros(n_arms, dtype=np.int64), _ERROR / (2 if tolerance else 1)
        if (
            certainly_worse(
                leads, values[:, :most, 0], zero + most, zero, zero == 0, error
            )[best]
            <= most
        ):
            return True
        if not tolerance:
            return False
        of_rival /= 2
    behind = np.flatnonzero(means[best, 0] - means[:, 0] > tolerance)
    lead = [values[arm, :, 0] - values[best, :, 0] for arm in behind]
    if lead and _proven(
        np.array(lead), -tolerance, of_rival, values[:, :, 0], True, population
    ):
        return True
    for k in range(1, n_constraints + 1):
        bad = np.flatnonzero(means[:, k] < -tolerance)
        share = part / (n_arms * n_constraints)
        if len(bad) and _proven(
            values[bad, :, k], -tolerance, share, values[:, :, k], False, population
        ):
            return True
        if _proven(
            -values[best, :, k], 1e-12, of_rival, -values[:, :, k], False, population
        ):
            return True
    return False


def _proven(
    observed: Array,
    claim: float,
    error: float,
    metric: Array,
    paired: bool,
    population: int | None,
) -> bool:
    """Whether any of the (..., N) observations in their order ever prove a mean above the claim."""
    rows = np.atleast_2d(observed)
    n = rows.shape[1]
    seen = np.unique(metric)
    if len(seen) == 1:
        return False
    if len(seen) <= _FEW_VALUES:
        low, high = (
            (seen[0] - seen[-1], seen[-1] - seen[0]) if paired else (seen[0], seen[-1])
        )
        claims = np.full(len(rows), claim)
        last = n - 1 if population else n
        capital = Betting(low, high, population).log_capital(rows, claims)[:, :last]
        return bool((capital >= -np.log(error)).any())
    spread = float(np.ptp(seen))
    for looks in (*range(3, _EVERY), *range(_EVERY, n, 4)):
        part = rows[:, :looks]
        half = np.sort(part, axis=1)
        often = (half[:, looks // 2 :] == half[:, : looks - looks // 2]).any(axis=1)
        scale = np.where(often, spread, 0.0)
        far = (part - part.mean(axis=1, keepdims=True)) ** 2
        tame = far.max(axis=1) <= LARGEST_PART * far.sum(axis=1)
        if (tame & (Asymptotic(population).lower(part, error, scale) >= claim)).any():
            return True
    return False


def main() -> None:
    """Parse the command line and print a row per cell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--prompts", nargs="+", type=int, default=[2, 5, 20, 100])
    parser.add_argument("--goals", nargs="+", choices=GOALS, default=GOALS)
    parser.add_argument(
        "--tolerances", nargs="+", type=float, default=[0.0, 0.02, 0.05]
    )
    parser.add_argument("--examples", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--inputs", choices=WORLDS, default="new")
    args = parser.parse_args()
    print(
        "| metric | prompts | goal | tolerance | tables | ever wrong |\n|---|---|---|---|---|---|"
    )
    for kind, arms, goal, tolerance in product(
        args.kinds, args.prompts, args.goals, args.tolerances
    ):
        tables = (
            wrong(kind, arms, goal, tolerance, seed, args.examples, args.inputs)
            for seed in range(args.seeds)
        )
        ever = sum(tables)
        row = f"| {kind} | {arms} | {goal} | {tolerance:g} | {args.seeds} | {ever} ({100 * ever / args.seeds:.1f} %) |"
        print(row, flush=True)


if __name__ == "__main__":
    main()
