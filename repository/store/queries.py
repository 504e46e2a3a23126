"""Queries for metrics and states, current or as of a time or run."""

from __future__ import annotations

import inspect
import re
from calendar import monthrange
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from functools import wraps
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex, TypedDict, TypeVar, cast

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError, UnknownDatasetError, did_you_mean
from tidegauge.analyzers.core.registry import key_of
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.database import MISSING_FILE_KEY, Database
from tidegauge.repository.store.dimensions import RECORDED, Recorded
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.stored_states import (
    TOTAL_STATE,
    Generations,
    Payload,
    decode_inputs,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tidegauge.analyzers.core.analyzer import AnyAnalyzer

F = TypeVar("F", bound=Callable[..., Any])
Moment = str | date | datetime | None
AsOf = str | date | datetime | int | None
_MAX_RUN_ID_DIGITS = 18
"""Longer numbers do not fit into the database's 64-bit ids."""


@dataclass(frozen=True)
class Window:
    """A time range of partitions, both ends inclusive; None is unbounded.

    A window with any bound excludes partitions without a time.
    """

    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def between(cls, since: Moment, until: Moment) -> Window:
        """Return the window between two moments as users write them; a date as ``until`` covers its day.

        Raises
        ------
        HistoryError
            If a value is not a time, or ``since`` is later than ``until``.

        Examples
        --------
        >>> print(Window.between(None, "2013-02-08").until)
        2013-02-08 23:59:59.999999+00:00
        """
        first, last = moment_of(since, "since"), moment_of(until, "until", end=True)
        if first is not None and last is not None and first > last:
            msg = f"since={since!s} is later than until={until!s}: the range contains no partition"
            raise HistoryError(msg)
        return cls(first, last)

    def holds(self, time: datetime | None) -> bool:
        """Return whether a time is in the window."""
        if time is None:
            return self == Window()
        is_after = self.since is None or time >= self.since
        return is_after and (self.until is None or time <= self.until)

    def condition(self) -> sa.ColumnElement[bool]:
        """Return the condition on ``partition.time``."""
        tests: list[sa.ColumnElement[bool]] = [sa.true()]
        if self.since is not None:
            tests.append(s.partition.c.time >= self.since)
        if self.until is not None:
            tests.append(s.partition.c.time <= self.until)
        return sa.and_(*tests)


_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")


def moment_of(value: Moment, name: str, *, end: bool = False) -> datetime | None:
    """Parse a moment as users write it, in UTC; a date or month is its first moment, or its last with ``end``.

    Raises
    ------
    HistoryError
        If the value is not a time; the message names the argument.

    Examples
    --------
    >>> print(moment_of("2013-02-08", "since"))
    2013-02-08 00:00:00+00:00
    >>> print(moment_of("2013-02", "until", end=True))
    2013-02-28 23:59:59.999999+00:00
    """
    if value is None:
        return None
    if type(value).__name__ == "datetime64":  # of numpy, such as a value of a frame's column
        value = cast("Any", value).astype("datetime64[us]").item()
    elif hasattr(value, "to_pydatetime"):  # of pandas
        value = value.to_pydatetime(warn=False) if str(value) != "NaT" else value
    whole_day = isinstance(value, date) and not isinstance(value, datetime)
    if isinstance(value, str) and (month := _MONTH.fullmatch(value.strip())):
        days = monthrange(int(month[1]), int(month[2]))[1]
        value = f"{value.strip()}-{days if end else 1:02}"
    if isinstance(value, str):
        whole_day = len(value.strip()) <= len("2013-02-08")
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError as error:
            msg = f"{name}={value!r} is not a time; write it as 2013-02-08 or 2013-02-08T07:00"
            raise HistoryError(msg) from error
    elif str(value) == "NaT" or not isinstance(value, date):  # pandas' missing date
        msg = f"{name}={value!r} is not a time; write it as 2013-02-08 or 2013-02-08T07:00"
        raise HistoryError(msg)
    elif not isinstance(value, datetime):
        value = datetime.combine(value, time())
    value = value.replace(tzinfo=UTC) if value.tzinfo is None else value
    try:
        value = value.astimezone(UTC)
        return value + timedelta(days=1, microseconds=-1) if end and whole_day else value
    except OverflowError as error:
        msg = f"{name}={value} is outside the years 1 to 9999"
        raise HistoryError(msg) from error


_DATASET_QUERY = sa.select(s.dataset.c.id).where(s.dataset.c.name == sa.bindparam("dataset"))


def dataset_id(connection: Connection, name: str) -> int:
    """Return a dataset's id.

    Raises
    ------
    UnknownDatasetError
    """
    number = connection.execute(_DATASET_QUERY, {"dataset": name}).scalar_one_or_none()
    if number is None:
        names = connection.execute(sa.select(s.dataset.c.name)).scalars()
        raise UnknownDatasetError(name, names, connection.info.get(MISSING_FILE_KEY, ""))
    return int(number)


def partition_id(connection: Connection, dataset: str, name: str) -> int:
    """Return a partition's id.

    Raises
    ------
    HistoryError
        If the partition does not exist; the message suggests the nearest name.
    """
    partition = s.partition.c
    in_dataset = partition.dataset_id == dataset_id(connection, dataset)
    query = sa.select(partition.id).where(in_dataset, partition.key == key_of(name))
    number = connection.execute(query).scalar_one_or_none()
    if number is None:
        names = connection.execute(sa.select(partition.name).where(in_dataset)).scalars()
        hint = did_you_mean(name, names)
        msg = f"{dataset!r} has no partition {name!r}{hint}"
        raise HistoryError(msg)
    return int(number)


def view_of(as_of: AsOf) -> datetime | int | None:
    """Parse ``as_of``: a time in UTC, or the id of a run; a date is its midnight.

    Raises
    ------
    HistoryError
        If the value is neither.

    Examples
    --------
    >>> print(view_of("2026-01-31"), view_of("17"), view_of(17))
    2026-01-31 00:00:00+00:00 17 17
    """
    if isinstance(as_of, str) and as_of.isdecimal() and len(as_of) <= _MAX_RUN_ID_DIGITS:
        return int(as_of)
    if isinstance(as_of, SupportsIndex) and not isinstance(as_of, bool):
        return index(as_of)
    try:
        return moment_of(cast("Moment", as_of), "as_of")
    except HistoryError as error:
        if isinstance(error.__cause__, OverflowError):
            raise
        msg = (
            f"as_of={as_of!r} (--as-of) is neither a time, such as 2026-01-31 or 2026-01-31T12:00 in UTC,"
            " nor the id of a run"
        )
        raise HistoryError(msg) from None


def commit_as_of(connection: Connection, as_of: AsOf) -> int | None:
    """Return the last commit that belongs to an as-of view; None for the current view.

    Raises
    ------
    HistoryError
        If the run does not exist, ``as_of`` is neither a time nor a run, or the view is before the
        horizon, so that its history was cleaned away.
    """
    if as_of is None:
        return None
    view = view_of(as_of)
    if isinstance(view, datetime):
        commit = _last_commit(connection, s.commit.c.committed_at <= view)
    else:
        assert view is not None
        commit = _last_of_run(connection, view)
    horizon = connection.execute(sa.select(s.clock.c.horizon)).scalar() or 0
    if commit < horizon:
        query = sa.select(s.commit.c.committed_at).where(s.commit.c.id == horizon)
        since = connection.execute(query).scalar()
        msg = (
            f"as_of={as_of!s} is before the horizon {since:%Y-%m-%dT%H:%M:%S.%fZ}: older history"
            " was cleaned away; use that time or later"
        )
        raise HistoryError(msg)
    return commit


def _last_commit(connection: Connection, condition: sa.ColumnElement[bool]) -> int:
    query = sa.select(sa.func.max(s.commit.c.id)).where(condition)
    return connection.execute(query).scalar() or 0


def _last_of_run(connection: Connection, run: int) -> int:
    started = connection.execute(sa.select(s.run.c.started_at).where(s.run.c.id == run)).scalar()
    if started is None:
        msg = f"as_of={run}: the run does not exist"
        raise HistoryError(msg)
    # The view of a run that committed nothing is the view at its start.
    last = _last_commit(connection, s.commit.c.run_id == run)
    return last or _last_commit(connection, s.commit.c.committed_at <= started)


class NamedSeriesFilter(TypedDict, total=False):
    """Filters by series, besides name and instance; None is any.

    Attributes
    ----------
    analyzer : Analyzer or str, optional
        Exactly this analyzer, with all its options.
    where : str or sequence of str, optional
        Exactly these row filters; an empty string for metrics without one.
    segment : str or sequence of str, optional
        As in ``origin=EWR``.
    """

    analyzer: AnyAnalyzer | str | None
    where: str | Sequence[str] | None
    segment: str | Sequence[str] | None


class SeriesFilter(NamedSeriesFilter, total=False):
    """Filters by series; None is any.

    Attributes
    ----------
    name : str or sequence of str, optional
        Metric names, or an analyzer's name for all metrics that it measures.
    instance : str or sequence of str, optional
        Columns or rules.
    """

    name: str | Sequence[str] | None
    instance: str | Sequence[str] | None


class TimeFilter(TypedDict, total=False):
    """Filters by time.

    Attributes
    ----------
    since, until : str, date or datetime, optional
        Bounds on the partition's time, both inclusive; a date as ``until`` covers its whole day.
    as_of : str, date, datetime or int, optional
        The history as it was known at a UTC moment, or after a run.
    """

    since: Moment
    until: Moment
    as_of: AsOf


class HistoryFilter(SeriesFilter, TimeFilter, total=False):
    """Filters by series and time."""


class NamedHistoryFilter(NamedSeriesFilter, TimeFilter, total=False):
    """Filters by series and time, besides name and instance."""


_FILTER_NAMES = (
    "name",
    "instance",
    *NamedSeriesFilter.__annotations__,
    *TimeFilter.__annotations__,
)
"""All filters, in the order in which signatures show them."""


_FILTER_DESCRIPTIONS = {
    "name": (
        "str or sequence of str, optional",
        "Metric names, such as ``Completeness``, or an analyzer's name for all metrics that it measures.",
    ),
    "instance": (
        "str or sequence of str, optional",
        "Columns or rules of the metrics, such as ``dep_time``.",
    ),
    "analyzer": (
        "Analyzer or str, optional",
        'Exactly this analyzer, with all its options: ``tg.Size(where="paid")`` or its text.',
    ),
    "where": (
        "str or sequence of str, optional",
        "Exactly these row filters, such as ``origin = 'EWR'``; an empty string for metrics without a filter.",
    ),
    "segment": (
        "str or sequence of str, optional",
        "Segments, such as ``origin=EWR``; an empty string for whole partitions.",
    ),
    "since": (
        "str, date or datetime, optional",
        "First time of a partition, such as ``2013-02-01`` or ``2013-02-01T07:00``, in UTC.",
    ),
    "until": (
        "str, date or datetime, optional",
        "Last time of a partition, included; a date includes its whole day.",
    ),
    "as_of": (
        "str, date, datetime or int, optional",
        "The history as it was known at a UTC time, such as ``2026-01-31T12:00``, or after the run with this id.",
    ),
}
"""Type and description of each filter, for `help` and ``?``."""
_FILTERS_PARAGRAPH = re.compile(
    r"^( +)([a-z_]+(?:, [a-z_]+)+)\n +Filters; see the class notes\.", re.MULTILINE
)


def _describe_filters(documentation: str) -> str:
    """Replace the line that lists a method's filters by a description of each."""

    def description(match: re.Match[str]) -> str:
        indent, names = match.groups()
        entries = ((name, *_FILTER_DESCRIPTIONS[name]) for name in names.split(", "))
        return "\n".join(
            f"{indent}{name} : {kind}\n{indent}    {text}" for name, kind, text in entries
        )

    return _FILTERS_PARAGRAPH.sub(description, documentation)


def series_filter(filters: type[Any]) -> Callable[[F], F]:
    """Show the filters that a method takes as ``**series`` in its signature and its documentation.

    `inspect.signature`, and so help and completion in notebooks, list each filter as a keyword, and the
    docstring describes each. An unknown keyword raises a TypeError that suggests the nearest one.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        explicit = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        keywords = [name for name in _FILTER_NAMES if name in filters.__annotations__]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
            for name in keywords
            if name not in signature.parameters
        ]
        allowed = {p.name for p in (*explicit, *added)}

        @wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            for name in options:
                if name not in allowed:
                    hint = did_you_mean(name, allowed)
                    msg = f"{function.__name__}() got an unexpected keyword argument {name!r}{hint}"
                    raise TypeError(msg)
            return function(*args, **options)

        checked.__doc__ = _describe_filters(function.__doc__ or "")
        checked.__signature__ = signature.replace(parameters=[*explicit, *added])  # type: ignore[attr-defined]
        return cast("F", checked)

    return decorate


@dataclass(frozen=True)
class MetricQuery:
    """Filters on the metrics of a dataset; None matches any.

    Attributes
    ----------
    name : str or sequence of str, optional
        The metric's name, or its analyzer's name for all metrics of the analyzer.
    instance, segment, where : str or sequence of str, optional
        An empty ``where`` matches metrics without a filter.
    analyzer : Analyzer or str, optional
    window : Window
    tags : mapping, optional
        Tags that the measuring run must have; it may have more.
    series : sequence of int, optional
        Ids of series.
    """

    name: str | Sequence[str] | None = None
    instance: str | Sequence[str] | None = None
    segment: str | Sequence[str] | None = None
    where: str | Sequence[str] | None = None
    analyzer: AnyAnalyzer | str | None = None
    window: Window = Window()
    tags: Mapping[str, str] | None = None
    series: Sequence[int] | None = None

    @classmethod
    def from_filter(
        cls,
        filters: HistoryFilter | SeriesFilter,
        tags: Mapping[str, str] | None = None,
        *,
        since: Moment = None,
        until: Moment = None,
    ) -> tuple[MetricQuery, AsOf]:
        """Return the query for a method's filters, and its ``as_of``."""
        options: dict[str, Any] = {"since": since, "until": until, **filters}
        window = Window.between(options.pop("since"), options.pop("until"))
        as_of: AsOf = options.pop("as_of", None)
        return cls(**options, window=window, tags=tags), as_of

    @property
    def selects_series(self) -> bool:
        """True if the query filters series."""
        selectors = (self.name, self.instance, self.segment, self.where, self.analyzer, self.series)
        return any(value is not None for value in selectors)

    def series_condition(self) -> sa.ColumnElement[bool]:
        """Return the condition on series and analyzer."""
        analyzer, series = s.analyzer.c, s.series.c
        tests: list[sa.ColumnElement[bool]] = [sa.true()]
        if self.name is not None:
            names = _listed(self.name)
            tests.append(series.name.in_(names) | analyzer.kind.in_(names))
        if self.instance is not None:
            tests.append(series.instance.in_(_listed(self.instance)))
        if self.segment is not None:
            tests.append(analyzer.segment.in_(_listed(self.segment)))
        if self.where is not None:
            # An empty string selects series without a filter.
            filters = [text.strip() for text in _listed(self.where)]
            tests.append(sa.func.coalesce(analyzer.filter, "").in_(filters))
        if self.analyzer is not None:
            tests.append(analyzer.key == key_of(canonical_of(self.analyzer)))
        if self.series is not None:
            tests.append(series.id.in_(self.series))
        return sa.and_(*tests)


def _listed(values: str | Sequence[str]) -> list[str]:
    return [values] if isinstance(values, str) else list(values)


@contextmanager
def selected(
    database: Database,
    dataset: str | None,
    series: HistoryFilter | SeriesFilter,
    tags: Mapping[str, str] | None = None,
    **window: Moment,
) -> Iterator[tuple[Connection, MetricQuery, AsOf]]:
    """Open a connection and build the query for a method's filters; raise if a filter matches no series."""
    query, as_of = MetricQuery.from_filter(series, tags, **window)
    with database.read() as connection:
        check_selectors(connection, dataset, query)
        yield connection, query, as_of


def check_selectors(connection: Connection, dataset: str | None, query: MetricQuery) -> None:
    """Raise an error for names that no series of a dataset has, instead of returning an empty result for a typo.

    Raises
    ------
    UnknownDatasetError
    HistoryError
        If no series has the name, the column, the filter, the segment or the analyzer, or no run
        has a tag; the message suggests the nearest. If each selector matches alone but not
        together, the message lists values that match the others.
    """
    selectors = (
        query.name,
        query.instance,
        query.segment,
        query.where or None,
        query.analyzer,
        query.tags or None,
    )
    if all(selector is None for selector in selectors):
        return
    dataset_number = None if dataset is None else dataset_id(connection, dataset)
    where = "the repository" if dataset is None else repr(dataset)
    if problem := _unmatched(connection, dataset_number, query) or _unmatched_together(
        connection, dataset_number, query
    ):
        msg = f"no series of {where} has {problem}"
        raise HistoryError(msg)
    if problem := _unmatched_tag(connection, dataset_number, query.tags or {}):
        msg = f"no run of {where} has {problem}"
        raise HistoryError(msg)


def _unmatched(connection: Connection, dataset: int | None, query: MetricQuery) -> str:
    """Return the first selector that no series matches, with the nearest name; else an empty string.

    A dataset without series matches everything.
    """
    analyzer, series = s.analyzer.c, s.series.c
    in_dataset = sa.true() if dataset is None else analyzer.dataset_id == dataset
    columns = {
        "name": (series.name, analyzer.kind),
        "instance": (series.instance,),
        "segment": (analyzer.segment,),
        "where": (analyzer.filter,),
    }
    for option, candidates in columns.items():
        chosen = getattr(query, option)
        values = [] if chosen is None else _listed(chosen)
        if option == "where":
            # An empty string selects series without a filter.
            values = [value for text in values if (value := text.strip())]
        for value in values:
            matching = sa.select(series.id).join_from(s.series, s.analyzer).where(in_dataset)
            same = matching.where(sa.or_(*(column == value for column in candidates))).limit(1)
            if connection.execute(same).first() is not None:
                continue
            names = (
                sa.select(column).join_from(s.series, s.analyzer).where(in_dataset).distinct()
                for column in candidates
            )
            known_names = {
                name for query_ in names for name in connection.execute(query_).scalars()
            }
            if known_names:
                return f"{option}={value!r}{did_you_mean(value, filter(None, known_names))}"
    return _unmatched_analyzer(connection, in_dataset, query)


_SELECTOR_COLUMNS = {
    "name": s.series.c.name,
    "instance": s.series.c.instance,
    "segment": s.analyzer.c.segment,
    "where": s.analyzer.c.filter,
    "analyzer": s.analyzer.c.text,
}
"""Maps each selector of series to the column whose values messages list."""


def selectors_text(query: MetricQuery) -> str:
    """Return the selectors of series as a user writes them.

    Examples
    --------
    >>> selectors_text(MetricQuery(name="Mean", instance="b"))
    "name='Mean', instance='b'"
    """
    options = ((option, getattr(query, option)) for option in _SELECTOR_COLUMNS)
    return ", ".join(f"{option}={value!r}" for option, value in options if value is not None)


def _unmatched_together(connection: Connection, dataset: int | None, query: MetricQuery) -> str:
    """Return the selectors if no series matches all of them, with values that match the others; else an empty string."""
    analyzer, series = s.analyzer.c, s.series.c
    query = replace(query, series=None)
    in_dataset = sa.true() if dataset is None else analyzer.dataset_id == dataset
    selectors = [option for option in _SELECTOR_COLUMNS if getattr(query, option) is not None]
    of_all = sa.select(series.id).join_from(s.series, s.analyzer).where(in_dataset)
    if len(selectors) < 2 or not _exists(connection, of_all):
        return ""
    if _exists(connection, of_all.where(query.series_condition())):
        return ""
    description = f"{selectors_text(query)} together"
    for option in reversed(selectors):
        without: dict[str, Any] = {option: None}
        relaxed = replace(query, **without)
        column = _SELECTOR_COLUMNS[option]
        candidates = sa.select(column).join_from(s.series, s.analyzer).distinct().order_by(column)
        values = (
            connection.execute(candidates.where(in_dataset, relaxed.series_condition()).limit(6))
            .scalars()
            .all()
        )
        if values:
            examples = ", ".join(repr(value or "") for value in values[:5]) + ", ..." * (
                len(values) > 5
            )
            return f"{description}; with {selectors_text(relaxed)} there is {option}={examples}"
    return description


def _exists(connection: Connection, query: sa.Select[Any]) -> bool:
    return connection.execute(query.limit(1)).first() is not None


def _unmatched_analyzer(
    connection: Connection, in_dataset: sa.ColumnElement[bool], query: MetricQuery
) -> str:
    if query.analyzer is None:
        return ""
    analyzer = s.analyzer.c
    text = query.analyzer if isinstance(query.analyzer, str) else repr(query.analyzer)
    same = (
        sa.select(analyzer.id)
        .where(in_dataset, analyzer.key == key_of(canonical_of(query.analyzer)))
        .limit(1)
    )
    if connection.execute(same).first() is not None:
        return ""
    known_texts = set(
        connection.execute(sa.select(analyzer.text).where(in_dataset).distinct()).scalars()
    )
    return f"analyzer={text}{did_you_mean(text, known_texts)}" if known_texts else ""


def _unmatched_tag(connection: Connection, dataset: int | None, tags: Collection[str]) -> str:
    """Return the first tag that no run has, with the nearest one; else an empty string.

    A dataset without runs matches every tag. An unknown value of a known tag is not an error: it
    matches nothing.
    """
    run_tag, run = s.run_tag.c, s.run.c
    in_dataset = sa.true() if dataset is None else run.dataset_id == dataset
    if not tags or connection.execute(sa.select(run.id).where(in_dataset).limit(1)).first() is None:
        return ""
    tagged = (
        sa.select(run_tag.key)
        .join_from(s.run_tag, s.run, run.id == run_tag.run_id)
        .where(in_dataset)
        .distinct()
    )
    keys = list(connection.execute(tagged).scalars())
    unknown = next((key for key in tags if key not in keys), None)
    return "" if unknown is None else f"the tag {unknown!r}{did_you_mean(unknown, keys)}"


def as_analyzer(analyzer: AnyAnalyzer | str) -> AnyAnalyzer:
    """Return an analyzer; parse a string."""
    from tidegauge.analyzers.core.analyzer import ANALYZERS

    return ANALYZERS.parse(analyzer) if isinstance(analyzer, str) else analyzer


def canonical_of(analyzer: AnyAnalyzer | Recorded | str) -> str:
    """Return the canonical JSON of an analyzer or a `Recorded` metric; parse a string."""
    from tidegauge.analyzers.core.analyzer import ANALYZERS

    if isinstance(analyzer, str):
        recorded = analyzer.strip().startswith(f"{Recorded.__name__}(")
        analyzer = RECORDED.parse(analyzer) if recorded else ANALYZERS.parse(analyzer)
    return analyzer.canonical()


METRIC_COLUMNS = columns(
    "dataset segment partition time:time entity name instance value:number weight:number"
    " status error version:integer run_id:integer analyzed_at:time analyzer where"
)


def select_list(
    names: Iterable[str], expressions: Mapping[str, Any], *tables: sa.FromClause
) -> list[sa.ColumnElement[Any]]:
    """Return the select list of a record: each field's expression, else its column in the first table that has it.

    Parameters
    ----------
    names : iterable of str
        The record's fields.
    expressions : mapping of str to expression
        Expressions of fields that are not columns of the tables, by name.
    *tables : FromClause
    """

    def expression(name: str) -> sa.ColumnElement[Any]:
        if name in expressions:
            return cast("sa.ColumnElement[Any]", expressions[name])
        return next(table.c[name] for table in tables if name in table.c)

    return [expression(name).label(name) for name in names]


def current_versions(commit: int | None) -> sa.Subquery:
    """Return a subquery of each partition's version, current or as of a commit."""
    query = sa.select(
        s.partition_version.c.partition_id,
        s.partition_version.c.version,
        s.partition_version.c.table_schema_id,
    ).where(s.holds(s.partition_version, commit))
    return query.subquery()


def _statistics_of(dataset: int, analyzer: AnyAnalyzer) -> sa.ColumnElement[bool]:
    statistic = s.statistic.c
    return (statistic.dataset_id == dataset) & (statistic.key == key_of(analyzer.statistic()))


MAX_LISTED_ANALYZERS = 10
"""A message with more analyzers is hard to read."""
_MEASURED_QUERY = sa.select(s.statistic.c.id).where(
    s.statistic.c.dataset_id == sa.bindparam("dataset"), s.statistic.c.key == sa.bindparam("key")
)


def has_measurements(connection: Connection, dataset: str, analyzer: AnyAnalyzer) -> bool:
    """Return whether an analyzer with the same state was measured on a dataset."""
    parameters = {"dataset": dataset_id(connection, dataset), "key": key_of(analyzer.statistic())}
    return connection.execute(_MEASURED_QUERY, parameters).first() is not None


def require_measured(connection: Connection, dataset: str, analyzer: AnyAnalyzer) -> None:
    """Raise a `HistoryError` if the analyzer was never measured; the message lists measured ones, the most similar first."""
    if not has_measurements(connection, dataset, analyzer):
        dataset_number = dataset_id(connection, dataset)
        texts = (
            sa.select(s.analyzer.c.text).where(s.analyzer.c.dataset_id == dataset_number).distinct()
        )
        measured = connection.execute(texts).scalars().all()
        listed = ", ".join(
            get_close_matches(repr(analyzer), measured, MAX_LISTED_ANALYZERS, cutoff=0)
        )
        remainder = (
            f" and {len(measured) - MAX_LISTED_ANALYZERS} more"
            if len(measured) > MAX_LISTED_ANALYZERS
            else ""
        )
        msg = f"{analyzer!r} was never measured on {dataset!r}; there are: {listed}{remainder}"
        raise HistoryError(msg)


@dataclass(frozen=True)
class StoredState:
    """A reference to one partition's state in a segment; ``payload`` is None without a state.

    ``generation`` is the state's generation, see `tidegauge.repository.store.stored_states`.
    """

    partition: str
    time: datetime | None
    payload: Payload | None
    segment: str = ""
    generation: str = ""


_FOLDS_QUERY = (
    sa.select(
        s.folded_state.c.fold,
        s.input_set.c.inputs,
        *(s.folded_state.c[name] for name in ("tag", "payload", "artifact", "checksum")),
    )
    .join_from(s.folded_state, s.statistic)
    .join(s.input_set, s.input_set.c.id == s.folded_state.c.input_set_id)
    .where(
        s.statistic.c.dataset_id == sa.bindparam("dataset"),
        s.statistic.c.key == sa.bindparam("key"),
        s.statistic.c.segment == "",
    )
)
_VERSIONS_QUERY = (
    sa.select(s.partition.c.id, s.partition_version.c.version, s.partition.c.segment)
    .join_from(s.partition, s.partition_version)
    .where(s.partition.c.dataset_id == sa.bindparam("dataset"), s.holds(s.partition_version))
)
"""These queries are built once, because building takes longer than executing."""


def stored_total(connection: Connection, dataset: str, analyzer: AnyAnalyzer) -> Payload | None:
    """Return the stored total of all partitions, if it contains exactly their current versions.

    None if a partition is newer, states were cleaned away, or partition keys make segments, so that
    no single state covers all rows.
    """
    parameters = {"dataset": dataset_id(connection, dataset)}
    rows = connection.execute(
        _FOLDS_QUERY, parameters | {"key": key_of(analyzer.statistic())}
    ).all()
    if [row[0] for row in rows] != [TOTAL_STATE]:
        return None
    _, inputs, *payload = rows[0]
    current = connection.execute(_VERSIONS_QUERY, parameters).all()
    is_current = {partition: version for partition, version, _ in current} == decode_inputs(inputs)
    return Payload(*payload) if is_current and not any(segment for *_, segment in current) else None


def stored_states(
    connection: Connection,
    dataset: str,
    analyzer: AnyAnalyzer,
    window: Window,
    segment: str | None = None,
    as_of: AsOf = None,
) -> list[StoredState]:
    """Return a reference to the analyzer's state for each partition of a window, in order of time.

    Parameters
    ----------
    segment : str, optional
        Only this segment; if not given, all segments that partition keys make, which together cover
        all rows.
    """
    dataset_number = dataset_id(connection, dataset)
    commit = commit_as_of(connection, as_of)
    state, partition = s.state.c, s.partition.c
    is_statistic = _statistics_of(dataset_number, analyzer)
    current = current_versions(commit)
    of_state = (state.partition_id == partition.id) & (state.version == current.c.version)
    if commit is not None:
        of_state &= state.commit_id <= commit
    segment_value = partition.segment if segment is None else sa.literal(segment)
    of_segment = of_state & (s.statistic.c.segment == segment_value)
    query = (
        sa.select(
            partition.name,
            partition.time,
            segment_value,
            current.c.table_schema_id,
            *s.payload_of(s.state),
        )
        .select_from(s.partition)
        .join(current, current.c.partition_id == partition.id)
        .outerjoin(
            s.state.join(s.statistic, (s.statistic.c.id == state.statistic_id) & is_statistic),
            of_segment,
        )
        .where(partition.dataset_id == dataset_number, window.condition())
        .order_by(partition.time.is_(None), partition.time, partition.name)
    )
    if segment is not None:
        # Segments by column values are nested in the segments that partition keys make.
        start = sa.func.substr(sa.literal(segment), 1, sa.func.length(partition.segment) + 1)
        inside = start == partition.segment + "/"
        query = query.where((partition.segment == "") | (partition.segment == segment) | inside)
    rows = connection.execute(query).all()
    generations = Generations(connection).find(analyzer, {row[3] for row in rows})
    return [
        StoredState(
            name,
            time,
            None if stored[0] is None else Payload(*stored),
            row_segment,
            generations[schema],
        )
        for name, time, row_segment, schema, *stored in rows
    ]


def states_of_partitions(
    connection: Connection, statistics: Sequence[int], partitions: Sequence[int], commit: int | None
) -> dict[tuple[int, int], tuple[Payload, int]]:
    """Return the current states of partitions, and the id of their table's schema.

    Parameters
    ----------
    connection : Connection
    statistics, partitions : sequence of int
        Ids.
    commit : int or None
        Last commit of a past view; None for the current view.

    Returns
    -------
    dict
        By statistic and partition.
    """
    state = s.state.c
    current = current_versions(commit)
    query = (
        sa.select(
            *(state.statistic_id, state.partition_id, current.c.table_schema_id),
            *(state.tag, state.payload, state.artifact, state.checksum),
        )
        .join_from(
            s.state,
            current,
            (current.c.partition_id == state.partition_id) & (current.c.version == state.version),
        )
        .where(state.statistic_id.in_(statistics))
    )
    if commit is not None:
        query = query.where(state.commit_id <= commit)
    return {
        (statistic, partition): (Payload(*stored), schema)
        for chunk in chunks(partitions)
        for statistic, partition, schema, *stored in connection.execute(
            query.where(state.partition_id.in_(chunk))
        )
    }


def is_in_segment(partition_segment: str, segment: str) -> bool:
    """Return whether a partition, with the segment of its keys, can have rows of a segment.

    Segments by column values are nested in the segments that partition keys make.

    Examples
    --------
    >>> is_in_segment("", "origin=EWR"), is_in_segment("country=DE", "country=FR")
    (True, False)
    """
    return partition_segment in {"", segment} or segment.startswith(partition_segment + "/")
