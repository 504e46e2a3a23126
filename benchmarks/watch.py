"""Watch a generated lakehouse with planted faults: time, memory, bytes, recall and false incidents.

The lakehouse has daily tables of Parquet files, Delta tables and Iceberg tables, of 10 to `--partitions` days. A third of
the tables with at least `MIN_DAYS_BEFORE_FAULT` days has one fault in the last two weeks: a late, empty or half day, a
burst of nulls, a dropped column, a changed type, or no data since some days. In addition, `--together` tables are late on
the newest day. The first watch measures all tables and detects; before the next, a tenth of the tables changes.

A fault is found if an incident of its table covers its day. Other incidents are false.

With `--sql N`, the first N tables of Parquet files are also measured as a user of SQL would: one aggregation on Spark for each
table, with the rows, the share of nulls of each column and the newest time of each day, of the same days as the first watch
and then of the newest day. The same tables are watched again in an empty repository. Without detection and without Spark's
start. Its CPU seconds and bytes are those of its processes; the metrics of Spark's tasks count fewer bytes, because they leave
out footers and reads of several ranges at once.

    python benchmarks/watch.py [--tables 100] [--partitions 400] [--together 8] [--jobs 1] [--seed 0] [--sql N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from urllib.request import urlopen

# The folder of this script contains a script named like one of our packages.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

FAULTS = ("late", "empty", "half", "nulls", "dropped", "typed", "stopped")
FAULTS_OF_LOGS = tuple(fault for fault in FAULTS if fault not in {"dropped", "typed"})
"""The current columns of a log are the columns of all its days, so the first watch cannot show earlier ones."""
FAULT_SHARE = 1 / 3
MIN_DAYS_BEFORE_FAULT = 28
LAST_DAYS = 14
"""Faults are in the last days of a table."""
FORMATS = {"parquet": 0.7, "delta": 0.2, "iceberg": 0.1}
MAX_ICEBERG_DAYS = 60
"""Iceberg's snapshots take longest to generate."""
CHANGED_SHARE = 0.1
USUAL_DELAY_HOURS = 2.0


@dataclass(frozen=True)
class Plan:
    """A table to generate: its format, days, and the fault in one of them."""

    name: str
    format: str
    days: int
    seed: int
    fault: str = ""
    fault_days_back: int = 0


def plan_lakehouse(tables: int, partitions: int, together: int, seed: int) -> list[Plan]:
    """Choose the tables and their faults."""
    rng = np.random.default_rng(seed)
    plans = []
    for i in range(tables):
        format = str(rng.choice(list(FORMATS), p=list(FORMATS.values())))
        days = int(np.exp(rng.uniform(np.log(10), np.log(partitions))))
        days = min(days, MAX_ICEBERG_DAYS) if format == "iceberg" else days
        fault, back = "", 0
        if days >= MIN_DAYS_BEFORE_FAULT + LAST_DAYS and rng.random() < FAULT_SHARE:
            kinds = FAULTS if format == "parquet" else FAULTS_OF_LOGS
            fault = kinds[int(rng.integers(len(kinds)))]
            back = (
                int(rng.integers(5, LAST_DAYS))
                if fault == "stopped"
                else int(rng.integers(1, LAST_DAYS))
            )
        plans.append(Plan(f"db{i % 20}/t{i}", format, days, int(rng.integers(2**31)), fault, back))
    sound = [i for i, p in enumerate(plans) if not p.fault and p.days >= MIN_DAYS_BEFORE_FAULT]
    for i in sound[:together]:
        plans[i] = Plan(**{**asdict(plans[i]), "fault": "late together", "fault_days_back": 1})
    return plans


@dataclass
class Day:
    """The rows and the arrival of one day of a table."""

    date: datetime
    rows: pa.Table
    arrived: datetime


