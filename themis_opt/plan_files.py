"""Files of the plan cache: one folder per key, one file per kind of sizes, chunk counts and class of size."""

import hashlib
import json
import logging
import math
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from themis_opt.documents import write_atomically
from themis_opt.errors import InputError
from themis_opt.instance import Instance
from themis_opt.plan_entry import Entry, Sizes, plan_key

MAX_FILE_BYTES = 2**22
"""Larger files are no entries."""

_NAME = re.compile(r"(?P<sizes>equal|free)\.(?P<chunks>[1-9][0-9]{0,9})\.[0-9a-f]{8}\.(?P<size_class>[0-9]{1,2})\.json")

log = logging.getLogger(__name__)


def entry_path(root: Path, instance: Instance, sizes: Sizes) -> Path:
    """Where the entry of an instance belongs.

    The name is like ``equal.64.0f3c9a11.27.json``: kind of sizes, all chunks, hash of the chunk counts, log2 of all
    bytes to the nearest whole number.
    """
    counts = [c.chunks for c in instance.collectives]
    digest = hashlib.sha256(json.dumps(counts).encode()).hexdigest()[:8]
    return root / plan_key(instance) / f"{sizes}.{sum(counts)}.{digest}.{_size_class(instance)}.json"


def nearest_entries(root: Path, instance: Instance, most: int) -> Iterator[Entry]:
    """At most so many entries of the key of an instance, nearest chunk count first, then nearest size.

    The names of files only order them and rule out those of more equal chunks than `instance` has.
    """
    key = plan_key(instance)
    try:
        names = [path.name for path in (root / key).iterdir()]
    except OSError as error:
        log.debug("no entries: %s", error)
        return
    near = sorted((distance, name) for name in names if (distance := _distance(name, instance)) is not None)
    for _, name in near[:most]:
        entry = read_entry(root / key / name, key)
        if entry is not None:
            yield entry


def read_entry(path: Path, key: str) -> Entry | None:
    """The entry in a file, or None where there is none that belongs to `key`."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:  # a pipe would block for ever
            raise ValueError("no regular file, or too large")
        entry = Entry.model_validate_json(path.read_bytes())
        if entry.key != key:
            raise ValueError("belongs to another network")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.debug("passed over %s: %s", path, error)
        return None
    return entry


def write_entry(path: Path, entry: Entry) -> None:
    """Write an entry so that readers see the old or the new file; nothing happens where that cannot be done."""
    try:
        write_atomically(path, entry.model_dump_json())
    except InputError as error:
        log.debug("not kept: %s", error)


def _size_class(instance: Instance) -> int:
    return round(math.log2(sum(c.size for c in instance.collectives)))


def _distance(name: str, instance: Instance) -> tuple[float, int] | None:
    matched = _NAME.fullmatch(name)
    if not matched:
        return None
    own, chunks = sum(c.chunks for c in instance.collectives), int(matched["chunks"])
    if matched["sizes"] == "equal" and chunks > own:
        return None
    return abs(math.log2(chunks / own)), abs(int(matched["size_class"]) - _size_class(instance))
