"""The problem, as given before the first pull: goals, budget, examples, candidates, features, and their checks."""
