"""Facts, folded: what is known before the first pull, what happened, and what follows from it."""

from asktell.state.state import *  # noqa: F403
