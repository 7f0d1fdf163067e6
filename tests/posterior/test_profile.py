"""Profiles: of which studies, merged, forgotten, saved, and what they say."""

import json

import numpy as np
import pytest

import asktell
from asktell import ExampleProfile, InvalidArgumentError, InvalidStateError, Selector
from tests.plays import play

IDS = tuple(f"example {j}" for j in range(12))


def table(seed: int, n_arms: int = 20) -> np.ndarray:
    """0/1 scores: the first four examples divide prompts, four are easy, four are hard."""
    rng = np.random.default_rng(seed)
    ability = np.linspace(-2, 2, n_arms)[rng.permutation(n_arms)]
    chance = np.empty((n_arms, 12))
    chance[:, :4] = 1 / (1 + np.exp(-2 * ability[:, None]))
    chance[:, 4:8], chance[:, 8:] = 0.97, 0.03
    return (rng.random(chance.shape) < chance).astype(float)


def study(
    seed: int, scores: np.ndarray | None = None, b: int = 8, ids: tuple[str, ...] = IDS
) -> Selector:
    scores = table(seed) if scores is None else scores
    prompts = [f"prompt {i} of {seed}" for i in range(len(scores))]
    selector = Selector(
        prompts,
        asktell.BestFeasible("right"),
        b * len(scores),
        "uniform",
        examples=ids,
        seed=seed,
    )
    play(selector, lambda trial: [scores[int(trial.prompt_id), trial.example]])
    return selector


def test_examples_that_divide_come_first() -> None:
    profile = ExampleProfile.of(study(1), study(2), study(3))
    found = profile.examples("right")
    assert {one.id for one in found[:4]} == set(IDS[:4])
    assert all(one.tells > 1 >= other.tells for one in found[:4] for other in found[4:])
    by_id = {one.id: one for one in found}
    assert by_id[IDS[5]].level > 0.85
    assert by_id[IDS[9]].level < 0.15
    assert sum(one.cells for one in found) == 3 * 160


def test_more_studies_make_it_surer() -> None:
    one, many = (ExampleProfile.of(*map(study, range(n))) for n in (1, 8))
    assert np.mean([e.level_error for e in many.examples("right")]) < 0.7 * np.mean(
        [e.level_error for e in one.examples("right")]
    )


def test_merging_is_the_same_as_making_it_of_all() -> None:
    studies = [study(1), study(2, ids=tuple(reversed(IDS))), study(3)]
    whole = ExampleProfile.of(*studies)
    merged = ExampleProfile.merged(*map(ExampleProfile.of, studies))
    assert merged.studies == whole.studies == 3
    assert merged.ids == whole.ids == IDS
    for one, other in zip(
        whole.examples("right"), merged.examples("right"), strict=True
    ):
        assert one[0] == other[0]
        assert one[1:] == pytest.approx(other[1:], rel=1e-4)
    in_steps = ExampleProfile.merged(
        ExampleProfile.of(*studies[:2]), ExampleProfile.of(studies[2])
    )
    for one, other in zip(
        whole.examples("right"), in_steps.examples("right"), strict=True
    ):
        assert one[1:] == pytest.approx(other[1:], rel=1e-4)


def test_examples_that_only_one_study_has_are_kept() -> None:
    profile = ExampleProfile.merged(
        ExampleProfile.of(study(1)),
        ExampleProfile.of(study(2, ids=tuple(f"other {j}" for j in range(12)))),
    )
    assert len(profile.ids) == 24
    assert sum(one.cells for one in profile.examples("right")) == 320


def test_half_life_weighs_by_how_many_studies_came_later() -> None:
    studies = [study(1), study(2), study(3)]
    cells = sum(
        one.cells for one in ExampleProfile.of(*studies, half_life=1).examples("right")
    )
    assert cells == pytest.approx(160 * (1 + 1 / 2 + 1 / 4))
    # A profile of two studies is as old as what came after it.
    merged = ExampleProfile.merged(
        ExampleProfile.of(*studies[:2]), ExampleProfile.of(studies[2]), half_life=1
    )
    assert sum(one.cells for one in merged.examples("right")) == pytest.approx(
        160 * (2 / 2 + 1)
    )


