"""Methods."""

from asktell.methods.presets import *  # noqa: F403
