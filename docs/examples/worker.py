"""One worker of a study, for Slurm, Kubernetes, or any other way to start the same program many times.

ASKTELL_STUDY says where the study is: http://HOST:8000 of a service (with
ASKTELL_TOKEN), postgresql://USER@HOST/DATABASE (with PGPASSWORD), or sqlite:///FILE on one
machine. Start as many as you like, and stop them as you like.
"""

import os
import signal
import sys
import time

import asktell

NAME = "summaries, first try"
PROMPTS = {f"words-{n}": f"Summarize in {n} words." for n in range(5, 65, 5)}
EXAMPLES = 40


def make_evaluator():
    """Load the model and the data set here; it is done once in each worker."""

    def evaluate(prompt, example):  # your LLM and your metrics; here a stand-in
        time.sleep(0.02)
        words = int(prompt.split()[2]) + example % 7
        return {
            "rouge": min(0.3, words / 100) + example / 1000,
            "brevity": 1 - words / 80,
        }

    return evaluate


def open_study():
    """The study, made by whichever worker comes first."""
    url = os.environ["ASKTELL_STUDY"]
    goal = asktell.BestFeasible("rouge", subject_to={"brevity": 0.5})
    selector = asktell.Selector(PROMPTS, goal, budget=100, examples=EXAMPLES)
    kind = asktell.RemoteStudy if url.startswith("http") else asktell.Study
    return kind.create(url, NAME, selector, exist_ok=True)


def worker_name():
    """The same after a restart, so that the worker goes on with its own trials; None: any name."""
    for job, index in (
        ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"),
        ("JOB_NAME", "JOB_COMPLETION_INDEX"),
    ):
        if job in os.environ and index in os.environ:
            return f"{os.environ[job]}-{os.environ[index]}"
    return None


def interrupted(*_):
    """End the run; an exit, as an evaluator may call it, would count as the failure of a trial."""
    raise KeyboardInterrupt


def main():
    """Evaluate until the study is done."""
    # preempted: hand the trials back at once
    signal.signal(signal.SIGTERM, interrupted)
    evaluator = make_evaluator()
    with open_study() as study:
        print(
            asktell.run(
                study.worker(worker_name(), lease=60), evaluator, progress=False
            )
        )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(143)
