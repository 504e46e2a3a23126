"""Bulk inserts, upserts and fetches by the fastest method of each database."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.repository.store.schema import UtcDateTime

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_MAX_VARIABLES = 500
"""Maximum of bound parameters per statement; older SQLite versions allow 999."""

_FETCH_ROWS = 5000
"""Rows that are fetched at a time."""

Row = tuple[Any, ...]


def delete_rows(
    connection: Connection,
    table: sa.Table,
    condition: sa.ColumnElement[bool],
    *,
    dry_run: bool = False,
) -> int:
    """Delete the rows that meet a condition, and return their number; a dry run only counts them."""
    if dry_run:
        query = sa.select(sa.func.count()).select_from(table).where(condition)
        return int(connection.execute(query).scalar_one())
    return max(connection.execute(sa.delete(table).where(condition)).rowcount, 0)


def chunks(values: Sequence[Any], limit: int = _MAX_VARIABLES) -> Iterator[Sequence[Any]]:
    """Split values into chunks of at most ``limit`` values, and at most as many as a statement can bind."""
    size = min(limit, _MAX_VARIABLES)
    for start in range(0, len(values), size):
        yield values[start : start + size]


def insert_rows(
    connection: Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[Row]
) -> None:
    """Insert rows that do not exist yet: COPY on PostgreSQL, one prepared statement on SQLite.

    Parameters
    ----------
    connection : Connection
        Connection in a transaction.
    table : Table
        Table to insert into.
    columns : sequence of str
        Columns of the values in a row. All other columns are null or have their default.
    rows : sequence of tuple
        Values of each row.
    """
    if not rows:
        return
    quoted = connection.dialect.identifier_preparer.quote
    names = ", ".join(map(quoted, columns))
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {quoted(table.name)} ({names}) VALUES ({marks})"  # noqa: S608 - our names
        connection.exec_driver_sql(statement, list(_bound(connection, table, columns, rows)))
        return
    raw: Any = connection.connection.driver_connection
    copy_in = f"COPY {quoted(table.name)} ({names}) FROM STDIN"
    driver: Any = connection.dialect.dbapi
    try:
        with raw.cursor() as cursor, cursor.copy(copy_in) as copy:
            for row in rows:
                copy.write_row(row)
    except driver.Error as error:  # so that it is retried and reported like any other
        lost = bool(raw.closed)
        raise sa.exc.DBAPIError.instance(
            copy_in,
            None,
            error,
            driver.Error,
            connection_invalidated=lost,
            dialect=connection.dialect,
        ) from error


def _bound(
    connection: Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[Row]
) -> Iterable[Row]:
    """Convert the times of rows for SQLite, which has no type for them."""
    special = [i for i, name in enumerate(columns) if isinstance(table.c[name].type, UtcDateTime)]
    if not special:
        return rows
    dialect = connection.dialect
    process: Any = UtcDateTime().dialect_impl(dialect).bind_processor(dialect)

    def bound(row: Row) -> Row:
        values = list(row)
        for i in special:
            values[i] = process(values[i])
        return tuple(values)

    return map(bound, rows)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection, which doubles the time; millions of new tuples have no cycles."""
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()


def fetch_columns(connection: Connection, select: sa.Select[Any]) -> list[list[Any]]:
    """Fetch a result as columns, from the driver's raw rows of numbers, strings and bytes.

    To save memory, rows are fetched in batches, and equal strings become one object: a table of a
    million rows has few distinct names.
    """
    columns: list[list[Any]] = [[] for _ in select.selected_columns]
    interned: dict[Any, Any] = {}
    with gc_paused():
        result: Any = connection.execute(select)
        while rows := result.cursor.fetchmany(_FETCH_ROWS):
            for column, values in zip(columns, zip(*rows, strict=True), strict=True):
                is_text = isinstance(values[0], str)
                column.extend([interned.setdefault(v, v) for v in values] if is_text else values)
        result.close()
    return columns


def _insert(connection: Connection, table: sa.Table) -> Any:
    """Return an INSERT that can handle conflicts; imports only the dialect of the connection."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as insert_into_sqlite

        return insert_into_sqlite(table)
    from sqlalchemy.dialects.postgresql import insert

    return insert(table)


def insert_missing(
    connection: Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[Row]
) -> None:
    """Insert rows, skipping those that exist by any unique key."""
    if rows:
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        connection.execute(_insert(connection, table).on_conflict_do_nothing(), records)


def upsert(
    connection: Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[Row]
) -> None:
    """Insert rows, updating those with the same primary key."""
    if not rows:
        return
    statement = _insert(connection, table)
    keys = [column.name for column in table.primary_key]
    change = {name: statement.excluded[name] for name in columns if name not in keys}
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=change), records)
