"""`suggest`: constraints from rows and from history. Values worked out by hand."""

import datetime as dt
from dataclasses import replace

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.analyzers.measures.extremes import MaxState
from tidegauge.checks.history_constraints import AnomalyConstraint, HistoryConstraint
from tidegauge.checks.suggest import MetricHistory
from tidegauge.checks.suggestions import ceil2, floor2, widen, wilson
from tidegauge.repository.testing import commit, day, measurement

COMPLETE, SIZE, MEAN = tg.Completeness("x"), tg.Size(), tg.Mean("x")


def past(analyzer, values, rows=100.0):
    start = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    times = [("", start + dt.timedelta(days=n)) for n in range(len(values))]
    return MetricHistory(analyzer, list(values), [rows] * len(values), times)


def described(found):
    """Return suggestions by the description of their constraint."""
    return {one.constraint.description: one for one in found}


def read_back(found):
    """Return the check that the code of suggestions builds."""
    space = {}
    exec(found.to_python(), {}, space)  # noqa: S102 - the test is that the code runs
    return space["check"]


# margins


def test_wilson_intervals_equal_published_values():
    # Nine of ten: Newcombe (1998), method 3, has 0.5958 to 0.9821; ten of ten 0.7225 to 1.
    assert wilson(0.9, 10) == pytest.approx((0.5958, 0.9821), abs=1e-4)
    assert wilson(1.0, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(0.5, 0) == (0, 1)
    assert wilson(0.5, float("nan")) == (0, 1)


def test_limits_are_rounded_outward():
    assert (floor2(0.999), floor2(0.57), ceil2(0.001), ceil2(0.07)) == (0.99, 0.57, 0.01, 0.07)
    assert widen(1234, 1236, 0) == (1230, 1240)
    assert widen(-1234, -0.001234, 0) == (-1240, -0.00123)
    assert widen(0, 0, 0) == (0, 0)


# history


def test_the_limit_of_a_share_is_its_one_percent_quantile_less_its_sampling_error():
    # Of 101 values the 1% quantile is the second: 0.9. Nine tenths of 100 rows: Wilson from 0.8256.
    actual = described(past(COMPLETE, [0.2, 0.9, *[0.95] * 99]).suggestions())
    one = actual["Completeness('x'): at least 0.82"]
    assert one.code == ".is_complete('x', at_least=0.82)"
    assert one.reason == (
        "It was below 0.9 in 1% of 101 partitions; less the uncertainty of 100 rows that is 0.82."
    )
    assert (one.rows, one.partitions, one.source) == (10100, 101, "history")


def test_a_constant_share_is_required_exactly():
    assert [one.code for one in past(COMPLETE, [1.0] * 20).suggestions()] == [".is_complete('x')"]
    assert not list(past(COMPLETE, [1.0] * 19).suggestions())
    assert not list(past(COMPLETE, [0.0] * 20).suggestions())
    exists = [one.code for one in past(tg.ColumnExists("x"), [1.0] * 20).suggestions()]
    assert exists == [".has(tg.ColumnExists('x'), tg.Between(lower=1.0, upper=1.0))"]


def test_a_share_that_can_be_too_high_has_two_limits():
    values = [0.5, *[0.6] * 99, 0.7]
    # 1% and 99% quantiles are 0.6; of 100 rows Wilson has 0.5020 to 0.6906.
    codes = [one.code for one in past(tg.Distinctness("x"), values).suggestions()]
    assert codes[0] == ".has(tg.Distinctness('x'), tg.Between(lower=0.5, upper=0.7))"


def test_the_limits_of_a_number_are_its_quantiles_widened_by_half_their_distance():
    # 100, ..., 200: the quantiles are 101 and 199; half their distance is 49.
    actual = described(past(SIZE, range(100, 201)).suggestions())
    one = actual["Size(): at least 52 and at most 248"]
    assert one.code == ".has_size((52.0, 248.0))"
    assert "between 101 and 199; the margin is half their distance, 49." in one.reason
    assert "Size(): usual for Seasonal()" in actual
    # 0, ..., 100: a mean starts at -48; a count has no negative limit.
    assert "Size(): at most 148" in described(past(SIZE, range(101)).suggestions())
    assert "Mean('x'): at least -48 and at most 148" in described(
        past(MEAN, range(101)).suggestions()
    )


def test_a_share_that_is_steady_by_week_is_compared_with_last_week():
    # Every third day is lower by 0.037: the largest fall in a week is 0.037, rounded up to 0.04.
    steady = [0.9 if n % 3 else 0.863 for n in range(60)]
    codes = [one.code for one in past(COMPLETE, steady).suggestions()]
    assert ".not_below(tg.Completeness('x'), '7d', by=0.04)" in codes
    wild = [0.9 if n % 3 else 0.1 for n in range(60)]
    assert not any("not_below" in one.code for one in past(COMPLETE, wild).suggestions())
    few = [one.code for one in past(COMPLETE, steady[:26]).suggestions()]
    assert not any("not_below" in code or "is_usual" in code for code in few)


def test_each_segment_is_compared_with_its_own_last_week():
    actual = past(COMPLETE, [0.9, 0.95] * 30)
    apart = [(f"country={'AB'[n % 2]}", actual.times[n - n % 2][1]) for n in range(60)]
    both = MetricHistory(COMPLETE, actual.values, actual.weights, apart)
    # Within a country nothing ever falls. The days of one country fall by 0.05 in odd weeks.
    assert not any("not_below" in one.code for one in both.suggestions())
    assert any("by=0.05" in one.code for one in actual.suggestions())


def test_a_constant_metric_suggests_no_other_limit(repo):
    commit(repo, *(day(n, total=50.0) for n in range(1, 31)))
    suggestions = tg.suggest(repository=repo)
    assert (
        suggestions.left_out["Mean('x')"]
        == "it was 5 in all partitions, so no other limit follows from it"
    )
    assert "Size(): exactly 10" in described(suggestions)


def undated(number, **options):
    """Return a measured partition without a date in its name."""
    return replace(
        day(number, **options), partition=Partition(("shop",), (f"s{number}",)), time=None
    )


def test_one_of_many_partitions_without_a_time_can_fail(repo):
    """None of these partitions is the newest, in which all suggestions must pass."""
    commit(repo, *(undated(n, rows=3 if n == 20 else 100 + n % 5) for n in range(1, 201)))
    suggestions = tg.suggest(repository=repo)
    assert not any("newest" in reason for reason in suggestions.left_out.values())
    (size,) = [one for one in suggestions if "size" in one.code]
    assert "It holds in 199 of 200 partitions" in size.reason


def test_a_metric_that_covers_its_whole_range_gets_no_suggestion(repo):
    once, same = {(f"{i}",): 1 for i in range(10)}, {("a",): 10}
    commit(repo, *(undated(n, groups=once if n % 2 else same) for n in range(1, 41)))
    suggestions = tg.suggest(repository=repo)
    assert suggestions.left_out["Uniqueness('s')"] == "it varies too much for a useful limit"


@pytest.fixture
def days(repo):
    """Store forty days of 101 to 140 rows; one row of each day is incomplete."""
    texts = tg.MaxLength("s")
    extra = {n: [measurement(texts, MaxState(3, 100))] for n in range(1, 41)}
    commit(repo, *(day(n, rows=100 + n, extra=extra[n]) for n in range(1, 41)))
    return repo


def test_suggestions_from_a_repository_pass_there_and_read_back(days):
    suggestions = tg.suggest(repository=days)
    assert suggestions.dataset == "d"
    assert {one.source for one in suggestions} == {"history"}
    assert tg.verify(days, suggestions.check("all")).passed
    everywhere = tg.verify(days, suggestions.check("all"), partitions="all").frame()
    failed = (everywhere["status"] == "failure").groupby(everywhere["constraint"]).mean()
    assert failed.max() <= 0.05
    assert read_back(suggestions) == suggestions.check()
    # 101, ..., 140: quantiles 101 and 140, half their distance 19.5; outward to three digits 81.5, 160.
    assert "Size(): at least 81.5 and at most 160" in described(suggestions)
    assert "MaxLength('s'): exactly 3" in described(suggestions)
    assert suggestions.left_out["Histogram('s')"] == "it has several values"
    assert suggestions.left_out["Mean('nope')"] == "it never had a value"


def test_a_constraint_that_fails_on_the_newest_partition_is_left_out_with_the_reason(repo):
    commit(repo, *(day(n, rows=100 + n) for n in range(1, 40)), day(40, rows=3))
    suggestions = tg.suggest(repository=repo, dataset="d")
    why = {what: reason for what, reason in suggestions.left_out.items() if what.startswith("Size")}
    assert any("newest partition: row count is 3," in reason for reason in why.values()), (
        suggestions.left_out
    )
    assert tg.verify(repo, suggestions.check()).passed


def test_a_short_history_suggests_nothing(repo):
    commit(repo, *(day(n) for n in range(1, 11)))
    suggestions = tg.suggest(repository=repo, dataset="d")
    assert len(suggestions) == 0
    assert suggestions.left_out["Size()"] == "10 partitions are too few; at least 20 are required"
    with pytest.raises(tg.SuiteError, match="no suggestions for 'd'"):
        suggestions.check()
    assert str(suggestions) == "d: 0 suggestions"
    assert suggestions.frame().empty


def test_selected_suggestions_make_a_check(days):
    suggestions = tg.suggest(repository=days, dataset="d")
    check = suggestions.check("some", "warning", only=[0, suggestions[1]])
    assert (check.name, check.level, len(check.constraints)) == ("some", "warning", 2)
    assert "tg.Check('some', 'warning', dataset='d')" in suggestions.to_python(
        "some", "warning", [0]
    )
    with pytest.raises(tg.SuiteError, match="only= selects no suggestion"):
        suggestions.check(only=[])
    frame = suggestions.frame()
    assert len(frame) == len(suggestions)
    assert frame["code"].tolist() == [one.code for one in suggestions]
    assert len(str(suggestions).splitlines()) == len(suggestions) + 1


def test_hostile_names_are_escaped(repo):
    evil = tg.Completeness("<script>'")
    state = measurement(evil, NumMatchesAndCount(9, 9))
    commit(repo, *(day(n, extra=[state]) for n in range(1, 31)))
    suggestions = tg.suggest(repository=repo, dataset="d")
    assert read_back(suggestions) == suggestions.check()
    page = suggestions._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_missing_input_and_unknown_datasets_are_refused(repo):
    with pytest.raises(tg.SuiteError, match="a table, a repository"):
        tg.suggest()
    with pytest.raises(tg.UnknownDatasetError):
        tg.suggest(repository=repo, dataset="nope")


@pytest.mark.spark
def test_suggestions_from_a_year_of_flights_fail_only_on_storms(measured):
    with tg.Repository(f"sqlite:///{measured}") as repo:
        suggestions = tg.suggest(repository=repo, dataset="flights")
        assert tg.verify(repo, suggestions.check()).passed
        storm = tg.verify(repo, suggestions.check(), partitions=["ds=2013-02-08"])
    assert read_back(suggestions) == suggestions.check()
    kinds = {type(one.constraint) for one in suggestions}
    assert {HistoryConstraint, AnomalyConstraint} < kinds
    assert not storm.passed
    assert any("Completeness('dep_time')" in text for text in storm.failures["constraint"])
    assert all(one.partitions == 365 for one in suggestions if "dep_time" in one.code)


# rows


@pytest.fixture(scope="module")
def orders(spark):
    return spark.range(2000).selectExpr(
        "id AS order_id",
        "CONCAT('user', id % 700, '@example.org') AS email",
        "element_at(array('new', 'paid', 'sent'), CAST(id % 3 AS INT) + 1) AS status",
        "CASE WHEN id % 10 > 0 THEN id % 97 * 1.25 END AS amount",
        "id % 300 - 150 AS delta",
        "CASE WHEN id % 7 > 0 THEN 'NullValue' END AS odd",
        "CASE WHEN id % 9 = 0 THEN 'x' END AS rare",
        "CAST(10000 + id % 89 AS STRING) AS zip",
    )


@pytest.mark.spark
def test_rows_suggest_keys_categories_patterns_and_ranges(orders):
    suggestions = tg.suggest(orders, dataset="orders")
    codes = {one.code for one in suggestions}
    assert {
        ".is_complete('order_id')",
        ".is_unique('order_id')",
        ".is_contained_in('status', ['new', 'paid', 'sent'])",
        ".is_contained_in('odd', ['NullValue'])",
        ".has(tg.PatternMatch('email', 'EMAIL', null_behavior='ignore'), tg.Between(lower=1.0))",
        # 1800 of 2000: Wilson from 0.8861
        ".is_complete('amount', at_least=0.88)",
        ".is_non_negative('amount')",
        # -150, ..., 149: half the distance is 149.5
        ".has_min('delta', (-300.0, None))",
        ".has_max('delta', (None, 299.0))",
        ".has_data_type('zip', 'Integral')",
        ".has_min_length('zip', (5.0, None))",
    } <= codes
    # 0, ..., 120 times 1.25 of 97 values: a column that is nearly always null gets no suggestion
    assert not any("is_complete('rare'" in code for code in codes)
    assert not any("has_mean('order_id'" in code for code in codes)
    reasons = {one.code: one.reason for one in suggestions}
    assert reasons[".is_complete('amount', at_least=0.88)"].startswith("1800 of 2000 rows")
    assert tg.verify(orders, suggestions.check()).passed
    assert read_back(suggestions) == suggestions.check()


@pytest.mark.spark
def test_the_range_of_a_mean_is_centred_on_the_mean(spark):
    # 0 and 10, equally often: mean 5, standard deviation 5; null and NaN are left out.
    data = spark.range(100).selectExpr("id % 2 * 10.5D AS x")
    codes = {one.code for one in tg.suggest(data, dataset="d")}
    assert ".has_mean('x', (0.0, 10.5))" in codes
    assert ".has_standard_deviation('x', (2.62, 10.5))" in codes


@pytest.mark.soak
@pytest.mark.spark
def test_a_sample_is_reported_and_limits_allow_for_unseen_rows(orders):
    suggestions = tg.suggest(orders, dataset="orders", sample_rows=500)
    assert all("Seen in a sample of" in one.reason for one in suggestions)
    # For about 500 values that are all among three, Wilson's lower limit is 0.992.
    assert ".is_contained_in('status', ['new', 'paid', 'sent'], at_least=0.99)" in {
        one.code for one in suggestions
    }


@pytest.mark.spark
def test_too_few_rows_suggest_nothing(spark):
    few = spark.createDataFrame([(1, "a")] * 19, "x int, s string")
    assert len(tg.suggest(few, dataset="few")) == 0
    assert len(tg.suggest(few.limit(0), dataset="none")) == 0


@pytest.mark.soak
@pytest.mark.spark
def test_history_takes_precedence_over_rows(spark, repo):
    commit(repo, *(day(n, rows=100 + n) for n in range(1, 41)))
    data = spark.range(100).selectExpr("CASE WHEN id > 0 THEN id % 7 + 0.5 END AS x", "'a' AS t")
    suggestions = tg.suggest(data, repository=repo, dataset="d")
    of_x = [one for one in suggestions if one.constraint.analyzer == COMPLETE]
    assert {one.source for one in of_x} == {"history"}
    assert {one.source for one in suggestions} == {"data", "history"}
    new = tg.suggest(data, repository=repo, dataset="another")
    assert {one.source for one in new} == {"data"}


def test_suggested_assertions_are_plain_values(days):
    for one in tg.suggest(repository=days):
        assert isinstance(one.constraint.assertion, tg.Between)
