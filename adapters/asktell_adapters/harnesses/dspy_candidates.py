"""What may be chosen in a DSPy program: instructions and demos of its predictors, and their text for a selector.

The text holds all of a candidate, so that a study that is opened again needs nothing else.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from asktell import InvalidArgumentError
from asktell.extend import needs_extra

with needs_extra("dspy"):
    import dspy
    from dspy.propose import GroundedProposer

Demos: TypeAlias = Sequence[Any]
"""Examples (`dspy.Example`, or mappings from field to value) that a predictor shows to the LM."""


@final
@dataclass(frozen=True)
class Candidate:
    """Instructions and demos by the predictor's name; a predictor that is not named keeps its own."""

    instructions: Mapping[str, str] = field(default_factory=dict)
    demos: Mapping[str, Demos] = field(default_factory=dict)

    def apply(self, program: Any) -> Any:
        """A copy of the program with these instructions and demos."""
        copy = program.deepcopy()
        for name, predictor in copy.named_predictors():
            if name in self.instructions:
                predictor.signature = predictor.signature.with_instructions(self.instructions[name])
            if name in self.demos:
                predictor.demos = [_example(demo) for demo in self.demos[name]]
        return copy

    def to_text(self) -> str:
        """The instruction itself if that is all there is, else JSON."""
        if len(self.instructions) == 1 and not self.demos:
            ((name, text),) = self.instructions.items()
            if _parts(text, (name,)) is None:
                return text
        parts: dict[str, dict[str, Any]] = {name: {"instructions": text} for name, text in self.instructions.items()}
        for name, demos in self.demos.items():
            parts.setdefault(name, {})["demos"] = [dict(_example(demo).items()) for demo in demos]
        return json.dumps(parts, ensure_ascii=False, default=_plain)

    @classmethod
    def from_text(cls, text: str, names: Sequence[str]) -> "Candidate":
        """What `to_text` made, for a program with predictors of these names."""
        parts = _parts(text, names)
        if parts is None:
            return cls({names[0]: text})
        return cls(
            {name: part["instructions"] for name, part in parts.items() if "instructions" in part},
            {name: part["demos"] for name, part in parts.items() if "demos" in part},
        )


def candidates_of(
    program: Any, instructions: Sequence[Any], demos: Sequence[Any] = (), *, keep_original: bool = True
) -> list[Candidate]:
    """Each of the instructions with each of the demo sets, each candidate once.

    Args:
        program: whose predictors they are for.
        instructions: texts, if the program has one predictor; mappings from a predictor's name to its text; or whole
            `Candidate`s. Empty: the program's own.
        demos: demo sets: lists of examples, if the program has one predictor; or mappings from a predictor's name to
            such a list. Empty: the program's own.
        keep_original: the program's own instructions and demos are among the choices, as the first.

    Raises:
        InvalidArgumentError: a predictor is unknown, or one of several must be named.
    """
    for what, choices in (("Candidates", instructions), ("Demo sets", demos)):
        if isinstance(choices, str | Mapping) or not isinstance(choices, Sequence):
            raise InvalidArgumentError(f"{what} must be a list of choices, got {choices!r:.100}.")
    own = {name: predictor.signature.instructions for name, predictor in program.named_predictors()}
    own_demos = {name: list(predictor.demos) for name, predictor in program.named_predictors()}
    if not own:
        raise InvalidArgumentError("The program has no predictors, so there is nothing to choose in it.")
    given = [_candidate(choice, tuple(own)) for choice in instructions]
    sets = [_by_predictor("a demo set", choice, tuple(own)) for choice in demos]
    if keep_original or not given:
        given.insert(0, Candidate())
    if sets and keep_original:
        sets.insert(0, {})
    with_demos = bool(sets) or any(candidate.demos for candidate in given)
    found: dict[str, Candidate] = {}
    for candidate in given:
        for chosen in sets or [{}]:
            whole = Candidate(
                {**own, **candidate.instructions}, {**own_demos, **candidate.demos, **chosen} if with_demos else {}
            )
            found.setdefault(whole.to_text(), whole)
    return list(found.values())


