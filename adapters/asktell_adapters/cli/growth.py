"""Studies that go on, or not for now: `asktell add`, `retire`, `extend`, `pause` and `resume`, and what a file adds."""

import argparse
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asktell import (
    AsktellError,
    Candidates,
    Elimination,
    ExampleProfile,
    InvalidArgumentError,
    Selector,
)
from asktell.extend import State, aligned, events, write_atomically
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.output import show
from asktell_adapters.cli.places import AnyStudy, Place, needs_name
from asktell_adapters.datasets import load_prompts

_GROWING = (
    "prompts",
    "budget",
    "max_cost",
    "features",
    "examples",
    "example_ids",
    "state",
    "version",
    "asktell",
)
_CONFIG = "config: "  # begins the keys of what a configuration has brought


def add(arguments: argparse.Namespace) -> int:
    place, texts = _place_and(arguments.run, arguments.prompts)
    if bool(texts) == (arguments.file is not None):
        raise InvalidArgumentError(
            "asktell add needs either prompts, as TEXT or ID=TEXT, or --file FILE."
        )
    if arguments.encoding is not None and arguments.file is None:
        raise InvalidArgumentError("--encoding goes with --file FILE.")
    with place.open() as study:
        if study.selector.prompts.candidates is not None:
            raise InvalidArgumentError(
                "This run is of candidates, which a prompt alone is not. Add what is new to [candidates] in its file, "
                "and give the command that started it again."
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
                    f"The prompt {id_!r} is empty; give it a text."
                )
        ids = study.add(prompts)
        show(f"Joined: {', '.join(map(str, ids))}. {_where(study)}")
    return 0


def retire(arguments: argparse.Namespace) -> int:
    place, prompts = _place_and(arguments.run, arguments.prompt)
    with place.open() as study:
        for prompt in prompts:
            study.retire(prompt, arguments.reason)
        show(f"Retired: {', '.join(prompts)}. {_where(study)}")
    return 0


def extend(arguments: argparse.Namespace) -> int:
    place = Place(arguments.run, arguments.name)
    with place.open() as study:
        examples: Any = arguments.examples
        if examples == []:
            with _appended(place, Path(arguments.run), study) as examples:
                study.extend(arguments.evaluations, arguments.cost, examples)
        else:
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
    """The ids of the rows that a configuration's data have behind those of its run; then the run has them."""
    from asktell_adapters.config import differences, load_config, only_more_rows

    if place.folder is None or not path.is_file():
        raise InvalidArgumentError(
            "--examples alone takes the rows that were appended to the data of a CONFIG.toml: give that as RUN; or "
            "name the new examples, --examples ID ..."
        )
    config, folder = load_config(path), RunFolder(place.folder)
    saved = folder.read_setup() or {}
    now = {**saved, "data": config.setup["data"]}
    new = (
        _new_examples(study.selector, config.selector)
        if only_more_rows(saved, now)
        else None
    )
    if not new:
        found = "; ".join(differences(saved, now)) or "no rows were appended"
        raise InvalidArgumentError(
            f"{path.name}: {found}. New rows come behind the old ones, which stay as they are."
        )
    yield new
    folder.write_setup(now)


def _number(words: Sequence[str]) -> int:
    if len(words) != 1 or not words[0].isdecimal():
        raise InvalidArgumentError(
            f"The examples of this run have no ids: --examples N, got {' '.join(words)!r}."
        )
    return int(words[0])


def pause(arguments: argparse.Namespace) -> int:
    with Place(arguments.run, arguments.name).open() as study:
        study.pause()
        show(
            f"{study.name} is paused; {len(study.pending)} pending trials may still be told."
        )
    return 0


def resume(arguments: argparse.Namespace) -> int:
    with Place(arguments.run, arguments.name).open() as study:
        study.resume()
        show(f"Resumed. {_where(study)}")
    return 0


def _place_and(where: str, words: Sequence[str]) -> tuple[Place, list[str]]:
    """A run, or a study by its URL and the first of the words, which is its name; and the other words."""
    rest = list(words)
    name = rest.pop(0) if rest and needs_name(where) else None
    return Place(where, name), rest


