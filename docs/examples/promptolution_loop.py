"""promptolution writes the candidates and evaluates them, asktell selects: three generations of EvoPromptGA.

Runs as it stands, with a stand-in for the LLM; `APILLM(api_url=..., model_id=...)` is a real one.
"""

import random

import numpy as np
import pandas as pd
from promptolution.llms.base_llm import BaseLLM
from promptolution.optimizers import EvoPromptGA
from promptolution.predictors import FirstOccurrencePredictor
from promptolution.tasks import ClassificationTask

import asktell
from asktell_adapters.optimizers.promptolution import PromptolutionEvaluator, Proposer, carry_over

WORDS = ["carefully", "twice", "slowly", "as a critic", "word by word", "in context"]


class StandIn(BaseLLM):
    """Answers reviews the better, the more of the WORDS a prompt has; writes prompts by joining two."""

    def _get_response(self, prompts: list[str], system_prompts: list[str]) -> list[str]:
        return [self._write() if "<prompt>" in text else self._answer(text) for text in prompts]

    def _write(self) -> str:
        return f"<prompt>Read {' and '.join(random.sample(WORDS, random.randint(1, 4)))}, then decide.</prompt>"

    def _answer(self, text: str) -> str:
        prompt, review = text.rsplit("\n", 1)
        knows = random.random() < 0.4 + 0.15 * sum(word in prompt for word in WORDS)
        return "positive" if ("good" in review) == knows else "negative"


random.seed(0)
np.random.seed(0)  # noqa: NPY002 - what promptolution draws from
llm = StandIn()
reviews = pd.DataFrame({"x": [f"a {word} film, number {i}" for i in range(40) for word in ("good", "bad")]})
reviews["y"] = ["positive" if "good" in text else "negative" for text in reviews["x"]]
task = ClassificationTask(reviews, task_description="Is the review positive or negative?")
predictor = FirstOccurrencePredictor(llm, ["positive", "negative"])
prompts = ["Decide.", "Read carefully, then decide.", "Read slowly, then decide.", "Guess."]

proposer = Proposer(EvoPromptGA(predictor, task, llm, prompts))
evaluator = PromptolutionEvaluator(task, predictor)
goal = asktell.BestFeasible("score", subject_to={asktell.minimize("input_tokens"): 20})
earlier = None
for _ in range(3):
    selector = asktell.Selector(prompts, goal, 120, examples=evaluator.n_examples)
    if earlier is not None:
        carry_over(earlier, selector)
    result = asktell.run(selector, evaluator, concurrency=16, progress=False)
    print(result)
    best = sorted(result.prompts, key=lambda entry: entry.p_best or 0, reverse=True)[:6]
    parents = {entry.prompt: entry.estimate["score"] or 0.0 for entry in best}
    prompts = [*parents, *proposer.propose(6, parents)]
    earlier = selector
