"""Time that is linear in texts of others: responses of LLMs, prompts, and files."""

import subprocess
import sys

import pytest

from asktell_adapters.config.secret_check import _SHAPES
from asktell_adapters.llms.base import Completion
from asktell_adapters.llms.prompts import filled
from asktell_adapters.metrics.rubric import Criterion, Rubric
from asktell_adapters.optimizers.writers import _prompt

# Each line does its work on a text of about a million characters. Quadratic time would
# take hours.
LINES = {
    "the line breaks of a judge": "read('```' + '\\n' * N)",
    "the line breaks in a fence": "read('```json\\n{}' + '\\n' * N + '``')",
    "the spaces of a fence": "read('```' + ' ' * N + '\\n' + ' ' * N + '```')",
    "braces in a prompt": "filled('{' * N, {})",
    "names in braces": "filled('{a' * N, {})",
    "a long name": "filled('{' + 'a' * N, {})",
    "braces in a template": "render('{' * N, 'p', Example('x'))",
    "a title and spaces": "_prompt(Completion('prompt' + ' ' * N + '.'))",
    "a title and stars": "_prompt(Completion('*' * N + 'prompt' + '*' * N + ' ' * N))",
    "the spaces of a title": "_prompt(Completion('the' + ' ' * N + 'x'))",
    "addresses in a configuration": "secrets('://' * N)",
    "colons in a configuration": "secrets('://' + ':' * N)",
    "questions in a configuration": "secrets('://a?' * N)",
    "words of a response": "normalize('a the ' * N)",
    "sentences of a response": "_SENTENCE_END.split('.' + ' ' * N)",
    "a reason": "kind_of('\\'' * N + '\"' * N + '1.' * N + '1e' * N)",
    "the output of a program": "_CONTROL.sub('', '\\x1b[' * N + '\\x1b[' + '1' * N)",
    "twice the last key": "table('{' + ','.join(f'\"{i}\":0' for i in range(N // 8)) + ',\"1\":0}')",
}

CODE = """
import contextlib, pathlib, re
from asktell import AsktellError
from asktell.results.entries import kind_of
from asktell_adapters.config.secret_check import _SHAPES
from asktell_adapters.evaluators.command import _CONTROL
from asktell_adapters.llms.base import Completion, Example
from asktell_adapters.metrics.rubric import Criterion, Rubric
from asktell_adapters.metrics.text import _SENTENCE_END, normalize
from asktell_adapters.optimizers.writers import _prompt
from asktell_adapters.llms.prompts import filled, render
from asktell_adapters.tables.rows import from_json

N = 300_000
read = Rubric({"quality": Criterion("Is it good?")}).read
secrets = lambda text: [re.search(shape, text) for _, shape in _SHAPES]
table = lambda text: from_json(text, pathlib.Path("t.json"), 1)
for name, line in LINES.items():
    print(name, flush=True)
    with contextlib.suppress(ValueError, AsktellError):
        eval(line)
print("done")
"""


def test_no_text_takes_more_than_linear_time() -> None:
    try:
        ended = subprocess.run(
            [sys.executable, "-c", f"LINES = {LINES!r}\n{CODE}"],
            capture_output=True,
            text=True,
            timeout=180,
        )
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode().split("\n")
        pytest.fail(f"this took more than linear time: {output[-2]}")
    assert ended.stdout.endswith("done\n"), ended.stderr


RUBRIC = Rubric({"quality": Criterion("Is it good?")})
REPLY = '{"reason": "Fine.", "grades": {"quality": 4}}'


@pytest.mark.parametrize(
    "text",
    [
        REPLY,
        f"\n {REPLY}\n",
        f"```\n{REPLY}\n```",
        f"```json\n{REPLY}\n```",
        f"```json \n\n{REPLY}\n\n  ```\n",
        f"```{REPLY}```",
    ],
)
def test_a_judges_reply_may_be_in_a_fence(text: str) -> None:
    assert RUBRIC.read(text) == ({"quality": 4.0}, "Fine.")


@pytest.mark.parametrize(
    "text",
    [
        f"```python\n{REPLY}\n```",
        f"```json\n{REPLY}\n``` 5",
        f"5\n```json\n{REPLY}\n```",
        f"```json\n{REPLY}",
        f"{REPLY}\n```",
        f"```json\n{REPLY} 5\n```",
        "```\n```",
        "```",
    ],
)
def test_anything_around_a_judges_reply_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a single JSON object"):
        RUBRIC.read(text)


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("**The prompt:** Be brief.", "Be brief."),
        ('Instructions : "Be brief."', "Be brief."),
        ("prompts   **  : ** Be brief.", "Be brief."),
        ("The promptness counts.", "The promptness counts."),
    ],
)
def test_the_title_of_a_written_prompt_is_left_out(text: str, prompt: str) -> None:
    assert _prompt(Completion(text)) == prompt


def test_fields_are_filled_whatever_braces_are_around_them() -> None:
    values = {"a": "1", "b": "2"}
    assert filled("{a} {{a}} {{{a}}} {a}{b} {{x {b}", values) == "1 {a} {1} 12 {{x 2"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:word@host/db",
        "https://a:b:c@host",
        "see http://host/?x=1&api_key=abcdefgh",
        "http://host?sig=abcdefgh",
        "a http://x://y?token=abcdefgh",
    ],
)
def test_addresses_with_secrets_are_recognized(text: str) -> None:
    import re

    assert any(re.search(shape, text) for _, shape in _SHAPES)
