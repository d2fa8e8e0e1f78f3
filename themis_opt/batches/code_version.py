"""The version of the code that makes rows."""

import hashlib
from functools import cache
from pathlib import Path

import formulations
from themis_opt.version import __version__

UNCOUNTED = ("cli", "reports", "tuning")
"""Parts of the package that make no rows: they are no part of the version of the code that does."""


@cache
def code_version() -> str:
    """Version of the package and a digest of the source files that decide about results."""
    digest = hashlib.sha256()
    for root in (Path(__file__).parent.parent, *map(Path, formulations.__path__)):
        for file in sorted(root.rglob("*.py")):
            if file.relative_to(root).parts[0] not in UNCOUNTED:
                digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"
