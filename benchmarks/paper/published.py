"""What the paper states, as numbers."""

import json
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

PER_PROMPT = (3, 5, 8, 10)
SIZES = (30, 50, 100)
REWARD, VOLUME = "soft constrained reward", "hypervolume"

NAMES = {
    REWARD: {
        "Uniform": "uniform-published",
        "CSR": "csr-published",
        "MLP-CSR": "mlp-csr-published",
    },
    VOLUME: {
        "Uniform": "uniform-published",
        "EGE": "ege-sr-published",
        "MLP-EGE": "mlp-ege-published",
    },
}
"""The paper's names of its methods, and those of the benchmarks."""


class Row(NamedTuple):
    """One line of a table: means at 3, 5, 8 and 10 evaluations per prompt, and what is after the ± there."""

    where: str
    metric: str
    k: int
    method: str
    values: tuple[float, ...]
    errors: tuple[float, ...]


@lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """All lines of the paper's four tables."""
    data = json.loads((Path(__file__).parent / "published.json").read_text())
    return tuple(
        Row(
            f"{row['data']}, {row['model']}",
            row["metric"],
            row["k"],
            row["method"],
            tuple(row["values"]),
            tuple(row["errors"]),
        )
        for row in data["rows"]
    )


class Count(NamedTuple):
    """In how many cells (data, model, number of prompts, budget) one method is above another, equal, and below."""

    above: int
    equal: int
    below: int

    def __str__(self) -> str:
        return f"{self.above} / {self.equal} / {self.below}"


def count(rows: tuple[Row, ...], metric: str, method: str, other: str) -> Count:
    """How often one method's mean is above another's."""
    means = {
        (row.where, row.k, row.method): row.values
        for row in rows
        if row.metric == metric
    }
    pairs = [
        (values, means[where, k, other])
        for (where, k, name), values in means.items()
        if name == method
    ]
    signs = np.sign(np.concatenate([np.array(a) - np.array(b) for a, b in pairs]))
    return Count(*(int((signs == sign).sum()) for sign in (1, 0, -1)))
