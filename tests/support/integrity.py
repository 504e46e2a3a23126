"""Integrity of a repository, in a transaction of its own."""

from tidegauge.repository.maintenance.integrity import find_problems


def check(database, artifacts):
    """Return the problems found, as `find_problems` does."""
    with database.read() as connection:
        return find_problems(connection, artifacts)
