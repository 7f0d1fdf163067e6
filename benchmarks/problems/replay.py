"""Recorded tables of real scores, read from a folder outside the repository (`--tables` or ASKTELL_TABLES).

Readers of our own format (benchmarks/problems/table.py), in which `python -m
benchmarks.tables` writes public tables, and of five others in these folders:

- `capo/*.npz` (finitearth/capo, Apache-2.0): prompts x 300 dev examples, 0/1 correct;
  the prompts evaluated on all. Metrics: accuracy, and brevity of prompt + input in
  words: 1 at the table's least, 0 at its 95 % quantile and beyond.
- `alpaca_eval/*.npz` (tatsu-lab/alpaca_eval, Apache-2.0): systems x instructions; the
  judge's preference, and brevity of the output: 1 up to 60 words, 0 from 320.
  Instructions with a missing cell are dropped.
- `summarization/*.npz` (SummEval, MIT; neulab/BARTScore, Apache-2.0): summarizers x
  articles; ROUGE-L, brevity of the summary (1 up to 30 words, 0 from 130), and the
  annotators' coherence (divided by 5).
- `sysrs/*.npz` (zifanlyu/llm-bandits-sysrs): models x questions; the score alone.
- `own/*.npz`: `rouge`, and brevity of `tokens`: 1 up to 10 tokens, 0 from 60
  (`*_aclsum`), or 8 and 40 (`*_debian`).
- `benchmarks/tables/*.npz` of this repository, and every other `.npz` of the folder:
  our own format. Those in `agents/` have repeated evaluations, and their own benchmark:
  `python -m benchmarks.selection.agents`.

A table of more than `n_arms` prompts is cut to a fixed random choice of them.
"""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from asktell.numerics import counters
from asktell.problem.features import pca, text_features
from benchmarks.problems.table import Array, Table, read_table

EMBEDDED = Path(__file__).parents[1] / "tables"
DIMENSION = 10
REPEATED = "agents"
"""The folder of tables with repeated evaluations, which are no problems of the suite."""

# Every other one of the tables' sorted names, within capo and within the rest. Methods
# may be tuned on these tables only; every other table, also one that is added later, is
# for the report.
DEVELOPMENT = frozenset(
    {
        f"capo/{name}_seed42"
        for name in (
            "agnews_llama",
            "agnews_qwen",
            "copa_mistral",
            "gsm8k_llama",
            "gsm8k_qwen",
        )
    }
    | {f"capo/{name}_seed42" for name in ("sst-5_mistral", "subj_llama", "subj_qwen")}
    | {"alpaca_eval/alpaca_eval_gpt4", "own/smollm2_aclsum"}
)


def default_folder() -> Path | None:
    """What ASKTELL_TABLES says."""
    folder = os.environ.get("ASKTELL_TABLES")
    return Path(folder) if folder else None


def replay_names(folder: Path | None) -> list[str]:
    """`folder/stem` of every table there, and `recorded/stem` of those of the repository."""
    names = [f"recorded/{path.stem}" for path in EMBEDDED.glob("*.npz")]
    if folder is not None:
        paths = (
            path for path in folder.glob("*/*.npz") if path.parent.name != REPEATED
        )
        names += [str(path.relative_to(folder).with_suffix("")) for path in paths]
    return sorted(names)


def replay_table(name: str, folder: Path | None, n_arms: int = 100) -> Table:
    """The table of that name, with at most `n_arms` prompts.

    Raises:
        FileNotFoundError: there is no such table.
        InvalidTableError: the file is not what its folder promises.
    """
    family, _, stem = name.partition("/")
    parent = (
        EMBEDDED
        if family == "recorded"
        else None
        if folder is None
        else folder / family
    )
    path = Path("nowhere") if parent is None else parent / f"{stem}.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no table {name!r} in {folder}. Point --tables or ASKTELL_TABLES to it."
        )
    table = (_ours if _is_ours(path) else _READERS.get(family, _ours))(path)
    k = len(table.prompts)
    if k > n_arms:
        table = table.rows(
            np.sort(counters.permutation(0, f"prompts of {name}", k)[:n_arms])
        )
    features = table.features
    if features is not None and features.shape[1] > DIMENSION:
        features = pca(features, DIMENSION).features
    return Table(
        name, table.metrics, table.scores, table.prompts, features, table.provenance
    )


