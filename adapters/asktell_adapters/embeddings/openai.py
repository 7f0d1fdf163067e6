"""Embeddings by an OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from asktell_adapters._extras import import_extra


def embed(
    prompts: Sequence[str],
    model: str = "text-embedding-3-small",
    base_url: str | None = None,
    batch_size: int = 256,
    client: Any = None,
) -> npt.NDArray[np.float64]:
    """Embeddings (K, p) of the prompts, in as many requests as batches.

    The key comes from the environment (OPENAI_API_KEY), `base_url` from OPENAI_BASE_URL unless given; or pass a
    ready `client` (an `openai.OpenAI`). Retries are the client's.

    Raises:
        MissingExtraError: the package openai is not installed.
    """
    if client is None:
        client = import_extra("openai", "openai").OpenAI(base_url=base_url)
    rows: list[list[float]] = []
    for start in range(0, len(prompts), batch_size):
        answer = client.embeddings.create(
            model=model, input=list(prompts[start : start + batch_size]), encoding_format="float"
        )
        # Servers are free to answer in another order.
        rows.extend(item.embedding for item in sorted(answer.data, key=lambda item: item.index))
    return np.asarray(rows, dtype=np.float64).reshape(len(prompts), -1)
