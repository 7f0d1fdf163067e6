"""The benchmark of what is stated in worlds whose truth is known."""

import json

import numpy as np
import pytest

import asktell
from benchmarks.problems import worlds
from benchmarks.problems.table import Table
from benchmarks.selection import worlds as statements


@pytest.mark.parametrize("name", worlds.WORLDS)
def test_the_truth_of_a_world_is_the_mean_of_very_many_new_inputs(name: str) -> None:
    world = worlds.WORLDS[name](np.random.default_rng(1), 4)
    scores = worlds.cells(
        world._replace(n_examples=50_000, cluster=1, repeats=1),
        np.random.default_rng(2),
    )[:, :, 0]
    failed = np.asarray(np.isnan(scores).any(axis=2))
    if world.on_failure is None:
        means = np.nanmean(scores, axis=1)
    else:
        means = np.where(
            failed[:, :, None],
            [world.on_failure[m] for m in world.goal.metrics],
            scores,
        ).mean(axis=1)
    if world.goal.counts_failures:
        means = np.column_stack((means, failed.mean(axis=1)))
    noise = np.nanstd(scores, axis=(0, 1)).max() / np.sqrt(scores.shape[1])
    np.testing.assert_allclose(worlds.truth(world), means, atol=5 * noise, rtol=1e-3)


def test_a_cluster_shares_a_part_of_its_difficulty() -> None:
    world = worlds.clustered(np.random.default_rng(0), 400)
    rates = (
        worlds.cells(world, np.random.default_rng(0))[:, :, 0, 0]
        .mean(axis=0)
        .reshape(-1, world.cluster)
    )
    between = world.cluster * rates.mean(axis=1).var(ddof=1)
    assert between > 3 * rates.var(axis=1, ddof=1).mean()


def test_cells_of_noisy_agents_differ_when_run_again() -> None:
    world = worlds.noisy_agents(np.random.default_rng(0), 300)
    scores = worlds.cells(world._replace(n_examples=300), np.random.default_rng(0))[
        :, :, :, 0
    ]
    assert (scores[:, :, 0] != scores[:, :, 1]).mean() == pytest.approx(0.23, abs=0.02)


def test_brier_scores_by_hand() -> None:
    found = [
        statements.Chance(0.8, 1.0, 1.0),
        statements.Chance(0.4, 0.0, 0.0),
        statements.Chance(0.5, 0.0, 0.5),
    ]
    row = statements.briers(found)
    assert (row["stated"], row["said"], row["true"]) == (3, pytest.approx(1.7 / 3), 0.5)
    assert row["Brier"] == pytest.approx((0.2**2 + 0.4**2 + 0.0) / 3)
    assert row["constant"] == pytest.approx((0.25 + 0.25 + 0.0) / 3)
    assert row["bootstrap"] == pytest.approx(0.25 / 3)


def test_gains_by_hand() -> None:
    found = [
        statements.Later(1.0, 0.10, 0.04, 0.08, 0.05),
        statements.Later(1.0, 0.02, 0.02, 0.04, 0.03),
    ]
    row = statements.gains(found)
    assert (row["gain said"], row["gain true"], row["ratio"]) == (
        pytest.approx(0.03),
        pytest.approx(0.02),
        pytest.approx(1.5),
    )


def test_the_best_is_among_those_that_keep_every_bound_and_equals_share_it() -> None:
    goal = asktell.BestFeasible("accuracy", {"cost": asktell.at_most(1.0)})
    truth = statements.Truths.of(
        goal, np.array([[0.9, 1.2], [0.7, 0.9], [0.7, 1.0], [0.6, 0.1]])
    )
    assert truth.keeps.tolist() == [False, True, True, True]
    assert truth.best.tolist() == [0.0, 0.5, 0.5, 0.0]
    assert [truth.loss(answer) for answer in range(4)] == [
        0.0,
        0.0,
        0.0,
        pytest.approx(0.1),
    ]
    none = statements.Truths.of(goal, np.array([[0.9, 1.2], [0.7, 1.9]]))
    assert not none.best.any()
    assert none.loss(1) == 0.0


def test_of_a_table_half_of_the_examples_are_given_and_the_others_are_the_truth() -> (
    None
):
    scores = np.random.default_rng(0).random((6, 40, 3))
    table = Table("models/any", ("a", "b", "c"), scores, tuple("uvwxyz"))
    for seed, (objective, bounded) in enumerate([(0, 1), (1, 0)]):
        drawn = statements.of_table(table, statements.Task(table.name, 4, 3, seed))
        assert (drawn.goal.metrics, drawn.family) == (
            ("ab"[objective], "ab"[bounded]),
            "models, report",
        )
        assert drawn.cells.shape == (4, 20, 1, 2)
        prompts = [
            int(
                np.flatnonzero((scores[:, :, objective] == row[0, 0, 0]).any(axis=1))[0]
            )
            for row in drawn.cells
        ]
        given = [
            int(np.flatnonzero(scores[prompts[0], :, objective] == x)[0])
            for x in drawn.cells[0, :, 0, 0]
        ]
        others = np.setdiff1d(np.arange(40), given)
        assert len(others) == 20
        for j, metric in enumerate((objective, bounded)):
            np.testing.assert_array_equal(
                drawn.cells[:, :, 0, j], scores[prompts][:, given, metric]
            )
            np.testing.assert_allclose(
                drawn.truth[:, j], scores[prompts][:, others, metric].mean(axis=1)
            )


