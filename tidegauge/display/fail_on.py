"""Levels at which failed data make a command exit with 2; every command line imports them."""

from enum import StrEnum


class FailOn(StrEnum):
    """Condition for exit status 2: a failed policy, any rejected record, or never."""

    POLICY = "policy"
    REJECT = "reject"
    NEVER = "never"


class FailOnLevel(StrEnum):
    """Least severity of a failure that makes the exit status 2; or never."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"

    @property
    def statuses(self) -> frozenset[str]:
        """The statuses of a verification that fail the command."""
        failing = {FailOnLevel.ERROR: ["error"], FailOnLevel.WARNING: ["error", "warning"]}
        return frozenset(failing.get(self, []))
