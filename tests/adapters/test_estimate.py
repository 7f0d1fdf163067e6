"""What a selection will take: by hand, before and after real calls, with a cache, a limit and a budget in cost."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell_adapters.estimate import estimate
from asktell_adapters.evaluators import (
    AsyncLLMEvaluator,
    Completion,
    Example,
    LLMEvaluator,
    Models,
    Price,
    Request,
    ScriptedLLM,
)
from asktell_adapters.llms.cache import AnswerCache
from asktell_adapters.metrics import Judge, Preference, latency, output_tokens
from tests.command_line import Terminal, cli
from tests.plays import play

PRICE = Price(input=1e4, output=1e5)  # a cent a token read, ten a token written


def answer(request: Request) -> Completion:
    return Completion("yes", 10, 6, latency=2.0, cost=0.7)


class Counting:
    """A scripted LLM with a tokenizer: a token a character."""

    def __init__(self) -> None:
        self.scripted = ScriptedLLM(answer)
        self.complete = self.scripted.complete
        self.identity = self.scripted.identity

    def count_tokens(self, requests: list[Request]) -> list[int]:
        return [
            sum(len(turn["content"]) for turn in request.messages)
            for request in requests
        ]


def evaluator(llm: Any, **options: Any) -> LLMEvaluator:
    examples = [Example("abcd"), Example("efgh"), Example("ijkl")]
    return LLMEvaluator(
        llm,
        examples,
        [output_tokens],
        system=None,
        template="{prompt}{input}",
        max_new_tokens=20,
        **options,
    )


def selector(budget: Any = 5) -> asktell.Selector:
    goal = asktell.BestFeasible(asktell.minimize("output_tokens"))
    return asktell.Selector(["pppp", "qqqq"], goal, budget=budget, examples=3)


def test_without_a_real_call_nothing_is_asked_and_the_longest_answer_is_the_bound() -> (
    None
):
    llm = Counting()
    found = estimate(evaluator(llm), selector(), price=PRICE)
    assert llm.scripted.requests == []
    assert (found.evaluations, found.calls, found.counted, found.exact_tokens) == (
        5,
        5,
        6,
        True,
    )
    assert (
        found.prompt_tokens,
        found.completion_tokens,
        found.most_completion_tokens,
    ) == (5 * 8, None, 5 * 20)
    assert found.cost is None
    assert found.most_cost == pytest.approx(5 * (8 * 0.01 + 20 * 0.1))
    assert (found.seconds, found.real_calls) == (None, 0)
    assert "at most 100" in str(found)
    assert "unknown without real calls" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["calls"] == 5


def test_real_calls_say_how_long_answers_are() -> None:
    llm = Counting()
    found = estimate(
        evaluator(llm), selector(), price=PRICE, real_calls=3, seconds_per_call=2.0
    )
    assert len(llm.scripted.requests) == found.real_calls == 3
    assert found.completion_tokens == 5 * 6
    assert found.cost == pytest.approx(5 * (8 * 0.01 + 6 * 0.1))
    assert found.real_cost == pytest.approx(2.1)
    assert found.seconds == 10.0


def test_without_a_tokenizer_characters_are_counted() -> None:
    found = estimate(evaluator(ScriptedLLM(answer)), selector())
    assert not found.exact_tokens
    assert found.prompt_tokens == 5 * (8 // 4 + 4)
    assert found.most_cost is None
    assert "a guess" in str(found)
    assert "no price is known" in str(found)


def test_a_budget_in_cost_bounds_the_calls_and_the_money() -> None:
    budget = asktell.Budget(cost=1.5)
    found = estimate(evaluator(Counting()), selector(budget), price=PRICE, real_calls=2)
    assert found.evaluations == int(1.5 / 0.68)
    assert found.most_cost == 1.5
    assert found.cost == pytest.approx(2 * 0.68)
    with pytest.raises(InvalidArgumentError, match="Give the LLM a price"):
        estimate(evaluator(Counting()), selector(budget))


def test_only_what_is_left_counts_and_no_more_than_all_cells() -> None:
    begun = selector(budget=100)
    assert estimate(evaluator(Counting()), begun).evaluations == 6
    trial = begun.ask()
    begun.tell(trial, {"output_tokens": 3.0})
    assert estimate(evaluator(Counting()), begun).evaluations == 5


@pytest.mark.parametrize("budget", [6, asktell.Budget(cost=20.0)])
@pytest.mark.parametrize("kept", [False, True], ids=["selector", "study"])
def test_what_was_paid_so_far_says_what_the_rest_costs(kept: bool, budget: Any) -> None:
    from asktell.studies.storages.memory import MemoryStorage

    begun = selector(budget)
    chosen = asktell.Study.create(MemoryStorage(), "s", begun) if kept else begun
    for cost in (0.5, 1.5):
        chosen.tell(chosen.ask(), {"output_tokens": 3.0}, cost)
    # Without a price, and without a call
    found = estimate(evaluator(Counting()), chosen)
    assert (found.evaluations, found.paid_evaluations, found.cost) == (
        4,
        2,
        pytest.approx(4.0),
    )
    assert found.most_cost is None
    assert "about 4 based on the 2 evaluations paid so far" in str(found)
    priced = estimate(evaluator(Counting()), chosen, price=PRICE)
    assert (priced.cost, priced.most_cost) == (
        pytest.approx(4.0),
        pytest.approx(4 * (8 * 0.01 + 20 * 0.1)),
    )
    better_known = estimate(evaluator(Counting()), chosen, price=PRICE, real_calls=3)
    assert (better_known.paid_evaluations, better_known.cost) == (
        0,
        pytest.approx(4 * 0.68),
    )


def test_a_budget_in_cost_is_left_for_as_many_as_were_paid() -> None:
    begun = selector(asktell.Budget(cost=4.0))
    for _ in range(2):
        begun.tell(begun.ask(), {"output_tokens": 3.0}, 1.0)
    found = estimate(evaluator(Counting()), begun, price=PRICE)
    assert (found.evaluations, found.cost) == (2, pytest.approx(2.0))


def test_only_what_was_not_evaluated_is_looked_up_in_the_cache(tmp_path: Path) -> None:
    cached = evaluator(Counting(), cache=AnswerCache(tmp_path / "answers.db"))
    begun = selector(6)
    play(begun, lambda trial: cached(trial.prompt, trial.example), n=3)
    found = estimate(cached, begun)
    assert (found.evaluations, found.calls, found.counted) == (3, 3, 3)


def test_where_nothing_is_left_nothing_is_asked() -> None:
    done, llm = selector(), Counting()
    play(done, lambda _: {"output_tokens": 3.0})
    for real_calls in (0, 2):
        found = estimate(evaluator(llm), done, real_calls=real_calls)
        assert (
            found.evaluations,
            found.calls,
            found.real_calls,
            llm.scripted.requests,
        ) == (0, 0, 0, [])
        assert (
            str(found)
            == "evaluations    0: nothing is left to evaluate within the budget"
        )


def test_what_the_cache_has_costs_nothing(tmp_path: Path) -> None:
    cached = evaluator(Counting(), cache=AnswerCache(tmp_path / "answers.db"))
    first = estimate(cached, selector(6), price=PRICE, real_calls=3)
    second = estimate(cached, selector(6), price=PRICE, real_calls=3)
    assert (first.calls, first.real_calls) == (6, 3)
    assert (second.evaluations, second.calls, second.real_calls, second.real_cost) == (
        6,
        3,
        0,
        0.0,
    )
    assert second.completion_tokens == 3 * 6
    assert "about 3 of them in the cache" in str(second)
    assert (
        estimate(
            cached, selector(asktell.Budget(cost=0.68)), price=PRICE, real_calls=3
        ).evaluations
        == 2
    )


def test_of_several_models_the_dearest_bounds_the_money() -> None:
    llms: Any = {"a": Counting(), "b": Counting()}
    llms["a"].price, llms["b"].price = PRICE, Price(input=3e4, output=1e4)
    goal = asktell.BestFeasible(asktell.minimize("output_tokens"))
    chosen = asktell.Selector(
        asktell.grid(model=["a", "b"], prompt=["pppp"]), goal, 4, examples=3
    )
    found = estimate(evaluator(Models(llms)), chosen, real_calls=1)
    assert found.cost == pytest.approx(4 * (8 * 0.02 + 6 * 0.055))
    assert found.most_cost == pytest.approx(4 * (8 * 0.03 + 20 * 0.1))


def test_an_async_llm_answers_many_at_once_within_its_limits() -> None:
    llm: Any = ScriptedLLM(answer)
    scoring = AsyncLLMEvaluator(
        llm, [Example("abcd")] * 3, [output_tokens], max_new_tokens=20
    )
    assert estimate(
        scoring, selector(6), real_calls=4, concurrency=4
    ).seconds == pytest.approx(6 * 2.0 / 4)
    llm.requests_per_minute = 10.0
    assert estimate(
        scoring, selector(6), real_calls=4, concurrency=4
    ).seconds == pytest.approx(36.0)


def test_real_calls_that_all_fail_say_why() -> None:
    def fail(request: Request) -> Completion:
        raise ValueError("no such model")

    with pytest.raises(
        EvaluatorError, match=r"All real calls failed \(2 of 2\)\. .*no such model"
    ):
        estimate(evaluator(ScriptedLLM(fail)), selector(), real_calls=2)
    with pytest.raises(InvalidArgumentError, match="real_calls must be a whole number"):
        estimate(evaluator(ScriptedLLM(fail)), selector(), real_calls=-1)


# Judges


def grades(request: Request) -> Completion:
    return Completion(
        '{"reason": "", "grades": {"good": 4}}', 1000, 25, latency=1.0, cost=0.5
    )


def verdicts(request: Request) -> Completion:
    return Completion('{"reason": "", "grades": {"good": "first"}}', 1000, 25, cost=0.5)


class Priced(Counting):
    """The same, judging, at a price of its own: a cent a token read, two a token written."""

    def __init__(self, reply: Any = grades) -> None:
        super().__init__()
        self.scripted = ScriptedLLM(reply, "judge")
        self.complete, self.identity = self.scripted.complete, self.scripted.identity
        self.api = type("Api", (), {"price": Price(1e4, 2e4)})()


def judged(judge: Judge, **options: Any) -> LLMEvaluator:
    examples = [
        Example(text, fields={"today": "good"}) for text in ("abcd", "efgh", "ijkl")
    ]
    return LLMEvaluator(
        Counting(), examples, {"output_tokens": output_tokens, "quality": judge}, system=None,
        template="{prompt}{input}", max_new_tokens=20, **options,
    )  # fmt: skip


def length(judge: Judge, answer: str) -> int:
    """Tokens of a request to it, by the tokenizer that counts characters."""
    requests: Any = judge.requests(
        Completion(answer), Example("abcd", fields={"today": "good"}), 0
    )
    return sum(len(turn["content"]) for turn in requests[0].messages)


@pytest.mark.parametrize(
    ("n_llms", "options", "per_answer"),
    [
        (1, {}, 1),
        (1, {"n": 3, "temperature": 0.7}, 3),
        (1, {"against": "today"}, 2),
        (2, {"against": "today", "n": 2, "temperature": 1.0}, 8),
    ],
)
def test_a_judges_calls_tokens_and_money_are_told(
    n_llms: int, options: Any, per_answer: int
) -> None:
    llms = [Priced(verdicts if "against" in options else grades) for _ in range(n_llms)]
    judge = Judge(llms, {"good": "It is good."}, max_new_tokens=40, **options)
    found = estimate(judged(judge), selector(), price=PRICE)
    assert all(not llm.scripted.requests for llm in llms)
    (told,) = found.judges
    assert (told.name, told.calls, told.most_completion_tokens) == (
        "quality",
        5 * per_answer,
        5 * per_answer * 40,
    )
    assert (told.completion_tokens, told.cost, told.real_calls) == (None, None, 0)
    assert told.prompt_tokens == 5 * per_answer * (length(judge, "") + 20)
    most = 5 * per_answer * (0.01 * (length(judge, "") + 20) + 0.02 * 40)
    assert told.most_cost == pytest.approx(most)
    assert found.most_cost == pytest.approx(5 * (8 * 0.01 + 20 * 0.1) + most)
    assert found.cost is None
    assert f"judge quality  {5 * per_answer} calls, at most about" in str(found)
    assert (
        json.loads(json.dumps(found.to_dict()))["judges"][0]["calls"] == 5 * per_answer
    )

    really = estimate(judged(judge), selector(), price=PRICE, real_calls=2)
    (told,) = really.judges
    assert (
        told.real_calls
        == 2 * per_answer
        == sum(len(llm.scripted.requests) for llm in llms)
    )
    assert told.real_cost == pytest.approx(0.5 * 2 * per_answer)
    assert told.completion_tokens == 5 * per_answer * 25
    read = told.prompt_tokens / (5 * per_answer)
    assert length(judge, "") < read < length(judge, "") + 20
    assert told.cost == pytest.approx(
        5 * per_answer * (0.01 * read + 0.02 * 25), rel=0.001
    )
    # Four of six answers were not seen
    most = 0.01 * (read + (20 - 6) * 4 / 6) + 0.02 * 40
    assert told.most_cost == pytest.approx(5 * per_answer * most, rel=0.001)
    assert really.cost == pytest.approx(5 * (8 * 0.01 + 6 * 0.1) + told.cost)
    assert f"judge quality  {5 * per_answer} calls, about" in str(really)
    assert (
        f"2, and {2 * per_answer} of judges, which cost {2 * 0.7 + 0.5 * 2 * per_answer:.4g}"
        in str(really)
    )


def test_opinions_in_the_cache_are_not_paid_again(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.db")
    judge = Judge(Priced(), {"good": "It is good."}, cache=cache)
    told = [
        estimate(
            judged(judge, cache=cache), selector(6), price=PRICE, real_calls=3
        ).judges[0]
        for _ in range(2)
    ]
    assert [each.calls for each in told] == [6, 3]
    assert told[1].real_calls == 0


def test_a_preference_reads_two_answers_in_both_orders() -> None:
    llm = Priced(verdicts)
    metric = Preference(Judge(llm, {"good": "It is good."}, max_new_tokens=40))
    found = estimate(judged(metric), selector(), price=PRICE)
    (told,) = found.judges
    assert told.calls == 10
    assert told.prompt_tokens >= 10 * 2 * 20
    assert found.most_cost > told.most_cost > 0
    (told,) = estimate(judged(metric), selector(), price=PRICE, real_calls=2).judges
    assert told.real_calls == 4 == len(llm.scripted.requests)


def test_a_judge_that_judges_nothing_says_why() -> None:
    judge = Judge(
        ScriptedLLM(lambda request: Completion("hm")), {"good": "It is good."}
    )
    with pytest.raises(
        EvaluatorError,
        match=r"'quality' failed on all real responses \(2 of 2\).*cannot be read",
    ):
        estimate(judged(judge), selector(), real_calls=2)
    with pytest.raises(EvaluatorError, match="no response to compare with"):
        estimate(
            judged(Judge(ScriptedLLM(grades), {"good": "It is."}, against="nobody")),
            selector(),
        )


def test_what_is_repeated_to_see_whether_scores_differ_is_part_of_it() -> None:
    examples = [Example(str(i)) for i in range(20)]
    judge = Judge(Counting(), {"good": "It is."})

    def found(
        metrics: Any,
        temperature: float,
        budget: int = 40,
        repeats: int | None = None,
        inputs: Any = "given",
    ) -> Any:
        made = LLMEvaluator(Counting(), examples, metrics, temperature=temperature)
        goal = asktell.BestFeasible(next(iter(metrics)))
        chosen = asktell.Selector(
            ["pppp", "qqqq"], goal, budget, examples=20, repeats=repeats, inputs=inputs
        )
        return estimate(made, chosen, price=PRICE)

    surely = found({"good": output_tokens}, 0.0)
    assert (surely.evaluations, surely.repeats, surely.calls) == (40, 0, 40)
    for perhaps in (
        found({"good": output_tokens}, 0.7),
        found({"good": judge}, 0.0),
        found({"good": latency}, 0.0),
    ):
        assert (perhaps.evaluations, perhaps.repeats, perhaps.calls) == (40, 4, 44)
        assert "40, and 4 repeated to check whether scores vary" in str(perhaps)
        assert perhaps.most_cost > surely.most_cost
    assert found({"good": judge}, 0.0).judges[0].calls == 44
    assert found({"good": output_tokens}, 0.7, 30, 2).repeats == 2  # late ones
    # A second round of all is as good
    assert found({"good": output_tokens}, 0.7, 80, 2).repeats == 0
    on_new_inputs = found({"good": output_tokens}, 0.7, inputs="new")
    assert (on_new_inputs.repeats, on_new_inputs.calls) == (0, 40)


CONFIG = """
budget = 4
confirm_above = 0.001
[prompts]
texts = ["p", "q"]
[data]
file = "data.jsonl"
input = "text"
reference = false
[model]
type = "openai"
model = "m"
base_url = "BASE"
max_new_tokens = 100
price = { input = 10, output = 100 }
[metrics]
output_tokens = true
[goal]
minimize = "output_tokens"
"""


def test_the_command_line_says_and_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai")
    from asktell_adapters.testing.llm_server import FaultyLLMServer

    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    with FaultyLLMServer(echo=True) as server:
        Path("run.toml").write_text(CONFIG.replace("BASE", server.base_url))
        assert "at most 0.0" in cli("run run.toml --estimate").out
        assert not Path("run").exists()
        assert (
            json.loads(cli("run run.toml --estimate 2 --json").out)["real_calls"] == 2
        )
        monkeypatch.setattr("sys.stdin", io.StringIO())
        assert "may cost up to 0.04" in (
            said := cli("run run.toml --no-progress", code=2).err
        )
        assert "--yes" in said
        monkeypatch.setattr("sys.stdin", Terminal("n\n"))
        assert "was not started" in cli("run run.toml --no-progress", code=2).err
        monkeypatch.setattr("sys.stdin", Terminal("y\n"))
        assert "4 of 4 evaluations" in cli("run run.toml --no-progress").out
        assert "evaluations    0" in cli("run run.toml --estimate").out
        for elsewhere in ("--fresh", "--study studies.db"):
            assert "evaluations    4" in cli(f"run run.toml --estimate {elsewhere}").out
    Path("run.toml").write_text(CONFIG.replace("price =", "extra_body ="))
    assert (
        "'confirm_above' at the top is a limit on costs"
        in cli("run run.toml", code=2).err
    )
