"""What `asktell` can be told on the command line, and its help."""

import argparse
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

Command: TypeAlias = Callable[[argparse.Namespace], int]
_Add: TypeAlias = Callable[[str, str, str, str], argparse.ArgumentParser]

KINDS = ("openai", "llama-cpp", "huggingface", "vllm", "promptfoo", "inspect")
"""What `asktell init` begins with."""

PICTURES = (".png", ".svg", ".pdf")
"""The kinds of files that a plot is drawn into."""

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

  asktell run summarize.toml        # Ctrl-C stops it; the same command goes on
  asktell result summarize.toml --plot result.png
"""


def make_parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The parser; what it parses has `command`, the one of `commands` that was named."""

    def formatter(prog: str) -> argparse.HelpFormatter:
        return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28)

    parser = argparse.ArgumentParser(
        prog="asktell",
        description="Picks the best prompts for an LLM with the fewest evaluations.",
        epilog=_EXAMPLE,
        formatter_class=formatter,
    )
    parser.add_argument("--version", action="version", version=f"asktell {version('asktell')}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")

    def add(name: str, help_: str, description: str, epilog: str) -> argparse.ArgumentParser:
        made = subparsers.add_parser(
            name, help=help_, description=description, epilog=epilog, parents=[common], formatter_class=formatter
        )
        made.set_defaults(command=commands[name])
        return made

    _add_beginning(add)
    _add_runs(add)
    _add_looks(add)
    _add_compare(add)
    _add_gate(add)
    _add_serve(add)
    _add_cache(add)
    _add_growth(add)
    _add_profile(add)
    _add_studies(add)
    return parser


def _add_beginning(add: _Add) -> None:
    made = add(
        "init",
        "write a configuration to begin with",
        "Write a CONFIG with comments, and small files of prompts and examples where none are named. In a terminal it\n"
        "asks what it is not told.",
        "example: asktell init\n"
        "         asktell init support.toml --kind openai --model gpt-4o-mini --data tickets.csv \\\n"
        "             --prompts prompts.txt --rubric helpful='Solves the problem.' --rubric polite='Is friendly.'",
    )
    made.add_argument("config", metavar="CONFIG.toml", type=Path, nargs="?", help="default: selection.toml")
    made.add_argument("--kind", choices=KINDS, help="what answers")
    made.add_argument("--price", metavar=("IN", "OUT"), type=float, nargs=2, help="per million tokens read and written")
    made.add_argument("--prompts", metavar="FILE", type=Path, help="of prompts")
    made.add_argument("--data", metavar="FILE", type=Path, help="of examples: .csv, .json, .parquet, .xlsx and others")
    made.add_argument("--rubric", metavar="[NAME=]TEXT", action="append", help="what makes an answer good; repeatable")
    for name, metavar, help_ in (
        ("--model", "NAME", "which model"),
        ("--base-url", "URL", "of another API than OpenAI's"),
        ("--api-key-env", "NAME", "environment variable that holds the key (default: OPENAI_API_KEY)"),
        ("--input", "COLUMN", "of the input"),
        ("--reference", "COLUMN", "of the wanted answer; 'none' for none"),
        ("--encoding", "NAME", "of a file of text that is not UTF-8"),
        ("--sheet", "NAME", "of an Excel file (default: the first)"),
        ("--split", "NAME", "of a folder of `datasets` with several"),
    ):
        made.add_argument(name, metavar=metavar, help=help_)
    made.add_argument("--budget", metavar="N", type=int, help="evaluations")
    made.add_argument("--force", action="store_true", help="replace a configuration that is there")
    made.add_argument("--yes", action="store_true", help="ask nothing: take the defaults")
    made = add(
        "check",
        "one evaluation of everything, before a run",
        "Put one prompt on one example through the model, the metrics and the judges, and print what was sent, what\n"
        "came, the scores and the cost. Nothing else is spent, and nothing is written into the run's folder.",
        "example: asktell check summarize.toml\n         asktell check summarize.toml --prompt brief --example r7",
    )
    made.add_argument("config", metavar="CONFIG.toml", type=Path, help="the run's description")
    made.add_argument("--prompt", metavar="ID", help="default: the first one")
    made.add_argument("--example", metavar="ID", help="its id, or its row's number; default: the first one")
    made.add_argument("--json", action="store_true", help="print JSON")


