"""How to choose what to evaluate: elimination in rounds, composed of four parts, and `Adaptive`, without rounds."""

from asktell.methods.adaptive import Adaptive
from asktell.methods.elimination import Elimination
from asktell.methods.presets import METHODS, Method, preset

__all__ = ["METHODS", "Adaptive", "Elimination", "Method", "preset"]
