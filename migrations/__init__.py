"""The Alembic environment and its revisions, the only code that creates a repository's tables."""
