"""Notification messages of incidents and of checks. Names and notes are untrusted: they are sanitised and cut."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tidegauge.analyzers.core.formatting import one_line
from tidegauge.repository.incidents.common_cause import IncidentGroup
from tidegauge.widgets.script import dataset_address, incident_address

CLEAREST = 5
"""Maximum number of explanations, or of failures, in a message."""
MAX_LISTED_INCIDENTS = 20
"""Maximum number of incidents in a message that are over, or closed."""
_LONG, _SHORT = 400, 100
RUN = "run"
"""Name under which a failed run is told as checks are."""
_CALL = re.compile(r"@(?=everyone|here|channel|all)", re.IGNORECASE)
"""Mentions that notify all members of a chat."""
_MARKUP = re.compile(r"<(?=[@#:/&!]|a:|t:|id:)|\](?=\()", re.IGNORECASE)
"""Beginnings of mentions, emojis and commands of Discord and Slack, and of links under other words in Markdown."""


def plain(text: str, most: int) -> str:
    r"""Sanitise a text: one line, no invisible characters, no mentions, no links under other words, cut to a length.

    Examples
    --------
    >>> plain("a\r\nb\u202ec @here", 99), plain("abcdef", 4)
    ('a b c @ here', 'abc…')
    >>> plain("<@U024> <@&41> [x](http://evil) a < b", 99)
    '< @U024> < @&41> [x] (http://evil) a < b'
    """
    text = _MARKUP.sub(lambda match: f"{match[0]} ", one_line(text))
    return one_line(_CALL.sub("@ ", text), most)


def incident_message(
    incident: Mapping[str, Any],
    explanations: Sequence[str],
    url: str | None = None,
    group: IncidentGroup | None = None,
) -> tuple[str, str]:
    """Return title and body of an incident's message.

    Parameters
    ----------
    incident : mapping
        A row as `Repository.incidents` returns it, perhaps with a ``note``: why it is sent again, or late.
    explanations : sequence of str
        Of its highest-scoring anomalies.
    url : str, optional
        Address of the dashboard; if not given, the message names the command that shows the incident.
    group : IncidentGroup, optional
        Incidents of other tables that share its cause, of which the sink was told before.

    Examples
    --------
    >>> incident = {"id": 7, "dataset": "d", "severity": "error", "headline": "8 Feb 2013: volume -52 %"}
    >>> title, body = incident_message(incident, ["Size is 444 instead of about 930"])
    >>> print(title, body, sep=chr(10))
    Tidegauge: error in d
    8 Feb 2013: volume -52 %
    - Size is 444 instead of about 930
    See: tidegauge anomalies show 7
    """
    title = f"Tidegauge: {incident['severity']} in {plain(incident['dataset'], _SHORT)}"
    told = [_sentence(incident["note"])] if incident.get("note") else []
    told += [f"- {plain(one, _LONG)}" for one in explanations]
    if group is not None:
        told.append(plain(f"One of a group, {group.headline}", _LONG))
    return title, "\n".join([plain(incident["headline"], _LONG), *told, _see(incident, url)])


def group_message(
    group: IncidentGroup, incidents: Sequence[Mapping[str, Any]], url: str | None = None
) -> tuple[str, str]:
    """Return title and body of the message of incidents of several tables that share a cause.

    Parameters
    ----------
    group : IncidentGroup
    incidents : sequence of mapping
        Those to tell, the gravest first, as `Repository.incidents` returns them.
    url : str, optional
        As for `incident_message`.

    Examples
    --------
    >>> from datetime import datetime
    >>> from tidegauge.repository.incidents.common_cause import Candidate
    >>> day = datetime(2013, 2, 8)
    >>> both = (Candidate(7, "a", day), Candidate(8, "b", day))
    >>> rows = [
    ...     {"id": one.id, "dataset": one.dataset, "severity": "error", "headline": "8 Feb 2013: volume -52 %"}
    ...     for one in both
    ... ]
    >>> title, body = group_message(IncidentGroup(day, both, "fewer rows", "", 0.01), rows)
    >>> print(title, body, sep=chr(10))
    Tidegauge: error in 2 tables
    8 Feb 2013: fewer rows in 2 tables: a and b
    - a: 8 Feb 2013: volume -52 %
    - b: 8 Feb 2013: volume -52 %
    See: tidegauge anomalies show 7
    """
    tables = list(dict.fromkeys(plain(one["dataset"], _SHORT) for one in incidents))
    title = f"Tidegauge: {incidents[0]['severity']} in {tables[0] if len(tables) == 1 else f'{len(tables)} tables'}"
    told = [f"{plain(one['dataset'], _SHORT)}: {_noted(one)}" for one in incidents]
    lines = [f"- {plain(one, _LONG)}" for one in told[:CLEAREST]]
    if rest := list(dict.fromkeys(plain(one["dataset"], _SHORT) for one in incidents[CLEAREST:])):
        lines.append(plain(f"and in {', '.join(rest)}", _LONG))
    return title, "\n".join([plain(group.headline, _LONG), *lines, _see(incidents[0], url)])


def over_message(incidents: Sequence[Mapping[str, Any]], url: str | None = None) -> tuple[str, str]:
    """Return title and body of the message of several incidents of a dataset that are over.

    Examples
    --------
    >>> first = {"id": 7, "dataset": "d", "severity": "error", "headline": "8 Feb 2013: volume -52 %"}
    >>> other = first | {"id": 8, "headline": "9 Mar 2013: volume +99 %"}
    >>> title, body = over_message([first | {"note": "it is over since ds=2013-02-09"}, other])
    >>> print(title, body, sep=chr(10))
    Tidegauge: error in d
    2 incidents that are over
    - 8 Feb 2013: volume -52 % (it is over since ds=2013-02-09)
    - 9 Mar 2013: volume +99 %
    See: tidegauge anomalies show 7
    """
    first = incidents[0]
    title = f"Tidegauge: {first['severity']} in {plain(first['dataset'], _SHORT)}"
    lines = [f"- {plain(_noted(one), _LONG)}" for one in incidents[:MAX_LISTED_INCIDENTS]]
    head = f"{len(incidents)} incidents that are over"
    return title, "\n".join([head, *lines, *_rest(incidents), _see(first, url)])


def closing_message(
    incidents: Sequence[Mapping[str, Any]], url: str | None = None
) -> tuple[str, str]:
    """Return title and body of the message of incidents that were sent and are closed, with the reason.

    Examples
    --------
    >>> incident = {"id": 7, "dataset": "d", "headline": "8 Feb 2013: volume -52 %"}
    >>> note = "taken back on 2013-02-09 08:30 because ds=2013-02-08 was measured again and looks normal"
    >>> title, body = closing_message([incident | {"note": note}])
    >>> print(title, body, sep=chr(10))
    Tidegauge: closed in d
    8 Feb 2013: volume -52 %
    Taken back on 2013-02-09 08:30 because ds=2013-02-08 was measured again and looks normal.
    See: tidegauge anomalies show 7
    """
    first = incidents[0]
    if len(incidents) == 1:
        title = f"Tidegauge: closed in {plain(first['dataset'], _SHORT)}"
        lines = [plain(first["headline"], _LONG), _sentence(first["note"])]
        return title, "\n".join([*lines, _see(first, url)])
    title = f"Tidegauge: {len(incidents)} incidents closed"
    told = [f"{plain(one['dataset'], _SHORT)}: {_noted(one)}" for one in incidents]
    lines = [f"- {plain(one, _LONG)}" for one in told[:MAX_LISTED_INCIDENTS]]
    return title, "\n".join([*lines, *_rest(incidents), _see(first, url)])


def _noted(incident: Mapping[str, Any]) -> str:
    """Return an incident's headline, with its note."""
    note = incident.get("note")
    return f"{incident['headline']} ({note})" if note else str(incident["headline"])


