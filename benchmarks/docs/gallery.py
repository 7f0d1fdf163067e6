"""The pictures of docs/how-to/gallery-of-reports.md: `python -m benchmarks.docs.gallery`.

Every picture is part of a real report. The scores and the responses of three reports are
recorded from SmolLM2-135M-Instruct (`smollm2_aclsum`), and those of the agents are
drawn. Chromium takes the pictures, and Playwright drives it.
"""

import argparse
import io
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import asktell

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
TABLE = ROOT / "benchmarks" / "tables" / "smollm2_aclsum.npz"
PROMPTS = {
    "plain": 0,
    "one sentence": 1,
    "two sentences": 2,
    "short sentence": 4,
    "ten words": 5,
    "thirty words": 8,
    "newspaper": 18,
    "headline": 19,
    "the problem": 32,
    "the result": 34,
    "keywords": 46,
    "copy the result": 54,
    "authors propose": 70,
    "TL;DR": 81,
}
"""A name, and the row of the recorded table."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def recorded(goal: asktell.BestFeasible | asktell.ParetoSet, path: Path) -> None:
    """Write the report of a selection among 14 prompts, with the responses of the LLM."""
    table = np.load(TABLE, allow_pickle=False)
    names = table["metrics"].tolist()
    selector = asktell.Selector(
        {name: str(table["prompts"][row]) for name, row in PROMPTS.items()},
        goal,
        budget=240,
        examples=table["examples"].tolist(),
        baseline="one sentence" if isinstance(goal, asktell.BestFeasible) else None,
    )
    with asktell.Study.create(f"memory://{path.stem}", "summaries", selector) as study:
        while trial := study.ask():
            cell = PROMPTS[str(trial.prompt_id)], trial.example
            scores = dict(zip(names, table["scores"][cell].tolist(), strict=True))
            response = str(table["outputs"][cell])
            study.tell(trial, scores, details={"output": response})
        study.report(path, about={"model": "SmolLM2-135M-Instruct", "data": "ACLSum"})


def agents(path: Path) -> None:
    """Write the report of six agents on 40 tasks, each task up to four times."""
    rng = np.random.default_rng(3)
    models = {"small": (-0.4, 0.02), "medium": (0.4, 0.05), "large": (0.9, 0.16)}
    modes = {"plain": (0.0, 1.0), "with tests": (0.6, 1.4)}
    difficulty = rng.normal(0, 1.5, 40)
    selector = asktell.Selector(
        asktell.grid(model=list(models), mode=list(modes)),
        asktell.BestFeasible(
            asktell.maximize("success", range=(0, 1)),
            subject_to={"cost": asktell.at_most(0.12)},
        ),
        budget=400,
        examples=[f"task {n}" for n in range(40)],
        repeats=4,
        baseline="medium/plain",
    )
    with asktell.Study.create("memory://agents", "agents", selector) as study:
        while trial := study.ask():
            skill, price = models[str(trial.candidate["model"])]
            gain, factor = modes[str(trial.candidate["mode"])]
            odds = np.exp(skill + gain - difficulty[trial.example])
            success = float(rng.random() < odds / (1 + odds))
            cost = price * factor * rng.lognormal(0, 0.3)
            study.tell(trial, {"success": success, "cost": cost}, cost=cost)
        study.report(path, about={"currency": "USD"})


def top(page: Any) -> Any:
    """The first screen."""
    return {"x": 0, "y": 0, "width": 1280, "height": 800}


def panel(name: str, height: int = 800) -> Callable[[Any], Any]:
    """A panel that is folded on the first screen, from its title on."""

    def area(page: Any) -> Any:
        page.evaluate(f"unfold('{name}')")
        page.wait_for_timeout(500)
        box = page.locator(f"#{name}").bounding_box()
        bottom = min(height, box["height"])
        return {"x": 0, "y": box["y"], "width": 1280, "height": bottom}

    return area


CONSTRAINED = asktell.BestFeasible("rouge", subject_to={"brevity": 0.4})
PARETO = asktell.ParetoSet("rouge", "brevity")
REPORTS: dict[str, Callable[[Path], None]] = {
    "constraint": lambda path: recorded(CONSTRAINED, path),
    "pareto-set": lambda path: recorded(PARETO, path),
    "agents": agents,
}
PICTURES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "report-constraint": ("constraint", top),
    "report-comparison": ("constraint", panel("duel", 615)),
    "report-examples": ("constraint", panel("examples", 560)),
    "report-spending": ("constraint", panel("spending", 520)),
    "report-pareto-set": ("pareto-set", top),
    "report-agents": ("agents", top),
    "report-factors": ("agents", panel("factors", 620)),
}
"""By file: the report, and the part of its page."""


def take(folder: Path, images: Path) -> None:
    """Open the reports in `folder`, and write the pictures into `images`."""
    from playwright.sync_api import sync_playwright

    path = next(browser for name in BROWSERS if (browser := shutil.which(name)))
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        for name, (report, area) in PICTURES.items():
            page = chromium.new_page(viewport={"width": 1280, "height": 900})
            page.goto((folder / f"{report}.html").as_uri())
            page.wait_for_selector("#verdict h1")
            shot = page.screenshot(clip=area(page), full_page=True)
            (images / f"{name}.png").write_bytes(smaller(shot))
            page.close()
        chromium.close()


def smaller(png: bytes) -> bytes:
    """The picture with 128 colors, a third of the size."""
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(128).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, default=IMAGES)
    images = parser.parse_args().images
    with tempfile.TemporaryDirectory() as folder:
        for name, write in REPORTS.items():
            write(Path(folder, f"{name}.html"))
        take(Path(folder), images)


if __name__ == "__main__":
    main()
