"""Schedulers: how many rounds, how many pulls in each, how many arms stay."""

from asktell.schedulers.base import AbstractScheduler, Round
from asktell.schedulers.gege import GEGEHalving
from asktell.schedulers.sequential_halving import SequentialHalving
from asktell.schedulers.single import Single
from asktell.schedulers.successive_rejects import SuccessiveRejects

__all__ = ["AbstractScheduler", "GEGEHalving", "Round", "SequentialHalving", "Single", "SuccessiveRejects"]
