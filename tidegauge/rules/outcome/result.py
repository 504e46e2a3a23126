"""`CheckResult`: the verdict on data, with outcomes, messages and log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegauge.analyzers.core.errors import DQMError, RuleError
from tidegauge.analyzers.core.evidence import NO_DATA, OnEmpty, as_verdict, with_status
from tidegauge.analyzers.core.formatting import Markup, plural
from tidegauge.display.html import Rows, card, heading, marked, sentence, table

_VERSION = 1
_INDENT = "  "
WARNINGS, _NO_DATA_KEY = "warnings", "noData"
"""Keys of the warnings and of what had no data in JSON, which are there only if there are some."""
RECORDS = "records"
"""Name of the outcome of data without records: it says that no policy judged anything."""


@dataclass(frozen=True)
class CheckResult:
    """Verdict of policies on data.

    Attributes
    ----------
    passed : bool
        True if all policies hold, also if there are none.
    error_messages : tuple of (str, str)
        Name and message of each policy that does not hold.
    check_log : tuple of str
        Log lines on all tasks, including those without a policy.
    outcomes : tuple of (str, bool)
        Name of each policy, with True if it holds.
    warnings : tuple of (str, str)
        Name and message of what only warns: the verdict passes all the same.
    no_data : tuple of (str, str)
        Name and reason of what had no data to judge. What this counts as is told as for all others:
        among the errors, among the warnings, or in neither.

    Examples
    --------
    >>> good = CheckResult(True, outcomes=(("age", True),))
    >>> bad = CheckResult(False, (("fare", "3 records, none wanted"),), outcomes=(("fare", False),))
    >>> (good + bad).passed, (good + bad).outcomes
    (False, (('age', True), ('fare', False)))
    >>> CheckResult.from_json(bad.to_json()) == bad
    True
    >>> print(CheckResult(True, warnings=(("email", "2 of 9 records break it"),)))
    passed: 0 policies hold; warning: email: 2 of 9 records break it
    """

    passed: bool
    error_messages: tuple[tuple[str, str], ...] = ()
    check_log: tuple[str, ...] = ()
    outcomes: tuple[tuple[str, bool], ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    no_data: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        pairs = object.__setattr__
        for told in ("error_messages", "warnings", "no_data"):
            pairs(self, told, tuple((str(a), str(b)) for a, b in getattr(self, told)))
        pairs(self, "check_log", tuple(map(str, self.check_log)))
        pairs(self, "passed", as_verdict(self.passed, "CheckResult"))
        outcomes = ((str(name), held) for name, held in self.outcomes)
        pairs(self, "outcomes", tuple((a, as_verdict(b, f"outcome {a!r}")) for a, b in outcomes))

    def __add__(self, other: CheckResult) -> CheckResult:
        """Combine two verdicts: passed if both are."""
        if not isinstance(other, CheckResult):
            return NotImplemented
        return CheckResult(
            self.passed and other.passed,
            self.error_messages + other.error_messages,
            self.check_log + other.check_log,
            self.outcomes + other.outcomes,
            self.warnings + other.warnings,
            self.no_data + other.no_data,
        )

    @classmethod
    def without_partitions(cls, on_empty: OnEmpty) -> CheckResult:
        """Return the verdict on a table that has no partition.

        Examples
        --------
        >>> print(CheckResult.without_partitions(OnEmpty.FAIL))
        no data: records: the table has no partition
        """
        found = cls(passed=True, no_data=((RECORDS, "the table has no partition"),))
        return found.resolve_no_data(on_empty)

    @property
    def status(self) -> str:
        """``failed``, ``no data`` if nothing else fails or nothing was judged at all, or ``passed``.

        Examples
        --------
        >>> empty = CheckResult(True, outcomes=(("fare", True),), no_data=(("records", "there is no record"),))
        >>> empty.status, empty.passed, empty.resolve_no_data(OnEmpty.FAIL).passed
        ('no data', True, False)
        """
        unjudged = dict(self.no_data)
        errors = {name for name, _ in self.error_messages}
        if not self.passed and not (errors and errors <= unjudged.keys()):
            return "failed"
        return NO_DATA if errors or RECORDS in unjudged else "passed"

    def resolve_no_data(self, on_empty: OnEmpty) -> CheckResult:
        """Return the verdict with what had no data as an error, as a warning, or as neither.

        Examples
        --------
        >>> empty = CheckResult(True, no_data=(("records", "there is no record"),))
        >>> print(empty.resolve_no_data(OnEmpty.FAIL))
        no data: records: there is no record
        >>> print(empty.resolve_no_data(OnEmpty.FAIL).resolve_no_data(OnEmpty.WARN))
        no data; warning: records: no data: there is no record
        """
        if not self.no_data:
            return self
        unjudged = dict(self.no_data)
        told = tuple((name, with_status(reason)) for name, reason in self.no_data)
        errors = tuple(pair for pair in self.error_messages if pair[0] not in unjudged)
        warnings = tuple(pair for pair in self.warnings if pair[0] not in unjudged)
        outcomes = tuple(pair for pair in self.outcomes if pair[0] not in unjudged)
        fails = on_empty is OnEmpty.FAIL
        return replace(
            self,
            passed=not errors and not fails,
            error_messages=errors + told if fails else errors,
            outcomes=outcomes + tuple((name, not fails) for name in unjudged),
            warnings=warnings + told if on_empty is OnEmpty.WARN else warnings,
        )

    @property
    def samples(self) -> list[str]:
        """The samples of rejected records, and the errors, that the log has below its tasks.

        Examples
        --------
        >>> CheckResult(False, check_log=("fare: 2 records", "  ds=2013-02-08: fare=-3")).samples
        ['ds=2013-02-08: fare=-3']
        """
        return [line.strip() for line in self.check_log if line.startswith(_INDENT)]

    def with_samples_of(self, other: CheckResult) -> CheckResult:
        """Return it with the samples that another verdict has below the same lines of the log.

        Examples
        --------
        >>> kept = CheckResult(False, check_log=("rule fare: 1 of 9 records", "  fare=-3"))
        >>> now = CheckResult(True, check_log=("rule fare: 1 of 9 records", "rule tip: 2 of 9 records"))
        >>> now.with_samples_of(kept).check_log
        ('rule fare: 1 of 9 records', '  fare=-3', 'rule tip: 2 of 9 records')
        """
        own, below = _lines_below(self.check_log), _lines_below(other.check_log)
        found: list[str] = []
        for line in self.check_log:
            found.append(line)
            if line in own and not own[line]:
                found += below.get(line, ())
        return replace(self, check_log=tuple(found))

    def terminate_at_error(self) -> CheckResult:
        """Return the verdict if it passed, else raise it.

        Raises
        ------
        DQMError
            If it failed; the error has the verdict as ``result``.

        Examples
        --------
        >>> CheckResult(True).terminate_at_error().passed
        True
        >>> CheckResult(False, (("FailCount(10)", "12 records"),)).terminate_at_error()
        Traceback (most recent call last):
            ...
        tidegauge.analyzers.core.errors.DQMError: failed: FailCount(10): 12 records
        """
        if not self.passed:
            raise DQMError(self)
        return self

    def to_json(self) -> str:
        """Return JSON that `from_json` reads."""
        told: dict[str, Any] = {
            "version": _VERSION,
            "passed": self.passed,
            "errorMessages": self.error_messages,
            "checkLog": self.check_log,
            "outcomes": self.outcomes,
        }
        if self.warnings:  # by this key they are looked for
            told[WARNINGS] = self.warnings
        if self.no_data:
            told[_NO_DATA_KEY] = self.no_data
        return json.dumps(told, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> CheckResult:
        """Parse the output of `to_json`.

        Raises
        ------
        RuleError
            If the text is not a verdict, of another version, or has values of other types.
        """
        try:
            kept: dict[str, Any] = json.loads(text)
            parts = kept["passed"], kept["errorMessages"], kept["checkLog"], kept["outcomes"]
            warnings, no_data = kept.get(WARNINGS, []), kept.get(_NO_DATA_KEY, [])
            if kept["version"] != _VERSION or not _is_verdict(*parts, warnings, no_data):
                raise ValueError(kept["version"])  # noqa: TRY301 - one message for all unreadable input
            return cls(*parts, warnings, no_data)
        except (ValueError, KeyError, TypeError) as error:
            msg = f"not the JSON of a CheckResult: {text[:80]!r}"
            raise RuleError(msg) from error

    @classmethod
    def accepted(cls, note: str | None, by: str | None, failures: Sequence[str]) -> CheckResult:
        """Return the verdict that somebody accepts failures, which it keeps in its log.

        Examples
        --------
        >>> CheckResult.accepted("a test load", "ann", ["fare: 3 records"]).check_log
        ('accepted by ann: a test load', 'fare: 3 records')
        """
        who = f"{_ACCEPTED} by {by}" if by else _ACCEPTED
        return cls(passed=True, check_log=(f"{who}: {note}" if note else who, *failures))

    @property
    def is_accepted(self) -> bool:
        """True if somebody accepted the failures, by `accept_failures`."""
        said = self.check_log[0] if self.check_log and not self.outcomes else ""
        return self.passed and (
            said == _ACCEPTED or said.startswith((f"{_ACCEPTED} by ", f"{_ACCEPTED}: "))
        )

    def __str__(self) -> str:
        """Return the verdict in one line."""
        warned = "".join(f"; warning: {name}: {message}" for name, message in self.warnings)
        unjudged = self.status == NO_DATA
        if self.passed:
            reasons = "; ".join(reason for _, reason in self.no_data)
            empty = NO_DATA if warned else with_status(reasons)
            count = len(self.outcomes)
            held = f"passed: {plural(count, 'policy', 'policies')} hold{'s' * (count == 1)}"
            return f"{empty if unjudged else held}{warned}"
        prefix = with_status("") if unjudged else ""  # said once, at the beginning
        failed = "; ".join(
            f"{n}: {message.removeprefix(prefix)}" for n, message in self.error_messages
        )
        return f"{self.status}: {failed}{warned}"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        status = "complete" if self.status == "passed" else self.status
        yield heading("Check", Markup(marked(status)))
        messages = dict(self.error_messages)
        rows = [
            (
                name,
                "holds" if good else "fails",
                sentence(messages[name], 4 * width) if name in messages else "",
            )
            for name, good in self.outcomes
        ]
        rows += [(name, "warns", sentence(text, 4 * width)) for name, text in self.warnings]
        if rows:
            yield table(["policy", "", "why"], Rows.first_of(rows, most), width)
        if self.check_log:
            yield table(
                ["log"], Rows.first_of([(line,) for line in self.check_log], most), 2 * width
            )


_ACCEPTED = "accepted"
"""Begins the log of a verdict by which somebody accepts failures."""


def failure_messages(result: str, *, foreign: bool = True) -> list[str]:
    """Return the messages of a stored verdict; one that is not tidegauge's as it is, or not at all.

    Examples
    --------
    >>> failure_messages(CheckResult(False, (("fare", "3 records, none wanted"),)).to_json())
    ['fare: 3 records, none wanted']
    """
    try:
        found = CheckResult.from_json(result)
    except RuleError:
        return [result] if foreign else []
    return [failure_text(name, message) for name, message in found.error_messages]


_SAYS_ITS_SUBJECT = re.compile(
    r", (?:at least|at most|more than|less than|exactly) .* needed\b|, which does not satisfy "
    r"|\Ahas_schema: |\A[^:]+: no row has '"
)
"""Messages of constraints. Those of rules and of older releases tell a number without what it is of."""


def failure_text(name: str, message: str) -> str:
    """Return a failure for people: the name of the rule or constraint only where the message needs it.

    Examples
    --------
    >>> failure_text("fare", "3 records, none wanted")
    'fare: 3 records, none wanted'
    >>> failure_text("Completeness('email'): at least 0.9", "email is 69.1 % complete, at least 90 % needed")
    'email is 69.1 % complete, at least 90 % needed'
    """
    return message if _SAYS_ITS_SUBJECT.search(message) else f"{name}: {message}"


def failure_samples(result: str) -> list[str]:
    """Return the samples of a stored verdict; none of one that is not tidegauge's.

    Examples
    --------
    >>> log = ("fare: 2 records", "  ds=2013-02-08: fare=-3")
    >>> failure_samples(CheckResult(False, check_log=log).to_json())
    ['ds=2013-02-08: fare=-3']
    """
    try:
        return CheckResult.from_json(result).samples
    except RuleError:
        return []


def _lines_below(log: Sequence[str]) -> dict[str, list[str]]:
    """Return the indented lines below each other line."""
    found: dict[str, list[str]] = {}
    below: list[str] = []
    for line in log:
        if line.startswith(_INDENT):
            below.append(line)
        else:
            below = found.setdefault(line, [])
    return found


def _is_verdict(
    passed: Any, messages: Any, log: Any, outcomes: Any, warnings: Any, no_data: Any
) -> bool:
    """Return whether values are of the types of a verdict."""
    return (
        isinstance(passed, bool)
        and _are_pairs(messages, str)
        and isinstance(log, list)
        and all(isinstance(line, str) for line in log)
        and _are_pairs(outcomes, bool)
        and _are_pairs(warnings, str)
        and _are_pairs(no_data, str)
    )


def _are_pairs(values: Any, second: type) -> bool:
    return isinstance(values, list) and all(
        isinstance(pair, list)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and isinstance(pair[1], second)
        for pair in values
    )
