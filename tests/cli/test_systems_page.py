"""Every command on the page of systems runs as it stands."""

import re
import shlex
from pathlib import Path

import pytest
from samples import every

PAGE = Path(__file__).parents[2] / "docs" / "systems.md"
COMMANDS = re.findall(r"`themis-opt ((?:workload|simulate|bound|sweep) [^`]*)`", PAGE.read_text(encoding="utf-8"))
ANY = "v100-256.resnet-50"  # in the place of N, whose network is taken


def test_the_page_shows_commands():
    assert len(COMMANDS) > 15


@pytest.mark.parametrize("command", every(3, COMMANDS))
def test_a_command_runs(succeed, command):
    words = [ANY if word == "N" else word for word in shlex.split(command)]
    assert succeed(*words)
