"""promptolution's tasks, predictors and optimizers, over an LLM that does as told."""

import random
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from promptolution.llms.base_llm import BaseLLM
from promptolution.optimizers import CAPO, OPRO, EvoPromptDE, EvoPromptGA
from promptolution.predictors import FirstOccurrencePredictor, MarkerBasedPredictor
from promptolution.tasks import ClassificationTask
from promptolution.tasks.multi_objective_task import MultiObjectiveTask
from promptolution.tasks.reward_tasks import RewardTask

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.testing.evaluator_contract import EvaluatorContract, Make, Script
from asktell_adapters.optimizers.promptolution import PromptolutionEvaluator, Proposer, carry_over


class Scripted(BaseLLM):
    """Answers by a function of the text it is sent."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        super().__init__()
        self.answer = answer
        self.calls: list[int] = []

    def _get_response(self, prompts: list[str], system_prompts: list[str]) -> list[str]:
        self.calls.append(len(prompts))
        return [self.answer(prompt) for prompt in prompts]


def marker(llm: BaseLLM) -> MarkerBasedPredictor:
    return MarkerBasedPredictor(llm)


class TestContract(EvaluatorContract):
    @pytest.fixture
    def make(self) -> Make:
        def make(script: Script) -> PromptolutionEvaluator:
            def answer(text: str) -> str:
                prompt, x = text.rsplit("\n", 1)
                outcome = script(prompt, int(x.split()[1]))
                if outcome == "raises":
                    raise ConnectionError("scripted")
                if outcome == "times out":
                    raise TimeoutError("scripted")
                return f"<final_answer>{outcome}</final_answer>"

            def reward(prediction: str) -> float | None:
                return None if prediction == "no score" else float(prediction)

            rows = pd.DataFrame({"x": [f"row {i}" for i in range(self.n_examples)]})
            return PromptolutionEvaluator(RewardTask(rows, reward), marker(Scripted(answer)))

        return make


def sentiment() -> ClassificationTask:
    rows = pd.DataFrame({"x": ["good film", "bad film", "good cast", "bad plot"], "y": ["Yes", "No", "Yes", "No"]})
    return ClassificationTask(rows, task_description="Is the review positive?", n_subsamples=1)


def careful(text: str) -> str:
    """Right if the prompt says so."""
    right = "yes" if "good" in text.rsplit("\n", 1)[1] else "no"
    return f"The answer is {right}" if "carefully" in text else "The answer is yes"


def test_a_batch_is_one_call_and_tokens_are_metrics() -> None:
    llm = Scripted(careful)
    evaluator = PromptolutionEvaluator(sentiment(), FirstOccurrencePredictor(llm, ["yes", "no"]))
    trials = [asktell.Trial(i, "p", "Read carefully.", i) for i in range(4)]
    scores = evaluator.evaluate_batch(trials)
    assert llm.calls == [4]
    assert scores == [{"score": 1.0, "input_tokens": 4.0, "output_tokens": 4.0}] * 4
    task = sentiment()
    told = task.evaluate(promptolution_prompt("Read carefully."), evaluator.predictor, block_idx=[1])
    assert told.scores[0, 0] == scores[1]["score"], "as promptolution itself says"  # type: ignore[index]
    assert told.input_tokens[0, 0] == scores[1]["input_tokens"]  # type: ignore[index]
    assert told.output_tokens[0, 0] == scores[1]["output_tokens"]  # type: ignore[index]


def promptolution_prompt(text: str) -> Any:
    from promptolution.utils.prompt import Prompt

    return Prompt(text)


def test_a_selection() -> None:
    predictor = FirstOccurrencePredictor(Scripted(careful), ["yes", "no"])
    evaluator = PromptolutionEvaluator(sentiment(), predictor)
    goal = asktell.BestFeasible("score", {asktell.minimize("output_tokens"): 10})
    selector = asktell.Selector(["Decide.", "Read carefully.", "Guess."], goal, 12, examples=evaluator.n_examples)
    result = asktell.run(selector, evaluator, concurrency=4, progress=False)
    assert [entry.prompt for entry in result.selected] == ["Read carefully."]


def test_several_tasks_are_several_metrics() -> None:
    rows = pd.DataFrame({"x": ["a", "b"]})
    tasks = [RewardTask(rows, lambda text: float(len(text))), RewardTask(rows, lambda text: -1.0)]
    both = MultiObjectiveTask(tasks)
    evaluator = PromptolutionEvaluator(both, marker(Scripted(lambda text: "four")), names=["length", "taste"])
    (scores,) = evaluator.evaluate_batch([asktell.Trial(0, 0, "p", 1)])
    assert isinstance(scores, dict)
    assert (scores["length"], scores["taste"]) == (4.0, -1.0)
    for names in (["length"], ["a", "a"], ["a", "input_tokens"]):
        with pytest.raises(InvalidArgumentError, match="2 different ones"):
            PromptolutionEvaluator(both, marker(Scripted(str)), names=names)


def test_wrong_set_ups() -> None:
    repeated = ClassificationTask(pd.DataFrame({"x": ["a", "a"], "y": ["yes", "no"]}))
    with pytest.raises(InvalidArgumentError, match="1 inputs and 2 targets: is an input there twice"):
        PromptolutionEvaluator(repeated, marker(Scripted(str)))
    task = sentiment()
    evaluator = PromptolutionEvaluator(task, marker(Scripted(str)))
    with pytest.raises(InvalidArgumentError, match="make the selector with examples="):
        evaluator.evaluate_batch([asktell.Trial(0, 0, "p", None)])
    task.pop_datapoints(n=1)
    with pytest.raises(InvalidArgumentError, match="had 4 rows when the evaluator was made, and now 3"):
        evaluator.evaluate_batch([asktell.Trial(0, 0, "p", 0)])


# Candidates


class Writer(Scripted):
    """A meta LLM with a new instruction for every call, and a memory of what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(self.write)

    def write(self, text: str) -> str:
        self.asked.append(text)
        return f"Thinking... <prompt>Instruction {len(self.asked)}.</prompt>"


