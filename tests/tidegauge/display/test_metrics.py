"""Display of metrics in notebooks. Strings from users are escaped."""

import datetime as dt
import math

import pytest

import tidegauge as tg
from tests.support.pages import HOSTILE, LONG, read_page, shown
from tidegauge.analyzers.core.formatting import Markup, plain
from tidegauge.analyzers.core.metric import Metric, Success
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.display.html import LARGEST_CARD, Rows, card, cell, isolated, marked, pairs, table


def test_strings_are_cut_escaped_and_made_visible():
    assert plain("a\u202eb", 20) == "a\\u202eb"
    assert plain("x" * 10, 10) == "x" * 10
    assert plain("x" * 11, 10) == "x" * 9 + "…"
    assert len(plain("\x00" * 50, 10)) == 10
    assert plain("\ud800") == "\\ud800"  # half of a surrogate pair, which cannot be encoded
    assert isolated("<b>") == "<bdi>&lt;b&gt;</bdi>"
    assert isolated("\u05d0\u05d1") == "<bdi>\u05d0\u05d1</bdi>"  # right-to-left letters stay


def test_cells_show_values_in_short_form():
    assert cell(None) == cell(math.nan) == cell("") == ""
    assert cell(1234567.8) == "1,234,568"
    assert cell(0) == "0"
    assert cell(False) == "False"
    assert cell(math.inf) == "inf"
    assert cell(dt.datetime(2013, 2, 8, 7)) == "2013-02-08 07:00"
    assert cell({"a": 1, "b": "<"}) == "<bdi>a=1, b=&lt;</bdi>"
    assert cell(Markup("<i>x</i>")) == "<i>x</i>"


def test_marks_have_a_shape_and_keep_the_word():
    texts = [read_page(marked(word))[1] for word in ("error", "warning", "info", "failed", "empty")]
    assert texts == ["◆ error", "▲ warning", "● info", "✕ failed", "○ empty"]
    assert marked("odd") == "<bdi>odd</bdi>"
    assert marked("") == ""


def test_a_table_reports_the_number_of_omitted_rows():
    html = table(["n"], Rows.first_of([(n,) for n in range(12)], 10))
    assert html.count("<tr>") == 12  # a heading, 10 rows and the note
    assert "and 2 more" in html
    assert "and 90 more" in table(["n"], Rows.first_of(((n,) for n in range(100)), 10, 100))
    assert "more" not in table(["n"], Rows.first_of([(1,)], 10))
    assert "... 5 more rows" in table(["n"], Rows([(1,)], [(7,)], 5))
    wide = table([str(n) for n in range(35)], Rows.first_of([range(35)], 10))
    assert "and 5 more columns" in wide
    assert wide.count("<td") == 30
    assert pairs([("a", None), ("b", "")]) == ""


def test_a_card_reduces_rows_and_width_until_it_is_small():
    calls = []

    def render(rows, width):
        calls.append((rows, width))
        yield table(["x"] * 30, Rows.first_of([["'" * 100] * 30] * 100, rows), width)

    html = card(render)
    assert len(html.encode()) < LARGEST_CARD
    assert len(calls) > 1
    assert "and 96 more" in html or "and 90 more" in html
    read_page(html)


def test_metrics_show_their_details():
    text = shown(Metric(tg.Entity.DATASET, "*", "Size", Success(3.0), weight=3))
    assert "Size" in text
    assert "value3" in text
    assert "rows3" in text
    near = tg.Interval(2.0, 4.0, 0.95)
    text = shown(Metric(tg.Entity.COLUMN, "x", "Mean", Success(3.0), 9, near))
    assert "Mean of x" in text
    assert "2 to 4 (95%)" in text
    keyed = {str(n): float(n) for n in range(50)}
    text = shown(Metric(tg.Entity.COLUMN, "x", "ApproxQuantiles", Success(keyed), 9, {"0": near}))
    assert "and 10 more" in text
    assert "2 to 4" in text
    failed = tg.Mean("x").to_failure_metric(ValueError(HOSTILE))
    text = shown(failed)
    assert "✕ failed" in text
    assert "<img src=x onerror" in text
    assert "○ empty" in shown(tg.Mean("x").compute_metric_from(None))


def test_histograms_are_short_tables():
    state = FrequenciesAndNumRows.from_groups([((f"v{n:02}",), n) for n in range(1, 51)])
    text = shown(tg.Histogram("s").compute_metric_from(state))
    assert "v50503.92%" in text  # 50 of 1275 rows
    assert "and 10 more" in text
    assert "v10" not in text


@pytest.mark.parametrize("name", [HOSTILE, LONG])
def test_hostile_metrics_are_escaped(name):
    keyed = {f"{name}{n}": float(n) for n in range(1000)}
    metric = Metric(tg.Entity.COLUMN, name, name, Success(keyed), 9)
    assert "alert" not in str(read_page(metric._repr_html_())[0])
    shown(metric)
    shown(tg.Size(where=name).compute_metric_from(NumMatches(1)))
