"""A small replacement of the engine: it counts rows and misses of each window in a repository."""

import json

from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.counts import Size
from tidegauge.analyzers.runs.ledger import MeasuredPartition, Measurement, RunSpec, RunStatus
from tidegauge.analyzers.scan.scan import metric_of, scan
from tidegauge.griffin.config import ConnectorConfig, Env, Job, SourceConfig, StreamStore
from tidegauge.griffin.stream_jobs import run_stream

TOTAL, MISS = Size(), Size(where="missed")
MINUTE = 60_000


def with_misses(source, target):
    """Return the source's rows, each with a flag that no target row is equal in id and name."""
    if target is None:
        return source.selectExpr("*", "false AS missed")
    known = target.selectExpr("id AS i", "name AS n", "true AS hit").distinct()
    joined = source.join(
        known, (source.id.eqNullSafe(known.i)) & (source.name.eqNullSafe(known.n)), "left"
    )
    return joined.selectExpr("id", "name", "__tmst", "hit IS NULL AS missed")


class Counting:
    """Counts total and misses by window, and commits them."""

    def __init__(self, store, dataset="job", source="source", target=None):
        self.store, self.dataset, self.source, self.target = store, dataset, source, target
        self.asked = []

    def __call__(self, frames, prints, now):
        self.asked.append(sorted(int(p.values[0]) for p in prints))
        data = with_misses(frames[self.source], frames.get(self.target))
        found = scan(data, [TOTAL, MISS], ("__tmst",))
        run = self.store.open_run(RunSpec(self.dataset, None, ("__tmst",)))
        measured = []
        for values, group in found.groups.items():
            partition = Partition(("__tmst",), values)
            if partition in prints:
                made = tuple(
                    Measurement(a, group.states[a], metric_of(a, group.states[a]))
                    for a in (TOTAL, MISS)
                )
                measured.append(
                    MeasuredPartition(
                        partition, None, prints[partition], None, "[]", group.rows, made
                    )
                )
        self.store.commit_batch(run, measured)
        self.store.close_run(run, RunStatus.COMPLETE, {"measured": len(measured)})

    def ledger(self):
        return self.store.ledger(self.dataset)


def results(repo, dataset="job"):
    """Return total and miss of each window, by minute."""
    frame = repo.metrics(dataset)
    found = {}
    for row in frame.itertuples():
        window = int(row.partition.partition("=")[2]) / MINUTE
        found.setdefault(window, [0, 0])["missed" in row.analyzer] = int(row.value)
    return {window: tuple(pair) for window, pair in sorted(found.items())}


def versions(repo, dataset="job"):
    """Return the version of each window, by minute."""
    frame = repo.metrics(dataset)
    pairs = zip(frame["partition"], frame["version"], strict=True)
    return {int(name.partition("=")[2]) / MINUTE: version for name, version in pairs}


class Minutes:
    """A streaming job on folders of JSON files, with a clock that tests set, in minutes."""

    def __init__(self, spark, folder, repo, *, target=None, back=5, delay=0, **options):
        self.spark, self.folder, self.repo = spark, folder, repo
        self.names = ("source",) if target != "target" else ("source", "target")
        self.files = 0
        for name in self.names:  # columns are inferred from existing files
            self.send(name, [(0, 0, "first")])
        store = StreamStore(
            ready_interval=MINUTE,
            ready_delay=round(delay * MINUTE),
            time_range=(round(-back * MINUTE), 0),
            time="at",
            **options,
        )
        self.store = store
        self.sources = tuple(
            SourceConfig(
                name,
                (ConnectorConfig("file", {"format": "json", "paths": [str(folder / name)]}),),
                store=store,
            )
            for name in self.names
        )
        self.counting = Counting(repo.store, target=target)
        self.env = Env(checkpoint=str(folder / "kept"))

    def send(self, name, rows):
        """Write rows of (minute, id, name), in any order, to one file."""
        self.files += 1
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        lines = [{"at": round(m * MINUTE), "id": i, "name": n} for m, i, n in rows]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (place / f".{self.files}.json").write_text(text)
        (place / f".{self.files}.json").rename(place / f"{self.files}.json")

    def rounds(self, minute, **options):
        """Yield the reports of the rounds at a time."""
        job = Job("job", streaming=True, sources=self.sources, **options.pop("job", {}))
        self.counting.asked.clear()
        return run_stream(
            job,
            options.pop("env", self.env),
            self.spark,
            self.counting,
            self.counting.ledger,
            now=lambda: round(minute * MINUTE),
            **{"measured": {"source"}, "looked_up": {"target"}, "once": True} | options,
        )

    def run(self, minute, **options):
        """Read new rows and measure the windows that are ready at a time; return these windows by minute."""
        (self.report,) = self.rounds(minute, **options)
        return [window / MINUTE for window in self.report.measured]

    @property
    def results(self):
        return results(self.repo)

    @property
    def versions(self):
        return versions(self.repo)

    def kept(self, name="source"):
        """Return the windows with stored files, by minute."""
        files = (self.folder / "kept" / "job" / name).glob("*/rows/__tmst=*/*.parquet")
        return sorted({int(file.parent.name.partition("=")[2]) / MINUTE for file in files})
