"""The names that ``import themis_opt`` offers."""

import doctest
import inspect
from importlib import import_module
from pkgutil import walk_packages

import pytest

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
def modules():
    """Every module of the package whose extras are installed, imported."""
    for module in walk_packages(themis_opt.__path__, "themis_opt."):
        try:
            module.name.endswith("__main__") or import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name not in ("torch", "mpi4py"):
                raise


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("name", [n for n in themis_opt.__all__ if n.islower()])
def test_function_is_not_hidden_by_a_module_of_its_name(name):
    assert inspect.isfunction(getattr(themis_opt, name))


def test_examples_of_the_package_docstring_hold():
    failed, attempted = doctest.testmod(themis_opt)
    assert attempted > 0
    assert failed == 0