def _named(texts: Sequence[str]) -> dict[str, str]:
    named = {}
    for text in texts:
        id_, equals, rest = text.partition("=")
        if not equals or not id_.strip() or id_.strip() in named:
            raise InvalidArgumentError(
                f"The prompts of this run have ids: give each as ID=TEXT, with an id of its own; got {text!r}."
            )
        named[id_.strip()] = rest.strip()
    return named


def _where(study: AnyStudy) -> str:
    selector = study.selector
    money = (
        ""
        if selector.max_cost is None
        else f", a cost of {selector.state.cost:.4g} of {selector.max_cost:.4g}"
    )
    is_spent = (
        selector.spent >= selector.budget
        or (selector.max_cost or math.inf) <= selector.state.cost
    )
    more = "" if selector.state.finished else " The command that started it resumes it."
    more = " The budget is spent: asktell extend." if is_spent else more
    n = len(selector.prompts)
    return f"{study.name}: {n} prompts, {selector.spent} of {selector.budget} evaluations{money}.{more}"


def growth_of(state: State) -> str:
    """How a selection has grown since it began, in words; empty if it has not."""
    now, then = state.problem, state.origin
    counts = {
        "prompts joined": now.n_arms - then.n_arms,
        "retired": sum(
            isinstance(grown.event, events.Retired) for grown in state.growth
        ),
        "evaluations more": 0
        if now.is_bound_by_cost_alone
        else now.budget - then.budget,
        "examples more": (now.n_examples or 0) - (then.n_examples or 0),
    }
    found = [f"{n} {what}" for what, n in counts.items() if n]
    money = (now.max_cost or 0.0) - (then.max_cost or 0.0)
    return ", ".join([*found, *([f"{money:.4g} more to spend"] if money else [])])


# A configuration


def grow(study: AnyStudy, wanted: Selector) -> list[str] | None:
    """Let a study have the prompts, the budget and the examples that a selector has more of; what it got, in words.

    None, and nothing was done, if that cannot be: they differ in more than that, the
    selector has less, the prompts or the examples that are there are others or stand
    elsewhere, or the method has planned its rounds.
    """
    now = study.selector
    before, after = (json.loads(selector.to_json()) for selector in (now, wanted))
    others = [
        key
        for key in {**before, **after}
        if key not in _GROWING and before.get(key) != after.get(key)
    ]
    if (
        others
        or isinstance(now.method, Elimination)
        or (now.max_cost is None) != (wanted.max_cost is None)
    ):
        return None
    new = _new_prompts(now, wanted, before["prompts"] == after["prompts"])
    examples = _new_examples(now, wanted)
    first = now.state.origin
    is_less = wanted.budget < first.budget or (wanted.max_cost or 0) < (
        first.max_cost or 0
    )
    if new is None or examples is None or is_less:
        return None
    got = []
    if new:
        what, data = (
            ("candidates", new.to_data())
            if isinstance(new, Candidates)
            else ("prompts", new)
        )
        study.add(new, key=f"{_CONFIG}{_digest(data)}")
        got.append(f"{len(new)} {what}")
    if examples:
        study.extend(examples=examples, key=f"{_CONFIG}examples {_digest(examples)}")
        got.append(f"{len(examples)} examples")
    now = study.selector
    evaluations = (
        0
        if now.state.problem.is_bound_by_cost_alone
        else max(0, wanted.budget - now.budget)
    )
    cost = max(0.0, (wanted.max_cost or 0.0) - (now.max_cost or 0.0))
    if evaluations or cost:
        # Of several that start with the same file at once, one extends.
        key = f"{_CONFIG}{now.budget}, {now.max_cost} to {wanted.budget}, {wanted.max_cost}"
        study.extend(evaluations or None, cost or None, key=key)
        got += [f"{evaluations} evaluations"] if evaluations else []
        got += [f"a cost of {cost:.4g}"] if cost else []
    return got


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]


def _new_examples(now: Selector, wanted: Selector) -> list[str] | None:
    """The ids of those that the study lacks; None if it has others, or in another order, or now fewer are given."""
    there, given = now.example_ids, wanted.example_ids
    if there is None or given is None:
        return (
            []
            if now.state.problem.n_examples == wanted.state.problem.n_examples
            else None
        )
    return list(given[len(there) :]) if given[: len(there)] == there else None


