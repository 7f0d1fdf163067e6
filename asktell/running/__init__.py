"""Drive a selection with an evaluator."""
