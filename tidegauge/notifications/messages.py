"""Notification messages about incidents and checks.

Names and notes are untrusted, so they are sanitized and truncated.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tidegauge.analyzers.core.formatting import SEVERITY_MARKS, one_line, plural
from tidegauge.repository.incidents.common_cause import IncidentGroup
from tidegauge.widgets.script import dataset_address, incident_address

MAX_EXPLANATIONS = 5
"""Maximum number of explanations or failures in a message."""
MAX_LISTED_INCIDENTS = 20
"""Maximum number of resolved or closed incidents that one message lists."""
_MAX_LINE_LENGTH = 400
_MAX_NAME_LENGTH = 100
RUN_NAME = "run"
"""Check name in messages about the last run of a dataset."""
_GROUP_MENTION = re.compile(r"@(?=everyone|here|channel|all)", re.IGNORECASE)
"""Mentions that notify all members of a chat."""
_CHAT_MARKUP = re.compile(r"<(?=[@#:/&!]|a:|t:|id:)|\](?=\()", re.IGNORECASE)
"""Start of mentions, emojis and commands in Discord and Slack, and of link targets in Markdown."""


def plain(text: str, max_length: int) -> str:
    r"""Sanitize text for a message: one line, no invisible characters, no mentions, no Markdown links, truncated.

    Examples
    --------
    >>> plain("a\r\nb\u202ec @here", 99), plain("abcdef", 4)
    ('a b c @ here', 'abc…')
    >>> plain("<@U024> <@&41> [x](http://evil) a < b", 99)
    '< @U024> < @&41> [x] (http://evil) a < b'
    """
    text = _CHAT_MARKUP.sub(lambda match: f"{match[0]} ", one_line(text))
    return one_line(_GROUP_MENTION.sub("@ ", text), max_length)


def _severity(incident: Mapping[str, Any]) -> str:
    return f"{SEVERITY_MARKS[incident['severity']]} {incident['severity']}"


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
        A row of `Repository.incidents`. An optional ``note`` explains why it is sent again or late.
    explanations : sequence of str
        Explanations of its highest-scoring anomalies.
    url : str, optional
        Address of the dashboard. If not given, the message names the command that shows the incident.
    group : IncidentGroup, optional
        The group of the incident, if the sink has already received other incidents of the group.

    Examples
    --------
    >>> incident = {"id": 7, "dataset": "d", "severity": "error", "headline": "2013-02-08: volume -52%"}
    >>> title, body = incident_message(incident, ["Size is 444 instead of about 930"])
    >>> print(title, body, sep=chr(10))
    Tidegauge: ◆ error in d
    2013-02-08: volume -52%
    - Size is 444 instead of about 930
    See: tidegauge anomalies show 7
    """
    title = f"Tidegauge: {_severity(incident)} in {plain(incident['dataset'], _MAX_NAME_LENGTH)}"
    details = [_as_sentence(incident["note"])] if incident.get("note") else []
    details += [f"- {plain(explanation, _MAX_LINE_LENGTH)}" for explanation in explanations]
    if group is not None:
        details.append(plain(f"Part of a group: {group.headline}", _MAX_LINE_LENGTH))
    return title, "\n".join(
        [plain(incident["headline"], _MAX_LINE_LENGTH), *details, _see_line(incident, url)]
    )


