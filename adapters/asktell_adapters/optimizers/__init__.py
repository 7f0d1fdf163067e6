"""Optimizers of other packages: Optuna, with our selection; promptolution, for the candidates."""
