"""Adding up states over windows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from analyzers.state import State
from repository.windows import Span

AnyState = Any


class Sliding:
    """The sum of a queue of states: add at one end, drop at the other, at two additions a state.

    States can be added and not taken away. So there are two stacks: one holds the sums of what came
    last up to each state, the other only one sum of what came since; when the first is used up, the
    second is poured into it.

    Examples
    --------
    >>> from analyzers.counts import NumMatches
    >>> queue = Sliding()
    >>> for n in (1, 2, 4):
    ...     queue.push(NumMatches(n))
    >>> queue.drop()
    >>> queue.total()
    NumMatches(num_matches=6)
    """

    def __init__(self) -> None:
        self._old: list[AnyState] = []  # sums, the last of which covers all of the older half
        self._new: list[AnyState] = []
        self._sum: AnyState | None = None  # of the newer half

    def push(self, state: State) -> None:
        """Add a state at the end."""
        self._new.append(state)
        self._sum = state if self._sum is None else self._sum + state

    def drop(self) -> None:
        """Drop the first state."""
        if not self._old:
            total: AnyState | None = None
            for state in reversed(self._new):
                total = state if total is None else state + total
                self._old.append(total)
            self._new, self._sum = [], None
        self._old.pop()

    def total(self) -> State | None:
        """Return the sum of all; None of nothing."""
        if not self._old:
            return self._sum
        old: State = self._old[-1]
        return old if self._sum is None else old + self._sum


def fold(
    states: Sequence[State | None], spans: Sequence[Span], *, rolling: bool
) -> Iterator[State | None]:
    """Yield the sum of the states in each span; None where there is no state.

    Parameters
    ----------
    states : sequence of State or None
        In the order of time; None adds nothing.
    spans : sequence of Span
        Their bounds never go back.
    rolling : bool
        Whether spans overlap, so that sums are worth keeping.
    """
    if not rolling:
        for span in spans:
            yield merged([state for state in states[span.first : span.last] if state is not None])
        return
    queue, first, last = Sliding(), 0, 0
    for span in spans:
        if span.first >= last:
            queue, first, last = Sliding(), span.first, span.first
        for state in states[last : span.last]:
            if state is not None:
                queue.push(state)
        for state in states[first : span.first]:
            if state is not None:
                queue.drop()
        first, last = span.first, span.last
        yield queue.total()


def merged(states: Sequence[State]) -> State | None:
    """Return the sum of states of one kind; None of none."""
    return type(states[0]).merge(states) if states else None