def _add_runs(add: _Add) -> None:
    add_run = add(
        "run",
        "run a selection, or go on with it",
        "Evaluate prompts as CONFIG says until the budget is spent, and print the best.\n"
        "Everything is kept in the output folder, in a study. After Ctrl-C or a crash the same command goes on:\n"
        "no evaluation that was finished is made again. A finished run prints its result at once.\n"
        "In other terminals, --join adds workers.",
        _EXAMPLE,
    )
    _add_running(add_run)
    add_run.add_argument(
        "--estimate",
        metavar="N",
        type=int,
        nargs="?",
        const=0,
        help="only say what the run will take: calls, tokens, money, time; from N real calls (default: none)",
    )
    add_run.add_argument("--json", action="store_true", help="print the estimate as JSON")
    add_improve = add(
        "improve",
        "write better prompts, and select among them",
        "Select among CONFIG's prompts, let an LLM write new ones from the best and from the examples on which they\n"
        "fail, select again, and so on, in one study and one budget: until that is spent, or nothing better comes.\n"
        "[improve] in CONFIG says how. After Ctrl-C or a crash the same command goes on.",
        "example: asktell improve summarize.toml",
    )
    _add_running(add_improve)
    add_improve.add_argument("--json", action="store_true", help="print JSON: the generations and the result")
    add_improve.set_defaults(estimate=None)


def _add_running(made: argparse.ArgumentParser) -> None:
    made.add_argument("config", metavar="CONFIG.toml", type=Path, help="the run's description")
    made.add_argument(
        "--fresh", action="store_true", help="start anew; the old output folder is kept under another name"
    )
    made.add_argument(
        "--keep-going", action="store_true", help="do not stop when many evaluations in a row fail: count them"
    )
    made.add_argument(
        "--study",
        metavar="URL",
        help="keep the study there, for other machines: sqlite:///PATH, postgresql://..., or a service's http://...",
    )
    made.add_argument("--join", action="store_true", help="work beside the run that was started in the output folder")
    made.add_argument("--name", help="of the study at URL (default: CONFIG's)")
    made.add_argument("--worker", metavar="NAME", help="of this worker; the same after a restart goes on with its own")
    made.add_argument(
        "--lease", metavar="SECONDS", type=float, default=60.0, help="after which a dead worker's trials are given away"
    )
    made.add_argument("--yes", action="store_true", help="do not ask, however much the run may cost")
    made.add_argument("--no-progress", action="store_true", help="no progress bar (none is shown in a file anyway)")


