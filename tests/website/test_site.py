"""What the built site is held to: nothing from elsewhere, no dead link; and what is made for it."""

import json
from pathlib import Path

import pytest

from website import checks, staging
from website.links import links
from website.navigation import in_navigation, navigation


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<script src="//cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="https://fonts.example/css?family=Inter">',
        '<link href="https://fonts.example" rel="preconnect">',
        '<img src="https://badges.example/x.svg">',
        '<img srcset="x.png 1x, https://pictures.example/y.png 2x">',
        '<iframe src="https://video.example/1"></iframe>',
        "<style>@import 'https://fonts.example/x.css';</style>",
        '<p style="background: url(https://pictures.example/x.png)">',
    ],
)
def test_what_is_loaded_from_elsewhere_is_found(tag: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(f"<html><body>{tag}</body></html>")
    (found,) = checks.loaded_from_elsewhere(tmp_path)
    assert ".example" in found


def test_links_to_elsewhere_and_pictures_from_here_are_fine(tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("a { background: url(y.png) } /* https://w3.example */")
    (tmp_path / "index.html").write_text(
        '<a href="https://arxiv.example">paper</a><img src="x.png"><link rel="canonical" href="https://a.example">'
        '<img src="data:image/png;base64,AA==">'
    )
    assert checks.loaded_from_elsewhere(tmp_path) == []


def test_fonts_of_a_style_sheet_are_found(tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("@font-face { src: url('https://fonts.example/x.woff2') }")
    assert checks.loaded_from_elsewhere(tmp_path) == ["x.css loads https://fonts.example/x.woff2."]


def test_dead_links_of_the_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h2 id="here">x</h2><a href="b.html#there">b</a><a href="#here">a</a>')
    (tmp_path / "b.html").write_text('<h2 id="there">x</h2><a href="a.html#nowhere">a</a><img src="x.png">')
    found = checks.dead_links(tmp_path)
    assert len(found) == 2
    assert any("a.html#nowhere" in each for each in found)
    assert any("x.png" in each for each in found)


def test_staging_has_every_page_a_configuration_and_no_link_out_of_it(tmp_path: Path) -> None:
    configuration = staging.stage(tmp_path)
    *_, last = configuration.read_text().strip().splitlines()
    assert last == f"nav: {json.dumps(navigation())}"
    for path in in_navigation(navigation()):
        page = tmp_path / "docs" / path
        assert page.is_file()
        for link in links(page):
            assert link.target.is_relative_to(tmp_path / "docs"), (page, link)
    assert "::: asktell.Selector" in (tmp_path / "docs/reference/api/selector.md").read_text()
    assert "](docs/" not in (tmp_path / "docs/project/changelog.md").read_text()
    assert "(first-selection.ipynb)" in (tmp_path / "docs/tutorials/first-selection.md").read_text()


def test_llms_txt_leads_to_every_page(tmp_path: Path) -> None:
    for folder in ("tutorials", "how-to", "reference/api", "explanation", "examples"):
        (tmp_path / folder).mkdir(parents=True)
    staging.llms_txt(tmp_path)
    text = (tmp_path / "llms.txt").read_text()
    assert text.startswith("# asktell\n\n> Finds the best prompts for an LLM with the fewest evaluations")
    for section in ("## Tutorials", "## How-to", "## Reference", "## Explanation"):
        assert section in text
    for line in text.splitlines():
        if line.startswith("- ["):
            path = line.partition("](")[2].partition(")")[0]
            assert (tmp_path / path).is_file()
    assert "- [Choose a method](how-to/choose-a-method.md): Take auto.\n" in text
    assert (tmp_path / "llms-full.txt").stat().st_size > 300_000
