"""Write the databases of the current revision, kept to test that later versions open and upgrade them.

Run it with the code of the revision, before the next revision is added, on an empty PostgreSQL database::

    python tests/data/kept/make.py <output> --postgres postgresql+psycopg://user@host/empty_database

It writes, below the output folder,

``<revision>.db``
    a SQLite database, vacuumed, in WAL mode, complete without a ``-wal`` file; open a copy;
``<revision>.sql``
    the same history in PostgreSQL, from pg_dump, without commands of psql: one string that
    ``connection.execute(text)`` of psycopg takes. It empties ``search_path``; connect anew thereafter;
``artifacts/``
    the states stored outside of the databases: pass it as ``Repository(url, artifacts=...)``. All
    databases share it, since a file is named by its checksum;
``expected.json``
    the answers of that code for each of these (`answers`), the same for both databases.

Some things differ from real life, so that the files are small and the same wherever they are made: a
clock that ticks a second at each look (`Clock`), the host's name (`HOST`) and the process (`DEAD`) of all
runs, and the size from which states are stored outside (`LARGEST`). SQLite has pages of 1 KiB.

What is in them
---------------
``d`` and ``it's ünï`` have the same story (`Story`), of 20 days each: runs with tags, of several
batches; analyzers added later to an old version; partitions restated, once because of their content
alone; one that is gone, one that came back, one without fingerprint, one without rows; metrics that
failed, are empty, NaN and infinite; anomalies, of which some are of old versions and some withdrawn;
a run that failed, one that was interrupted, and one that is still said to be running though its
process, which had stored a batch, is dead. From revision 0002 on: two generations of segments, and
states under a name. ``by country`` is small: partitions in segments that their keys make, and one
without a time.
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
from tidegauge.repository.testing.samples import (
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
"""Above any process id of Linux: a process that is dead everywhere."""
LARGEST = 4 * 1024
"""Larger states lie outside; really it is 256 KiB."""

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


# --- where a machine would show


class Clock:
    """Stands for ``datetime`` in the modules that ask it for now."""

    def __init__(self, now: dt.datetime) -> None:
        self.moment = now

    def now(self, _: dt.tzinfo) -> dt.datetime:
        """Return the time; it is later at each look, and never a whole second."""
        self.moment += dt.timedelta(seconds=1, microseconds=1001)
        return self.moment


@contextmanager
def nowhere(clock: Clock) -> Iterator[None]:
    """Let the old code run at another time, on no host in particular."""
    modules = [f"tidegauge.repository.store.{name}" for name in ("runs", "database", "states")]
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


# --- what was measured


def name(number: int) -> str:
    """Return the name of a day's partition."""
    return day(number).partition.name


def plain(number: int, *args, extra=(), **kwargs) -> MeasuredPartition:
    """Measure a day without the analyzers of frequencies, whose states are large."""
    only = [SIZE, COMPLETE, MEAN, Mean("nope"), *(m.analyzer for m in extra)]
    return day(number, *args, extra=extra, only=only, **kwargs)


def maximum(value: float):
    """A measurement that can be no number."""
    return measurement(Maximum("x"), MaxState(value, 3))


def many(number: int):
    """A state too large for the database: many keys, no two with much in common."""
    keys = [(f"{pow(7919, i + number, 2**61 - 1):015x}",) for i in range(400)]
    return measurement(CountDistinct("k"), FrequenciesAndNumRows.from_groups((k, 1) for k in keys))


def in_segments(number: int, segments: SegmentSet):
    """Measurements of each segment of a day, as many rows as the segment's place."""
    return [
        replace(m, segment=segment, segments=segments)
        for rows, segment in enumerate(segments.names(), 1)
        for m in (
            measurement(SIZE, NumMatches(rows)),
            measurement(MEAN, SumAndCount(float(rows * number), rows)),
        )
    ]


def of_country(date: str | None, country: str, rows: int) -> MeasuredPartition:
    """A partition whose keys make a segment."""
    partition = Partition(("ds", "country"), (date or NULL, country))
    time = None if date is None else dt.datetime.fromisoformat(date).replace(tzinfo=dt.UTC)
    segment = f"country={country}"
    made = plain(1, rows=rows)
    of_all = tuple(replace(m, segment=segment) for m in made.measurements)
    found = replace(made, partition=partition, time=time, measurements=of_all)
    knows = "segment" in {
        field.name for field in fields(MeasuredPartition)
    }  # older: what is measured does
    return replace(found, segment=segment) if knows else found


