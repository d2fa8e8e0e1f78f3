"""Fixtures that several test modules share, and the settings of the property tests."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, settings
from paper_networks import PAPER_NETWORKS
from planning import schedule_of

import themis_opt
from formulations.interruption import INTERRUPTION
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.schedule import Schedule

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("repeatable", derandomize=True, max_examples=10, database=None, **_COMMON)
settings.register_profile("unshrunk", settings.get_profile("repeatable"), phases=(Phase.explicit, Phase.generate))
settings.register_profile("hunt", max_examples=3000, print_blob=True, **_COMMON)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep plans out of the user's cache folder, also those of child processes."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
            patch.setitem(os.environ, variable, str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def figure_5() -> Instance:
    """Themis (ISCA 2022), figure 5: 4x4 NPUs, dim1 twice as fast as dim2, four chunks; one unit is 1 ms."""
    return themis_opt.load("fig5.all_reduce.256MB")


@pytest.fixture(scope="session")
def hetero() -> Instance:
    """An all-reduce of 100 MiB in 64 chunks on 3D-SW_SW_SW_hetero."""
    return themis_opt.load("3d-sw_sw_sw_hetero.all_reduce.100MiB")


@pytest.fixture(scope="session")
def mixed() -> Instance:
    """Several collectives of different kinds on 3D-SW_SW_SW_hetero."""
    return themis_opt.load("3d-sw_sw_sw_hetero.mixed.100MiB")


@pytest.fixture(scope="session")
def every_kind(mixed: Instance) -> Instance:
    """The same with a collective of each kind that is not among them."""
    rest = (kind for kind in CollectiveKind if kind not in {c.kind for c in mixed.collectives})
    more = tuple(Collective(kind=kind, size="8 MiB", chunks=6) for kind in rest)
    return mixed.replace(collectives=(*mixed.collectives, *more))


@pytest.fixture(params=PAPER_NETWORKS, scope="session")
def paper_instance(request: pytest.FixtureRequest) -> Instance:
    """An all-reduce of 100 MiB in 64 chunks on each network of table 2."""
    return themis_opt.load(f"{request.param}.all_reduce.100MiB")


@pytest.fixture(scope="session")
def run() -> Callable[[Instance, str], Schedule]:
    """Plan an instance with the policy of a specification and simulate the plan."""
    return schedule_of


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, as on the command line; processes of a parallel test run ignore it otherwise."""
    before = signal.signal(signal.SIGINT, INTERRUPTION.handle)
    yield
    signal.signal(signal.SIGINT, before)
    INTERRUPTION.came = False


@pytest.fixture
def loses_ctrl_c() -> Iterator[Callable[..., None]]:
    """A function in which Ctrl-C comes, whose exception is lost as in a callback or a finaliser."""

    def lose(*arguments: object) -> None:
        with suppress(KeyboardInterrupt):
            INTERRUPTION.handle(signal.SIGINT, None)

    yield lose
    INTERRUPTION.came = False
