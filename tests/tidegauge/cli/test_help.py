"""The help of all commands: each option and argument has a description, and each value has a default."""

import pytest
import typer

from tidegauge.cli.main import app


@pytest.fixture(scope="module")
def parameters():
    """Return the options and arguments of all commands, by command and name."""
    parameters = {}

    def collect(command, path):
        subcommands = getattr(command, "commands", {})
        for name, subcommand in subcommands.items():
            collect(subcommand, (*path, name))
        if not subcommands:
            for parameter in command.params:
                parameters[" ".join([*path, parameter.opts[-1]])] = parameter

    collect(typer.main.get_command(app), ())
    return parameters


def has_default(parameter):
    """Return whether the help shows a default; flags are off by default."""
    if parameter.required or getattr(parameter, "is_flag", False):
        return True
    return bool(parameter.default) or "(default: " in parameter.help


def test_each_option_and_argument_has_a_description(parameters):
    assert len(parameters) > 300
    descriptions = {name: parameter.help or "" for name, parameter in parameters.items()}
    assert [name for name, text in descriptions.items() if not text.endswith(".")] == []


def test_each_optional_value_has_a_default(parameters):
    assert [name for name, parameter in parameters.items() if not has_default(parameter)] == []
