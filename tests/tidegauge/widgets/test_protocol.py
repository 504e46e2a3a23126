"""Typed messages of the dashboard: the TypeScript declarations are current, and answers match them. No Spark."""

from typing import NotRequired, get_args, get_origin, get_type_hints, is_typeddict

import pytest

import tidegauge as tg
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.repository.testing.contract import commit, day, measurement
from tidegauge.widgets import protocol_dts
from tidegauge.widgets import script as built
from tidegauge.widgets.protocol import QUESTION_TYPES

DAYS = [f"ds=2013-01-{n:02}" for n in range(1, 32)]
EARLY = {"baseline": {"partition": DAYS[0]}, "current": {"partition": DAYS[1]}}
SIDES = {"baseline": {"partition": DAYS[29]}, "current": {"partition": DAYS[30]}}


def with_cities(number):
    city = tg.Histogram("city")
    state = FrequenciesAndNumRows.from_groups([(("a",), 30), (("b",), number)])
    return day(number, only=[city], extra=[measurement(city, state)])


@pytest.fixture
def dashboard(monkeypatch):
    monkeypatch.setattr(built, "problem", lambda: None)
    monkeypatch.setattr(tg.Dashboard, "_esm", "export default {}")
    monkeypatch.setattr(tg.Dashboard, "_css", "")
    with tg.Repository("sqlite://") as repo:
        numbers = dict(zip(DAYS, [100.0, 101.0] * 15 + [3.0], strict=True))
        repo.record("orders", "n", numbers, scale="count")
        repo.record("orders", "n", 102.0, partition=DAYS[4], scale="count")
        rates = dict.fromkeys(DAYS, 0.1)
        repo.record("features", "Consistency.mismatch", rates, instance="g.f")
        repo.detect("orders")
        repo.label_range("orders", "ignore", since="2013-01-02", until="2013-01-03", note="late")
        commit(repo, *(with_cities(n) for n in range(1, 11)))
        yield tg.Dashboard(repo, view="overview", by="ann")


def test_the_declarations_are_current():
    written = protocol_dts.DECLARATIONS_FILE.read_text(encoding="utf-8")
    assert written == protocol_dts.declarations(), "run python -m tidegauge.widgets.protocol_dts"


def test_every_question_is_typed(dashboard):
    assert set(QUESTION_TYPES) == set(dashboard.backend.questions)


def test_a_type_without_a_typescript_type_is_refused():
    with pytest.raises(TypeError, match="no TypeScript type for <class 'complex'>"):
        protocol_dts._type(complex)


def check(data, message, path):
    """Compare the keys of JSON, or of arrays, with a typed dictionary at all depths."""
    if not is_typeddict(message):
        return
    hints = get_type_hints(message, include_extras=True)
    required = {key for key, hint in hints.items() if get_origin(hint) is not NotRequired}
    assert required <= set(data) <= set(hints), path
    for key, hint in get_type_hints(message).items():
        if key not in data or data[key] is None:
            continue
        inner = [one for one in get_args(hint) if is_typeddict(one)]
        if is_typeddict(hint):
            check(data[key], hint, f"{path}.{key}")
        elif len(inner) == 1:
            for one in data[key]:
                check(one, inner[0], f"{path}.{key}")


def test_answers_match_their_declarations(dashboard):
    repo = dashboard.repository
    numbers = dashboard.backend.questions["catalogue"]({}).arrays["ids"].tolist()
    consistent = (
        dashboard.backend.questions["consistency"]({"dataset": "features"}).arrays["ids"].tolist()
    )
    incident = int(repo.incidents()["id"].iloc[0])
    (row,) = [
        row for row, text in enumerate(dashboard.data.index.get_level_values("name")) if text == "n"
    ]
    request = {
        "levels": {"level_kind": "change"},
        "sparklines": {"rows": [row]},
        "cell": {"row": row, "column": 30},
        "row_order": {"level_kind": "score", "sort": "worst", "group": ""},
        "series": {"ids": numbers},
        "seasons": {"ids": numbers[:2]},
        "failures": {"dataset": "orders"},
        "sides": {"dataset": "orders"},
        "compare": {"dataset": "orders", **SIDES},
        "columns": {"dataset": "orders"},
        "consistency": {"dataset": "features"},
        "consistency_sparklines": {"dataset": "features", "ids": consistent},
        "consistency_features": {"dataset": "features", "ids": consistent},
        "incidents": {"dataset": None},
        "incident": {"incident": incident},
        "label_incident": {
            "incident": incident,
            "action": "acknowledge",
            "revision": 0,
            "author": "ann",
        },
        "label_incidents": {
            "incidents": [incident],
            "action": "comment",
            "note": "on it",
            "author": "ann",
        },
        "csv": {"view": "home", "dataset": None, "options": {}, "rows": ["orders"]},
        "data": {"view": "overview", "dataset": None, "options": {}},
        "svg": {"ids": [numbers[row]]},
        "partitions": {"dataset": "orders"},
        "partition": {"dataset": "orders", "partition": DAYS[30]},
        "distribution": {"dataset": "d", "column": "city", "segment": None, **EARLY},
        "drifts": {"dataset": "d", "column": "city", "segment": None},
    }
    for question, types in QUESTION_TYPES.items():
        params = request.get(question, {})
        check(params, types.params, f"{question}.params")
        answer = dashboard.backend.questions[question](params)
        check(answer.payload, types.answer, question)
        check(answer.arrays, types.arrays, f"{question}.arrays")
        if is_typeddict(types.arrays):
            for name, hint in get_type_hints(types.arrays).items():
                if name not in answer.arrays:
                    continue
                arguments = get_args(hint)  # an array, or, since NumPy 2.5, its alias
                dtype = arguments[0] if len(arguments) == 1 else get_args(arguments[1])[0]
                assert answer.arrays[name].dtype == dtype, f"{question}.{name}"
