"""The presets that use features, through Selector: they find the answer, save, resume, and recompute no decision."""

import json

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, ParetoSet, Selector
from asktell.methods.rounds.estimators import MLP, LeastSquares
from tests.plays import play

CONSTRAINED = BestFeasible("quality", subject_to={"brevity": 0.4})
PARETO = ParetoSet("quality", "brevity")
GOALS = {
    "lcsh": CONSTRAINED,
    "mlp-csr": CONSTRAINED,
    "gege": PARETO,
    "mlp-ege": PARETO,
}
# As many features as in tests of estimators: JAX compiles once for each shape
K, D, N = 24, 5, 40
RNG = np.random.default_rng(5)
FEATURES = RNG.normal(size=(K, D))
MEANS = np.stack(
    [0.5 + 0.2 * FEATURES[:, 0], 0.5 + 0.2 * FEATURES[:, 1] - 0.1 * FEATURES[:, 0]],
    axis=1,
)
NOISE = RNG.normal(scale=0.05, size=(K, N, 2))
PROMPTS = [f"prompt {i}" for i in range(K)]


def scores(trial: asktell.Trial) -> list[float]:
    return (MEANS[trial.prompt_id] + NOISE[trial.prompt_id, trial.example]).tolist()


def new(name: str, budget: int = 4 * K) -> Selector:
    return Selector(
        PROMPTS, GOALS[name], budget, name, examples=N, features=FEATURES, seed=3
    )


@pytest.mark.parametrize("name", GOALS)
def test_finds_a_good_answer_within_the_budget(name: str) -> None:
    selector = new(name)
    play(selector, scores)
    result = selector.result()
    chosen = [entry.id for entry in result.selected]
    assert selector.done
    assert result.spent <= 4 * K
    if GOALS[name] is CONSTRAINED:
        feasible = MEANS[:, 1] >= 0.4
        better = (MEANS[feasible, 0] > MEANS[chosen[0], 0]).sum()
        assert MEANS[chosen[0], 1] >= 0.4 - 0.05
        assert better <= 2
    else:
        optimal = set(np.flatnonzero(asktell.numerics.pareto.pareto_mask(MEANS)))
        assert optimal & set(chosen)


@pytest.mark.parametrize("name", GOALS)
def test_resumed_continues_exactly_and_recomputes_no_decision(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = new(name)
    asks = play(whole, scores)
    interrupted = new(name)
    half = len(asks) // 2
    assert play(interrupted, scores, n=half) == asks[:half]
    text = interrupted.to_json()

    calls = []
    for estimator in (MLP, LeastSquares):
        original = estimator.estimate
        monkeypatch.setattr(
            estimator,
            "estimate",
            lambda self, evidence, f=original: (calls.append(1), f(self, evidence))[1],
        )
    resumed = Selector.from_json(text)
    assert calls == []
    assert play(resumed, scores) == asks[half:]
    assert len(calls) <= len(resumed.state.decisions) - len(interrupted.state.decisions)
    assert resumed.to_json() == whole.to_json()


@pytest.mark.parametrize("name", ["lcsh", "mlp-ege"])
def test_works_with_nothing_but_the_texts_and_fewer_evaluations_than_prompts(
    name: str,
) -> None:
    prompts = [
        f"Summarize the text in {n} {unit}."
        for n in range(1, 13)
        for unit in ("words", "sentences")
    ]
    selector = Selector(
        prompts, GOALS[name], budget=K - 4, method=name, examples=N, features="text"
    )
    play(selector, scores)
    result = selector.result()
    assert result.spent <= K - 4
    assert result.selected
    assert json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("name", GOALS)
def test_without_features_it_says_what_to_give(name: str) -> None:
    with pytest.raises(asktell.IncompatibleMethodError, match='features="text"'):
        Selector(PROMPTS, GOALS[name], 100, name, examples=N)


def test_any_allocator_goes_with_any_estimator() -> None:
    from asktell.methods.rounds.allocators import GOptimalDesign
    from asktell.methods.rounds.estimators import SampleMean
    from asktell.methods.rounds.rules import ConstrainedRanking
    from asktell.methods.rounds.schedulers import SequentialHalving

    for estimator in (MLP(steps=50), LeastSquares(ridge=0.1), SampleMean()):
        method = asktell.Elimination(
            SequentialHalving(),
            GOptimalDesign(),
            estimator,
            ConstrainedRanking(),
            "round",
        )
        selector = Selector(
            PROMPTS, CONSTRAINED, 3 * K, method, examples=N, features=FEATURES
        )
        play(selector, scores)
        assert selector.result().selected
        assert Selector.from_json(selector.to_json()).to_json() == selector.to_json()
