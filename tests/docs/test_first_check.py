"""The six commands of the quick start, as printed: from a folder of Parquet to a failing check."""

import contextlib
import io
import random
import shlex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.docs.pages import assert_printed, blocks_run_by
from tests.docs.test_blocks import lines
from tidegauge.cli.main import run_command

ROWS = 200


def write_day(folder, number, without_id=0):
    """Write the orders of a day of January; some have no id, and every fiftieth has no email."""
    shift = random.Random(number).random()
    ids = [number * 1000 + n if n >= without_id else None for n in range(ROWS)]
    table = pa.table(
        {
            "order_id": pa.array(ids, pa.int64()),
            "customer_id": pa.array([n * 7 % 60 for n in range(ROWS)], pa.int64()),
            "email": [f"c{n}@example.org" if n % 50 else None for n in range(ROWS)],
            # Five amounts a day, so that a sketch that samples at random returns the same quantiles.
            # They are shifted each day: equal days would be reported as stale partitions.
            "amount": [10.0 + 20 * (n % 5) + shift for n in range(ROWS)],
            "channel": [("web", "app", "shop")[n % 3] for n in range(ROWS)],
        }
    )
    path = folder / "data" / "orders" / f"ds=2026-01-{number:02}"
    path.mkdir(parents=True)
    pq.write_table(table, path / "part-0.parquet")


def commands():
    """Return the commands of the section, in order."""
    return [
        shlex.split(line, comments=True)
        for block in blocks_run_by(__file__)
        for line in lines(block.code)
    ]


@pytest.mark.spark
def test_the_six_commands_lead_to_a_failing_check(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TIDEGAUGE_DB", "TIDEGAUGE_ARTIFACTS", "TIDEGAUGE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    for number in range(1, 31):
        write_day(tmp_path, number)
    shown = commands()
    assert len(shown) == 6
    for number, words in enumerate(shown, 1):
        if number == 4:
            write_day(tmp_path, 31, without_id=20)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = run_command(words[1:])
        assert status == (2 if number == 4 else 0), (words, out.getvalue())
        if number == 3:
            assert_printed("first-run", out.getvalue())
        elif number == 4:
            assert_printed("failed-check", out.getvalue())
        elif number == 5:
            assert_printed("first-report", out.getvalue())
