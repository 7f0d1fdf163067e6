"""Embeddings by an OpenAI-compatible endpoint."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import import_extra


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
    `openai.OpenAI`). Retries and time limits are the client's.

    Raises:
        EvaluatorError: there is no key, a request failed, or the answer is not one vector of finite numbers per prompt.
        InvalidArgumentError: `batch_size` is not positive.
        MissingExtraError: the package openai is not installed.
    """
    if batch_size < 1:
        raise InvalidArgumentError(f"batch_size must be at least 1, got {batch_size!r}.")
    if client is None:
        with _client(base_url) as own:
            return embed(prompts, model, batch_size=batch_size, client=own)
    rows: list[npt.NDArray[np.float64]] = []
    for start in range(0, len(prompts), batch_size):
        batch = list(prompts[start : start + batch_size])
        try:
            answer = client.embeddings.create(model=model, input=batch, encoding_format="float")
        except Exception as error:
            # "from None": the SDK's exception holds the server's words, which may repeat the key.
            raise EvaluatorError(
                _redact(f"embeddings of model {model!r} failed: {type(error).__name__}: {error}", client)[:1000]
            ) from None
        try:
            rows.extend(_vectors(answer, len(batch)))
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise EvaluatorError(f"model {model!r} sent a malformed answer, not embeddings: {error}"[:500]) from None
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1:
        raise EvaluatorError(f"model {model!r} sent embeddings of different lengths: {lengths}.")
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), lengths[0] if rows else 0)


def _vectors(answer: Any, expected: int) -> list[npt.NDArray[np.float64]]:
    """One vector for each prompt, in their order: servers are free to answer in another one."""
    found = {}
    items = answer.data or []
    for item in items:
        vector = np.asarray(item.embedding)
        if vector.ndim != 1 or not vector.size or vector.dtype.kind not in "iuf" or not np.isfinite(vector).all():
            raise ValueError(f"an embedding is no list of finite numbers: {repr(item.embedding)[:60]}")
        found[item.index] = vector.astype(np.float64)
    if len(items) != expected or set(found) != set(range(expected)):
        raise ValueError(
            f"{len(items)} embeddings, for {len(found)} different prompts, to a batch of {expected}; "
            "expected one for each"
        )
    return [found[place] for place in range(expected)]


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
