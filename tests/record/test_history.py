import random
from array import array
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell.record.history import History

Row: TypeAlias = tuple[int | None, int, int | None, tuple[float, ...]]


def rows_of(history: History) -> list[Row]:
    return [
        (None if t < 0 else t, a, None if e < 0 else e, tuple(s))
        for t, a, e, s in zip(
            history.trials().tolist(),
            history.arms().tolist(),
            history.examples().tolist(),
            history.scores().tolist(),
            strict=True,
        )
    ]


def history_of(rows: list[Row]) -> History:
    history = History(2)
    for row in rows:
        history = history.append(*row)
    return history


ROWS: list[Row] = [
    (3, 0, 7, (0.5, 1.0)),
    (None, 2, None, (0.25, -1.0)),
    (0, 1, None, (0.125, 2.0)),
    (None, 1, 4, (9.0, 9.0)),
    (1, 0, 0, (8.0, 8.0)),
]


def test_gives_back_what_was_appended() -> None:
    history = history_of(ROWS)
    assert len(history) == 5
    assert rows_of(history) == ROWS
    assert rows_of(history_of([])) == []
    assert history.scores(3).tolist() == [[9.0, 9.0], [8.0, 8.0]]
    assert history.arms(5).tolist() == []
    assert history.scores(5).shape == (0, 2)


def test_knows_the_scores_of_told_trials_only() -> None:
    history = history_of(ROWS)
    assert history.scores_of(3) == (0.5, 1.0)
    assert history.scores_of(1) == (8.0, 8.0)
    assert [history.scores_of(trial) for trial in (-1, 2, 4, 10**30)] == [None] * 4


def test_appending_leaves_the_older_one_as_it_was() -> None:
    old = history_of(ROWS[:3])
    new = old.append(*ROWS[3]).append(*ROWS[4])
    assert rows_of(old) == ROWS[:3]
    assert old.scores_of(1) is None
    assert rows_of(new) == ROWS


def test_appending_to_an_older_one_leaves_the_newer_one_as_it_was() -> None:
    old = history_of(ROWS[:2])
    new = old.append(5, 1, 1, (1.0, 1.0)).append(6, 1, 2, (2.0, 2.0))
    fork = old.append(5, 2, 9, (3.0, 3.0))
    assert fork.scores_of(5) == (3.0, 3.0)
    assert fork.scores_of(6) is None
    assert new.scores_of(5) == (1.0, 1.0)
    assert new.scores_of(6) == (2.0, 2.0)
    assert rows_of(old) == ROWS[:2]
    assert old.scores_of(5) is None
    again = fork.append(6, 0, 0, (4.0, 4.0))
    assert (new.scores_of(6), again.scores_of(6), fork.scores_of(6)) == (
        (2.0, 2.0),
        (4.0, 4.0),
        None,
    )


@given(st.integers(0, 10**6))
def test_a_tree_of_forks_is_as_many_lists(seed: int) -> None:
    rng = random.Random(seed)
    histories, lists = [History(2)], [list[Row]()]
    for trial in range(30):
        i = rng.randrange(len(histories))
        row: Row = (
            trial if rng.random() < 0.7 else None,
            rng.randrange(4),
            rng.choice([None, 0, 5]),
            (rng.random(), rng.random()),
        )
        histories.append(histories[i].append(*row))
        lists.append([*lists[i], row])
    for history, rows in zip(histories, lists, strict=True):
        assert rows_of(history) == rows
        told = {row[0]: row[3] for row in rows}
        assert [history.scores_of(t) for t in range(30)] == [
            told.get(t) for t in range(30)
        ]


def test_asked_order_puts_observed_rows_first_and_keeps_their_order() -> None:
    arms, scores = history_of(ROWS).in_asked_order()
    assert arms.tolist() == [2, 1, 1, 0, 0]
    assert scores[:, 0].tolist() == [0.25, 9.0, 0.125, 8.0, 0.5]
    assert history_of(ROWS).in_asked_order(3)[0].tolist() == [1, 0]


def test_columns_make_the_same_history() -> None:
    history = history_of(ROWS)
    again = History.from_columns(
        history.trials(), history.arms(), history.examples(), history.scores()
    )
    assert rows_of(again) == ROWS
    assert [again.scores_of(t) for t in range(5)] == [
        history.scores_of(t) for t in range(5)
    ]
    assert rows_of(again.append(2, 0, 0, (0.0, 0.0))) == [*ROWS, (2, 0, 0, (0.0, 0.0))]
    empty = History.from_columns(*[np.zeros(0, dtype=np.int64)] * 3, np.zeros((0, 2)))
    assert rows_of(empty.append(*ROWS[0])) == ROWS[:1]


def test_what_is_read_can_be_changed_without_changing_the_history() -> None:
    history = history_of(ROWS)
    history.scores()[:] = 0
    history.arms()[:] = 0
    assert rows_of(history) == ROWS


class Interrupted(array):  # type: ignore[type-arg]
    """A column that cannot grow."""

    def append(self, value: object) -> None:
        raise MemoryError

    extend = append


@pytest.mark.parametrize("column", ["trials", "examples", "scores", "row_of"])
def test_an_append_that_was_interrupted_leaves_no_trace(column: str) -> None:
    history = History(1).append(0, 3, 5, (0.5,))
    columns = history._columns
    whole = getattr(columns, column)
    setattr(columns, column, Interrupted(whole.typecode, whole))
    with pytest.raises(MemoryError):
        history.append(1, 4, 6, (0.7,))
    setattr(columns, column, whole)
    history = history.append(2, 7, 8, (0.9,))
    assert history.trials().tolist() == [0, 2]
    assert history.arms().tolist() == [3, 7]
    assert history.examples().tolist() == [5, 8]
    assert history.scores().ravel().tolist() == [0.5, 0.9]
    assert [history.scores_of(trial) for trial in range(3)] == [(0.5,), None, (0.9,)]
