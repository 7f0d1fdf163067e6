"""A model that answers with a function, in every version of Inspect; and a folder of their own for a test's logs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from inspect_ai.model import (
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    modelapi,
)

Answer: TypeAlias = Callable[[list[Any]], str]


class _Scripted(ModelAPI):
    def __init__(
        self, model_name: str, config: GenerateConfig, answer: Answer, **_: Any
    ) -> None:
        super().__init__(model_name, config=config)
        self._answer = answer

    async def generate(
        self,
        input: list[Any],  # noqa: A002
        tools: Any,
        tool_choice: Any,
        config: Any,
    ) -> ModelOutput:
        output = ModelOutput.from_content(self.model_name, self._answer(input))
        output.usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10)
        return output


@modelapi(name="scripted")
def _scripted() -> type[ModelAPI]:
    return _Scripted


@pytest.fixture(scope="session")
def scripted() -> Callable[..., Any]:
    """A model from a function of the messages; each answer takes 7 tokens in, 3 out."""
    return lambda answer, name="model": get_model(
        f"scripted/{name}", answer=answer, memoize=False
    )


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Inspect's logs."""
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))
    return tmp_path / "logs"
