"""The clients find no server but the stand-ins."""

import os

import pytest

# LiteLLM looks for prices on the web when it is imported.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPIK_SENTRY_ENABLE="false")


@pytest.fixture(autouse=True)
def _no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPIK_API_KEY",
        "LANGFUSE_HOST",
        "PHOENIX_API_KEY",
        "PHOENIX_COLLECTOR_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)
