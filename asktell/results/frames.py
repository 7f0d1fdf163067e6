"""Data frames of texts that others wrote."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asktell._util.extras import needs_extra

if TYPE_CHECKING:
    import pandas


def frame_of(
    columns: Mapping[str, Sequence[Any]], dtypes: Mapping[str, str]
) -> "pandas.DataFrame":
    r"""A data frame of these columns.

    Half surrogate pairs, which a response that was cut off may have, are escaped, such
    as in the text `\ud83d`. Data frames keep texts in UTF-8, which has no such
    characters.

    Args:
        columns: name -> one value for each row.
        dtypes: name -> pandas type. Other columns have the type that pandas chooses.

    Raises:
        MissingExtraError: pandas is missing.
    """
    with needs_extra("analysis"):
        import pandas
    valid = {
        _valid(name): list(map(_valid, values)) for name, values in columns.items()
    }
    types = {_valid(name): dtype for name, dtype in dtypes.items()}
    return pandas.DataFrame(valid).astype(types)


def _valid(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "backslashreplace").decode()
