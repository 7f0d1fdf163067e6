"""Where others publish tables of real scores, and how a table in our format is made of their files.

Arms, examples, their order and every cell are those that the benchmarks were run on, so
that their numbers can be reproduced; README.md beside this file says where one would
align them otherwise today.
"""

import json
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from asktell._util.extras import needs_extra
from benchmarks.problems.replay import brevity
from benchmarks.problems.table import write_table
from benchmarks.tables.pickles import array_of, read_pickle

Files: TypeAlias = Mapping[str, Path]
"""A repository's files by their path in it, sorted by it."""

Arrays: TypeAlias = dict[str, npt.ArrayLike]
Tables: TypeAlias = Iterator[tuple[str, Arrays]]
"""`FAMILY/STEM` of each table, and its arrays."""

_ENGLISH = (
    *(
        "AmazonCounterfactualClassification",
        "ArguAna",
        "ArXivHierarchicalClusteringP2P",
    ),
    *(
        "ArXivHierarchicalClusteringS2S",
        "AskUbuntuDupQuestions",
        "BIOSSES",
        "Banking77Classification",
    ),
    *(
        "BiorxivClusteringP2P.v2",
        "CQADupstackGamingRetrieval",
        "CQADupstackUnixRetrieval",
    ),
    *(
        "ClimateFEVERHardNegatives",
        "FEVERHardNegatives",
        "FiQA2018",
        "HotpotQAHardNegatives",
        "ImdbClassification",
    ),
    *(
        "MTOPDomainClassification",
        "MassiveIntentClassification",
        "MassiveScenarioClassification",
    ),
    *(
        "MedrxivClusteringP2P.v2",
        "MedrxivClusteringS2S.v2",
        "MindSmallReranking",
        "SCIDOCS",
        "SICK-R",
        "STS12",
    ),
    *(
        "STS13",
        "STS14",
        "STS15",
        "STS17",
        "STS22.v2",
        "STSBenchmark",
        "SprintDuplicateQuestions",
    ),
    *(
        "StackExchangeClustering.v2",
        "StackExchangeClusteringP2P.v2",
        "SummEvalSummarization.v2",
        "TRECCOVID",
    ),
    *(
        "Touche2020Retrieval.v3",
        "ToxicConversationsClassification",
        "TweetSentimentExtractionClassification",
    ),
    *("TwentyNewsgroupsClustering.v2", "TwitterSemEval2015", "TwitterURLCorpus"),
)
"""The tasks of MTEB(eng, v2)."""


@dataclass(frozen=True)
class Source:
    """A repository at a commit, the files needed (patterns as in .gitignore), and what makes tables of them."""

    url: str
    commit: str
    licence: str
    patterns: Sequence[str]
    read: Callable[[Files], Tables]

    def make(self, output: Path, url: str | None = None) -> list[Path]:
        """Fetch the files, from another clone if there is a `url`, and write the tables into `output`.

        Raises:
            OSError: git is missing, or could not fetch them.
        """
        paths = []
        provenance = json.dumps(
            {"source": self.url, "commit": self.commit, "licence": self.licence}
        )
        with tempfile.TemporaryDirectory() as folder:
            for name, arrays in self.read(
                self._checkout(Path(folder), url or self.url)
            ):
                paths.append(output / f"{name}.npz")
                write_table(paths[-1], **arrays, provenance=provenance)
        return paths

    def _checkout(self, folder: Path, url: str) -> Files:
        """The files alone, of this commit alone."""

        def git(*arguments: str) -> None:
            environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
            done = subprocess.run(
                ["git", *arguments],
                cwd=folder,
                capture_output=True,
                text=True,
                env=environment,
            )
            if done.returncode:
                raise OSError(
                    f"git {arguments[0]} of {self.commit[:7]} from {url}: {done.stderr.strip()}"
                )

        git("init", "--quiet")
        git(
            "remote",
            "add",
            "origin",
            str(Path(url).resolve()) if Path(url).exists() else url,
        )
        if Path(url).exists():
            git(
                "config",
                "remote.origin.uploadpack",
                "git -c uploadpack.allowFilter=true upload-pack",
            )
        git(
            "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", self.commit
        )
        git("sparse-checkout", "set", "--no-cone", *self.patterns)
        git("checkout", "--quiet", "FETCH_HEAD")
        paths = {
            path.relative_to(folder).as_posix(): path
            for path in folder.rglob("*")
            if path.is_file()
        }
        return {
            name: paths[name] for name in sorted(paths) if not name.startswith(".git/")
        }


