"""Bad input: the right error, a message that says what came and what was expected, and nothing changed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import (
    AsktellError,
    BestFeasible,
    BudgetTooSmallError,
    ConflictingTellError,
    IncompatibleMethodError,
    InvalidArgumentError,
    InvalidScoresError,
    InvalidStateError,
    ParetoSet,
    Selector,
    Trial,
    UnknownTrialError,
    preset,
)
from asktell.methods.rounds.allocators import Uniform
from asktell.methods.rounds.estimators import SampleMean
from asktell.methods.rounds.rules import ConstrainedRanking, ParetoGap
from asktell.methods.rounds.schedulers import SequentialHalving, SuccessiveRejects

NAN, INF = float("nan"), float("inf")
GOAL = ParetoSet("a", "b")
PROMPTS = ["alpha", "beta", "gamma"]


def selector(**changes: Any) -> Selector:
    return Selector(
        **({"prompts": PROMPTS, "goal": GOAL, "budget": 12, "examples": 10} | changes)
    )


CONSTRUCTION: list[tuple[dict[str, Any], type[AsktellError], str]] = [
    ({"prompts": []}, InvalidArgumentError, "prompts is empty"),
    ({"prompts": {}}, InvalidArgumentError, "prompts is empty"),
    (
        {"prompts": "alpha"},
        InvalidArgumentError,
        "list of texts, or a mapping from id to text, got '",
    ),
    ({"prompts": b"alpha"}, InvalidArgumentError, "got b'alpha'"),
    ({"prompts": None}, InvalidArgumentError, "got None"),
    ({"prompts": {"alpha", "beta"}}, InvalidArgumentError, "got {"),
    ({"prompts": (p for p in PROMPTS)}, InvalidArgumentError, "got <generator"),
    ({"prompts": ["alpha", 3]}, InvalidArgumentError, "Prompt 1 must be text, got 3"),
    (
        {"prompts": {"x": "alpha", "y": None}},
        InvalidArgumentError,
        "Prompt 'y' must be text, got None",
    ),
    (
        {"prompts": {1: "alpha"}},
        InvalidArgumentError,
        "ids of prompts must be texts, got 1",
    ),
    (
        {"prompts": ["alpha", "beta", "alpha"]},
        InvalidArgumentError,
        "more than once: the prompts [0, 2] are all 'alpha'",
    ),
    (
        {"prompts": {"x": "alpha", "y": "alpha"}},
        InvalidArgumentError,
        "the prompts ['x', 'y'] are all 'alpha'",
    ),
    (
        {"goal": None},
        InvalidArgumentError,
        "BestFeasible(...) or asktell.ParetoSet(...), got None",
    ),
    ({"goal": "a"}, InvalidArgumentError, "got 'a'"),
    ({"goal": ParetoSet}, InvalidArgumentError, "goal must be"),
    ({"budget": 0}, InvalidArgumentError, "budget must be a whole number from 1 to"),
    ({"budget": -3}, InvalidArgumentError, "got -3"),
    ({"budget": 12.0}, InvalidArgumentError, "got 12.0"),
    ({"budget": "12"}, InvalidArgumentError, "got '12'"),
    ({"budget": None}, InvalidArgumentError, "got None"),
    ({"budget": True}, InvalidArgumentError, "got True"),
    ({"budget": 10**30}, InvalidArgumentError, "budget must be a whole number"),
    (
        {"budget": 2, "method": "ege-sr"},
        BudgetTooSmallError,
        "budget of 2 evaluations is too small",
    ),
    ({"examples": 0}, InvalidArgumentError, "examples must be a whole number from 1"),
    ({"examples": [1, 2]}, InvalidArgumentError, "The id at position 0 is 1"),
    ({"examples": 2**31}, InvalidArgumentError, "got 2147483648"),
    (
        {"seed": -1},
        InvalidArgumentError,
        "seed must be a whole number from 0 to 18,446,744,073,709,551,615, got -1",
    ),
    ({"seed": 2**64}, InvalidArgumentError, "seed must be"),
    ({"seed": None}, InvalidArgumentError, "seed must be"),
    ({"seed": 0.5}, InvalidArgumentError, "seed must be"),
    (
        {"sampling": "paired"},
        InvalidArgumentError,
        "'shared' or 'iid', got 'paired'",
    ),
    ({"sampling": ["iid"]}, InvalidArgumentError, "got ['iid']"),
    ({"max_failure_rate": 0}, InvalidArgumentError, "above 0 and at most 1, got 0"),
    ({"max_failure_rate": 1.01}, InvalidArgumentError, "above 0 and at most 1"),
    ({"max_failure_rate": NAN}, InvalidArgumentError, "above 0 and at most 1"),
    ({"max_failure_rate": True}, InvalidArgumentError, "got True"),
    ({"max_failure_rate": "half"}, InvalidArgumentError, "got 'half'"),
    (
        {"on_failure": "ignore"},
        InvalidArgumentError,
        'on_failure must be "skip", or a mapping with a score for each of the metrics',
    ),
    ({"on_failure": 0.0}, InvalidArgumentError, "Got 0.0"),
    ({"on_failure": None}, InvalidArgumentError, "Got None"),
    ({"on_failure": [0.0, 0.0]}, InvalidArgumentError, "Got [0.0, 0.0]"),
    ({"on_failure": {"a": 0.0}}, InvalidArgumentError, "but they lack ['b']"),
    (
        {"on_failure": {"a": 0.0, "b": NAN}},
        InvalidArgumentError,
        "The score of 'b' must be a finite number",
    ),
    (
        {"on_failure": {"a": 0.0, "b": "0"}},
        InvalidArgumentError,
        "The score of 'b' must be a number, got '0'",
    ),
    (
        {"on_failure": {"a": 0.0, "b": 0.0, "rogue": 1}},
        InvalidArgumentError,
        "'rogue' is none of these metrics",
    ),
    (
        {
            "on_failure": {"a": -1},
            "goal": BestFeasible(asktell.maximize("a", range=(0, 1))),
        },
        InvalidArgumentError,
        "The score of 'a' must be within its range [0, 1]. Got -1",
    ),
    (
        {"features": [[1.0], [2.0]]},
        InvalidArgumentError,
        "3 rows, one for each prompt, and at least one column. Got the shape (2, 1)",
    ),
    ({"features": [1.0, 2.0, 3.0]}, InvalidArgumentError, "Got the shape (3,)"),
    ({"features": [[], [], []]}, InvalidArgumentError, "Got the shape (3, 0)"),
    (
        {"features": [[1.0], [2.0, 3.0], [4.0]]},
        InvalidArgumentError,
        "features must be numbers",
    ),
    (
        {"features": [["x"], ["y"], ["z"]]},
        InvalidArgumentError,
        "features must be numbers",
    ),
    (
        {"features": [[10**400], [1], [2]]},
        InvalidArgumentError,
        "features must be numbers",
    ),
    (
        {"features": [[NAN], [1], [2]]},
        InvalidArgumentError,
        "Got nan in row 0, column 0",
    ),
    ({"features": [[None], [1], [2]]}, InvalidArgumentError, "features must be"),
    ({"features": "abc"}, InvalidArgumentError, "prompts must be rows"),
    ({"method": "best"}, InvalidArgumentError, "Got 'best'"),
    ({"method": None}, InvalidArgumentError, "Got None"),
    ({"method": ["csr"]}, InvalidArgumentError, "Got ['csr']"),
    ({"method": asktell.Elimination}, InvalidArgumentError, "method must be one of"),
    (
        {"method": "csr"},
        IncompatibleMethodError,
        "'csr' is for BestFeasible, but the goal is a ParetoSet",
    ),
    (
        {"method": "ege-sr", "goal": BestFeasible("a")},
        IncompatibleMethodError,
        "for ParetoSet",
    ),
    (
        {"method": preset("csr", BestFeasible("a"))},
        IncompatibleMethodError,
        "ConstrainedRanking(strict=False) does not fit",
    ),
    (
        {"method": preset("ege-sr", GOAL), "goal": BestFeasible("a")},
        IncompatibleMethodError,
        "ParetoGap() does not fit",
    ),
    # Published successive rejects pull nobody when there is one pull per prompt.
    (
        {"method": preset("ege-sr", GOAL, schedule="published"), "budget": 3},
        BudgetTooSmallError,
        "of the 3 prompts",
    ),
]


@pytest.mark.parametrize(("arguments", "error", "said"), CONSTRUCTION)
def test_construction(
    arguments: dict[str, Any], error: type[AsktellError], said: str
) -> None:
    with pytest.raises(AsktellError) as raised:
        selector(**arguments)
    assert type(raised.value) is error
    assert said in str(raised.value)


PARTS: dict[str, Any] = {
    "scheduler": SuccessiveRejects(),
    "allocator": Uniform(),
    "estimator": SampleMean(),
    "rule": ParetoGap(),
}


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        (
            {"scheduler": Uniform()},
            IncompatibleMethodError,
            "scheduler of an Elimination must be an object of a subclass of AbstractScheduler",
        ),
        (
            {"allocator": "uniform"},
            IncompatibleMethodError,
            "AbstractAllocator, got 'uniform'",
        ),
        ({"estimator": SampleMean}, IncompatibleMethodError, "AbstractEstimator"),
        ({"rule": None}, IncompatibleMethodError, "AbstractEliminationRule, got None"),
        (
            {"data": "all"},
            InvalidArgumentError,
            "`data` must be 'pooled' or 'round', got 'all'",
        ),
    ],
)
def test_composition(
    changes: dict[str, Any], error: type[AsktellError], said: str
) -> None:
    with pytest.raises(AsktellError) as raised:
        asktell.Elimination(**(PARTS | changes))
    assert type(raised.value) is error
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "csr-shh"}, "Got 'csr-shh'"),
        ({"name": 3}, "Got 3"),
        ({"schedule": "tight"}, "'default' or 'published', got 'tight'"),
        ({"data": "all"}, "got 'all'"),
    ],
)
def test_presets(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        preset(**({"name": "uniform", "goal": GOAL} | arguments))
    assert said in str(raised.value)


def midway() -> Selector:
    """Trial 0 told, 1 out, 2 failed, 3 released, 4 out."""
    midway = selector(
        prompts={"x": "alpha", "y": "beta", "z": "gamma"}, method="uniform"
    )
    trials = [midway.ask() for _ in range(5)]
    assert all(trials)
    midway.tell(0, [0.5, 0.25])
    midway.fail(2, "boom")
    midway.release(3)
    midway.observe("z", [1.0, 1.0], example=7)
    return midway


Use = Callable[[Selector], object]
USE: list[tuple[Use, type[AsktellError], str]] = [
    (
        lambda s: s.ask(-1),
        InvalidArgumentError,
        "n must be a whole number of at least 0",
    ),
    (
        lambda s: s.ask(2**63),
        InvalidArgumentError,
        "n must be a whole number from 0 to 9,223,372,036,854,775,807",
    ),
    (lambda s: s.ask(1.5), InvalidArgumentError, "got 1.5"),
    (lambda s: s.ask("3"), InvalidArgumentError, "got '3'"),
    (lambda s: s.ask(True), InvalidArgumentError, "got True"),
    # Trials
    (
        lambda s: s.tell(99, [1, 1]),
        UnknownTrialError,
        "Trial 99 is not pending. The pending trials have the ids 1, 4.",
    ),
    (lambda s: s.tell(-1, [1, 1]), UnknownTrialError, "Trial -1 is not pending"),
    (lambda s: s.tell(10**30, [1, 1]), UnknownTrialError, "is not pending"),
    (
        lambda s: s.tell(Trial(99, "x", "alpha", 1), [1, 1]),
        UnknownTrialError,
        "Trial 99 is not pending",
    ),
    (
        lambda s: s.tell(Trial("1", "x", "alpha", 1), [1, 1]),
        InvalidArgumentError,
        "'1'",
    ),  # type: ignore[arg-type]
    (
        lambda s: s.tell(Trial([1], "x", "alpha", 1), [1, 1]),
        InvalidArgumentError,
        "[1]",
    ),  # type: ignore[arg-type]
    (
        lambda s: s.tell(Trial(None, "x", "alpha", 1), [1, 1]),
        InvalidArgumentError,
        "None",
    ),  # type: ignore[arg-type]
    (lambda s: s.tell(2, [1, 1]), UnknownTrialError, "Trial 2 has failed"),
    (
        lambda s: s.tell(0, [1, 1]),
        ConflictingTellError,
        "Trial 0 has the recorded scores {'a': 0.5, 'b': 0.25}",
    ),
    (
        lambda s: s.tell("gamma", [1, 1]),
        UnknownTrialError,
        "'gamma' has no pending trial",
    ),
    (lambda s: s.tell("delta", [1, 1]), UnknownTrialError, "no prompt 'delta'"),
    (lambda s: s.tell(None, [1, 1]), InvalidArgumentError, "Got None (NoneType)"),
    (lambda s: s.tell(1.0, [1, 1]), InvalidArgumentError, "Got 1.0 (float)"),
    (lambda s: s.tell(True, [1, 1]), InvalidArgumentError, "Got True (bool)"),
    (lambda s: s.tell([1], [1, 1]), InvalidArgumentError, "may be missing. Got [1]"),
    # Scores
    (lambda s: s.tell(1, None), InvalidScoresError, "NoneType"),
    (lambda s: s.tell(1, 0.5), InvalidScoresError, "float"),
    (lambda s: s.tell(1, [1]), InvalidScoresError, "but the number of scores is 1"),
    (lambda s: s.tell(1, [1, NAN]), InvalidScoresError, "'b' must be a finite number"),
    (lambda s: s.tell(1, [INF, 1]), InvalidScoresError, "'a' must be a finite number"),
    (lambda s: s.tell(1, {"a": 1}), InvalidScoresError, "but they lack ['b']"),
    (
        lambda s: s.tell(1, {"a": 1, "b": "1"}),
        InvalidScoresError,
        "'b' must be a number, got '1'",
    ),
    (lambda s: s.tell(0, [NAN, 1]), InvalidScoresError, "must be a finite number"),
    # Costs
    (lambda s: s.tell(1, [1, 1], cost=-1), InvalidArgumentError, "got -1."),
    (lambda s: s.tell(1, [1, 1], cost=INF), InvalidArgumentError, "got inf"),
    (
        lambda s: s.tell(1, [1, 1], cost="1"),
        InvalidArgumentError,
        "cost must be a number of at least 0, got '1'",
    ),
    (lambda s: s.tell(1, [1, 1], cost=10**400), InvalidArgumentError, "cost"),
    (lambda s: s.tell(1, [1, 1], cost=np.ones(2)), InvalidArgumentError, "cost"),
    # Releases and failures
    (lambda s: s.release(99), UnknownTrialError, "Trial 99 is not pending"),
    (lambda s: s.release(None), InvalidArgumentError, "Got None"),
    (
        lambda s: s.fail(1, None),
        InvalidArgumentError,
        "instance of an exception, got None",
    ),
    (lambda s: s.fail(1, ValueError), InvalidArgumentError, "instance of an exception"),
    # Observations
    (
        lambda s: s.observe("delta", [1, 1]),
        InvalidArgumentError,
        "no prompt 'delta'. Pass the text or the id of one of the prompts. The ids are 'x'",
    ),
    # The ids are x, y, z
    (lambda s: s.observe(0, [1, 1]), InvalidArgumentError, "no prompt 0"),
    (lambda s: s.observe(None, [1, 1]), InvalidArgumentError, "no prompt None"),
    (lambda s: s.observe(["x"], [1, 1]), InvalidArgumentError, "no prompt ['x']"),
    (lambda s: s.observe("x", [1]), InvalidScoresError, "scores is 1"),
    (
        lambda s: s.observe("x", [1, 1], example=10),
        InvalidArgumentError,
        "from 0 to 9, got 10",
    ),
    (lambda s: s.observe("x", [1, 1], example=-1), InvalidArgumentError, "got -1"),
    (
        lambda s: s.observe("x", [1, 1], example="7"),
        InvalidArgumentError,
        "example '7'",
    ),
    (
        lambda s: s.result().plot(x="c"),
        InvalidArgumentError,
        "got the metric 'c', but the metrics of the goal are ['a', 'b']",
    ),
]


@pytest.mark.parametrize(("use", "error", "said"), USE)
def test_use(use: Use, error: type[AsktellError], said: str) -> None:
    selector = midway()
    before, pending = selector.to_json(), selector.pending
    with pytest.raises(AsktellError) as raised:
        use(selector)
    assert type(raised.value) is error
    assert said in str(raised.value)
    assert selector.to_json() == before
    assert selector.pending == pending


def test_what_is_no_longer_pending_is_released_or_failed_in_vain() -> None:
    selector = midway()  # trial 0 was told, 2 has failed, and 3 was released
    before = selector.to_json()
    assert [selector.release(id_) for id_ in (0, 2, 3)] == [False] * 3
    assert [selector.fail(id_, "x") for id_ in (0, 2)] == [False] * 2
    assert selector.to_json() == before


def test_after_an_error_the_trial_can_still_be_told() -> None:
    selector = midway()
    with pytest.raises(InvalidScoresError):
        selector.tell(1, [1, NAN])
    selector.tell(1, [1, 1])
    assert 1 not in [trial.id for trial in selector.pending]


def test_observing_an_example_needs_examples() -> None:
    unknown = selector(examples=None)
    before = unknown.to_json()
    with pytest.raises(InvalidArgumentError, match="made without `examples`"):
        unknown.observe("alpha", [1, 1], example=0)
    assert unknown.to_json() == before


def test_messages_stay_short_whatever_came() -> None:
    many = selector(prompts=[f"{'long ' * 1000}{k}" for k in range(300)], budget=300)
    many.ask(250)
    for use in (
        lambda: many.tell(999, [1, 1]),
        lambda: many.observe("x" * 10**6, [1, 1]),
    ):
        with pytest.raises(AsktellError) as raised:
            use()
        assert len(str(raised.value)) < 3000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "must be JSON text, got NoneType"),
        ({}, "its format is None"),
        ("", "is not JSON"),
        ("{", "damaged or incomplete"),
        (b"\xff\xfe{}", "is not JSON"),
        ("[]", "must be a JSON object, got list"),
        ("null", "got NoneType"),
        ("{}", "its format is None"),
        (
            '{"format": "optuna.study", "version": 1}',
            "must have the format 'asktell.selector', but its format is 'optuna.study'",
        ),
        ('{"format": ["asktell.selector"]}', "its format is ['asktell.selector']"),
        ('{"format": "asktell.selector"}', "version None"),
        ('{"format": "asktell.selector", "version": 0}', "version 0"),
        (
            '{"format": "asktell.selector", "version": 3, "asktell": "9.1"}',
            "was written by asktell 9.1, in version 3 of the format. This is asktell ",
        ),
        ('{"format": "asktell.selector", "version": "1"}', "version '1'"),
        (
            '{"format": "asktell.selector", "version": 1}',
            "prompts must be a JSON object",
        ),
        (
            '{"format": "asktell.selector", "version": 1, "prompts": NaN}',
            "NaN is not a JSON number",
        ),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_loading_something_else(text: Any, said: str) -> None:
    with pytest.raises(InvalidStateError) as raised:
        Selector.from_json(text)
    assert said in str(raised.value)


def test_every_error_is_an_asktell_error_and_what_python_code_expects() -> None:
    for name in asktell.errors.__dict__:
        kind = getattr(asktell.errors, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert issubclass(kind, AsktellError)
            assert getattr(asktell, name) is kind
    assert issubclass(InvalidArgumentError, ValueError)
    assert issubclass(UnknownTrialError, KeyError)
    assert str(UnknownTrialError("no quotes")) == "no quotes"
    assert issubclass(asktell.MissingExtraError, ImportError)


def test_a_scheduler_of_ones_own_cannot_be_combined_with_a_wrong_goal_rule() -> None:
    method = asktell.Elimination(
        SequentialHalving(), Uniform(), SampleMean(), ConstrainedRanking()
    )
    with pytest.raises(
        IncompatibleMethodError, match="does not fit the goal, a ParetoSet"
    ):
        selector(method=method)


CROSSED = {"a": "b", "b": "a", "c": "c", "d": "Answer."}


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_name_of_two_prompts_is_refused(name: str) -> None:
    selector = Selector(CROSSED, BestFeasible("score"), 8, "uniform")
    trials = selector.ask(4)
    calls: list[Callable[[], object]] = [
        lambda: selector.observe(name, [1.0]),
        lambda: selector.tell(name, [1.0]),
        lambda: selector.fail(name, "no"),
        lambda: selector.release(name),
    ]
    other = CROSSED[name]
    both = rf"'{name}' is ambiguous. It is the id of .*'{other}'\), and the text of .* \(its id is '{other}'\)"
    for call in calls:
        with pytest.raises(InvalidArgumentError, match=both):
            call()
    assert selector.pending == trials
    assert not len(selector.state.history)


def test_an_id_that_is_its_own_prompts_text_is_clear() -> None:
    selector = Selector(CROSSED, BestFeasible("score"), 8, "uniform")
    selector.ask(4)
    for name in ("c", "d", "Answer."):
        selector.observe(name, [1.0])
    selector.tell("c", [1.0])
    assert selector.state.history.arms().tolist() == [2, 3, 3, 2]
