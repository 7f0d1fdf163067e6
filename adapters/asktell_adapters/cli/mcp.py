"""`asktell mcp`: durable studies as tools of the Model Context Protocol, for an agent that writes and edits prompts."""

import argparse
import functools
import inspect
import json
import re
import signal
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import asktell
from asktell import (
    AsktellError,
    Referee,
    Result,
    Selector,
    StudyNotFoundError,
    Trial,
)
from asktell.extend import (
    describe_spending,
    describe_streak,
    needs_extra,
    parse_goal,
    some,
)
from asktell_adapters.cli.places import (
    AnyStudy,
    create_study,
    location,
    names,
    open_study,
    pending_trials,
)

with needs_extra("mcp"):
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
    from pydantic import BaseModel, Field

_LEASE = 3600.0  # seconds: agents wait for people
_INSTRUCTIONS = """\
Choose among prompts by the evaluations that asktell assigns, not by a few examples of your own choice.
1. `create` a study once, with the prompt in use as the baseline and a budget. Find it again by its name.
2. `ask` for trials. Run exactly these trials (that prompt on that example), score the responses, and `tell` the scores
   unchanged. Tell a run that crashed as failed, with the reason. Repeat. If `ask` lists trials under `stop`, their
   prompt was eliminated. Stop these runs, and tell each as `stopped`, with its cost so far.
3. If you write or edit a prompt, `add` it under a new id. Never change the text of a prompt that has scores.
4. Before you say that a prompt is better, call `verdict`. While `too_early` is true, do not name a winner. Ask for
   more trials or, if the budget is spent, say that the study is undecided. Otherwise report the sentence word for word.
If you improve a prompt again and again, `create` the study with the method "referee", and `propose` each new version
instead of 2 to 4: it returns the trials to run next, or whether the version is accepted. Keep only accepted versions.
Write a version from the accepted one, never from the scores of these examples.
`why` shows the evidence on one prompt, `report` writes a page for people, and `studies` lists the studies.
"""
_READS = ToolAnnotations(readOnlyHint=True, openWorldHint=False)
_KEEPS = ToolAnnotations(readOnlyHint=False, destructiveHint=False, openWorldHint=False)
_AGAIN = ToolAnnotations(
    readOnlyHint=False, destructiveHint=False, idempotentHint=True, openWorldHint=False
)
_REPLACES = ToolAnnotations(
    readOnlyHint=False, destructiveHint=True, idempotentHint=True, openWorldHint=False
)


class Told(BaseModel):
    """The outcome of a trial: its scores, why it failed, or that it was stopped."""

    trial: Annotated[int, Field(description="Number of the trial, as `ask` gave it.")]
    scores: Annotated[
        dict[str, float] | None,
        Field(description="Metric to number, every metric of the goal."),
    ] = None
    failed: Annotated[
        str | None, Field(description="Why there are no scores; null if there are.")
    ] = None
    stopped: Annotated[
        bool,
        Field(
            description="True if you stopped the run since `ask` listed it under `stop`."
        ),
    ] = False
    cost: Annotated[
        float | None, Field(description="What it cost, always in the same unit.")
    ] = None
    answer: Annotated[
        str | None, Field(description="The model's response, to keep for the report.")
    ] = None


class Answer(BaseModel):
    """What every tool answers with."""

    sentence: Annotated[str, Field(description="The answer in words.")]


class Studies(Answer):
    """The studies there are."""

    studies: Annotated[list[str], Field(description="Their names, the oldest first.")]


class Created(Answer):
    """A study that was created, or exists."""

    goal: Annotated[str, Field(description="What it looks for.")]


class Added(Answer):
    """Prompts that joined."""

    ids: list[str | int]


class Pull(BaseModel):
    """A trial to evaluate."""

    trial: Annotated[int, Field(description="Its number, for `tell`.")]
    prompt: Annotated[str | int, Field(description="Id of the prompt to run.")]
    example: Annotated[
        int | str | None,
        Field(description="The example to run it on; null to draw one yourself."),
    ]
    candidate: Annotated[
        dict[str, Any] | None,
        Field(description="Factor to value, if there are factors."),
    ] = None


class Asked(Answer):
    """Trials to evaluate."""

    prompts: Annotated[
        dict[str, str],
        Field(description="Id of each prompt among the trials to its text."),
    ]
    trials: list[Pull]
    stop: Annotated[
        list[int],
        Field(
            description="Trials that you hold whose prompt is eliminated: stop these runs."
        ),
    ]
    done: Annotated[bool, Field(description="True if no more will come.")]


