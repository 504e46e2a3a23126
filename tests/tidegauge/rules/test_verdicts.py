"""Stored verdicts: by data and rules, in files, reused or damaged. Fingerprints of frames."""

import json

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.errors import RuleError, SourceError
from tidegauge.analyzers.core.evidence import OnEmpty
from tidegauge.analyzers.runs.ledger import Case
from tidegauge.analyzers.scan.capabilities import session_settings
from tidegauge.analyzers.sources import sources
from tidegauge.rules.publish import as_recorder
from tidegauge.rules.record_counts import RecordCounts
from tidegauge.rules.verdicts import CheckResult, RepositoryVerdicts, VerdictFiles, read_verdict

BAD = CheckResult(False, (("fare", "3 of 9\nrecords"),), ("rule fare: 3 of 9",), (("fare", False),))
GOOD = CheckResult(True, outcomes=(("fare", True),))


class FixedResult(tg.ValidationTask):
    """A task with a given result, which counts its calls."""

    def __init__(self, result, name="told", version=1):
        self.result, self.name, self.version, self.asked = result, name, version, 0

    def validate(self, data):
        self.asked += 1
        return self.result

    def identity(self):
        return [self.name, self.version]


def test_each_case_has_its_own_file(tmp_path):
    verdicts = VerdictFiles(str(tmp_path / "new" / "folder"))
    case = Case("my flights/2013", "5e1f", "a93c", "ds=2013-02-08")
    assert verdicts.find(case) is None
    verdicts.keep(case, BAD)
    verdicts.keep(case, BAD)
    (file,) = (tmp_path / "new" / "folder").iterdir()
    name, hashed, ending = file.name.rsplit(".", 2)
    assert (name, len(hashed), ending) == ("my_flights_2013_ds=2013-02-08", 32, "check")
    assert CheckResult.from_json(file.read_text()) == BAD
    assert verdicts.find(case) == BAD
    verdicts.keep(case, GOOD)
    assert verdicts.find(case) == GOOD
    for other in (
        Case("other", "5e1f", "a93c", "ds=2013-02-08"),
        Case("my flights/2013", "5e20", "a93c", "ds=2013-02-08"),
        Case("my flights/2013", "5e1f", "a93d", "ds=2013-02-08"),
        Case("my flights/2013", "5e1f", "a93c"),
        Case("my_flights_2013", "5e1f", "a93c", "ds=2013-02-08"),
    ):
        assert verdicts.find(other) is None


def verdict_json(**changed):
    of = {"version": 1, "passed": True, "errorMessages": [], "checkLog": [], "outcomes": []}
    return json.dumps(of | changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 2},
        {"passed": 1},
        {"errorMessages": ["ab"], "passed": False},
        {"errorMessages": [["a", 1]], "passed": False},
        {"errorMessages": {}},
        {"checkLog": "told"},
        {"checkLog": [1]},
        {"outcomes": [["a", "false"]]},
        {"outcomes": [["a", True, True]]},
    ],
)
def test_invalid_verdicts_are_not_read(changed):
    assert CheckResult.from_json(verdict_json()) == CheckResult(True)
    with pytest.raises(RuleError, match="not the JSON of a CheckResult"):
        CheckResult.from_json(verdict_json(**changed))


def test_a_failure_without_a_policy_is_read():
    verdict = CheckResult(False, (("own", "three lines"),))
    assert CheckResult.from_json(verdict.to_json()) == verdict


def test_unreadable_verdicts_are_warned_of_once():
    assert read_verdict(BAD.to_json(), "here") == BAD
    with pytest.warns(tg.VerdictWarning, match="verdict 'here' cannot be read"):
        assert read_verdict(verdict_json(version=2), "here") is None


@pytest.mark.parametrize("damage", [b"", b"{", b'{"passed": true}', b"\xff\xfe", b"[]"])
def test_a_damaged_file_is_reported_and_judged_again(tmp_path, damage):
    task = FixedResult(BAD)
    tests = tg.ValidationSet([task], folder=str(tmp_path), fingerprint="a93c")
    tests.judge(None)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    with pytest.warns(tg.VerdictWarning, match=file.name):
        assert tests.judge(None) == BAD
    assert task.asked == 2
    assert CheckResult.from_json(file.read_text()) == BAD


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match=r"cannot write the verdict .*file/told"):
        VerdictFiles(str(tmp_path / "file")).keep(Case("told", "a", "b"), GOOD)


