"""The sentences of a report, one conclusion per panel."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from asktell._util.terminal import safe
from asktell.problem.goals import BestFeasible
from asktell.results.entries import PromptResult, shown_status
from asktell.results.result import Result

_NAMED = 3  # prompts named in a sentence
_MOST_OF_A_NAME = 60  # characters


def conclusions(data: Mapping[str, Any], result: Result) -> dict[str, str]:
    """Return a text for each panel, by the panel's name. "answer" is the headline."""
    return {
        "answer": data["ruling"]["headline"] if "ruling" in data else _headline(result),
        "verdict": " ".join(
            data["ruling"]["reasons"] if "ruling" in data else _verdict(data, result)
        ),
        "plane": _plane(data, result),
        "checks": _checks(result),
        "prompts": _prompts(result),
        "factors": _factors(data.get("factors", ()), result),
        "spending": _spending(data, result),
        "segments": _segments(result),
        "examples": _examples(data),
        "duel": " ".join(_duel(data, duel) for duel in data["duels"][:1]) or _NO_DUEL,
        "costs": _costs(data, result),
        "made": "The same prompts, examples, method, seed and scores lead to the same selection.",
    }


def _checks(result: Result) -> str:
    """Count the assumptions that do not hold, or cannot be checked."""
    failing = sum(check.ok is False for check in result.checks)
    unknown = sum(check.ok is None for check in result.checks)
    if not failing and not unknown:
        return "All assumptions behind these statements hold."
    counts = [f"{failing} do{'es' * (failing == 1)} not hold"] if failing else []
    counts += [f"{unknown} cannot be checked with these scores"] if unknown else []
    return f"Of {len(result.checks)} assumptions behind these statements, {' and '.join(counts)}."


_NO_DUEL = "There are no two prompts to compare yet."


def _segments(result: Result) -> str:
    """Name the best and the worst segment of the selected prompt."""
    if not result.selected or not result.selected[0].segments:
        return "No segment has an estimate yet."
    entry, goal = result.selected[0], result.goal
    name = (
        goal.columns[goal.by_segment[0]]
        if goal.by_segment
        else goal.objectives[0].metric
    )
    means = {label: metrics[name][0] for label, metrics in entry.segments.items()}
    ordered = sorted(
        means, key=lambda label: means[label] * (-1 if name in goal.minimized else 1)
    )
    worst, best = ordered[0], ordered[-1]
    return (
        f"{_short(entry.id)} is worst in {_short(worst)} ({_own(name)} {means[worst]:.3g}) and best in {_short(best)} "
        f"({means[best]:.3g})."
    )


def _factors(factors: Sequence[Mapping[str, Any]], result: Result) -> str:
    """Name the factor that matters most for the first objective, if its levels differ by two standard errors."""
    objective = result.goal.objectives[0]
    j = result.goal.columns.index(objective.metric)
    clear = []
    for factor in factors:
        columns = zip(
            factor["levels"], factor["estimates"], factor["errors"], strict=True
        )
        rows = [(means[j], name, errors[j]) for name, means, errors in columns]
        levels = [
            (objective.sign * mean, name, error)
            for mean, name, error in rows
            if None not in (mean, error)
        ]
        if len(levels) > 1:
            best, worst = max(levels), min(levels)
            gap = best[0] - worst[0]
            if gap > 2 * math.hypot(best[2], worst[2]):
                clear.append(
                    (
                        gap,
                        math.hypot(best[2], worst[2]),
                        factor["name"],
                        best[1],
                        worst[1],
                    )
                )
    if not clear:
        return f"No factor makes a clear difference in {objective.metric} yet."
    gap, error, name, best_level, worst_level = max(clear)
    return (
        f"The factor {_short(name)} makes the largest difference in {_own(objective.metric)}: {gap:.2g} ± {error:.2g} "
        f"between {_short(best_level)} and {_short(worst_level)}, on average over the other factors."
    )


def _names(entries: Sequence[PromptResult], note: str = "") -> str:
    """The names of the first prompts, each followed by a note, and the number of the others."""
    shown = ", ".join(
        _short(entry.id) + note.format(entry) for entry in entries[:_NAMED]
    )
    return (
        shown if len(entries) <= _NAMED else f"{shown} and {len(entries) - _NAMED} more"
    )


