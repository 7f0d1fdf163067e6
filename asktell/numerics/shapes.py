"""Shapes in signatures, in the notation of jaxtyping: `Float[Floats, "arms metrics"]` is an array of two dimensions.

Only readers use the shape. Type checkers check the type of the entries. At run time, the
names are `typing.Annotated`, since jaxtyping took a quarter of the time to import asktell:
it imports asyncio and unittest.mock, and makes a class for each shape. `asktell.numerics.arrays`
lists the names of dimensions.
"""

from typing import Annotated as Bool
from typing import Annotated as Float
from typing import Annotated as Int

__all__ = ["Bool", "Float", "Int"]