def test_tasks_make_one_stored_verdict(tmp_path):
    first, second = FixedResult(GOOD, "first"), FixedResult(BAD, "second")
    tests = tg.ValidationSet([first, second], folder=str(tmp_path), fingerprint="a93c")
    with pytest.raises(tg.DQMError, match="3 of 9") as raised:
        tests.validate(None)
    assert raised.value.result == GOOD + BAD
    again = tg.ValidationSet([first, second], folder=str(tmp_path), fingerprint="a93c")
    with pytest.raises(tg.DQMError):
        again.validate(None)
    assert again.judge(None) == GOOD + BAD
    assert (first.asked, second.asked) == (1, 1)
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("first+second.")


def test_changed_rules_or_data_are_judged_again(tmp_path):
    task = FixedResult(GOOD)
    tg.ValidationSet([task], folder=str(tmp_path), fingerprint="a93c").validate(None)
    tg.ValidationSet([task], folder=str(tmp_path), fingerprint="b770").validate(None)
    tg.ValidationSet(
        [FixedResult(GOOD, version=2)], folder=str(tmp_path), fingerprint="a93c"
    ).validate(None)
    assert task.asked == 2
    assert len(list(tmp_path.iterdir())) == 3


def test_a_changed_function_has_another_specification():
    one = tg.DQM().add(tg.DQMPolicy(lambda state: state.records > 1, "some"))
    other = tg.DQM().add(tg.DQMPolicy(lambda state: state.records > 2, "some"))
    assert tg.ValidationSet([one]).specification != tg.ValidationSet([other]).specification


def test_a_set_of_one_task_has_the_specification_of_the_task():
    dqm = tg.DQM().add(tg.Rule("a > 0"), tg.FailAny)
    assert tg.ValidationSet([dqm]).specification == dqm.specification
    assert tg.ValidationSet([dqm, dqm]).specification != dqm.specification


def test_a_dqm_cannot_judge_records_that_it_has_filtered():
    tests = tg.ValidationSet([tg.DQM("ages").add(tg.Rule("a > 0"), tg.FailAny)])
    with pytest.raises(RuleError, match=r"'ages' cannot judge.*dqm.attach\(df\)"):
        tests.validate(None, has_action_yet=True)


def test_without_a_fingerprint_no_verdict_is_stored(tmp_path):
    task = FixedResult(GOOD)
    tests = tg.ValidationSet([task], folder=str(tmp_path))
    tests.validate(None)
    tests.validate(None)
    assert task.asked == 2
    assert list(tmp_path.iterdir()) == []


def test_an_empty_set_passes_and_other_objects_are_refused(tmp_path):
    assert tg.ValidationSet([]).validate(None).passed
    with pytest.raises(RuleError, match="ValidationTasks such as a DQM"):
        tg.ValidationSet([tg.Rule("a > 1")])
    with pytest.raises(RuleError, match="give folder= or verdicts=, not both"):
        tg.ValidationSet([], folder=str(tmp_path), verdicts=VerdictFiles(str(tmp_path)))


def test_a_repository_stores_verdicts(repo):
    verdicts = RepositoryVerdicts(repo, "flights")
    task = FixedResult(BAD)
    tests = tg.ValidationSet([task], verdicts=verdicts, fingerprint="a93c")
    assert tests.judge(None) == BAD
    with pytest.raises(tg.DQMError):
        tests.validate(None)
    assert task.asked == 1
    (kept,) = repo.verdicts("flights").itertuples()
    assert (kept.name, kept.fingerprint, kept.passed) == ("told", "a93c", False)


def test_unreadable_verdicts_of_a_repository_are_judged_again(repo):
    verdicts = RepositoryVerdicts(repo, "flights")
    identity = {"name": "told", "specification": "a", "fingerprint": "b"}
    repo.keep_verdict("flights", **identity, passed=True, result='{"all": "well"}')
    with pytest.warns(tg.VerdictWarning, match="told of flights"):
        assert verdicts.find(Case("told", "a", "b")) is None


# fingerprints of frames by their files


@pytest.fixture
def folder(spark, tmp_path):
    path = str(tmp_path / "data")
    spark.range(10).selectExpr("id AS a", "id * 2 AS b").write.parquet(path)
    return path


@pytest.mark.spark
def test_equal_frames_of_equal_files_have_equal_fingerprints(spark, folder):
    def read():
        return spark.read.parquet(folder)

    whole = tg.frame_fingerprint(read())
    assert whole is not None
    assert tg.frame_fingerprint(read()) == whole
    some = [read().where("a > 3"), read().where("a > 4"), read().select("a"), read().limit(3)]
    some += [read().where("a > unix_date(current_date())"), read().groupBy("a").count()]
    prints = [tg.frame_fingerprint(frame) for frame in some]
    assert None not in prints
    assert len({whole, *prints}) == 7
    before = tg.frame_fingerprint(read().where("a > 3"))
    spark.range(1).selectExpr("id AS a", "id AS b").write.mode("append").parquet(folder)
    assert tg.frame_fingerprint(read().where("a > 3")) not in {before, None}


