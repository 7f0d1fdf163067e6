"""Loops that write prompts: `improve`; and a sampler for Optuna."""

from asktell_adapters.optimizers.briefs import Brief, FailedExample, Writer
from asktell_adapters.optimizers.improving import Generation, Improvement, improve

__all__ = ["Brief", "FailedExample", "Generation", "Improvement", "Writer", "improve"]
