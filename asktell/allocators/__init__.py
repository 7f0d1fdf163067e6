"""Allocators: a round's pulls to pulls per arm."""

from asktell.allocators.base import AbstractAllocator, PullsToShare
from asktell.allocators.g_optimal_design import GOptimalDesign
from asktell.allocators.uniform import Uniform

__all__ = ["AbstractAllocator", "GOptimalDesign", "PullsToShare", "Uniform"]
