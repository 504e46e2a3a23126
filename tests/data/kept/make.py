"""Write the databases of the current revision, kept to test that later versions open and upgrade them.

Run it with the code of the revision, before the next revision is added, on an empty PostgreSQL
database::

    python tests/data/kept/make.py <output> --postgres postgresql+psycopg://user@host/empty_database

It writes, below the output folder,

``<revision>.db``
    a SQLite database, vacuumed, in WAL mode, complete without a ``-wal`` file; open a copy;
``<revision>.sql``
    the same history in PostgreSQL, from pg_dump without commands of psql: one string for
    ``connection.execute(string)`` of psycopg. It empties ``search_path``, so reconnect afterwards;
``artifacts/``
    the states stored outside of the databases: pass it as ``Repository(url, artifacts=...)``. All
    databases share it, since a file is named by its checksum;
``expected.json``
    the results of that code for each of these (`answers`), the same for both databases.

To keep the files small and reproducible, some values are artificial: a clock that advances by a
second at each reading (`Clock`), the host's name (`HOST`) and the process (`DEAD`) of all runs,
and the size from which states are stored outside (`LARGEST`). SQLite has pages of 1 KiB.

Content
-------
``d`` and ``it's ünï`` have the same story (`Story`) of 20 days each. It contains runs with tags
and several batches, and analyzers added later to an old version. Partitions are restated, once
because of their content alone; others are removed, return, have no fingerprint, or no rows.
Metrics failed, are empty, NaN and infinite. Some anomalies are of old versions, and some are
withdrawn. One run failed, another was interrupted, and a third is still recorded as running
although its process, which had stored a batch, is dead. From revision 0002 on there are two
generations of segments, and states under a name. ``by country`` is small: partitions in segments
of their keys, and one partition without a time.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import math
import multiprocessing
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from unittest import mock

from tidegauge.analyzers.core.errors import TidegaugeError
from tidegauge.analyzers.core.partitions import NULL, Partition, SegmentSet
from tidegauge.analyzers.measures.counts import NumMatches, Size
from tidegauge.analyzers.measures.extremes import Maximum, MaxState
from tidegauge.analyzers.measures.frequencies import CountDistinct, FrequenciesAndNumRows
from tidegauge.analyzers.measures.moments import Mean, SumAndCount
from tidegauge.analyzers.runs.ledger import MeasuredPartition, RunSpec, RunStatus
from tidegauge.repository.maintenance.integrity import find_problems
from tidegauge.repository.repository import Repository
from tidegauge.repository.store.database import head_revision
from tidegauge.repository.testing import (
    COMPLETE,
    HIST,
    MEAN,
    SIZE,
    UNIQUE,
    day,
    measurement,
    spec,
)

DATASETS = {"d": "db.t", "it's ünï": "db.`ünï't`"}
BY_COUNTRY = "by country"
HOST = "host.example"
DEAD = 2**22 + 1
"""Above any process id of Linux, so that the process is dead on every host."""
LARGEST = 4 * 1024
"""States above this size in bytes are stored outside of the database; the real limit is 256 KiB."""

REVISION = head_revision()

SUITE = json.dumps(
    {
        "monitors": [
            {
                "series": {"name": "Size"},
                "detector": "SimpleThreshold(100.0, lower_bound=1.0)",
                "severity": "error",
            },
            {"series": {"name": "Mean", "instance": "x"}, "detector": "OnlineNormal(1.5, 1.5)"},
        ]
    }
)


# --- replaced properties of the machine


class Clock:
    """Replaces ``datetime`` in the modules that read the time."""

    def __init__(self, now: dt.datetime) -> None:
        self.moment = now

    def now(self, _: dt.tzinfo) -> dt.datetime:
        """Return the time; it advances with each reading, and is never a whole second."""
        self.moment += dt.timedelta(seconds=1, microseconds=1001)
        return self.moment


@contextmanager
def anonymous_host(clock: Clock) -> Iterator[None]:
    """Run the old code at an artificial time and on an artificial host."""
    modules = [
        f"tidegauge.repository.store.{name}" for name in ("runs", "database", "stored_states")
    ]
    patches = [mock.patch(f"{module}.datetime", clock) for module in modules]
    patches += [
        mock.patch("socket.gethostname", return_value=HOST),
        mock.patch("os.getpid", return_value=DEAD),
        mock.patch("tidegauge.repository.store.stored_states.MAX_DATABASE_BYTES", LARGEST),
    ]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


# --- measurements


def name(number: int) -> str:
    """Return the name of a day's partition."""
    return day(number).partition.name


