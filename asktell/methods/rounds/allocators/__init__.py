"""Allocators divide the pulls (evaluations) of a round among the active arms (prompts)."""

from asktell.methods.rounds.allocators.base import AbstractAllocator, PullsToShare
from asktell.methods.rounds.allocators.g_optimal_design import GOptimalDesign
from asktell.methods.rounds.allocators.uniform import Uniform

__all__ = ["AbstractAllocator", "GOptimalDesign", "PullsToShare", "Uniform"]
