"""``list``, and policies of other packages: listed with their origin, solved with and compared like shipped ones."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from background import PATIENCE

from themis_opt.cli.listing import DETAILED, LISTED
from themis_opt.policies.registry import LAUNCHED, REFERENCE

NAME = "fig5.all_reduce.256MB"
QUICK = ("--time-limit", 5, "--workers", 1, "--chunk-sizes", "equal", "--json")

MODULE = '''
from dataclasses import dataclass, replace

from themis_opt import load
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.launching.wait_free import WaitFree


@dataclass(frozen=True)
class Patient:
    """The fixed order, that serves the last stage first."""

    dispatch: str = "lifo"

    def __call__(self, instance):
        return replace(Baseline()(instance), dispatch=self.dispatch)


@dataclass(frozen=True)
class Picky:
    """A policy that has to be told something."""

    taste: int

    def __call__(self, instance):
        return Baseline()(instance)


@dataclass(frozen=True)
class Eager(WaitFree):
    """A launching policy."""


def function(instance):
    return Baseline()(instance)


def read_size(path):
    """The toy instance, with the size that a text file holds."""
    return load("fig5.all_reduce.256MB").overridden(size=path.read_text().strip())


def count_stages(schedule):
    return f"{schedule.plan.num_stages}\\n"


def nothing(schedule):
    return None
'''

ENTRIES = """
[themis_opt.policies]
patient = tiny_policies:Patient
picky = tiny_policies:Picky
function = tiny_policies:function
missing = tiny_policies:Missing
baseline = tiny_policies:Picky

[themis_opt.launching]
eager = tiny_policies:Eager

[themis_opt.readers]
size = tiny_policies:read_size

[themis_opt.writers]
stages.txt = tiny_policies:count_stages
never.txt = tiny_policies:nothing
"""


SERVER = """
import json, sys
from typer.testing import CliRunner
from themis_opt.base.clock import SEARCH_CLOCK
from themis_opt.cli import process
from themis_opt.cli.main import application

for line in sys.stdin:
    process.PROCESS_START = SEARCH_CLOCK.now()
    done = CliRunner().invoke(application(), json.loads(line))
    print(json.dumps({"code": done.exit_code, "stdout": done.stdout, "stderr": done.stderr}), flush=True)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a command line in a process where a small package with policies is installed, the same for all."""
    site = tmp_path_factory.mktemp("site")
    (site / "tiny_policies.py").write_text(MODULE, encoding="utf-8")
    info = site / "tiny_policies-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-policies\nVersion: 1.2\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(ENTRIES, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        cwd=site,
    )  # fmt: skip

    def command(*arguments):
        print(json.dumps([str(argument) for argument in arguments]), file=process.stdin, flush=True)
        return SimpleNamespace(**json.loads(process.stdout.readline()))

    yield command
    process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def rows(run):
    """What a command line prints as JSON."""

    def read(*arguments):
        done = run(*arguments)
        assert done.code == 0, done.stderr
        return json.loads(done.stdout)

    return read


@pytest.mark.parametrize("kind", [kind for kind in LISTED if kind != "formats"])
def test_our_names_are_listed_with_their_origin(succeed, kind):
    listed = json.loads(succeed("list", kind, "--json"))
    assert [row for row in listed if row["origin"] == "themis_opt"]


def test_without_a_kind_all_registries_are_listed(succeed):
    kinds = [line.removeprefix("# ") for line in succeed("list").splitlines() if line.startswith("# ")]
    assert kinds == [kind for kind in LISTED if kind not in DETAILED]


def test_unknown_kind_is_refused(refuse):
    assert "KIND = 'magic': must be one of policies, launching" in refuse("list", "magic")


@pytest.mark.parametrize(("kind", "name"), [("policies", "patient"), ("readers", "size")])
def test_names_of_others_are_listed_with_package_and_version(rows, kind, name):
    assert {"kind": kind, "name": name, "origin": "tiny-policies 1.2"} in rows("list", kind, "--json")


def test_others_cannot_take_our_names(rows):
    origins = [row["origin"] for row in rows("list", "policies", "--json") if row["name"] == "baseline"]
    assert origins == ["themis_opt"]
    (row,) = rows("simulate", NAME, "--policies", "baseline", "--json")
    assert row["makespan_ns"] == 8_000_000


def test_policy_of_others_is_solved_with(rows, tmp_path):
    solved = rows("solve", NAME, "--policies", "patient,exact", "-o", tmp_path, *QUICK)
    assert [(row["policy"], row["makespan_ns"]) for row in solved] == [("patient", 8_000_000), ("exact", 7_000_000)]
    assert rows("validate", tmp_path / "schedule.json", "--json")["makespan_ns"] == 7_000_000


def test_launching_policies_of_others_are_compared_unless_some_are_named(rows, trained):
    names = [row["policy"] for row in rows("compare", trained, *QUICK)]
    assert names[: len(LAUNCHED)] == list(LAUNCHED)
    assert names[-2:] == ["eager/hourglass", REFERENCE]


def test_reader_and_writers_of_others_serve_every_command(rows, tmp_path):
    (tmp_path / "my.size").write_text("512 MB\n", encoding="utf-8")
    (row,) = rows("simulate", tmp_path / "my.size", "--policies", "baseline", "-o", tmp_path / "out", "--json")
    assert row["makespan_ns"] == 16_000_000
    (folder,) = (tmp_path / "out").iterdir()
    assert (folder / "stages.txt").read_text(encoding="utf-8") == "16\n"
    assert not (folder / "never.txt").exists()


REFUSED = [
    # policy, what the message must say
    ("missing", "cannot be loaded from tiny-policies 1.2"),
    ("function", "must be a dataclass, is not in tiny-policies 1.2"),
]


@pytest.mark.parametrize(("policy", "said"), REFUSED, ids=[policy for policy, _ in REFUSED])
def test_policy_of_others_that_cannot_be_used_is_refused_in_one_line(run, policy, said):
    done = run("simulate", NAME, "--policies", policy)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


WHAT_EACH_IS = {
    "policies": {
        "baseline": "Scatter from dim1 outwards and gather back",
        "search": "Improve the best schedule of the fast policies by annealing",
    },
    "launching": {"dear": "Reduce-scatter in the backward pass"},
    "instances": {
        "fig5.all_reduce.256MB": "16 NPUs (4x4), all_reduce of 256 MB",
        "dgx1.all_gather.1GB": "8 NPUs, 0 switches, 16 links; all_gather of 1 GB",
        "v100-256.resnet-50": "256 NPUs (8x32), training iteration, compute 20.64 ms",
    },
}


@pytest.mark.parametrize(("kind", "starts"), WHAT_EACH_IS.items())
def test_a_kind_asked_for_alone_says_what_each_is(succeed, kind, starts):
    rows = dict(line.split("\tthemis_opt\t") for line in succeed("list", kind).splitlines() if "\tthemis_opt\t" in line)
    assert all(rows[name].startswith(start) for name, start in starts.items())
    assert "-" not in rows.values()
