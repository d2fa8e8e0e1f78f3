"""All errors at once, unknown fields first, with the names that were meant; and doubts about what obeys the rules."""

import json

import pytest

from themis_opt.base.errors import InputError
from themis_opt.base.units import parse_bandwidth, parse_size, parse_time
from themis_opt.policies.registry import make_policy
from themis_opt.problem.catalog import load, shipped
from themis_opt.problem.network import Network, doubts
from themis_opt.reports.making import report_function
from themis_opt.workloads.models import find_model


@pytest.mark.parametrize(
    ("ask", "name", "meant"),
    [
        (parse_bandwidth, "400 Gbps", "Gb/s"),
        (parse_bandwidth, "50 GBps", "GB/s"),
        (parse_bandwidth, "400 Gbit/s", "Gb/s"),
        (parse_bandwidth, "400 G", "GB/s"),
        (parse_bandwidth, "400 gib/s", "GiB/s"),
        (parse_size, "64K", "KiB"),
        (parse_size, "64 mb", "MB"),
        (parse_time, "3 usec", "us"),
        (parse_time, "3 MS", "ms"),
        (make_policy, "themsi", "themis"),
        (make_policy, "themis+sfc", "scf"),
        (make_policy, "random:sed=1", "seed"),
        (find_model, "llama-8b", "llama-3-8b"),
        (find_model, "meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        (report_function, "tables", "table"),
        (load, "fig5.all_reduce.256M", "fig5.all_reduce.256MB"),
    ],
)
def test_names_that_are_near_are_suggested(ask, name, meant):
    with pytest.raises((InputError, ValueError), match=rf"did you mean '{meant}'\?$"):
        ask(name)


def test_all_errors_of_a_file_are_told_unknown_fields_first(tmp_path, invoke):
    document = json.loads(shipped()["fig5.all_reduce.256MB"].read_text(encoding="utf-8"))
    inner, outer = document["network"]["dimensions"]
    inner["kind"] = "swich"
    outer["sise"] = outer.pop("size")
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load(path)
    lines = [str(error).removeprefix(f"{path}: ") for error in (caught.value, *caught.value.others)]
    assert lines[0].endswith("unknown field; did you mean 'size'?")
    assert lines[0].startswith("network.dimensions[1].sise")
    assert lines[1].endswith("did you mean 'switch'?")
    assert lines[2] == "network.dimensions[1].size: required field is missing"
    assert caught.value.__notes__ == [str(error) for error in caught.value.others]
    printed = invoke("show", path).stderr.splitlines()
    assert printed == [f"error: {path}: {line}" for line in lines]


def network(*bandwidths):
    return Network.model_validate(
        {"dimensions": [{"kind": "switch", "size": 4, "bandwidth": bandwidth} for bandwidth in bandwidths]}
    )


@pytest.mark.parametrize(
    ("bandwidths", "said"),
    [
        ((450,), "dim1: 450 B/s is no network; is a unit missing ('450 GB/s')?"),
        (("2 TB/s",), "dim1: 2 TB/s is more than any link has; bandwidths are those of one direction"),
        (
            ("100 GB/s", "400 GB/s"),
            "dim2 is 4 times as fast as dim1 inside it; dimensions stand from the innermost outwards",
        ),
    ],
)
def test_what_is_hardly_true_is_doubted(bandwidths, said):
    assert list(doubts(network(*bandwidths))) == [said]


def test_doubts_about_files_are_warnings(invoke, tmp_path):
    document = json.loads(shipped()["fig5.all_reduce.256MB"].read_text(encoding="utf-8"))
    document["network"]["dimensions"][0]["bandwidth"] = 450
    path = tmp_path / "slow.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    result = invoke("show", path)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0].startswith(f"warning: {path}: dim1: 450 B/s is no network")


def test_a_number_without_its_unit_is_doubted(invoke, refuse, save, document):
    launches = invoke("simulate", "fig5.all_reduce.256MB", "--policies", "baseline", "--launch-overhead", 2)
    assert "dim1: no launch takes 2 s; is a unit missing ('2 us')?" in launches.stderr
    document = json.loads(json.dumps(document))
    document["network"]["dimensions"][0]["bandwidth"] = 45
    document["collectives"][0]["size"] = "1 GB"
    assert "the bandwidth 45 means 45 B/s: write the unit" in refuse("simulate", save(document))
