"""Before DSPy is imported: nothing from the network, and a cache of this run's own."""

import gc
import os
import tempfile
import warnings
from collections.abc import Iterator

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["DSPY_CACHEDIR"] = tempfile.mkdtemp(prefix="asktell-dspy-")


@pytest.fixture(scope="session", autouse=True)
def sockets_of_litellm() -> Iterator[None]:
    """Some versions leave theirs to the garbage collector."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
