"""Values of private columns appear in no state, series, segment, sample or error that is stored."""

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.partitions import TimeFormat
from tidegauge.analyzers.core.privacy import PARTITIONS, SEGMENTS, Privacy
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.sources.iceberg_partitions import PartitionField
from tidegauge.repository.store.config import privacy_settings

PERSON = "ann@example.org"
ADDRESS = {
    "type": "struct",
    "fields": [{"name": "zip", "type": "string", "nullable": True, "metadata": {}}],
}
SCHEMA = Schema.from_types(
    {"Email": "string", "city": "string", "age": "long", "address": ADDRESS, "x.y": "string"}
)
TAGGED = Schema(
    {
        "type": "struct",
        "fields": [
            {"name": "phone", "type": "string", "nullable": True, "metadata": {"pii": True}},
            {"name": "open", "type": "string", "nullable": True, "metadata": {"pii": False}},
        ],
    }
)


def is_refused(analyzer, private, schema=SCHEMA):
    try:
        private.check(analyzer.requests(schema), schema)
    except tg.PrivateColumnError:
        return True
    return False


@pytest.mark.parametrize(
    "analyzer",
    [
        tg.Histogram("email"),
        tg.Uniqueness(["city", "email"]),
        tg.Entropy("Email"),
        tg.MutualInformation(["email", "city"]),
        tg.TopValues("email"),
    ],
)
def test_states_that_would_hold_values_are_refused(analyzer):
    assert is_refused(analyzer, Privacy(columns=("E*L",)))
    assert is_refused(analyzer, Privacy(tables=("hr.*",)).for_dataset("people", "hr.people"))
    assert is_refused(analyzer, Privacy(tags=("pii",)).for_dataset("people", tags={"pii": "yes"}))
    assert not is_refused(
        analyzer, Privacy(columns=("phone",), tables=("hr.*",)).for_dataset("d", "shop.t")
    )


@pytest.mark.parametrize(
    "analyzer",
    [
        tg.Size(),
        tg.Completeness("email"),
        tg.ApproxCountDistinct("email"),
        tg.ApproxUniqueness("email"),
        tg.PatternMatch("email", "EMAIL"),
        tg.MaxLength("email"),
        tg.DataType("email"),
        tg.Histogram("city", where="email IS NOT NULL"),
        tg.TopValues("city", where="email IS NOT NULL"),
    ],
)
def test_counts_and_hashes_of_private_columns_are_allowed(analyzer):
    assert not is_refused(analyzer, Privacy(columns=("*email*",)))


def test_quantile_sketches_of_private_numbers_are_refused():
    assert is_refused(tg.ApproxQuantile("age", 0.5), Privacy(columns=("age",)))
    assert is_refused(tg.ExactQuantile("age", 0.5), Privacy(columns=("age",)))
    assert not is_refused(tg.Mean("age"), Privacy(columns=("age",)))


def test_nested_and_quoted_names_of_private_columns_are_recognized():
    for pattern in ("address", "zip", "address.zip", "addr*"):
        assert is_refused(tg.Histogram("address.zip"), Privacy(columns=(pattern,)))
    assert is_refused(tg.Histogram("`x.y`"), Privacy(columns=("x.y",)))
    assert not is_refused(tg.Histogram("city"), Privacy(columns=("zip",)))


def test_columns_tagged_private_in_the_schema_are_recognized():
    private = Privacy(tags=("pii",))
    assert is_refused(tg.Histogram("phone"), private, TAGGED)
    assert not is_refused(tg.Histogram("open"), private, TAGGED)
    assert private.covers("phone", TAGGED)
    assert not Privacy(tags=("pii=no",)).covers("phone", TAGGED)


def test_partitions_and_segments_may_not_be_named_after_private_values():
    private = Privacy(columns=("*email*",), tags=("pii",))
    for columns in (["ds", "Email"], ["work_email"], ["address.email"]):
        for what in (PARTITIONS, SEGMENTS):
            with pytest.raises(tg.SuiteError, match="is a private column"):
                private.refuse_names(columns, what)
    private.refuse_names(["ds", "phone"], PARTITIONS)
    with pytest.raises(
        tg.SuiteError, match="'phone' is a private column: the names of partitions would"
    ):
        private.refuse_names(["ds", "phone"], PARTITIONS, TAGGED)
    Privacy().refuse_names(["email"], PARTITIONS)