def _new_prompts(
    now: Selector, wanted: Selector, as_at_first: bool
) -> list[str] | dict[str, str] | Candidates | None:
    """Those that the study lacks; None if it has others, or in another order.

    Prompts that joined by other ways than a configuration may be missing in it, and so
    may retired ones with ids.
    """
    if as_at_first:
        return []
    there, named = now.prompts, wanted.prompts
    if isinstance(there.ids, range) != isinstance(named.ids, range):
        return None
    if (there.candidates is None) != (named.candidates is None):
        return None
    besides = besides_configuration(now.state)
    if isinstance(there.ids, range):
        needed = [text for arm, text in enumerate(there.texts) if arm not in besides]
        known = {there.texts[arm] for arm in besides}
        given = [text for text in named.texts if text not in known]
        return given[len(needed) :] if given[: len(needed)] == needed else None
    texts: dict[str | int, Any] = dict(
        zip(named.ids, named.candidates or named.texts, strict=True)
    )
    free = besides | {
        arm
        for arm, (_, departure) in now.state.left.items()
        if departure.status == "retired"
    }
    for arm, (id_, text) in enumerate(
        zip(there.ids, there.candidates or there.texts, strict=True)
    ):
        if texts.get(id_) != text and not (arm in free and id_ not in texts):
            return None
    known_ids = set(there.ids)
    if named.candidates is not None:
        new = [i for i, id_ in enumerate(named.ids) if id_ not in known_ids]
        return named.candidates.part(new) if new else []
    return {str(id_): text for id_, text in texts.items() if id_ not in known_ids}


def besides_configuration(state: State) -> set[int]:
    """The arms of prompts that joined by `asktell add`, or from elsewhere, and not by a configuration."""
    found, n_arms = set(), state.origin.n_arms
    for event in (each.event for each in state.growth):
        if isinstance(event, events.Added):
            joined = range(n_arms, n_arms + len(event.texts))
            found |= set() if (event.key or "").startswith(_CONFIG) else set(joined)
            n_arms = joined.stop
    return found


_SHOWN = 10


def profile(arguments: argparse.Namespace) -> int:
    found = ExampleProfile.merged(
        *_profiles(arguments.runs), half_life=arguments.half_life
    )
    if arguments.output is not None:
        write_atomically(arguments.output, found.to_json() + "\n")
    for line in overview(found):
        show(line)
    if arguments.output is not None:
        show(f"Profile: {arguments.output}")
    return 0


def overview(profile: ExampleProfile) -> list[str]:
    lines = [
        f"{len(profile.ids)} examples, of {profile.studies} stud{'y' if profile.studies == 1 else 'ies'}"
    ]
    for metric in profile.metrics:
        known = profile.examples(metric)
        lines += [
            "",
            f"{metric}: the most informative examples (1: an example not seen before)",
        ]
        rows = [["tells", "divides", "level", "scores", "example"]]
        for one in known[:_SHOWN]:
            divides, level = (
                f"{one.loading:.2f} ± {one.loading_error:.2f}",
                f"{one.level:.3g} ± {one.level_error:.2g}",
            )
            rows.append(
                [f"{one.tells:.2f}", divides, level, f"{one.cells:.0f}", one.id]
            )
        lines += [line.rstrip() for line in aligned(rows)]
        if len(known) > _SHOWN:
            lines.append(f"... and {len(known) - _SHOWN} more")
    return lines


def _profiles(runs: list[str]) -> list[ExampleProfile]:
    """Of each run, in the order given; of a URL of studies the next word is the name."""
    words, found = list(runs), []
    while words:
        where = words.pop(0)
        if where.endswith(".json"):
            found.append(ExampleProfile.from_json(Path(where).read_bytes()))
            continue
        name = None
        if needs_name(where):
            if not words:
                raise InvalidArgumentError(
                    f"Which study at {where}? Give its name after the URL."
                )
            name = words.pop(0)
        with Place(where, name).open() as study:
            try:
                found.append(ExampleProfile.of(study))
            except AsktellError as error:
                raise InvalidArgumentError(f"{where}: {error}") from error
    return found
