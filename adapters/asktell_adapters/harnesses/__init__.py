"""Eval harnesses: what they evaluate, chosen by asktell. Each module imports its own package, late."""