class Proposed(Asked):
    """The decision about a candidate, or the trials that it needs."""

    decision: Annotated[
        str | None,
        Field(
            description="accepted, rejected, undecided or failed; null while trials are needed."
        ),
    ]
    incumbent: Annotated[str | int, Field(description="Id of the prompt to keep now.")]


class Recorded(Answer):
    """The trials that were recorded, and the trials that were not."""

    recorded: Annotated[
        int, Field(description="Number of results that were recorded now.")
    ]
    unchanged: Annotated[
        list[int],
        Field(
            description="Trials that had ended or were given to another worker before."
        ),
    ]
    done: Annotated[bool, Field(description="True if no more trials will come.")]


class Judged(Answer):
    """Whether a winner may be named, and the verdict."""

    too_early: Annotated[bool, Field(description="True while no winner may be named.")]
    spent: Annotated[int, Field(description="Evaluations so far.")]
    budget: Annotated[int, Field(description="Most evaluations.")]
    verdict: Annotated[
        dict[str, Any], Field(description="The advice, and its probabilities.")
    ]
    notes: Annotated[
        list[str], Field(description="What could be wrong with the verdict.")
    ]


class Evidence(Answer):
    """The evidence on a prompt."""

    prompt: Annotated[
        dict[str, Any], Field(description="Its estimates, status and failures.")
    ]
    comparison: Annotated[
        dict[str, Any] | None,
        Field(description="Comparison with the other prompt; null for the baseline."),
    ]


class Page(Answer):
    """A page that was written."""

    path: Annotated[str, Field(description="Of the file.")]


Name = Annotated[str, Field(description="Name of the study.")]
Texts = Annotated[dict[str, str], Field(description="Id of each prompt to its text.")]
Worker = Annotated[
    str,
    Field(description="Who evaluates; agents that work in parallel need a name each."),
]
Bounds = Annotated[
    dict[str, float | str] | None,
    Field(
        description="Metric to a bound of its mean: a number, 'within 0.02 of best' or 'within 0.02 of baseline'."
    ),
]


class Store(NamedTuple):
    """The studies at a URL. Every call opens its study and closes it again, so that others may use it meanwhile.

    Attributes:
        url: the URL.
        instance: text that tells this server from others, whose agents may act as a worker of the same name.
    """

    url: str
    instance: str = ""

    def names(self) -> list[str]:
        """The names of all studies. Empty if there is no storage yet."""
        with suppress(StudyNotFoundError):
            return names(self.url)
        return []

    def open(self, name: str) -> AnyStudy:
        """The study of a name, for a `with` block."""
        try:
            return open_study(self.url, name)
        except StudyNotFoundError as error:
            names = self.names()
            there = f"There are {some(names)}" if names else "Call `create` first"
            raise ToolError(f"There is no study {name!r}. {there}.") from error


# The tools. An agent is shown their names, docstrings and parameters, except the first
# one.


def studies(store: Store) -> Studies:
    """List the studies."""
    names = store.names()
    sentence = (
        f"There are {len(names)}: {some(names)}."
        if names
        else "There are no studies yet. `create` one."
    )
    return Studies(sentence=sentence, studies=names)


def create(
    store: Store,
    study: Name,
    prompts: Texts,
    budget: Annotated[
        int, Field(description="Most evaluations: one prompt on one example each.")
    ],
    maximize: Annotated[
        Sequence[str],
        Field(description="Metrics to maximize. Several metrics select a Pareto set."),
    ] = (),
    minimize: Annotated[Sequence[str], Field(description="Metrics to minimize.")] = (),
    at_least: Bounds = None,
    at_most: Bounds = None,
    ranges: Annotated[
        dict[str, tuple[float, float]] | None,
        Field(
            description="Metric to its lowest and highest possible score, such as [0, 1]."
        ),
    ] = None,
    tolerances: Annotated[
        dict[str, float] | None,
        Field(
            description="Metric to the difference that does not matter, in its units, such as 0.01."
        ),
    ] = None,
    examples: Annotated[
        int | list[str] | None,
        Field(
            description="Number of examples, or their ids; null to draw them yourself."
        ),
    ] = None,
    baseline: Annotated[
        str | None, Field(description="Id of the prompt in use; by default the first.")
    ] = None,
    repeats: Annotated[
        int, Field(description="Above 1 if a score differs when repeated.")
    ] = 1,
    method: Annotated[
        Literal["auto", "referee"],
        Field(description="referee: new versions come one by one, by `propose`."),
    ] = "auto",
    each: Annotated[
        int | None,
        Field(description="With referee, most evaluations of a version (200)."),
    ] = None,
) -> Created:
    """Create a study of prompts, or continue the study of this name if it has the same definition."""
    kind = "pareto-set" if len(maximize) + len(minimize) > 1 else "best-feasible"
    goal = parse_goal(
        kind,
        maximize,
        minimize,
        dict[str, Any](at_least or {}),
        dict[str, Any](at_most or {}),
        ranges,
        tolerances=tolerances,
    )
    baseline = next(iter(prompts), None) if baseline is None else baseline
    if each is not None and method != "referee":
        raise ToolError("`each` is only for the method referee. Leave it out.")
    selector = Selector(
        prompts,
        goal,
        budget,
        method if each is None else Referee(each=each),
        examples=examples,
        baseline=baseline,
        repeats=repeats,
    )
    if study in store.names():
        with store.open(study) as there:
            _check_budget(there, budget)
    with create_study(store.url, study, selector) as created:
        return Created(
            sentence=f"{_where(created)} The baseline is {baseline}. Now `ask`.",
            goal=str(goal),
        )


