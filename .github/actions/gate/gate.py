"""The steps of the action: install, evaluate, publish, verdict. They read environment variables, and no arguments."""

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

_VERDICTS = {0: "passed", 1: "failed", 3: "undecided"}
_MOST_CHARACTERS = 65_536  # of a comment


def install() -> int:
    """Install asktell as it is at the commit of the action, and what the user's own code needs."""
    extras, requirements = (
        os.environ["EXTRAS"].replace(" ", ""),
        os.environ["REQUIREMENTS"],
    )
    if not re.fullmatch(r"[A-Za-z0-9,_-]*", extras):
        print(f"::error::extras are names with commas between them, got {extras!r}")
        return 2
    source = Path(__file__).resolve().parents[3]
    wanted = [f"{source}[{extras}]" if extras else str(source)]
    wanted += ["--requirement", requirements] if requirements else []
    return subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", *wanted], check=False
    ).returncode


def evaluate() -> int:
    """Run the gate; its verdict and the folder of its files are outputs of the step, which does not fail.

    The verdict counts only if the summary, which is written last, says the same as the
    exit code.
    """
    folder = Path(
        tempfile.mkdtemp(prefix="asktell-gate-", dir=os.environ["RUNNER_TEMP"])
    )
    options = [
        f"--{name.lower()}={os.environ[name]}" for name in ("MARGIN", "CONFIDENCE")
    ]
    if_given = ("BASELINE", "CANDIDATE", "MAXIMIZE", "MINIMIZE", "RECHECK")
    options += [
        f"--{name.lower()}={os.environ[name]}" for name in if_given if os.environ[name]
    ]
    options += [
        f"--summary={folder / 'summary.md'}",
        f"--report={folder / 'report.html'}",
    ]
    options += [f"--junit={folder / 'gate.xml'}", "--no-progress"]
    options += ["--yes"] if os.environ["ACCEPT_PRICE"] == "true" else []
    # What prompts and models have written is no command to the runner.
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", flush=True)
    files = [line.strip() for line in os.environ["CONFIG"].splitlines() if line.strip()]
    done = subprocess.run(
        [sys.executable, "-m", "asktell", "gate", *options, "--", *files], check=False
    )
    print(f"\n::{token}::", flush=True)
    found, summary = _VERDICTS.get(done.returncode, "error"), folder / "summary.md"
    head = (
        summary.read_text(encoding="utf-8").partition("\n")[0]
        if summary.is_file()
        else ""
    )
    if found != "error" and not re.match(rf"## \S+ {found.capitalize()}: ", head):
        print(
            f"::error::The gate ended with exit code {done.returncode}, but its summary does not say {found!r}."
        )
        found = "error"
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as outputs:
        outputs.write(f"folder={folder}\nverdict={found}\n")
    return 0


def publish() -> int:
    """Write the job's summary, and the one comment of this gate on the pull request."""
    run = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}".format_map(
        os.environ
    )
    text = _summary(run)
    with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as summary:
        summary.write(text)
    event = json.loads(
        Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8")
    )
    if os.environ["COMMENT"] == "true" and "pull_request" in event:
        name = re.sub(r"[^\w .]", "_", os.environ["NAME"])
        commit = event["pull_request"]["head"]["sha"]
        marker, foot = (
            f"<!-- asktell gate {name} -->",
            f"\n\n{name}, [run]({run}) of {commit}\n",
        )
        body = f"{marker}\n{text}"[: _MOST_CHARACTERS - len(foot)] + foot
        try:
            _comment(event["pull_request"]["number"], marker, body)
        except (OSError, ValueError) as error:  # the verdict is not changed by it
            # A line of its own could be another command
            why = " ".join(str(error).split())
            print(
                f"::warning::No comment on the pull request: {why}. Has the job pull-requests: write?"
            )
    return 0


def verdict() -> int:
    """Fail, unless the gate passed."""
    found = os.environ["VERDICT"] or "error"
    if found == "undecided" and os.environ["UNDECIDED"] == "pass":
        found = "passed"
    return (
        0
        if found == "passed"
        else next((code for code, each in _VERDICTS.items() if each == found), 2)
    )


def _summary(run: str) -> str:
    file = Path(os.environ["FOLDER"] or ".") / "summary.md"
    if os.environ["VERDICT"] not in _VERDICTS.values() or not file.is_file():
        return f"## ⚠️ The gate could not be decided\n\nThe [log]({run}) says why.\n"
    text = file.read_text(encoding="utf-8")
    # The page lies in the artifact. Nothing else is a link: brackets are escaped, or in
    # a block of HTML.
    return text.replace(
        "[Full report](report.html)",
        f"[Full report]({os.environ['REPORT_URL'] or run})",
    )


def _comment(number: int, marker: str, body: str) -> None:
    repository = f"repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    page, found = 1, None
    while found is None and (
        comments := _api(
            "GET", f"{repository}/{number}/comments?per_page=100&page={page}"
        )
    ):
        # Whoever else begins a comment like this could change later what it says.
        own = (
            each
            for each in comments
            if each["user"]["type"] == "Bot" and each["body"].startswith(marker)
        )
        found, page = next(own, None), page + 1
    if found is None:
        _api("POST", f"{repository}/{number}/comments", {"body": body})
    else:
        _api("PATCH", f"{repository}/comments/{found['id']}", {"body": body})


def _api(method: str, path: str, data: Any = None) -> Any:
    request = urllib.request.Request(
        f"{os.environ['GITHUB_API_URL']}/{path}",
        None if data is None else json.dumps(data).encode(),
        {
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Accept": "application/vnd.github+json",
        },
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


if __name__ == "__main__":
    sys.exit(
        {
            "install": install,
            "evaluate": evaluate,
            "publish": publish,
            "verdict": verdict,
        }[sys.argv[1]]()
    )
