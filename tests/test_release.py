"""The checks of `make release` before it builds anything."""

import importlib.util
import subprocess

import pytest

from tests.paths import ROOT

SITE = "https://tidegauge.example.org"


@pytest.fixture
def release(tmp_path, monkeypatch):
    """The script, in a project that is ready: version 0.2.0, with everything committed."""
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setenv("TIDEGAUGE_SITE", SITE)
    built = tmp_path / "tidegauge" / "widgets" / "static" / "dashboard.js"
    built.parent.mkdir(parents=True)
    built.touch()
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## [0.2.0] - 2026-12-01\n")
    (tmp_path / "CITATION.cff").write_text(
        "title: Tidegauge\nversion: 0.2.0\ndate-released: 2026-12-01\nlicense: Apache-2.0\n"
    )
    commit(tmp_path)
    return script


def commit(folder):
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (
        ["init", "--quiet"],
        ["add", "--all"],
        [*who, "commit", "--quiet", "-m", "a"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)


def test_a_project_that_is_ready_passes(release):
    assert list(release.unready()) == []


@pytest.mark.parametrize("site", ["", "docs.example.org"])
def test_a_release_must_know_its_site(release, site, monkeypatch):
    """The relative links of the README lead nowhere on a package index."""
    monkeypatch.setenv("TIDEGAUGE_SITE", site)
    (problem,) = release.unready()
    assert problem.startswith("TIDEGAUGE_SITE does not say where site/ will be published")


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        ("CHANGELOG.md", "- 2026-12-01", "", "CHANGELOG.md has no dated section [0.2.0]"),
        ("CITATION.cff", "0.2.0", "0.1.0", "CITATION.cff is not of version 0.2.0"),
        ("CITATION.cff", "-12-01", "-11-01", "CITATION.cff does not say date-released: 2026-12-01"),
        ("CITATION.cff", "date-released: 2026-12-01\n", "", "CITATION.cff does not say date-rel"),
    ],
)
def test_version_and_date_must_be_equal_everywhere(release, file, before, after, said):
    path = release.ROOT / file
    path.write_text(path.read_text().replace(before, after))
    commit(release.ROOT)
    (problem,) = release.unready()
    assert problem.startswith(said)
