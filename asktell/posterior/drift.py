"""Whether the scores moved while a selection ran: a step in the residuals over the order of the evaluations.

In the two-way model y = level + prompt + example + residual, the covariance V of the
scores follows from the variances of the three effects. If the evaluated system changes
at some time, all later scores move by some d. Then d x is added to y, where x is 1
after that time and 0 before. The weighted least-squares estimate of d, and its error,
are

    d = x' P y / x' P x   and   1 / sqrt(x' P x),   where P = V^-1 - V^-1 1 (1' V^-1 1)^-1 1' V^-1.

V^-1 (y - level) is the residuals over their variance, so x' P y is the sum of the
residuals after that time. The time is unknown, so a quarter, a half and three quarters
of the run are tried, for every metric, and the error is divided among them
(Bonferroni).

The effects must be random. A method evaluates prompts with lucky scores again, and
their later scores therefore fall. With prompts as fixed effects that looks like a
drift. As random effects they are shrunk by just that much: x' P y is a sum of what each
score adds to the expectation from all earlier ones, times a factor that is known before
the score, so it is a martingale, however the cells were chosen by earlier scores. Its
standardized value is therefore normal for many scores (Brown 1971). Examples are random
effects as well, since they come in a random order: otherwise, where each one is used up
before the next, every drift would be taken for harder examples.

If the goal depends on segments of examples, `auto` chooses examples by their segment.
Then the examples no longer come in a random order: late evaluations may all be of the
hardest segment. So each segment has a level of its own, and 1 is replaced by the
indicators of the segments.
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int
from asktell.posterior.equations import table

_PLACES = (0.25, 0.5, 0.75)  # parts of the run after which scores may have moved
# Least part of what the scores say about a step that is left after the levels. Less is
# rounding.
_LEAST_LEFT = 1e-9
# Least noise within a cell, as a part of the residual's variance: rounding is no drift
_LEAST_NOISE = 1e-3


class Step(NamedTuple):
    """The likeliest step: after which part of the run, by how much, and by how many standard errors."""

    after: float
    shift: float  # in the scores' units
    errors: float


class NumberedRows(NamedTuple):
    """Evaluations in their order. Cells, arms and examples are numbered without gaps."""

    cells: Int[Ints, " rows"]  # the cell of each evaluation
    of_arms: Int[Ints, " cells"]  # the arm of each cell
    of_examples: Int[Ints, " cells"]  # the example of each cell

    @classmethod
    def of(
        cls, arms: Int[Ints, " rows"], examples: Int[Ints, " rows"]
    ) -> "NumberedRows":
        """The rows of arms and examples (n,). An example of -1 is an example of its own."""
        named = np.where(
            examples < 0,
            examples.max(initial=-1) + 1 + np.arange(len(examples)),
            examples,
        )
        pairs, cells = np.unique(np.stack((arms, named)), axis=1, return_inverse=True)
        numbers = [np.unique(column, return_inverse=True)[1] for column in pairs]
        return cls(cells.reshape(-1), numbers[0], numbers[1])


def likeliest_step(
    rows: NumberedRows,
    scores: Float[Floats, " rows"],
    prompt: float,
    example: float,
    residual: float,
    noise: float,
    segments: Ints | None = None,
) -> Step:
    """The step of the most standard errors in the scores (n,).

    `prompt`, `example`, `residual`: variances of the model, in squares of the scores'
    units. `noise`: the part of the residual's that differs between evaluations of one
    cell. `segments` (n,): the segment of each score's example, if examples were chosen
    by their segment.
    """
    n = len(scores)
    places = np.ceil(np.array(_PLACES) * n)
    steps = (np.arange(n)[:, None] >= places).astype(np.float64)
    groups = np.zeros(n, dtype=np.int64) if segments is None else segments
    levels = (groups[:, None] == np.unique(groups)).astype(np.float64)
    vectors = np.column_stack((levels, steps, scores - scores.mean()))
    products = _weighted_products(rows, vectors, prompt, example, residual, noise)
    n_levels = levels.shape[1]
    of_levels, of_steps = products[:n_levels], products[n_levels:-1]
    left = of_steps[:, n_levels:] - of_steps[:, :n_levels] @ np.linalg.solve(
        of_levels[:, :n_levels], of_levels[:, n_levels:]
    )
    information, sums = np.diag(left[:, :-1]), left[:, -1]
    # A step where another segment begins cannot be distinguished from its level.
    is_separable = information > _LEAST_LEFT * np.diag(of_steps[:, n_levels:-1])
    information = np.where(is_separable, information, np.inf)
    errors = sums / np.sqrt(information)
    most = int(np.abs(errors).argmax())
    return Step(
        _PLACES[most], float(sums[most] / information[most]), float(errors[most])
    )


def clear_step(
    arms: Int[Ints, " rows"],
    examples: Int[Ints, " rows"],
    scores: Float[Floats, " rows"],
    variances: tuple[float, float, float],
    noise: float,
    error: float,
) -> Step | None:
    """The likeliest step of scores in their order. None if chance makes such a step more often than `error`.

    `variances` are those of prompts, examples and the residual, of which `noise` is the
    part that belongs to single scores of a cell.
    """
    step = likeliest_step(NumberedRows.of(arms, examples), scores, *variances, noise)
    return step if is_beyond_chance([step], error) else None


def is_beyond_chance(steps: list[Step], error: float) -> bool:
    """True if the largest step, of one per metric, is larger than by chance in a part `error` of the runs."""
    from scipy.stats import norm  # here, to keep the import of asktell light

    bound = norm.isf(error / (2 * len(_PLACES) * max(1, len(steps))))
    return any(abs(step.errors) > bound for step in steps)


def _weighted_products(
    rows: NumberedRows,
    vectors: Float[Floats, "rows vectors"],
    prompt: float,
    example: float,
    residual: float,
    noise: float,
) -> Float[Floats, "vectors vectors"]:
    """The products a' V^-1 b of the vectors (n, v).

    V = prompt Z Z' + example B B' + R, where R has the cell's own variance and the
    noise. Henderson's equations take its inverse, with the effect of more members
    eliminated.
    """
    within = max(noise, _LEAST_NOISE) * residual
    of_cell = residual - within
    n_cells = len(rows.of_arms)
    asks = np.bincount(rows.cells, minlength=n_cells)
    sums = np.stack(
        [np.bincount(rows.cells, column, n_cells) for column in vectors.T], axis=1
    )
    # The inverse of R, cell by cell: (I - of_cell / (within + r of_cell) 1 1') / within.
    products = (
        vectors.T @ vectors
        - sums.T @ ((of_cell / (within + asks * of_cell))[:, None] * sums)
    ) / within
    weight_of_row = 1.0 / (within + asks * of_cell)
    arms, examples = rows.of_arms, rows.of_examples
    sizes = int(arms.max()) + 1, int(examples.max()) + 1
    variances = prompt, example
    # The equations to solve are of the size of the smaller effect
    if sizes[0] > sizes[1]:
        arms, examples, sizes, variances = examples, arms, sizes[::-1], variances[::-1]
    weights = asks * weight_of_row
    kept_precision = np.bincount(arms, weights, sizes[0]) + 1.0 / variances[0]
    other_precision = np.bincount(examples, weights, sizes[1]) + 1.0 / variances[1]
    of_kept, of_other = (
        np.stack(
            [np.bincount(members, weight_of_row * column, size) for column in sums.T],
            axis=1,
        )
        for members, size in ((arms, sizes[0]), (examples, sizes[1]))
    )
    both = table(weights, arms, examples, sizes)
    between = both.toarray() if hasattr(both, "toarray") else np.asarray(both)
    reduced = np.diag(kept_precision) - (between / other_precision) @ between.T
    rest = of_kept - between @ (of_other / other_precision[:, None])
    products -= of_other.T @ (
        of_other / other_precision[:, None]
    ) + rest.T @ np.linalg.solve(reduced, rest)
    return np.asarray(products)