def bootstrap_demos(
    program: Any,
    metric: Callable[..., Any],
    trainset: Sequence[Any],
    n: int,
    *,
    max_bootstrapped: int = 4,
    max_labeled: int = 4,
    threshold: float | None = None,
    teacher: Any = None,
    seed: int = 0,
) -> list[dict[str, Demos]]:
    """Demo sets as for MIPROv2: none, then labelled ones, then those of `dspy.BootstrapFewShot` on shuffled examples.

    Args:
        program: the student.
        metric: `(example, prediction, trace)` -> a success where it is true, or reaches `threshold`.
        trainset: examples to make demos of.
        n: how many sets.
        max_bootstrapped: demos of the teacher's own making in a set, at most.
        max_labeled: demos taken from the trainset, at most.
        threshold: of the metric.
        teacher: a program that makes the demos; by default the student.
        seed: makes the choice of examples repeatable.
    """
    draw = random.Random(seed)
    found: list[dict[str, Demos]] = []
    for number in range(n):
        examples, most = list(trainset), max_bootstrapped
        if number == 0:
            compiled = program.reset_copy()
        elif number == 1 and max_labeled:
            compiled = dspy.LabeledFewShot(k=max_labeled).compile(program, trainset=examples)
        else:
            if number > 2:
                draw.shuffle(examples)
                most = draw.randint(1, max_bootstrapped)
            optimizer = dspy.BootstrapFewShot(
                metric=metric, metric_threshold=threshold, max_bootstrapped_demos=most, max_labeled_demos=max_labeled
            )
            compiled = optimizer.compile(program, teacher=teacher, trainset=examples)
        found.append({name: list(predictor.demos) for name, predictor in compiled.named_predictors()})
    return found


def propose_instructions(
    program: Any, trainset: Sequence[Any], n: int, *, prompt_model: Any = None, seed: int = 0
) -> list[dict[str, str]]:
    """Instructions by DSPy's `GroundedProposer`, as for MIPROv2: n for each predictor; the i-th of all go together.

    Args:
        program: whose predictors they are for.
        trainset: examples that the proposer describes to the LM.
        n: how many.
        prompt_model: the LM that writes; by default the one of `dspy.settings`.
        seed: makes the proposer's choices repeatable; the LM's are its own.
    """
    lm = prompt_model or dspy.settings.lm
    proposer = GroundedProposer(prompt_model=lm, program=program, trainset=list(trainset), rng=random.Random(seed))
    made = proposer.propose_instructions_for_program(
        trainset=list(trainset), program=program, demo_candidates=None, trial_logs={}, N=n
    )
    names = [name for name, _ in program.named_predictors()]
    return [{name: made[i][j] for i, name in enumerate(names)} for j in range(n)]


def _parts(text: str, names: Sequence[str]) -> dict[str, dict[str, Any]] | None:
    """What a text says of each predictor, if it is JSON of ours."""
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not (isinstance(parts, dict) and parts and set(parts) <= set(names)):
        return None
    ours = all(isinstance(part, dict) and set(part) <= {"instructions", "demos"} for part in parts.values())
    return parts if ours else None


def _candidate(choice: object, names: tuple[str, ...]) -> Candidate:
    if isinstance(choice, Candidate):
        return Candidate(
            _by_predictor("a candidate's instructions", choice.instructions, names),
            _by_predictor("a candidate's demos", choice.demos, names),
        )
    chosen = _by_predictor("an instruction", choice, names)
    for name, text in chosen.items():
        if not isinstance(text, str):
            raise InvalidArgumentError(f"The instruction of {name!r} must be a str, got {text!r:.100}.")
    return Candidate(chosen)


def _by_predictor(what: str, choice: object, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(choice, Mapping):
        if len(names) > 1:
            raise InvalidArgumentError(
                f"The program has the predictors {', '.join(names)}: give {what} as a mapping from a predictor's name, "
                f"got {choice!r:.100}."
            )
        return {names[0]: choice}
    unknown = [str(name) for name in choice if name not in names]
    if unknown:
        raise InvalidArgumentError(
            f"{what.capitalize()} names {', '.join(unknown)}, but the program's predictors are {', '.join(names)}."
        )
    return dict(choice)


def _example(demo: Any) -> Any:
    return demo if isinstance(demo, dspy.Example) else dspy.Example(**demo)


def _plain(value: Any) -> Any:
    """A value for JSON: pydantic's models as mappings, as DSPy saves them; anything else as text."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)
