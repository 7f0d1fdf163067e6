"""In what the examples of a metric differ, as far as earlier studies know it."""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Vector


class Shape(NamedTuple):
    """Of each of the N examples, in units of the mean example's but for `shift`, which is in the metric's.

    In the model score = level + loading x prompt effect + shift + example effect + residual, `example` and `residual`
    are the variances of the last two, up to a factor each that the study itself tells.
    """

    shift: Vector  # mean 0
    loading: Vector  # mean 1; below 0 where better prompts score less
    example: Vector  # mean 1
    residual: Vector  # mean 1

    @classmethod
    def of(cls, level: Vector, loading: Vector, example: Vector, residual: Vector) -> "Shape":
        """The shape of levels, loadings and variances in whatever units; the mean loading must be above 0."""
        return cls(level - level.mean(), loading / loading.mean(), example / example.mean(), residual / residual.mean())

    @classmethod
    def flat(cls, n_examples: int) -> "Shape":
        """All examples are alike."""
        ones = np.ones(n_examples)
        return cls(np.zeros(n_examples), ones, ones, ones)

    @property
    def tells(self) -> Vector:
        """(N,) how much a score tells of its prompt's effect, in units of one on an example as all are on average."""
        return np.asarray(self.loading**2 / self.residual)
