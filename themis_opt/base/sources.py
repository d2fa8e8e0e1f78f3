"""Files of other tools: read up to a limit, unpacked, and parsed without executing or expanding anything."""

import io
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from themis_opt.base.documents import GZIP, MAX_FILE_BYTES, parse_json, read_unpacked, unpack
from themis_opt.base.errors import InputError, suggestion

MAX_DOCUMENT_BYTES = 16 * 2**20
"""Largest JSON or XML file that is parsed whole: it takes about twenty times as much memory."""

MAX_YAML_BYTES = 2**16  # largest YAML file: these describe networks in some lines, and the parser is slow
MAX_LINES_BYTES = 32 * 2**20  # largest file that is read line by line: its words take up to twenty times as much memory
MAX_LINES = 500_000  # lines that are not blank
HEAD_BYTES = 2**16  # bytes that tell the format of a file
MAX_DEPTH = 64  # levels of XML elements; what is read here has ten


ReadingProgress = Callable[[Path, int, int], None]
"""Takes a file that is read, characters of it that are, and how many it has."""

_WATCHING: ContextVar[ReadingProgress | None] = ContextVar("watching", default=None)
TOLD_EVERY = 2**20  # characters of a long file


@contextmanager
def watched_reading(progress: ReadingProgress) -> Iterator[None]:
    """Tell how far long files are that are read within."""
    token = _WATCHING.set(progress)
    try:
        yield
    finally:
        _WATCHING.reset(token)