def group_message(
    group: IncidentGroup, incidents: Sequence[Mapping[str, Any]], url: str | None = None
) -> tuple[str, str]:
    """Return title and body of a message about incidents of several tables that share a cause.

    Parameters
    ----------
    group : IncidentGroup
    incidents : sequence of mapping
        The reported incidents, the most severe first: rows of `Repository.incidents`.
    url : str, optional
        As for `incident_message`.

    Examples
    --------
    >>> from datetime import datetime
    >>> from tidegauge.repository.incidents.common_cause import ALL_TABLES, Candidate
    >>> day = datetime(2013, 2, 8)
    >>> both = (Candidate(7, "a", day), Candidate(8, "b", day))
    >>> rows = [
    ...     {"id": one.id, "dataset": one.dataset, "severity": "error", "headline": "2013-02-08: volume -52%"}
    ...     for one in both
    ... ]
    >>> title, body = group_message(IncidentGroup(day, both, "fewer rows", ALL_TABLES, 0.01), rows)
    >>> print(title, body, sep=chr(10))
    Tidegauge: ◆ error in 2 tables
    2013-02-08: fewer rows in 2 tables: a and b
    - a: 2013-02-08: volume -52%
    - b: 2013-02-08: volume -52%
    See: tidegauge anomalies show 7
    """
    tables = list(
        dict.fromkeys(plain(incident["dataset"], _MAX_NAME_LENGTH) for incident in incidents)
    )
    title = f"Tidegauge: {_severity(incidents[0])} in {tables[0] if len(tables) == 1 else f'{len(tables)} tables'}"
    sentences = [
        f"{plain(incident['dataset'], _MAX_NAME_LENGTH)}: {_headline_with_note(incident)}"
        for incident in incidents
    ]
    lines = [f"- {plain(incident, _MAX_LINE_LENGTH)}" for incident in sentences[:MAX_EXPLANATIONS]]
    if other_tables := list(
        dict.fromkeys(
            plain(incident["dataset"], _MAX_NAME_LENGTH)
            for incident in incidents[MAX_EXPLANATIONS:]
        )
    ):
        lines.append(plain(f"and in {', '.join(other_tables)}", _MAX_LINE_LENGTH))
    return title, "\n".join(
        [plain(group.headline, _MAX_LINE_LENGTH), *lines, _see_line(incidents[0], url)]
    )


def resolved_message(
    incidents: Sequence[Mapping[str, Any]], url: str | None = None
) -> tuple[str, str]:
    """Return title and body of a message about several resolved incidents, such as those of a first run.

    Examples
    --------
    >>> first = {"id": 7, "dataset": "d", "severity": "error", "headline": "2013-02-08: volume -52%"}
    >>> other = first | {"id": 8, "headline": "2013-03-09: volume +99%"}
    >>> title, body = resolved_message([first | {"note": "back to normal since ds=2013-02-09"}, other])
    >>> print(title, body, sep=chr(10))
    Tidegauge: ◆ error in d
    2 incidents are resolved
    - 2013-02-08: volume -52% (back to normal since ds=2013-02-09)
    - 2013-03-09: volume +99%
    See: tidegauge anomalies show 7
    >>> title, body = resolved_message([first, other | {"dataset": "e"}])
    >>> print(title, body, sep=chr(10))
    Tidegauge: ◆ error in 2 tables
    2 incidents are resolved
    - d: 2013-02-08: volume -52%
    - e: 2013-03-09: volume +99%
    See: tidegauge anomalies show 7
    """
    first = incidents[0]
    tables = {
        incident["dataset"]: plain(incident["dataset"], _MAX_NAME_LENGTH) for incident in incidents
    }
    is_one = len(tables) == 1
    title = f"Tidegauge: {_severity(first)} in {tables[first['dataset']] if is_one else plural(len(tables), 'table')}"
    lines = [
        "- "
        + plain(
            ("" if is_one else f"{tables[incident['dataset']]}: ") + _headline_with_note(incident),
            _MAX_LINE_LENGTH,
        )
        for incident in incidents[:MAX_LISTED_INCIDENTS]
    ]
    head = f"{len(incidents)} incidents are resolved"
    return title, "\n".join([head, *lines, *_omitted_line(incidents), _see_line(first, url)])


def closing_message(
    incidents: Sequence[Mapping[str, Any]], url: str | None = None
) -> tuple[str, str]:
    """Return title and body of a message that closes incidents which were sent before, with the reason.

    Examples
    --------
    >>> incident = {"id": 7, "dataset": "d", "headline": "2013-02-08: volume -52%"}
    >>> note = "withdrawn on 2013-02-09 08:30 because ds=2013-02-08 was measured again and looks normal"
    >>> title, body = closing_message([incident | {"note": note}])
    >>> print(title, body, sep=chr(10))
    Tidegauge: closed in d
    2013-02-08: volume -52%
    Withdrawn on 2013-02-09 08:30 because ds=2013-02-08 was measured again and looks normal.
    See: tidegauge anomalies show 7
    """
    first = incidents[0]
    if len(incidents) == 1:
        title = f"Tidegauge: closed in {plain(first['dataset'], _MAX_NAME_LENGTH)}"
        lines = [plain(first["headline"], _MAX_LINE_LENGTH), _as_sentence(first["note"])]
        return title, "\n".join([*lines, _see_line(first, url)])
    title = f"Tidegauge: {len(incidents)} incidents closed"
    sentences = [
        f"{plain(incident['dataset'], _MAX_NAME_LENGTH)}: {_headline_with_note(incident)}"
        for incident in incidents
    ]
    lines = [
        f"- {plain(incident, _MAX_LINE_LENGTH)}" for incident in sentences[:MAX_LISTED_INCIDENTS]
    ]
    return title, "\n".join([*lines, *_omitted_line(incidents), _see_line(first, url)])


