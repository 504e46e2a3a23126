"""Export checks and rules to an expectation suite of Great Expectations 1.x."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidegauge import __version__
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.checks.check import Check
from tidegauge.checks.expectations import (
    Body,
    NoExpectationError,
    expectations_of,
    expectations_of_rule,
)
from tidegauge.rules.dqm import DQM
from tidegauge.rules.policies import FailNone
from tidegauge.rules.tasks import DQMRule
from tidegauge.suite import Suite

Exported = Check | DQM | Suite


def to_great_expectations(
    checks: Exported | Iterable[Exported], *, name: str | None = None
) -> dict[str, Any]:
    """Export checks and rules to an expectation suite of Great Expectations 1.x.

    ``ExpectationSuite(**found)`` accepts it; so does a suite file, as JSON. Constraints on shares
    become row expectations with ``mostly``; conditions without an expectation of their own become
    queries, which Spark and databases run. Filters are row conditions of the ``spark`` parser.
    Nulls and empty tables follow the semantics of Great Expectations: a share of no rows passes
    there.

    Parameters
    ----------
    checks : Check, DQM, Suite, or iterable of them
        For a suite, the rules of its ``dqm`` are exported.
    name : str, optional
        Name of the expectation suite; that of the first item if not given.

    Returns
    -------
    dict
        ``name``, ``expectations``, each with ``type``, ``kwargs`` and ``meta``, and ``meta``. Each
        expectation's ``meta`` holds its ``severity``, its origin ``from``, the source
        ``constraint``, and the ``hint``. Constraints without an expectation are listed in the
        suite's ``meta`` under ``left_out``, with the reason.

    Raises
    ------
    SuiteError
        If there is nothing to export.

    Examples
    --------
    >>> import tidegauge as tg
    >>> check = tg.Check("flights").is_complete("dep_time", at_least=0.95).is_usual(tg.Size())
    >>> found = tg.to_great_expectations(check)
    >>> found["expectations"][0]["type"], found["expectations"][0]["kwargs"]
    ('expect_column_values_to_not_be_null', {'column': 'dep_time', 'mostly': 0.95})
    >>> found["meta"]["left_out"][0]["reason"]
    'it compares with the past, which an expectation does not know'
    """
    several = (checks,) if isinstance(checks, Exported) else tuple(checks)
    if not several or not all(isinstance(one, Exported) for one in several):
        msg = "to_great_expectations takes checks, a DQM of rules, or a suite, such as tg.Check('flights')"
        raise SuiteError(msg)
    expectations, left_out = [], []
    for one in several:
        for said, body in _bodies(one):
            if isinstance(body, str):
                left_out.append(
                    {"from": said["from"], "constraint": said["constraint"], "reason": body}
                )
            else:
                expectations.append({"type": body[0], "kwargs": body[1], "meta": said})
    meta = {"producer": f"tidegauge {__version__}", "left_out": left_out}
    return {"name": name or _name(several[0]), "expectations": expectations, "meta": meta}


Said = dict[str, Any]


def _bodies(one: Exported) -> Iterator[tuple[Said, Body | str]]:
    """Yield the metadata of each expectation with its body, or the reason why there is none."""
    if isinstance(one, Check):
        yield from _of_check(one)
    elif isinstance(one, DQM):
        yield from _of_rules(one)
    else:
        if one.dqm is not None:
            yield from _of_rules(one.dqm)
        for monitor in one.monitors:
            reason = "it compares with the past, which an expectation does not know"
            yield {"from": one.dataset, "constraint": repr(monitor)}, reason


def _of_check(check: Check) -> Iterator[tuple[Said, Body | str]]:
    for constraint in check.constraints:
        said = {
            "severity": str(check.level),
            "from": check.name,
            "constraint": constraint.description,
            **({"hint": constraint.hint} if constraint.hint else {}),
        }
        try:
            bodies = expectations_of(constraint)
        except NoExpectationError as reason:
            yield said, str(reason)
        else:
            yield from ((said, body) for body in bodies)


def _of_rules(dqm: DQM) -> Iterator[tuple[Said, Body | str]]:
    for task, policy in dqm.task_policies:
        said = {"from": dqm.name, "constraint": task.name}
        if not isinstance(task, DQMRule):
            yield said, "a fix repairs, and expects nothing"
            continue
        told = {} if isinstance(policy, FailNone) else {"policy": repr(policy)}
        said = {"severity": task.severity, **said, **told}
        try:
            bodies = expectations_of_rule(task, policy)
        except NoExpectationError as reason:
            yield said, str(reason)
        else:
            yield from ((said, body) for body in bodies)
    for whole in dqm.policies:
        yield (
            {"from": dqm.name, "constraint": whole.name},
            "it is about all rules and fixes together",
        )


def _name(one: Exported) -> str:
    return one.dataset if isinstance(one, Suite) else one.name
