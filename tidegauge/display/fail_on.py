"""Levels at which failed data make a command exit with 2; every command line imports them."""

from enum import StrEnum

from tidegauge.outcome import Gate


class FailOn(StrEnum):
    """Condition for exit status 2: a failed policy, any rejected record, or never."""

    POLICY = "policy"
    REJECT = "reject"
    NEVER = "never"

    @property
    def gate(self) -> Gate:
        """The problems that fail the command."""
        return Gate(failures=self is not FailOn.NEVER, rejects=self is FailOn.REJECT)


class FailOnLevel(StrEnum):
    """Least severity of a failure that makes the exit status 2; or never."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"

    def gate(self, *, anomalies: bool = False) -> Gate:
        """Return the problems that fail the command; anomalies, too, if asked for."""
        failures = self is not FailOnLevel.NEVER
        return Gate(failures, warnings=self is FailOnLevel.WARNING, anomalies=anomalies)