def test_private_tables_can_only_be_partitioned_by_time():
    whole = Privacy(tables=("hr.*",)).for_dataset("people", "hr.people")
    whole.refuse_names(["ds", "hr"], PARTITIONS)
    whole.refuse_names(["jahr"], PARTITIONS, time=TimeFormat(("jahr",), ("%Y",)))
    for columns, what in ((["ds", "city"], PARTITIONS), (["ds"], SEGMENTS)):
        with pytest.raises(tg.SuiteError, match="is a private column"):
            whole.refuse_names(columns, what)


class PartitionedSource:
    """A source whose rows are never read, because the refusal comes first."""

    name = None
    time_format = None

    def __init__(self, keys, fields=()):
        self.keys, self.fields = keys, fields

    def list_partitions(self):
        raise AssertionError("listed")

    read = partition_of = list_partitions


@pytest.mark.parametrize(
    ("keys", "fields"),
    [
        (("email",), ()),
        (("ds", "EMAIL"), ()),
        (("part",), (PartitionField("part", "truncate", "email", 4),)),
        (("part",), (PartitionField("part", "bucket", "contact.email", 16),)),
        (("part",), (PartitionField("part", "identity", "email"),)),
    ],
)
def test_tables_partitioned_by_private_columns_are_refused_before_anything_is_read(
    keys, fields, repo
):
    suite = tg.Suite("d", [tg.Size()], private=["*email*"])
    with pytest.raises(
        tg.SuiteError, match="(?i)email. is a private column: the names of partitions would"
    ):
        tg.analyze(PartitionedSource(keys, fields), suite, repository=repo)
    assert not repo.datasets() or repo.partitions("d").empty


def test_recorded_values_cannot_have_private_partitions_or_segments(configured, repo):
    with pytest.raises(
        tg.SuiteError, match="'email' is a private column: the names of partitions would"
    ):
        repo.record("d", "m", {f"email={PERSON}": 1.0})
    with pytest.raises(
        tg.SuiteError, match="'Email' is a private column: the names of segments would"
    ):
        repo.record("d", "m", 1.0, segment=f"city=Rome/Email={PERSON}")
    assert repo.datasets() == []
    assert repo.record("d", "m", {"ds=2026-01-05": 1.0}, segment="city=Rome") == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[private]\ncolumns = 'email'\n", "private must be a table of lists of strings"),
        ("private = ['email']\n", "private must be a table of lists of strings"),
        ("[private]\ncolums = ['email']\n", "did you mean 'columns'"),
    ],
)
def test_a_configuration_without_private_columns_is_refused(tmp_path, monkeypatch, text, problem):
    (tmp_path / "t.toml").write_text(text)
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(tmp_path / "t.toml"))
    with pytest.raises(tg.TidegaugeError, match=problem):
        privacy_settings()


def test_suite_files_can_declare_private_columns():
    suite = tg.Suite("d", [tg.Size()], private=["*email*"])
    assert tg.Suite.from_json(suite.canonical()) == suite
    assert "private" not in tg.Suite("d", [tg.Size()]).canonical()
    with pytest.raises(tg.SuiteError, match=r"private must be a list of column patterns"):
        tg.Suite("d", [tg.Size()], private="email")


@pytest.fixture
def configured(tmp_path, monkeypatch):
    (tmp_path / "t.toml").write_text('[private]\ncolumns = ["*email*"]\ntags = ["pii"]\n')
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(tmp_path / "t.toml"))


