"""What a scan will do: every analyzer checked against the data, and the rest sorted into jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from analyzers.analyzer import Analyzer
from analyzers.errors import DslError, UnresolvedExpressionError, describe
from analyzers.groups import Groups
from analyzers.jobs import Job, Joining, Matching, jobs_for
from analyzers.metric import Failure, attempt
from analyzers.requests import ROWS, Aggregate, Frequencies, Lookup, Match, ReqSketch, Request
from analyzers.schema import Schema
from analyzers.sql import count_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AnyAnalyzer = Analyzer[Any, Any]


@dataclass
class Plan:
    """What a scan will do.

    Attributes
    ----------
    failures : dict
        Analyzers that fail before anything is read.
    requests : dict
        What every other one asks for.
    """

    failures: dict[AnyAnalyzer, Failure] = field(default_factory=dict)
    requests: dict[AnyAnalyzer, tuple[Request, ...]] = field(default_factory=dict)

    @property
    def jobs(self) -> list[Job]:
        """The jobs, each one pass and one Spark action."""
        return jobs_for([ROWS, *(r for asked in self.requests.values() for r in asked)])

    def owners(self) -> dict[Request, tuple[AnyAnalyzer, ...]]:
        """Return the analyzers that ask for each request."""
        owners: dict[Request, tuple[AnyAnalyzer, ...]] = {}
        for analyzer, asked in self.requests.items():
            for request in dict.fromkeys(asked):
                owners[request] = (*owners.get(request, ()), analyzer)
        return owners


def plan(data: DataFrame, analyzers: Iterable[AnyAnalyzer]) -> Plan:
    """Check every analyzer against the data and say what is to be done; reads nothing.

    Analyzers whose expressions Spark cannot resolve are found by resolving all together, and each
    for itself only if that fails.
    """
    schema = Schema.of_frame(data)
    made = Plan()
    for analyzer in dict.fromkeys(analyzers):
        checked = attempt(partial(_requests, analyzer, schema))
        if isinstance(checked, Failure):
            made.failures[analyzer] = checked
        else:
            made.requests[analyzer] = checked.value
    probes = {a: _probes(a, asked) for a, asked in made.requests.items()}
    if _unresolved(data, [text for texts in probes.values() for text in texts]) is not None:
        for analyzer, texts in probes.items():
            _drop(made, analyzer, _unresolved(data, texts))
    for analyzer, asked in list(made.requests.items()):
        for request in asked:
            match request:
                case Lookup():
                    _drop(made, analyzer, _unreadable(data, Joining((request,))))
                case Match():
                    _drop(made, analyzer, _unreadable(data, Matching((request,))))
    return made


def _drop(made: Plan, analyzer: AnyAnalyzer, problem: Exception | None) -> None:
    if problem is not None and analyzer in made.requests:
        error = UnresolvedExpressionError(f"{analyzer!r}: {describe(problem)}")
        made.failures[analyzer] = Failure(error)
        del made.requests[analyzer]


def _requests(analyzer: AnyAnalyzer, schema: Schema) -> tuple[Request, ...]:
    analyzer.preconditions(schema)
    return analyzer.requests(schema)


def _probes(analyzer: AnyAnalyzer, asked: Iterable[Request]) -> list[str]:
    """Return aggregates that resolve if the requests do."""
    # A filter must stand on its own, too: "a) OR (b" would resolve inside the brackets we put.
    texts = [] if analyzer.where is None else [f"count_if({analyzer.where}\n)"]
    for request in asked:
        match request:
            case Aggregate(text):
                texts.append(text)
            case Frequencies(expressions) | Lookup(expressions):
                texts += [f"count({expression})" for expression in expressions]
                texts.append(count_rows(request.where))
            case ReqSketch(values):
                texts.append(f"max({values})")
    return texts


def _unresolved(data: DataFrame, texts: Sequence[str]) -> Exception | None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - core imports no Spark

    try:
        data.selectExpr(*dict.fromkeys(texts), ROWS.text).schema  # noqa: B018 - asking resolves it
    except AnalysisException as error:  # a ParseException is one, too
        return error
    return None


def _unreadable(data: DataFrame, job: Joining | Matching) -> Exception | None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    try:
        job.joined(data, Groups()).schema  # noqa: B018
    except (AnalysisException, DslError) as error:
        return error
    return None
