"""Whether a judge is right: bias, agreement, change, segments and corrected means."""

from __future__ import annotations

import numpy as np
import pytest

import asktell
from asktell.problem.goals import Goal
from asktell.results.labels import Agreement, agreements, in_words

K, N = 6, 60


def judged(
    judge: object,
    people: np.ndarray,
    labels: int = 120,
    goal: Goal | None = None,
    order: str = "examples",
    **options: object,
) -> asktell.Selector:
    """A selection whose judge scored every cell, and people `labels` of them. `judge` (K, N)."""
    goal = goal or asktell.BestFeasible(asktell.maximize("human", range=(0, 1)))
    selector = asktell.Selector(
        [f"p{k}" for k in range(K)],
        goal,
        K * N,
        examples=N,
        proxies=("judge",),
        **options,
    )
    cells = [(k, j) for j in range(N) for k in range(K)]
    if order == "prompts":
        cells.sort()
    for k, j in cells:
        selector.observe(f"p{k}", {"judge": float(np.asarray(judge)[k, j])}, j)
    rng = np.random.default_rng(0)
    for cell in rng.choice(len(cells), labels, replace=False):
        k, j = cells[cell]
        selector.observe(f"p{k}", {"human": float(people[k, j])}, j)
    return selector


@pytest.fixture
def people() -> np.ndarray:
    return (np.random.default_rng(1).random((K, N)) < 0.6).astype(float)


def the(selector: asktell.Selector) -> Agreement:
    (found,) = agreements(selector.state)
    return found


def check(selector: asktell.Selector) -> asktell.results.checks.Check:
    return next(c for c in selector.result().checks if c.name == "labels")


def test_a_judge_that_is_right(people: np.ndarray) -> None:
    found = the(judged(people, people))
    assert (found.judged, found.cells, found.agreed, found.bias) == (360, 120, 1.0, 0.0)
    assert found.interval == (0.0, 0.0)
    assert found.change is None
    # The posterior learns from 120 labels that the judge is right in every cell
    assert found.corrected == pytest.approx(people.mean(), abs=1e-4)


def test_bias_and_agreement_are_what_they_are(people: np.ndarray) -> None:
    # The judge says yes where people said no in every third cell.
    wrong = (np.arange(K * N).reshape(K, N) % 3 == 0) & (people == 0)
    judge = np.where(wrong, 1.0, people)
    selector = judged(judge, people)
    found = the(selector)
    cells = selector.state.history
    at = cells.arms(), cells.examples()
    assert found.bias == pytest.approx((judge - people)[at].mean())
    assert found.agreed == pytest.approx((judge == people)[at].mean())
    assert found.interval is not None
    assert 0 < found.interval[0] < found.bias < found.interval[1]
    assert found.corrected == pytest.approx(people.mean(), abs=0.1)
    # Every prompt has as many cells, so this is the plain mean of the result's estimates
    estimates = [entry.estimate["human"] for entry in selector.result().prompts]
    assert found.corrected == pytest.approx(np.mean(estimates))
    said = check(selector)
    assert said.ok is True
    assert (
        f'"judge" scores {found.bias:.2g} higher than "human" on average (95% interval'
        in said.sentence
    )
    assert (
        f'"judge" agrees with "human" on {found.agreed:.0%} of the 120 responses'
        in said.sentence
    )


