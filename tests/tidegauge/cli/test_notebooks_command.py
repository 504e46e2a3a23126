"""`tidegauge notebooks` copies the notebooks of the package and replaces no file."""

from tests.paths import ROOT
from tidegauge.cli.main import run_command

NAMES = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))


def copy_notebooks(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_notebooks_are_copied_into_a_new_folder(tmp_path, capsys):
    assert run_command(["notebooks", str(tmp_path / "a" / "b")]) == 0
    there = copy_notebooks(tmp_path / "a" / "b")
    assert sorted(there) == NAMES
    assert there["first_steps.ipynb"] == (ROOT / "notebooks" / "first_steps.ipynb").read_text()
    assert f"jupyter lab {tmp_path / 'a' / 'b'}" in capsys.readouterr().out


def test_an_existing_notebook_is_not_changed(tmp_path, capsys):
    (tmp_path / "rules.ipynb").write_text("mine")
    assert run_command(["notebooks", str(tmp_path)]) == 0
    there = copy_notebooks(tmp_path)
    assert sorted(there) == NAMES
    assert there["rules.ipynb"] == "mine"
    assert "rules.ipynb already exists" in capsys.readouterr().out


def test_a_file_in_place_of_the_folder_is_refused(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    assert run_command(["notebooks", str(tmp_path / "taken")]) == 1
    assert "is a file; use a folder" in capsys.readouterr().err
