"""What promptfoo takes per evaluation, by its command and by the process that stays, with a provider that echoes.

python -m benchmarks.speed.promptfoo --node-modules FOLDER
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import asktell
from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator

CONFIG = {
    "prompts": [f"Prompt {n}: {{{{x}}}}" for n in range(10)],
    "providers": ["echo"],
    "defaultTest": {
        "assert": [{"type": "javascript", "value": "output.length", "metric": "length"}]
    },
    "tests": [{"vars": {"x": f"example {n}"}} for n in range(20)],
}


def main() -> None:
    """Parse the command line and print the times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--node-modules", type=Path, required=True)
    parser.add_argument("--node", default="node")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "promptfooconfig.json"
        config.write_text(json.dumps(CONFIG))
        package = args.node_modules / "promptfoo"
        command = (
            package
            / json.loads((package / "package.json").read_text())["bin"]["promptfoo"]
        )
        options = [
            "--no-cache",
            "--no-write",
            "--no-table",
            "--filter-prompts",
            "Prompt 3",
            "--filter-first-n",
            "1",
        ]
        start = time.perf_counter()
        subprocess.run(
            [args.node, command, "eval", "-c", config, *options],
            check=False,
            capture_output=True,
        )
        print(f"command, one evaluation: {time.perf_counter() - start:.2f} s")
        start = time.perf_counter()
        with PromptfooEvaluator(
            config, node_modules=args.node_modules, node=args.node
        ) as evaluator:
            print(f"process that stays, its start: {time.perf_counter() - start:.2f} s")
            for size in (1, 4, 16):
                goal = asktell.ParetoSet(
                    asktell.maximize("length"), asktell.maximize("latency")
                )
                selector = asktell.Selector(
                    evaluator.prompts, goal, 200, "uniform", examples=20
                )
                start = time.perf_counter()
                result = asktell.run(
                    selector, evaluator, concurrency=size, progress=False
                )
                per_evaluation = 1000 * (time.perf_counter() - start) / result.spent
                print(
                    f"process that stays, {size} at once: {per_evaluation:.1f} ms an evaluation"
                )


if __name__ == "__main__":
    main()
