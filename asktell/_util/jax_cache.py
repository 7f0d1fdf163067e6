"""Keep JAX's compiled functions on disk, so that the next process starts faster. Explicit, never on by itself.

    import asktell
    asktell.jax_cache.enable("~/.cache/asktell/jax")

It changes JAX's configuration of the whole process, which is why a library does not do it for you.
"""

import os
from pathlib import Path

from asktell._util.extras import import_extra


def enable(path: str | os.PathLike[str]) -> Path:
    """Store every compiled function under `path` (created if need be) and read it from there; returns the folder.

    JAX by itself stores only what took more than a second to compile; the methods' functions take less.
    """
    config = import_extra("jax", "structured").config
    folder = Path(path).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    config.update("jax_compilation_cache_dir", str(folder))
    config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder
