"""Methods that choose evaluations: `Adaptive`, `Race`, and elimination in rounds, composed of four parts."""

from asktell.methods.auto.adaptive import Adaptive
from asktell.methods.base import AbstractMethod
from asktell.methods.presets import METHODS, PARTS, preset
from asktell.methods.race import Race
from asktell.methods.rounds.elimination import PART_KINDS, Elimination

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