def _short(id_: str | int) -> str:
    """An id in a sentence. A text is shortened and quoted, and a number follows "prompt"."""
    if not isinstance(id_, str):
        return f"prompt {id_}"
    if len(id_) > _MOST_OF_A_NAME:
        id_ = id_[: _MOST_OF_A_NAME - 1] + "…"
    return f'"{_own(id_)}"'


def _own(name: str) -> str:
    """Isolate a name that is written from right to left, so that the sentence around it keeps its direction."""
    return (
        f"\u2068{name}\u2069"
        if any(unicodedata.bidirectional(c) in ("R", "AL") for c in name)
        else name
    )


def _isolated(sentence: str, names: Iterable[str]) -> str:
    """Isolate those of the names in a sentence that are written from right to left."""
    turned = sorted(
        (name for name in map(safe, names) if _own(name) != name), key=len, reverse=True
    )
    return (
        re.sub("|".join(map(re.escape, turned)), lambda match: _own(match[0]), sentence)
        if turned
        else sentence
    )


def _count(n: int, what: str) -> str:
    """A number with its noun, in the singular or the plural."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _percent(part: float) -> str:
    """A share, such as "93%". It is 0% or 100% only if it is exactly so."""
    return (
        "over 99%"
        if 0.99 < part < 1
        else "under 1%"
        if 0 < part < 0.01
        else f"{100 * part:.0f}%"
    )


def _headline(result: Result) -> str:
    """What to do: the headline of the verdict."""
    return _isolated(result.verdict.headline, _named(result))


def _named(result: Result) -> set[str]:
    """The ids that a verdict may name."""
    contenders = (id_ for id_, _ in result.verdict.contenders)
    selected = (entry.id for entry in result.selected[:1])
    return {str(id_) for id_ in (*selected, result.baseline, *contenders)}


def _constraints(result: Result) -> str:
    """The constraints of the goal, as the object of a verb."""
    return "every constraint" if len(result.goal.constraints) > 1 else "the constraint"


def _verdict(data: Mapping[str, Any], result: Result) -> list[str]:
    """The state of the run, the reasons of the verdict, and the comparison with the baseline."""
    named, sentences = _named(result), []
    if data["paused"]:
        sentences.append(
            "The selection is paused. No trials are assigned until it is resumed."
        )
    elif not result.done:
        sentences.append("The selection is still running.")
    if result.verdict.reasons:
        sentences.append(_isolated(result.verdict.reasons, named))
    if result.selected and isinstance(result.goal, BestFeasible):
        sentences += _better_but_gone(result, result.selected[0])
    if result.sentence:
        # A line may start with the name of its metric, as "accuracy: ..."
        is_named = (
            not isinstance(result.goal, BestFeasible) or result.goal.is_constrained
        )
        by_metric = result.comparison is not None and is_named
        sentences += [
            _isolated(f"For {line}" if by_metric else line, named)
            for line in result.sentence.splitlines()
        ]
    return sentences


def _better_but_gone(result: Result, first: PromptResult) -> list[str]:
    """Name failed and retired prompts that look better than the selected prompt in the charts."""
    gone = [
        entry
        for entry in result.prompts
        if entry.status in ("failed", "retired")
        and entry.feasible is first.feasible
        and _is_ahead(result, entry, first)
    ]
    if not gone:
        return []
    named = _names(gone, " ({0.status})")
    return [
        f"Failed or retired prompts with better {_own(result.goal.objectives[0].metric)}: {named}."
    ]


def _is_ahead(result: Result, a: PromptResult, b: PromptResult) -> bool:
    """True if prompt a has a better estimate of the first objective than prompt b."""
    objective = result.goal.objectives[0]
    mean, mean_b = a.estimate[objective.metric], b.estimate[objective.metric]
    return (
        mean is not None and mean_b is not None and objective.sign * (mean - mean_b) > 0
    )


def _plane(data: Mapping[str, Any], result: Result) -> str:
    """The number of feasible prompts, the best estimate, or the number of trade-offs."""
    evaluated = [
        entry for entry in result.prompts if None not in entry.estimate.values()
    ]
    if not evaluated:
        return "No prompt has been evaluated yet."
    if result.goal.is_constrained:
        feasible = [entry for entry in result.prompts if entry.feasible is True]
        verb = "satisfies" if len(feasible) == 1 else "satisfy"
        count = f"{len(feasible)} of {_count(len(evaluated), 'evaluated prompt')}"
        lead = _lead(result, feasible, "Of these, ")
        return f"Based on the estimates, {count} {verb} {_constraints(result)}.{f' {lead}' if lead else ''}"
    if len(result.goal.columns) == 1:
        lead = _lead(result, evaluated, "Based on the estimates, ")
        alone = "Overlapping intervals do not mean that two prompts are equal"
        paired = (
            "."
            if data["examples"] is None
            else ". Compare the prompts on their common examples."
        )
        return f"{f'{lead} ' if lead else ''}{alone}{paired}"
    among = _count(len(evaluated), "evaluated prompt")
    if len(result.selected) == 1:
        return f"One of {among} leads in every metric, so there is no trade-off."
    return f"{len(result.selected)} of {among} are in the Pareto set. Among them, a gain in one metric costs another."


def _lead(result: Result, among: Sequence[PromptResult], start: str) -> str:
    """A sentence that starts with `start`, if the selected prompt has the best estimate among these prompts."""
    rivals = [entry for entry in among if entry.status not in ("failed", "retired")]
    objectives = result.goal.objectives
    if (
        len(objectives) > 1
        or len(rivals) < 2
        or not result.selected
        or result.selected[0] not in rivals
    ):
        return ""
    first = result.selected[0]
    if any(_is_ahead(result, entry, first) for entry in rivals):
        return ""
    amount = "lowest" if objectives[0].minimize else "highest"
    scope = (
        ""
        if len(rivals) == len(among)
        else " of all prompts that can still be selected"
    )
    return f"{start}{_short(first.id)} has the {amount} {_own(objectives[0].metric)}{scope}."


def _prompts(result: Result) -> str:
    """Count the prompts by status."""
    counts = Counter(map(shown_status, result.prompts))
    return (
        f"{_count(len(result.prompts), 'prompt')}: "
        + ", ".join(f"{n:,} {word}" for word, n in counts.items())
        + "."
    )


def _spending(data: Mapping[str, Any], result: Result) -> str:
    """The share of the evaluations that the most evaluated prompts received, and the number of eliminated prompts."""
    pulls = sorted((entry.evaluations for entry in result.prompts), reverse=True)
    total = sum(pulls)
    if not total:
        return "No scores have been recorded yet."
    few = max(1, len(pulls) // 10)
    part = sum(pulls[:few]) / total
    # A prompt that the last decision of `auto` did not select was not eliminated before.
    left = sum(
        entry.status in ("rejected", "failed", "retired")
        and entry.reason != "not selected"
        for entry in result.prompts
    )
    most = (
        "The most-evaluated prompt"
        if few == 1
        else f"The {few:,} most-evaluated prompts"
    )
    gone = (
        f"{left} of {_count(len(pulls), 'prompt')} {'has' if left == 1 else 'have'}"
        if left
        else "No prompt has"
    )
    received = f"{most} received {_percent(part)} of the {_count(total, 'evaluation')}."
    return (
        f"{received} {gone} been eliminated, failed or retired."
        if left
        else f"{received} {gone} been eliminated."
    )


def _examples(data: Mapping[str, Any]) -> str:
    """Count the examples that look wrong, as the first objective shows."""
    telling, heat = data["telling"], data["heat_map"]
    if telling is None or heat is None:
        return "The evaluations have no examples, so prompts cannot be compared example by example."
    seen = f"{_percent(heat['seen'] / heat['all'])} of the {heat['all']:,} (prompt, example) pairs were evaluated."
    if telling["earlier"] is not None:
        share = _percent(telling["earlier"]["share"])
        studies = telling["earlier"]["studies"]
        whose = "an earlier study" if studies == 1 else f"{studies} earlier studies"
        fifth = f"the fifth of the examples that was most informative about {telling['metric']}"
        seen += f" {share} of the evaluations are on {fifth} in {whose}."
    if not telling["judged"]:
        return f"{seen} No example has been evaluated with enough prompts to draw a conclusion."
    metric, sentences = telling["metric"], [seen]
    if telling["mislabeled"]:
        sentences.append(
            f"On {_count(telling['mislabeled'], 'example')}, better prompts have worse {metric} than other prompts. "
            "Check the labels of these examples first."
        )
    if telling["duplicates"]:
        are = (
            "example may be a near duplicate"
            if telling["duplicates"] == 1
            else "examples may be near duplicates"
        )
        sentences.append(
            f"{telling['duplicates']:,} {are}, because every prompt has the same score on another example."
        )
    if telling["failed"]:
        failed = _count(telling["failed"], "example")
        sentences.append(
            f"On {failed}, even the best prompt has bad {metric}. Check their data for errors."
        )
    if len(sentences) == 1:
        sentences.append("No example looks wrong.")
    return " ".join(sentences)


def _duel(data: Mapping[str, Any], duel: Mapping[str, Any]) -> str:
    """Count the wins, ties and losses of the selected prompt, and name the examples that it most likely broke."""
    ids, metric = _names_of(data), duel["metric"]
    wins, ties, losses = duel["counts"][metric]
    name = data["goal"]["metrics"][metric]["name"]
    if not duel["pairs"]:
        return f"{ids[duel['a']]} and {ids[duel['b']]} have no common examples."
    pairs = _count(duel["pairs"], "common example")
    counts = f"{ids[duel['a']]} wins {wins}, ties {ties} and loses {losses}"
    return f"On {pairs}, {counts} against {ids[duel['b']]} in {_own(name)}.{_most_likely_broke(data, duel)}"


def _most_likely_broke(data: Mapping[str, Any], duel: Mapping[str, Any]) -> str:
    """Name the examples on which the first prompt is most likely worse, with the share of expected false alarms."""
    lost = sorted(
        (row["false"], row["example"])
        for row in duel["rows"]
        if row["ahead"][duel["metric"]] < 0 and "false" in row
    )[:_NAMED]
    if not lost:
        return ""
    names = data.get("example_names")
    shown = ", ".join(
        f"example {example}" if names is None else _short(names[example])
        for _, example in lost
    )
    share = _percent(sum(rate for rate, _ in lost) / len(lost))
    return f" Most likely broken: {shown}. The expected share of false alarms among them is {share}."


def _costs(data: Mapping[str, Any], result: Result) -> str:
    """Name the cheapest and the most expensive prompt, and count the failures.

    A prompt has one cost on the page. If the cost is a metric of the goal, it is the
    metric's estimate.
    """
    n_failed = sum(group["count"] for group in data["failures"])
    failed = (
        f"{_count(n_failed, 'evaluation')} failed."
        if n_failed
        else "No evaluation failed."
    )
    cost = next((q for q in data["quantities"] if q["name"] == "cost"), None)
    if cost is None:
        return failed
    means = cost["means"]
    if "cost" in result.goal.metrics:
        means = [entry.estimate["cost"] for entry in result.prompts]
    costs = [(mean, arm) for arm, mean in enumerate(means) if mean is not None]
    if not costs:
        return failed
    dear, cheap = max(costs), min(costs)
    if dear[0] == cheap[0]:
        return f"Every prompt cost {_money(data, dear[0])} per {_evaluations(data)}. {failed}"
    ids, least, most = _names_of(data), _money(data, cheap[0]), _money(data, dear[0])
    per = f"Per {_evaluations(data)}"
    return f"{per}, {ids[cheap[1]]} cost least ({least}) and {ids[dear[1]]} cost most ({most}). {failed}"


def _names_of(data: Mapping[str, Any]) -> list[str]:
    """The names of all prompts in sentences."""
    numbered = data["prompts"]["numbered"]
    return [
        f"prompt {id_}" if numbered else _short(id_) for id_ in data["prompts"]["ids"]
    ]


def _money(data: Mapping[str, Any], cost: float) -> str:
    """Return the cost of as many evaluations as the document states costs for, with its currency."""
    return f"{cost * data['money_per']:.3g} {data['currency']}".rstrip()


def _evaluations(data: Mapping[str, Any]) -> str:
    """The evaluations whose cost is in the report."""
    return (
        "evaluation" if data["money_per"] == 1 else f"{data['money_per']:,} evaluations"
    )
