"""asktell's sampler, as a package of OptunaHub."""

from asktell_adapters.optimizers.optuna import AsktellSampler

__all__ = ["AsktellSampler"]