def plain(number: int, *args, extra=(), **kwargs) -> MeasuredPartition:
    """Measure a day without the analyzers of frequencies, whose states are large."""
    only = [SIZE, COMPLETE, MEAN, Mean("nope"), *(m.analyzer for m in extra)]
    return day(number, *args, extra=extra, only=only, **kwargs)


def maximum(value: float):
    """Return a measurement of a value that may be NaN or infinite."""
    return measurement(Maximum("x"), MaxState(value, 3))


def large_state(number: int):
    """Return a state too large for the database: many keys with little in common."""
    keys = [(f"{pow(7919, i + number, 2**61 - 1):015x}",) for i in range(400)]
    return measurement(CountDistinct("k"), FrequenciesAndNumRows.from_groups((k, 1) for k in keys))


def in_segments(number: int, segments: SegmentSet):
    """Return measurements of each segment of a day, with as many rows as the position of the segment."""
    return [
        replace(m, segment=segment, segments=segments)
        for rows, segment in enumerate(segments.names(), 1)
        for m in (
            measurement(SIZE, NumMatches(rows)),
            measurement(MEAN, SumAndCount(float(rows * number), rows)),
        )
    ]


def of_country(date: str | None, country: str, rows: int) -> MeasuredPartition:
    """Return a partition whose keys are a segment."""
    partition = Partition(("ds", "country"), (date or NULL, country))
    time = None if date is None else dt.datetime.fromisoformat(date).replace(tzinfo=dt.UTC)
    segment = f"country={country}"
    made = plain(1, rows=rows)
    of_all = tuple(replace(m, segment=segment) for m in made.measurements)
    found = replace(made, partition=partition, time=time, measurements=of_all)
    knows = "segment" in {
        field.name for field in fields(MeasuredPartition)
    }  # older revisions: the measurements contain it
    return replace(found, segment=segment) if knows else found


