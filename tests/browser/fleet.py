"""Two hundred tables of twenty series: one lost the rows of a country, some others had a bad night.

No Spark.
"""

import numpy as np

from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.histogram import Histogram
from tidegauge.analyzers.measures.moments import Mean, SumAndCount
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing import COMPLETE, SIZE, commit, day, measurement

TABLES = 200
SERIES = 20
DAYS = 35
STRUCK = "table_117"
BAD_PARTITION = "ds=2013-02-04"
BY_COUNTRY = Histogram("country")
COUNTRIES = {"DE": 0.5, "FR": 0.3, "IT": 0.2}


def make_fleet(url):
    """Create it, and return the incident of `STRUCK`, whose last day has lost nine of ten rows of DE."""
    means = [
        Mean(f"column_{n:02}") for n in range(SERIES - 5)
    ]  # besides size and completeness, in 3 countries
    with Repository(url) as repo:
        for seed in range(TABLES):
            name, draw = f"table_{seed:03}", np.random.default_rng(seed)
            rows = (20_000 * draw.normal(1, 0.01, DAYS)).astype(int).tolist()
            levels = draw.normal(50, 0.5, (DAYS, len(means)))
            if seed % 20 == 0:
                levels[-1, :3] = 70
            days = []
            for n in range(DAYS):
                groups = {(country,): int(rows[n] * part) for country, part in COUNTRIES.items()}
                if name == STRUCK and n == DAYS - 1:
                    groups["DE",] //= 10
                count = sum(groups.values())
                more = [
                    measurement(mean, SumAndCount(float(level) * count, count))
                    for mean, level in zip(means, levels[n], strict=True)
                ]
                more.append(
                    measurement(BY_COUNTRY, FrequenciesAndNumRows.from_groups(groups.items()))
                )
                only = [SIZE, COMPLETE, BY_COUNTRY, *means]
                days.append(day(n + 1, rows=count, extra=more, only=only))
            commit(repo, *days, dataset=name)
            if name == STRUCK or seed % 20 == 0:  # the others have no anomalies
                repo.detect(name)
        (number,) = repo.incidents(STRUCK, status="open")["id"].tolist()
        return number
