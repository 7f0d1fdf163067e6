"""The programs and manifests in docs/examples for Slurm and Kubernetes."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from asktell import RemoteStudy, Study
from asktell_adapters.cli.arguments import make_parser
from tests.times import wait_for

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
WORKER, SLURM = EXAMPLES / "worker.py", EXAMPLES / "slurm" / "workers.sbatch"
MANIFESTS = sorted((EXAMPLES / "kubernetes").glob("*.yaml"))
NAME, BUDGET = "summaries, first try", 100
TOKEN = "write-token-0123456789"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A task of a job array, or a pod; with nothing of this process' own settings.

    As long as there is a file `hold`, it gets no further than to some evaluation.
    """
    processes: list[subprocess.Popen[str]] = []
    program = WORKER.read_text()
    wait = "while os.path.exists('hold') and example > 1: time.sleep(0.01)"
    assert "time.sleep(0.02)" in program
    (tmp_path / "worker.py").write_text(program.replace("time.sleep(0.02)", wait))

    def start(
        index: int, url: str, *command: str, kind: str = "slurm", **environment: str
    ) -> "subprocess.Popen[str]":
        job, task = {
            "slurm": ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"),
            "kubernetes": ("JOB_NAME", "JOB_COMPLETION_INDEX"),
        }[kind]
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ASKTELL_", "SLURM_"))
        }
        own = {
            job: "1234",
            task: str(index),
            "ASKTELL_STUDY": url,
            "ASKTELL_TOKEN": TOKEN,
            "HOME": str(tmp_path),
        }
        process = subprocess.Popen(
            command or [sys.executable, "worker.py"],
            env={**clean, **own, **environment},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        # Shown when a test fails
        print(process.args, process.returncode, *process.communicate())


def appeared(url: str) -> Any:
    """The study, once a worker has made it."""
    names: Callable[[], list[str]] = lambda: (  # noqa: E731
        RemoteStudy.names(url, token=TOKEN)
        if url.startswith("http")
        else Study.names(url)
    )

    def is_there() -> bool:
        try:
            return NAME in names()
        except KeyError:  # no file yet
            return False

    wait_for(is_there)
    return (
        RemoteStudy.open(url, NAME, token=TOKEN)
        if url.startswith("http")
        else Study.open(url, NAME)
    )


@pytest.fixture(params=["sqlite", "service", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/studies.db"
    if request.param == "service":
        return str(request.getfixturevalue("serve")(ASKTELL_TOKEN=TOKEN).url)
    return str(request.getfixturevalue("postgresql_url"))


def test_workers_share_a_study_and_may_be_killed_and_preempted(
    url: str, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "hold").touch()
    killed, preempted = (start(index, url) for index in range(2))
    with appeared(url) as study:
        wait_for(
            lambda: (
                {holding.worker for holding in study.workers()} == {"1234-0", "1234-1"}
            )
        )
        killed.kill()
        killed.wait(60)
        preempted.send_signal(signal.SIGTERM)
        assert preempted.wait(60) == 143
        # The other one was released
        assert [holding.worker for holding in study.workers()] == ["1234-0"]
        (tmp_path / "hold").unlink()
        # Is requeued, and has no need to wait for the lease
        output, errors = start(0, url).communicate(timeout=120)
        assert f"{BUDGET} of {BUDGET} evaluations spent" in output, errors
        assert study.done
        assert study.pending == []
        assert sum(entry.failures for entry in study.result().prompts) == 0


def test_the_job_script_starts_the_worker_with_the_token(
    serve: Any, start: Start, tmp_path: Path
) -> None:
    url = serve(ASKTELL_TOKEN=TOKEN).url
    (tmp_path / "hold").touch()
    (tmp_path / ".asktell-token").write_text(f"{TOKEN}\n")
    settings = {"PYTHON": sys.executable, "ASKTELL_TOKEN": ""}
    task = start(7, url, "bash", str(SLURM), **settings)
    with appeared(url) as study:
        wait_for(lambda: {holding.worker for holding in study.workers()} == {"1234-7"})
        task.send_signal(signal.SIGTERM)  # to the shell: --signal=B:TERM
        assert task.wait(60) == 143
        assert study.pending == []
    missing = start(0, "", "bash", str(SLURM), **settings)
    _, errors = missing.communicate(timeout=60)
    assert missing.returncode == 1
    assert "ASKTELL_STUDY: is the URL" in errors


def test_a_pods_successor_has_its_name(start: Start, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    url = f"sqlite:///{tmp_path}/studies.db"
    start(3, url, kind="kubernetes")
    with appeared(url) as study:
        wait_for(lambda: {holding.worker for holding in study.workers()} == {"1234-3"})


@pytest.mark.skipif(
    shutil.which("bash") is None, reason="there is no bash on this machine"
)
def test_the_job_script_is_bash() -> None:
    subprocess.run(["bash", "-n", SLURM], check=True)
    options = re.findall(
        r"^#SBATCH (--[a-z-]+)(?:=(\S+))?", SLURM.read_text(), re.MULTILINE
    )
    assert dict(options)["--array"] == "0-7"
    assert dict(options)["--signal"] == "B:TERM@60"


def resources() -> list[dict[str, Any]]:
    return [item for path in MANIFESTS for item in yaml.safe_load_all(path.read_text())]


def pods() -> list[dict[str, Any]]:
    return [
        item["spec"]["template"] for item in resources() if "template" in item["spec"]
    ]


def test_manifests_belong_together() -> None:
    kinds = {(item["kind"], item["metadata"]["name"]) for item in resources()}
    assert kinds == {
        ("Service", "postgresql"),
        ("StatefulSet", "postgresql"),
        ("Service", "asktell"),
        ("Deployment", "asktell"),
        ("Job", "summaries"),
    }
    for item in resources():
        spec = item["spec"]
        if item["kind"] == "Service":
            target = next(
                pod for pod in pods() if pod["metadata"]["labels"] == spec["selector"]
            )
            ports = [
                port["containerPort"]
                for port in target["spec"]["containers"][0]["ports"]
            ]
            assert ports == [port["port"] for port in spec["ports"]]
        elif item["kind"] != "Job":
            assert (
                spec["selector"]["matchLabels"]
                == spec["template"]["metadata"]["labels"]
            )


def test_pods_are_not_root_and_have_limits_and_secrets_by_reference() -> None:
    assert len(pods()) == 3
    for pod in pods():
        spec = pod["spec"]
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] > 0
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert set(container["resources"]) == {"requests", "limits"}
        volumes = {volume["name"] for volume in spec["volumes"]} | {"data"}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        for variable in container["env"]:
            if re.search("TOKEN|PASSWORD", variable["name"]):
                assert variable["valueFrom"]["secretKeyRef"]["name"] == "asktell"


def test_the_worker_pod_and_the_service_get_what_they_read() -> None:
    by_kind = {
        item["kind"]: item
        for item in resources()
        if item["metadata"]["name"] != "postgresql"
    }
    (service,) = by_kind["Deployment"]["spec"]["template"]["spec"]["containers"]
    program, verb, *arguments = service["command"]
    assert (program, verb) == ("asktell", "serve")
    parsed = make_parser().parse_args([verb, *arguments])
    (worker,) = by_kind["Job"]["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in worker["env"]}
    assert variables["ASKTELL_STUDY"] == f"http://asktell:{parsed.port}"
    # Indexed jobs set JOB_COMPLETION_INDEX themselves.
    read = set(re.findall(r'"((?:ASKTELL|JOB)_\w+)"', WORKER.read_text())) - {
        "JOB_COMPLETION_INDEX"
    }
    assert read <= set(variables)
    assert by_kind["Job"]["spec"]["completionMode"] == "Indexed"
    assert worker["image"] == service["image"]
