"""Labels over sleeps, kills, edits and mistakes: none is lost, changed, or recorded for something else."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest
import urllib3

from asktell import (
    ConfigError,
    InvalidArgumentError,
    InvalidStateError,
    Study,
    StudyNotFoundError,
)
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.label import in_folder, labelings
from asktell_adapters.cli.main import main
from asktell_adapters.config import load_config
from asktell_adapters.server import labeling as labels
from asktell_adapters.server.labeling import Labeling, Responses
from tests.adapters.labels.conftest import (
    PROMPTS,
    RECORDED,
    SCALE,
    LabelProject,
    LabelServer,
    N,
    Raters,
    give_all,
)
from tests.times import wait_for

DAY = 86400.0


class Clock:
    """The time of the storage, which jumps while the process sleeps."""

    def __init__(self) -> None:
        self.slept = 0.0

    def __call__(self) -> float:
        return time.time() + self.slept


def outputs(made: Raters) -> list[tuple[str, str]]:
    """Every recorded response with its label, in the order of texts. A few are asked for twice."""
    told = made.told()
    assert all(each.error is None for each in told)
    return sorted((each.details["output"], each.details["label"]) for each in told)


def label_one(labeling: Labeling, name: str, choice: int) -> str:
    """Label the item on the screen; its response."""
    screen = labeling.next(name)
    assert screen["state"] == "item", screen
    labeling.label(name, screen["item"], choice, 1.0)
    return str(screen["responses"][0])


# Sleeps


def test_a_sleep_loses_no_label_and_shows_nothing_twice(
    raters: Callable[..., Raters],
) -> None:
    clock = Clock()
    made = raters(budget=30)
    labeling = made.open(storage=made.storage(clock))
    given = []
    for _ in range(5):
        for name in ("ann", "bob"):
            for choice in (0, 2):
                text = label_one(labeling, name, choice)
                given.append((text, ("No", "Partly", "Yes")[choice]))
        clock.slept += 20 * DAY
    # Somebody new asks first after the last sleep
    given.append((label_one(labeling, "cy", 1), "Partly"))
    with Study.open(made.folder / "study.db", "s") as study:
        assert {each.attempt for each in study.workers()} == {1}
    labeling.close()
    assert outputs(made) == sorted(given)
    with Study.open(made.folder / "study.db", "s") as study:
        assert not study.selector.state.failures
        assert not study.pending


def test_what_is_held_is_renewed_without_any_request(
    raters: Callable[..., Raters], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "_SECONDS_BETWEEN_BEATS", 0.0)
    clock = Clock()
    made = raters()
    labeling = made.open(storage=made.storage(clock))
    labeling.next("ann")
    clock.slept += 20 * DAY
    with Study.open(made.folder / "study.db", "s") as study:
        now = clock()
        wait_for(
            lambda: all(
                (h.seconds_left or 0) + time.time() > now for h in study.workers()
            ),
            20,
        )
        assert {h.worker for h in study.workers()} == {"rater ann"}


def test_after_a_night_without_a_server_others_get_none_of_the_items(
    raters: Callable[..., Raters],
) -> None:
    clock = Clock()
    made = raters(budget=20)
    labeling = made.open(storage=made.storage(clock))
    given = [(label_one(labeling, "ann", choice), choice) for choice in (0, 1, 2)]
    shown = labeling.next("ann")
    unseen = labeling.next("dora")  # who has given no label
    again = made.after_a_kill()
    clock.slept += 20 * DAY
    after = again.open(storage=again.storage(clock))
    for name in ("bob", "cy"):
        for _ in range(2):
            given.append((label_one(after, name, 1), 1))
    for name, screen in (("ann", shown), ("dora", unseen)):
        after.label(name, screen["item"], 2, 1.0)
        given.append((screen["responses"][0], 2))
    with Study.open(again.folder / "study.db", "s") as study:
        assert {each.attempt for each in study.workers()} == {1}
    after.close()
    assert outputs(again) == sorted(
        (text, ("No", "Partly", "Yes")[choice]) for text, choice in given
    )


def test_after_a_restart_a_label_waits_for_its_item(
    raters: Callable[..., Raters], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The page still shows an item, and the new process gets it back after others
    made = raters()
    labeling = made.open()
    labeling.next("ann")
    wait_for(lambda: n_held(made, "rater ann") == 4, 20)
    again = made.after_a_kill()
    with Study.open(again.folder / "study.db", "s") as study:
        trials = sorted(trial.id for trial in study.pending)
    prepared = Labeling._prepared

    def prepared_late(self: Labeling, rater: Any, trial: Any) -> Any:
        time.sleep(0.2)
        return prepared(self, rater, trial)

    monkeypatch.setattr(Labeling, "_prepared", prepared_late)
    after = again.open()
    token = after._token(after._known_rater("ann"), f"t{trials[-1]}")
    screen = after.label("ann", token, 2, 1.0)
    assert screen["said"] == ""
    after.close()
    assert [evaluation.details["label"] for evaluation in again.told()] == ["Yes"]


def test_items_of_raters_who_do_not_come_back_are_for_others(
    raters: Callable[..., Raters], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = raters(budget=4)
    labeling = made.open()
    labeling.next("ann")  # holds all four
    wait_for(lambda: n_held(made, "rater ann") == 4, 20)
    again = made.after_a_kill()
    after = again.open(hold_at_end=0.1)
    assert after.next("bob")["state"] == "wait"
    monkeypatch.setattr(labels, "_IDLE", 0.2)
    wait_for(lambda: after.next("bob")["state"] == "item", 20)
    monkeypatch.setattr(labels, "_IDLE", 900.0)
    assert give_all(after, "bob") == 4
    wait_for(lambda: after.next("bob")["state"] == "done", 20)
    assert after.next("ann")["state"] == "done"


def n_held(made: Raters, worker: str) -> int:
    with Study.open(made.folder / "study.db", "s") as study:
        return sum(each.worker == worker for each in study.workers())


# Edits between two sessions


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        ('{ "Yes" = 1, "Partly" = 0.5, "No" = 0 }', "'label.scale' was .*No.* and is .*Yes"),
        ('{ "No" = 0, "Yes" = 1 }', "'label.scale' was"),
        ('{ "No" = 0.1, "Partly" = 0.5, "Yes" = 1 }', "'label.scale' was"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["folder", "url"])
def test_another_scale_is_refused(
    project: LabelProject, where: str, edited: str, message: str
) -> None:
    at = Sessions(project, where)
    with at.open(RECORDED) as labeling:
        label_one(labeling, "ann", 2)
    before = at.files()
    with pytest.raises(InvalidArgumentError, match=message):
        at.open(RECORDED.replace(SCALE.removeprefix("scale = "), edited)).__enter__()
    assert at.files() == before
    with at.open(RECORDED) as labeling:
        assert labeling.next("ann")["given"] == 1


@pytest.mark.parametrize("where", ["folder", "url"])
def test_other_responses_under_the_same_name_are_refused(
    project: LabelProject, where: str
) -> None:
    at = Sessions(project, where)
    with at.open(RECORDED) as labeling:
        label_one(labeling, "ann", 2)
    original = [dict(row) for row in project.rows]
    project.rows[41]["response"] = "of another model"
    project.rows[43]["judge"] = 9
    before = at.files()
    message = "2 of the recorded responses have changed. The first is that of the prompt 'secret-long' on the example "
    with pytest.raises(InvalidArgumentError, match=message):
        at.open(RECORDED).__enter__()
    assert at.files() == before
    # The same responses under another name, and more of them, are no other responses.
    project.rows = original + [
        {**row, "prompt": "secret-new", "response": f"new {row['response']}"}
        for row in original[:40]
    ]
    with at.open(RECORDED) as labeling:
        assert labeling.next("ann")["given"] == 1
    # The addition is kept from then on
    project.rows[-1]["response"] = "changed"
    with pytest.raises(InvalidArgumentError, match="1 of the recorded responses"):
        at.open(RECORDED).__enter__()


class Sessions:
    """`asktell label` and `asktell serve --label`, without their pages."""

    def __init__(self, project: LabelProject, where: str) -> None:
        self.project = project
        self.url = f"sqlite:///{project.folder}/studies.db" if where == "url" else None

    @contextmanager
    def open(self, label: str) -> Iterator[Labeling]:
        config = self.project.write(label)
        if self.url is not None:
            with labelings([config], self.url) as found:
                yield found["run"]
        else:
            loaded = load_config(config)
            with in_folder(loaded, RunFolder(loaded.output)) as labeling:
                yield labeling

    def files(self) -> dict[str, bytes]:
        """The content of the run's files that people or restarts rely on."""
        folder = self.project.folder / "run"
        return {
            path.name: path.read_bytes()
            for path in folder.iterdir()
            if path.name in ("labels.jsonl", "run.json")
        }


