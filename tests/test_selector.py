"""The ask/tell protocol, as a user sees it."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import (
    BestFeasible,
    Budget,
    ConflictingTellError,
    InvalidArgumentError,
    ParetoSet,
    Selector,
    Trial,
    UnknownTrialError,
)
from asktell.testing.fakes import Table
from tests.plays import new_selector, play, random_table
from tests.presets import PRESETS

PROMPTS = ["alpha", "beta", "gamma", "delta"]
GOAL = ParetoSet("a", "b")


def four(**changes: Any) -> Selector:
    options: dict[str, Any] = {
        "prompts": PROMPTS,
        "goal": GOAL,
        "budget": 16,
        "examples": 10,
    } | changes
    return Selector(**options)


def ask(selector: Selector) -> Trial:
    trial = selector.ask()
    assert trial is not None
    return trial


# Asking


def test_the_first_round_goes_round_the_prompts_on_the_same_examples() -> None:
    trials = [ask(four_ := four(method="ege-sr"))] + [ask(four_) for _ in range(7)]
    assert [trial.id for trial in trials] == list(range(8))
    assert [trial.prompt_id for trial in trials] == [0, 1, 2, 3] * 2
    assert [trial.prompt for trial in trials] == PROMPTS * 2
    assert len({trial.example for trial in trials[:4]}) == 1
    assert len({trial.example for trial in trials[4:]}) == 1
    assert all(trial.example in range(10) for trial in trials)


def test_prompts_of_a_mapping_keep_their_ids() -> None:
    selector = four(prompts={"x": "alpha", "y": "beta"})
    assert [(t.prompt_id, t.prompt) for t in selector.ask(2)] == [
        ("x", "alpha"),
        ("y", "beta"),
    ]


def test_a_batch_comes_grouped_by_prompt_and_is_what_single_asks_would_give() -> None:
    batch, one_by_one = four(method="uniform").ask(10), four(method="uniform")
    assert [trial.prompt_id for trial in batch] == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    assert sorted(batch) == [ask(one_by_one) for _ in range(10)]
    for prompt in PROMPTS:
        ids = [trial.id for trial in batch if trial.prompt == prompt]
        assert ids == sorted(ids)


def test_a_batch_may_be_empty_or_shorter_than_wanted() -> None:
    selector = four(method="uniform")
    assert selector.ask(0) == []
    assert len(selector.ask(100)) == 16
    assert selector.ask(100) == []
    assert selector.ask() is None


def test_none_while_the_scores_of_the_round_are_out_and_at_the_end() -> None:
    selector = four(prompts=PROMPTS[:2], budget=4, method="ege-sr")
    trials = selector.ask(100)
    assert len(trials) == 4
    assert selector.ask() is None
    assert selector.pending == sorted(trials)
    for trial in trials:
        assert not selector.done
        selector.tell(trial, [0.5, 0.5])
    assert selector.done
    assert selector.pending == []
    assert selector.ask() is None
    assert selector.ask(3) == []


def test_the_seed_decides_the_examples() -> None:
    def examples(seed: int) -> list[int | None]:
        return [
            trial.example for trial in sorted(four(seed=seed, method="uniform").ask(16))
        ]

    assert examples(1) == examples(1)
    assert examples(1) != examples(2)
    assert examples(2**64 - 1)


# Telling


@pytest.mark.parametrize(
    "name", [lambda t: t, lambda t: t.id, lambda t: np.int64(t.id), lambda t: t.prompt]
)
def test_a_trial_is_named_by_itself_its_id_or_its_prompt(
    name: Callable[[Trial], Any],
) -> None:
    selector = four()
    trials = [ask(selector) for _ in range(3)]
    selector.tell(name(trials[1]), {"b": 0.25, "a": 0.75})
    assert selector.pending == [trials[0], trials[2]]
    assert selector.result().prompts[1].estimate == {"a": 0.75, "b": 0.25}
    assert selector.spent == 1


def test_a_trial_is_named_by_its_prompts_id_where_ids_are_given() -> None:
    selector = four(prompts={"x": "alpha", "y": "beta"})
    trials = selector.ask(2)
    selector.tell("y", [1, 2])
    assert selector.pending == trials[:1]


def test_a_trial_that_went_through_json_or_a_copy_is_the_same_trial() -> None:
    selector = four()
    trial = ask(selector)
    selector.tell(Trial(*json.loads(json.dumps(trial))), [1, 2])
    assert selector.pending == []


def test_telling_a_prompt_takes_its_oldest_trial_out() -> None:
    selector = four(method="uniform")
    trials = sorted(selector.ask(12))
    selector.tell("beta", [1, 1])
    assert trials[1] not in selector.pending
    selector.tell("beta", [1, 1])
    selector.tell("beta", [1, 1])
    assert [t.id for t in selector.pending] == [0, 2, 3, 4, 6, 7, 8, 10, 11]
    with pytest.raises(UnknownTrialError, match="'beta' has no pending trial"):
        selector.tell("beta", [1, 1])


def test_the_same_scores_told_twice_are_harmless() -> None:
    selector = four()
    trial = ask(selector)
    selector.tell(trial, [0.5, 1.0], cost=2.0)
    before = selector.to_json()
    selector.tell(trial, {"a": 0.5, "b": 1}, cost=2.0)
    assert selector.to_json() == before


def test_other_scores_told_for_the_same_trial_are_an_error_that_shows_both() -> None:
    selector = four()
    trial = ask(selector)
    selector.tell(trial, [0.5, 1.0])
    with pytest.raises(ConflictingTellError) as error:
        selector.tell(trial, [0.5, 0.0])
    assert (
        "Trial 0 has the recorded scores {'a': 0.5, 'b': 1.0}. Got the different scores {'a': 0.5, 'b': 0.0}"
        in str(error.value)
    )


def test_costs_are_summed() -> None:
    selector = four()
    for trial, cost in zip(selector.ask(3), [0.5, None, np.float32(0.25)], strict=True):
        selector.tell(trial, [1, 1], cost=cost)
    assert selector.result().spent_cost == 0.75


# Releasing and failing


def test_a_released_trial_is_asked_again_under_the_same_id_before_anything_else() -> (
    None
):
    selector = four()
    trials = [ask(selector) for _ in range(3)]
    selector.release(trials[1])
    assert selector.pending == [trials[0], trials[2]]
    assert selector.ask() == trials[1]
    assert ask(selector).id == 3


def test_a_late_score_after_release_is_accepted_and_the_trial_not_asked_again() -> None:
    selector = four(method="ege-sr")
    trials = [ask(selector) for _ in range(2)]
    selector.release(trials[0])
    selector.tell(trials[0], [1, 2])
    assert selector.spent == 1
    assert ask(selector).id == 2
    assert selector.result().prompts[0].evaluations == 1


def test_a_late_score_after_release_and_a_second_ask_is_accepted_once() -> None:
    selector = four()
    trial = ask(selector)
    selector.release(trial)
    assert selector.ask() == trial
    selector.tell(trial, [1, 2])
    selector.tell(trial, [1, 2])
    assert selector.spent == 1


def test_releasing_everything_changes_nothing_in_the_end() -> None:
    table = random_table(6, 8)
    straight, released = (new_selector(table, "ege-sr", budget=24) for _ in range(2))
    play(straight, table)
    while trials := released.ask(5):
        for trial in trials:
            released.release(trial)
        again = [ask(released) for _ in trials]
        assert again == trials
        for trial in again:
            released.tell(trial, table(trial.prompt, trial.example))
    assert released.result() == straight.result()


def test_a_failure_costs_no_budget_and_the_prompt_goes_on_with_its_next_example() -> (
    None
):
    selector = four(method="uniform")
    trial = ask(selector)
    selector.fail(trial, TimeoutError("too slow"))
    assert selector.spent == 0
    again = ask(selector)
    assert again.prompt == trial.prompt
    assert again.example != trial.example
    assert again.id == 1
    entry = selector.result().prompts[0]
    assert (entry.failures, entry.status) == (1, "active")
    with pytest.raises(UnknownTrialError, match="Trial 0 has failed"):
        selector.tell(trial, [1, 1])


def test_failures_of_a_prompt_that_has_left_are_taken_and_its_late_scores_too() -> None:
    selector = four(method="uniform", max_failure_rate=1e-6)
    trials = [t for t in sorted(selector.ask(16)) if t.prompt_id == 0]
    selector.fail(trials[0], "boom")
    selector.fail(trials[1], "boom again")
    selector.tell(trials[2], [1, 1])
    entry = selector.result().prompts[0]
    assert (entry.status, entry.reason, entry.failures) == (
        "failed",
        "1 of 1 evaluations failed, last: boom",
        2,
    )


def test_a_trial_released_after_its_prompt_has_left_is_not_asked_again() -> None:
    selector = four(method="uniform", max_failure_rate=1e-6)
    trials = sorted(selector.ask(16))
    selector.fail(trials[0], "boom")
    selector.release(trials[4])
    assert trials[4].prompt == trials[0].prompt
    assert selector.ask() is None
    for trial in selector.pending:
        selector.tell(trial, [1, 1])
    assert all(trial.prompt != trials[0].prompt for trial in selector.ask(16))


@pytest.mark.parametrize("method", [*PRESETS, "auto", "race"])
@pytest.mark.parametrize("max_failure_rate", [1e-6, 0.5, 1])
def test_all_prompts_failing_ends_with_an_empty_result(
    method: str, max_failure_rate: float
) -> None:
    selector = new_selector(
        random_table(5, 8), method, budget=20, max_failure_rate=max_failure_rate
    )
    while trial := selector.ask():
        selector.fail(trial, "no")
    result = selector.result()
    assert selector.done
    assert result.selected == []
    assert result.verdict.action == "none"
    assert {entry.status for entry in result.prompts} == {"failed"}
    assert (result.spent, result.feasible) == (0, None)
    assert "Nothing was measured, because all" in str(result)


@pytest.mark.parametrize("method", [*PRESETS, "auto", "race"])
def test_a_prompt_whose_every_example_failed_is_a_failed_prompt(method: str) -> None:
    table = random_table(3, 2)
    selector = new_selector(table, method, budget=6, max_failure_rate=1)
    while trial := selector.ask():
        if trial.prompt_id == 1:
            selector.fail(trial, "no")
        else:
            selector.tell(trial, table(trial.prompt, trial.example))
    entry = selector.result().prompts[1]
    assert (entry.status, entry.failures) == ("failed", 2)
    assert entry.reason == "every evaluation failed, last: no"
    assert selector.spent == 4


@pytest.mark.parametrize("method", ["csr", "csr-sh"])
def test_if_all_who_were_kept_fail_the_answer_is_the_best_of_those_rejected(
    method: str,
) -> None:
    table = random_table(8, 50, 1, seed=2)
    selector = new_selector(table, method, budget=48, max_failure_rate=1e-6)
    while trial := selector.ask():
        # Some were rejected, and now everything fails
        if len(selector.state.decisions) > 2:
            selector.fail(trial, "down")
        else:
            selector.tell(trial, table(trial.prompt, trial.example))
    result = selector.result()
    assert selector.done
    assert {entry.status for entry in result.prompts} == {
        "accepted",
        "rejected",
        "failed",
    }
    known = [entry for entry in result.prompts if entry.status != "failed"]
    best = max(known, key=lambda entry: entry.estimate["a"] or 0.0)
    assert result.selected == [best]
    assert best.reason == "the best rejected prompt, because all others have failed"
    assert Selector.from_json(selector.to_json()).result() == result


@pytest.mark.parametrize("sampling", ["shared", "iid"])
def test_a_prompt_that_the_published_halving_never_reached_is_not_accepted(
    sampling: str,
) -> None:
    for seed in range(6):
        table = random_table(30, 20, 3, seed=seed)
        selector = new_selector(
            table,
            "ege-sh",
            budget=60,
            schedule="published",
            sampling=sampling,
            seed=seed,
        )
        play(selector, table)
        result = selector.result()
        assert min(entry.evaluations for entry in result.prompts) == 0
        assert result.selected
        assert all(entry.evaluations for entry in result.selected)


# Observing


def test_observed_scores_inform_the_estimates_and_cost_nothing() -> None:
    selector = four(method="ege-sr", examples=2, inputs="given", repeats=1)
    selector.observe("beta", [0.5, 0.25], example=1)
    selector.observe(1, {"a": 1.5, "b": 0.75}, example=0)
    result = selector.result()
    assert selector.spent == result.spent == 0
    assert result.prompts[1].estimate == pytest.approx({"a": 1.0, "b": 0.5})
    assert result.prompts[1].evaluations == 2
    # On an example that is none of those given
    selector.observe("beta", {"a": 7.0, "b": 0.5})
    assert selector.result().prompts[1].evaluations == 3
    assert [entry.id for entry in result.selected] == [1]


@pytest.mark.parametrize("budget", [40, Budget(cost=10.0)])
def test_what_was_paid_for_observed_scores_or_for_none_is_booked(budget: Any) -> None:
    selector = four(method="auto", budget=budget)
    selector.observe("beta", [0.5, 0.25], example=3, cost=1.5)
    selector.observe("beta", None, cost=0.25)
    selector.retire("alpha", "not wanted")
    selector.observe("alpha", None, 4, cost=0.25)
    selector = Selector.from_json(selector.to_json())
    assert selector.spent == selector.result().spent == 0
    assert selector.spent_cost == selector.result().spent_cost == 2.0
    assert [entry.evaluations for entry in selector.result().prompts[:2]] == [0, 1]
    # Was paid, though it is more than there was
    selector.observe("beta", None, cost=9.0)
    assert selector.spent_cost == 11.0
    assert bool(selector.ask()) == (budget == 40)
    with pytest.raises(asktell.InvalidScoresError):
        selector.observe("beta", None)
    with pytest.raises(InvalidArgumentError, match="cost"):
        selector.observe("beta", [0.5, 0.25], cost=-1.0)


def asked_examples(selector: Selector) -> dict[str, list[int | None]]:
    examples = defaultdict(list)
    for trial in sorted(selector.ask(1000)):
        examples[trial.prompt].append(trial.example)
    return dict(examples)


def test_an_observed_example_is_not_asked_for_that_prompt_again() -> None:
    selector = four(method="uniform", budget=40)
    first = asked_examples(four(method="uniform", budget=40))["alpha"][0]
    selector.observe("alpha", [0.5, 0.25], example=first)
    examples = asked_examples(selector)
    assert first not in examples["alpha"]
    assert sorted([*examples["alpha"], first]) == list(range(10))
    assert examples["beta"][0] == first


def test_an_example_observed_in_the_middle_of_a_round_is_not_asked_for_that_prompt_either() -> (
    None
):
    selector = four(method="uniform", budget=40)
    trial = ask(selector)
    coming = asked_examples(four(method="uniform", budget=40))["alpha"][5]
    selector.observe("alpha", [0.5, 0.25], example=coming)
    examples = asked_examples(selector)["alpha"]
    assert sorted([*examples, trial.example, coming]) == list(range(10))


def test_a_prompt_observed_on_every_given_example_is_exact_and_not_asked() -> None:
    selector = four(method="uniform", budget=40, inputs="given", repeats=1)
    for example in range(10):
        selector.observe("alpha", [example, 1.0], example=example)
    assert "alpha" not in asked_examples(selector)
    entry = selector.result().prompts[0]
    assert entry.estimate == pytest.approx({"a": 4.5, "b": 1.0})
    assert entry.standard_error == {"a": 0.0, "b": 0.0}


def test_a_prompt_observed_on_every_example_is_not_known_exactly_on_new_inputs() -> (
    None
):
    selector = four(method="uniform", budget=40)
    for example in range(10):
        selector.observe("alpha", [example, 1.0], example=example)
    assert "alpha" not in asked_examples(selector)
    entry = selector.result().prompts[0]
    assert entry.estimate["a"] == pytest.approx(4.5, abs=0.5)
    of_a_mean = np.std(range(10), ddof=1) / np.sqrt(10)
    assert of_a_mean < (entry.standard_error["a"] or 0.0) < 2.0 * of_a_mean


def test_observing_after_the_end_does_not_reopen_it() -> None:
    table = random_table(4, 8)
    selector = new_selector(table, "csr", budget=12)
    play(selector, table)
    selected = selector.result().selected[0].id
    selector.observe(0, [9.0, 9.0])
    assert selector.done
    assert selector.ask() is None
    assert selector.result().selected[0].id == selected


# Examples


@pytest.mark.parametrize("method", PRESETS)
def test_an_exhausted_data_set_gives_exact_means_and_nobody_is_pulled_more_than_n_times(
    method: str,
) -> None:
    table = random_table(6, 4)
    selector = new_selector(table, method, budget=1000, inputs="given", repeats=1)
    asked = play(selector, table, batch=7)
    pairs = [(trial.prompt_id, trial.example) for trial in asked]
    assert len(pairs) == len(set(pairs)) == 24
    assert selector.done
    result = selector.result()
    for k, entry in enumerate(result.prompts):
        assert entry.evaluations == 4
        assert list(entry.estimate.values()) == pytest.approx(
            table.means[k].tolist(), abs=1e-12
        )
        assert list(entry.standard_error.values()) == [0.0, 0.0]
    if isinstance(result.goal, BestFeasible):
        assert result.verdict.p_best == 1.0
        goal, means = result.goal, table.means
        keeps = (means[:, 1:] >= [bound.bound for bound in goal.constraints]).all(
            axis=1
        )
        assert [entry.feasible for entry in result.prompts] == keeps.tolist()
        assert [entry.p_feasible for entry in result.prompts] == keeps.astype(
            float
        ).tolist()
        assert result.verdict.answer == np.where(keeps, means[:, 0], -np.inf).argmax()
    assert len(result.verdict.outlook) == 0


@pytest.mark.parametrize("method", PRESETS)
def test_shared_examples_never_repeat_and_follow_one_order(method: str) -> None:
    table = random_table(8, 12)
    selector = new_selector(table, method, budget=60)
    by_prompt = defaultdict(list)
    for trial in play(selector, table):
        by_prompt[trial.prompt].append(trial.example)
    longest = max(by_prompt.values(), key=len)
    assert len(set(longest)) == len(longest)
    assert all(examples == longest[: len(examples)] for examples in by_prompt.values())


@pytest.mark.parametrize("method", PRESETS)
def test_iid_sampling_draws_with_replacement(method: str) -> None:
    table = random_table(5, 3)
    selector = new_selector(table, method, budget=60, sampling="iid")
    asked = play(selector, table)
    assert len(asked) > 5 * 3
    assert all(trial.example in range(3) for trial in asked)
    firsts = [trial.example for trial in asked[:5]]
    assert len({trial.example for trial in asked}) == 3
    assert len(set(firsts)) > 1
    assert any(
        min(entry.standard_error.values()) > 0 for entry in selector.result().prompts
    )


def test_without_examples_the_evaluator_draws_them() -> None:
    table = random_table(5, 30)
    selector = new_selector(table, "csr", budget=40, examples=None)
    asked = play(selector, table)
    assert {trial.example for trial in asked} == {None}
    assert selector.done
    assert selector.spent == len(asked) <= 40


# Small and odd problems


@pytest.mark.parametrize("method", PRESETS)
@pytest.mark.parametrize("n_metrics", [1, 2, 3, 4])
@pytest.mark.parametrize("n_prompts", [1, 2, 3])
def test_any_number_of_metrics_and_few_prompts(
    method: str, n_metrics: int, n_prompts: int
) -> None:
    table = random_table(n_prompts, 9, n_metrics, seed=n_metrics)
    selector = new_selector(table, method, budget=8)
    asked = play(selector, table)
    result = selector.result()
    assert selector.done
    assert result.done
    assert selector.spent == len(asked) <= 8
    assert result.selected
    assert {entry.status for entry in result.prompts} <= {"accepted", "rejected"}
    assert result.selected == [
        entry for entry in result.prompts if entry.status == "accepted"
    ] or len(result.selected) == sum(
        entry.status == "accepted" for entry in result.prompts
    )
    json.dumps(result.to_dict(), allow_nan=False)


def noiseless(means: list[list[float]], metrics: tuple[str, ...]) -> Table:
    return Table(np.repeat(np.array(means)[:, None, :], 20, axis=1), metrics)


@pytest.mark.parametrize("method", ["uniform", "csr", "csr-sh"])
@pytest.mark.parametrize(
    ("goal", "best", "feasible"),
    [
        (BestFeasible("up"), 3, None),
        (BestFeasible(asktell.minimize("up")), 2, None),
        (BestFeasible("up", {"down": asktell.at_most(5)}), 1, True),
        (BestFeasible("up", {asktell.minimize("down"): 5.0}), 1, True),
        (BestFeasible("up", {asktell.minimize("down", range=(0, 100)): 4.0}), 1, True),
        (BestFeasible("up", {asktell.minimize("down"): 3.9}), 0, True),
        (BestFeasible(asktell.minimize("down"), {"up": 0.55}), 1, True),
        # Nobody reaches 50: the least violating one
        (BestFeasible("up", {"down": 50}), 3, False),
        (BestFeasible("up", {"down": asktell.at_most(-1)}), 2, False),
    ],
)
def test_directions_and_thresholds(
    method: str, goal: BestFeasible, best: int, feasible: bool | None
) -> None:
    table = noiseless([[0.5, 2.0], [0.6, 4.0], [0.1, 1.0], [0.9, 8.0]], ("up", "down"))
    if goal.metrics != table.metrics[: len(goal.metrics)]:
        columns = [table.metrics.index(m) for m in goal.metrics]
        table = Table(table.scores[:, :, columns], goal.metrics)
    table = Table(table.scores[:, :, : len(goal.metrics)], goal.metrics)
    selector = new_selector(table, method, budget=24, goal=goal)
    play(selector, table)
    result = selector.result()
    assert [entry.id for entry in result.selected] == [best]
    assert result.feasible is feasible
    if feasible is False:
        enough = len(set(selector.state.history.examples().tolist())) >= 4
        assert (result.verdict.action == "none") == enough
        assert (
            "No prompt is likely to satisfy the constraint" in result.verdict.sentence
        ) == enough


@pytest.mark.parametrize("method", ["uniform", "ege-sr", "ege-sh"])
def test_a_pareto_set_of_a_maximized_and_a_minimized_metric(method: str) -> None:
    table = noiseless(
        [[0.5, 2.0], [0.6, 4.0], [0.1, 1.0], [0.55, 8.0], [0.05, 2.5]],
        ("quality", "cost"),
    )
    goal = ParetoSet("quality", asktell.minimize("cost", range=(0, 10)))
    selector = new_selector(table, method, budget=30, goal=goal)
    play(selector, table)
    # Best first by the first objective
    assert [entry.id for entry in selector.result().selected] == [1, 0, 2]


@pytest.mark.parametrize("data", ["pooled", "round"])
@pytest.mark.parametrize("method", PRESETS)
def test_estimates_from_the_current_round_only_also_come_to_an_end(
    method: str, data: str
) -> None:
    table = random_table(7, 10)
    selector = new_selector(table, method, budget=21, data=data)
    play(selector, table)
    assert selector.result().selected


def test_what_a_selector_says_of_itself() -> None:
    selector = four()
    assert (selector.budget, selector.spent, selector.metrics, selector.goal) == (
        16,
        0,
        ("a", "b"),
        GOAL,
    )
    assert selector.n_active == 4
    assert not selector.done
    assert isinstance(selector.method, asktell.Adaptive)


@pytest.mark.parametrize("goal", [BestFeasible("a"), ParetoSet("a", "b")])
def test_auto_is_adaptive_for_both_goals(goal: asktell.problem.goals.Goal) -> None:
    assert four(goal=goal).method == asktell.preset("auto", goal) == asktell.Adaptive()


@pytest.mark.parametrize(
    ("goal", "name"), [(BestFeasible("a"), "csr-sh"), (ParetoSet("a", "b"), "ege-sr")]
)
def test_a_name_is_a_preset(goal: asktell.problem.goals.Goal, name: str) -> None:
    assert four(goal=goal, method=name).method == asktell.preset(name, goal)


def test_threads_hammering_ask_and_tell_get_every_pull_exactly_once() -> None:
    table = random_table(20, 50)
    selector = new_selector(table, "ege-sr", budget=600)
    straight = new_selector(table, "ege-sr", budget=600)
    play(straight, table)
    calls: list[tuple[str, int | None]] = []

    def work(worker: int) -> None:
        while not selector.done:
            trials = (
                selector.ask(worker % 3)
                if worker % 3
                else [t for t in [selector.ask()] if t]
            )
            for trial in trials:
                calls.append((trial.prompt, trial.example))
                assert selector.result().spent <= 600 if trial.id % 50 == 0 else True
                if trial.id % 17 == 0 and (trial.id, worker) not in released:
                    released.add((trial.id, worker))
                    selector.release(trial)
                    calls.remove((trial.prompt, trial.example))
                else:
                    selector.tell(trial, table(trial.prompt, trial.example))

    released: set[tuple[int, int]] = set()
    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, worker) for worker in range(8)]:
            future.result(timeout=120)
    assert max(Counter(calls).values()) == 1
    assert len(calls) == selector.spent == straight.spent
    assert selector.result() == straight.result()
