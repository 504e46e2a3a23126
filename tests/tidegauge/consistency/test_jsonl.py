"""Consistency metrics as JSON lines: a file and its repository show the same."""

import io
import json
import math

import numpy as np
import pytest

import tidegauge as tg
from tests.support import features
from tidegauge.consistency.jsonl import (
    consistency_file,
    export_consistency,
    import_consistency,
    open_consistency,
)
from tidegauge.repository.store.consistency_series import PREFIX
from tidegauge.repository.store.dimensions import Recorded
from tidegauge.repository.store.user_metrics import Record, write_records
from tidegauge.widgets.consistency import Consistency

JOIN = features.JOIN
JANUARY_5 = 1672876800000


@pytest.fixture(scope="module")
def repo():
    with tg.Repository("sqlite://") as actual:
        features.record(actual)
        # A bucket without compared rows, and an additional segment.
        actual.record(
            JOIN,
            f"{PREFIX}mismatch",
            math.nan,
            partition="ds=2023-01-07/hr_minute=00-00",
            instance="batch.spend",
        )
        actual.record(
            JOIN,
            f"{PREFIX}mismatch",
            features.always(0.25),
            instance="batch.spend",
            segment="query_source=app",
        )
        yield actual


@pytest.fixture(scope="module")
def file(repo, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "search.jsonl"
    assert consistency_file(repo, JOIN, path) == 3
    return path


def lines_in(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_each_line_is_a_day_of_the_join(file):
    lines = lines_in(file)
    assert [line["key"] for line in lines] == ["search"] * 3
    assert [line["ts"] - JANUARY_5 for line in lines] == [0, 86_400_000, 2 * 86_400_000]
    metrics = lines[0]["metrics"]
    assert metrics["dataset"] == JOIN
    assert metrics["partitions"] == features.partitions(features.DAYS[:1])
    assert metrics["times"][:2] == [JANUARY_5, JANUARY_5 + 1_800_000]
    whole = metrics["segments"][""]
    assert whole["batch"]["rows"]["row_missing"] == [5.0] * 48
    assert whole["batch"]["features"]["spend"]["mismatch"] == [0.9] * 3 + [0.0] * 45
    assert whole["stream"]["features"]["clicks"]["delta"] == [list(features.SEVEN.values())] * 48
    assert set(whole["stream"]["features"]["tags"]) >= {"logged_length", "edit_insert", "total"}
    assert whole["team.ads"]["features"][features.MARKUP]["missing"] == [0.4] * 48
    assert metrics["segments"]["query_source=app"] == {
        "batch": {"rows": {}, "features": {"spend": {"mismatch": [0.25] * 48}}}
    }
    # Numbers that are not finite are left out.
    assert lines[2]["metrics"]["segments"][""]["batch"]["features"] == {}


def view_content(repository, **asked):
    """Return what the view shows of a repository, without its ids."""
    view = Consistency(repository)
    ranking = view.ranking({"dataset": JOIN, **asked})
    reported = {**ranking.payload, "other_datasets": None}
    arrays = {name: array.tolist() for name, array in ranking.arrays.items() if name != "ids"}
    ids = ranking.arrays["ids"].tolist()
    lines = view.sparklines({"dataset": JOIN, "ids": ids, **asked}).arrays["values"].tolist()
    charts = []
    for number in ids:
        answer = view.features({"dataset": JOIN, "ids": [number], **asked})
        values = answer.arrays["values"]
        flat = values.reshape(-1, values.shape[-1])
        charts += [
            (one["group_by"], one["feature"], metric, flat[row].tolist())
            for one in answer.payload["subjects"]
            for metric, row in one["row_by_metric"].items()
        ]
    return reported, arrays, lines, charts


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metric": "smape"},
        {"metric": "delta-p95", "range": "all"},
        {"segment": "query_source=app"},
    ],
    ids=str,
)
def test_a_file_shows_the_same_as_its_repository(repo, file, options):
    with open_consistency(file) as here:
        np.testing.assert_equal(view_content(here, **options), view_content(repo, **options))


