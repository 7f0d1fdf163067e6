"""promptfoo: asktell selects prompts and tests of a promptfoo config, and promptfoo evaluates them."""

from asktell_adapters.harnesses.promptfoo.evaluator import PromptfooEvaluator

__all__ = ["PromptfooEvaluator"]
