"""Adapters to evaluation harnesses, imported one by one. Importing this package imports none."""