def test_a_saved_label_is_read_by_its_name(raters: Callable[..., Raters]) -> None:
    made = raters()
    labeling = made.open()
    given = [label_one(labeling, "ann", 2), label_one(labeling, "ann", 0)]
    again = made.after_a_kill()
    assert made.task.options[0].label == "No"
    again.task = replace(made.task, options=made.task.options[::-1])
    again.open().close()
    assert outputs(again) == sorted(zip(given, ("Yes", "No"), strict=True))
    other = made.after_a_kill()
    other.task = replace(made.task, options=made.task.options[:2])
    with pytest.raises(InvalidStateError, match="has the label 'Yes', but"):
        other.open()


def test_gold_rows_are_known_by_their_content(raters: Callable[..., Raters]) -> None:
    made = raters(f'{RECORDED}\ngold = "gold.jsonl"\ngold_every = 2')
    labeling = made.open()
    # "Yes" to both, of which one is right
    give_all(labeling, "ann", choice=2, most=6)
    before = labeling.ratings()
    assert (before[0].gold, before[0].agreed) == (2, 1)
    again = made.after_a_kill()
    again.task = replace(made.task, gold=made.task.gold[::-1])
    assert again.open().ratings() == before
    fewer = made.after_a_kill()
    right = [row for row in made.task.gold if row.label == 2]
    fewer.task = replace(made.task, gold=tuple(right))
    (rating,) = fewer.open().ratings()
    assert (rating.labels, rating.gold, rating.agreed) == (before[0].labels, 1, 1)


