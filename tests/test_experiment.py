import pytest

from themis_opt.batches.code_version import code_version
from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import read_experiment
from themis_opt.catalog import load, shipped
from themis_opt.errors import InputError

FIG5 = 'instances = ["fig5.all_reduce.256MB"]'
BASELINE = 'policies = ["baseline+fifo"]'


@pytest.fixture
def runs_of(tmp_path):
    """The runs of an experiment with these blocks, each the lines of a table."""

    def expanded(*blocks, quick=False, head=""):
        path = tmp_path / "experiment.toml"
        tables = "".join(f"[[runs]]\n{block}\n" for block in blocks)
        path.write_text(f'name = "trial"\n{tables}{head}', encoding="utf-8")
        return expand(read_experiment(path), path, quick=quick)

    return expanded


def values(runs, column):
    return [run.columns[column] for run in runs]


def refusal(runs_of, *blocks, head=""):
    with pytest.raises(InputError) as caught:
        runs_of(*blocks, head=head)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_block_is_a_cross_product(runs_of):
    runs = runs_of(f'{FIG5}\nchunks = [2, 4]\nlatency = ["lag", "occupy"]\npolicies = ["baseline", "themis"]')
    found = [(run.columns["chunks"], run.columns["latency"], run.columns["policy"]) for run in runs]
    assert found == [(c, way, p) for c in (2, 4) for way in ("lag", "occupy") for p in ("baseline", "themis")]


def test_all_overrides_reach_the_instance(runs_of):
    overrides = 'sizes_of_collectives = ["1 MB"]\nag_order = ["reverse"]\nlaunch_overhead = ["2 us"]'
    (run,) = runs_of(f'{FIG5}\n{overrides}\npacket = ["4096 B/30 B"]\n{BASELINE}')
    dimension = run.task.instance.network.dimensions[1]
    assert run.task.instance.collectives[0].size == 10**6
    assert run.task.instance.ag_order == "reverse"
    assert (dimension.launch_overhead, dimension.packet.payload, dimension.packet.header) == (2_000_000, 4096, 30)


def test_an_overridden_instance_is_like_one_made_with_these_values(runs_of):
    (run,) = runs_of(f'{FIG5}\nsizes_of_collectives = ["1 MB"]\nchunks = [8]\nlatency = ["occupy"]\n{BASELINE}')
    expected = load("fig5.all_reduce.256MB").overridden(size=10**6, chunks=8, latency="occupy")
    assert run.columns["fingerprint"] == run.task.instance.fingerprint == expected.fingerprint


def test_packets_can_be_taken_away(runs_of):
    runs = runs_of(f'{FIG5}\npacket = ["none", "4 KiB/30 B"]\n{BASELINE}')
    assert values(runs, "packet") == ["none", "4 KiB/30 B"]
    assert runs[0].task.instance.network.dimensions[0].packet is None


def test_seeds_are_crossed_with_policies_that_have_one(runs_of):
    runs = runs_of(f'{FIG5}\nseeds = [0, 1]\npolicies = ["baseline+fifo", "random+fifo"]')
    assert list(zip(values(runs, "policy"), values(runs, "seed"), strict=True)) == [
        ("baseline+fifo", None),
        ("random+fifo", 0),
        ("random+fifo", 1),
    ]


def test_a_seed_in_the_specification_wins(runs_of):
    runs = runs_of(f'{FIG5}\nseeds = [0, 1]\npolicies = ["random:seed=5+fifo"]')
    assert values(runs, "seed") == [5]


def test_limits_are_told_for_policies_that_have_them(runs_of):
    block = f'{FIG5}\ntime_limit = 3\nworkers = 1\nsizes = "free"\npolicies = ["exact", "themis", "bound"]'
    runs = runs_of(block)
    assert values(runs, "time_limit") == [3.0, None, None]
    assert values(runs, "workers") == [1, None, None]
    assert values(runs, "sizes") == ["free", "equal", None]


def test_several_time_limits_are_crossed_with_policies_that_search(runs_of):
    runs = runs_of(f'{FIG5}\ntime_limit = [3, 9]\nworkers = 1\npolicies = ["exact", "themis"]')
    assert values(runs, "time_limit") == [3.0, 9.0, None]


def test_patterns_match_names_with_their_folders(runs_of):
    runs = runs_of(f'instances = ["paper/*.all_reduce.100MiB"]\n{BASELINE}')
    assert values(runs, "instance") == sorted(
        n for n, p in shipped().items() if p.parent.name == "paper" and n.endswith(".all_reduce.100MiB")
    )


def test_an_instance_that_two_patterns_match_comes_once(runs_of):
    assert len(runs_of(f'instances = ["toy/fig5*", "fig5.all_reduce.256MB"]\n{BASELINE}')) == 1


def test_random_instances_are_a_range_of_seeds(runs_of):
    assert values(runs_of(f'instances = ["random:3-5"]\n{BASELINE}'), "instance") == [f"random:{n}" for n in (3, 4, 5)]


