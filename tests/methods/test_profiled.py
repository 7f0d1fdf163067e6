"""Selections that know the examples from earlier studies."""

import json

import numpy as np
import pytest

import asktell
from asktell import (
    Adaptive,
    BestFeasible,
    ExampleProfile,
    InvalidArgumentError,
    InvalidStateError,
    ParetoSet,
    Selector,
)
from tests.seeds import Seeds

N = 40
IDS = [f"example {j}" for j in range(N)]
TELLING = range(8)


def chances(rng: np.random.Generator, n_arms: int) -> np.ndarray:
    """Eight examples divide the prompts, the others are easy."""
    ease = np.full(N, 3.5)
    ease[list(TELLING)] = 0.0
    return np.asarray(1 / (1 + np.exp(-rng.normal(size=n_arms)[:, None] - ease)))


def table(seed: int, n_arms: int = 20) -> np.ndarray:
    rng = np.random.default_rng(seed)
    chance = chances(rng, n_arms)
    return (rng.random((n_arms, N)) < chance).astype(float)


def selector_of(scores: np.ndarray, b: int = 3, goal=None, **others) -> Selector:
    prompts = {f"p{i}": f"prompt {i}" for i in range(len(scores))}
    return Selector(
        prompts, goal or BestFeasible("right"), b * len(scores), examples=IDS, **others
    )


def play(
    selector: Selector, scores: np.ndarray, save: bool = False
) -> list[tuple[int, int]]:
    asked = []
    while trial := selector.ask():
        arm = int(str(trial.prompt_id)[1:])
        asked.append((arm, trial.example))
        values = [scores[arm, trial.example]] * len(selector.metrics)
        selector.tell(trial, values)
        if save and len(asked) % 7 == 0:
            selector = Selector.from_json(selector.to_json(), examples=IDS)
    return asked


@pytest.fixture(scope="module")
def profile() -> ExampleProfile:
    earlier = [
        selector_of(table(seed), 12, method="uniform", seed=seed) for seed in range(3)
    ]
    for seed, selector in enumerate(earlier):
        play(selector, table(seed))
    return ExampleProfile.of(*earlier)


def test_examples_that_divide_are_asked(profile: ExampleProfile) -> None:
    scores = table(10)
    known, unknown = (
        play(selector_of(scores, 2, profile=given), scores) for given in (profile, None)
    )
    assert np.mean([example in TELLING for _, example in known]) > 0.85
    assert np.mean([example in TELLING for _, example in unknown]) < 0.6


@pytest.mark.parametrize("goal", [BestFeasible("right"), ParetoSet("right", "other")])
def test_saved_and_loaded_it_asks_the_same(profile: ExampleProfile, goal) -> None:
    scores = table(11)
    whole = play(selector_of(scores, goal=goal, profile=profile, seed=3), scores)
    assert (
        play(selector_of(scores, goal=goal, profile=profile, seed=3), scores, save=True)
        == whole
    )
    through_json = ExampleProfile.from_json(profile.to_json())
    assert (
        play(selector_of(scores, goal=goal, profile=through_json, seed=3), scores)
        == whole
    )


def test_the_answer_is_better_and_levels_are_unbiased(
    seeds: Seeds, profile: ExampleProfile
) -> None:
    quality, bias = {True: [], False: []}, []
    for seed in (30 + i for i in seeds(12)):
        truth = chances(np.random.default_rng(seed), 20).mean(axis=1)
        scores = table(seed)
        for given in (profile, None):
            selector = selector_of(scores, 2, profile=given, seed=seed)
            play(selector, scores)
            result = selector.result()
            best = int(str(result.selected[0].id)[1:])
            quality[given is not None].append(truth[best] - truth.mean())
            if given is not None:
                bias.append(
                    np.mean([e.estimate["right"] for e in result.prompts])
                    - scores.mean()
                )
    assert np.mean(quality[True]) > np.mean(quality[False]) + 0.01
    # Of the examples asked, half are right; of all, 6 in 7
    assert abs(np.mean(bias)) < 0.05


def test_comparisons_speak_of_all_examples(
    seeds: Seeds, profile: ExampleProfile
) -> None:
    stated, naive, truth = [], [], []
    for seed in (70 + i for i in seeds(12)):
        scores = table(seed)
        selector = selector_of(scores, 3, profile=profile, seed=seed)
        play(selector, scores)
        a = str(selector.result().selected[0].id)
        for b in ("p0", "p1", "p2"):
            if a != b:
                compared = selector.compare(a, b)
                difference = compared.differences["right"]
                assert not compared.guaranteed
                if difference.estimate is not None:
                    one, other = scores[int(a[1:])], scores[int(b[1:])]
                    history = selector.state.history
                    seen = [
                        set(
                            history.examples()[history.arms() == int(name[1:])].tolist()
                        )
                        for name in (a, b)
                    ]
                    common = sorted(seen[0] & seen[1])
                    naive.append(np.mean(one[common] - other[common]))
                    stated.append(difference.estimate)
                    truth.append(np.mean(one - other))
    assert np.mean(naive) > np.mean(truth) + 0.15
    # What is left is that the selected prompt was lucky on these examples, as without a
    # profile.
    assert np.mean(stated) - np.mean(truth) < 0.5 * (np.mean(naive) - np.mean(truth))


