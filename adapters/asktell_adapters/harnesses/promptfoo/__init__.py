"""promptfoo: the prompts, tests and assertions of its config, chosen by asktell and evaluated by promptfoo itself."""

from asktell_adapters.harnesses.promptfoo.evaluator import PromptfooEvaluator

__all__ = ["PromptfooEvaluator"]
