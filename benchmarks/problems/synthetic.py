"""Synthetic tables whose shares of variance are those of recorded ones: prompt + example + residual, Gaussian.

- `linear`: a prompt's effect is linear in its features; `nonlinear`: a random two-layer
  network of them; `unstructured`: independent of them (structured methods get the
  features all the same, and are misled).
- `strong`: as accuracy of strong models, 5 % prompt, 60 % example, 35 % residual;
  `small`: as summaries of small models, 35 %, 15 %, 50 %.

Two metrics in conflict: the prompts' effects correlate by -0.5, the examples' by 0.3.
The truth is the mean over the table's N examples, as for recorded tables. Names:
`synthetic/linear-strong`, with `@K` for another number of prompts.
"""

import numpy as np

from benchmarks.problems.table import Array, Table

KINDS = ("linear", "nonlinear", "unstructured")
SHARES = {"strong": (0.05, 0.60, 0.35), "small": (0.35, 0.15, 0.50)}
NAMES = tuple(f"synthetic/{kind}-{share}" for kind in KINDS for share in SHARES)
_DIMENSION = 8
_LEVEL, _SPREAD = 0.5, 0.2  # of a single score


def synthetic_table(
    name: str, n_arms: int = 100, n_examples: int = 300, instance: int = 0
) -> Table:
    """A table of that name; every instance is another draw."""
    kind, share = name.removeprefix("synthetic/").split("-")
    rng = np.random.default_rng([NAMES.index(name), n_arms, n_examples, instance])
    features = rng.normal(size=(n_arms, _DIMENSION))
    prompt, example, residual = np.sqrt(SHARES[share]) * _SPREAD
    effects = _standardized(_prompt_effects(kind, features, rng))
    effects = _standardized(effects @ np.linalg.cholesky([[1.0, -0.5], [-0.5, 1.0]]).T)
    difficulty = (
        rng.normal(size=(n_examples, 2))
        @ np.linalg.cholesky([[1.0, 0.3], [0.3, 1.0]]).T
    )
    noise = rng.normal(size=(n_arms, n_examples, 2))
    scores = (
        _LEVEL
        + prompt * effects[:, None]
        + example * difficulty[None]
        + residual * noise
    )
    prompts = tuple(f"prompt {i}" for i in range(n_arms))
    return Table(name, ("quality", "brevity"), scores, prompts, features)


def _prompt_effects(kind: str, features: Array, rng: np.random.Generator) -> Array:
    if kind == "linear":
        return np.asarray(features @ rng.normal(size=(_DIMENSION, 2)))
    if kind == "nonlinear":
        hidden = np.tanh(features @ rng.normal(size=(_DIMENSION, 16)))
        return np.asarray(hidden @ rng.normal(size=(16, 2)))
    return rng.normal(size=(len(features), 2))


def _standardized(effects: Array) -> Array:
    spread = effects.std(axis=0)
    return np.asarray(
        (effects - effects.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    )
