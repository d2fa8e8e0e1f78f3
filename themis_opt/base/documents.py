"""JSON documents on disk: read strictly, written atomically."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from themis_opt.base.errors import InputError


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    InputError
        If the file cannot be read, or holds anything but one JSON object without repeated keys.
    """
    document = parse_json(_read_text(path), str(path))
    if not isinstance(document, dict):
        raise InputError("must be a JSON object", source=str(path))
    return document


def parse_json(text: str, source: str) -> Any:
    """Parse a JSON text that stands in a file.

    Raises
    ------
    InputError
        If it is none, repeats a key of an object, or holds characters that are no text.
    """
    if not text.strip():
        raise InputError("the file is empty", source=source)
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        rule = f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise InputError(rule, source=source) from None
    except RecursionError:
        raise InputError("JSON nested too deeply", source=source) from None
    except ValueError as error:
        raise InputError(str(error), source=source) from None
    if not _is_text(document):
        raise InputError("holds characters that are no Unicode text", source=source)
    return document


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except IsADirectoryError:
        raise InputError("is a directory, must be a JSON file", source=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("not JSON: the file is not UTF-8 text", source=str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(path)) from None


def _is_text(document: Any) -> bool:
    """Whether all strings can be written again: escaped halves of surrogate pairs cannot."""
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key '{repeated}' stands twice in one object")
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"numbers must be finite, found {name}")


def make_folder(path: Path) -> None:
    """Make a folder, and the ones above it, unless it is there.

    Raises
    ------
    InputError
        If that cannot be done, or nothing can be written into it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=str(path)) from None


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a crash, sees either the old content or the new.

    Raises
    ------
    InputError
        If the folder cannot be made or the file not written.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():  # a device or a pipe, which is no place for another file
            path.write_bytes(data)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=str(path)) from None