# Other studies and files


def test_a_journal_of_another_study_is_refused(raters: Callable[..., Raters]) -> None:
    made = raters()
    labeling = made.open()
    label_one(labeling, "ann", 2)
    again = made.after_a_kill()
    with Study.open(again.folder / "study.db", "s") as study:
        study.export(again.folder / "s.jsonl")
    Study.delete(again.folder / "study.db", "s")
    again.create()
    before = (again.folder / "labels.jsonl").read_bytes()
    with pytest.raises(InvalidStateError, match="has the labels of another study"):
        again.open()
    assert (again.folder / "labels.jsonl").read_bytes() == before
    assert again.told() == []
    # A copy of the study is the same study
    Study.delete(again.folder / "study.db", "s")
    Study.import_(again.folder / "study.db", again.folder / "s.jsonl").close()
    again.open().close()
    assert [label for _, label in outputs(again)] == ["Yes"]


def test_a_service_at_another_url_refuses_the_labels(project: LabelProject) -> None:
    config = project.write(RECORDED)
    first, second = (f"sqlite:///{project.folder}/{name}.db" for name in "ab")
    with labelings([config], first) as found:
        label_one(found["run"], "ann", 2)
    with (
        pytest.raises(InvalidStateError, match="has the labels of another study"),
        labelings([config], second),
    ):
        pass
    assert not (project.folder / "b.db").exists()
    Study.delete(first, "run")
    with (
        pytest.raises(InvalidStateError, match="has the labels of another study"),
        labelings([config], first),
    ):
        pass
    assert Study.names(first) == []
    (project.folder / "run" / "labels.jsonl").rename(project.folder / "old.jsonl")
    with labelings([config], first) as found:
        assert found["run"].next("ann")["given"] == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one line without its end",
        '{"id": 1, "label": "Yes"}\n{"id": 2, "label": "No"}',
        "[]\n",
        '{"format":"asktell.labels"}\n',
        '{"format":"asktell.labels","version":1,"key":"00","stu',
        '{"format":"asktell.labels","version":1,"key":"zz","study":"s"}\n',
        '{"format":"asktell.labels","version":1,"key":"00","study":7}\n',
        '{"format":"asktell.labels","version":2,"key":"00","study":"s"}\n',
        "[" * 4000,
    ],
)
@pytest.mark.parametrize("where", ["folder", "url"])
def test_a_file_of_the_users_own_is_left_unchanged(
    project: LabelProject, where: str, text: str
) -> None:
    at = Sessions(project, where)
    path = project.folder / "run" / "labels.jsonl"
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o644)
    with pytest.raises(InvalidStateError, match="is not a journal of labels, version"):
        at.open(RECORDED).__enter__()
    assert [file.name for file in path.parent.iterdir()] == ["labels.jsonl"]
    assert not (project.folder / "studies.db").exists()
    assert path.read_text() == text
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "{}",
        '{"do":"label","rater":"ann","item":"t1"}',
        '{"do":"label","rater":"ann","item":"t1","label":1,"response":"x","seconds":1}',
        '{"do":"dance","rater":"ann","item":"t1"}',
        '{"do":"skip","rater":"ann","item":"first"}',
        '{"do":"skip","rater":"ann","item":7}',
        "[" * 4000,
    ],
)
def test_a_damaged_journal(raters: Callable[..., Raters], line: str) -> None:
    made = raters()
    labeling = made.open()
    label_one(labeling, "ann", 2)
    again = made.after_a_kill()
    path = again.folder / "labels.jsonl"
    n_lines = len(path.read_text().splitlines())
    with path.open("a") as file:
        file.write(line + "\n")
    before = path.read_bytes()
    with pytest.raises(InvalidStateError, match=f"line {n_lines + 1} is not an entry"):
        again.open()
    assert path.read_bytes() == before


