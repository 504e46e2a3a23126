"""The requests of `make release` to registries: answers of npm and pip are parsed, and no answer is not a problem."""

import doctest
import importlib.util
import subprocess

from tests.paths import ROOT

spec = importlib.util.spec_from_file_location("advisories", ROOT / ".ci" / "advisories.py")
advisories = importlib.util.module_from_spec(spec)
spec.loader.exec_module(advisories)


def test_answers_of_npm_and_pip_are_parsed():
    actual = doctest.testmod(advisories)
    assert (actual.failed, actual.attempted) == (0, 7)


def test_each_problem_is_reported(monkeypatch, capsys):
    """Stub programs answer for npm and pip."""
    deprecated = []

    def asked(program, *arguments, **_):
        out, err, status = "", "", 0
        if "config" in arguments:
            out = "https://index.example/simple\n"
        elif arguments[0] == "audit":
            out, status = '{"error": "405 Method Not Allowed"}', 1
        elif arguments[0] == "view":
            deprecated.append(arguments[1])
            out = "use another\n"
        else:
            err = "WARNING: ... is a yanked version: 'attrs' candidate (version 21.1.0 at https://h/a.whl)"
        return subprocess.CompletedProcess(program, status, out, err)

    monkeypatch.setattr(advisories, "asked", asked)
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setattr(advisories, "fetched", lambda _: None)
    actual = list(advisories.problems())
    # everything that is bundled
    assert [name.partition("@")[0] for name in deprecated] == ["uplot"]
    assert actual == [f"{deprecated[0]} is deprecated: use another", "attrs 21.1.0 was yanked"]
    said = capsys.readouterr().out
    assert "the registry of npm answers no questions" in said
    assert "the index of Python packages answers no questions" in said


def test_vulnerabilities_of_pinned_versions_are_reported(monkeypatch):
    """They come from an index with the data of each release, at the address that pip is configured with."""
    answers = {
        "https://index.example/pypi/attrs/21.1.0/json": '{"vulnerabilities": []}',
        "https://index.example/pypi/urllib3/1.26.4/json": (
            '{"vulnerabilities": [{"id": "PYSEC-2021-108", "summary": "", "details": "DoS", "fixed_in": ["1.26.5"]}]}'
        ),
    }
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple/")
    monkeypatch.setattr(advisories, "fetched", answers.get)
    pinned = "attrs==21.1.0 \\\n    --hash=sha256:0\nurllib3==1.26.4 \\\n    --hash=sha256:1\n"
    assert list(advisories.of_python(pinned)) == [
        "urllib3 1.26.4: PYSEC-2021-108: DoS; fixed in 1.26.5"
    ]
