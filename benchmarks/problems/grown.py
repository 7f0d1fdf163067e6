"""Large tables that are like a recorded one: `synthetic/preference@1000` is AlpacaEval grown to 1,000 systems.

What was recorded of 53 systems on 754 instructions (`alpaca_eval/alpaca_eval_gpt4`):
means, shares of variance and correlations. The judge prefers an answer or not (0 or 1),
by a latent normal that adds up system, instruction and residual; brevity adds up the
same three, and is cut off at 0 and 1. Numbers only, no table is needed.
"""

import numpy as np
import numpy.typing as npt

from benchmarks.problems.table import Array, Table

NAMES = ("synthetic/preference",)
MEANS = (0.79, 0.49)
SHARES = ((0.23, 0.16, 0.61), (0.20, 0.48, 0.32))
"""Of prompt, example and residual in the variance of preference, and of brevity."""
# Standard deviations, latent for preference (a mean of 0.8, in units of the
# residual's), chosen to give the above.
_LEVELS = (1.45, 0.485)
_SPREADS = ((1.13, 0.96, 1.0), (0.24, 0.37, 0.26))
_CORRELATIONS = (-0.85, -0.3, -0.2)


def grown_table(
    name: str, n_arms: int, n_examples: int = 300, instance: int = 0
) -> Table:
    """A table of that many prompts; every instance is another draw."""
    rng = np.random.default_rng([NAMES.index(name), n_arms, n_examples, instance])
    shapes = ((n_arms, 1), (1, n_examples), (n_arms, n_examples))
    parts = [
        _pairs(rng, shape, rho)
        for shape, rho in zip(shapes, _CORRELATIONS, strict=True)
    ]
    latent, brevity = (
        level
        + sum(
            spread * part[..., i] for spread, part in zip(spreads, parts, strict=True)
        )
        for i, (level, spreads) in enumerate(zip(_LEVELS, _SPREADS, strict=True))
    )
    scores = np.stack((latent > 0, np.clip(brevity, 0.0, 1.0)), axis=2).astype(float)
    return Table(
        name,
        ("preference", "brevity"),
        scores,
        tuple(f"prompt {i}" for i in range(n_arms)),
    )


def _pairs(rng: np.random.Generator, shape: tuple[int, ...], rho: float) -> Array:
    """Standard normals in pairs that correlate by rho."""
    pairs: npt.NDArray[np.float64] = rng.normal(size=(*shape, 2))
    pairs[..., 1] = rho * pairs[..., 0] + np.sqrt(1 - rho**2) * pairs[..., 1]
    return pairs
