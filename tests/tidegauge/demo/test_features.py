"""The generated shop: its faults are detected in their hours and named in headlines."""

import shutil
import uuid

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.demo.features import DAY_MS, HOUR_MS, MINUTE_MS, Shop, make_features

DAYS = [f"2023-01-0{n}" for n in range(2, 6)]
BROKEN = ["ds=2023-01-03/hr_minute=13-00", "ds=2023-01-03/hr_minute=14-00"]


# The shop, without Spark


@pytest.fixture(scope="module")
def shop():
    return Shop(days=4, users=200, queries=800, seed=6)


@pytest.fixture(scope="module")
def answers(shop):
    return list(shop.answers())


def test_served_features_follow_from_events_before_the_lag(shop, answers):
    clicks, searches = (
        list(zip(of.user.tolist(), of.ms.tolist(), of.events.tolist(), strict=True))
        for of in (shop.clicks, shop.searches)
    )
    prices = list(shop.prices())
    broken = shop.start + DAY_MS + 13 * HOUR_MS
    hit = 0
    for one in answers[::97]:
        seen = one.ms - 45 * MINUTE_MS
        own = [c for c in clicks if c[0] == one.user and seen - 7 * DAY_MS < c[1] <= seen]
        assert one.features["clicks_1h"] == sum(c[1] > seen - HOUR_MS for c in own)
        assert one.features["clicks_7d"] == len(own)
        assert one.features["last_item"] == max(own, key=lambda c: c[1])[2]
        seen = one.ms - 2000
        own = [s for s in searches if s[0] == one.user and seen - DAY_MS < s[1] <= seen]
        last = max(own, key=lambda s: s[1])[2] if own else None
        reported = (len(own), last)
        if broken <= one.ms < broken + 2 * HOUR_MS:
            reported, hit = (None, None), hit + 1
        assert (one.features["searches_1d"], one.features["last_search"]) == reported
        seen = one.ms - 90 * MINUTE_MS
        (price,) = [
            p
            for since, segment, p in prices
            if segment == shop.segment[one.user] and seen - DAY_MS < since <= seen
        ]
        served = (one.features["price_index"], one.features["offers"], one.features["discounts"])
        assert served == (price.index, price.offers, price.discounts)
    assert hit > 0


def test_equal_seeds_make_equal_shops(shop, answers):
    again = Shop(days=4, users=200, queries=800, seed=6)
    assert list(again.answers()) == answers
    assert list(Shop(4, 200, 800, 7).answers()) != answers
    assert shop.days == tuple(DAYS)
    assert len(answers) == pytest.approx(4 * 800 * 1.004, abs=1)


def test_clicks_are_most_consistent_at_their_lag(shop, answers):
    """On a grid of five minutes, by a clear margin."""
    user, at = (np.array([getattr(one, name) for one in answers]) for name in ("user", "ms"))
    served = np.array([one.features["clicks_7d"] for one in answers])
    rates = {
        lag: (shop.clicks.count_before(user, at - lag * MINUTE_MS, 7 * DAY_MS)[0] != served).mean()
        for lag in range(0, 95, 5)
    }
    assert rates[45] == 0
    assert min(rate for lag, rate in rates.items() if lag != 45) > 0.03
    assert rates[0] > rates[30] > rates[40]
    assert rates[90] > rates[60] > rates[50]


# The comparison


@pytest.fixture(scope="module")
def case(spark):
    namespace = f"features_{uuid.uuid4().hex[:10]}"
    yield make_features(spark, namespace, days=4, queries=800)
    spark.sql(f"DROP DATABASE {namespace} CASCADE").collect()


@pytest.fixture(scope="module")
def history(spark, case, tmp_path_factory):
    """Return the file of a repository after one run over all days."""
    file = tmp_path_factory.mktemp("features") / "r.db"
    with tg.Repository(f"sqlite:///{file}") as repo:
        tg.consistency.run(case.configuration, repository=repo, spark=spark, until=DAYS[-1])
    return file


