"""`python -m asktell`: the command `asktell` of whatever package brings it; the engine itself has none."""

import sys
from importlib.metadata import entry_points


def main() -> int:
    """Run the installed command; 2 without one."""
    found = entry_points(group="console_scripts", name="asktell")
    if not found:
        print(
            "asktell: the command `asktell` is not installed. Run: pip install asktell (in a checkout: pip "
            "install --editable .)",
            file=sys.stderr,
        )
        return 2
    code: int = next(iter(found)).load()()
    return code


if __name__ == "__main__":
    sys.exit(main())
