"""Commands on studies: `status`, `result`, `report`, `batch`, `studies`, `watch`, `export`, ..."""

import argparse
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import asktell
from asktell import InvalidArgumentError, extend
from asktell.extend import aligned
from asktell_adapters.cli.arguments import PICTURES
from asktell_adapters.cli.growth import growth_of
from asktell_adapters.cli.output import overview, save_plot, show, show_json
from asktell_adapters.cli.places import (
    AnyStudy,
    Place,
    location,
    names,
    open_study,
    say_cached,
)
from asktell_adapters.cli.process import signals

if TYPE_CHECKING:
    from asktell import Result

_SHOWN = 20


def list_studies(arguments: argparse.Namespace) -> int:
    """`asktell studies`: list all studies at a URL."""
    rows = [["study", "spent", "active", "pending", "workers", "state"]]
    url = location(arguments.url)
    for name in names(url):
        with open_study(url, name) as study:
            out = study.workers()
            workers = {holding.worker for holding in out} - {None}
            finished = study.selector.state.finished
            at_work = "running" if out else "waiting" if study.spent else "new"
            state = "finished" if finished else "paused" if study.paused else at_work
            counts = [study.n_active, len(out), len(workers)]
            rows.append(
                [name, extend.describe_spending(study), *map(str, counts), state]
            )
    for line in aligned(rows):
        show(line.rstrip())
    return 0


def status(arguments: argparse.Namespace) -> int:
    """`asktell status`: print the progress of a study once."""
    place = Place(arguments.run, arguments.name)
    with place.open() as study:
        for line in _view(study, study.result(), study.workers(), place):
            show(line)
        say_cached(study)
    return 0


def result(arguments: argparse.Namespace) -> int:
    """`asktell result`: print every prompt with its estimates."""
    picture = arguments.plot
    if picture is not None and picture.suffix.lower() not in PICTURES:
        raise InvalidArgumentError(
            f"--plot needs a file that ends in {' or '.join(PICTURES)}, got {str(picture)!r}."
        )
    outcome = result_of(arguments.run, arguments.name)
    if picture is not None:
        save_plot(outcome, picture)
    if arguments.json:
        show_json(outcome.to_dict())
        return 0
    if arguments.markdown:
        show(outcome.to_markdown())
        return 0
    show(outcome.table(shutil.get_terminal_size((97, 24)).columns))
    if picture is not None:
        show(f"Plot: {picture}")
    return 0


def result_of(where: str, name: str | None) -> "Result":
    """The result of a study so far."""
    with Place(where, name).open() as study:
        return study.result()


def report(arguments: argparse.Namespace) -> int:
    """`asktell report`: write the result as one HTML page."""
    place = Place(arguments.run, arguments.name)
    with place.open() as study:
        study.report(arguments.output, place.about(), place.inputs())
    show(f"Report: {arguments.output}")
    return 0


def watch(arguments: argparse.Namespace) -> int:
    """`asktell watch`: print the progress until the study is done, or once if there is no terminal."""
    once = arguments.once or not sys.stdout.isatty()
    start, at_start = time.monotonic(), None
    place = Place(arguments.url, arguments.name)
    with place.open() as study:
        while True:
            result, holdings = study.result(), study.workers()
            seconds = time.monotonic() - start
            at_start = result if at_start is None else at_start
            lines = list(
                _view(study, result, holdings, place, _pace(at_start, result, seconds))
            )
            if not once:
                sys.stdout.write("\x1b[H\x1b[J")
            for line in lines:
                show(line)
            sys.stdout.flush()
            if once or result.done:
                return 0
            time.sleep(arguments.interval)


def _pace(before: "Result", now: "Result", seconds: float) -> str:
    """The speed since `before` and the time to go, in words. Empty if nothing has happened since."""
    if seconds <= 1 or now.spent == before.spent:
        return ""
    rate = (now.spent - before.spent) / seconds
    left = (now.budget - now.spent) / (now.spent - before.spent)
    if now.max_cost is not None and now.spent_cost > before.spent_cost:
        left = min(
            left, (now.max_cost - now.spent_cost) / (now.spent_cost - before.spent_cost)
        )
    return f", {rate:.3g} evaluations per second, about {max(0.0, left) * seconds / 60:.0f} min to go"


