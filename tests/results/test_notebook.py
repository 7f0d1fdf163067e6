"""A result in a notebook, and as frames."""

from html import escape
from html.parser import HTMLParser
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, ParetoSet, Selector
from tests.plays import play

pandas = pytest.importorskip("pandas")

HOSTILE = '</td><script>alert(1)</script>" onload="x'


def told(goal: Any, **options: Any) -> Selector:
    prompts = {"a": "be brief", HOSTILE: f"be long {HOSTILE}", "c": "be there"}
    selector = Selector(prompts, goal, 12, examples=6, **options)
    while trial := selector.ask():
        if trial.id == 3:
            selector.fail(trial, "no answer")
        else:
            selector.tell(
                trial,
                [len(trial.prompt) % 7 + (trial.example or 0) / 9] * len(goal.metrics),
                cost=0.5,
            )
    return selector


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        self.found.append(tag)
        self.attributes |= {name for name, _ in attributes}


@pytest.mark.parametrize(
    "goal",
    [
        BestFeasible("s"),
        BestFeasible("s", {"t": 1.0}),
        ParetoSet("s", "t"),
        ParetoSet("s"),
    ],
)
def test_a_notebook_shows_a_table(goal: Any) -> None:
    result = told(goal, baseline="a").result()
    page = result._repr_html_()
    tags = Tags(page)
    assert tags.found.count("table") == 1
    assert "script" not in tags.found
    assert not any(name.startswith("on") for name in tags.attributes)
    assert str(result.selected[0].evaluations) in page
    assert "\\n" not in page  # a line is a paragraph
    empty = Selector(["a", "b"], goal, 3).result()._repr_html_()
    assert empty.startswith("<div>")
    assert "not told apart" not in empty  # from what?


def test_markdown_shows_every_prompt_without_markup_of_prompts() -> None:
    selector = Selector({"a|b": "Say *yes* to @you"}, BestFeasible("s"), 3)
    assert "| a\\|b |" in selector.result().to_markdown()
    play(selector, lambda trial: [trial.id / 3])
    result = selector.result()
    headline, progress, table, *_ = result.to_markdown().split("\n\n")
    assert headline.startswith("**")
    assert headline.endswith("**")
    assert "3 of 3 evaluations" in progress
    head, line, row = table.splitlines()
    assert head.startswith("| id |  | s | ")
    assert line == "|" + "---|" * (head.count("|") - 1)
    assert row.startswith("| a\\|b | \\* | ")
    assert row.endswith("| Say \\*yes\\* to @\u200byou |")


def test_a_row_takes_one_line_if_the_text_of_the_prompt_can_be_cut() -> None:
    prompts = {"a": "Summarize the document. " * 9, "b": "Answer briefly. " * 9}
    selector = Selector(prompts, BestFeasible("s", {"t": 1.0}), 6)
    play(selector, lambda trial: [trial.id / 3, 2.0])
    lines = selector.result().table(100).splitlines()
    rows = [line for line in lines if line.startswith(("   a ", "*  a ", "?  a "))]
    assert len(rows) == 1
    assert rows[0].endswith("...")
    assert max(map(len, lines[1:4])) <= 100


def test_the_verdict_comes_first_and_nothing_is_said_twice() -> None:
    result = told(BestFeasible("s"), baseline="a").result()
    page = result._repr_html_()
    assert page.startswith(
        f"<div><p><strong>{escape(result.verdict.sentence)}</strong></p>"
    )
    for line in (result.verdict.sentence, *result.notes, result.sentence):
        assert line is None or page.count(escape(line)) == 1
    for check in result.checks:
        assert page.count(escape(check.sentence)) == 1
    assert "What could go wrong" in page


@pytest.mark.parametrize("goal", [BestFeasible("s"), ParetoSet("s", "<t>")])
def test_a_comparison_is_a_table_with_a_sentence(goal: Any) -> None:
    found = told(goal).result().compare(HOSTILE, "a")
    page = found._repr_html_()
    tags = Tags(page)
    assert tags.found.count("table") == 1
    assert tags.found.count("tr") == 1 + len(goal.metrics)
    assert "script" not in tags.found
    assert tags.attributes == set()
    for metric, difference in found.differences.items():
        assert f"{difference.verdict} in {escape(metric)}" in page
        assert f"<td>{difference.estimate:+.3g}</td>" in page
        assert f"<td>{difference.pairs}</td>" in page
    apart = Selector(["x", "y"], goal, 4, examples=2)
    assert "undecided in s" in apart.result().compare("x", "y")._repr_html_()