def brevity(length: Array, low: float, high: float) -> Array:
    """1 up to `low`, 0 from `high`, linear between."""
    return np.clip((high - length) / (high - low), 0.0, 1.0)


def _capo(path: Path) -> Table:
    with (
        np.load(path) as file,
        gzip.open(path.with_suffix(".prompts.json.gz")) as texts,
    ):
        whole = np.flatnonzero(file["n_obs"] == file["scores"].shape[1])
        correct = file["scores"][whole].astype(float)
        words = (
            file["prompt_words"][whole][:, None] + file["example_words"][None]
        ).astype(float)
        prompts = [row["p"] for row in json.load(texts)]
    prompts = [prompts[i] for i in whole]
    short = brevity(words, float(words.min()), float(np.quantile(words, 0.95)))
    scores = np.stack((correct, short), axis=2)
    return Table(
        path.stem,
        ("accuracy", "brevity"),
        scores,
        _distinct(prompts),
        text_features(prompts, DIMENSION),
    )


def _alpaca_eval(path: Path) -> Table:
    with np.load(path) as file:
        scores = np.stack(
            (file["preference"], brevity(file["output_words"], 60, 320)), axis=2
        ).astype(float)
        names = file["names"].tolist()
    scores = scores[:, np.isfinite(scores).all(axis=(0, 2))]
    return Table(path.stem, ("preference", "brevity"), scores, _distinct(names))


def _summarization(path: Path) -> Table:
    with np.load(path) as file:
        values = file["values"].astype(float)
        metrics = file["metrics"].tolist()
        arms = file["arms"].tolist()
    rouge, words, coherence = (
        values[:, :, metrics.index(name)]
        for name in ("rougeL_f_ours", "summary_words", "coherence")
    )
    scores = np.stack((rouge, brevity(words, 30, 130), coherence / 5), axis=2)
    return Table(path.stem, ("rouge", "brevity", "coherence"), scores, _distinct(arms))


def _sysrs(path: Path) -> Table:
    with np.load(path) as file:
        scores = file["scores"].astype(float)
    prompts = tuple(f"model {arm}" for arm in range(len(scores)))
    return Table(path.stem, ("score",), scores[:, :, None], prompts)


def _own(path: Path) -> Table:
    dataset = path.stem.rsplit("_", 1)[1]
    low, high = {"aclsum": (10, 60), "debian": (8, 40)}[dataset]
    prompts = json.loads((path.parent / f"{dataset}_prompts.json").read_text())
    with np.load(path) as file:
        scores = np.stack(
            (
                file["rouge"].astype(float),
                brevity(file["tokens"].astype(float), low, high),
            ),
            axis=2,
        )
        return Table(
            path.stem,
            ("rouge", "brevity"),
            scores,
            _distinct(prompts),
            file["embeddings"].astype(float),
        )


def _is_ours(path: Path) -> bool:
    with np.load(path) as file:
        return "format" in file.files


def _ours(path: Path) -> Table:
    table = read_table(path)
    features = table.features
    # Whose arms have no texts
    if features is None and path.parent.name not in ("alpaca_eval", "summarization"):
        features = text_features(table.prompts, DIMENSION)
    return Table(
        table.name,
        table.metrics,
        table.scores,
        table.prompts,
        features,
        table.provenance,
    )


def _distinct(texts: list[str]) -> tuple[str, ...]:
    """Repeated texts (the same prompt, recorded twice) numbered."""
    seen: dict[str, int] = {}
    result = []
    for text in texts:
        seen[text] = seen.get(text, 0) + 1
        result.append(text if seen[text] == 1 else f"{text} [{seen[text]}]")
    return tuple(result)


_READERS: dict[str, Callable[[Path], Table]] = {
    "capo": _capo,
    "alpaca_eval": _alpaca_eval,
    "summarization": _summarization,
    "sysrs": _sysrs,
    "own": _own,
}
