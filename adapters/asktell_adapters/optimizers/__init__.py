"""`improve` selects prompts, lets a *writer* write new prompts from the best ones, and repeats.

A writer is a function from a `Brief` to the texts of new prompts. The prompts that are
written together are a *generation*. Generation 0 has the prompts that the study was
created with.
"""

from asktell_adapters.optimizers.briefs import Brief, FailedExample, Writer
from asktell_adapters.optimizers.improving import Generation, Improvement, improve

__all__ = ["Brief", "FailedExample", "Generation", "Improvement", "Writer", "improve"]
