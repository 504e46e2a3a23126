"""Where states are kept between two computations: Deequ's protocols, and the one in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from analyzers.analyzer import Analyzer
    from analyzers.state import State


class StateLoader(Protocol):
    """Gives back stored states."""

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's state, or None: no data yet."""


class StatePersister(Protocol):
    """Stores states."""

    def persist(self, analyzer: Analyzer[Any, Any], state: State) -> None:
        """Store the analyzer's state in place of an earlier one."""


class InMemoryStateProvider:
    """States in a dictionary, by what they are states of.

    Examples
    --------
    >>> from analyzers.counts import NumMatches, Size
    >>> states = InMemoryStateProvider()
    >>> states.persist(Size(), NumMatches(3))
    >>> Size().load_state_and_compute_metric(states).value
    3.0
    """

    def __init__(self) -> None:
        self._states: dict[str, State] = {}

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's state, or None."""
        return self._states.get(analyzer.statistic())

    def persist(self, analyzer: Analyzer[Any, Any], state: State) -> None:
        """Keep the analyzer's state."""
        self._states[analyzer.statistic()] = state