def _headline_with_note(incident: Mapping[str, Any]) -> str:
    """Return an incident's headline, followed by its note in parentheses."""
    note = incident.get("note")
    return f"{incident['headline']} ({note})" if note else str(incident["headline"])


def _as_sentence(note: str) -> str:
    """Return a note as a sentence."""
    text = plain(note, _MAX_LINE_LENGTH)
    return f"{text[:1].upper()}{text[1:]}."


def _omitted_line(incidents: Sequence[Mapping[str, Any]]) -> list[str]:
    omitted = len(incidents) - MAX_LISTED_INCIDENTS
    return [f"and {omitted} more"] if omitted > 0 else []


def _see_line(incident: Mapping[str, Any], url: str | None) -> str:
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
    """Return title and body of a message about a check that fails, warns, or passes again.

    Parameters
    ----------
    dataset : str
    name : str
        Name of the check, such as ``checks``.
    failed : mapping of str to sequence of str
        Messages of each failing partition; its name is empty for an unpartitioned dataset.
    recovered : sequence of str
        Partitions that pass again.
    url : str, optional
        Address of the dashboard. If not given, the message names the command that shows the verdicts.
    warned : mapping of str to sequence of str
        Messages of each partition that only warns.

    Examples
    --------
    >>> failed = {"ds=2013-02-08": ["row count is 12, at least 600 required"]}
    >>> title, body = verdict_message("flights", "checks", failed, ["ds=2013-02-07"])
    >>> print(title, body, sep=chr(10))
    Tidegauge: checks failed in flights
    1 partition fails, 1 passes again
    - ds=2013-02-08: row count is 12, at least 600 required
    - ds=2013-02-07 passes again
    See: tidegauge rules history flights --failed
    """
    recovery = "is complete again" if name == RUN_NAME else "pass again"
    outcome = "failed" if failed else "warn" if warned else recovery
    title = f"Tidegauge: {plain(name, _MAX_NAME_LENGTH)} {outcome} in {plain(dataset, _MAX_NAME_LENGTH)}"
    sentences = [
        f"{partition}: {message}" if partition else message
        for partition, messages in (*failed.items(), *warned.items())
        for message in messages or ["failed"]
    ]
    sentences += [f"{partition or 'the table'} passes again" for partition in recovered]
    lines = [f"- {plain(sentence, _MAX_LINE_LENGTH)}" for sentence in sentences[:MAX_EXPLANATIONS]]
    if len(sentences) > MAX_EXPLANATIONS:
        lines.append(f"and {len(sentences) - MAX_EXPLANATIONS} more")
    show = f"tidegauge rules history {shlex.quote(dataset)}{' --failed' if failed or not warned else ''}"
    if name == RUN_NAME:
        show = "tidegauge report"
    see = dataset_address(url, dataset) if url else show
    body = [
        _count_partitions(failed, warned, recovered),
        *lines,
        f"See: {plain(see, _MAX_LINE_LENGTH)}",
    ]
    return title, "\n".join(line for line in body if line)


def _count_partitions(
    failed: Collection[str], warned: Collection[str], recovered: Collection[str]
) -> str:
    """Return the numbers of partitions by outcome; empty for an unpartitioned dataset."""
    if not any((*failed, *warned, *recovered)):
        return ""
    counts: list[str] = []
    for names, singular, several in (
        (failed, "fails", "fail"),
        (warned, "warns", "warn"),
        (recovered, "passes again", "pass again"),
    ):
        if names:
            unit = "" if counts else " partition" if len(names) == 1 else " partitions"
            counts.append(f"{len(names)}{unit} {singular if len(names) == 1 else several}")
    return ", ".join(counts)
