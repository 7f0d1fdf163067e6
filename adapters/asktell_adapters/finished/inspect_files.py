"""Inspect's log files, read without Inspect. Their formats are `.json`, and `.eval`, a zip archive of JSON."""

import json
import struct
import zipfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, final

from asktell import InvalidArgumentError
from asktell_adapters.tables.rows import from_json, read_text

# The number of Zstandard in the zip format. Inspect uses it since 0.3.200, and Python's
# zipfile supports it from 3.14.
_ZSTANDARD = 93
# The local header of a file in a zip: 26 other bytes, then the lengths of the file's
# name and of its extra field.
_LOCAL_HEADER = struct.Struct("<26x2H")
# Limits of an archive, unpacked: so many bytes, and so many for each byte of the file.
# Logs of agents repeat their conversations, and are thirty times smaller when packed.
_MOST_JSON, _MOST_RATIO = 2**25, 50
# The log of an interrupted eval has only the second one.
HEADERS = ("header.json", "_journal/start.json")
_CONVERT = "`inspect log convert --to json --output-dir json LOG` converts it"


@final
class LogFile(NamedTuple):
    """A log: the data of the eval, and its samples with the attributes that `samples.Scoring` reads."""

    eval: Mapping[str, Any]
    samples: list[Any]


def read_log(path: Path) -> LogFile:
    """Read a log file of either format.

    Raises:
        InvalidArgumentError: the file is not a log, is damaged, or has no samples.
    """
    is_archive = zipfile.is_zipfile(path) or path.suffix.lower() == ".eval"
    try:
        header, samples = _read_zip(path) if is_archive else _read_json(path)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(
            f"{path} is not a readable Inspect log ({error}). Copy it again."
        ) from error
    about = header.get("eval") if isinstance(header, dict) else None
    if not isinstance(about, dict):
        raise InvalidArgumentError(
            f"{path} is not an Inspect log, because it has no 'eval'. Pass the log file itself."
        )
    if not samples:
        raise InvalidArgumentError(
            f"The log {path} has no samples, so it has no scores. Run the eval with log_samples=True."
        )
    return LogFile(about, samples)


def _read_json(path: Path) -> tuple[Any, list[Any]]:
    """Read the header and the samples of a `.json` file."""
    log = from_json(read_text(path), path, 1)
    is_log = isinstance(log, dict) and isinstance(log.get("eval"), dict)
    return log, [
        _sample(sample) for sample in log.get("samples") or ()
    ] if is_log else []


def _read_zip(path: Path) -> tuple[Any, list[Any]]:
    """Read the header and the samples of an `.eval` file."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            header = next((name for name in HEADERS if name in names), None)
            if header is None:
                raise InvalidArgumentError(
                    f"{path} is not an Inspect log, because the archive has no {HEADERS[0]}. Copy it again."
                )
            samples = [
                name
                for name in names
                if name.startswith("samples/") and name.endswith(".json")
            ]
            _check_size(archive, path)
            data = (
                json.loads(_content(archive, name, path)) for name in (header, *samples)
            )
            # Of a sample, little is kept, and the conversation with the model is not.
            return next(data), [_sample(sample) for sample in data]
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(
            f"{path} is not an Inspect log, or is damaged ({error}). Copy it again, or pass the .json log."
        ) from error


def _check_size(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse an archive that becomes much larger than itself: a megabyte may hold gigabytes."""
    n_bytes = sum(member.file_size for member in archive.infolist())
    most = _MOST_JSON + _MOST_RATIO * path.stat().st_size
    if n_bytes > most:
        raise InvalidArgumentError(
            f"The log {path} is too large when unpacked: it holds {n_bytes >> 20:,} MiB of JSON, and the limit for a "
            f"file of its size is {most >> 20:,} MiB. {_CONVERT}."
        )


def _content(archive: zipfile.ZipFile, name: str, path: Path) -> bytes:
    """Read a file of the archive, also if zipfile does not support its compression."""
    about = archive.getinfo(name)
    try:
        return archive.read(about)
    except NotImplementedError:
        if about.compress_type != _ZSTANDARD or archive.fp is None:
            raise ValueError(
                f"compression method {about.compress_type} is not supported"
            ) from None
    # The compressed data follows the local header.
    archive.fp.seek(about.header_offset)
    n_name, n_extra = _LOCAL_HEADER.unpack(archive.fp.read(_LOCAL_HEADER.size))
    archive.fp.seek(n_name + n_extra, 1)
    return _decompressed(archive.fp.read(about.compress_size), about.file_size, path)


def _decompressed(data: bytes, size: int, path: Path) -> bytes:
    """Decompress Zstandard data of this decompressed size, with whichever package is installed."""
    try:
        return bytes(
            import_module("zstandard")
            .ZstdDecompressor()
            # Not `decompress`, which takes the size from the data
            .stream_reader(data)
            .read(size)
        )
    except ModuleNotFoundError:
        pass
    except Exception as error:
        # zstandard.ZstdError, which needs an import to be caught by name.
        raise ValueError(str(error)) from error
    try:
        return bytes(
            import_module("pyarrow").Codec("zstd").decompress(data, size, asbytes=True)
        )
    except ModuleNotFoundError:
        raise InvalidArgumentError(
            f"The log {path} is compressed with Zstandard. Run `pip install zstandard` (inspect-ai includes it), or "
            f"pass the log as JSON. {_CONVERT}."
        ) from None


def _sample(data: Mapping[str, Any]) -> Any:
    """Convert a sample to an object with the attributes that `samples.Scoring` reads."""
    scores = {
        name: SimpleNamespace(value=score["value"])
        for name, score in (data.get("scores") or {}).items()
    }
    error, limit = data.get("error"), data.get("limit")
    if error:
        error = SimpleNamespace(
            message=error.get("message", ""), traceback=error.get("traceback", "")
        )
    if limit:
        limit = SimpleNamespace(type=limit.get("type"), limit=limit.get("limit") or 0)
    return SimpleNamespace(
        id=data["id"],
        metadata=data.get("metadata") or {},
        scores=scores,
        error=error or None,
        limit=limit or None,
        limited=bool(limit),
        model_usage={
            model: _usage(used)
            for model, used in (data.get("model_usage") or {}).items()
        },
        total_time=data.get("total_time"),
    )


def _usage(used: Mapping[str, Any]) -> Any:
    tokens = {
        f"{kind}_tokens": used.get(f"{kind}_tokens") or 0
        for kind in ("input", "output", "total")
    }
    return SimpleNamespace(**tokens, total_cost=used.get("total_cost"))
