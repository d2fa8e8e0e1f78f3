"""One spelling of times and shares in all answers: sentences, tables and pictures."""

import re
import shlex
from pathlib import Path

import pytest
from reader_samples import nccl_table
from sharded_iterations import sharded

from themis_opt.families.door import save as save_problem

TIME = re.compile(r"(?<![\w.])-?(\d[\d.]*) ?(ps|ns|us|µs|ms|s)\b")
SHARE = re.compile(r"[\d.]+ ?%")
GRAPH, PIPELINE = "boxes_5_3.all_reduce.1GB", "p4_m8"


def misspelled(text: str) -> list[str]:
    """Times of more than four digits or in another unit than the largest they fill, and shares without a space."""
    times = [
        match[0]
        for match in TIME.finditer(text)
        if " " not in match[0]
        or not (1 <= float(match[1]) < 1000 or match[2] in ("s", "ps"))
        or len(match[1].replace(".", "").strip("0")) > 4
    ]
    return [*times, *(match[0] for match in SHARE.finditer(text) if match[0][-2] != " ")]


def words_of(picture: Path) -> str:
    """The texts of a picture, a line each."""
    return re.sub(r"<style>.*?</style>|<[^>]*>", "\n", picture.read_text("utf-8"))


@pytest.mark.parametrize("text", ["4181.66 us", "0.417 ms", "12.345 ms", "5us", "99.8% busy"])
def test_misspelled_times_are_seen(text: str) -> None:
    assert misspelled(f"it takes {text}")


@pytest.fixture
def files(tmp_path: Path, trained: Path, solution: Path) -> dict[str, str]:
    """Files that commands read, by a short name."""
    save_problem(sharded(8, 8, 8), tmp_path / "step.json")
    sizes = [(1 << power, 10 + (1 << power) / 40e3, 11 + (1 << power) / 40e3) for power in range(20, 31, 2)]
    (tmp_path / "all_reduce.log").write_text(nccl_table(sizes), encoding="utf-8")
    others = {"layers": str(trained), "schedule": str(solution / "schedule.json")}
    return {name: str(tmp_path / name) for name in ("step.json", "all_reduce.log")} | others


@pytest.mark.parametrize(
    "command",
    [
        *(
            f"{verb} {name}"
            for verb in ("show", "bound", "simulate", "sweep")
            for name in ("fig5.all_reduce.256MB", GRAPH)
        ),
        f"solve {GRAPH} --lost nic1 --compare healthy --policies trees,ring -o OUT",
        f"bound {GRAPH} --lost each -o OUT/losses.svg",
        f"compare {GRAPH} --size 64KiB --policies trees,ring,direct",
        "compare 2d-sw_sw.all_reduce.100MiB --policies baseline,law,hourglass -o OUT",
        'compare fig5.all_reduce.256MB --measured "310 GB/s" --policies baseline',
        "import all_reduce.log -o OUT/t.json",
        "plan step.json --time-limit 0.5 -o OUT",
        "show layers",
        "bound layers",
        "compare layers --time-limit 1 -o OUT",
        f"solve {PIPELINE} --time-limit 1 -o OUT",
        f"show {PIPELINE}",
        "tune fig5.all_reduce.256MB --trials 3 --time-limit 3 -o OUT",
        "best-known show equal-01",
        "explain schedule",
        "validate schedule",
        "plot schedule -o OUT/gantt.svg",
    ],
)
def test_all_times_of_an_answer_are_spelled_alike(invoke, files, tmp_path: Path, command: str) -> None:
    words = [files.get(word, word.replace("OUT", str(tmp_path / "out"))) for word in shlex.split(command)]
    (tmp_path / "out").mkdir()
    result = invoke(*words)
    assert result.exit_code in (0, 1), result.stderr + repr(result.exception)
    pictures = [words_of(path) for path in (tmp_path / "out").rglob("*.svg")]
    texts = [result.stdout, result.stderr, *pictures]
    assert any(TIME.search(text) for text in texts) or "bound" in command
    assert not [word for text in texts for word in misspelled(text)]
