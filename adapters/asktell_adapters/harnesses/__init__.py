"""Adapters to evaluation harnesses, imported one by one; importing this package imports none."""
