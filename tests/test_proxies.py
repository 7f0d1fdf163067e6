"""Cheap metrics that inform the goal: what is accepted, what costs nothing, and what is kept in every format."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, InvalidArgumentError, InvalidScoresError, Selector

K, N = 6, 20
GOAL = BestFeasible("quality")


def scores_of(seed: int = 0) -> tuple[Any, Any]:
    """Dear scores (K, N), and those of a proxy that predicts them."""
    rng = np.random.default_rng(seed)
    dear = rng.normal(size=(K, 1)) + rng.normal(size=(1, N)) + rng.normal(size=(K, N))
    return dear, 10.0 + 3.0 * (dear + 0.5 * rng.normal(size=(K, N)))


def new(proxies: Any = ("judge",), budget: int = 24, **options: Any) -> Selector:
    prompts = {f"p{i}": f"text {i}" for i in range(K)}
    return Selector(prompts, GOAL, budget, examples=N, proxies=proxies, **options)


def observe_all(selection: Any, cheap: Any) -> None:
    for arm, example in np.ndindex(cheap.shape):
        selection.observe(f"p{arm}", {"judge": float(cheap[arm, example])}, example)


def play(selection: Any, dear: Any, until: int = 10**9) -> list[tuple[Any, Any]]:
    asked = []
    while len(asked) < until and (trial := selection.ask()):
        asked.append((trial.prompt_id, trial.example))
        selection.tell(trial, float(dear[int(trial.prompt_id[1:]), trial.example]))
    return asked


def test_scores_of_proxies_cost_no_budget_and_leave_the_cell_to_be_evaluated() -> None:
    dear, cheap = scores_of()
    selector = new()
    observe_all(selector, cheap)
    assert (selector.spent, len(selector.pending)) == (0, 0)
    result = selector.result()
    assert result.best is None or result.best.evaluations == 0
    asked = play(selector, dear)
    assert len(asked) == len(set(asked)) == 24
    result = selector.result()
    entry = next(entry for entry in result.prompts if entry.id == "p3")
    assert entry.proxies == {"judge": pytest.approx(cheap[3].mean())}
    assert "judge (proxy)" in str(result)
    assert result.to_dict()["prompts"][3]["proxies"] == entry.proxies


def test_without_any_score_of_a_proxy_nothing_changes() -> None:
    dear, _ = scores_of()
    one, other = new(), new(())
    assert play(one, dear) == play(other, dear)
    assert str(one.result()) == str(other.result())
    assert "proxies" not in one.result().to_dict()["prompts"][0]


def test_a_proxy_that_predicts_the_scores_finds_better_prompts() -> None:
    regret = np.zeros(2)
    for seed in range(8):
        dear, cheap = scores_of(seed)
        truth = dear.mean(axis=1)
        for i in range(2):
            selector = new(budget=6, seed=seed)
            if i:
                observe_all(selector, cheap)
            play(selector, dear)
            best = selector.result().best
            assert best is not None
            regret[i] += truth.max() - truth[int(str(best.id)[1:])]
    assert regret[1] < 0.6 * regret[0]


def test_scores_of_a_proxy_come_beside_a_tell() -> None:
    dear, cheap = scores_of()
    beside, apart = new(), new()
    for _ in range(5):
        one, other = beside.ask(), apart.ask()
        assert one is not None
        assert other is not None
        arm, example = int(one.prompt_id[1:]), one.example
        score, proxy = float(dear[arm, example]), float(cheap[arm, example])
        beside.tell(one, {"quality": score, "judge": proxy, "other": "ignored"})
        apart.tell(other, score)
        apart.observe(other, {"judge": proxy}, other.example)
    assert beside.result().to_dict() == apart.result().to_dict()
    # Missing scores of a proxy, as None or NaN, are no scores
    trial = beside.ask()
    assert trial is not None
    beside.tell(trial, {"quality": 0.5, "judge": float("nan")})
    before = beside.result().prompts
    beside.observe("p0", {"quality": 1.0, "judge": None}, 3)
    assert [entry.proxies for entry in beside.result().prompts] == [
        entry.proxies for entry in before
    ]


def test_scores_beside_a_tell_predict_no_prompt_without_a_score() -> None:
    """With a small budget, as few prompts take part as without proxies."""
    dear, cheap = scores_of()
    selector, asked = new(budget=K), set()
    while trial := selector.ask():
        arm = int(trial.prompt_id[1:])
        asked.add(arm)
        cell = arm, trial.example
        selector.tell(
            trial, {"quality": float(dear[cell]), "judge": float(cheap[cell])}
        )
    assert len(asked) == K // 2


@pytest.mark.parametrize(
    ("proxies", "options", "message"),
    [
        ("judge", {}, "list of names"),
        (["judge", 3], {}, "list of names"),
        ([""], {}, "list of names"),
        (["judge", "judge"], {}, "named once"),
        (["quality"], {}, "is a metric of the goal"),
        (["judge"], {"examples": None}, "needs examples"),
        (
            [f"judge {i}" for i in range(60)],
            {"examples": 10**6},
            "at most 100,000,000 scores",
        ),
    ],
)
def test_bad_proxies_are_refused(proxies: Any, options: Any, message: str) -> None:
    arguments = {"examples": N, **options}
    with pytest.raises(InvalidArgumentError, match=message):
        Selector(["a", "b"], GOAL, 4, proxies=proxies, **arguments)


def test_bad_scores_of_a_proxy_are_refused_and_nothing_is_lost() -> None:
    selector = new()
    trial = selector.ask()
    assert trial is not None
    before = selector.to_json()
    for scores in (
        {"quality": 1.0, "judge": "good"},
        {"quality": 1.0, "judge": float("inf")},
        {"judge": 1.0},
    ):
        with pytest.raises(InvalidScoresError):
            selector.tell(trial, scores)
    with pytest.raises(InvalidArgumentError, match="without their example"):
        selector.observe("p0", {"judge": 1.0})
    with pytest.raises(InvalidScoresError):
        selector.observe("p0", {"other": 1.0}, 0)
    assert selector.to_json() == before


def test_a_saved_selector_continues_in_the_same_way() -> None:
    dear, cheap = scores_of()
    selector = new()
    observe_all(selector, cheap)
    play(selector, dear, 7)
    again = Selector.from_json(selector.to_json())
    assert again.proxies == ("judge",)
    assert again.to_json() == selector.to_json()
    assert play(again, dear) == play(selector, dear)
    assert again.result().to_dict() == selector.result().to_dict()


def test_a_changed_file_with_impossible_scores_of_proxies_is_refused() -> None:
    _, cheap = scores_of()
    selector = new()
    observe_all(selector, cheap)
    data = json.loads(selector.to_json())
    for name, value in (("arms", K), ("examples", N), ("proxies", 1)):
        changed = json.loads(json.dumps(data))
        changed["state"]["proxies"][name][0] = value
        with pytest.raises(asktell.InvalidStateError):
            Selector.from_json(json.dumps(changed))


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_study_keeps_them(tmp_path: Path, snapshots: bool) -> None:
    dear, cheap = scores_of()
    url = f"sqlite:///{tmp_path / 'study.db'}"
    study = asktell.Study.create(url, "one", new())
    observe_all(study, cheap)
    asked = play(study, dear, 9)
    if snapshots:
        study.result()
    study.close()
    selector = new()
    observe_all(selector, cheap)
    assert play(selector, dear, 9) == asked
    with asktell.Study.open(url, "one") as again:
        assert again.proxies == ("judge",)
        assert play(again, dear) == play(selector, dear)
        assert again.result().prompts == selector.result().prompts


def test_an_evaluator_may_return_them() -> None:
    dear, cheap = scores_of()

    def evaluate(prompt: str, example: int) -> dict[str, float]:
        arm = int(prompt.split()[1])
        return {
            "quality": float(dear[arm, example]),
            "judge": float(cheap[arm, example]),
        }

    selector = new()
    result = asktell.run(selector, evaluate, progress=False)
    counted = [entry for entry in result.prompts if entry.evaluations]
    assert all(entry.proxies for entry in counted)


def test_simulations_know_them() -> None:
    dear, cheap = scores_of()

    def simulated(**options: Any) -> float:
        found = asktell.simulate(
            dear, GOAL, ["auto"], [1], 3, jobs=1, on_progress=lambda *_: None, **options
        )
        return float(found.summary().rows[0].quality)

    assert simulated(proxies={"judge": cheap}) >= simulated()
    with pytest.raises(InvalidArgumentError, match=r"must have the shape \(6, 20\)"):
        simulated(proxies={"judge": cheap.T})
    with pytest.raises(InvalidArgumentError, match="must be numbers"):
        simulated(proxies={"judge": [["a"]]})


def test_a_score_that_is_recorded_alone_and_with_the_label_counts_once() -> None:
    """Two cells: one with scores 0.2 and 0.4 of the judge, one with 1. The mean is (0.3 + 1) / 2."""
    selector = new()
    selector.observe("p0", {"judge": 0.2}, 0)
    selector.observe("p0", {"judge": 1.0}, 1)
    selector.observe("p0", {"quality": 1.0, "judge": 0.4}, 0)
    entry = selector.result().prompts[0]
    assert entry.id == "p0"
    assert entry.proxies == {"judge": pytest.approx(0.65)}
    arms, examples, scores = selector.state.proxies.of_cells(0)
    # In the order of their last score
    assert (arms.tolist(), examples.tolist()) == ([0, 0], [1, 0])
    np.testing.assert_allclose(scores, [1.0, 0.3])


def test_growth_keeps_the_limit_of_proxy_scores() -> None:
    texts = [f"text {i}" for i in range(100)]
    selector = Selector(texts, GOAL, 50, examples=10**6 - 10, proxies=["judge"])
    before = selector.to_json()
    for grow in (
        lambda: selector.add(["another"]),
        lambda: selector.extend(examples=11),
    ):
        with pytest.raises(InvalidArgumentError, match="at most 100,000,000 scores"):
            grow()
    assert selector.to_json() == before, "nothing is in the log"
    selector.extend(examples=10)


def test_few_scores_of_very_many_cells_take_little_memory() -> None:
    # A table of all cells would take 0.8 GB, several times
    selector = Selector(
        [f"text {i}" for i in range(1000)], GOAL, 50, examples=10**5, proxies=["judge"]
    )
    for arm in range(20):
        for example in range(2):
            scores = {"quality": arm / 20, "judge": arm / 10 + example}
            selector.observe(arm, scores, example)
    tracemalloc.start()
    selector.result()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3e8
