"""Lists of AICB as problems: small files in its format, with times from closed forms."""

import pytest
from planning import schedule_of
from reader_samples import AICB

from themis_opt.base.errors import InputError
from themis_opt.formats.readers.registry import import_files
from themis_opt.policies.registry import usual_policies

LEVELS = "topology: [ Switch, Switch ]\nnpus_count: [ 8, 4 ]\nbandwidth: [ 100.0, 50.0 ]\nlatency: [ 0.0, 0.0 ]\n"


def of_source(instance):
    return schedule_of(instance, usual_policies(instance)[0])


def exchanged(instance):
    names = instance.fabric.dimension_names
    return [(each.kind.value, each.size, tuple(names[k] for k in each.span)) for each in instance.exchanges]


def test_rows_of_aicb_are_a_chain_in_their_groups(write):
    imported = import_files(write(net__yml=LEVELS, step__csv=AICB))
    assert exchanged(imported.instance) == [
        ("all_reduce", 4096, ("dim1_in",)),
        ("all_reduce", 4096, ("dim1_in",)),
        ("reduce_scatter", 65536, ("dim1_out", "dim2")),
        ("all_gather", 32768, ("dim1_out", "dim2")),
    ]
    assert any("2 rows of the start, barriers and ends are left out" in note for note in imported.notes)
    read = [(row["collective"], row["ranks"], row["number"], row["bytes"]) for row in imported.tables["read"]]
    assert read[0] == ("all_reduce of tp_group", "4", "2", "8 KiB")
    assert read[-1] == ("left out: start, barriers and ends", "not known", "2", "not known")
    instance = imported.instance.overridden(chunks=1)
    inner, outer = 100 * 2**30, 50 * 2**30
    reduced = 2 * (2 * 4096 * 3 / 4) / inner
    shared = (65536 / 2 + 32768 / 2) / inner + (65536 / 2 + 32768 / 2) * 3 / 4 / outer
    assert of_source(instance).makespan == pytest.approx((reduced + shared) * 1e12, rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("CommGroup.tp_group,4", "CommGroup.tp_group,64", "do not fill the 32 NPUs"),
        ("CommGroup.tp_group,4", "CommGroup.tp_group,12", "groups of 12 do not fill the 32 NPUs"),
        ("CommType.reduce_scatter", "CommType.isend", "must be one of all_reduce"),
        ("CommGroup.tp_group,4", "CommGroup.pp_group,4", "must be one of tp_group"),
        ("[rank0 ~ rank31]\n", "[rank0]\ncomm_type,comm_group\n", "several stages of a pipeline"),
        (",4096,", ",40²,", "must be a whole number"),
        (",2\n", ",2000000\n", "line 4 = 2000000: must have at most 10000 collectives in a step"),
    ],
)
def test_rows_of_aicb_that_are_no_collectives_of_a_step_are_refused(write, old, new, rule):
    with pytest.raises(InputError, match=rule):
        import_files(write(net__yml=LEVELS, step__csv=AICB.replace(old, new)))
