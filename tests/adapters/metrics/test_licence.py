"""A judge's licence: its intervals, its file, and what it covers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from asktell import InvalidArgumentError
from asktell_adapters.evaluators import Completion, ScriptedLLM
from asktell_adapters.metrics import Criterion, Judge, Shot
from asktell_adapters.metrics.licence import (
    ACCURACY,
    KAPPA,
    PARTS,
    Licence,
    Licensing,
    Share,
    favored,
    grade_of,
    kappa_interval,
    passing,
    scale_of,
    weighted_kappa,
)

ASSETS = Path(__file__).parents[2] / "assets"
YES_OR_NO = (0.0, 1.0)
GRADES = (1.0, 2.0, 3.0, 4.0, 5.0)
DIGESTS = dict.fromkeys(PARTS, "0")


def of(
    labels: Any, grades: Any, scale: tuple[float, ...] = YES_OR_NO, **options: Any
) -> Licence:
    return Licence.measured("strict", "m", DIGESTS, labels, grades, scale, **options)


def judge(model: str = "m", **options: Any) -> Judge:
    criteria = options.pop("criteria", {"right": "It is right."})
    llm = ScriptedLLM(lambda request: Completion("{}"), model)
    return Judge(llm, criteria, **options)


def test_an_accuracy_by_hand() -> None:
    labels = [1.0] * 6 + [0.0] * 4
    grades = [1.0] * 5 + [0.0] + [0.0] * 2 + [1.0] + [None]
    licence = of(labels, grades, date="2026-01-31")
    # Without a grade, the judge is wrong: here, it passes what people fail
    assert licence.agreement == 0.7
    assert (licence.false_passes[:2], licence.false_fails[:2]) == ((2, 4), (1, 6))
    assert (licence.failures, licence.labels, licence.pass_at) == (1, 10, 1.0)
    low, high = stats.binomtest(7, 10).proportion_ci(0.95, "exact")
    assert (licence.low, licence.high) == pytest.approx((low, high))
    assert licence.sentence.startswith("agrees with people on 70% of 10 labeled resp")
    assert "(95% interval 34.8% to 93.3%, 2026-01-31)" in licence.sentence
    assert licence.errors.startswith("It passes 2 of the 4 responses that people fail")
    assert licence.errors.endswith("It gave no grade to 1 of them, which count as the worst disagreement.")  # fmt: skip


def test_a_judge_chosen_among_several_has_a_wider_interval() -> None:
    labels = [1.0, 0.0] * 50
    grades = [1.0, 0.0] * 45 + [0.0, 1.0] * 5
    alone, chosen = (of(labels, grades, candidates=n) for n in (1, 12))
    low, high = stats.binomtest(90, 100).proportion_ci(1 - 0.05 / 12, "exact")
    assert (chosen.low, chosen.high) == pytest.approx((low, high))
    assert chosen.low < alone.low < alone.agreement == chosen.agreement
    assert "chosen among 12 judges" in chosen.sentence
    assert "chosen" not in alone.sentence


def test_a_weighted_kappa_by_hand() -> None:
    labels, grades = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 5.0]
    # Distances: 1 / 4 on average, and 26 / 16 if pairs are drawn at random
    by_chance = np.abs(np.subtract.outer(labels, grades)).mean()
    assert weighted_kappa(labels, grades) == pytest.approx(1 - 0.25 / by_chance)
    assert weighted_kappa(labels, labels) == 1.0
    licence = of(labels, grades, GRADES, measure=KAPPA)
    assert licence.low < licence.agreement < licence.high
    assert "with a weighted kappa of 0.83" in licence.sentence


def test_a_few_labels_on_which_all_agree_prove_little() -> None:
    labels = [1.0, 2.0, 3.0, 4.0, 5.0]
    low, high = kappa_interval(labels * 4, labels * 4, 0.05)
    assert (0.5 < low < 0.85, high) == (True, 1.0)
    assert kappa_interval(labels * 40, labels * 40, 0.05)[0] > 0.97
    assert kappa_interval([1, 2], [1, 2], 0.05) == (-1.0, 1.0)
    assert Share.counted(0, 20, 0.05)[2:] == pytest.approx((0.0, 0.168), abs=1e-3)
    assert Share.counted(20, 20, 0.05)[2:] == pytest.approx((0.832, 1.0), abs=1e-3)


def test_the_bounds_of_kappa_hold_as_often_as_they_say() -> None:
    rng, wrong = np.random.default_rng(0), 0
    everyone = rng.choice(5, 200_000) + 1.0
    blunders = rng.random(len(everyone)) < 0.05
    judged = np.where(blunders, rng.integers(1, 6, len(everyone)), everyone)
    drawn = rng.permutation(judged)
    truth = 1 - np.abs(everyone - judged).mean() / np.abs(everyone - drawn).mean()
    for _ in range(300):
        rows = rng.integers(0, len(everyone), 100)
        low, high = kappa_interval(everyone[rows], judged[rows], 0.05)
        wrong += not low <= truth <= high
    assert wrong <= 15 + 3 * 3.8


def test_a_judge_that_reads_nothing_is_called_so() -> None:
    labels = [1.0] * 19 + [0.0]
    assert "A judge that passes every response would agree on 95%" in of(labels, [1.0] * 20).blind  # fmt: skip
    assert "A judge that fails every response" in of([1.0 - x for x in labels], [0.0] * 20).blind  # fmt: skip
    assert of([1.0, 0.0] * 50, [1.0, 0.0] * 50).blind == ""


def test_a_judge_that_favors_a_prompt_is_found() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300).astype(float)
    grades = np.where(rng.random(300) < 0.1, 1 - labels, labels)
    prompts = [f"p{i % 5}" for i in range(300)]
    is_of_p1 = np.array([prompt == "p1" for prompt in prompts])
    assert favored(prompts, labels.tolist(), grades.tolist()) == {}
    kind = np.where(is_of_p1, 1.0, grades)
    found = favored(prompts, labels.tolist(), kind.tolist())
    assert (list(found), 0.2 < found["p1"] < 0.6) == (["p1"], True)
    licence = of(labels.tolist(), kind.tolist(), prompts=prompts)
    assert 'not grade the responses of all prompts alike: "p1" (+0.' in licence.favors
    assert licence.favors in Licensing(licence).remark("q", DIGESTS)[0]
    # A prompt with better responses is not favored
    better = [1.0 if i % 5 == 1 else x for i, x in enumerate(labels.tolist())]
    right = np.where(rng.random(300) < 0.1, 1 - np.array(better), better)
    assert favored(prompts, better, right.tolist()) == {}
    assert favored(["a"] * 300, labels.tolist(), kind.tolist()) == {}


@pytest.mark.parametrize(("prompts", "n"), [(2, 40), (5, 100), (30, 300)])
def test_a_judge_that_favors_nobody_is_seldom_said_to(prompts: int, n: int) -> None:
    rng, runs = np.random.default_rng(prompts), 150
    flagged = 0
    for _ in range(runs):
        names = [f"p{i}" for i in rng.integers(0, prompts, n)]
        # Prompts differ in quality, and the judge in its errors by label
        labels = (rng.random(n) < np.array([len(name) % 2 for name in names]) * 0.4 + 0.3).astype(float)  # fmt: skip
        wrong = rng.random(n) < np.where(labels > 0, 0.05, 0.3)
        flagged += bool(favored(names, labels.tolist(), np.where(wrong, 1 - labels, labels).tolist()))  # fmt: skip
    assert flagged / runs < 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5


def test_grades_and_scales() -> None:
    assert scale_of(1, 5, False) == GRADES
    assert scale_of(0, 1, True) == (0.0, 0.5, 1.0)
    # In the middle between two grades, it is the lower one
    assert [grade_of(x, GRADES) for x in (1, 3.5, 3.51, 4.2, 5)] == [1, 3, 4, 4, 5]
    assert grade_of(1 / 3 + 1 / 6, YES_OR_NO) == 0.0
    assert [passing(s) for s in (YES_OR_NO, GRADES, (1.0, 2.0, 3.0, 4.0))] == [1, 4, 3]


@pytest.mark.parametrize(
    ("labels", "options", "words"),
    [
        ([], {}, "There are no labels"),
        ([1.0] * 9, {}, "All 9 labels pass .*would agree with all of them"),
        ([0.0] * 9, {}, "All 9 labels fail"),
        ([3.0] * 9, {"measure": KAPPA}, "All 9 labels are 3"),
    ],
)
def test_labels_of_one_kind_are_refused(
    labels: list[float], options: Any, words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        of(labels, labels, GRADES if options else YES_OR_NO, **options)


def test_the_file_is_read_as_it_was_written_and_names_no_response(
    tmp_path: Path,
) -> None:
    path = tmp_path / "judge.json"
    labels = [1.0, 0.0] * 50
    for licence in (
        of(labels, labels, cost=0.01, candidates=3),
        of([1.0, 3.0, 5.0] * 9, [1.0, 3.0, 4.0] * 9, GRADES, measure=KAPPA),
    ):
        licence.write(path)
        assert Licence.read(path) == licence
    assert set(json.loads(path.read_text())) == {
        "format", "version", "checksum", *Licence.__dataclass_fields__,
    }  # fmt: skip


def test_a_licence_of_version_1_is_read_for_ever() -> None:
    licence = Licence.read(ASSETS / "judge-licence-v1.json")
    assert (licence.judge, licence.labels, licence.candidates) == ("strict/large", 60, 4)  # fmt: skip
    assert (licence.agreement, licence.failures, licence.cost) == (53 / 60, 1, 0.01)
    assert licence.low == pytest.approx(0.7426, abs=1e-4)


def _edited(**changes: Any) -> Callable[[str], bytes]:
    return lambda text: json.dumps({**json.loads(text), **changes}).encode()


def _sealed(**changes: Any) -> Callable[[str], bytes]:
    """An edited licence with a checksum of the edit."""

    def edit(text: str) -> bytes:
        data = {**json.loads(text), **changes}
        from asktell_adapters.metrics import licence

        return json.dumps({**data, "checksum": licence._checksum(data)}).encode()

    return edit


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda text: text[:200].encode(), "is not complete JSON"),
        (lambda text: b"", "is not complete JSON"),
        (lambda text: b"label,1\n", "is not complete JSON"),
        (lambda text: text.replace("0.9", "NaN", 1).encode(), "is not complete JSON"),
        (lambda text: b"[" * 50_000, "is not complete JSON"),
        (lambda text: b"\xff\xfe\x00", "is no judge's licence, because it is not text"),
        (lambda text: b" " * 200_000, "is no judge's licence, because it is too large"),
        (lambda text: b"[1]", 'is no judge\'s licence, because it lacks "format"'),
        (lambda text: b"{}", 'is no judge\'s licence, because it lacks "format"'),
        (_edited(version=2), "has the version 2, but this asktell reads version 1"),
        (_edited(low=0.99), "was changed after it was written"),
        (_edited(note="x"), "was changed after it was written"),
        (lambda text: text.replace('"checksum"', '"x"').encode(), "was changed after"),
        (_sealed(low="high"), r"is damaged \(TypeError: low is 'high'\)"),
        (_sealed(low=0.99), r"is damaged \(ValueError: the bounds are not in order"),
        (_sealed(digests={}), "is damaged"),
        (_sealed(measure="vibes"), "is damaged"),
        (_sealed(false_fails={"number": -1, "of": 1, "low": 0, "high": 1}), "is damaged"),
        (_sealed(false_fails={}), "is damaged"),
        (_sealed(favored={"p": "x"}), "is damaged"),
        (_sealed(favored={"p": True}), "is damaged .*favored is"),
        (_sealed(favored={"p": 10**400}), "is damaged"),
        (_sealed(labels=0), "is damaged .*labels is 0"),
        (_sealed(labels=99), "are not of all labels"),
        (_sealed(candidates=-1), "is damaged .*candidates is -1"),
        (_sealed(failures=101), "is damaged .*failures is 101"),
        (_sealed(confidence=95), "is damaged .*confidence is 95"),
        (_sealed(cost=-0.1), "is damaged .*cost is -0.1"),
        (_sealed(cost=float("inf")), "is not complete JSON"),
        (_sealed(low=-0.1), "the bounds are not in order"),
        (_sealed(date="yesterday"), "is damaged .*Invalid isoformat"),
        (_sealed(false_fails={"number": 9, "of": 5, "low": 0, "high": 1}), "false_fails is Share"),
        (_sealed(false_fails={"number": 1.5, "of": 50, "low": 0, "high": 1}), "false_fails is Share"),
        (lambda text: text.replace('"low"', '"low": 0.99, "low"', 1).encode(), "a key occurs twice in .*'low'"),
        (lambda text: text.replace("0.9,", "1e999,", 1).encode(), "was changed after it was written"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_licence_says_what_is_wrong(
    tmp_path: Path, edit: Callable[[str], bytes], words: str
) -> None:
    path = tmp_path / "judge.json"
    of([1.0, 0.0] * 50, [1.0, 0.0] * 45 + [0.0, 1.0] * 5).write(path)
    path.write_bytes(edit(path.read_text()))
    with pytest.raises(InvalidArgumentError, match=words):
        judge().licensed(path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a device")
def test_a_file_without_a_size_is_not_read_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "judge.json"
    path.symlink_to("/dev/zero")
    with pytest.raises(InvalidArgumentError, match="because it is too large"):
        Licence.read(path)
    path.unlink()
    path.symlink_to(tmp_path / "gone.json")
    assert "there is no file 'judge.json'" in judge().licensed(path).remarks()[0]
    assert "there is no file 'aaa" in judge().licensed(tmp_path / ("a" * 999)).remarks()[0]  # fmt: skip


def test_a_licence_that_was_read_is_kept_when_its_file_is_replaced(
    tmp_path: Path,
) -> None:
    path, first = tmp_path / "judge.json", judge()
    labels = [1.0, 0.0] * 50
    Licence.measured("a", "m", first.digests, labels, labels, YES_OR_NO).write(path)
    licensed = first.licensed(path, 0.9)
    words = licensed.remarks()
    of(labels, labels).write(path)
    assert licensed.remarks() == words
    assert words[1] is False
    assert first.licensed(path, 0.9).remarks()[1] is True


def test_no_file_is_no_licence_and_a_folder_is_an_error(tmp_path: Path) -> None:
    words, is_doubtful = judge().licensed(tmp_path / "no.json").remarks()
    assert is_doubtful
    assert "because there is no file 'no.json'" in words
    with pytest.raises(InvalidArgumentError, match="There is no licence"):
        Licence.read(tmp_path / "no.json")
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        Licence.read(tmp_path)


@pytest.mark.parametrize("floor", [-0.1, 1.5, float("nan"), True, "0.9"])
def test_a_floor_is_a_share(floor: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be a number from 0 to 1"):
        Licensing(None, floor)


def test_a_licence_covers_the_judge_that_was_measured_and_no_other() -> None:
    first = judge()
    licence = Licence.measured("a", "m", first.digests, [1.0, 0.0] * 50, [1.0, 0.0] * 50, YES_OR_NO)  # fmt: skip
    assert first.remarks() == ("", False)
    assert first.licensed(licence).remarks()[1] is False
    assert judge().digests == first.digests
    # What cannot change an opinion is no part of a judge
    assert judge(seed=7, name="other").digests == first.digests
    others = {
        "rubric": [
            judge(criteria={"right": "It is correct."}),
            judge(criteria={"right": Criterion("It is right.", weight=2)}),
            judge(criteria={"good": "It is right."}),
            judge(scale=(0, 1)),
            judge(instructions="{criteria} {format}"),
            judge(shots=[Shot("i", "a", {"right": 5})]),
            judge(against="old"),
        ],
        "model": [judge("n"), judge("n").of_pairs("old")],
        "settings": [judge(max_new_tokens=9), judge(reference=False), judge(temperature=0.5, n=3)],
    }  # fmt: skip
    for part, different in others.items():
        for other in different:
            words, is_doubtful = other.licensed(licence).remarks()
            assert is_doubtful
            assert part in words.split("whose ")[1]
            assert "agrees" not in words
    words = judge("n", n=2, temperature=1.0).licensed(licence).remarks()[0]
    assert "whose model and settings differ. Use" in words


def test_what_a_licence_cannot_name_is_refused() -> None:
    class Llm:
        def __init__(self, options: Any) -> None:
            self.options = options

        def complete(self, requests: Any) -> Any:
            return []

        def identity(self) -> Any:
            return {"options": self.options}

    # Two judges that differ in such a value alone would have one licence
    with pytest.raises(InvalidArgumentError, match=r"one of them is PosixPath\('/a'\)|WindowsPath"):  # fmt: skip
        assert Judge(Llm(Path("/a")), {"a": "b"}).digests
    of_numpy, of_python = (Judge(Llm({"top_k": k}), {"a": "b"}) for k in (np.int64(7), 7))  # fmt: skip
    assert of_numpy.digests == of_python.digests


def test_the_names_in_a_licence_cannot_control_a_terminal() -> None:
    labels = [1.0, 0.0] * 50
    licence = Licence.measured("a\x1b[2J\nb", "m\x07", DIGESTS, labels, labels, YES_OR_NO)  # fmt: skip
    words = Licensing(licence).remark("q", {})[0]
    assert 'It is for "a\\x1b[2J b" (m\\x07), whose' in words


def test_the_floor_is_for_the_lower_bound() -> None:
    licence = of([1.0, 0.0] * 50, [1.0, 0.0] * 45 + [0.0, 1.0] * 5)
    assert licence.agreement == 0.9
    assert 0.82 < licence.low < 0.83
    assert Licensing(licence, 0.82).remark("q", DIGESTS)[1] is False
    words, is_doubtful = Licensing(licence, 0.85).remark("q", DIGESTS)
    assert is_doubtful
    assert "The lower bound, 0.824, is below the floor of 0.85, so nothing is est" in words  # fmt: skip
    # A lower bound at the floor is not below it, and one below it is not printed as it
    assert Licensing(licence, licence.low).remark("q")[1] is False
    words, is_doubtful = Licensing(licence, 0.8238).remark("q")
    assert is_doubtful
    assert "The lower bound, 0.82378, is below the floor of 0.8238" in words
    words, is_doubtful = Licensing(licence, 0.82).remark("q")
    assert not is_doubtful
    assert "Whether the scores came from this judge cannot be checked." in words


def test_an_llm_without_a_name_cannot_be_licensed() -> None:
    class Nameless:
        def complete(self, requests: Any) -> Any:
            return []

    with pytest.raises(InvalidArgumentError, match="Nameless has no method identity"):
        assert Judge(Nameless(), {"a": "b"}).licensed(None).digests


def test_accuracy_is_the_default() -> None:
    assert of([1.0, 0.0], [1.0, 0.0]).measure == ACCURACY