def test_a_judge_that_was_replaced_is_noticed(people: np.ndarray) -> None:
    rng = np.random.default_rng(2)
    judge = np.clip(0.2 + 0.5 * people + rng.normal(0, 0.1, (K, N)), 0, 1)
    judge[:, N // 2 :] += 0.2
    found = the(judged(np.clip(judge, 0, 1), people))
    assert found.change is not None
    assert found.change.after == 0.5
    assert found.change.after_change - found.change.before_change == pytest.approx(
        0.2, abs=0.1
    )
    said = check(judged(np.clip(judge, 0, 1), people))
    assert said.ok is False
    assert "after about 50% of its scores" in said.sentence
    result = judged(np.clip(judge, 0, 1), people).result()
    assert any(
        "Its model or its rubric may have been replaced." in n for n in result.notes
    )


def test_a_judge_that_favors_prompts_has_not_changed(people: np.ndarray) -> None:
    """Recorded prompt by prompt, a bias towards some prompts is none over time."""
    rng = np.random.default_rng(3)
    favor = np.array([0.0, 0.1, 0.05, 0.2, 0.0, 0.15])[:, None]
    judge = 0.2 + 0.4 * people + favor + rng.normal(0, 0.1, (K, N))
    assert the(judged(judge.clip(0, 1), people, order="prompts")).change is None


def test_the_bias_of_a_segment(people: np.ndarray) -> None:
    judge = 0.2 + 0.5 * people
    judge[:, ::2] += 0.3
    segments = ["de", "en"] * (N // 2)
    goal = asktell.BestFeasible(asktell.maximize("human", range=(0, 1)))
    selector = judged(judge, people, goal=goal, segments=segments)
    de, en = the(selector).segments
    assert (de.segment, en.segment) == ("de", "en")
    assert de.bias - en.bias == pytest.approx(0.3, abs=0.1)
    assert de.differs
    assert (
        '"judge" has another bias in these segments: "de"' in check(selector).sentence
    )
    same = judged(0.2 + 0.5 * people, people, goal=goal, segments=segments)
    assert not any(each.differs for each in the(same).segments)


def test_another_scale_has_a_correlation_and_no_bias(people: np.ndarray) -> None:
    rng = np.random.default_rng(4)
    stars = 1 + 3 * people + rng.normal(0, 0.5, (K, N))
    selector = judged(stars, people)
    found = the(selector)
    assert found.bias is found.agreed is found.interval is None
    assert (found.correlation or 0.0) > 0.9
    assert '"judge" and "human" have a correlation of 0.9' in check(selector).sentence
    assert found.corrected == pytest.approx(people.mean(), abs=0.05)


def test_a_constant_judge(people: np.ndarray) -> None:
    found = the(judged(np.full((K, N), 0.5), people))
    assert found.correlation is None
    assert found.corrected == pytest.approx(people.mean(), abs=0.1)
    assert "nan" not in found.sentence


def test_too_few_labels(people: np.ndarray) -> None:
    selector = judged(people, people, labels=19)
    assert check(selector).ok is None
    assert "19 responses have scores of both" in check(selector).sentence
    assert check(judged(people, people, labels=0)).sentence.startswith(
        "The scores were not"
    )


def test_less_is_better(people: np.ndarray) -> None:
    judge = np.clip(people + 0.2, 0, 1)
    goal = asktell.BestFeasible(asktell.minimize("human", range=(0, 1)))
    assert '"judge" scores 0.' in check(judged(judge, people, goal=goal)).sentence
    assert "so it is too high" in check(judged(judge, people, goal=goal)).sentence


def test_a_name_cannot_control_a_terminal(people: np.ndarray) -> None:
    found = the(judged(people, people))
    assert "\x1b" not in in_words(Agreement("a\x1b[2J", "b\x07", 1, 1))
    assert "\x07" not in in_words(Agreement("a\x1b[2J", "b\x07", 1, 1))
    assert found.proxy == "judge"


def test_the_report_has_it(people: np.ndarray) -> None:
    from asktell import reports

    selector = judged(people, people)
    document = reports.document(selector.state, selector.method, selector.prompts)
    (judge,) = document["judges"]
    assert judge["sentence"] == check(selector).sentence
    assert len(judge["prompts"]) == K
    # One estimate of each prompt on the whole page
    result = selector.result()
    assert [row["mean"] for row in judge["prompts"]] == [
        result.prompts[row["arm"]].estimate[judge["metric"]] for row in judge["prompts"]
    ]
    assert sum(cells for _, _, cells in judge["points"]) == judge["cells"]
    before = reports.version_of(selector.state)
    selector.observe("p0", {"judge": 0.0}, 0)
    assert reports.version_of(selector.state) != before
    plain = asktell.Selector(["a", "b"], asktell.BestFeasible("x"), 4, examples=4)
    assert "judges" not in reports.document(plain.state, plain.method, plain.prompts)
