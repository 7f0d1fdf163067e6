"""Attacks from outside: see `__main__.py`."""
