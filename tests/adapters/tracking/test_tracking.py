"""What is tracked, and when: by one that keeps what it is given."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import asktell
from asktell.testing.fakes import Table
from asktell_adapters.tracking import core
from asktell_adapters.tracking.core import Extent, Moment, SelectionKey, Tracker
from tests.plays import new_selector, random_table


class Kept(Tracker):
    """What was tracked, in a list that outlives the tracker, as a tracking server does."""

    def __init__(self, kept: list[object], **options: object) -> None:
        super().__init__(**{"interval": 0.0, **options})  # type: ignore[arg-type]
        self.kept = kept
        self.fail_at: set[int] = set()
        self.closed: list[str] = []
        self.calls = 0

    def _open(self, selection: SelectionKey) -> Extent:
        self.selection = selection
        reached = [item for item in self.kept if isinstance(item, Extent)]
        return reached[-1] if reached else Extent()

    def _write(self, moment: Moment, since: Extent) -> Iterator[Extent]:
        tracked = since
        for evaluation in moment.evaluations(since.evaluations):
            self.calls += 1
            if self.calls in self.fail_at:
                raise ConnectionError("the server is down")
            tracked = tracked._replace(evaluations=evaluation.number)
            self.kept += [evaluation, tracked]
            yield tracked
        self.kept += [*moment.decisions(since.decisions), moment.extent]
        yield moment.extent

    def _finish(self, moment: Moment) -> None:
        self.kept.append(moment.result)

    def _close(self, error: BaseException | None) -> None:
        self.closed.append(repr(error))

    def of(self, kind: type) -> list[object]:
        return [item for item in self.kept if isinstance(item, kind)]


def evaluate(table: Table) -> Callable[[str, int | None], object]:
    return lambda prompt, example: table(prompt, example)


@pytest.fixture
def table() -> Table:
    return random_table(6, 10)


@pytest.mark.parametrize("interval", [0.0, 1e9])
def test_everything_is_tracked_once(interval: float, table: Table) -> None:
    selector = new_selector(table, "csr", budget=30)
    tracker = Kept([], interval=interval)
    with tracker:
        result = asktell.run(selector, evaluate(table), progress=False, on_tell=tracker)
    evaluations = tracker.of(core.LoggedEvaluation)
    assert [one.number for one in evaluations] == list(range(1, result.spent + 1))
    history = selector.state.history
    assert [one.prompt for one in evaluations] == history.arms().tolist()
    assert [one.example for one in evaluations] == history.examples().tolist()
    assert [
        list(one.scores.values()) for one in evaluations
    ] == history.scores().tolist()
    decisions = tracker.of(core.Decision)
    left = {
        prompt: (status, one.round)
        for one in decisions
        for prompt, status, _ in one.departures
    }
    assert left == {entry.id: (entry.status, entry.round) for entry in result.prompts}
    assert decisions[-1].active == 0
    for status in ("accepted", "rejected"):
        counted = sum(one.numbers()[f"decision/{status}"] for one in decisions)
        assert counted == sum(entry.status == status for entry in result.prompts) > 0
    assert [one.active for one in decisions] == sorted(
        (one.active for one in decisions), reverse=True
    )
    assert tracker.of(asktell.Result) == [result]


def test_a_resumed_selection_goes_on_where_it_was(table: Table) -> None:
    kept: list[object] = []
    selector = new_selector(table, "csr", budget=30)
    tracker = Kept(kept, name="mine")
    for _ in range(17):
        trial = selector.ask()
        selector.tell(trial, table(trial.prompt, trial.example))
        tracker(selector, trial)  # and no end: the process is killed
    again = asktell.Selector.from_json(selector.to_json())
    with Kept(kept, name="mine") as tracker:
        asktell.run(again, evaluate(table), progress=False, on_tell=tracker)
    assert [one.number for one in tracker.of(core.LoggedEvaluation)] == list(
        range(1, again.spent + 1)
    )
    assert len(tracker.of(core.Decision)) == sum(
        1 for _, one in again.state.decisions if one.departures
    )


def test_a_study_is_tracked_by_one_of_its_workers(table: Table, tmp_path: Path) -> None:
    with asktell.Study.create(
        tmp_path / "study.db", "one", new_selector(table, "csr", budget=30)
    ) as study:
        for _ in range(4):  # by another worker, that is not tracked
            trial = study.worker("other").ask()
            study.worker("other").tell(trial, table(trial.prompt, trial.example))
        with Kept([]) as tracker:
            asktell.run(study, evaluate(table), progress=False, on_tell=tracker)
        assert tracker.selection.name == "one"
        assert len(tracker.of(core.LoggedEvaluation)) == study.spent
        with Kept([]) as watcher:  # or by a process that evaluates nothing
            watcher(study)
        assert len(watcher.of(core.LoggedEvaluation)) == study.spent


def test_an_error_is_a_warning_once_and_nothing_is_lost(
    table: Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "_SHARE", 0)  # a look after each evaluation
    tracker = Kept([])
    tracker.fail_at = {3, 4, 5}
    with caplog.at_level(logging.WARNING), tracker:
        result = asktell.run(
            new_selector(table, "csr", budget=30),
            evaluate(table),
            progress=False,
            on_tell=tracker,
        )
    assert result.done
    assert [one.number for one in tracker.of(core.LoggedEvaluation)] == list(
        range(1, result.spent + 1)
    )
    warnings = [
        record.getMessage()
        for record in caplog.records
        if "Kept" in record.getMessage()
    ]
    assert len(warnings) == 1
    assert "the server is down" in warnings[0]


def test_everything_failed(table: Table) -> None:
    def never(prompt: str, example: int | None) -> float:
        raise ConnectionError

    with Kept([]) as tracker:
        selector = new_selector(table, "uniform", budget=12)
        asktell.run(
            selector, never, progress=False, on_tell=tracker, max_failures_in_a_row=None
        )
    assert tracker.closed == ["EvaluatorError('Every evaluation failed.')"]
    with Kept([]) as tracker:
        asktell.run(
            new_selector(table, "uniform", budget=12),
            evaluate(table),
            progress=False,
            on_tell=tracker,
        )
    assert tracker.closed == ["None"]


def test_the_selection_so_far_and_its_numbers(table: Table) -> None:
    selector = new_selector(table, "uniform", budget=60)
    tracker = Kept([])
    tracker(selector)
    trial = selector.ask()
    selector.fail(trial, "no", cost=2.0)
    moment = Moment(selector.state, selector.result())
    numbers = moment.progress()
    assert numbers["progress/failures"] == 1
    assert numbers["progress/spent_cost"] == 2.0
    assert numbers["progress/active"] == 6
    trial = selector.ask()
    selector.tell(trial, table(trial.prompt, trial.example))
    columns, rows = Moment(selector.state, selector.result()).prompts()
    assert all(len(row) == len(columns) for row in rows)
    assert rows[0][columns.index("selected")] is True
    assert sum(row[columns.index("evaluations")] for row in rows) == 1
