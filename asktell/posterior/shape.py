"""In what the examples of a metric differ, as far as earlier studies know it."""

from typing import NamedTuple

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
    tells: Vector  # how much a score tells of its prompt, in units of one on an example that nobody has seen
    variances: tuple[float, float, float]  # of prompts, of the mean example's level and residual, in the metric's units

    @classmethod
    def of(
        cls, level: Vector, loading: Vector, example: Vector, residual: Vector, tells: Vector, ability: float
    ) -> "Shape":
        """The shape of levels, loadings and variances, with prompts' abilities of a variance in units of the loadings.

        The mean loading must be above 0.
        """
        means = float(loading.mean()), float(example.mean()), float(residual.mean())
        return cls(
            level - level.mean(),
            loading / means[0],
            example / means[1],
            residual / means[2],
            tells,
            (ability * means[0] ** 2, means[1], means[2]),
        )

    def trusted(self, trust: float) -> "Shape | None":
        """As it is if trusted to this part, the rest of the way to examples that are all alike; None if not at all.

        Levels are trusted whole or not at all: half of their differences would be as wrong where only hard examples
        were asked, and how much they vary about what was expected is estimated anyway.
        """
        if trust == 0.0:
            return None
        rest = 1.0 - trust
        return self._replace(
            loading=rest + trust * self.loading,
            example=rest + trust * self.example,
            residual=rest + trust * self.residual,
            tells=rest + trust * self.tells,
        )
