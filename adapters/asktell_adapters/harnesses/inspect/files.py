"""Inspect's log files, read without Inspect: `.json`, and `.eval`, which is a zip of JSON."""

import json
import struct
import zipfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, final

from asktell import InvalidArgumentError
from asktell_adapters.rows import from_json, read_text

_ZSTANDARD = 93  # the method by which Inspect compresses since 0.3.200; Python's own zipfile knows it from 3.14 on
_LOCAL_HEADER = struct.Struct("<26x2H")  # of a file in a zip: what stands before the lengths of its name and its extras
_HEADERS = ("header.json", "_journal/start.json")  # an eval that was interrupted has the second one only
_CONVERT = "`inspect log convert --to json --output-dir json LOG` writes one that is read everywhere"


@final
class LogFile(NamedTuple):
    """A log: the eval's own data, and its samples with the attributes of Inspect's that scores are read from."""

    eval: Mapping[str, Any]
    samples: list[Any]


def read_log(path: Path) -> LogFile:
    """The log in a file of either format.

    Raises:
        InvalidArgumentError: it is none, is damaged, or holds no samples.
    """
    if path.suffix.lower() == ".eval":
        header, samples = _zipped(path)
    else:
        header = from_json(read_text(path), path, 1)
        samples = iter(header.get("samples") or ()) if isinstance(header, dict) else iter(())
    about = header.get("eval") if isinstance(header, dict) else None
    if not isinstance(about, dict):
        raise InvalidArgumentError(f"{path}: not an Inspect log: it says nothing of an eval. Give the log itself.")
    try:
        found = [_sample(each) for each in samples]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidArgumentError(f"{path}: not an Inspect log that can be read ({error}). Copy it again.") from error
    if not found:
        raise InvalidArgumentError(
            f"{path}: the log has no samples. Scores are read from samples: run the eval with log_samples on."
        )
    return LogFile(about, found)


def _zipped(path: Path) -> tuple[Any, Iterator[Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            header = next((name for name in _HEADERS if name in names), None)
            if header is None:
                raise InvalidArgumentError(
                    f"{path}: a zip, but no Inspect log: it has no {_HEADERS[0]}. Copy it again."
                )
            samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
            head, *rest = (json.loads(_content(archive, name, path)) for name in (header, *samples))
            return head, iter(rest)
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(
            f"{path}: not an Inspect log, or a damaged one: {error}. Copy it again, or give the .json log."
        ) from error


def _content(archive: zipfile.ZipFile, name: str, path: Path) -> bytes:
    about = archive.getinfo(name)
    try:
        return archive.read(about)
    except NotImplementedError:
        if about.compress_type != _ZSTANDARD or archive.fp is None:
            raise ValueError(f"its compression, number {about.compress_type}, is unknown") from None
    archive.fp.seek(about.header_offset)
    n_name, n_extra = _LOCAL_HEADER.unpack(archive.fp.read(_LOCAL_HEADER.size))
    archive.fp.seek(n_name + n_extra, 1)
    return _decompressed(archive.fp.read(about.compress_size), about.file_size, path)


def _decompressed(data: bytes, size: int, path: Path) -> bytes:
    """Zstandard's, by whichever package is there."""
    try:
        return bytes(import_module("zstandard").ZstdDecompressor().decompress(data, max_output_size=size))
    except ModuleNotFoundError:
        pass
    except Exception as error:  # its ZstdError, which cannot be named where it is not installed
        raise ValueError(str(error)) from error
    try:
        return bytes(import_module("pyarrow").Codec("zstd").decompress(data, size, asbytes=True))
    except ModuleNotFoundError:
        raise InvalidArgumentError(
            f"{path}: Inspect compressed this log by Zstandard. Run: pip install zstandard (inspect-ai brings it). Or "
            f"give a log in JSON: {_CONVERT}."
        ) from None


def _sample(data: Mapping[str, Any]) -> Any:
    """The sample as attributes, as far as `samples.Scoring` reads them."""
    scores = {name: SimpleNamespace(value=score["value"]) for name, score in (data.get("scores") or {}).items()}
    error, limit = data.get("error"), data.get("limit")
    return SimpleNamespace(
        id=data["id"],
        metadata=data.get("metadata") or {},
        scores=scores,
        error=SimpleNamespace(message=error.get("message", ""), traceback=error.get("traceback", ""))
        if error
        else None,
        limit=SimpleNamespace(type=limit.get("type"), limit=limit.get("limit") or 0) if limit else None,
        model_usage={model: _usage(used) for model, used in (data.get("model_usage") or {}).items()},
        total_time=data.get("total_time"),
    )


def _usage(used: Mapping[str, Any]) -> Any:
    tokens = {f"{kind}_tokens": used.get(f"{kind}_tokens") or 0 for kind in ("input", "output", "total")}
    return SimpleNamespace(**tokens, total_cost=used.get("total_cost"))
