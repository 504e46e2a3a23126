"""Draw the pictures of README and docs from the repository that ``make demo`` fills.

python docs/picture.py sqlite:///.demo/tidegauge.db [docs]
"""

from __future__ import annotations

import sys

import tidegauge as tg


def main(url: str, folder: str = "docs") -> None:
    """Draw the completeness of dep_time: the whole year, and the weeks around the blizzard."""
    with tg.Repository(url, read_only=True) as repo:
        series = {"analyzer": "Completeness('dep_time')"}
        repo.plot("flights", **series).save(f"{folder}/flights.svg")
        weeks = repo.plot("flights", **series, since="2013-01-15", until="2013-03-10")
        weeks.save(f"{folder}/reading.svg")


if __name__ == "__main__":
    main(*sys.argv[1:])
