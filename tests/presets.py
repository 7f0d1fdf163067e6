"""The methods that most plays are made with."""

PRESETS = ["uniform", "csr", "csr-sh", "ege-sr", "ege-sh"]
"""Eliminations on sample means: they need no features, and no package of an extra."""
CONSTRAINED = " under constraints"
"""Behind a method's name, for `new_selector`: it looks for a front under a constraint."""
FRONTS = [f"{name}{CONSTRAINED}" for name in PRESETS if not name.startswith("csr")]
"""Those that do."""
