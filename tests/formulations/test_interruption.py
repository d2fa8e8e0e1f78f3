"""Ctrl-C where it may come."""

import signal
from pathlib import Path

import pytest

from formulations.interruption import INTERRUPTION


def burn() -> None:
    """Use the processor until the timer has rung."""
    while signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
        pass


def test_ctrl_c_waits_for_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heeds_ctrl_c: None) -> None:
    """A module that is half there would fail whatever imports it next."""
    (tmp_path / "interrupted_module.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\nis_whole = True"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import interrupted_module  # type: ignore[import-not-found]

    assert interrupted_module.is_whole
    assert INTERRUPTION.came
    with pytest.raises(KeyboardInterrupt):
        burn()
