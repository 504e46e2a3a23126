"""Where states are kept between two computations: Deequ's protocols, in memory and in files.

The repository's implementations are in `repository.states`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from analyzers.description import key_of
from analyzers.errors import CorruptStateError
from analyzers.state import State, read_state

if TYPE_CHECKING:
    from analyzers.analyzer import Analyzer

_MAGIC = b"tidegauge state\n"


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


class FileSystemStateProvider:
    """States in a folder, a file for each.

    A file's name is a hash of what the state is of; it holds the state's tag, a checksum and the bytes.
    It is written beside its place and then moved there, so that it is there whole or not at all.

    Parameters
    ----------
    folder : str or Path
        Made when first written to.

    Examples
    --------
    >>> import tempfile
    >>> from analyzers.counts import NumMatches, Size
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     FileSystemStateProvider(folder).persist(Size(), NumMatches(3))
    ...     FileSystemStateProvider(folder).load(Size())
    NumMatches(num_matches=3)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def _file(self, analyzer: Analyzer[Any, Any]) -> Path:
        return self.folder / f"{key_of(analyzer.statistic())}.state"

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's state, or None.

        Raises
        ------
        CorruptStateError
            If the file is damaged.
        """
        file = self._file(analyzer)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return None
        head, _, rest = content.removeprefix(_MAGIC).partition(b"\n")
        checksum, _, payload = rest.partition(b"\n")
        if not content.startswith(_MAGIC) or checksum != _checksum(head, payload):
            msg = f"the state in {file} is damaged: its checksum differs"
            raise CorruptStateError(msg)
        return read_state(head.decode(), payload)

    def persist(self, analyzer: Analyzer[Any, Any], state: State) -> None:
        """Write the analyzer's state in place of an earlier one."""
        payload = state.pack()
        tag = state.tag.encode()
        content = b"\n".join([_MAGIC + tag, _checksum(tag, payload), payload])
        self.folder.mkdir(parents=True, exist_ok=True)
        number, partial = tempfile.mkstemp(dir=self.folder, prefix=".state-")
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(partial).replace(self._file(analyzer))
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise


def _checksum(tag: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(tag + b"\n" + payload).hexdigest().encode()
