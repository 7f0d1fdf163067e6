"""`asktell gate --estimate` says what the gate itself will do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from asktell import BestFeasible, Selector, at_most, maximize, minimize
from asktell.extend import when_decided
from asktell_adapters.cli.gate import Judge, noisy
from asktell_adapters.cli.gate_estimate import GateEstimate, made_up
from asktell_adapters.cli.ruling import FAILED, PASSED, UNDECIDED
from tests.adapters.cli.test_cli_gate import PRICED, project
from tests.command_line import cli

__all__ = ["project"]
GOALS = [BestFeasible(maximize("a", range=(0, 1))), BestFeasible(minimize("a", range=(1, 5)), {"b": at_most(2.0)})]


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("rounds", [0, 1, 2])
@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_the_rule_is_the_gates(goal: Any, rounds: int, margin: float) -> None:
    """`rounds` of noisy scores, or scores without noise."""
    n, found = 30, []
    low, high = goal.ranges["a"]
    for seed, difference in enumerate([-0.4, -0.2, 0.0, 0.1, 0.4]):
        better = np.random.default_rng(seed).permutation(made_up(n, difference, 0.3))
        all_ = 2 * n * max(1, rounds)
        selector = Selector(["0", "1"], goal, all_, "uniform", examples=n, repeats=max(1, rounds))
        selector = noisy(selector) if rounds else selector
        judge, verdict, order = Judge(goal, margin * (high - low), 0.95), UNDECIDED, []
        while verdict == UNDECIDED and (trial := selector.ask()):
            assert trial.example is not None
            gain = better[trial.example] * (1 if int(trial.prompt_id) == 0 else -1) > 0
            worst, best = (high, low) if goal.minimized else (low, high)
            selector.tell(trial, [best if gain else worst, 0.0][: len(goal.metrics)])
            order += [trial.example] * (int(trial.prompt_id) == 1)
            verdict = judge.look(selector.state)
        rest = selector.state.problem.order.tolist() * max(1, rounds)
        assert rest[: len(order)] == order
        problem, asked = selector.state.problem, len(judge.verdicts)
        decided = when_decided(problem, better[rest][None], margin, 0.95, asked)
        here = PASSED if decided.passed[0] else FAILED if decided.failed[0] else UNDECIDED
        assert here == (judge.verdicts["a"] if verdict != FAILED else FAILED)
        took = -(-selector.spent // 2)
        assert verdict == UNDECIDED or took <= decided.examples[0] <= max(took + 1, 1.06 * took)
        found.append(here)
    assert len(set(found)) > 1


@pytest.mark.parametrize("n", [1, 7, 30, 200, 1001])
@pytest.mark.parametrize("difference", [-0.1, -0.02, 0.0, 0.05])
def test_made_up_scores_have_the_difference(n: int, difference: float) -> None:
    found = made_up(n, difference, 0.2)
    assert len(found) == n
    assert found.sum() == round(n * difference) or abs(found.sum()) == 1
    assert np.sign(found.sum()) == np.sign(difference)
    assert abs(np.abs(found).sum() - max(0.2 * n, abs(found.sum()))) < 1.5


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the made-up scores, a small part of what a user gets."""
    for name, number in {"_DRAWS": 10, "_FEWEST_DRAWS": 10, "_MOST_NEW": 400}.items():
        monkeypatch.setattr(f"asktell_adapters.cli.gate_estimate.{name}", number)


def estimated(n: int, most: int, is_noisy: bool = False, margin: float = 0.0) -> tuple[GateEstimate, str]:
    selector = Selector(["new", "old"], GOALS[0], 2 * most, "uniform", examples=n, repeats=-(-most // n))
    found = GateEstimate(noisy(selector) if is_noisy else selector, GOALS[0], margin, 0.95, 0.2, most, None)
    return found, "\n".join(found.lines())


def test_what_does_not_suffice_is_said_with_its_cure() -> None:
    found, said = estimated(100, 30)
    assert found.expected(-0.02).verdict == UNDECIDED
    assert re.search(r"2 points worse +undecided +over 60 \(over 60\)", said)
    assert "take `budget` = 200 (all 100 examples decide), or a larger --margin" in said
    found, said = estimated(100, 100)
    assert found.expected(-0.02).verdict == FAILED
    assert "Too few to decide" not in said
    assert "too few to say the same of new requests if the candidate is 10 points, 5 points or 2 points worse" in said
    found, said = estimated(30, 90, is_noisy=True)
    assert "take more rows and evaluations, or a larger --margin" in said
    assert "The smallest difference that 30 examples can show is 3.33 points: one of them. Add rows." in said
    assert "Scores count as noisy" in said


def test_a_larger_margin_and_a_larger_difference_take_fewer() -> None:
    plain, wide = estimated(300, 300)[0], estimated(300, 300, margin=0.1)[0]
    took = [plain.expected(difference).examples or 0 for difference in (-0.02, -0.05, -0.1)]
    assert took == sorted(took, reverse=True)
    assert took[0] > 2 * took[-1]
    assert plain.expected(0.0).examples == 300
    assert (wide.expected(0.0).examples or 300) < 150
    assert wide.for_new(0.0) is not None
    assert plain.for_new(0.0) is None


def test_an_estimate_asks_nothing_and_states_the_price(project: Any) -> None:
    project(**{"loader =": PRICED})
    out = cli("gate gate.toml --baseline mine --margin 0.05 --estimate").out
    whole = re.search(r"money +at most ([\d.]+) EUR", out)
    rows = re.findall(r"points (?:worse|better) +\w+(?: \(\d+ %\))? +([\d,]+) \(.*?at most ([\d.]+) EUR", out)
    assert whole
    assert len(rows) == 6
    for evaluations, money in rows:
        assert float(money) == pytest.approx(float(whole[1]) * int(evaluations) / 400, rel=2e-3)
    assert "the two differ on 20 % of the examples (--differ)" in out


def test_an_estimate_from_real_calls(project: Any) -> None:
    assert "real calls     4, for 2" in cli("gate gate.toml --baseline mine --estimate 4").out


@pytest.mark.parametrize(
    ("flags", "changes", "said"),
    [
        ("--differ 1.5", {}, "--differ must be from 0 to 1"),
        ("", {'"exact_match"\nat': '"cost"\nat', "[metrics]": "[metrics]\ncost = true"}, "ranges = { cost = [0, 1] }"),
    ],
)
def test_an_estimate_that_cannot_be_made(flags: str, changes: Any, said: str, project: Any) -> None:
    project(**changes)
    assert said in cli(f"gate gate.toml --baseline mine --estimate {flags}", code=2).err
