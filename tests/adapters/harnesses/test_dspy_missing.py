"""Where DSPy is not installed, its adapter says what to install. What it does is tested in tests/families/dspy."""

import importlib
import importlib.util

import pytest

from asktell.errors import MissingExtraError


@pytest.mark.skipif(importlib.util.find_spec("dspy") is not None, reason="DSPy is here")
def test_the_cure_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'asktell\[dspy\]'"):
        importlib.import_module("asktell_adapters.harnesses.dspy")
