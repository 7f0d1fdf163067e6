"""The range that a metric's scores are known to have."""

import math


def range_of(metric: object) -> tuple[float, float] | None:
    """A metric's attribute `range`, its lowest and highest score; None if it declares none.

    Ours in [0, 1] do; one of your own may: `my_metric.range = (0, 1)`.
    """
    span = getattr(metric, "range", None)
    if not isinstance(span, tuple | list) or len(span) != 2:
        return None
    if not all(isinstance(end, int | float) and math.isfinite(end) for end in span) or not span[0] < span[1]:
        return None
    return float(span[0]), float(span[1])
