"""A user's own scheduler, estimator, allocator, rule or whole method runs in a study, as asktell's own do."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, Elimination, Selector, Study
from asktell.extend import AbstractMethod, State, events
from asktell.methods.rounds.allocators import AbstractAllocator, PullsToShare, Uniform
from asktell.methods.rounds.estimators import (
    AbstractEstimator,
    Estimates,
    Sample,
    SampleMean,
)
from asktell.methods.rounds.rules import (
    AbstractEliminationRule,
    ConstrainedRanking,
    Judgement,
)
from asktell.methods.rounds.schedulers import (
    AbstractScheduler,
    Round,
    SequentialHalving,
    Single,
)
from asktell.studies.storages.memory import MemoryStorage

SCHEDULER = '''
"""Nonlinear sequential elimination (Shahrampour, Noshad & Tarokh 2017): one prompt leaves after each round.

The k-th round evaluates each of its prompts in proportion to 1 / (K + 1 - k) ** power more often than the first.
"""

from dataclasses import dataclass

from asktell.methods.rounds.schedulers import AbstractScheduler, Round


@dataclass(frozen=True)
class NonlinearElimination(AbstractScheduler):
    power: float = 1.5

    def rounds(self, n_arms, budget, rank=None):
        sizes = range(n_arms, 1, -1)
        weights = [size**-self.power for size in sizes]
        total = weights[-1] + sum(weights)
        each = [int((budget - n_arms) * weight / total) + 1 for weight in weights]
        rounds, before = [], 0
        for size, pulls in zip(sizes, each):
            rounds.append(Round(size * max(0, pulls - before), size - 1))
            before = max(before, pulls)
        return tuple(rounds)


def method(power=1.5):
    from asktell import Elimination
    from asktell.methods.rounds.allocators import Uniform
    from asktell.methods.rounds.rules import ConstrainedRanking
    from asktell.methods.rounds.estimators import SampleMean

    return Elimination(NonlinearElimination(power), Uniform(), SampleMean(), ConstrainedRanking())
'''

WORKER = """
import sys

import asktell
from mine import method

with asktell.Study.open(sys.argv[1], "s", method=method()) as study:
    mine = study.worker(sys.argv[2])
    while trial := mine.ask():
        mine.tell(trial, len(trial.prompt) + trial.example % 3)
