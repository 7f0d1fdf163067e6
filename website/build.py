"""Build the documentation into a folder, offline: `python -m website.build`. Any warning ends it, with exit code 1.

Needs the packages in requirements/docs.txt; the code is read, and not imported.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from website.checks import problems
from website.names import ROOT
from website.navigation import orphans
from website.staging import llms_txt, stage, write_notebooks

WORK = ROOT / "build" / "docs"


def main() -> int:
    """Stage, build, check."""
    parser = argparse.ArgumentParser(prog="python -m website.build", description=__doc__)
    parser.parse_args()
    shutil.rmtree(WORK, ignore_errors=True)
    configuration = stage(WORK)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", str(configuration)]
    made = subprocess.run(command, cwd=WORK, check=False)
    if made.returncode:
        return 1
    site = WORK / "site"
    write_notebooks(site)
    llms_txt(site)
    found = [*orphans(), *problems(site)]
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        return 1
    print(f"Built {len(list(site.rglob('*.html')))} pages: {Path(site / 'index.html').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
