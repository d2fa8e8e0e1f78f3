"""The statements of docs/law.md on 10,000 random networks, in exact fractions: about an hour."""

import pytest
from law_statements import violations


@pytest.mark.benchmarks
@pytest.mark.timeout(0)
@pytest.mark.parametrize("width", [2, 3, 4, 5])
def test_statements_hold_on_ten_thousand_networks(width: int) -> None:
    assert [violation for seed in range(width - 2, 10_000, 4) for violation in violations(seed)] == []
