"""MSCCL XML: proven on data for all collectives and dialects, refused beyond each limit, wrong files noticed."""

import json
import re
import zlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from samples import every

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.formats.exports import Replay, export, in_sentences, make_exporter
from themis_opt.formats.msccl import transfers
from themis_opt.formats.msccl.algorithm import (
    DIALECTS,
    Gpu,
    MscclStep,
    ThreadBlock,
    check_limits,
    collective_named,
    from_xml,
    to_xml,
)
from themis_opt.formats.msccl.exporter import Msccl, least_needs
from themis_opt.formats.msccl.interpreter import interpret
from themis_opt.formats.msccl.plus import MscclPlus
from themis_opt.policies.registry import make_policy
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.simulator import simulate

KINDS = [kind for kind in CollectiveKind if kind is not CollectiveKind.SEND]

NETWORKS = {
    "8 GPUs": (("ring", 4), ("fully_connected", 2)),
    "16 GPUs": (("switch", 4), ("fully_connected", 4)),
    "odd": (("switch", 5), ("line", 3)),
    "three dimensions": (("fully_connected", 2), ("switch", 4), ("ring", 2)),
}


def instance(wires, kind="all_reduce", chunks=3):
    dimensions = [Dimension(kind=k, size=n, bandwidth=f"{100 // n} GB/s", latency="1 us") for k, n in wires]
    collective = Collective(kind=kind, size="24 MiB", chunks=chunks)
    return Instance(network=Network(dimensions=tuple(dimensions)), collectives=(collective,))


def schedule(wires, kind="all_reduce", chunks=3, policy="hourglass"):
    made = instance(wires, kind, chunks)
    return simulate(made, make_policy(policy)(made))


def test_messages_between_neighbours_are_refused():
    with pytest.raises(InputError, match="kind = 'send'"):
        Msccl().algorithm(schedule(next(iter(NETWORKS.values())), CollectiveKind.SEND))


@pytest.mark.parametrize("kind", every(2, KINDS))
@pytest.mark.parametrize("wires", [NETWORKS["odd"], NETWORKS["three dimensions"]], ids=["odd", "three dimensions"])
def test_every_collective_ends_with_its_result_in_every_dialect(tmp_path, wires, kind):
    if kind is CollectiveKind.ALL_TO_ALL and ("line", 3) in wires:
        with pytest.raises(InputError, match="all_to_all on a line"):
            Msccl().algorithm(schedule(wires, kind))
        return
    made = schedule(wires, kind)
    for dialect in DIALECTS:
        files = export(made, f"msccl:dialect={dialect}", tmp_path / dialect)
        lines = list(make_exporter(f"msccl:dialect={dialect}").check(made, tmp_path / dialect))
        assert len(lines) == len(files) + 2
        in_place = kind is not CollectiveKind.ALL_TO_ALL
        assert len(files) == (2 if dialect == "msccl" and in_place else 1)
        assert ("in place" in lines[0]) == (dialect != "msccl" and in_place)


@pytest.mark.parametrize("exporter", ["msccl", "mscclpp"])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"])
@pytest.mark.parametrize(("latency", "chunks"), [("occupy", 4), ("lag", 1)])
def test_files_of_one_ring_take_as_long_as_their_schedule(tmp_path, exporter, kind, latency, chunks):
    ring = instance([("ring", 4)], kind, chunks).replace(latency=latency)
    made = simulate(ring, make_policy("baseline")(ring))
    export(made, exporter, tmp_path)
    *_, time = make_exporter(exporter).check(made, tmp_path)
    assert time.planned == made.makespan
    assert abs(time.difference) < 1e-6


@pytest.mark.parametrize(("took", "differs"), [(994, True), (996, False), (1004, False), (1006, True)])
def test_half_a_percent_is_said_first(took, differs):
    time = Replay("the reader", took, 1000)
    assert (in_sentences(["a fact", time])[0] == "a fact") != differs
    words = f"{abs(took - 1000) / 10:.2f} % {'longer' if took > 1000 else 'shorter'} than the schedule, 1 ns"
    assert str(time).endswith(words)


