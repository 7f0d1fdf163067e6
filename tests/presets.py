"""The methods that most plays are made with."""

PRESETS = ["uniform", "csr", "csr-sh", "ege-sr", "ege-sh"]
"""Eliminations on sample means: they need no features, and no package of an extra."""