class Story:
    """The history of one dataset, step by step, so that the steps of two datasets can alternate."""

    def __init__(self, repo: Repository, dataset: str, die: Callable[..., None]) -> None:
        self.repo, self.store, self.dataset, self.die = repo, repo.store, dataset, die
        if dataset == "d":
            self.column, self.values = "origin", ("EWR", "JFK", "LGA")
        else:
            self.column, self.values = "größe", ("a/b=50%", NULL, "it's")

    def steps(self) -> list[Callable[[], None]]:
        """Return all steps in order."""
        return [
            self.first_days,
            self.odd_days,
            self.detect,
            self.restated_and_added,
            self.detect,
            self.gone,
            self.back_and_failed,
            self.interrupted,
            self.same_files_other_content,
            self.segments,
            self.detect,
            self.named_states,
            self.left_running,
        ]

    def spec(self, **kwargs) -> RunSpec:
        """Return the description of a run of the dataset."""
        tags = {"env": "prod", "owner": "tide's crew", "größe": self.dataset}
        options = {"suite": SUITE, "tags": tags, **kwargs}
        return spec(self.dataset, DATASETS[self.dataset], **options)

    @contextmanager
    def run(self, **kwargs) -> Iterator[int]:
        """Open a run and close it."""
        run = self.store.open_run(self.spec(**kwargs))
        yield run
        routes = {"metadata": 1, "Spark SQL": 2}
        counts = {"measured": 3, "skipped": 1}
        self.store.close_run(run, RunStatus.COMPLETE, counts, routes=routes)

    def first_days(self) -> None:
        """Days 1 to 8, in two batches; only two of them with frequencies."""
        with self.run() as run:
            self.store.commit_batch(run, [plain(3), plain(2), plain(1), day(4), plain(5)])
            self.store.commit_batch(run, [plain(6), plain(7, rows=11), day(8, rows=12)])

    def odd_days(self) -> None:
        """Days 9 to 14: no rows, many rows, NaN and infinite; a very large state on two of them."""
        with self.run(tags={"env": "test"}, selection="since 2013-01-09") as run:
            empty = day(10, rows=0, groups={})
            self.store.commit_batch(run, [plain(9), empty, plain(11, extra=[maximum(math.nan)])])
            batch = [
                plain(12, rows=300, extra=[large_state(0)]),
                plain(13, extra=[maximum(math.inf), large_state(0)]),  # an identical file
                plain(14, extra=[maximum(-math.inf), large_state(200)]),
            ]
            self.store.commit_batch(run, batch)

    def detect(self) -> None:
        """Detect with the suite's monitors; anomalies that they no longer find are withdrawn."""
        self.repo.detect(self.dataset)

    def restated_and_added(self) -> None:
        """Versions 2 of days 4, 8 and 12; more analyzers for version 1 of days 1 to 3."""
        with self.run() as run:
            batch = [
                day(4, "b", rows=20),
                day(8, "b", groups={("a",): 10}),
                plain(12, "b", rows=12),
            ]
            self.store.commit_batch(run, batch)
        with self.run(tags={}) as run:
            # Day 1 is measured completely: the stored metrics are equal.
            added = [day(1), *(day(n, only=[UNIQUE, HIST]) for n in (2, 3))]
            self.store.commit_batch(run, added)

    def gone(self) -> None:
        """Days 5 and 7 no longer exist; days 15 and 16 are new, one of them with too many rows."""
        with self.run() as run:
            self.store.mark_gone(run, [name(5), name(7)])
            self.store.commit_batch(run, [plain(15), plain(16, rows=250, total=99.0)])

    def back_and_failed(self) -> None:
        """Day 7 returns, day 4 has version 3; then a run fails before it stores anything."""
        with self.run() as run:
            self.store.mark_gone(run, [], [name(7)])
            self.store.commit_batch(run, [day(4, "c", rows=25), plain(17)])
        run = self.store.open_run(self.spec())
        error = "TableNotFoundError: no table 'größe'; it's gone"
        self.store.close_run(run, RunStatus.FAILED, {"failed": 1}, error)

    def interrupted(self) -> None:
        """A run whose process dies at once; the next run marks it as interrupted."""
        self.die(self.dataset, None)

    def same_files_other_content(self) -> None:
        """Day 6 changed although its fingerprint did not, day 9 is unchanged, day 18 has no fingerprint."""
        with self.run() as run:
            self.store.commit_batch(run, [plain(6, rows=31), plain(9), plain(18, None)])
            self.store.commit_batch(run, [plain(18, None, rows=11)])

    def segments(self) -> None:
        """Days 19 and 20, and their segments: chosen once, and again for day 20."""
        with self.run() as run:
            one, two, three = self.values
            chosen = SegmentSet((self.column,), ((one,), (two,)))
            pairs = SegmentSet((self.column, "hr"), ((one, "7"),))
            again = SegmentSet((self.column,), ((one,), (three,)), generation=2)
            self.store.keep_segments(run, [chosen, pairs])
            extra = in_segments(19, chosen) + in_segments(19, pairs)
            self.store.commit_batch(run, [plain(19, extra=extra)])
            self.store.keep_segments(run, [again])
            self.store.commit_batch(run, [plain(20, extra=in_segments(20, again))])
            # Both choices have been measured on day 19 now; one segment is in both.
            self.store.commit_batch(run, [plain(19, extra=in_segments(19, again))])

    def named_states(self) -> None:
        """Two states under a name, one of them stored twice; one is stored outside."""
        states = self.repo.states(f"nightly {self.dataset}")
        for rows in (3, 5):
            states.persist(Size(), NumMatches(rows))
        states.persist(CountDistinct("k"), large_state(200).outcome.value)

    def left_running(self) -> None:
        """Day 2 is restated by a process that dies before it closes its run."""
        self.die(self.dataset, plain(2, "b", rows=22))


def die_in_run(
    url: str, artifacts: str, now: dt.datetime, dataset: str, found: MeasuredPartition | None
) -> None:
    """Begin a run, store the measurements, and exit without closing the run."""
    with anonymous_host(Clock(now)):
        repo = Repository(url, artifacts=artifacts)
        run = repo.store.open_run(Story(repo, dataset, die_in_run).spec())
        if found is not None:
            repo.store.commit_batch(run, [found])
        repo.close()
    os._exit(0)


