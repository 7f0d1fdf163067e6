"""Gates: is a candidate not worse than a baseline? `gate` answers in Python, and `asktell gate` in a shell."""

from asktell_adapters.gating.gates import gate
from asktell_adapters.gating.ruling import FAILED, PASSED, UNDECIDED, Ruling

__all__ = ["FAILED", "PASSED", "UNDECIDED", "Ruling", "gate"]