def test_importing_the_same_file_again_writes_nothing(repo, file, tmp_path):
    with tg.Repository(f"sqlite:///{tmp_path / 'here.db'}") as here:
        assert import_consistency(here, file) == [JOIN]
        before = here.metrics(JOIN)
        import_consistency(here, file)
        again = here.metrics(JOIN)
        assert set(again["version"]) == {1}
        assert len(again) == len(before) == len(repo.metrics(JOIN)) - 1  # the NaN
        assert here.metrics(JOIN, name=f"{PREFIX}delta-p50")["value"].tolist() == [0.0] * 96


def test_a_later_file_of_the_day_is_a_new_version(file, tmp_path):
    line = lines_in(file)[0]
    line["metrics"]["segments"][""]["batch"]["features"]["spend"]["mismatch"][0] = 0.8
    late = tmp_path / "late.jsonl"
    late.write_text(json.dumps(line) + "\n")
    with open_consistency(file, late) as here:
        metrics = here.metrics(JOIN, name=f"{PREFIX}mismatch", instance="batch.spend", segment="")
        assert metrics["value"].tolist()[:2] == [0.8, 0.9]
        assert metrics["version"].tolist()[:2] == [2, 1]


def test_days_are_chosen_by_time(repo):
    target = io.StringIO()
    assert export_consistency(repo, JOIN, target, since="2023-01-06", until="2023-01-06") == 1
    assert json.loads(target.getvalue())["ts"] == JANUARY_5 + 86_400_000
    assert export_consistency(repo, JOIN, target, since="2024-01-01") == 0


def test_weights_are_kept(tmp_path):
    """The total of a feature is the weight of its metrics unless another weight was recorded. Rows have their own."""
    day = "ds=2023-01-05"
    recorded = {
        ("g", "row_missing"): (3.0, 90),
        ("g.f", "mismatch"): (0.1, 80),
        ("g.f", "total"): (80.0, {day: 80}),
        ("g.f", "smape"): (0.2, 70),
        ("g.f", "missing"): (0.0, None),
    }
    with tg.Repository("sqlite://") as repo:
        for (instance, metric), (value, weight) in recorded.items():
            what = Recorded(PREFIX + metric, instance=instance)
            write_records(repo.database, [Record("search", what, "", {day: value}, {}, weight)])
        consistency_file(repo, "search", tmp_path / "f.jsonl")
    (line,) = lines_in(tmp_path / "f.jsonl")
    assert line["metrics"]["segments"][""]["g"]["weights"] == {
        "rows": {"row_missing": [90.0]},
        "features": {"f": {"missing": [None], "smape": [70.0]}},
    }
    with open_consistency(tmp_path / "f.jsonl") as here:
        actual = here.metrics("search").set_index("name")["weight"].fillna(-1)
    expected = {"row_missing": 90, "mismatch": 80, "total": 80, "smape": 70, "missing": -1}
    assert actual.to_dict() == {f"{PREFIX}{name}": weight for name, weight in expected.items()}


def test_days_without_buckets_have_one_partition_each():
    with tg.Repository("sqlite://") as repo:
        days = {"ds=2023-01-05": 0.1, "ds=2023-01-06": 0.2}
        repo.record("search", f"{PREFIX}mismatch", days, instance="g.f")
        target = io.StringIO()
        assert export_consistency(repo, "search", target) == 2
        first = json.loads(target.getvalue().splitlines()[0])
        assert (first["key"], first["ts"]) == ("search", JANUARY_5)  # no namespace is given
        assert first["metrics"]["partitions"] == ["ds=2023-01-05"]