class Story:
    """What happened to one dataset, step by step, so that those of two datasets can alternate."""

    def __init__(self, repo: Repository, dataset: str, die: Callable[..., None]) -> None:
        self.repo, self.store, self.dataset, self.die = repo, repo.store, dataset, die
        if dataset == "d":
            self.column, self.values = "origin", ("EWR", "JFK", "LGA")
        else:
            self.column, self.values = "größe", ("a/b=50%", NULL, "it's")

    def steps(self) -> list[Callable[[], None]]:
        """Return what happened, in its order."""
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
        """Return what a run of the dataset is about."""
        tags = {"env": "prod", "owner": "tide's crew", "größe": self.dataset}
        options = {"suite": SUITE, "tags": tags, **kwargs}
        return spec(self.dataset, DATASETS[self.dataset], **options)

    @contextmanager
    def run(self, **kwargs) -> Iterator[int]:
        """Open a run and close it."""
        run = self.store.open_run(self.spec(**kwargs))
        yield run
        self.store.close_run(run, RunStatus.COMPLETE, {"measured": 3, "skipped": 1})

    def first_days(self) -> None:
        """Days 1 to 8, in two batches; only two of them with frequencies."""
        with self.run() as run:
            self.store.commit_batch(run, [plain(3), plain(2), plain(1), day(4), plain(5)])
            self.store.commit_batch(run, [plain(6), plain(7, rows=11), day(8, rows=12)])

    def odd_days(self) -> None:
        """Days 9 to 14: none, too many, and no numbers; a state too large on two of them."""
        with self.run(tags={"env": "test"}, selection="since 2013-01-09") as run:
            empty = day(10, rows=0, groups={})
            self.store.commit_batch(run, [plain(9), empty, plain(11, extra=[maximum(math.nan)])])
            batch = [
                plain(12, rows=300, extra=[many(0)]),
                plain(13, extra=[maximum(math.inf), many(0)]),  # the very same file
                plain(14, extra=[maximum(-math.inf), many(200)]),
            ]
            self.store.commit_batch(run, batch)

    def detect(self) -> None:
        """With the suite's monitors: what they do not find any more is withdrawn."""
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
            # Day 1 is measured as a whole: what is there already agrees.
            added = [day(1), *(day(n, only=[UNIQUE, HIST]) for n in (2, 3))]
            self.store.commit_batch(run, added)

    def gone(self) -> None:
        """Days 5 and 7 are no longer there; days 15 and 16, one of them with too many rows."""
        with self.run() as run:
            self.store.mark_gone(run, [name(5), name(7)])
            self.store.commit_batch(run, [plain(15), plain(16, rows=250, total=99.0)])

    def back_and_failed(self) -> None:
        """Day 7 is back, day 4 at version 3; then a run that failed before it stored anything."""
        with self.run() as run:
            self.store.mark_gone(run, [], [name(7)])
            self.store.commit_batch(run, [day(4, "c", rows=25), plain(17)])
        run = self.store.open_run(self.spec())
        error = "TableNotFoundError: no table 'größe'; it's gone"
        self.store.close_run(run, RunStatus.FAILED, {"failed": 1}, error)

    def interrupted(self) -> None:
        """A run whose process dies at once; the next one says so of it."""
        self.die(self.dataset, None)

    def same_files_other_content(self) -> None:
        """Day 6 is another though its fingerprint is not, day 9 is unchanged, day 18 has none."""
        with self.run() as run:
            self.store.commit_batch(run, [plain(6, rows=31), plain(9), plain(18, None)])
            self.store.commit_batch(run, [plain(18, None, rows=11)])

    def segments(self) -> None:
        """Days 19 and 20, and their segments: chosen once, and once more for day 20."""
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
            # Both choices have been measured on day 19 now; one segment is of both.
            self.store.commit_batch(run, [plain(19, extra=in_segments(19, again))])

    def named_states(self) -> None:
        """Two states under a name, one of them stored twice; one lies outside."""
        states = self.repo.states(f"nightly {self.dataset}")
        for rows in (3, 5):
            states.persist(Size(), NumMatches(rows))
        states.persist(CountDistinct("k"), many(200).outcome.value)

    def left_running(self) -> None:
        """Day 2 is restated by a process that dies before it closes its run."""
        self.die(self.dataset, plain(2, "b", rows=22))


