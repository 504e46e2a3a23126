"""Partition fields of Iceberg tables: their names, selection and filters."""

import datetime as dt
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.analyzers.core.errors import PartitionColumnError
from tidegauge.analyzers.core.partitions import NULL, Partition
from tidegauge.analyzers.sources.iceberg_partitions import (
    MAX_TIME_RANGES,
    PartitionField,
    chosen_fields,
    parse_transform,
    partition_fields,
    pruning_filter,
    time_format,
)

DAY = PartitionField("at_day", "days", "at")
BUCKET = PartitionField("id_bucket", "bucket", "id", 4)
COUNTRY = PartitionField("country", "identity", "country")


def frame(**types):
    """Return a frame with a schema, which is all that filters need."""
    fields = [
        SimpleNamespace(name=name, dataType=SimpleNamespace(typeName=lambda kind=kind: kind))
        for name, kind in types.items()
    ]
    return SimpleNamespace(schema=SimpleNamespace(fields=fields))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hours(at)", ("hours", None, "at")),
        ("hour(at)", ("hours", None, "at")),
        ("MONTHS( at )", ("months", None, "at")),
        ("year(at)", ("years", None, "at")),
        ("date(at)", ("days", None, "at")),
        ("bucket(16, id)", ("bucket", 16, "id")),
        ("bucket(id, 16)", ("bucket", 16, "id")),
        ("truncate(2, `a.b`)", ("truncate", 2, "`a.b`")),
        ("days(event.at)", ("days", None, "event.at")),
        ("identity(country)", ("identity", None, "country")),
        ("`dep time`", ("identity", None, "dep time")),
        ("days(at, 2)", None),
        ("bucket(id)", None),
        ("void(at)", None),
    ],
)
def test_transforms_are_parsed_as_users_and_spark_write_them(text, expected):
    assert parse_transform(text) == expected


def test_names_are_those_of_iceberg_or_of_users():
    spec = ["days(at)", "bucket(4, id)", "country"]
    assert partition_fields(spec, ["at_day", "id_bucket", "country"]) == (DAY, BUCKET, COUNTRY)
    # A table that evolved also has fields of older specs.
    assert partition_fields(["days(at)"], ["at_hour", "AT_day"])[0].name == "AT_day"
    named = partition_fields(["days(at)", "bucket(4, id)"], ["day", "shard"])
    assert [field.name for field in named] == ["day", "shard"]
    assert partition_fields(["days(at)"], ["day", "shard"]) == ()
    assert partition_fields(["void(at)", "country"], ["at_void", "country"]) == (COUNTRY,)
    assert partition_fields([], []) == ()


def test_keys_are_chosen_by_name_or_as_transforms():
    fields = (DAY, BUCKET, COUNTRY)
    assert chosen_fields(None, fields, "table t") == fields
    assert chosen_fields([], fields, "table t") == ()
    for text in ("at_day", "AT_DAY", "days(at)", "day(At)"):
        assert chosen_fields([text], fields, "table t") == (DAY,)
    assert chosen_fields(["Country", "bucket(4,id)"], fields, "table t") == (COUNTRY, BUCKET)


@pytest.mark.parametrize("text", ["at", "hours(at)", "bucket(8, id)", "days(ta)", "nope"])
def test_the_error_for_other_keys_lists_the_existing_ones(text):
    known = r"partitioned by 'at_day' \(days\(at\)\), 'id_bucket' \(bucket\(4, id\)\), 'country'"
    with pytest.raises(PartitionColumnError, match=f"{re.escape(repr(text))}: it is {known}"):
        chosen_fields([text], (DAY, BUCKET, COUNTRY), "table t")
    with pytest.raises(PartitionColumnError, match="it is not partitioned"):
        chosen_fields([text], (), "table t")


@pytest.mark.parametrize(
    ("transform", "value", "expected"),
    [
        ("hours", "2026-01-17-23", dt.datetime(2026, 1, 17, 23, tzinfo=dt.UTC)),
        ("days", "2026-01-17", dt.datetime(2026, 1, 17, tzinfo=dt.UTC)),
        ("months", "2026-02", dt.datetime(2026, 2, 1, tzinfo=dt.UTC)),
        ("years", "2026", dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        ("days", NULL, None),
    ],
)
def test_partitions_by_a_time_have_that_time(transform, value, expected):
    form = time_format([COUNTRY, PartitionField("k", transform, "at")])
    assert form.time_of(Partition(("country", "k"), ("DE", value))) == expected
    assert time_format([COUNTRY, BUCKET]) is None


@pytest.mark.parametrize(
    ("transform", "kind", "values", "expected"),
    [
        (
            "days",
            "timestamp",
            ["2026-01-17", "2026-01-18"],
            "`at` >= TIMESTAMP'2026-01-17 00:00:00Z' AND `at` < TIMESTAMP'2026-01-19 00:00:00Z'",
        ),
        (
            "hours",
            "timestamp_ntz",
            ["2026-01-17-23"],
            "`at` >= TIMESTAMP_NTZ'2026-01-17 23:00:00' AND `at` < TIMESTAMP_NTZ'2026-01-18 00:00:00'",
        ),
        (
            "months",
            "date",
            ["2025-12", "2026-02"],
            "`at` >= DATE'2025-12-01' AND `at` < DATE'2026-01-01'"
            " OR `at` >= DATE'2026-02-01' AND `at` < DATE'2026-03-01'",
        ),
        ("years", "date", ["0987"], "`at` >= DATE'0987-01-01' AND `at` < DATE'0988-01-01'"),
        ("days", "date", [NULL], "(false OR `at` IS NULL)"),
        ("days", "struct", ["2026-01-17"], None),
        ("years", "date", ["-1"], None),
        ("years", "date", ["9999"], None),
    ],
)
def test_times_are_filtered_by_their_ranges(transform, kind, values, expected):
    field = PartitionField("k", transform, "at")
    condition = pruning_filter(frame(at=kind), [field], [(value,) for value in values], "lake")
    assert condition == (None if expected is None else f"({expected})")


def test_buckets_and_strings_are_filtered_by_the_functions_of_the_catalog():
    text = PartitionField("n_trunc", "truncate", "n", 2)
    values = [("0", "DE"), ("3", "O'"), (NULL, "DE")]
    condition = pruning_filter(frame(id="integer", n="string"), [BUCKET, text], values, "my lake")
    assert condition == (
        "((`my lake`.`system`.`bucket`(4, `id`) IN (0, 3) OR `id` IS NULL)) AND"
        " (`my lake`.`system`.`truncate`(2, `n`) IN ('DE', 'O\\''))"
    )
    assert pruning_filter(frame(country="string"), [COUNTRY], [("DE",)], "lake") is None


@given(st.sets(st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)), min_size=1, max_size=80))
def test_ranges_contain_every_selected_day_and_few_others(days):
    condition = pruning_filter(
        frame(at="date"), [DAY], [(day.isoformat(),) for day in days], "lake"
    )
    bounds = [dt.date.fromisoformat(text) for text in re.findall(r"DATE'(.{10})'", condition)]
    ranges = list(zip(bounds[::2], bounds[1::2], strict=True))
    covered = {
        start + dt.timedelta(days=n) for start, end in ranges for n in range((end - start).days)
    }
    assert days <= covered
    assert len(ranges) <= MAX_TIME_RANGES
    if len(ranges) > 1:
        assert covered == days
