"""Random damage to a valid instance file: it is described or refused, nothing else."""

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NASTY = (
    "0 B", "-1 ns", "1e30 B/s", "1e-30 B/s", "nan", "1e999999999 B", "100 GiB/s", "2 us", "dim1", "ring", "all_to_all",
    "lag", "direct", "\ud800", "\u2028", "\n", 2**63, 10**30, -1, 0, 1, 2, 1e308, 5e-324, -0.0,
)  # fmt: skip
KEYS = ("name", "size", "kind", "chunks", "dimensions", "packet", "payload", "compression", "in_network", "release")

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(NASTY)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(node):
    """Every container in a document with each of its keys."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in list(pairs):
        yield node, key
        yield from places(child)


@st.composite
def damaged(draw, document):
    """The document after one to four replacements, removals, insertions and repetitions."""
    result = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 4))):
        somewhere = list(places(result))
        if not somewhere:
            break
        parent, key = draw(st.sampled_from(somewhere))
        how = draw(st.sampled_from(["replace", "replace", "remove", "insert", "repeat"]))
        if how == "replace":
            parent[key] = draw(values)
        elif how == "remove":
            del parent[key]
        elif isinstance(parent, list):
            parent.insert(key, draw(values) if how == "insert" else copy.deepcopy(parent[key]))
        else:
            parent[draw(st.sampled_from(KEYS) | st.text(max_size=3))] = draw(values)
    return result


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A file to be overwritten by each example."""
    return tmp_path_factory.mktemp("random") / "random.json"


def assert_shown_or_refused(result):
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code in (0, 2)
    if result.exit_code == 2:
        lines = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
        assert lines
        assert all(line.startswith("error: ") for line in lines)
        assert result.stdout == ""


@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_values_are_shown_or_refused(invoke, document, file, data):
    file.write_text(json.dumps(data.draw(damaged(document))), encoding="utf-8")
    assert_shown_or_refused(invoke("show", file))