@pytest.fixture
def history_copy(history, tmp_path):
    """Return a copy of the repository that a test can change. Detection needs no states."""
    shutil.copy(history, tmp_path / "r.db")
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repo:
        yield repo


def rates(repo, case, metric):
    """Return a frame with a row for each hour and a column for each feature."""
    metrics = repo.metrics(case.configuration.dataset, name=f"Consistency.{metric}")
    return metrics.pivot_table(index="partition", columns="instance", values="value")


def columns_of(frame, group_by):
    return frame[[name for name in frame if name.startswith(f"{group_by}.")]]


@pytest.mark.spark
def test_a_case_describes_its_faults(case, tmp_path):
    assert (case.days, case.broken) == (tuple(DAYS), tuple(BROKEN))
    file = tmp_path / "features.yml"
    file.write_text(case.yaml)
    assert tg.consistency.load_configuration(file) == case.configuration
    assert set(case.configuration.group_bys) == {"clicks", "prices", "searches"}


@pytest.mark.soak
@pytest.mark.spark
def test_each_fault_is_in_its_hours(history_copy, case):
    mismatch = rates(history_copy, case, "mismatch")
    assert len(mismatch) == 4 * 24
    late = mismatch.index.str[-5:].isin(["00-00", "01-00"])
    prices, clicks, searches = (
        columns_of(mismatch, name) for name in ("prices", "clicks", "searches")
    )
    assert (prices[late] > 0).any(axis=1).all()
    assert (prices[late & mismatch.index.str.endswith("00-00")]["prices.price_index"] == 1).all()
    assert (prices[~late] == 0).all(axis=None)
    assert (clicks.max(axis=1) > 0).all()
    assert clicks.mean().min() > 0.1
    assert 0 < searches.mean().max() < 0.01
    assert searches.max(axis=None) < 0.1
    missing = rates(history_copy, case, "missing")
    assert (columns_of(missing, "searches").loc[BROKEN] > 0.9).all(axis=None)
    assert (missing.drop(index=BROKEN) == 0).all(axis=None)
    assert (missing.drop(columns=columns_of(missing, "searches").columns) == 0).all(axis=None)
    extra = rates(history_copy, case, "extra")
    assert (extra == 0).all(axis=None)


@pytest.mark.soak
@pytest.mark.spark
def test_a_limit_detects_the_midnight_upload_and_its_headline_names_it(history_copy, case):
    dataset = case.configuration.dataset
    limit = tg.SimpleThreshold(0.05)
    name = "Consistency.mismatch"
    history_copy.detect(
        dataset,
        [
            tg.Monitor({"name": name, "instance": f"prices.{feature}"}, limit)
            for feature in case.configuration.group_bys["prices"].features
        ],
    )
    actual = history_copy.incidents(dataset)
    # The run itself has detected the broken deployment.
    actual = actual[actual["first"] != BROKEN[0]]
    assert sorted(actual["first"]) == [f"ds={day}/hr_minute=00-00" for day in DAYS]
    assert sorted(actual["last"]) == [f"ds={day}/hr_minute=01-00" for day in DAYS]
    for headline, day in zip(actual["headline"][::-1], range(2, 6), strict=True):
        when, _, what = headline.partition(": ")
        assert when == f"2023-01-0{day} 00:00-02:00 UTC"
        assert what.startswith("prices mismatch in 3 features")
        assert "(100% of rows)" in what


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("monitors", [None, [tg.Monitor({"name": "Consistency.missing"})]])
def test_history_detects_the_broken_deployment_and_its_headline_names_it(
    history_copy, case, monitors
):
    dataset = case.configuration.dataset
    history_copy.detect(dataset, monitors)
    actual = history_copy.incidents(dataset).set_index("first")
    assert actual.loc[BROKEN[0], "last"] == BROKEN[1]
    when, _, what = actual.loc[BROKEN[0], "headline"].partition(": ")
    assert when == "2023-01-03 13:00-15:00 UTC"
    assert what.startswith("searches missing in 2 features")
    assert "(100% of rows, usually 0%)" in what
    if monitors:
        assert len(actual) == 1
