"""The names that ``import themis_opt`` offers."""

import doctest
import inspect
import subprocess
import sys

import pytest
from background import PATIENCE

import themis_opt


@pytest.mark.parametrize("name", themis_opt.__all__)
def test_public_name_resolves(name):
    assert callable(getattr(themis_opt, name))


@pytest.mark.parametrize("name", themis_opt.__all__)
def test_public_name_has_a_docstring(name):
    assert inspect.getdoc(getattr(themis_opt, name))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'themis_opt' has no attribute 'magic'"):
        themis_opt.magic  # noqa: B018


@pytest.fixture(scope="module")
def functions_beside_modules():
    """The public functions in a process that has imported every module of the package whose extras are installed."""
    program = (
        "import importlib, inspect, pkgutil, themis_opt\n"
        "for module in pkgutil.walk_packages(themis_opt.__path__, 'themis_opt.'):\n"
        "    try:\n"
        "        module.name.endswith('__main__') or importlib.import_module(module.name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        if error.name not in ('torch', 'mpi4py'):\n"
        "            raise\n"
        "print(*(name for name in themis_opt.__all__ if inspect.isfunction(getattr(themis_opt, name))))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return result.stdout.split()


@pytest.mark.parametrize("name", [n for n in themis_opt.__all__ if n.islower()])
def test_function_is_not_hidden_by_a_module_of_its_name(functions_beside_modules, name):
    assert name in functions_beside_modules


def test_examples_of_the_package_docstring_hold():
    failed, attempted = doctest.testmod(themis_opt)
    assert attempted > 0
    assert failed == 0
