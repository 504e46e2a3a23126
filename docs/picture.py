"""Draw the README's picture from the repository that ``make demo`` fills.

python docs/picture.py sqlite:///.demo/tidegauge.db docs/flights.svg
"""

from __future__ import annotations

import sys

import tidegauge as tg


def main(url: str, target: str) -> None:
    """Draw the completeness of dep_time, what was usual, and the anomalies."""
    with tg.Repository(url, read_only=True) as repo:
        repo.plot("flights", analyzer="Completeness('dep_time')").save(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
