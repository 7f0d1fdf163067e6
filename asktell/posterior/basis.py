"""Functions of the prompts' features, and of candidates' factors, that their effects may be made of.

A factor's level has an effect on all candidates of that level. How much a factor matters is estimated from the scores
(`asktell.posterior.two_way`).

A Gaussian process with a kernel k has effects Z @ slopes, Z Z' = k, with independent slopes. The kernel here is half
linear and half Gaussian (RBF), as of BLUP, and Z its leading components.
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Features, Indices, Matrix, spread_evenly, standardized
from asktell.problem.candidates import Candidates

_COLUMNS = 24  # leading components of the kernel that the model takes; the others' eigenvalues are small
_LANDMARKS = 512  # rows that stand for all (Nystrom approximation), so that 100,000 prompts take no K x K matrix
_MOST_LEVELS = 512  # of all factors: equations of that size take a tenth of a second


class Basis(NamedTuple):
    """`columns` (K, q), whose rows have a mean squared length of 1.

    `blocks` (q,): which columns belong together, each with a variance to be estimated; None: all have the same one.
    """

    columns: Matrix
    blocks: Indices | None = None


def of_factors(candidates: Candidates, features: Features | None = None) -> Basis | None:
    """A column for each level of the factors with several levels, and those of the features; None if there is none.

    See `levels_of` for the factors that count.
    """
    parts = [(codes[:, None] == np.arange(codes.max() + 1)).astype(np.float64) for codes in levels_of(candidates)]
    if features is not None:
        parts.append(basis(features))
    parts = [part for part in parts if part.shape[1]]  # none of features that are the same for all
    if not parts:
        return None
    blocks = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    return Basis(np.concatenate(parts, axis=1), blocks)


def levels_of(candidates: Candidates) -> list[Indices]:
    """For each factor that counts, (K,) the number of each candidate's level.

    One with a single level, or with one for each candidate, says nothing that the candidate's own effect does not. Of
    factors with more than 512 levels in all, those with the fewest count.
    """
    codes = [np.unique(column, return_inverse=True)[1] for column in zip(*candidates.levels, strict=True)]
    found, left = [], _MOST_LEVELS
    for one in sorted(codes, key=lambda one: int(one.max())):
        n = int(one.max()) + 1
        if 1 < n < len(one) and n <= left:
            found.append(one)
            left -= n
    return found


def basis(features: Features) -> Matrix:
    """(K, q) from features (K, d); the mean squared length of its rows is 1; q is 0 if all prompts have the same.

    Beyond 512 prompts the kernel goes through as many of them (Nystroem; Williams & Seeger 2001).
    """
    x = standardized(features)
    x = x[:, x.any(axis=0)]
    if not x.shape[1]:
        return np.zeros((len(features), 0))
    some = x[np.sort(np.argsort(spread_evenly(len(x)), kind="stable")[:_LANDMARKS])]
    distances = _squared_distances(some, some)
    median = float(np.median(distances[np.triu_indices(len(some), 1)]))
    length = median if median > 0 else 1.0
    smooth = _leading(np.exp(-0.5 * _squared_distances(x, some) / length), np.exp(-0.5 * distances / length))
    both = np.concatenate((smooth, x / np.sqrt(x.shape[1])), axis=1)
    left, size, _ = np.linalg.svd(both, full_matrices=False)
    leading = size[:_COLUMNS] > 1e-6 * size[0]
    return _unit((left[:, :_COLUMNS] * size[:_COLUMNS])[:, leading])


def _leading(cross: Matrix, among: Matrix) -> Matrix:
    """(K, q) whose products are the kernel's, from its values between all and the landmarks, and among those."""
    values, vectors = np.linalg.eigh(among)
    top = np.argsort(-values)[:_COLUMNS]
    top = top[values[top] > 1e-6 * values.max()]
    component = cross @ (vectors[:, top] / np.sqrt(values[top]))
    return _unit(component - component.mean(axis=0))


def _unit(component: Matrix) -> Matrix:
    length = float(np.sqrt((component**2).sum(axis=1).mean()))
    return component / length if length > 0 else component[:, :0]


def _squared_distances(one: Matrix, other: Matrix) -> Matrix:
    squared = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2.0 * one @ other.T
    return np.asarray(np.maximum(squared, 0.0))
