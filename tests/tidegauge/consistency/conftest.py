"""A query log and a repository for each test."""

import pytest

from tests.tidegauge.consistency.logged_queries import log_of_its_own
from tidegauge.repository.repository import Repository


@pytest.fixture
def namespace(spark):
    """Return a database with a query log."""
    with log_of_its_own(spark) as name:
        yield name


@pytest.fixture
def repository(tmp_path):
    """Return an empty repository."""
    with Repository(f"sqlite:///{tmp_path / 'r.db'}") as opened:
        yield opened
