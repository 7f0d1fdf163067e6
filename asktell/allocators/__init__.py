"""Allocators divide the pulls (evaluations) of a round among the active arms (prompts)."""

from asktell.allocators.base import AbstractAllocator, PullsToShare
from asktell.allocators.g_optimal_design import GOptimalDesign
from asktell.allocators.uniform import Uniform

__all__ = ["AbstractAllocator", "GOptimalDesign", "PullsToShare", "Uniform"]
