"""The arguments of the command line, and their help."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import asktell
from asktell_adapters.cli.study_arguments import Add, add_growth, add_profile, add_serve, add_studies

Command: TypeAlias = Callable[[argparse.Namespace], int]

KINDS = ("openai", "litellm", "llama-cpp", "huggingface", "vllm", "promptfoo", "inspect")
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
    parser.add_argument("--version", action="version", version=f"asktell {asktell.__version__}")
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
    add_serve(add)
    _add_cache(add)
    add_growth(add)
    add_profile(add)
    add_studies(add)
    return parser


def _add_beginning(add: Add) -> None:
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


def _add_runs(add: Add) -> None:
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


def _add_looks(add: Add) -> None:
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


def _add_compare(add: Add) -> None:
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


def _add_gate(add: Add) -> None:
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
    made.add_argument("--yes", action="store_true", help="start even if it may cost more than confirm_above")
    _add_confidence(made)


def _add_confidence(made: argparse.ArgumentParser) -> None:
    made.add_argument("--confidence", type=float, default=0.95, help="default: %(default)s")


def _add_cache(add: Add) -> None:
    made = add(
        "cache",
        "the answers that are kept on disk",
        "`info` says how many answers are kept and what they take, `clear` removes them all.",
        "example: asktell cache info\n         asktell cache clear summarize.toml",
    )
    made.add_argument("action", choices=["info", "clear"], help="what to do")
    made.add_argument("where", metavar="CONFIG_OR_FILE", type=Path, nargs="?", help="whose cache (default: the user's)")
