"""States that one Spark wrote merge with the states of every other Spark, in both orders."""

import os
from pathlib import Path

import pyspark
import pytest

from tests.analyzers.measures.test_merging_flights import EVERY, assert_equal, data, exact
from tidegauge.analyzers.core.analyzer import FileSystemStateProvider
from tidegauge.analyzers.scan.scan import scan

__all__ = ["data", "exact"]  # fixtures
pytestmark = [
    pytest.mark.spark,
    # Within one Spark, tests/analyzers/measures/test_merging_flights.py merges the same states.
    *([] if "TIDEGAUGE_MATRIX" in os.environ else [pytest.mark.soak]),
]


@pytest.fixture(scope="module")
def places(data, tmp_path_factory):
    """Write the states of two halves; return the folder of each Spark, at least of this one."""
    base = Path(os.environ.get("TIDEGAUGE_MATRIX") or tmp_path_factory.mktemp("states"))
    half = "CAST(dayofmonth(ds) % 2 AS STRING) AS half"
    groups = scan(data.selectExpr("*", half), EVERY, ["half"]).groups
    for (name,), group in groups.items():
        provider = FileSystemStateProvider(base / pyspark.__version__ / name)
        for analyzer in EVERY:
            provider.persist(analyzer, group.states[analyzer].value)
    return sorted(folder for folder in base.iterdir() if folder.is_dir())


def test_halves_from_two_sparks_merge_to_the_whole(places, exact):
    whole, facts = exact
    own = next(folder for folder in places if folder.name == pyspark.__version__)
    for other in places:
        for first, second in ((own / "0", other / "1"), (other / "1", own / "0")):
            a, b = FileSystemStateProvider(first), FileSystemStateProvider(second)
            for analyzer in EVERY:
                merged = a.load(analyzer).combine(b.load(analyzer))
                assert_equal(analyzer, merged, whole[analyzer], facts[analyzer.where])
    print(f"merged with states of Spark {', '.join(folder.name for folder in places)}")