def write(url: str, artifacts: Path) -> None:
    """Write the whole content into an empty database."""
    clock = Clock(dt.datetime(2026, 3, 1, 6, tzinfo=dt.UTC))

    def die(dataset: str, found: MeasuredPartition | None) -> None:
        processes = multiprocessing.get_context("spawn")
        args = (url, str(artifacts), clock.moment, dataset, found)
        process = processes.Process(target=die_in_run, args=args)
        process.start()
        process.join()
        assert process.exitcode == 0
        clock.moment += dt.timedelta(minutes=1)

    with anonymous_host(clock), Repository(url, artifacts=artifacts) as repo:
        stories = [Story(repo, dataset, die).steps() for dataset in DATASETS]
        for step in itertools.chain.from_iterable(zip(*stories, strict=True)):
            step()
        run = repo.store.open_run(RunSpec(BY_COUNTRY, None, ("ds", "country")))
        batch = [
            of_country("2013-01-01", "US", 7),
            of_country("2013-01-01", "DE", 5),
            of_country("2013-01-02", "US", 6),
            of_country(None, "DE", 2),
        ]
        repo.store.commit_batch(run, batch)
        repo.store.close_run(run, RunStatus.COMPLETE, {"measured": 4})


# --- results of the code


METRIC = (
    "segment",
    "partition",
    "entity",
    "name",
    "instance",
    "value",
    "status",
    "weight",
    "error",
)
METRIC += ("version", "run_id", "analyzer")
PARTITION = ("partition", "segment", "version", "rows", "fingerprint", "run_id")
ANOMALY = ("id", "segment", "partition", "name", "instance", "analyzer", "value", "version")
ANOMALY += ("score", "lower", "upper", "direction", "detector", "severity", "status", "explanation")
SCORE = (
    "segment",
    "partition",
    "name",
    "instance",
    "detector",
    "score",
    "lower",
    "upper",
    "version",
)
RUN = (
    "run_id",
    "dataset",
    "status",
    "selection",
    "measured",
    "skipped",
    "failed",
    "error",
    "tags",
    "routes",
)
SUMS = [Size(), COMPLETE, MEAN, UNIQUE, CountDistinct("s"), CountDistinct("k"), Maximum("x")]


def answers(url: str, artifacts: Path) -> dict:
    """Return the results of a repository as JSON values.

    NaN and infinite numbers are null. Rows are lists, in the order of ``columns``; they are sorted,
    because databases order strings differently. ``metrics``, and ``metrics_as_of`` by run, are
    indices of ``metric_rows``, since most rows are equal.
    """
    with Repository(url, artifacts=artifacts) as repo:
        with repo.database.read() as connection:
            assert find_problems(connection, repo.artifacts) == []
        columns = {"metrics": METRIC, "partitions": (*PARTITION, "gone", "time")}
        columns |= {"anomalies": ANOMALY, "scores": SCORE, "runs": RUN}
        return {
            "revision": repo.database.revision(),
            "columns": {of: list(names) for of, names in columns.items()},
            "runs": _rows(repo.runs(), RUN),
            "datasets": {dataset: _of_dataset(repo, dataset) for dataset in repo.datasets()},
            "states": _named(repo),
        }


def _of_dataset(repo: Repository, dataset: str) -> dict:
    frame = repo.partitions(dataset)
    frame["gone"] = frame["gone_at"].notna()
    frame["time"] = [None if t is None or t != t else t.isoformat() for t in frame["time"]]
    runs = sorted(repo.runs(dataset)["run_id"])
    now = _rows(repo.metrics(dataset), METRIC)
    then = {
        str(run): _rows(repo.metrics(dataset, as_of=run), METRIC) for run in _selected_runs(runs)
    }
    unique = {json.dumps(row): row for rows in (now, *then.values()) for row in rows}
    place = {text: i for i, text in enumerate(sorted(unique))}
    found = {
        "metric_rows": [unique[text] for text in sorted(unique)],
        "metrics": [place[json.dumps(row)] for row in now],
        "metrics_as_of": {run: [place[json.dumps(r)] for r in rows] for run, rows in then.items()},
        "partitions": _rows(frame, (*PARTITION, "gone", "time")),
        "anomalies": _rows(repo.anomalies(dataset), ANOMALY),
        "scores": _rows(repo.scores(dataset), SCORE),
        "merged": [
            {"analyzer": repr(asked), "options": options, **_merged(repo, dataset, asked, options)}
            for options in _options(dataset, runs)
            for asked in SUMS
        ],
    }
    sets = [of for _, of in sorted(repo.store.segment_sets(dataset).items())]
    found["segment_sets"] = [
        {"columns": of.columns, "kept": of.kept, "generation": of.generation} for of in sets
    ]
    return found


def _selected_runs(runs: list[int]) -> list[int]:
    """Return the first run, one from the middle, and the failed run that stored nothing."""
    return [int(runs[i]) for i in (0, 3, 6)] if len(runs) > 6 else []


