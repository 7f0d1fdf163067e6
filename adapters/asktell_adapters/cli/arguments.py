"""The commands of `asktell`, with their arguments and help: one row for each command.

The rows are for argparse, on purpose. Libraries that make a command line from
signatures, such as Typer, were tried. They need pydantic and rich where a plain install
needs nothing, and `asktell run --help` took twice as long. They cannot express
`--budgets 1 3 10`, `--estimate` without a number, or `export URL [NAME] FILE`.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import asktell

PICTURES = (".png", ".svg", ".pdf")
"""The file types of `asktell result --plot`."""

_EXAMPLE = """\
example: a configuration summarize.toml, as asktell init writes it

  output = "runs/summarize"
  budget = 60

  [prompts]
  file = "prompts.txt"              # one prompt per line

  [data]
  file = "papers.jsonl"             # one {"text": ..., "summary": ...} per line
  input = "text"
  reference = "summary"

  [model]
  type = "llama-cpp"                # or huggingface, vllm, openai
  model = "smollm2"                 # or the path of a GGUF file

  [metrics]
  rouge = true
  brevity = { low = 20, high = 60 }

  [goal]
  maximize = "rouge"
  at_least = { brevity = 0.5 }

then

  asktell run summarize.toml        # Ctrl-C stops it; the same command resumes it
  asktell result summarize.toml --plot result.png