@dataclass(frozen=True)
class Source:
    """A file of another tool; every view of it is made once."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def error(self, rule: str, field: str = "", value: object = None) -> InputError:
        """The error that a rule is broken here."""
        return InputError(rule, field=field, value=value, source=str(self.path))

    @property
    def ending(self) -> str:
        """The ending of the name, in small letters and without that of gzip."""
        name = self.path.name.lower().removesuffix(".gz")
        return name.rpartition(".")[2] if "." in name else ""

    @cached_property
    def data(self) -> bytes:
        """The bytes, unpacked where gzip packed them. Raises InputError if the file cannot be read, or is too large.

        A path of ``-`` is the standard input.
        """
        if str(self.path) == "-":
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
            return unpack(data, "standard input", MAX_FILE_BYTES) if data.startswith(GZIP) else data
        return read_unpacked(self.path, self.ending or "regular")

    @property
    def _encoding(self) -> str:
        """UTF-16 where the first bytes say so, as PowerShell writes it."""
        return "utf-16" if self.data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"

    @cached_property
    def text(self) -> str:
        """The text. Raises InputError if it is none in UTF-8 or UTF-16."""
        try:
            return self.data.decode(self._encoding)
        except UnicodeDecodeError:
            raise self.error("is no text in UTF-8") from None

    def tell(self, done: int) -> None:
        """Tell whoever watches how many characters of the text are read."""
        progress = _WATCHING.get()
        if progress is not None:
            progress(self.path, done, len(self.text))

    @cached_property
    def head(self) -> str:
        """The first characters, for telling formats apart; those that are no text are left out."""
        return self.data[:HEAD_BYTES].decode(self._encoding, errors="ignore")

    @cached_property
    def document(self) -> Any:
        """The parsed JSON, or None where it is none or is too large to parse whole."""
        if len(self.data) > MAX_DOCUMENT_BYTES or not self.head.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
            return None
        try:
            return parse_json(self.text, str(self.path))
        except InputError:
            return None

    def json_object(self) -> dict[str, Any]:
        """The one JSON object that the file holds. Raises InputError if it is none, or too large."""
        self.check_size(MAX_DOCUMENT_BYTES)
        document = parse_json(self.text, str(self.path))
        if not isinstance(document, dict):
            raise self.error("must be a JSON object")
        return document

    def keys(self) -> set[str]:
        """Names at the top of a JSON object; none where there is no such object."""
        return set(self.document) if isinstance(self.document, dict) else set()

    @cached_property
    def lines(self) -> list[tuple[int, str]]:
        """The lines that are not blank, with their numbers from 1. Raises InputError if there are too many."""
        self.check_size(MAX_LINES_BYTES)
        numbered = enumerate(io.StringIO(self.text, newline=None), start=1)
        lines = list(islice(((number, line.rstrip("\n")) for number, line in numbered if line.strip()), MAX_LINES + 1))
        if len(lines) > MAX_LINES:
            raise self.error(f"must have at most {MAX_LINES} lines")
        return lines

    def yaml_object(self) -> dict[str, Any]:
        """The one mapping that a YAML file holds: of names to scalars, lists and mappings.

        Raises InputError if it is none, is too large, repeats a name, or uses anchors, aliases or tags.
        """
        self.check_size(MAX_YAML_BYTES)
        import yaml

        try:
            if any(isinstance(t, yaml.AliasToken | yaml.AnchorToken | yaml.TagToken) for t in yaml.scan(self.text)):
                raise self.error("must not use anchors, aliases or tags")
            value = self._plain(yaml.compose(self.text, Loader=yaml.SafeLoader))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            place = f" at line {mark.line + 1}" if mark else ""
            raise self.error(f"not YAML: {getattr(error, 'problem', None) or 'cannot be parsed'}{place}") from None
        except RecursionError:
            raise self.error("YAML nested too deeply") from None
        except ValueError as error:
            raise self.error(f"not YAML: {error}") from None
        if not isinstance(value, dict):
            raise self.error("must be a YAML mapping")
        return value

    def _plain(self, node: Any) -> Any:
        import yaml

        if isinstance(node, yaml.SequenceNode):
            return [self._plain(part) for part in node.value]
        if not isinstance(node, yaml.MappingNode):
            return None if node is None else yaml.SafeLoader("").construct_object(node)
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in mapping:
                line = key.start_mark.line + 1
                raise self.error(f"names must be single words, each once (line {line})", value=key.value)
            mapping[key.value] = self._plain(value)
        return mapping

    def xml(self) -> Element:
        """The root of an XML file; document types, and with them entities, are refused.

        Raises InputError if it is no such file, or is too large or nested too deeply.
        """
        self.check_size(MAX_DOCUMENT_BYTES)
        builder, parser = TreeBuilder(), expat.ParserCreate()
        depth = 0

        def start(tag: str, attributes: dict[str, str]) -> None:
            nonlocal depth
            depth += 1
            if depth > MAX_DEPTH:
                raise self.error(f"must have at most {MAX_DEPTH} levels of elements")
            builder.start(tag, attributes)

        def end(tag: str) -> None:
            nonlocal depth
            depth -= 1
            builder.end(tag)

        def refuse(*_: object) -> None:
            raise self.error("must not declare a document type or entities")

        parser.StartElementHandler, parser.EndElementHandler = start, end
        parser.CharacterDataHandler = builder.data
        parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
        try:
            parser.Parse(self.data, True)
        except expat.ExpatError as error:
            raise self.error(f"not XML: {expat.ErrorString(error.code)} at line {error.lineno}") from None
        except (ValueError, LookupError):
            raise self.error("not XML: its encoding is unknown") from None
        return builder.close()

    def check_keys(
        self, given: Iterable[str], known: Iterable[str], required: Iterable[str] = (), within: str = ""
    ) -> None:
        """Refuse names that are unknown, with the nearest known one, and required ones that are missing.

        Raises InputError for the first of them.

        `within`: field that holds the names.
        """
        given, known, prefix = list(given), list(known), f"{within}." if within else ""
        for name in given:
            if name not in known:
                raise self.error(f"unknown field{suggestion(name, known)}", f"{prefix}{name}")
        for name in required:
            if name not in given:
                raise self.error("required field is missing", f"{prefix}{name}")

    def mapping(self, value: Any, field: str) -> dict[str, Any]:
        """An object of JSON or YAML. Raises InputError if the value is none."""
        if not isinstance(value, dict):
            raise self.error("must be an object", field)
        return value

    def objects(self, values: Any, field: str) -> list[dict[str, Any]]:
        """A list of such objects. Raises InputError if the value is none."""
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.error("must be a list of objects", field)
        return values

    def number(self, value: object, field: str, *, least: float = 0.0, most: float = 1e18) -> float:
        """A number from `least` to `most`. Raises InputError if it is none."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error("must be a number", field, value)
        if not least <= value <= most:
            raise self.error(f"must be at least {least:g} and at most {most:g}", field, value)
        return float(value)

    def whole(self, value: object, field: str, *, least: int = 0, most: int = 2**50) -> int:
        """A whole number from `least` to `most`. Raises InputError if it is none."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error("must be a whole number", field, value)
        if not least <= value <= most:
            raise self.error(f"must be at least {least} and at most {most}", field, value)
        return value

    def choice(self, value: object, known: Mapping[str, Any], field: str) -> Any:
        """What a word stands for. Raises InputError if it is not among the known ones."""
        if not isinstance(value, str) or value not in known:
            hint = suggestion(value, list(known)) if isinstance(value, str) else ""
            raise self.error(f"must be one of {', '.join(known)}{hint}", field, value)
        return known[value]

    def check_size(self, limit: int) -> None:
        """Refuse a file of more bytes, unpacked. Raises InputError if it has more."""
        if len(self.data) > limit:
            raise self.error(f"must be at most {limit // 2**10} KiB, unpacked")
