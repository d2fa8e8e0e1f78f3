"""The line of progress in a notebook: shown by a kernel of Jupyter alone, for every family, and wiped at the end."""

import sys
from types import SimpleNamespace

import pytest

import themis_opt
from themis_opt.base.notebook import LINE_WIDTH


def pretend(monkeypatch, **shell):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(**shell)))


def texts(capsys):
    return [text.strip() for text in capsys.readouterr().out.split("\r") if text]


CALLS = {
    "product": (lambda: themis_opt.compare("fig5.all_reduce.256MB", ["themis+scf"]), "themis+scf: 7 ms"),
    "graph": (lambda: themis_opt.solve("dgx1.all_gather.1GB", ["trees"]), "best: 5.841 ms, 0.14 % above"),
    "pipeline": (lambda: themis_opt.compare("p4_m8", ["1f1b", "zb2p"]), "best: 25 ms, 0.00 % above"),
    "sweep": (lambda: themis_opt.sweep("fig5.all_reduce.256MB", {"size": ["1MB"]}, ["themis+scf"]), "themis+scf: 27"),
    "tune": (lambda: themis_opt.tune("fig5.all_reduce.256MB", trials=2), "2 of 2 trials, the latest: "),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_notebook_shows_the_best_so_far_and_wipes_it(call, monkeypatch, capsys):
    pretend(monkeypatch, kernel=object())
    run, expected = CALLS[call]
    run()
    *shown, last = texts(capsys)
    assert shown[-1].startswith(expected)
    assert last == ""


def test_each_text_covers_the_one_before(monkeypatch, capsys):
    pretend(monkeypatch, kernel=object())
    themis_opt.compare("fig5.all_reduce.256MB", ["baseline", "themis+scf"])
    assert {len(text) for text in capsys.readouterr().out.split("\r") if text} == {LINE_WIDTH}


@pytest.mark.parametrize("shell", [{}, {"kernel": None}])
def test_a_terminal_and_a_script_show_nothing(shell, monkeypatch, capsys):
    pretend(monkeypatch, **shell)
    themis_opt.compare("fig5.all_reduce.256MB", ["themis+scf"])
    assert capsys.readouterr().out == ""
    monkeypatch.delitem(sys.modules, "IPython")
    themis_opt.compare("fig5.all_reduce.256MB", ["themis+scf"])
    assert capsys.readouterr().out == ""


def test_a_listener_of_the_caller_hears_instead(monkeypatch, capsys):
    pretend(monkeypatch, kernel=object())
    heard = []
    themis_opt.compare("fig5.all_reduce.256MB", ["themis+scf"], progress=lambda *of: heard.append(of))
    assert [policy for policy, *_ in heard][-1] == "themis+scf"
    assert texts(capsys) == [""]
