"""What raters see, what is told, and what a restart keeps."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from asktell import ConfigError, InvalidArgumentError, Study
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.label import in_folder
from asktell_adapters.cli.main import main
from asktell_adapters.config.label import Labels
from asktell_adapters.server.journal import Journal
from asktell_adapters.tables.rows import Table
from tests.adapters.labels.conftest import (
    PROMPTS,
    PROXIES,
    RECORDED,
    SCALE,
    LabelProject,
    N,
    Raters,
    give_all,
)
from tests.times import wait_for


def test_labels_become_scores(raters: Callable[..., Raters]) -> None:
    made = raters()
    labeling = made.open()
    screen = labeling.next("ann")
    seen = []
    for k in range(12):
        assert screen["state"] == "item", screen
        assert screen["given"] == k
        assert screen["left"] == 12 - k
        seen.append((screen["input"], screen["responses"][0], k % 3))
        screen = labeling.label("ann", screen["item"], k % 3, 2.5)
    assert screen["state"] != "item"
    labeling.close()
    told = made.told()
    assert len(told) == 12
    shown = {
        (f"input {e.example}", e.details["output"], int(2 * e.scores["human"]))
        for e in told
    }
    assert shown == set(seen)
    assert {e.details["rater"] for e in told} == {"ann"}
    assert {e.details["seconds"] for e in told} == {2.5}
    assert {e.details["label"] for e in told} == {"No", "Partly", "Yes"}


def test_labels_are_written_to_a_table_that_a_judge_is_chosen_by(
    project: LabelProject,
) -> None:
    config = project.load()
    folder = RunFolder(config.output)
    with in_folder(config, folder) as labeling:
        screen = labeling.next("ann")
        for k in range(5):
            screen = labeling.label("ann", screen["item"], k % 3, 2.5)
        labeling.undo("ann")
    rows = [row.values for row in Table(folder.labels_file).rows]
    assert len(rows) == 4
    assert [float(row["label"]) for row in rows] == [0.0, 0.5, 1.0, 0.0]
    recorded = {
        (row["prompt"], row["example"]): row["response"] for row in project.rows
    }
    for row in rows:
        assert row["response"] == recorded[row["prompt"], row["example"]]
        assert row["input"] == f"input {row['example'].removeprefix('secret-x')}"
        assert row["rater"] == "ann"
        assert set(row) == {"prompt", "example", "input", "response", "label", "rater"}
    with in_folder(config, folder) as labeling:
        labeling.label("ann", labeling.next("ann")["item"], 2, 2.5)
    assert len(Table(folder.labels_file).rows) == 5


def test_labels_of_pairs_have_the_other_response(project: LabelProject) -> None:
    compared = 'compare = true\nresponses = "responses.jsonl"'
    config = project.load(compared, top=f'baseline = "{PROMPTS[0]}"')
    folder = RunFolder(config.output)
    with in_folder(config, folder) as labeling:
        labeling.label("ann", labeling.next("ann")["item"], 2, 2.5)
    (row,) = (row.values for row in Table(folder.labels_file).rows)
    assert (float(row["label"]), row["prompt"] in PROMPTS[1:]) == (0.5, True)
    number = int(row["example"].removeprefix("secret-x"))
    assert row["other"] == f"response {number}"


def test_nothing_that_a_rater_gets_names_a_prompt(
    raters: Callable[..., Raters],
) -> None:
    labeling = raters(f'{RECORDED}\ngold = "gold.jsonl"\ngold_every = 4').open()
    screens = [labeling.next("ann")]
    while screens[-1]["state"] == "item":
        screens.append(labeling.label("ann", screens[-1]["item"], 0, 1.0))
    assert len(screens) > 12
    assert "secret" not in json.dumps(screens)
    # Ids are digests: they do not tell which trial, prompt or gold row it is
    for screen in screens[:-1]:
        assert set(screen) == {
            "state", "given", "left", "skipped", "undo", "said", "item", "input", "responses"
        }  # fmt: skip
        assert len(screen["item"]) == 24


def test_the_last_label_can_be_undone_and_only_it(
    raters: Callable[..., Raters],
) -> None:
    made = raters()
    labeling = made.open()
    first = labeling.next("ann")
    second = labeling.label("ann", first["item"], 2, 1.0)
    again = labeling.undo("ann")
    assert again["item"] == first["item"]
    assert not again["undo"]
    assert "no label" in labeling.undo("ann")["said"]
    after = labeling.label("ann", again["item"], 0, 1.0)
    # The next item need not be the second one: others have come meanwhile.
    assert first["item"] not in (second["item"], after["item"])
    labeling.close()
    (told,) = made.told()
    assert told.scores == {"human": 0.0}


def test_a_label_that_is_held_is_told_after_a_while(
    raters: Callable[..., Raters],
) -> None:
    made = raters()
    labeling = made.open(hold=0.3)
    screen = labeling.label("ann", labeling.next("ann")["item"], 2, 1.0)
    assert screen["undo"]
    assert made.told() == []
    wait_for(lambda: len(made.told()) == 1, 20)
    assert not labeling.next("ann")["undo"]


def test_what_is_skipped_goes_to_somebody_else(raters: Callable[..., Raters]) -> None:
    made = raters(budget=3)
    labeling = made.open(hold_at_end=0.2)
    skipped = labeling.next("ann")
    labeling.skip("ann", skipped["item"])
    assert give_all(labeling, "ann") == 2
    wait_for(lambda: labeling.next("ann")["state"] == "skipped", 20)
    screen = labeling.next("bob")
    assert screen["responses"] == skipped["responses"]
    assert screen["item"] != skipped["item"]
    labeling.label("bob", screen["item"], 1, 1.0)
    wait_for(lambda: labeling.next("ann")["state"] == "done", 20)
    assert {e.details["rater"] for e in made.told()} == {"ann", "bob"}


def test_skipped_items_can_be_seen_again(raters: Callable[..., Raters]) -> None:
    labeling = raters(budget=3).open()
    skipped = labeling.next("ann")
    labeling.skip("ann", skipped["item"])
    give_all(labeling, "ann")
    wait_for(lambda: labeling.next("ann")["state"] == "skipped", 20)
    labeling.again("ann")
    wait_for(lambda: labeling.next("ann").get("item") == skipped["item"], 20)


def test_two_raters_never_get_the_same_item(raters: Callable[..., Raters]) -> None:
    made = raters(budget=40)
    labeling = made.open(hold_at_end=0.1)
    seen: dict[str, list[str]] = {"ann": [], "bob": [], "cy": []}

    def rate(name: str) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            screen = labeling.next(name)
            if screen["state"] == "done":
                return
            if screen["state"] == "item":
                seen[name].append(screen["responses"][0])
                labeling.label(name, screen["item"], len(seen[name]) % 3, 1.0)

    threads = [Thread(target=rate, args=(name,)) for name in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [text for texts in seen.values() for text in texts]
    assert len(everything) == len(set(everything)) == 40
    assert len(made.told()) == 40
    assert all(seen.values())


def test_a_label_that_is_sent_twice_counts_once(raters: Callable[..., Raters]) -> None:
    made = raters()
    labeling = made.open()
    item = labeling.next("ann")["item"]
    first = labeling.label("ann", item, 2, 1.0)
    assert labeling.label("ann", item, 2, 1.0) == first
    labeling.label("ann", first["item"], 2, 1.0)
    late = labeling.label("ann", item, 0, 1.0)
    assert 'You gave this item the label "Yes" before' in late["said"]
    labeling.close()
    assert [e.scores for e in made.told()] == [{"human": 1.0}] * 2


def test_a_kill_loses_nothing_and_hands_nothing_out_twice(
    raters: Callable[..., Raters],
) -> None:
    made = raters()
    labeling = made.open()
    # A list, since the selector asks for a few responses twice.
    given = []
    for name in ("ann", "bob"):
        screen = labeling.next(name)
        for choice in (0, 1, 2):
            given.append((screen["responses"][0], choice / 2))
            screen = labeling.label(name, screen["item"], choice, 1.0)
    open_ = labeling.next("ann")
    again = made.after_a_kill()
    # The last line of the journal was half written.
    with (again.folder / "labels.jsonl").open("ab") as file:
        file.write(b'{"at":12,"do":"lab')
    after = again.open()
    screen = after.next("ann")
    assert screen["given"] == 3
    assert screen["undo"]
    # A page that was open during the restart sends its item.
    screen = after.label("ann", open_["item"], 2, 1.0)
    given.append((open_["responses"][0], 1.0))
    assert screen["given"] == 4
    after.close()
    told = again.told()
    assert sorted((e.details["output"], e.scores["human"]) for e in told) == sorted(
        given
    )
    assert len({e.trial for e in told}) == 7


def test_a_kill_keeps_what_was_undone_and_skipped(
    raters: Callable[..., Raters],
) -> None:
    made = raters(f'{RECORDED}\ngold = "gold.jsonl"\ngold_every = 2')
    labeling = made.open()
    give_all(labeling, "ann", most=5)
    labeling.undo("ann")
    labeling.skip("ann", labeling.next("ann")["item"])
    before = labeling.ratings()
    again = made.after_a_kill()
    after = again.open()
    assert after.ratings() == before
    assert (before[0].labels + before[0].gold, before[0].skipped) == (4, 1)


def test_gold_rows_measure_the_rater_and_are_not_told(
    raters: Callable[..., Raters],
) -> None:
    made = raters(f'{RECORDED}\ngold = "gold.jsonl"\ngold_every = 3')
    labeling = made.open()
    screen = labeling.next("ann")
    places = []
    for k in range(14):
        if screen["input"].startswith("gold"):
            places.append(k)
        screen = labeling.label("ann", screen["item"], 2, 1.0)
    assert [place // 3 for place in places] == [0, 1]
    labeling.close()
    assert not any("golden" in e.details["output"] for e in made.told())
    (rating,) = labeling.ratings()
    # One gold row is "Yes", the other "No", and ann said "Yes" to both.
    assert (rating.gold, rating.agreed, rating.shift) == (2, 1, 0.5)
    assert rating.labels == 12


def test_a_comparison_is_with_the_baseline_on_a_random_side(
    raters: Callable[..., Raters],
) -> None:
    label = 'compare = true\nresponses = "responses.jsonl"'
    made = raters(label, top='baseline = "secret-short"', budget=30)
    labeling = made.open()
    screen = labeling.next("ann")
    sides = set()
    while screen["state"] == "item":
        numbers = [int(text.split()[1]) for text in screen["responses"]]
        base = next(k for k, number in enumerate(numbers) if number < N)
        assert numbers[0] % N == numbers[1] % N
        sides.add(base)
        # secret-long wins, secret-kind loses
        is_long = numbers[1 - base] < 2 * N
        choice = 1 - base if is_long else base
        screen = labeling.label("ann", screen["item"], choice, 1.0)
    assert sides == {0, 1}
    labeling.close()
    told = made.told()
    assert len(told) == 30
    # The baseline ties with itself, which needs nobody.
    assert {(e.prompt, e.scores["human"]) for e in told} == {
        ("secret-long", 1.0),
        ("secret-kind", 0.0),
    }
    with Study.open(made.folder / "study.db", "s") as study:
        assert study.result().best.id == "secret-long"


def test_equal_responses_are_ties_that_nobody_sees(
    project: LabelProject, raters: Callable[..., Raters]
) -> None:
    for row in project.rows:
        row["response"] = f"same {row['example'].removeprefix('secret-')}"
    label = 'compare = true\nresponses = "responses.jsonl"'
    made = raters(label, top='baseline = "secret-short"', budget=5)
    labeling = made.open()
    assert labeling.next("ann")["state"] == "done"
    assert len(made.told()) == 5
    assert {e.scores["human"] for e in made.told()} == {0.5}


def test_proxies_are_told_before_anybody_labels(raters: Callable[..., Raters]) -> None:
    made = raters(RECORDED, more=PROXIES)
    made.open()
    with Study.open(made.folder / "study.db", "s") as study:
        assert study.proxies == ("judge",)
        assert len(study.selector.state.proxies) == len(PROMPTS) * N


def test_a_pause_shows(raters: Callable[..., Raters]) -> None:
    made = raters()
    with Study.open(made.folder / "study.db", "s") as study:
        study.pause()
    assert made.open().next("ann")["state"] == "paused"


def test_responses_that_cannot_be_had_fail(
    raters: Callable[..., Raters], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError("no such model")

    monkeypatch.setattr(Labels, "_replay", broken)
    made = raters()
    labeling = made.open()
    assert labeling.next("ann")["state"] == "failed"
    assert 10 <= len(made.told()) <= 14
    assert made.told()[0].error == "OSError: no such model"


@pytest.mark.parametrize("name", ["", " ", "\n", "x" * 61, "a\0b"])
def test_names_of_raters(raters: Callable[..., Raters], name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="1 to 60 printable characters"):
        raters().open().next(name)


def test_a_label_that_is_none(raters: Callable[..., Raters]) -> None:
    labeling = raters().open()
    item = labeling.next("ann")["item"]
    with pytest.raises(InvalidArgumentError, match="choice must be from 0 to 2, got 3"):
        labeling.label("ann", item, 3, 1.0)


def test_a_full_disk_loses_the_label_and_nothing_before_or_after_it(
    tmp_path: Path,
) -> None:
    """A limit on the size of files acts like a full disk: a part of the line is written."""
    resource = pytest.importorskip("resource")
    path = tmp_path / "labels.jsonl"
    journal = Journal(path, "study")
    journal.append({"do": "skip", "rater": "ann", "item": "t1"})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 9, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            journal.append({"do": "skip", "rater": "ann", "item": "t2"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    journal.append({"do": "skip", "rater": "ann", "item": "t3"})
    journal.close()
    again = Journal(path, "study")
    again.close()
    assert [entry["item"] for entry in again.entries] == ["t1", "t3"]


# The configuration


@pytest.mark.parametrize(
    ("label", "given", "message"),
    [
        ('responses = "responses.jsonl"', {}, "needs either scale = .* or compare = true"),
        (f"{RECORDED}\ncompare = true", {}, "needs either scale = .* or compare = true"),
        ('scale = { "Yes" = 1 }\nresponses = "responses.jsonl"', {}, "2 to 9 labels, and their scores must not"),
        (RECORDED, {"more": PROXIES.replace("judge", "juge")}, "'juge', which is not in responses.jsonl"),
        (RECORDED, {"goal": 'maximize = "judge"'}, "must be a metric of .goal. .*got 'human'"),
        (RECORDED, {"goal": 'maximize = "humn"'}, "'humn', which is not computed .*label. and its responses have"),
        (SCALE, {}, "needs a table .cache."),
        ('compare = true\nresponses = "responses.jsonl"', {}, "needs `baseline` at the top"),
        (RECORDED, {"more": "[model]\ntype = 'openai'\nmodel = 'm'"},  ".model. cannot be combined"),
        (RECORDED + '\ngold = "data.jsonl"', {}, "data.jsonl, line 1: The row has no column 'response'"),
    ],
)  # fmt: skip
def test_mistakes_in_the_file(
    project: LabelProject, label: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        project.load(label, **given)


def test_missing_and_repeated_responses(project: LabelProject) -> None:
    last = project.rows.pop()
    with pytest.raises(
        ConfigError,
        match=r"lacks 1 of 120 responses. The first missing response is that of .*'secret-kind'",
    ):
        project.load()
    project.rows += [last, last]
    with pytest.raises(ConfigError, match="line 121 is the second response"):
        project.load()
    project.rows = [{**row, "example": "?"} for row in project.rows]
    with pytest.raises(
        ConfigError, match=r"no row of 'responses' in .label. is about an example"
    ):
        project.load()


def test_a_gold_label_that_is_none(project: LabelProject) -> None:
    project.gold[1]["label"] = "yes"
    with pytest.raises(ConfigError, match="line 2 has the label 'yes'"):
        project.load(f'{RECORDED}\ngold = "gold.jsonl"')


def test_other_commands_say_who_gives_the_scores(
    project: LabelProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.load()
    assert main(["run", str(project.config)]) == 2
    assert "Run `asktell label" in capsys.readouterr().err


# Responses of an LLM

_LLM = """
from asktell_adapters.evaluators import Completion, ScriptedLLM

