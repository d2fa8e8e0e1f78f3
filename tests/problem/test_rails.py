"""Rails: links side by side, over which a stage sends parts of its bytes at once."""

import json
from fractions import Fraction
from itertools import combinations
from math import ceil
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import themis_opt
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.designing.problem import DesignProblem
from themis_opt.formats.exports import export
from themis_opt.formats.order_table import order_table
from themis_opt.problem.cost import path_costs
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import Phase
from themis_opt.problem.rails import used_from
from themis_opt.problem.schema import instance_schema
from themis_opt.runtime.program import compile_program
from themis_opt.schedules.explanation import explain
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.verification import verify
from themis_opt.study.sweep import varied

PICOSECONDS = 10**12
FLEXLINK = "flexlink.h800.all_reduce.256MB"
FAST = {"name": "fast", "bandwidth": "3 GB/s"}
LATE = {"name": "late", "bandwidth": "1 GB/s", "extra_latency": "1 us", "extra_launch_overhead": "2 us"}


def server(*rails: dict[str, Any], **fields: Any) -> Dimension:
    return Dimension.model_validate({"kind": "switch", "algorithm": "direct", "size": 4, "rails": rails} | fields)


def gather(*dimensions: Dimension, size: int = 16_000, chunks: int = 1, **rules: Any) -> Instance:
    collective = Collective(kind="all_gather", size=size, chunks=chunks, element_bytes=1)
    return Instance(network=Network(dimensions=dimensions), collectives=(collective,), **rules)


def planned(instance: Instance, policy: str = "baseline") -> Schedule:
    return themis_opt.simulate(instance, themis_opt.make_policy(policy)(instance))


def held(instance: Instance) -> int:
    """Picoseconds for which the first stage of a single chunk holds its dimension."""
    exchange = instance.exchanges[0]
    return int(
        path_costs(instance, exchange.kind, np.array([exchange.size]), np.array([exchange.span])).occupancy[0, 0]
    )


def test_no_part_no_time_and_all_parts_arrive_at_once() -> None:
    """The late rail starts after 3 us, in which the fast one moves 9000 bytes; 12000 then take (12 - 9) / 4 us more."""
    assert held(gather(server(FAST, LATE), size=12_000)) == 3_000_000
    assert held(gather(server(FAST, LATE), size=16_000)) == 3_750_000


links = st.lists(st.tuples(st.integers(1, 10**4), st.integers(0, 10**7)), min_size=1, max_size=4)


@given(links, st.integers(1, 10**8))
def test_the_parts_are_the_optimum_of_the_linear_programme(rails: list[tuple[int, int]], size: int) -> None:
    """Of all sets of rails, those whose parts that arrive together are not negative, the fastest."""
    levels = []
    for count in range(1, len(rails) + 1):
        for used in combinations(rails, count):
            bandwidth = sum(megabytes * 10**6 for megabytes, _ in used)
            late = sum(megabytes * 10**6 * bandwidth_used for megabytes, bandwidth_used in used)
            level = Fraction(size * PICOSECONDS + late, bandwidth)
            if level >= max(bandwidth_used for _, bandwidth_used in used):
                levels.append(level)
    dimension = server(
        *(
            {"name": str(number), "bandwidth": megabytes * 10**6, "extra_launch_overhead": f"{late} ps"}
            for number, (megabytes, late) in enumerate(rails)
        ),
        size=2,
    )
    assert held(gather(dimension, size=2 * size)) == ceil(min(levels))


def test_a_late_rail_carries_a_part_from_what_the_others_move_before_it_starts() -> None:
    """Of 3 us late, in which 3 GB/s move 9000 bytes."""
    assert used_from(server(LATE, FAST), Phase.ALL_GATHER).tolist() == [9_000, 0]


def test_rails_that_are_late_alike_are_one_link_of_their_bandwidths_together() -> None:
    alike = {"bandwidth": "1 GB/s"}
    rails = server({"name": "a", **alike}, {"name": "b", **alike}, packet={"payload": "64 B", "header": "3 B"})
    whole = Dimension(kind="switch", algorithm="direct", size=4, bandwidth="2 GB/s", packet=rails.packet)
    for size in (3, 1_000, 999_999):
        assert held(gather(rails, size=size)) == held(gather(whole, size=size))


