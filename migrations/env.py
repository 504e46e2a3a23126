"""Runs migrations on the connection that `repository.database` opened and holds locked."""

from alembic import context

from repository.database import VERSION_TABLE
from repository.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=connection.dialect.name == "sqlite",
    transactional_ddl=True,  # a half-made database would be nobody's; both databases can do it
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
