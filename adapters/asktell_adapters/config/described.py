"""Every table and key of a configuration in words: what docs/reference/configuration.md is made of.

What reads a table knows its keys, their kinds and defaults; the tests hold this to that. The options of models and
metrics are described where they belong, in the docstrings of their classes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from asktell_adapters.llms import VLLM, HuggingFace, LiteLLM, LlamaCpp, OpenAIChat

NEEDED = "needed"


class Key(NamedTuple):
    """A key of a table.

    Attributes:
        kind: what its value may be: a key of `tables.KINDS`, or words.
        default: in words, or as TOML; `NEEDED` where there is none.
        about: what it does.
    """

    kind: str
    default: str
    about: str


TOP = {
    "budget": Key("whole or table", NEEDED, "Evaluations allowed, or a table: see [budget](#budget)."),
    "output": Key("text", "the file's name without `.toml`", "The run's folder, relative to the file."),
    "method": Key("text", '"auto"', "The name of a [method](methods.md)."),
    "confidence": Key(
        "number", "none; 0.95 for `race`", "Ends early, once the answer is right with that probability. `auto`, `race`."
    ),
    "tolerance": Key("number", "0", "How much worse than right counts as right, in the metrics' units."),
    "features": Key("text", "none", '`"text"`: features made from the prompts\' texts, for methods that need some.'),
    "seed": Key("whole", "0", "Makes every choice repeatable."),
    "sampling": Key("text", '"shared"', '`"iid"` draws an example for every evaluation.'),
    "on_failure": Key(
        "text or table",
        '"skip"',
        "A failed evaluation is a missing value. Or what it counts as, a score for each metric of the goal: "
        "`{ accuracy = 0.0 }`.",
    ),
    "max_failure_rate": Key(
        "number", "0.5", "A prompt leaves when more of its evaluations fail, with 99 % probability; 1: never."
    ),
    "baseline": Key(
        "text or whole",
        "none",
        "Id or text of the prompt in use: never eliminated, and compared with the answer.",
    ),
    "repeats": Key(
        "whole",
        "1",
        "How often a prompt may be asked on the same example: [noisy scores](../how-to/noisy-scores.md).",
    ),
    "concurrency": Key(
        "whole", "`openai`: 8, `vllm`: 64, `huggingface` and `llama-cpp`: a batch, others: 1", "Evaluations at once."
    ),
    "confirm_above": Key("number", "none", "Asks before a run that may cost more; needs a `price`."),
    "prompts": Key("table", NEEDED, "The candidates: [prompts](#prompts)."),
    "data": Key("table", NEEDED, "The examples: [data](#data)."),
    "model": Key("table", NEEDED, "The LLM: [model](#model)."),
    "metrics": Key("table", NEEDED, "What is computed of every answer: [metrics](#metrics)."),
    "evaluator": Key("table", "none", "What has data, LLM and metrics itself: [evaluator](#evaluator)."),
    "goal": Key("table", NEEDED, "What is looked for: [goal](#goal)."),
    "cache": Key("table", "none", "Keeps answers on disk: [cache](#cache)."),
    "improve": Key("table", "its defaults", "How `asktell improve` writes prompts: [improve](#improve)."),
    "profile": Key("table", "none", "Learns from earlier runs which examples tell most: [profile](#profile)."),
}

BUDGET = {
    "evaluations": Key("whole", "no bound", "Evaluations allowed."),
    "cost": Key(
        "number",
        "no bound",
        "Money allowed. With `price` in `[model]`, or the metric `cost`, it is known what an evaluation costs. Money "
        "is kept back for evaluations under way, the most that their prompts have cost.",
    ),
    "max_cost_per_evaluation": Key("number", "none", "Kept back instead: with it the cost is never exceeded."),
}

PROMPTS = {
    "file": Key(
        "text",
        "this or `texts`",
        "`.txt`: a prompt a line, or blocks between blank lines; `.json`: a list, or an object id: prompt; `.jsonl`: a "
        'prompt a line; `.toml`: `id = "text"`; a table (`.csv`, `.tsv`, `.parquet`, `.xlsx`): a column `prompt` and '
        "perhaps `id`. Prompts of `.json`, `.jsonl` and `.toml` may be [chats](../how-to/write-prompts.md).",
    ),
    "encoding": Key("text", "UTF-8, or what a byte order mark says", "Of a file of text."),
    "texts": Key("texts", "this or `file`", "The prompts themselves, texts or chats."),
    "fields": Key(
        "flag",
        "in chats only",
        "Whether `{question}` in a prompt stands for the column of that name: then it must be one.",
    ),
}

DATA = {
    "file": Key(
        "text",
        "this or `loader`",
        "`.csv`, `.tsv`, `.json`, `.jsonl`, `.parquet`, `.xlsx`, or a folder of `datasets`: "
        "[read your data](../how-to/read-your-data.md).",
    ),
    "delimiter": Key("text", "by the header; a tab in `.tsv`", "Between the columns of `.csv` and `.tsv`."),
    "encoding": Key("text", "UTF-8, or what a byte order mark says", "Of files of text."),
    "sheet": Key("text", "the first", "Of an Excel file."),
    "split": Key("text", "the only one", "Of a folder with several data sets."),
    "loader": Key(
        "text",
        "this or `file`",
        '`"package.module:function"`, which returns rows, as mappings or `asktell_adapters.evaluators.Example`.',
    ),
    "arguments": Key("table", "none", "Of the loader."),
    "input": Key("text", '"input"', "The column of the input."),
    "reference": Key("text or false", '"reference"', "The column of the reference."),
    "id": Key(
        "text",
        "none",
        "A column of distinct ids. Without it a column called `id` or `name`, if its values are distinct, or else "
        "the first words and a digest of the row.",
    ),
    "sample": Key("whole", "all", "So many rows drawn at random, in their order."),
    "seed": Key("whole", "0", "Of the sample."),
    "shuffle": Key("whole or false", "false", "Puts the rows in a random order, with that seed."),
    "limit": Key("whole", "all", "Takes so many, after the shuffle."),
}

MODEL = {
    "type": Key("text", "this or `loader`", "See below."),
    "model": Key("text", NEEDED + " with `type`", "See below."),
    "loader": Key(
        "text",
        "this or `type`",
        '`"package.module:function"`, which returns an LLM: an object with `complete(requests)` or an async '
        "`acomplete(request)`.",
    ),
    "arguments": Key("table", "none", "Of the loader."),
    "max_new_tokens": Key("whole", "512", "Longer answers are cut."),
    "temperature": Key("number", "0", "0 is greedy."),
    "system": Key(
        "text", "none", "The system turn. Without it, there is none but what the model's own chat template adds."
    ),
    "template": Key("text", r'"{prompt}\n\n{input}"', "The user turn; other columns of the data by their names."),
    "price": Key(
        "a table with input, output and perhaps cached_input",
        "none",
        "Per million tokens, as `{ input = 0.15, output = 0.6 }`. `openai` and `litellm`.",
    ),
}

EVALUATOR = {
    "type": Key("text", "this or `loader`", '`"promptfoo"` or `"inspect"`.'),
    "config": Key("text", '"promptfooconfig.yaml"', "promptfoo: its configuration, with prompts and tests."),
    "provider": Key("text", "the first", "promptfoo: which of its providers answers."),
    "rows": Key("text", "none", "promptfoo: a file in which its rows are kept."),
    "task": Key("text", NEEDED + " with `inspect`", '`"module:function"`, which returns an Inspect task.'),
    "model": Key("text", "Inspect's own", "inspect: as Inspect names it."),
    "log_dir": Key("text", "none", "inspect: where its logs go."),
    "loader": Key(
        "text",
        "this or `type`",
        '`"package.module:function"`, which returns an object with `evaluate_batch(trials)` and `examples`.',
    ),
    "arguments": Key("table", "none", "Of the task, or of the loader."),
    "repeatable": Key(
        "flag", "false", "An evaluation gives the same scores when it is repeated: none is repeated to find that out."
    ),
}

MODEL_TYPES: dict[str, tuple[Callable[..., Any], str]] = {
    "llama-cpp": (LlamaCpp, "the path of a GGUF file, or `smollm2`. Also takes `dtype`, a text: requantizes the file"),
    "huggingface": (HuggingFace, "a hub id, a folder, the path of a GGUF file, or `smollm2`"),
    "vllm": (VLLM, "a hub id, or a folder"),
    "openai": (OpenAIChat, "the model's name at an OpenAI-compatible API. Its key is in the environment"),
    "litellm": (LiteLLM, "`PROVIDER/NAME`, or the name of a group of `[[model.router]]`"),
}
"""What `model` is there, and the class whose docstring describes the options."""

METRICS = {
    "rouge": "ROUGE-Lsum F1, unless `rouge_type` says otherwise. Needs references.",
    "brevity": "1 up to `low` output tokens, 0 from `high` on, linear between. Both are needed.",
    "exact_match": "1 or 0; `normalized` (true): apart from case, punctuation and English articles. Needs references.",
    "token_f1": "F1 of the words. Needs references.",
    "output_tokens": "How many.",
    "latency": "Seconds.",
    "cost": "Money; needs a `price`.",
    "tool_call": "1 if the LLM calls [the tools of the reference](../how-to/write-prompts.md#tools).",
    "judge": "An LLM grades the answer: [use a judge](../how-to/use-a-judge.md).",
}

GOAL = {
    "type": Key("text", '"best-feasible"', 'Or `"pareto-set"`.'),
    "maximize": Key("metrics", "this or `minimize`", "What is to be large."),
    "minimize": Key("metrics", "this or `maximize`", "What is to be small."),
    "at_least": Key("table", "none", "Metric to bound."),
    "at_most": Key("table", "none", "Metric to bound."),
    "ranges": Key("table", "none", "Metric to `[low, high]`: the scores' range."),
}

IMPROVE = {
    "generations": Key("whole", "4", "After the first; the budget is shared out among all."),
    "candidates": Key("whole", "8", "New prompts in each."),
    "parents": Key("whole", "4", "That the writer is shown."),
    "patience": Key(
        "whole or false", "2", "Generations in a row that bring nothing better, then it ends; false: never."
    ),
    "certainty": Key("number", "0.6", "With which a new prompt has to be better."),
    "writer": Key("table", "the model that answers", "See [improve.writer](#improvewriter)."),
}

WRITER = {
    "type": Key("text", '"llm"', "The only one; or a `loader`."),
    "model": Key("a table as `[model]`", "the run's own", "Who writes."),
    "temperature": Key("number", "1.0", "Of the writer."),
    "max_new_tokens": Key("whole", "256", "Of a prompt that is written."),
    "loader": Key("text", "none", '`"package.module:function"`, which returns a writer: a function of a `Brief`.'),
    "arguments": Key("table", "none", "Of the loader."),
}

CACHE = {
    "file": Key("text", "one for all runs, in the user's cache folder", "Where answers are kept."),
    "max_mb": Key("number", "1000", "The oldest go first."),
    "max_age_days": Key("number", "for ever", "Older answers are asked again."),
}

PROFILE = {
    "from": Key(
        "texts in a list", NEEDED, "Earlier runs on the same examples: folders, their TOML files, or profiles."
    ),
    "half_life": Key("number", "none", "A run counts half as much after so many later ones."),
}

TABLES = {
    "": TOP, "budget": BUDGET, "prompts": PROMPTS, "data": DATA, "model": MODEL, "evaluator": EVALUATOR, "goal": GOAL,
    "improve": IMPROVE, "cache": CACHE, "profile": PROFILE,
}  # fmt: skip
"""By the names of `tables.KEYS`."""
