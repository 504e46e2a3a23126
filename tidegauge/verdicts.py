"""Verdicts kept in a repository."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzers.errors import RuleError
from analyzers.rules.result import CheckResult
from analyzers.rules.verdicts import Case, warn_unreadable

if TYPE_CHECKING:
    from repository.repository import Repository


@dataclass(frozen=True)
class RepositoryVerdicts:
    """Verdicts that a repository keeps under a dataset.

    Parameters
    ----------
    repository : Repository
    dataset : str

    Examples
    --------
    >>> import tidegauge as tg
    >>> with tg.Repository("sqlite://") as repo:
    ...     verdicts = RepositoryVerdicts(repo, "flights")
    ...     tests = tg.ValidationSet([tg.DQM()], verdicts=verdicts, fingerprint="a93c")
    ...     tests.keep(tg.CheckResult(True))
    ...     print(tests.kept())
    passed: 0 policies hold
    """

    repository: Repository
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
        try:
            return None if text is None else CheckResult.from_json(text)
        except RuleError as error:
            warn_unreadable(f"{case.name} of {self.dataset}", error)
            return None

    def keep(self, case: Case, result: CheckResult) -> None:
        """Remember a verdict."""
        self.repository.keep_verdict(
            self.dataset,
            name=case.name,
            specification=case.specification,
            fingerprint=case.fingerprint,
            partition=case.partition,
            passed=result.passed,
            result=result.to_json(),
        )
