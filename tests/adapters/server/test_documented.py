"""The service against its own OpenAPI document (schemathesis). Its many cases are made when this file is collected."""

from typing import Any

import pytest
import schemathesis
from hypothesis import settings
from schemathesis.checks import CHECKS

from tests.adapters.server.test_properties import (
    HEADERS,
    client,
    guesses_without_limit,
    studies_to_use,
)

__all__ = ["guesses_without_limit", "studies_to_use"]

pytestmark = pytest.mark.night

schema = schemathesis.openapi.from_asgi("/openapi.json", client().app)

# What a schema cannot say (a name that is taken, a goal without a metric) is refused
# with 422 although it fits.
_SKIPPED = [
    check
    for check in CHECKS.get_all()
    if check.__name__ in ("positive_data_acceptance",)
]


def check(case: Any) -> None:
    """Call, and see that the answer is one that the document promises."""
    # The same few come again and again
    (case.headers or {}).pop("Idempotency-Key", None)
    response = case.call_and_validate(headers=HEADERS, excluded_checks=_SKIPPED)
    assert response.status_code < 500


@schema.parametrize()
# With --run-slow, or without
@settings(max_examples=1_000 if settings().max_examples > 30 else 8)
def test_all_operations_are_as_documented(case: Any) -> None:
    """Most of a study that is there; names of even length stay, as of one that is not."""
    if (
        "{name}" in case.path
        and case.meta.generation.mode.is_positive
        and case.method != "DELETE"
    ):
        fuzzed = case.meta.phase.name.value == "fuzzing"
        if not fuzzed or len(str(case.path_parameters["name"])) % 2:
            case.path_parameters["name"] = "s"
    check(case)
