"""Methods that choose evaluations: elimination in rounds, composed of four parts; `Adaptive`; `Race`."""

from asktell.methods.adaptive import Adaptive
from asktell.methods.elimination import Elimination
from asktell.methods.presets import METHODS, PARTS, Method, check_method, preset
from asktell.methods.race import Race

__all__ = ["METHODS", "PARTS", "Adaptive", "Elimination", "Method", "Race", "check_method", "preset"]