def _sentence(note: str) -> str:
    """Return a note as a sentence of a message."""
    text = plain(note, _LONG)
    return f"{text[:1].upper()}{text[1:]}."


def _rest(incidents: Sequence[Mapping[str, Any]]) -> list[str]:
    more = len(incidents) - MAX_LISTED_INCIDENTS
    return [f"and {more} more"] if more > 0 else []


def _see(incident: Mapping[str, Any], url: str | None) -> str:
    show = f"tidegauge anomalies show {incident['id']}"
    return f"See: {incident_address(url, incident['id']) if url else show}"


def verdict_message(
    dataset: str,
    name: str,
    failed: Mapping[str, Sequence[str]],
    recovered: Sequence[str],
    url: str | None = None,
    warned: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> tuple[str, str]:
    """Return title and body of the message of a check that fails, warns, or passes again.

    Parameters
    ----------
    dataset : str
    name : str
        Name of the verdicts, such as ``checks``.
    failed : mapping of str to sequence of str
        The messages of each partition that fails; empty for the whole dataset.
    recovered : sequence of str
        Partitions that pass again.
    url : str, optional
        Address of the dashboard; if not given, the message names the command that shows the verdicts.
    warned : mapping of str to sequence of str
        The messages of each partition that only warns.

    Examples
    --------
    >>> failed = {"ds=2013-02-08": ["row count is 12, at least 600 needed"]}
    >>> title, body = verdict_message("flights", "checks", failed, ["ds=2013-02-07"])
    >>> print(title, body, sep=chr(10))
    Tidegauge: checks failed in flights
    1 partition fails, 1 passes again
    - ds=2013-02-08: row count is 12, at least 600 needed
    - ds=2013-02-07 passes again
    See: tidegauge rules history flights --failed
    """
    again = "is complete again" if name == RUN else "pass again"
    outcome = "failed" if failed else "warn" if warned else again
    title = f"Tidegauge: {plain(name, _SHORT)} {outcome} in {plain(dataset, _SHORT)}"
    told = [
        f"{partition}: {message}" if partition else message
        for partition, messages in (*failed.items(), *warned.items())
        for message in messages or ["failed"]
    ]
    told += [f"{partition or 'the whole'} passes again" for partition in recovered]
    lines = [f"- {plain(one, _LONG)}" for one in told[:CLEAREST]]
    if len(told) > CLEAREST:
        lines.append(f"and {len(told) - CLEAREST} more")
    show = f"tidegauge rules history {shlex.quote(dataset)}{' --failed' if failed or not warned else ''}"
    if name == RUN:
        show = "tidegauge report"
    see = dataset_address(url, dataset) if url else show
    body = [_counted(failed, warned, recovered), *lines, f"See: {plain(see, _LONG)}"]
    return title, "\n".join(line for line in body if line)


def _counted(failed: Collection[str], warned: Collection[str], recovered: Collection[str]) -> str:
    """Count partitions; empty for a dataset that is not partitioned."""
    if not any((*failed, *warned, *recovered)):
        return ""
    told: list[str] = []
    for names, one, many in (
        (failed, "fails", "fail"),
        (warned, "warns", "warn"),
        (recovered, "passes again", "pass again"),
    ):
        if names:
            unit = "" if told else " partition" if len(names) == 1 else " partitions"
            told.append(f"{len(names)}{unit} {one if len(names) == 1 else many}")
    return ", ".join(told)
