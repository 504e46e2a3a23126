"""Printed tables, without a terminal and on a narrow terminal."""

import datetime as dt
import io
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.cli.output import fitting_widths, fold, print_rows, text_width
from tidegauge.repository.store.frames import columns

ROWS = [
    {"partition": "ds=2026-01-01", "value": 1234567.25, "why": None},
    {"partition": "位", "value": None, "why": "e\u0301 [bold]x[/bold]"},
]
COLUMNS = columns("partition value:number why")


class Terminal(io.StringIO):
    """A terminal as wide as COLUMNS."""

    def isatty(self):
        """Return that this is a terminal."""
        return True


def test_numbers_are_right_aligned_and_other_values_left_aligned(capsys):
    print_rows(ROWS, COLUMNS)
    assert capsys.readouterr().out.splitlines() == [
        "partition            value  why",
        "ds=2026-01-01  1.23457e+06",
        "位                          e\u0301 [bold]x[/bold]",
    ]


def test_the_heading_of_times_names_their_time_zone(capsys):
    time = dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)
    print_rows([{"run": 1, "at": time}, {"run": 2, "at": None}], columns("run:integer at:time"))
    assert capsys.readouterr().out.splitlines() == ["run  at (UTC)", "  1  2026-01-02 03:04", "  2"]


def test_a_table_without_rows_is_its_headings(capsys):
    print_rows([], COLUMNS, titles={"why": "because of"})
    assert capsys.readouterr().out == "partition  value  because of\n"


def test_cells_are_folded_on_a_narrow_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setitem(os.environ, "COLUMNS", "30")
    rows = [{"partition": "ds=1", "value": 2, "why": "late by 12 days\nof 30"}]
    print_rows(rows, COLUMNS)
    assert terminal.getvalue().splitlines() == [
        "partition  value  why",
        "ds=1           2  late by 12",
        "                  days",
        "                  of 30",
    ]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=12), st.integers(30, 200))
def test_the_widest_columns_are_narrowed_first(natural, available):
    widths = fitting_widths(natural, available)
    assert sum(widths) <= max(available, 2 * len(natural))
    cut = [place for place, width in enumerate(natural) if widths[place] < width]
    assert all(widths[place] == max(widths) for place in cut)
    assert bool(cut) == (sum(natural) > available)


@given(st.text(st.sampled_from("ab \n位\u0301"), max_size=60), st.integers(2, 10))
def test_folding_loses_only_spaces(text, width):
    lines = fold(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(text_width(line) <= width for line in lines)


@pytest.mark.parametrize("text", ["", "\n", " "])
def test_empty_text_folds_into_empty_lines(text):
    assert all(line == "" for line in fold(text, 2))