def test_a_threadblock_that_waits_before_it_sends_takes_longer(tmp_path):
    """Each GPU gets a message before it sends one: the last of a ring of 4 gets it after three others."""
    made = schedule([("ring", 4)], "all_gather", 1, "baseline")
    (path,) = export(made, "mscclpp", tmp_path)
    plan = json.loads(path.read_text())
    for gpu in plan["gpus"][1:]:
        operations = gpu["threadblocks"][0]["ops"]
        puts = next(place for place, one in enumerate(operations) if one["name"] == "put")
        waits = next(place for place, one in enumerate(operations) if one["name"] == "wait" and place > puts)
        operations.insert(puts, operations.pop(waits))
    path.write_text(json.dumps(plan))
    *_, time = make_exporter("mscclpp").check(made, tmp_path)
    assert time.differs
    assert in_sentences(["a fact", time])[0].startswith("by the rules of MSCCL++ the files take ")


def test_dialects_spell_what_their_readers_want():
    made = schedule(NETWORKS["8 GPUs"], "reduce_scatter")
    heads = {dialect: next(iter(Msccl(dialect=dialect).files(made)))[1].splitlines()[0] for dialect in DIALECTS}
    assert 'coll="reduce_scatter"' in heads["msccl"]
    assert "outofplace" not in heads["msccl"]
    assert 'maxBytes="1099511627776"' in heads["msccl"]  # without it, messages above 128 MiB would be left to NCCL
    for dialect in ("azure", "rccl"):
        assert 'coll="reducescatter" inplace="1" outofplace="1" minBytes="0" maxBytes="0"' in heads[dialect]


def test_unequal_chunks_take_their_shares():
    plan = make_policy("themis+scf")(instance(NETWORKS["16 GPUs"], chunks=6))
    sizes = np.array([9, 6, 4, 3, 1, 1]) * 2**20 + np.array([-32, 32, 0, 0, 0, 0])
    made = simulate(instance(NETWORKS["16 GPUs"]), replace(plan, chunks=(replace(plan.chunks[0], sizes=sizes),)))
    algorithm, _ = Msccl().algorithm(made)
    assert algorithm.nchunksperloop == 16 * 24
    interpret(algorithm, in_place=False)
    interpret(algorithm, in_place=True)
    assert any("24 equal units: sizes differ by at most 0.00 %" in note for note in Msccl().notes(made))
    assert (
        max(step.cnt for gpu in algorithm.gpus for threadblock in gpu.threadblocks for step in threadblock.steps) <= 71
    )


@pytest.mark.parametrize("kind", ["reduce", "all_reduce"])
def test_what_is_sent_is_read_before_it_is_overwritten(kind):
    algorithm, _ = Msccl().algorithm(schedule((("fully_connected", 2),), kind, chunks=1))
    interpret(algorithm, in_place=True)


def test_long_threadblocks_are_continued_on_other_channels():
    made = schedule((("ring", 4), ("ring", 2)), chunks=24)
    long, short = (Msccl(dialect=dialect).algorithm(made)[0] for dialect in ("msccl", "rccl"))
    assert long.longest > 64 >= short.longest
    assert short.nchannels > long.nchannels == 2
    interpret(short, in_place=True)


def small():
    """An algorithm well within every limit."""
    step = MscclStep("s", "i", 0, "i", 0, 1)
    gpus = [Gpu(0, 4, 4, 0, [ThreadBlock(0, 1, -1, 0, [step])]), Gpu(1, 4, 4, 0, [ThreadBlock(0, 0, -1, 0, [step])])]
    algorithm, _ = Msccl().algorithm(schedule((("ring", 2),), chunks=1))
    return replace(algorithm, gpus=gpus)


def blocks(count, steps=1, channel=0):
    return [
        Gpu(0, 4, 4, 0, [ThreadBlock(i, 1, -1, i * channel, [MscclStep("s", cnt=1)] * steps) for i in range(count)])
    ]


BEYOND = {
    "characters in its name": {"name": "n" * 64},
    "units in a loop": {"nchunksperloop": 32_768},
    "units in a buffer": {"gpus": [Gpu(0, 4, 4, 40_000, blocks(1)[0].threadblocks)]},
    "channels": {"nchannels": 33},
    "threadblocks on a GPU": {"gpus": blocks(217, channel=1)},
    "peers on a channel of a GPU": {"gpus": blocks(33)},
    "steps in a threadblock": {"gpus": blocks(1, steps=257)},
    "units in a step": {"gpus": [Gpu(0, 4, 4, 0, [ThreadBlock(0, 1, -1, 0, [MscclStep("s", cnt=72)])])]},
    "XML elements for a GPU": {"gpus": blocks(17, steps=250, channel=1)},
}


