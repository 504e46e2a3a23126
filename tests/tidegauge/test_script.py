"""The dashboard's script: its own tests run in node, its types hold, and it is built as it should be."""

import subprocess

import pytest

from hatch_build import WIDGETS, check_types, find_node


@pytest.fixture(scope="module")
def node():
    try:
        found, _ = find_node()
    except OSError as error:
        pytest.skip(f"no node: {error}")
    if not (WIDGETS / "node_modules").exists():
        pytest.skip("the packages of the script are not installed: make widgets")
    return found


def test_in_node(node, tmp_path):
    subprocess.run([*node, "build.mjs", str(tmp_path)], cwd=WIDGETS, check=True)
    done = subprocess.run(
        [*node, "--test", *map(str, sorted(tmp_path.glob("*.mjs")))],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    count = len(list((WIDGETS / "tests").glob("*.test.ts")))
    assert count > 3
    assert done.stdout.count("# Subtest:") > count


def test_types_hold(node):
    assert check_types() is None


def test_what_is_built_holds_the_licence_and_asks_nobody(node):
    script = (WIDGETS / "static" / "dashboard.js").read_text()
    assert "Leon Sorokin" in script[:1500]
    assert "Permission is hereby granted" in script[:1500]
    style = (WIDGETS / "static" / "dashboard.css").read_text()
    for text in (script, style):
        for asking in ("fetch(", "XMLHttpRequest", "import(", "innerHTML", "url(http", "@import"):
            assert asking not in text
