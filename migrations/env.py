"""Alembic environment: migrates the locked connection of `tidegauge.repository.store.database`."""

from alembic import context

from tidegauge.repository.store.engines import VERSION_TABLE
from tidegauge.repository.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=connection.dialect.name == "sqlite",
    transactional_ddl=True,  # no half-migrated database; both databases support it
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
