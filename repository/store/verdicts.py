"""Verdicts of rules on data: writing, lookup, listing, and the condition for superseded ones.

Verdicts are append-only. A verdict's key is the hash of its inputs; the newest verdict of a key
counts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError, UnknownDatasetError, did_you_mean
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.runs.ledger import Case
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.database import Database, lock_clock, next_commit
from tidegauge.repository.store.dimensions import dataset_named, visible
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.listing import first_of_last_runs
from tidegauge.repository.store.queries import AsOf, commit_as_of, dataset_id, select_list

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

SETTLING_LABELS = ("expected", "bad", "ignore")
"""Labels of a time range that mark failures in it as known."""
VERDICT_COLUMNS = columns(
    "id:integer dataset name partition time:time fingerprint specification passed:flag"
    " checked_at:time run_id:integer result"
)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check on a case.

    Attributes
    ----------
    passed : bool
    result : str
        JSON text of the full result, stored unchanged.
    """

    passed: bool
    result: str

    def check(self) -> None:
        """Raise a `HistoryError` unless ``passed`` is a bool and ``result`` strict JSON text."""
        if not isinstance(self.passed, bool):
            msg = f"passed must be True or False, not {self.passed!r}"
            raise HistoryError(msg)
        _check_text("result", self.result)
        try:
            json.loads(self.result, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            msg = f"the result of a verdict must be JSON: {error}"
            raise HistoryError(msg) from error


def checked(case: Case) -> Case:
    """Return a case with strings that every database can store.

    Raises
    ------
    HistoryError
        If a field is not a string, or a required field is empty.
    """
    for field in fields(case):
        text = getattr(case, field.name)
        _check_text(field.name, text)
        if not text.strip() and field.name != "partition":
            msg = f"the {field.name} of a verdict must not be empty: {text!r}"
            raise HistoryError(msg)
    return Case(**{field.name: visible(getattr(case, field.name)) for field in fields(case)})


def hash_of(case: Case) -> str:
    """Return the lookup hash of verdicts on one case."""
    parts = [case.name, case.partition, case.fingerprint, case.specification]
    return key_of(canonical_json(parts))


def rename_content(
    connection: Connection, dataset: int, fingerprints: Mapping[tuple[str, str], str]
) -> None:
    """Replace the fingerprints in verdicts after files changed but not their content.

    Parameters
    ----------
    connection : Connection
    dataset : int
    fingerprints : mapping of (str, str) to str
        The new fingerprint, by the partition's key and the previous fingerprint.
    """
    for chunk in chunks(sorted({key for key, _ in fingerprints})):
        where = (s.verdict.c.dataset_id == dataset) & s.verdict.c.partition_key.in_(chunk)
        columns = (
            s.verdict.c.id,
            s.verdict.c.name,
            s.verdict.c.partition,
            s.verdict.c.partition_key,
            s.verdict.c.fingerprint,
        )
        for row in connection.execute(
            sa.select(*columns, s.verdict.c.specification).where(where)
        ).all():
            fingerprint = fingerprints.get((row.partition_key, row.fingerprint))
            if fingerprint is not None:
                key = hash_of(Case(row.name, row.specification, fingerprint, row.partition))
                change = sa.update(s.verdict).where(s.verdict.c.id == row.id)
                connection.execute(change.values(fingerprint=fingerprint, key=key))


def _check_text(field_name: str, text: object) -> None:
    if not isinstance(text, str):
        msg = f"the {field_name} of a verdict must be a string, not {type(text).__name__}"
        raise HistoryError(msg)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        msg = f"the {field_name} of a verdict is not valid Unicode: {text!r}"
        raise HistoryError(msg) from error


def _refuse_constant(constant: str) -> NoReturn:
    msg = f"{constant} is not JSON; write null"
    raise ValueError(msg)


def add_verdict(
    database: Database, dataset: str, case: Case, verdict: Verdict, run: int | None = None
) -> int:
    """Store a verdict and return its id, or the id of an identical current one.

    An identical verdict is not current if the check has a later verdict on the partition, with any
    rules and content.

    Raises
    ------
    HistoryError
        If the verdict is invalid, or the dataset has no such run.
    """
    case = checked(case)
    verdict.check()
    of_run = None if run is None else index(run)
    outcome = {"passed": int(verdict.passed), "result": verdict.result}

    def work(connection: Connection) -> int:
        lock_clock(connection)  # the second writer of two identical verdicts finds the first
        dataset_number = dataset_named(connection, dataset)
        if of_run is not None:
            _check_run(connection, dataset, dataset_number, of_run)
        previous = connection.execute(_newest(dataset_number, case)).one_or_none()
        if (
            previous is not None
            and outcome == {"passed": previous.passed, "result": previous.result}
            and not _is_outdated(connection, dataset_number, case, previous.commit_id)
        ):
            return int(previous.id)
        commit, now = next_commit(connection, None)
        case_values = {field.name: getattr(case, field.name) for field in fields(case)}
        keys = {"key": hash_of(case), "partition_key": key_of(case.partition)}
        values = {"dataset_id": dataset_number, **case_values, **keys, **outcome, "run_id": of_run}
        insert = sa.insert(s.verdict).values(**values, checked_at=now, commit_id=commit)
        return int(connection.execute(insert.returning(s.verdict.c.id)).scalar_one())

    return database.write(work)


def _is_outdated(connection: Connection, dataset: int, case: Case, commit: int) -> bool:
    """Return whether the check has a later verdict on the partition."""
    verdict = s.verdict.c
    newer = sa.select(verdict.id).where(
        verdict.dataset_id == dataset,
        verdict.partition_key == key_of(case.partition),
        verdict.name == case.name,
        verdict.commit_id > commit,
    )
    return connection.execute(newer.limit(1)).first() is not None


def _check_run(connection: Connection, dataset: str, dataset_number: int, run: int) -> None:
    owner = connection.execute(
        sa.select(s.run.c.dataset_id).where(s.run.c.id == run)
    ).scalar_one_or_none()
    if owner != dataset_number:
        problem = "the run does not exist" if owner is None else f"it is not a run of {dataset!r}"
        msg = f"run={run}: {problem}; repo.runs({dataset!r}) lists their ids"
        raise HistoryError(msg)


def find_verdict(
    connection: Connection, dataset: str, case: Case, as_of: AsOf = None
) -> str | None:
    """Return the result of a case's newest verdict; None if there is none or no such dataset."""
    case = checked(case)
    commit = commit_as_of(connection, as_of)
    try:
        dataset_number = dataset_id(connection, dataset)
    except UnknownDatasetError:
        return None
    row = connection.execute(_newest(dataset_number, case, commit)).one_or_none()
    return None if row is None else row.result


def _newest(dataset: int, case: Case, commit: int | None = None) -> sa.Select[Any]:
    verdict = s.verdict.c
    query = sa.select(verdict.id, verdict.passed, verdict.result, verdict.commit_id).where(
        verdict.dataset_id == dataset, verdict.key == hash_of(case)
    )
    if commit is not None:
        query = query.where(verdict.commit_id <= commit)
    return query.order_by(verdict.commit_id.desc()).limit(1)


def verdict_rows(
    connection: Connection,
    dataset: str,
    name: str | None = None,
    partition: str | None = None,
    passed: bool | None = None,  # noqa: FBT001 - one of the filters
    as_of: AsOf = None,
) -> list[Mapping[str, Any]]:
    """Return the newest verdict of each case, newest first."""
    verdict = s.verdict.c
    expressions = {"dataset": s.dataset.c.name, "time": s.partition.c.time}
    query = (
        sa.select(*select_list(VERDICT_COLUMNS, expressions, s.verdict))
        .select_from(s.verdict)
        .join(s.dataset, s.dataset.c.id == verdict.dataset_id)
        .outerjoin(
            s.partition,
            (s.partition.c.dataset_id == verdict.dataset_id)
            & (s.partition.c.key == verdict.partition_key),
        )
        .where(verdict.dataset_id == dataset_id(connection, dataset))
        .order_by(verdict.commit_id.desc())
    )
    commit = commit_as_of(connection, as_of)
    if commit is not None:
        query = query.where(verdict.commit_id <= commit)
    # Superseded verdicts never count, whatever the filters.
    query = query.where(~superseded(commit))
    for column, value in ((verdict.name, name), (verdict.partition, partition)):
        if value is not None:
            query = query.where(column == visible(value))
    if passed is not None:
        query = query.where(verdict.passed == int(passed))
    rows = (row._asdict() for row in connection.execute(query))
    return [{**row, "passed": bool(row["passed"])} for row in rows]


def check_judged_partition(connection: Connection, dataset: str, partition: str) -> None:
    """Raise an error for a partition that was neither judged nor measured, instead of returning an empty result for a typo.

    Raises
    ------
    UnknownDatasetError
    HistoryError
        The message suggests the nearest name.
    """
    verdict, dataset_number = s.verdict.c, dataset_id(connection, dataset)
    judged = sa.select(verdict.partition).where(verdict.dataset_id == dataset_number)
    measured = sa.select(s.partition.c.name).where(s.partition.c.dataset_id == dataset_number)
    names = set(connection.execute(sa.union(judged, measured)).scalars())
    if visible(partition) not in names:
        hint = did_you_mean(partition, filter(None, names))
        msg = f"{dataset!r} has no partition {partition!r}{hint}"
        raise HistoryError(msg)


def check_judged_name(connection: Connection, dataset: str, name: str) -> None:
    """Raise an error for a check's name without verdicts, if other checks have verdicts.

    Raises
    ------
    UnknownDatasetError
    HistoryError
        The message suggests the nearest name.
    """
    verdict = s.verdict.c
    judged = (
        sa.select(verdict.name)
        .where(verdict.dataset_id == dataset_id(connection, dataset))
        .distinct()
    )
    names = set(connection.execute(judged).scalars())
    if names and visible(name) not in names:
        msg = f"no verdict of {dataset!r} has the name {name!r}{did_you_mean(name, names)}"
        raise HistoryError(msg)


def standing_verdicts(datasets: Collection[int] | None = None) -> sa.Subquery:
    """Select the newest verdict of each check on the current content of each partition.

    Verdicts on data that the repository has not measured, such as a DataFrame, have no content to
    compare with; their newest verdict is selected. Partitions that are gone are excluded.

    Parameters
    ----------
    datasets : collection of int, optional
        Ids; all datasets if not given. Filtering before the ranking is faster, because databases
        rank all rows of the subquery.
    """
    verdict, partition, partition_version, gone = (
        s.verdict.c,
        s.partition.c,
        s.partition_version.c,
        s.absence.c,
    )
    content = sa.func.coalesce(
        partition_version.fingerprint,
        sa.literal("version/1:") + sa.cast(partition_version.version, sa.Text),
    )
    rank = sa.func.row_number().over(
        partition_by=(verdict.dataset_id, verdict.name, verdict.partition_key),
        order_by=verdict.commit_id.desc(),
    )
    current = gone.partition_id.is_(None) & (content == verdict.fingerprint)
    ranked = (
        sa.select(verdict.id, partition.time, rank.label("place"))
        .select_from(s.verdict)
        .outerjoin(
            s.partition,
            (partition.dataset_id == verdict.dataset_id) & (partition.key == verdict.partition_key),
        )
        .outerjoin(
            s.partition_version,
            (partition_version.partition_id == partition.id) & s.holds(s.partition_version),
        )
        .outerjoin(s.absence, (gone.partition_id == partition.id) & s.holds(s.absence))
        .where(partition_version.version.is_(None) | current)
    )
    if datasets is not None:
        ranked = ranked.where(verdict.dataset_id.in_(datasets))
    best = ranked.subquery()
    # Results are long, so they are joined after the ranking.
    query = sa.select(*s.verdict.c, best.c.time).join_from(s.verdict, best, best.c.id == verdict.id)
    return query.where(best.c.place == 1).subquery()


def failing_verdicts(datasets: Collection[int] | None = None) -> sa.Subquery:
    """Select the current failed verdicts, each with ``is_known`` and ``is_labelled``.

    A known failure need not be reported again: it was reported before the dataset's last runs, and
    a newer partition has arrived since; or somebody has labeled the partition since.
    """
    standing = standing_verdicts(datasets)
    verdict = standing.c
    is_labelled = _is_labelled(verdict)
    is_known = _was_reported(verdict) | is_labelled
    query = sa.select(standing, is_known.label("is_known"), is_labelled.label("is_labelled"))
    return query.where(verdict.passed == 0).subquery()


def _was_reported(verdict: Any) -> sa.ColumnElement[bool]:
    """Return the condition that a failure was stored before the last runs, and a newer partition has arrived since."""
    run, failed, passed = (
        s.run.alias("began"),
        s.verdict.alias("failed"),
        s.verdict.alias("passing"),
    )
    newer, gone = s.partition.alias("newer"), s.absence.alias("gone")
    began = sa.select(run.c.started_at).where(run.c.id == first_of_last_runs(verdict.dataset_id))
    passed_since = sa.exists().where(
        passed.c.dataset_id == failed.c.dataset_id,
        passed.c.partition_key == failed.c.partition_key,
        passed.c.name == failed.c.name,
        passed.c.passed == 1,
        passed.c.commit_id > failed.c.commit_id,
    )
    missing = sa.exists().where(gone.c.partition_id == newer.c.id, s.holds(gone))
    came_since = sa.exists().where(
        newer.c.dataset_id == verdict.dataset_id,
        verdict.time.is_(None) | (newer.c.time > verdict.time),
        newer.c.first_seen_at > failed.c.checked_at,
        ~missing.correlate_except(gone),
    )
    reported = sa.exists().where(
        failed.c.dataset_id == verdict.dataset_id,
        failed.c.key == verdict.key,
        failed.c.passed == 0,
        failed.c.checked_at < began.correlate_except(run).scalar_subquery(),
        ~passed_since.correlate_except(passed),
        came_since.correlate_except(newer),
    )
    return sa.and_(verdict.partition != "", reported.correlate_except(failed))


def _is_labelled(verdict: Any) -> sa.ColumnElement[bool]:
    """Return the condition that the newest label of the partition's time marks the failure as known."""
    range_label = s.label.alias("range_label")
    covering = sa.select(range_label.c.label).where(
        range_label.c.dataset_id == verdict.dataset_id,
        *(
            range_label.c[name].is_(None)
            for name in ("anomaly_id", "incident_id", "name", "instance")
        ),
        range_label.c.segment.is_(None),
        range_label.c.created_at > verdict.checked_at,
        range_label.c.label.in_([*SETTLING_LABELS, "reopened"]),
        verdict.time.is_not(None),
        range_label.c.since.is_(None) | (range_label.c.since <= verdict.time),
        range_label.c.until.is_(None) | (range_label.c.until >= verdict.time),
    )
    newest = covering.order_by(range_label.c.id.desc()).limit(1)
    label = newest.correlate_except(range_label).scalar_subquery()
    return sa.func.coalesce(label, "").in_(SETTLING_LABELS)


def failing_counts(since: datetime | None = None) -> sa.Subquery:
    """Count failed verdicts on current data by dataset: new failures and known failures.

    Parameters
    ----------
    since : datetime, optional
        Only verdicts on partitions of this time or later.
    """
    verdict = failing_verdicts().c
    query = sa.select(
        verdict.dataset_id.label("dataset_id"),
        sa.func.sum(sa.case((verdict.is_known, 0), else_=1)).label("failing"),
        sa.func.sum(sa.case((verdict.is_known, 1), else_=0)).label("failing_known"),
    ).group_by(verdict.dataset_id)
    return (query if since is None else query.where(verdict.time >= since)).subquery()


def passing_checks(connection: Connection) -> dict[str, int]:
    """Count the checks that pass on all current data, by dataset; datasets without verdicts are left out."""
    verdict = standing_verdicts().c
    passing = (
        sa.select(verdict.dataset_id.label("dataset_id"))
        .group_by(verdict.dataset_id, verdict.name)
        .having(sa.func.min(verdict.passed) == 1)
        .subquery()
    )
    query = (
        sa.select(s.dataset.c.name, sa.func.count())
        .join_from(s.dataset, passing, passing.c.dataset_id == s.dataset.c.id)
        .group_by(s.dataset.c.name)
    )
    return {name: count for name, count in connection.execute(query)}  # noqa: C416 - mypy does not treat a row as a pair


def superseded(commit: int | None = None) -> sa.ColumnElement[bool]:
    """Return the condition that a newer verdict on the same case exists, now or as of a commit."""
    verdict, newer_verdict = s.verdict.c, s.verdict.alias("newer")
    newer = sa.exists().where(
        newer_verdict.c.dataset_id == verdict.dataset_id,
        newer_verdict.c.key == verdict.key,
        newer_verdict.c.commit_id > verdict.commit_id,
    )
    if commit is not None:
        newer = newer.where(newer_verdict.c.commit_id <= commit)
    return newer.correlate(s.verdict)
