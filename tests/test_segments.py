"""Segments of the examples: estimates in each, goals that speak of them, and evaluations where one is in doubt."""

import json

import numpy as np
import pytest

import asktell
from asktell import Adaptive, BestFeasible, Race, Selector, at_least, maximize, minimize
from asktell.numerics.cells import Cells
from asktell.posterior.draws import ENDLESS
from asktell.posterior.segments import SegmentMeans, pairs, segment_means
from asktell.problem.examples.segments import Segments
from asktell.results.entries import PromptResult
from asktell_adapters.server.requests import NewStudy
from tests.plays import play

LABELS = ["de", "en", "fr"] * 20
WORST = BestFeasible(maximize("right", worst_segment=True))
METHODS = ["auto", "uniform", "csr", "csr-sh"]


def table(shares: list[list[float]], size: int = 20) -> np.ndarray:
    """(K, N) scores of 0 and 1 with these shares of 1 in the segments of LABELS."""
    scores = np.zeros((len(shares), size * len(shares[0])))
    for arm, row in enumerate(shares):
        for g, share in enumerate(row):
            scores[arm, g :: len(row)][: round(share * size)] = 1.0
    return scores


HARD = at_least(0.45, in_every_segment=True)
# The best mean is that of prompt 0, the best worst segment that of prompt 1.
UNEVEN = table([[1.0, 1.0, 0.1], [0.6, 0.6, 0.6], [0.3, 0.4, 0.3]])


def run(
    goal: BestFeasible,
    scores: np.ndarray,
    budget: int,
    method: object = "auto",
    seed: int = 2,
    **options: object,
) -> Selector:
    labels = (LABELS * 4)[: scores.shape[1]]
    selector = Selector(
        ["p0", "p1", "p2"][: len(scores)],
        goal,
        budget,
        method,
        len(labels),
        seed=seed,
        segments=labels,
        **options,
    )  # type: ignore[arg-type]
    play(selector, lambda trial: {"right": scores[trial.prompt_id, trial.example]})
    return selector


@pytest.mark.parametrize("method", METHODS)
def test_the_worst_segment_is_what_counts(method: str) -> None:
    assert run(BestFeasible("right"), UNEVEN, 180, method).result().best.id == 0  # type: ignore[union-attr]
    assert run(WORST, UNEVEN, 180, method).result().best.id == 1  # type: ignore[union-attr]
    every = BestFeasible("right", {"right": at_least(0.5, in_every_segment=True)})
    result = run(every, UNEVEN, 180, method).result()
    assert result.best.id == 1
    assert result.prompts[0].feasible is False


@pytest.mark.parametrize("method", ["auto", "uniform"])
def test_segments_are_known_exactly_once_all_examples_are_seen(method: str) -> None:
    selector = run(WORST, UNEVEN, 180, method, inputs="given", repeats=1)
    entry = selector.result().prompts[1]
    assert entry.evaluations == 60
    of_new = run(WORST, UNEVEN, 180, method).result().prompts[1].segments
    assert all((segment["right"][1] or 0.0) > 0.05 for segment in of_new.values())
    assert list(entry.segments) == ["de", "en", "fr"]
    for segment in entry.segments.values():
        assert segment["right"] == (pytest.approx(0.6), pytest.approx(0.0, abs=1e-9))
    assert PromptResult.from_dict(json.loads(json.dumps(entry.to_dict()))) == entry
    assert Selector.from_json(selector.to_json()).result() == selector.result()
    assert "right, worst" in str(selector.result())
    assert "worst-segment right" in str(run(WORST, UNEVEN, 20, method).result())


def test_without_a_goal_that_speaks_of_them_segments_are_told_and_change_nothing() -> (
    None
):
    with_labels, without = (
        run(BestFeasible("right"), UNEVEN, 60),
        Selector(["p0", "p1", "p2"], BestFeasible("right"), 60, "auto", 60, seed=2),
    )
    play(without, lambda trial: UNEVEN[int(trial.prompt_id), trial.example])
    told, plain = with_labels.result(), without.result()
    assert [e.segments for e in plain.prompts] == [{}] * 3
    assert all(set(e.segments) == {"de", "en", "fr"} for e in told.prompts)
    assert told.best.id == plain.best.id  # type: ignore[union-attr]
    assert [e.estimate for e in told.prompts] == [e.estimate for e in plain.prompts]


def test_minimized_metrics_are_worst_where_they_are_highest() -> None:
    goal = BestFeasible(minimize("right", worst_segment=True)).with_segments(3)
    means = np.array([[0.5, 0.2, 0.3, 0.9]])  # of all, then of the segments
    assert goal.values(means).tolist() == [[-0.9]]
    assert goal.values(means[:, :1]).tolist() == [[-0.5]]
    both = BestFeasible(
        WORST.objective, {"right": at_least(0.5, in_every_segment=True)}
    ).with_segments(3)
    assert both.by_segment == (0,)
    assert both.values(means).tolist() == [[0.2, pytest.approx(-0.3)]]


