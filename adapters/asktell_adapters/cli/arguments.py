"""The commands of `asktell`, with their arguments and help."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import asktell

KINDS = ("openai", "litellm", "llama-cpp", "huggingface", "vllm", "promptfoo", "inspect", "command")
"""The configurations that `asktell init` writes."""

PICTURES = (".png", ".svg", ".pdf")
"""The file types of `asktell result --plot`."""

_EXAMPLE = """\
example: a file summarize.toml (asktell init writes one)

  output = "runs/summarize"
  budget = 60

  [prompts]
  file = "prompts.txt"              # a prompt a line

  [data]
  file = "papers.jsonl"             # {"text": ..., "summary": ...} a line
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

and then

  asktell run summarize.toml        # Ctrl-C stops it; the same command resumes it
  asktell result summarize.toml --plot result.png
"""


Argument = tuple[tuple[str, ...], dict[str, Any]]
"""Flags and options, as `argparse` takes them."""


class Command(NamedTuple):
    """A command: `MODULE:FUNCTION` below `asktell_adapters.cli`, its help, and its arguments."""

    name: str
    function: str
    summary: str
    description: str
    example: str
    arguments: Sequence[Argument]
    usage: str | None = None


def _a(*flags: str, **options: Any) -> Argument:
    return flags, options


# A table: a line or two for an argument.
# fmt: off
_URL = "sqlite:///studies.db"
_STORAGE = "sqlite:///PATH, a path, postgresql://USER@HOST/NAME"
_STUDIES = _a("url", metavar="URL", help=f"{_STORAGE}, http://... of a service; a run's file or folder")
_CONFIG = _a("config", metavar="CONFIG.toml", type=Path, help="configuration of the run")
_RUN = _a("run", metavar="RUN", help="configuration or folder of the run; or URL and NAME of a study")
_NAME = _a("name", metavar="NAME", nargs="?", help="name of the study, if a URL is given")
_LOOK = (
    _a("run", metavar="CONFIG_FOLDER_OR_URL", help="configuration or folder of the run; or URL of studies"),
    _NAME,
)
_JSON = _a("--json", action="store_true", help="print JSON")
_YES = _a("--yes", action="store_true", help="do not ask before a run that may cost more than confirm_above")
_NO_PROGRESS = _a("--no-progress", action="store_true", help="no progress bar")
_CONFIDENCE = _a("--confidence", type=float, default=0.95, help="default: %(default)s")
_ENCODING = _a("--encoding", metavar="NAME", help="encoding of a text file that is not UTF-8")
_FILES_OF_RESULTS = _a("files", metavar="FILE", type=Path, nargs="+",
                       help="results; several files are several candidates, and so are the folders in a folder")
_OF_RESULTS = (
    _a("--maximize", metavar="METRIC", action="append", default=[], help="several objectives make a Pareto set"),
    _a("--minimize", metavar="METRIC", action="append", default=[], help="both may be repeated"),
    _a("--at-least", metavar="METRIC=X", action="append", default=[], help="a constraint; repeatable"),
    _a("--at-most", metavar="METRIC=X", action="append", default=[], help="a constraint; repeatable"),
    _a("--within", metavar="METRIC=X", action="append", default=[],
       help="at most X worse than the best, or METRIC='X of baseline'; repeatable"),
    _a("--prompt-column", metavar="COLUMN", help="of a table: what names the candidate (default: prompt, model, ...)"),
    _a("--example-column", metavar="COLUMN", help="of a table: what names the example (default: example, id, ...)"),
    _ENCODING,
)
OF_RESULTS: dict[str, Any] = {
    "maximize": [], "minimize": [], "at_least": [], "at_most": [], "within": [],
    "prompt_column": None, "example_column": None, "encoding": None, "inputs": None,
}
"""What the flags are for files of results, if none of them is given."""

_RUNNING = (
    _CONFIG,
    _a("--fresh", action="store_true", help="start over; the old output folder is renamed"),
    _a("--keep-going", action="store_true", help="do not stop when many evaluations in a row fail"),
    _a("--study", metavar="URL",
       help="keep the study there, for other machines: sqlite:///PATH, postgresql://..., or a service's http://..."),
    _a("--join", action="store_true", help="add a worker to the run that uses the output folder"),
    _a("--name", help="name of the study at URL (default: CONFIG's)"),
    _a("--worker", metavar="NAME", help="name of this worker; after a restart it keeps its pending trials"),
    _a("--lease", metavar="SECONDS", type=float, default=60.0,
       help="pending trials of a dead worker are reassigned after this time (default: %(default)g)"),
    _YES,
    _NO_PROGRESS,
)

COMMANDS = (
    Command("init", "init:init", "write a first configuration",
        "Write a CONFIG with comments, and small files of prompts and examples where none are named. In a terminal it\n"
        "asks for what is not given.",
        "example: asktell init\n"
        "         asktell init support.toml --kind openai --model gpt-4o-mini --data tickets.csv \\\n"
        "             --prompts prompts.txt --rubric helpful='Solves the problem.' --rubric polite='Is friendly.'\n"
        "         asktell init --promptfoo promptfooconfig.yaml\n"
        "         asktell init --command 'python agent.py' --data tasks.csv",
        (
            _a("config", metavar="CONFIG.toml", type=Path, nargs="?", help="default: selection.toml"),
            _a("--kind", choices=KINDS, help="what answers"),
            _a("--promptfoo", metavar="FILE", type=Path,
               help="take prompts, tests, provider and metrics of its config"),
            _a("--command", dest="program", metavar="WORDS", help="evaluate by this program: an agent, any script"),
            _a("--maximize", metavar="METRIC",
               help="the metric to choose by, of promptfoo's (default: score) or of the program's (default: success)"),
            _a("--price", metavar=("IN", "OUT"), type=float, nargs=2, help="per million tokens read and written"),
            _a("--prompts", metavar="FILE", type=Path, help="file of prompts"),
            _a("--data", metavar="FILE", type=Path, help="file of examples: .csv, .json, .parquet, .xlsx and others"),
            _a("--rubric", metavar="[NAME=]TEXT", action="append", help="what makes an answer good; repeatable"),
            _a("--model", metavar="NAME", action="append",
               help="name of the model; repeatable, to choose among several; or promptfoo's provider"),
            _a("--base-url", metavar="URL", help="URL of an API other than OpenAI's"),
            _a("--api-key-env", metavar="NAME", help="environment variable of the key (default: OPENAI_API_KEY)"),
            _a("--input", metavar="COLUMN", help="column of the input"),
            _a("--reference", metavar="COLUMN", help="column of the wanted answer; 'none' for none"),
            _ENCODING,
            _a("--sheet", metavar="NAME", help="sheet of an Excel file (default: the first)"),
            _a("--split", metavar="NAME", help="split of a folder of `datasets` with several"),
            _a("--budget", metavar="N", type=int, help="number of evaluations"),
            _a("--force", action="store_true", help="replace an existing configuration"),
            _a("--yes", action="store_true", help="ask nothing: use the defaults"),
        ),
    ),
    Command("check", "check:check", "try one evaluation before a run",
        "Put one prompt on one example through the model, the metrics and the judges. Print what was sent, the\n"
        "answer, the wanted answer, the scores and the cost. Nothing is written into the run's folder.",
        "example: asktell check summarize.toml\n         asktell check summarize.toml --prompt brief --example r7",
        (
            _CONFIG,
            _a("--prompt", metavar="ID", help="id of a prompt, which may have joined the run (default: the first)"),
            _a("--example", metavar="ID", help="id of the example, or its row's number (default: the first one)"),
            _a("--repeats", metavar="N", type=int, default=1,
               help="evaluate it N times, and say how much scores differ (default: 1)"),
            _JSON,
        ),
    ),
    Command("run", "work:run_selection", "run or resume a selection",
        "Evaluate prompts as CONFIG says until the budget is spent, and print the best.\n"
        "Everything is kept in the output folder, in a study. After Ctrl-C or a crash the same command resumes the\n"
        "run: no finished evaluation is repeated. If the run has finished, its result is printed.\n"
        "In other terminals, --join adds workers.",
        _EXAMPLE,
        (
            *_RUNNING,
            _a("--estimate", metavar="N", type=int, nargs="?", const=0,
               help="only estimate the run's calls, tokens, money and time, from N real calls (default: none)"),
            _a("--json", action="store_true", help="print the estimate as JSON"),
        ),
    ),
    Command("analyze", "analyze:analyze", "the verdict on results that you have already",
        "Print the verdict on finished results, without evaluating anything: which prompt or model is best, how sure\n"
        "that is, and how many new examples would settle it. FILE is a table (.csv, .tsv, .json, .jsonl, .parquet,\n"
        ".xlsx) with the columns prompt, example and one per metric, or with a column of scores per prompt;\n"
        "promptfoo's results; Inspect logs (.eval, .json); or lm-eval's samples_*.jsonl, or their folder.",
        "example: asktell analyze scores.csv\n"
        "         asktell analyze results.json --maximize accuracy --at-most cost=0.01 --baseline old -o report.html\n"
        "         asktell analyze old.eval new.eval --maximize match",
        (
            _FILES_OF_RESULTS, *_OF_RESULTS,
            _a("--baseline", metavar="ID", help="the candidate in use; the answer is compared with it"),
            _a("--inputs", choices=["new", "given"], default="new",
               help="what statements are about: new inputs, or exactly these examples (default: new)"),
            _a("-o", "--output", metavar="FILE.html", type=Path, help="write a report"),
            _a("--examples", metavar="FILE.csv", type=Path,
               help="write what the scores say of each example: difficulty, discrimination, doubtful labels"),
            _JSON,
        ),
        "asktell analyze [OPTIONS] FILE ...",
    ),
    Command("improve", "work:run_improvement", "write better prompts, and select among them",
        "Select among CONFIG's prompts, let an LLM write new ones from the best and from the examples on which they\n"
        "fail, select again, and so on, until the budget is spent or nothing better is found. [improve] in CONFIG has\n"
        "the settings. After Ctrl-C or a crash the same command resumes.",
        "example: asktell improve summarize.toml",
        (
            *_RUNNING,
            _a("--json", action="store_true", help="print JSON: the generations and the result"),
        ),
    ),
    Command("status", "studies:status", "show the progress of a run",
        "Print the evaluations done, the prompts still active, failures, and the best so far, also during a run.",
        "example: asktell status summarize.toml\n         asktell status sqlite:///studies.db summarize",
        _LOOK,
    ),
    Command("result", "studies:result", "rank all prompts",
        "Print every prompt with its estimates (mean ± standard error), the selected ones first, also during a run.",
        "example: asktell result runs/summarize --plot result.png\n"
        "         asktell result sqlite:///studies.db summarize --json",
        (
            *_LOOK,
            _a("--json", action="store_true", help="print JSON instead of the table"),
            _a("--plot", metavar="FILE", type=Path, help=f"plot the result to a file: {', '.join(PICTURES)}"),
        ),
    ),
    Command("report", "studies:report", "write an HTML page",
        "Write one HTML file with the answer, every prompt, where the evaluations went, and the answers side by side,\n"
        "also during a run. It opens in any browser and loads nothing else.",
        "example: asktell report summarize.toml -o summarize.html\n"
        "         asktell report sqlite:///studies.db summarize -o summarize.html",
        (
            *_LOOK,
            _a("-o", "--output", metavar="FILE.html", type=Path, default=Path("report.html"),
               help="default: %(default)s"),
        ),
    ),
    Command("view", "view:view", "show the same page, live",
        "Show the run's page in the browser and keep it up to date until Ctrl-C. It is served to this machine only,\n"
        "and nothing can be changed through it.",
        "example: asktell view summarize.toml",
        (
            *_LOOK,
            _a("--port", type=int, default=0, help="default: any free port"),
            _a("--no-browser", action="store_true", help="only print the page's address"),
        ),
    ),
    Command("compare", "gate:compare", "compare two prompts of a run",
        "Print how far prompt A is ahead of prompt B in every metric, and how sure that is. By default, B is the\n"
        "baseline, or else the selected prompt.",
        "example: asktell compare summarize.toml brief long\n"
        "         asktell compare sqlite:///studies.db summarize brief",
        (
            _RUN,
            _a("prompts", metavar="A", nargs="+", help="ids or texts of prompts: A, or A and B"),
            _a("--tolerance", type=float, default=0.0, help="a smaller difference does not matter"),
            _JSON, _CONFIDENCE,
        ),
        "asktell compare [OPTIONS] RUN [NAME] A [B]",
    ),
    Command("gate", "gate:gate", "fail a build when a prompt got worse",
        "Evaluate a candidate and the baseline on the same examples of CONFIG until it is certain whether the\n"
        "candidate is worse, fails more often, or misses a constraint of the goal. Or judge files of results, without\n"
        "evaluating anything.\n"
        "Exit codes: 0: neither worse nor failing more often by more than the margin, and every constraint is kept;\n"
        "1: worse, failing more often, or a constraint is missed; 3: undecided; 2: error.",
        "example: asktell gate summarize.toml --baseline old --candidate new --margin 0.02\n"
        "         asktell gate old.json new.json --maximize accuracy --baseline old --margin 0.02",
        (
            _a("config", metavar="CONFIG.toml", type=Path,
               help="with prompts, data, model, metrics and goal; or a file of results, as for asktell analyze"),
            _a("more", metavar="FILE", type=Path, nargs="*", help="more files of results"),
            _a("--baseline", metavar="ID", help="prompt in use (default: CONFIG's baseline)"),
            _a("--candidate", metavar="ID", help="new prompt (default: the other one, if there are two)"),
            _a("--margin", metavar="X", type=float, default=0.0, help="a smaller loss does not matter"),
            _a("--summary", metavar="FILE.md", type=Path, help="write a summary in Markdown"),
            _a("--junit", metavar="FILE.xml", type=Path, help="write a JUnit test report"),
            _a("--report", metavar="FILE.html", type=Path, help="write an HTML page with both answers"),
            _a("--differ", metavar="SHARE", type=float, default=0.2,
               help="share of examples on which the two prompts are expected to differ (default: %(default)g)"),
            _a("--recheck", metavar="N", type=int,
               help="evaluations, at most, that see on which examples a difference holds when it is repeated; they\n"
                    "are part of the budget, and no part of the verdict (default: 50)"),
            _NO_PROGRESS, _YES, _CONFIDENCE, *_OF_RESULTS,
            _a("--inputs", choices=["new", "given"],
               help="what the verdict is about: new inputs, or exactly these examples (default: given)"),
        ),
        "asktell gate [OPTIONS] CONFIG.toml | FILE ...",
    ),
    Command("serve", "studies:serve_studies", "serve studies over HTTP",
        "Serve the studies at URL until SIGTERM or Ctrl-C, for workers on other machines and in other languages.\n"
        "Every request needs the token in ASKTELL_TOKEN, or, for reading only, the one in ASKTELL_READ_TOKEN. Without\n"
        "tokens only this machine is served. TLS is the reverse proxy's task. GET /openapi.json describes the API.",
        "example: asktell serve sqlite:///studies.db --port 8000",
        (
            _a("url", metavar="URL", help="storage: sqlite:///FILE, postgresql://HOST/NAME; or a run's folder"),
            _a("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"),
            _a("--port", type=int, default=8000, help="0: any free port (default: %(default)s)"),
            _a("--proxy", action="append", default=[], metavar="ADDRESS",
               help="IP address of a reverse proxy whose X-Forwarded-For and -Proto are trusted; repeatable"),
            _a("--max-mb", type=int, default=64, help="largest request, in MiB (default: %(default)s)"),
            _a("--access-log", action="store_true", help="log every request to stderr"),
        ),
    ),
    Command("mcp", "mcp:serve_mcp", "let a coding agent use studies (MCP)",
        "Serve the studies at URL over stdin and stdout, as tools of the Model Context Protocol: create, add, ask,\n"
        "tell, why, verdict and report. The agent's configuration starts this command.",
        f"example: asktell mcp {_URL}",
        (_STUDIES,),
    ),
    Command("cache", "studies:cache", "inspect or clear the answer cache",
        "`info` prints the number of cached answers and their size, `clear` removes them all.",
        "example: asktell cache info\n         asktell cache clear summarize.toml",
        (
            _a("action", choices=["info", "clear"], help="what to do"),
            _a("where", metavar="CONFIG_OR_FILE", type=Path, nargs="?", help="which cache (default: the user's)"),
        ),
    ),
    Command("add", "growth:add", "add prompts to a run",
        "Add prompts to a run, also after its end. Earlier scores are kept. The command that started the run\n"
        "evaluates the new prompts as far as the budget allows (see asktell extend).",
        "example: asktell add summarize.toml short='In five words.'\n"
        "         asktell add sqlite:///studies.db summarize --file more.csv",
        (
            _RUN,
            _a("prompts", metavar="ID=TEXT", nargs="*", help="only TEXT if the run's prompts have no ids"),
            _a("--file", metavar="FILE", type=Path, help="file of prompts, as in CONFIG"),
            _ENCODING,
        ),
        "asktell add [OPTIONS] RUN [NAME] (ID=TEXT ... | --file FILE)",
    ),
    Command("retire", "growth:retire", "remove a prompt from a run",
        "Stop evaluating a prompt; it can no longer be selected. Its scores are kept, and its pending trials may\n"
        "still be told.",
        "example: asktell retire summarize.toml long --reason 'too expensive'",
        (
            _RUN,
            _a("prompt", metavar="PROMPT", nargs="+", help="ids or texts"),
            _a("--reason", required=True, help="reason shown in the result"),
        ),
        "asktell retire [OPTIONS] RUN [NAME] PROMPT ... --reason REASON",
    ),
    Command("extend", "growth:extend", "extend the budget or the examples of a run",
        "Add evaluations, money or examples to a run. If it has ended, the command that started it resumes it.",
        "example: asktell extend summarize.toml --evaluations 100\n"
        "         asktell extend summarize.toml --examples     (rows were appended to its data)",
        (
            _RUN, _NAME,
            _a("--evaluations", metavar="N", type=int, help="additional evaluations"),
            _a("--cost", metavar="X", type=float, help="additional money, if the budget is a cost"),
            _a("--examples", metavar="ID", nargs="*",
               help="alone: the rows appended to the data of a CONFIG.toml; else the ids of new examples, or how many"),
        ),
    ),
    Command("pause", "growth:pause", "pause a run",
        "Hand out no more trials; workers wait. Pending trials may still be told. The pause lasts until `asktell\n"
        "resume`, even over restarts.",
        "example: asktell pause summarize.toml",
        (_RUN, _NAME),
    ),
    Command("resume", "growth:resume", "resume a paused run",
        "End a pause; waiting workers continue by themselves.",
        "example: asktell resume summarize.toml",
        (_RUN, _NAME),
    ),
    Command("profile", "growth:profile", "show what earlier runs reveal about their examples",
        "Print how hard each example is, how much it divides prompts, and how sure that is, from runs on the same\n"
        "examples, oldest first. Another run uses it by [profile] from = [...] in its CONFIG, with the runs or the\n"
        "file written here. It has no prompts, and no texts but the examples' ids.",
        "example: asktell profile runs/january runs/february -o profile.json",
        (
            _a("runs", metavar="RUN", nargs="+", help="TOML file, folder, URL and NAME, or a profile's .json"),
            _a("-o", "--output", metavar="FILE.json", type=Path, help="write the profile to a file"),
            _a("--half-life", metavar="N", type=float,
               help="after N later studies, a study counts half (default: all count fully)"),
        ),
    ),
    Command("simulate", "simulate:simulate", "replay recorded scores: what would each method have found?",
        "Run methods many times on scores of every prompt on every example, judge their answers by all scores, and\n"
        "print what each finds at each budget. TABLE is a .npz with the arrays scores (prompts x examples x metrics)\n"
        "and metrics; a .csv, .parquet and others with the columns prompt, example and one per metric, empty where\n"
        "an evaluation failed; or a run that has evaluated everything.",
        "example: asktell simulate scores.csv --goal 'maximize accuracy subject to latency <= 2' --plot curves.png\n"
        "         asktell simulate runs/summarize --methods auto uniform --budgets 1 3 10",
        (
            _a("table", metavar="TABLE", help="file of scores; or configuration or folder of a run, or URL and NAME"),
            _NAME,
            _a("--goal", metavar="TEXT",
               help="such as 'maximize rouge, minimize cost subject to cost <= 3', as results print it"),
            _a("--methods", metavar="METHOD", nargs="+", default=["auto", "csr-sh", "uniform"],
               help="differences are to the first (default: auto csr-sh uniform)"),
            _a("--budgets", metavar="B", nargs="+", type=float, default=[1, 2, 3, 5, 10],
               help="evaluations per prompt (default: 1 2 3 5 10)"),
            _a("--seeds", metavar="N", type=int, default=20, help="runs of each (default: %(default)s)"),
            _a("--jobs", metavar="N", type=int, help="processes (default: one per core)"),
            _a("--plot", metavar="FILE", type=Path, help=f"plot curves to a file: {', '.join(PICTURES)}"),
            _a("--curve", default="quality", help="quality (default), regret, hypervolume, f1 or size"),
            _a("-o", "--output", metavar="FILE.csv", type=Path, help="write a row per run"),
            _a("--lines", metavar="FILE.jsonl", type=Path, help="keep runs there; what it has is not run again"),
            _NO_PROGRESS, _JSON,
        ),
    ),
    Command("batch", "studies:batch", "evaluate with OpenAI's batch API, at half the price",
        "`submit` asks for evaluations and sends them as a batch. `collect` tells the study what has arrived, hours\n"
        "or days later, as often as you like, from any machine. CONFIG is that of `asktell run`, with an openai model.",
        f"example: asktell batch submit summarize.toml --study {_URL} -n 500",
        (
            _a("action", choices=["submit", "collect"], help="what to do"),
            _CONFIG,
            _a("--study", metavar="URL", required=True, help="where the study is kept"),
            _a("--name", help="name of the study (default: CONFIG's)"),
            _a("-n", "--evaluations", metavar="N", type=int,
               help="maximum number to submit (default: all that can be asked)"),
        ),
    ),
    Command("studies", "studies:list_studies", "list the studies at a URL",
        "Print every study with its progress and workers.",
        f"example: asktell studies {_URL}\n         asktell studies http://localhost:8000",
        (_STUDIES,),
    ),
    Command("watch", "studies:watch", "watch a study",
        "Print the evaluations done, the best so far, and each worker's pending trials, until the study is done.",
        f"example: asktell watch {_URL} summarize",
        (
            _STUDIES,
            _NAME,
            _a("--once", action="store_true", help="print once and exit"),
            _a("--interval", metavar="SECONDS", type=float, default=2.0, help="default: %(default)g"),
        ),
    ),
    Command("export", "studies:export_study", "export a study to a file",
        "Write everything about a study to a file of JSON lines.",
        f"example: asktell export {_URL} summarize summarize.jsonl",
        (
            _a("url", metavar="URL", help=f"{_STORAGE}; a run's file or folder"),
            _NAME,
            _a("file", metavar="FILE", type=Path, help="JSON lines"),
        ),
    ),
    Command("import", "studies:import_study", "import a study from a file",
        "Create a study, in any storage, from a file that `asktell export` wrote.",
        "example: asktell import postgresql://me@db/studies summarize.jsonl",
        (
            _a("url", metavar="URL", help=_STORAGE),
            _a("file", metavar="FILE", type=Path, help="JSON lines"),
            _a("--name", help="name of the new study (default: the exported one's)"),
        ),
    ),
)
# fmt: on


def make_parser() -> argparse.ArgumentParser:
    """The parser; what it parses has `command`, the function's place."""

    def formatter(prog: str) -> argparse.HelpFormatter:
        return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28)

    parser = argparse.ArgumentParser(
        prog="asktell",
        description="Picks the best prompts for an LLM with the fewest evaluations.",
        epilog=_EXAMPLE,
        formatter_class=formatter,
    )
    parser.add_argument("--version", action="version", version=f"asktell {asktell.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        made = subparsers.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            epilog=command.example,
            usage=command.usage,
            formatter_class=formatter,
        )
        made.set_defaults(command=command.function)
        for flags, options in command.arguments:
            made.add_argument(*flags, **options)
        made.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser
