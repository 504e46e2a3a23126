"""Draw the pictures of README and docs from the repository that ``make demo`` fills.

python docs/picture.py sqlite:///.demo/tidegauge.db [docs]
"""

from __future__ import annotations

import sys
from datetime import date, timedelta

import numpy as np

import tidegauge as tg


def main(url: str, folder: str = "docs") -> None:
    """Draw the completeness of dep_time: the whole year, and the weeks around the blizzard."""
    with tg.Repository(url, read_only=True) as repo:
        series = {"analyzer": "Completeness('dep_time')"}
        repo.plot("flights", **series).save(f"{folder}/flights.svg")
        weeks = repo.plot("flights", **series, since="2013-01-15", until="2013-03-10")
        weeks.save(f"{folder}/reading.svg")
    detectors(f"{folder}/detectors.svg")


def detectors(target: str) -> None:
    """Draw what four detectors look for, on numbers that are made up."""
    days, rng = np.arange(100), np.random.default_rng(7)
    noise, week = rng.normal(size=100), np.where(days % 7 > 4, 0.7, 1.0)
    series = {
        "Seasonal": 1000 * week * (1 + 0.02 * noise) * np.where(days == 70, 0.75, 1),
        "ChangePoint": np.where(days < 60, 1000, 1300) + 15 * noise,
        "SlowDrift": 1000 + 10 * noise + np.maximum(days - 60, 0) * 5,
        "Novelty": np.where(rng.random(100) < 0.5, 200, 800) + 10 * noise,
    }
    series["Novelty"][80] = 500
    with tg.Repository("sqlite://") as repo:
        for name, values in series.items():
            names = [f"ds={date(2026, 1, 1) + timedelta(days=int(day))}" for day in days]
            repo.record("examples", name, dict(zip(names, values.tolist(), strict=True)))
        repo.detect("examples", [tg.Monitor({"name": name}, name) for name in series])
        for name in series:
            found = repo.anomalies("examples", name=name)["partition"].tolist()
            print(name, sorted(found))
        repo.plot("examples", name=list(series)).save(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
