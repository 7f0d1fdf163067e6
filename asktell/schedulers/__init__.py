"""Schedulers: the number of rounds, of evaluations in each, and of arms that stay."""

from asktell.schedulers.base import AbstractScheduler, Round
from asktell.schedulers.gege import GEGEHalving
from asktell.schedulers.sequential_halving import SequentialHalving
from asktell.schedulers.single import Single
from asktell.schedulers.successive_rejects import SuccessiveRejects

__all__ = [
    "AbstractScheduler",
    "GEGEHalving",
    "Round",
    "SequentialHalving",
    "Single",
    "SuccessiveRejects",
]