calls = []

def answers():
    def answer(request):
        calls.append(request)
        if "input 3" in str(request):
            raise OSError("overloaded")
        return Completion(f"answer to {len(calls)}", 9, 3)
    return ScriptedLLM(answer, "answers")
"""


def test_check_makes_the_response_that_people_label(
    project: LabelProject, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.folder / "scripted_labels.py").write_text(_LLM)
    project.write(
        SCALE,
        goal='maximize = "human"\nat_least = { brevity = 0.1 }',
        more='[metrics.brevity]\nlow = 0\nhigh = 9\n[prompts]\ntexts = { a = "Be brief" }\n[cache]\n'
        '[model]\nloader = "scripted_labels:answers"\n',
    )
    assert main(["check", str(project.config)]) == 0
    out = capsys.readouterr().out
    assert "answer to 1" in out
    assert "brevity" in out
    assert (
        f"This works. People give 'human'. Next: asktell label {project.config}" in out
    )

    project.load()
    assert main(["check", str(project.config)]) == 2
    assert "no LLM to check" in capsys.readouterr().err


def test_an_llm_responds_when_a_response_is_shown(
    project: LabelProject, raters: Callable[..., Raters]
) -> None:
    (project.folder / "scripted_labels.py").write_text(_LLM)
    made = raters(
        SCALE,
        more='[proxies]\nmetrics = ["brevity"]\n[prompts]\ntexts = { a = "Be brief", b = "Be long" }\n'
        '[model]\nloader = "scripted_labels:answers"\n'
        "[metrics]\nbrevity = { low = 1, high = 9 }\n"
        '[cache]\nfile = "cache.db"\n',
        budget=10,
    )
    labeling = made.open(hold_at_end=0.1)
    screen = labeling.next("ann")
    assert screen["responses"][0].startswith("answer to")
    assert give_all(labeling, "ann") == 10
    labeling.close()
    told = made.told()
    scored = [each for each in told if each.error is None]
    assert len(scored) == 10
    assert {each.error for each in told} <= {None, "OSError: overloaded"}
    with Study.open(made.folder / "study.db", "s") as study:
        # Scores of proxies come beside the labels.
        assert len(study.selector.state.proxies) == 10
