"""What must hold of the built site: nothing comes from elsewhere, no link is dead, a name is two clicks away."""

import re
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from website import api
from website.navigation import in_navigation, navigation

_ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_LOADING_RELATIONS = {
    "stylesheet",
    "preload",
    "modulepreload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "icon",
    "manifest",
}
_IN_STYLE = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)")


@dataclass
class Read(HTMLParser):
    """A page: what it loads, where it leads, the names that can be led to."""

    loads: list[str] = field(default_factory=list)
    leads: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one tag."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "link":
            if _LOADING_RELATIONS & set(given.get("rel", "").split()):
                self.loads.append(given.get("href", ""))
        elif tag == "a":
            self.leads += [given["href"]] if "href" in given else []
        else:
            self.loads += [given[name] for name in ("src", "data", "poster") if given.get(name)]
            self.loads += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        self.loads += _IN_STYLE.findall(given.get("style", ""))


@cache
def read(page: Path) -> Read:
    """A page, read."""
    found = Read()
    text = page.read_text()
    found.feed(text)
    for style in re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL):
        found.loads += _IN_STYLE.findall(style)
    return found


def loaded_from_elsewhere(site: Path) -> list[str]:
    """What pages and style sheets would load from another host."""
    found = [
        f"{page.relative_to(site)} loads {address}."
        for page in sorted(site.rglob("*.html"))
        for address in read(page).loads
        if _ELSEWHERE.match(address)
    ]
    for sheet in sorted(site.rglob("*.css")):
        found += [f"{sheet.relative_to(site)} loads {address}." for address in _IN_STYLE.findall(sheet.read_text())]
    return found


def dead_links(site: Path) -> list[str]:
    """Links and loads within the site that lead nowhere."""
    found = []
    for page in sorted(site.rglob("*.html")):
        if page.name == "404.html":
            continue  # it is shown at any path
        for address in {*read(page).leads, *read(page).loads}:
            if re.match(r"[a-z][a-z0-9+.-]*:|//", address):
                continue
            path, _, anchor = address.partition("#")
            target = page if not path else (page.parent / unquote(path.partition("?")[0])).resolve()
            if not target.is_file():
                found.append(f"{page.relative_to(site)} leads to {address}, which is not there.")
            elif anchor and not anchor.startswith("__") and unquote(anchor) not in read(target).ids:
                found.append(f"{page.relative_to(site)} leads to {address}: there is no such place on that page.")
    return found


def lost_pages(site: Path) -> list[str]:
    """Pages of the navigation that were not built."""
    names = [re.sub(r"(^|/)README\.md$", r"\1index.html", path) for path in in_navigation(navigation())]
    pages = [re.sub(r"\.md$", ".html", name) for name in names]
    return [f"{page} was not built." for page in pages if not (site / page).is_file()]


def far_names(site: Path) -> list[str]:
    """Public names that cannot be reached from the first page in two clicks, or have no place of their own."""
    index = site / "reference" / "api" / "index.html"
    first = {(site / unquote(address.partition("#")[0])).resolve() for address in read(site / "index.html").leads}
    if index.resolve() not in first:
        return ["The first page does not lead to reference/api/index.html."]
    second = {unquote(address) for address in read(index).leads}
    found = []
    for page in api.PAGES:
        ids = read(index.parent / f"{page.stem}.html").ids
        for module, names in api.sections(page):
            for name in names:
                if f"{module}.{name}" not in ids:
                    found.append(f"{module}.{name} is not documented on reference/api/{page.stem}.html.")
                if f"{page.stem}.html#{module}.{name}" not in second:
                    found.append(f"{module}.{name} has no link on reference/api/index.html.")
    return found


def problems(site: Path) -> list[str]:
    """Everything that is wrong."""
    return [*loaded_from_elsewhere(site), *lost_pages(site), *dead_links(site), *far_names(site)]