@pytest.fixture(scope="module")
def saved() -> statements.Saved:
    task = statements.Task("median limit", 4, 5, 0)
    made = {**task._asdict(), **statements.run(statements.of_world(task), 5, 0)}
    again: statements.Saved = json.loads(json.dumps(made))
    return again


def test_what_a_run_states_is_held_against_its_truth(saved: statements.Saved) -> None:
    """All numbers are again those of the result and of the truth, by other means."""
    result = asktell.Selector.from_json(saved["selector"]).result()
    stated, truth, answer = (
        statements.state(saved),
        np.array(saved["truth"]),
        int(result.selected[0].id),
    )
    for j, metric in enumerate(("accuracy", "brevity")):
        rows = stated.estimates[metric]
        off = [
            (entry.estimate[metric] or 0.0) - truth[i, j]
            for i, entry in enumerate(result.prompts)
        ]
        errors = [entry.standard_error[metric] or 0.0 for entry in result.prompts]
        assert rows[:, 0].tolist() == [entry.evaluations for entry in result.prompts]
        np.testing.assert_allclose(rows[:, 1], np.divide(off, saved["scales"][j]))
        assert rows[:, 2].tolist() == [
            abs(x) <= 1.96 * error for x, error in zip(off, errors, strict=True)
        ]
        assert np.flatnonzero(rows[:, 4]).tolist() == [answer]
    bound = result.goal.constraints[0].bound
    keeps = truth[:, 1] >= bound
    assert keeps.sum() == 2  # the bound parts the prompts in halves
    assert stated.keeps == keeps[answer]
    best = truth[keeps, 0].max()
    assert stated.is_best == (keeps[answer] and truth[answer, 0] == best)
    assert stated.loss == (
        result.verdict.loss,
        result.verdict.loss_95,
        max(0.0, best - truth[answer, 0]),
    )
    assert stated.p_best is not None
    assert stated.p_best.said == result.prompts[answer].p_best
    said = {each.evaluations: each.loss for each in result.verdict.outlook}
    for later, n, later_answer in zip(
        stated.later, (10, 20, 40), saved["answers"][1:], strict=True
    ):
        assert (later.said_now, later.said) == (result.verdict.loss, said[n])
        assert later.after == pytest.approx(max(0.0, best - truth[later_answer, 0]))


def test_rows_by_hand(saved: statements.Saved) -> None:
    """Two runs with made-up statements."""
    one = statements.state(saved)
    rows = np.array([[1, 0.1, 1, 0.0, 0], [2, -0.3, 0, 0.5, 0], [12, 0.2, 1, 1.0, 1]])
    first = one._replace(
        estimates={"accuracy": rows}, action="none", some_keep=True, keeps=False, loss=(0.1, 0.2, 0.3),
        contenders=(0.5, False), leads=[statements.Lead(True, None), statements.Lead(False, False)],
    )  # fmt: skip
    doubtful = statements.Chance(0.4, 0.5, 0.0)
    second = first._replace(
        estimates={"accuracy": rows[:1]}, action="take", p_feasible=doubtful, is_best=0.0, loss=(0.1, 0.2, 0.1),
        contenders=(0.25, True), leads=[statements.Lead(None, True)],
    )  # fmt: skip
    row = statements.estimates([first, second])
    assert (row["prompts"], row["within"], row["bias"]) == (
        4,
        0.75,
        pytest.approx(0.025),
    )
    assert (row["1"], row["2-3"], row["10+"]) == (
        [1.0, pytest.approx(0.1)],
        [0.0, -0.3],
        [1.0, 0.2],
    )
    assert row["weakest 1/3"][0] == 1.0
    assert row["selected"] == [1.0, 0.2]
    assert statements.losses([first, second])["holds"] == 0.5
    none = statements.nones([first, second])
    assert (none["constrained"], none['"none" said'], none["though some keep"]) == (
        2,
        1,
        1.0,
    )
    actions = statements.actions([first, second])
    assert (actions["take"], actions["below 1/2"], actions["of them infeasible"]) == (
        1,
        1,
        1.0,
    )
    assert statements.contenders([first, second])["hold the best"] == 0.5
    compared = statements.comparisons([first, second])
    assert (compared["pairs"], compared["interval holds"], compared["decided"]) == (
        3,
        0.5,
        2,
    )
    assert compared["wrong, of all pairs"] == pytest.approx(1 / 3)


def test_runs_are_kept_and_the_report_prints_every_table(
    tmp_path: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [
        "worlds",
        "--runs",
        str(tmp_path),
        "--worlds",
        "ties",
        "costs",
        "--seeds",
        "1",
        "--json",
        f"{tmp_path}/numbers",
    ]
    monkeypatch.setattr("sys.argv", words)
    statements.main()
    printed = capsys.readouterr().out
    assert printed.startswith("Suite small: 5 runs of 2 worlds")
    monkeypatch.setattr(statements, "run", None)  # which is not called again
    statements.main()
    assert capsys.readouterr().out == printed
    with open(f"{tmp_path}/numbers") as file:
        numbers = json.load(file)
    monkeypatch.setattr(
        "sys.argv", [*words, "--overview", "--against", f"{tmp_path}/numbers"]
    )
    statements.main()
    overview = capsys.readouterr().out.splitlines()
    before = [i for i, line in enumerate(overview) if line.startswith("| - before")]
    assert before
    assert all(
        overview[i].split("|")[2:] == overview[i - 1].split("|")[2:] for i in before
    )
    assert all(f"{title}\n" in printed or f"{title}:" in printed for title in numbers)