def test_finite_numbers_of_a_distribution_are_kept(tmp_path):
    with tg.Repository("sqlite://") as repo:
        for name, value in {**features.SEVEN, "max": math.inf}.items():
            numbers = {"ds=2023-01-05": value, "ds=2023-01-06": math.nan}
            repo.record("search", f"{PREFIX}delta-{name}", numbers, instance="g.f")
        consistency_file(repo, "search", tmp_path / "f.jsonl")
        first, second = lines_in(tmp_path / "f.jsonl")
        feature = first["metrics"]["segments"][""]["g"]["features"]["f"]
        assert feature == {"delta": [[-9.0, -3.0, -1.0, 0.0, 1.0, 3.0, None]]}
        assert second["metrics"]["segments"][""]["g"]["features"] == {}
        with open_consistency(tmp_path / "f.jsonl") as here:
            assert sorted(here.metrics("search")["value"]) == [-9, -3, -1, 0, 1, 3]


def test_missing_metrics_and_times_cannot_be_exported(repo):
    with tg.Repository("sqlite://") as other:
        other.record("orders", "revenue", 1.0, partition="ds=2023-01-05")
        other.record("parts", f"{PREFIX}mismatch", 1.0, partition="part=a", instance="g.f")
        with pytest.raises(tg.HistoryError, match="no consistency metrics"):
            export_consistency(other, "orders", io.StringIO())
        with pytest.raises(tg.HistoryError, match="without a time"):
            export_consistency(other, "parts", io.StringIO())
        with pytest.raises(tg.UnknownDatasetError):
            export_consistency(other, "nothing", io.StringIO())
    with pytest.raises(tg.DatabaseAccessError, match="nowhere"):
        consistency_file(repo, JOIN, "/nowhere/at/all.jsonl")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[]", "line 1: not the consistency metrics"),
        ('{"key": "a", "ts": 0, "metrics": {}}', "line 1: not the consistency metrics"),
        (
            '{"metrics": {"dataset": "d", "partitions": ["ds=2023-01-05"], "times": [0, 1], "segments": {}}}',
            "line 1",
        ),
        (
            '{"metrics": {"dataset": "d", "partitions": ["ds=2023-01-05"], "times": [0],'
            ' "segments": {"": {"g": {"rows": {}, "features": {"f": {"delta": [[1, 2]]}}}}}}}',
            "line 1",
        ),
    ],
)
def test_an_invalid_line_is_reported_with_its_number(tmp_path, text, message):
    file = tmp_path / "wrong.jsonl"
    file.write_text(text + "\n")
    with pytest.raises(tg.SourceError, match=message):
        open_consistency(file)


def test_a_missing_file_is_reported():
    with pytest.raises(tg.SourceError, match="cannot read"):
        open_consistency("/nowhere/at/all.jsonl")


def test_several_series_are_recorded_in_one_commit():
    of = {name: Recorded(name, scale="count") for name in ("a", "b")}
    days = ["ds=2023-01-05", "ds=2023-01-06"]
    with tg.Repository("sqlite://") as repo:
        first = [
            Record("d", of["a"], "", dict(zip(days, (1.0, 2.0), strict=True)), {}),
            Record("d", of["b"], "", {days[1]: 3.0}, {}),
        ]
        assert write_records(repo.database, first) == 3
        assert write_records(repo.database, first) == 0
        second = [
            Record("d", of["a"], "", {days[0]: 1.0, days[1]: 5.0}, {}),
            Record("d", of["b"], "", {days[0]: 4.0}, {}),
        ]
        assert write_records(repo.database, second) == 2
        metrics = repo.metrics("d")
        rows = zip(
            metrics["name"], metrics["partition"], metrics["value"], metrics["version"], strict=True
        )
        assert list(rows) == [
            ("a", days[0], 1, 1),
            ("b", days[0], 4, 1),
            ("a", days[1], 5, 2),
            ("b", days[1], 3, 1),
        ]
        latest = repo.latest("d").set_index("name")["value"]
        assert (latest["a"], latest["b"]) == (5, 3)
        assert write_records(repo.database, []) == 0
