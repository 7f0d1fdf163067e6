"""Rates, from counts."""

import math

SURE = 0.99
"""Posterior probability from which a failure rate is above the allowed one.

With a uniform prior and half of the evaluations allowed to fail that takes six failures out of the first six (the
probability is 1 - 2^-7; of five it is 1 - 2^-6): few enough for a prompt that always fails to cost little, many enough
for a prompt that fails once in ten not to leave (six failures in a row are then one case in a million).
"""

_CLOSE = 2.0  # standard deviations; .99 takes more than 2.3 of them
_MANY = 100  # evaluations, of which the normal distribution tells that much
_NOTHING = 1e-20  # of the largest term


def is_above(rate: float, failures: int, n: int) -> bool:
    """Whether a failure rate is above `rate` with the probability `SURE`, after so many failures out of n.

    With a uniform prior that probability is the one that of n + 1 evaluations, each failing with probability `rate`, at
    most `failures` fail. Its terms are taken from the largest one outwards, by products and quotients only: machines
    agree on every bit, and a log that is read elsewhere gives the same state.
    """
    if rate >= 1.0 or failures <= n * rate:
        return False
    if n > _MANY and failures - n * rate < _CLOSE * math.sqrt(n * rate * (1.0 - rate)):
        return False
    odds, largest = rate / (1.0 - rate), int((n + 2) * rate)
    at_most, more, term = 0.0, 0.0, 1.0
    for k in range(largest, n + 2):
        at_most, more = (at_most + term, more) if k <= failures else (at_most, more + term)
        term *= odds * (n + 1 - k) / (k + 1)
        if term < _NOTHING:
            break
    term = largest / (odds * (n + 2 - largest))
    for k in range(largest - 1, -1, -1):
        at_most += term
        term *= k / (odds * (n + 2 - k))
        if term < _NOTHING:
            break
    return at_most >= SURE * (at_most + more)
