"""What is said of an incident. Names and notes are other people's: they are made plain, and cut."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from analyzers.display import one_line

CLEAREST = 5
"""So many explanations are told."""
_LONG, _SHORT = 400, 100
_CALL = re.compile(r"@(?=everyone|here|channel|all)", re.IGNORECASE)
"""What calls all members of a chat."""


def plain(text: str, most: int) -> str:
    r"""Return a text in one line, without what cannot be seen and what calls everybody, cut.

    Examples
    --------
    >>> plain("a\r\nb\u202ec @here", 99), plain("abcdef", 4)
    ('a b c @ here', 'abc…')
    """
    return one_line(_CALL.sub("@ ", one_line(text)), most)


def message(incident: Mapping[str, Any], explanations: Sequence[str]) -> tuple[str, str]:
    """Return title and body.

    Parameters
    ----------
    incident : mapping
        A row as `Repository.incidents` returns it.
    explanations : sequence of str
        Of its clearest anomalies.

    Examples
    --------
    >>> incident = {"id": 7, "dataset": "d", "severity": "error", "headline": "8 Feb 2013: volume -52 %"}
    >>> title, body = message(incident, ["Size is 444 instead of about 930"])
    >>> print(title, body, sep=chr(10))
    Tidegauge: error in d
    8 Feb 2013: volume -52 %
    - Size is 444 instead of about 930
    See: tidegauge anomalies show 7
    """
    title = f"Tidegauge: {incident['severity']} in {plain(incident['dataset'], _SHORT)}"
    told = [f"- {plain(one, _LONG)}" for one in explanations]
    see = f"See: tidegauge anomalies show {incident['id']}"
    return title, "\n".join([plain(incident["headline"], _LONG), *told, see])
