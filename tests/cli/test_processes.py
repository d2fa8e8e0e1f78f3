"""The command in a separate process: entry points, imports, pipes, terminals and Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from background import LISTENING, PATIENCE, read_until

import themis_opt
from themis_opt.cli.main import COMMANDS

NAME = "fig5.all_reduce.256MB"
HARD = ("4d-ring_fc_ring_sw.all_reduce.100MiB", "--size", "16MiB", "--chunks", "16")
PYTHON = (sys.executable, "-m", "themis_opt")
ESCAPE = "\x1b"
HEAVY = {"altair", "matplotlib", "numba", "optuna", "ortools", "pandas", "vl_convert"}


def run(*command, **options):
    texts = [str(part) for part in command]
    return subprocess.run(texts, capture_output=True, text=True, check=False, timeout=PATIENCE, **options)


def test_module_runs():
    assert run(*PYTHON, "--version").stdout == f"themis_opt {themis_opt.__version__}\n"


def test_piped_output_is_plain_with_tabs_in_tables(tmp_path):
    piped = run(*PYTHON, "solve", NAME, "--policies", "baseline,themis", "-o", tmp_path)
    assert piped.returncode == 0
    assert ESCAPE not in piped.stdout + piped.stderr
    assert [len(line.split("\t")) for line in piped.stdout.splitlines() if "\t" in line] == [8] * 3


@pytest.mark.parametrize("command", [("list",), ("simulate", NAME, "--json")])
def test_a_closed_output_is_no_failure(command):
    """As ``themis-opt ... >&-`` starts it."""
    process = run("sh", "-c", 'exec "$@" >&-', "sh", *PYTHON, *command)
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs a device that is full")
def test_a_full_disk_is_one_line():
    with Path("/dev/full").open("w") as full:
        command = [*PYTHON, "list"]
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert (process.returncode, process.stderr) == (2, "error: No space left on device\n")


@pytest.fixture
def evil(tmp_path):
    """An instance whose names are for terminals, spreadsheets and encodings."""
    dimension = {"kind": "ring", "size": 4, "bandwidth": "1 GB/s", "name": "=cmd|x"}
    document = {
        "format": "themis-opt/instance/1",
        "name": f"{ESCAPE}[31mred \u2603\a",
        "network": {"dimensions": [dimension]},
        "collectives": [{"kind": "all_reduce", "size": "1 MB", "chunks": 2, "name": "@a\tb"}],
    }
    path = tmp_path / "evil.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("command", ["show", "simulate"])
def test_names_command_neither_terminals_nor_tables(evil, succeed, command):
    printed = succeed(command, evil)
    assert printed
    assert all(character.isprintable() or character in "\n\t" for character in printed)
    assert "@a\tb" not in printed


def test_a_narrow_encoding_is_no_failure(evil):
    process = run(*PYTHON, "show", evil, env={**os.environ, "PYTHONIOENCODING": "cp1252"})
    assert (process.returncode, process.stderr) == (0, "")
    assert "\\u2603" in process.stdout


def test_cells_are_no_formulas(evil, succeed, tmp_path):
    succeed("simulate", evil, "--policies", "baseline", "-o", tmp_path / "out")
    cells = (tmp_path / "out" / "baseline" / "stages.csv").read_text().splitlines()[1].split(",")
    assert (cells[0], cells[4]) == ("'@a\tb", "'=cmd|x")


IMPORTS = f"""
import json, sys
from themis_opt.__main__ import run
for line in json.loads(sys.argv[1]):
    sys.argv[1:] = line
    try:
        run()
    except SystemExit:
        pass
    print("ran", *line, ":", *sorted(name for name in {HEAVY!r} if sys.modules.get(name)), file=sys.__stderr__)
