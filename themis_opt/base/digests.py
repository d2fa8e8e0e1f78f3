"""Digests of plain values, for names that change when what they stand for does."""

import hashlib
import json
from typing import Any


def digest(content: Any) -> str:
    """32 hexadecimal digits that equal JSON values share, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
