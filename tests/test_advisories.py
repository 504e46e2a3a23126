"""What `make release` asks the registries: answers of npm and pip are read, and silence is no problem."""

import doctest
import importlib.util
import subprocess

from tests.paths import ROOT

spec = importlib.util.spec_from_file_location("advisories", ROOT / ".ci" / "advisories.py")
advisories = importlib.util.module_from_spec(spec)
spec.loader.exec_module(advisories)


def test_answers_are_read():
    found = doctest.testmod(advisories)
    assert (found.failed, found.attempted) == (0, 5)


def test_each_problem_is_told(monkeypatch, capsys):
    """By programs that answer for npm and pip."""
    deprecated = []

    def asked(program, *arguments, **_):
        out, err, status = "", "", 0
        if arguments[0] == "audit":
            out, status = '{"error": "405 Method Not Allowed"}', 1
        elif arguments[0] == "view":
            deprecated.append(arguments[1])
            out = "use another\n"
        else:
            err = "WARNING: ... is a yanked version: 'attrs' candidate (version 21.1.0 at https://h/a.whl)"
        return subprocess.CompletedProcess(program, status, out, err)

    monkeypatch.setattr(advisories, "asked", asked)
    found = list(advisories.problems())
    assert [name.partition("@")[0] for name in deprecated] == ["uplot"]  # all that is bundled
    assert found == [f"{deprecated[0]} is deprecated: use another", "attrs 21.1.0 was yanked"]
    assert "the registry of npm answers no questions" in capsys.readouterr().out
