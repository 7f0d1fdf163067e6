"""The definition of a study compared with a selector's: what differs, and what the selector has more of.

A program that creates a study with `exist_ok=True`, or a configuration file, may be
edited between two runs. A larger budget, new prompts and new examples are added to the
study. Any other difference is an error that names both values.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from asktell.problem.candidates import Candidates
from asktell.problem.examples.ids import changes
from asktell.problem.formats import load_goal
from asktell.problem.problem import Problem
from asktell.problem.words import short
from asktell.record import Engine, State, events
from asktell.selector import Selector

ADDED_BY_DEFINITION = "config: "
"""Start of the keys of prompts that a definition has brought, unlike prompts that somebody added to the study."""

# Saved with a selector, and compared as parts of its prompts, budget and examples, or
# not part of its definition
_APART = {
    "asktell", "state", "version", "prompts", "features", "budget", "max_cost", "examples", "example_ids",
}  # fmt: skip
_SHOWN = 8  # differences in a message
_CONTEXT, _WIDTH = 20, 60  # characters of a changed text before its change, and in all


class Additions(NamedTuple):
    """What a selector has more of than a study. Falsy if there is nothing.

    Attributes:
        prompts: the new prompts, as for `Selector.add`.
        examples: the new examples, as for `Selector.extend`.
        evaluations: the evaluations to add to the budget.
        cost: the cost to add to the budget.
    """

    prompts: list[str] | dict[str, str] | Candidates | None = None
    examples: int | list[str] | None = None
    evaluations: int | None = None
    cost: float | None = None

    def __bool__(self) -> bool:
        return any(self)

    def add_to(self, engine: Engine) -> None:
        """Add these to the selection of an engine.

        Raises:
            IncompatibleMethodError: the method has planned its rounds.
            InvalidArgumentError: the examples have segments.
        """
        if self.prompts:
            of = self.prompts
            data = of.to_data() if isinstance(of, Candidates) else of
            digest = hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]
            engine.add(of, key=f"{ADDED_BY_DEFINITION}{digest}")
        if any(self[1:]):
            engine.extend(self.evaluations, self.cost, self.examples)

    def in_words(self) -> list[str]:
        """Return each addition in words, such as "100 evaluations"."""
        examples = (
            self.examples
            if isinstance(self.examples, int)
            else len(self.examples or ())
        )
        kind = "candidate" if isinstance(self.prompts, Candidates) else "prompt"
        counts = [
            (len(self.prompts or ()), kind),
            (examples, "example"),
            (self.evaluations or 0, "evaluation"),
        ]
        words = [f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts if n]
        return [*words, *([f"a cost of {self.cost:.4g}"] if self.cost else [])]

    def settings(self) -> list[str]:
        """Return the names of the settings that differ."""
        has_budget = self.evaluations or self.cost
        named = zip(
            ("prompts", "examples", "budget"), (*self[:2], has_budget), strict=True
        )
        return [name for name, value in named if value]

    def calls(self) -> list[str]:
        """Return the calls that would add these to a study, as hints for a message."""
        prompts: Any = self.prompts
        if isinstance(prompts, Candidates):
            prompts = prompts.ids
        calls = (
            [] if not prompts else [f"new prompts, {short(prompts)}: study.add(...)"]
        )
        named = zip(("examples", "evaluations", "cost"), self[1:], strict=True)
        return calls + [
            f"more {name}: study.extend({name}={short(value)})"
            for name, value in named
            if value
        ]


class Differences(NamedTuple):
    """A selector compared with a study.

    Attributes:
        differing: what cannot be added, by the name of the setting: both values, in
            words.
        additions: what can be added.
    """

    differing: dict[str, list[str]]
    additions: Additions

    def in_words(self) -> str:
        """Return the differences that cannot be added, and then what could be added, as a predicate of the study."""
        all_ = [text for texts in self.differing.values() for text in texts]
        more = f"; and {len(all_) - _SHOWN} more" if len(all_) > _SHOWN else ""
        hints = [_HINTS[name] for name in self.differing if name in _HINTS]
        sentences = [
            f"was created with other values of {', '.join(self.differing)}.",
            f"{'; '.join(all_[:_SHOWN])}{more}.",
            *hints,
            "Undo the change, or choose another name for a new study.",
        ]
        if calls := self.additions.calls():
            sentences.append(f"The study could get {'; '.join(calls)}.")
        return " ".join(sentences)


_HINTS = {
    "prompts": "A prompt keeps its text, because its scores belong to the text. Give a changed text a new id, or "
    "append it if prompts have no ids. Then it is added. If a prompt is no longer wanted, call study.retire(...).",
    "budget": "A budget can grow, but not shrink or change its kind.",
    "examples": "New examples are added if they come after the existing examples, in the same form: ids or a number.",
}


def settings_that_differ(
    then: Mapping[str, Any], now: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Compare two saved selectors in all but prompts, budget, examples and evaluations.

    Args:
        then: the selector with which the study was created, as data.
        now: the other selector.

    Returns:
        For each setting that differs, both values in words.
    """
    differing: dict[str, list[str]] = {}
    for key in {**then, **now}:
        if key in _APART or then.get(key) == now.get(key):
            continue
        texts = [_setting(key, saved) for saved in (then, now)]
        if texts[0] == texts[1]:
            differing[key] = list(_leaves(key, then.get(key), now.get(key)))
        else:
            differing[key] = [f"{key}: {texts[0]} then, {texts[1]} now"]
    return differing