PARENTS = {"Decide.": 0.4, "Read carefully.": 0.9, "Guess.": 0.1, "Say yes or no.": 0.5}


def optimizers(writer: Writer) -> dict[str, Callable[[], Any]]:
    downstream = Scripted(careful)
    task, predictor = sentiment(), FirstOccurrencePredictor(downstream, ["yes", "no"])
    start = list(PARENTS)

    def capo() -> Any:
        shots = pd.DataFrame({"x": ["fine film", "poor film"], "y": ["Yes", "No"]})
        return CAPO(predictor, task, writer, start, df_few_shots=shots, upper_shots=2, crossovers_per_iter=3)

    return {
        "ga": lambda: EvoPromptGA(predictor, task, writer, start),
        "de": lambda: EvoPromptDE(predictor, task, writer, start),
        "opro": lambda: OPRO(predictor, task, writer, start, num_instructions_per_step=3),
        "capo": capo,
    }


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what promptolution draws from


@pytest.mark.parametrize("name", ["ga", "de", "opro", "capo"])
def test_every_optimizer_proposes(name: str) -> None:
    writer = Writer()
    optimizer = optimizers(writer)[name]()
    before = optimizer.task, list(optimizer.prompts), list(optimizer.scores)
    proposer = Proposer(optimizer)
    first = proposer.propose(5, PARENTS)
    assert len(first) == len(set(first)) == 5
    assert not set(first) & set(PARENTS)
    assert all("Instruction" in text or name == "capo" for text in first)
    assert any("Instruction" in text for text in first)
    assert (optimizer.task, optimizer.prompts, optimizer.scores) == before
    assert optimizer.task.eval_cache == {}, "it has evaluated nothing"
    assert all("Thinking" not in text for text in first)
    if name == "opro":
        assert "Read carefully.\nscore: 90" in writer.asked[0]
    writer.asked.clear()
    second = proposer.propose(2, {**PARENTS, first[0]: 1.0})
    assert len(second) == 2
    assert writer.asked
    if name == "de":
        assert first[0] in writer.asked[0], "the best one is the donor"


def test_what_a_meta_llm_can_do_wrong() -> None:
    def offline(text: str) -> str:
        raise ConnectionError("meta LLM is down")

    task, predictor = sentiment(), marker(Scripted(careful))
    broken = Proposer(EvoPromptGA(predictor, task, Scripted(offline), list(PARENTS)))
    with pytest.raises(EvaluatorError, match="EvoPromptGA failed to propose: ConnectionError: meta LLM is down"):
        broken.propose(3, PARENTS)
    echo = Proposer(EvoPromptGA(predictor, task, Scripted(lambda text: "<prompt>Guess.</prompt>"), list(PARENTS)))
    with pytest.raises(EvaluatorError, match="nothing but the 4 prompts it was given, in 2 steps"):
        echo.propose(3, PARENTS, max_steps=2)
    few = Proposer(EvoPromptDE(predictor, task, Writer(), ["a", "b"]))
    with pytest.raises(EvaluatorError, match="EvoPromptDE failed to propose: ValueError"):
        few.propose(1, {"a": 0.0, "b": 0.0})
    with pytest.raises(InvalidArgumentError, match="scores of some prompts"):
        echo.propose(3, {})


def test_the_example_of_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[3] / "docs" / "examples" / "promptolution_loop.py"
    runpy.run_path(str(example), run_name="__main__")
    output = capsys.readouterr().out
    assert output.count("120 of 120 evaluations spent") == 3


def test_what_is_known_is_carried_over() -> None:
    goal = asktell.BestFeasible("score")
    earlier = asktell.Selector(["a", "b"], goal, 6, examples=3)
    while trial := earlier.ask():
        earlier.tell(trial, {"score": trial.example or 0})
    later = asktell.Selector(["b", "c"], goal, 6, examples=3)
    carry_over(earlier, later)
    assert [entry.pulls for entry in later.result().prompts] == [3, 0]
    assert later.spent == 0
    with pytest.raises(InvalidArgumentError):
        carry_over(earlier, asktell.Selector(["b", "c"], asktell.BestFeasible("other"), 6, examples=3))