def test_half_life_follows_what_changed() -> None:
    before, after = table(1), table(2)[:, ::-1]
    old, new = [study(s, before) for s in range(4)], study(9, after)
    faithful = {e.id: e.level for e in ExampleProfile.of(*old, new).examples("right")}
    forgetful = {
        e.id: e.level
        for e in ExampleProfile.of(*old, new, half_life=0.5).examples("right")
    }
    truth = dict(zip(IDS, after.mean(axis=0), strict=True))
    off = [
        np.mean([abs(one[id_] - truth[id_]) for id_ in IDS])
        for one in (faithful, forgetful)
    ]
    assert off[1] < 0.6 * off[0]


def test_json_brings_back_the_same_profile_without_texts() -> None:
    profile = ExampleProfile.of(study(1), study(2))
    text = profile.to_json()
    assert ExampleProfile.from_json(text) == profile
    assert ExampleProfile.from_json(text).to_json() == text
    assert "prompt 3" not in text


def test_adaptive_studies_with_failures_and_repeats_tell_too() -> None:
    scores = table(4)
    selector = Selector(
        [f"p{i}" for i in range(20)],
        asktell.BestFeasible("right"),
        100,
        examples=IDS,
        seed=1,
        repeats=3,
    )
    selector.observe("p0", [1.0])  # of no example
    n = 0
    while trial := selector.ask():
        n += 1
        if n % 10 == 0:
            selector.fail(trial, "no")
        else:
            selector.tell(trial, [scores[int(trial.prompt_id), trial.example]])
    assert sum(one.cells for one in ExampleProfile.of(selector).examples("right")) > 0


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_metric_that_never_varies_tells_nothing(value: float) -> None:
    profile = ExampleProfile.of(study(1, np.full((5, 12), value)))
    assert {(e.level, e.loading, e.tells) for e in profile.examples("right")} == {
        (value, 0.0, 1.0)
    }
    assert profile.shape("right", IDS) is None
    # Together with one that varies it still counts.
    assert (
        ExampleProfile.merged(profile, ExampleProfile.of(study(2))).shape("right", IDS)
        is not None
    )


def test_shape_is_in_units_of_the_mean_example() -> None:
    shape = ExampleProfile.of(study(1), study(2)).shape("right", IDS)
    assert shape.shift.mean() == pytest.approx(0.0, abs=1e-12)
    for column in shape[1:4]:
        assert column.mean() == pytest.approx(1.0)
    assert (shape.example > 0).all()
    assert (shape.residual > 0).all()


def test_a_profile_of_other_examples_or_metrics_tells_nothing() -> None:
    profile = ExampleProfile.of(study(1))
    assert profile.shape("right", ["unknown", "strange"]) is None
    assert profile.shape("wrong", IDS) is None
    with pytest.raises(InvalidArgumentError, match="has no metric 'wrong'"):
        profile.examples("wrong")


def test_what_is_no_study_is_refused() -> None:
    nameless = Selector(["a", "b"], asktell.BestFeasible("right"), 4, examples=5)
    fresh = Selector(["a", "b"], asktell.BestFeasible("right"), 4, examples=IDS)
    for given, words in ((nameless, "have ids"), (fresh, "no scores"), (3, "got 3")):
        with pytest.raises(InvalidArgumentError, match=words):
            ExampleProfile.of(given)
    with pytest.raises(InvalidArgumentError, match="at least one"):
        ExampleProfile.of()
    with pytest.raises(InvalidArgumentError, match="half_life"):
        ExampleProfile.of(study(1), half_life=0)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(format="x"),
        lambda d: d.update(version=2),
        lambda d: d.update(studies=0),
        lambda d: d["examples"].pop(),
        lambda d: d["metrics"]["right"]["sums"].pop("n"),
        lambda d: d["metrics"]["right"]["sums"].update(n=[-1.0] * 12),
        lambda d: d["metrics"]["right"]["sums"].update(y=["a"] * 12),
        lambda d: d["metrics"]["right"]["sums"].update(aa=[0.0] * 12),
        lambda d: d["metrics"]["right"]["sums"].update(yy=[0.1] * 12),
        lambda d: d["metrics"]["right"].update(ability=-1),
        lambda d: d["metrics"]["right"].update(binary=1),
    ],
)
def test_malformed_profiles_are_refused(change) -> None:
    data = json.loads(ExampleProfile.of(study(1)).to_json())
    change(data)
    with pytest.raises(InvalidStateError):
        ExampleProfile.from_json(json.dumps(data))
    with pytest.raises(InvalidStateError):
        ExampleProfile.from_json(json.dumps(data)[:-9])
