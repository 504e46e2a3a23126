"""JSON Schemas of files: they accept and refuse the same files as the loaders. No Spark."""

import copy
import json
import re
import tomllib
from dataclasses import fields

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import tidegauge as tg
from tests.conftest import soak
from tests.docs.pages import PAGES, blocks, name_of
from tests.paths import ROOT
from tests.tidegauge.consistency.test_files_and_commands import WHOLE
from tests.tidegauge.files import test_checks_file, test_rules_file, test_suite_file
from tidegauge.analyzers.core.analyzer import ANALYZERS
from tidegauge.analyzers.core.registry import OPTION_TYPES
from tidegauge.cli.main import run_command
from tidegauge.files.models import REGISTERED_TYPES, MonitorFields
from tidegauge.files.rules_files import FIX_CATALOGUE, RULE_CATALOGUE
from tidegauge.files.schema import FILE_KINDS, json_schema
from tidegauge.files.suite_files import CHECK_METHODS
from tidegauge.repository.detectors.base import DETECTORS
from tidegauge.repository.store.config import settings as repository_settings

SCHEMAS = {kind: json_schema(kind) for kind in FILE_KINDS}
VALIDATORS = {kind: Draft202012Validator(schema) for kind, schema in SCHEMAS.items()}
LOADERS = {
    "suite": tg.load_suite,
    "rules": tg.load_rules,
    "consistency": tg.consistency.load_configuration,
}


