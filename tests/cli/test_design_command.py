"""``design``: what its tables say."""

import pytest

from themis_opt.cli.design import _price_in_words


@pytest.mark.parametrize(
    ("picoseconds", "text"), [(8.777e-11, "0"), (-2e-9, "0"), (0.0, "0"), (0.004, "0.004 ps"), (1.738e6, "1.738 us")]
)
def test_a_price_that_is_noise_of_a_solver_is_nothing(picoseconds: float, text: str) -> None:
    assert _price_in_words(picoseconds) == text
