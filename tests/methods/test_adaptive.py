"""Adaptive: no barrier, no herd, exact resume, robust on degenerate problems."""

import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asktell
from asktell import Adaptive, BestFeasible, ParetoSet, Selector
from asktell.posterior import draws, statement
from asktell.problem.checks import LARGEST
from tests.plays import selector_of

BEST = BestFeasible("a", subject_to={"b": 0.5})
PARETO = ParetoSet("a", "b")


def table(k: int, n: int, m: int = 2, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return (
        rng.random((k, 1, m))
        + 0.4 * rng.normal(size=(1, n, m))
        + 0.2 * rng.normal(size=(k, n, m))
    )


def selector(
    scores: Any, goal: Any = PARETO, budget: int = 60, **options: Any
) -> Selector:
    return selector_of(scores, goal, budget=budget, **options)


def tell(s: Selector, trial: Any, scores: Any) -> None:
    s.tell(trial, scores[trial.prompt_id, trial.example or 0].tolist())


def play(s: Selector, scores: Any, together: int = 1) -> list[Any]:
    trials = []
    while batch := s.ask(together):
        for trial in batch:
            tell(s, trial, scores)
            assert s.spent + len(s.pending) <= s.budget
        trials += batch
    assert s.done
    return trials


def test_late_pulls_go_to_contenders_alone_when_those_are_equally_in_doubt() -> None:
    scores = table(20, 400, m=1)
    scores[:2] += 5.0
    s = selector(scores, BestFeasible("a"), 400)
    # At most two contend: 20 ** (1 - (350 / 400) ** 1.5) < 2
    late = play(s, scores)[385:]
    assert {trial.prompt_id for trial in late} == {0, 1}


@pytest.mark.parametrize("goal", [BEST, PARETO])
@pytest.mark.parametrize("together", [1, 5, 100])
def test_it_spends_the_budget_and_never_repeats_a_cell(
    goal: Any, together: int
) -> None:
    scores = table(12, 20)
    s = selector(scores, goal)
    trials = play(s, scores, together)
    assert s.spent == len(trials) == 60
    assert max(Counter((t.prompt_id, t.example) for t in trials).values()) == 1
    result = s.result()
    assert result.selected
    assert all(0 <= e.p_best <= 1 for e in result.prompts if e.p_best is not None)
    assert all((e.p_feasible is not None) == (goal is BEST) for e in result.prompts)


def test_no_worker_waits_and_none_gather_on_one_prompt() -> None:
    scores = table(12, 200)
    s = selector(scores, budget=400)
    for trial in s.ask(60):
        tell(s, trial, scores)
    out = s.ask(60)
    assert len(out) == 60
    assert max(Counter(t.prompt_id for t in out).values()) <= 20
    assert len({(t.prompt_id, t.example) for t in out}) == 60


@pytest.mark.parametrize("goal", [BEST, PARETO, BestFeasible("a"), ParetoSet("a")])
@pytest.mark.parametrize(
    "kind", ["constant", "tied", "noise-free", "outlier", "binary", "scales"]
)
def test_degenerate_scores(goal: Any, kind: str) -> None:
    m = len(goal.metrics)
    scores = table(8, 10, m)
    if kind == "constant":
        scores = np.full_like(scores, 0.1)
    elif kind == "tied":
        scores = np.repeat(scores[:1], 8, axis=0)
    elif kind == "noise-free":
        scores = np.repeat(scores[:, :1], 10, axis=1)
    elif kind == "outlier":
        scores[3, 4] = 1e12
    elif kind == "binary":
        scores = (scores > 0.5).astype(float)
    else:
        scores *= 10.0 ** np.arange(0, -9 * m, -9)
    s = selector(scores, goal, 40)
    play(s, scores, 4)
    assert s.result().selected


@pytest.mark.parametrize(("k", "n"), [(1, 5), (2, 1), (2, 7), (6, 1)])
@pytest.mark.parametrize("options", [{}, {"examples": None}, {"sampling": "iid"}])
def test_small_problems(k: int, n: int, options: dict[str, Any]) -> None:
    scores = table(k, n)
    for goal in (BEST, PARETO):
        s = selector(scores, goal, 15, **options)
        play(s, scores)
        assert s.spent == (15 if options else min(15, k * n))
        assert s.result().selected


@pytest.mark.parametrize("m", [1, 3, 5])
def test_any_number_of_metrics(m: int) -> None:
    names = [f"m{j}" for j in range(m)]
    scores = table(7, 9, m)
    for goal in (
        ParetoSet(*names),
        BestFeasible(names[0], subject_to=dict.fromkeys(names[1:], 0.3)),
    ):
        s = selector(scores, goal, 30)
        play(s, scores, 3)
        assert s.result().selected


@pytest.mark.parametrize(("goal", "tried"), [(BEST, 4), (PARETO, 7)])
def test_fewer_evaluations_than_prompts(goal: Any, tried: int) -> None:
    scores = table(20, 9)
    s = selector(scores, goal, 7)
    trials = play(s, scores)
    assert len({t.prompt_id for t in trials}) == tried
    assert s.result().selected[0].evaluations > 0


@pytest.mark.parametrize("together", [1, 4])
@pytest.mark.parametrize(
    ("goal", "budget", "options", "tried"),
    [
        (BEST, 1, {}, 1),
        (BEST, 20, {}, 10),
        (BestFeasible("a"), 25, {}, 13),
        (BEST, 40, {}, 20),
        # One example: a second pull of a prompt would tell nothing
        (BEST, 20, {"examples": 1}, 20),
        # What is proven is proven of all
        (BEST, 20, {"method": Adaptive(confidence=0.9)}, 20),
        (PARETO, 20, {}, 20),
    ],
)
def test_a_small_budget_looks_for_the_best_of_some(
    goal: Any, budget: int, options: dict[str, Any], tried: int, together: int
) -> None:
    rows = table(20, options.get("examples", 30))[:, :, : len(goal.metrics)]
    s = Selector(
        [f"p{i}" for i in range(20)],
        goal,
        budget,
        **{"method": "auto", "examples": 30, **options},
    )
    trials = play(s, rows, together)
    assert len({t.prompt_id for t in trials}) == tried
    assert s.spent == budget


@pytest.mark.parametrize("seed", range(5))
def test_the_baseline_newcomers_and_what_was_observed_take_part_in_a_small_budget(
    seed: int,
) -> None:
    scores = table(24, 30)
    s = Selector(
        [f"p{i}" for i in range(20)],
        BEST,
        16,
        "auto",
        examples=30,
        baseline="p3",
        seed=seed,
    )
    s.observe("p4", scores[4, 0].tolist(), 0)
    joined = s.add([f"p{i}" for i in range(20, 24)])
    trials = play(s, scores)
    tried = {t.prompt_id for t in trials} | {4}
    assert tried >= {3, *joined}
    assert len(tried) == 8


def test_more_budget_brings_more_prompts() -> None:
    scores = table(20, 30)
    s = selector(scores, BEST, 10)
    first = {t.prompt_id for t in play(s, scores)}
    assert len(first) == 5
    s.extend(30)
    assert len(first | {t.prompt_id for t in play(s, scores)}) == 20


def test_after_an_extension_every_prompt_may_be_evaluated_again() -> None:
    """What an extension gives is spent like a budget of its own (`benchmarks.selection.extensions`)."""
    scores = table(20, 400, m=1)
    scores[:2] += 0.3
    in_steps = selector(scores, BestFeasible("a"), 400)
    late = {trial.prompt_id for trial in play(in_steps, scores)[385:]}
    in_steps.extend(50)
    next_ones = {trial.prompt_id for trial in play(in_steps, scores)}
    # At the end of a budget, only two prompts contend
    assert len(late) == 2
    assert len(next_ones) > 2


def test_a_budget_in_steps_has_its_share_of_first_evaluations() -> None:
    """Of candidates with factors, a third of the whole budget covers the levels, not of its first step."""
    models = [f"m{i}" for i in range(20)]
    candidates = asktell.grid(model=models, prompt=list("abcdefghij"))
    in_steps = Selector(candidates, BestFeasible("x"), 60, "auto", examples=50, seed=2)

    def played() -> list[Any]:
        prompts = []
        while trial := in_steps.ask():
            prompts.append(trial.prompt_id)
            in_steps.tell(trial, 0.1 * (trial.id % 7))
        return prompts

    known = set(played())
    in_steps.extend(240)
    # A third of 300, without the third of 60 that covered levels before
    assert not known & set(played()[:60])


def test_prompts_that_fail_make_room_in_a_small_budget() -> None:
    scores = table(20, 3)
    s = selector(scores, BEST, 12, max_failure_rate=1e-6)
    failed: set[Any] = set()
    while trial := s.ask():
        if len(failed) < 3 and trial.prompt_id not in failed:
            s.fail(trial, "no")
            failed.add(trial.prompt_id)
        else:
            tell(s, trial, scores)
    assert s.spent == 12
    assert (
        len({entry.id for entry in s.result().prompts if entry.evaluations}) == 6
    )  # three of the first six have failed


def test_seeing_everything_gives_the_exact_answer() -> None:
    scores = table(6, 8)
    means = scores.mean(axis=1)
    s = selector(scores, PARETO, 1000, inputs="given", repeats=1)
    play(s, scores)
    assert s.spent == 48
    expected = np.flatnonzero(asktell.numerics.pareto.pareto_mask(means))
    assert sorted(e.id for e in s.result().selected) == expected.tolist()
    assert all(e.standard_error["a"] == 0 for e in s.result().prompts)


def test_failures_are_not_replaced_in_place_and_end_a_prompt() -> None:
    scores = table(5, 10)
    s = selector(scores, PARETO, 30, max_failure_rate=0.2)
    while trial := s.ask():
        if trial.prompt_id == 2:
            s.fail(trial, "boom")
        else:
            tell(s, trial, scores)
    result = s.result()
    assert s.spent == 30
    assert result.prompts[2].status == "failed"
    assert 2 not in [e.id for e in result.selected]


def test_observed_cells_inform_and_are_not_asked() -> None:
    scores = table(4, 6)
    s = selector(scores, PARETO, 20, inputs="given", repeats=1)
    for example in range(6):
        s.observe(0, scores[0, example].tolist(), example=example)
    trials = play(s, scores)
    assert all(t.prompt_id != 0 for t in trials)
    assert s.result().prompts[0].standard_error == {"a": 0.0, "b": 0.0}


@pytest.mark.parametrize(
    "bad",
    [
        *({"share": 0}, {"batch": -1.0}, {"draws": 0}, {"draws": 2.5}, {"share": True}),
        *(
            {"confidence": 0},
            {"confidence": 1.0},
            {"confidence": 95},
            {"confidence": True},
            {"confidence": "0.95"},
        ),
    ],
)
def test_arguments_that_make_no_sense(bad: dict[str, Any]) -> None:
    with pytest.raises(asktell.InvalidArgumentError):
        Adaptive(**bad)


@pytest.mark.parametrize("goal", [BEST, PARETO])
def test_a_single_evaluation_supports_no_error_and_no_probability(goal: Any) -> None:
    for budget in (1, 30):
        s = selector(table(5, 9), goal, budget)
        trial = s.ask()
        tell(s, trial, table(5, 9))
        for entry in s.result().prompts:
            assert list(entry.standard_error.values()) == [None, None]
            assert entry.p_best is entry.p_feasible is None
        assert [entry.id for entry in s.result().selected] == [trial.prompt_id]
        assert (
            Selector.from_json(s.to_json()).result().to_dict() == s.result().to_dict()
        )


@pytest.mark.parametrize("score", [1.0, 0.4])
@pytest.mark.parametrize("given", [False, True])
def test_errors_of_constant_scores_are_not_zero_before_all_given_examples_are_seen(
    given: bool, score: float
) -> None:
    scores = np.full((3, 4, 2), score)
    s = selector(
        scores, PARETO, 100, **({"inputs": "given", "repeats": 1} if given else {})
    )
    seen = set()
    while trial := s.ask():
        tell(s, trial, scores)
        seen.add(trial.example)
        for entry in s.result().prompts:
            error = entry.standard_error["a"]
            is_exact = given and entry.evaluations == 4
            assert error is None if len(seen) == 1 else (error == 0.0) == is_exact
    assert seen == {0, 1, 2, 3}


# Prompt 2 is far ahead
CLEAR = table(6, 40, seed=3) + np.array([0.0, 0.0, 3.0, 0.0, 0.0, 0.0])[:, None, None]


@pytest.mark.parametrize("goal", [BEST, PARETO, BestFeasible("a")])
def test_it_stops_once_the_answer_is_settled(goal: Any) -> None:
    scores = CLEAR[:, :, : len(goal.metrics)]
    s = selector(scores, goal, 200)
    certain = Selector(
        [f"p{i}" for i in range(6)], goal, 200, Adaptive(confidence=0.95), examples=40
    )
    play(s, scores, 10)
    play(certain, scores, 4)
    assert s.spent == 200
    assert 6 <= certain.spent < 180
    result = certain.result()
    assert result.stopped_early
    assert not result.finished_early
    assert "stopped early: the requested confidence was reached" in " ".join(
        str(result).split()
    )
    assert result.to_dict()["stopped_early"] is True
    assert [entry.id for entry in result.selected] == [2]
    assert not result.unresolved
    assert not s.result().stopped_early


def test_equal_prompts_are_tied_and_need_a_tolerance() -> None:
    rng = np.random.default_rng(0)
    scores = (
        0.5 + 0.3 * rng.normal(size=(1, 400, 1)) + 0.05 * rng.normal(size=(3, 400, 1))
    )

    def spent(**options: Any) -> Any:
        goal = BestFeasible(asktell.maximize("a", **options))
        method = Adaptive(confidence=0.95)
        s = Selector(["p0", "p1", "p2"], goal, 300, method, examples=400)
        play(s, scores, 6)
        return s.result()

    exact, close = spent(), spent(tolerance=0.05)
    assert exact.spent == 300
    assert close.spent < 100
    assert close.unresolved
    assert close.verdict.action == "either"


def test_scores_of_trials_that_are_out_at_an_early_stop_are_still_taken() -> None:
    s = Selector(
        [f"p{i}" for i in range(6)], BEST, 200, Adaptive(confidence=0.95), examples=40
    )
    out: list[Any] = []
    while batch := s.ask(3):
        out += batch
        while len(out) > 4:
            tell(s, out.pop(0), CLEAR)
    assert s.done
    assert out
    spent = s.spent
    for trial in out:
        tell(s, trial, CLEAR)
    assert s.spent == spent + len(out)
    assert s.result().stopped_early
    assert [
        entry.id for entry in Selector.from_json(s.to_json()).result().selected
    ] == [2]


def test_features_change_nothing() -> None:
    scores = table(5, 12)
    plain, featured = selector(scores), selector(scores, features=np.eye(5))
    assert play(plain, scores) == play(featured, scores)
    found, other = plain.result(), featured.result()
    assert [entry.estimate for entry in found.prompts] == [
        entry.estimate for entry in other.prompts
    ]


def test_asking_takes_no_memory_for_examples_that_nobody_has_seen() -> None:
    n = 10**6
    s = Selector(["a", "b"], BestFeasible("x"), 1000, examples=n)
    s.ask(2)
    for value in (0.0, 1.0):
        s.observe("a", [value])
    tracemalloc.start()
    try:
        asked = s.ask(50)
        s.tell(asked[0], [1.0])
        s.ask(50)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < n


def test_what_is_out_makes_batches_larger() -> None:
    """Otherwise the n-th of many asks at once would look at the n - 1 before it."""
    s = Selector(["a", "b"], BestFeasible("x"), 10**5, examples=10**5)
    assert len(s.ask(3000)) == 3000
    assert len(s.state.decisions) < 600


def test_a_result_draws_from_the_posterior_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    s = Selector([f"p{i}" for i in range(9)], ParetoSet("x", "y"), 99, examples=20)
    for trial in s.ask(18):
        s.tell(trial, [np.sin(trial.id), np.cos(trial.id)])
    calls, joint = 0, draws.joint

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        return joint(*args, **options)

    monkeypatch.setattr(draws, "joint", counted)
    monkeypatch.setattr(statement, "joint", counted)
    s.observe(0, [0.0, 0.0])
    first, second = s.result(), s.result()
    assert first == second
    assert calls == 1, "the answer is selected from the draws that are stated"


LARGE = st.sampled_from([LARGEST, -LARGEST, 1.0, 0.0, 1e-300, LARGEST / 3]) | st.floats(
    -LARGEST, LARGEST
)
EXTREME = [
    BestFeasible("x"),
    BestFeasible("x", {asktell.maximize("y", range=(-LARGEST, LARGEST)): LARGEST}),
    ParetoSet("x", asktell.minimize("y", range=(-LARGEST, LARGEST))),
]


@settings(max_examples=15, deadline=None)
@given(
    goal=st.sampled_from(EXTREME),
    examples=st.sampled_from([None, 3]),
    scores=st.lists(st.tuples(LARGE, LARGE), min_size=10, max_size=10),
    confidence=st.sampled_from([None, 0.9]),
)
def test_scores_of_any_size_warn_of_nothing_and_select_something(
    goal: Any,
    examples: int | None,
    scores: list[tuple[float, float]],
    confidence: float | None,
) -> None:
    s = Selector(
        ["a", "b", "c", "d"],
        goal,
        10,
        Adaptive(confidence=confidence),
        examples=examples,
    )
    for x, y in scores:
        trial = s.ask()
        if trial is None:
            break
        s.tell(trial, [x, y][: len(s.metrics)])
    result = s.result()
    assert result.selected
    numbers = [
        x
        for e in result.prompts
        for x in (*e.estimate.values(), *e.standard_error.values())
        if x is not None
    ]
    assert np.isfinite(numbers).all()


def test_of_candidates_a_third_of_the_budget_covers_the_levels_and_the_rest_goes_where_the_best_may_be() -> (
    None
):
    """Below one evaluation per candidate; one level of one factor is much better."""
    candidates = asktell.grid(
        model=list("abcdefgh"), prompt=["x", "y", "z", "w"], n=[1, 2, 3, 4]
    )
    selector = Selector(candidates, BestFeasible("q"), 60, examples=20, seed=1)
    asked = []
    while trial := selector.ask():
        asked.append(trial.candidate)
        score = (
            (trial.candidate["model"] == "c")
            + 0.1 * (trial.candidate["n"] == 2)
            + (trial.example or 0) / 50
        )
        selector.tell(trial, [score])
    first, later = asked[:20], asked[20:]
    assert {candidate["model"] for candidate in first} == set("abcdefgh")
    assert (
        sorted(candidate["n"] for candidate in first)
        == [1] * 5 + [2] * 5 + [3] * 5 + [4] * 5
    )
    assert sum(candidate["model"] == "c" for candidate in later) > 20
    result = selector.result()
    assert (result.best.candidate["model"], result.best.candidate["n"]) == ("c", 2)
    unseen = [entry for entry in result.prompts if not entry.evaluations]
    assert len(unseen) > 68
    assert all(entry.estimate["q"] is not None for entry in unseen)


def test_candidates_that_join_and_the_baseline_are_pulled_first() -> None:
    candidates = asktell.grid(model=list("abcdefgh"), n=[1, 2, 3, 4])
    selector = Selector(
        candidates, BestFeasible("q"), 30, examples=20, seed=1, baseline="h/4"
    )
    for trial in selector.ask(12):
        selector.tell(trial, [0.5])
    new = selector.add(asktell.grid(model=["new"], n=[1, 2, 3, 4]))
    while trial := selector.ask():
        selector.tell(trial, [0.5])
    pulls = {entry.id: entry.evaluations for entry in selector.result().prompts}
    assert all(pulls[id_] for id_ in ["h/4", *new])


@pytest.mark.parametrize("goal", [BEST, PARETO])
def test_a_decision_enters_few_rooms(goal: Any) -> None:
    """So that one can follow it: methods, posterior, numerics, problem and state."""
    scores, root, rooms = table(12, 50), Path(asktell.__file__).parent, set[str]()
    one = selector(scores, goal)
    for trial in one.ask(30):
        tell(one, trial, scores)

    def note(frame: Any, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(root):
            rooms.add(path.relative_to(root).parts[0])

    sys.setprofile(note)
    try:
        one.method.decide(one.state)
    finally:
        sys.setprofile(None)
    assert "posterior" in rooms
    assert len(rooms - {"selector.py"}) <= 7


@pytest.mark.parametrize("method", ["auto", asktell.Race()], ids=["auto", "race"])
def test_several_selections_in_turn_take_no_more_than_one(method: Any) -> None:
    """A service has many of them open: what one has computed is not pushed out by the others."""
    root = str(Path(asktell.__file__).parent)
    calls = 0

    def note(frame: Any, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(root)

    def calls_of_results(n: int) -> float:
        """Calls within asktell that the second result of each of n selections takes, on average."""
        nonlocal calls
        selectors = [
            Selector(list("abcdef"), BestFeasible("a"), 60, method, examples=20, seed=1)
            for _ in range(n)
        ]
        for selector in selectors:
            for trial in selector.ask(12):
                selector.tell(trial, float(trial.id % 3 == 0))
            selector.result()
        calls = 0
        sys.setprofile(note)
        try:
            for selector in selectors:
                selector.result()
        finally:
            sys.setprofile(None)
        return calls / n

    assert calls_of_results(8) == pytest.approx(calls_of_results(1), rel=0.02)