def _capo(files: Files) -> Tables:
    cells: dict[str, dict[str, npt.NDArray[np.float64]]] = {}
    inputs: dict[str, list[str]] = {}
    for name, path in files.items():
        _, _, dataset, model, *_ = name.split("/")
        stem = f"capo/{dataset}_{model}_seed42"
        task = read_pickle(path).state["task"].state
        texts = inputs.setdefault(stem, list(array_of(task["xs"])))
        blocks = dict(task["blocks"])
        if list(array_of(task["xs"])) != texts:
            raise ValueError(f"{name}: the examples are not those of the runs before")
        for (prompt, block), scores in task["prompt_score_cache"].items():
            row = cells.setdefault(stem, {}).setdefault(
                prompt, np.full(len(texts), np.nan)
            )
            at = blocks[block]
            # Of several evaluations the first
            row[at] = np.where(np.isnan(row[at]), array_of(scores), row[at])
    for stem, rows in cells.items():
        prompts = sorted(
            prompt for prompt, row in rows.items() if not np.isnan(row).any()
        )
        words = np.array(
            [[len(p.split()) + len(x.split()) for x in inputs[stem]] for p in prompts],
            dtype=float,
        )
        short = brevity(words, float(words.min()), float(np.quantile(words, 0.95)))
        scores = np.stack((np.array([rows[p] for p in prompts]), short), axis=2)
        yield stem, _arrays(("accuracy", "brevity"), scores, prompts, inputs[stem])


def _alpaca_eval(files: Files) -> Tables:
    rows = {
        name.split("/")[1]: _by("instruction", json.loads(path.read_bytes()))
        for name, path in files.items()
    }
    judged = [
        {at for at, row in system.items() if row["preference"] is not None}
        for system in rows.values()
    ]
    examples = sorted(set.intersection(*judged))
    # The system's is the second output; a draw written as 0 counts as lost
    won = {0: 0.0, 1: 0.0, 1.5: 0.5, 2: 1.0}
    preference = np.array(
        [[won[row[at]["preference"]] for at in examples] for row in rows.values()]
    )
    words = np.array(
        [
            [len(row[at]["output_2"].split()) for at in examples]
            for row in rows.values()
        ],
        dtype=float,
    )
    scores = np.stack((preference, brevity(words, 60, 320)), axis=2).astype(np.float32)
    yield (
        "alpaca_eval/alpaca_eval_gpt4",
        _arrays(("preference", "brevity"), scores, list(rows), examples),
    )


def _summeval(files: Files) -> Tables:
    with needs_extra("metrics"):
        from rouge_score.rouge_scorer import RougeScorer
    documents = read_pickle(files["SUM/SummEval/data.pkl"])
    systems = sorted(next(iter(documents.values()))["sys_summs"])
    score = RougeScorer(["rougeL"]).score

    def cell(document: Mapping[str, Any], system: str) -> list[float]:
        summary = document["sys_summs"][system]
        rouge = score(document["ref_summ"], summary["sys_summ"])["rougeL"].fmeasure
        return [rouge, len(summary["sys_summ"].split()), summary["scores"]["coherence"]]

    values = np.array(
        [
            [cell(document, system) for document in documents.values()]
            for system in systems
        ],
        dtype=np.float32,
    )
    rouge, words, coherence = np.moveaxis(values.astype(float), 2, 0)
    scores = np.stack((rouge, brevity(words, 30, 130), coherence / 5), axis=2)
    yield (
        "summarization/summeval",
        _arrays(("rouge", "brevity", "coherence"), scores, systems, list(documents)),
    )


def _agentopt(files: Files) -> Tables:
    table = read_pickle(next(iter(files.values())))["table"]
    examples = sorted(set.intersection(*map(set, table.values())), key=str)
    cells = [
        [(row[at].state["score"], -np.log10(row[at].state["cost"])) for at in examples]
        for row in table.values()
    ]
    yield (
        "models/agentopt_mathqa",
        _arrays(("score", "cheapness"), cells, list(table), examples),
    )


