"""Every repository passes one contract:

SQLite in a file and in memory, PostgreSQL, and dictionaries.
"""

import pytest

import tidegauge as tg
from tests.support.integrity import check
from tests.support.memory import MemoryRepository
from tidegauge.repository.testing.contract import RepositoryContract


class TestRepositories(RepositoryContract):
    @pytest.fixture(
        params=[
            "dictionaries",
            "sqlite file",
            "sqlite memory",
            pytest.param("postgresql", marks=pytest.mark.postgres),
        ]
    )
    def repository(self, request, tmp_path, empty_repository):
        if request.param == "dictionaries":
            yield MemoryRepository()
            return
        if request.param == "sqlite memory":
            url = "sqlite://"
        else:
            url = empty_repository(request.param.removesuffix(" file"))
        with tg.Repository(url, artifacts=tmp_path / "artifacts") as repository:
            yield repository
            assert check(repository.database, repository.artifacts) == []
