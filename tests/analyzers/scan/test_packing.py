"""Packing of aggregates into jobs by their columns and buffer fields. No Spark."""

import pytest

from tidegauge.analyzers.core.analyzer import Aggregate
from tidegauge.analyzers.scan.jobs import buffer_count, packed_by_columns


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("count(`a`)", 1),
        ("CAST(try_sum(`a`) AS STRING)", 2),  # the sum, and whether it is empty
        ("var_pop(`a`)", 3),  # number, mean, squared deviations
        ("regr_sxy(`a`, `b`)", 4),  # number, two means, products of deviations
        ("listagg(`a`)", 6),  # unknown, so more than most
    ],
)
def test_each_function_has_its_number_of_buffer_fields(text, fields):
    assert buffer_count(Aggregate(text)) == fields


def aggregates(columns, *functions):
    return [Aggregate(f"{function}(`{column}`)") for column in columns for function in functions]


def packed(requests, columns):
    jobs = packed_by_columns(requests, frozenset(columns))
    assert sorted(r.text for job in jobs for r in job) == sorted(r.text for r in requests)
    return [len(job) for job in jobs]


def test_a_narrow_table_is_read_once():
    """Three columns with 26 functions of one field are 78 fields: more than 60, but at most 90."""
    kinds = [f"max({n} + " for n in range(26)]
    requests = [Aggregate(f"{kind}`{c}`)") for c in "abc" for kind in kinds]
    assert packed(requests, "abc") == [78]
    nine = [Aggregate(f"{kind}`{c}`)") for c in "abcdefghi" for kind in kinds[:9]]
    # Half of 81 fields is 41: four columns of 9 each, then four more; the ninth is too small for a
    # job.
    assert packed(nine, "abcdefghi") == [36, 45]


def test_jobs_share_aggregates_evenly():
    """80 columns of one field each give two jobs of 40, and not 60 and 20."""
    columns = [f"c{n}" for n in range(80)]
    assert packed(aggregates(columns, "count"), columns) == [40, 40]


def test_a_column_is_read_by_only_one_job():
    """Twenty columns of 4 fields are 80: two jobs of ten columns, without a common one."""
    columns = [f"c{n}" for n in range(20)]
    jobs = packed_by_columns(
        aggregates(columns, "count", "max", "min", "count_if"), frozenset(columns)
    )
    read = [{r.text.split("`")[1] for r in job} for job in jobs]
    assert [len(some) for some in read] == [10, 10]
    assert not read[0] & read[1]


def test_no_aggregates_take_no_job():
    assert packed([], "a") == []
