"""Choose the best prompt of a promptfoo config with a share of its evaluations."""

import asktell
from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator

with PromptfooEvaluator("promptfooconfig.yaml", rows="rows.jsonl") as evaluator:
    goal = asktell.BestFeasible("accuracy", subject_to={"length": asktell.at_most(20)})
    selector = asktell.Selector(
        evaluator.prompts, goal, budget=24, examples=len(evaluator.tests)
    )
    print(asktell.run(selector, evaluator, concurrency=4))
    evaluator.write_results("results.json")
