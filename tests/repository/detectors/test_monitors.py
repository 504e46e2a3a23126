"""Series that monitors select."""

import pytest

import tidegauge as tg

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
        ({"instance": "items[0].*"}, ["items[0].n"]),  # nothing but * is special
        ({"instance": "*"}, ["*"]),  # the instance of whole datasets
        ({"name": "ra*", "instance": "*e*"}, ["prices.index", "prices.of.day", "pricesX", "items[0].n"]),
        ({"name": "ra?e"}, []),
        ({}, [*INSTANCES]),
    ],
    ids=str,
)  # fmt: skip
def test_a_star_within_a_selector_stands_for_any_text(repo, series, selected):
    found = repo.detect("d", monitors=[tg.Monitor(series, "SimpleThreshold(0.1)")])
    assert set(found["instance"]) == set(selected)
