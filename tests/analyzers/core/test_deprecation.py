"""Deprecated functions, parameters and names keep working and warn at the caller's line."""

import ast
import sys
import tomllib
import types
import warnings

import pytest

from tests.paths import ROOT
from tidegauge.analyzers.core.deprecation import (
    deprecated,
    deprecated_names,
    renamed_parameters,
)


class Store:
    @deprecated(use="Store.count()", removed_in="0.3")
    def size(self, factor=1):
        """Return the size."""
        return 2 * factor

    @renamed_parameters(removed_in="0.3", most="limit", least="minimum")
    def rows(self, minimum=0, *, limit=10):
        return minimum, limit


def test_a_deprecated_method_warns_with_replacement_and_release():
    with pytest.warns(DeprecationWarning, match="removed in tidegauge 0.3") as caught:
        assert Store().size(factor=3) == 6
    assert [str(warning.message) for warning in caught] == [
        "Store.size() is deprecated and will be removed in tidegauge 0.3; use Store.count() instead"
    ]
    assert caught[0].filename == __file__


def test_a_deprecated_function_keeps_its_name_and_docstring():
    assert (Store.size.__name__, Store.size.__doc__) == ("size", "Return the size.")


def test_old_parameters_are_passed_under_their_new_names():
    with pytest.warns(DeprecationWarning, match="removed in tidegauge 0.3") as caught:
        assert Store().rows(least=1, most=2) == (1, 2)
    assert [str(warning.message) for warning in caught] == [
        f"parameter '{old}' of Store.rows() is deprecated and will be removed in tidegauge 0.3;"
        f" use {new}= instead"
        for old, new in (("most", "limit"), ("least", "minimum"))
    ]
    assert {warning.filename for warning in caught} == {__file__}


def test_new_parameters_do_not_warn():
    assert Store().rows(3, limit=4) == (3, 4)


def test_a_call_with_both_names_of_a_parameter_is_refused():
    message = r"Store\.rows\(\) got both 'most' and 'limit'; pass only 'limit'"
    with (
        pytest.warns(DeprecationWarning, match="removed in tidegauge 0.3"),
        pytest.raises(TypeError, match=message),
    ):
        Store().rows(most=1, limit=2)


def test_an_old_name_for_an_argument_that_is_already_passed_by_position_is_refused():
    with (
        pytest.warns(DeprecationWarning, match="removed in tidegauge 0.3"),
        pytest.raises(TypeError, match="multiple values for argument 'minimum'"),
    ):
        Store().rows(1, least=2)


def test_a_new_name_that_the_function_does_not_have_is_refused():
    with pytest.raises(TypeError, match=r"first\(\) has no parameter 'limits'"):

        @renamed_parameters(removed_in="0.3", most="limits")
        def first(limit):
            return limit


@pytest.fixture
def old_module(monkeypatch):
    """A module whose name ``root`` moved to `math`."""
    module = types.ModuleType("old_module")
    new_names = {"root": "math.sqrt"}
    module.__getattr__ = deprecated_names("old_module", new_names, removed_in="0.3")
    monkeypatch.setitem(sys.modules, "old_module", module)
    return module


def test_an_old_name_of_a_module_returns_the_new_object(old_module):
    with pytest.warns(DeprecationWarning, match="removed in tidegauge 0.3") as caught:
        assert old_module.root(16.0) == 4
    assert [str(warning.message) for warning in caught] == [
        "old_module.root is deprecated and will be removed in tidegauge 0.3; use math.sqrt instead"
    ]
    assert caught[0].filename == __file__


@pytest.mark.usefixtures("old_module")
def test_importing_an_old_name_warns_at_the_line_of_the_import():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from old_module import root

        assert root(25.0) == 5
    assert {warning.filename for warning in caught} == {__file__}


def test_other_names_of_a_module_are_missing_as_usual(old_module):
    with pytest.raises(AttributeError, match="module 'old_module' has no attribute 'power'"):
        _ = old_module.power


def test_nothing_stays_deprecated_longer_than_announced():
    """Each `removed_in` in the product is a later release than this one."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    current = tuple(map(int, version.split(".")[:2]))
    overdue = []
    for folder in ("analyzers", "repository", "tidegauge"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.keyword(arg="removed_in", value=ast.Constant(value=str(release))):
                        numbers = tuple(map(int, release.split(".")))
                        overdue += [f"{path}:{node.value.lineno}"] * (numbers <= current)
    assert overdue == []
