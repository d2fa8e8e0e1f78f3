import pytest

from themis_opt.base.documents import digest
from themis_opt.base.errors import InputError
from themis_opt.problem.catalog import MAX_SEED, load, random_instance


def test_instances_are_pinned() -> None:
    """Their documented draws decide all of them."""
    assert random_instance(17).fingerprint == load("random:17").fingerprint == "c3c0f49f4c3fae13460d71b297a0093b"
    assert digest([random_instance(seed).fingerprint for seed in range(300)]) == "1f669899c5c5669a0e753f7873afc309"


@pytest.mark.parametrize("seed", [-1, MAX_SEED + 1])
def test_a_seed_outside_is_refused(seed):
    with pytest.raises(InputError, match="must be a seed from 0"):
        random_instance(seed)


@pytest.mark.parametrize("name", ["random:", "random:x", "random:-1", "random:1.5", "random:" + "9" * 5000])
def test_a_name_without_a_seed_is_refused(name):
    with pytest.raises(InputError):
        load(name)
