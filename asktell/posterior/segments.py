"""Prompts' means in segments of the examples: the two-way model, with an arm for every pair of a prompt and a segment.

Of a pair's effect a part is the prompt's, in every segment the same, and a part the segment's, for every prompt the
same; the rest is its own. How much is whose, the likelihood says, as where candidates have factors: the two parts are
its basis. So what is known of a prompt elsewhere counts in a segment where it has seen little; of more than a hundred
prompts it does not, since equations of that size would take seconds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Indices, Vector
from asktell.numerics.cells import Scored
from asktell.posterior.basis import Basis
from asktell.posterior.equations import Groups
from asktell.posterior.two_way import Cells, Posterior, posterior

_MOST_ARMS = 100  # whose common part in all segments is estimated: a quarter of a second for ten segments


class Segments(NamedTuple):
    """The segments' names, in ascending order, and which one each example is in, (N,)."""

    names: tuple[str, ...]
    of_examples: Indices

    @classmethod
    def of(cls, labels: Sequence[str]) -> "Segments":
        """Of the label of each example."""
        names, which = np.unique(np.array(labels, dtype=object), return_inverse=True)
        return cls(tuple(names.tolist()), which)

    @property
    def sizes(self) -> Vector:
        """(G,) how many examples each has."""
        return np.bincount(self.of_examples, minlength=len(self.names)).astype(np.float64)


def pairs(cells: Cells, column: int, n_arms: int, segments: Segments, n_examples: int, averaged: bool) -> Posterior:
    """The posterior of a column's means of the pairs, G for each prompt; over new examples if `n_examples` is ENDLESS.

    Scores on examples that are none of the N are in no segment, and say nothing.
    """
    n, own = len(segments.names), cells.of_column(column)
    real = own.examples >= 0
    arms = own.arms[real] * n + segments.of_examples[own.examples[real]]
    noisy = own.noisy
    if noisy is not None:
        noisy = Scored(arms, noisy.examples[real], noisy.scores[real], noisy.asks[real], noisy.squares[real])
    in_pairs = Cells(arms, own.examples[real], own.scores[real], noisy)
    given = len(segments.of_examples)
    sizes = segments.sizes if n_examples == given else np.full(n, float(n_examples))
    groups = Groups(np.tile(np.arange(n), n_arms), segments.of_examples, sizes)
    return posterior(in_pairs, column, n_arms * n, n_examples, None, averaged, _basis(n_arms, n), None, groups)


def _basis(n_arms: int, n: int) -> Basis:
    """Whose prompt, and whose segment, each pair is; the segment alone where there are many prompts."""
    of_segments = np.tile(np.eye(n), (n_arms, 1))
    if n_arms > _MOST_ARMS:
        return Basis(of_segments, np.zeros(n, dtype=np.int64))
    both = np.repeat(np.eye(n_arms), n, axis=0), of_segments
    return Basis(np.concatenate(both, axis=1), np.repeat([0, 1], [n_arms, n]))
