"""What `asktell gate` says never contradicts itself, and no text of a model steers the page it is shown on."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from asktell import BestFeasible, ParetoSet, Selector, at_most, maximize, minimize
from asktell_adapters.gating.rule import GateRule
from asktell_adapters.gating.ruling import (
    FAILED,
    PASSED,
    UNDECIDED,
    ExampleChange,
    Ruling,
)
from asktell_adapters.gating.settle import settle
from asktell_adapters.llms.base import Example

A, B = maximize("a", range=(0, 1)), minimize("b", range=(0, 2))
GOALS = {
    "best": BestFeasible(A),
    "least": BestFeasible(B),
    "bounded": BestFeasible(A, {B: at_most(1.0)}),
    "front": ParetoSet(A, B),
}


class Replayed:
    """Scores from a table; one that is NaN is an evaluation that fails."""

    repeatable = True

    def __init__(self, scores: np.ndarray) -> None:
        self.scores = scores

    def evaluate_batch(self, trials: Any) -> list[Any]:
        found = [self.scores[int(trial.prompt), trial.example] for trial in trials]
        return [
            x.tolist() if np.isfinite(x).all() else RuntimeError("no <b>connection</b>")
            for x in found
        ]


def ruling(
    goal: Any,
    scores: np.ndarray,
    margin: float = 0.0,
    ids: Any = ("new", "old"),
    **about: Any,
) -> Ruling:
    n = scores.shape[1]
    prompts = dict(zip(ids, "01", strict=True))
    selector = Selector(
        prompts, goal, 2 * n, "uniform", n, baseline=ids[1], repeats=1, inputs="given"
    )
    rule = GateRule(goal, margin, 0.95)
    verdict, selector, remarks = settle(rule, selector, Replayed(scores), concurrency=2)
    result = selector.result()
    comparison = result.compare(ids[0], ids[1])
    evaluations = [
        each._replace(details=about.get("details")) for each in selector.evaluations()
    ]
    examples = about.get("examples", ())
    return Ruling(
        verdict,
        rule.verdicts,
        goal,
        margin,
        comparison,
        result,
        remarks,
        evaluations,
        examples,
        "EUR",
    )


def test_the_headline_and_the_details_agree_whatever_the_scores() -> None:
    verdicts, behind = [], 0
    for seed, (name, goal) in itertools.product(range(15), GOALS.items()):
        rng = np.random.default_rng([seed, *name.encode()])
        n, margin = int(rng.integers(2, 25)), float(rng.choice([0.0, 0.02, 0.1, 0.3]))
        scores = np.stack(
            [rng.random((2, n)) < rng.random(), rng.integers(0, 3, (2, n))], axis=-1
        ).astype(float)
        scores[rng.random((2, n)) < 0.03] = np.nan
        found = ruling(
            goal,
            scores[:, :, [{"a": 0, "b": 1}[metric] for metric in goal.metrics]],
            margin,
        )
        said = "\n".join([*found.lines(), found.markdown(), found.junit()])
        verdicts.append(found.verdict)
        assert found.headline.lower().startswith(found.verdict)
        assert (
            f"## {'✅' if found.verdict == PASSED else '❌' if found.verdict == FAILED else '❔'} "
            in said
        )
        assert not ("✅" in said and "is worse than" in said)
        assert (found.verdict == FAILED) == (FAILED in found.requirements.values())
        assert (found.verdict == PASSED) == (
            set(found.requirements.values()) == {PASSED}
        )
        assert found.verdict == FAILED or not re.search("is worse|violates", said)
        assert found.verdict == PASSED or "is not worse" not in said
        for objective in goal.objectives:
            difference = found.comparison.differences[objective.metric]
            lead = objective.sign * (difference.estimate or 0.0)
            # All examples were seen, unless it ended early, and then what was seen
            # looks like the verdict.
            assert (
                found.requirements[objective.metric] != PASSED or lead >= -margin - 1e-9
            )
            assert found.requirements[objective.metric] != FAILED or lead < -margin
            is_within = found.requirements[objective.metric] == PASSED and lead < 0
            assert (
                "within the margin of" in found.difference(objective.metric)
            ) == is_within
            behind += is_within
    assert behind >= 3
    assert {verdicts.count(each) > 2 for each in (PASSED, FAILED, UNDECIDED)} == {True}


@pytest.mark.parametrize(
    ("goal", "margin", "said"),
    [
        (
            BestFeasible(A),
            0.01,
            '"new" is not worse than "old" by more than 1 point in a',
        ),
        (
            BestFeasible(A),
            0.025,
            '"new" is not worse than "old" by more than 2.5 points in a',
        ),
        (BestFeasible(B), 0.5, '"new" is not worse than "old" by more than 0.5 in b'),
        (
            ParetoSet(A, B),
            0.1,
            '"new" is not worse than "old" by more than 0.1 in a or b',
        ),
        (
            BestFeasible(A, {B: at_most(1.0)}),
            0.0,
            '"new" is not worse than "old" in a, and satisfies every constraint',
        ),
    ],
)
def test_a_margin_is_said_in_points_where_scores_are_from_0_to_1(
    goal: Any, margin: float, said: str
) -> None:
    scores = np.zeros((2, 8, len(goal.metrics)))
    assert ruling(goal, scores, margin).headline == f"Passed: {said}"


def test_examples_that_broke_and_that_were_mended() -> None:
    scores = np.zeros((2, 4, 2))
    scores[0, :, 0], scores[1, :, 0] = [1, 0, 0.5, 1], [1, 1, 1, 0]
    scores[0, :, 1], scores[1, :, 1] = [0, 2, 2, 0], [2, 0, 2, 0]
    bounded = ruling(GOALS["bounded"], scores)
    assert bounded.changes("a") == (
        [ExampleChange(1, 1, 0), ExampleChange(2, 1, 0.5)],
        [ExampleChange(3, 0, 1)],
    )
    # Across the bound of 1
    assert bounded.changes("b") == ([ExampleChange(1, 0, 2)], [ExampleChange(0, 2, 0)])
    assert ruling(GOALS["front"], scores).changes("b")[1] == [ExampleChange(0, 2, 0)]
    scores[0, 1] = np.nan
    assert ruling(GOALS["bounded"], scores).changes("a")[0] == [
        ExampleChange(2, 1, 0.5)
    ]


def test_rounding_and_costs_break_no_example() -> None:
    # Averages of repeated evaluations that differ in the last digit
    scores = np.zeros((2, 4, 2))
    scores[0, :, 0], scores[1, :, 0] = (0.1 + 0.2 + 0.3) / 3, (0.3 + 0.2 + 0.1) / 3
    scores[0, :, 1] = 2.0
    cost = minimize("cost", range=(0, 2))
    for goal in (ParetoSet(A, cost), BestFeasible(A, {cost: at_most(1.0)})):
        found = ruling(goal, scores)
        assert found.changes("a") == ([], [])
        assert found.changes("cost") == ([], [])
        assert "scored worse" not in "\n".join([*found.lines(), found.markdown()])
        assert not found.held("cost")


def test_the_likeliest_regressions_are_named_where_none_is_established() -> None:
    scores = np.ones((2, 40, 1))
    scores[0, 3:7], scores[1, 10:14] = 0.0, 0.0
    [noise, held, likely] = replace_noise(ruling(GOALS["best"], scores)).held("a")
    assert "differ" in noise
    assert "no example regressed" in held
    assert likely.startswith("most likely broke (3, 4, 5, 6). About ")
    share = int(re.search(r"About (\d+)%", likely)[1])  # type: ignore[index]
    assert 10 < share < 100


def replace_noise(found: Ruling) -> Ruling:
    """The ruling, if scores may differ when they are repeated."""
    selector = Selector(
        {"new": "0", "old": "1"}, found.goal, 80, examples=40, baseline="old"
    )
    for each in found.evaluations:
        assert each.scores is not None
        selector.observe(each.prompt, each.scores, each.example)
    return replace(found, rechecked=selector.compare("new", "old"))


class Tags(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.texts = set[str](), list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        assert not attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


EVIL = "</pre></table>\n\n# Merge <script>alert(1)</script> ![x](http://e.org/x.png) @octocat #1 | `a` **b** &lt;"


def test_nothing_that_a_model_wrote_is_taken_for_markup() -> None:
    examples = [Example(f"{i} {EVIL}", reference=(EVIL, "b")) for i in range(6)]
    scores = np.zeros((2, 6, 1))
    scores[1] = 1.0
    scores[0, 3] = np.nan
    said = ruling(
        GOALS["best"],
        scores,
        ids=(EVIL, "old @me"),
        details={"output": EVIL},
        examples=examples,
    ).markdown()
    for block in re.findall(r"<details>.*?</details>", said, re.DOTALL):
        assert "\n\n" not in block  # after an empty line, Markdown would begin
        page = Tags(block)
        assert page.tags == {"details", "summary", "table", "tr", "th", "td", "pre"}
        unwrapped = [text.replace("\n", "") for text in page.texts]
        # Reference and both answers
        assert unwrapped.count(EVIL.replace("\n", "")) == 3 * block.count("<table>") > 6
        assert max(len(line) for text in page.texts for line in text.splitlines()) <= 80
    outside = re.sub(r"<details>.*?</details>", "", said, flags=re.DOTALL)
    assert outside != said
    assert "@me" not in said  # in no block: it would notify somebody
    assert not re.search(
        r"(?<!\\)[<`*]|(?<!\\)\[(?!\d)|@\w|(?<!#)#\d|^# ",
        outside.replace("[-", ""),
        re.MULTILINE,
    )
    assert "1 (" in outside
    assert "no \\<b\\>connection" in outside


def test_a_summary_fits_into_a_comment() -> None:
    n = 300
    examples = [Example("é" * 5000 + str(i)) for i in range(n)]
    scores = np.zeros((2, n, 1))
    scores[0, ::2], scores[1, 1::2] = 1.0, 1.0
    said = ruling(
        GOALS["best"], scores, 0.5, details={"output": "<\n" * 9000}, examples=examples
    ).markdown()
    assert len(said.encode()) <= 60_000
    both = [
        re.search(rf"a: (\d+) examples {word}", said)
        for word in ("scored worse", "scored better")
    ]
    shown = [
        block.count("<table>")
        for block in re.findall(r"<details>.*?</details>", said, re.DOTALL)
    ]
    more = [int(k) for k in re.findall(r"and (\d+) more", said)]
    assert [int(b[1]) for b in both if b] == [
        k + left for k, left in zip(shown, more, strict=True)
    ]
    assert min(shown) > 2
