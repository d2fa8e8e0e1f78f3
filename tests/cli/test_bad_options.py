"""Options that ask for something impossible: one line names the option, the value and the rule; exit code 2."""

import pytest

from themis_opt.cli.main import COMMANDS

NAME = "fig5.all_reduce.256MB"
QUICK = ("--time-limit", 5, "--workers", 1)
HARD = "3d-sw_sw_sw_hetero.all_reduce.100MiB"  # not solved before the solver starts
POLICIES = [
    # policies, what the message must say
    ("magic", "'magic': unknown policy; use one of baseline, cyclic"),
    ("baseline,magic", "'magic': unknown policy"),
    ("baseline+fifo+scf", "unknown dispatch rule"),
    ("exact+fifo", "takes no dispatch rule"),
    ("themis:magic=1", "unknown knob 'magic'; use one of threshold_divisor"),
    ("themis:threshold_divisor=many", "knob threshold_divisor: "),
    ("themis:threshold_divisor=0", "threshold_divisor"),
    ("random:seed=" + "9" * 5000, "knob seed: "),
    ("ddp", "'ddp': launching policies are for training iterations"),
    ("baseline,fused/themis", "'fused/themis': launching policies are for training iterations"),
    ("baseline,baseline", "each once"),
    ("", "one or more policies"),
    (",", "one or more policies"),
]


POLICIES_OF_ITERATIONS = [
    ("fused,magic", "'magic': unknown policy; use one of fused, wait_free, ddp"),
    ("fused/", "unknown policy"),
    ("ddp:cap=many", "knob cap: "),
    ("ddp:cap=1MB:cap=2MB", "sets knob 'cap' twice"),
    ("horovod:cycle=1MB", "knob cycle: "),
    ("fused,fused", "each once"),
]


@pytest.mark.parametrize(("policies", "said"), POLICIES, ids=[p[:48] for p, _ in POLICIES])
def test_policies(refuse, tmp_path, policies, said):
    assert said in refuse("solve", NAME, "--policies", policies, "-o", tmp_path / "out", *QUICK)


@pytest.mark.parametrize(("policies", "said"), POLICIES_OF_ITERATIONS)
@pytest.mark.parametrize("command", ["solve", "simulate"])
def test_policies_of_iterations(refuse, trained, tmp_path, command, policies, said):
    assert said in refuse(command, trained, "--policies", policies, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "knob", ["seconds=nan", "seconds=-1", "seconds=inf", "workers=0", "workers=99999999999", "seed=-1", "gap=nan"]
)
def test_knobs_of_the_reference(refuse, knob):
    policies = f"exact:{knob}"
    assert knob.split("=")[0] in refuse("compare", HARD, "--chunks", 2, "--policies", policies, "--time-limit", 2)


OVERRIDES = [
    ("--size", "huge", "size = 'huge': "),
    ("--size", "1 B", "multiple of element_bytes"),
    ("--size", "6 B", "collectives[0]: chunks must be at most the number of elements, 3, is 4"),
    ("--size", "9" * 5000, "size = '999"),
    ("--chunks", 0, "chunks = 0: "),
    ("--latency", "wait", "latency = 'wait': "),
    ("--ag-order", "any", "ag_order = 'any': "),
]


@pytest.mark.parametrize(
    ("option", "value", "said"), OVERRIDES, ids=[f"{option}={str(value)[:16]}" for option, value, _ in OVERRIDES]
)
def test_overrides(refuse, option, value, said):
    message = refuse("show", NAME, option, value)
    assert message.startswith("error: command line: ")
    assert said in message


@pytest.mark.parametrize(
    ("option", "value"),
    [("--chunks", "many"), ("--time-limit", "0"), ("--time-limit", "nan"), ("--workers", "0"), ("--gap", "-0.1")],
)
def test_option_that_cannot_be_read(invoke, tmp_path, option, value):
    result = invoke("solve", NAME, "-o", tmp_path / "out", option, value)
    assert result.exit_code == 2
    assert option in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("option", "value"), [("--workers", 2**31), ("--seed", 10**20), ("--time-limit", "inf")])
def test_option_beyond_the_range_of_the_solver(invoke, tmp_path, option, value):
    limits = {"--time-limit": 1, "--workers": 1} | {option: value}
    options = [part for pair in limits.items() for part in pair]
    result = invoke("solve", HARD, "--chunks", 2, "-o", tmp_path / "out", *options)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code in (0, 2)


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_option_is_refused_in_plain_text(invoke, command):
    result = invoke(command, "--magic")
    assert result.exit_code == 2
    assert result.stderr.isascii()


def last_line(result):
    """The error after any lines of progress."""
    assert isinstance(result.exception, SystemExit), f"not refused but {result.exception!r}"
    assert result.exit_code == 2
    *before, line = result.stderr.splitlines()
    assert not any(text.startswith("error") for text in before)
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(("command", "below"), [("solve", "."), ("compare", "."), ("simulate", "deep/er")])
def test_file_in_place_of_the_output_folder(invoke, tmp_path, command, below):
    occupied = tmp_path / "out"
    occupied.write_text("precious", encoding="utf-8")
    more = () if command == "simulate" else QUICK
    result = invoke(command, NAME, "--policies", "baseline", "-o", occupied / below, *more)
    assert f"{occupied}" in last_line(result)
    assert occupied.read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("name", ["schedule.json", "gantt.svg"])
def test_folder_in_place_of_an_output_file(invoke, tmp_path, name):
    (tmp_path / name).mkdir()
    result = invoke("solve", NAME, *QUICK, "--policies", "baseline", "-o", tmp_path)
    assert str(tmp_path / name) in last_line(result)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("solve", NAME, "--nope"), "error: No such option: --nope"),
        (("solve",), "error: Missing argument 'INSTANCE'."),
        (("nope",), "error: No such command 'nope'."),
    ],
)
def test_errors_of_usage_are_worded_as_others(invoke, line, said):
    result = invoke(*line)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(said)


def test_summaries_of_commands_are_whole(invoke):
    assert "..." not in invoke("--help").stdout.partition("Commands:")[2]
