"""State providers: Deequ's `StateLoader` and `StatePersister`, in memory and on the file system.

The repository's implementations are in `tidegauge.repository.store.states`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from tidegauge.analyzers.core.analyzer import Analyzer
from tidegauge.analyzers.core.description import key_of
from tidegauge.analyzers.core.errors import CorruptStateError
from tidegauge.analyzers.core.filesystems import child, file_system, read_file, write_file
from tidegauge.analyzers.core.state import State, read_state

_MAGIC = b"tidegauge state\n"


class InMemoryStateProvider:
    """State provider backed by a dictionary, keyed by the analyzer's statistic.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
    >>> states = InMemoryStateProvider()
    >>> states.persist(Size(), NumMatches(3))
    >>> Size().load_state_and_compute_metric(states).value
    3.0
    """

    def __init__(self) -> None:
        self._states: dict[str, State] = {}

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's state, or None if none is stored.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
        >>> states = InMemoryStateProvider()
        >>> states.persist(Size(), NumMatches(3))
        >>> states.load(Size())
        NumMatches(num_matches=3)
        """
        return self._states.get(analyzer.statistic())

    def persist(self, analyzer: Analyzer[Any, Any], state: State) -> None:
        """Store the analyzer's state, replacing an earlier one."""
        self._states[analyzer.statistic()] = state


class FileSystemStateProvider:
    """State provider backed by a folder or a prefix of an object store, with one file per state.

    The file name is a hash of the analyzer's statistic; the file holds the state's tag, a SHA-256
    checksum and the payload. Writes are atomic: a reader sees the old state or the new one.

    Parameters
    ----------
    folder : str or Path
        A path, or a URI that Arrow or fsspec can reach: ``s3://`` (``s3a://`` is the same),
        ``gs://``, ``abfss://``, ``hdfs://``. Credentials come from the environment, as for any
        program of the store. Created on the first write.

    Raises
    ------
    FileSystemError
        If no installed package knows the URI's scheme.

    Examples
    --------
    >>> import tempfile
    >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     FileSystemStateProvider(folder).persist(Size(), NumMatches(3))
    ...     FileSystemStateProvider(folder).load(Size())
    NumMatches(num_matches=3)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = str(folder)
        file_system(self.folder)

    def _file(self, analyzer: Analyzer[Any, Any]) -> str:
        return child(self.folder, f"{key_of(analyzer.statistic())}.state")

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's state, or None if no file exists.

        Raises
        ------
        CorruptStateError
            If the checksum does not match or the payload does not parse.
        """
        file = self._file(analyzer)
        try:
            content = read_file(file)
        except FileNotFoundError:
            return None
        head, _, rest = content.removeprefix(_MAGIC).partition(b"\n")
        checksum, _, payload = rest.partition(b"\n")
        if not content.startswith(_MAGIC) or checksum != _checksum(head, payload):
            msg = f"the state in {file} is damaged: its checksum differs"
            raise CorruptStateError(msg)
        return read_state(head.decode(errors="backslashreplace"), payload)

    def persist(self, analyzer: Analyzer[Any, Any], state: State) -> None:
        """Write the analyzer's state, replacing an earlier one."""
        payload = state.pack()
        tag = state.tag.encode()
        content = b"\n".join([_MAGIC + tag, _checksum(tag, payload), payload])
        write_file(self._file(analyzer), content)


def _checksum(tag: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(tag + b"\n" + payload).hexdigest().encode()