def _setting(key: str, saved: Mapping[str, Any]) -> str | None:
    """Return a setting of a saved selector as users write it. None if `_leaves` describes it better."""
    value = saved.get(key)
    if key == "goal":
        return str(load_goal(value))
    if key == "method" and isinstance(value, dict):
        return str(value.get("type"))
    if key == "baseline" and value is not None:
        ids = saved["prompts"].get("ids")
        return f"prompt {value if ids is None else ids[value]!r}"
    return str(value) if key == "baseline" else None


def _leaves(where: str, then: Any, now: Any) -> Iterator[str]:
    """Yield the differing parts of two values from JSON, with their places."""
    if isinstance(then, dict) and isinstance(now, dict) and then.keys() == now.keys():
        for key in then:
            if then[key] != now[key]:
                yield from _leaves(f"{where}.{key}", then[key], now[key])
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for place, (old, new) in enumerate(zip(then, now, strict=True)):
            if old != new:
                yield from _leaves(f"{where}[{place}]", old, new)
    else:
        yield f"{where}: {short(then)} then, {short(now)} now"


def compare(study: Selector, wanted: Selector, may_be_older: bool) -> Differences:
    """Compare the prompts, the budget and the examples of a study, as they are now, with those of a selector.

    The selector may lack budget and examples that were added to the study since its
    creation. It may also lack prompts that were added in other ways than by a
    definition, and retired prompts that have ids.

    Args:
        study: the study's selection.
        wanted: the selector.
        may_be_older: True if the selector may lack all prompts that were added since the
            creation, because it is from an earlier version of the definition.
    """
    differing: dict[str, list[str]] = {}
    besides = besides_definition(study.state)
    if may_be_older:
        besides.update(range(study.state.growth.origin.n_arms, len(study.prompts)))
    prompts = _new_prompts(study, wanted, besides, differing.setdefault("prompts", []))
    examples = _new_examples(study, wanted, differing.setdefault("examples", []))
    budget = _new_budget(study, wanted, differing.setdefault("budget", []))
    return Differences(
        {name: texts for name, texts in differing.items() if texts},
        Additions(prompts or None, examples or None, *budget),
    )


def _new_budget(
    study: Selector, wanted: Selector, differing: list[str]
) -> tuple[int | None, float | None]:
    """Return the evaluations and the cost that the wanted budget has more."""
    first, now = study.state.growth.origin, study.state.problem
    limits = [
        (first.budget, now.budget, wanted.budget, "evaluations"),
        (first.max_cost, now.max_cost, wanted.max_cost, "cost"),
    ]
    new_problem = wanted.state.problem
    if new_problem.is_bound_by_cost_alone != now.is_bound_by_cost_alone or (
        (first.max_cost is None) != (new_problem.max_cost is None)
    ):
        differing.append(f"budget: {_limits(first)} then, {_limits(new_problem)} now")
        return None, None
    if now.is_bound_by_cost_alone:
        del limits[0]
    more: dict[str, Any] = {}
    for least, limit, new, unit in limits:
        if new is None or limit is None or least is None:
            continue
        if new < least:
            differing.append(
                f"budget: {_limits(first)} then, {_limits(new_problem)} now"
            )
        more[unit] = max(0, new - limit) or None
    return more.get("evaluations"), more.get("cost")


def _limits(problem: Problem) -> str:
    """Return a budget in words."""
    cost = None if problem.max_cost is None else f"a cost of {problem.max_cost:.10g}"
    if cost is not None and problem.is_bound_by_cost_alone:
        return cost
    evaluations = f"{problem.budget:,} evaluations"
    return evaluations if cost is None else f"{evaluations} and {cost}"


