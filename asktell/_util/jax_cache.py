"""Store the compiled functions of JAX on disk, so that the next process starts faster.

    import asktell
    asktell.jax_cache.enable("~/.cache/asktell/jax")

This changes the configuration of JAX in the whole process, so asktell never does it by
itself.
"""

import os
from pathlib import Path

from asktell._util.extras import import_extra


def enable(path: str | os.PathLike[str]) -> Path:
    """Store every compiled function under `path`, and read it from there. Return the folder, created if necessary.

    By default, JAX stores only functions that took more than a second to compile. The
    functions of asktell take less.

    Raises:
        MissingExtraError: JAX is not installed.
    """
    config = import_extra("jax", "structured").config
    folder = Path(path).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    config.update("jax_compilation_cache_dir", str(folder))
    config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder
