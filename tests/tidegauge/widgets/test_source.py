"""The repository of a served page is opened again when its file was replaced."""

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.errors import DatabaseAccessError
from tidegauge.widgets.backend import Backend, DashboardConfig, DashboardSource


def record_datasets(file, *datasets):
    with tg.Repository(f"sqlite:///{file}") as repo:
        for name in datasets:
            repo.record(name, "n", 1.0, partition="ds=2013-01-01")
    return file


@pytest.fixture
def source(tmp_path):
    file = record_datasets(tmp_path / "r.db", "a")
    source = DashboardSource(DashboardConfig(f"sqlite:///{file}", read_only=True))
    yield source
    source.close()


def test_an_unchanged_repository_is_opened_once(source):
    backend = source.backend()
    assert source.backend() is backend
    assert backend.repository.datasets() == ["a"]
    assert backend.repository.database.read_only


def test_a_replaced_file_is_read(source, tmp_path):
    before = source.backend()
    record_datasets(tmp_path / "other.db", "b", "c").rename(tmp_path / "r.db")
    assert source.backend().repository.datasets() == ["b", "c"]
    assert source.backend() is not before


def test_a_removed_file_is_an_error_until_it_returns(source, tmp_path):
    source.backend()
    (tmp_path / "r.db").rename(tmp_path / "away.db")
    for _ in range(2):
        with pytest.raises(DatabaseAccessError, match=r"no database at .*r\.db"):
            source.backend()
    (tmp_path / "away.db").rename(tmp_path / "r.db")
    assert source.backend().repository.datasets() == ["a"]


def test_catalogues_of_an_earlier_server_are_not_confused(source):
    backend = source.backend()
    (first, _), (again, _) = (
        backend.answer({"id": n, "question": "catalogue"}, None) for n in "12"
    )
    number = first["payload"]["catalogue"]
    assert again["payload"]["catalogue"] == number, "nothing was committed in between"
    source.close()
    question = {"id": "3", "question": "sparklines", "params": {"rows": [0]}, "catalogue": number}
    answer, _ = source.backend().answer(question, None)
    assert answer["kind"] == "OutdatedError"
    source.backend().answer({"id": "4", "question": "catalogue"}, None)
    answer, _ = source.backend().answer(question, None)
    assert answer["kind"] == "OutdatedError"


def test_a_page_shows_the_name_of_its_database_without_the_folder(tmp_path):
    with tg.Repository(f"sqlite:///{tmp_path / 'prod.db'}") as repo:
        message, _ = Backend(repo).answer({"id": 1, "question": "catalogue"}, None)
        assert message["payload"]["repository"] == "prod.db"
        assert str(tmp_path) not in str(message)