def test_evaluations_go_where_a_segment_is_in_doubt() -> None:
    """Two segments hold hundreds of right answers; whether the third is good enough decides."""
    rng = np.random.default_rng(1)
    parts = []
    for seed in range(3):
        scores = (
            rng.random((3, 240)) < np.where(np.arange(240) % 3 == 2, 0.5, 0.97)
        ).astype(float)
        selector = run(WORST, scores, 150, seed=seed)
        asked = selector.state.history.examples()[40:]
        parts.append(float((asked % 3 == 2).mean()))
    assert np.mean(parts) > 0.4


def test_the_mean_over_all_examples_has_each_segments_share() -> None:
    """Most evaluations are of the hard segment, so the mean of the recorded scores is too low."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        scores = np.tile([0.6, 0.6, 0.5], (3, 80)) + rng.normal(0, 0.03, (3, 240))
        scores[1:] -= 0.1
        selector = run(BestFeasible("right", {"right": HARD}), scores, 60, seed=seed)
        best = selector.result().best
        assert best is not None
        assert best.id == 0
        parts = [mean["right"][0] for mean in best.segments.values()]
        assert best.estimate["right"] == pytest.approx(np.mean(parts), abs=0.005)
        cells = selector.state.history
        seen = cells.scores()[cells.arms() == 0, 0]
        found.append((best.estimate["right"] - 1.7 / 3, seen.mean() - 1.7 / 3))
    of_estimate, of_seen = np.mean(found, axis=0)
    assert abs(of_estimate) < 0.01 < -of_seen


def test_means_in_segments_are_calibrated() -> None:
    """Drawn from the model: errors of estimates over their deviations have a size of about 1."""
    z_given, z_new, rng = [], [], np.random.default_rng(0)
    n_arms, n, n_segments = 12, 120, 4
    segments = Segments.of([str(i % n_segments) for i in range(n)])
    for _ in range(30):
        effects = (
            0.2 * rng.normal(size=(n_arms, 1))
            + 0.2 * rng.normal(size=n_segments)
            + 0.1 * rng.normal(size=(n_arms, n_segments))
        )
        scores = (
            effects[:, segments.of_examples]
            + 0.3 * rng.normal(size=n)
            + 0.4 * rng.normal(size=(n_arms, n))
        )
        cell = rng.permutation(n_arms * n)[: n_arms * 20]
        arms, examples = cell // n, cell % n
        cells = Cells.single(arms, examples, scores[arms, examples][:, None])
        truth = np.stack(
            [
                scores[:, segments.of_examples == g].mean(axis=1)
                for g in range(n_segments)
            ],
            axis=1,
        )
        given, new = (
            pairs(cells, 0, n_arms, segments, size, True) for size in (n, ENDLESS)
        )
        z_given.append((given.mean - truth.ravel()) / given.sd)
        z_new.append((new.mean - effects.ravel()) / new.sd)
    assert 0.8 < np.sqrt(np.mean(np.square(z_given))) < 1.25
    assert 0.7 < np.sqrt(np.mean(np.square(z_new))) < 1.3


def test_errors_in_segments_cover_the_truth() -> None:
    """The variance between three segments is hardly known: without a wider error, 90% were covered."""
    covered = []
    segments, n_arms, per_prompt = Segments.of(["a", "b", "c"] * 20), 8, 5
    for seed in range(60):
        rng = np.random.default_rng(seed)
        effects = 0.08 * rng.normal(size=3) + 0.03 * rng.normal(size=(n_arms, 1))
        arms = np.repeat(np.arange(n_arms), per_prompt)
        some = rng.permutation(60)[: per_prompt + 2]
        examples = np.concatenate(
            [rng.permutation(some)[:per_prompt] for _ in range(n_arms)]
        )
        scores = effects[arms, segments.of_examples[examples]]
        scores += 0.12 * rng.normal(size=60)[examples] + 0.12 * rng.normal(
            size=len(arms)
        )
        cells = Cells.of(arms, examples, scores[:, None], 60)
        found = segment_means(cells, n_arms, segments, ENDLESS)
        assert found is not None
        off = np.abs(found.means[:, 0] - effects)
        covered.append(np.mean(off < 1.96 * found.errors[:, 0]))
    assert 0.925 < np.mean(covered) < 0.985


def test_means_in_segments_agree_with_the_overall_mean() -> None:
    means = np.array([[[0.1, 0.5]], [[0.1, 0.5]], [[0.2, 0.4]]])
    errors = np.array([[[0.0, 0.1]], [[0.1, 0.1]], [[0.0, 0.0]]])
    sizes = np.array([30.0, 10.0])
    overall = np.array([[0.3], [0.3], [0.9]])
    found = SegmentMeans(means, errors).agreeing(overall, sizes).means
    # The known segment stays, and so does a prompt without any uncertain mean.
    np.testing.assert_allclose(found[0, 0], [0.1, 0.9])
    np.testing.assert_allclose(found[1, 0] @ sizes / 40, 0.3)
    assert found[1, 0, 0] - 0.1 == pytest.approx(3 * (found[1, 0, 1] - 0.5))
    np.testing.assert_array_equal(found[2, 0], [0.2, 0.4])


def test_of_many_prompts_each_segment_is_known_by_its_own_scores() -> None:
    segments, n_arms = Segments.of(["a", "b"] * 20), 120
    rng = np.random.default_rng(0)
    arms, examples = np.repeat(np.arange(n_arms), 40), np.tile(np.arange(40), n_arms)
    scores = rng.normal(size=(n_arms, 2))[:, segments.of_examples]
    cells = Cells.single(
        arms, examples, scores.reshape(-1, 1) + 0.1 * rng.normal(size=(len(arms), 1))
    )
    some = rng.random(len(arms)) < 0.3
    known = Cells.single(arms[some], examples[some], cells.scores[some])
    found = pairs(known, 0, n_arms, segments, 40, True).mean.reshape(n_arms, 2)
    truth = np.stack(
        [cells.scores.reshape(n_arms, 40)[:, g::2].mean(axis=1) for g in range(2)],
        axis=1,
    )
    assert np.sqrt(np.mean((found - truth) ** 2)) < 0.08


def test_over_http_segments_are_part_of_the_definition() -> None:
    request = {
        "name": "a",
        "prompts": ["p0", "p1"],
        "goal": {
            "maximize": "right",
            "worst_segment": ["right"],
            "at_least": {"right": {"bound": 0.5, "in_every_segment": True}},
        },
        "budget": 10,
        "examples": 4,
        "segments": ["de", "en", "de", "en"],
    }
    selector = NewStudy.model_validate(request).selector()
    assert selector.state.problem.examples.segments.names == ("de", "en")
    assert (
        str(selector.goal)
        == "maximize right in its worst segment subject to right >= 0.5 in every segment"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Pass segments="),
        (
            {"segments": ["de"]},
            "labels in segments is 1, but the number of examples is 60",
        ),
        ({"segments": "de"}, "must be a list with a label for each example"),
        ({"segments": [1] * 60}, "The label at position 0 is 1"),
        (
            {"segments": LABELS, "method": Race()},
            "Race does not support goals with segments",
        ),
        (
            {"segments": LABELS, "method": Adaptive(confidence=0.9)},
            "does not support goals with segments",
        ),
    ],
)
def test_segments_that_cannot_be_used_are_an_error(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(asktell.AsktellError, match=message):
        Selector(["p0", "p1"], WORST, 20, examples=60, **options)  # type: ignore[arg-type]


def test_a_column_of_a_table_will_do() -> None:
    selector = Selector(["p0", "p1"], WORST, 20, examples=60, segments=np.array(LABELS))  # type: ignore[arg-type]
    assert selector.state.problem.examples.labels == tuple(LABELS)


def test_examples_do_not_join_where_there_are_segments() -> None:
    selector = run(WORST, UNEVEN, 30)
    with pytest.raises(
        asktell.InvalidArgumentError, match="to a selection with segments"
    ):
        selector.extend(examples=3)


def test_draws_of_leads_have_the_means_and_errors_of_the_posterior() -> None:
    rng = np.random.default_rng(0)
    scores = np.clip(
        rng.normal(0.5, 0.2, (3, 60)) + 0.1 * rng.normal(size=(3, 1)), 0, 1
    )
    arms, examples = np.divmod(np.arange(180), 60)
    cells = Cells.of(arms, examples, scores.reshape(-1, 1), 60)
    segments = Segments.of(LABELS)
    means = segment_means(cells, 3, segments, ENDLESS)
    assert means is not None
    over, kinds = 2, np.array([0, 1, 1])
    of_leads = means.lead_means(0, np.array([0, 0, 1]), over, kinds)
    drawn = means.leads(0, np.array([0, 0, 1]), over, kinds)
    assert drawn.mean(axis=0) == pytest.approx(of_leads, abs=0.005)
    weights = np.zeros((3, 9))
    for row, (arm, kind) in enumerate(zip((0, 0, 1), kinds.tolist(), strict=True)):
        weights[row, 3 * arm + kind], weights[row, 3 * over + kind] = 1.0, -1.0
    # Errors of segments are wider by a fifth for graded scores
    errors = 1.2 * means.fits[0].averages(weights)[1]
    assert drawn.std(axis=0) == pytest.approx(errors, rel=0.1)