@pytest.mark.parametrize("what", BEYOND)
def test_each_limit_refuses_what_is_beyond_it(what):
    check_limits(replace(small(), gpus=blocks(32)), "msccl")
    with pytest.raises(InputError, match=rf"has [\d,]+ {what}, dialect msccl allows [\d,]+; "):
        check_limits(replace(small(), **BEYOND[what]), "msccl")


def test_too_many_units_are_refused_with_numbers(hetero):
    made = simulate(hetero, make_policy("themis+scf")(hetero))
    with pytest.raises(InputError, match=r"64 chunks x 1024 GPUs = 65,536 units.* use at most 31 chunks"):
        Msccl().algorithm(made)


@pytest.mark.parametrize("exporter", [Msccl(), MscclPlus()])
def test_what_would_take_minutes_is_refused_at_once(hetero, exporter):
    few = hetero.overridden(chunks=16)
    made = simulate(few, make_policy("baseline")(few))
    with pytest.raises(InputError, match=r"16 chunks of 1024 blocks .* are 16,777,216, .* use at most 1 chunk"):
        list(exporter.files(made))


def test_as_many_blocks_as_are_followed_are_not_refused(monkeypatch):
    made = schedule(NETWORKS["8 GPUs"], chunks=3)
    monkeypatch.setattr(transfers, "MAX_BLOCKS", 8 * 8 * 3)
    Msccl().algorithm(made)
    monkeypatch.setattr(transfers, "MAX_BLOCKS", 8 * 8 * 3 - 1)
    with pytest.raises(InputError, match="3 chunks of 8 blocks"):
        Msccl().algorithm(made)


@pytest.mark.parametrize(
    ("sizes", "most", "units"),
    [
        ([10, 10, 12], 40, [1, 1, 1]),
        ([10, 10, 13], 40, [10, 10, 13]),
        ([30, 10, 20], 40, [3, 1, 2]),
        ([30, 10, 20], 6, [3, 1, 2]),
        ([30, 10, 20], 5, [2, 1, 2]),
    ],
)
def test_chunks_have_one_unit_where_they_differ_by_an_element_at_most(sizes, most, units):
    assert transfers.share_units(np.array(sizes), 2, most).tolist() == units


def test_least_needs_are_those_of_the_busiest_gpu():
    """Three chunks of two units from GPU 0 to 1, in threadblocks of two steps of a unit, and one of one unit to 2."""
    messages = [
        SimpleNamespace(source=0, target=1, chunk=0, units=2),
        SimpleNamespace(source=0, target=2, chunk=1, units=1),
    ]
    few = replace(DIALECTS["msccl"], max_steps=2, max_count=1)
    needs = least_needs(SimpleNamespace(transfers=messages), few, {0: 3, 1: 1})
    assert [need for _, need, _ in needs] == [6 + 1, 3 + 1, 3]


def test_more_chunks_than_threadblocks_hold_are_refused_by_one_of_each_path():
    made = schedule((("ring", 4), ("ring", 2)), chunks=300, policy="baseline")
    rule = r"300 chunks need 4,800 XML elements for a GPU or more, dialect msccl allows 4,096: use at most 256 chunks"
    with pytest.raises(InputError, match=rule):
        Msccl().algorithm(made)


def test_one_collective_is_written():
    made = instance(NETWORKS["8 GPUs"])
    two = made.replace(collectives=(*made.collectives, Collective(kind="broadcast", size="1 MiB", chunks=2, name="b")))
    planned = simulate(two, make_policy("themis+scf")(two))
    with pytest.raises(InputError, match="choose one of all_reduce1, b"):
        Msccl().algorithm(planned)
    algorithm, _ = Msccl(collective="b").algorithm(planned)
    interpret(algorithm, in_place=False)


@pytest.fixture(scope="module")
def text():
    (_, content), *_ = Msccl().files(schedule(NETWORKS["8 GPUs"], policy="themis+scf"))
    return content


