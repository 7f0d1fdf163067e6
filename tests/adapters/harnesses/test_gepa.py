"""GEPA's adapters as evaluators, and asktell as the policy of real GEPA runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asktell
from asktell.errors import InvalidArgumentError
from asktell.testing.evaluator_contract import (
    PROMPTS,
    EvaluatorContract,
    Make,
    Script,
    good,
)
from asktell_adapters.harnesses.gepa import AsktellPolicy, GEPAEvaluator

gepa = pytest.importorskip("gepa")
EvaluationBatch = pytest.importorskip("gepa.core.adapter").EvaluationBatch
ListDataLoader = pytest.importorskip("gepa.core.data_loader").ListDataLoader
OBJECTIVES = "objective_scores" in EvaluationBatch.__dataclass_fields__
objectives = pytest.mark.skipif(
    not OBJECTIVES, reason="this GEPA has no objectives yet"
)


class Scripted:
    """An adapter that does as it is told; all of a batch fails with one of its examples."""

    propose_new_texts = None

    def __init__(self, script: Script) -> None:
        self.script = script
        self.batches: list[int] = []

    def evaluate(
        self, batch: list[Any], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        self.batches.append(len(batch))
        outcomes = [
            self.script(candidate["instruction"], int(example)) for example in batch
        ]
        for outcome in outcomes:
            if outcome == "raises":
                raise ZeroDivisionError("scripted")
            if outcome == "times out":
                raise TimeoutError("scripted")
        scores = [
            {"nan": math.nan, "no score": None}.get(str(outcome), outcome)
            for outcome in outcomes
        ]
        return EvaluationBatch(
            outputs=[str(outcome) for outcome in outcomes], scores=scores
        )


def pool(texts: Sequence[str] = PROMPTS) -> list[dict[str, str]]:
    return [{"instruction": text} for text in texts]


class TestContract(EvaluatorContract):
    @pytest.fixture
    def make(self) -> Make:
        return lambda script: GEPAEvaluator(
            Scripted(script), pool(), ["0", "1", "2", "3"]
        )


def full(
    evaluator: GEPAEvaluator, goal: asktell.problem.goals.Goal, n_examples: int = 4
) -> asktell.Selector:
    budget = len(evaluator.prompts) * n_examples
    return asktell.Selector(
        evaluator.prompts, goal, budget, "uniform", examples=n_examples
    )


def test_a_batch_is_one_call_for_each_candidate() -> None:
    adapter = Scripted(good)
    evaluator = GEPAEvaluator(adapter, pool(), ["0", "1", "2", "3"])
    asktell.run(
        full(evaluator, asktell.BestFeasible("score")),
        evaluator,
        concurrency=16,
        progress=False,
        repeatable=True,
    )
    assert adapter.batches == [4, 4, 4, 4]


def test_a_batch_that_raises_is_evaluated_one_by_one() -> None:
    adapter = Scripted(lambda prompt, example: "raises" if example == 2 else 0.5)
    evaluator = GEPAEvaluator(adapter, pool(PROMPTS[:1]), ["0", "1", "2", "3"])
    trials = [asktell.Trial(i, 0, PROMPTS[0], i) for i in range(4)]
    found = evaluator.evaluate_batch(trials)
    assert [
        outcome if isinstance(outcome, Exception) else outcome["score"]
        for outcome in found[:2]
    ] == [0.5, 0.5]
    assert isinstance(found[2], ZeroDivisionError)
    assert adapter.batches == [4, 1, 1, 1, 1]


def test_an_answer_that_the_adapter_scored_zero_can_be_called_a_failure() -> None:
    adapter = Scripted(lambda prompt, example: 0.0 if example == 2 else 0.5)
    evaluator = GEPAEvaluator(
        adapter,
        pool(),
        ["0", "1", "2", "3"],
        failure=lambda output: "the server was down" if output == "0.0" else None,
    )
    result = asktell.run(
        full(evaluator, asktell.BestFeasible("score")), evaluator, progress=False
    )
    assert [entry.failures for entry in result.prompts] == [1] * 4
    assert all(
        entry.estimate["score"] == pytest.approx(0.5) for entry in result.prompts
    )


class Several(Scripted):
    """Two components and two objectives: the longer the answer, the better and the less brief."""

    def evaluate(
        self, batch: list[Any], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        length = len(candidate["draft"]) + len(candidate["answer"])
        return EvaluationBatch(
            outputs=["" for _ in batch],
            scores=[length / 10 for _ in batch],
            objective_scores=[
                {"brevity": 1 - length / 10, "unused": math.nan} for _ in batch
            ],
        )


@objectives
def test_objectives_are_metrics_and_components_stay_together() -> None:
    candidates = [{"draft": "a" * n, "answer": "b"} for n in (1, 3, 7)]
    evaluator = GEPAEvaluator(
        Several(good), [*candidates, {"answer": "b", "draft": "a"}], ["0", "1"]
    )
    assert len(evaluator.prompts) == 3
    goal = asktell.BestFeasible("score", {"brevity": 0.5})
    result = asktell.run(full(evaluator, goal, 2), evaluator, progress=False)
    assert evaluator.candidate(result.selected[0].prompt) == candidates[1]
    front = asktell.run(
        full(evaluator, asktell.ParetoSet("score", "brevity"), 2),
        evaluator,
        progress=False,
    )
    assert len(front.selected) == 3


def test_bad_set_ups_are_refused() -> None:
    for candidates in (
        [],
        {"instruction": "a"},
        [{"a": "x"}, {"b": "x"}],
        [{}],
        ["text"],
    ):
        with pytest.raises(InvalidArgumentError, match=r"[Cc]andidates must be"):
            GEPAEvaluator(Scripted(good), candidates, ["0"])  # type: ignore[arg-type]
    evaluator = GEPAEvaluator(Scripted(good), pool(), ["0"])
    (outcome,) = evaluator.evaluate_batch([asktell.Trial(0, 0, PROMPTS[0], 1)])
    assert isinstance(outcome, InvalidArgumentError)
    assert "examples=1" in str(outcome)
    with pytest.raises(InvalidArgumentError, match="No candidate"):
        evaluator.candidate("unknown")
    for bad in (0, 1.5, True):
        with pytest.raises(InvalidArgumentError, match="examples"):
            AsktellPolicy(bad)  # type: ignore[arg-type]


# GEPA's runs


def state_of(subscores: list[dict[Any, float]]) -> Any:
    return SimpleNamespace(prog_candidate_val_subscores=subscores)


NONE = state_of([{}])


class Climbing:
    """A candidate is a number in words; it grows by one at each proposal, and its score with it, to 1 at 9."""

    def __init__(self, n_examples: int = 20) -> None:
        rng = np.random.default_rng(0)
        self.easiness = rng.normal(0, 0.3, n_examples)
        self.noise = rng.normal(0, 0.02, (20, n_examples))
        self.calls: list[tuple[int, int]] = []

    def score(self, level: int, example: int) -> float:
        return float(
            min(level, 9) / 9 + self.easiness[example] + self.noise[level, example]
        )

    def evaluate(
        self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        level = int(candidate["instruction"])
        self.calls += [(level, example) for example in batch]
        traces = list(batch) if capture_traces else None
        scores = [self.score(level, example) for example in batch]
        return EvaluationBatch(outputs=list(batch), scores=scores, trajectories=traces)

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: Any,
        components_to_update: list[str],
    ) -> Mapping[str, Any]:
        return {name: [{"Feedback": "more"}] for name in components_to_update}

    def propose_new_texts(
        self, candidate: dict[str, str], dataset: Any, components: list[str]
    ) -> dict[str, str]:
        return {name: str(int(candidate[name]) + 1) for name in components}


def optimize(adapter: Any, policy: Any, calls: int, **settings: Any) -> Any:
    if not asks_for_the_seed():
        settings["candidate_selection_strategy"] = "current_best"
    return gepa.optimize(
        seed_candidate={"instruction": "0"},
        trainset=list(range(20)),
        valset=list(range(20)),
        adapter=adapter,
        max_metric_calls=calls,
        val_evaluation_policy=policy,
        logger=SimpleNamespace(log=lambda *_, **__: None),
        **settings,
    )


def asks_for_the_seed() -> bool:
    """Whether this GEPA lets a policy say what the seed is run on: since 0.1.4."""
    return "get_seed_eval_batch" in Path(gepa.core.engine.__file__).read_text()


def test_the_policy_is_one_by_gepas_protocol() -> None:
    protocol = pytest.importorskip("gepa.strategies.eval_policy").EvaluationPolicy
    assert isinstance(AsktellPolicy(3), protocol)


def test_the_policy_may_choose_parents_and_accept_proposals() -> None:
    acceptance = pytest.importorskip("gepa.strategies.acceptance").AcceptanceCriterion
    assert isinstance(AsktellPolicy(), acceptance)
    assert isinstance(
        AsktellPolicy(), gepa.proposer.reflective_mutation.base.CandidateSelector
    )


def test_candidates_are_run_on_the_same_few_examples() -> None:
    adapter = Climbing()
    policy = AsktellPolicy(4, seed=3)
    result = optimize(adapter, policy, 150)
    few = set(policy.get_eval_batch(ListDataLoader(list(range(20))), NONE))
    assert len(few) == 4
    assert len(result.candidates) > 5
    assert all(set(scores) == few for scores in result.val_subscores[1:])
    assert set(result.val_subscores[0]) == (
        few if asks_for_the_seed() else set(range(20))
    )
    assert int(policy.best_candidate(result)["instruction"]) >= min(
        9, len(result.candidates) - 1
    )


def test_in_all_its_places_the_policy_climbs() -> None:
    pytest.importorskip("gepa.strategies.acceptance")
    policy = AsktellPolicy(4)
    places = {
        "candidate_selection_strategy": policy,
        "acceptance_criterion": policy,
        "skip_perfect_score": False,
    }
    result = optimize(Climbing(), policy, 200, **places)
    assert int(policy.best_candidate(result)["instruction"]) >= 9


def running(
    subscores: list[dict[Any, float]],
    gains: Sequence[Sequence[float]] = (),
    before: float = 0.5,
    i: int = 0,
) -> Any:
    """The state of a run in which program 0 had these gains in minibatches of other examples."""
    tasks = [
        {
            "parent_idx": 0,
            "subsample_ids": [3 * n, 3 * n + 1, 3 * n + 2],
            "subsample_scores": [before] * 3,
            "new_subsample_scores": [before + gain for gain in each],
        }
        for n, each in enumerate(gains)
    ]
    return SimpleNamespace(
        prog_candidate_val_subscores=subscores,
        parent_program_for_candidate=[[None], *[[0]] * (len(subscores) - 1)],
        full_program_trace=[*({"tasks": [task]} for task in tasks), {}],
        i=i,
    )


def draws(
    subscores: list[dict[Any, float]],
    gains: Sequence[Sequence[float]] = (),
    before: float = 0.5,
) -> list[int]:
    return [
        AsktellPolicy().select_candidate_idx(running(subscores, gains, before, i))
        for i in range(40)
    ]


def test_parents_are_drawn_by_their_probability_of_being_the_best() -> None:
    rng = np.random.default_rng(0)
    easiness = rng.normal(0, 0.3, 20)

    def program(level: float) -> dict[Any, float]:
        return dict(enumerate((level + easiness + rng.normal(0, 0.1, 20)).tolist()))

    assert set(draws([program(0.2), program(0.8)])) == {1}
    equals = [program(0.5), program(0.5), program(-0.5)]
    assert set(draws(equals)) == {0, 1}
    policy = AsktellPolicy()
    in_one_iteration = [policy.select_candidate_idx(running(equals)) for _ in range(10)]
    assert set(in_one_iteration) == {0, 1}
    assert AsktellPolicy().select_candidate_idx(running(equals)) == in_one_iteration[0]
    fair = draws(equals).count(0)
    assert (
        draws(equals, [[0.0] * 3] * 10, before=-1.0).count(0)
        < fair
        < draws(equals, [[0.0] * 3] * 10, 2.0).count(0)
    )


def proposal(*gains: float) -> Any:
    return SimpleNamespace(
        subsample_scores_before=[0.5] * len(gains),
        subsample_scores_after=[0.5 + gain for gain in gains],
    )


def test_a_proposal_is_accepted_if_its_gain_pays_for_a_validation() -> None:
    seed = [dict.fromkeys(range(300), 0.5)]
    noise = np.random.default_rng(0).normal(-0.05, 0.2, (60, 3)).tolist()
    policy, lucky, better = (
        AsktellPolicy(),
        proposal(0.3, -0.2, 0.0),
        proposal(0.4, 0.5, 0.3),
    )
    assert policy.should_accept(lucky, running(seed)), (
        "the first gain is all that is known"
    )
    assert not policy.should_accept(lucky, running(seed, noise))
    assert "luck" in policy.reject_reason(lucky, running(seed, noise))
    assert policy.should_accept(better, running(seed, noise))
    assert policy.should_accept(
        lucky, running([dict.fromkeys(range(2), 0.5)], noise)
    ), "a validation costs little"
    for none in (proposal(0.0, 0.0, 0.0), proposal(0.2, -0.3, 0.0)):
        assert not policy.should_accept(none, running([{0: 0.5}], noise)), (
            "GEPA would not accept it"
        )


def test_scores_without_noise_leave_acceptance_as_it_is_in_gepa() -> None:
    state = running([dict.fromkeys(range(300), 0.5)], [[0.1] * 3, [-0.1] * 3])
    assert AsktellPolicy().should_accept(proposal(0.1, 0.1, 0.1), state)
    assert not AsktellPolicy().should_accept(proposal(-0.1, -0.1, -0.1), state)


def test_right_or_wrong_answers_that_gain_one_example_of_three_are_accepted() -> None:
    rng = np.random.default_rng(0)
    wins = rng.choice([-1.0, 0.0, 1.0], (40, 3), p=[0.2, 0.65, 0.15]).tolist()
    state = running([dict.fromkeys(range(100), 0.5)], wins)
    assert AsktellPolicy().should_accept(proposal(1.0, 0.0, 0.0), state)


def test_easy_examples_do_not_make_a_program_the_best() -> None:
    rng = np.random.default_rng(1)
    easy = np.repeat([0.0, 1.0], 10)
    scores = [0.5 + gain + easy + rng.normal(0, 0.03, 20) for gain in (0.0, 0.3, -0.2)]
    everything = dict(enumerate(scores[0].tolist()))
    hard = dict(enumerate(scores[1].tolist()[:10]))
    easily = {n: float(scores[2][n]) for n in range(10, 20)}
    state = state_of([everything, hard, easily])
    policy = AsktellPolicy(10)
    assert (
        np.mean(list(easily.values()))
        > np.mean(list(everything.values()))
        > np.mean(list(hard.values()))
    )
    assert policy.get_best_program(state) == 1
    estimates = [policy.get_valset_score(i, state) for i in range(3)]
    assert estimates == pytest.approx([1.0, 1.3, 0.8], abs=0.1)


def test_an_example_keeps_its_place_and_a_program_gets_the_next_ones() -> None:
    policy = AsktellPolicy(3)
    before = policy.get_eval_batch(ListDataLoader(list(range(20))), NONE)
    more = AsktellPolicy(10).get_eval_batch(ListDataLoader(list(range(22))), NONE)
    assert [id_ for id_ in more if id_ < 20][:3] == before
    assert (
        AsktellPolicy(3, seed=1).get_eval_batch(ListDataLoader(list(range(20))), NONE)
        != before
    )
    again = policy.get_eval_batch(
        ListDataLoader(list(range(20))), state_of([dict.fromkeys(before, 0.5)]), 0
    )
    assert len(again) == 3
    assert not set(again) & set(before)
    assert sorted(
        AsktellPolicy(99).get_eval_batch(ListDataLoader(list(range(5))), NONE)
    ) == [0, 1, 2, 3, 4]


def test_a_run_that_is_resumed_goes_on_as_before(tmp_path: Path) -> None:
    once = optimize(Climbing(), AsktellPolicy(4), 120)
    optimize(Climbing(), AsktellPolicy(4), 60, run_dir=str(tmp_path))
    again = optimize(Climbing(), AsktellPolicy(4), 120, run_dir=str(tmp_path))
    assert len(again.candidates) == pytest.approx(len(once.candidates), abs=1)
    assert [set(scores) for scores in again.val_subscores[1:]] == [
        set(once.val_subscores[1])
    ] * (len(again.candidates) - 1)


def test_selection_over_gepas_pool_starts_with_what_gepa_knows() -> None:
    adapter = Climbing()
    result = optimize(adapter, AsktellPolicy(4), 120)
    evaluator = GEPAEvaluator(adapter, result.candidates, list(range(20)))
    selector = asktell.Selector(
        evaluator.prompts, asktell.BestFeasible("score"), 30, examples=20
    )
    assert evaluator.warm_start(selector, result) == sum(map(len, result.val_subscores))
    known = {
        (int(c["instruction"]), e)
        for c, s in zip(result.candidates, result.val_subscores, strict=True)
        for e in s
    }
    adapter.calls.clear()
    found = asktell.run(selector, evaluator, concurrency=4, progress=False)
    assert not known & set(adapter.calls)
    assert found.spent <= 30
    assert len(adapter.calls) == len(set(adapter.calls)) == found.spent
    best = max(int(c["instruction"]) for c in result.candidates)
    assert int(evaluator.candidate(found.selected[0].prompt)["instruction"]) >= min(
        best, 9
    )
    two = asktell.Selector(
        evaluator.prompts, asktell.ParetoSet("score", "brevity"), 30, examples=20
    )
    with pytest.raises(InvalidArgumentError, match="the goal has score, brevity"):
        evaluator.warm_start(two, result)