def _add_looks(add: _Add) -> None:
    add_status = add(
        "status",
        "how far a run is",
        "Evaluations done, prompts still active, failures, and the best so far. Works while the run goes on.",
        "example: asktell status summarize.toml\n         asktell status sqlite:///studies.db summarize",
    )
    add_result = add(
        "result",
        "all prompts, ranked",
        "Every prompt with its estimates (mean +- standard error), the selected ones first. Works while the run goes\n"
        "on, too.",
        "example: asktell result runs/summarize --plot result.png\n"
        "         asktell result sqlite:///studies.db summarize --json",
    )
    add_result.add_argument("--json", action="store_true", help="print JSON instead of the table")
    add_result.add_argument(
        "--plot", metavar="FILE", type=Path, help=f"draw the result into a file: {', '.join(PICTURES)}"
    )
    add_report = add(
        "report",
        "a page to look at",
        "Write one HTML file that shows the whole run: the answer, every prompt, where the evaluations went, the\n"
        "answers side by side. It opens by double click and needs nothing else. Works while the run goes on, too.",
        "example: asktell report summarize.toml -o summarize.html\n"
        "         asktell report sqlite:///studies.db summarize -o summarize.html",
    )
    add_report.add_argument(
        "-o", "--output", metavar="FILE.html", type=Path, default=Path("report.html"), help="default: %(default)s"
    )
    add_view = add(
        "view",
        "the same page, live",
        "Show the run's page in the browser of this machine, and keep it up to date while the run goes on. Ctrl-C\n"
        "ends it. Only this machine is served, and nothing can be changed through it.",
        "example: asktell view summarize.toml",
    )
    add_view.add_argument("--port", type=int, default=0, help="default: any free one")
    add_view.add_argument("--no-browser", action="store_true", help="only say where the page is")
    for made in (add_status, add_result, add_report, add_view):
        made.add_argument("run", metavar="CONFIG_FOLDER_OR_URL", help="the run's TOML file or folder; a URL of studies")
        made.add_argument("name", metavar="NAME", nargs="?", help="of the study, if it is one")


def _add_compare(add: _Add) -> None:
    made = add(
        "compare",
        "two prompts of a run",
        "How far prompt A is ahead of prompt B in every metric, and how sure that is. Without B, of the baseline, or\n"
        "else of the selected prompt.",
        "example: asktell compare summarize.toml brief long\n"
        "         asktell compare sqlite:///studies.db summarize brief",
    )
    made.add_argument("run", metavar="RUN", help="the run's TOML file or folder, or a study's URL and NAME")
    made.add_argument("prompts", metavar="A", nargs="+", help="ids or texts of prompts: A, or A and B")
    made.usage = "asktell compare [OPTIONS] RUN [NAME] A [B]"
    made.add_argument("--tolerance", type=float, default=0.0, help="differences up to it do not matter")
    made.add_argument("--json", action="store_true", help="print JSON")
    _add_confidence(made)


def _add_gate(add: _Add) -> None:
    made = add(
        "gate",
        "fail a build when a prompt got worse",
        "Evaluate a candidate and the baseline on the same examples of CONFIG until it is certain whether the\n"
        "candidate is worse, or misses a constraint of the goal.\n"
        "Exit codes: 0: it is not worse by more than the margin, and keeps every constraint; 1: it is worse, or\n"
        "misses one; 3: the budget ended undecided; 2: it could not be done.",
        "example: asktell gate summarize.toml --baseline old --candidate new --margin 0.02",
    )
    made.add_argument("config", metavar="CONFIG.toml", type=Path, help="with prompts, data, model, metrics and goal")
    made.add_argument("--baseline", metavar="ID", help="the prompt in use (default: CONFIG's baseline)")
    made.add_argument("--candidate", metavar="ID", help="the new one (default: the other one, if there are two)")
    made.add_argument("--margin", metavar="X", type=float, default=0.0, help="how much worse is not too much")
    made.add_argument("--summary", metavar="FILE.md", type=Path, help="write a summary in Markdown")
    made.add_argument("--junit", metavar="FILE.xml", type=Path, help="write a test report")
    made.add_argument("--no-progress", action="store_true", help="no progress bar (none is shown in a file anyway)")
    _add_confidence(made)


def _add_confidence(made: argparse.ArgumentParser) -> None:
    made.add_argument("--confidence", type=float, default=0.95, help="default: %(default)s")


