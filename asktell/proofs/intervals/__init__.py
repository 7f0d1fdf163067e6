"""Bounds on a mean that hold at every look, and the probability that it is positive: a file per textbook name."""
