"""A service in this process, and services in processes of their own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from asktell_adapters.server.auth import Tokens
from asktell_adapters.server.open_studies import OpenStudies


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare the day the cases of the service's own document: making them takes a fifth of collection."""
    by_day = config.getoption("--night") == "without"
    return True if by_day and collection_path.name == "test_documented.py" else None


_validators: dict[str, tuple[Any, Any]] = {}


def _validator(annotation: Any, **options: Any) -> Any:
    """Make each validator of the operations once for all applications: most of what making one takes."""
    import pydantic

    key = repr((annotation, options))
    if key not in _validators:
        # With the annotation, so that no other object gets an address that is in the key
        validator = pydantic.TypeAdapter(annotation, **options)
        _validators[key] = annotation, validator
    return _validators[key][1]


class Service:
    """Requests to an application in this process."""

    def __init__(
        self,
        url: str,
        tokens: Tokens | None = None,
        most_bytes: int = 2**26,
        most: int = 256,
        **options: Any,
    ) -> None:
        from starlette.testclient import TestClient

        from asktell_adapters.server.app import make_app

        self.studies = OpenStudies(url, most)
        with pytest.MonkeyPatch.context() as patch:
            # Where another version of FastAPI has it elsewhere, applications take longer
            patch.setattr("fastapi._compat.v2.TypeAdapter", _validator, raising=False)
            self.app = make_app(self.studies, tokens, most_bytes=most_bytes, **options)
        self.client = TestClient(
            self.app, "http://localhost", raise_server_exceptions=False
        )

    def send(
        self,
        method: str,
        path: str,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """A response; data in ASCII JSON, so that lone surrogates can be sent."""
        content = (
            None
            if data is None
            else data
            if isinstance(data, bytes)
            else json.dumps(data).encode("ascii")
        )
        kind = {} if content is None else {"Content-Type": "application/json"}
        return self.client.request(
            method, path, content=content, headers={**kind, **(headers or {})}
        )

    def post(self, path: str, data: Any, status: int = 200, **headers: str) -> Any:
        """The answer's data."""
        response = self.send("POST", path, data, headers)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    def get(self, path: str, status: int = 200) -> Any:
        """The answer's data."""
        response = self.send("GET", path)
        assert response.status_code == status, response.text
        return response.json()


@contextmanager
def services(folder: Path) -> Iterator[Callable[..., Service]]:
    """Makes services, which end with the context."""
    with ExitStack() as stack:

        def make(
            url: str = f"sqlite:///{folder}/studies.db", **options: Any
        ) -> Service:
            service = Service(url, **options)
            stack.callback(service.studies.close)
            stack.enter_context(service.client)  # one event loop for all requests
            return service

        yield make


@pytest.fixture
def new_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    with services(tmp_path) as make:
        yield make


@pytest.fixture
def service(new_service: Callable[..., Service]) -> Service:
    return new_service()


# A background job ignores SIGINT, and so would its children.
_MAIN = """
import signal, sys
from asktell_adapters.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main(sys.argv[1:]))
"""


class Process:
    """`asktell serve` in a process of its own, on a free port, after some Python that makes it special."""

    def __init__(
        self, url: str, *arguments: str, first: str = "", **environment: str
    ) -> None:
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("ASKTELL_")
        }
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"{first}\n{_MAIN}",
                "serve",
                url,
                "--port",
                "0",
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, **environment},
        )
        self.line = self.process.stdout.readline()
        found = re.search(r"http://\S+", self.line)
        self.url = found[0] if found else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.end()

    def end(self) -> tuple[int, str]:
        """Exit code and stderr."""
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    made = []

    def start(
        *arguments: str,
        url: str = f"sqlite:///{tmp_path}/studies.db",
        first: str = "",
        **environment: str,
    ) -> Process:
        made.append(Process(url, *arguments, first=first, **environment))
        return made[-1]

    yield start
    for process in made:
        if process.process.poll() is None:
            process.process.kill()
        process.process.communicate()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One for many tests."""
    with Process(
        f"sqlite:///{tmp_path_factory.mktemp('service')}/studies.db"
    ) as process:
        yield process


@pytest.fixture(scope="module")
def postgresql_server_url(new_postgresql_url: Callable[[], str]) -> Iterator[str]:
    """The address of a service that keeps its studies in PostgreSQL; one for many tests, too."""
    with Process(new_postgresql_url()) as process:
        yield process.url