def test_a_journal_without_the_response_of_a_label(
    raters: Callable[..., Raters],
) -> None:
    made = raters()
    labeling = made.open()
    label_one(labeling, "ann", 2)
    again = made.after_a_kill()
    path = again.folder / "labels.jsonl"
    lines = path.read_text().splitlines()
    path.write_text(
        "".join(f"{line}\n" for line in lines if '"response","item"' not in line)
    )
    with pytest.raises(InvalidStateError, match="lacks the response that the label of"):
        again.open()


# The responses that labels are about


def test_a_label_keeps_its_response_and_nothing_is_made_twice(
    raters: Callable[..., Raters],
) -> None:
    made = raters(budget=40)
    calls: list[int] = []

    def respond(trial: Any) -> Responses:
        calls.append(trial.id)
        return Responses((f"response {len(calls)}",), {}, 0.5)

    made.task = replace(made.task, respond=respond)
    labeling = made.open()
    labeling.next("bob")
    wait_for(lambda: len(calls) == 4, 20)
    given = [label_one(labeling, "ann", 2) for _ in range(3)]
    shown = labeling.next("ann")
    wait_for(lambda: len(calls) == 11, 20)
    again = made.after_a_kill()

    def broken(trial: Any) -> Responses:
        raise RuntimeError("LLM down")

    again.task = replace(made.task, respond=broken)
    after = again.open()
    # Everything that was made before can be labeled
    screen = after.label("ann", shown["item"], 2, 1.0)
    given.append(shown["responses"][0])
    while screen["state"] == "item":
        given.append(screen["responses"][0])
        screen = after.label("ann", screen["item"], 2, 1.0)
    wait_for(lambda: after.next("ann")["state"] == "failed", 20)
    # Those of another rater, too
    screen = after.next("bob")
    while screen["state"] == "item":
        given.append(screen["responses"][0])
        screen = after.label("bob", screen["item"], 2, 1.0)
    assert screen["state"] == "failed"
    after.close()
    scored = [each for each in again.told() if each.error is None]
    assert sorted(each.details["output"] for each in scored) == sorted(given)
    assert len(given) == 11
    assert {each.cost for each in scored} == {0.5}


def test_a_crash_of_the_machine_that_loses_the_asks_loses_no_label(
    raters: Callable[..., Raters],
) -> None:
    """The study's asks are not synced, but labels are. So a study may lack the trials of labels."""
    made = raters(budget=12)
    shutil.copytree(made.folder, made.folder / "before")
    labeling = made.open()
    given = [label_one(labeling, name, 2) for name in ("ann", "ann", "bob")]
    again = made.after_a_kill()
    for path in again.folder.glob("study.db*"):
        path.unlink()
    for path in (made.folder / "before").glob("study.db*"):
        shutil.copy(path, again.folder)
    after = again.open()
    screen, n = after.next("cy"), 0
    while screen["state"] == "item":
        n += 1
        screen = after.label("cy", screen["item"], 0, 1.0)
    after.close()
    assert n == 12
    assert len(again.told()) == 12
    cells = {(str(each.prompt), each.example) for each in again.told()}
    for text in given:
        k, j = divmod(int(text.split()[1]), N)
        cells.add((PROMPTS[k], j))
    for _ in range(2):
        with Study.open(again.folder / "study.db", "s") as study:
            entries = study.result().prompts
            assert sum(each.evaluations for each in entries) == len(cells) > 12
            assert study.spent == 12
        # The journal says that they are recorded
        again.open().close()


