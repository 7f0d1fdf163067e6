"""A tutorial as a notebook: one source, the page. What is between its blocks of Python is Markdown."""

import json
import re
from typing import Any

_PYTHON = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def notebook(text: str) -> dict[str, Any]:
    """The notebook (format 4.5) of a page."""
    cells = []
    for n, part in enumerate(_PYTHON.split(text)):
        if source := part.strip("\n"):
            cells.append(_cell(len(cells), source, code=n % 2 == 1))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def dumps(text: str) -> str:
    """The same as a file's content."""
    return json.dumps(notebook(text), indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, source: str, code: bool) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": "code" if code else "markdown", "id": f"cell-{number}", "metadata": {}}
    if code:
        cell |= {"execution_count": None, "outputs": []}
    return {**cell, "source": source.splitlines(keepends=True)}
