"""Embeddings by an OpenAI-compatible endpoint."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell_adapters._extras import import_extra


def embed(
    prompts: Sequence[str],
    model: str = "text-embedding-3-small",
    base_url: str | None = None,
    batch_size: int = 256,
    client: Any = None,
) -> npt.NDArray[np.float64]:
    """Embeddings (K, p) of the prompts, in as many requests as batches.

    The key comes from the environment (OPENAI_API_KEY) and appears in no message; `base_url` comes from
    OPENAI_BASE_URL unless given, and a server with one may have no key. Or pass a ready `client` (an
    `openai.OpenAI`). Retries are the client's.

    Raises:
        EvaluatorError: there is no key, a request failed, or the answer is not one vector per prompt.
        InvalidArgumentError: `batch_size` is not positive.
        MissingExtraError: the package openai is not installed.
    """
    if batch_size < 1:
        raise InvalidArgumentError(f"batch_size must be at least 1, got {batch_size!r}.")
    if client is None:
        with _client(base_url) as own:
            return embed(prompts, model, batch_size=batch_size, client=own)
    rows: list[list[float]] = []
    for start in range(0, len(prompts), batch_size):
        batch = list(prompts[start : start + batch_size])
        try:
            answer = client.embeddings.create(model=model, input=batch, encoding_format="float")
        except Exception as error:
            # "from None": the SDK's exception holds the server's words, which may repeat the key.
            raise EvaluatorError(
                _redact(f"embeddings of model {model!r} failed: {type(error).__name__}: {error}", client)
            ) from None
        # Servers are free to answer in another order.
        items = sorted(answer.data or [], key=lambda item: item.index)
        if [item.index for item in items] != list(range(len(batch))):
            raise EvaluatorError(
                f"model {model!r} sent {len(items)} embeddings, for {len({item.index for item in items})} different "
                f"prompts, to a batch of {len(batch)}; expected one for each."
            )
        rows.extend(item.embedding for item in items)
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1:
        raise EvaluatorError(f"model {model!r} sent embeddings of different lengths: {lengths}.")
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), lengths[0] if rows else 0)


def _client(base_url: str | None) -> Any:
    openai = import_extra("openai", "openai")
    base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
    key = os.environ.get("OPENAI_API_KEY")
    if not key and base_url is None:
        raise EvaluatorError("no API key: set the environment variable OPENAI_API_KEY")
    return openai.OpenAI(api_key=key or "none", base_url=base_url)  # The SDK insists on a key.


def _redact(text: str, client: Any) -> str:
    for key in (getattr(client, "api_key", None), os.environ.get("OPENAI_API_KEY")):
        if isinstance(key, str) and key and key != "none":
            text = text.replace(key, "***")
    return text
