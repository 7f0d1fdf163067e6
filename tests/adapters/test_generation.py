"""generate_prompts: the paper's template, seeded draws, distinct prompts or a clear error."""

from collections.abc import Iterator

import pytest

from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell_adapters.evaluators import Completion, CompletionError, Example, Request, ScriptedLLM
from asktell_adapters.generation import generate_prompts, generation_prompt

EXAMPLES = [Example(f"in{index}", f"out{index}") for index in range(8)]


def by_seed(request: Request) -> Completion:
    return Completion(f"Do thing {request.seed}.")


def test_the_template_is_the_papers() -> None:
    assert generation_prompt(EXAMPLES[:2]) == (
        "Input: in0\nOutput: out0\n\nInput: in1\nOutput: out1\n\nPlease provide the instruction now."
    )


def test_each_prompt_comes_from_three_to_five_distinct_examples() -> None:
    llm = ScriptedLLM(by_seed)
    prompts = generate_prompts(llm, EXAMPLES, 40)
    assert len(set(prompts)) == len(prompts) == 40
    shown = [[line for line in r.messages[0]["content"].split("\n") if line[:6] == "Input:"] for r in llm.requests]
    assert {len(lines) for lines in shown} == {3, 4, 5}
    assert all(len(set(lines)) == len(lines) for lines in shown)
    assert all(request.temperature == 1.0 for request in llm.requests)


def test_the_seed_decides() -> None:
    one, same, other = (generate_prompts(ScriptedLLM(by_seed), EXAMPLES, 5, seed=seed) for seed in (1, 1, 2))
    assert one == same != other


def test_duplicates_failures_and_cut_answers_are_asked_for_again() -> None:
    answers: Iterator[Completion | Exception] = iter(
        [
            Completion("Same."),
            Completion(" same. "),
            CompletionError("scripted"),
            Completion("Cut off he", finish_reason="length"),
            Completion(""),
            Completion('Instruction: "Quoted."'),
            Completion("**Instruction:** Starred."),
        ]
    )

    def answer(request: Request) -> Completion:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    llm = ScriptedLLM(answer)
    assert generate_prompts(llm, EXAMPLES, 3) == ["Same.", "Quoted.", "Starred."]


def test_an_llm_that_repeats_itself_is_given_up_with_a_reason() -> None:
    llm = ScriptedLLM(lambda request: Completion("Always this."))
    with pytest.raises(EvaluatorError, match="12 completions gave 1 distinct prompts of the 3 wanted"):
        generate_prompts(llm, EXAMPLES, 3, max_attempts=12)
    assert len(llm.requests) == 12


@pytest.mark.parametrize("arguments", [{"n": 0}, {"shots": (0, 3)}, {"shots": (4, 3)}, {"shots": (9, 9)}])
def test_bad_arguments_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError):
        generate_prompts(ScriptedLLM(by_seed), EXAMPLES, **{"n": 3, **arguments})  # type: ignore[arg-type]