def test_the_end_does_not_wait_for_an_llm(raters: Callable[..., Raters]) -> None:
    made = raters()
    reached, ends = Event(), Event()
    calls: list[int] = []

    def respond(trial: Any) -> Responses:
        calls.append(trial.id)
        if len(calls) > 2:
            reached.set()
            ends.wait()
        return Responses((f"response {trial.id}",))

    made.task = replace(made.task, respond=respond)
    labeling = made.open()
    text = label_one(labeling, "ann", 2)
    assert reached.wait(20)
    # It would wait for ever
    closing = Thread(target=labeling.close, daemon=True)
    closing.start()
    closing.join(20)
    assert not closing.is_alive()
    ends.set()
    assert outputs(made) == [(text, "Yes")]
    with Study.open(made.folder / "study.db", "s") as study:
        assert study.pending == []
    wait_for(lambda: all(t.name != "labels" for t in threading.enumerate()), 20)
    assert outputs(made) == [(text, "Yes")]


# Growth


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["add", "run.toml", "new=Be kind"], "A prompt alone"),
        (["extend", "run.toml", "--examples", "secret-x99"], "An example alone"),
        (["add", "run", "new=Be kind"], "A prompt alone"),
    ],
)
def test_what_has_no_recorded_response_is_not_added(
    project: LabelProject,
    words: list[str],
    what: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = Sessions(project, "folder")
    monkeypatch.chdir(project.folder)
    with at.open(RECORDED) as labeling:
        label_one(labeling, "ann", 2)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert what in error
    assert "`asktell label` again" in error
    assert main(["extend", "run.toml", "--evaluations", "5"]) == 0
    with Study.open(project.folder / "run" / "study.db", "run") as study:
        assert len(study.selector.prompts) == 3
        assert study.budget == 17


def test_examples_that_were_appended_with_their_responses(
    project: LabelProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = Sessions(project, "folder")
    monkeypatch.chdir(project.folder)
    with at.open(RECORDED) as labeling:
        label_one(labeling, "ann", 2)
    project.inputs.append("input 40")
    project.rows += [
        {"prompt": prompt, "example": "secret-x40", "response": prompt, "judge": 1}
        for prompt in PROMPTS
    ]
    config = project.write(RECORDED)
    assert main(["extend", str(config), "--examples"]) == 0
    with at.open(RECORDED) as labeling:
        assert labeling.next("ann")["given"] == 1
    project.rows[-1]["response"] = "changed"
    with pytest.raises(InvalidArgumentError, match="1 of the recorded responses"):
        at.open(RECORDED).__enter__()


def test_a_study_with_a_prompt_without_responses_is_not_served(
    project: LabelProject,
) -> None:
    at = Sessions(project, "url")
    with at.open(RECORDED) as labeling:
        label_one(labeling, "ann", 2)
    assert at.url is not None
    with Study.open(at.url, "run") as study:
        study.add({"new": "Be kind"})
    with pytest.raises(ConfigError, match=r"of the prompt 'new' .*asktell retire"):
        at.open(RECORDED).__enter__()
    assert main(["retire", at.url, "run", "new", "--reason", "no responses"]) == 0
    with at.open(RECORDED) as labeling:
        assert labeling.next("ann")["given"] == 1


# Errors


def test_a_label_that_cannot_be_recorded_stops_no_other(
    raters: Callable[..., Raters], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = raters()
    labeling = made.open()
    given = [label_one(labeling, name, 2) for name in ("ann", "ann", "bob", "cy")]
    tell = Study._tell

    def failing(self: Study, tells: Any) -> Any:
        if any((each.details or {}).get("output") == given[2] for each in tells):
            raise IndexError("tuple index out of range")
        return tell(self, tells)

    monkeypatch.setattr(Study, "_tell", failing)
    labeling.close()
    monkeypatch.undo()
    assert outputs(made) == sorted((text, "Yes") for text in given[:2] + given[3:])
    made.open().close()
    assert outputs(made) == sorted((text, "Yes") for text in given)


def test_a_deleted_study_takes_no_labels(raters: Callable[..., Raters]) -> None:
    made = raters()
    labeling = made.open()
    label_one(labeling, "ann", 2)
    item = labeling.next("ann")["item"]
    Study.delete(made.folder / "study.db", "s")
    before = (made.folder / "labels.jsonl").read_bytes()
    for call in (
        lambda: labeling.label("ann", item, 2, 1.0),
        lambda: labeling.next("ann"),
        lambda: labeling.skip("ann", item),
        lambda: labeling.undo("ann"),
        lambda: labeling.again("ann"),
    ):
        with pytest.raises(StudyNotFoundError, match="'s' was deleted, so nothing"):
            call()
    labeling.close()
    assert (made.folder / "labels.jsonl").read_bytes() == before


def test_a_second_label_of_an_item_is_answered_with_the_first(
    raters: Callable[..., Raters],
) -> None:
    labeling = raters().open()
    item = labeling.next("ann")["item"]
    screen = labeling.label("ann", item, 2, 1.0)
    other = labeling.label("ann", item, 0, 1.0)
    assert 'You gave this item the label "Yes" before' in other["said"]
    assert "undo it first" in other["said"]
    assert (other["item"], other["given"]) == (screen["item"], 1)
    assert labeling.label("ann", item, 2, 1.0)["said"] == ""
    assert 'the label "Yes"' in labeling.skip("ann", item)["said"]
    labeling.label("ann", screen["item"], 1, 1.0)
    late = labeling.label("ann", item, 0, 1.0)["said"]
    assert 'the label "Yes" before' in late
    assert "no longer be undone" in late
    assert labeling.label("ann", item, 2, 1.0)["said"] == ""
    skipped = labeling.next("ann")["item"]
    labeling.skip("ann", skipped)
    assert labeling.skip("ann", skipped)["said"] == ""
    assert "no longer yours" in labeling.label("ann", skipped, 0, 1.0)["said"]


def test_a_second_label_in_a_comparison_is_named_as_on_the_page(
    raters: Callable[..., Raters],
) -> None:
    label = 'compare = true\nresponses = "responses.jsonl"'
    labeling = raters(label, top='baseline = "secret-short"', budget=12).open()
    for choice in (0, 1, 2) * 3:
        item = labeling.next("ann")["item"]
        labeling.label("ann", item, choice, 1.0)
        words = ("A is better", "B is better", "Equally good")[choice]
        assert words in labeling.label("ann", item, (choice + 1) % 3, 1.0)["said"]


# What the token of raters opens


def test_a_rater_gets_no_trial_of_a_worker_of_the_same_name(
    raters: Callable[..., Raters],
) -> None:
    made = raters(budget=8)
    with Study.open(made.folder / "study.db", "s") as study:
        held = study.worker("gpu-1").ask(4)
        labeling = made.open()
        assert give_all(labeling, "gpu-1") == 4
        assert {each.worker for each in study.workers() if each.trial in held} == {
            "gpu-1"
        }


def test_names_that_were_used_up_are_free_again(
    raters: Callable[..., Raters], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "_MOST_RATERS", 3)
    labeling = raters(budget=40).open()
    label_one(labeling, "ann", 2)
    labeling.next("b1")
    labeling.next("b2")
    with pytest.raises(InvalidArgumentError, match="There are 3 raters already"):
        labeling.next("bob")
    monkeypatch.setattr(labels, "_IDLE", 0.1)

    def is_in() -> bool:
        try:
            return bool(labeling.next("bob"))
        except InvalidArgumentError:
            return False

    wait_for(is_in, 20)
    monkeypatch.setattr(labels, "_IDLE", 900.0)
    names = {each.rater for each in labeling.ratings()}
    assert {"ann", "bob"} <= names


_ENDLESS = """
from threading import Event

from asktell_adapters.evaluators import Completion, ScriptedLLM

calls = []

def answers():
    def answer(request):
        calls.append(request)
        if len(calls) > 2:
            Event().wait()
        return Completion(f"response {len(calls)}", 9, 3)
    return ScriptedLLM(answer, "answers")
"""


@pytest.mark.skipif(os.name == "nt", reason="no such signal")
def test_ctrl_c_ends_the_process_while_an_llm_responds(
    project: LabelProject, serve_labels: Callable[..., LabelServer]
) -> None:
    (project.folder / "endless_labels.py").write_text(_ENDLESS)
    more = (
        '[prompts]\ntexts = { a = "Be brief", b = "Be long" }\n'
        '[model]\nloader = "endless_labels:answers"\n'
        "[metrics]\nbrevity = { low = 1, high = 9 }\n"
        '[cache]\nfile = "cache.db"\n'
    )
    server = serve_labels(project.write(SCALE, more=more))

    def send(what: str, **body: Any) -> Any:
        sent = urllib3.request(
            "POST", f"{server.url}/{what}", json={"rater": "ann", **body}
        )
        return sent.json()

    item = send("next")["item"]
    assert send("tell", item=item, choice=2)["given"] == 1
    server.process.send_signal(signal.SIGINT)
    out, errors = server.process.communicate(timeout=60)
    assert (server.process.returncode, errors) == (0, "")
    assert "1 of 12 evaluations" in out