def test_prompts_as_a_frame() -> None:
    result = told(ParetoSet("s", "status")).result()
    frame = result.to_dataframe()
    assert frame["id"].tolist() == ["a", HOSTILE, "c"]
    assert frame["metric status"].tolist() == [
        e.estimate["status"] for e in result.prompts
    ]
    assert frame["s error"].tolist() == [e.standard_error["s"] for e in result.prompts]
    assert frame["status"].tolist() == [e.status for e in result.prompts]
    assert set(frame.loc[frame["selected"], "id"]) == {e.id for e in result.selected}
    assert frame["p_best"].tolist() == [e.p_best for e in result.prompts]


def test_evaluations_of_a_selector_as_a_frame() -> None:
    selector = told(BestFeasible("s"))
    frame = selector.evaluations().to_dataframe()
    assert list(frame.columns) == [
        "trial",
        "prompt",
        "example",
        "example_id",
        "s",
        "cost",
        "error",
        "answer",
    ]
    assert len(frame) == selector.spent + 1
    (failed,) = frame[frame["s"].isna()].to_dict("records")
    assert (failed["trial"], failed["error"]) == (3, "no answer")
    for trial, score in zip(frame["trial"], frame["s"], strict=True):
        if trial != 3:
            assert selector.state.history.scores_of(int(trial)) == (score,)


def test_evaluations_of_a_study_have_costs_and_answers() -> None:
    with asktell.Study.create(
        "memory://frames",
        "s",
        Selector(["a", "b"], BestFeasible(asktell.maximize("cost")), 3, examples=4),
    ) as study:
        trial = study.ask()
        study.tell(trial, [0.5], cost=0.25, details={"output": "an answer"})
        (row,) = study.evaluations().to_dataframe().to_dict("records")
        assert (row["metric cost"], row["cost"], row["answer"], row["example"]) == (
            0.5,
            0.25,
            "an answer",
            trial.example,
        )
        assert row["example_id"] is None
        (evaluation,) = study.evaluations()
        assert evaluation.answer == "an answer"


def test_frames_of_evaluations_name_examples_and_go_on_after_what_is_known() -> None:
    selector = Selector(["a", "b"], BestFeasible("s"), 4, examples=["first", "second"])
    with asktell.Study.create("memory://frames", "named", selector) as study:
        for _ in range(3):
            trial = study.ask()
            study.tell(trial, 0.5, details={"output": f"of {trial.id}"})
        frame = study.evaluations().to_dataframe()
        assert [("first", "second")[e] for e in frame["example"]] == list(
            frame["example_id"]
        )
        assert [e.trial for e in study.evaluations(after=2)] == list(frame["trial"])[2:]
        assert list(study.evaluations(after=3)) == []
        with pytest.raises(asktell.InvalidArgumentError, match="after"):
            study.evaluations(after=-1)


def test_half_surrogate_pairs_are_escaped_in_data_frames() -> None:
    """A response that was cut off may have half of an emoji."""
    pytest.importorskip("pandas")
    half = "\ud83d"
    goal = asktell.BestFeasible("acc", subject_to={f"cost{half}": asktell.at_most(1)})
    selector = asktell.Selector(
        {f"a{half}": f"A{half}", "b": "B"}, goal, 6, examples=[f"e{half}", "f", "g"]
    )
    selector.fail(selector.ask(), f"no number in {half}")
    play(selector, lambda _: [0.5, 0.5])
    selector.retire(f"a{half}", f"why {half}")
    frame = selector.evaluations().to_dataframe()
    assert "no number in \\ud83d" in set(frame["error"])
    assert "e\\ud83d" in set(frame["example_id"])
    assert "cost\\ud83d" in frame.columns
    frame = selector.result().to_dataframe()
    assert set(frame["id"]) == {"a\\ud83d", "b"}
    assert set(frame["prompt"]) == {"A\\ud83d", "B"}
    assert "why \\ud83d" in set(frame["reason"])
    for text in (frame.to_csv(), frame.to_html(), frame.to_json()):
        assert text.encode()
