"""A process whose clock libfaketime sets: `python -m tests.faults.clocked WHAT URL CLOCK`.

CLOCK is the file that libfaketime reads. It holds the offset of the clock in seconds.
"""

import datetime as dt
import sys
import threading
import time
from pathlib import Path

import tidegauge as tg
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.analyzers.runs.recording import recording
from tidegauge.repository.testing import SIZE, day, measurement, spec


def set_clock(file, seconds):
    """Set the clock of all processes that read the file off by a number of seconds."""
    # replaced as a whole, because a reader of half a number would set another time
    whole = Path(file).with_suffix(".new")
    whole.write_text(f"{seconds:+d}")
    whole.rename(file)


def between(url, clock, back):
    """Measure a partition three times: by the true clock, with the clock set back, and by the true clock again."""
    for seconds, fingerprint, rows in ((0, "a", 1), (-int(back), "b", 2), (0, "c", 3)):
        set_clock(clock, seconds)
        with tg.Repository(url, artifacts=Path(clock).parent) as repository:
            with recording(repository.store, spec()) as run:
                run.commit([day(1, fingerprint, rows=rows), day(1 + rows, rows=9)])
            repository.record("d", "y", float(rows), partition="ds=2013-01-01")
            print(dt.datetime.now(dt.UTC).isoformat(), flush=True)


def during(url, clock, back):
    """Measure the new partitions, setting the clock back after every third one."""
    with (
        tg.Repository(url, artifacts=Path(clock).parent) as repository,
        repository.store.hold("d", 500) as fence,
    ):
        run = repository.store.open_run(spec(), fence)
        known = repository.store.ledger("d")
        for number in range(1, 11):
            if day(number, only=[SIZE]).partition.name in known:
                continue
            repository.store.commit_batch(run, [day(number, rows=number)])
            print("measured", number, flush=True)
            if number % 3 == 0:
                set_clock(clock, -int(back) * number)
        repository.store.close_run(run, RunStatus.COMPLETE, {})


def overdue(url, clock, back):
    """Print the overdue partitions at noon of a day, then with the clock set back, then at noon again."""
    true = dt.datetime.now(dt.UTC)
    noon = true.replace(hour=12, minute=0, second=0, microsecond=0)
    days = [noon - dt.timedelta(hours=12, days=n) for n in range(43, 3, -1)]
    with tg.Repository(url, artifacts=Path(clock).parent) as repository:
        for seconds in (0, -int(back), 0):
            set_clock(clock, round((noon - true).total_seconds()) + seconds)
            if not seconds:
                with recording(repository.store, spec()) as run:
                    run.commit([measured_late(one) for one in days])
            repository.detect("d", [tg.Monitor(detector="MissingPartition")])
            calendar = repository.calendar("d")
            reported = repository.anomalies("d")["explanation"].tolist()
            print((calendar["status"] == "missing").sum(), *reported, sep="\t", flush=True)


def measured_late(time):
    """Return a measured day whose data arrived two hours after its end."""
    import dataclasses

    from tidegauge.analyzers.core.partitions import Partition
    from tidegauge.analyzers.measures.counts import NumMatches

    return dataclasses.replace(
        day(1, only=[SIZE]),
        partition=Partition(("ds",), (f"{time:%Y-%m-%d}",)),
        time=time,
        arrived_at=time + dt.timedelta(hours=26),
        measurements=(measurement(SIZE, NumMatches(10)),),
    )


if __name__ == "__main__":
    # libfaketime miscalculates the absolute times that Python sleeps until.
    time.sleep = threading.Event().wait
    globals()[sys.argv[1]](*sys.argv[2:])
