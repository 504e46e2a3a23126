"""Merging small files of a query log: no query is lost or doubled, whenever the process is killed."""

import datetime as dt

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import tidegauge as tg
from tests.tidegauge.consistency.logged_queries import D5, DAY, record
from tidegauge.consistency.log import flattening
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.flattening import flatten
from tidegauge.consistency.log.query import partition_folder
from tidegauge.consistency.log.schemas import LogSchema
from tidegauge.consistency.log.table import log_folder

JOIN = "team/search"
SCHEMA = LogSchema.from_schemas(JOIN, record("Key", user="long"), record("Value", n="int"))
LATER = dt.datetime(2023, 1, 6, 1, tzinfo=dt.UTC)


def log_queries(folder, users, day=D5):
    """Log one query per user, each in its own file."""
    with QueryLog(str(folder)) as log:
        log.register(SCHEMA)
        for user in users:
            log.log(JOIN, {"user": user}, {"n": user}, ts_millis=day + user)
            log.flush()


def log_partition(folder):
    return partition_folder(str(folder), "2023-01-05", JOIN)


def visible(place):
    return {one.name for one in place.iterdir() if not one.name.startswith(".")}


def times(place):
    """Return the times of all queries in visible files, by day and user."""
    actual = [pq.read_table(place / name)["ts_millis"].to_pylist() for name in visible(place)]
    return sorted(time - D5 for some in actual for time in some)


class Killed(Exception):
    pass


class Mortal(fs.FileSystemHandler):
    """A local file system that raises `Killed` at a given change."""

    def __init__(self, steps):
        self.inner, self.steps = fs.LocalFileSystem(), steps

    def _step(self):
        self.steps -= 1
        if self.steps < 0:
            raise Killed

    def get_type_name(self):
        return "local"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return self.inner.get_file_info(paths)

    def get_file_info_selector(self, selector):
        return self.inner.get_file_info(selector)

    def open_input_stream(self, path):
        return self.inner.open_input_stream(path)

    def open_input_file(self, path):
        return self.inner.open_input_file(path)

    def open_output_stream(self, path, metadata):
        self._step()
        return self.inner.open_output_stream(path, metadata=metadata)

    def move(self, src, dest):
        self._step()
        self.inner.move(src, dest)

    def delete_file(self, path):
        self._step()
        self.inner.delete_file(path)

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = None
    copy_file = open_append_stream = None


def test_files_of_clients_are_merged_in_order_up_to_a_size(tmp_path):
    log_queries(tmp_path, range(5))
    place = tmp_path / "ds=2023-01-05" / "join_name=team%2Fsearch"
    (place / "part-0000.snappy.parquet").write_bytes(b"of Spark")
    (place / ".1-0.parquet.tmp").write_bytes(b"of a client that was killed")
    names = sorted(visible(place) - {"part-0000.snappy.parquet"})
    size = max((place / name).stat().st_size for name in names)
    local = fs.LocalFileSystem()
    assert flattening.joinable(local, str(place)) == [tuple(names)]
    assert flattening.joinable(local, str(place), 2 * size + 1) == [
        tuple(names[:2]),
        tuple(names[2:4]),
    ]
    assert flattening.joinable(local, str(place), size) == []  # each file is large enough
    assert flattening.joinable(local, str(tmp_path / "none")) == []


def test_a_merged_file_has_all_queries_in_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr(flattening, "ROW_GROUP_ROWS", 2)
    log_queries(tmp_path, range(5))
    place = tmp_path / "ds=2023-01-05" / "join_name=team%2Fsearch"
    local = fs.LocalFileSystem()
    (group,) = flattening.joinable(local, log_partition(tmp_path))
    before = pq.read_table(place)
    name = flattening.join_files(local, log_partition(tmp_path), group)
    assert visible(place) == {name}
    assert {one.name for one in place.iterdir()} == {name}
    after = pq.ParquetFile(place / name)
    assert (
        after.read()
        .sort_by("ts_millis")
        .equals(before.sort_by("ts_millis").select(after.schema_arrow.names))
    )
    assert after.num_row_groups == 3  # 2 + 2 + 1
    assert name.partition("-")[0] == group[0].partition("-")[0]  # the next one keeps it


def test_a_compaction_killed_at_any_step_loses_nothing_and_the_next_one_completes_it(tmp_path):
    """Seven steps: data and list are written, one file is moved, three files and the list are deleted."""
    for steps in range(8):
        folder = tmp_path / str(steps)
        log_queries(folder, range(3))
        place = folder / "ds=2023-01-05" / "join_name=team%2Fsearch"
        mortal = fs.PyFileSystem(Mortal(steps))
        (group,) = flattening.joinable(mortal, str(place))
        if steps < 7:
            with pytest.raises(Killed):
                flattening.join_files(mortal, str(place), group)
        else:
            flattening.join_files(mortal, str(place), group)
        assert set(times(place)) == {0, 1, 2}, steps  # perhaps twice, never missing
        local = fs.LocalFileSystem()
        flattening.finish(local, str(place))
        assert times(place) == [0, 1, 2], steps
        for group in flattening.joinable(local, str(place)):
            flattening.join_files(local, str(place), group)
        assert times(place) == [0, 1, 2], steps
        assert len(visible(place)) == 1, steps
        assert not flattening.finish(local, str(place))


