"""Kept verdicts: what was said of data, found again as long as data and rules are what they were."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from analyzers.description import canonical_json, key_of
from analyzers.errors import RuleError, SourceError, VerdictWarning
from analyzers.files import file_system
from analyzers.rules.result import CheckResult

_VERSION = 1
_HASH = 32
"""Letters of the hash in a file's name."""
_MOST = 80
"""Letters of what was judged in a file's name."""


@dataclass(frozen=True, slots=True)
class Case:
    """All that a verdict depends on.

    Attributes
    ----------
    name : str
        Of what was judged.
    specification : str
        The hash of the rules, fixes and policies, and of the source of users' functions.
    fingerprint : str
        Of the data.
    partition : str
        Its name; empty for all of the data.
    """

    name: str
    specification: str
    fingerprint: str
    partition: str = ""

    @property
    def key(self) -> str:
        """The hash of all of it."""
        of = [_VERSION, self.name, self.specification, self.fingerprint, self.partition]
        return key_of(canonical_json(of))


class Verdicts(Protocol):
    """Where verdicts are kept."""

    def find(self, case: Case) -> CheckResult | None:
        """Return the verdict of a case, or None if there is none."""

    def keep(self, case: Case, result: CheckResult) -> None:
        """Remember a verdict, passed or failed; it takes the place of an older one."""


@dataclass(frozen=True)
class VerdictFiles:
    """Verdicts as files ``<name>.<hash>.check``, each the JSON of a `CheckResult`.

    They are written beside their place and moved there, so that none is ever seen in part. One that cannot
    be read is told by a warning and is as if it were not there.

    Parameters
    ----------
    folder : str
        A path, or a URI of any file system that Arrow reads; it is made if it is not there.

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

    def path_of(self, case: Case) -> str:
        """Return where the verdict of a case is kept; letters that a file cannot have become ``_``."""
        told = ".".join(text for text in (case.name, case.partition) if text)
        safe = re.sub(r"[^\w=+-]+", "_", told, flags=re.ASCII)[:_MOST]
        return f"{self.folder.rstrip('/')}/{safe}.{case.key[:_HASH]}.check"

    def find(self, case: Case) -> CheckResult | None:
        """Return the verdict of a case, or None if there is none.

        Raises
        ------
        SourceError
            If the folder cannot be asked.
        """
        path = self.path_of(case)
        try:
            system, inner = file_system(path)
            if not system.get_file_info(inner).is_file:
                return None
            with system.open_input_stream(inner) as stream:
                text = stream.read().decode()
        except UnicodeDecodeError as error:
            _warn_unreadable(path, error)
            return None
        except (OSError, ValueError) as error:  # Arrow's errors are of these kinds
            msg = f"the verdict {path!r} cannot be looked for: {error}"
            raise SourceError(msg) from error
        return read_verdict(text, path)

    def keep(self, case: Case, result: CheckResult) -> None:
        """Remember a verdict.

        Raises
        ------
        SourceError
            If the folder cannot be written.
        """
        path = self.path_of(case)
        try:
            system, inner = file_system(path)
            folder, _, name = inner.rpartition("/")
            system.create_dir(folder, recursive=True)
            part = f"{folder}/.{name}.{uuid4().hex}"
            with system.open_output_stream(part) as stream:
                stream.write(result.to_json().encode())
            system.move(part, inner)
        except (OSError, ValueError) as error:
            msg = f"the verdict {path!r} cannot be written: {error}"
            raise SourceError(msg) from error


class KeepsVerdicts(Protocol):
    """What is needed of a repository to keep verdicts in it."""

    def keep_verdict(
        self,
        dataset: str,
        *,
        name: str,
        specification: str,
        fingerprint: str,
        passed: bool,
        result: str,
        partition: str = "",
        run: int | None = None,
    ) -> int:
        """Remember what rules said of data."""

    def verdict(
        self,
        dataset: str,
        *,
        name: str,
        specification: str,
        fingerprint: str,
        partition: str = "",
    ) -> str | None:
        """Return what rules said last of data."""


@dataclass(frozen=True)
class RepositoryVerdicts:
    """Verdicts that a repository keeps under a dataset.

    One that cannot be read is told by a warning and is as if it were not there.

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

    repository: KeepsVerdicts
    dataset: str

    def find(self, case: Case) -> CheckResult | None:
        """Return the verdict of a case, or None if there is none."""
        text = self.repository.verdict(
            self.dataset,
            name=case.name,
            specification=case.specification,
            fingerprint=case.fingerprint,
            partition=case.partition,
        )
        return None if text is None else read_verdict(text, f"{case.name} of {self.dataset}")

    def keep(self, case: Case, result: CheckResult, run: int | None = None) -> None:
        """Remember a verdict, perhaps as found in a run."""
        self.repository.keep_verdict(
            self.dataset,
            name=case.name,
            specification=case.specification,
            fingerprint=case.fingerprint,
            partition=case.partition,
            passed=result.passed,
            result=result.to_json(),
            run=run,
        )


def read_verdict(text: str, of: str) -> CheckResult | None:
    """Return a kept verdict; one that cannot be read is told by a warning and is None.

    Parameters
    ----------
    text : str
        As `CheckResult.to_json` wrote it.
    of : str
        What the verdict is on, or where it lies, for the warning.
    """
    try:
        return CheckResult.from_json(text)
    except RuleError as error:
        _warn_unreadable(of, error)
        return None


def _warn_unreadable(of: str, error: Exception) -> None:
    msg = f"the verdict {of!r} cannot be read, so the data is judged again: {error}"
    warnings.warn(msg, VerdictWarning, stacklevel=4)
