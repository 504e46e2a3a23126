"""Merging of states over windows. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidegauge.analyzers.core.state import State
from tidegauge.repository.store.windows import WindowSpan

AnyState = Any


class SlidingSum:
    """Sliding-window sum of a queue of states by two stacks, at two additions a state.

    States can be added but not subtracted. So there are two stacks: the older half holds suffix
    sums, from each state to the half's end; the newer half holds its states and one sum. When the
    older half is used up, the newer half is moved into it.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.counts import NumMatches
    >>> queue = SlidingSum()
    >>> for n in (1, 2, 4):
    ...     queue.push(NumMatches(n))
    >>> queue.drop()
    >>> queue.total()
    NumMatches(num_matches=6)
    """

    def __init__(self) -> None:
        self._old: list[AnyState] = []  # suffix sums; the last covers all of the older half
        self._new: list[AnyState] = []
        self._sum: AnyState | None = None  # of the newer half

    def push(self, state: State) -> None:
        """Add a state at the end."""
        self._new.append(state)
        self._sum = state if self._sum is None else self._sum + state

    def drop(self) -> None:
        """Drop the oldest state."""
        if not self._old:
            total: AnyState | None = None
            for state in reversed(self._new):
                total = state if total is None else state + total
                self._old.append(total)
            self._new, self._sum = [], None
        self._old.pop()

    def total(self) -> State | None:
        """Return the sum of the queue; None if it is empty."""
        if not self._old:
            return self._sum
        old: State = self._old[-1]
        return old if self._sum is None else old + self._sum


def fold(
    states: Sequence[State | None], spans: Sequence[WindowSpan], *, rolling: bool
) -> Iterator[State | None]:
    """Yield the sum of the states in each span; None where a span has no state.

    Parameters
    ----------
    states : sequence of State or None
        In order of time; None adds nothing.
    spans : sequence of WindowSpan
        With bounds that never decrease.
    rolling : bool
        True if spans overlap, so that sums are worth keeping.
    """
    if not rolling:
        for span in spans:
            yield merged([state for state in states[span.first : span.last] if state is not None])
        return
    queue, first, last = SlidingSum(), 0, 0
    for span in spans:
        if span.first >= last:
            queue, first, last = SlidingSum(), span.first, span.first
        for state in states[last : span.last]:
            if state is not None:
                queue.push(state)
        for state in states[first : span.first]:
            if state is not None:
                queue.drop()
        first, last = span.first, span.last
        yield queue.total()


def merged(states: Sequence[State]) -> State | None:
    """Return the sum of states of one type; None for an empty sequence."""
    return type(states[0]).merge(states) if states else None
