import pytest

from asktell.methods.rounds.schedulers import Round, Single


@pytest.mark.parametrize(("n_arms", "budget"), [(1, 1), (2, 5), (100, 300)])
def test_spends_everything_in_one_round_after_which_all_stay(
    n_arms: int, budget: int
) -> None:
    assert Single().rounds(n_arms, budget) == (Round(budget, n_arms),)