def _options(dataset: str, runs: list[int]) -> list[dict]:
    """Return the windows and segments whose merged metrics are requested."""
    if dataset == BY_COUNTRY:
        return [{}, {"segment": "country=US"}, {"segment": "country=DE"}]
    options = [
        {},
        {"until": "2013-01-04"},
        {"since": "2013-01-04", "until": "2013-01-12"},
        {"allow_missing": True},
        *({"as_of": run} for run in _selected_runs(runs)[:2]),
    ]
    column, value = ("origin", "EWR") if dataset == "d" else ("größe", "a%2Fb%3D50%25")
    options += [
        {"segment": f"{column}={value}", "since": "2013-01-19"},
        {"segment": f"{column}=__other__", "since": "2013-01-19", "until": "2013-01-19"},
    ]
    return options


def _merged(repo: Repository, dataset: str, analyzer, options: dict) -> dict:
    try:
        metric = repo.merge(dataset, analyzer, **options)
    except TidegaugeError as error:
        return {"error": type(error).__name__}
    try:
        return {"value": _plain(metric.value), "weight": _plain(metric.weight)}
    except TidegaugeError as error:  # an empty one has no value
        return {"empty": metric.empty, "error": type(error).__name__}


def _named(repo: Repository) -> dict:
    asked = (Size(), CountDistinct("k"))
    names = [f"nightly {dataset}" for dataset in DATASETS]
    return {
        name: {repr(a): a.load_state_and_compute_metric(repo.states(name)).value for a in asked}
        for name in names
    }


def _rows(frame, columns: tuple[str, ...]) -> list[list]:
    rows = zip(*(frame[column].tolist() for column in columns), strict=True)
    return sorted(([_plain(value) for value in row] for row in rows), key=json.dumps)


def _plain(value):
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- files


def pack(file: Path) -> None:
    """Make a SQLite file small and complete, with small pages, no free pages, and nothing in a log file."""
    connection = sqlite3.connect(file, isolation_level=None)
    pragmas = ["wal_checkpoint(TRUNCATE)", "journal_mode=DELETE", "page_size=1024"]
    for command in [*(f"PRAGMA {p}" for p in pragmas), "VACUUM", "PRAGMA journal_mode=WAL"]:
        connection.execute(command).fetchall()
    connection.close()
    assert not file.with_name(file.name + "-wal").exists()


def dump(url: str, pg_dump: str) -> str:
    """Return a PostgreSQL database as pure SQL."""
    options = ["--no-owner", "--no-privileges", "--inserts"]
    plain = url.replace("postgresql+psycopg://", "postgresql://")
    made = subprocess.run(
        [pg_dump, *options, plain], stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True
    )
    lines = made.stdout.splitlines(keepends=True)
    return "".join(x for x in lines if not x.startswith(("\\restrict", "\\unrestrict")))


def _to_json(value, margin: str = "\n") -> str:
    """Return JSON with a row on each line, so that differences are readable."""
    inner = margin + " "
    if isinstance(value, dict) and value:
        items = [
            f"{json.dumps(k, ensure_ascii=False)}: {_to_json(v, inner)}" for k, v in value.items()
        ]
        return "{" + inner + f",{inner}".join(items) + margin + "}"
    if isinstance(value, list) and value and isinstance(value[0], list) and margin.count(" ") < 5:
        return "[" + inner + f",{inner}".join(_to_json(row, inner) for row in value) + margin + "]"
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Write the files of the revision of the installed code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--name", default=REVISION, help="of the files; the revision if not given")
    parser.add_argument("--postgres", help="the URL of an empty database; without, no .sql is made")
    parser.add_argument("--pg-dump", default="pg_dump", help="where it is, if not on the path")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    artifacts = args.output / "artifacts"

    file = args.output / f"{args.name}.db"
    file.unlink(missing_ok=True)
    write(f"sqlite:///{file}", artifacts)
    found = json.loads(json.dumps(answers(f"sqlite:///{file}", artifacts)))
    pack(file)
    assert json.loads(json.dumps(answers(f"sqlite:///{file}", artifacts))) == found
    if args.postgres:
        write(args.postgres, artifacts)
        assert json.loads(json.dumps(answers(args.postgres, artifacts))) == found
        script = args.output / f"{args.name}.sql"
        script.write_text(dump(args.postgres, args.pg_dump), encoding="utf-8")

    expected = args.output / "expected.json"
    known = json.loads(expected.read_text(encoding="utf-8")) if expected.exists() else {}
    known[args.name] = found
    expected.write_text(_to_json(dict(sorted(known.items()))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
