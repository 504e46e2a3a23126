"""The public contract: names and commands that users rely on must not disappear.

`tests/data/contract.json` lists them. Add new names to it; removing one breaks users.
"""

import inspect
import json

import pytest

import tidegauge as tg
from tests.paths import DATA

KEPT = json.loads((DATA / "contract.json").read_text())
MODULES = ("consistency", "griffin")


def public_names():
    """Return the names of `tidegauge` and its modules, and the methods of public classes."""
    names = [name for name in tg.__all__ if not name.startswith("_")]
    names += [f"{module}.{name}" for module in MODULES for name in getattr(tg, module).__all__]
    for kind in (tg.Repository, tg.Check, tg.DQM, tg.Suite, tg.Run):
        names += [f"{kind.__name__}.{name}" for name in vars(kind) if not name.startswith("_")]
    return sorted(names)


def parameters():
    """Return the parameters of the functions and methods among the public names."""
    actual = {}
    for name in public_names():
        of = tg
        for part in name.split("."):
            of = inspect.getattr_static(of, part) if isinstance(of, type) else getattr(of, part)
        of = of.__func__ if isinstance(of, classmethod | staticmethod) else of
        if inspect.isfunction(of):
            actual[name] = list(inspect.signature(of).parameters)
    return actual


def commands():
    """Return the options and arguments of every command."""
    import typer

    from tidegauge.cli.main import app

    actual = {}

    def walk(command, path):
        below = getattr(command, "commands", {})
        for name, one in below.items():
            walk(one, (*path, name))
        if not below:
            words = [word for one in command.params for word in (one.opts or [one.name])]
            actual[" ".join(path)] = sorted(words)

    walk(typer.main.get_command(app), ())
    return actual


NOW = {"names": public_names, "parameters": parameters, "commands": commands}


@pytest.mark.parametrize("what", NOW)
def test_public_names_and_commands_still_exist(what):
    kept, now = KEPT[what], NOW[what]()
    assert sorted(set(kept) - set(now)) == []
    if isinstance(kept, dict):
        gone = {name: sorted(set(kept[name]) - set(now[name])) for name in kept}
        assert {name: some for name, some in gone.items() if some} == {}
    assert now == kept, "write what is new into tests/data/contract.json"
