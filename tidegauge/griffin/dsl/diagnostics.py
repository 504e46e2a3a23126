"""Parse errors located by offset."""

from __future__ import annotations

from tidegauge.analyzers.core.errors import DslError

__all__ = ["DslError", "LocatedParseError"]


class LocatedParseError(Exception):
    """Parse error with offsets only; `error` makes a `DslError` of it once the text is available.

    Parameters
    ----------
    message : str
    start, end : int
        Offsets.
    phase : str
    expected : tuple of str
    hint : str or None
    """

    def __init__(
        self,
        message: str,
        start: int,
        end: int,
        phase: str = "syntax",
        expected: tuple[str, ...] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.start, self.end = message, start, end
        self.phase, self.expected, self.hint = phase, expected, hint

    def error(self, text: str, rule: str | None = None) -> DslError:
        r"""Return the user-facing `DslError` with line and columns.

        Examples
        --------
        >>> error = LocatedParseError("there is no such thing", 7, 11).error("a = 1\nb zzzz c")
        >>> error.line, error.column, error.end_column
        (2, 2, 6)
        """
        before = text[: self.start]
        column = len(before) - (before.rfind("\n") + 1) + 1
        width = len(text[self.start : self.end].split("\n", 1)[0])
        return DslError(
            self.message,
            text,
            before.count("\n") + 1,
            column,
            column + width,
            self.expected,
            self.phase,
            self.hint,
            rule,
        )
