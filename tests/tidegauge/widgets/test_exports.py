"""Exports and `Dashboard.data` have the rows, order and columns of the page. No Spark, no browser.

The page's own modules list the rows of each case in node.
"""

import csv
import datetime as dt
import io
import itertools
import json
import math
import random
import subprocess
import unicodedata

import numpy as np
import pandas as pd
import pytest
from hatch_build import WIDGETS, find_node
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegauge as tg
from tidegauge.repository.store.consistency_series import PREFIX
from tidegauge.widgets.answers import listed_columns, listed_rows, row_order
from tidegauge.widgets.backend import Backend

NAMES = [
    *("order_id", "orderId", "order.total", "orders", "Order", "ORDERS", "_id", "zip"),
    *("ärzte", "Ärzte 2", "straße", "STRASSE", "İstanbul", "10", "9", "1e3", "nan", "a\tb"),
    "z" * 300,
]
FILTERS = [
    "",
    "ORDER",
    "ärz",
    "ÄRZTE 2",
    "strasse",
    "_",
    "1",
    "nan",
    "both",
    "a\tb",
    "ärztin",
    "#1",
]
FILTERS += ["z" * 150, "z" * 250, "nothing"]
DAYS = [f"ds=2013-01-{n:02}" for n in range(1, 11)]
SIDES = {"baseline": {"partition": DAYS[0]}, "current": {"partition": DAYS[9]}}
WINDOWS = {
    "baseline": {"since": "2013-01-01", "until": "2013-01-05"},
    "current": {"since": "2013-01-06", "until": "2013-01-10"},
}


def values(place):
    """Return ten values, some of them equal, missing or infinite."""
    last = {0: math.nan, 1: math.inf, 2: 1000.0, 3: 1.0}.get(place % 6, float(place))
    return dict(zip(DAYS, [1.0, 2.0] * 4 + [1.0, last], strict=True))


@pytest.fixture(scope="module")
def repo():
    with tg.Repository("sqlite://") as made:
        for place, name in enumerate(NAMES):
            made.record("names", "Mean", values(place), instance=name, segment=NAMES[-place])
            made.record("names", name, values(place + 1), segment="")
            size = "Size" if place % 3 else "n"  # the number of rows of some tables is unknown
            made.record(name, size, {DAYS[place % 10]: float(place % 4)}, scale="count")
            rate = {"ds=2023-01-05": 0.1 * (place % 3), "ds=2023-01-06": 0.05}
            instance = f"group {place % 2}.{name}"
            made.record("features", f"{PREFIX}mismatch", rate, instance=instance)
        made.detect("names", [tg.Monitor({"name": "Mean"}, "SimpleThreshold(50)")])
        for name in NAMES[2:6]:
            made.detect(name, [tg.Monitor({}, "SimpleThreshold(0.5)")])
        first, second, *_ = made.incidents()["id"].tolist()
        made.label(first, "assigned", note="Ärztin", by="ann")
        later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        made.label(second, "snoozed", by="ann", until=later)
        yield made


@pytest.fixture(scope="module")
def backend(repo):
    return Backend(repo)


CHOICES = {
    "home": {
        "health": ["", "not scored", "error"],
        "sort": ["health", "dataset", "incidents", "newest", "size", "completeness", "owner"],
        "reverse": [False, True],
    },
    "compare": {
        "answer": [*["partitions"] * 5, "windows"],
        "unusual": [False, False, True],
        "sort": [
            *("name", "instance", "segment", "baseline", "current", "change", "relative"),
            *("surprise", "unusual"),
        ],
        "down": [False, True],
    },
    "overview": {
        "table": [None, "names"],
        "by": ["score", "change"],
        "sort": ["name", "name", "worst", "newest", "anomalies"],
        "group": ["", "dataset", "column", "segment", "analyzer"],
        "since": [None, "2013-01-03", "2013-01-09"],
        "until": [None, "2013-01-04 00:00"],
    },
    "consistency": {"group": ["", "group 0"]},
    "incidents": {"status": ["", "", "open", "snoozed", "resolved"]},
}
CASES_OF_A_FILTER = 2