@pytest.fixture
def two_sessions(monkeypatch):
    """Return a function that makes a frame in two consecutive sessions and returns both fingerprints."""

    def both(make):
        actual = []
        for session in ("one", "two"):
            monkeypatch.setattr(sources, "_session_id", lambda _, name=session: name)
            actual.append(tg.frame_fingerprint(make()))
        return actual

    return both


@pytest.mark.soak
@pytest.mark.spark
def test_strings_and_names_that_look_like_ids_are_distinguished(spark, tmp_path, two_sessions):
    path, odd = str(tmp_path / "orders"), str(tmp_path / "odd")
    spark.createDataFrame([("order#17",), ("order#18",)], "name string").write.parquet(path)
    spark.createDataFrame([(1,), (2,)], "`x#1` long").write.parquet(odd)

    def like_ids(of, condition):
        return spark.read.parquet(of).where(condition)

    texts = ["'order#17'", "'order#18'", "'order#17L'", "'order' || '17'"]
    texts += ["concat('a, b', 'c')", "concat('a', 'b, c')", "concat('a, 1', 'c')"]
    plain = ["'[plan_id=1]'", "'[plan_id=2]'"]
    cases = [(path, f"name = {text}") for text in texts + plain]
    cases += [(odd, "`x#1` > 1"), (odd, "`x#1` > 2")]
    prints = [tg.frame_fingerprint(like_ids(*case)) for case in cases]
    assert None not in prints
    assert len(set(prints)) == len(cases)
    for of, condition in cases:
        one, two = two_sessions(lambda of=of, condition=condition: like_ids(of, condition))
        assert (one == two) is (condition.removeprefix("name = ") in plain)


@pytest.mark.newest
@pytest.mark.spark
def test_plain_frames_keep_their_fingerprint_in_later_sessions(spark, folder, two_sessions):
    def read():
        return spark.read.parquet(folder)

    makes = [
        read,
        lambda: read().where("a > 3 AND b <> 4").selectExpr("a + 1 AS c"),
        lambda: read().groupBy("a").agg({"b": "sum"}),
        lambda: read().join(read().select("a"), "a"),
        lambda: read().distinct().union(read()),
        lambda: read().selectExpr("a", "row_number() OVER (ORDER BY b) AS n"),
        lambda: read().selectExpr("explode(array(a, b)) AS x"),
        lambda: spark.sql("SELECT a FROM {of} WHERE b > 2", of=read()),
    ]
    for make in makes:
        one, two = two_sessions(make)
        assert one == two is not None


@pytest.mark.spark
@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("spark.sql.session.timeZone", ["UTC", "Asia/Tokyo"]),
        ("spark.sql.ansi.enabled", ["true", "false"]),
        ("spark.sql.caseSensitive", ["true", "false"]),
    ],
)
def test_the_fingerprint_depends_on_settings_that_change_values(spark, folder, setting, values):
    actual = set()
    for value in values:
        with session_settings(spark, {setting: value}):
            actual.add(tg.frame_fingerprint(spark.read.parquet(folder)))
    assert len(actual) == 2


@pytest.mark.spark
def test_the_fingerprint_depends_on_the_order_of_the_files_in_a_join(spark, folder, tmp_path):
    other = str(tmp_path / "other")
    spark.range(5).selectExpr("id AS a", "id AS b").write.parquet(other)
    left, right = spark.read.parquet(folder), spark.read.parquet(other)
    one = tg.frame_fingerprint(left.exceptAll(right))
    swapped = tg.frame_fingerprint(right.exceptAll(left))
    assert None not in {one, swapped}
    assert one != swapped


@pytest.mark.spark
def test_long_lists_are_not_truncated(spark, folder):
    frame = spark.read.parquet(folder)
    values = list(range(100))
    one = frame.where(frame.a.isin(values))
    other = frame.where(frame.a.isin([*values[:-1], 1000]))
    assert tg.frame_fingerprint(one) != tg.frame_fingerprint(other)
    assert spark.conf.get("spark.sql.debug.maxToStringFields", None) != "100000000"


@pytest.mark.spark
def test_frames_that_do_not_read_files_have_no_fingerprint(spark, folder):
    files = spark.read.parquet(folder)
    memory = spark.createDataFrame([(1, 2)], "a long, c long")
    local = spark.sql("SELECT * FROM VALUES (1L, 2L) AS t(a, c)")
    files.createOrReplaceTempView("files_of_a_test")
    some = [memory, local, spark.range(3), files.join(memory, "a"), files.join(local, "a")]
    some += [files.union(local), files.where("a > (SELECT max(a) - 3 FROM files_of_a_test)")]
    assert [tg.frame_fingerprint(frame) for frame in some] == [None] * 7
    cached = spark.read.parquet(folder).cache()
    try:
        assert tg.frame_fingerprint(cached.where("a > 1")) is None
    finally:
        cached.unpersist()
        spark.catalog.dropTempView("files_of_a_test")