@pytest.mark.spark
def test_no_value_of_a_private_column_is_stored(spark, tmp_path, configured):
    """Two partitions of people, with exact groups, top values, failing casts, segments and samples."""
    rows = [(PERSON, "Ulm", "2024-01-01"), ("eve@example.org", "Ulm", "2024-01-02")]
    data = spark.createDataFrame(rows, "email STRING, city STRING, ds STRING")
    cast = tg.Compliance("n", "CAST(email AS INT) > 0")
    suite = tg.Suite(
        "people",
        [
            tg.Size(),
            tg.Histogram("email"),
            tg.TopValues("email"),
            tg.Histogram("city"),
            tg.ApproxCountDistinct("email"),
            cast,
        ],
        partition_by=["ds"],
    )
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with tg.Repository(url) as repository:
        run = tg.analyze(data, suite, repository=repository, spark=spark)
        assert set(run.failed) == {tg.Histogram("email"), tg.TopValues("email"), cast}
        assert isinstance(run.failed[tg.TopValues("email")], tg.PrivateColumnError)
        error = str(run.failed[cast])
        assert "message is left out" in error
        assert "CAST_INVALID_INPUT" in error or "NumberFormat" in error
        values = repository.metrics("people", name=["ApproxCountDistinct", "Histogram.abs.Ulm"])
        assert values["value"].tolist() == [1.0] * 4
        with pytest.raises(tg.SuiteError, match="'email' is a private column"):
            tg.analyze(
                data,
                tg.Suite("other", [tg.Size()], partition_by=["ds"], segments=[["email"]]),
                repository=repository,
                spark=spark,
            )
    held = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"@example.org" not in held
    assert b"Ulm" in held


@pytest.mark.spark
def test_samples_of_rules_hide_private_columns(spark, configured):
    data = spark.createDataFrame([(PERSON, 500), (None, 600), ("x", 7)], "email STRING, age INT")
    dqm = tg.DQM().add(tg.Rule("age < 150 OR email = 'nobody'", name="old"))
    applied = dqm.apply(data)
    shown = sorted(str(sample) for sample in applied.state.samples)
    assert shown == ["email=***,age=500", "email=,age=600"]


@pytest.mark.spark
@pytest.mark.parametrize("by", ["table", "tag of the dataset", "tag of the column"])
def test_no_value_of_columns_private_by_name_or_tag_is_stored(spark, tmp_path, monkeypatch, by):
    """From the configuration to the bytes of the repository: all columns of a table, or one column."""
    (tmp_path / "t.toml").write_text('[private]\ntables = ["hr_*"]\ntags = ["pii"]\n')
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(tmp_path / "t.toml"))
    rows = [(PERSON, "Ulm", "2024-01-01"), ("eve@example.org", "Ulm", "2024-01-02")]
    data = spark.createDataFrame(rows, "login STRING, city STRING, ds STRING")
    if by == "tag of the column":
        data = data.withMetadata("login", {"pii": True})
    expected = [tg.Size(), tg.Histogram("login"), tg.Histogram("city"), tg.MaxLength("login")]
    name = "hr_staff" if by == "table" else "staff"
    tags = {"pii": "yes"} if by == "tag of the dataset" else None
    suite = tg.Suite(name, expected, partition_by=["ds"])
    refused = {tg.Histogram("login")}
    if by != "tag of the column":
        refused.add(tg.Histogram("city"))
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        run = tg.analyze(data, suite, repository=repository, spark=spark, tags=tags)
        assert set(run.failed) == refused
        assert all(isinstance(error, tg.PrivateColumnError) for error in run.failed.values())
        assert repository.metrics(name, name="MaxLength")["value"].tolist() == [15.0, 15.0]
    held = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"@example.org" not in held
    assert (b"Ulm" in held) == (by == "tag of the column")


HELD = (("ann@example.org", "Ulm", ("89073", "Main"), 500, "2024-01-01"),)
TYPES = "email STRING, city STRING, address STRUCT<zip: STRING, street: STRING>, age INT, ds STRING"


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("address.street", True),
        ("`address`.`street`", True),
        ("concat(city, '(*')", True),
        ("address", False),
        ("to_json(address)", False),
        ("to_json(struct(*))", False),
        ("concat(city, address.zip)", False),
    ],
)
def test_whole_structs_and_rows_with_private_fields_are_refused(expression, allowed):
    private = Privacy(columns=("zip",))
    assert is_refused(tg.Histogram("city", binning=expression), private) is not allowed


