"""Evaluations on other machines: over Ray's actors, and what Dask needs beside `asktell.run`."""

from asktell_adapters.executors.per_process import per_process

__all__ = ["per_process"]
