"""The report: a table in the terminal, and a page."""

import csv
import datetime as dt
import io
import json

import pytest

import tidegauge as tg
from tests.support.pages import HOSTILE, LONG, read_page, shown
from tidegauge import report_page
from tidegauge.analysis import Run
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.runs.ledger import Change, RunStatus
from tidegauge.analyzers.runs.recording import RunReport
from tidegauge.cli.main import run_command
from tidegauge.report_page import write_report
from tidegauge.repository.store.frames import records
from tidegauge.repository.testing import SIZE, commit, day, measurement, spec

MADE = dt.datetime(2013, 2, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def url(repo):
    rows = [1000] * 29 + [300]
    commit(repo, *(day(n, rows=r) for n, r in enumerate(rows, 1)))
    repo.detect("d")
    return str(repo.database.url)


def test_the_report_has_a_row_for_each_dataset(url, repo, capsys):
    repo.record("other", "revenue", 1.5, partition="ds=2013-01-01")
    assert run_command(["report", "--db", url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:3] == ["d", "30", "ds=2013-01-30"]
    assert lines[2].split()[:3] == ["other", "1", "ds=2013-01-01"]
    assert run_command(["report", "d", "--db", url, "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["errors"], row["rows"], row["status"]) == ("1", "300", "complete")
    assert run_command(["report", "--db", url, "--format", "json", "--since", "2013-02-01"]) == 0
    assert [r["errors"] for r in json.loads(capsys.readouterr().out)] == [0, 0]
    assert run_command(["report", "e", "--db", url]) == 1
    assert "no dataset 'e'" in capsys.readouterr().err


def test_incidents_that_have_ended_are_listed_but_not_counted(url, repo, capsys):
    listed = f"tidegauge anomalies list --incidents --status resolved --db {url}"
    over = f"1 incident is resolved: {listed}"
    assert run_command(["report", "--db", url]) == 0
    assert over not in capsys.readouterr().out  # an open incident
    commit(repo, *(day(n, rows=1000) for n in (31, 32, 33)))
    repo.detect("d")
    assert run_command(["report", "--db", url]) == 0
    assert over in capsys.readouterr().out


def test_the_page_shows_datasets_incidents_and_charts(url, repo, tmp_path, capsys):
    file = tmp_path / "report.html"
    file.write_text("older")
    commit(repo, day(3, "b", rows=990))
    repo.store.mark_gone(repo.store.open_run(spec()), ["ds=2013-01-04"])
    assert run_command(["report", "d", "--db", url, "--html", str(file)]) == 0
    assert capsys.readouterr().out.strip() == str(file)
    tags, text = read_page(file.read_text(encoding="utf-8"))
    assert tags.count("svg") > 5
    assert "Tidegauge report: d" in text
    assert "◆ error: 2013-01-30: volume -70%" in text
    assert "ds=2013-01-03: version 2" in text
    assert "ds=2013-01-04: gone" in text
    assert "30 partitions, 1 measured again, 1 gone" in text
    assert "Size in ds=2013-01-30" in text
    assert "✕ failed" in text  # for a column that does not exist
    assert [p.name for p in tmp_path.glob("*report*")] == ["report.html"]


def test_settled_incidents_are_listed_and_a_window_limits_the_page(url, repo, tmp_path):
    repo.label(int(repo.incidents()["id"][0]), "expected", note="a strike")
    text = read_page(write_report(repo, tmp_path / "a.html", created_at=MADE).read_text("utf-8"))[1]
    assert "Created 2013-02-01 12:00 UTC" in text
    assert "Open incidentsNone." in text
    assert "Settled incidents" in text
    assert "✓ expected" in text
    late = write_report(repo, tmp_path / "b.html", since="2014-01-01", created_at=MADE)
    assert "Settled" not in read_page(late.read_text("utf-8"))[1]


def test_a_page_of_many_incidents_draws_the_worst_and_lists_the_others(repo, tmp_path, monkeypatch):
    for table, length in enumerate((30, 33, 36)):  # they do not fall on the same day
        days = [f"ds={dt.date(2013, 1, 1) + dt.timedelta(days=n)}" for n in range(length)]
        for name in ("m", "n"):
            numbers = [100.0 + n % 3 for n in range(length - 1)]
            repo.record(f"d{table}", name, dict(zip(days, [*numbers, 3.0], strict=True)))
        repo.detect(f"d{table}")
    assert repo.incidents()["series"].tolist() == [2, 2, 2]
    drawn = []

    def draw(plot, **options):
        drawn.append(plot.dataset)
        return ""

    monkeypatch.setattr(report_page, "svg_of_plot", draw)
    write_report(repo, tmp_path / "all.html")
    assert sorted(drawn) == ["d0", "d0", "d1", "d1", "d2", "d2"]
    drawn.clear()
    monkeypatch.setattr(report_page, "MAX_CHARTS", 2)
    write_report(repo, tmp_path / "few.html")
    assert sorted(drawn.count(name) for name in ("d0", "d1", "d2")) == [1, 1, 2]
    drawn.clear()
    (row,) = records(repo.overview("d0"))
    none = report_page.contents_of(repo, row, max_charts=0)
    assert not none.evidence
    page = "".join(report_page._render_incidents(none))
    assert f"Incident {none.incidents[0]['id']}: " in page
    assert str(none.incidents[0]["headline"])[:10] in page


def test_the_page_shows_the_date_and_the_measuring_time_of_the_newest_partition(
    url, repo, tmp_path
):
    text = read_page(write_report(repo, tmp_path / "a.html", created_at=MADE).read_text("utf-8"))[1]
    (row,) = repo.overview("d").to_dict("records")
    assert f"newest partition {row['newest']}, of {row['time']:%Y-%m-%d} 00:00" in text
    assert f", measured on {row['measured_at']:%Y-%m-%d %H:%M} (UTC)." in text
    assert row["measured_at"] == repo.partitions("d")["measured_at"].iloc[-1]


def test_the_newest_value_is_marked_as_an_anomaly_even_if_it_is_settled(url, repo, tmp_path):
    def sizes():
        text = read_page(
            write_report(repo, tmp_path / "a.html", created_at=MADE).read_text("utf-8")
        )[1]
        table = text[text.index("Series, the last") : text.index("Runs")]
        assert "as usual" not in table[: table.index("anomaly, ")]  # the worst come first
        return table

    number = int(repo.incidents()["id"][0])
    assert f"anomaly, ● open ({number})" in sizes()
    repo.label(number, "expected")
    assert f"anomaly, ✓ expected ({number})" in sizes()
    assert "open" not in sizes()


def test_a_page_cannot_be_combined_with_a_format(url, tmp_path, capsys):
    command = ["report", "--db", url, "--html", str(tmp_path / "a.html"), "--format", "json"]
    assert run_command(command) != 0
    assert "--html and --format json exclude each other" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.html"))


def test_an_empty_repository_has_a_page(repo, tmp_path):
    page = write_report(repo, tmp_path / "a.html", created_at=MADE)
    assert "The repository is empty." in read_page(page.read_text("utf-8"))[1]
    with pytest.raises(tg.DatabaseAccessError, match="cannot write"):
        write_report(repo, tmp_path / "no" / "a.html")


def test_hostile_names_are_escaped(repo, tmp_path):
    groups = {(HOSTILE,): 30, (LONG[:500],): 20}
    actual = [day(n, rows=50, groups=groups) for n in range(1, 30)]
    commit(repo, *actual, day(30, rows=20, groups={("b",): 20}), dataset=HOSTILE)
    repo.record(
        "other", LONG, {f"ds=2013-01-{n:02}": n for n in range(1, 5)}, instance=LONG, segment=LONG
    )
    repo.detect(HOSTILE)
    repo.label(int(repo.incidents()["id"][0]), "reopened", note=LONG, by=HOSTILE)
    page = write_report(repo, tmp_path / "a.html", created_at=MADE).read_text("utf-8")
    tags, text = read_page(page)
    assert tags.count("title") > 5
    assert "onerror" in text
    assert len(page) < 300_000


@pytest.mark.soak
def test_a_page_of_ten_thousand_series_with_long_names_is_small(repo, tmp_path):
    groups = {(f"{n}{HOSTILE}" + "W" * 150,): 1 for n in range(900)}
    state = FrequenciesAndNumRows.from_groups(groups.items())
    extra = [measurement(tg.Histogram("s", where=f"n = {n}"), state) for n in range(5)]
    commit(repo, day(1, rows=900, groups=groups, extra=extra))
    assert records(repo.overview())[0]["series"] == 6 * 1801 + 5
    page = write_report(repo, tmp_path / "a.html", created_at=MADE).read_text("utf-8")
    assert len(page.encode()) < 1_000_000
    assert "and 10,411 more" in read_page(page)[1]
    shown(repo.latest("d"))
    shown(repo)
    with pytest.raises(tg.HistoryError, match="10,811 series match"):
        repo.plot("d")


def test_runs_and_suites_have_a_display(repo):
    changes = {f"ds={n}{HOSTILE}": Change.NEW for n in range(1000)} | {"ds=x": Change.UNCHANGED}
    failed = {tg.Mean(f"{LONG}{n}"): tg.NoSuchColumnError(HOSTILE, ["y"]) for n in range(200)}
    report = RunReport(3, HOSTILE, RunStatus.COMPLETE, changes, 4, ("ds=gone",), failed)
    text = shown(Run(report, repo))
    assert "Run 3 of" in text
    assert "✓ complete" in text
    assert "new1000" in text
    assert "unchanged1" in text
    assert "ds=gonegone" in text
    assert "and 991 more" in text
    suite = tg.Suite(
        HOSTILE,
        [tg.Size(where=f"{LONG}{n}") for n in range(200)],
        partition_by=["ds"],
        segments=[[LONG]],
        tags={HOSTILE: LONG},
        notify=["https://user:secret@example.org/hook"],
    )
    text = shown(suite)
    assert "Suite for" in text
    assert "partitioned byds" in text
    assert "and 160 more" in text
    assert "secret" not in text
    assert "1 sink" in text


def test_failures_of_rules_and_checks_are_shown(url, repo, tmp_path, capsys):
    prints = repo.partitions("d").set_index("partition")["fingerprint"]

    def keep(partition, message, *, passed=False, fingerprint=None):
        repo.keep_verdict(
            "d",
            name="checks",
            specification="5e1f",
            fingerprint=fingerprint or prints[partition],
            passed=passed,
            result=tg.CheckResult(passed, () if passed else (("fare", message),)).to_json(),
            partition=partition,
        )

    keep("ds=2013-01-30", "3 of 12 rows <b>")
    keep("ds=2013-01-29", "of other content", fingerprint="a93c")
    keep("ds=2013-01-28", "mended since")
    keep("ds=2013-01-28", "", passed=True)
    text = read_page(write_report(repo, tmp_path / "a.html", created_at=MADE).read_text("utf-8"))[1]
    reported = text[text.index("Failed rules and checks") : text.index("Series, the last")]
    assert "fare: 3 of 12 rows <b>" in reported
    assert "other content" not in reported
    assert "mended" not in reported
    assert "1failing checks" in text
    late = write_report(repo, tmp_path / "b.html", since="2014-01-01", created_at=MADE)
    assert "Failed rules" not in read_page(late.read_text("utf-8"))[1]

    def printed_report(*options):
        assert run_command(["report", "--db", url, *options]) == 0
        return capsys.readouterr().out

    out = printed_report().splitlines()
    assert (out[0].split()[-1], out[1].split()[-1]) == ("failing", "1")
    assert [line.split() for line in out[2:]] == [
        [],
        ["Failed", "rules", "and", "checks"],
        ["dataset", "partition", "check", "reason"],
        ["d", "ds=2013-01-30", "checks", "fare:", "3", "of", "12", "rows", "<b>"],
    ]
    assert "Failed" not in printed_report("--since", "2014-01-01")
    assert json.loads(printed_report("--format", "json"))[0]["failing"] == 1
    assert (
        json.loads(printed_report("--format", "json", "--since", "2014-01-01"))[0]["failing"] == 0
    )
    for n in range(1, 25):
        keep(f"ds=2013-01-{n:02}", "1 of 12 rows")
    out = printed_report().splitlines()
    assert sum("fare:" in line for line in out) == 20
    assert out[-1] == "and 5 more verdicts of d"


def test_incidents_link_to_the_dashboard_if_its_address_is_known(
    url, repo, tmp_path, monkeypatch, capsys
):
    (number,) = repo.incidents("d", status="open")["id"].tolist()
    file = write_report(repo, tmp_path / "plain.html")
    assert "<a " not in file.read_text(encoding="utf-8")
    monkeypatch.setenv("TIDEGAUGE_DASHBOARD_URL", "https://quality.example/")
    page = write_report(repo, tmp_path / "linked.html").read_text(encoding="utf-8")
    assert f'<a href="https://quality.example/#/incidents/{number}">' in page
    assert '<a href="https://quality.example/#/overview?table=d">' in page
    assert run_command(["anomalies", "show", str(number), "--db", url]) == 0
    assert capsys.readouterr().out.endswith(
        f"\nSee: https://quality.example/#/incidents/{number}\n"
    )


@pytest.mark.soak
def test_incidents_of_several_tables_with_one_cause_are_one_entry(repo, tmp_path):
    for name in "abc":
        rows = [1000] * 29 + [7]
        commit(repo, *(day(n, rows=r, only=[SIZE]) for n, r in enumerate(rows, 1)), dataset=name)
        repo.detect(name)
    text = read_page(write_report(repo, tmp_path / "all.html", created_at=MADE).read_text("utf-8"))[
        1
    ]
    assert "Incidents across tables◆ error: 2013-01-30: fewer rows in 3 tables: a, b and c" in text
    assert text.count("◆ error: 2013-01-30: volume -99%") == 1  # in full once, in the group
    assert text.count("Across tables: incident") == 3
    text = read_page(
        write_report(repo, tmp_path / "b.html", "b", created_at=MADE).read_text("utf-8")
    )[1]
    assert text.count("◆ error: 2013-01-30: volume -99%") == 1
    assert "Part of a group: 2013-01-30: fewer rows in 3 tables" in text
    assert "Incidents across tables" not in text
