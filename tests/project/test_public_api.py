"""The names that ``import themis_opt`` offers."""

import doctest
import inspect
import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

import themis_opt


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'themis_opt' has no attribute 'magic'"):
        themis_opt.magic  # noqa: B018


@pytest.fixture(scope="module")
def modules():
    """Every module of the package whose extras are installed, imported."""
    for module in walk_packages(themis_opt.__path__, "themis_opt."):
        try:
            module.name.endswith("__main__") or import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("name", [n for n in themis_opt.__all__ if n.islower()])
def test_function_is_not_hidden_by_a_module_of_its_name(name):
    assert inspect.isfunction(getattr(themis_opt, name))


@pytest.mark.parametrize("name", [None, *themis_opt.__all__])
def test_examples_of_docstrings_hold(name):
    """Every public docstring has an example, and prints what it says."""
    assert name is None or callable(getattr(themis_opt, name))
    subject = themis_opt if name is None else getattr(themis_opt, name)
    home = subject if name is None else sys.modules[subject.__module__]
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    (docstring,) = finder.find(subject, name or "themis_opt", home, globs=dict(vars(home)))
    assert docstring.examples
    assert runner.run(docstring).failed == 0


@pytest.mark.parametrize("name", ["fig5.all_reduce.256MB", "dgx1.all_gather.1GB", "p4_m8"])
def test_schedules_of_each_family_are_saved_loaded_and_exported(name, tmp_path):
    policy = {"product": "themis+scf", "graph": "direct", "pipeline": "1f1b"}[themis_opt.load(name).family]
    best = themis_opt.solve(name, [policy]).best
    assert repr(best).startswith(f"<{policy}: ")
    best.schedule.save(tmp_path / "schedule.json")
    assert themis_opt.load(tmp_path / "schedule.json").makespan == best.makespan
    assert themis_opt.export(best.schedule, "trace", tmp_path) == [tmp_path / "trace.json"]


def test_order_tables_are_loaded(tmp_path):
    schedule = themis_opt.solve("fig5.all_reduce.256MB", ["themis+scf"]).best.schedule
    (path,) = themis_opt.export(schedule, "order", tmp_path)[:1]
    assert themis_opt.load(path).makespan <= schedule.makespan
