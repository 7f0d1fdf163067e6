"""`asktell mcp`: durable studies as tools of the Model Context Protocol, for an agent that writes and edits prompts."""

import argparse
import functools
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import asktell
from asktell import AsktellError, Result, Selector, StudyNotFoundError
from asktell.extend import describe_spending, needs_extra, parse_goal, some
from asktell_adapters.cli.places import AnyStudy, create_study, location, names, open_study, pending_trials

with needs_extra("mcp"):
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from pydantic import BaseModel, Field

_LEASE = 3600.0  # seconds: agents wait for people
_INSTRUCTIONS = """\
Choose among prompts by evaluations that asktell hands out, not by a few examples of your own choice.
1. `create` a study once, with the prompt in use as the baseline and a budget. Its name is how you find it again.
2. `ask` for trials; run exactly those (that prompt on that example), score the answers, and `tell` the scores as they
   are. Tell a run that crashed as failed, with the reason. Repeat.
3. Have you written or edited a prompt? `add` it under a new id. Never change the text of one that has scores.
4. Before you say that a prompt is better, call `verdict`. While `too_early` is true, claim nothing: ask for more
   trials or, if the budget is spent, say that it is undecided. Otherwise report the sentence word for word.
`why` shows the evidence on one prompt; `report` writes a page for people.
"""


class Told(BaseModel):
    """What came of a trial: its scores, or why it failed."""

    trial: Annotated[int, Field(description="Number of the trial, as `ask` gave it.")]
    scores: Annotated[dict[str, float] | None, Field(description="Metric to number, every metric of the goal.")] = None
    failed: Annotated[str | None, Field(description="Why there are no scores; null if there are.")] = None
    cost: Annotated[float | None, Field(description="What it cost, always in the same unit.")] = None
    answer: Annotated[str | None, Field(description="The model's answer, to keep for the report.")] = None


Name = Annotated[str, Field(description="Name of the study.")]
Texts = Annotated[dict[str, str], Field(description="Id of each prompt to its text.")]
Worker = Annotated[str, Field(description="Who evaluates; agents that work in parallel need a name each.")]
Bounds = Annotated[dict[str, float] | None, Field(description="Metric to the bound that its mean must keep.")]


def serve_mcp(arguments: argparse.Namespace) -> int:
    """`asktell mcp`: over stdin and stdout, until the client closes them."""
    server = make_server(location(arguments.url))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the SDK would wait for the end of stdin; all that was told is kept
    server.run()
    return 0


