"""Names of the numbers in a rule's result."""

import datetime as dt

from tidegauge.griffin.measures.base import Report


def numbers(rows, labels=None):
    return dict(Report.from_rows(rows, "default", "p", labels).scalars())


def test_values_of_a_single_row_are_not_part_of_a_name():
    for ok, number in ((True, 1.0), (False, 0.0)):
        assert numbers([{"n": 5, "who": "Joey", "ok": ok}]) == {"n": 5.0, "ok": number}


def test_a_date_is_recorded_in_seconds_since_1970():
    noon = dt.datetime(1970, 1, 2, 12, tzinfo=dt.UTC)
    row = {"day": dt.date(1970, 1, 2), "at": noon}
    assert numbers([row]) == {"day": 86_400.0, "at": 129_600.0}


def test_grouping_columns_are_labels_also_of_a_single_row():
    row = {"city": "Rome", "open": True, "best": "Anna", "n": 2}
    assert numbers([row], ["city"]) == {"open.Rome": 1.0, "n.Rome": 2.0}
    assert numbers([row], ["city", "open"]) == {"n.Rome.True": 2.0}


def test_several_rows_without_groups_are_numbered():
    assert numbers([{"city": "Rome", "n": 2}, {"city": "Oslo", "n": 3}]) == {"n": 2.0, "n.2": 3.0}
    day = dt.date(1970, 1, 2)
    assert numbers([{"day": day, "n": 2}, {"day": day, "n": 3}]) == {
        "day": 86_400.0, "n": 2.0, "day.2": 86_400.0, "n.2": 3.0}  # fmt: skip
    assert numbers([{"age": 7, "n": 2}, {"age": 8, "n": 3}]) == {
        "age": 7.0, "n": 2.0, "age.2": 8.0, "n.2": 3.0}  # fmt: skip


def test_rows_with_equal_labels_do_not_overwrite_each_other():
    rows = [{"city": "Rome", "n": n} for n in (1, 2, 3)] + [{"city": "Rome_2", "n": 4}]
    assert numbers(rows, ["city"]) == {
        "n.Rome": 1.0, "n.Rome_2": 2.0, "n.Rome_3": 3.0, "n.Rome_2_2": 4.0}  # fmt: skip
    assert numbers([{"n": 1}, {"n": 2}], []) == {"n": 1.0, "n.2": 2.0}


def test_a_layout_does_not_change_names():
    report = Report({"total": 4, "dups": [{"dup": 1, "num": 2}]}, labels=frozenset({"dup"}))
    nested = report.shaped("map", "ids")
    assert nested.metric == {"ids": {"total": 4, "dups": [{"dup": 1, "num": 2}]}}
    assert dict(nested.scalars()) == dict(report.scalars()) == {"total": 4.0, "dups.1": 2.0}
    assert report.shaped("array", "ids").metric == {"ids": [report.metric]}
    assert report.shaped("default", "ids") is report