def _check_budget(study: AnyStudy, budget: int) -> None:
    """Refuse a larger budget for a study that exists. An agent must not spend more than people allowed.

    Raises:
        ToolError: the budget is larger.
    """
    if budget > study.budget:
        raise ToolError(
            f"The study {study.name!r} exists, and its budget is {study.budget} evaluations, not {budget}. Only a "
            "person may extend it, by `asktell extend`. Call `create` with its own budget, or choose another name."
        )


def add(store: Store, study: Name, prompts: Texts) -> Added:
    """Add prompts that you have written to a study, each under a new id. The budget does not change."""
    with store.open(study) as opened:
        ids = opened.add(prompts)
        return Added(
            sentence=f"Added: {', '.join(map(str, ids))}. {_where(opened)}", ids=ids
        )


def ask(
    store: Store,
    study: Name,
    n: Annotated[int, Field(ge=1, le=1000)] = 1,
    worker: Worker = "agent",
) -> Asked:
    """Get up to n trials to evaluate, and the trials to stop. Trials that you hold and have not told come again."""
    with store.open(study) as opened:
        stop = [
            held.trial.id
            for held in opened.workers()
            if held.worker == worker and not held.wanted
        ]
        bound = opened.worker(
            worker, lease=_LEASE, besides=stop, instance=store.instance
        )
        trials = bound.ask(n)
        return Asked(
            sentence=f"{_where(opened)} {_what_next(opened, len(trials))}{_stop_sentence(stop)}",
            prompts={str(trial.prompt_id): trial.prompt for trial in trials},
            trials=[_pull(trial, opened.example_ids) for trial in trials],
            stop=stop,
            done=opened.done,
        )


def propose(
    store: Store,
    study: Name,
    prompt: Annotated[str, Field(description="A new id for the version.")],
    text: Annotated[str, Field(description="Its text.")],
    n: Annotated[int, Field(ge=1, le=1000)] = 10,
    worker: Worker = "agent",
) -> Proposed:
    """Let the referee judge a new version: get the decision, or trials to run and `tell`. Then call it again."""
    with store.open(study) as opened:
        if not isinstance(opened.method, Referee):
            raise ToolError(
                f"The study {study!r} was not created with the method referee, so it judges no versions one by one. "
                "Use `add`, `ask` and `verdict`, or `create` another study with this method."
            )
        opened.add({prompt: text})
        asked = ask(store, study, n, worker)
        result = opened.result()
    entry = next(entry for entry in result.prompts if str(entry.id) == prompt)
    is_judged = entry.status != "active"
    assert result.best is not None, "a Referee always selects its incumbent"
    words = asked.sentence
    if is_judged:
        words = f"{prompt} is {entry.status}: {entry.reason}. Keep {result.best.id}. {words}"
    elif asked.done:
        words = f"{prompt} is not judged, because the budget is spent. Keep {result.best.id}. {words}"
    return Proposed(
        **{**asked.model_dump(), "sentence": words},
        decision=entry.status if is_judged else None,
        incumbent=result.best.id,
    )


def tell(
    store: Store, study: Name, results: list[Told], worker: Worker = "agent"
) -> Recorded:
    """Record scores or failures. Repeating a result has no effect, and recorded results never change."""
    problems, unchanged = list[str](), list[int]()
    with store.open(study) as opened:
        for result in results:
            try:
                if not _record(opened, result, worker):
                    unchanged.append(result.trial)
            except (AsktellError, ToolError) as error:
                problems.append(f"Trial {result.trial}: {error}")
        n = len(results) - len(problems) - len(unchanged)
        stays = ""
        if unchanged:
            trials = f"Trials {', '.join(map(str, unchanged))}"
            stays = f" {trials} had ended or were given to another worker before, so nothing was recorded for them."
        if problems:
            raise ToolError(
                f"{n} of {len(results)} were recorded.{stays} {' '.join(problems)}"
            )
        sentence = f"{n} recorded.{stays} {_where(opened)}"
        if any(result.failed is not None for result in results) and (
            streak := describe_streak(opened.selector.state)
        ):
            sentence += f" {streak}. Stop, and tell a person, before you evaluate more."
        return Recorded(
            sentence=sentence, recorded=n, unchanged=unchanged, done=opened.done
        )


