"""Suites and suite files. No Spark."""

import json

import pytest

import tidegauge as tg
from tidegauge.demo.flights import demo_suite
from tidegauge.files.suite_files import find_suites, load_suite

DESIGN = """
dataset: flights
table: warehouse.flights
partition_by: [ds]
time: {format: "%Y-%m-%d", key: ds}
analyzers:
  - Size
  - Completeness: dep_time
  - ApproxQuantile: {column: dep_delay, quantile: 0.5, where: "origin = 'EWR'"}
  - "Uniqueness(['a', 'b'])"
monitors:
  - {series: {name: Completeness}, detector: Seasonal, severity: error}
  - {detector: {OnlineNormal: {lower_deviation_factor: 2}}}
  - {detector: "SimpleThreshold(5)"}
windows: [7d, month]
tags: {team: ops, hr: 07, day: 2013-02-08, norway: NO, switch: on}
"""


@pytest.fixture
def write(tmp_path):
    def to_file(text, name="suite.yml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return to_file


def test_a_suite_file_defines_a_suite(write):
    loaded = load_suite(write(DESIGN))
    assert loaded.table == "warehouse.flights"
    assert loaded.suite.dataset == "flights"
    assert loaded.suite.analyzers == (
        tg.Size(),
        tg.Completeness("dep_time"),
        tg.ApproxQuantile("dep_delay", 0.5, where="origin = 'EWR'"),
        tg.Uniqueness(["a", "b"]),
    )
    assert loaded.suite.partition_by == ("ds",)
    assert loaded.suite.time_format.formats == ("%Y-%m-%d",)
    assert [repr(m.detector) for m in loaded.suite.monitors] == [
        "Seasonal()",
        "OnlineNormal(lower_deviation_factor=2.0)",
        "SimpleThreshold(5.0)",
    ]
    assert loaded.suite.monitors[0].severity == "error"
    assert loaded.suite.windows == ("7d", "month")
    # Every scalar is a string: none becomes an octal number, a date or a boolean.
    assert loaded.suite.tags == {
        "team": "ops",
        "hr": "07",
        "day": "2013-02-08",
        "norway": "NO",
        "switch": "on",
    }
    assert loaded.lines[tg.Completeness("dep_time")] == 8
    assert tg.Suite.from_json(loaded.suite.canonical()) == loaded.suite
    assert json.loads(loaded.suite.canonical())["windows"] == ["7d", "month"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("Completeness: dep_time", "Compleetness: dep_time"), ":8: unknown analyzer 'Compleetness'; did you mean 'Completeness'?"),
        (("quantile: 0.5", "quantil: 0.5"), ":9: unknown option of ApproxQuantile 'quantil'; did you mean 'quantile'?"),
        (("quantile: 0.5", "quantile: half"), ":9: ApproxQuantile: quantile must be a number, not 'half'"),
        (("quantile: 0.5", "quantile: 1.5"), ":9: ApproxQuantile('dep_delay', 1.5, where=\"origin = 'EWR'\"): a quantile must be between"),
        (("  - Size\n", "  - Size: {}\n  - Mean\n"), ":8: Mean needs 'column'"),
        (("  - Size\n", "  - [Size]\n"), ":7: an analyzer is a name"),
        (("partition_by: [ds]", "partition_bi: [ds]"), ":4: unknown field 'partition_bi'; did you mean 'partition_by'?"),
        (("partition_by: [ds]", "partition_by: ds"), ":4: partition_by: Input should be a valid list; write [ds]"),
        (("key: ds}", "kee: ds}"), ":5: unknown field 'kee'; did you mean 'key'?"),
        (("detector: Seasonal", "detector: Seasonl"), ":12: unknown detector 'Seasonl'; did you mean 'Seasonal'?"),
        (("lower_deviation_factor", "lower_factor"), ":13: unknown option of OnlineNormal 'lower_factor'"),
        (("severity: error", "severity: fatal"), ":12: unknown severity 'fatal'"),
        (("{name: Completeness}", "{nam: Completeness}"), ":12: unknown selector of series 'nam'; did you mean 'name'?"),
        (("windows: [7d, month]", "windows: [7x]"), ":15: windows: invalid window '7x': use 7d, 24h, 2w, day"),
        (("windows: [7d, month]", "windows:\n  - 7d\n  - 0d"), ":17: windows: invalid window '0d'"),
        (("partition_by: [ds]", "partition_by: [day]"), ":5: time names 'ds', which is not among partition_by"),
        (("table: warehouse.flights\n", ""), "either a table or a path"),
        (("dataset: flights\n", ""), "dataset: Field required; add dataset: VALUE"),
        (("partition_by: [ds]", "max_segments: many"), ":4: max_segments: Input should be a valid integer, not 'many'"),
        (("partition_by: [ds]", "segments: [[a], b]"), ":4: segments.1: Input should be a valid list; write [b]"),
        (("  - Size\n", "  - Mean:\n      column: a\n      colunm: b\n"), ":7: unknown option of Mean 'colunm'"),
        (("partition_by: [ds]", "holidays: [US]"), ":4: holidays: Input should be a calendar or names by days, not ['US']"),
        (("dataset: flights\n", "dataset: flights\ndataset: other\n"), ":3: duplicate key 'dataset'"),
        (("analyzers:\n", "analyzers: [\n"), "not YAML"),
        (("windows: [7d, month]", "segments: [[origin], [origin]]"), ":15: suite 'flights': a set of segment columns is listed twice"),
        (("windows: [7d, month]", "max_segments: 0"), ":15: suite 'flights': max_segments must be at least 1"),
        (("windows: [7d, month]", "holidays:\n  2013-07-04: Fourth\n  July 5: Fifth"), ":17: holidays: invalid day 'July 5'"),
        (("windows: [7d, month]", "sensitivity: hihg"), ":15: unknown sensitivity 'hihg'; did you mean 'high'?"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_with_their_line_and_the_nearest_name(write, change, message):
    assert change[0] in DESIGN
    path = write(DESIGN.replace(*change))
    with pytest.raises(tg.SuiteError) as error:
        load_suite(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("field", ["notify: slack://token", "options: {password: [token]}"])
def test_errors_do_not_show_secrets(write, field):
    with pytest.raises(tg.SuiteError) as error:
        load_suite(write(f"{DESIGN}{field}\n"))
    assert ":17: " in str(error.value)
    assert "token" not in str(error.value)


def test_an_error_has_the_line_of_its_option(write):
    check = "checks:\n  - is_complete:\n      column: a\n      at_least: most\n"
    with pytest.raises(tg.SuiteError, match=r":20: at_least is a number, not 'most'"):
        load_suite(write(DESIGN + check))


def test_missing_and_invalid_files_are_refused(tmp_path, write):
    with pytest.raises(tg.SuiteError, match="cannot read"):
        load_suite(tmp_path / "missing.yml")
    with pytest.raises(tg.SuiteError, match="one mapping"):
        load_suite(write("- a\n- b\n"))
    with pytest.raises(tg.SuiteError, match="one mapping"):
        load_suite(write(""))
    with pytest.raises(tg.SuiteError):
        load_suite(write("a: !!python/object/apply:os.system ['true']\n"))


def test_files_folders_and_globs_are_found(write, tmp_path, monkeypatch):
    for name in ("a.yml", "b.yaml", "deep/c.yml", "notes.txt"):
        write(DESIGN, name)
    monkeypatch.chdir(tmp_path)
    names = lambda *patterns: [str(p) for p in find_suites(patterns)]  # noqa: E731
    assert names("a.yml") == ["a.yml"]
    assert names(".") == ["a.yml", "b.yaml", "deep/c.yml"]
    assert names("*.y*ml", "a.yml") == ["a.yml", "b.yaml"]
    assert names(f"{tmp_path}/deep/*") == [f"{tmp_path}/deep/c.yml"]
    with pytest.raises(tg.SuiteError, match="no suite file at 'x/\\*.yml'"):
        names("x/*.yml")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tg.Suite(" ", [tg.Size()]), "name of its dataset"),
        (lambda: tg.Suite("d", []), "no analyzers"),
        (lambda: tg.Suite("d", [3]), "not an analyzer"),
        (lambda: tg.Suite("d", ["Sise()"]), "did you mean 'Size'"),
        (lambda: tg.Suite("d", [tg.ApproxQuantile("x", 2)]), "between 0 and 1"),
        (lambda: tg.Suite("d", [tg.Size()], partition_by="ds"), r"\['ds'\]"),
        (
            lambda: tg.Suite("d", [tg.Size()], ["ds"], time={"format": "%Y", "key": "dt"}),
            "'dt', which is not among",
        ),
        (lambda: tg.Suite("d", [tg.Size()], time={"key": "dt"}), "a format and its keys"),
        (lambda: tg.Suite("d", [tg.Size()], windows=["0d"]), "windows: invalid window '0d'"),
        (lambda: tg.Suite("d", [tg.Size()], windows="7d"), r"\['7d', 'month'\], not '7d'"),
        (lambda: tg.Suite("d", [tg.Size()], windows=[7]), r"not \[7\]"),
    ],
)
def test_invalid_suites_are_refused(build, message):
    with pytest.raises((tg.SuiteError, tg.IllegalAnalyzerParameterError), match=message):
        build()


def test_a_suite_accepts_all_windows_that_can_be_rolled_up():
    names = ["7d", "24h", "2w", "hour", "day", "week", "month", "quarter", "year", "total"]
    assert tg.Suite("d", [tg.Size()], windows=names).windows == tuple(names)
    assert tg.Suite("d", [tg.Size()], windows=["7D", "7d"]).windows == ("7d",)


def test_equal_analyzers_are_merged_and_strings_are_parsed():
    suite = tg.Suite("d", [tg.Size(), "Size()", "Mean('x')"])
    assert suite.analyzers == (tg.Size(), tg.Mean("x"))
    assert hash(suite.analyzers)


def test_the_suite_of_the_demonstration_is_valid():
    suite = demo_suite().suite
    assert len(suite.analyzers) >= 25
    assert {
        tg.Size(),
        tg.Completeness("dep_time"),
        tg.Mean("dep_delay"),
        tg.Maximum("distance"),
    } <= set(suite.analyzers)
    assert {
        tg.Uniqueness("tailnum"),
        tg.Histogram("carrier"),
        tg.Size(where="origin = 'EWR'"),
    } <= set(suite.analyzers)
