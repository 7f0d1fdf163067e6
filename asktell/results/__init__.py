"""Results of a selection at any time, with estimates of every prompt, comparisons and plots."""