class EditorLoader(yaml.SafeLoader):
    """Loader of YAML 1.2, as in editors: dates, ``yes`` and ``on`` are strings."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - an attribute of PyYAML


for tag, pattern, first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", "~|null|Null|NULL|", "~nN\0"),
    ("int", "[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    letters = [letter.replace("\0", "") for letter in first]
    EditorLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{tag}", re.compile(f"(?:{pattern})$"), letters
    )
EditorLoader.add_constructor(
    "tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node))
)


def as_editors_read(text, kind):
    # Python dicts have no duplicate keys, and keys are strings in JSON.
    read = tomllib.loads(text) if kind == "settings" else yaml.load(text, EditorLoader)  # noqa: S506
    return json.loads(json.dumps(read))


def problems(kind, text):
    """Return the first problems of a file according to its schema."""
    errors = VALIDATORS[kind].iter_errors(as_editors_read(text, kind))
    return [f"{list(error.path)}: {error.message[:200]}" for error in errors]


FEATURES = (ROOT / "tidegauge/demo/features.yml").read_text()
"""A template with placeholders for names."""
EXAMPLES = {
    "checks": ("suite", test_checks_file.SPEC),
    "no data": ("suite", test_checks_file.EMPTY_SPEC),
    "design": ("suite", test_suite_file.DESIGN),
    "all rules": ("rules", test_rules_file.SPEC),
    "consistency": ("consistency", WHOLE),
    "flights": ("suite", (ROOT / "tidegauge/demo/flights.yml").read_text()),
    "features": ("consistency", re.sub(r"{(\w+)}", "shop", FEATURES)),
}
EXAMPLES |= {
    f"{name_of(page)}:{block.line}": (block.check, block.code)
    for page in PAGES
    for block in blocks(page)
    if block.check in FILE_KINDS
}


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_schemas_are_valid_and_strict(kind):
    if kind != "suite":  # takes seconds, and is written in the same way
        Draft202012Validator.check_schema(SCHEMAS[kind])
    pending, objects = [SCHEMAS[kind]], 0
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if "properties" in part:
                objects += 1
                assert part["additionalProperties"] is False
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    assert objects >= 2


@pytest.mark.parametrize("name", EXAMPLES)
def test_schemas_accept_the_examples(name):
    assert problems(*EXAMPLES[name]) == []


def test_schemas_describe_names_and_options():
    schema = SCHEMAS["suite"]
    assert schema["properties"]["dataset"]["description"] == "Name of the dataset."
    named = schema["$defs"]["analyzer"]["anyOf"][-1]["properties"]
    assert set(named) == set(ANALYZERS)
    assert named["Mean"]["description"] == "Arithmetic mean of a numeric column."
    assert set(schema["$defs"]["detector"]["anyOf"][-1]["properties"]) == set(DETECTORS)
    monitor = schema["$defs"]["MonitorFields"]["properties"]
    assert (
        monitor["detector"]["description"]
        == "The detector, or its description, such as OnlineNormal(2, 2)."
    )
    checks = schema["$defs"]["check"]["anyOf"][-1]["properties"]
    column, options = checks["is_complete"]["anyOf"]
    assert column["type"] == ["string", "number", "boolean"]
    assert options["required"] == ["column"]
    assert "where" in options["properties"]
    assert "has_histogram_values" not in checks


def test_all_types_of_options_have_schemas():
    assert set(REGISTERED_TYPES) == set(OPTION_TYPES)


def test_the_schema_of_a_monitor_has_the_options_of_the_class():
    assert set(MonitorFields.model_fields) == {field.name for field in fields(tg.Monitor)}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("suite", "dataset: a\ntable: a\nanalyzers: [Size: {wher: x}]"),
        ("suite", "dataset: a\ntable: a\npath: a/\nanalyzers: [Size]"),
        ("suite", "dataset: a\ntable: a\nanalyzers: [Mean]"),
        ("suite", "dataset: a\ntable: a\nanalyzers: ['Men(1)']"),
        ("suite", "dataset: a\ntable: a\nchecks: [has_size: {}]"),
        ("suite", "dataset: a\ntable: a\nchecks: [has_size: many]"),
        ("suite", "dataset: a\ntable: a\nchecks: [has_size: [1]]"),
        ("suite", "dataset: a\ntable: a\nchecks: [is_complete: a, is_complete: {colum: b}]"),
        ("suite", "dataset: a\ntable: a\nmonitors: [{detector: {Seasonl: {}}}]"),
        ("suite", "dataset: a\ntable: a\nanalyzers: [Size]\nsensitivity: hihg"),
        ("rules", "dataset: a\ntable: a\nrules: [NotNullRule]"),
        ("rules", "dataset: a\ntable: a\nrules: [NotNullRule: {column: a, policy: FailCount}]"),
        ("rules", "dataset: a\ntable: a\nrules: [NotNullRule: {columns: []}]"),
        ("rules", "dataset: a\ntable: a\nrules: [NotNullRule: a]\nlenient_dates: maybe"),
        ("consistency", "namespace: a\nkeys: [u]\nbackfill: {table: t}"),
        ("consistency", "namespace: a\njoin: j\nkeys: [u]\nbackfill: {}"),
        ("settings", "bd = 'sqlite:///a.db'"),
        ("settings", "db = 3"),
        ("settings", "[private]\ncolumn = ['a']"),
    ],
)
def test_schema_and_loader_refuse_mistakes(tmp_path, monkeypatch, kind, text):
    assert problems(kind, text)
    file = tmp_path / "a.yml"
    file.write_text(text)
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(file))
    monkeypatch.delenv("TIDEGAUGE_DB", raising=False)
    with pytest.raises(tg.TidegaugeError):
        if kind == "settings":
            repository_settings(None, None)
        else:
            LOADERS[kind](file)


@pytest.mark.parametrize("flag", ["yes", "Off", "true", "TRUE", "1", "'n'", "${lenient}"])
def test_strings_and_variables_are_accepted_for_numbers_flags_and_names(flag):
    head = "dataset: 2013\ntable: 7\nvariables: {least: 5, lenient: true, on_empty: fail, max: 3}\n"
    assert not problems("rules", f"{head}rules: [NotNullRule: 3]\nlenient_dates: {flag}")
    sizes = ", ".join(f"has_size: {size}" for size in ("'5'", "'${least}'", "1e3", "[null, 1_000]"))
    text = f"{head}checks: [{sizes}]\non_empty: ${{on_empty}}\nmax_segments: ${{max}}\n"
    assert not problems("suite", text)


# Mutations of the examples.

STRUCTURAL = re.compile(
    r"unknown (field|option of|analyzer|detector|check|rule|fix|policy|task policy|limit|sensitivity|severity)"
    r"|needs '|needs a limit|Field required|Input should be|is one name with|is a name, or"
    r"| (is|must be) (a|an) (text|number|list|mapping|name)|takes a (whole number|share)|true or false"
)
OTHERS = ["some text", 1, True, None, [], ["a"], [["a"]], {}, {"a": 1}]


def value_paths(document, path=()):
    """Yield the paths of all values in a document."""
    if path:
        yield path
    parts = document.items() if isinstance(document, dict) else ()
    for key, value in enumerate(document) if isinstance(document, list) else parts:
        yield from value_paths(value, (*path, key))


DOCUMENTS = [
    (kind, yaml.load(text, EditorLoader))  # noqa: S506 - derived from the safe loader
    for kind, text in EXAMPLES.values()
    if kind in LOADERS and "avsc" not in text
]


@st.composite
def mutated(draw):
    """Draw a kind of file, and an example with one part that is unknown, missing, or of another type."""
    kind, example = draw(st.sampled_from(DOCUMENTS))
    document = copy.deepcopy(example)
    *path, last = draw(st.sampled_from(list(value_paths(document))))
    inside = document
    for step in path:
        inside = inside[step]
    how = draw(st.sampled_from(["drop", "add", "replace"]))
    if how == "drop":
        del inside[last]
    elif how == "replace":
        inside[last] = copy.deepcopy(draw(st.sampled_from(OTHERS)))
    elif isinstance(inside, dict):
        inside[draw(st.sampled_from([f"{last}s", "where", "name", "column", "level"]))] = "a"
    else:
        inside.append(copy.deepcopy(draw(st.sampled_from(OTHERS))))
    return kind, document


@settings(max_examples=soak(100, 5_000))
@given(mutated())
def test_schema_and_loader_agree_on_mutated_examples(tmp_path_factory, example):
    kind, document = example
    text = yaml.safe_dump(document, sort_keys=False)
    file = tmp_path_factory.getbasetemp() / "mutated.yml"
    file.write_text(text)
    compare(kind, text, file)


def compare(kind, text, file):
    """Fail unless schema and loader both accept or both refuse the structure of a file."""
    refused = problems(kind, text)
    try:
        LOADERS[kind](file)
        error = None
    except tg.TidegaugeError as raised:
        error = str(raised)
    if refused:
        assert error is not None, f"{text}\n{refused}"
    elif error is not None:
        assert not STRUCTURAL.search(error), f"{text}\n{error}"


ITEMS = [
    *(("suite", "analyzers", name) for name in ANALYZERS),
    *(("suite", "checks", name) for name in CHECK_METHODS.entries),
    *(("rules", "rules", name) for name in RULE_CATALOGUE.entries),
    *(("rules", "fixes", name) for name in FIX_CATALOGUE.entries),
]


@pytest.mark.parametrize("field", ["analyzers", "checks", "rules", "fixes"])
def test_schema_and_loader_agree_on_each_name(tmp_path, field):
    """For the name alone, with one value, with a list, and without options."""
    file = tmp_path / "a.yml"
    nothing = [None, "", {}] if field == "analyzers" else [None, {}]
    for kind, name in [(kind, name) for kind, section, name in ITEMS if section == field]:
        for argument in (name, *({name: value} for value in ("a", 1, ["a"], *nothing))):
            text = yaml.safe_dump({"dataset": "a", "table": "a", field: [argument]})
            file.write_text(text)
            compare(kind, text, file)


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_the_command_prints_a_schema(capsys, kind):
    assert run_command(["schema", kind]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMAS[kind]


def test_the_command_writes_files(capsys, tmp_path):
    folder = tmp_path / "schemas"
    assert run_command(["schema", "--output", str(folder)]) == 0
    written = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    assert written == {f"{kind}.schema.json": schema for kind, schema in SCHEMAS.items()}
    assert run_command(["schema", "rules", "--output", str(tmp_path / "r.json")]) == 0
    assert json.loads((tmp_path / "r.json").read_text()) == SCHEMAS["rules"]
    capsys.readouterr()
    assert run_command(["schema", "suits"]) == 1
    assert "unknown kind of file 'suits'; did you mean 'suite'?" in capsys.readouterr().err
    assert run_command(["schema"]) == 1
    assert "name a kind of file (suite, rules, consistency, settings)" in capsys.readouterr().err