@pytest.fixture(scope="module")
def cases():
    """Return options of each view: all filters, each with random other options."""
    chance = random.Random(1)
    return [
        (view, {"filter": text, **{name: chance.choice(some) for name, some in choices.items()}})
        for view, choices in CHOICES.items()
        for text in FILTERS
        for _ in range(CASES_OF_A_FILTER)
    ]


def order_key(options):
    return " ".join(str(options[name]) for name in ("table", "by", "sort", "group"))


@pytest.fixture(scope="module")
def page_listing(repo, backend, cases, tmp_path_factory):
    """Return the rows that the page lists in each case."""
    try:
        node, _ = find_node()
    except OSError as error:
        pytest.skip(f"no node: {error}")
    if not (WIDGETS / "node_modules").exists():
        pytest.skip("the packages of the script are not installed: make widgets")
    script = tmp_path_factory.mktemp("listing") / "listing.mjs"
    bundle = ["node_modules/esbuild/bin/esbuild", "tests/listing.ts", f"--outfile={script}"]
    bundle += ["--bundle", "--format=esm", "--platform=node", "--log-level=warning"]
    subprocess.run([*node, *bundle], cwd=WIDGETS, check=True)
    questions = {
        "tables": ("tables", {}),
        "partitions": ("compare", {"dataset": "names", **SIDES}),
        "windows": ("compare", {"dataset": "names", **WINDOWS}),
        "consistency": ("consistency", {"dataset": "features"}),
        "incidents": ("incidents", {"dataset": None}),
        "catalogue": ("catalogue", {}),
        "names": ("catalogue", {"table": "names"}),
    }
    answers = {
        key: read(backend.questions[name](about)) for key, (name, about) in questions.items()
    }
    for view, options in cases:
        if view == "overview" and order_key(options) not in answers:
            number = answers[options["table"] or "catalogue"]["data"]["catalogue"]
            order = backend.questions["row_order"](
                {**options, "level_kind": options["by"], "catalogue": number}
            )
            answers[order_key(options)] = read(order)
    asked = [
        [view, {**options, "order": order_key(options)} if view == "overview" else options]
        for view, options in cases
    ]
    given = {"now": dt.datetime.now(dt.UTC).timestamp(), "answers": answers, "cases": asked}
    done = subprocess.run(
        [*node, str(script)], input=json.dumps(given), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def read(answer):
    """Return an answer as the page decodes it. Numbers that are not finite are null."""
    message, buffers = answer.packed()
    arrays = {}
    for (name, kind, _), buffer in zip(message["arrays"], buffers, strict=True):
        numbers = np.frombuffer(buffer, kind).tolist()
        arrays[name] = kind, [number if math.isfinite(number) else None for number in numbers]
    return {"data": message["payload"], "arrays": arrays}


def exported(backend, view, options, **rows):
    sides = {"partitions": SIDES, "windows": WINDOWS}
    dataset = {"compare": "names", "consistency": "features"}.get(view)
    options = {**options, **sides.get(options.get("answer"), {})}
    options.pop("answer", None)
    question = {"view": view, "dataset": dataset, "options": options, **rows}
    text = backend.questions["csv"](question).payload["content"]
    return list(csv.reader(io.StringIO(text)))


def test_an_export_has_the_rows_and_columns_of_the_page_in_its_order(backend, cases, page_listing):
    """The options alone give the same rows."""
    sizes = set()
    for (view, options), page in zip(cases, page_listing, strict=True):
        question = {name: options[name] for name in ("answer", "table", "by") if name in options}
        own = exported(backend, view, question, **page)
        assert own == exported(backend, view, options), (view, options)
        assert len(own) - 1 == len(page["rows"])
        sizes.add((view, min(2, len(page["rows"]))))
        if view in {"home", "incidents"}:
            column = own[0].index("dataset" if view == "home" else "id")
            assert [row[column] for row in own[1:]] == list(map(str, page["rows"]))
        if page.get("columns"):
            assert [own[0][6], own[0][-1]] == page["columns"]
    assert sizes >= set(itertools.product(CHOICES, (0, 2))), "each view lists none and several"


def test_any_rows_are_exported_in_any_order(backend, cases, page_listing):
    longest = {
        view: (options, page["rows"])
        for (view, options), page in sorted(
            zip(cases, page_listing, strict=True), key=lambda case: len(case[1]["rows"])
        )
    }
    for view, (options, rows) in longest.items():
        header, *whole = exported(backend, view, options, rows=rows)
        chosen = list(range(len(rows)))[::-2]
        some = exported(backend, view, options, rows=[rows[n] for n in chosen])
        assert some == [header, *(whole[n] for n in chosen)]
        assert exported(backend, view, options, rows=[]) == [header]
        unknown = ["gone", rows[0], 10**9]
        with pytest.raises(tg.HistoryError, match="Unknown row 'gone' and 1 more: .* Reload"):
            exported(backend, view, options, rows=unknown)


def test_charts_are_exported_from_the_first_to_the_last_label(repo, backend):
    catalogue = backend.questions["catalogue"]({"table": "names"})
    options = {"ids": catalogue.arrays["ids"][:2].tolist(), "since": "2013-01-09"}

    def labels(**page):
        header, *rows = exported(backend, "series", options, **page)
        return sorted({row[header.index("time")][:10] for row in rows})

    assert labels() == ["2013-01-09", "2013-01-10"]
    assert labels(columns=["2013-01-02", "2013-01-03"]) == ["2013-01-02", "2013-01-03"]
    assert labels(columns=[]) == []
    with pytest.raises(tg.HistoryError, match="Unknown column '2014-01-01': .* Reload"):
        labels(columns=["2013-01-02", "2014-01-01"])


def test_all_matching_rows_of_a_truncated_comparison_are_exported(backend, monkeypatch):
    whole = exported(backend, "compare", {"answer": "partitions", "filter": "order"})
    monkeypatch.setattr("tidegauge.widgets.compare.MAX_COMPARED_ROWS", 3)
    answer = backend.questions["compare"]({"dataset": "names", **SIDES})
    assert (answer.payload["rows"], answer.payload["total"]) == (3, 2 * len(NAMES))
    # The page sends no rows then; see `listed` in compare.ts.
    assert exported(backend, "compare", {"answer": "partitions", "filter": "order"}) == whole
    assert len(whole) > 4


texts = st.one_of(st.none(), st.sampled_from([*NAMES, ""]), st.text(max_size=3))
numbers = st.one_of(st.none(), st.floats())
keys = st.one_of(
    st.lists(texts).map(lambda column: pd.Series(column, dtype=object)),
    st.lists(numbers).map(lambda column: pd.Series(column, dtype=np.float64)),
    st.lists(st.one_of(st.none(), st.integers(-3, 3))).map(
        lambda column: pd.Series(column, dtype="Int64")
    ),
)


@settings(max_examples=60)
@given(keys)
def test_unknown_keys_come_last_in_both_directions_and_ties_keep_their_order(key):
    up, down = (row_order(key, descending=descending).tolist() for descending in (False, True))
    unknown = [n for n in range(len(key)) if pd.isna(key[n]) or key[n] == ""]
    known = [n for n in range(len(key)) if n not in unknown]

    def place(n):
        is_text = isinstance(key[n], str)
        return unicodedata.normalize("NFKD", key[n].casefold()) if is_text else key[n]

    assert up == sorted(known, key=place) + unknown
    assert down == sorted(known, key=place, reverse=True) + unknown


def test_accented_letters_follow_plain_letters_and_case_is_ignored():
    names = ["zip", "ärzte", "Order", "orders", "_id", "order_id", "ORDERS", "", "9", "10"]
    listed = ["10", "9", "_id", "ärzte", "Order", "order_id", "orders", "ORDERS", "zip", ""]
    key = pd.Series(names)
    assert key[row_order(key, descending=False)].tolist() == listed
    down = ["zip", "orders", "ORDERS", "order_id", "Order", "ärzte", "_id", "9", "10", ""]
    assert key[row_order(key, descending=True)].tolist() == down


def test_labels_that_the_page_truncates_are_found():
    labels = ["a", "b" * 300, "c"]
    assert listed_columns(labels, ["b" * 199 + "…", "c"]) == slice(1, 3)
    assert listed_columns(labels, ["a", "b" * 300]) == slice(0, 2)
    with pytest.raises(tg.HistoryError, match="Unknown row 3: "):
        listed_rows(pd.DataFrame({"n": [1]}), [2], [2, 3])