def _can_ai_code(files: Files) -> Tables:
    rows: dict[str, dict[str, Any]] = {}
    for name, path in files.items():
        lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        rows[name] = {f"{line['name']}/{line['language']}": line for line in lines}
    examples = list(next(iter(rows.values())))
    rows = {name: row for name, row in rows.items() if set(examples) <= set(row)}
    cells = [
        [
            (
                row[at]["passed"] / row[at]["total"],
                -np.log10(1 + len(row[at]["answer"] or "")),
            )
            for at in examples
        ]
        for row in rows.values()
    ]
    yield (
        "models/can_ai_code_junior",
        _arrays(("passed", "brevity"), cells, list(rows), examples),
    )


def _mmlu_pro(files: Files) -> Tables:
    rows: dict[str, dict[str, Any]] = {}
    for name, path in files.items():
        with zipfile.ZipFile(path) as packed:
            lines = json.loads(packed.read(packed.namelist()[0]))
        arm = Path(name).stem.removeprefix("model_outputs_")
        rows[arm] = _by(
            "question_id", [line for line in lines if isinstance(line, dict)]
        )
    category = {
        at: line["category"] for row in rows.values() for at, line in row.items()
    }
    # Of 12,032: the others are cut short
    rows = {arm: row for arm, row in rows.items() if len(row) >= 12_000}
    common = [at for at in category if all(at in row for row in rows.values())]
    rng, examples = np.random.default_rng(0), list[str]()
    for name in sorted(set(category.values())):
        mine = [at for at in common if category[at] == name]
        examples += [mine[i] for i in sorted(rng.choice(len(mine), 100, replace=False))]

    def cell(line: Mapping[str, Any]) -> tuple[float, float]:
        output = line.get("model_outputs", line.get("generated_text")) or ""
        return float(line["pred"] == line["answer"]), -np.log10(1 + len(output))

    cells = np.array(
        [[cell(row[at]) for at in examples] for row in rows.values()], dtype=np.float32
    )
    arrays = _arrays(("correct", "brevity"), cells, list(rows), examples)
    yield "models/mmlu_pro", {**arrays, "segments": [category[at] for at in examples]}


def _mteb(files: Files) -> Tables:
    rows: dict[str, dict[str, Any]] = {}
    for name, path in files.items():
        rows.setdefault(name.split("/")[1], {})[path.stem] = json.loads(
            path.read_bytes()
        )

    def is_whole(row: Mapping[str, Any]) -> bool:
        timed = sum(bool(task.get("evaluation_time")) for task in row.values())
        return len(row) == len(_ENGLISH) and timed >= len(row) - 2

    rows = {name: row for name, row in rows.items() if is_whole(row)}

    def score(task: Mapping[str, Any]) -> float:
        # "ben-Beng", Bengali, has "eng" in it, too.
        every = task["scores"]["test"]
        english = [
            result
            for result in every
            if any("eng" in language for language in result["languages"])
        ]
        return float(np.mean([result["main_score"] for result in english or every]))

    seconds = np.array(
        [
            [row[at].get("evaluation_time") or np.nan for at in _ENGLISH]
            for row in rows.values()
        ]
    )
    seconds = np.where(np.isnan(seconds), np.nanmedian(seconds, axis=0), seconds)
    scores = np.array([[score(row[at]) for at in _ENGLISH] for row in rows.values()])
    cells = np.stack((scores, -np.log10(seconds)), axis=2)
    yield (
        "models/mteb_english_v2",
        _arrays(("main_score", "speed"), cells, list(rows), _ENGLISH),
    )


