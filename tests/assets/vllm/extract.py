"""Writes what the adapter uses of a vLLM wheel's interface: `python extract.py vllm-X.whl > X.json`.

Read from the source, since importing vLLM needs its own version of torch: names and
defaults of arguments and fields.
"""

import ast
import json
import sys
import zipfile

USED = {
    "vllm/entrypoints/llm.py": ["LLM.__init__", "LLM.chat"],
    "vllm/engine/arg_utils.py": ["EngineArgs"],
    "vllm/sampling_params.py": ["SamplingParams"],
    "vllm/outputs.py": ["CompletionOutput", "RequestOutput.__init__"],
}


def arguments(node: ast.FunctionDef) -> list[list[str]]:
    """[kind, name, default or ""] of each argument."""
    spec = node.args
    missing = [""] * (len(spec.args) - len(spec.defaults))
    rows = [
        ["positional", arg.arg, default]
        for arg, default in zip(
            spec.args, missing + list(map(ast.unparse, spec.defaults)), strict=True
        )
    ]
    rows += [
        ["keyword", arg.arg, "" if default is None else ast.unparse(default)]
        for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
    ]
    return rows + ([["rest", spec.kwarg.arg, ""]] if spec.kwarg else [])


def fields(node: ast.ClassDef) -> list[list[str]]:
    """The same of the fields of a data class or a msgspec.Struct."""
    return [
        [
            "positional",
            item.target.id,
            "" if item.value is None else ast.unparse(item.value),
        ]
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]


def main(path: str) -> None:
    found = {}
    with zipfile.ZipFile(path) as wheel:
        for file, names in USED.items():
            classes = {
                node.name: node
                for node in ast.parse(wheel.read(file)).body
                if isinstance(node, ast.ClassDef)
            }
            for name in names:
                owner, _, method = name.partition(".")
                node = classes[owner]
                functions = {
                    item.name: item
                    for item in node.body
                    if isinstance(item, ast.FunctionDef)
                }
                found[name] = arguments(functions[method]) if method else fields(node)
    rows = (f"{json.dumps(name)}: {json.dumps(found[name])}" for name in found)
    print("{" + ",\n".join(rows) + "}")


main(sys.argv[1])
