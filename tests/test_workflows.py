"""Workflows, hooks and forms in .github: valid, with least permissions, and made of the make targets."""

import re
import tomllib

import pytest
import yaml

from tests.matrix.__main__ import FRESH, NEWEST, versions
from tests.paths import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = ROOT / ".github" / "actions" / "setup" / "action.yml"
MAKEFILE = (ROOT / "Makefile").read_text()


def load(path):
    return yaml.safe_load(path.read_text())


def jobs(name):
    return load(ROOT / ".github" / "workflows" / f"{name}.yml")["jobs"]


def make_targets(text):
    """Return the targets of the make commands in a text."""
    lines = re.findall(r"\bmake ([a-z ]+?)(?: [A-Z]+=.*)?$", text, re.MULTILINE)
    return {target for line in lines for target in line.split()}


def commands():
    """Return what the steps of all workflows run."""
    steps = [
        step for path in WORKFLOWS for job in load(path)["jobs"].values() for step in job["steps"]
    ]
    return "\n".join(step["run"] for step in steps if "run" in step)


def test_there_are_workflows_for_changes_documentation_and_releases():
    assert [path.stem for path in WORKFLOWS] == ["ci", "docs", "release"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_and_ends_in_time(path):
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    for name, job in workflow["jobs"].items():
        assert 0 < job["timeout-minutes"] <= 90, name


def test_only_deployment_and_publication_get_more_permissions():
    granted = {
        f"{path.stem}.{name}": job["permissions"]
        for path in WORKFLOWS
        for name, job in load(path)["jobs"].items()
        if "permissions" in job
    }
    assert granted == {
        "docs.deploy": {"pages": "write", "id-token": "write"},
        "release.publish": {"id-token": "write"},
    }


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.stem)
def test_actions_are_pinned_to_a_major_version(path):
    used = re.findall(r"uses: (\S+)", path.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"\./\.github/actions/setup|[\w/-]+@(v\d+|release/v\d+)", action)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_checkouts_keep_no_credentials(path):
    for name, job in load(path)["jobs"].items():
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"] == {"persist-credentials": False}, name


def test_the_site_is_deployed_only_from_main():
    job = jobs("docs")["deploy"]
    assert job["if"] == "github.event_name != 'pull_request' && github.ref == 'refs/heads/main'"
    assert job["needs"] == "build"


def test_workflows_run_the_make_targets_that_ci_runs():
    used = make_targets(commands())
    defined = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
    assert used <= defined
    script = "\n".join(
        line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "#" not in line
    )
    ci = make_targets(script)
    assert {"lint", "types", "docs", "test", "matrix", "schedulers", "workflows"} <= ci <= used
    assert used - ci == {"coverage", "release"}


def test_tests_run_on_every_declared_python():
    matrix = jobs("ci")["test"]["strategy"]["matrix"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    prefix = "Programming Language :: Python :: "
    declared = [name.removeprefix(prefix) for name in classifiers if name.startswith(prefix)]
    assert matrix["python"] == declared
    assert not {row["python"] for row in matrix["include"]} & set(declared)
    assert all(row["experimental"] for row in matrix["include"])
    (setup,) = (
        step
        for step in jobs("release")["build"]["steps"]
        if step.get("uses", "").startswith("actions/setup-python@")
    )
    assert sorted(setup["with"]["python-version"].split()) == declared


def test_tests_run_on_every_supported_spark():
    assert jobs("ci")["spark"]["strategy"]["matrix"]["spark"] == [*versions(), NEWEST, FRESH]


def test_hooks_run_the_tools_of_the_environment():
    (repository,) = load(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    hooks = {hook["id"]: hook["entry"] for hook in repository["hooks"]}
    assert hooks.keys() == {"ruff-check", "ruff-format", "codespell", "mypy", "typescript"}
    for entry in hooks.values():
        assert re.match(r"\.venv/bin/\w+|make \w+$", entry), entry
        # Each command is also one of the Makefile's.
        tool = entry.removeprefix(".venv/bin/").partition(" --")[0].removeprefix("make ")
        assert re.search(rf"^{tool}:|\$\(BIN\)/{tool}\b", MAKEFILE, re.MULTILINE), entry


def test_code_owners_name_folders_that_exist():
    lines = (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
    patterns = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*"
    missing = [p for p in patterns[1:] if not (ROOT / p.strip("/")).is_dir()]
    assert missing == []


def test_dependabot_looks_at_folders_that_exist():
    updates = load(ROOT / ".github" / "dependabot.yml")["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"github-actions", "npm", "pip"}
    for update in updates:
        for folder in update.get("directories", [update.get("directory")]):
            assert list(ROOT.glob(f"{folder.strip('/')}/" if folder != "/" else "*")), folder


def test_forms_of_issues_have_a_name_and_fields():
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert "config.yml" in {path.name for path in forms}
    for path in forms:
        form = load(path)
        if path.name == "config.yml":
            assert form == {"blank_issues_enabled": True, "contact_links": []}
        else:
            assert form["name"]
            assert all("label" in part["attributes"] for part in form["body"])
