"""The clock of streams: ready windows, windows that can match, and windows that are no longer needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.griffin.config import StreamStore
from tidegauge.griffin.stream_windows import Clock, horizon

SIZES = st.integers(1, 10_000)
TIMES = st.integers(-(10**15), 10**15)
CLOCKS = st.builds(Clock, SIZES, st.integers(0, 50_000), st.integers(0, 50_000))


@given(CLOCKS, TIMES)
def test_every_time_is_in_one_window(clock, time):
    window = clock.window(time)
    assert window <= time < window + clock.size
    assert clock.window(window) == window == clock.window(window + clock.size - 1)


@given(CLOCKS, TIMES, TIMES)
def test_a_ready_window_stays_ready_and_so_do_earlier_windows(clock, time, now):
    window = clock.window(time)
    if clock.ready(window, now):
        assert clock.ready(window, now + 1)
        assert clock.ready(window - clock.size, now)
        assert now >= time  # no row of the window is still to come
    assert clock.ready(window, window + clock.size + clock.delay)
    assert not clock.ready(window, window + clock.size + clock.delay - 1)


@given(CLOCKS, CLOCKS, TIMES, st.integers(-120_000, 120_000))
def test_rows_match_as_far_apart_as_both_streams_wait(ours, theirs, time, apart):
    """Rows within the waiting time match. Rows farther apart than the windows allow do not."""
    other = time + apart
    meets = ours.meets(ours.window(time), theirs, theirs.window(other))
    if -theirs.look_back <= apart <= ours.look_back:
        assert meets
    if (
        apart < -theirs.look_back - ours.size - theirs.size
        or apart > ours.look_back + ours.size + theirs.size
    ):
        assert not meets


@given(CLOCKS, CLOCKS, TIMES, TIMES)
def test_windows_that_are_no_longer_needed_match_no_window_that_is_measured_again(
    ours, theirs, time, other
):
    first, window = ours.window(time), theirs.window(other)
    if window < theirs.limit(first, is_looked_up=True):
        assert not any(ours.meets(first + i * ours.size, theirs, window) for i in range(5))
    else:  # a needed window matches the first window, or is later than the first window waits
        end = first + ours.size + ours.look_back
        assert ours.meets(first, theirs, window) or window >= end


NEWEST = st.lists(st.one_of(st.none(), TIMES), max_size=4)


@given(NEWEST, st.lists(CLOCKS, min_size=1, max_size=3), st.one_of(st.none(), TIMES))
def test_the_horizon_never_goes_back_and_leaves_time_to_wait(newest, clocks, before):
    found = horizon(newest, clocks, before)
    if before is not None:
        assert found is not None
        assert found >= before
    elif None in newest or not newest:
        assert found is None
    if found is not None and found != before:
        assert all(found + max(c.look_back for c in clocks) <= n for n in newest)
        assert horizon([*newest, max(newest) + 1], clocks, before) == found


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (StreamStore(), Clock(60_000, 60_000, 120_000)),
        (StreamStore(ready_interval=5, ready_delay=7, time_range=(-9, -2)), Clock(5, 9, 9)),
    ],
)
def test_the_clock_is_read_from_the_store(store, expected):
    assert Clock.from_store(store) == expected