def test_latency_of_rails_counts_every_step_and_sums_come_after() -> None:
    """Three steps: 3 x 1 us + 2 us late, so 15000 bytes go by the fast rail alone; and 18000 are summed at 6 GB/s."""
    ring = server(FAST, LATE, algorithm="ring", reduction="6 GB/s")
    collective = Collective(kind="reduce_scatter", size=24_000, chunks=1, element_bytes=1)
    instance = Instance(network=Network(dimensions=(ring,)), collectives=(collective,))
    assert held(instance) == 5_000_000 + 3_000 // 4 * 1_000 + 3_000_000


def test_parts_sum_to_the_bytes_and_arrive_in_time() -> None:
    schedule = planned(gather(server(FAST, LATE), size=16_000, chunks=2))
    assert schedule.rail_bytes[0].tolist() == [[6_000, 0], [6_000, 0]]
    schedule = planned(gather(server(FAST, LATE), size=16_000))
    assert schedule.rail_bytes[0].tolist() == [[11_250, 750]]
    themis_opt.validate(schedule)


def test_parts_that_take_much_less_time_than_they_are_late_are_not_lost() -> None:
    rails = server(LATE | {"bandwidth": "1.6 TB/s"}, {"name": "later", "bandwidth": "1 MB/s", "extra_latency": "9 s"})
    schedule = planned(gather(rails, size=1))
    assert schedule.rail_bytes[0].tolist() == [[pytest.approx(0.75), 0.0]]
    themis_opt.validate(schedule)


