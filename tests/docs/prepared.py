"""Files and tables that readers of a page already have; the setups of its blocks create them."""

import datetime as dt
import json
from pathlib import Path

from tests.docs.pages import blocks
from tests.paths import ROOT

JOB = {
    "name": "users",
    "timestamp": 1_700_000_000_000,
    "data.sources": [
        {
            "name": name,
            "connector": {
                "type": "file",
                "config": {"format": "csv", "options": {"header": "true"}, "paths": []},
            },
        }
        for name in ("users", "truth")
    ],
    "evaluate.rule": {
        "rules": [
            {
                "dsl.type": "griffin-dsl",
                "dq.type": "accuracy",
                "out.dataframe.name": "accuracy",
                "rule": "users.id = truth.id and users.name = truth.name",
            }
        ]
    },
}
"""Griffin's job on the pages. Its sources are files in the current folder."""


def write_job():
    """Write `JOB` as ``dq.json``, an empty ``env.json``, and the files of two users.

    One user has another name in the true data.
    """
    job = json.loads(json.dumps(JOB))
    for source, second in zip(job["data.sources"], ("Bob", "Rob"), strict=True):
        file = Path(f"{source['name']}.csv").absolute()
        file.write_text(f"id,name\n1,Ann\n2,{second}\n")
        source["connector"]["config"]["paths"] = [str(file)]
    Path("env.json").write_text("{}")
    Path("dq.json").write_text(json.dumps(job))


def write_block(page, check, file):
    """Write the file of a kind that a page shows."""
    (code,) = (block.code for block in blocks(page) if block.check == check)
    Path(file).write_text(code)


def make_search(spark):
    """Create a query log, the views of its backfill, and ``search.yml`` for ``docs/consistency.md``.

    Users 1 to 4 query at 07:30 of each day. The service sees clicks 45 minutes late, as intended:
    the hour before 06:45 has two clicks of user 1, one each of users 3 and 4, and none of user 2.
    On the second day the service has missed each user's newest click, and returns the prices of
    the day before.
    """
    import tidegauge as tg

    drop_search(spark)
    write_block(ROOT / "docs" / "consistency.md", "consistency", "search.yml")
    spark.sql("CREATE DATABASE shop")
    tg.consistency.create_log_table(spark, "shop")
    key = {
        "type": "record",
        "name": "Key",
        "fields": [
            {"name": "user", "type": "long"},
            {"name": "session", "type": ["null", "string"], "default": None},
        ],
    }
    value = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "clicks_1h", "type": ["null", "int"]},
            {"name": "price_index", "type": ["null", "double"]},
        ],
    }
    schema = tg.consistency.LogSchema.from_schemas("search", key, value, payload=["session"])
    clicks_of_users = {1: 2, 2: 0, 3: 1, 4: 1}
    first, second = days = [dt.datetime(2023, 1, day, tzinfo=dt.UTC) for day in (4, 5)]
    price_of_days = {first: 1.5, second: 2.5}
    with tg.consistency.QueryLog(
        tg.consistency.log_folder(spark, "shop"), query_source="web"
    ) as log:
        log.register(schema)
        for day in days:
            for user, clicks in clicks_of_users.items():
                served = clicks if day == first else max(clicks - 1, 0)
                log.log(
                    "search",
                    {"user": user, "session": "s"},
                    {"clicks_1h": served, "price_index": price_of_days[first]},
                    ts_millis=int((day + dt.timedelta(hours=7, minutes=30)).timestamp() * 1000),
                )
    clicks = [
        (user, day + dt.timedelta(hours=6, minutes=10 * number))
        for day in days
        for user, count in clicks_of_users.items()
        for number in range(count)
    ]
    prices = [
        (user, day, price) for user in clicks_of_users for day, price in price_of_days.items()
    ]
    spark.createDataFrame(clicks, "user long, at timestamp").createOrReplaceTempView("clicks")
    columns = "user long, since timestamp, price_index double"
    spark.createDataFrame(prices, columns).createOrReplaceTempView("prices")


def drop_search(spark):
    """Drop the tables of `make_search` if they exist."""
    spark.sql("DROP DATABASE IF EXISTS shop CASCADE")
    for view in ("clicks", "prices"):
        spark.catalog.dropTempView(view)