"""


def heavy_imports(*lines, before=""):
    """After which of some command lines, run one after another, a heavy package is imported."""
    result = run(sys.executable, "-c", before + IMPORTS, json.dumps([[str(part) for part in line] for line in lines]))
    ran = [line for line in result.stderr.splitlines() if line.startswith("ran ")]
    assert len(ran) == len(lines), result.stderr
    return [line for line in ran if not line.endswith(" :")]


def test_heavy_imports_are_noticed():
    (line,) = heavy_imports(("bound", NAME))
    assert "ortools" in line


def test_importing_the_package_imports_nothing_heavy():
    program = f"import sys, themis_opt; print(sorted({HEAVY!r} & sys.modules.keys()))"
    assert run(sys.executable, "-c", program).stdout == "[]\n"


def test_help_and_refusals_import_nothing_heavy(save):
    file = save({"format": "none"})
    lines = [
        (command, word) for command in COMMANDS for word in ("--help", file) if (command, word) != ("schema", file)
    ]
    assert heavy_imports(("--help",), ("show", NAME), ("solve", NAME, "--policies", "magic"), *lines) == []


def test_rules_import_little_where_there_are_no_pictures(tmp_path):
    missing = "import sys; sys.modules['altair'] = None"
    line = ("solve", "4d-ring_fc_ring_sw.all_reduce.1000MiB", "--policies", "baseline+fifo,themis+scf,law")
    (ran,) = heavy_imports((*line, "--size", "64GiB", "-o", tmp_path), before=missing)
    assert ran.endswith(" : ortools")  # of the bound
    assert (tmp_path / "schedule.json").is_file()


@pytest.mark.parametrize("arguments", [("--help",), ("simulate", NAME)], ids=" ".join)
def test_reader_that_goes_away_gives_no_traceback(arguments):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        result = subprocess.run(
            [*PYTHON, *arguments], stdout=closed, stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE
        )
    assert result.stderr == ""


def test_reader_that_goes_away_does_not_lose_the_schedule(tmp_path):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        command = [*PYTHON, "solve", NAME, "--policies", "baseline", "-o", str(tmp_path)]
        subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False, timeout=PATIENCE)
    assert (tmp_path / "schedule.json").is_file()


@pytest.mark.parametrize("arguments", [("show", NAME, "--chunks", "abc"), ("magic",)], ids=" ".join)
def test_piped_usage_error_is_plain(arguments):
    result = run(*PYTHON, *arguments)
    assert result.returncode == 2
    assert result.stderr.isascii()


def on_a_terminal(*arguments):
    """Exit code and everything that a command shows on a terminal."""
    controller, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    command = [*PYTHON, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    shown = bytearray()
    try:
        while part := os.read(controller, 65536):
            shown += part
    except OSError:  # how Linux reports that the other end of a terminal is closed
        pass
    os.close(controller)
    return process.wait(timeout=PATIENCE), shown.decode()


def test_terminal_shows_ruled_tables():
    code, shown = on_a_terminal("show", NAME)
    assert code == 0
    assert "─" in shown


def test_terminal_shows_brackets_as_they_are(save, document):
    name = "[/red] [bold]loud dim [x]"
    code, shown = on_a_terminal("simulate", save(document | {"name": name}))
    assert code == 0
    assert name in shown


class Interrupted:
    """A search on a hard instance, stopped by a signal soon after it starts."""

    def __init__(self, folder, number):
        options = ("--time-limit", str(PATIENCE), "--workers", "1", "-o", str(folder), "--json")
        command = [sys.executable, "-c", LISTENING, "solve", *HARD, *options]
        self.folder = folder
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            read_until("exact", process.stderr)
            time.sleep(0.5)
            began = time.monotonic()
            process.send_signal(number)
            self.stdout, self.stderr = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        self.seconds = time.monotonic() - began
        self.code = process.returncode


@pytest.fixture(scope="module", params=[signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.benchmarks)])
def interrupted(tmp_path_factory, request):
    return Interrupted(tmp_path_factory.mktemp("interrupted"), request.param)


def test_an_interrupted_search_ends_with_all_results_and_a_valid_schedule(interrupted, succeed):
    assert interrupted.code == 130
    assert "Traceback" not in interrupted.stderr
    assert succeed("validate", interrupted.folder / "schedule.json", "--data")
    rows = json.loads(interrupted.stdout)
    assert [row["policy"] for row in rows] == ["baseline+fifo", "themis+fifo", "themis+scf", "hourglass", "exact"]
    assert rows[-1]["makespan_ns"] == min(row["makespan_ns"] for row in rows)
    assert all(row["gap"] >= 0 for row in rows)
