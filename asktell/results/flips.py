"""The examples on which one prompt is really worse than another, rather than by the noise of evaluations.

An evaluation of a prompt on an example is right with a probability that belongs to the
two: p for prompt a, q for prompt b. On most examples p = q, and scores differ by
chance. Which pairs (p, q) the examples have is unknown: they are drawn from a mixture
of p = q on a grid, p < q and p > q, whose Dirichlet prior favors p = q and whose
posterior is sampled by Gibbs. Where p and q differ, any two shares that are far enough
apart are equally likely. One less the posterior probability that p < q is the local
false discovery rate of an example (Efron 2008; for mixtures on a grid with a penalty in
favor of the null, Stephens 2017). An example is listed if its own rate is at most the
requested rate. A list that is filled up until its mean rate is as large (Müller,
Parmigiani & Rice 2006) was wrong in up to 19% of its examples at 10%, since its last
examples depend on the assumptions of the model.

An example may have been evaluated again because of its scores: the likelihood does not
depend on the reason. Repeats show how noisy evaluations are. Without repeats,
differences that go both ways equally often pass for noise, and differences can be
listed only if nearly all of them go one way.

Scores other than 0 and 1 differ on each example by a multiple of the noise, which is
Student's t. Its scale is that of the repeats of the example's own cells, moderated by
the repeats of all cells (Smyth 2004). A guess counts beside them: that all differences
are noise.

How often lists are wrong is simulated by `python -m benchmarks.selection.unrepeatable
--flips`.
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cells import Cells
from asktell.numerics.shapes import Float, Int

_LOW = np.array([0.002, 0.02, 0.08, 0.2, 0.35])
# The grid of shares of evaluations that are right
_SHARES = np.concatenate((_LOW, [0.5], 1.0 - _LOW[::-1]))
_LEAST = 0.25  # least difference between p and q for an example to count as different
# Differences of scores other than 0 and 1, in multiples of the noise
_MULTIPLES = np.array([2.0, 4.0, 8.0, 16.0])
# Prior weights, in examples, of no difference and of either direction. By simulation
_EQUAL, _UNEQUAL = 4.0, 1.0
# Degrees of freedom of the prior of the noise, for all examples and for each. A
# judgement.
_FREEDOM = 4.0
_BURN_IN, _DRAWS = 100, 300


class Flips(NamedTuple):
    """The examples that both prompts were evaluated on, ascending.

    Attributes:
        examples: The examples.
        a: The mean score of prompt a on each example.
        b: The same of prompt b.
        times_a: The number of evaluations of prompt a on each example.
        times_b: The same of prompt b.
        not_less: The probability that a's expected score is not below b's.
        not_more: The probability that a's expected score is not above b's.
        differ: The number of examples on which the first evaluations of the two differ.
        noise: The share of examples on which two evaluations of prompt a would differ.
            None if no repeat or no model supports a number.
    """

    examples: Int[Ints, " examples"]
    a: Float[Floats, " examples"]
    b: Float[Floats, " examples"]
    times_a: Int[Ints, " examples"]
    times_b: Int[Ints, " examples"]
    not_less: Float[Floats, " examples"]
    not_more: Float[Floats, " examples"]
    differ: int
    noise: float | None

    @classmethod
    def of(
        cls,
        arms: Int[Ints, " rows"],
        examples: Int[Ints, " rows"],
        scores: Float[Floats, " rows"],
        a: int,
        b: int,
        is_exact: bool,
    ) -> "Flips":
        """Where arms a and b differ, from rows of one metric's scores (n,) in the order in which they were recorded.

        Rows of other arms or without an example (-1) are ignored. `is_exact`: an evaluation
        always repeats its score, so that every difference is real.
        """
        rows = ((arms == a) | (arms == b)) & (examples >= 0)
        arms, examples, scores = arms[rows], examples[rows], scores[rows]
        n_examples = int(examples.max(initial=0)) + 1
        cells = Cells.of(
            np.where(arms == a, 0, 1), examples, scores[:, None], n_examples
        )
        common, in_a, in_b = np.intersect1d(
            cells.examples[cells.arms == 0],
            cells.examples[cells.arms == 1],
            assume_unique=True,
            return_indices=True,
        )
        # Cells are ordered by arm
        rows_a, rows_b = in_a, int((cells.arms == 0).sum()) + in_b
        means = cells.scores[:, 0]
        of_a, of_b = means[rows_a], means[rows_b]
        times_a, times_b = cells.asks[rows_a], cells.asks[rows_b]
        first = _first_scores(arms == a, examples, scores)
        differ = sum(
            first[True, example] != first[False, example] for example in common.tolist()
        )
        is_binary = bool(np.isin(scores, (0.0, 1.0)).all())
        noise = None
        if is_exact:
            not_less, not_more = (
                (of_a >= of_b).astype(np.float64),
                (of_a <= of_b).astype(np.float64),
            )
            noise = 0.0
        elif differ or (of_a != of_b).any():
            if is_binary:
                model = _of_right_and_wrong(
                    of_a * times_a, times_a, of_b * times_b, times_b
                )
            else:
                model = _of_differences(cells, rows_a, rows_b)
            posterior = _posterior(model)
            not_less, not_more = (1.0 - posterior[:, :2].T)[:, model.group]
            if is_binary and (cells.asks > 1).any():
                noise = float((posterior * model.flips).sum(axis=1)[model.group].mean())
        else:
            not_less = not_more = np.ones(len(common))
        return cls(
            common, of_a, of_b, times_a, times_b, not_less, not_more, differ, noise
        )


class _Model(NamedTuple):
    """Groups of examples with the same evidence, and the columns, the kinds of examples.

    The columns are a less than b, a more than b, and then the kinds of examples without
    a difference.

    Attributes:
        likelihood: The likelihood of each group's evidence for each column.
        group: The group of each example.
        flips: The probability that two evaluations of prompt a differ. Zero for
            scores other than 0 and 1.
    """

    likelihood: Float[Floats, "groups columns"]
    group: Int[Ints, " examples"]
    flips: Float[Floats, "groups columns"]


def at_rate(rates: Float[Floats, " examples"], fdr: float) -> list[int]:
    """The rows whose false discovery rate (n,) is at most `fdr`, the surest first. A rate of NaN is unknown.

    A rate may be the local one of a row, or that of the list of all surer rows.
    """
    order = np.argsort(rates, kind="stable")
    return [row for row in order.tolist() if rates[row] <= fdr]


def _first_scores(
    is_a: Float[Floats, " rows"],
    examples: Int[Ints, " rows"],
    scores: Float[Floats, " rows"],
) -> dict[tuple[bool, int], float]:
    found: dict[tuple[bool, int], float] = {}
    for of_a, example, score in zip(
        is_a.tolist(), examples.tolist(), scores.tolist(), strict=True
    ):
        found.setdefault((of_a, example), score)
    return found


def _of_right_and_wrong(
    right_a: Float[Floats, " examples"],
    times_a: Int[Ints, " examples"],
    right_b: Float[Floats, " examples"],
    times_b: Int[Ints, " examples"],
) -> _Model:
    evidence = np.rint(
        np.column_stack((right_a, times_a - right_a, right_b, times_b - right_b))
    )
    patterns, group = np.unique(evidence, axis=0, return_inverse=True)
    p, q = (grid.ravel() for grid in np.meshgrid(_SHARES, _SHARES, indexing="ij"))
    logs = np.stack((np.log(p), np.log1p(-p), np.log(q), np.log1p(-q)))
    likelihood = np.exp(patterns @ logs)
    less, more, equal = q - p >= _LEAST, p - q >= _LEAST, p == q
    columns = [
        likelihood[:, less].mean(axis=1),
        likelihood[:, more].mean(axis=1),
        *likelihood[:, equal].T,
    ]
    of_flips = 2.0 * p * (1.0 - p)
    # Where a and b differ, p is uncertain: its mean is by how well each p explains the
    # evidence.
    unequal = [
        (likelihood[:, part] @ of_flips[part]) / likelihood[:, part].sum(axis=1)
        for part in (less, more)
    ]
    equals = np.tile(of_flips[equal], (len(patterns), 1))
    return _Model(
        np.column_stack(columns), group.ravel(), np.column_stack((*unequal, equals))
    )


def _of_differences(
    cells: Cells, rows_a: Int[Ints, " rows_a"], rows_b: Int[Ints, " rows_b"]
) -> _Model:
    from scipy import stats  # here, to keep the import of asktell light

    squares, times = cells.squares[:, 0], cells.asks
    differences = cells.scores[rows_a, 0] - cells.scores[rows_b, 0]
    guess = float((differences**2).mean()) / 2.0
    noise = (squares.sum() + _FREEDOM * guess) / ((times - 1).sum() + _FREEDOM)
    freedom = (times[rows_a] + times[rows_b] - 2) + _FREEDOM
    variances = (squares[rows_a] + squares[rows_b] + _FREEDOM * noise) / freedom
    scale = np.sqrt(variances * (1.0 / times[rows_a] + 1.0 / times[rows_b]))
    steps = np.sqrt(noise) * _MULTIPLES
    values = np.concatenate((-steps, steps, [0.0]))
    likelihood = stats.t.pdf(
        (differences[:, None] - values) / scale[:, None], freedom[:, None]
    )
    less, more, equal = np.split(likelihood, [len(steps), 2 * len(steps)], axis=1)
    columns = np.column_stack((less.mean(axis=1), more.mean(axis=1), equal))
    return _Model(columns, np.arange(len(differences)), np.zeros_like(columns))


def _posterior(model: _Model) -> Float[Floats, "groups columns"]:
    """Probabilities, averaged over draws of how frequent the columns are."""
    likelihood = model.likelihood / model.likelihood.max(axis=1, keepdims=True)
    sizes = np.bincount(model.group, minlength=len(likelihood))
    n_equal = likelihood.shape[1] - 2
    weights = np.array([_UNEQUAL, _UNEQUAL, *[_EQUAL / n_equal] * n_equal])
    rng = np.random.default_rng(len(model.group))
    share, total = weights / weights.sum(), np.zeros_like(likelihood)
    for sweep in range(_BURN_IN + _DRAWS):
        posterior = likelihood * share
        posterior /= posterior.sum(axis=1, keepdims=True)
        if sweep >= _BURN_IN:
            total += posterior
        counts = rng.multinomial(sizes, posterior).sum(axis=0)
        # A Dirichlet draw, up to its sum
        share = np.maximum(rng.gamma(weights + counts), 1e-300)
        share /= share.sum()
    return np.asarray(total / _DRAWS)