def days_of(plan: Plan, today: datetime) -> list[Day]:
    """Return the days of a table, with its fault."""
    rng = np.random.default_rng(plan.seed)
    base, noise = rng.uniform(100, 1500), rng.uniform(0.01, 0.08)
    weekly = 1 + rng.uniform(0, 0.4) * rng.standard_normal(7)
    nulls, trend = rng.uniform(0, 0.05), rng.uniform(-0.0005, 0.001)
    skips_weekends = rng.random() < 0.1
    days, next_id = [], 0
    for back in range(plan.days, 0, -1):
        date = today - timedelta(days=back)
        fault = plan.fault if back == plan.fault_days_back else ""
        if (plan.fault == "stopped" and back < plan.fault_days_back) or (
            skips_weekends and date.weekday() >= 5 and not fault
        ):
            continue
        level = base * abs(weekly[date.weekday()]) * (1 + trend * (plan.days - back))
        count = max(int(level * np.exp(noise * rng.standard_normal())), 5)
        count = {"half": count // 2, "empty": 0}.get(fault, count)
        share = 0.4 if fault == "nulls" else nulls
        rows = _rows(rng, date, count, share, next_id)
        next_id += count
        if plan.fault == "dropped" and back <= plan.fault_days_back:
            rows = rows.drop_columns("flag")
        if plan.fault == "typed" and back <= plan.fault_days_back:
            rows = rows.set_column(2, "quantity", rows["quantity"].cast(pa.string()))
        delay = USUAL_DELAY_HOURS * np.exp(0.1 * rng.standard_normal())
        delay += rng.uniform(8, 14) if "late" in fault else 0
        days.append(Day(date, rows, date + timedelta(hours=24 + delay)))
    return days


def _rows(
    rng: np.random.Generator, date: datetime, count: int, nulls: float, first_id: int
) -> pa.Table:
    start = np.datetime64(date.replace(tzinfo=None), "us")
    seconds = rng.integers(0, 86400, count).astype("m8[s]").astype("m8[us]")
    mask = rng.random(count) < nulls
    return pa.table(
        {
            "id": np.arange(first_id, first_id + count),
            "amount": rng.lognormal(3, 1, count),
            "quantity": rng.integers(1, 50, count),
            "email": pa.array(np.full(count, "a@b.c"), mask=mask),
            "country": pa.array(np.where(rng.random(count) < 0.7, "DE", "FR")),
            "flag": rng.random(count) < 0.5,
            "price": rng.random(count).round(2),
            "at": pa.array(start + seconds, pa.timestamp("us", "UTC")),
        }
    )


def generate(plan: Plan, folder: Path, today: datetime) -> None:
    """Write a table."""
    writer = {"parquet": write_parquet, "delta": write_delta, "iceberg": write_iceberg}
    writer[plan.format](folder / plan.name, days_of(plan, today))


def write_parquet(folder: Path, days: list[Day]) -> None:
    """Write folders `ds=...` of Parquet files."""
    for day in days:
        file = folder / f"ds={day.date:%Y-%m-%d}" / "part-0.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(day.rows, file)
        os.utime(file, (day.arrived.timestamp(),) * 2)


def write_delta(folder: Path, days: list[Day]) -> None:
    """Write a Delta table with a commit for each day."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    schema = None
    for version, day in enumerate(days):
        milliseconds = int(day.arrived.timestamp() * 1000)
        inner = f"ds={day.date:%Y-%m-%d}/part-{version}.parquet"
        (folder / inner).parent.mkdir()
        pq.write_table(day.rows, folder / inner)
        actions: list[dict[str, object]] = [
            {"commitInfo": {"timestamp": milliseconds, "operation": "WRITE"}}
        ]
        if not version:
            actions.append({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
        if day.rows.schema != schema:
            schema = day.rows.schema
            actions.append({"metaData": _delta_metadata(schema)})
        actions.append(
            {
                "add": {
                    "path": inner,
                    "partitionValues": {"ds": f"{day.date:%Y-%m-%d}"},
                    "size": (folder / inner).stat().st_size,
                    "modificationTime": milliseconds,
                    "dataChange": True,
                    "stats": json.dumps(_delta_statistics(day.rows)),
                }
            }
        )
        commit = log / f"{version:020}.json"
        commit.write_text("\n".join(map(json.dumps, actions)))
        os.utime(commit, (day.arrived.timestamp(),) * 2)


_DELTA_TYPES = {"int64": "long", "bool": "boolean", "timestamp[us, tz=UTC]": "timestamp"}


def _delta_metadata(schema: pa.Schema) -> dict[str, object]:
    columns = [(field.name, _DELTA_TYPES.get(str(field.type), str(field.type))) for field in schema]
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in [*columns, ("ds", "string")]
    ]
    return {
        "id": "7d5f3a5e-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["ds"],
        "configuration": {},
        "createdTime": 0,
    }


def _delta_statistics(rows: pa.Table) -> dict[str, object]:
    statistics: dict[str, object] = {
        "numRecords": len(rows),
        "nullCount": {name: rows[name].null_count for name in rows.column_names},
    }
    numbers = [n for n in ("id", "quantity") if n in rows.column_names and len(rows)]
    numbers = [n for n in numbers if pa.types.is_integer(rows.schema.field(n).type)]
    statistics["minValues"] = {n: min(rows[n].to_pylist()) for n in numbers}
    statistics["maxValues"] = {n: max(rows[n].to_pylist()) for n in numbers}
    return statistics


def write_iceberg(folder: Path, days: list[Day]) -> None:
    """Write an Iceberg table with a snapshot for each day, and set the times of the snapshots."""
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("bench", warehouse=f"file://{folder.parent.parent}")
    catalog.create_namespace(folder.parent.name)
    days = [_with_day(day) for day in days]
    table = catalog.create_table(
        (folder.parent.name, folder.name), schema=days[0].rows.schema, location=f"file://{folder}"
    )
    with table.update_spec() as spec:
        spec.add_identity("ds")
    times = {}
    for day in days:
        if day.rows.schema != table.schema().as_arrow():
            with table.update_schema(allow_incompatible_changes=True) as change:
                for name in set(table.schema().column_names) - set(day.rows.column_names):
                    change.delete_column(name)
        table.append(day.rows)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        times[snapshot.snapshot_id] = int(day.arrived.timestamp() * 1000)
    file = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(file.read_text())
    for snapshot in (*metadata["snapshots"], *metadata["snapshot-log"]):
        snapshot["timestamp-ms"] = times.get(snapshot["snapshot-id"], snapshot["timestamp-ms"])
    file.write_text(json.dumps(metadata))
    os.utime(file, (days[-1].arrived.timestamp(),) * 2)


def _with_day(day: Day) -> Day:
    texts = pa.array([f"{day.date:%Y-%m-%d}"] * len(day.rows), pa.string())
    return Day(day.date, day.rows.append_column("ds", texts), day.arrived)


def _generate(task: tuple[Plan, Path, datetime]) -> None:
    generate(*task)


def change_some(plans: list[Plan], folder: Path, seed: int) -> int:
    """Rewrite the newest file of a tenth of the tables with a later time; return their number."""
    rng = np.random.default_rng(seed + 1)
    chosen = [p for p in plans if p.format == "parquet" and p.fault != "stopped"]
    count = min(round(CHANGED_SHARE * len(plans)), len(chosen))
    for i in rng.choice(len(chosen), count, replace=False):
        file = max((folder / chosen[i].name).glob("ds=*/*.parquet"))
        later = file.stat().st_mtime + 60
        pq.write_table(pq.read_table(file, partitioning=None).slice(1), file)
        os.utime(file, (later, later))
    return count


def usage() -> dict[str, float]:
    """Return the seconds, CPU seconds, and MB read by this process so far."""
    used = os.times()
    read = 0
    statistics = Path("/proc/self/io")
    if statistics.exists():
        read = int(statistics.read_text().split()[1])
    cpu = used.user + used.system + used.children_user + used.children_system
    return {"seconds": time.perf_counter(), "cpu": cpu, "MB read": read / 1e6}


def measured(work) -> tuple[object, dict[str, float]]:
    """Return the result of some work and what it used."""
    before = usage()
    result = work()
    after = usage()
    return result, {name: round(after[name] - before[name], 2) for name in after}


def changed_tables(result) -> int:
    """Return the number of tables that a watch measured."""
    return sum(table.run is not None for table in result.tables)


class SqlMonitors:
    """One SQL aggregation on Spark for each table, as in the monitors of dbt packages."""

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        options = {
            "spark.ui.port": "0",
            "spark.ui.showConsoleProgress": "false",
            "spark.ui.retainedStages": "1000000",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
        }
        builder = SparkSession.builder.master("local[2]")
        for name, value in options.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.spark.range(10).count()

    def measure(self, folder: Path, newest: int) -> int:
        """Measure the newest days of a table; return their number."""
        frame = self.spark.read.parquet(str(folder))
        columns = [name for name in frame.columns if name != "ds"]
        frame.createOrReplaceTempView("measured")
        nulls = ", ".join(f"count_if({name} IS NULL) / count(*) AS {name}" for name in columns)
        days = sorted(path.name.removeprefix("ds=") for path in folder.glob("ds=*"))[-newest:]
        query = (
            f"SELECT ds, count(*) AS size, {nulls}, max(at) AS newest FROM measured"
            f" WHERE ds >= '{days[0]}' GROUP BY ds"
        )
        return len(self.spark.sql(query).collect())

    def usage(self) -> dict[str, float]:
        """Return the CPU seconds and the MB read by Spark's processes, and the MB in the metrics of its tasks."""
        context = self.spark.sparkContext
        url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
        with urlopen(url) as answer:
            stages = json.load(answer)
        ticks = read = 0
        for process in _processes_below(os.getpid()):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
            read += int(Path(f"/proc/{process}/io").read_text().split()[1])
        return {
            "cpu": ticks / os.sysconf("SC_CLK_TCK"),
            "MB read": read / 1e6,
            "MB in task metrics": sum(stage["inputBytes"] for stage in stages) / 1e6,
        }

    def measured(self, folders: list[Path], newest: int) -> dict[str, float]:
        """Measure tables, and return the seconds, CPU seconds and MB read, and the numbers of days and failures."""
        before, began, days, failed = self.usage(), time.perf_counter(), 0, 0
        for folder in folders:
            try:
                days += self.measure(folder, newest)
            except Exception:  # noqa: BLE001 - a table whose column has changed its type
                failed += 1
        seconds = time.perf_counter() - began
        after = self.usage()
        used = {name: round(after[name] - before[name], 2) for name in after}
        return {"seconds": round(seconds, 2), **used, "days": days, "failed tables": failed}


def _processes_below(parent: int) -> list[int]:
    """Return a process and its descendants."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [parent, *(pid for child in children for pid in _processes_below(int(child)))]


def compare_with_sql(plans: list[Plan], lake: Path, database: Path) -> dict[str, object]:
    """Watch tables in an empty repository and measure them by SQL; return what both used, first and next."""
    import tidegauge as tg
    from tidegauge.watching import DEFAULT_SAMPLE

    folders = [lake / plan.name for plan in plans]
    results: dict[str, object] = {}
    with tg.Repository(f"sqlite:///{database}") as repository:

        def watch():
            return tg.watch([str(folder) for folder in folders], repository=repository)

        _, results["watch, first"] = measured(watch)
        change_some(plans, lake, seed=0)
        again, results["watch, next"] = measured(watch)
        results["watch, next, tables measured"] = changed_tables(again)
    sql = SqlMonitors()
    results["sql, first"] = sql.measured(folders, DEFAULT_SAMPLE)
    results["sql, next"] = sql.measured(folders, 1)
    sql.spark.stop()
    return {f"{len(plans)} tables: {name}": value for name, value in results.items()}


def judge(repository, plans: list[Plan], today: datetime) -> dict[str, object]:
    """Return the recall by fault, and the number of false incidents for 100 tables and 30 days."""
    by_dataset: dict[str, list[dict]] = {}
    for row in repository.incidents().to_dict("records"):
        by_dataset.setdefault(row["dataset"], []).append(row)
    found: dict[str, list[bool]] = {}
    false, months = [], 0.0
    for plan in plans:
        dataset = plan.name.replace("/", ".")
        day = f"ds={today - timedelta(days=plan.fault_days_back):%Y-%m-%d}"
        # The day after a fault can differ from it again.
        after = f"ds={today - timedelta(days=plan.fault_days_back - 1):%Y-%m-%d}"
        incidents = by_dataset.get(dataset, [])
        hits = [i for i in incidents if plan.fault and i["first"] <= after and i["last"] >= day]
        if plan.fault:
            found.setdefault(plan.fault, []).append(bool(hits))
        false += [
            f"{dataset} ({plan.format}): {i['first']} {i['headline']}"
            for i in incidents
            if i not in hits
        ]
        months += min(plan.days, 90) / 30
    recall = {fault: f"{sum(hits)} of {len(hits)}" for fault, hits in sorted(found.items())}
    everything = [hit for hits in found.values() for hit in hits]
    return {
        "faults": recall,
        "recall": round(sum(everything) / max(len(everything), 1), 3),
        "false incidents": len(false),
        "false per 100 tables and month": round(100 * len(false) / months, 2),
        "examples": false[:12],
    }


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=400)
    parser.add_argument("--together", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="Folder of the lakehouse, which is kept.")
    parser.add_argument("--sql", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    # The loads of yesterday are there some hours after midnight.
    today = datetime.now(UTC) - timedelta(hours=2 * USUAL_DELAY_HOURS)
    today = today.replace(hour=0, minute=0, second=0, microsecond=0)
    plans = plan_lakehouse(args.tables, args.partitions, args.together, args.seed)
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        folder = Path(args.keep or name)
        lake, file = folder / "lake", folder / "watch.db"
        if not lake.exists():
            with get_context("spawn").Pool(os.cpu_count()) as pool:
                pool.map(_generate, [(plan, lake, today) for plan in plans], chunksize=1)
        import tidegauge as tg

        file.unlink(missing_ok=True)
        with tg.Repository(f"sqlite:///{file}") as repository:

            def watch():
                return tg.watch(str(lake), repository=repository, jobs=args.jobs)

            first, first_use = measured(watch)
            assert not first.failed, first.failed[:5]
            stored = file.stat().st_size
            verdict = judge(repository, plans, today)
            change_some(plans, lake, args.seed)
            again, next_use = measured(watch)
            assert not again.failed, again.failed[:5]
        compared = {}
        if args.sql:
            of_files = [plan for plan in plans if plan.format == "parquet"][: args.sql]
            compared = compare_with_sql(of_files, lake, folder / "sql.db")
        partitions = sum(len(t.run.changes) for t in first.tables if t.run)
        screen = first.text().splitlines()
    results = {
        "tables": args.tables,
        "partitions": partitions,
        "first": first_use,
        "first, seconds a table": round(first_use["seconds"] / args.tables, 4),
        "first, CPU seconds a table": round(first_use["cpu"] / args.tables, 4),
        "next": next_use,
        "next, tables measured": changed_tables(again),
        "MB stored": round(stored / 1e6, 1),
        "peak MB of memory": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **verdict,
        **compared,
    }
    table = Table(title=f"{args.tables} tables, {partitions:,} partitions, --jobs {args.jobs}")
    table.add_column("number", no_wrap=True)
    table.add_column("value")
    for key, value in results.items():
        table.add_row(key, "\n".join(value) if isinstance(value, list) else str(value))
    console = Console(width=150)
    console.print(table)
    console.print("\n".join(screen[:12]), markup=False)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