def _add_serve(add: _Add) -> None:
    made = add(
        "serve",
        "offer studies over HTTP",
        "Serve the studies at URL until SIGTERM or Ctrl-C: for workers on other machines and in other languages.\n"
        "Every request must bear the token in ASKTELL_TOKEN, or, to look only, the one in ASKTELL_READ_TOKEN. Without\n"
        "either, only this machine is served. TLS is for a reverse proxy. GET /openapi.json describes all operations.",
        "example: asktell serve sqlite:///studies.db --port 8000",
    )
    made.add_argument(
        "url", metavar="URL", help="where the studies are: sqlite:///FILE, postgresql://HOST/NAME; a run's folder"
    )
    made.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    made.add_argument("--port", type=int, default=8000, help="0: any free one (default: %(default)s)")
    made.add_argument(
        "--rate", type=float, default=500.0, help="requests per second of a client; 0: no limit (default: %(default)s)"
    )
    made.add_argument("--max-mb", type=int, default=64, help="largest request, in MiB (default: %(default)s)")
    made.add_argument("--access-log", action="store_true", help="a line on stderr for every request")


def _add_cache(add: _Add) -> None:
    made = add(
        "cache",
        "the answers that are kept on disk",
        "`info` says how many answers are kept and what they take, `clear` removes them all.",
        "example: asktell cache info\n         asktell cache clear summarize.toml",
    )
    made.add_argument("action", choices=["info", "clear"], help="what to do")
    made.add_argument("where", metavar="CONFIG_OR_FILE", type=Path, nargs="?", help="whose cache (default: the user's)")


def _add_growth(add: _Add) -> None:
    where = "the run's TOML file or folder, or a study's URL and NAME"
    add_add = add(
        "add",
        "let prompts join a run",
        "Prompts join a run that goes on or has ended; what is known of the others stays. The same command as before\n"
        "goes on with them, as far as the budget goes (asktell extend).",
        "example: asktell add summarize.toml short='In five words.'\n"
        "         asktell add sqlite:///studies.db summarize --file more.csv",
    )
    add_add.add_argument("run", metavar="RUN", help=where)
    add_add.add_argument(
        "prompts", metavar="ID=TEXT", nargs="*", help="TEXT alone where prompts are named by their positions"
    )
    add_add.usage = "asktell add [OPTIONS] RUN [NAME] (ID=TEXT ... | --file FILE)"
    add_add.add_argument("--file", metavar="FILE", type=Path, help="of prompts, as in CONFIG")
    add_add.add_argument("--encoding", metavar="NAME", help="of a FILE of text that is not UTF-8")
    add_retire = add(
        "retire",
        "take a prompt out of a run",
        "The prompt is asked for no more, and is no answer. What it was told stays, and trials of it that are out may\n"
        "still be told.",
        "example: asktell retire summarize.toml long --reason 'too expensive'",
    )
    add_retire.add_argument("run", metavar="RUN", help=where)
    add_retire.add_argument("prompt", metavar="PROMPT", nargs="+", help="ids or texts")
    add_retire.usage = "asktell retire [OPTIONS] RUN [NAME] PROMPT ... --reason REASON"
    add_retire.add_argument("--reason", required=True, help="for the result")
    add_extend = add(
        "extend",
        "give a run more budget or examples",
        "So many more evaluations, so much more money, or more examples behind those there are; a run that has ended\n"
        "goes on with the same command.",
        "example: asktell extend summarize.toml --evaluations 100\n"
        "         asktell extend summarize.toml --examples     (rows were appended to its data)",
    )
    add_extend.add_argument("run", metavar="RUN", help=where)
    add_extend.add_argument("name", metavar="NAME", nargs="?", help="of the study, if it is one")
    add_extend.add_argument("--evaluations", metavar="N", type=int, help="how many more")
    add_extend.add_argument("--cost", metavar="X", type=float, help="how much more, where the budget is a cost")
    add_extend.add_argument(
        "--examples",
        metavar="ID",
        nargs="*",
        help="alone: the rows that the data of a CONFIG.toml have more; else the ids of new examples, or how many",
    )
    for command, summary, text in (
        (
            "pause",
            "let nothing be evaluated for now",
            "Nothing is handed out any more, and workers wait. Trials that are out may still be told. It lasts until\n"
            "`asktell resume`, whatever is restarted meanwhile.",
        ),
        ("resume", "go on after a pause", "Workers that wait go on by themselves."),
    ):
        add_one = add(command, summary, text, f"example: asktell {command} summarize.toml")
        add_one.add_argument("run", metavar="RUN", help=where)
        add_one.add_argument("name", metavar="NAME", nargs="?", help="of the study, if it is one")


