"""`asktell label`: people give the scores, on a page in the browser."""

import argparse
import contextlib
import sys
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import asktell
from asktell import ConfigError, Selector, Study
from asktell.extend import aligned, describe_spending, in_words, needs_extra
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.output import note, show
from asktell_adapters.cli.process import Terminated, signals
from asktell_adapters.cli.work import check_same
from asktell_adapters.config import Config, load_config
from asktell_adapters.config.label import check_study
from asktell_adapters.server.journal import Journal, other_study, study_of
from asktell_adapters.server.labeling import Labeling, Rating, Task, rating_rows

_JOURNAL = "labels.jsonl"


def label(arguments: argparse.Namespace) -> int:
    """`asktell label`: serve the label page until Ctrl-C, and print the work of the raters."""
    with needs_extra("server"):
        from asktell_adapters.server.process import serve_labels
    config = load_config(arguments.config)
    folder = RunFolder(config.output)
    if arguments.fresh and folder.used:
        with folder.locked():
            aside = folder.set_aside()
        note(f"The old run is now in {aside}")
    with in_folder(config, folder) as labeling:
        name = labeling.study.name

        def ready(address: str) -> None:
            page = f"{address}/studies/{quote(name, safe='')}/label"
            show(f"Label page: {page}   (Ctrl-C ends it)")
            sys.stdout.flush()
            if not arguments.no_browser:
                threading.Thread(
                    target=webbrowser.open, args=(page,), daemon=True
                ).start()

        try:
            with signals():
                serve_labels(
                    {name: labeling},
                    str(folder.study_file),
                    host=arguments.host,
                    port=arguments.port,
                    ready=ready,
                )
        except Terminated:
            raise
        except KeyboardInterrupt:
            pass  # Ctrl-C is how the page is ended
    with folder.open_study() as study:
        folder.write(study, config.dataset)
        show(
            f"{describe_spending(study)}. `asktell result {arguments.config}` has the result so far. "
            f"{folder.labels_file} has the labels."
        )
    return 0


@contextlib.contextmanager
def labelings(files: Sequence[Path], url: str) -> Iterator[dict[str, Labeling]]:
    """The raters of studies in a storage, by the studies' names. Studies that do not exist yet are created.

    Args:
        files: configurations with a table `[label]`. A study has its configuration's name.
        url: the storage.
    """
    with contextlib.ExitStack() as stack:
        by_study = {}
        for file in files:
            config = load_config(file)
            folder = RunFolder(config.output, url, file.stem)
            by_study[file.stem] = stack.enter_context(in_folder(config, folder))
        yield by_study


@contextlib.contextmanager
def in_folder(config: Config, folder: RunFolder) -> Iterator[Labeling]:
    """The raters of a run. Its folder and its study are created if they are missing.

    Raises:
        InvalidArgumentError: the run was started with another question, scale, response
            or example, or with other settings.
        InvalidStateError: the folder has a file of the journal's name that is not the
            journal of this study.
    """
    selector = new_selector(config)
    # Before anything is written
    _check_journal(folder)
    with folder.locked():
        saved = folder.read_setup()
        check_same(config, saved, folder)
        if saved is None or folder.study_name is None:
            _check_journal(folder)
            _start(config, folder, selector)
        with _labeling(config, folder.open_study(), folder) as labeling:
            yield labeling


def new_selector(config: Config) -> Selector:
    """The selector of a new study, with everything that is known without people.

    Raises:
        ConfigError: the file has no table `[label]`.
    """
    if config.labels is None:
        raise ConfigError(
            f"{config.path.name} has no table [label]. Add it, with question = '...' and scale = {{ ... }}."
        )
    selector = Selector.from_json(config.selector.to_json())
    config.labels.prepare(selector)
    return selector


def _start(config: Config, folder: RunFolder, selector: Selector) -> None:
    """Create the study, and save the set-up that it was started with."""
    # A study in the folder needs a set-up, even if this process is killed here. A study
    # elsewhere may exist with other settings, and then has no set-up in this folder.
    if folder.has_study_inside:
        folder.write_setup(config.setup, config.dataset)
        folder.make_study(config.path.stem, selector)
    else:
        folder.make_study(config.path.stem, selector)
        folder.write_setup(config.setup, config.dataset)


def _check_journal(folder: RunFolder) -> None:
    """Refuse a file of the journal's name that belongs to nobody's labels of this run.

    Raises:
        InvalidStateError: the file is not the journal of the folder's study.
    """
    path = folder.path / _JOURNAL
    owner = study_of(path)
    if owner is None:
        return
    study_id = None
    if folder.study_name is not None:
        with folder.open_study() as study:
            study_id = study.id
    if owner != study_id:
        raise other_study(path)


@contextlib.contextmanager
def _labeling(config: Config, study: Study, folder: RunFolder) -> Iterator[Labeling]:
    """The raters of a study. At the end, their labels are recorded, and their work is printed."""
    assert config.labels is not None
    check_study(config.labels, study.selector, config.dataset)
    task = config.labels.task(config.selector, config.dataset, config.evaluator)
    labeling, study_id = Labeling(study, task, folder.path / _JOURNAL), study.id
    try:
        yield labeling
    finally:
        ratings = labeling.ratings()
        # Of no use if the study was deleted meanwhile
        with contextlib.suppress(asktell.StudyNotFoundError):
            _remark(study, config.labels.table.metric, ratings)
        labeling.close()
        try:
            _write_labels(config, folder, study_id, task)
        except (asktell.AsktellError, OSError) as error:
            note(f"{folder.labels_file} was not written. {in_words(error)}")
        if ratings:
            for line in aligned(list(rating_rows(ratings))):
                show(line.rstrip())


def _write_labels(config: Config, folder: RunFolder, study_id: str, task: Task) -> None:
    """Write all labels, also those that the study lacks after a crash, for `asktell judge`."""
    journal = Journal(folder.path / _JOURNAL, study_id)
    with contextlib.closing(journal):
        scores = {option.label: option.score for option in task.options}
        folder.write_labels(journal.labels, scores, config.dataset)


def _remark(study: Study, metric: str, ratings: Sequence[Rating]) -> None:
    """Let the result say how raters did on gold rows."""
    gold, agreed = sum(r.gold for r in ratings), sum(r.agreed for r in ratings)
    if not gold:
        return
    who = f"{len(ratings)} rater{'s' if len(ratings) > 1 else ''}"
    text = f"{who} gave the right label to {agreed} of {gold} gold rows."
    remark = study.selector.state.remarks.get(metric)
    if remark is None or remark.text != text:
        with contextlib.suppress(asktell.StorageError):
            study.remark(text, topic=metric)
