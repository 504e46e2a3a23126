"""Analyzers, checks and rules that `profile` proposes, and the files that it writes. No Spark."""

from types import SimpleNamespace

import pytest

import tidegauge as tg
from tidegauge.analyzers.measures.counts import non_negative
from tidegauge.checks.suggestions import Suggestions, make_suggestion
from tidegauge.cli.main import run_command
from tidegauge.files.suite_files import load_suite
from tidegauge.profiler import Choice, Profile, _ColumnProfile, _completeness_limit, is_identifier


def metric(value):
    return SimpleNamespace(failed=False, value=value)


def column(name, kind, *, distinct, complete=1.0, unique=0.0, low=1, high=900_000, rows=10_000):
    """Return the names of the analyzers proposed for a column with these statistics of the sample."""
    metrics = {
        tg.Completeness(name): metric(complete),
        tg.ApproxCountDistinct(name): metric(distinct),
        tg.ApproxUniqueValueRatio((name,)): metric(unique),
        tg.Minimum(name): metric(low),
        tg.Maximum(name): metric(high),
    }
    if kind == "string":
        kinds = {"String": SimpleNamespace(absolute=rows)}
        metrics[tg.DataType(name)] = metric(kinds)
    profile = _ColumnProfile(name, kind, rows, rows, metrics)
    return {type(choice.analyzer).__name__ for choice in profile.choices()}


NUMBERS = {"Minimum", "Maximum", "Mean", "StandardDeviation", "ApproxQuantiles"}


@pytest.mark.parametrize("kind", ["long", "integer", "decimal(38,0)", "double"])
@pytest.mark.parametrize("name", ["customer_id", "customerId", "buyer.user_id", "order_no"])
def test_identifiers_have_no_numeric_analyzers(name, kind):
    """Foreign keys occur more than once. With nulls, pandas writes them as doubles."""
    kind = kind.partition("(")[0]
    assert not column(name, kind, distinct=2500) & NUMBERS
    assert "Completeness" in column(name, kind, distinct=2500)


@pytest.mark.parametrize("name", ["amount", "paid", "grid", "width", "casino"])
def test_other_numbers_have_numeric_analyzers(name):
    assert column(name, "long", distinct=2500) >= NUMBERS
    assert not is_identifier(name, "long")


def test_codes_have_no_length_analyzers():
    """Four channels: each is counted, and their lengths add nothing. Names have lengths."""
    lengths = {"MinLength", "MaxLength"}
    assert column("channel", "string", distinct=4) & {*lengths, "Histogram"} == {"Histogram"}
    assert column("name", "string", distinct=5000) >= lengths


def profile_of(**shares):
    choices = [Choice(tg.Size(), "The number of rows.")]
    metrics = {}
    for name, share in shares.items():
        choices.append(Choice(tg.Completeness(name), f"{share:.0%} are not null."))
        metrics[tg.Completeness(name)] = metric(share)
    choices.append(Choice(tg.ApproxUniqueness(("id",)), "Possibly a key."))
    metrics[tg.ApproxUniqueValueRatio(("id",))] = metric(1.0)
    choices.append(Choice(non_negative("price"), "No negative values."))
    suite = tg.Suite("orders", [choice.analyzer for choice in choices])
    types = dict.fromkeys(shares, "string")
    return Profile(suite, "data/orders/", 5000, tuple(choices), types=types, metrics=metrics)


def test_a_proposed_suite_has_checks_that_read_back(tmp_path):
    """98% complete allows 5% more nulls. A column that is mostly null gets no check."""
    file = tmp_path / "orders.yml"
    file.write_text(profile_of(id=1.0, email=0.98, note=0.3).to_yaml())
    constraints = {
        (str(check.level), c.description) for check in load_suite(file).checks for c in check.constraints
    }  # fmt: skip
    assert constraints == {
        ("error", "Size(): at least 1"),
        ("error", "Completeness('id'): at least 1"),
        ("warning", "Completeness('email'): at least 0.93"),
        ("error", "Uniqueness('id'): at least 1"),
        ("error", "price is not negative: at least 1"),
    }


