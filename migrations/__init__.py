"""The Alembic environment and its revisions: the only maker of a repository's tables."""
