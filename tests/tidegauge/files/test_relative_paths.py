"""Paths in files are relative to the file, wherever the command runs."""

import os

import pytest

import tidegauge as tg
from tidegauge.analyzers.runs.ledger import is_same_source
from tidegauge.files.rules_files import load_rules
from tidegauge.files.suite_files import load_suite
from tidegauge.files.yaml_file import located, relative_to
from tidegauge.repository.testing import day, spec

SUITE = "dataset: d\npath: {path}\nanalyzers: [Size]\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Create a project with suites/ and data/orders/, and change to another folder."""
    for name in ("suites", "data/orders", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def suite(project, path):
    (project / "suites" / "orders.yml").write_text(SUITE.format(path=path))
    return "suites/orders.yml"


def test_a_path_is_relative_to_its_file(project, monkeypatch):
    file = suite(project, "../data/orders/")
    assert load_suite(file).table == "data/orders/"
    monkeypatch.chdir(project / "elsewhere")
    assert load_suite(f"../{file}").table == "../data/orders/"
    assert load_suite(project / file).table == f"{project}/data/orders/"


@pytest.mark.parametrize("path", ["/lake/orders/", "s3://bucket/orders", "file:/lake/orders"])
def test_an_absolute_path_is_not_changed(project, path):
    assert load_suite(suite(project, path)).table == path


def test_a_path_relative_to_the_working_directory_is_read_with_a_warning(project):
    """Earlier releases read it this way. The path that the message suggests works."""
    file = suite(project, "data/orders/")
    with pytest.warns(
        UserWarning, match=r"orders.yml: data/orders/ does .*: write ../data/orders/"
    ):
        assert load_suite(file).table == "data/orders/"
    (project / "suites" / "data" / "orders").mkdir(parents=True)
    assert load_suite(file).table == "suites/data/orders/"


def test_a_missing_path_is_resolved_from_the_file(project):
    assert load_suite(suite(project, "data/visits")).table == "suites/data/visits"
    (project / "orders.yml").write_text(SUITE.format(path="visits"))
    assert load_suite("orders.yml").table == "./visits"


def test_targets_of_rules_are_relative_to_the_file(project):
    text = "dataset: d\npath: ../data/orders\nquarantine: ../bad/orders\npublish: shop.clean\n"
    (project / "suites" / "rules.yml").write_text(f"{text}rules: [NotNullRule: a]\n")
    file = load_rules("suites/rules.yml")
    assert (file.table, file.quarantine, file.publish) == (
        "data/orders",
        "bad/orders",
        "shop.clean",
    )


@pytest.mark.parametrize("path", ["data/orders/", "data/orders", "./x", "/lake/a", "s3://b/a/"])
@pytest.mark.parametrize("folder", ["suites", ".", "a/b", "../other"])
def test_a_written_file_refers_to_the_profiled_path(project, path, folder):
    """Reading the file back gives the same path from any folder."""
    from pathlib import Path

    written = relative_to(path, Path(folder))
    read = located(written, Path(folder, "s.yml"))
    assert located(read, Path("s.yml")) == read
    assert path in read or os.path.abspath(read) == os.path.abspath(path)


@pytest.mark.parametrize(
    ("stored", "given", "same"),
    [
        ("data/orders/", "data/orders", True),
        ("data/orders/", "/srv/shop/data/orders/", True),
        ("../shop/data/orders", "data/orders", True),
        ("data/orders", "data/visits", False),
        ("orders/", "archive/orders/", False),
        ("/a/orders", "/b/orders", False),
        ("s3://a/orders", "s3://b/orders", False),
        ("data/orders", "shop.orders", False),
        ("shop.orders", "shop.orders", True),
        (None, "data/orders", True),
    ],
)
def test_history_continues_from_another_working_directory(stored, given, same):
    assert is_same_source(stored, given) is same
    assert is_same_source(given, stored) is same


def test_a_repository_recognizes_the_same_folder_from_another_directory(project):
    from dataclasses import replace

    with tg.Repository("sqlite://") as repo:
        for name in ("data/orders/", f"{project}/data/orders/"):
            run = repo.store.open_run(replace(spec(), source=name))
            repo.store.commit_batch(run, [day(1)])
        with pytest.raises(tg.DatasetMismatchError, match="holds the history of"):
            repo.store.open_run(replace(spec(), source="/data/visits/"))