def _new_examples(
    study: Selector, wanted: Selector, differing: list[str]
) -> int | list[str] | None:
    """Return the examples that the study lacks: their number, or their ids if it has ids."""
    ids, wanted_ids = study.example_ids, wanted.example_ids
    now, first = study.state.problem.examples.n, study.state.growth.origin.examples.n
    n = wanted.state.problem.examples.n
    if ids is None:
        # A study without ids fits others of the same number
        if (n is None) != (now is None) or (n or 0) < (first or 0):
            differing.append(f"examples: {first} then, {n} now")
        return max(0, (n or 0) - (now or 0))
    if wanted_ids is None:
        differing.append(f"examples: {len(ids):,} with ids then, {n} without ids now")
        return None
    n_common = min(len(ids), len(wanted_ids))
    if ids[:n_common] != wanted_ids[:n_common] or n_common < (first or 0):
        differing.append(f"examples: {changes(ids, wanted_ids)}")
        return None
    return list(wanted_ids[len(ids) :])


def _new_prompts(
    study: Selector, wanted: Selector, besides: set[int], differing: list[str]
) -> list[str] | dict[str, str] | Candidates | None:
    """Return the prompts that the study lacks. The selector may lack the arms in `besides`, and retired prompts."""
    of_study, named = study.prompts, wanted.prompts
    kinds = [
        "candidates with factors"
        if prompts.candidates is not None
        else "a list of texts"
        if isinstance(prompts.ids, range)
        else "texts with ids"
        for prompts in (of_study, named)
    ]
    if kinds[0] != kinds[1]:
        differing.append(f"prompts: {kinds[0]} then, {kinds[1]} now")
        return None
    if isinstance(of_study.ids, range):
        return _new_texts(study, wanted, besides, differing)
    contents: dict[str | int, Any] = dict(
        zip(named.ids, named.candidates or named.texts, strict=True)
    )
    left = study.state.left.items()
    retired = {arm for arm, (_, departure) in left if departure.status == "retired"}
    contents_now = zip(of_study.ids, of_study.candidates or of_study.texts, strict=True)
    for arm, (id_, content) in enumerate(contents_now):
        if id_ not in contents:
            if arm not in besides | retired:
                differing.append(f"prompt {id_!r}: missing now")
        elif contents[id_] != content:
            differing.append(f"prompt {id_!r}: {_both(content, contents[id_])}")
    ids = set(of_study.ids)
    if named.candidates is not None:
        new = [i for i, id_ in enumerate(named.ids) if id_ not in ids]
        return named.candidates.part(new) if new else None
    return {str(id_): text for id_, text in contents.items() if id_ not in ids}


def _new_texts(
    study: Selector, wanted: Selector, besides: set[int], differing: list[str]
) -> list[str]:
    """Return the new prompts, where prompts have no ids. They must follow the study's prompts, in the same order."""
    texts = study.prompts.texts
    first = [arm for arm in range(len(texts)) if arm not in besides]
    added = {texts[arm] for arm in besides}
    wanted_texts = [text for text in wanted.prompts.texts if text not in added]
    for arm, text in zip(first, wanted_texts, strict=False):
        if texts[arm] != text:
            differing.append(f"prompt {arm}: {_both(texts[arm], text)}")
    if len(wanted_texts) < len(first):
        differing.append(f"prompts: {len(first)} then, {len(wanted_texts)} now")
    return wanted_texts[len(first) :]


def _both(then: Any, now: Any) -> str:
    """Return two different contents of a prompt, from shortly before their first difference."""
    if not isinstance(then, str) or not isinstance(now, str):
        return f"{short(then)} then, {short(now)} now"
    pairs = zip(then, now, strict=False)
    n_equal = next(
        (place for place, (a, b) in enumerate(pairs) if a != b),
        min(len(then), len(now)),
    )
    start = max(0, n_equal - _CONTEXT) if n_equal > _WIDTH - _CONTEXT else 0
    old, new = (_excerpt(text, start) for text in (then, now))
    return f"{old} then, {new} now"


def _excerpt(text: str, start: int) -> str:
    """Return a part of a text in quotes."""
    end = start + _WIDTH
    before, after = "..." if start else "", "..." if len(text) > end else ""
    return repr(f"{before}{text[start:end]}{after}")


def besides_definition(state: State) -> set[int]:
    """Return the arms of prompts that were added to a study by a person or a program.

    It leaves out the prompts of the study's beginning, and those that `Study.grow`
    added.

    Args:
        state: the state of the study.
    """
    besides, n_arms = set[int](), state.growth.origin.n_arms
    for event in (grown.event for grown in state.growth.events):
        if isinstance(event, events.Added):
            arms = range(n_arms, n_arms + len(event.texts))
            if not (event.key or "").startswith(ADDED_BY_DEFINITION):
                besides.update(arms)
            n_arms = arms.stop
    return besides
