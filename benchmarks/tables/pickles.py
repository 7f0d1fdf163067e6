"""Pickles of others, read without running anything in them."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


class Inert:
    """What stands for every class and function that a pickle names: it keeps what it is given, and does nothing."""

    state: Any = None

    def __init__(self, *args: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __call__(self, *args: Any) -> "Inert":
        """Keep the arguments of what a pickle calls."""
        return Inert(*args)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return type(f"{module}.{name}", (Inert,), {})


def read_pickle(path: Path) -> Any:
    """Plain values as they are; all else is `Inert`, so that nothing of the file is imported or called."""
    with path.open("rb") as file:
        return _Unpickler(file).load()


def array_of(inert: Inert) -> list[Any] | npt.NDArray[np.float64]:
    """The elements of an array that dill wrote: of objects as a list, else of float64."""
    _, _, dtype, _, data = inert.args[2]
    return data if isinstance(data, list) else np.frombuffer(data, dtype.args[0])