def _view(
    study: AnyStudy,
    result: "Result",
    holdings: Sequence[Any],
    place: Place,
    pace: str = "",
) -> Iterator[str]:
    """The progress of a study and the trials of its workers, as lines."""
    paused = "paused (asktell resume ends the pause), " if study.paused else ""
    doing = "finished" if result.done else paused + place.doing(len(holdings)) + pace
    yield from overview(
        result,
        f"{place.folder or study.name}: {doing}",
        study.n_active,
        place.seconds_since,
    )
    if since := growth_of(study.selector.state):
        yield f"{'since start':<12} {since}"
    rows = [["worker", "trial", "prompt", "example", "attempt", "lease"]]
    for holding in holdings[:_SHOWN]:
        trial, left_ = holding.trial, holding.seconds_left
        lease = (
            "none" if left_ is None else f"{left_:.0f} s" if left_ > 0 else "ran out"
        )
        cells = [
            trial.id,
            trial.prompt_id,
            "-" if trial.example is None else trial.example,
            holding.attempt,
        ]
        rows.append([holding.worker or "-", *map(str, cells), lease])
    if holdings:
        yield ""
        yield from (line.rstrip() for line in aligned(rows))
    if len(holdings) > _SHOWN:
        yield f"... and {len(holdings) - _SHOWN} more"


def export_study(arguments: argparse.Namespace) -> int:
    """`asktell export`: write a study to a file."""
    with Place(arguments.url, arguments.name).local("asktell export") as study:
        study.export(arguments.file)
    return 0


def import_study(arguments: argparse.Namespace) -> int:
    """`asktell import`: create a study from a file."""
    with asktell.Study.import_(arguments.url, arguments.file, arguments.name) as study:
        show(f"{study.name}: {extend.describe_spending(study)}")
    return 0


def batch(arguments: argparse.Namespace) -> int:
    """`asktell batch`: submit evaluations to a batch API, or record the scores that have arrived."""
    from asktell_adapters.config import load_config
    from asktell_adapters.evaluators.openai_batch import OpenAIBatch

    config = load_config(arguments.config)
    name = arguments.name or config.path.stem
    batches = OpenAIBatch(config.evaluator())
    with asktell.Study.create(
        arguments.study, name, config.selector, exist_ok=True
    ) as study:
        if arguments.action == "submit":
            n = study.budget if arguments.evaluations is None else arguments.evaluations
            ids = batches.submit(study, n)
            for id_ in ids or [
                "Nothing to submit. The study is done, or waits for scores."
            ]:
                show(id_)
        else:
            for line in str(batches.collect(study)).splitlines():
                show(line)
            show(
                f"{study.name}: {extend.describe_spending(study)}, {len(study.pending)} pending"
            )
    return 0


# The answer cache


def cache(arguments: argparse.Namespace) -> int:
    """`asktell cache`: print the size of the cache, or clear it."""
    from asktell_adapters.llms.cache import AnswerCache

    answers = AnswerCache(arguments.where)
    if arguments.where is not None and arguments.where.suffix == ".toml":
        from asktell_adapters.config import load_cache

        if (loaded := load_cache(arguments.where)) is None:
            raise InvalidArgumentError(
                f"{arguments.where.name} has no table [cache], so the responses of its run are not kept. To keep later "
                "responses, add the line [cache] to the file."
            )
        answers = loaded
    if arguments.action == "clear":
        size = answers.path.stat().st_size if answers.path.exists() else 0
        count = answers.clear()
        show(
            f"{answers.path}: {count} responses removed"
            + (", a damaged file" if size and not count else "")
        )
        return 0
    info = answers.info()
    show(
        f"{info.path}: {info.answers} responses, {info.bytes / 1e6:.1f} MB of at most {info.max_bytes / 1e6:.1f} MB"
    )
    if info.oldest is not None:
        show(f"the oldest of {datetime.fromtimestamp(info.oldest):%Y-%m-%d %H:%M}")
    return 0


def serve_studies(arguments: argparse.Namespace) -> int:
    """`asktell serve`: serve studies over HTTP until a signal ends it."""
    # Here, since it imports the server's packages
    from asktell_adapters.server.process import serve

    arguments.url = str(location(arguments.url))
    if not arguments.label:
        with signals():
            return serve(arguments)
    from asktell_adapters.cli.label import labelings

    with labelings(arguments.label, arguments.url) as labeled, signals():
        return serve(arguments, labeled)
