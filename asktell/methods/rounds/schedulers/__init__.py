"""Schedulers plan the rounds: how many there are, how many evaluations each has, and how many arms each keeps.

An arm is a prompt, and a pull is an evaluation.
"""

from asktell.methods.rounds.schedulers.base import AbstractScheduler, Round
from asktell.methods.rounds.schedulers.gege import GEGEHalving
from asktell.methods.rounds.schedulers.sequential_halving import SequentialHalving
from asktell.methods.rounds.schedulers.single import Single
from asktell.methods.rounds.schedulers.successive_rejects import SuccessiveRejects

__all__ = [
    "AbstractScheduler",
    "GEGEHalving",
    "Round",
    "SequentialHalving",
    "Single",
    "SuccessiveRejects",
]
