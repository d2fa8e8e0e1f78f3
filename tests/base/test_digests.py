"""Digests of plain values."""

import pytest

from themis_opt.base.documents import digest

VALUE = ["a", 1, None, {"b": 1.5, "a": ["µ"]}]
DIGEST = "930068ce58d4d4489814ed6fb20475527344cc55dadb5e33cbc0c41d63e529a2"


@pytest.mark.parametrize("digits", [8, 32, 64])
def test_a_digest_stays_what_it_was(digits: int) -> None:
    assert digest(VALUE, digits) == DIGEST[:digits]


def test_equal_values_have_one_digest() -> None:
    assert digest(["a", 1, None, {"a": ["µ"], "b": 1.5}]) == digest(VALUE) == DIGEST[:32]


def test_other_values_have_another() -> None:
    assert digest(["a", 1, None, {"b": 1.5, "a": ["u"]}]) != digest(VALUE)