def dies(
    url: str, artifacts: str, now: dt.datetime, dataset: str, found: MeasuredPartition | None
) -> None:
    """Begin a run, store what was found, and end without a word."""
    with nowhere(Clock(now)):
        repo = Repository(url, artifacts=artifacts)
        run = repo.store.open_run(Story(repo, dataset, dies).spec())
        if found is not None:
            repo.store.commit_batch(run, [found])
        repo.close()
    os._exit(0)


def write(url: str, artifacts: Path) -> None:
    """Write it all into an empty database."""
    clock = Clock(dt.datetime(2026, 3, 1, 6, tzinfo=dt.UTC))

    def die(dataset: str, found: MeasuredPartition | None) -> None:
        processes = multiprocessing.get_context("spawn")
        args = (url, str(artifacts), clock.moment, dataset, found)
        process = processes.Process(target=dies, args=args)
        process.start()
        process.join()
        assert process.exitcode == 0
        clock.moment += dt.timedelta(minutes=1)

    with nowhere(clock), Repository(url, artifacts=artifacts) as repo:
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


# --- what the code says of it


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
RUN = ("run_id", "dataset", "status", "selection", "measured", "skipped", "failed", "error", "tags")
SUMS = [Size(), COMPLETE, MEAN, UNIQUE, CountDistinct("s"), CountDistinct("k"), Maximum("x")]


def answers(url: str, artifacts: Path) -> dict:
    """Return what a repository answers, as JSON can hold it.

    Numbers that are none are null. Rows are lists, in the order of ``columns``; they are sorted, as
    databases differ in how they order texts. ``metrics``, and ``metrics_as_of`` by run, are places in
    ``metric_rows``, since most rows are the same.
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
    then = {str(run): _rows(repo.metrics(dataset, as_of=run), METRIC) for run in _asked(runs)}
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


def _asked(runs: list[int]) -> list[int]:
    """Return the first run, one in the middle, and one that failed and stored nothing."""
    return [int(runs[i]) for i in (0, 3, 6)] if len(runs) > 6 else []


def _options(dataset: str, runs: list[int]) -> list[dict]:
    """Return for what windows and segments to ask for sums."""
    if dataset == BY_COUNTRY:
        return [{}, {"segment": "country=US"}, {"segment": "country=DE"}]
    options = [
        {},
        {"until": "2013-01-04"},
        {"since": "2013-01-04", "until": "2013-01-12"},
        {"allow_missing": True},
        *({"as_of": run} for run in _asked(runs)[:2]),
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
    """Make a SQLite file small and complete: small pages, no free ones, nothing in a log beside it."""
    connection = sqlite3.connect(file, isolation_level=None)
    pragmas = ["wal_checkpoint(TRUNCATE)", "journal_mode=DELETE", "page_size=1024"]
    for command in [*(f"PRAGMA {p}" for p in pragmas), "VACUUM", "PRAGMA journal_mode=WAL"]:
        connection.execute(command).fetchall()
    connection.close()
    assert not file.with_name(file.name + "-wal").exists()


def dump(url: str, pg_dump: str) -> str:
    """Return a PostgreSQL database as SQL alone."""
    options = ["--no-owner", "--no-privileges", "--inserts"]
    plain = url.replace("postgresql+psycopg://", "postgresql://")
    made = subprocess.run(
        [pg_dump, *options, plain], stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True
    )
    lines = made.stdout.splitlines(keepends=True)
    return "".join(x for x in lines if not x.startswith(("\\restrict", "\\unrestrict")))


def _text(value, margin: str = "\n") -> str:
    """Return JSON with a row on a line, so that differences can be read."""
    inner = margin + " "
    if isinstance(value, dict) and value:
        items = [
            f"{json.dumps(k, ensure_ascii=False)}: {_text(v, inner)}" for k, v in value.items()
        ]
        return "{" + inner + f",{inner}".join(items) + margin + "}"
    if isinstance(value, list) and value and isinstance(value[0], list) and margin.count(" ") < 5:
        return "[" + inner + f",{inner}".join(_text(row, inner) for row in value) + margin + "]"
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Make the files of the revision whose code is on the path."""
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
    expected.write_text(_text(dict(sorted(known.items()))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
