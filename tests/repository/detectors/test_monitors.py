"""The series that monitors select."""

import re

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.errors import RepositoryWarning, SuiteError, UnknownNameError

INSTANCES = ("prices.index", "prices.of.day", "pricesX", "items[0].n", "*")


@pytest.fixture
def repo():
    with tg.Repository("sqlite://") as found:
        for instance in INSTANCES:
            found.record("d", "rate", 0.5, partition="ds=2023-01-05", instance=instance)
        yield found


@pytest.mark.parametrize(
    ("series", "selected"),
    [
        ({"instance": "prices.index"}, ["prices.index"]),
        ({"instance": "prices.*"}, ["prices.index", "prices.of.day"]),
        ({"instance": "*.index"}, ["prices.index"]),
        ({"instance": "items[0].*"}, ["items[0].n"]),  # only * is special
        ({"instance": "*"}, ["*"]),  # the instance of whole datasets
        ({"name": "ra*", "instance": "*e*"}, ["prices.index", "prices.of.day", "pricesX", "items[0].n"]),
        ({}, [*INSTANCES]),
    ],
    ids=str,
)  # fmt: skip
def test_a_star_in_a_selector_matches_any_string(repo, series, selected):
    found = repo.detect("d", monitors=[tg.Monitor(series, "SimpleThreshold(0.1)")])
    assert set(found["instance"]) == set(selected)


def test_a_warning_lists_monitors_without_series(repo):
    for name in ("ra?e", "rte"):  # ? is not a wildcard
        told = f"'d' has no series of {{'name': '{name}'}}"
        with pytest.warns(RepositoryWarning, match=re.escape(told)):
            assert repo.detect("d", [tg.Monitor({"name": name}, "SimpleThreshold(0.1)")]).empty
    repo.record("e", "x", 0.5, partition="ds=2023-01-05")
    assert not repo.detect(monitors=[tg.Monitor({"name": "rate"}, "SimpleThreshold(0.1)")]).empty
    with pytest.warns(RepositoryWarning, match="no dataset has a series of"):
        repo.detect(monitors=[tg.Monitor({"name": "rte"}, "SimpleThreshold(0.1)")])


def test_detectors_and_their_reprs_stand_for_monitors_of_all_series(repo):
    text = "SimpleThreshold(0.1)"
    found = repo.detect("d", [tg.Monitor(detector=text)])
    for monitors in (text, [text], tg.SimpleThreshold(0.1), tg.Monitor(detector=text)):
        assert repo.detect("d", monitors)["id"].tolist() == found["id"].tolist() != []
    with pytest.raises(SuiteError, match="a detector or its description, not 3"):
        repo.detect("d", 3)
    with pytest.raises(UnknownNameError, match="did you mean 'Seasonal'"):
        repo.detect("d", "Sesonal()")
