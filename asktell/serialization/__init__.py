"""The JSON shapes that reach a disk. Versioned, plain data: nothing that is loaded is executed.

What is loaded is checked field by field before anything is built from it; malformed, truncated or foreign input is
refused whole.
"""

from asktell.serialization.fields import checked, parse
from asktell.serialization.methods import dump_part, load_part
from asktell.serialization.problem import dump_goal, dump_problem, load_goal, load_problem
from asktell.serialization.selector import FORMAT, VERSION, dump_selector, load_selector
from asktell.serialization.state import (
    LETTERS,
    dump_decided,
    dump_decisions,
    dump_growth,
    dump_rest,
    dump_state,
    load_decided,
    load_growth,
    load_state,
)

__all__ = [
    "FORMAT",
    "LETTERS",
    "VERSION",
    "checked",
    "dump_decided",
    "dump_decisions",
    "dump_goal",
    "dump_growth",
    "dump_part",
    "dump_problem",
    "dump_rest",
    "dump_selector",
    "dump_state",
    "load_decided",
    "load_goal",
    "load_growth",
    "load_part",
    "load_problem",
    "load_selector",
    "load_state",
    "parse",
]
