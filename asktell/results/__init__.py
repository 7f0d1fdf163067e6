"""Results of a selection at any time: the selected prompts, estimates of every prompt, comparisons, plots."""