def _add_profile(add: _Add) -> None:
    made = add(
        "profile",
        "what runs tell of their examples",
        "How hard each example is, how much it divides prompts, and how sure that is, from any number of runs on the\n"
        "same examples, the oldest first. Another run learns from it by [profile] from = [...] in its CONFIG, of runs\n"
        "or of the file that is written here. It holds no prompts and no texts but the examples' ids.",
        "example: asktell profile runs/january runs/february -o profile.json",
    )
    made.add_argument("runs", metavar="RUN", nargs="+", help="TOML file, folder, URL and NAME, or a profile's .json")
    made.add_argument("-o", "--output", metavar="FILE.json", type=Path, help="write it there")
    made.add_argument(
        "--half-life",
        metavar="N",
        type=float,
        help="after N later studies one counts half as much (default: all count)",
    )


def _add_studies(add: _Add) -> None:
    url = "sqlite:///studies.db"
    add_batch = add(
        "batch",
        "evaluate a study by OpenAI's batch API, at half the price",
        "`submit` asks for evaluations and sends them as a batch, `collect` tells the study what has come since:\n"
        "hours or days later, as often as you like, from any machine. CONFIG is that of `asktell run`, with an openai\n"
        "model.",
        f"example: asktell batch submit summarize.toml --study {url} -n 500",
    )
    add_batch.add_argument("action", choices=["submit", "collect"], help="what to do")
    add_batch.add_argument("config", metavar="CONFIG.toml", type=Path, help="the run's description")
    add_batch.add_argument("--study", metavar="URL", required=True, help="where the study is kept")
    add_batch.add_argument("--name", help="of the study (default: CONFIG's)")
    add_batch.add_argument(
        "-n", "--evaluations", metavar="N", type=int, help="submit at most so many (default: all that can be asked)"
    )
    add_studies = add(
        "studies",
        "the studies at a URL",
        "Every study, how far it is and who works on it.",
        f"example: asktell studies {url}\n         asktell studies http://localhost:8000",
    )
    add_watch = add(
        "watch",
        "a study, live",
        "Evaluations done, the best so far, and what each worker holds, until the study is done.",
        f"example: asktell watch {url} summarize",
    )
    add_export = add(
        "export",
        "a study to a file",
        "Write everything about a study to a file of JSON lines.",
        f"example: asktell export {url} summarize summarize.jsonl",
    )
    add_import = add(
        "import",
        "a study from a file",
        "Make a study of a file that `asktell export` wrote, in any storage.",
        "example: asktell import postgresql://me@db/studies summarize.jsonl",
    )
    storage = "sqlite:///PATH, a path, postgresql://USER@HOST/NAME"
    for made in (add_studies, add_watch):
        made.add_argument("url", metavar="URL", help=f"{storage}, http://... of a service; a run's file or folder")
    add_export.add_argument("url", metavar="URL", help=f"{storage}; a run's file or folder")
    add_import.add_argument("url", metavar="URL", help=storage)
    for made in (add_watch, add_export):
        made.add_argument("name", metavar="NAME", nargs="?", help="of the study, if there is a URL")
    add_watch.add_argument("--once", action="store_true", help="print once, and no more")
    add_watch.add_argument("--interval", metavar="SECONDS", type=float, default=2.0, help="between looks")
    for made in (add_export, add_import):
        made.add_argument("file", metavar="FILE", type=Path, help="JSON lines")
    add_import.add_argument("--name", help="of the new study (default: the one it had)")
