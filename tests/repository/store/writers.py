"""Processes that write: run as `python -m tests.repository.store.writers WHAT URL ARTIFACTS ...`."""

import random
import sys
import time

import tidegauge as tg
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.repository.testing import SIZE, day, spec


def mixed(url, artifacts, seed, transactions, dataset="d"):
    """Save days that others also save, record own numbers, label an anomaly."""
    chance = random.Random(int(seed))
    with tg.Repository(url, artifacts=artifacts) as repository:
        ids = repository.anomalies("labelled")["id"].tolist()
        run = repository.store.open_run(spec(dataset))
        for n in range(int(transactions)):
            kind = n % 4
            if kind == 0:
                repository.label(chance.choice(ids), "acknowledged", note=f"{seed}/{n}", by=seed)
            elif kind == 1:
                repository.record(dataset, f"writer {seed}", float(n), partition="ds=2013-01-01")
            elif kind == 2:
                number = chance.randint(1, 20)
                repository.store.commit_batch(run, [day(number, rows=number)])
            else:
                own = day(100 + int(seed), f"{seed}/{n}", rows=n + 1)
                repository.store.commit_batch(run, [own])
        repository.store.close_run(run, RunStatus.COMPLETE, {})


def endless(url, artifacts, dataset="d"):
    """Save days one after the other until killed; print each commit."""
    with tg.Repository(url, artifacts=artifacts) as repository:
        run = repository.store.open_run(spec(dataset))
        known = repository.store.ledger(dataset)
        for number in range(1, 100_000):
            if day(number, only=[SIZE]).partition.name in known:
                continue
            print("begin", number, flush=True)
            many = [day(number, rows=number)]
            repository.store.commit_batch(run, many)
            print("done", number, flush=True)


def leased(url, artifacts, dataset, wait, seconds):
    """Hold a lease for some seconds; print when it begins and ends."""
    with (
        tg.Repository(url, artifacts=artifacts) as repository,
        repository.store.hold(dataset, float(wait)) as fence,
    ):
        print("held", fence, time.time(), flush=True)
        time.sleep(float(seconds))
        print("left", fence, time.time(), flush=True)


def measure(url, artifacts, dataset, first, last):
    """Measure the new partitions as a run does: with a lease, by the ledger."""
    with (
        tg.Repository(url, artifacts=artifacts) as repository,
        repository.store.hold(dataset, 500) as fence,
    ):
        run = repository.store.open_run(spec(dataset), fence)
        known = repository.store.ledger(dataset)
        for number in range(int(first), int(last)):
            if day(number, only=[SIZE]).partition.name not in known:
                repository.store.commit_batch(run, [day(number, rows=number)])
                print("measured", number, flush=True)
        repository.store.close_run(run, RunStatus.COMPLETE, {})


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