def test_a_file_reads_back(text):
    assert to_xml(from_xml(text, "a.xml")) == text


def test_waiting_in_a_circle_is_found(text):
    algorithm = from_xml(text, "a.xml")
    for gpu in algorithm.gpus:
        last = next(threadblock for threadblock in gpu.threadblocks if threadblock.recv >= 0)
        for threadblock in gpu.threadblocks:
            if threadblock.send >= 0 and threadblock.steps[0].depid < 0:
                threadblock.steps[0].depid, threadblock.steps[0].deps = last.id, len(last.steps) - 1
    with pytest.raises(InvalidSchedule, match="wait in a circle"):
        interpret(algorithm, in_place=False)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"', "in no known order"),
        ('type="rrc"', 'type="r"', "ends with a wrong unit"),
        ('srcoff="0"', 'srcoff="4000"', "leaves buffer"),
        ('recv="1" chan="0"', 'recv="2" chan="0"', "exactly one threadblock must send and one receive"),
    ],
)
def test_what_goes_wrong_on_data_is_found(text, old, new, rule):
    broken = re.sub(old, new, text.replace('type="nop"', 'type="cpy"') if "depid" in old else text)
    with pytest.raises(InvalidSchedule, match=rule):
        interpret(from_xml(broken, "a.xml"), in_place=False)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("<algo", '<!DOCTYPE a [<!ENTITY b "c">]><algo', "no entities"),
        ("</algo>", "", "not XML"),
        ('type="s"', 'type="x"', "unknown type of step 'x'"),
        ('ngpus="8"', 'ngpus="9"', "ngpus=9"),
        (' cnt="', ' count="', "'cnt'"),
        ('deps="0"', 'deps="900"', "waits for a step that does not exist"),
    ],
)
def test_what_is_no_algorithm_is_refused(text, old, new, rule):
    assert old in text
    with pytest.raises(InputError, match=re.escape(rule)):
        from_xml(text.replace(old, new), "a.xml")


FILES = {
    ("8 GPUs", "all_reduce", 3, Msccl()): 1141408949,
    ("8 GPUs", "all_to_all", 3, Msccl(dialect="azure")): 2538036903,
    ("8 GPUs", "all_reduce", 3, MscclPlus()): 152307078,
    ("8 GPUs", "all_reduce", 5, MscclPlus(in_place=True)): 1073375621,
    ("8 GPUs", "all_reduce", 24, Msccl(dialect="rccl")): 2021907463,
    ("16 GPUs", "reduce_scatter", 2, Msccl(dialect="rccl")): 2505696990,
    ("odd", "reduce", 2, Msccl()): 3553751922,
    ("three dimensions", "all_gather", 3, Msccl()): 3244941818,
    ("three dimensions", "all_reduce", 3, MscclPlus()): 3611828397,
}
"""Checksums of the text of all files of these networks, collectives, chunks and exporters."""


@pytest.mark.parametrize(("case", "checksum"), FILES.items(), ids=lambda value: "")
def test_files_are_what_they_always_were(case, checksum):
    """Another order, channel or dependency may be as right, and slower."""
    name, kind, chunks, exporter = case
    texts = [content for _, content in exporter.files(schedule(NETWORKS[name], kind, chunks))]
    assert zlib.crc32("".join(texts).encode()) == checksum


def test_files_of_unequal_chunks_are_what_they_always_were():
    plan = make_policy("themis+scf")(instance(NETWORKS["16 GPUs"], chunks=3))
    sizes = np.array([11, 8, 5]) * 2**20
    made = simulate(instance(NETWORKS["16 GPUs"]), replace(plan, chunks=(replace(plan.chunks[0], sizes=sizes),)))
    texts = [content for exporter in (Msccl(), Msccl(dialect="rccl")) for _, content in exporter.files(made)]
    assert zlib.crc32("".join(texts).encode()) == 98820230


def test_unknown_collectives_of_files_are_refused_by_name():
    with pytest.raises(InputError, match="coll = 'ather': must be one of allreduce, "):
        collective_named("ather", "coll")
    assert collective_named("all_gather", "coll") is collective_named("allgather", "coll") is CollectiveKind.ALL_GATHER