@pytest.mark.parametrize(
    ("carried", "what"),
    [
        ([[11_250.0, 700.0]], "has 12000 bytes, its rails carry [11250.0, 700.0]"),
        ([[12_750.0, -750.0]], "has 12000 bytes, its rails carry [12750.0, -750.0]"),
        ([[12_000.0, 0.0]], "holds its dimension to send for 3750000 ps, its rails take 4000000"),
    ],
)  # fmt: skip
def test_validation_refuses_parts_that_are_not_all_bytes_or_arrive_late(
    carried: list[list[float]], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = planned(gather(server(FAST, LATE), size=16_000))
    monkeypatch.setitem(schedule.__dict__, "rail_bytes", {0: np.array(carried)})
    with pytest.raises(InvalidSchedule) as caught:
        themis_opt.validate(schedule)
    assert (caught.value.rule, caught.value.detail) == ("rails", f"all_gather1 chunk 0 all_gather on dim1 {what}")


def test_free_sizes_are_found_where_a_dimension_has_rails() -> None:
    """Chunks on rails that are late cost something, so the best sizes differ; the bound holds for them, too."""
    dimensions = (server(FAST, LATE, name="in"), Dimension(kind="switch", size=4, bandwidth="2 GB/s", name="out"))
    collective = Collective(kind="all_reduce", size="64 kB", chunks=4)
    instance = Instance(network=Network(dimensions=dimensions), collectives=(collective,))
    equal, free = (planned(instance, policy) for policy in ("hourglass", "hourglass:sizes=free"))
    themis_opt.validate(free)
    bound = max(themis_opt.bounds(instance, equal_sizes=False).values())
    assert bound <= free.makespan <= equal.makespan


def test_data_arrive_whatever_link_they_take() -> None:
    fast = Dimension(kind="ring", size=3, bandwidth="2 GB/s")
    for kind in ("all_reduce", "all_to_all", "broadcast"):
        collective = Collective(kind=kind, size="64 kB", chunks=4)
        instance = Instance(network=Network(dimensions=(server(FAST, LATE), fast)), collectives=(collective,))
        verify(planned(instance, "themis+scf"))


def test_the_sum_of_bandwidths_may_be_left_out_or_must_be_right() -> None:
    assert server(FAST, LATE).bandwidth == 4e9
    assert server(FAST, LATE, bandwidth="4 GB/s") == server(FAST, LATE, bandwidth=4e9)
    with pytest.raises(ModelError) as caught:
        server(FAST, LATE, bandwidth="5 GB/s")
    assert caught.value.rule == "must be the 4 GB/s of its rails together, or left out"
    with pytest.raises(ModelError) as caught:
        server(FAST, FAST)
    assert caught.value.rule == "names must differ, got fast, fast"
    with pytest.raises(ModelError, match="required field is missing"):
        server()


def test_files_keep_rails_and_fingerprints_know_them() -> None:
    rails = gather(server(FAST, LATE))
    for document in (rails.model_dump(mode="json"), rails.model_dump(mode="json", exclude_unset=True)):
        document = json.loads(json.dumps({"format": rails.format} | document))
        jsonschema.validate(document, json.loads(instance_schema()))
        assert Instance.model_validate(document).fingerprint == rails.fingerprint
    renamed = gather(server(FAST | {"name": "NVLink"}, LATE))
    slower = gather(server(FAST, LATE | {"extra_latency": "2 us"}))
    assert renamed.fingerprint == rails.fingerprint != slower.fingerprint
    assert "rails" not in Dimension(kind="ring", size=4, bandwidth="1 GB/s").model_dump()


def test_rails_scale_with_their_dimension() -> None:
    half = varied(gather(server(FAST, LATE)), {"share": 0.5}).network.dimensions[0]
    assert (half.bandwidth, [rail.bandwidth for rail in half.rails]) == (2e9, [1.5e9, 0.5e9])
    disturbed = gather(server(FAST, LATE)).scaled([2.0], [], latency="lag")
    assert disturbed.network.dimensions[0].bandwidth == 8e9
    assert held(disturbed) == 2_000_000  # the late rail has not begun


def test_explanation_and_order_table_say_what_each_rail_carries() -> None:
    schedule = planned(gather(server(FAST, LATE), size=16_000))
    loads = [(rail.dimension, rail.rail, rail.bytes, rail.share) for rail in explain(schedule).rails]
    assert loads == [("dim1", "fast", 11_250, 0.9375), ("dim1", "late", 750, 0.0625)]
    table = order_table(schedule)
    assert table["dimensions"][0]["issue_order"][0]["rails"] == {"fast": 11_250, "late": 750}
    path = Path(themis_opt.__file__).parent / "formats" / "order.schema.json"
    jsonschema.validate(table, json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("to", ["msccl", "mscclpp", "astra-sim"])
def test_formats_that_cannot_choose_links_refuse_them(to: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot say what each rail carries"):
        export(planned(gather(server(FAST, LATE))), to, tmp_path)


def test_runs_and_designs_refuse_rails() -> None:
    with pytest.raises(InputError, match="the runtime cannot say what each rail carries"):
        compile_program(planned(gather(server(FAST, LATE))))
    dimension = {"kind": "ring", "size": 4, "rails": [FAST]}
    workload = {"name": "w", "collectives": [{"kind": "all_reduce", "size": "1 MiB"}]}
    document = {"network": {"dimensions": [dimension]}, "workloads": [workload], "budget": {"bandwidth": "1 GB/s"}}
    with pytest.raises(ModelError, match="cannot be designed"):
        DesignProblem.model_validate(document)


def test_flexlink_gains_a_quarter_over_nvlink_alone() -> None:
    """FlexLink reports up to 26 % on 8 H800 GPUs, with 2 to 22 % of the bytes on PCIe and NICs."""
    rails = themis_opt.load(FLEXLINK)
    railed = rails.network.dimensions[0]
    alone = Dimension(
        kind=railed.kind,
        algorithm=railed.algorithm,
        size=railed.size,
        latency=f"{railed.latency} ps",
        bandwidth="200 GB/s",
    )
    together, nvlink = planned(rails), planned(rails.varied(network=Network(dimensions=(alone,))))
    assert nvlink.makespan / together.makespan == pytest.approx(1.26, abs=0.01)
    shares = {load.rail: load.share for load in explain(together).rails}
    assert 0.02 <= shares["PCIe"] + shares["NIC"] <= 0.22
    assert together.makespan == pytest.approx(max(themis_opt.bounds(rails).values()), rel=1e-9)