@pytest.mark.spark
def test_partitions_with_odd_names_are_found(spark, tmp_path):
    path = str(tmp_path / "odd data % 100")
    rows = [(1, "a/b c"), (2, "50%"), (3, "ü"), (4, "x=y")]
    spark.createDataFrame(rows, "a long, p string").write.partitionBy("p").parquet(path)
    assert tg.frame_fingerprint(spark.read.parquet(path)) is not None


@pytest.mark.spark
@pytest.mark.classic  # Connect lists the files again
def test_a_frame_with_a_deleted_file_has_no_fingerprint(spark, folder):
    import os
    from pathlib import Path

    frame = spark.read.parquet(folder)
    os.remove(next(Path(folder).glob("part*")))
    assert tg.frame_fingerprint(frame) is None


@pytest.mark.spark
def test_the_fingerprint_depends_on_reader_options_and_python_functions(spark, tmp_path):
    from pyspark.sql import functions as F

    file = tmp_path / "a.csv"
    file.write_text("1;2\n3;4\n")
    commas, colons = spark.read.csv(str(file)), spark.read.csv(str(file), sep=";")
    prints = [tg.frame_fingerprint(frame) for frame in (commas, spark.read.csv(str(file), sep=";"))]
    assert None not in prints
    assert prints[0] != prints[1] == tg.frame_fingerprint(colons)
    known = [tg.frame_fingerprint(f, options_known=True) for f in (commas, commas)]
    assert known[0] == known[1] not in prints
    one, two = (commas.select(F.udf(f, "string")("_c0").alias("x")) for f in (str.upper, str.lower))
    assert None not in {tg.frame_fingerprint(one), tg.frame_fingerprint(two)}
    assert tg.frame_fingerprint(one) != tg.frame_fingerprint(two)


@pytest.mark.spark
def test_a_set_judges_an_attached_dqm_by_its_observed_counts(spark, tmp_path):
    data = spark.createDataFrame([(-1,), (-2,), (0,), (1,), (2,)], "a long")
    dqm = tg.DQM().add(tg.Rule("a > 0", "positive"), tg.FailCount(3))
    attached = dqm.attach(data)
    tests = tg.ValidationSet([attached])
    path = str(tmp_path / "out")
    attached.data.write.parquet(path)
    with pytest.raises(tg.DQMError) as raised:
        tests.validate(spark.read.parquet(path), has_action_yet=True)
    assert raised.value.result.error_messages == (
        ("positive", "3 of 5 records, fewer than 3 allowed"),
    )
    cut = dqm.attach(data)
    cut.data.limit(1).collect()
    assert not tg.ValidationSet([cut]).judge(data.limit(0), has_action_yet=True).passed
    assert cut.state.records == 5


def test_rules_accept_the_url_of_a_repository(tmp_path):
    url = f"sqlite:///{tmp_path}/metrics.db"
    with tg.Repository(url) as repo:
        repo.record("people", "visits", 3.0, partition="ds=2013-01-01")
        assert as_recorder(repo) is repo
    assert as_recorder(None) is None
    with as_recorder(url) as opened:
        assert opened.datasets() == ["people"]
    with pytest.raises(tg.HistoryError, match="never measured on 'people'"):
        tg.judge(url, "people", tg.DQM().add(tg.NotNullRule("name")))


def test_no_data_fails_warns_or_passes_by_the_choice_of_the_caller():
    dqm = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailAny)
    state = dqm.tasks.state(RecordCounts())
    state.snapshot()
    empty = dqm.judge(state)
    assert (empty.status, empty.passed, str(empty)) == (
        "no data",
        True,
        "no data: there are no records to judge",
    )
    reported = ("records", "no data: there are no records to judge")
    failed = empty.resolve_no_data(OnEmpty.FAIL)
    assert (failed.status, failed.passed, failed.error_messages) == ("no data", False, (reported,))
    warned = failed.resolve_no_data(OnEmpty.WARN)
    assert (warned.passed, warned.error_messages, warned.warnings) == (True, (), (reported,))
    assert warned.resolve_no_data(OnEmpty.FAIL) == failed
    for one in (empty, failed, warned):
        assert CheckResult.from_json(one.to_json()) == one
    # Other failures stay failures.
    both = (failed + BAD).resolve_no_data(OnEmpty.PASS)
    assert (both.status, both.passed, both.error_messages) == ("failed", False, BAD.error_messages)
    # A verdict on data is unchanged and has no such key in JSON.
    assert GOOD.resolve_no_data(OnEmpty.FAIL) == GOOD
    assert "noData" not in GOOD.to_json()