def make_server(url: str) -> MCPServer:
    """The server of the studies at a URL: a storage's or a service's.

    Every call opens its study and closes it again, so that several agents, workers and people may use it at once.
    """
    server = MCPServer("asktell", instructions=_INSTRUCTIONS, version=asktell.__version__, log_level="WARNING")

    def tool(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Register a tool; its refusals are read by the agent."""

        @functools.wraps(function)
        def call(**arguments: Any) -> dict[str, Any]:
            try:
                return function(**arguments)
            except (AsktellError, OSError) as error:
                raise ToolError(str(error)) from error

        server.add_tool(call)
        return function

    def opened(name: str) -> AnyStudy:
        try:
            return open_study(url, name)
        except StudyNotFoundError as error:
            known: list[str] = []
            with suppress(StudyNotFoundError):  # of the storage
                known = names(url)
            there = f"there are {some(known)}" if known else "call `create` first"
            raise ToolError(f"There is no study {name!r}; {there}.") from error

    @tool
    def create(
        study: Name,
        prompts: Texts,
        budget: Annotated[int, Field(description="Most evaluations: one prompt on one example each.")],
        maximize: Annotated[Sequence[str], Field(description="Metrics to maximize; of several, a Pareto set.")] = (),
        minimize: Annotated[Sequence[str], Field(description="Metrics to minimize.")] = (),
        at_least: Bounds = None,
        at_most: Bounds = None,
        ranges: Annotated[
            dict[str, tuple[float, float]] | None,
            Field(description="Metric to its lowest and highest possible score, such as [0, 1]."),
        ] = None,
        examples: Annotated[
            int | list[str] | None, Field(description="Number of examples, or their ids; null to draw them yourself.")
        ] = None,
        baseline: Annotated[str | None, Field(description="Id of the prompt in use; by default the first.")] = None,
        repeats: Annotated[int, Field(description="Above 1 if a score differs when repeated.")] = 1,
    ) -> dict[str, Any]:
        """Create a study of prompts; if it exists with the same definition, go on with it."""
        kind = "pareto-set" if len(maximize) + len(minimize) > 1 else "best-feasible"
        goal = parse_goal(kind, maximize, minimize, at_least, at_most, ranges)
        baseline = next(iter(prompts), None) if baseline is None else baseline
        selector = Selector(prompts, goal, budget, examples=examples, baseline=baseline, repeats=repeats)
        with create_study(url, study, selector) as made:
            return {"sentence": f"{_where(made)} The baseline is {baseline}. Now `ask`.", "goal": str(goal)}

    @tool
    def add(study: Name, prompts: Texts) -> dict[str, Any]:
        """Add prompts that you have written to a study, each under a new id. The budget stays what it is."""
        with opened(study) as found:
            ids = found.add(prompts)
            return {"sentence": f"{', '.join(map(str, ids))} joined. {_where(found)}", "ids": ids}

    @tool
    def ask(study: Name, n: Annotated[int, Field(ge=1, le=1000)] = 1, worker: Worker = "agent") -> dict[str, Any]:
        """Get up to n trials to evaluate. Trials that you hold and have not told come again."""
        with opened(study) as found:
            trials = found.ask(n, worker=worker, lease=_LEASE)
            ids = found.example_ids
            if trials:
                said = f"Evaluate {'this' if len(trials) == 1 else 'these'}, then `tell`."
            elif found.done:
                said = "Nothing is left to evaluate. Call `verdict`."
            elif found.paused:
                said = "The study is paused; a person resumes it."
            else:
                said = f"{pending_trials(len(found.pending))} must be told first, by whoever holds them."
            return {
                "sentence": f"{_where(found)} {said}",
                "prompts": {str(trial.prompt_id): trial.prompt for trial in trials},
                "trials": [
                    {
                        "trial": trial.id,
                        "prompt": trial.prompt_id,
                        "example": trial.example if ids is None or trial.example is None else ids[trial.example],
                        **({} if trial.candidate is None else {"candidate": dict(trial.candidate)}),
                    }
                    for trial in trials
                ],
                "done": found.done,
            }

    @tool
    def tell(study: Name, results: list[Told], worker: Worker = "agent") -> dict[str, Any]:
        """Record scores, or failures. Telling the same again is harmless; changing what was told is refused."""
        problems = []
        with opened(study) as found:
            for each in results:
                details = None if each.answer is None else {"answer": each.answer}
                try:
                    if (each.scores is None) == (each.failed is None):
                        raise ToolError("give either scores or, in `failed`, why there are none.")
                    if each.scores is not None:
                        found.tell(each.trial, each.scores, each.cost, worker=worker, details=details)
                    else:
                        found.fail(each.trial, each.failed or "", each.cost, worker=worker, details=details)
                except (AsktellError, ToolError) as error:
                    problems.append(f"Trial {each.trial}: {error}")
            n = len(results) - len(problems)
            if problems:
                raise ToolError(f"{n} of {len(results)} were recorded. {' '.join(problems)}")
            return {"sentence": f"{n} recorded. {_where(found)}", "done": found.done}

    @tool
    def verdict(study: Name) -> dict[str, Any]:
        """What may be said of the prompts now: which is best, how sure that is, or that it is too early to say."""
        with opened(study) as found:
            result = found.result()
        early = _too_early(result)
        return {
            "sentence": " ".join(filter(None, (early, result.verdict.sentence, result.sentence))),
            "too_early": bool(early),
            "spent": result.spent,
            "budget": result.budget,
            "verdict": result.verdict.to_dict(),
            "notes": list(result.notes),
        }

    @tool
    def why(
        study: Name,
        prompt: Annotated[str, Field(description="Id of the prompt.")],
        against: Annotated[str | None, Field(description="Id of another; by default the baseline.")] = None,
    ) -> dict[str, Any]:
        """The evidence on a prompt: its estimates, its failures, why it left, how it compares with another prompt."""
        with opened(study) as found:
            result = found.result()
        entry = next((each for each in result.prompts if str(each.id) == prompt), None)
        if entry is None:
            raise ToolError(f"There is no prompt {prompt!r}; there are {[each.id for each in result.prompts]}.")
        reason = f": {entry.reason}" if entry.reason else ""
        said = f"{entry.id} is {entry.status}{reason}. Evaluations: {entry.evaluations}; failures: {entry.failures}."
        evidence = {"prompt": entry.to_dict(), "comparison": None}
        if against is not None or entry.id != result.baseline:
            comparison = result.compare(prompt, against)
            said, evidence["comparison"] = f"{said} {comparison}", comparison.to_dict()
        return {"sentence": said, **evidence}

    @tool
    def report(study: Name, path: Annotated[str, Field(description="Of the file, NAME.html.")]) -> dict[str, Any]:
        """Write an HTML page for people: the answer, every prompt, where the evaluations went."""
        file = Path(path)
        if file.suffix != ".html":
            raise ToolError(f"The report is a page: give a path that ends in .html, got {path!r}.")
        if not file.parent.is_dir():
            raise ToolError(f"There is no folder {str(file.parent.resolve())!r} for the report: create it first.")
        with opened(study) as found:
            found.report(file)
        return {"sentence": f"The report is at {file.resolve()}.", "path": str(file.resolve())}

    return server


def _where(study: AnyStudy) -> str:
    return f"{study.name}: {describe_spending(study)}, {pending_trials(len(study.pending))}."


def _too_early(result: Result) -> str:
    """Why nothing may be claimed yet; empty if something may.

    A verdict may advise to take a prompt that leads by little, as more examples of these would not tell. That is no
    victory: it counts when the prompt is the best with 95 % probability.
    """
    fresh = [
        entry.id
        for entry in result.prompts
        if not entry.evaluations
        and entry.status in ("active", "rejected")  # what the end of the budget makes of those never scored
        and entry.candidate is None  # scores of one combination of factors tell of others
    ]
    found = result.verdict
    if len(result.prompts) == 1:
        return "Too early: there is only one prompt, and nothing to compare it with."
    leads = found.action == "take" and found.p_best is not None and found.p_best < 0.95
    if found.action != "go on" and not leads and not fresh:
        return ""
    waiting = f" (no score yet: {some(fresh)})" if fresh else ""
    if result.done:
        return f"Undecided{waiting}, and the budget is spent: say so. A person may extend it."
    return f"Too early to name a winner{waiting}."
