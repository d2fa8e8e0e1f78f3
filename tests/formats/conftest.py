"""Files that the tests of readers write."""

import json

import pytest


@pytest.fixture
def write(tmp_path):
    """Write files by name; returns their paths."""

    def files(**contents):
        paths = []
        for name, content in contents.items():
            paths.append(tmp_path / name.replace("__", "."))
            text = content if isinstance(content, str) else json.dumps(content)
            paths[-1].write_text(text, encoding="utf-8")
        return paths

    return files
