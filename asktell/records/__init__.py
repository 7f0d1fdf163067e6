"""The JSON shapes that reach a disk."""

from asktell.records.records import *  # noqa: F403
