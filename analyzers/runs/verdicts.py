"""Verdicts of rules on data: their key, and the protocol of a store that keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired, Protocol, TypedDict, Unpack


class VerdictKey(TypedDict):
    """The fields of a `Case`, as keyword arguments."""

    name: str
    specification: str
    fingerprint: str
    partition: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Case:
    """The key of a verdict: everything that it depends on.

    Attributes
    ----------
    name : str
        Of the check.
    specification : str
        Hash of the rules, fixes and policies, and of the source of users' functions.
    fingerprint : str
        Of the data.
    partition : str
        Its name; empty for all of the data.
    """

    name: str
    specification: str
    fingerprint: str
    partition: str = ""

    def keywords(self) -> VerdictKey:
        """Return the fields as keyword arguments of a `VerdictStore`."""
        return {
            "name": self.name,
            "specification": self.specification,
            "fingerprint": self.fingerprint,
            "partition": self.partition,
        }


class VerdictStore(Protocol):
    """A store of verdicts by case; a `Repository` is one."""

    def keep_verdict(
        self,
        dataset: str,
        *,
        passed: bool,
        result: str,
        run: int | None = None,
        **key: Unpack[VerdictKey],
    ) -> int:
        """Store a verdict, which supersedes the last one of its case; return its id."""

    def verdict(self, dataset: str, **key: Unpack[VerdictKey]) -> str | None:
        """Return the last verdict of a case, or None."""
