"""Write the pages of docs/reference that are made from the code: `python -m website.pages` (`make pages`)."""

from pathlib import Path

from website import api, command_line, configuration, http_api
from website.names import ROOT
from website.tables import filled

REFERENCE = ROOT / "docs" / "reference"


def written() -> dict[Path, str]:
    """Every such page, as it should be."""
    places = {
        "command-line.md": {"commands": command_line.written()},
        "configuration.md": configuration.written(),
        "http-api.md": {"operations": http_api.written()},
    }
    pages = api.written()
    for name, parts in places.items():
        text = (REFERENCE / name).read_text()
        for place, content in parts.items():
            text = filled(text, place, content)
        pages[REFERENCE / name] = text
    return pages


def main() -> None:
    """Write them, and say which changed."""
    for page, text in written().items():
        if not page.exists() or page.read_text() != text:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text)
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
