"""Candidate prompts written by an LLM that sees a few solved examples (the paper's generation template)."""

import random
import re
from collections.abc import Callable, Iterable, Sequence

from asktell import EvaluatorError, InvalidArgumentError
from asktell_adapters.llms.base import LLM, Completion, Example, Request

_QUOTES = {'"': '"', "'": "'", "“": "”", "`": "`"}


def generation_prompt(examples: Sequence[Example]) -> str:
    """The user turn of the paper's appendix: each example's input and (first) reference, then the request.

    Raises:
        EvaluatorError: an example has no reference.
    """
    pairs = [f"Input: {example.input}\nOutput: {example.references[0]}" for example in examples]
    return "\n\n".join([*pairs, "Please provide the instruction now."])


def generate_prompts(
    llm: LLM,
    examples: Sequence[Example],
    n: int,
    *,
    seed: int = 0,
    shots: tuple[int, int] = (3, 5),
    temperature: float = 1.0,
    max_new_tokens: int = 128,
    max_attempts: int | None = None,
    system: str | None = None,
) -> list[str]:
    """`n` distinct prompts, each written from `shots[0]` to `shots[1]` examples drawn at random.

    The examples drawn and the sampling seeds follow from `seed`, so a deterministic LLM gives the same prompts again.
    Prompts that differ only in case or white space count as one.

    Args:
        llm: writes the prompts.
        examples: solved examples; keep those that prompts will be evaluated on out of it.
        n: prompts wanted.
        seed: of the draws and of the sampling.
        shots: the fewest and the most examples shown at once.
        temperature: of the sampling; 0 leaves only the examples to make prompts differ.
        max_new_tokens: a prompt that is cut there counts as none.
        max_attempts: completions asked for at most, by default 10 n + 20.
        system: a system turn before the template.

    Raises:
        InvalidArgumentError: n or shots is out of range, or there are fewer examples than `shots[0]`.
        EvaluatorError: an example has no reference, or the attempts brought fewer than n distinct prompts.
    """
    low, high = shots
    if n < 1:
        raise InvalidArgumentError(f"n must be at least 1, got {n!r}.")
    if not 1 <= low <= high:
        raise InvalidArgumentError(f"shots must be (fewest, most) with 1 <= fewest <= most, got {shots!r}.")
    if len(examples) < low:
        raise InvalidArgumentError(f"shots={shots!r} needs at least {low} examples, got {len(examples)}.")
    most = 10 * n + 20 if max_attempts is None else max_attempts

    def request(attempt: int) -> Request:
        draw = random.Random(f"asktell-prompt-{seed}-{attempt}")
        shown = draw.sample(list(examples), draw.randint(low, min(high, len(examples))))
        return Request.chat(
            generation_prompt(shown),
            system,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seed=draw.randrange(2**31),
        )

    found, refusals = distinct_prompts(llm, request, n, most)
    if len(found) < n:
        raise EvaluatorError(
            f"{most} completions gave {len(found)} distinct prompts of the {n} wanted ({refusals}). Raise temperature, "
            "max_new_tokens or max_attempts, or give more examples"
        )
    return found


def distinct_prompts(
    llm: LLM, request: Callable[[int], Request], n: int, max_attempts: int, known: Iterable[str] = ()
) -> tuple[list[str], str]:
    """Up to n distinct prompts from the answers to `request(0)`, `request(1)`, ...; and what became of the others.

    Prompts that differ only in case or white space count as one; those of `known` are left out.
    """
    asked, refused, last = 0, 0, "none failed"
    seen, found = {_plain(text) for text in known}, list[str]()
    while len(found) < n and asked < max_attempts:
        size = min(n - len(found), max_attempts - asked)
        answers = llm.complete([request(attempt) for attempt in range(asked, asked + size)])
        asked += size
        for answer in answers:
            prompt = _prompt(answer)
            if prompt:
                if _plain(prompt) not in seen:
                    seen.add(_plain(prompt))
                    found.append(prompt)
            else:
                refused += 1
                last = str(answer) if isinstance(answer, Exception) else f"an unusable text: {answer.text[:80]!r}"
    return found, f"{refused} failed, were empty or cut off; the last: {last}"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _prompt(answer: Completion | Exception) -> str:
    """The instruction in an answer, without a label or quotes around it; empty if there is none."""
    if isinstance(answer, Exception) or answer.finish_reason == "length":
        return ""
    text = re.sub(r"^\**\s*(the\s+)?(instruction|prompt)s?\s*\**\s*:\s*\**\s*", "", answer.text.strip(), flags=re.I)
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        text = text[1:-1]
    return text.strip()
