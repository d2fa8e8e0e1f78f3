"""Documents on disk: read strictly and up to a limit, written atomically."""

import gzip
import io
import json
import os
import re
import stat
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, NoReturn

from themis_opt.base.errors import InputError, printable
from themis_opt.base.units import format_size

GZIP = b"\x1f\x8b"  # how a file begins that gzip packed
MAX_FILE_BYTES = 256 * 2**20  # largest file that is read; a schedule of four million stages has so many bytes
MAX_VALUES = 5_000_000  # most values of a JSON document: each may take a hundred times the memory of its characters
MAX_KEYS = 100_000  # most names of one object of a JSON document: each may be an error of its own, which takes some KiB


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises InputError if the file cannot be read, or holds anything but one JSON object without repeated keys.
    """
    document = parse_json(read_text(path, "JSON"), str(path))
    if not isinstance(document, dict):
        raise InputError("must be a JSON object", source=str(path))
    return document


def parse_json(text: str, source: str) -> Any:
    """Parse a JSON text that stands in a file.

    Raises InputError if it is none, is too large, repeats a key of an object, or holds characters that are no text.
    """
    if not text.strip():
        raise InputError("the file is empty", source=source)
    check_values(text, source, MAX_VALUES)
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        rule = f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise InputError(rule, source=source) from None
    except RecursionError:
        raise InputError("JSON nested too deeply", source=source) from None
    except ValueError as error:
        raise InputError(str(error), source=source) from None
    if SURROGATE.search(text) and not _is_text(document):
        raise InputError("holds characters that are no Unicode text", source=source)
    return document


def check_values(text: str, source: str, most: int) -> None:
    """Refuse a JSON text of too many values before they are built; commas within strings count too.

    Raises InputError if it has more than `most`.
    """
    count = sum(map(text.count, ",[{"))
    if count > most:
        raise InputError(f"must hold at most {most} values", field="JSON", value=count, source=source)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML document. Raises InputError if the file cannot be read, is too large, or is no TOML."""
    import tomllib

    try:
        return tomllib.loads(read_text(path, "TOML", most=2**20))  # experiments are written by hand
    except RecursionError:
        raise InputError("TOML nested too deeply", source=str(path)) from None
    except ValueError as error:  # also integers of thousands of digits
        raise InputError(f"not TOML: {error}", source=str(path)) from None


def read_text(path: Path, form: str, most: int = MAX_FILE_BYTES) -> str:
    """The text of a file. Raises InputError if the file cannot be read, is too large, or is not UTF-8.

    `form`: what it should be, such as JSON.
    `most`: bytes it may have.
    """
    try:
        return read_unpacked(path, form, most).decode()
    except UnicodeDecodeError:
        raise InputError(f"not {form}: the file is not UTF-8 text", source=str(path)) from None


def read_unpacked(path: Path, form: str, most: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a file, unpacked where gzip packed them, as :func:`read_text` says."""
    data = read_bytes(path, form, most)
    return unpack(data, str(path), most) if data.startswith(GZIP) else data


def unpack(packed: bytes, source: str, most: int) -> bytes:
    """The bytes that gzip packed; no more than `most` are unpacked, since a few bytes can stand for any number.

    Raises InputError if gzip did not pack them, if they are damaged, or if there are more.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            data = file.read(most + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError("is damaged, or not packed with gzip", source=source) from None
    if len(data) > most:
        raise InputError(f"must be at most {format_size(most)}, unpacked", source=source)
    return data


def read_bytes(path: Path, form: str, most: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a file, as :func:`read_text` says.

    Only regular files have an end for sure: devices may have none, and a pipe waits for whoever writes.
    """
    try:
        # Opened without waiting for the other end of a pipe.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"is a pipe or a device, must be a {form} file", source=str(path))
            data = file.read(most + 1)
    except IsADirectoryError:
        raise InputError(f"is a directory, must be a {form} file", source=str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(path)) from None
    except ValueError:
        raise InputError("cannot be read: names of files hold no null characters", source=str(path)) from None
    if len(data) > most:
        raise InputError(f"must be at most {format_size(most)}", source=str(path))
    return data


SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # what may be half of a surrogate pair, escaped


def _is_text(document: Any) -> bool:
    """Whether all strings can be written again: escaped halves of surrogate pairs cannot."""
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise ValueError(f"must hold at most {MAX_KEYS} names in one object")
    document = dict(pairs)
    if len(document) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        repeated = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"key '{repeated}' stands twice in one object")
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"numbers must be finite, not {name}")


def digest(content: Any, digits: int = 32) -> str:
    """Hexadecimal digits, 64 at most, that equal JSON values share, whatever the order of their keys."""
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:digits]


def schema_text(schema: Mapping[str, Any]) -> str:
    """A JSON Schema as the text of a file, without the examples of docstrings, which are in Python."""
    document = json.loads(json.dumps(schema), object_hook=_without_examples) | {
        "$schema": "https://json-schema.org/draft/2020-12/schema"
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _without_examples(values: dict[str, Any]) -> dict[str, Any]:
    if isinstance(text := values.get("description"), str):
        values["description"] = text.partition("\n\nExamples\n")[0]
    return values


def make_folder(path: Path) -> None:
    """Make a folder, and the ones above it, unless it is there.

    Raises InputError if that cannot be done, or nothing can be written into it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=str(path)) from None


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a crash, sees either the old content or the new.

    Raises InputError if the folder cannot be made or the file not written.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():  # a device or a pipe, which is no place for another file
            path.write_bytes(data)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{token_hex(4)}")
        try:
            with open(temporary, "xb", opener=_opener_like(path)) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=str(path)) from None


def write_to_cache(path: Path, content: str) -> None:
    """Write a file of a cache as :func:`write_atomically` does, but in the place of a link, pipe or device.

    Raises InputError if that cannot be done.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.unlink()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=str(path)) from None
    write_atomically(path, content)


def _opener_like(path: Path) -> Callable[[str, int], int]:
    """Make files that whoever may read the file at a path may read; where there is none, whom the umask lets."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None

    def opener(name: str, flags: int) -> int:
        handle = os.open(name, flags, 0o666 if mode is None else 0o600)
        if mode is not None:
            Path(name).chmod(mode)
        return handle

    return opener


_NOT_IN_NAMES = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


def file_name(text: str) -> str:
    """The text as the name of a file or folder that every system allows, Windows included."""
    name = _NOT_IN_NAMES.sub("_", text).rstrip(". ") or "_"
    return f"_{name}" if _RESERVED.fullmatch(name) else name


def laid_out(value: Any, indent: str = "") -> str:
    """JSON with objects that hold no objects on one line, and everything around them indented."""
    if not _holds_objects(value):
        return _on_one_line(value)
    deeper = indent + "  "
    if isinstance(value, dict):
        lines = [f"{deeper}{json.dumps(key)}: {laid_out(part, deeper)}" for key, part in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + laid_out(part, deeper) for part in value) + f"\n{indent}]"


def _holds_objects(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(isinstance(part, dict) or _holds_objects(part) for part in parts)


def _on_one_line(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return f"{{ {text[1:-1]} }}" if isinstance(value, dict) and value else text


FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")  # with what begins a text that spreadsheets run as a formula


def harmless(value: Any) -> Any:
    """A value as a cell of CSV: control characters are spelled out, and an apostrophe stands before formulas.

    https://owasp.org/www-community/attacks/CSV_Injection
    """
    if not isinstance(value, str):
        return value
    is_formula = value.startswith(FORMULA_SIGNS) and len(value) > 1
    return printable(f"'{value}" if is_formula else value, keep="\n\t\r")