def _mcpmark(files: Files) -> Tables:
    spent = json.loads(files["summary.json"].read_bytes())["overall"]
    agents: dict[str, dict[str, list[Any]]] = {}
    for name, path in files.items():
        if name != "summary.json":
            _, agent, task = name.split("/")
            agents.setdefault(agent, {})[task.removesuffix(".json")] = _runs(
                json.loads(path.read_bytes())["runs"]
            )
    examples = sorted(set.union(*map(set, agents.values())))
    # Of a model that was too dear for four runs there is one, so it has no repeats.
    agents = {
        name: tasks
        for name, tasks in agents.items()
        if all(len(tasks.get(at, ())) == 4 for at in examples)
    }
    cells = np.array(
        [[agents[name][at] for at in examples] for name in agents], dtype=float
    )
    tokens = cells[..., 2]
    # Dollars are published per agent, for one run through all tasks: each evaluation
    # has the part that its tokens have.
    per_run = np.array([spent[name]["per_run_cost"] for name in agents])
    dollars = (
        per_run[:, None, None]
        * cells.shape[2]
        * tokens
        / tokens.sum(axis=(1, 2), keepdims=True)
    )
    scores = np.moveaxis(np.concatenate((cells, dollars[..., None]), axis=3), 2, 3)
    yield (
        "agents/mcpmark",
        _arrays(
            ("success", "seconds", "tokens", "dollars"), scores, list(agents), examples
        ),
    )


def _runs(runs: Mapping[str, Any]) -> list[tuple[float, float, float]]:
    """Success, seconds and tokens of each run; one that ended in an error has not succeeded, and cost what it did."""
    sorted_runs = [runs[name] for name in sorted(runs)]
    return [
        (
            float(run["success"]),
            run["execution_time"],
            run["token_usage"].get("total_tokens", 0),
        )
        for run in sorted_runs
    ]


def _by(key: str, lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {str(line[key]): line for line in lines}


def _arrays(
    metrics: Sequence[str],
    scores: npt.ArrayLike,
    prompts: Sequence[str],
    examples: Sequence[object],
) -> Arrays:
    return {
        "metrics": metrics,
        "scores": scores,
        "prompts": prompts,
        "examples": list(map(str, examples)),
    }


SOURCES = {
    "capo": Source(
        "https://github.com/finitearth/capo",
        "2b09caa114b1390e446d486e20056f8c4167c9a2",
        "Apache-2.0",
        ["/results/*/*/*/CAPO*/seed42/**/optimizer.pickle"],
        _capo,
    ),
    "alpaca_eval": Source(
        "https://github.com/tatsu-lab/alpaca_eval",
        "cd543a149df89434d8a54582c0151c0b945c3d20",
        "Apache-2.0",
        [
            "/results/*/alpaca_eval_gpt4/annotations.json",
            "!/results/xwinlm-70b-v0.3/**",
        ],
        _alpaca_eval,
    ),
    "summeval": Source(
        "https://github.com/neulab/BARTScore",
        "248f511cb34ae3753fc81f7d7a945de5bfe33458",
        "Apache-2.0; SummEval: MIT",
        ["/SUM/SummEval/data.pkl"],
        _summeval,
    ),
    "agentopt_mathqa": Source(
        "https://github.com/AgentOptimizer/agentopt",
        "fb1c5f3fcdbe5b07c256215e0de1f6be7c9017b7",
        "Apache-2.0",
        ["/experiments/results/cache_db_results/mathqa_lookup.pkl"],
        _agentopt,
    ),
    "can_ai_code_junior": Source(
        "https://github.com/the-crypt-keeper/can-ai-code",
        "aa5a2f6d3fabb2aba9173902371cb8307e664c0f",
        "MIT",
        ["/results/**/eval_junior-v2_*"],
        _can_ai_code,
    ),
    "mmlu_pro": Source(
        "https://github.com/TIGER-AI-Lab/MMLU-Pro",
        "f418b116db00b065c2aea046518d8fcf74d39872",
        "Apache-2.0",
        [
            *(
                "/eval_results/*.zip",
                "!*_0shots*",
                "!*_2shots*",
                "!*-3-*B-Instruct_*",
                "!*14B-Chat*",
                "!*_arx*",
            ),
            *("!*_claude*", "!*_deepseek*", "!*gemini-3*", "!*_gpt*", "!*_iask*"),
        ],
        _mmlu_pro,
    ),
    "mteb_english_v2": Source(
        "https://github.com/embeddings-benchmark/results",
        "f4cc6c8b365a3c779dbc708d6affe0b0355b2ddf",
        "CC0-1.0",
        [f"/results/*/*/{name}.json" for name in _ENGLISH],
        _mteb,
    ),
    "mcpmark": Source(
        "https://github.com/eval-sys/mcpmark-experiments",
        "8f674f0826ad2340ebd12742f474375c55305642",
        "none stated",
        ["/model_results/*/*.json", "/summary.json"],
        _mcpmark,
    ),
}
