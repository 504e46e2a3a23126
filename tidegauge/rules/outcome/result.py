"""`CheckResult`: the verdict on data, with outcomes, messages and log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegauge.analyzers.core.errors import DQMError, RuleError
from tidegauge.analyzers.core.evidence import as_verdict
from tidegauge.analyzers.core.formatting import Markup
from tidegauge.display.html import Rows, card, heading, marked, sentence, table

_VERSION = 1
_INDENT = "  "
WARNINGS = "warnings"
"""Key of the warnings in JSON, which is there only if there are some."""


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

    def __post_init__(self) -> None:
        pairs = object.__setattr__
        for told in ("error_messages", "warnings"):
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
            warnings = kept.get(WARNINGS, [])
            if kept["version"] != _VERSION or not _is_verdict(*parts, warnings):
                raise ValueError(kept["version"])  # noqa: TRY301 - one message for all unreadable input
            return cls(*parts, warnings)
        except (ValueError, KeyError, TypeError) as error:
            msg = f"not the JSON of a CheckResult: {text[:80]!r}"
            raise RuleError(msg) from error

    def __str__(self) -> str:
        """Return the verdict in one line."""
        warned = "".join(f"; warning: {name}: {message}" for name, message in self.warnings)
        if self.passed:
            return f"passed: {len(self.outcomes)} policies hold{warned}"
        failed = "; ".join(f"{name}: {message}" for name, message in self.error_messages)
        return f"failed: {failed}{warned}"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        yield heading("Check", Markup(marked("complete" if self.passed else "failed")))
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
    return [f"{name}: {message}" for name, message in found.error_messages]


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


def _is_verdict(passed: Any, messages: Any, log: Any, outcomes: Any, warnings: Any) -> bool:
    """Return whether values are of the types of a verdict."""
    return (
        isinstance(passed, bool)
        and _are_pairs(messages, str)
        and isinstance(log, list)
        and all(isinstance(line, str) for line in log)
        and _are_pairs(outcomes, bool)
        and _are_pairs(warnings, str)
    )


def _are_pairs(values: Any, second: type) -> bool:
    return isinstance(values, list) and all(
        isinstance(pair, list)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and isinstance(pair[1], second)
        for pair in values
    )
