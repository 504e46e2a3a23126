"""Verdict stores, keyed by rules and data fingerprint; unchanged data is not judged again."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Protocol

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import RuleError, SourceError, VerdictWarning
from tidegauge.analyzers.core.filesystems import child, file_system, read_file, write_file
from tidegauge.analyzers.runs.verdicts import Case, VerdictStore
from tidegauge.rules.outcome.result import CheckResult

_VERSION = 1
_HASH = 32
"""Characters of the hash in a file name."""
_MOST = 80
"""Maximum number of characters of the case's name and partition in a file name."""


class Verdicts(Protocol):
    """Store for verdicts."""

    def find(self, case: Case) -> CheckResult | None:
        """Return the verdict of a case, or None if there is none."""

    def keep(self, case: Case, result: CheckResult) -> None:
        """Store a verdict, passed or failed; it replaces an older one."""


@dataclass(frozen=True)
class VerdictFiles:
    """Store verdicts as files ``<name>.<hash>.check``, each the JSON of a `CheckResult`.

    A file is written under a temporary name and then moved, so it is never seen in part. A verdict
    that cannot be read causes a `VerdictWarning` and is ignored.

    Parameters
    ----------
    folder : str
        A path, or a URI of any file system that Arrow reads; created if missing.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> case = Case("flights", "5e1f", "a93c")
    >>> with TemporaryDirectory() as folder:
    ...     verdicts = VerdictFiles(folder)
    ...     verdicts.keep(case, CheckResult(True))
    ...     print(verdicts.find(case), "and", verdicts.find(Case("flights", "5e1f", "b770")))
    passed: 0 policies hold and None
    """

    folder: str

    def __post_init__(self) -> None:
        """Raise a `FileSystemError` if nothing reaches the folder's file system."""
        file_system(self.folder)

    def path_of(self, case: Case) -> str:
        """Return the path of a case's verdict, with ``_`` for characters unsafe in file names."""
        told = ".".join(text for text in (case.name, case.partition) if text)
        safe = re.sub(r"[^\w=+-]+", "_", told, flags=re.ASCII)[:_MOST]
        return child(self.folder, f"{safe}.{_hash_of(case)}.check")

    def find(self, case: Case) -> CheckResult | None:
        """Return the verdict of a case, or None if there is none.

        Raises
        ------
        SourceError
            If the file system cannot be read.
        """
        path = self.path_of(case)
        try:
            text = read_file(path).decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            _warn_unreadable(path, error)
            return None
        except (OSError, ValueError) as error:  # the base classes of Arrow's errors
            msg = f"the verdict {path!r} cannot be looked for: {error}"
            raise SourceError(msg) from error
        return read_verdict(text, path)

    def keep(self, case: Case, result: CheckResult) -> None:
        """Store a verdict.

        Raises
        ------
        SourceError
            If the folder cannot be written.
        """
        path = self.path_of(case)
        try:
            write_file(path, result.to_json().encode())
        except (OSError, ValueError) as error:
            msg = f"the verdict {path!r} cannot be written: {error}"
            raise SourceError(msg) from error


@dataclass(frozen=True)
class RepositoryVerdicts:
    """Store verdicts in a repository under a dataset.

    A verdict that cannot be read causes a `VerdictWarning` and is ignored.

    Parameters
    ----------
    repository : Repository
    dataset : str

    Examples
    --------
    >>> import tidegauge as tg
    >>> with tg.Repository("sqlite://") as repo:
    ...     verdicts = tg.RepositoryVerdicts(repo, "flights")
    ...     tests = tg.ValidationSet([tg.DQM()], verdicts=verdicts, fingerprint="a93c")
    ...     tests.keep(tg.CheckResult(True))
    ...     print(tests.kept())
    passed: 0 policies hold
    """

    repository: VerdictStore
    dataset: str

    def find(self, case: Case) -> CheckResult | None:
        """Return the verdict of a case, or None if there is none."""
        text = self.repository.verdict(self.dataset, **case.keywords())
        return None if text is None else read_verdict(text, f"{case.name} of {self.dataset}")

    def keep(self, case: Case, result: CheckResult, run: int | None = None) -> None:
        """Store a verdict, optionally with the run that found it."""
        self.repository.keep_verdict(
            self.dataset,
            passed=result.passed,
            result=result.to_json(),
            run=run,
            **case.keywords(),
        )


def _hash_of(case: Case) -> str:
    """Return the hash of everything that a verdict depends on, for the name of its file."""
    parts = [_VERSION, case.name, case.specification, case.fingerprint, case.partition]
    return key_of(canonical_json(parts))[:_HASH]


def read_verdict(text: str, of: str) -> CheckResult | None:
    """Parse a stored verdict; warn and return None if it cannot be read.

    Parameters
    ----------
    text : str
        JSON written by `CheckResult.to_json`.
    of : str
        Subject or location of the verdict, for the warning.
    """
    try:
        return CheckResult.from_json(text)
    except RuleError as error:
        _warn_unreadable(of, error)
        return None


def _warn_unreadable(of: str, error: Exception) -> None:
    msg = f"the verdict {of!r} cannot be read, so the data is judged again: {error}"
    warnings.warn(msg, VerdictWarning, stacklevel=4)
