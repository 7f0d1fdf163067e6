"""What an installed asktell does: with nothing but itself, or, given an extra, what that extra brings.

    python -I smoke.py          # a bare install
    python -I smoke.py plot     # one with the extra plot

It needs no pytest, and runs far from the sources.
"""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import asktell
import asktell_adapters

GOAL = asktell.ParetoSet("a", "b")

# Modules that no import of asktell's reaches without the extra: they import its
# packages at their top.
NEED = {
    "structured": [
        "asktell.methods.rounds.allocators._design_jax",
        "asktell.methods.rounds.estimators.",
    ],
    "server": ["asktell_adapters.server."],
    "meter": ["asktell_adapters.llms._meter_proxy"],
    "postgresql": ["asktell.studies.storages.postgresql"],
    "config": [
        "asktell_adapters.config",
        *(f"asktell_adapters.cli.{name}" for name in ("check", "gate", "init", "work")),
    ],
    "optuna": ["asktell_adapters.optimizers.optuna"],
    "mlflow": ["asktell_adapters.optimizers.mlflow"],
    "opik": ["asktell_adapters.optimizers.opik"],
    "phoenix": ["asktell_adapters.harnesses.phoenix"],
    "dspy": ["asktell_adapters.harnesses.dspy"],
    "inspect": ["asktell_adapters.harnesses.inspect."],
    "mcp": ["asktell_adapters.cli.mcp"],
}
# Whoever runs contracts has it
PYTEST = ["asktell.testing.", "asktell_adapters.testing."]


def modules() -> Iterator[str]:
    for package in (asktell, asktell_adapters):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield module.name


def played(method: str, goal: Any = GOAL, **options: Any) -> asktell.Result:
    prompts = [f"Write {n} words, {'please' if n % 2 else 'now'}." for n in range(8)]
    selector = asktell.Selector(prompts, goal, 40, method, examples=10, **options)
    while trial := selector.ask():
        selector.tell(
            trial,
            [trial.prompt_id * 0.1 + 0.01 * trial.example, 1 - trial.prompt_id * 0.1],
        )
    return asktell.Selector.from_json(selector.to_json()).result()


def bare() -> None:
    for package in (asktell, asktell_adapters):
        folder = Path(package.__file__).parent
        assert folder.is_relative_to(sys.prefix), (
            f"{folder} is not what was installed into {sys.prefix}"
        )
        assert (folder / "py.typed").is_file(), f"{folder} has lost py.typed"
    assert asktell.__version__ == distribution("asktell").version
    for name in modules():
        try:
            importlib.import_module(name)
        except ImportError as error:
            allowed = [start for starts in NEED.values() for start in starts] + PYTEST
            assert name.startswith(tuple(allowed)), f"{name} needs an extra: {error}"
    for method in ("auto", "uniform", "ege-sh"):
        assert str(played(method))
    assert str(played("csr", asktell.BestFeasible("a", {"b": 0.5})))
    with tempfile.TemporaryDirectory() as folder:
        selector = asktell.Selector(["x", "y"], GOAL, 4, examples=2)
        with asktell.Study.create(f"sqlite:///{folder}/s.db", "s", selector) as study:
            asktell.run(
                study,
                lambda prompt, example: {"a": len(prompt), "b": example},
                progress=False,
            )
        shown = command("status", f"sqlite:///{folder}/s.db", "s")
        assert "4 of 4" in shown, shown
        selector.report(f"{folder}/report.html")  # it needs the files beside the code
        assert "<script" in Path(folder, "report.html").read_text(encoding="utf-8")
    for extra, call in (
        ("plot", played("uniform").plot),
        ("analysis", played("uniform").hypervolume),
    ):
        try:
            call()
        except asktell.MissingExtraError as error:
            assert f"pip install 'asktell[{extra}]'" in str(error)
        else:
            raise AssertionError(f"The install is not bare: {extra} is there")


def command(*arguments: str) -> str:
    """What `asktell ...` prints; the script that the wheel brought, and not the module."""
    script = Path(sys.executable).with_name("asktell")
    return subprocess.run(
        [script, *arguments], capture_output=True, text=True, check=True
    ).stdout


def structured() -> None:
    for method in ("mlp-ege", "gege"):
        assert str(played(method, features="text"))


def plot() -> None:
    with tempfile.TemporaryDirectory() as folder:
        figure = played("uniform").plot()
        getattr(figure, "figure", figure).savefig(Path(folder) / "picture.png")


def analysis() -> None:
    assert played("uniform").hypervolume() > 0
    plot()


def metrics() -> None:
    from asktell_adapters.metrics import Rouge

    assert Rouge().score("a cat sat", "a cat sat") == 1.0


def postgresql() -> None:
    try:
        asktell.Study.open("postgresql://localhost:1/nothing?connect_timeout=2", "s")
    except asktell.StorageError as error:
        assert "pip install" not in str(error)
    else:
        raise AssertionError("There is a server at port 1")


def client() -> None:
    try:
        asktell.RemoteStudy.names("http://localhost:1", retries=0)
    except asktell.ServiceError as error:
        assert "cannot be reached" in str(error)
    else:
        raise AssertionError("There is a service at port 1")


def server() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/s.db"
        asktell.Study.create(
            url, "s", asktell.Selector(["x", "y"], GOAL, 4, examples=2)
        ).close()
        main = "import sys; from asktell_adapters.cli.main import main; sys.exit(main(sys.argv[1:]))"
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", main, "serve", url, "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            address = process.stdout.readline().split(" at ")[1].split()[0]
            # By no client: that has an extra of its own
            with urlopen(f"{address}/v1/studies/s/result") as answer:
                assert json.load(answer)["budget"] == 4
        finally:
            process.terminate()
            process.wait(30)


def config() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # It needs the files beside the code
        for kind in ("openai", "inspect", "promptfoo"):
            command("init", f"{folder}/{kind}.toml", "--kind", kind, "--yes")


def openai() -> None:
    from asktell_adapters.llms.openai import OpenAIChat

    os.environ["OPENAI_API_KEY"] = "none"
    assert OpenAIChat("model", base_url="http://localhost:1")


def meter() -> None:
    from asktell_adapters.evaluators import Meter

    meter = Meter()
    secret, variables = meter.open()
    assert variables["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
    assert meter.close(secret).scores()["calls"] == 0
    meter.end()


def optuna() -> None:
    from asktell_adapters.optimizers.optuna import AsktellSampler

    assert AsktellSampler(asktell.Selector(["x", "y"], GOAL, 4, examples=2))


DO: dict[str, Callable[[], None]] = {
    "structured": structured,
    "plot": plot,
    "analysis": analysis,
    "metrics": metrics,
    "postgresql": postgresql,
    "client": client,
    "server": server,
    "config": config,
    "openai": openai,
    "meter": meter,
    "optuna": optuna,
}


def main() -> None:
    if len(sys.argv) == 1:
        bare()
        return
    extra = sys.argv[1]
    for name in modules():
        if name.startswith(tuple(NEED.get(extra, ["-"]))):
            importlib.import_module(name)
    if extra in DO:
        DO[extra]()


if __name__ == "__main__":
    main()