def test_files_are_found_beside_the_experiment(runs_of, tmp_path):
    (tmp_path / "my.json").write_text(shipped()["fig5.all_reduce.256MB"].read_text())
    (run,) = runs_of(f'instances = ["my.json"]\n{BASELINE}')
    assert run.columns["fingerprint"] == load("fig5.all_reduce.256MB").fingerprint


def test_a_sample_is_seeded_and_in_order(runs_of):
    block = f'instances = ["random:0-99"]\nsample = {{count = 5, seed = 1}}\n{BASELINE}'
    runs = runs_of(block)
    seeds = [int(name.removeprefix("random:")) for name in values(runs, "instance")]
    assert len(seeds) == 5
    assert seeds == sorted(seeds)
    assert [run.key for run in runs_of(block)] == [run.key for run in runs]


def test_quick_spreads_its_runs_over_instances_with_all_policies(runs_of):
    block = 'instances = ["random:0-9"]\npolicies = ["baseline", "themis"]'
    runs = runs_of(block, quick=True, head="[quick]\nlimit = 4\n")
    assert values(runs, "instance") == ["random:0", "random:0", "random:5", "random:5"]


def test_quick_replaces_the_time_limit(runs_of):
    runs = runs_of(f'{FIG5}\ntime_limit = 50\npolicies = ["exact"]', quick=True, head="[quick]\ntime_limit = 1\n")
    assert values(runs, "time_limit") == [1.0]


def test_keys_depend_on_what_decides_about_the_result(runs_of):
    blocks = [
        f'{FIG5}\nblock = "{number}"\ntime_limit = 3\n{more}\npolicies = ["exact"]'
        for number, more in enumerate(
            ("", "seeds = [1]", "gap = 0.1", "workers = 3", "chunks = [2]", 'sizes = "free"', 'record = ["activity"]')
        )
    ]
    assert len({run.key for run in runs_of(*blocks)}) == len(blocks)


def test_keys_do_not_depend_on_labels(runs_of):
    one, other = runs_of(f'{FIG5}\nblock = "a"\n{BASELINE}', f'{FIG5}\nblock = "b"\n{BASELINE}')
    assert one.key == other.key


def test_keys_of_heuristics_do_not_depend_on_limits_of_searches(runs_of):
    one, other = runs_of(f"{FIG5}\n{BASELINE}", f"{FIG5}\ntime_limit = 7\nworkers = 3\n{BASELINE}")
    assert one.key == other.key


def test_code_version_names_the_package():
    assert code_version().startswith("0.")
    assert "+" in code_version()


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (f"{FIG5}\npolicies = []", "runs[0].policies"),
        (f"{FIG5}\n{BASELINE}\nthreads = 3", "runs[0].threads = 3: unknown field"),
        (f"{FIG5}\n{BASELINE}\nchunks = [0]", "runs[0].chunks[0] = 0"),
        (f"{FIG5}\n{BASELINE}\nchunks = [2, 2]", "must name each value once"),
        (f'{FIG5}\n{BASELINE}\nsizes = "any"', "runs[0].sizes = 'any'"),
        (f'{FIG5}\n{BASELINE}\npacket = ["4096"]', "runs[0].packet[0] = '4096': must be 'none' or payload and header"),
        (f'{FIG5}\n{BASELINE}\nlaunch_overhead = ["-1 us"]', "runs[0].launch_overhead[0]"),
        (f'{FIG5}\npolicies = ["magic"]', "runs[0].policy = 'magic': unknown policy"),
        (f'{FIG5}\npolicies = ["hourglass+fifo"]', "takes no dispatch rule"),
        (f'instances = ["none"]\n{BASELINE}', "runs[0].instances = 'none': no such file beside the experiment"),
        (f'instances = ["random:5-3"]\n{BASELINE}', "runs[0].instances = 'random:5-3'"),
        (f'{FIG5}\n{BASELINE}\nsizes_of_collectives = ["3 B"]', "must be a multiple of element_bytes"),
        (f'{FIG5}\n{BASELINE}\nchunks = [1000000]\nlaunch_overhead = ["1000 s"]', "clock holds"),
    ],
)
def test_a_wrong_block_is_refused(runs_of, block, told):
    message = refusal(runs_of, block)
    assert "experiment.toml: " in message
    assert told in message


def test_a_wrong_instance_file_is_named(runs_of, tmp_path):
    (tmp_path / "wrong.json").write_text('{"format": "none"}')
    assert "wrong.json: format = 'none'" in refusal(runs_of, f'instances = ["wrong.json"]\n{BASELINE}')


@pytest.mark.parametrize("text", ["name = ", "", "name = 3", "\0", "runs = 3\nname = 'x'"])
def test_a_file_that_is_no_experiment_is_refused(tmp_path, text):
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"experiment\.toml: "):
        read_experiment(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_experiment(tmp_path / "none.toml")


def test_two_blocks_with_one_label_are_refused(runs_of):
    block = f'block = "a"\n{FIG5}\n{BASELINE}'
    assert "labels that differ" in refusal(runs_of, block, block)
