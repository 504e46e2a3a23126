"""Make the repository of the pictures in on-call.md: 24 tables, some of which had a bad night. Needs no Spark."""

from __future__ import annotations

import datetime as dt
from itertools import product

import numpy as np

import tidegauge as tg
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.repository.testing import (
    COMPLETE,
    MEAN,
    SIZE,
    commit,
    day,
    measurement,
    spec,
)

DAYS = 70
TEAMS = ("crm", "finance", "sales", "web")
KINDS = ("orders", "payments", "customers", "visits", "returns", "agents")
LOST = {"sales_orders": 0.58, "sales_payments": 0.66, "web_visits": 0.7}
"""Shares of the rows that are left on the last day; all that is missing is of one country."""
BY_COUNTRY = tg.Histogram("country")
LINKS = {
    "sales_orders": {
        "runbook": "https://wiki.example.org/sales-orders",
        "job": "https://jobs.example.org/sales-orders/421",
    },
    "finance_orders": {"upstream": "sales_orders"},
    "finance_returns": {"upstream": "finance_orders"},
}
"""Tags by which incidents lead to a runbook and a job, and to the tables made from theirs."""
COUNTRIES = {"DE": 0.5, "FR": 0.3, "IT": 0.2}


def make_desk(url: str, *, until: dt.date | None = None) -> int:
    """Fill a database, and return the incident of ``sales_orders``; the last partition is of two days ago."""
    until = until or dt.datetime.now(dt.UTC).date() - dt.timedelta(days=2)
    last = (until - dt.date(2013, 1, 1)).days + 1
    with tg.Repository(url) as repo:
        for seed, (team, kind) in enumerate(product(TEAMS, KINDS)):
            name = f"{team}_{kind}"
            draw = np.random.default_rng(seed)
            level = float(draw.uniform(2000, 60_000))
            found = []
            for number in range(last - DAYS + 1, last + 1):
                rows = int(level * (0.8 if number % 7 in (4, 5) else 1.0) * draw.normal(1, 0.015))
                groups = {(country,): int(rows * share) for country, share in COUNTRIES.items()}
                if number == last and name in LOST:
                    groups["DE",] = max(1, int(rows * (COUNTRIES["DE"] - 1 + LOST[name])))
                rows = sum(groups.values())
                only = [SIZE, COMPLETE, MEAN, BY_COUNTRY]
                total = rows * float(draw.normal(50, 0.4))
                parts = measurement(BY_COUNTRY, FrequenciesAndNumRows.from_groups(groups.items()))
                found.append(day(number, rows=rows, extra=[parts], total=total, only=only))
            tags = {"owner": team, "env": "prod", **LINKS.get(name, {})}
            commit(repo, *found, dataset=name, tags=tags)
            severity = "error" if name == "sales_orders" else "warning"
            repo.detect(name, [tg.Monitor({}, "Seasonal", severity)])
        run = repo.store.open_run(spec("crm_agents", tags={"owner": "crm", "env": "prod"}))
        repo.store.close_run(run, RunStatus.FAILED, {}, error="no space left on device")
        _fail_check(repo, "finance_returns")
        incidents = repo.incidents("sales_orders", status="open")
        newest = int(incidents["id"].iloc[0])
        tg.notify(repo, ["log"])
        repo.label(newest, "comment", note="The upstream job of Germany was restarted.", by="ann")
        repo.label(newest, "assigned", note="ann", by="bob")
        return newest


def _fail_check(repo: tg.Repository, dataset: str) -> None:
    newest = repo.partitions(dataset).iloc[-1]
    message = "41 records have return_value < 0, such as -12.5"
    result = tg.CheckResult(passed=False, error_messages=(("return_value >= 0", message),))
    about = {"partition": newest["partition"], "fingerprint": newest["fingerprint"]}
    repo.keep_verdict(
        dataset, name="amounts", specification="1", passed=False, result=result.to_json(), **about
    )