def verdict(store: Store, study: Name) -> Judged:
    """Return which prompt is the best and how sure that is, or that it is too early to name a winner."""
    with store.open(study) as opened:
        result = opened.result()
    early = _too_early(result)
    return Judged(
        sentence=" ".join(
            filter(None, (early, result.verdict.sentence, result.sentence))
        ),
        too_early=bool(early),
        spent=result.spent,
        budget=result.budget,
        verdict=result.verdict.to_dict(),
        notes=list(result.notes),
    )


def why(
    store: Store,
    study: Name,
    prompt: Annotated[str, Field(description="Id of the prompt.")],
    against: Annotated[
        str | None, Field(description="Id of another prompt; by default the baseline.")
    ] = None,
) -> Evidence:
    """Show the evidence on a prompt: estimates, failures, why it was eliminated, and a comparison with another."""
    with store.open(study) as opened:
        result = opened.result()
    entry = next((entry for entry in result.prompts if str(entry.id) == prompt), None)
    if entry is None:
        raise ToolError(
            f"There is no prompt {prompt!r}. The prompts are {[entry.id for entry in result.prompts]}."
        )
    reason = f": {entry.reason}" if entry.reason else ""
    sentence = f"{entry.id} is {entry.status}{reason}. Evaluations: {entry.evaluations}; failures: {entry.failures}."
    compared = None
    if against is not None or entry.id != result.baseline:
        comparison = result.compare(prompt, against)
        sentence, compared = f"{sentence} {comparison}", comparison.to_dict()
    return Evidence(sentence=sentence, prompt=entry.to_dict(), comparison=compared)


def report(
    store: Store,
    study: Name,
    path: Annotated[str, Field(description="Path of the file, NAME.html.")],
) -> Page:
    """Write an HTML page for people: the selected prompt, every prompt, and how the evaluations were spent."""
    file = Path(path)
    if file.suffix != ".html":
        raise ToolError(
            f"The report is an HTML page, so its path must end in .html, got {path!r}."
        )
    if not file.parent.is_dir():
        raise ToolError(
            f"There is no folder {str(file.parent.resolve())!r} for the report. Create it first."
        )
    # A link could lead to a file that is no page, and writing to a pipe would wait for
    # a reader.
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise ToolError(
            f"The report replaces only ordinary files, and {path!r} is a link, a folder or a device. Choose another "
            "path."
        )
    with store.open(study) as opened:
        opened.report(file)
    return Page(
        sentence=f"The report is at {file.resolve()}.", path=str(file.resolve())
    )


_TOOLS: dict[str, tuple[Callable[..., Answer], ToolAnnotations]] = {
    "studies": (studies, _READS),
    "create": (create, _AGAIN),
    "add": (add, _AGAIN),
    "ask": (ask, _KEEPS),
    "propose": (propose, _KEEPS),
    "tell": (tell, _AGAIN),
    "verdict": (verdict, _READS),
    "why": (why, _READS),
    "report": (report, _REPLACES),
}


def serve_mcp(arguments: argparse.Namespace) -> int:
    """`asktell mcp`: over stdin and stdout, until the client closes them."""
    server = make_server(location(arguments.url))
    # The SDK would wait for the end of stdin; all that was told is kept
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server.run()
    return 0


def make_server(url: str) -> MCPServer:
    """The server of the studies at a URL: a storage's or a service's."""
    server = MCPServer(
        "asktell",
        instructions=_INSTRUCTIONS,
        version=asktell.__version__,
        log_level="WARNING",
    )
    store = Store(url, uuid.uuid4().hex[:8])
    for function, annotations in _TOOLS.values():
        server.add_tool(_tool_of_store(function, store), annotations=annotations)
    return server