class Beside(Mortal):
    """A file system on which another process finishes compactions before or after a file is moved."""

    def __init__(self, step, place):
        super().__init__(100)
        self.step, self.place = step, place

    def move(self, source, target):
        if self.step == "before the move":
            flattening.finish(self.inner, self.place)
        super().move(source, target)
        if self.step == "after the move":
            flattening.finish(self.inner, self.place)


@pytest.mark.parametrize("step", ["before the move", "after the move"])
def test_two_processes_that_complete_a_compaction_lose_and_double_nothing(tmp_path, step):
    """A flattening during a compaction treats it as killed, and completes it."""
    log_queries(tmp_path, range(3))
    place = log_partition(tmp_path)
    beside = fs.PyFileSystem(Beside(step, place))
    (group,) = flattening.joinable(beside, place)
    name = flattening.join_files(beside, place, group)
    assert (name is None) == (step == "before the move")
    actual = tmp_path / "ds=2023-01-05" / "join_name=team%2Fsearch"
    assert times(actual) == [0, 1, 2]
    assert not flattening.finish(fs.LocalFileSystem(), place)
    assert len(visible(actual)) == (3 if name is None else 1)


def test_a_file_that_is_moved_during_a_listing_is_not_read_twice(tmp_path, monkeypatch):
    """The process reads the list, but not yet the merged file. It sees the file after it fails to delete the hidden one."""
    log_queries(tmp_path, range(3))
    place = log_partition(tmp_path)
    local = fs.LocalFileSystem()
    actual = tmp_path / "ds=2023-01-05" / "join_name=team%2Fsearch"
    (group,) = flattening.joinable(local, place)
    with pytest.raises(Killed):
        flattening.join_files(fs.PyFileSystem(Mortal(2)), place, group)  # before the move
    (waiting,) = (one for one in actual.iterdir() if one.name.endswith(".tmp"))
    delete = flattening._delete

    def moved_meanwhile(system, folder, names):
        names = list(names)
        if waiting.name in names and waiting.exists():
            waiting.rename(actual / waiting.name.removeprefix(".").removesuffix(".tmp"))
        delete(system, folder, names)

    monkeypatch.setattr(flattening, "_delete", moved_meanwhile)
    flattening.finish(local, place)
    assert times(actual) == [0, 1, 2]
    assert len(visible(actual)) == 1


@pytest.mark.spark
@pytest.mark.soak
def test_compacted_days_are_not_flattened_again(spark, namespace, repository):
    folder = log_folder(spark, namespace)
    log_queries(folder, range(4))
    log_queries(folder, range(2), day=D5 + DAY)
    done = flatten(spark, namespace, JOIN, "2023-01-06")
    assert [day.read for day in done.days] == [4, 2]
    options = {"repository": repository, "spark": spark, "now": LATER}
    dry = tg.consistency.compact(namespace, **options, dry_run=True)
    assert (dry.before, dry.after, dry.partitions) == (4, 1, (f"ds=2023-01-05/join_name={JOIN}",))
    assert "would join 4 files of 1 partition into 1" in str(dry)
    done = tg.consistency.compact(namespace, **options)
    assert (done.before, done.after) == (4, 1)
    assert flatten(spark, namespace, JOIN, "2023-01-06").days == ()
    log_queries(folder, [7])  # a late query
    log_queries(folder, [8])
    assert tg.consistency.compact(namespace, **options).before == 3
    late = flatten(spark, namespace, JOIN, "2023-01-06")
    assert [(day.ds, day.read) for day in late.days] == [("2023-01-05", 6)]
    assert spark.table(late.table).where("ds = '2023-01-05'").count() == 6
    assert tg.consistency.compact(namespace, **options).partitions == ()
    assert flatten(spark, namespace, JOIN, "2023-01-06").days == ()


@pytest.mark.spark
def test_a_run_completes_a_compaction_that_was_killed(spark, namespace):
    folder = log_folder(spark, namespace)
    log_queries(folder, range(3))
    from tidegauge.analyzers.core.filesystems import plain_path

    place = log_partition(plain_path(folder))
    mortal = fs.PyFileSystem(Mortal(4))  # one of three files is deleted
    (group,) = flattening.joinable(mortal, place)
    with pytest.raises(Killed):
        flattening.join_files(mortal, place, group)
    done = flatten(spark, namespace, JOIN, "2023-01-06")
    assert [day.read for day in done.days] == [3]
