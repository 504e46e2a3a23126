"""An upgraded copy of an older PostgreSQL repository, which nobody else sees and which is never committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, ProgrammingError

from tidegauge.analyzers.core.errors import DatabaseAccessError
from tidegauge.repository.store.database import (
    VERSION_TABLE,
    Database,
    alembic_config,
    head_revision,
)
from tidegauge.repository.store.schema import metadata

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_MISSING_RIGHT = {"42501": "its role may not create a schema", "25006": "it is read-only"}
"""Why a schema cannot be created, by SQLSTATE."""

_OWN = "relnamespace = %(schema)s::regnamespace AND relname = ANY(%(tables)s) AND relkind = "
_TABLES = f"SELECT relname FROM pg_class WHERE {_OWN} 'r' ORDER BY relname"  # noqa: S608
# Checks and keys before the foreign keys that need them. A `NOT NULL` comes with the column.
_CONSTRAINTS = f"""
    SELECT relname, conname, pg_get_constraintdef(con.oid, true)
    FROM pg_constraint con JOIN pg_class ON pg_class.oid = conrelid
    WHERE {_OWN} 'r' AND contype IN ('p', 'u', 'c', 'f') ORDER BY contype = 'f', conname
"""  # noqa: S608
_INDEXES = f"""
    SELECT pg_get_indexdef(indexrelid, 0, true)
    FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
    WHERE {_OWN} 'r' AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
"""  # noqa: S608
_VIEWS = """
    SELECT relname, pg_get_viewdef(oid, true) FROM pg_class
    WHERE relnamespace = %(schema)s::regnamespace AND starts_with(relname, 'v_') AND relkind = 'v'
    ORDER BY oid
"""
_IDENTITIES = f"""
    SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE {_OWN} 'r' AND attidentity <> ''
"""  # noqa: S608


@contextmanager
def upgraded_copy(database: Database) -> Iterator[Connection]:
    """Open a transaction that reads an upgraded copy of an older PostgreSQL database.

    The tables are copied into a schema that exists in this transaction alone, which is rolled back.
    Others may read and write the database meanwhile. The copy needs as much space again.

    Parameters
    ----------
    database : Database
        At any known revision, as of `Database.unchecked`.

    Raises
    ------
    DatabaseAccessError
        If the role may not create a schema, or the server is read-only.
    """
    from alembic import command

    connection = database.engine.connect().execution_options(isolation_level="REPEATABLE READ")
    with connection, connection.begin() as transaction:
        try:
            _copy_schema(connection)
        except DBAPIError as error:
            reason = _MISSING_RIGHT.get(getattr(error.orig, "sqlstate", None) or "")
            if reason is None:
                raise
            msg = (
                f"{database.name} is older than {head_revision()!r} and is checked in an upgraded copy, which cannot be"
                f" made: {reason}. GRANT CREATE ON DATABASE to the role, or check a copy: tidegauge db backup, then"
                " db restore, db upgrade and db check with --db of another database"
            )
            raise DatabaseAccessError(msg) from error
        command.upgrade(alembic_config(connection), "head")
        yield connection
        transaction.rollback()


def _copy_schema(connection: Connection) -> None:
    """Copy the tables, indexes and views into a new schema, where the transaction looks from then on."""

    def run(statement: str) -> None:
        connection.execute(sa.text(statement.replace(":", r"\:")))

    def read(query: str) -> list[tuple[str, ...]]:
        ours = [*metadata.tables, VERSION_TABLE]
        rows = connection.exec_driver_sql(query, {"schema": source, "tables": ours})
        return [tuple(row) for row in rows]

    quote = connection.dialect.identifier_preparer.quote
    place = "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = %(name)s::regclass"
    source = connection.exec_driver_sql(place, {"name": VERSION_TABLE}).scalar_one()
    # All definitions are read first: names of tables have no schema in them as long as it is searched.
    tables = [quote(name) for (name,) in read(_TABLES)]
    constraints, indexes, views = read(_CONSTRAINTS), read(_INDEXES), read(_VIEWS)
    identities = read(_IDENTITIES)

    copy = f"tidegauge_check_{connection.exec_driver_sql('SELECT pg_backend_pid()').scalar_one()}"
    run(f"CREATE SCHEMA {copy}")
    run(f"SET LOCAL search_path TO {copy}")
    for table in tables:
        run(f"CREATE TABLE {table} (LIKE {source}.{table} INCLUDING DEFAULTS INCLUDING IDENTITY)")
        run(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE {source}.{table}")
    for table, name, definition in constraints:
        run(f"ALTER TABLE {quote(table)} ADD CONSTRAINT {quote(name)} {definition}")
    for (definition,) in indexes:
        run(definition)
    for name, definition in views:
        # A user's own view may read tables that are not of the copy.
        with suppress(ProgrammingError), connection.begin_nested():
            run(f"CREATE VIEW {quote(name)} AS {definition}")
    for table, column in identities:
        sequence = f"pg_get_serial_sequence('{quote(table)}', '{column}')"
        run(f"SELECT setval({sequence}, max({quote(column)})) FROM {quote(table)}")  # noqa: S608
    run("ANALYZE")