def _tool_of_store(tool: Callable[..., Answer], store: Store) -> Callable[..., Answer]:
    """Return the tool for one store. Its errors are written for the agent."""

    @functools.wraps(tool)
    def call(**arguments: Any) -> Answer:
        try:
            answer = tool(store, **arguments)
            json.dumps(answer.model_dump(), ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ToolError(
                "This study has a text with half a surrogate pair, which is not valid Unicode and cannot be sent by "
                "MCP. Ask a person to add a corrected prompt, and to retire this one."
            ) from error
        except (AsktellError, OSError, ToolError) as error:
            raise ToolError(_agent_message(str(error))) from error
        return answer

    signature = inspect.signature(tool)
    _, *parameters = signature.parameters.values()
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # which the SDK reads
    return call


def _pull(trial: Trial, ids: Sequence[str] | None) -> Pull:
    """A trial in the words of the tools."""
    example = (
        trial.example if ids is None or trial.example is None else ids[trial.example]
    )
    return Pull(
        trial=trial.id,
        prompt=trial.prompt_id,
        example=example,
        candidate=trial.candidate,
    )


def _what_next(study: AnyStudy, n_trials: int) -> str:
    """The next step of the agent, in words."""
    if n_trials:
        return f"Evaluate {'this' if n_trials == 1 else 'these'}, then `tell`."
    if study.done:
        return "Nothing is left to evaluate. Call `verdict`."
    if study.paused:
        return "The study is paused. A person has to resume it."
    return f"{pending_trials(len(study.pending))} must be recorded first, by the workers that hold them."


def _stop_sentence(trials: Sequence[int]) -> str:
    """The trials that the agent should stop because their prompt was eliminated, in words."""
    if not trials:
        return ""
    named = (
        f"trial {trials[0]}"
        if len(trials) == 1
        else f"trials {', '.join(map(str, trials))}"
    )
    return (
        f" Stop {named}, because the prompt was eliminated, and `tell` this as stopped."
    )


def _record(study: AnyStudy, result: Told, worker: str) -> bool:
    """Record the outcome of a trial. False if there was nothing left to record."""
    if (result.scores is not None) + (result.failed is not None) + result.stopped != 1:
        raise ToolError(
            "Give exactly one of `scores`, `failed` (the reason) and `stopped` (only if `ask` requested it)."
        )
    if result.stopped:
        return _stopped(study, result, worker)
    details = None if result.answer is None else {"answer": result.answer}
    if result.scores is not None:
        return study.worker(worker).tell(
            result.trial, result.scores, result.cost, details=details
        )
    return study.worker(worker).fail(
        result.trial, result.failed or "", result.cost, details=details
    )


def _stopped(study: AnyStudy, result: Told, worker: str) -> bool:
    """Release a trial, and record its cost so far."""
    held = next(
        (holding for holding in study.workers() if holding.trial.id == result.trial),
        None,
    )
    if held is not None and held.worker in (None, worker) and result.cost:
        study.observe(held.trial, None, held.trial.example, result.cost)
    return study.worker(worker).release(result.trial)


def _agent_message(message: str) -> str:
    """A message in the agent's terms: tools for methods of the same name, and no sentence on a method that is no tool.

    The first sentence, which describes the mistake, stays.
    """
    first, *rest = re.split(
        r"(?<=[.;]) ", message.encode("utf-8", "backslashreplace").decode()
    )
    sentences = [
        first,
        *(
            sentence
            for sentence in rest
            if _TOOLS.keys() >= set(re.findall(r"\b([a-z_]+)\(", sentence))
        ),
    ]
    text = re.sub(
        r"\b([a-z]+)\(\)",
        lambda match: f"`{match[1]}`" if match[1] in _TOOLS else match[0],
        " ".join(sentences),
    )
    return re.sub(";$", ".", text)


def _where(study: AnyStudy) -> str:
    """The progress of a study, in words."""
    return f"{study.name}: {describe_spending(study)}, {pending_trials(len(study.pending))}."


def _too_early(result: Result) -> str:
    """Why no winner may be named yet, in words. Empty if a winner may be named.

    The verdict has to recommend the prompt, and every prompt needs a score. A prompt that
    is only the best so far is no winner, and one that may be no better than the baseline
    is none either.
    """
    fresh = [
        entry.id
        for entry in result.prompts
        if not entry.evaluations
        # What the end of the budget makes of those never scored
        and entry.status in ("active", "rejected")
        # Scores of one combination of factors tell of others
        and entry.candidate is None
    ]
    verdict = result.verdict
    if len(result.prompts) == 1:
        return "Too early: there is only one prompt, and nothing to compare it with."
    change = None if verdict.change is None else verdict.change.decision
    is_open = verdict.action in ("go on", "best so far") or change == "not decided"
    if not is_open and not fresh:
        return ""
    waiting = f" (no score yet: {some(fresh)})" if fresh else ""
    if result.done:
        return f"Undecided{waiting}, and the budget is spent. Say so. A person may extend the budget."
    return f"Too early to name a winner{waiting}."