"""

PROMPTS = ["x" * n for n in range(1, 7)]


def selector(method: Any, budget: int = 40) -> Selector:
    return Selector(PROMPTS, BestFeasible("quality"), budget, method, examples=30)


def play(study: Study | Selector) -> None:
    while trial := study.ask():
        study.tell(trial, len(trial.prompt) + (trial.example or 0) % 3)


def test_a_scheduler_of_ones_own_runs_in_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(SCHEDULER, encoding="utf-8")
    (tmp_path / "worker.py").write_text(WORKER, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import mine  # type: ignore[import-not-found]

    url = f"sqlite:///{tmp_path / 'studies.db'}"
    with Study.create(url, "s", selector(mine.method())) as study:
        trial = study.ask()
        assert trial is not None
        study.tell(trial, len(trial.prompt) + (trial.example or 0) % 3)
        workers = [
            subprocess.Popen(
                [sys.executable, "worker.py", url, name],
                cwd=tmp_path,
                stderr=subprocess.PIPE,
            )
            for name in ("a", "b")
        ]
        for worker in workers:
            assert worker.communicate()[1] == b""
        play(study)
        alone = selector(mine.method())
        play(alone)
        assert study.result().to_dict() == alone.result().to_dict()
        assert len(study.selector.state.decisions) == 6
        assert [round_ for round_, _ in study.selector.state.left.values()] == [
            1,
            2,
            3,
            4,
            5,
            5,
        ]
        study.export(tmp_path / "study.jsonl")

    with pytest.raises(
        asktell.MissingMethodError,
        match=r"NonlinearElimination.*Study\.open\(location, name, method=",
    ):
        Study.open(url, "s")
    expected = r"It was .*NonlinearElimination\(power=1\.5\).*but method is .*NonlinearElimination\(power=2\.0\)"
    for other, match in (
        (mine.method(2.0), expected),
        (asktell.preset("csr", BestFeasible("a")), "another method"),
    ):
        with pytest.raises(asktell.InvalidStateError, match=match):
            Study.open(url, "s", method=other)
    with pytest.raises(asktell.StudyExistsError, match="method"):
        Study.create(url, "s", selector(mine.method(2.0)), exist_ok=True)
    with Study.create(url, "s", selector(mine.method()), exist_ok=True) as study:
        assert study.done
        assert len(list(study.evaluations())) == study.spent

    with pytest.raises(asktell.MissingMethodError, match="method="):
        Study.import_(url, tmp_path / "study.jsonl", "t")
    with Study.import_(
        url, tmp_path / "study.jsonl", "t", method=mine.method()
    ) as imported:
        assert imported.result().to_dict() == alone.result().to_dict()


def test_a_study_of_asktells_own_method_refuses_another_one() -> None:
    storage = MemoryStorage()
    Study.create(storage, "s", selector("csr"))
    assert (
        Study.open(storage, "s", method=asktell.preset("csr", BestFeasible("a"))).budget
        == 40
    )
    with pytest.raises(asktell.InvalidStateError, match="another method"):
        Study.open(storage, "s", method=asktell.Adaptive())


# Every kind of part


class Own(AbstractScheduler):
    """No dataclass: its attributes are its parameters, but for those that begin with an underscore."""

    def __init__(self, parts: list[float]) -> None:
        self.parts = parts
        self._seen: set[int] = set()

    def rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Round, ...]:
        self._seen.add(n_arms)
        keeps = range(n_arms - 1, 0, -1)
        return tuple(
            Round(int(part * budget), keep)
            for part, keep in zip(self.parts, keeps, strict=False)
        )

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.parts == other.parts


@dataclass(frozen=True)
class FirstMore(AbstractAllocator):
    """All that the first can take, then the second, and so on."""

    def allocate(self, pulls: PullsToShare) -> Any:
        before = np.cumsum(pulls.capacity) - pulls.capacity
        return np.clip(pulls.n_pulls - before, 0, pulls.capacity)


@dataclass(frozen=True)
class Shrunk(AbstractEstimator):
    towards: float = 0.5

    def estimate(self, sample: Sample) -> Estimates:
        found = SampleMean().estimate(sample)
        return found._replace(means=0.9 * found.means + 0.1 * self.towards)


@dataclass(frozen=True)
class Lowest(AbstractEliminationRule):
    """The prompt with the lowest value leaves first."""

    def judge(self, values: Any) -> Judgement:
        return Judgement(
            np.argsort(values[:, 0], kind="stable"),
            np.zeros(len(values), dtype=bool),
            values[:, 0],
        )

    def answer(self, values: Any) -> Any:
        return np.argsort(-values[:, 0], kind="stable")[:1]

    def reason(self, judgement: Judgement, position: int) -> str:
        return f"its value is {judgement.measure[position]:g}"


@dataclass(frozen=True)
class RoundRobin(AbstractMethod):
    """A whole method: a batch of evaluations after the other, and the prompt with the best mean at the end."""

    batch: int = 6
    share: float = 0.25

    def decide(self, state: State) -> events.Decided:
        number, room = len(state.decisions), state.room
        if room <= 0:
            best = self.answer(state)
            gone = [
                events.Departure.of(arm, arm in best, "the budget ended", None)
                for arm in state.active.tolist()
            ]
            return events.Decided(
                number, tuple(gone), finished=True, answer=tuple(best)
            )
        cells = [
            divmod(self.batch * number + i, state.problem.n_arms)
            for i in range(min(room, self.batch))
        ]
        return events.Decided(
            number, plan=tuple((arm, example) for example, arm in cells)
        )

    def answer(self, state: State) -> list[int]:
        tally = state.current_tally()
        if not tally.counts.any():
            return []
        means = np.where(
            tally.counts > 0, tally.sums[:, 0] / np.maximum(tally.counts, 1), -np.inf
        )
        return [int(np.argmax(means))]


OWN = {
    "scheduler": Elimination(
        Own([0.25, 0.5]), Uniform(), SampleMean(), ConstrainedRanking()
    ),
    "allocator": Elimination(Single(), FirstMore(), SampleMean(), ConstrainedRanking()),
    "estimator": Elimination(Single(), Uniform(), Shrunk(0.25), ConstrainedRanking()),
    "rule": Elimination(SequentialHalving(), Uniform(), SampleMean(), Lowest()),
    "whole": RoundRobin(batch=4),
}


@pytest.mark.parametrize("kind", OWN)
def test_every_part_may_be_ones_own(kind: str, tmp_path: Path) -> None:
    method = OWN[kind]
    straight, saved = selector(method), selector(method)
    play(straight)
    for _ in range(9):
        trial = saved.ask()
        assert trial is not None
        saved.tell(trial, len(trial.prompt) + (trial.example or 0) % 3)
    with pytest.raises(
        asktell.MissingMethodError, match=r"Selector\.from_json\(text, method="
    ):
        Selector.from_json(saved.to_json())
    again = Selector.from_json(saved.to_json(), method=method)
    assert again.method is method
    play(again)
    assert again.to_json() == straight.to_json()
    with Study.create(tmp_path / "s.db", "s", selector(method)) as study:
        play(study)
        assert study.selector.to_json() == straight.to_json()
        assert str(study.result()) == str(straight.result())
        study.report(tmp_path / "report.html")
    with Study.open(tmp_path / "s.db", "s", method=method) as study:
        assert study.done


def test_parameters_are_plain_values() -> None:
    odd = Elimination(Own([np.ones(2)]), Uniform(), SampleMean(), ConstrainedRanking())  # type: ignore[list-item]
    made = Selector(PROMPTS, BestFeasible("a"), 40, OWN["scheduler"], examples=30)
    made._engine.method = odd
    with pytest.raises(
        asktell.InvalidStateError,
        match=r"Own\.parts is array.*begin with an underscore",
    ):
        Study.create(MemoryStorage(), "s", made)


def test_a_part_called_like_one_of_asktells_is_not_taken_for_it() -> None:
    @dataclass(frozen=True)
    class Single(AbstractScheduler):
        def rounds(
            self, n_arms: int, budget: int, rank: int | None = None
        ) -> tuple[Round, ...]:
            return (Round(budget, 1),)

    method = Elimination(Single(), Uniform(), SampleMean(), ConstrainedRanking())
    saved = selector(method).to_json()
    assert json.loads(saved)["method"]["scheduler"] == {
        "own": "Single",
        "parameters": {},
    }
    with pytest.raises(asktell.InvalidStateError, match="another method"):
        Selector.from_json(saved, method=asktell.preset("uniform", BestFeasible("a")))
    assert Selector.from_json(saved, method=method).method is method
