"""Elimination in rounds, and its four parts: schedulers, allocators, estimators and rules."""
