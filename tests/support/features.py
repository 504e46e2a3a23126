"""A small history of a join's online/offline consistency, with values set by hand and without Spark.

It has two days in half hours. The features of the group-by ``batch`` mismatch each night until
its upload at 01:30. The features of ``stream`` nearly match. ``team.ads`` has a dot in its name
and a feature with a hostile name.
"""

from itertools import product

from tidegauge.repository.repository import Repository
from tidegauge.repository.store.consistency_series import PREFIX, QUANTILES

JOIN = "shop.search"
DAYS = ("2023-01-05", "2023-01-06")
BUCKETS = [f"{hour:02}-{minute:02}" for hour, minute in product(range(24), (0, 30))]
NIGHT = ("00-00", "00-30", "01-00")
MARKUP = "<img src=x onerror=\"document.title='owned'\">"
SEVEN = dict(zip(QUANTILES, (-9.0, -3.0, -1.0, 0.0, 1.0, 3.0, 9.0), strict=True))
LENGTHS = dict(zip(QUANTILES, (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 40.0), strict=True))


def partitions(days=DAYS):
    return [f"ds={day}/hr_minute={bucket}" for day in days for bucket in BUCKETS]


def at_night(value, otherwise=0.0):
    """Return a value for each partition, with another value at night."""
    return {
        one: value if one.partition("hr_minute=")[2] in NIGHT else otherwise for one in partitions()
    }


def always(value):
    return dict.fromkeys(partitions(), value)


def metrics():
    """Return the measured values by instance and metric."""
    cells = {name: always(0.0) for name in ("mismatch", "missing", "extra", "both_null")}
    # Three times as many rows are requested at night.
    usual = {**cells, "total": at_night(300.0, 100.0)}
    delta = {f"delta-{name}": always(value) for name, value in SEVEN.items()}
    return {
        "batch": {"row_missing": always(5.0), "row_extra": always(0.0)},
        "batch.spend": {**usual, "mismatch": at_night(0.9), "both_null": always(0.05)},
        "batch.visits": {**usual, "mismatch": at_night(0.3), "missing": at_night(0.25)},
        "stream": {"row_missing": always(0.0), "row_extra": always(1.0)},
        "stream.clicks": {**usual, "mismatch": always(0.02), "smape": always(0.01), **delta},
        "stream.tags": {
            **usual,
            **{
                f"{metric}-{name}": always(value)
                for metric in ("logged_length", "backfilled_length", "edit_insert", "edit_delete")
                for name, value in LENGTHS.items()
            },
        },
        "stream.attributes": {
            **usual,
            **{f"{name}_keys": always(2.0) for name in ("missing", "extra", "mismatched")},
            **{f"{name}_keys": always(7.0) for name in ("left", "right")},
        },
        "team.ads": {"row_missing": always(0.0), "row_extra": always(0.0)},
        f"team.ads.{MARKUP}": {**usual, "missing": always(0.4)},
    }


def record(repo, dataset=JOIN, found=None):
    """Record all values in a repository."""
    for instance, of in (found or metrics()).items():
        for metric, numbers in of.items():
            repo.record(dataset, PREFIX + metric, numbers, instance=instance, entity="Column")


def make_features(file):
    """Create a repository with the history and a dataset without such metrics; return its URL."""
    url = f"sqlite:///{file}"
    with Repository(url) as repo:
        record(repo)
        repo.record("alone", "revenue", 1.0, partition="ds=2023-01-05")
    return url