def test_a_small_sample_proposes_no_checks():
    from dataclasses import replace

    assert "checks:" not in replace(profile_of(id=1.0), rows=19).to_yaml()


def test_the_path_is_relative_to_the_file():
    assert "\npath: ../data/orders/\n" in profile_of(id=1.0).to_yaml("suites")
    assert "\npath: data/orders/\n" in profile_of(id=1.0).to_yaml()


@pytest.mark.parametrize(("share", "least"), [(0.999, 0.94), (0.95, 0.9), (0.9, 0.8), (0.75, 0.5)])
def test_checks_allow_more_nulls_than_the_sample_has(share, least):
    assert _completeness_limit(share) == least


def test_rules_have_no_bounds_beyond_the_sample():
    """The greatest price is 242, so 363 is not a limit of prices. No negative price is a rule."""
    about = {"source": "data", "rows": 900}
    actual = Suggestions(
        "orders",
        (
            make_suggestion("has_max", "price", (None, 363.0), reason="Seen.", **about).of_range(),
            make_suggestion("has_max_length", "email", (None, 27.0), reason="Seen.", **about).of_range(),
            make_suggestion("is_non_negative", "price", reason="None.", **about),
        ),
    )  # fmt: skip
    rules = actual.to_rules("shop.orders")
    items = [line for line in rules.splitlines() if line.startswith("  - ")]
    assert len(items) == 1
    assert "363" not in items[0]
    assert (
        "# a bound beyond the observed values, for a check: Maximum('price'): at most 363" in rules
    )
    assert len(actual.check().constraints) == 3


@pytest.fixture
def proposals(monkeypatch, tmp_path):
    """Run the command on three tables, one of which cannot be read; return the profiled tables."""
    profiled = []

    def propose(table, dataset=None, **_):
        profiled.append(table)
        if table.endswith("bad"):
            message = "executor lost"
            raise RuntimeError(message)
        actual = profile_of(id=1.0)
        return SimpleNamespace(to_yaml=actual.to_yaml, suite=actual.suite, lacks_header=False)

    tables = [(name, f"shop.{name}") for name in ("bad", "orders", "visits")]
    monkeypatch.setattr("tidegauge.profiler.profile", propose)
    monkeypatch.setattr("tidegauge.files.runs.matching_tables", lambda *_: tables)
    monkeypatch.setattr("tidegauge.cli.options.SparkOptions.start", lambda self: None)
    monkeypatch.chdir(tmp_path)
    return profiled


def test_a_pattern_writes_a_file_for_each_table(proposals, tmp_path, capsys):
    assert run_command(["profile", "shop.*", "--output", "suites/"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "suites/orders.yml: 4 analyzers, 4 checks",
        "suites/visits.yml: 4 analyzers, 4 checks",
    ]
    assert err == "tidegauge: shop.bad: RuntimeError: executor lost\n"
    (tmp_path / "suites" / "visits.yml").unlink()
    proposals.clear()
    assert run_command(["profile", "shop.orders", "shop.visits", "--output", "suites/"]) == 0
    assert proposals == ["shop.visits"]
    assert "suites/orders.yml already exists and was not changed" in capsys.readouterr().out


def test_targets_are_validated_before_a_table_is_read(proposals, tmp_path, capsys):
    assert run_command(["profile", "shop.orders", "--output", "new/folder/orders.yml"]) == 0
    assert (tmp_path / "new" / "folder" / "orders.yml").exists()
    proposals.clear()
    (tmp_path / "file").write_text("")
    for words, message in (
        (["shop.orders", "--output", "new/folder/orders.yml"], "already exists"),
        (["shop.orders", "--output", "file/orders.yml"], "cannot write"),
        (["shop.orders", "--rules", "file/x.yml"], "cannot write"),
        (["shop.*", "--output", "suites.yml"], "several tables need a folder"),
        (["shop.*"], "several tables need a folder"),
        (["shop.*", "--output", "suites/", "--dataset", "d"], "requires a single table"),
    ):
        assert run_command(["profile", *words]) == 1
        assert message in capsys.readouterr().err
    assert proposals == []
