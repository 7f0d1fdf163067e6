"""Changes of a study: `asktell add`, `retire`, `extend`, `pause` and `resume`, and the additions of a changed file."""

import argparse
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asktell import (
    AsktellError,
    ExampleProfile,
    InvalidArgumentError,
)
from asktell.extend import State, aligned, events, write_atomically
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.output import show
from asktell_adapters.cli.places import AnyStudy, Place, needs_name
from asktell_adapters.tables.datasets import load_prompts


def add(arguments: argparse.Namespace) -> int:
    """`asktell add`: add prompts to a run."""
    place, texts = _place_and(arguments.run, arguments.prompts)
    if bool(texts) == (arguments.file is not None):
        raise InvalidArgumentError(
            "asktell add needs either prompts or --file FILE. Write each prompt as TEXT or as ID=TEXT."
        )
    if arguments.encoding is not None and arguments.file is None:
        raise InvalidArgumentError(
            "--encoding is the encoding of the file in --file, which is missing. Add --file FILE, or remove --encoding."
        )
    _refuse_recorded(place, "A prompt")
    with place.open() as study:
        if study.selector.prompts.candidates is not None:
            raise InvalidArgumentError(
                "The candidates of this run are combinations of values, so a prompt alone cannot be added. Add a value "
                "to [candidates] in the run's TOML file, and repeat the command that started the run."
            )
        prompts: Any = texts
        if arguments.file is not None:
            prompts = load_prompts(arguments.file, encoding=arguments.encoding)
        elif not isinstance(study.selector.prompts.ids, range):
            prompts = _named(texts)
        for id_, text in (
            prompts.items() if isinstance(prompts, dict) else enumerate(prompts)
        ):
            if not text.strip():
                raise InvalidArgumentError(
                    f"The prompt {id_!r} is empty. Write its text."
                )
        ids = study.add(prompts)
        show(f"Added: {', '.join(map(str, ids))}. {_where(study)}")
    return 0


def _refuse_recorded(place: Place, what: str) -> None:
    """Refuse to add something for which no response can be had, because responses are recorded in a file.

    Args:
        place: the place of the run.
        what: what is to be added.

    Raises:
        InvalidArgumentError: people label recorded responses in this run.
    """
    if "responses" in place.about().get("label", {}):
        raise InvalidArgumentError(
            f"{what} alone cannot be added, because the responses of this run are recorded in a file. Append the new "
            "responses to the file of `responses` in [label], add new examples to the end of [data], and start "
            "`asktell label` again. It adds what is new."
        )


def retire(arguments: argparse.Namespace) -> int:
    """`asktell retire`: remove prompts from a run."""
    place, prompts = _place_and(arguments.run, arguments.prompt)
    with place.open() as study:
        for prompt in prompts:
            study.retire(prompt, arguments.reason)
        show(f"Retired: {', '.join(prompts)}. {_where(study)}")
    return 0


def extend(arguments: argparse.Namespace) -> int:
    """`asktell extend`: add evaluations, money or examples to a run."""
    place = Place(arguments.run, arguments.name)
    with place.open() as study:
        examples: Any = arguments.examples
        if examples == []:
            with _appended(place, Path(arguments.run), study) as examples:
                study.extend(arguments.evaluations, arguments.cost, examples)
        else:
            if examples is not None:
                _refuse_recorded(place, "An example")
            words = (
                examples
                if examples is None or study.example_ids is not None
                else _number(examples)
            )
            study.extend(arguments.evaluations, arguments.cost, words)
        show(_where(study))
    return 0


@contextmanager
def _appended(place: Place, path: Path, study: AnyStudy) -> Iterator[list[str]]:
    """The ids of the rows that were appended to a configuration's data. On success, the run has them, too."""
    from asktell_adapters.config import (
        changed_responses,
        differences,
        load_config,
        only_more_rows,
    )

    if place.folder is None or not path.is_file():
        raise InvalidArgumentError(
            f"{str(path)!r} is not the TOML file of a run, so asktell cannot find out which rows were appended to the "
            "data. Give the TOML file instead, or list the ids of the new examples after --examples."
        )
    config, folder = load_config(path), RunFolder(place.folder)
    saved = folder.read_setup() or {}
    now = {**saved, "data": config.setup["data"]}
    if "label" in saved and "label" in config.setup:
        # With the recorded responses to the new examples
        now["label"] = config.setup["label"]
    new = (
        _new_examples(study.example_ids, config.selector.example_ids)
        if only_more_rows(saved, now)
        else None
    )
    if not new or changed_responses(saved, now):
        problem = ". ".join(differences(saved, now)) or "No rows were appended"
        raise InvalidArgumentError(
            f"{path.name}: {problem}. Append new rows after the old rows, and leave the old rows unchanged."
        )
    yield new
    folder.write_setup(now, config.dataset)


def _number(words: Sequence[str]) -> int:
    """The number of new examples, for a run whose examples have no ids."""
    if len(words) != 1 or not words[0].isdecimal():
        raise InvalidArgumentError(
            f"The examples of this run have no ids. Give their number by --examples N, got {' '.join(words)!r}."
        )
    return int(words[0])


def pause(arguments: argparse.Namespace) -> int:
    """`asktell pause`: assign no more trials until `asktell resume`."""
    with Place(arguments.run, arguments.name).open() as study:
        study.pause()
        show(
            f"{study.name} is paused. {len(study.pending)} pending trials can still be recorded."
        )
    return 0


