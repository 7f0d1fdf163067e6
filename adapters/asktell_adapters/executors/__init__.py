"""Evaluations in other processes or on other machines: `ray.run` for Ray, `per_process` for Dask and process pools."""

from asktell_adapters.executors.per_process import per_process

__all__ = ["per_process"]
