"""Methods that choose evaluations: `Adaptive`, `Race`, and elimination in rounds, composed of four parts."""

from asktell.methods.adaptive import Adaptive
from asktell.methods.base import AbstractMethod
from asktell.methods.elimination import PART_KINDS, Elimination
from asktell.methods.presets import METHODS, PARTS, preset
from asktell.methods.race import Race

__all__ = [
    "METHODS",
    "PARTS",
    "PART_KINDS",
    "AbstractMethod",
    "Adaptive",
    "Elimination",
    "Race",
    "preset",
]