def resume(arguments: argparse.Namespace) -> int:
    """`asktell resume`: end a pause."""
    with Place(arguments.run, arguments.name).open() as study:
        study.resume()
        show(f"Resumed. {_where(study)}")
    return 0


def _place_and(where: str, words: Sequence[str]) -> tuple[Place, list[str]]:
    """Where the study is, and the words without its name.

    At a URL, the first of the words is the study's name.
    """
    rest = list(words)
    name = rest.pop(0) if rest and needs_name(where) else None
    return Place(where, name), rest


def _named(texts: Sequence[str]) -> dict[str, str]:
    """Prompts given as ID=TEXT, by their ids."""
    named = {}
    for text in texts:
        id_, equals, rest = text.partition("=")
        if not equals or not id_.strip() or id_.strip() in named:
            raise InvalidArgumentError(
                f"The prompts of this run have ids, so a new prompt needs an id of its own. Got {text!r}. "
                "Write ID=TEXT."
            )
        named[id_.strip()] = rest.strip()
    return named


def _where(study: AnyStudy) -> str:
    """The size and the progress of a study after a change, and how to continue it."""
    selector = study.selector
    money = (
        ""
        if selector.max_cost is None
        else f", a cost of {selector.state.costs.total:.4g} of {selector.max_cost:.4g}"
    )
    is_spent = (
        selector.spent >= selector.budget
        or (selector.max_cost or math.inf) <= selector.state.costs.total
    )
    more = "" if selector.state.finished else " The command that started it resumes it."
    more = " The budget is spent: asktell extend." if is_spent else more
    n = len(selector.prompts)
    return f"{study.name}: {n} prompts, {selector.spent} of {selector.budget} evaluations{money}.{more}"


def growth_of(state: State) -> str:
    """The growth of a selection since its start, in words. It is empty if there was none."""
    now, then = state.problem, state.growth.origin
    counts = {
        "prompts added": now.n_arms - then.n_arms,
        "retired": sum(
            isinstance(grown.event, events.Retired) for grown in state.growth.events
        ),
        "evaluations more": 0
        if now.is_bound_by_cost_alone
        else now.budget - then.budget,
        "examples more": (now.examples.n or 0) - (then.examples.n or 0),
    }
    additions = [f"{n} {what}" for what, n in counts.items() if n]
    money = (now.max_cost or 0.0) - (then.max_cost or 0.0)
    return ", ".join([*additions, *([f"{money:.4g} more to spend"] if money else [])])


def _new_examples(
    there: Sequence[str] | None, now: Sequence[str] | None
) -> list[str] | None:
    """The ids of the examples that the study lacks. None if the study's own examples are not the first ones given."""
    if there is None or now is None or list(now[: len(there)]) != list(there):
        return None
    return list(now[len(there) :])


# Profiles

_SHOWN = 10


def profile(arguments: argparse.Namespace) -> int:
    """`asktell profile`: show which examples discriminated best in earlier runs, and write the profile."""
    merged = ExampleProfile.merged(
        *_profiles(arguments.runs), half_life=arguments.half_life
    )
    if arguments.output is not None:
        write_atomically(arguments.output, merged.to_json() + "\n")
    for line in overview(merged):
        show(line)
    if arguments.output is not None:
        show(f"Profile: {arguments.output}")
    return 0


def overview(profile: ExampleProfile) -> list[str]:
    """The most informative examples of each metric, as lines of a table."""
    lines = [
        f"{len(profile.ids)} examples, of {profile.studies} stud{'y' if profile.studies == 1 else 'ies'}"
    ]
    for metric in profile.metrics:
        examples = profile.examples(metric)
        lines += [
            "",
            f"{metric}: the most informative examples (1: an example not seen before)",
        ]
        rows = [["tells", "divides", "level", "scores", "example"]]
        for example in examples[:_SHOWN]:
            divides = f"{example.loading:.2f} ± {example.loading_error:.2f}"
            level = f"{example.level:.3g} ± {example.level_error:.2g}"
            rows.append(
                [
                    f"{example.tells:.2f}",
                    divides,
                    level,
                    f"{example.cells:.0f}",
                    example.id,
                ]
            )
        lines += [line.rstrip() for line in aligned(rows)]
        if len(examples) > _SHOWN:
            lines.append(f"... and {len(examples) - _SHOWN} more")
    return lines


def _profiles(runs: list[str]) -> list[ExampleProfile]:
    """The profile of each run, in the given order. At a URL of studies, the next word is the study's name."""
    words, profiles = list(runs), []
    while words:
        where = words.pop(0)
        if where.endswith(".json"):
            profiles.append(ExampleProfile.from_json(Path(where).read_bytes()))
            continue
        name = None
        if needs_name(where):
            if not words:
                raise InvalidArgumentError(
                    "The study's name is missing. Give it after the URL. `asktell studies URL` lists all studies."
                )
            name = words.pop(0)
        with Place(where, name).open() as study:
            try:
                profiles.append(ExampleProfile.of(study))
            except AsktellError as error:
                raise InvalidArgumentError(
                    f"The study {study.name!r} gives no profile. {error}"
                ) from error
    return profiles