"""


Argument = tuple[tuple[str, ...], dict[str, Any]]
"""The flags and the options of `ArgumentParser.add_argument`."""


class Command(NamedTuple):
    """A command of `asktell`.

    Attributes:
        function: `MODULE:FUNCTION` in the package `asktell_adapters.cli`, imported when
            the command is run.
        summary: its line in `asktell --help`.
        description: text of `asktell NAME --help`, before the arguments.
        example: text after the arguments.
    """

    name: str
    function: str
    summary: str
    description: str
    example: str
    arguments: Sequence[Argument]
    usage: str | None = None


class Group(NamedTuple):
    """Commands that stand together in `asktell --help`."""

    title: str
    commands: Sequence[Command]


class _Kinds:
    """The values of `asktell init --kind`. They are read late, since the registry needs the extra `config`."""

    def __iter__(self) -> Iterator[str]:
        try:
            yield from self._known()
        except asktell.MissingExtraError:  # --help works without the extra
            yield "install 'asktell[config]' for the list"

    def __contains__(self, kind: object) -> bool:
        return kind in self._known()

    @staticmethod
    def _known() -> dict[str, str]:
        from asktell_adapters.cli.init import kinds

        return kinds()


def _a(*flags: str, **options: Any) -> Argument:
    """An argument, as `ArgumentParser.add_argument` takes it."""
    return flags, options


# A table: a line or two for an argument.
# fmt: off
_URL = "sqlite:///studies.db"
_STORAGE = "sqlite:///PATH, a path, or postgresql://USER@HOST/DATABASE"
_STUDIES = _a("url", metavar="URL", help=f"{_STORAGE}; http://... of a service; or a run's file or folder")
_CONFIG = _a("config", metavar="CONFIG.toml", type=Path, help="configuration of the run")
_RUN = _a("run", metavar="RUN", help="configuration or folder of the run; or URL and NAME of a study")
_NAME = _a("name", metavar="NAME", nargs="?", help="name of the study, if a URL is given")
_LOOK = (
    _a("run", metavar="CONFIG_FOLDER_OR_URL", help="configuration or folder of the run; or URL of studies"),
    _NAME,
)
_JSON = _a("--json", action="store_true", help="print JSON")
_YES = _a("--yes", action="store_true", help="do not ask before a run that may cost more than confirm_above")
_NO_PROGRESS = _a("--no-progress", action="store_true", help="show no progress bar")
_CONFIDENCE = _a("--confidence", type=float, default=0.95, help="confidence of the intervals (default: %(default)s)")
_ENCODING = _a("--encoding", metavar="NAME", help="encoding of a text file that is not UTF-8")
_FILES_OF_RESULTS = _a("files", metavar="FILE", type=Path, nargs="+",
                       help="results. Each candidate may have its own file, or with lm-eval its own subfolder of a\n"
                            "folder")
_OF_RESULTS = (
    _a("--maximize", metavar="METRIC", action="append", default=[],
       help="maximize this metric; repeatable. Several objectives select a Pareto set"),
    _a("--minimize", metavar="METRIC", action="append", default=[], help="minimize this metric; repeatable"),
    _a("--at-least", metavar="METRIC=X", action="append", default=[], help="add a constraint; repeatable"),
    _a("--at-most", metavar="METRIC=X", action="append", default=[], help="add a constraint; repeatable"),
    _a("--within", metavar="METRIC=X", action="append", default=[],
       help="add a constraint: at most X worse than the best candidate. METRIC='X of baseline' is at most X worse\n"
            "than the baseline; repeatable"),
    _a("--range", metavar="METRIC=LOW:HIGH", action="append", default=[],
       help="lowest and highest possible score of a metric; repeatable. Guaranteed statements need it"),
    _a("--tolerance", metavar="METRIC=X", action="append", default=[],
       help="differences of up to X in a metric do not matter; repeatable"),
    _a("--candidates", metavar="NAMES", action="append", default=[],
       help="candidates to read, separated by commas: columns of a table, or names in it; repeatable"),
    _a("--metrics", metavar="COLUMNS", action="append", default=[],
       help="columns of a table that are metrics, separated by commas; repeatable"),
    _a("--candidate-column", metavar="COLUMN", action="append", default=[],
       help="column of a table that names the candidate; a candidate may be a combination of several columns"),
    _a("--example-column", "--example-columns", metavar="COLUMN", action="append", default=[],
       help="column of a table that names the example; an example may be a combination of several columns"),
    _a("--ignore", metavar="COLUMNS", action="append", default=[],
       help="columns of a table to leave out, separated by commas; repeatable"),
    _a("--repeats", action="store_true", default=None,
       help="rows with the same candidate and example are repeated evaluations"),
    _a("--rename", metavar="OLD=NEW", action="append", default=[],
       help="rename a column, a metric or a candidate; repeatable"),
    _a("--sheet", metavar="NAME", help="sheet of a spreadsheet (default: the only one with scores)"),
    _a("--limited", choices=["count", "drop"], default="count",
       help="Inspect's samples that reached a limit and have a score: count the score, as Inspect does, or drop it\n"
            "and count a failure (default: %(default)s)"),
    _a("--licence", metavar="FILE.json", type=Path,
       help="licence of the LLM judge whose scores these are, as asktell judge wrote it. The output shows it"),
    _a("--floor", metavar="X", type=float,
       help="lowest agreement of the judge with people, from 0 to 1. If the licence is missing, or its lower bound is\n"
            "below X, nothing is established"),
    _ENCODING,
)
OF_RESULTS: dict[str, Any] = {
    "maximize": [], "minimize": [], "at_least": [], "at_most": [], "within": [], "candidates": [], "metrics": [],
    "candidate_column": [], "example_column": [], "ignore": [], "repeats": None, "rename": [], "sheet": None,
    "limited": "count", "encoding": None, "inputs": None, "range": [], "tolerance": [], "licence": None, "floor": None,
}
"""Values of the flags for files of results, if none is given."""

_RUNNING = (
    _CONFIG,
    _a("--fresh", action="store_true", help="start over; the old output folder is renamed"),
    _a("--keep-going", action="store_true", help="do not stop when many evaluations in a row fail"),
    _a("--study", metavar="URL",
       help="keep the study at URL, for other machines: sqlite:///PATH, postgresql://..., or a service's http://..."),
    _a("--join", action="store_true", help="add a worker to the run that uses the output folder"),
    _a("--name", help="name of the study at URL (default: CONFIG's)"),
    _a("--worker", metavar="NAME", help="name of this worker; after a restart it keeps its pending trials"),
    _a("--lease", metavar="SECONDS", type=float, default=60.0,
       help="reassign the pending trials of a dead worker after this time (default: %(default)g)"),
    _YES,
    _NO_PROGRESS,
)

_SELECT = (
    Command("init", "init:init", "write a first configuration",
        "Write a CONFIG with comments, and small example files of prompts and data unless you name your own. In a\n"
        "terminal, the command asks for everything that you did not give as an option.",
        "example: asktell init\n"
        "         asktell init support.toml --kind openai --model gpt-4o-mini --data tickets.csv \\\n"
        "             --prompts prompts.txt --rubric helpful='Solves the problem.' --rubric polite='Is friendly.'\n"
        "         asktell init --promptfoo promptfooconfig.yaml\n"
        "         asktell init --command 'python agent.py' --data tasks.csv",
        (
            _a("config", metavar="CONFIG.toml", type=Path, nargs="?", help="file to write (default: selection.toml)"),
            _a("--kind", metavar="KIND", choices=_Kinds(), help="kind of LLM, or a harness: %(choices)s"),
            _a("--promptfoo", metavar="FILE", type=Path,
               help="use the prompts, tests, provider and metrics of a promptfoo configuration"),
            _a("--command", dest="program", metavar="WORDS",
               help="evaluate with this program: an agent, or any script"),
            _a("--maximize", metavar="METRIC",
               help="metric to maximize, of promptfoo (default: score) or of the program (default: success)"),
            _a("--price", metavar=("IN", "OUT"), type=float, nargs=2,
               help="price per million tokens, read and written"),
            _a("--prompts", metavar="FILE", type=Path, help="file of prompts"),
            _a("--data", metavar="FILE", type=Path, help="file of examples: .csv, .json, .parquet, .xlsx and others"),
            _a("--rubric", metavar="[NAME=]TEXT", action="append",
               help="criterion of a good response, for an LLM judge; repeatable"),
            _a("--model", metavar="NAME", action="append",
               help="name of the model, or promptfoo's provider; repeat it to choose among several models"),
            _a("--base-url", metavar="URL", help="URL of an API other than OpenAI's"),
            _a("--api-key-env", metavar="NAME", help="environment variable of the key (default: OPENAI_API_KEY)"),
            _a("--input", metavar="COLUMN", help="column of the input"),
            _a("--reference", metavar="COLUMN", help="column of the reference response; 'none' for none"),
            _ENCODING,
            _a("--sheet", metavar="NAME", help="sheet of an Excel file (default: the first)"),
            _a("--split", metavar="NAME", 
               help="split to use, if the data is a folder that Hugging Face `datasets` saved with several splits"),
            _a("--budget", metavar="N", type=int, help="number of evaluations"),
            _a("--force", action="store_true", help="replace an existing configuration"),
            _a("--yes", action="store_true", help="ask nothing and use the defaults"),
        ),
    ),
    Command("check", "check:check", "try one evaluation before a run",
        "Evaluate one prompt on one example with the model, the metrics and the judges. Print the request, the\n"
        "response, the reference, the scores and the cost. Nothing is written into the run's folder.",
        "example: asktell check summarize.toml\n         asktell check summarize.toml --prompt brief --example r7",
        (
            _CONFIG,
            _a("--prompt", metavar="ID",
               help="id of a prompt in CONFIG, or of one added by asktell add (default: the first)"),
            _a("--example", metavar="ID", help="id of the example, or its row number (default: the first)"),
            _a("--repeats", metavar="N", type=int, default=1,
               help="evaluate it N times, and print how much the scores differ (default: 1)"),
            _JSON,
        ),
    ),
    Command("run", "run:run_selection", "run or resume a selection",
        "Evaluate prompts as described in CONFIG until the budget is spent, and print the selected prompt.\n"
        "The output folder keeps everything in a study. After Ctrl-C or a crash, the same command resumes the run\n"
        "and repeats no finished evaluation. If the run has finished, the command prints its result.\n"
        "Use --join in other terminals to add workers.",
        _EXAMPLE,
        (
            *_RUNNING,
            _a("--estimate", metavar="N", type=int, nargs="?", const=0,
               help="only estimate the run's calls, tokens, cost and time. With N, measure N real calls first\n"
                    "(default: no calls)"),
            _a("--json", action="store_true", help="print the estimate as JSON"),
        ),
    ),
    Command("label", "label:label", "let people give the scores, in the browser",
        "Serve a page on which people label responses, as [label] in CONFIG describes: one item at a time, in random\n"
        "order, without a sign of the prompt. Several raters can work at once, each under a name. A crash loses no\n"
        "label that the page has counted. After Ctrl-C, the same command continues. Without tokens, only this machine\n"
        "is served. With the token in ASKTELL_LABEL_TOKEN, raters on other machines can use the page and nothing else.",
        "example: asktell label summarize.toml\n"
        "         ASKTELL_LABEL_TOKEN=... asktell label summarize.toml --host 0.0.0.0",
        (
            _CONFIG,
            _a("--fresh", action="store_true", help="start over; the old output folder is renamed"),
            _a("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"),
            _a("--port", type=int, default=0, help="port to listen on (default: any free port)"),
            _a("--no-browser", action="store_true", help="only print the page's address"),
        ),
    ),
    Command("judge", "judge:judge", "choose an LLM judge by labels, and license it",
        "Choose the judge that agrees best with labels that people gave, among the judges in [metrics] and\n"
        "[judge.candidates] of CONFIG. Write its licence: for which rubric, model and settings it is, and how far it\n"
        "agrees with people, with an interval that allows for the choice. A gate can demand the licence.\n"
        "FILE is a table with the columns input, response and label, such as the labels.csv of asktell label.\n"
        "After Ctrl-C, the same command resumes.",
        "example: asktell judge summarize.toml --labels runs/labels/labels.csv",
        (
            _CONFIG,
            _a("--labels", metavar="FILE", type=Path, required=True, help="table of responses with labels by people"),
            _a("-o", "--output", metavar="FILE.json", type=Path,
               help="file of the licence (default: licence of [judge], or judge.json beside CONFIG)"),
            _a("--fresh", action="store_true", help="start over; the old output folder is renamed"),
            _a("--keep-going", action="store_true", help="do not stop when many evaluations in a row fail"),
            _YES,
            _NO_PROGRESS,
        ),
    ),
    Command("improve", "run:run_improvement", "write better prompts, and select among them",
        "Select among the prompts in CONFIG. Then an LLM writes new prompts from the best ones and from the examples\n"
        "on which they fail, and the selection is repeated, until the budget is spent or no better prompt is found.\n"
        "The settings are in [improve] in CONFIG. After Ctrl-C or a crash, the same command resumes.",
        "example: asktell improve summarize.toml",
        (
            *_RUNNING,
            _a("--json", action="store_true", help="print the generations and the result as JSON"),
        ),
    ),
)

_LOOKING = (
    Command("status", "studies:status", "print the progress once: evaluations, failures, best so far",
        "Print the evaluations done, the prompts still active, the failures and the best prompt so far. Use it at any\n"
        "time. `asktell watch` prints the same repeatedly.",
        "example: asktell status summarize.toml\n         asktell status sqlite:///studies.db summarize",
        _LOOK,
    ),
    Command("watch", "studies:watch", "print the progress repeatedly until the run is done",
        "Print the evaluations done, the best prompt so far and each worker's pending trials, until the study is done.",
        f"example: asktell watch {_URL} summarize",
        (
            _STUDIES,
            _NAME,
            _a("--once", action="store_true", help="print once and exit"),
            _a("--interval", metavar="SECONDS", type=float, default=2.0,
               help="time between two prints (default: %(default)g)"),
        ),
    ),
    Command("result", "studies:result", "print every prompt with its estimates, and what to select",
        "Print every prompt with its estimates (mean ± standard error), the selected prompt first. Use it at any time.",
        "example: asktell result runs/summarize --plot result.png\n"
        "         asktell result sqlite:///studies.db summarize --json",
        (
            *_LOOK,
            _a("--plot", metavar="FILE", type=Path, help=f"plot the result to a file: {', '.join(PICTURES)}"),
            _a("--markdown", action="store_true", help="print Markdown, for a pull request or a page"),
            _JSON,
        ),
    ),
    Command("report", "studies:report", "write the result as one HTML page, to keep or to send",
        "Write one HTML file with the selected prompt, every other prompt, the evaluations spent on each, and the\n"
        "responses side by side. Use it at any time. The file opens in any browser and loads nothing else.",
        "example: asktell report summarize.toml -o summarize.html\n"
        "         asktell report sqlite:///studies.db summarize -o summarize.html",
        (
            *_LOOK,
            _a("-o", "--output", metavar="FILE.html", type=Path, default=Path("report.html"),
               help="file to write (default: %(default)s)"),
        ),
    ),
    Command("view", "view:view", "show the same page in the browser, up to date",
        "Show the page of `asktell report` in the browser, and keep it up to date until Ctrl-C. The page is served to\n"
        "this machine only, and nothing can be changed through it.",
        "example: asktell view summarize.toml",
        (
            *_LOOK,
            _a("--port", type=int, default=0, help="port to listen on (default: any free port)"),
            _a("--no-browser", action="store_true", help="only print the page's address"),
        ),
    ),
    Command("studies", "studies:list_studies", "list all studies at a URL, one line each",
        "Print every study with its progress and workers.",
        f"example: asktell studies {_URL}\n         asktell studies http://localhost:8000",
        (_STUDIES,),
    ),
)

_DECIDE = (
    Command("compare", "gate:compare", "compare two prompts of a run",
        "Print how far prompt A is ahead of prompt B in every metric, and how sure that is. By default, B is the\n"
        "baseline. Without a baseline, it is the selected prompt.",
        "example: asktell compare summarize.toml brief long\n"
        "         asktell compare sqlite:///studies.db summarize brief",
        (
            _RUN,
            _a("prompts", metavar="A", nargs="+", help="ids or texts of prompts: A, or A and B"),
            _a("--tolerance", metavar="X", type=float,
               help="treat differences up to X as equal in every metric (default: the goal's tolerances)"),
            _JSON, _CONFIDENCE,
        ),
        "asktell compare [OPTIONS] RUN [NAME] A [B]",
    ),
    Command("gate", "gate:gate", "fail a build when a prompt got worse",
        "Evaluate a candidate and the baseline on the same examples of CONFIG. Stop as soon as it is established\n"
        "whether the candidate is worse, fails more often, or violates a constraint of the goal. With files of\n"
        "results instead of CONFIG, nothing is evaluated.\n"
        "Exit codes:\n"
        "- 0: passed. Neither the mean nor the failure rate is worse by more than the margin, and every constraint is\n"
        "  satisfied\n"
        "- 1: failed. At least one requirement of a pass is violated\n"
        "- 2: error\n"
        "- 3: undecided",
        "example: asktell gate summarize.toml --baseline old --candidate new --margin 0.02\n"
        "         asktell gate old.json new.json --maximize accuracy --baseline old --margin 0.02",
        (
            _a("config", metavar="CONFIG.toml", type=Path,
               help="configuration of a run; or a file of results, as for asktell analyze"),
            _a("more", metavar="FILE", type=Path, nargs="*", help="more files of results"),
            _a("--baseline", metavar="ID", help="prompt in use (default: CONFIG's baseline)"),
            _a("--candidate", metavar="ID", help="new prompt (default: the other prompt, if there are two)"),
            _a("--margin", metavar="X", type=float,
               help="accept a loss of up to X, in units of the metric, and of X / (width of its range) in the failure\n"
                    "rate (default: the tolerance of the objective. 0 without one, and with several objectives)"),
            _a("--summary", metavar="FILE.md", type=Path, help="write a summary in Markdown"),
            _a("--junit", metavar="FILE.xml", type=Path, help="write a JUnit test report"),
            _a("--report", metavar="FILE.html", type=Path, help="write an HTML page with the responses of both"),
            _a("--differ", metavar="SHARE", type=float, default=0.2,
               help="share of examples on which you expect the two prompts to differ. The command first uses it to\n"
                    "print how many evaluations a pass probably takes (default: %(default)g)"),
            _a("--recheck", metavar="N", type=int,
               help="repeat at most N evaluations to see which differences hold; they count towards the budget, but\n"
                    "not towards the verdict (default: 50)"),
            _NO_PROGRESS, _YES, _CONFIDENCE, *_OF_RESULTS,
            _a("--inputs", choices=["new", "given"],
               help="scope of the verdict: unseen inputs, or exactly the given examples (default: given)"),
        ),
        "asktell gate [OPTIONS] CONFIG.toml | FILE ...",
    ),
    Command("analyze", "analyze:analyze", "analyze results that another tool has produced",
        "Print which prompt or model in finished results is best, how sure that is, and how many more examples would\n"
        "settle it. Nothing is evaluated. FILE is one of:\n"
        "- a table (.csv, .tsv, .json, .jsonl, .parquet, .xlsx) with a row for each evaluation, or with a row for\n"
        "  each example and a column of scores for each candidate\n"
        "- results of promptfoo (.json, .jsonl, .csv)\n"
        "- Inspect logs (.eval, .json), or their folder\n"
        "- samples_*.jsonl of lm-eval, or their folder\n"
        "- jobs of Harbor, runs of HELM, or their folder\n"
        "- results of HumanEval, EvalPlus, OpenAI Evals, DeepEval, MLflow, Ragas, LangSmith or Langfuse\n"
        "- results in a format that another package reads\n"
        "The first line says what was read. If a file can be read in several ways, the command asks in a terminal.\n"
        "Otherwise it ends with exit code 2 and the command for each way.",
        "example: asktell analyze scores.csv\n"
        "         asktell analyze results.json --maximize accuracy --at-most cost=0.01 --baseline old -o report.html\n"
        "         asktell analyze old.eval new.eval --maximize match",
        (
            _FILES_OF_RESULTS, *_OF_RESULTS,
            _a("--baseline", metavar="ID", help="candidate in use, to compare the selected candidate with"),
            _a("--inputs", choices=["new", "given"], default="new",
               help="scope of the statements: unseen inputs, or exactly the given examples (default: new)"),
            _a("-o", "--output", metavar="FILE.html", type=Path, help="write a report"),
            _a("--examples", metavar="FILE.csv", type=Path,
               help="write a row per example: difficulty, discrimination, doubtful labels"),
            _a("--segment-column", metavar="COLUMN",
               help="column of a table with the segment of each example, such as its topic (default: segment)"),
            _a("--assign", action="store_true",
               help="assign a candidate to each segment: the best one, unless another is shown to be better there"),
            _JSON,
        ),
        "asktell analyze [OPTIONS] FILE ...",
    ),
)

_CHANGE = (
    Command("add", "growth:add", "add prompts to a run",
        "Add prompts to a run, also after it has ended. Earlier scores are kept. The command that started the run\n"
        "evaluates the new prompts as far as the budget allows (see asktell extend).",
        "example: asktell add summarize.toml short='In five words.'\n"
        "         asktell add sqlite:///studies.db summarize --file more.csv",
        (
            _RUN,
            _a("prompts", metavar="ID=TEXT", nargs="*", help="prompts; only TEXT if the run's prompts have no ids"),
            _a("--file", metavar="FILE", type=Path, help="file of prompts, as in CONFIG"),
            _ENCODING,
        ),
        "asktell add [OPTIONS] RUN [NAME] (ID=TEXT ... | --file FILE)",
    ),
    Command("retire", "growth:retire", "remove a prompt from a run",
        "Stop evaluating a prompt, which can then no longer be selected. Its scores are kept, and scores of its\n"
        "pending trials are still recorded.",
        "example: asktell retire summarize.toml long --reason 'too expensive'",
        (
            _RUN,
            _a("prompt", metavar="PROMPT", nargs="+", help="ids or texts of prompts"),
            _a("--reason", required=True, help="reason to show in the result"),
        ),
        "asktell retire [OPTIONS] RUN [NAME] PROMPT ... --reason REASON",
    ),
    Command("extend", "growth:extend", "extend the budget or the examples of a run",
        "Add evaluations, money or examples to a run. If the run has ended, the command that started it resumes it.",
        "example: asktell extend summarize.toml --evaluations 100\n"
        "         asktell extend summarize.toml --examples     (after rows were appended to its data)",
        (
            _RUN, _NAME,
            _a("--evaluations", metavar="N", type=int, help="number of additional evaluations"),
            _a("--cost", metavar="X", type=float, help="additional money, if the budget is a cost"),
            _a("--examples", metavar="ID", nargs="*",
               help="ids of new examples, or their number; without a value, the rows appended to the data of CONFIG"),
        ),
    ),
    Command("pause", "growth:pause", "pause a run",
        "Assign no more trials. Workers wait, and scores of pending trials are still recorded. The pause lasts until\n"
        "`asktell resume`, even over restarts.",
        "example: asktell pause summarize.toml",
        (_RUN, _NAME),
    ),
    Command("resume", "growth:resume", "resume a paused run",
        "End a pause. Waiting workers continue by themselves.",
        "example: asktell resume summarize.toml",
        (_RUN, _NAME),
    ),
)

_SHARE = (
    Command("serve", "studies:serve_studies", "serve studies over HTTP",
        "Serve the studies at URL until SIGTERM or Ctrl-C, for workers on other machines and in other languages.\n"
        "If you set tokens, every request needs a token: ASKTELL_TOKEN allows everything, ASKTELL_READ_TOKEN only\n"
        "reading, and ASKTELL_LABEL_TOKEN only the label pages. Without tokens, only this machine is served. A\n"
        "reverse proxy has to provide TLS. GET /openapi.json describes the API.",
        "example: asktell serve sqlite:///studies.db --port 8000",
        (
            _a("url", metavar="URL",
               help="storage: sqlite:///FILE, postgresql://USER@HOST/DATABASE; or a run's folder"),
            _a("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"),
            _a("--port", type=int, default=8000, help="port to listen on; 0: any free port (default: %(default)s)"),
            _a("--proxy", action="append", default=[], metavar="ADDRESS",
               help="IP address of a reverse proxy whose X-Forwarded-For and -Proto are trusted; repeatable"),
            _a("--max-mb", type=int, default=64, help="largest request, in MiB (default: %(default)s)"),
            _a("--access-log", action="store_true", help="log every request to stderr"),
            _a("--label", action="append", default=[], metavar="CONFIG.toml", type=Path,
               help="let people label the study of this configuration, at /studies/NAME/label; repeatable"),
        ),
    ),
    Command("mcp", "mcp:serve_mcp", "let a coding agent use studies (MCP)",
        "Serve the studies at URL over stdin and stdout, as tools of the Model Context Protocol: create, add, ask,\n"
        "tell, why, verdict and report. The agent's configuration starts this command.",
        f"example: asktell mcp {_URL}",
        (_STUDIES,),
    ),
    Command("batch", "studies:batch", "evaluate with OpenAI's batch API, at half the price",
        "`submit` asks for evaluations and sends them as a batch. `collect` records the scores that have arrived,\n"
        "hours or days later, as often as you like, from any machine. CONFIG is a configuration of `asktell run`\n"
        "with an openai model.",
        f"example: asktell batch submit summarize.toml --study {_URL} -n 500",
        (
            _a("action", choices=["submit", "collect"], help="submit a batch, or collect its scores"),
            _CONFIG,
            _a("--study", metavar="URL", required=True, help="URL of the storage that keeps the study"),
            _a("--name", help="name of the study (default: CONFIG's)"),
            _a("-n", "--evaluations", metavar="N", type=int,
               help="maximum number to submit (default: as many as can be asked now)"),
        ),
    ),
    Command("export", "studies:export_study", "export a study to a file",
        "Write everything about a study to a file of JSON lines.",
        f"example: asktell export {_URL} summarize summarize.jsonl",
        (
            _a("url", metavar="URL", help=f"{_STORAGE}; or a run's file or folder"),
            _NAME,
            _a("file", metavar="FILE", type=Path, help="file to write, of JSON lines"),
        ),
    ),
    Command("import", "studies:import_study", "import a study from a file",
        "Create a study, in any storage, from a file that `asktell export` wrote.",
        "example: asktell import postgresql://me@db/studies summarize.jsonl",
        (
            _a("url", metavar="URL", help=_STORAGE),
            _a("file", metavar="FILE", type=Path, help="file of JSON lines"),
            _a("--name", help="name of the new study (default: the exported name)"),
        ),
    ),
)

_LEARN = (
    Command("profile", "growth:profile", "show which examples discriminated best in earlier runs",
        "Print, for each example, how difficult it is and how well it discriminates between prompts, with standard\n"
        "errors. List the runs on the same examples, oldest first. To use the profile in another run, write\n"
        "[profile] from = [...] in its CONFIG, with the paths of the runs, or of the file from -o, in the brackets.\n"
        "A profile contains ids of examples, and no other text.",
        "example: asktell profile runs/january runs/february -o profile.json",
        (
            _a("runs", metavar="RUN", nargs="+", help="TOML file, folder, URL and NAME, or .json file of a profile"),
            _a("-o", "--output", metavar="FILE.json", type=Path, help="write the profile to a file"),
            _a("--half-life", metavar="N", type=float,
               help="count a study half after N later studies (default: count all fully)"),
        ),
    ),
    Command("simulate", "simulate:simulate", "replay recorded scores to compare methods",
        "Run methods many times on recorded scores of every prompt on every example, and print how good the prompts\n"
        "are that each method selects at each budget. TABLE is one of:\n"
        "- a .npz with the arrays scores (prompts x examples x metrics) and metrics\n"
        "- a table (.csv, .parquet and others) with the columns prompt, example and one per metric, empty where an\n"
        "  evaluation failed\n"
        "- a run that has evaluated every prompt on every example",
        "example: asktell simulate scores.csv --goal 'maximize accuracy subject to latency <= 2' --plot curves.png\n"
        "         asktell simulate runs/summarize --methods auto uniform --budgets 1 3 10",
        (
            _a("table", metavar="TABLE", help="file of scores; or configuration or folder of a run, or URL and NAME"),
            _NAME,
            _a("--goal", metavar="TEXT",
               help="goal, as results print it: 'maximize rouge, minimize cost subject to cost <= 3'"),
            _a("--methods", metavar="METHOD", nargs="+", default=["auto", "csr-sh", "uniform"],
               help="methods; differences are relative to the first (default: auto csr-sh uniform)"),
            _a("--budgets", metavar="B", nargs="+", type=float, default=[1, 2, 3, 5, 10],
               help="evaluations per prompt (default: 1 2 3 5 10)"),
            _a("--seeds", metavar="N", type=int, default=20, help="runs of each method (default: %(default)s)"),
            _a("--jobs", metavar="N", type=int, help="number of processes (default: one per core)"),
            _a("--plot", metavar="FILE", type=Path, help=f"plot curves to a file: {', '.join(PICTURES)}"),
            _a("--curve", default="quality", help="quality (default), regret, hypervolume, f1 or size"),
            _a("-o", "--output", metavar="FILE.csv", type=Path, help="write a row per run"),
            _a("--lines", metavar="FILE.jsonl", type=Path,
               help="keep finished runs in this file, and do not repeat them"),
            _NO_PROGRESS, _JSON,
        ),
    ),
    Command("cache", "studies:cache", "inspect or clear the response cache",
        "`info` prints the number of cached responses and their size. `clear` removes them all.",
        "example: asktell cache info\n         asktell cache clear summarize.toml",
        (
            _a("action", choices=["info", "clear"], help="inspect or clear the cache"),
            _a("where", metavar="CONFIG_OR_FILE", type=Path, nargs="?", help="cache to use (default: the user's)"),
        ),
    ),
)
# fmt: on

GROUPS = (
    Group("select a prompt", _SELECT),
    Group("look at a run or study, finished or not", _LOOKING),
    Group("compare prompts, and decide", _DECIDE),
    Group("change a run", _CHANGE),
    Group("share studies with other machines and tools", _SHARE),
    Group("learn from recorded scores, and manage the cache", _LEARN),
)
COMMANDS = tuple(command for group in GROUPS for command in group.commands)


@cache
def make_parser() -> argparse.ArgumentParser:
    """Make the parser. Its result has `command`, the `MODULE:FUNCTION` of the command.

    It is made once, since its many subparsers take as long as a small command.
    """

    def formatter(prog: str) -> argparse.HelpFormatter:
        return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28)

    parser = argparse.ArgumentParser(
        prog="asktell",
        description=f"Picks the best prompts for an LLM with the fewest evaluations.\n\n{_overview()}",
        epilog=_EXAMPLE,
        formatter_class=formatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"asktell {asktell.__version__}"
    )
    # The description lists the commands, in groups, which argparse does not have.
    subparsers = parser.add_subparsers(
        metavar="COMMAND", required=True, help="asktell COMMAND --help describes it"
    )
    for command in COMMANDS:
        subparser = subparsers.add_parser(
            command.name,
            description=command.description,
            epilog=command.example,
            usage=command.usage,
            formatter_class=formatter,
        )
        subparser.set_defaults(command=command.function)
        for flags, options in command.arguments:
            subparser.add_argument(*flags, **options)
        subparser.add_argument(
            "--debug", action="store_true", help="show the traceback of an error"
        )
    return parser


def _overview() -> str:
    """All commands in their groups, a line for each."""
    lines = []
    for group in GROUPS:
        lines += [
            f"{group.title}:",
            *(f"  {command.name:<10} {command.summary}" for command in group.commands),
            "",
        ]
    return "\n".join(lines).rstrip()
