"""Digests of plain values, for names that change when what they stand for does."""

import hashlib
import json
from typing import Any


def digest(content: Any, digits: int = 32) -> str:
    """Hexadecimal digits, 64 at most, that equal JSON values share, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:digits]
