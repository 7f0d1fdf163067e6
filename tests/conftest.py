"""Options, hypothesis profiles, and the plays that many tests share."""

import gc
import os
import re
import sys
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a worker for each core

import hypothesis
import pytest

from asktell.errors import MissingExtraError
from asktell.testing.postgresql_server import Server, find_binaries
from asktell.testing.postgresql_server import postgresql_server as server_in
from tests.night import Times, left_out, listed
from tests.seeds import Seeds, every, half

os.environ["COLUMNS"] = "200"  # whatever terminal they run in
os.environ["MPLBACKEND"] = "Agg"

# JAX compiles a function once, for all workers and for the next run: most of what its
# tests take.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR",
    str(Path(__file__).parents[1] / ".pytest_cache" / "jax"),
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# Functions that run for an instant need not be fast.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# Examples of a property: 20 by default, 100 with --run-slow.
hypothesis.settings.register_profile("default", deadline=None, max_examples=20)
hypothesis.settings.register_profile(
    "ci", deadline=None, max_examples=20, derandomize=True, print_blob=True
)
hypothesis.settings.register_profile(
    "slow", deadline=None, max_examples=100, print_blob=True
)
hypothesis.settings.register_profile("quick", deadline=None, max_examples=10)


def pytest_configure(config: pytest.Config) -> None:
    if config.option.night is None:
        whole = config.option.run_slow or config.option.renew_pages
        # A file or folder that is named runs whole
        named = config.args_source is pytest.Config.ArgsSource.ARGS
        config.option.night = "too" if whole or named else "without"
    # With xdist, the tests report to the process that has no input from another one
    if config.option.renew_night and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times())
    if not config.getoption("--hypothesis-profile", None):
        ordinary = "ci" if os.environ.get("CI") else "default"
        hypothesis.settings.load_profile(
            "slow" if config.getoption("--run-slow") else ordinary
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--run-slow",
        action="store_true",
        help="also run the tests marked `slow`",
    )
    parser.addoption(
        "--night",
        choices=["without", "only", "too"],
        help="whether to run the tests that are marked `night` or listed in night.txt, and all seeds; by default "
        "without them, but with --run-slow, and in files and folders that are named, they run, too",
    )
    parser.addoption(
        "--skip-missing-extras",
        action="store_true",
        help="what fails for a missing extra is skipped",
    )
    parser.addoption(
        "--family",
        help="run the pages of docs/ on this harness, in its own environment",
    )
    parser.addoption(
        "--renew-pages",
        action="store_true",
        help="write the output of a page's code into the page",
    )
    parser.addoption(
        "--renew-night",
        action="store_true",
        help="write the tests that take long into night.txt",
    )
    parser.addoption(
        "--all-installed",
        action="store_true",
        help="a test skipped for a missing package fails",
    )


def _fail_if_missing(
    report: pytest.TestReport | pytest.CollectReport, config: pytest.Config
) -> None:
    reason = str(report.longrepr)
    if (
        report.skipped
        and config.getoption("--all-installed")
        and re.search("could not import|not installed", reason)
    ):
        report.outcome = "failed"
        report.longrepr = (
            f"{reason}: `make test` installs every package that a test needs"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_missing(report, item.config)
    if (
        item.config.getoption("--skip-missing-extras")
        and call.excinfo
        and call.excinfo.errisinstance(MissingExtraError)
    ):
        path, line, _ = item.location
        report.outcome, report.longrepr = (
            "skipped",
            (path, line or 0, f"Skipped: {call.excinfo}"),
        )
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_missing(report, collector.config)
    return report


def _runs(item: pytest.Item, night: str) -> bool:
    """By day, what is not marked; at night, the rest, and all seeds of a test that runs with half of them by day."""
    marked = item.get_closest_marker("night") is not None
    if night == "without":
        return not marked
    return marked or "seeds" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    run_slow, night = config.getoption("--run-slow"), config.getoption("--night")
    if night != "too":
        renewed = config.option.renew_night
        long = set() if renewed else left_out(items, listed())
        for item in items:
            if item.nodeid in long:
                item.add_marker(pytest.mark.night)
        others = [item for item in items if not _runs(item, night)]
        items[:] = [item for item in items if _runs(item, night)]
        config.hook.pytest_deselected(items=others)
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(
                pytest.mark.timeout(3600)
                if run_slow
                else pytest.mark.skip("slow: --run-slow runs it")
            )


def pytest_collection() -> None:
    gc.disable()  # little of what is imported becomes garbage


def pytest_collection_finish() -> None:
    # What was imported stays: looking for garbage in it took 5% of the time.
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def unchanged_imports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test adds to the path of imports leaves it, and modules that it wrote leave `sys.modules`.

    Each such folder makes every later import slower, and two tests may write modules of
    the same name.
    """
    path, modules = sys.path[:], set(sys.modules)
    yield
    sys.path[:] = path
    written = tmp_path_factory.getbasetemp()
    for name in sys.modules.keys() - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and written in Path(file).parents:
            del sys.modules[name]


@pytest.fixture(scope="session")
def seeds(pytestconfig: pytest.Config) -> Seeds:
    """The seeds of a test that counts how often something is right."""
    return half if pytestconfig.getoption("--night") == "without" else every


# A PostgreSQL server


@pytest.fixture(scope="session")
def postgresql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of our own, for the whole session."""
    if find_binaries() is None:
        reason = (
            "there is no PostgreSQL server on this machine (apt-get install postgresql)"
        )
        if os.environ.get("ASKTELL_ALL_SERVERS"):
            pytest.fail(reason)
        pytest.skip(reason)
    pytest.importorskip("psycopg")
    # Not below pytest's own folder, into which the server's user cannot look.
    with tempfile.TemporaryDirectory(prefix="asktell-postgresql-") as folder:
        os.chmod(folder, 0o755)
        with server_in(Path(folder) / "server") as server:
            yield server


@pytest.fixture(scope="session")
def new_postgresql_url(postgresql_server: Server) -> Callable[[], str]:
    """Makes an empty place: a schema of its own, which is made faster than a database."""
    import psycopg

    def make() -> str:
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(postgresql_server.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{postgresql_server.url}?options=-csearch_path%3D{name}"

    return make


@pytest.fixture
def postgresql_url(new_postgresql_url: Callable[[], str]) -> str:
    """An empty place."""
    return new_postgresql_url()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new state of a live page is made at once."""
    monkeypatch.setattr("asktell_adapters.server.watching._SECONDS_BETWEEN_LOOKS", 0.1)
    monkeypatch.setattr("asktell_adapters.server.watching._PAUSE", 1.0)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which `tests.plug_ins.install` installs packages."""
    # Imported here, since it imports the adapters
    from tests.plug_ins import packages_in

    with packages_in(tmp_path / "site", monkeypatch) as folder:
        yield folder
