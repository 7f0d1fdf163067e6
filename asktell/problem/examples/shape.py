"""How the examples of a metric differ, as estimated from earlier studies."""

from typing import NamedTuple

from asktell.numerics.arrays import Floats
from asktell.numerics.shapes import Float


class Shape(NamedTuple):
    """The parameters of each of the N examples, in units of the mean example's, except for `shift`.

    In the model score = level + loading x prompt effect + shift + example effect +
    residual, `example` and `residual` are the variances of the last two, each up to a
    factor that is estimated from the study's own scores.
    """

    shift: Float[Floats, " examples"]  # in the metric's units, mean 0
    # Mean 1. Below 0 where better prompts score less
    loading: Float[Floats, " examples"]
    example: Float[Floats, " examples"]  # mean 1
    residual: Float[Floats, " examples"]  # mean 1
    # Information of a score about its prompt, in units of a score on an unseen example
    informativeness: Float[Floats, " examples"]
    # Of prompts, of the mean example's level and of its residual, in squares of the
    # metric's units.
    variances: tuple[float, float, float]

    @classmethod
    def of(
        cls,
        level: Float[Floats, " examples"],
        loading: Float[Floats, " examples"],
        example: Float[Floats, " examples"],
        residual: Float[Floats, " examples"],
        informativeness: Float[Floats, " examples"],
        ability: float,
    ) -> "Shape":
        """Standardize levels, loadings and variances (N,), and the variance `ability` of the prompts' abilities.

        The ability's variance is in units of the loadings. The mean loading must be
        above 0.
        """
        means = float(loading.mean()), float(example.mean()), float(residual.mean())
        return cls(
            level - level.mean(),
            loading / means[0],
            example / means[1],
            residual / means[2],
            informativeness,
            (ability * means[0] ** 2, means[1], means[2]),
        )

    def trusted(self, trust: float) -> "Shape | None":
        """The shape for a trust between 0 (examples that are all alike) and 1 (this shape). None for a trust of 0.

        The shift is kept whole, whatever the trust. Half of it would be as wrong where
        only hard examples were evaluated, and the examples' deviations from it are
        estimated anyway.
        """
        if trust == 0.0:
            return None
        rest = 1.0 - trust
        return self._replace(
            loading=rest + trust * self.loading,
            example=rest + trust * self.example,
            residual=rest + trust * self.residual,
            informativeness=rest + trust * self.informativeness,
        )
