"""Optimizers that use a selection: `improve`, which lets a writer write prompts, and adapters to other optimizers."""

from asktell_adapters.optimizers.briefs import Brief, FailedExample, Writer
from asktell_adapters.optimizers.improving import Generation, Improvement, improve

__all__ = ["Brief", "FailedExample", "Generation", "Improvement", "Writer", "improve"]