def test_who_is_clearly_infeasible_is_judged_by_all_examples(
    profile: ExampleProfile,
) -> None:
    scores = np.ones((4, N))  # on examples that divide, all are right half of the time
    scores[:, : len(TELLING)] = np.random.default_rng(1).random((4, len(TELLING))) < 0.5
    goal = BestFeasible("gain", subject_to={"right": 0.75})
    selector = selector_of(scores, 8, goal=goal, profile=profile)
    while trial := selector.ask():
        arm = int(str(trial.prompt_id)[1:])
        selector.tell(
            trial,
            {
                "gain": float((arm * 7 + trial.example) % 5),
                "right": scores[arm, trial.example],
            },
        )
    result = selector.result()
    assert result.feasible
    assert all(entry.p_feasible > 0.5 for entry in result.prompts)
    assert len(result.unresolved) == 3


def test_a_profile_of_shuffled_ids_does_little_harm(
    seeds: Seeds, profile: ExampleProfile
) -> None:
    order = np.random.default_rng(1).permutation(N)
    data = profile.to_data()
    data["examples"] = [IDS[j] for j in order]
    wrong = ExampleProfile.from_data(data)
    found = {"wrong": [], "none": []}
    for seed in (50 + i for i in seeds(12)):
        truth = chances(np.random.default_rng(seed), 20).mean(axis=1)
        for name, given in (("wrong", wrong), ("none", None)):
            scores = table(seed)
            selector = selector_of(scores, 3, profile=given, seed=seed)
            play(selector, scores)
            found[name].append(truth[int(str(selector.result().selected[0].id)[1:])])
    difference = np.array(found["wrong"]) - np.array(found["none"])
    assert difference.mean() > -2 * difference.std() / np.sqrt(len(difference)) - 0.01


def test_prompts_and_examples_may_join(profile: ExampleProfile) -> None:
    scores = np.concatenate((table(12), table(13)[:5]))
    selector = selector_of(scores[:20], profile=profile)
    play(selector, scores)
    selector.add({f"p{i}": f"prompt {i}" for i in range(20, 25)})
    selector.extend(evaluations=20)
    asked = play(selector, scores)
    assert all(example in TELLING for arm, example in asked[:5] if arm >= 20)
    selector.extend(evaluations=20, examples=["new"])
    play(selector, np.concatenate((scores, scores[:, :1]), axis=1))
    assert (
        Selector.from_json(selector.to_json()).result().to_dict()
        == selector.result().to_dict()
    )


def test_what_stops_early_keeps_an_order_that_is_independent_of_scores(
    profile: ExampleProfile,
) -> None:
    scores = table(14)
    method = Adaptive(confidence=0.95)
    known, unknown = (
        selector_of(scores, 10, method=method, profile=given)
        for given in (profile, None)
    )
    first = play(known, scores)[:20], play(unknown, scores)[:20]
    assert [example for _, example in first[0]] == [example for _, example in first[1]]


def test_studies_keep_the_profile(profile: ExampleProfile, tmp_path) -> None:
    scores = table(15)
    whole = play(selector_of(scores, profile=profile), scores)
    url = f"sqlite:///{tmp_path / 'study.db'}"
    asked = []
    asktell.Study.create(url, "s", selector_of(scores, profile=profile)).close()
    for _ in range(200):
        with asktell.Study.open(url, "s") as study:
            trial = study.worker("w").ask()
            if trial is None:
                break
            arm = int(str(trial.prompt_id)[1:])
            asked.append((arm, trial.example))
            study.tell(trial, [scores[arm, trial.example]])
    assert asked == whole
    with asktell.Study.open(url, "s") as study:
        assert study.selector.state.problem.examples.profile == profile
        assert ExampleProfile.of(study).metrics == ("right",)


def test_profiles_that_do_not_fit_are_refused(profile: ExampleProfile) -> None:
    goal = BestFeasible("right")
    for arguments, words in (
        ({"examples": 40}, "ids"),
        ({"examples": ["a", "b"]}, "has none of the examples"),
        ({"examples": IDS, "goal": BestFeasible("other")}, "metrics"),
        ({"examples": IDS, "profile": profile.to_json()}, "ExampleProfile"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            Selector(
                ["a", "b"],
                **{"goal": goal, "budget": 4, "profile": profile, **arguments},
            )
    data = json.loads(selector_of(table(1), profile=profile).to_json())
    data["profile"]["version"] = 9
    with pytest.raises(InvalidStateError, match="version"):
        Selector.from_json(json.dumps(data))
