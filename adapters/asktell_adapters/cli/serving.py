"""`asktell serve`: studies over HTTP."""

import argparse

from asktell.extend import serve
from asktell_adapters.cli.places import location
from asktell_adapters.cli.process import signals


def serve_studies(arguments: argparse.Namespace) -> int:
    arguments.url = str(location(arguments.url))
    with signals():
        return serve(arguments)
