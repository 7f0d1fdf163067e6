"""Before DSPy is imported: nothing from the network, and a cache of this run's own."""

import os
import tempfile

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["DSPY_CACHEDIR"] = tempfile.mkdtemp(prefix="asktell-dspy-")
