"""Recorded tables: two of our own, and what makes those that others publish."""
