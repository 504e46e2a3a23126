"""Check of a repository's integrity, in a separate transaction."""

from tidegauge.repository.maintenance.integrity import find_problems


def check(database, artifacts):
    """Return the problems, as `find_problems` does."""
    with database.read() as connection:
        return find_problems(connection, artifacts)