@pytest.mark.spark
def test_samples_hide_structs_with_private_fields(spark, tmp_path, monkeypatch):
    (tmp_path / "t.toml").write_text('[private]\ncolumns = ["zip"]\n')
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(tmp_path / "t.toml"))
    data = spark.createDataFrame(HELD, TYPES)
    rule = tg.Rule("age < 150 AND address IS NOT NULL", name="old")
    (sample,) = tg.DQM().add(rule).apply(data).state.samples
    assert "89073" not in str(sample)
    assert "address=***" in str(sample)


@pytest.mark.spark
def test_errors_of_rules_and_checks_quote_no_private_value(spark, tmp_path, configured):
    """The error of a failing cast quotes the value; the stored and printed error does not."""
    from tidegauge.rules.run import run_rules

    data = spark.createDataFrame(HELD, TYPES)
    check = tg.Check("c").satisfies("CAST(email AS INT) > 1", "number")
    result = tg.verify(data, check)
    assert not result.passed
    assert "@example.org" not in result.frame().to_csv()
    data.write.partitionBy("ds").parquet(str(tmp_path / "people"))
    rules = tmp_path / "people.yml"
    rules.write_text(
        f"dataset: people\npath: {tmp_path}/people\npartition_by: [ds]\nrules:\n"
        '  - Rule: {expr: "CAST(email AS INT) < 150", name: old}\n'
    )
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        summary = run_rules([str(rules)], repository)
        assert summary.status() == 1
        assert "could not be evaluated" in summary.text()
        assert "@example.org" not in summary.text()
    held = b"".join(path.read_bytes() for path in tmp_path.glob("r.db*"))
    assert b"@example.org" not in held


@pytest.mark.spark
@pytest.mark.parametrize("way", ["apply", "publish", "dataset"])
def test_no_record_of_a_private_dataset_is_kept(spark, tmp_path, monkeypatch, way):
    """This covers samples of rejected records, and errors of rules, which quote values."""
    (tmp_path / "t.toml").write_text('[private]\ntables = ["hr_*"]\n')
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(tmp_path / "t.toml"))
    data = spark.createDataFrame(HELD, TYPES)
    dqm = tg.DQM("people").add(tg.Rule("age < 150", name="old"))
    dqm = dqm.add(tg.Rule("CAST(email AS INT) < 150", name="number"))
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        if way == "apply":
            done = dqm.apply(data, repository=repository, dataset="hr_staff")
            reported = [*done.check.check_log, *map(str, done.state.samples)]
        else:
            staff = tg.dataset(dqm=dqm, repository=repository, name="hr_staff", ephemeral=True)
            with pytest.raises(tg.DQMError) as caught:
                if way == "publish":
                    folder = str(tmp_path / "kept")
                    dqm.publish(data, folder, repository=repository, dataset="hr_staff")
                else:
                    staff(lambda: data)()
            reported = [str(caught.value), *caught.value.result.check_log]
        assert any("CAST_INVALID_INPUT" in line or "NumberFormat" in line for line in reported)
        assert not any("@example.org" in line for line in reported)
    held = b"".join(path.read_bytes() for path in tmp_path.glob("r.db*"))
    assert b"old" in held
    assert b"@example.org" not in held


@pytest.mark.spark
@pytest.mark.parametrize("by", ["file", "path"])
def test_lines_of_a_file_with_private_columns_are_not_kept(spark, tmp_path, monkeypatch, by):
    from tidegauge.rules.run import run_rules

    (tmp_path / "hr_people.csv").write_text("ann@example.org,x\neve@example.org,7\n")
    private = "private: [email]\n" if by == "file" else ""
    if by == "path":
        (tmp_path / "t.toml").write_text('[private]\ntables = ["*hr_people*"]\n')
        monkeypatch.setenv("TIDEGAUGE_CONFIG", str(tmp_path / "t.toml"))
    rules = tmp_path / "people.yml"
    rules.write_text(
        f"dataset: people\npath: {tmp_path}/hr_people.csv\nformat: csv\n"
        f"schema: email STRING, age INT\n{private}rules:\n  - NotNullRule: age\n"
    )
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        summary = run_rules([str(rules)], repository)
        assert "parser: 1 of 2 records" in summary.text()
        assert "@example.org" not in summary.text()
    held = b"".join(path.read_bytes() for path in tmp_path.glob("r.db*"))
    assert b"@example.org" not in held
