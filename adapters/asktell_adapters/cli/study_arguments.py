"""The arguments of the commands about studies: how they grow, what they teach the next, where they are served."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

Add: TypeAlias = Callable[[str, str, str, str], argparse.ArgumentParser]
"""Adds a command by its name, summary, description and example."""


def add_serve(add: Add) -> None:
    """`asktell serve`."""
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
        "--proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="IP address of a reverse proxy, whose X-Forwarded-For is believed; may be given several times",
    )
    made.add_argument("--max-mb", type=int, default=64, help="largest request, in MiB (default: %(default)s)")
    made.add_argument("--access-log", action="store_true", help="a line on stderr for every request")


def add_growth(add: Add) -> None:
    """What changes a study that is there: prompts, budget, examples, a pause."""
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


def add_profile(add: Add) -> None:
    """`asktell profile`."""
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


def add_studies(add: Add) -> None:
    """What is done with the studies at a URL."""
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
