"""Notification messages of incidents. Names and notes are untrusted: they are sanitised and cut."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tidegauge.analyzers.core.formatting import one_line
from tidegauge.display.addresses import incident_address

CLEAREST = 5
"""Maximum number of explanations in a message."""
_LONG, _SHORT = 400, 100
_CALL = re.compile(r"@(?=everyone|here|channel|all)", re.IGNORECASE)
"""Mentions that notify all members of a chat."""


def plain(text: str, most: int) -> str:
    r"""Sanitise a text: one line, no invisible characters, no mention of everyone, cut to a length.

    Examples
    --------
    >>> plain("a\r\nb\u202ec @here", 99), plain("abcdef", 4)
    ('a b c @ here', 'abc…')
    """
    return one_line(_CALL.sub("@ ", one_line(text)), most)


def message(
    incident: Mapping[str, Any], explanations: Sequence[str], url: str | None = None
) -> tuple[str, str]:
    """Return title and body of an incident's message.

    Parameters
    ----------
    incident : mapping
        A row as `Repository.incidents` returns it.
    explanations : sequence of str
        Of its highest-scoring anomalies.
    url : str, optional
        Address of the dashboard; if not given, the message names the command that shows the incident.

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
    show = f"tidegauge anomalies show {incident['id']}"
    see = f"See: {incident_address(url, incident['id']) if url else show}"
    return title, "\n".join([plain(incident["headline"], _LONG), *told, see])
