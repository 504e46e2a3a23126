"""Changes of an incident for the worse, computed by hand on single anomalies. No Spark."""

import pytest

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.incidents.anomaly import Anomaly, exceeds_label, is_clearly_worse


def anomaly(partition=1, value=500.0, severity="error", **changed):
    """Return an anomaly of a day's rows; a thousand were expected."""
    fields = {
        "series": 1,
        "name": "Size",
        "instance": "*",
        "filter": "",
        "segment": "",
        "scale": Scale.COUNT,
        "expected": 1000.0,
        **changed,
    }
    return Anomaly(
        id=partition, position=partition, partition=partition, partition_name=f"ds={partition}", within="",
        time=None, severity=severity, direction="low", value=value, score=9.0, explanation="",
        incident=1, **fields,
    )  # fmt: skip


HALF = [anomaly()]
COUNTRY = {"series": 2, "segment": "country=DE"}
NULLS = {"series": 3, "name": "Completeness", "instance": "email", "scale": Scale.RATIO}


@pytest.mark.parametrize(
    ("after", "worse"),
    [
        (HALF, False),
        ([anomaly(), anomaly(2, 400)], False),  # 50 and 60%
        ([anomaly(), anomaly(2, 0)], True),  # 50 and 100%
        # 90% more is neither twice as much nor a total loss
        ([anomaly(), anomaly(2, 1900)], False),
        ([anomaly(), anomaly(2, 2000)], True),
        ([anomaly(1, 0)], True),  # measured again
        ([], False),
        ([anomaly(), anomaly(2, 0, "warning")], False),  # not of the highest severity
        ([anomaly(), anomaly(2, **NULLS)], False),  # equally severe, and of another metric
        ([anomaly(), anomaly(2, None)], False),  # without a value
    ],
)
def test_an_incident_is_clearly_worse_if_a_departure_doubled(after, worse):
    assert is_clearly_worse(HALF, after) == worse


def test_an_incident_is_clearly_worse_if_its_severity_rose():
    assert is_clearly_worse([anomaly(severity="warning")], [anomaly(2, 490, "error")])
    assert not is_clearly_worse([anomaly(severity="error")], [anomaly(2, 490, "warning")])
    assert is_clearly_worse([], HALF)


def test_a_nearly_total_loss_that_becomes_total_is_not_worse():
    """From 99 to 100% is not worse; from half of the emails to none is worse."""
    assert not is_clearly_worse([anomaly(1, 10)], [anomaly(2, 0)])
    usual = {**NULLS, "expected": 0.99}
    assert is_clearly_worse([anomaly(1, 0.48, **usual)], [anomaly(2, 0.0, **usual)])


@pytest.mark.parametrize(
    ("after", "beyond"),
    [
        (HALF, False),
        ([anomaly(1, 499)], False),  # a few late rows
        ([anomaly(1, 0)], True),
        ([anomaly(), anomaly(2, 460)], False),  # 54%: the same campaign
        ([anomaly(), anomaly(2, 400)], True),  # 60%
        ([anomaly(), anomaly(2, 800, **NULLS)], True),  # another metric
        ([anomaly(), anomaly(2, 800, "info", **NULLS)], False),
        ([anomaly(), anomaly(2, 0, "warning", **COUNTRY)], False),  # a part of the labeled total
        ([anomaly(), anomaly(2, 0, filter="x > 1", series=4)], False),
    ],
)
def test_departures_beyond_a_label(after, beyond):
    assert exceeds_label(HALF, after) == beyond


def test_another_part_is_beyond_a_label_of_one_part():
    of_one = [anomaly(1, 0, "warning", **COUNTRY)]
    other = anomaly(2, 0, "warning", series=5, segment="country=FR")
    assert exceeds_label(of_one, [*of_one, other])
    assert exceeds_label(of_one, [*of_one, anomaly(2, 490)])  # the total, and an error
    assert not exceeds_label(of_one, [*of_one, anomaly(2, 0, "warning", **COUNTRY)])


def test_a_higher_severity_is_beyond_a_label_and_information_only_if_it_was_labelled():
    note = [anomaly(1, 950, "info")]
    assert exceeds_label(note, [*note, anomaly(2, 900, "info")])
    assert exceeds_label(note, [anomaly(1, 940, "warning")])
    assert not exceeds_label([], HALF)  # without a record of the labeled anomalies


def test_missing_partitions_next_to_unusual_ones_are_worse():
    gap = anomaly(2, 1.0, "warning", series=9, name="MissingPartition", expected=None)
    assert is_clearly_worse(HALF, [*HALF, gap])
    assert is_clearly_worse([gap], [gap, anomaly(3, 700, "warning")])
    assert not is_clearly_worse([gap], [anomaly(3, 9.0, "warning", series=9, name=gap.name)])
